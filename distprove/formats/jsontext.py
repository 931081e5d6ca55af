"""JSON from outside: nesting and cost are bounded before the decoder sees it.

Python's decoder recurses in C and relies on the interpreter's recursion limit, which any library in the process may
have raised (some cryptographic ones do); a file of brackets then ends the process instead of raising. It
also makes an object of a hundred bytes from a list of two bytes.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from distprove.errors import FormatError
from distprove.formats.folder import Folder
from kernels.host.units import count_of

MAX_DEPTH = 64
FREE_COST = 1 << 26
COST_PER_BYTE = 16
"""Bytes that the values of a text may take as objects for each byte of it, beside `FREE_COST`."""
MAX_DIGITS = 40
"""Most characters of an integer in the project's own JSON files."""
MAX_EXACT = 27
"""Most digits of an integer with a fraction or an exponent whose text is shorter: more cost more than is counted."""
EXACT_FLOAT = 1 << 53
"""Floats of Python from here on may have been rounded to the integer that they are."""
MAX_NUMBER = 1e100
"""Greatest magnitude of a float in the project's own JSON files: sums and squares of such numbers stay finite."""

_COSTS = {b"{": 232, b"[": 104, b",": 40, b":": 64, b'"': 28}
"""Bytes of memory that goes with each of these, at most: objects, lists, values, entries and half a string."""
_STRING = re.compile(rb'"[^"]*"?')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_MAY_BE_FLOAT = re.compile(r"[0-9][.e]")
_OTHERS = bytes(set(range(256)) - {*_STEPS, ord('"')})


def utf8(data: bytes, what: object) -> bytes:
    """A text of UTF-8 without the byte order mark that it may begin with. Raises FormatError for one of UTF-16 or
    UTF-32."""
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or 0 in data[:4]:
        raise FormatError(f"{what}: a text of UTF-16 or UTF-32, or none; save it as UTF-8")
    return data.removeprefix(codecs.BOM_UTF8)


def loads(data: bytes, what: str, max_depth: int = MAX_DEPTH, **hooks: Any) -> Any:
    """The value of a JSON text; `hooks` are those of `json.loads`.

    Raises FormatError when it is nested deeper than `max_depth`, costs too much or is not UTF-8, json.JSONDecodeError
    when it is not JSON.
    """
    if sum(each * data.count(mark) for mark, each in _COSTS.items()) > FREE_COST + COST_PER_BYTE * len(data):
        raise FormatError(f"{what}: more small values than a file of {count_of(len(data), 'byte')} may hold")
    check_depth(data, what, max_depth)
    try:
        text = utf8(data, what).decode()
    except UnicodeDecodeError:
        raise FormatError(f"{what}: not UTF-8 text") from None
    return json.loads(text, **hooks)


def number(text: str) -> int | float:
    """The number that a text with a fraction or an exponent means, as `parse_float` of decoders. It is never rounded to
    an integer: 5.0 and 1e3 are exact integers, 1.5 is a float, and 1e-400, whose float would be an integer, is nan."""
    from decimal import Decimal

    try:
        exact = Decimal(text)
        if exact == exact.to_integral_value() and exact.adjusted() < max(MAX_EXACT, len(text)):
            return int(exact)
    except ArithmeticError:  # infinity, or an exponent beyond all bounds
        pass
    value = float(text)
    return math.nan if value.is_integer() else value


def dumps(value: Any) -> bytes:
    """A value of a user's as JSON with the numbers that were meant.

    Raises TypeError or RecursionError for what JSON cannot hold, ValueError for infinity, nan and floats so large that
    Python may have rounded them to an integer.
    """
    text = json.dumps(value, allow_nan=False)
    if _MAY_BE_FLOAT.search(text):
        json.loads(text, parse_float=_refuse_rounded)
    return text.encode()


def _refuse_rounded(text: str) -> None:
    if abs(float(text)) >= EXACT_FLOAT:
        raise ValueError("a float that may have been rounded")


def read_in(folder: Folder, name: str, limit: int) -> Any:
    """The value in a JSON file of at most `limit` bytes in `folder`. Raises InputError or FormatError."""
    return loads_file(folder.read(name, limit), str(folder.path / name))


def read_shaped(folder: Path, name: str, limit: int, is_shaped: Callable[[Any], bool], what: str) -> dict[str, Any]:
    """The object in a JSON file that has the shape that its readers rely on: `what` it is. Raises InputError or
    FormatError."""
    with Folder.open(folder) as opened:
        value = read_in(opened, name, limit)
    if not is_shaped(value):
        raise FormatError(f"{folder / name}: not {what} that this distprove reads")
    found: dict[str, Any] = value
    return found


def loads_file(data: bytes, what: str) -> Any:
    """The value of a JSON file that this project writes, as `loads_own` reads it. Raises FormatError."""
    try:
        return loads_own(data, what)
    except ValueError:
        raise FormatError(f"{what}: not JSON, or a number that is none or too large") from None


def loads_own(data: bytes, what: str) -> Any:
    """The value of a JSON text that this project writes: its numbers are finite, and of a size to reckon with.

    Raises FormatError as `loads` does, ValueError for what is not such JSON.
    """
    return loads(data, what, parse_int=_integer, parse_float=_number, parse_constant=_no_number)


def _integer(text: str) -> int:
    return int(text) if len(text) <= MAX_DIGITS else _no_number(text)


def _number(text: str) -> float:
    value = float(text)
    if abs(value) < 1 / MAX_NUMBER:  # what is divided by it must be finite too
        return 0.0
    return value if abs(value) <= MAX_NUMBER else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError("a number that is none, or too large")


def check_depth(data: bytes, what: str, max_depth: int = MAX_DEPTH) -> None:
    """Raise FormatError when brackets outside of strings nest deeper than `max_depth`."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return
    if max(accumulate(map(_STEPS.__getitem__, brackets(data))), default=0) > max_depth:
        raise FormatError(f"{what}: nested deeper than {count_of(max_depth, 'level')}")


def brackets(data: bytes) -> bytes:
    """The brackets of a JSON text, without those in strings."""
    # Of most strings nothing is left but two quotes: those with brackets in them are few, and looked at one by one.
    return _STRING.sub(b"", hide_escapes(data).translate(None, _OTHERS).replace(b'""', b""))


def hide_escapes(data: bytes) -> bytes:
    """A JSON text with other characters in place of escaped backslashes and quotes."""
    return data.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in data else data
