"""Every code block of the README and the tutorials runs, and prints what the page shows."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.code_blocks import Reader, blocks
from tests.support.guest_projects import missing

DOCS = ROOT / "docs"
PAGES = {path.stem: path for path in sorted((DOCS / "tutorials").glob("*.md"))}
NOT_RUN = {"README.md": 1, "tutorials": 0}
"""Blocks that are not run: the commands that set up what the tests run in."""


def follow(page: Path, folder: Path, programs: Mapping[str, str] | None = None) -> None:
    assert Reader(folder, programs or {}).follow(page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_readme(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    follow(ROOT / "README.md", tmp_path)


@pytest.mark.slow
def test_the_tutorial_of_circom(tmp_path: Path, shared_data: Path) -> None:
    """With files that circom made of the same circuit, in place of circom; and with snarkjs, where it is."""
    made = shlex.quote(str(shared_data / "circom" / "tiny"))
    copies = (f"cp {made}/circuit.r1cs multiplier.r1cs", f"cp {made}/circuit.wasm multiplier_js/multiplier.wasm")
    circom = "; ".join(("mkdir multiplier_js", *copies))
    snarkjs = ROOT / "tests" / "interop" / "node_modules" / ".bin" / "snarkjs"
    if shutil.which("node") is None or not snarkjs.exists():
        pytest.skip("snarkjs is not installed")
    follow(PAGES["circom"], tmp_path, {"circom": circom, "snarkjs": f'exec {shlex.quote(str(snarkjs))} "$@"'})


@pytest.mark.slow
def test_the_tutorial_of_programs(tmp_path: Path) -> None:
    if missing("c"):
        pytest.skip(missing("c"))
    follow(PAGES["program"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["air", "operator"])
def test_a_tutorial(page: str, tmp_path: Path) -> None:
    follow(PAGES[page], tmp_path)


def test_every_tutorial_is_followed() -> None:
    assert PAGES.keys() == {"air", "circom", "operator", "program"}
    left_out = {
        path.name: sum(bool(b.not_run) for b in blocks(path.read_text(encoding="utf-8"))) for path in PAGES.values()
    }
    assert sum(left_out.values()) == NOT_RUN["tutorials"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert sum(bool(block.not_run) for block in blocks(readme)) == NOT_RUN["README.md"]


PAGE = """
Text.

    echo one
    echo  'two   three'

```text
one
two three
```

```python title="x.py"
print(5)
```

1. An item

    python x.py

<!-- not run: it would fail -->

    false

```text
5
```

```python
assert open("x.py").read() == "print(5)\\n"
```
"""


def test_blocks_are_found_and_followed(tmp_path: Path) -> None:
    kinds = [(block.kind, block.title, block.not_run) for block in blocks(PAGE)]
    assert kinds == [
        ("commands", "", ""),
        ("text", "", ""),
        ("python", "x.py", ""),
        ("commands", "", ""),
        ("commands", "", "it would fail"),
        ("text", "", ""),
        ("python", "", ""),
    ]
    assert len(Reader(tmp_path, {}).follow(PAGE)) == 6


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("one\ntwo three", "two three\none", "not in this order"),
        ("<!-- not run: it would fail -->", "", "block of line 18.*exit code 1"),
        ("```text\n5", "```text\n6", "not printed"),
        ('print(5)\\\\n"', 'print(6)\\\\n"', "exit code 1"),
        ("```python\nassert", "```rust\nassert", "a block of rust without a title"),
    ],
)
def test_a_block_that_fails_is_named(before: str, after: str, told: str, tmp_path: Path) -> None:
    page = PAGE.replace(before.replace("\\\\n", "\\n"), after.replace("\\\\n", "\\n"))
    assert page != PAGE
    with pytest.raises(AssertionError, match=told):
        Reader(tmp_path, {}).follow(page)
