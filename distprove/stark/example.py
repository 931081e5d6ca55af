"""A program's own traces as an example that the debug check can take."""

from __future__ import annotations

from distprove.errors import InputError
from distprove.stark.air import BoundaryTuple, Example, PartitionTrace
from distprove.stark.program import Program
from kernels.backend import Backend


def program_example(program: Program, partitions: int, backend: Backend) -> Example:
    """The traces that `program` makes for a job of so many partitions, with its boundary.

    Raises InputError when the public values do not satisfy the program's statement.
    """
    layout = program.statement.layout()
    traces, publics = [], []
    for part in program.slices(partitions):
        inputs = {name: backend.to_device(array) for name, array in program.inputs(part.source).items()}
        trace = program.trace(inputs, backend)
        named = {name: trace.public[offset : offset + count] for name, (offset, count) in layout.items()}
        traces.append(PartitionTrace([backend.to_host(columns) for columns in trace.main], named))
        publics.append(trace.public)
    violation = program.statement.violation(publics)
    if violation is not None:
        raise InputError(f"{program.name}: its statement does not hold of its own traces: {violation}")
    fixed = program.preprocessed()
    buses = {bus.name: bus for bus in program.buses}
    return Example(
        airs=list(program.tables),
        partitions=traces,
        preprocessed=[fixed.get(air.name) for air in program.tables],
        boundary=[
            BoundaryTuple(buses[bus], tuple(values), times)
            for bus, values, times in program.statement.boundary_tuples(publics)
        ],
    )
