"""Pinned staging and retired memory, over a CuPy in name only whose copies happen as late as they may.

A queued copy reads and writes its memory only when somebody waits for an event behind it, or at the end. A buffer that
is written again before its copy has ended therefore shows in the bytes that arrive.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError
from kernels.host.native import native
from tests.support.own_module import module_anew

SLOT = 64
TO_DEVICE, TO_HOST = 1, 2


_numbers = itertools.count(1)
_streams: dict[int, LazyStream] = {}


class LazyStream:
    """A queue of copies that have not happened yet."""

    def __init__(self) -> None:
        self.ptr = next(_numbers)
        _streams[self.ptr] = self
        self.queue: list[tuple[int, int, int]] = []
        self.done = 0
        self.lock = threading.Lock()

    def run_to(self, position: int) -> None:
        with self.lock:
            for target, source, count in self.queue[self.done : position]:
                ctypes.memmove(target, source, count)
            self.done = max(self.done, position)


class LazyEvent:
    def __init__(self, disable_timing: bool = False) -> None:
        self.stream: LazyStream | None = None
        self.position = 0

    def record(self, stream: LazyStream) -> None:
        self.stream, self.position = stream, len(stream.queue)

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.run_to(self.position)

    @property
    def done(self) -> bool:
        return self.stream is None or self.stream.done >= self.position


def memcpy_async(target: int, source: int, count: int, kind: int, stream: int) -> None:
    queue = _streams[stream]
    with queue.lock:
        queue.queue.append((target, source, count))


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The text of `kernels.cuda.arena` as a module of its own, over the CuPy in name only."""
    runtime = types.SimpleNamespace(memcpyAsync=memcpy_async, memcpyHostToDevice=TO_DEVICE, memcpyDeviceToHost=TO_HOST)

    def pinned(size: int) -> Any:
        memory = ctypes.create_string_buffer(size)
        memory.ptr = ctypes.addressof(memory)  # type: ignore[attr-defined]
        return memory

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=runtime, Event=LazyEvent, alloc_pinned_memory=pinned)  # type: ignore
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return module_anew("kernels.cuda.arena")


def random_bytes(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("count", [1, SLOT, SLOT + 1, 20 * SLOT + 5])
def test_no_buffer_is_written_before_its_copy_ended(arena: Any, slots: int, count: int) -> None:
    staging, stream = arena.PinnedStaging(SLOT, slots, threads=1), LazyStream()
    there = [np.zeros(count, np.uint8) for _ in range(3)]
    sent = [random_bytes(count, seed) for seed in range(3)]
    for target, host in zip(there, sent, strict=True):
        copy = host.copy()
        staging.to_device(target.ctypes.data, copy, stream)
        copy[:] = 0  # it has been read
    stream.run_to(len(stream.queue))
    assert all(np.array_equal(a, b) for a, b in zip(there, sent, strict=True))
    back = np.zeros(count, np.uint8)
    staging.to_host(back, there[1].ctypes.data, stream)
    assert np.array_equal(back, sent[1])
    staging.close()


def test_threads_share_the_buffers_on_streams_of_their_own(arena: Any) -> None:
    staging = arena.PinnedStaging(SLOT, 3, threads=2)

    def there_and_back(seed: int) -> bool:
        stream, host = LazyStream(), random_bytes(50 * SLOT + seed, seed)
        target, back = np.zeros_like(host), np.zeros_like(host)
        for _ in range(5):
            staging.to_device(target.ctypes.data, host, stream)
            if seed == 0:  # one thread downloads: the one that computes
                staging.to_host(back, target.ctypes.data, stream)
                assert np.array_equal(back, host)
        stream.run_to(len(stream.queue))
        return bool(np.array_equal(target, host))

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(there_and_back, range(3)))
    staging.close()


def test_a_copy_that_fails_does_not_cost_a_buffer(arena: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, stream, host = arena.PinnedStaging(SLOT, 2, threads=1), LazyStream(), random_bytes(5 * SLOT, 1)
    target = np.zeros_like(host)

    def broken(*_: Any) -> None:
        raise RuntimeError("device lost")

    with monkeypatch.context() as patch:
        patch.setattr(arena.cupy.cuda.runtime, "memcpyAsync", broken)
        for _ in range(4):
            with pytest.raises(RuntimeError, match="device lost"):
                staging.to_device(target.ctypes.data, host, stream)
            with pytest.raises(RuntimeError, match="device lost"):
                staging.to_host(host, target.ctypes.data, stream)
    staging.to_device(target.ctypes.data, host, stream)
    stream.run_to(len(stream.queue))
    assert np.array_equal(target, host)
    staging.close()


def test_on_the_cpu_the_staged_array_is_the_array_itself() -> None:
    backend, host = CpuBackend(), random_bytes(8, 1)
    staged = backend.stage(host)
    assert staged.array() is host
    assert backend.traffic.to_device == 0
    staged.release()
    with pytest.raises(BackendError, match="released"):
        staged.array()


def test_retired_memory_is_kept_until_its_last_reader_is_done(arena: Any) -> None:
    retired, stream = arena.Retired(), LazyStream()
    array = np.zeros(1)
    stream.queue.append((array.ctypes.data, array.ctypes.data, 8))
    early, late = LazyEvent(), LazyEvent()
    late.record(stream)
    kept = sys.getrefcount(array)
    retired.add(array, late)
    retired.add(np.ones(1), early)
    retired.sweep()
    assert sys.getrefcount(array) == kept + 1
    assert retired.drain()
    assert late.done
    assert sys.getrefcount(array) == kept
    assert not retired.drain()


def test_ring_keeps_what_still_waits(arena: Any) -> None:
    """Copies that have not happened keep their bytes, however many follow; the host waits only for half a ring."""
    ring, stream, rng = arena.PinnedRing(16 * SLOT), LazyStream(), np.random.default_rng(1)
    sent, received = [], []
    for count in rng.integers(1, ring.largest + 1, 200).tolist():
        host, target = random_bytes(count, count), np.zeros(count, dtype=np.uint8)
        ring.to_device(target.ctypes.data, host, stream)
        sent.append(host.copy())
        received.append(target)
        host[:] = 0
    assert 0 < stream.done < len(stream.queue)
    stream.run_to(len(stream.queue))
    assert all(np.array_equal(a, b) for a, b in zip(sent, received, strict=True))


@pytest.mark.parametrize(("size", "begin"), [(0, 0), (1, 0), (5 << 20, 0), ((3 << 20) + 7, 5)])
def test_threads_copy_all_bytes_and_no_more(size: int, begin: int) -> None:
    source, target = random_bytes(begin + size, 2), np.full(begin + size + 9, 7, np.uint8)
    source.flags.writeable = False
    native.copy(native.Pool(3), source[begin:], target[begin : begin + size])
    assert np.array_equal(target[begin : begin + size], source[begin:])
    assert (target[:begin] == 7).all()
    assert (target[begin + size :] == 7).all()
    with pytest.raises(ValueError, match="wrong length"):
        native.copy(native.Pool(1), source, target[: len(source) + 1])
