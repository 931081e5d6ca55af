"""What a caller expects a proof of OpenVM to state: public values and commitments to cached traces, from a JSON file.

    {"airs": [{"air": 0, "public_values": [0, 1, 987], "cached_traces": []}, ...]}

`distprove verify --json` prints this form, with `name` and `log_height` beside: a key's hash does not cover a name, so
that no name is compared. A height is, where the file has it. Every AIR with a trace must be in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof
from distprove.formats.files import read_bounded
from distprove.formats.jsontext import loads_file
from distprove.stark.openvm.container import integers
from distprove.stark.openvm.proof import MAX_ITEMS, OpenVmProof
from distprove.stark.openvm.shape import Shape
from kernels.maths.babybear import Elements, P

MAX_BYTES = 1 << 26
"""Most bytes of a file of expected values."""
_AIRS, _AIR, _HEIGHT, _PUBLIC, _CACHED = "airs", "air", "log_height", "public_values", "cached_traces"
_MAX_LOG_HEIGHT = 32


def hex_of(digest: Elements) -> str:
    """A digest as the bytes of its 8 elements, each little-endian, in hexadecimal digits."""
    return digest.astype("<u4").tobytes().hex()


@dataclass(frozen=True)
class ExpectedAir:
    """The expected values of an AIR that has a trace."""

    public_values: tuple[int, ...]
    cached_traces: tuple[str, ...]
    """Commitments to its cached traces, in the form of `hex_of`."""
    log_height: int | None
    """log2 of its rows; None where any height will do."""


@dataclass(frozen=True)
class ExpectedStatement:
    """The expected values of all AIRs that have a trace, by the AIR's number."""

    what: str
    """Name of the file in messages."""
    airs: Mapping[int, ExpectedAir]

    @classmethod
    def read(cls, path: Path) -> ExpectedStatement:
        """Read a file. Raises InputError, or FormatError for another form."""
        return cls.parse(read_bounded(path, MAX_BYTES), str(path))

    @classmethod
    def parse(cls, data: bytes, what: str) -> ExpectedStatement:
        """Parse a file's bytes. Raises FormatError for another form."""
        value = loads_file(data, what)
        if not isinstance(value, dict) or not isinstance(value.get(_AIRS), list):
            raise FormatError(f'{what}: not {{"{_AIRS}": [...]}}, as `distprove verify --openvm-key KEY --json` prints')
        airs = dict[int, ExpectedAir]()
        for place, item in enumerate(value[_AIRS]):
            number, expected = _parse(item, f"{what}: {_AIRS}[{place}]")
            if number in airs:
                raise FormatError(f"{what}: AIR {number} is there twice")
            airs[number] = expected
        return cls(what, airs)

    @property
    def count(self) -> int:
        """Number of public values."""
        return sum(len(air.public_values) for air in self.airs.values())

    def require(self, shape: Shape, proof: OpenVmProof) -> None:
        """Raise InvalidProof unless a proof of this shape, which holds, states exactly these values."""
        stated = {trace.number: trace for trace in shape.traces}
        for number in sorted(self.airs.keys() ^ stated.keys()):
            here, there = ("no trace", "a trace") if number in self.airs else ("a trace", "no trace")
            raise InvalidProof(f"the proof holds, and has {here} of AIR {number}; {self.what} expects {there}")
        for number, expected in sorted(self.airs.items()):
            trace = stated[number]
            values = tuple(proof.public_values[number].tolist())
            self._compare(number, "public value", values, expected.public_values)
            roots = tuple(map(hex_of, trace.cached_roots))
            self._compare(number, "commitment to cached trace", roots, expected.cached_traces)
            if expected.log_height is not None:
                self._compare(number, "log2 of its rows", (trace.log_height,), (expected.log_height,))

    def _compare(self, number: int, kind: str, stated: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
        if len(stated) != len(expected):
            raise InvalidProof(
                f"the proof holds, and states {len(stated)} of the kind {kind} for AIR {number}; {self.what} expects "
                f"{len(expected)}"
            )
        wrong = [place for place, (is_, meant) in enumerate(zip(stated, expected, strict=True)) if is_ != meant]
        if wrong:
            first, more = wrong[0], f"; {len(wrong) - 1} more differ" if len(wrong) > 1 else ""
            raise InvalidProof(
                f"the proof holds, and states {kind} {first} = {stated[first]} for AIR {number}; {expected[first]} is "
                f"expected by {self.what}{more}"
            )


def _parse(item: Any, what: str) -> tuple[int, ExpectedAir]:
    if not isinstance(item, dict) or not {_AIR, _PUBLIC, _CACHED} <= item.keys():
        raise FormatError(f"{what} has not the keys {_AIR}, {_PUBLIC} and {_CACHED}")
    if unknown := item.keys() - {_AIR, _PUBLIC, _CACHED, _HEIGHT, "name"}:
        raise FormatError(f"{what} has unknown keys: {', '.join(sorted(unknown))}")
    [number] = integers([item[_AIR]], MAX_ITEMS, f"{what}: {_AIR}")
    values = integers(item[_PUBLIC], P, f"{what}: {_PUBLIC}")
    roots = item[_CACHED]
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise FormatError(f"{what}: {_CACHED} is not a list of texts")
    height = item.get(_HEIGHT)
    if height is not None:
        [height] = integers([height], _MAX_LOG_HEIGHT, f"{what}: {_HEIGHT}")
    return number, ExpectedAir(values, tuple(root.lower() for root in roots), height)
