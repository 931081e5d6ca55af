"""Reads a circuit's input: a JSON object from signal names to values, in snarkjs' form. Values are secret.

A value is an integer, or a nested list of integers in row-major order. An integer is written as a number or as a
string, decimal or 0x; negative integers are reduced modulo the field. A bus (circom 2.2) is an object of its signals,
or a list of such objects. Errors name the signal, never a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from distprove.errors import FormatError, WitnessGenerationError
from distprove.formats import jsontext
from distprove.groth16.binfile import Source, load
from kernels.maths.curves import Field

Inputs = Mapping[str, Any]

_INTEGER = re.compile(r"-?(?:[0-9]{1,1024}|0[xX][0-9a-fA-F]{1,1024})\Z")
_DECIMAL = re.compile(r"[0-9]{1,1024}\Z")
MAX_INPUT = 1 << 28
"""Bytes of an input: three million values of full size. A circom program has 4 GiB for them and its wires."""
_LISTS = (list, tuple, np.ndarray)
_CHUNK = 1024
"""Values that are packed together."""
_MAX_DEPTH = 32
_MAX_NAME = 1000
_EXACT_FLOAT = 1 << 53


def read_input(source: Source, *, name: str | None = None) -> dict[str, Any]:
    """Read the JSON object in a file. Raises FormatError, or InputError when the file cannot be read.

    Integers of any length stay exact; snarkjs rounds those beyond 2^53 that are not in quotes.
    """
    data, name = load(source, name)
    if len(data) > MAX_INPUT:
        raise FormatError(f"{name}: larger than {MAX_INPUT} bytes")
    try:
        text = data.tobytes()
        parsed = jsontext.loads(text, name)
        # Faster than to look at every object while it is made. There are more colons than entries where a later entry
        # took the place of an earlier one, or a string has one.
        if _entries(parsed) != text.count(b":"):
            parsed = jsontext.loads(text, name, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        # The decoder's message and position are public; the text around them is not, so the cause is dropped.
        raise FormatError(f"{name}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except _DuplicateKey as error:
        raise FormatError(f"{name}: the signal {error.args[0]!r} occurs twice") from None
    except ValueError as error:
        raise FormatError(f"{name}: not usable JSON ({type(error).__name__})") from None
    if not isinstance(parsed, dict):
        raise FormatError(f"{name}: the input must be a JSON object from signal names to values")
    return parsed


def _entries(value: Any) -> int:
    """Entries of all objects within a value."""
    if not isinstance(value, (dict, list)):
        return 0
    items, own = (value.values(), len(value)) if isinstance(value, dict) else (value, 0)
    return own + (sum(map(_entries, items)) if {dict, list} & set(map(type, items)) else 0)


class _DuplicateKey(Exception):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(key)
        found[key] = value
    return found


def signals(inputs: Inputs) -> dict[str, Any]:
    """Flatten the buses of `inputs`: {"p": [{"x": 1}]} becomes {"p[0].x": 1}, the name that circom's programs use.

    Raises WitnessGenerationError when a list mixes objects and numbers, or two values get the same name.
    """
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        for signal, plain in ((name, value),) if isinstance(value, (str, int)) else _signals(name, value, 0):
            if len(signal) > _MAX_NAME:
                raise WitnessGenerationError(
                    f"a signal name has {len(signal)} characters, at most {_MAX_NAME} are taken"
                )
            if signal in found:
                raise WitnessGenerationError(f"signal {signal!r} is given twice")
            found[signal] = plain
    return found


def _signals(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _MAX_DEPTH:
        raise WitnessGenerationError(f"signal {name[:_MAX_NAME]!r}: nested more than {_MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _signals(f"{name}.{key}", inner, depth + 1)
    elif isinstance(value, (list, tuple)) and any(issubclass(k, Mapping) for k in set(map(type, _leaves(name, value)))):
        for index, item in enumerate(value):
            if not isinstance(item, (list, tuple, Mapping)):
                raise WitnessGenerationError(f"signal {name!r}: a list mixes objects and numbers")
            yield from _signals(f"{name}[{index}]", item, depth + 1)
    else:
        yield name, value


def flatten(signal: str, value: Any, field: Field) -> bytearray:
    """Encode a signal's values in row-major order, reduced modulo the field, `field.bytes` little-endian bytes each.

    Raises WitnessGenerationError.
    """
    modulus, size = field.modulus, field.bytes
    if not isinstance(value, _LISTS):
        return bytearray((_integer(signal, value) % modulus).to_bytes(size, "little"))
    leaves, packed = _leaves(signal, value), bytearray()
    while chunk := list(islice(leaves, _CHUNK)):  # so that not all are there as objects of their own at a time
        plain = set(map(type, chunk)) == {str} and all(map(_DECIMAL.match, chunk))
        integers = list(map(int, chunk)) if plain else [_integer(signal, leaf) for leaf in chunk]
        if min(integers) >= 0 and max(integers) < 1 << 63:
            words = np.zeros((len(integers), size // 8), "<u8")
            words[:, 0] = integers
            packed += words.tobytes()
        else:
            packed += b"".join([(integer % modulus).to_bytes(size, "little") for integer in integers])
    return packed


def _leaves(signal: str, value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, _LISTS):
        yield value
        return
    if depth == _MAX_DEPTH:
        raise WitnessGenerationError(f"signal {signal!r}: lists are nested more than {_MAX_DEPTH} deep")
    if any(issubclass(kind, _LISTS) for kind in set(map(type, value))):
        for item in value:
            yield from _leaves(signal, item, depth + 1)
    else:
        yield from value


def _integer(signal: str, value: Any) -> int:
    if isinstance(value, str):
        if _DECIMAL.match(value):
            return int(value)
        if not _INTEGER.match(value):
            raise WitnessGenerationError(f"signal {signal!r}: a string is not a decimal or 0x integer")
        return int(value, 16 if "x" in value.lower() else 10)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_FLOAT:
        return int(value)
    kind = {dict: "an object", float: "a number that is not an exact integer", type(None): "null"}
    raise WitnessGenerationError(f"signal {signal!r}: {kind.get(type(value), type(value).__name__)} is not an integer")


def fnv1a(name: str) -> int:
    """The 64-bit FNV-1a hash of an input signal's name, by which circom's programs identify the signal."""
    state = 0xCBF29CE484222325
    for character in name:
        state = (state ^ ord(character)) * 0x100000001B3 & (2**64 - 1)
    return state
