"""The site of the documents: its navigation has every page, its reference every command, and links their places."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from distprove.cli.app import COMMANDS
from distprove.measure.site import ROOT_PAGES, commands, placed
from tests.cli.test_every_command import OWN, RUNS
from tests.support import ROOT


def pages_of(nav: Any) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else pages_of(target)


def test_the_navigation_has_every_page() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / "docs"
    files = {path.relative_to(docs).as_posix() for path in (*docs.glob("*.md"), *docs.glob("tutorials/*.md"))}
    assert {*pages_of(config["nav"])} == files | {*ROOT_PAGES.values(), "commands.md"}


def test_the_reference_has_every_command_and_its_options() -> None:
    page = commands()
    headings = set(re.findall(r"^### distprove (.*)$", page, re.MULTILINE))
    assert {name for name in RUNS if OWN not in name} | {*COMMANDS} <= headings
    verify = page[page.index("### distprove verify\n") :].partition("\n### ")[0]
    assert "| `--vk <list[Path]>` |" in verify
    assert "`--help`" not in page
    assert "8; 1&lt;=x&lt;=1000" in page[page.index("### distprove demo\n") :].partition("\n### ")[0]


@pytest.mark.parametrize(
    ("source", "place", "link", "moved"),
    [
        ("README.md", "index.md", "[a](docs/gpu.md#x)", "[a](gpu.md#x)"),
        ("README.md", "index.md", "[a](CHANGELOG.md)", "[a](changelog.md)"),
        ("README.md", "index.md", "the [licence](LICENSE)", "the licence"),
        ("docs/install.md", "install.md", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("docs/tutorials/air.md", "tutorials/air.md", "[a](../airs.md#b)", "[a](../airs.md#b)"),
        ("docs/tutorials/air.md", "tutorials/air.md", "[a](../../README.md)", "[a](../index.md)"),
        ("docs/recursion.md", "recursion.md", "[a test](../tests/test_x.py)", "a test"),
        ("docs/gpu.md", "gpu.md", "[a](https://b.c/d) [e](#f)", "[a](https://b.c/d) [e](#f)"),
        ("docs/gpu.md", "gpu.md", "```\n[a](../b.py)\n```", "```\n[a](../b.py)\n```"),
    ],
)
def test_links_lead_to_places_of_the_site(source: str, place: str, link: str, moved: str) -> None:
    assert placed(link, source, place) == moved


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed (the extra docs)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "site" / "tutorials" / "circom.html").read_text(encoding="utf-8")
    assert "multiplier.circom" in page
    assert not re.findall(r'(?:src|href)="https?://(?!squidfunk)[^"]*\.(?:js|css|woff2?)"', page)
