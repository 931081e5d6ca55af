"""The verifying key: everything a verifier must know, as plain data, and its digest.

A key holds the compiled AIRs themselves, so that a proof of any program verifies from the key alone; of preprocessed
columns it holds the root of their tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from distprove.errors import FormatError, UsageError
from distprove.formats import canonical
from distprove.proof import check_fields
from distprove.stark.air import Bus, CompiledAir
from distprove.stark.air.compiled import MAX_BUSES, SCOPES
from distprove.stark.air.definition import MAX_BUS_WIDTH, MAX_NAME
from distprove.stark.logup import BoundaryTerm
from distprove.stark.merkle import TreeShape
from distprove.stark.params import MAX_BLOWUP, Parameters, check_log_height
from distprove.stark.program import Program
from distprove.stark.statement import Statement
from kernels.cpu.keccak import keccak256

VERSION = 2
MAX_TABLES = 64
MAX_BYTES = 1 << 27
"""Maximum bytes of an encoded key."""


@dataclass(frozen=True, repr=False)
class VerifyingKey:
    """The verifying key of a program under given parameters. `digest` binds all of it into every transcript."""

    program: str
    arguments: Mapping[str, int | str]
    params: Parameters
    tables: tuple[CompiledAir, ...]
    buses: tuple[tuple[str, str, int], ...]
    """Name, scope ("local" or "global") and width of each bus. A bus's number is its position, from one."""
    statement: Statement
    fixed_heights: tuple[int | None, ...]
    """log2 of the rows of each table that are the same in every proof, as preprocessed columns need; else None."""
    preprocessed_root: bytes
    """Root of the preprocessed columns' tree, 32 bytes; empty when no table has preprocessed columns."""

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"<VerifyingKey: {self.program}({named}), {len(self.tables)} tables, {self.digest.hex()[:16]}...>"

    @cached_property
    def digest(self) -> bytes:
        """Keccak-256 of the canonical encoding of the key, 32 bytes."""
        return keccak256(b"distprove stark key" + canonical.encode(self.to_record()))

    @property
    def anchored(self) -> bool:
        """Whether a table uses a global bus, so that main traces are anchored before the bus's challenge is drawn."""
        return any(t.has_global for t in self.tables)

    def named(self) -> dict[str, Any]:
        """The map by which a proof file names its key. A verifier makes the key again from it, or is given the key."""
        arguments, params = dict(self.arguments), self.params.to_record()
        return {"version": VERSION, "program": self.program, "arguments": arguments, "params": params}

    def is_named(self, named: Any) -> bool:
        """Whether `named`, from a proof file, names exactly this key, without any other argument."""
        return canonical.encode(named) == canonical.encode(self.named())

    def tree_shape(self, widths: Sequence[int], log_heights: Sequence[int]) -> TreeShape | None:
        """The shape of the tree over one matrix per table, without those of width 0; None if all have width 0."""
        matrices = [(h + self.params.log_blowup, w) for h, w in zip(log_heights, widths, strict=True) if w]
        return TreeShape(tuple(matrices)) if matrices else None

    def to_record(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "program": self.program,
            "arguments": dict(self.arguments),
            "params": self.params.to_record(),
            "tables": [t.to_record() for t in self.tables],
            "buses": [list(b) for b in self.buses],
            "statement": self.statement.to_record(),
            "fixed_heights": list(self.fixed_heights),
            "preprocessed_root": self.preprocessed_root,
        }

    @classmethod
    def from_record(cls, record: Any, what: str = "verifying key") -> VerifyingKey:
        """Read what `to_record` wrote, and check everything that a verifier relies on. Raises FormatError."""
        fields = {"version": int, "program": str, "arguments": dict, "params": dict, "tables": list, "buses": list}
        more = {"statement": dict, "fixed_heights": list, "preprocessed_root": bytes}
        check_fields(record, {**fields, **more}, what)
        check_version(record["version"], what)
        if not all(type(v) in (int, str) for v in record["arguments"].values()):
            raise FormatError(f"{what}: a program's arguments are integers and strings")
        if not 1 <= len(record["tables"]) <= MAX_TABLES:
            raise FormatError(f"{what}: a program has 1 to {MAX_TABLES} tables, not {len(record['tables'])}")
        if len(record["buses"]) > MAX_BUSES:
            raise FormatError(f"{what}: a program has at most {MAX_BUSES} buses, not {len(record['buses'])}")
        key = cls(
            record["program"],
            record["arguments"],
            Parameters.from_record(record["params"]),
            tuple(CompiledAir.from_record(t) for t in record["tables"]),
            tuple(_bus(b, what) for b in record["buses"]),
            Statement.from_record(record["statement"], what),
            tuple(record["fixed_heights"]),
            record["preprocessed_root"],
        )
        key.check(what)
        return key

    def boundary_terms(self, publics: Sequence[Sequence[int]]) -> list[BoundaryTerm]:
        """The tuples that the statement puts on the global buses, given the public values of all partitions."""
        return [
            BoundaryTerm(self.bus_numbers[bus], tuple(values), times)
            for bus, values, times in self.statement.boundary_tuples(publics)
        ]

    @cached_property
    def bus_numbers(self) -> dict[str, int]:
        """Numbers of the buses by name, from one, as they stand in fingerprints."""
        return {name: number for number, (name, _, _) in enumerate(self.buses, start=1)}

    def check(self, what: str) -> None:
        """Raise FormatError unless the parts of the key fit each other."""
        params, fixed = self.params, self.fixed_heights
        if len(fixed) != len(self.tables):
            raise FormatError(f"{what}: one fixed height, or none, for each table")
        for table, height in zip(self.tables, fixed, strict=True):
            if height is None and table.preprocessed_width:
                raise FormatError(f"{what}: table {table.name}: preprocessed columns without a fixed height")
            if height is not None and not (type(height) is int and check_log_height(height, params)):
                raise FormatError(f"{what}: table {table.name}: not a height: {height!r}")
            if table.quotient_chunks > params.blowup:
                raise FormatError(f"{what}: table {table.name} needs a blow-up of {table.quotient_chunks}")
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
        if len(self.bus_numbers) != len(self.buses):
            raise FormatError(f"{what}: two buses have the same name")
        if len({t.name for t in self.tables}) != len(self.tables):
            raise FormatError(f"{what}: two tables have the same name")
        if len(self.preprocessed_root) != (32 if any(t.preprocessed_width for t in self.tables) else 0):
            raise FormatError(f"{what}: a root of 32 bytes for preprocessed columns, and none without")


