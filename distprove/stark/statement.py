"""The statement of a job beyond its partitions' own proofs: how public values must agree, and boundary tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from distprove.errors import FormatError
from distprove.formats.shapes import Row, fits
from distprove.proof import MAX_OUTPUT
from distprove.stark.air.compiled import MAX_PUBLIC
from distprove.stark.air.definition import MAX_NAME, layout_of
from distprove.stark.field import P
from distprove.stark.output import DIGEST_VALUES
from kernels.host.units import count_of

WHERE = ("first", "last", "every")
EXIT_CODE = "exit_code"
"""Name of the public value whose last one is the job's exit code."""
MAX_EVERY = 256
"""Most boundary tuples that occur for every partition, in jobs of any number of partitions."""
MAX_TUPLES = 1 << 18
"""Most tuples of all partitions, where each has more than `MAX_EVERY`: the work is not the product of two files."""


@dataclass(frozen=True)
class PublicRef:
    """A reference to one element of a public value, by name and index."""

    name: str
    index: int = 0


@dataclass(frozen=True)
class Boundary:
    """A tuple that the statement itself sends or receives on a global bus, so that the bus balances over the job."""

    bus: str
    values: tuple[int | PublicRef, ...]
    times: int
    """Multiplicity: positive if sent, negative if received."""
    where: str = "every"
    """The partitions for which the tuple occurs, with their public values: "first", "last" or "every"."""


@dataclass(frozen=True)
class Constant:
    """A public value whose elements are these numbers."""

    name: str
    values: tuple[int, ...]
    where: str = "every"
    """The partitions that have this value: "first", "last" or "every"."""


@dataclass(frozen=True)
class Output:
    """An output of variable length (`distprove.stark.output`), which the statement receives on a global bus."""

    bus: str
    """A global bus of tuples (place, word)."""
    length: str
    """Name of the public value that is the output's length in bytes. It is equal in all partitions."""
    digest: str
    """Name of the public value of eight elements that is the output's digest. It is equal in all partitions."""


