"""The security page names the test of each claim: those tests are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_test_that_the_security_page_names_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page))
    assert named
    assert [path for path in re.findall(r"`([\w/]+\.py)\b", page) if not (ROOT / "tests" / path).is_file()] == []
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        if "node_modules" not in path.parts
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named - there == set()
