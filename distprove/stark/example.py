"""Makes a program's own traces into an example for the debug check of AIRs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from distprove.errors import InputError
from distprove.stark.air.check import BoundaryTuple, Example, PartitionTrace
from distprove.stark.program import Program, Trace
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


def program_example(program: Program, partitions: int, backend: Backend) -> Example:
    """The example of `program` for a job of so many partitions: the traces that it makes, with its boundary.

    Raises InputError when the public values do not satisfy the program's statement.
    """
    traces, publics = [], []
    for part in program.slices(partitions):
        trace = program.trace(on_device(program.inputs(part.source), backend), backend)
        traces.append(partition_trace(program, trace, backend))
        publics.append(trace.public)
    violation = program.statement.violation(publics)
    if violation is not None:
        raise InputError(f"{program.name}: its statement does not hold of its own traces: {violation}")
    buses = {bus.name: bus for bus in program.buses}
    return Example(
        airs=list(program.tables),
        partitions=traces,
        preprocessed=fixed_columns(program),
        boundary=[
            BoundaryTuple(buses[bus], tuple(values), times)
            for bus, values, times in program.statement.boundary_tuples(publics)
        ],
    )


def partition_trace(program: Program, trace: Trace, backend: Backend) -> PartitionTrace:
    """Convert a trace to the form of the debug check: columns on the host, public values by name."""
    layout = program.statement.layout()
    named = {name: trace.public[offset : offset + count] for name, (offset, count) in layout.items()}
    return PartitionTrace([backend.to_host(columns) for columns in trace.main], named)


def fixed_columns(program: Program) -> list[NDArray[Any] | None]:
    """The preprocessed columns of each table; None for a table without."""
    fixed = program.preprocessed()
    return [fixed.get(air.name) for air in program.tables]


def on_device(inputs: Mapping[str, NDArray[Any]], backend: Backend) -> dict[str, Array]:
    """Copy a partition's inputs to the backend's memory."""
    return {name: backend.to_device(array) for name, array in inputs.items()}