def compile_program(program: Program, params: Parameters) -> VerifyingKey:
    """Compile the key of a program, without the heights and the root of its preprocessed columns.

    Raises UsageError for a key that no verifier would accept, or for the height of a table that does not exist;
    AirError for tables that cannot be compiled.
    """
    buses = [bus_record(bus) for bus in program.buses]
    tables = program.compiled_tables
    return made_key(
        program.name, program.arguments, params, tables, buses, program.statement, dict(program.fixed_heights)
    )


def made_key(
    program: str,
    arguments: Mapping[str, int | str],
    params: Parameters,
    tables: Sequence[CompiledAir],
    buses: Sequence[tuple[str, str, int]],
    statement: Statement,
    fixed_heights: Mapping[str, int] | None = None,
) -> VerifyingKey:
    """Make a key from its parts, without the heights and the root of preprocessed columns. Raises UsageError for a key
    that no verifier would accept."""
    for table in tables:
        degree, name = max(zip(table.degrees, table.constraint_names, strict=True), key=itemgetter(0))
        if table.quotient_chunks > params.blowup:
            raise UsageError(
                f"table {table.name}: constraint {name} has degree {degree}, which needs a blow-up of at least "
                f"{table.quotient_chunks}; it is {params.blowup}, and {MAX_BLOWUP} at most"
            )
    heights = dict(fixed_heights or {})
    fixed = tuple(heights.pop(table.name, None) for table in tables)
    if heights:
        raise UsageError(f"program {program} fixes the height of {', '.join(heights)}, which is none of its tables")
    key = VerifyingKey(program, arguments, params, tuple(tables), tuple(buses), statement, fixed, b"")
    # Preprocessed columns may not exist yet: any height and root stand in for theirs.
    stand_in = tuple(
        0 if height is None and table.preprocessed_width else height
        for table, height in zip(tables, fixed, strict=True)
    )
    root = bytes(32) if any(table.preprocessed_width for table in tables) else b""
    read_back(replace(key, fixed_heights=stand_in, preprocessed_root=root))
    return key


def check_version(version: int, what: str) -> None:
    """Raise FormatError for a key or a proof (`what`) of another version of the protocol."""
    if version != VERSION:
        why = ", whose global buses could be forged: prove it again" if version == 1 else ""
        raise FormatError(
            f"{what}: made under version {version} of the STARK protocol{why}; this distprove knows version {VERSION}"
        )


def read_back(key: VerifyingKey) -> None:
    """Raise UsageError unless a verifier accepts the encoding of this key."""
    what = f"program {key.program}"
    try:
        data = canonical.encode(key.to_record())
        if len(data) > MAX_BYTES:
            raise UsageError(f"{what}: its verifying key has {len(data)} bytes; at most {MAX_BYTES} are read")
        VerifyingKey.from_record(canonical.decode(data, what), what)
    except FormatError as error:
        raise UsageError(str(error)) from None
    except (TypeError, ValueError) as error:  # an argument of another type, or beyond 64 bits
        raise UsageError(f"{what}: its verifying key cannot be written: {error}") from None


def bus_record(bus: Bus) -> tuple[str, str, int]:
    return bus.name, bus.scope, bus.width


def _bus(record: Any, what: str) -> tuple[str, str, int]:
    good = isinstance(record, list) and len(record) == 3 and [type(v) for v in record] == [str, str, int]
    if good:
        name, scope, width = record
        if 1 <= len(name) <= MAX_NAME and scope in SCOPES and 1 <= width <= MAX_BUS_WIDTH:
            return name, scope, width
    raise FormatError(f"{what}: not a bus: {record!r}")
