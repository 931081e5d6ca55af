"""What OpenVM's prover takes of a GPU's memory, at any size, on a device that launches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest import mock

import numpy as np

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.traces import AirTrace, StagedTrace
from distprove.stark.openvm.transcript import Transcript
from kernels.cuda.backend import CudaBackend
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from tests.support.dry_device import DryDevice, PeakSteps


@dataclass(frozen=True)
class DryTrace(AirTrace):
    """A trace whose columns are nowhere. It takes the device's memory as others do."""

    device: DryDevice = field(repr=False)

    def load(self, kernels: OpenVmKernels) -> Array:
        return self.device.empty(self.common.shape, np.uint32)


def measured(key: OpenVmKey, heights: Sequence[int | None], *, staged: bool = False) -> dict[str, int]:
    """The most bytes in use at each step of a proof of zeros, whose traces may be staged first. `heights` has log2 of
    the rows of each AIR's trace; the AIRs have common columns alone."""
    device = DryDevice()
    traces = list[AirTrace]()
    for number, (air, height) in enumerate(zip(key.airs, heights, strict=True)):
        assert len(air.part_widths) == 1, "a part would be hashed, and have another root"
        if height is not None:
            columns = np.broadcast_to(np.uint32(0), (air.widths.common, 1 << height))
            traces.append(DryTrace(number, (0,) * air.public_values, columns, (), device))
    steps = PeakSteps(device=device)
    with CudaBackend(device) as backend, mock.patch.object(Transcript, "grind", return_value=0):
        if staged:
            traces = [StagedTrace.of(trace, backend) for trace in traces]
        prove(backend.openvm, key, traces, steps)
    return steps.peaks
