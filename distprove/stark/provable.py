"""Checks whether a verifier would accept the proof of a job, as far as that can be told before its traces are made.

`prove` checks this when a job is made, and `air check` for the traces that it checks. They refuse only jobs that a
verifier would refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from distprove.errors import InputError, UsageError
from distprove.proof import MAX_BYTES
from distprove.stark import logup
from distprove.stark.air import Air, trace_air
from distprove.stark.air.check import BoundaryTuple
from distprove.stark.air.compiler import compile_definition, number_buses
from distprove.stark.air.definition import Layout
from distprove.stark.engine import FRI, AnyKey, engine_named, engine_of
from distprove.stark.heights import rows_of
from distprove.stark.key_front import bus_record
from distprove.stark.params import MAX_LOG_HEIGHT, Parameters
from distprove.stark.program import Program
from distprove.stark.statement import Boundary, Statement
from distprove.stark.trace_shape import misfit_of
from distprove.stark.verifying_key import VerifyingKey, made_key
from kernels.host.units import count_of, format_bytes

MOST_MEMORY = 1 << 42
"""Bytes that a partition may take on a device, at most, as lean as it can be proven. That a device is smaller is told
when the job is at work: a node with a larger one may join."""

Heights = Sequence[Sequence[int | None]]
"""log2 of each table's rows, None for an absent table, for each partition."""


def check_program(
    program: Program, params: Any, partitions: int, known: Heights | None = None, *, one_proof: bool = False
) -> None:
    """Raise UsageError or AirError for a job of `program` that no verifier would accept, whatever its traces are.
    `known` are the heights that its cut has told, `one_proof` says whether it ends in one proof."""
    engine = engine_of(params)
    key = engine.compile_key(program, params)
    try:
        heights = known or program.log_heights(partitions)
    except UsageError:  # the program does not tell its heights; provers check each trace
        check_sides(key)
        check_multiplicities(key, least_heights(key, partitions))
        return
    if len(heights) != partitions:
        raise UsageError(
            f"program {program.name}: heights are given of {count_of(len(heights), 'partition')} for {partitions}"
        )
    for each in dict.fromkeys(map(tuple, heights)):
        if not engine.heights_fit(key, each):
            raise UsageError(f"program {program.name}: log_heights, or its cut, is wrong: {misfit_of(key, each)}")
    check_job(key, heights, one_proof=one_proof)


def check_job(key: AnyKey, heights: Heights, *, one_proof: bool = False) -> None:
    """Raise UsageError unless partitions of these heights can be one job under `key`, which may end in one proof."""
    check_sides(key)
    check_multiplicities(key, heights)
    check_security(key, heights)
    check_devices(key, heights)
    if not one_proof:  # its file has no proof of a partition
        check_size(key, heights)


def check_devices(key: AnyKey, heights: Heights) -> None:
    """Raise UsageError for partitions one of which no device proves."""
    engine = engine_of(key)
    for kind in set(map(tuple, heights)):
        needed = engine.least_memory(key, kind)
        if needed > MOST_MEMORY:
            rows = ", ".join(
                f"2^{height} x {table.main_width}"
                for table, height in zip(key.tables, kind, strict=True)
                if height is not None
            )
            raise UsageError(
                f"a partition with tables of {rows} needs {format_bytes(needed)}, and no device has more than "
                f"{format_bytes(MOST_MEMORY)}: cut the job into more partitions"
            )


def check_size(key: AnyKey, heights: Heights) -> None:
    """Raise UsageError for partitions whose proofs no file holds."""
    kinds, engine = Counter(map(tuple, heights)), engine_of(key)
    size = sum(count * engine.proof_bytes(key, kind) for kind, count in kinds.items())
    if size > MAX_BYTES:
        raise UsageError(
            f"the proofs of {count_of(len(heights), 'partition')} take {size / (1 << 30):.1f} GiB together, and "
            f"no file of "
            f"more than {MAX_BYTES / (1 << 30):.0f} GiB is read: fewer partitions, or a larger blow-up"
        )


def check_security(key: AnyKey, heights: Heights) -> None:
    """Raise UsageError for partitions whose proofs would have fewer bits of security than the key requires."""
    reached = engine_of(key).security(key, heights).bits
    if reached < key.params.security_bits:
        raise UsageError(
            f"{count_of(key.params.queries, 'query gives', 'queries give')} {reached:.1f} bits of security at "
            f"these heights, and "
            f"{key.params.security_bits} are asked for"
        )


