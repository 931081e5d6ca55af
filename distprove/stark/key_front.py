"""The front of a verifying key, which both engines share: program, tables, buses, statement, heights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from distprove.errors import FormatError, UsageError
from distprove.formats import canonical
from distprove.formats.shapes import Row, fits
from distprove.stark.air import Bus
from distprove.stark.air.compiled import MAX_BUSES, SCOPES, UsesBuses
from distprove.stark.air.definition import MAX_BUS_WIDTH, MAX_NAME
from distprove.stark.logup import BoundaryTerm, StatedTuples
from distprove.stark.output import OUTPUT_WIDTH
from distprove.stark.statement import Statement
from kernels.host.units import count_of

MAX_TABLES = 512
MAX_BYTES = 1 << 27
"""Maximum bytes of an encoded key."""


class CompiledTable(UsesBuses, Protocol):
    """A compiled table of either engine, as far as a key's own rules need it."""

    @property
    def preprocessed_width(self) -> int: ...

    @property
    def reads_public(self) -> bool: ...


class KeyParameters(Protocol):
    """Parameters of either engine."""

    def to_record(self) -> dict[str, Any]: ...


ParametersT = TypeVar("ParametersT", bound=KeyParameters)
TableT = TypeVar("TableT", bound=CompiledTable)
OptionalT = TypeVar("OptionalT")


