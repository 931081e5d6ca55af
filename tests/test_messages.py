"""Messages count in words that fit the number: `count_of`, and not an f-string, makes "1 value" and "2 values"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from kernels.host.units import count_of
from tests.support import ROOT

PACKAGES = ("distprove", "actors", "cluster")
NOT_READ = ("measure",)
"""Folders whose messages are those of benchmarks, whose counts are never 1."""

NO_PLURALS = {
    *("allows", "as", "belongs", "bus", "changes", "differs", "does", "ends", "equals", "expects", "fixes", "has"),
    *("holds", "is", "its", "lies", "makes", "moves", "ms", "names", "needs", "occurs", "offers", "proves", "reads"),
    *("receives", "runs", "says", "sets", "shows", "stands", "states", "stays", "takes", "this", "tries", "us", "uses"),
    *("was", "writes"),
}
"""Words that end in s and count nothing: verbs, and names of units."""
APART = {
    *("a", "against", "all", "an", "and", "are", "at", "be", "cannot", "each", "for", "from", "has", "have", "in"),
    *("is", "must", "no", "of", "on", "or", "such", "that", "the", "times", "to", "under", "with"),
}
"""Words after which a plural is not what the number before them counts."""
COUNTS = {"int", "len", "max", "min", "round", "sum"}
"""Functions that give a number; those of our own give a text."""
COUNTED = re.compile(r" ((?:[A-Za-z0-9-]+ ){0,2}?)([A-Za-z]+s|matrices)\b")
CONSTANT = re.compile(r"(?:1 << )?(?:\w+\.)*_?[A-Z][A-Z_0-9]*|suffix|[\w.]+\.(?:name|title)")
"""Limits of our own, which are larger than 1, and names of other things."""
DECIMAL = re.compile(r"\.\d|[ef%g]$")
"""A format with decimals, after which a plural is right for 1 too."""


def templates(tree: ast.AST) -> Iterator[tuple[ast.FormattedValue, str, str]]:
    """Each value of an f-string, the text before it and the text behind it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [ast.Constant(""), *node.values, ast.Constant("")]
            for before, value, after in zip(parts, parts[1:], parts[2:], strict=False):
                if isinstance(value, ast.FormattedValue):
                    yield value, *(str(p.value) if isinstance(p, ast.Constant) else "" for p in (before, after))


def miscounted(source: str) -> list[str]:
    """The parts of f-strings in a source that have a number and then a plural, as if the number were never 1."""
    found = list[str]()
    for value, before, after in templates(ast.parse(source)):
        match, shown, text = COUNTED.match(after), value.value, ast.unparse(value.value)
        if match is None or match[2] in NO_PLURALS or match[2].endswith("ss") or APART & {*match[1].split()}:
            continue
        if isinstance(shown, ast.Call) and not (isinstance(shown.func, ast.Name) and shown.func.id in COUNTS):
            continue
        style = ast.unparse(value.format_spec).strip("f'\"") if value.format_spec is not None else ""
        if (
            before.endswith(("2^", " x "))
            or CONSTANT.fullmatch(text)
            or value.conversion != -1
            or DECIMAL.search(style)
        ):
            continue
        found.append(f"{{{text}}}{match[0]}")
    return found


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("value",), "0 values"),
        (1, ("value",), "1 value"),
        (2, ("value",), "2 values"),
        (1, ("query gives", "queries give"), "1 query gives"),
        (3, ("query gives", "queries give"), "3 queries give"),
    ],
)
def test_counts(number: int, words: tuple[str, ...], text: str) -> None:
    assert count_of(number, *words) == text


def test_large_counts_have_commas_where_asked() -> None:
    assert count_of(1234567, "cycle", grouped=True) == "1,234,567 cycles"
    assert count_of(1234567, "cycle") == "1234567 cycles"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('f"{n} values"', 1),
        ('f"{len(x)} public values, {m} more bytes"', 2),
        ('f"{n} of the values, {format_rate(n)} values"', 0),
        ('f"2^{n} rows, {MOST} bytes, {x:.1f} bits, {name} needs it, {name!r} values"', 0),
        ("f\"{count_of(n, 'value')} of them\"", 0),
    ],
)
def test_what_is_found(source: str, count: int) -> None:
    assert len(miscounted(source)) == count


def test_no_message_counts_one_thing_in_the_plural() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    read = [path for path in paths if not {*NOT_READ} & {*path.parts}]
    assert len(read) > 300
    found = {str(path.relative_to(ROOT)): miscounted(path.read_text(encoding="utf-8")) for path in read}
    assert {path: parts for path, parts in found.items() if parts} == {}
