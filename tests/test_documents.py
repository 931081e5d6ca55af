"""The documents are in plain English, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors import patience
from distprove.measure.prose import ROOT, anchor, pages, read, words
from tests.support import printed_tables

PAGES = pages()
MEAN, LONGEST = 20, 45
"""Words of a sentence."""
HEADLESS = 0.05
"""Share of sentences that may have the word `what`."""


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_is_in_plain_english(page: str) -> None:
    prose = read(PAGES[page].read_text(encoding="utf-8"))
    assert [sentence for sentence in prose.sentences if words(sentence) > LONGEST] == []
    assert prose.mean < MEAN
    assert prose.phrases == []
    assert prose.headless <= HEADLESS


def test_sentences_are_found_as_a_reader_finds_them() -> None:
    text = """\
# A heading is none

One sentence, with `code. In it`. A second
on two lines, e.g. this one: [a link of two](there.md).

    distprove prove is code

- An item, which ends without a full stop

      code of the item

  and goes on here.
1. Another. `code` starts a third.

```python
print("none")
```

| a table | is none |
|---|---|
Those that are told.
"""
    prose = read(text)
    assert prose.sentences == (
        "One sentence, with `code. In it`.",
        "A second on two lines, e.g. this one: a link of two.",
        "An item, which ends without a full stop",
        "and goes on here.",
        "`code` starts a third.",
        "Those that are told.",
    )
    assert prose.lengths == [4, 12, 8, 4, 4, 4]
    assert prose.phrases == ["Those that are told."]
    assert read("It does what it says. `what` is code.").headless == 0.5


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_link_leads_somewhere(page: str) -> None:
    text = _without_code(PAGES[page].read_text(encoding="utf-8"))
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, place = target.partition("#")
        path = (PAGES[page].parent / name).resolve() if name else PAGES[page]
        if not path.is_relative_to(ROOT) or not path.exists() or (place and place not in _anchors(path)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_named_file_of_code_exists(page: str) -> None:
    """A name may leave out its first folders."""
    rooms = ("kernels", "distprove", "actors", "cluster", "tests")
    files = [path.relative_to(ROOT).as_posix() for name in rooms for path in (ROOT / name).rglob("*.*")]
    text = PAGES[page].read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.]+\.(?:py|cu|h|cpp))`", text))
    ends = {file[i:] for file in files for i in (0, *(m.end() for m in re.finditer("/", file)))}
    assert named - ends == set()


def test_the_tables_of_the_code_are_printed() -> None:
    """`make tables` writes them."""
    page = printed_tables.PAGE.read_text(encoding="utf-8")
    assert printed_tables.printed(page) == page
    assert all(table().count("\n") > 5 and table() in page for table in printed_tables.TABLES.values())


def test_every_limit_of_time_is_in_the_table_of_limits() -> None:
    """The interpreter's switch interval is a setting of Python. The lab only measures."""
    files = [path for name in ("actors", "cluster") for path in (ROOT / name).rglob("*.py") if "lab" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in files]
    elsewhere = re.findall(r'^ *([A-Z_, ]+) = .*\n *"""Seconds ', "".join(texts), re.MULTILINE)
    assert elsewhere == ["SWITCH_INTERVAL"]
    assert {name for text in texts for name in re.findall(r"\bpatience\.([A-Z]\w+)", text)} == set(patience.TABLE)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.*?) *$", _without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return set(map(anchor, headings))


def _without_code(text: str) -> str:
    return re.sub(r"^( *)```.*?^ *``` *$", "", text, flags=re.MULTILINE | re.DOTALL)
