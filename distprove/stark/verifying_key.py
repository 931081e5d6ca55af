"""The verifying key: everything a verifier must know, as plain data, and its digest.

A key holds the compiled AIRs themselves, so that a proof of any program verifies from the key alone; of preprocessed
columns it holds the root of their tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from distprove.errors import FormatError, UsageError
from distprove.formats import canonical
from distprove.proof import check_fields
from distprove.stark.air import CompiledAir
from distprove.stark.encoding import check_root
from distprove.stark.key_front import KeyFront, bus_record, check_counts, read_bus
from distprove.stark.merkle import TreeShape
from distprove.stark.params import MAX_BLOWUP, Parameters, check_log_height
from distprove.stark.program import Program
from distprove.stark.statement import Statement
from kernels.cpu.keccak import keccak256

VERSION = 2


class VerifyingKey(KeyFront[Parameters, CompiledAir, bytes | None]):
    """The verifying key of a program under given parameters. `preprocessed_root` is that of the tree of all required
    tables' columns. `optional` is for each table None if every partition has it; for one that may be absent the root of
    the tree of its own preprocessed columns, 32 bytes, or empty when it has none."""

    @cached_property
    def digest(self) -> bytes:
        return keccak256(b"distprove stark key" + canonical.encode(self.to_record()))

    def named(self) -> dict[str, Any]:
        arguments, params = dict(self.arguments), self.params.to_record()
        return {"version": VERSION, "program": self.program, "arguments": arguments, "params": params}

    def is_optional(self, table: int) -> bool:
        return self.optional[table] is not None

    @cached_property
    def preprocessed_trees(self) -> dict[int | None, tuple[int, ...]]:
        """The tables whose preprocessed columns each tree of the key holds: None stands for the tree that all required
        tables share; an optional table has a tree of its own, by its number, so that it can be left out of a proof."""
        fixed = [i for i, table in enumerate(self.tables) if table.preprocessed_width]
        shared = tuple(i for i in fixed if self.optional[i] is None)
        trees: dict[int | None, tuple[int, ...]] = {None: shared} if shared else {}
        return trees | {i: (i,) for i in fixed if self.optional[i] is not None}

    def root_of(self, tree: int | None) -> bytes:
        """The root of one of `preprocessed_trees`."""
        return self.preprocessed_root if tree is None else self.optional[tree] or b""

    def tree_shape(self, tree: int | None) -> TreeShape:
        """The shape of one of `preprocessed_trees`. Heights that are not known yet count as 0."""
        log_blowup = self.params.log_blowup
        return TreeShape(
            tuple(
                ((self.fixed_heights[i] or 0) + log_blowup, self.tables[i].preprocessed_width)
                for i in self.preprocessed_trees[tree]
            ),
            log_blowup,
            self.params.tree_hash,
        )

    def to_record(self) -> dict[str, Any]:
        record = {
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
        if any(root is not None for root in self.optional):  # others keep the encoding from before there were any
            record["optional"] = list(self.optional)
        return record

    @classmethod
    def from_record(cls, record: Any, what: str = "verifying key") -> VerifyingKey:
        """Read what `to_record` wrote, and check everything that a verifier relies on. Raises FormatError."""
        fields = {"version": int, "program": str, "arguments": dict, "params": dict, "tables": list, "buses": list}
        more = {"statement": dict, "fixed_heights": list, "preprocessed_root": bytes}
        optional = isinstance(record, dict) and "optional" in record
        check_fields(record, {**fields, **more, **({"optional": list} if optional else {})}, what)
        check_version(record["version"], what)
        check_counts(record, what)
        if optional and all(root is None for root in record["optional"]):  # one encoding of none
            raise FormatError(f"{what}: a list of optional tables without one")
        key = cls(
            record["program"],
            record["arguments"],
            Parameters.from_record(record["params"]),
            tuple(CompiledAir.from_record(t) for t in record["tables"]),
            tuple(read_bus(b, what) for b in record["buses"]),
            Statement.from_record(record["statement"], what),
            tuple(record["fixed_heights"]),
            record["preprocessed_root"],
            tuple(record["optional"] if optional else [None] * len(record["tables"])),
        )
        key.check(what)
        return key

    def check(self, what: str) -> None:
        """Raise FormatError unless the parts of the key fit each other."""
        params, fixed = self.params, self.fixed_heights
        if len(fixed) != len(self.tables) or len(self.optional) != len(self.tables):
            raise FormatError(f"{what}: one fixed height and one optional root, or none, for each table")
        self.check_front(what)
        for table, height in zip(self.tables, fixed, strict=True):
            if height is not None and not (type(height) is int and check_log_height(height, params)):
                raise FormatError(f"{what}: table {table.name}: not a height: {height!r}")
            if table.quotient_chunks > params.blowup:
                raise FormatError(f"{what}: table {table.name} needs a blow-up of {table.quotient_chunks}")
        for table, root in zip(self.tables, self.optional, strict=True):
            if root is None:
                continue
            if type(root) is not bytes or len(root) != (32 if table.preprocessed_width else 0):
                raise FormatError(f"{what}: table {table.name}: a root of 32 bytes for preprocessed columns, or none")
            if root:
                check_root(root, params.tree_hash, f"{what}: table {table.name}: the root of the preprocessed columns")
        if len(self.preprocessed_root) != (32 if None in self.preprocessed_trees else 0):
            raise FormatError(f"{what}: a root of 32 bytes for required tables' preprocessed columns, and none without")
        if self.preprocessed_root:
            check_root(self.preprocessed_root, params.tree_hash, f"{what}: the root of the preprocessed columns")


def compile_program(program: Program, params: Parameters) -> VerifyingKey:
    """Compile the key of a program, without the heights and the root of its preprocessed columns.

    Raises UsageError for a key that no verifier would accept, or for the height of a table that does not exist;
    AirError for tables that cannot be compiled.
    """
    buses = [bus_record(bus) for bus in program.buses]
    tables = program.compiled_tables
    return made_key(
        program.name,
        program.arguments,
        params,
        tables,
        buses,
        program.statement,
        dict(program.fixed_heights),
        program.optional,
    )


def made_key(
    program: str,
    arguments: Mapping[str, int | str],
    params: Parameters,
    tables: Sequence[CompiledAir],
    buses: Sequence[tuple[str, str, int]],
    statement: Statement,
    fixed_heights: Mapping[str, int] | None = None,
    optional: Sequence[str] = (),
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
    unknown = set(optional) - {table.name for table in tables}
    if isinstance(optional, str) or unknown:
        raise UsageError(f"program {program} says that {', '.join(sorted(unknown))} is optional, which is no table")
    roots = tuple(b"" if table.name in optional else None for table in tables)
    key = VerifyingKey(program, arguments, params, tuple(tables), tuple(buses), statement, fixed, b"", roots)
    # Preprocessed columns may not exist yet: any height and root stand in for theirs.
    stand_in = tuple(
        0 if height is None and table.preprocessed_width else height
        for table, height in zip(tables, fixed, strict=True)
    )
    with_roots(replace(key, fixed_heights=stand_in), dict.fromkeys(key.preprocessed_trees, bytes(32))).read_back()
    return key


def with_roots(key: VerifyingKey, roots: Mapping[int | None, bytes]) -> VerifyingKey:
    """The key with these roots of its `preprocessed_trees`."""
    changes: dict[str, Any] = {"preprocessed_root": roots.get(None, b"")}
    changes["optional"] = tuple(roots.get(i, root) for i, root in enumerate(key.optional))
    return replace(key, **changes)


def check_version(version: int, what: str) -> None:
    """Raise FormatError for a key or a proof (`what`) of another version of the protocol."""
    if version != VERSION:
        raise FormatError(
            f"{what}: made under version {version} of the STARK protocol; this distprove knows version {VERSION}: "
            "prove it again"
        )
