"""Reads a circuit's input: a JSON object from signal names to values, in snarkjs' form. Values are secret.

A value is an integer, or a nested list of integers in row-major order. An integer is written as a number or as a
string, decimal or 0x. The text of a number decides: 5.0 and 1e3 are integers, and nothing is rounded to one. Negative
integers and those from the field's prime on are reduced modulo the prime, as snarkjs does. A bus (circom 2.2) is an
object of its signals, or a list of such objects. Errors name the signal, never a value.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from distprove.errors import FormatError, WitnessGenerationError
from distprove.formats.jsonpieces import pieces
from distprove.formats.jsontext import EXACT_FLOAT
from distprove.groth16.binfile import Source, load
from kernels.host.units import count_of
from kernels.maths.curves import Field

_INTEGER = re.compile(r"-?(?:[0-9]{1,1024}|0[xX][0-9a-fA-F]{1,1024})\Z")
_DECIMAL = re.compile(r"[0-9]{1,1024}\Z")
MAX_INPUT = 1 << 28
"""Bytes of an input: three million values of full size. A circom program has 4 GiB for them and its wires."""
_LISTS = (list, tuple, np.ndarray)
_CHUNK = 1024
"""Values that are packed together."""
_FEW = 8
"""Values that are packed faster one by one."""
_MAX_DEPTH = 32
_MAX_NAME = 1000


@dataclass(frozen=True)
class InputFile:
    """A circuit's input as the text of a file. It is decoded piece by piece when its values are asked for."""

    text: bytes = field(repr=False)
    name: str


Inputs = Mapping[str, Any] | InputFile
"""What a circuit's input is given as: its signals' values by name, or a file."""


class Part(NamedTuple):
    """Values of a signal. A long one comes in several parts, one after the other."""

    signal: str
    values: Sequence[Any]
    goes_on: bool
    """Whether these are more values of the signal that the part before is of."""


def read_input(source: Source, *, name: str | None = None) -> InputFile:
    """Read a file. Raises FormatError when it is too large, or InputError when it cannot be read.

    Integers of any length stay exact; snarkjs rounds those beyond 2^53 that are not in quotes.
    """
    data, name = load(source, name)
    if len(data) > MAX_INPUT:
        raise FormatError(f"{name}: larger than {MAX_INPUT} bytes")
    return InputFile(data.tobytes(), name)


def signals(inputs: Inputs) -> Iterator[Part]:
    """The signals of an input with their values in row-major order. Buses are flattened: {"p": [{"x": 1}]} becomes
    "p[0].x", the name that circom's programs use.

    Raises FormatError when a file is not JSON, and WitnessGenerationError when a list mixes objects and numbers, or two
    values get the same name. What comes before a fault is given before it is raised.
    """
    hashes, last = array("q"), None  # a set of the names would take more memory than the text
    for part in _parts(inputs):
        if not part.goes_on:
            last = part.signal
            hashes.append(hash(last))
        elif part.signal != last:  # so there were objects in its list before
            raise WitnessGenerationError(f"signal {part.signal!r}: a list mixes objects and numbers")
        yield part
    hashed = np.sort(np.frombuffer(hashes, np.int64))
    twice, seen = set(hashed[1:][hashed[1:] == hashed[:-1]].tolist()), set()
    for part in _parts(inputs) if twice else ():
        if not part.goes_on and hash(part.signal) in twice:
            if part.signal in seen:
                raise WitnessGenerationError(f"signal {part.signal!r} is given twice")
            seen.add(part.signal)


def _parts(inputs: Inputs) -> Iterator[Part]:
    if not isinstance(inputs, InputFile):
        yield from _entries(inputs, "", -1, ())
        return
    for piece in pieces(inputs.text, inputs.name):
        if not isinstance(piece.value, dict):
            raise FormatError(f"{inputs.name}: the input must be a JSON object from signal names to values")
        yield from _entries(piece.value, "", -1, piece.before)


def _entries(value: Mapping[str, Any], path: str, depth: int, before: Sequence[int]) -> Iterator[Part]:
    """The signals in an object. For `before`, see `Piece`."""
    inside = before[1:]
    for key, inner in value.items():
        if isinstance(inner, (str, int)) and len(path + key) <= _MAX_NAME:
            yield Part(path + key, (inner,), False)
        else:
            yield from _signals(path + key, inner, depth + 1, inside)
        inside = ()