@dataclass(frozen=True, repr=False)
class KeyFront(ABC, Generic[ParametersT, TableT, OptionalT]):
    """What the verifying keys of both engines hold."""

    program: str
    arguments: Mapping[str, int | str]
    params: ParametersT
    tables: tuple[TableT, ...]
    buses: tuple[tuple[str, str, int], ...]
    """Name, scope ("local" or "global") and width of each bus. A bus's number is its position, from one."""
    statement: Statement
    fixed_heights: tuple[int | None, ...]
    """log2 of the rows of each table that are the same in every proof, as preprocessed columns need; else None."""
    preprocessed_root: bytes
    """Root of the key's tree of preprocessed columns, 32 bytes; empty when there are none."""
    optional: tuple[OptionalT, ...]

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return (
            f"<{type(self).__name__}: {self.program}({named}), {count_of(len(self.tables), 'table')}, "
            f"{self.digest.hex()[:16]}...>"
        )

    @property
    @abstractmethod
    def digest(self) -> bytes:
        """Keccak-256 of the canonical encoding of the key, 32 bytes. It is bound into every transcript."""

    @property
    def anchored(self) -> bool:
        """Whether a table uses a global bus."""
        return any(t.global_width for t in self.tables)

    @property
    def needs_barrier(self) -> bool:
        """Whether the job's challenge is drawn from the commitments of all partitions. Where it is not, the plan tells
        it, and partitions are proven as they are committed."""
        return True

    @abstractmethod
    def to_record(self) -> dict[str, Any]:
        """The key as plain data, which its digest covers."""

    @classmethod
    @abstractmethod
    def from_record(cls, record: Any, what: str = "verifying key") -> KeyFront[ParametersT, TableT, OptionalT]:
        """Read what `to_record` wrote, and check everything that a verifier relies on. Raises FormatError."""

    def read_back(self) -> None:
        """Raise UsageError unless a verifier accepts the encoding of this key."""
        what = f"program {self.program}"
        try:
            data = canonical.encode(self.to_record())
            if len(data) > MAX_BYTES:
                raise UsageError(
                    f"{what}: its verifying key has {count_of(len(data), 'byte')}; at most {MAX_BYTES} are read"
                )
            self._read_own(canonical.decode(data, what), what)
        except FormatError as error:
            raise UsageError(str(error)) from None
        except (TypeError, ValueError) as error:  # an argument of another type, or beyond 64 bits
            raise UsageError(f"{what}: its verifying key cannot be written: {error}") from None

    def _read_own(self, record: Any, what: str) -> None:
        """`from_record` of this key's record."""
        self.from_record(record, what)

    @abstractmethod
    def check(self, what: str) -> None:
        """Raise FormatError unless the parts of the key fit each other."""

    @abstractmethod
    def named(self) -> dict[str, Any]:
        """The map by which a proof file names its key. A verifier makes the key again from it, or is given the key."""

    def is_named(self, named: Any) -> bool:
        """Whether `named`, from a proof file, names exactly this key, without any other argument."""
        return canonical.encode(named) == canonical.encode(self.named())

    def boundary_terms(self, publics: Sequence[Sequence[int]]) -> Iterator[BoundaryTerm]:
        """The tuples that the statement puts on the global buses, given the public values of all partitions."""
        for bus, values, times in self.statement.boundary_tuples(publics):
            yield BoundaryTerm(self.bus_numbers[bus], tuple(values), times)

    def stated(self, partitions: int) -> Iterator[StatedTuples]:
        """The number of these tuples for so many partitions, without their values."""
        for boundary in self.statement.boundary:
            count = partitions if boundary.where == "every" else 1
            yield self.bus_numbers[boundary.bus], len(boundary.values), boundary.times, count

    @property
    def output_bus(self) -> int | None:
        """Number of the bus on which the statement receives the job's output; None without one."""
        output = self.statement.output
        return None if output is None else self.bus_numbers[output.bus]

    @cached_property
    def bus_numbers(self) -> dict[str, int]:
        """Numbers of the buses by name, from one, as they stand in fingerprints."""
        return {name: number for number, (name, _, _) in enumerate(self.buses, start=1)}

    @abstractmethod
    def is_optional(self, table: int) -> bool:
        """Whether a partition may lack this table."""

    def check_front(self, what: str) -> None:
        """Raise FormatError unless tables, buses, statement and optional tables fit each other."""
        for table, height in zip(self.tables, self.fixed_heights, strict=True):
            if height is None and table.preprocessed_width:
                raise FormatError(f"{what}: table {table.name}: preprocessed columns without a fixed height")
            if table.public_count != self.statement.public_values:
                raise FormatError(f"{what}: table {table.name} was compiled for other public values")
            for use in table.uses:
                if self.bus_numbers.get(use.bus.name) != use.number or self.buses[use.number - 1] != bus_record(
                    use.bus
                ):
                    raise FormatError(f"{what}: table {table.name} uses a bus that the key declares otherwise")
        for boundary in self.statement.boundary:
            number = self.bus_numbers.get(boundary.bus)
            if number is None or self.buses[number - 1][1:] != ("global", len(boundary.values)):
                raise FormatError(f"{what}: the boundary's {boundary.bus} is not a global bus of its width")
        output = self.statement.output
        if output is not None and (output.bus, "global", OUTPUT_WIDTH) not in self.buses:
            raise FormatError(f"{what}: the output's {output.bus} is not a global bus of a place and a word")
        if len(self.bus_numbers) != len(self.buses):
            raise FormatError(f"{what}: two buses have the same name")
        if len({t.name for t in self.tables}) != len(self.tables):
            raise FormatError(f"{what}: two tables have the same name")
        for number, table in enumerate(self.tables):
            if self.is_optional(number) and table.reads_public:
                raise FormatError(
                    f"{what}: table {table.name} reads public values and is optional: nothing would hold of them in a "
                    "partition without it"
                )


def check_counts(record: Mapping[str, Any], what: str) -> None:
    """Raise FormatError for a key's record with arguments of another kind, or with too many tables or buses."""
    if not all(type(v) in (int, str) for v in record["arguments"].values()):
        raise FormatError(f"{what}: a program's arguments are integers and strings")
    if not 1 <= len(record["tables"]) <= MAX_TABLES:
        raise FormatError(f"{what}: a program has 1 to {MAX_TABLES} tables, not {len(record['tables'])}")
    if len(record["buses"]) > MAX_BUSES:
        raise FormatError(f"{what}: a program has at most {MAX_BUSES} buses, not {len(record['buses'])}")


def bus_record(bus: Bus) -> tuple[str, str, int]:
    """A bus as it stands in a key."""
    return bus.name, bus.scope, bus.width


def read_bus(record: Any, what: str) -> tuple[str, str, int]:
    """Read what `bus_record` made. Raises FormatError."""
    if fits(record, Row(str, str, int)):
        name, scope, width = record
        if 1 <= len(name) <= MAX_NAME and scope in SCOPES and 1 <= width <= MAX_BUS_WIDTH:
            return name, scope, width
    raise FormatError(f"{what}: not a bus: {record!r}")
