"""Reports what an AIR costs: widths, the degree of each constraint, interactions, instructions, quotient chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from distprove.stark.air.bounds import unconfirmed
from distprove.stark.air.compiled import CompiledAir
from distprove.stark.air.compiler import compile_definition, number_buses
from distprove.stark.air.definition import Air, Definition, Layout, Scope, trace_air
from distprove.stark.air.expression import MAIN, PREPROCESSED
from kernels.interface.row_program import Op, RowProgram

BLOWUPS = (2, 4, 8)


@dataclass(frozen=True)
class ConstraintReport:
    name: str
    kind: str
    """One of "always", "first", "last", "transition" and "logup"."""
    degree: int


@dataclass(frozen=True)
class InteractionReport:
    bus: str
    scope: Scope
    width: int
    direction: str
    at_most: int | None
    group: int
    """Index of the group whose auxiliary column the interaction shares."""


@dataclass(frozen=True)
class AirReport:
    """The costs of an AIR: widths in base field columns, and instructions per row of the extended domain by kind."""

    name: str
    main_columns: int
    preprocessed_columns: int
    auxiliary_columns: int
    public_values: int
    degree: int
    quotient_chunks: int
    """Number of quotient chunks, of three columns each."""
    blowups: tuple[int, ...]
    """The blow-ups among 2, 4 and 8 that are large enough for the quotient chunks."""
    constraints: tuple[ConstraintReport, ...]
    interactions: tuple[InteractionReport, ...]
    constraint_instructions: dict[str, int]
    interaction_instructions: dict[str, int]
    unread_columns: tuple[str, ...]
    """Main and preprocessed columns that no constraint and no interaction reads, so that a prover can fill them freely.
    """
    unconfirmed_bounds: tuple[str, ...]
    """Interactions with an `at_most` that no recognised constraint enforces (`distprove.stark.air.bounds`)."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON."""
        return asdict(self)


def report_airs(airs: Sequence[Air], layout: Layout | None = None) -> list[AirReport]:
    """Report on the tables of a program. Without `layout`, each table has only its own public values."""
    definitions = [trace_air(air, layout) for air in airs]
    numbers = number_buses(definitions)
    return [_report(definition, compile_definition(definition, numbers)) for definition in definitions]


def _report(definition: Definition, compiled: CompiledAir) -> AirReport:
    kinds = [constraint.kind for constraint in definition.constraints]
    kinds_of_all = [*kinds, *["logup"] * (len(compiled.constraint_names) - len(kinds))]
    groups = [index for index, group in enumerate(compiled.groups) for _ in range(group.size)]
    return AirReport(
        name=compiled.name,
        main_columns=compiled.main_width,
        preprocessed_columns=compiled.preprocessed_width,
        auxiliary_columns=compiled.aux_width,
        public_values=compiled.public_count,
        degree=compiled.degree,
        quotient_chunks=compiled.quotient_chunks,
        blowups=tuple(b for b in BLOWUPS if b >= compiled.quotient_chunks),
        constraints=tuple(
            ConstraintReport(*parts)
            for parts in zip(compiled.constraint_names, kinds_of_all, compiled.degrees, strict=True)
        ),
        interactions=tuple(
            InteractionReport(
                use.bus.name, use.bus.scope, use.bus.width, "send" if use.sends else "receive", use.at_most, group
            )
            for use, group in zip(compiled.uses, groups, strict=True)
        ),
        constraint_instructions=_instructions(compiled.constraints),
        interaction_instructions={} if compiled.interactions is None else _instructions(compiled.interactions),
        unread_columns=_unread(definition, compiled),
        unconfirmed_bounds=tuple(map(str, unconfirmed(definition))),
    )


def _instructions(program: RowProgram) -> dict[str, int]:
    """Count the instructions of each kind, with operations on the base field and on the extension apart."""
    counts: dict[str, int] = {}
    for (op, *_), extension in zip(program.code.tolist(), program.is_extension.tolist(), strict=True):
        name = Op(op).name.lower()
        if op >= Op.ADD and extension:
            name = f"extension {name}"
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def _unread(definition: Definition, compiled: CompiledAir) -> tuple[str, ...]:
    read = {(a, b) for program in compiled.programs for op, a, b, _ in program.code.tolist() if op == Op.LOAD}
    return tuple(
        prefix + name
        for matrix, prefix in ((MAIN, ""), (PREPROCESSED, "fixed."))
        for column, name in enumerate(definition.column_names(matrix))
        if (matrix, column) not in read
    )
