"""Asks a program for slices and inputs, and makes its traces into an example for the debug check of AIRs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError, UsageError
from distprove.formats.names import is_name
from distprove.formats.owncode import own_faults
from distprove.proof import MAX_OUTPUT
from distprove.stark.air.check import BoundaryTuple, Example, PartitionTrace
from distprove.stark.output import output_public, output_stream
from distprove.stark.program import (
    SHOWN_BY,
    Cut,
    Fits,
    Program,
    Slice,
    Trace,
    preprocessed_columns,
    whole_trace,
)
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


def program_example(
    program: Program,
    partitions: int | None,
    backend: Backend,
    check: Callable[[Trace], object] = lambda trace: None,
    *,
    secret: bool = False,
) -> Example:
    """The example of `program` for a job of so many partitions, or as many as it chooses: the traces that it makes,
    with its boundary. `check` may refuse a trace. With `secret` no message quotes an input.

    Raises AirError for a trace of a wrong shape, InputError when the public values do not satisfy the program's
    statement, and CodeFault, whose message may quote the inputs unless `secret`.
    """
    traces, publics = [], []
    fixed = fixed_columns(program)
    made = cut(program, partitions, secret=secret)
    for part in made.slices:
        inputs = read_inputs(program, part.source, secret=secret)
        with own_faults(program.__module__, secret=secret, told_by=SHOWN_BY):
            trace = whole_trace(program, on_device(inputs, backend), placed(fixed, backend), backend)
        check(trace)
        traces.append(partition_trace(program, trace, backend))
        publics.append(trace.public)
    violation = program.statement.violation(publics)
    if violation is not None:
        raise InputError(f"{program.name}: its statement does not hold of its own traces: {violation}")
    buses = {bus.name: bus for bus in program.buses}
    boundary = [
        BoundaryTuple(buses[bus], tuple(values), times)
        for bus, values, times in program.statement.boundary_tuples(publics)
    ]
    output = program.statement.output
    if output is not None and made.output is not None:
        if program.statement.output_public(publics[0]) != output_public(made.output):
            raise InputError(f"{program.name}: {output.length} and {output.digest} are not those of its output")
        words = output_stream(made.output).tolist()
        boundary += [BoundaryTuple(buses[output.bus], tuple(pair), -1) for pair in enumerate(words)]
    return Example(list(program.tables), traces, fixed, boundary, program.definitions)


def cut(program: Program, partitions: int | None, fits: Fits = lambda heights: True, *, secret: bool = True) -> Cut:
    """The job of a program, cut into so many partitions, or for None as many as the program chooses. Raises UsageError
    unless there are as many, of names that can be those of different files, and CodeFault for an error in a user's
    program. With `secret` that message quotes no input."""
    with own_faults(program.__module__, secret=secret, told_by=SHOWN_BY):
        made = program.cut(partitions, fits)
        slices = list(made.slices)
    called = f"program {program.name}: {'its cut' if partitions is None else f'slices({partitions})'}"
    for part in slices:
        if not isinstance(part, Slice):
            raise UsageError(f"{called} gave a {type(part).__name__} where a Slice is expected")
        if not is_name(part.name):
            raise UsageError(f"{called} gave a partition the name {part.name!r}, which cannot be that of a file")
    if not slices or len(slices) != (partitions or len(slices)):
        raise UsageError(
            f"{called} gave {count_of(len(slices), 'partition')}, and {partitions or 'some'} are asked for"
        )
    (name, times), *_ = Counter(part.name.lower() for part in slices).most_common(1)
    if times > 1:
        raise UsageError(
            f"{called} gave {count_of(times, 'partition')} the name {name!r}, apart from upper and lower case"
        )
    return Cut(slices, made.log_heights, checked_output(program, made.output), made.exit_code)


def checked_output(program: Program, output: bytes | None) -> bytes | None:
    """The output of a job of `program`. Raises UsageError for one that its statement does not have, or that is missing
    or too long."""
    if (program.statement.output is None) != (output is None):
        states, gave = ("no", "one") if output is not None else ("an", "none")
        raise UsageError(f"program {program.name}: its statement has {states} output, and its cut gave {gave}")
    if output is not None and not isinstance(output, bytes):
        raise UsageError(f"program {program.name}: an output is bytes, not a {type(output).__name__}")
    if output is not None and len(output) > MAX_OUTPUT:
        raise UsageError(f"program {program.name}: an output of {count_of(len(output), 'byte')}; {MAX_OUTPUT} at most")
    return output


class Counted(NamedTuple):
    """The size of a job, and the exit code that it will state."""

    partitions: int
    log_heights: Sequence[Sequence[int | None]] | None
    """log2 of the rows of each partition's tables, as the job's cut tells them; None where it was not cut."""
    exit_code: int | None = None
    """None where the job was not cut, or states none."""


def counted(program: Program, partitions: int | None, *, level: Callable[[Program, Cut], Cut] | None = None) -> Counted:
    """The size of a job. A program that knows it only when it was cut is cut; any other has one partition by default.
    `level` changes the cut, as a job does that ends in one proof. Raises UsageError and CodeFault."""
    if not program.cuts_itself and level is None:
        return Counted(partitions or 1, None)
    made = cut(program, partitions)
    made = made if level is None else level(program, made)
    return Counted(len(made.slices), made.log_heights, made.exit_code)


def read_inputs(program: Program, source: Mapping[str, Any], *, secret: bool = True) -> dict[str, NDArray[Any]]:
    """The inputs of a slice. Raises InputError for what is no array, and CodeFault for an error in a user's program.
    With `secret` no message quotes an input."""
    with own_faults(program.__module__, secret=secret, told_by=SHOWN_BY):
        arrays = program.inputs(source)
    if not isinstance(arrays, Mapping):
        raise InputError(f"program {program.name}: inputs gave a {type(arrays).__name__}, not a mapping to arrays")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"program {program.name}: inputs gave {name!r} as a {type(array).__name__}, not an array")
    return dict(arrays)


def partition_trace(program: Program, trace: Trace, backend: Backend) -> PartitionTrace:
    """Convert a trace to the form of the debug check: columns on the host, public values by name."""
    layout = program.statement.layout()
    named = {name: trace.public[offset : offset + count] for name, (offset, count) in layout.items()}
    return PartitionTrace([None if m is None else backend.to_host(m) for m in trace.main], named)


def fixed_columns(program: Program) -> list[NDArray[Any] | None]:
    """The preprocessed columns of each table; None for a table without. Raises AirError, and CodeFault."""
    with own_faults(program.__module__):
        return preprocessed_columns(program)


def placed(fixed: Sequence[NDArray[Any] | None], backend: Backend) -> Callable[[int], Array | None]:
    """Gives the columns of `fixed_columns` in the backend's memory, as `whole_trace` asks for them."""

    def columns(table: int) -> Array | None:
        matrix = fixed[table]
        return None if matrix is None else backend.to_device(np.ascontiguousarray(matrix, np.uint64))

    return columns


def on_device(inputs: Mapping[str, NDArray[Any]], backend: Backend) -> dict[str, Array]:
    """Copy a partition's inputs to the backend's memory."""
    return {name: backend.to_device(array) for name, array in inputs.items()}
