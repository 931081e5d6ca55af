"""Claims about stacked columns on the GPU's kernels against those of the CPU, whose proofs stark-backend judges.

The kernels of the GPU run on the host, where a C++ compiler is installed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from distprove.stark.openvm.transcript import Transcript
from kernels.cpu.backend import CpuBackend
from kernels.cpu.openvm.stacking import CpuStacking
from kernels.cuda.openvm.kernels import CudaOpenVm
from kernels.interface.openvm_stacking import StackedPiece, StackingKernels
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.numpy_babybear import drawn

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuStacking]:
    backend = CpuBackend(threads=2)
    yield CpuStacking(backend.babybear)
    backend.close()


Sizes = list[list[tuple[int, int, bool]]]
"""Width, log2 of the rows and whether next rows are claimed, for each piece of each stack."""


def stacked(log_skip: int, n_stack: int, sizes: Sizes) -> tuple[list[StackedPiece], list[int]]:
    """Pieces one behind another, and the stacks' widths."""
    pieces, widths, claim, kinds = [], [], 0, list[int]()
    for number, of_stack in enumerate(sizes):
        start = 0
        for width, log_rows, reads_next in of_stack:
            if log_rows not in kinds:
                kinds.append(log_rows)
            pieces.append(StackedPiece(number, start, width, log_rows, kinds.index(log_rows), claim, reads_next))
            start, claim = start + (width << log_rows), claim + width
        widths.append(-(-start >> (log_skip + n_stack)))
    return pieces, widths


CASES: dict[str, tuple[int, int, Sizes]] = {
    "one cell": (0, 0, [[(1, 0, False)]]),
    "no rounds": (2, 0, [[(3, 2, True)]]),
    "one round": (1, 1, [[(1, 2, True), (1, 1, False)]]),
    "runs of one": (0, 9, [[(2, 9, True), (5, 3, True)], [(1, 0, False)]]),
    "long runs": (8, 3, [[(3, 11, True), (2, 9, True), (5, 8, False)]]),
    "a wide trace of few rows": (4, 6, [[(300, 4, True), (7, 4, True)], [(90, 5, False)]]),
    "tall traces": (
        4,
        8,
        [[(9, 12, True), (70, 9, True), (66, 8, False), (3, 7, True)], [(1, 12, False)], [(65, 4, True)]],
    ),
    "a stack without columns": (2, 4, [[], [(5, 3, True)]]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_claims_as_on_the_cpu(name: str, cpu: CpuStacking) -> None:
    log_skip, n_stack, sizes = CASES[name]
    pieces, widths = stacked(log_skip, n_stack, sizes)
    device = EmulatedDevice(sm_count=3)
    gpu = CudaOpenVm(device)
    host = [drawn(width, 1 << (log_skip + n_stack)) for width in widths]
    point, batch, at_rows = list(drawn(n_stack, 4)), drawn(1, 4)[0], drawn(1 << log_skip, 4)
    factors = drawn(1 + max(piece.kind for piece in pieces), 3, 4)
    found = []
    for kernels, stacks in ((cpu, host), (gpu.stacking, [gpu.load(columns) for columns in host])):
        assert isinstance(kernels, StackingKernels)
        sponge = Transcript()
        sponge.observe_words(batch)
        claims = kernels.claims(stacks, log_skip, pieces, point, batch)
        sums = claims.sums()
        claims.bind(at_rows, factors)
        rounds = claims.rounds(sponge)
        found.append((sums, rounds.rounds, np.array(rounds.drawn), rounds.openings, np.array(sponge.state[0])))
    for on_cpu, on_gpu in zip(*found, strict=True):
        assert np.array_equal(on_cpu, on_gpu)
