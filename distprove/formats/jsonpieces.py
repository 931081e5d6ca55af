"""Decodes a JSON text piece by piece, so that the objects of no more than a piece are in memory at a time.

A piece ends before a comma outside of strings. It is decoded as a text of its own: brackets and keys before it open the
containers that it lies in, and brackets behind it close what it leaves open. So a list of a million numbers comes as
many shorter lists, each within the same objects and lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from distprove.errors import FormatError
from distprove.formats.jsontext import brackets, check_depth, hide_escapes, number, utf8

PIECE = 1 << 14
"""Bytes of a piece, where there are commas."""
MAX_GAP = 1 << 18
"""Bytes that strings and white space may take without a comma outside of strings."""
_CLOSING = bytes.maketrans(b"[{", b"]}")
_OPENING = re.compile(rb"[\[{]*\Z")


@dataclass(frozen=True)
class Piece:
    """What a piece of a JSON text holds."""

    value: Any
    """The value of the whole text, with only those of its items that lie in the piece."""
    before: tuple[int, ...]
    """A number for each container that began in an earlier piece: `value`, the first item in it, and so on. It is the
    place of the container's first item here, when all are counted. Where an object's item counts, it is of no use."""


@dataclass(frozen=True)
class _Open:
    """A container that is open where a piece ends."""

    items: int
    """The place of its first item in the next piece."""
    key: str | None
    """The key of the last item, for an object."""

    @property
    def bracket(self) -> bytes:
        return b"[" if self.key is None else b"{"

    @property
    def text(self) -> str:
        return "[" if self.key is None else f"{{{json.dumps(self.key)}:"


def pieces(data: bytes, what: str) -> Iterator[Piece]:
    """The pieces of a JSON text in their order; there is one where the text is short.

    Raises FormatError when the text is not JSON, not UTF-8 or nested too deep, or a key occurs twice in what one piece
    holds of an object. What comes before a fault is given before it is raised.
    """
    opened: list[_Open] = []
    data, start = utf8(data, what), 0
    while start < len(data) or not start:
        end = _cut(data, start, what)
        part = data[start:end]
        around = b"".join(each.bracket for each in opened)
        check_depth(around + part, what)
        left = _unmatched(around + brackets(part))
        prefix = "".join(each.text for each in opened) + ("0" if opened else "")  # an item that the comma comes after
        matched = end < len(data) and _OPENING.match(left)
        try:
            value = _decode(prefix + part.decode() + (left[::-1].translate(_CLOSING).decode() if matched else ""))
        except UnicodeDecodeError:
            raise FormatError(f"{what}: not UTF-8 text") from None
        except json.JSONDecodeError as error:
            # The decoder's message and position are public; the text around them is not, so the cause is dropped.
            raise _not_json(data, what, start, part.decode()[: max(error.pos - len(prefix), 0)], error.msg) from None
        except _DuplicateKey as error:
            raise FormatError(f"{what}: the key {error.args[0]!r} occurs twice") from None
        except ValueError as error:
            raise FormatError(f"{what}: not usable JSON ({type(error).__name__})") from None
        before = tuple(each.items for each in opened)
        if opened:
            _drop_first(value, len(opened))
        yield Piece(value, before)
        opened = _open_at_end(value, before, len(left)) if matched else []
        if len(opened) < len(left):
            raise _not_json(data, what, end, "", "Expecting value")
        start = end


def _cut(data: bytes, start: int, what: str) -> int:
    """Where the piece ends that begins at `start`: before a comma, or at the text's end."""
    size = PIECE
    while start + size < len(data):
        window = hide_escapes(data[start : start + size])
        end = len(window)
        while (end := window.rfind(b",", 0, end)) > 0:  # the comma at 0 is the one that the piece before ended at
            if window.count(b'"', 0, end) % 2 == 0:
                return start + end
            end = window.rfind(b'"', 0, end)
        if size >= MAX_GAP:
            raise FormatError(f"{what}: {MAX_GAP} bytes without a comma outside of strings")
        size *= 4
    return len(data)


def _unmatched(text: bytes) -> bytes:
    """What is left of brackets when pairs are taken out."""
    while (shorter := text.replace(b"[]", b"").replace(b"{}", b"")) != text:
        text = shorter
    return text


def _drop_first(value: Any, depth: int) -> None:
    """Take out the first item of the container that is first in `depth - 1` others."""
    for _ in range(depth - 1):
        value = value[next(iter(value)) if isinstance(value, dict) else 0]
    del value[next(iter(value)) if isinstance(value, dict) else 0]


def _open_at_end(value: Any, before: tuple[int, ...], depth: int) -> list[_Open]:
    """The outermost `depth` containers that are last in one another; fewer where one of them is empty."""
    found: list[_Open] = []
    began_earlier = True
    for level in range(depth):
        if not value:
            break
        items = len(value) - (level < depth - 1)
        if began_earlier and level < len(before):
            items += before[level]
        key = next(reversed(value)) if isinstance(value, dict) else None
        found.append(_Open(items, key))
        began_earlier = began_earlier and len(value) == 1
        value = value[-1 if key is None else key]
    return found


def _decode(text: str) -> Any:
    value = json.loads(text, parse_float=number)
    # Faster than to look at every object while it is made. There are more colons than entries where a later entry took
    # the place of an earlier one, or a string has one.
    if _entries(value) == text.count(":"):
        return value
    return json.loads(text, parse_float=number, object_pairs_hook=_without_duplicates)


def _entries(value: Any) -> int:
    """Entries of all objects within a value."""
    entries, level = 0, [value]
    while {dict, list} & set(map(type, level)):
        objects = [each for each in level if type(each) is dict]
        entries += sum(map(len, objects))
        lists = [each for each in level if type(each) is list]
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]
    return entries


class _DuplicateKey(Exception):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(key)
        found[key] = value
    return found


def _not_json(data: bytes, what: str, start: int, text: str, message: str) -> FormatError:
    """The fault that lies behind `text`, which begins at byte `start`."""
    line = data.count(b"\n", 0, start) + text.count("\n") + 1
    if "\n" not in text:
        text = data[data.rfind(b"\n", 0, start) + 1 : start].decode(errors="replace") + text
    return FormatError(f"{what}: not JSON: {message} at line {line}, column {len(text) - text.rfind(chr(10))}")
