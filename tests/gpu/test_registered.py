"""The device reads what another process wrote where it lies, whatever becomes of that process."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from kernels.cuda.backend import CudaBackend
from kernels.host.arena import LARGE
from kernels.host.shared_arrays import MappedBlock, Receiver

pytestmark = pytest.mark.gpu

WRITER = """
import pickle, sys
import numpy as np
from kernels.host.arena import LARGE, HostArena
from kernels.host.shared_arrays import share
with HostArena(shared=True) as arena:
    array = arena.empty((LARGE // 8 + 5,))
    for line in sys.stdin:
        array[:] = np.arange(array.size, dtype=np.uint64) * np.uint64(int(line))
        sys.stdout.buffer.write(pickle.dumps(share(array, arena)[0]))
        sys.stdout.buffer.flush()
"""


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WRITER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_block_is_read_where_it_lies_and_outlives_its_writer(
    cuda: CudaBackend, writer: subprocess.Popen[bytes]
) -> None:
    device = cast(Any, cuda.device)
    locked, receiver = device._registered, Receiver()
    assert writer.stdin is not None
    assert writer.stdout is not None
    for factor in (3, 5):  # the same block, written again
        writer.stdin.write(b"%d\n" % factor)
        writer.stdin.flush()
        seen = receiver.array(pickle.load(writer.stdout))
        wanted = np.arange(LARGE // 8 + 5, dtype=np.uint64) * np.uint64(factor)
        staged = cuda.stage(seen)
        assert np.array_equal(cuda.to_host(staged.array()), wanted)
        staged.release()
    block = MappedBlock.of(seen)
    assert block is not None
    assert list(locked._blocks) == [block.ctypes.data], "it was copied on the host"
    writer.kill()
    writer.wait()
    staged = cuda.stage(seen)
    assert np.array_equal(cuda.to_host(staged.array()), wanted)
    staged.release()
    cuda.synchronize()
    device._retired.drain()
    del seen, block, receiver, staged
    gc.collect()
    assert not locked._blocks, "it is still page-locked"
    own = np.arange(LARGE, dtype=np.uint8)
    assert np.array_equal(cuda.to_host(cuda.stage(own).array()), own)


def test_a_block_stays_until_the_device_has_read_it(cuda: CudaBackend, writer: subprocess.Popen[bytes]) -> None:
    device = cast(Any, cuda.device)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(b"7\n")
    writer.stdin.flush()
    seen = Receiver().array(pickle.load(writer.stdout))
    staged = cuda.stage(seen)
    del seen
    gc.collect()
    assert device._registered._blocks, "it was unmapped while it was copied"
    wanted = np.arange(LARGE // 8 + 5, dtype=np.uint64) * np.uint64(7)
    assert np.array_equal(cuda.to_host(staged.array()), wanted)
    staged.release()
    device._retired.drain()
    gc.collect()
    assert not device._registered._blocks
