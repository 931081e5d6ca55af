"""Which tuples the rows of a trace send on a bus, from the AIR's own definition: what multiplicities are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus
from distprove.stark.air.definition import Layout, trace_air
from distprove.stark.air.lowering import lower
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_program import RowProgram

Words64 = NDArray[np.uint64]


class Sent:
    """The tuples that an AIR without preprocessed columns sends on a bus."""

    def __init__(self, air: Air, bus: Bus, layout: Layout) -> None:
        self._air, self.bus, self._layout = air, bus, layout
        self.table = air.name

    @cached_property
    def _program(self) -> RowProgram:
        definition = trace_air(self._air, self._layout)
        uses = [use for use in definition.interactions if use.bus == self.bus and use.sends]
        outputs = [node for use in uses for node in (use.times, *use.values)]
        scalars = definition.public_count
        widths = (0, sum(definition.main.values()))
        return lower(definition.graph, outputs, widths=widths, scalars=scalars)

    def tuples(self, backend: Backend, main: Array, public: Sequence[int]) -> Iterator[tuple[Words64, Words64]]:
        """For each of the AIR's sends its tuples, (width, n), and how often each is sent, (n,), on the host."""
        scalars = np.zeros((len(public), 3), dtype=np.uint64)
        scalars[:, 0] = public
        values = backend.goldilocks.evaluate(self._program, [None, main], scalars)
        host = backend.to_host(values).reshape(-1, self.bus.width + 1, main.shape[-1])
        for each in host:
            yield each[1:], each[0]
