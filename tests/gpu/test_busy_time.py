"""A GPU's busy time by its own events: a host that waits shows as a gap, proofs in flight follow each other."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from kernels.cuda.backend import CudaBackend
from kernels.interface.busy import BACK_TO_BACK, DeviceTime
from kernels.maths.curves import BN254

pytestmark = pytest.mark.gpu

FIELD = BN254.fr
PAUSE = 0.05
CLOCKS = 5e-3
"""Seconds by which the device's clock and the host's may differ here, and by which a turn of another process on the
device may delay an event."""


def test_a_host_that_waits_and_dawdles_is_a_gap(cuda: CudaBackend) -> None:
    vector = cuda.zeros((1 << 20, FIELD.limbs))
    cuda.vectors.ntt(FIELD, vector)  # compiled
    cuda.synchronize()
    before = time.time()
    watch = cuda.watch_busy()
    cuda.vectors.ntt(FIELD, vector)
    assert cuda.vectors.equal(vector, vector)  # waits for its result
    time.sleep(PAUSE)
    cuda.vectors.ntt(FIELD, vector)
    watch.end()
    found = watch.time()
    after = time.time()
    assert found.by_events
    first, second = found.stretches
    assert second[0] - first[1] >= PAUSE - CLOCKS
    assert 0 < sum(end - start for start, end in found.stretches) < after - before - PAUSE + CLOCKS
    assert before - CLOCKS <= first[0] < first[1] <= second[0] < second[1] <= after + CLOCKS


def test_work_that_is_queued_at_once_follows_without_gap_or_overlap(cuda: CudaBackend) -> None:
    vector = cuda.zeros((1 << 22, FIELD.limbs))
    cuda.synchronize()
    watches = []
    for _ in range(4):
        watch = cuda.watch_busy()
        for _ in range(4):
            cuda.vectors.ntt(FIELD, vector)
        watch.end()
        watches.append(watch)
    times: list[DeviceTime] = [watch.time() for watch in watches]
    assert all(len(each.stretches) == 1 for each in times)
    for earlier, later in pairwise(times):
        gap = later.stretches[0][0] - earlier.stretches[0][1]
        assert -BACK_TO_BACK <= gap <= CLOCKS
    assert np.array_equal(cuda.to_host(vector[:1]), np.zeros((1, FIELD.limbs), np.uint64))
