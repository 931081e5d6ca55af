"""What a caller expects a proof of OpenVM to state: public values and commitments to cached traces, from a JSON file.

    {"airs": [{"air": 0, "public_values": [0, 1, 987], "cached_traces": []}, ...]}       of one proof
    {"partitions": [{"name": "segment-0", "airs": [...]}, ...]}                             of a job's proofs, in order

`distprove verify --json` prints these forms, with more beside. Of an AIR it also prints `name` and `log_height`: a
key's hash does not cover a name, so that no name is compared. A height is, where the file has it. Every AIR with a
trace must be in the file, and so must every partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof
from distprove.expected import require_values
from distprove.formats.files import read_bounded
from distprove.formats.jsontext import loads_file
from distprove.formats.visible import visible
from distprove.stark.openvm.container import integers
from distprove.stark.openvm.proof import MAX_ITEMS, OpenVmProof
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.stated import AIR, AIRS, CACHED, HEIGHT, NAME, PUBLIC, hex_of
from distprove.system import PartitionProof
from kernels.host.units import count_of
from kernels.maths.babybear import P

MAX_BYTES = 1 << 26
"""Most bytes of a file of expected values."""
_MAX_LOG_HEIGHT = 32
_PARTITIONS = "partitions"


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
        return cls.of(loads_file(data, what), what)

    @classmethod
    def of(cls, value: Any, what: str) -> ExpectedStatement:
        """Take the objects of a file. Raises FormatError for another form."""
        if not isinstance(value, Mapping) or not isinstance(value.get(AIRS), list):
            raise FormatError(f'{what}: not {{"{AIRS}": [...]}}, as `distprove verify --vk KEY --json` prints')
        airs = dict[int, ExpectedAir]()
        for place, item in enumerate(value[AIRS]):
            number, expected = _parse(item, f"{what}: {AIRS}[{place}]")
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

    def _compare(self, number: int, kind: str, stated: Sequence[object], expected: Sequence[object]) -> None:
        where = f"for AIR {number}"
        require_values(f"of the kind {kind} {where}", lambda i: f"{kind} {i}", where, stated, expected, self.what)


def _parse(item: Any, what: str) -> tuple[int, ExpectedAir]:
    if not isinstance(item, dict) or not {AIR, PUBLIC, CACHED} <= item.keys():
        raise FormatError(f"{what} has not the keys {AIR}, {PUBLIC} and {CACHED}")
    if unknown := item.keys() - {AIR, PUBLIC, CACHED, HEIGHT, NAME}:
        raise FormatError(f"{what} has unknown keys: {', '.join(sorted(unknown))}")
    [number] = integers([item[AIR]], MAX_ITEMS, f"{what}: {AIR}")
    values = integers(item[PUBLIC], P, f"{what}: {PUBLIC}")
    roots = item[CACHED]
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise FormatError(f"{what}: {CACHED} is not a list of texts")
    height = item.get(HEIGHT)
    if height is not None:
        [height] = integers([height], _MAX_LOG_HEIGHT, f"{what}: {HEIGHT}")
    return number, ExpectedAir(values, tuple(root.lower() for root in roots), height)


@dataclass(frozen=True)
class ExpectedJob:
    """The expected statements of a job's proofs. Implements `distprove.expected.Expectation`."""

    what: str
    """Name of the source in messages."""
    verified: Callable[[PartitionProof], tuple[Shape, OpenVmProof]]
    """Gives the proof of a partition, which holds, and its shape."""
    only: ExpectedStatement | None
    """The statement of the only partition."""
    by_partition: Sequence[tuple[str, ExpectedStatement]] = ()
    """Names and statements of all partitions, in order, where `only` is None."""

    @classmethod
    def of(cls, top: Any, what: str, verified: Callable[[PartitionProof], tuple[Shape, OpenVmProof]]) -> ExpectedJob:
        """Take the objects of a file. Raises FormatError for another form."""
        if not isinstance(top, Mapping) or _PARTITIONS not in top:
            return cls(what, verified, ExpectedStatement.of(top, what))
        partitions = top[_PARTITIONS]
        if not isinstance(partitions, list) or not all(
            isinstance(each, Mapping) and isinstance(each.get(NAME), str) for each in partitions
        ):
            raise FormatError(f'{what}: {_PARTITIONS} is no list of {{"{NAME}": NAME, "{AIRS}": [...]}}')
        named = [(each[NAME], f"{what}: partition {visible(each[NAME])}", each) for each in partitions]
        return cls(what, verified, None, [(name, ExpectedStatement.of(each, where)) for name, where, each in named])

    def require(self, partitions: Sequence[PartitionProof]) -> int:
        """Return the number of public values that were compared. Raises InvalidProof where proofs, which hold, state
        others."""
        if self.only is not None and len(partitions) != 1:
            raise InvalidProof(
                f"the proof holds, and is of {count_of(len(partitions), 'partition')}; {self.what} has the "
                f"statement of one. For "
                f'several it has {{"{_PARTITIONS}": [{{"{NAME}": NAME, "{AIRS}": [...]}}, ...]}}'
            )
        expected = self.by_partition if self.only is None else [(partitions[0].name, self.only)]
        names, stated = [name for name, _ in expected], [partition.name for partition in partitions]
        if names != stated:
            place = next((i for i, (a, b) in enumerate(zip(names, stated, strict=False)) if a != b), None)
            differ = f"{count_of(len(stated), 'partition')}; {self.what} has {len(names)}"
            if place is not None:
                differ = f"{visible(stated[place])} as partition {place}; {self.what} has {visible(names[place])}"
            raise InvalidProof(f"the proof holds, and has {differ}")
        for partition, (_, statement) in zip(partitions, expected, strict=True):
            statement.require(*self.verified(partition))
        return sum(statement.count for _, statement in expected)
