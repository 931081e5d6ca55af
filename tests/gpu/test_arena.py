"""The arena on a real GPU: what is free is there in one piece."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory

pytestmark = pytest.mark.gpu

MIB = 1 << 20


def test_a_budget_is_usable_in_any_order_of_sizes(cuda: CudaBackend) -> None:
    """After 64 and 128 MiB came back, two of 64 must not leave the 128 without a place."""
    with CudaBackend(budget=256 * MIB) as backend:
        for sizes in ((64, 128), (64, 64, 128), (128, 128), (192, 32), (32, 32, 32, 32, 128)):
            held = [backend.empty((size * MIB,), "u1") for size in sizes]
            assert [array.nbytes for array in held] == [size * MIB for size in sizes]
            del held
        half = backend.empty((128 * MIB,), "u1")
        with pytest.raises(
            OutOfMemory, match=r"160\.0 MiB of device memory needed; 128\.0 MiB of the arena's 256\.0 MiB"
        ):
            backend.empty((160 * MIB,), "u1")
        assert half.nbytes == 128 * MIB


def test_a_recording_has_room_that_idle_blocks_took(cuda: CudaBackend) -> None:
    """The blocks of a key that went took the memory in which the next key's work was to be recorded."""
    with CudaBackend(budget=256 * MIB) as backend:
        held = [backend.empty((size * MIB,), "u1") for size in (96, 96)]
        assert sum(array.nbytes for array in held) == 192 * MIB
        del held
        recording, result = backend.device.record([], lambda: backend.zeros((160 * MIB,), "u1"))
        recording.replay([])
        backend.synchronize()
        assert not backend.to_host(result).any()


def test_memory_that_others_took_is_told_with_our_type(cuda: CudaBackend) -> None:
    """A budget that was free when the backend was made; blocks that are idle go back before anything is refused."""
    import cupy

    with CudaBackend(budget=2048 * MIB) as backend:
        idle = backend.empty((512 * MIB,), "u1")
        del idle
        free, _ = cupy.cuda.runtime.memGetInfo()
        others = cupy.cuda.Memory(free - 256 * MIB)
        kept = backend.empty((640 * MIB,), "u1")
        with pytest.raises(OutOfMemory, match=r"1\.0 GiB of device memory needed; the driver has no memory for it"):
            backend.empty((1024 * MIB,), "u1")
        assert kept.nbytes == 640 * MIB
        del others
        assert backend.empty((1024 * MIB,), "u1").nbytes == 1024 * MIB