def _signals(name: str, value: Any, depth: int, before: Sequence[int]) -> Iterator[Part]:
    if depth > _MAX_DEPTH:
        raise WitnessGenerationError(f"signal {name[:_MAX_NAME]!r}: nested more than {_MAX_DEPTH} deep")
    if len(name) > _MAX_NAME:
        raise WitnessGenerationError(
            f"a signal name has {count_of(len(name), 'character')}, at most {_MAX_NAME} are taken"
        )
    if isinstance(value, Mapping):
        yield from _entries(value, f"{name}.", depth, before)
        return
    leaves = _leaves(name, value)
    if not _any_is(leaves, Mapping):
        yield Part(name, leaves, bool(before))
        return
    inside = before[1:]
    for index, item in enumerate(value, before[0] if before else 0):
        if not isinstance(item, (list, tuple, Mapping)):
            raise WitnessGenerationError(f"signal {name!r}: a list mixes objects and numbers")
        yield from _signals(f"{name}[{index}]", item, depth + 1, inside)
        inside = ()


def _leaves(signal: str, value: Any) -> Sequence[Any]:
    """All that is in lists within lists, in row-major order."""
    leaves = _items(value)
    for _ in range(_MAX_DEPTH):
        if not _any_is(leaves, _LISTS):
            return leaves
        leaves = [*chain.from_iterable(leaves if set(map(type, leaves)) == {list} else map(_items, leaves))]
    raise WitnessGenerationError(f"signal {signal!r}: lists are nested more than {_MAX_DEPTH} deep")


def _any_is(values: Sequence[Any], kinds: type | tuple[type, ...]) -> bool:
    return any(issubclass(kind, kinds) for kind in set(map(type, values)))


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        # Elements of other kinds would come as Python's numbers, and no longer say that NumPy rounded them.
        value = value.tolist() if value.dtype.kind in "biuOU" or value.dtype == np.float64 else [*value.flat]
    return value if isinstance(value, (list, tuple)) else (value,)


def flatten(signal: str, values: Sequence[Any], of: Field) -> Iterator[bytes]:
    """Encode values of a signal, reduced modulo the field's prime, `of.bytes` little-endian bytes each, some at a time.

    Raises WitnessGenerationError.
    """
    modulus, size = of.modulus, of.bytes
    if len(values) <= _FEW:
        yield b"".join([(_integer(signal, value) % modulus).to_bytes(size, "little") for value in values])
        return
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        kinds = set(map(type, chunk))
        plain = kinds == {str} and all(map(_DECIMAL.match, chunk))
        integers: Sequence[int] = (
            chunk
            if kinds == {int}
            else list(map(int, chunk))
            if plain
            else [_integer(signal, value) for value in chunk]
        )
        least, most = min(integers), max(integers)
        if least >= 0 and most < 1 << 63:
            words = np.zeros((len(integers), size // 8), "<u8")
            words[:, 0] = integers
            yield words.tobytes()
        else:
            if least < 0 or most >= modulus:
                integers = [integer % modulus for integer in integers]
            yield b"".join([integer.to_bytes(size, "little") for integer in integers])


def _integer(signal: str, value: Any) -> int:
    if isinstance(value, str):
        if _DECIMAL.match(value):
            return int(value)
        if not _INTEGER.match(value):
            raise WitnessGenerationError(f"signal {signal!r}: a string is not a decimal or 0x integer")
        return int(value, 16 if "x" in value.lower() else 10)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        return int(value)
    if type(value) is float:
        raise WitnessGenerationError(f"signal {signal!r}: a number that is not an exact integer")
    kind = {dict: "an object", type(None): "null"}.get(type(value), type(value).__name__)
    raise WitnessGenerationError(f"signal {signal!r}: {kind} is not an integer")


def fnv1a(name: str) -> int:
    """The 64-bit FNV-1a hash of an input signal's name, by which circom's programs identify the signal."""
    state = 0xCBF29CE484222325
    for character in name:
        state = (state ^ ord(character)) * 0x100000001B3 & (2**64 - 1)
    return state