def check_heights(program: Program, made: Heights) -> None:
    """Raise UsageError or AirError for a job that `prove` refuses for the heights of its traces, `made`, under the
    parameters that it chooses by itself. A program that does not tell its heights needs a number of queries, and
    nothing is known of that."""
    engine = engine_named(FRI)
    try:
        told = program.log_heights(len(made))
    except UsageError:
        return
    params = engine.choose(program, len(made))
    check_program(program, params, len(made))
    key = engine.compile_key(program, params)
    for heights, each in zip(made, told, strict=True):
        check_made(key, heights, each)


def check_made(key: AnyKey, heights: Sequence[int | None], told: Sequence[int | None] | None) -> None:
    """Raise UsageError for a trace of heights that have fewer bits of security than the key requires. `told` are those
    for which the number of queries was chosen, if the program told them."""
    try:
        check_security(key, [heights])
    except UsageError as error:
        differs = (
            ""
            if told is None or tuple(told) == tuple(heights)
            else (f"; the trace has {rows_of(heights)} rows, and log_heights, or the cut, told of {rows_of(told)}")
        )
        raise UsageError(f"{error}{differs}") from None


def check_queries(key: AnyKey) -> None:
    """Raise UsageError if no partition would have the bits of security that the key requires, whatever its heights.

    Bits are not monotonic: more rows take some from sums over the trace, and add some to each query. Tables of
    different heights reach no more than tables that all have the greatest.
    """
    engine = engine_of(key)
    reached = 0.0
    for log_height in range(MAX_LOG_HEIGHT + 1):
        heights = tuple(
            None if key.is_optional(number) else log_height if height is None else height
            for number, height in enumerate(key.fixed_heights)
        )
        if engine.heights_fit(key, heights):
            reached = max(reached, engine.security(key, [heights]).bits)
            if reached >= key.params.security_bits:
                return
    raise UsageError(
        f"{count_of(key.params.queries, 'query gives', 'queries give')} at most {reached:.1f} bits of security, and "
        f"{key.params.security_bits} are asked for"
    )


def check_sides(key: AnyKey) -> None:
    """Raise UsageError for a bus on which tables and statement only send, or only receive."""
    sides: dict[str, set[bool]] = {}
    for use in (use for table in key.tables for use in table.uses):
        sides.setdefault(use.bus.name, set()).add(use.sends)
    stated = [(boundary.bus, boundary.times > 0) for boundary in key.statement.boundary]
    if key.statement.output is not None:
        stated.append((key.statement.output.bus, False))
    for bus, sends in stated:
        if bus not in sides:
            raise UsageError(f"bus {bus}: the statement has a tuple on it, and no table uses it")
        sides[bus].add(sends)
    for name, found in sides.items():
        if len(found) == 1:
            missing = "receives what is sent on it" if True in found else "sends what is received from it"
            raise UsageError(f"bus {name}: no table {missing}, nor does the boundary of a global bus")


def check_multiplicities(key: AnyKey, heights: Heights) -> None:
    """Raise UsageError when the boundary has too many tuples, or multiplicities could wrap around the field over all
    partitions and the boundary."""
    excess = key.statement.excess(len(heights))
    if excess is not None:
        raise UsageError(excess)
    try:
        logup.check_multiplicities(key.tables, heights, key.stated(len(heights)), key.output_bus)
    except InputError as error:
        raise UsageError(str(error)) from None


def least_heights(key: AnyKey, partitions: int) -> Heights:
    """The minimum heights of the tables of so many partitions: optional ones are absent."""
    lowest = getattr(key.params, "log_skip", 0)
    least = [
        None if key.is_optional(number) else lowest if height is None else height
        for number, height in enumerate(key.fixed_heights)
    ]
    return [least] * partitions


def tables_key(
    airs: Sequence[Air], layout: Layout, params: Parameters, boundary: Sequence[BoundaryTuple] = ()
) -> VerifyingKey:
    """Make the key of tables that belong to no program. Raises AirError, UsageError."""
    definitions = [trace_air(air, layout) for air in airs]
    numbers = number_buses(definitions)
    buses = {i.bus.name: i.bus for definition in definitions for i in definition.interactions}
    statement = Statement(
        public=tuple((name, count) for name, (_, count) in layout.items()),
        boundary=tuple(Boundary(term.bus.name, term.values, term.times, "first") for term in boundary),
    )
    return made_key(
        "tables",
        {},
        params,
        [compile_definition(definition, numbers) for definition in definitions],
        [bus_record(buses[name]) for name in numbers],
        statement,
    )