@dataclass(frozen=True)
class Statement:
    """The conditions on the public values of a job's partitions beyond each partition's own proof.

    A statement is data, not code: it is part of the verifying key, and a verifier checks it without the program.
    """

    public: tuple[tuple[str, int], ...] = ()
    """Name and number of elements of each public value of a partition, in order."""
    same: tuple[str, ...] = ()
    """Public values that are equal in all partitions."""
    chain: tuple[tuple[str, str], ...] = ()
    """Pairs (end, start) of public values: `end` of a partition equals `start` of the next."""
    count: str | None = None
    """Name of a public value that equals the number of partitions."""
    index: str | None = None
    """Name of a public value that equals the partition's position, from zero."""
    boundary: tuple[Boundary, ...] = ()
    constants: tuple[Constant, ...] = ()
    """Public values that equal constants, such as the state that the first partition starts from."""
    output: Output | None = None
    """The job's output, if it has one of variable length. Nobody can verify such a job without it."""

    def layout(self) -> dict[str, tuple[int, int]]:
        """Offset and length of each public value in the flat tuple of all elements."""
        return layout_of(self.public)

    @property
    def public_values(self) -> int:
        return sum(length for _, length in self.public)

    def violation(self, publics: Sequence[Sequence[int]]) -> str | None:
        """Describe the first condition that the public values of all partitions, in order, violate; None if none."""
        for position, public in enumerate(publics):
            if len(public) != self.public_values or not all(0 <= v < P for v in public):
                return f"partition {position} does not have {count_of(self.public_values, 'canonical public value')}"
        excess = self.excess(len(publics))
        if excess is not None:
            return excess
        layout = self.layout()
        # A key may say a thing as often as it has room.
        same, chain = dict.fromkeys((*self.same, *self._output_names)), dict.fromkeys(self.chain)
        constants = dict.fromkeys(self.constants)

        def value(position: int, name: str) -> Sequence[int]:
            offset, length = layout[name]
            return publics[position][offset : offset + length]

        for position in range(len(publics)):
            for name in same:
                if value(position, name) != value(0, name):
                    return f"{name} of partition {position} differs from the first one's"
            if self.count is not None and value(position, self.count)[0] != len(publics):
                return f"{self.count} of partition {position} is not the number of partitions, {len(publics)}"
            if self.index is not None and value(position, self.index)[0] != position:
                return f"{self.index} of partition {position} is not its position"
            for end, start in chain:
                if position and value(position - 1, end) != value(position, start):
                    return f"{start} of partition {position} is not {end} of the one before"
            for constant in constants:
                place = {"first": 0, "last": len(publics) - 1, "every": position}[constant.where]
                if position == place and tuple(value(position, constant.name)) != constant.values:
                    return f"{constant.name} of partition {position} is not the constant of the statement"
        if self.output is not None and publics and value(0, self.output.length)[0] > MAX_OUTPUT:
            return f"{self.output.length} is more than the {MAX_OUTPUT} bytes that an output may have"
        return None

    def boundary_size(self, partitions: int) -> int:
        """The number of boundary tuples of a job of so many partitions."""
        return len(self.boundary) + self._every * (partitions - 1)

    @cached_property
    def _every(self) -> int:
        return sum(boundary.where == "every" for boundary in self.boundary)

    def excess(self, partitions: int) -> str | None:
        """Say by how much the boundary has too many tuples for so many partitions; None if it has not."""
        every = self._every
        if every <= MAX_EVERY or every * partitions <= MAX_TUPLES:
            return None
        return (
            f"the statement has {count_of(every, 'boundary tuple')} for each of "
            f"{count_of(partitions, 'partition')}: at most {MAX_EVERY}, or "
            f"{MAX_TUPLES} over all partitions"
        )

    @property
    def _output_names(self) -> tuple[str, ...]:
        return () if self.output is None else (self.output.length, self.output.digest)

    def partition_of_job(self, name: str) -> str:
        """The partition whose public value of this name is that of the whole job: "first" or "last"; "" where every
        partition has a value of its own. A chain leads from the first one's start to the last one's end."""
        starts, ends = {start for _, start in self.chain}, {end for end, _ in self.chain}
        if name in (*self.same, *self._output_names, self.count) or name in starts - ends:
            return "first"
        return "last" if name in ends - starts or (name == EXIT_CODE and name not in starts) else ""

    def output_public(self, public: Sequence[int]) -> tuple[int, ...]:
        """The length and the digest of the output among the public values of a partition, as
        `distprove.stark.output.output_public` gives them; empty for a statement without output."""
        layout = self.layout()
        return tuple(v for at, count in map(layout.__getitem__, self._output_names) for v in public[at : at + count])

    def exit_code(self, publics: Sequence[Sequence[int]]) -> int | None:
        """The last partition's public value called `exit_code`; None for a statement without one."""
        at, length = self.layout().get(EXIT_CODE, (0, 0))
        return publics[-1][at] if length == 1 else None

    def boundary_tuples(self, publics: Sequence[Sequence[int]]) -> Iterator[tuple[str, list[int], int]]:
        """Yield bus, values and signed multiplicity of each tuple that the statement puts on the global buses."""
        layout = self.layout()
        for boundary in self.boundary:
            chosen = {"first": publics[:1], "last": publics[-1:], "every": publics}[boundary.where]
            # Of each value the place among the public ones, or what it is itself.
            places = [
                (layout[v.name][0] + v.index, 0) if isinstance(v, PublicRef) else (None, v % P) for v in boundary.values
            ]
            for public in chosen:
                yield boundary.bus, [v if at is None else public[at] for at, v in places], boundary.times

    def to_record(self) -> dict[str, Any]:
        """The statement as plain data, which `from_record` reads."""
        boundary = [
            {
                "bus": b.bus,
                "values": [[v.name, v.index] if isinstance(v, PublicRef) else v for v in b.values],
                "times": b.times,
                "where": b.where,
            }
            for b in self.boundary
        ]
        record = {
            "public": [list(p) for p in self.public],
            "same": list(self.same),
            "chain": [list(c) for c in self.chain],
            "count": self.count,
            "index": self.index,
            "boundary": boundary,
        }
        if self.constants:  # a statement without has the encoding that it had before there were any
            record["constants"] = [[c.name, list(c.values), c.where] for c in self.constants]
        if self.output is not None:
            record["output"] = [self.output.bus, self.output.length, self.output.digest]
        return record

    @classmethod
    def from_record(cls, record: Any, what: str) -> Statement:
        """Read the statement of an untrusted key. Raises FormatError."""
        if (
            not isinstance(record, dict)
            or record.keys() - _OPTIONAL != _SHAPE.keys() - _OPTIONAL
            or not fits(record, {name: _SHAPE[name] for name in record})
            or any(boundary.keys() != _BOUNDARY.keys() for boundary in record["boundary"])
            or record.get("constants") == []  # one encoding of none
        ):
            raise FormatError(f"{what}: not a statement")
        statement = cls(
            tuple((name, count) for name, count in record["public"]),
            tuple(record["same"]),
            tuple((end, start) for end, start in record["chain"]),
            record["count"],
            record["index"],
            tuple(
                Boundary(b["bus"], tuple(map(_value, b["values"])), b["times"], b["where"]) for b in record["boundary"]
            ),
            tuple(Constant(name, tuple(values), where) for name, values, where in record.get("constants", ())),
            Output(*record["output"]) if "output" in record else None,
        )
        statement.check(what)
        return statement

    def check(self, what: str) -> None:
        """Raise FormatError unless every name and index that the statement uses exists."""
        fault = next(self._faults(), None)
        if fault is not None:
            raise FormatError(f"{what}: the statement does not fit its public values: {fault}")

    def _faults(self) -> Iterator[str]:
        """Yield each fault of the statement. Later checks rely on earlier ones: only the first may be asked for."""
        layout = self.layout()
        known = ", ".join(layout) or "none"
        if len(layout) != len(self.public):
            yield f"two of them have one name (it has: {known})"
        for name, length in self.public:
            if not (1 <= len(name) <= MAX_NAME and length >= 1):
                yield (
                    f"{name!r} with {count_of(length, 'element')}: a name has 1 to {MAX_NAME} characters, a value "
                    f"some elements"
                )
        if self.public_values > MAX_PUBLIC:
            yield f"they have {count_of(self.public_values, 'element')}, at most {MAX_PUBLIC} are possible"
        named = [
            *(("same", n) for n in self.same),
            *(("output", n) for n in self._output_names),
            *(("chain", n) for pair in self.chain for n in pair),
            *(("constants", c.name) for c in self.constants),
            *((part, n) for part, n in (("count", self.count), ("index", self.index)) if n is not None),
        ]
        for part, name in named:
            if name not in layout:
                yield f"{part} names {name!r}, which is none of them (it has: {known})"
        for b in self.boundary:
            for ref in (v for v in b.values if isinstance(v, PublicRef)):
                if ref.name not in layout:
                    yield f"the boundary on bus {b.bus} names {ref.name!r}, which is none of them (it has: {known})"
                if not 0 <= ref.index < layout[ref.name][1]:
                    yield (
                        f"the boundary on bus {b.bus} names element {ref.index} of {ref.name!r}, which has "
                        f"{layout[ref.name][1]}"
                    )
            if b.where not in WHERE:
                yield f"the boundary on bus {b.bus} is where={b.where!r}, expected one of {', '.join(WHERE)}"
            if not 0 < abs(b.times) < P:
                yield (
                    f"the boundary on bus {b.bus} is {count_of(b.times, 'time')}, and neither 0 nor p or more "
                    f"is possible"
                )
        for end, start in self.chain:
            if layout[end][1] != layout[start][1]:
                yield f"chain: {end!r} has {count_of(layout[end][1], 'element')} and {start!r} has {layout[start][1]}"
        # More follow from these, because equality is transitive, or contradict each other.
        if len(set(self.chain)) > 2 * len(layout):
            yield f"chain has {count_of(len(set(self.chain)), 'pair')}, at most {2 * len(layout)} are possible"
        if len(set(self.constants)) > 3 * len(layout):
            yield f"constants: {len(set(self.constants))} of them, at most {3 * len(layout)} are possible"
        for c in self.constants:
            if c.where not in WHERE:
                yield f"the constant {c.name!r} is where={c.where!r}, expected one of {', '.join(WHERE)}"
            if len(c.values) != layout[c.name][1]:
                yield (
                    f"the constant {c.name!r} has {count_of(len(c.values), 'element')}, and the value has "
                    f"{layout[c.name][1]}"
                )
            if not all(0 <= v < P for v in c.values):
                yield f"the constant {c.name!r} is no field element: not from 0 to p - 1"
        lengths = [layout[n][1] for n in self._output_names]
        if lengths not in ([], [1, DIGEST_VALUES]):
            yield f"the output's length and digest have lengths {lengths}, expected [1, {DIGEST_VALUES}]"


_BOUNDARY = {"bus": str, "values": [(int, Row(str, int))], "times": int, "where": str}
_SHAPE: dict[str, Any] = {
    "public": [Row(str, int)],
    "same": [str],
    "chain": [Row(str, str)],
    "count": (str, type(None)),
    "index": (str, type(None)),
    "boundary": [_BOUNDARY],
    "constants": [Row(str, [int], str)],
    "output": Row(str, str, str),
}
"""What `Statement.to_record` makes."""
_OPTIONAL = {"constants", "output"}


def _value(value: Any) -> int | PublicRef:
    return PublicRef(*value) if isinstance(value, list) else value
