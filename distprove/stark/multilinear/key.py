"""The verifying key of the multilinear engine: rules, statement and parameters as plain data, and its digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from distprove.errors import FormatError, UsageError
from distprove.formats import canonical
from distprove.proof import check_fields
from distprove.stark.encoding import check_root
from distprove.stark.key_front import KeyFront, bus_record, check_counts, read_bus
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.params import Parameters, check_log_height
from distprove.stark.multilinear.stacking import Stack
from distprove.stark.program import Program, preprocessed_columns
from distprove.stark.statement import Statement
from kernels.cpu.keccak import keccak256

ENGINE = "multilinear"
VERSION = 2


class MultilinearKey(KeyFront[Parameters, Rules, bool]):
    """The verifying key of a program under the multilinear engine. `optional` says which tables may be absent.
    `preprocessed_root` is that of the one stack of all preprocessed columns."""

    @cached_property
    def digest(self) -> bytes:
        return keccak256(b"distprove multilinear key" + canonical.encode(self.to_record()))

    def named(self) -> dict[str, Any]:
        named = {"engine": ENGINE, "version": VERSION, "program": self.program, "arguments": dict(self.arguments)}
        return {**named, "params": self.params.to_record()}

    def is_optional(self, table: int) -> bool:
        return self.optional[table]

    @property
    def needs_barrier(self) -> bool:
        """Whether the key has a global bus, as every statement with a boundary or an output needs."""
        return any(scope == "global" for _, scope, _ in self.buses)

    @cached_property
    def preprocessed(self) -> Stack:
        """The stack of the preprocessed columns, whose tables all have a fixed height."""
        tables = zip(self.fixed_heights, self.tables, strict=True)
        given = [(i, height or 0, t.preprocessed_width) for i, (height, t) in enumerate(tables)]
        return Stack.of(given, self.params.log_skip, self.params.log_columns)

    def to_record(self) -> dict[str, Any]:
        return {
            **self.named(),
            "tables": [t.to_record() for t in self.tables],
            "buses": [list(b) for b in self.buses],
            "statement": self.statement.to_record(),
            "fixed_heights": list(self.fixed_heights),
            "preprocessed_root": self.preprocessed_root,
            "optional": list(self.optional),
        }

    @classmethod
    def from_record(
        cls, record: Any, what: str = "verifying key", tables: Sequence[Rules] | None = None
    ) -> MultilinearKey:
        """Read what `to_record` wrote, and check everything that a verifier relies on. `tables` are those of the record
        where they were read already. Raises FormatError."""
        fields = {"engine": str, "version": int, "program": str, "arguments": dict, "params": dict, "tables": list}
        more = {"buses": list, "statement": dict, "fixed_heights": list, "preprocessed_root": bytes, "optional": list}
        check_fields(record, {**fields, **more}, what)
        check_engine(record["engine"], record["version"], what)
        check_counts(record, what)
        key = cls(
            record["program"],
            record["arguments"],
            Parameters.from_record(record["params"]),
            tuple(map(Rules.from_record, record["tables"]) if tables is None else tables),
            tuple(read_bus(b, what) for b in record["buses"]),
            Statement.from_record(record["statement"], what),
            tuple(record["fixed_heights"]),
            record["preprocessed_root"],
            tuple(record["optional"]),
        )
        key.check(what)
        return key

    def _read_own(self, record: Any, what: str) -> None:
        self.from_record(record, what, [table.read_back for table in self.tables])

    def check(self, what: str) -> None:
        """Raise FormatError unless the parts of the key fit each other."""
        if len(self.fixed_heights) != len(self.tables) or len(self.optional) != len(self.tables):
            raise FormatError(f"{what}: one fixed height and one mark of optional tables, or none, for each table")
        if not all(type(optional) is bool for optional in self.optional):
            raise FormatError(f"{what}: marks of optional tables that are no booleans")
        for table, height in zip(self.tables, self.fixed_heights, strict=True):
            if height is not None and not (type(height) is int and check_log_height(height, self.params)):
                raise FormatError(f"{what}: table {table.name}: not a height: {height!r}")
        self.check_front(what)
        if self.params.places is not None and self.statement.output is None:
            raise FormatError(f"{what}: its jobs have no output, which a contract reads (places)")
        fixed = any(t.preprocessed_width for t in self.tables)
        if len(self.preprocessed_root) != (32 if fixed else 0):
            raise FormatError(f"{what}: a root of 32 bytes for preprocessed columns, and none without")
        if fixed:
            check_root(self.preprocessed_root, self.params.tree_hash, f"{what}: the root of the preprocessed columns")


def check_engine(engine: str, version: int, what: str) -> None:
    """Raise FormatError for a key or a proof (`what`) of another engine or version."""
    if engine != ENGINE:
        raise FormatError(f"{what}: of the engine {engine!r}, which this distprove does not have")
    if version != VERSION:
        raise FormatError(
            f"{what}: made under version {version} of the multilinear protocol; this distprove knows version "
            f"{VERSION}: prove it again"
        )


def compile_key(program: Program, params: Parameters) -> MultilinearKey:
    """Compile the key of a program, without the root of its preprocessed columns. Their heights are part of the layout,
    so the columns are made here if the program does not tell these (`Program.fixed_heights`).

    Raises UsageError for a key that no verifier would accept, or for the height of a table that does not exist;
    AirError for tables that cannot be compiled.
    """
    tables = program.rules
    heights = dict(program.fixed_heights)
    if any(table.preprocessed_width and table.name not in heights for table in tables):
        columns = zip(tables, preprocessed_columns(program), strict=True)
        heights = {t.name: int(m.shape[1]).bit_length() - 1 for t, m in columns if m is not None} | heights
    fixed = tuple(heights.pop(table.name, None) for table in tables)
    if heights:
        raise UsageError(
            f"program {program.name} fixes the height of {', '.join(heights)}, which is none of its tables"
        )
    names = {table.name for table in tables}
    if isinstance(program.optional, str) or set(program.optional) - names:
        raise UsageError(f"program {program.name} says that a table is optional which is none of its tables")
    key = MultilinearKey(
        program.name,
        program.arguments,
        params,
        tables,
        tuple(bus_record(bus) for bus in program.buses),
        program.statement,
        fixed,
        b"",
        tuple(table.name in program.optional for table in tables),
    )
    (with_root(key, bytes(32)) if any(t.preprocessed_width for t in tables) else key).read_back()
    return key


def with_root(key: MultilinearKey, root: bytes) -> MultilinearKey:
    """The key with this root of the preprocessed columns."""
    changes: dict[str, Any] = {"preprocessed_root": root}
    return replace(key, **changes)


def with_params(key: MultilinearKey, params: Parameters) -> MultilinearKey:
    """The key under other parameters. The root is not theirs."""
    changes: dict[str, Any] = {"params": params}
    return replace(key, **changes)


def with_arguments(key: MultilinearKey, arguments: Mapping[str, int | str]) -> MultilinearKey:
    """The key with these arguments, which may name its root and heights."""
    changes: dict[str, Any] = {"arguments": arguments}
    return replace(key, **changes)
