"""Measures the English of the documents: `python -m distprove.measure.prose [PAGE ...]` prints a row per page.

`--long N` prints each sentence above N words too, and each sentence with a phrase of PHRASES. Code, tables and headings
do not count. Inline code and a link's text count as written, except that a piece of inline code is one word.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PHRASES = re.compile(
    r"\b(whoever|whomever|whichever|whatever|those (that|who|which|whose)|of (which|whom)|(is|are|was|were) to be"
    r"|tell|tells|told)\b",
    re.IGNORECASE,
)
"""A relative clause in place of a noun, an obligation in the passive, and a verb of speech for a technical one."""
HEADLESS = re.compile(r"\bwhat\b", re.IGNORECASE)
"""Often a relative clause in place of a noun too; sometimes a question. A share of sentences may have it."""

_ITEM = re.compile(r"\s*([-*]|\d+[.)])\s+")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_END = re.compile(r"(?<=[.!?])[)*_\"]*\s+(?=[\"(*_]*(?:[A-Z0-9`<$\[]|distprove\b|snarkjs\b|circom\b|bellperson\b))")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|approx|No|Fig|Sec)\.$")


@dataclass(frozen=True)
class Prose:
    """The sentences of a document."""

    sentences: tuple[str, ...]

    @property
    def lengths(self) -> list[int]:
        """Words of each sentence."""
        return [words(sentence) for sentence in self.sentences]

    @property
    def mean(self) -> float:
        """Mean words of a sentence."""
        return sum(self.lengths) / max(1, len(self.sentences))

    @property
    def phrases(self) -> list[str]:
        """Sentences with a phrase of PHRASES."""
        return [sentence for sentence in self.sentences if PHRASES.search(_without_code(sentence))]

    @property
    def headless(self) -> float:
        """Share of sentences with the word `what`."""
        return sum(bool(HEADLESS.search(_without_code(s))) for s in self.sentences) / max(1, len(self.sentences))


def pages() -> dict[str, Path]:
    """Documents of the project by name."""
    top = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    docs = ROOT / "docs"
    pages = {p.relative_to(docs).as_posix(): p for p in sorted((*docs.glob("*.md"), *docs.glob("tutorials/*.md")))}
    return {**{path.name: path for path in top}, **pages}


def words(sentence: str) -> int:
    """Counts words; a piece of inline code is one."""
    return sum(any(c.isalnum() for c in word) for word in re.sub(r"`[^`]*`", "`code`", sentence).split())


def anchor(heading: str) -> str:
    """Returns the anchor that a page of GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def read(text: str) -> Prose:
    """Returns the sentences of a Markdown text."""
    return Prose(tuple(sentence for block in _blocks(text) for sentence in _sentences(block)))


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "`", text)


def _blocks(text: str) -> Iterator[str]:
    """Yields paragraphs and list items, each on one line."""
    text = re.sub(r"^( *)(```|~~~).*?^ *\2 *$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    block: list[str] = []
    item, blank = 0, True  # indentation of the text of the list item that is open; whether the line before is empty
    for line in [*text.splitlines(), ""]:
        indent = len(line) - len(line.lstrip())
        starts = _ITEM.match(line)
        ends = not line.strip() or line.lstrip().startswith(("#", ">", "<!--")) or _ROW.match(line) is not None
        code = blank and not block and indent >= item + 4 and not starts
        if (ends or starts or code) and block:
            yield " ".join(block)
            block = []
        if line.strip() and not indent and not starts:
            item = 0
        if starts and not code:
            item = starts.end()
        if not ends and not code:
            block.append(line[starts.end() :].strip() if starts else line.strip())
        blank = not line.strip() or code


def _sentences(block: str) -> Iterator[str]:
    block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"[\1]", block)
    pieces: list[str] = []
    # An end inside inline code is none: mask it, split, and put it back.
    codes: list[str] = []

    def mask(match: re.Match[str]) -> str:
        codes.append(match.group())
        return f"`{len(codes) - 1}`"

    for piece in _END.split(re.sub(r"`[^`]*`", mask, block)):
        if pieces and _ABBREVIATED.search(pieces[-1]):
            pieces[-1] += " " + piece
        else:
            pieces.append(piece)
    for piece in pieces:
        sentence = re.sub(r"`(\d+)`", lambda match: codes[int(match.group(1))], re.sub(r"[\[\]]", "", piece)).strip()
        if words(sentence) > 1:
            yield sentence


def main() -> None:
    """Prints the table, and the sentences that are asked for."""
    options = argparse.ArgumentParser(description="Measures the English of the documents.")
    options.add_argument("pages", nargs="*")
    options.add_argument("--long", type=int, metavar="N", help="print sentences above N words, and listed phrases")
    given = options.parse_args()
    print("| page | sentences | mean words | longest | with a listed phrase, % | with `what`, % |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, path in pages().items():
        if given.pages and name not in given.pages:
            continue
        prose = read(path.read_text(encoding="utf-8"))
        count = max(1, len(prose.sentences))
        shares = f"{100 * len(prose.phrases) / count:.1f} | {100 * prose.headless:.1f}"
        print(f"| {name} | {count} | {prose.mean:.1f} | {max(prose.lengths, default=0)} | {shares} |")
        if given.long is None:
            continue
        for sentence in prose.sentences:
            if words(sentence) > given.long:
                print(f"  {words(sentence)}: {sentence}")
            elif sentence in prose.phrases:
                print(f"  phrase: {sentence}")
            elif HEADLESS.search(_without_code(sentence)):
                print(f"  what: {sentence}")


if __name__ == "__main__":
    main()
