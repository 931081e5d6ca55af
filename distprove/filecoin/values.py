"""Reads values of serde's JSON that Filecoin's software writes. Errors name the place in the file, never a value."""

from __future__ import annotations

import base64
import binascii
import gc
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from distprove.errors import FormatError, InputError, UsageError
from distprove.formats import jsontext
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381

T = TypeVar("T")
FIELD = BLS12_381.fr
_MODULUS = FIELD.modulus
ELEMENT = 32
"""Bytes of a field element, a digest or a seed."""


MAX_FILE = 1 << 30
"""Bytes of a file of vanilla proofs: a non-interactive seal of 64 GiB has some 650 MB."""
_MAX_DEPTH = 32
_FOLDED = "\x7f"
"""What a string begins with that stands for a list of 32 bytes: the hexadecimal digits of the number that they are, of
which the first is the least significant."""
_ESCAPED = re.compile(rb"\\u007[fF]")


def json_value(data: bytes) -> Any:
    """The value of a JSON text, in which true and false do not occur: lists of bytes would take them. A list of 32
    bytes is a string that begins with `_FOLDED`, as `octets`, `elements` and `items` read it. Raises FormatError."""
    from kernels.host.native import native  # takes some of the start of commands that read nothing

    if _FOLDED.encode() in data or (b"\\" in data and _ESCAPED.search(data)):
        raise FormatError("a text has the control character U+007F")
    try:
        with without_collector():
            folded = native.fold_octet_lists(data, ord(_FOLDED))
            value = jsontext.loads(folded, "the file", max_depth=_MAX_DEPTH)
        # Texts in base64 may hold these letters, so the values decide.
        if (b"true" in data or b"false" in data) and _has_truth(value):
            raise FormatError("true or false, where there are only numbers")
        return value
    except json.JSONDecodeError:
        raise FormatError(f"not JSON, at byte {_broken_at(data)}") from None
    except ValueError:
        raise FormatError("an integer of thousands of digits") from None


def _broken_at(data: bytes) -> int:
    """The place of what is no JSON, which the decoder of a folded text does not know."""
    try:
        jsontext.loads(data, "the file", max_depth=_MAX_DEPTH)
    except json.JSONDecodeError as error:
        return error.pos
    raise AssertionError("a text is JSON, and with its lists folded it is none")


def _unfolded(value: Any) -> bytes | None:
    """The bytes of a list that was folded."""
    return bytes.fromhex(value[1:])[::-1] if type(value) is str and value.startswith(_FOLDED) else None


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector from looking at a million lists again and again, half of the time that reading takes."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _has_truth(value: Any) -> bool:
    """Whether true or false occurs among the values of a decoded JSON text."""
    left = [[value]]
    while left:
        each = left.pop()
        kinds = set(map(type, each))
        if bool in kinds:
            return True
        if list in kinds:
            left += [inner for inner in each if type(inner) is list]
        if dict in kinds:
            left += [list(inner.values()) for inner in each if type(inner) is dict]
    return False


def base64_octets(text: Any) -> bytes:
    """The bytes that a text has in base64. Raises FormatError."""
    if isinstance(text, str):
        with suppress(binascii.Error, ValueError):
            return base64.b64decode(text, validate=True)
    raise FormatError("not base64")


@contextmanager
def within(place: str) -> Iterator[None]:
    """Name the place in the errors of a block."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{place}: {error}") from None


def fields(value: Any, *names: str) -> list[Any]:
    """The values of an object with exactly these fields, in this order. Raises FormatError."""
    if type(value) is dict and len(value) == len(names):
        try:
            return [value[name] for name in names]
        except KeyError:
            pass
    if not isinstance(value, Mapping):
        raise FormatError(f"expected an object with the fields {', '.join(names)}")
    if value.keys() != set(names):
        missing = [name for name in names if name not in value]
        unknown = [name for name in value if name not in names]
        raise FormatError(f"the field {missing[0]!r} is missing" if missing else f"unknown field {unknown[0][:40]!r}")
    return [value[name] for name in names]


def items(value: Any, count: int | None, what: str) -> list[Any]:
    """A list, of `count` items if that is not None. Raises FormatError."""
    if (folded := _unfolded(value)) is not None:
        value = list(folded)
    if not isinstance(value, list):
        raise FormatError(f"expected a list of {what}")
    if count is not None and len(value) != count:
        raise FormatError(f"{len(value)} {what}, not {count}")
    return value


def octets(value: Any, name: str) -> bytes:
    """32 bytes, written as a list of numbers. Raises FormatError."""
    if (folded := _unfolded(value)) is not None:
        return folded
    try:
        if type(value) is list and len(value) == ELEMENT:
            return bytes(value)
    except (ValueError, TypeError):
        pass
    raise FormatError(f"{name} is not a list of {ELEMENT} bytes")


def element(value: Any, name: str) -> int:
    """A field element of 32 bytes, little-endian and below the prime of BLS12-381's scalars. Raises FormatError."""
    number = int.from_bytes(octets(value, name), "little")
    if number >= _MODULUS:
        raise FormatError(f"{name} is not below the field's prime")
    return number


def elements(value: Any, count: int, name: str, what: str) -> list[int]:
    """A list of `count` elements, each called `name`, together `what`. Raises FormatError."""
    listed = items(value, count, what)
    try:  # a file has hundreds of thousands of them
        if set(map(type, listed)) == {str} and "".join(listed).count(_FOLDED) == count:
            found = [int(each[1:], 16) for each in listed]
        else:  # of bincode, or one that is no element
            octet_lists = [bytes(each) for each in listed if type(each) is list and len(each) == ELEMENT]
            found = [int.from_bytes(each, "little") for each in octet_lists]
        if len(found) == count and max(found, default=0) < _MODULUS:
            return found
    except (ValueError, TypeError):
        pass
    return [element(each, name) for each in listed]  # one of which raises


def integer(value: Any, name: str, bits: int) -> int:
    """An integer below 2^bits. Raises FormatError."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise FormatError(f"{name} is not an integer of {count_of(bits, 'bit')}")
    return value


_HEX = re.compile(r"[0-9a-fA-F]{64}\Z")
_MINER = re.compile(r"[ft]0([0-9]{1,20})\Z")


def hex_octets(text: str, name: str) -> bytes:
    """32 bytes of 64 hexadecimal digits. Raises UsageError."""
    if not _HEX.match(text):
        raise UsageError(f"`{name}` has 64 hexadecimal digits")
    return bytes.fromhex(text)


def prover_id_of(text: str) -> bytes:
    """The prover id of a miner, 32 bytes: the payload of the actor's address, its number in LEB128, and zeros; or 64
    hexadecimal digits, taken as they are. Raises UsageError."""
    miner = _MINER.match(text)
    number = int(miner[1]) if miner else 1 << 64
    if number >> 64:
        if _HEX.match(text):
            return bytes.fromhex(text)
        raise UsageError("`prover_id` is a miner's address, such as f01000, or has 64 hexadecimal digits")
    digits = bytearray()
    while number >> 7:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number]).ljust(ELEMENT, b"\0")
