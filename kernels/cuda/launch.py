"""The CUDA device on CuPy: it launches kernels of `kernels.cuda.compiler` on CuPy streams over the arena's memory."""

from __future__ import annotations

import ctypes
import importlib.metadata
import math
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda.compiler import CompiledKernels, Compiler, KernelResources
from kernels.cuda.context import uuid_of
from kernels.cuda.device import (
    Argument,
    ByValue,
    Event,
    Kernel,
    Recording,
    Shape,
    Stream,
    T,
    block_to_spread,
    grid_for,
)
from kernels.errors import BackendError, OutOfMemory, SizeError
from kernels.host.units import format_bytes
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.backend import DeviceInfo, Traffic
from kernels.interface.busy import EventMeter
from kernels.interface.staged import Staged
from kernels.source import KernelSource

try:
    import cupy
except ImportError as _error:
    raise BackendError(f"CuPy is not installed (pip install 'distprove[cuda13]' or '[cuda12]'): {_error}") from _error

from kernels.cuda.arena import Arena, PinnedBuffers, PinnedRing, PinnedStaging, Retired, beside_arena

SMALL_DOWNLOAD = 1 << 20
"""Most bytes of a download through one pinned buffer, in order with the kernels: no second stream, no events."""

FIRST = -1
"""Priority of a stream whose blocks are started before those of others. The default is 0."""

CUPY_PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "cupy")


def installed_cupy() -> list[str]:
    """Return the CuPy distributions that are installed, each as `name version`."""
    found = []
    for name in CUPY_PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device_count() -> int:
    """Return how many CUDA devices this process sees. Raises BackendError, naming what is missing, if it sees none."""
    found = installed_cupy()
    if len(found) > 1:
        raise BackendError(f"several CuPy packages are installed ({', '.join(found)}): uninstall all but one")
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendError(f"no usable CUDA driver or device: {error}") from error
    if count == 0:
        raise BackendError("the CUDA driver sees no device")
    return count


class CudaEvent:
    """An `Event` on a CuPy event."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def synchronize(self) -> None:
        self.event.synchronize()


class CudaTimedEvent(CudaEvent):
    """A CuPy event that knows when the device passed it."""

    def seconds_since(self, earlier: CudaTimedEvent) -> float:
        return float(cupy.cuda.get_elapsed_time(earlier.event, self.event)) * 1e-3


class CudaStream:
    """A CuPy stream that does not synchronise with the default stream."""

    def __init__(self, priority: int | None = None) -> None:
        """Blocks of a stream with a lower number for its `priority` are started first; None is the highest number."""
        self.stream = cupy.cuda.Stream(non_blocking=True, priority=priority)

    def record(self) -> CudaEvent:
        return CudaEvent(self.stream.record(cupy.cuda.Event(disable_timing=True)))

    def record_timed(self) -> CudaTimedEvent:
        return CudaTimedEvent(self.stream.record(cupy.cuda.Event()))

    def wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        self.stream.wait_event(event.event)


class _Parameters:
    """The memory in which the driver reads one kernel's parameters: room for each, and the list of their addresses.

    Made once for a kernel: the driver copies the values before a launch returns, so the next launch may overwrite them.
    """

    ALIGNMENT = 16

    def __init__(self, formats: Sequence[str]) -> None:
        """`formats` are formats of the module `struct`, one for each parameter."""
        sizes = [struct.calcsize(f) for f in formats]
        rooms = [-(-size // self.ALIGNMENT) * self.ALIGNMENT for size in sizes]
        self._values = ctypes.create_string_buffer(sum(rooms) + self.ALIGNMENT)
        first = -ctypes.addressof(self._values) % self.ALIGNMENT
        at = ctypes.addressof(self._values) + first
        self._pointers = (ctypes.c_void_p * len(rooms))(*(at + sum(rooms[:i]) for i in range(len(rooms))))
        self._first = first
        padded = (f"{f}{room - size}x" for f, size, room in zip(formats, sizes, rooms, strict=True))
        self._format = struct.Struct("=" + "".join(padded))
        self.address = ctypes.addressof(self._pointers)

    def write(self, values: Sequence[Any]) -> None:
        """Set the parameter values of the next launch."""
        self._format.pack_into(self._values, self._first, *values)


class Queue:
    """Where work goes that names no stream, and what kernels are given while it is recorded."""

    def __init__(self, stream: CudaStream) -> None:
        self.stream = stream
        self.arrays: list[Array] | None = None
        """Arrays that kernels were given and that lie outside of the recording's memory. None: nothing is recorded."""
        self.own: set[int] = set()
        """Addresses of the blocks of the recording's memory."""
        self.branches: list[CudaStream] = []
        """Streams of the recording's branches."""


class CudaKernel:
    """One function of a loaded cubin."""

    def __init__(self, function: Any, resources: KernelResources, device: CudaDevice, queue: Queue) -> None:
        self.resources = resources
        self._sm_count = device.sm_count
        self._meter = device.meter
        self._traffic = device.traffic
        self._queue = queue
        self._function = function
        self._blocks: dict[int, int] = {}
        self._resident: dict[int, int] = {}
        self._parameters: dict[tuple[str, ...], _Parameters] = {}
        # Without this a block gets at most 48 KiB of dynamic shared memory.
        attribute = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        cupy.cuda.driver.funcSetAttribute(function.ptr, attribute, device.shared_limit - resources.shared)

    def block(self, *, limit: int = 1024) -> int:
        if limit not in self._blocks:
            _, size = cupy.cuda.driver.occupancyMaxPotentialBlockSize(self._function.ptr, 0, limit)
            self._blocks[limit] = max(32, size // 32 * 32)
        return self._blocks[limit]

    def blocks_per_sm(self, block: int) -> int:
        if block not in self._resident:
            find = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
            self._resident[block] = int(find(self._function.ptr, block, 0))
        return self._resident[block]

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        now = self._queue
        queue = now.stream if stream is None else stream
        assert isinstance(queue, CudaStream)
        formats, values = _arguments(args)
        parameters = self._parameters.get(formats)
        if parameters is None:
            parameters = self._parameters[formats] = _Parameters(formats)
        parameters.write(values)
        if now.arrays is not None:
            arrays = (value for value in args if type(value) is cupy.ndarray)
            now.arrays += [array for array in arrays if array.data.mem.ptr not in now.own]
        if self._meter.waiting:
            self._meter.resume()
        self._traffic.launches += 1
        # The driver's own call, because CuPy's takes no struct of several words by value and costs twice as much.
        shape = (*_triple(grid), *_triple(block), shared)
        cupy.cuda.driver.launchKernel(self._function.ptr, *shape, queue.stream.ptr, parameters.address, 0)

    def launch_items(
        self, items: int, args: tuple[Argument, ...], *, spread: bool = False, stream: Stream | None = None
    ) -> None:
        if items:
            block = min(self.block(), block_to_spread(items, self._sm_count)) if spread else self.block()
            self.launch(grid_for(items, block), block, args, stream=stream)


class CudaFetch:
    """A copy to pinned memory that `result` waits for."""

    def __init__(
        self, array: Array, stream: CudaStream, buffers: PinnedBuffers, meter: EventMeter, traffic: Traffic
    ) -> None:
        self._meter = meter
        self._traffic = traffic
        self._array: Array | None = array  # keeps the memory until the copy is done
        self._buffers = buffers
        self._shape, self._dtype, self._nbytes = array.shape, array.dtype, array.nbytes
        self._host: HostArray | None = None
        self._memory = buffers.take(self._nbytes)
        kind = cupy.cuda.runtime.memcpyDeviceToHost
        cupy.cuda.runtime.memcpyAsync(self._memory.ptr, array.data.ptr, self._nbytes, kind, stream.stream.ptr)
        self._event = stream.record()

    def result(self) -> HostArray:
        if self._host is None:
            self._meter.pause()
            self._traffic.waits += 1
            self._event.synchronize()
            flat = np.frombuffer(self._memory, dtype=self._dtype, count=math.prod(self._shape))
            self._host = flat.reshape(self._shape).copy()
            self._buffers.give(self._memory, self._nbytes)
            self._array = None
        return self._host


class CudaRecording:
    """A CUDA graph with its stream and all memory that its kernels use."""

    def __init__(self, device: CudaDevice, graph: Any, inputs: Sequence[Array], keeps: tuple[Any, ...]) -> None:
        """`keeps` is what the kernels use besides: their memory, and arrays that they only read."""
        self._device = device
        self._graph = graph
        self._inputs = tuple(inputs)
        self._keeps = keeps
        self._stream = CudaStream()

    def replay(self, sources: Sequence[Array]) -> CudaStream:
        device, stream = self._device, self._stream
        if device.meter.waiting:
            device.meter.resume()
        stream.wait(device.stream.record())
        for target, source in zip(self._inputs, sources, strict=True):
            device.copy(target, source, stream)
        device.after(stream)
        self._graph.launch(stream.stream)
        device.beside(stream)
        return stream

    def __del__(self) -> None:
        with suppress(Exception):  # as at the interpreter's end
            self._device.after(self._stream)  # memory that comes back now may still be in use there


class CudaStaged:
    """An array that another stream than the device's copies or computes."""

    def __init__(self, device: CudaDevice, array: Array, made: CudaEvent, to_device: int) -> None:
        """`array` is there at event `made`, for which `to_device` bytes were copied."""
        self._device = device
        self._array: Array | None = array
        self._made = made
        self._to_device = to_device
        self._taken = False

    def array(self) -> Array:
        if self._array is None:
            raise BackendError("a staged array was asked for after it had been released")
        if not self._taken:
            self._taken = True
            self._device.stream.wait(self._made)
            # Counted here and not when the copy began, because only this thread may count.
            self._device.traffic.to_device += self._to_device
        return self._array

    def release(self) -> None:
        array, self._array = self._array, None
        if array is not None:
            self._device.retire(array, self._device.stream.record() if self._taken else self._made)


class CudaDevice:
    """One CUDA device: its arena, streams to compute, copy and stage, pinned buffers, and kernels by name."""

    def __init__(
        self,
        index: int = 0,
        *,
        budget: int | None = None,
        share: int = 1,
        cache_dir: Path | None = None,
        threads: int = 4,
    ) -> None:
        """`budget` bounds the device memory in bytes (None: what is free, or the `share`-th part of all if that is
        less); `threads` host threads compile and copy.

        Raises BackendError, OutOfMemory.
        """
        count = device_count()
        if not 0 <= index < count:
            raise BackendError(f"there is no CUDA device {index}: this process sees {count}")
        self.index = index
        self._device = cupy.cuda.Device(index)
        self._device.use()
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        self.name = properties["name"].decode()
        self.sm_count = int(properties["multiProcessorCount"])
        self.shared_limit = int(properties["sharedMemPerBlockOptin"])
        self.memory_total = int(properties["totalGlobalMem"])
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.traffic = Traffic()
        self._stream = CudaStream()
        self._now = Queue(self._stream)
        self._copy_stream = CudaStream()
        self._staging_stream = CudaStream()
        self._bring_stream = CudaStream()
        self._locked: dict[int, int] = {}
        """Begin and end of each array in page-locked memory that `empty_host` made."""
        self._side_streams: list[CudaStream] = []
        self._meter_stream = CudaStream()
        self._at_work: dict[CudaStream, None] = {}
        """Streams of recordings that were replayed since the last event of the meter."""
        self._retired = Retired()
        self.meter = EventMeter(self._timed_event)
        self.arena = Arena(budget, share)
        self._staging = PinnedStaging(threads=threads)
        self._fetch_buffers = PinnedBuffers()
        self._ring = PinnedRing()
        self.compiler = Compiler(self.arch, cache_dir=cache_dir, threads=threads)
        self._modules: dict[KernelSource, tuple[Any, CompiledKernels]] = {}
        self._kernels: dict[tuple[KernelSource, str], CudaKernel] = {}
        # Made once: every proof asks for `info`, and looking up what is installed takes over a millisecond.
        self._details = {
            "share": share,
            "index": index,
            "uuid": uuid_of(index),
            "arch": self.arch,
            "multiprocessors": self.sm_count,
            "driver": cupy.cuda.runtime.driverGetVersion(),
            "runtime": cupy.cuda.runtime.runtimeGetVersion(),
            "nvrtc": "{}.{}".format(*self.compiler.version),
            "cupy": ", ".join(installed_cupy()),
        }

    def info(self) -> DeviceInfo:
        details = {**self._details, "peak_bytes": self.arena.peak}
        return DeviceInfo(self.name, "cuda", self.memory_total, self.arena.budget, details)

    @property
    def stream(self) -> CudaStream:
        return self._now.stream

    def fork(self, count: int) -> Sequence[CudaStream]:
        while len(self._side_streams) < count:
            self._side_streams.append(CudaStream())
        streams = self._side_streams[:count]
        queued = self.stream.record()
        for stream in streams:
            stream.wait(queued)
        return streams

    def join(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            self.stream.wait(stream.record())

    def record(self, inputs: Sequence[Array], work: Callable[[], T]) -> tuple[Recording, T]:
        self._device.use()
        now = self._now
        with self.arena.set_apart() as memory:
            given: list[Array] = []
            now.arrays, now.own = given, memory.taken
            self._stream.stream.begin_capture()
            try:
                result = work()
            finally:
                self.join(now.branches)
                now.arrays, now.own, now.branches = None, set(), []
                with beside_arena("memory for a recorded graph"):
                    graph = self._stream.stream.end_capture()
            kept = {id(array): array for array in given}
        return CudaRecording(self, graph, inputs, (memory, *kept.values())), result

    @contextmanager
    def branch(self) -> Iterator[None]:
        now, before = self._now, self._now.stream
        beside = CudaStream()
        beside.wait(before.record())
        now.branches.append(beside)
        now.stream = beside
        try:
            yield
        finally:
            now.stream = before

    def after(self, stream: Stream) -> None:
        self._device.use()
        self._stream.wait(stream.record())

    def beside(self, stream: CudaStream) -> None:
        """Note that a recording's stream is at work beside `stream`."""
        self._at_work[stream] = None

    def _timed_event(self) -> CudaTimedEvent:
        """An event behind everything that is queued, on a stream of its own: none of it waits for an event."""
        self._device.use()  # the current device, on which an event is made, is per thread
        for stream in (self._stream, *self._at_work):
            self._meter_stream.wait(stream.record())
        self._at_work.clear()
        return self._meter_stream.record_timed()

    # -- memory -----------------------------------------------------------------------------------------------------

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        # The current device and stream are per thread, and the caller's thread may be new. With the compute stream
        # current, the block is in its part of the pool, and CuPy's own operations are in order with our kernels.
        return self._empty(shape, dtype, self.stream)

    def _empty(self, shape: tuple[int, ...], dtype: Any, stream: CudaStream) -> Array:
        self._device.use()
        stream.stream.use()
        self._retired.sweep()
        try:
            return self.arena.empty(shape, dtype)
        except OutOfMemory:
            if not self._retired.drain():
                raise
            return self.arena.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        array = self.empty(shape, dtype)
        self.clear(array)
        return array

    def clear(self, array: Array) -> None:
        _require_contiguous(array)
        if array.nbytes:
            array.data.memset_async(0, array.nbytes, self.stream.stream)

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        _require_contiguous(target)
        _require_contiguous(source)
        if target.nbytes != source.nbytes:
            raise SizeError(f"copy of {source.nbytes} bytes onto {target.nbytes}")
        if target.nbytes:
            target.data.copy_from_device_async(source.data, target.nbytes, self._queue(stream).stream)

    def upload(self, host: HostArray) -> Array:
        contiguous = np.ascontiguousarray(host)
        array = self.empty(contiguous.shape, contiguous.dtype)
        if 0 < contiguous.nbytes <= self._ring.largest:
            self._ring.to_device(array.data.ptr, contiguous, self._stream.stream)
        elif contiguous.nbytes:
            self._copy_stream.wait(self.stream.record())  # the block's last user may still be at work
            self._staging.to_device(array.data.ptr, contiguous, self._copy_stream.stream)
            self.stream.wait(self._copy_stream.record())
        self.traffic.to_device += contiguous.nbytes
        return array

    def stage(self, host: HostArray) -> Staged:
        contiguous = np.ascontiguousarray(host)
        # The block comes from the staging stream's part of the pool. Its last reader was done before it came back
        # there, so this copy waits for no kernel, while `upload` would wait for all that are queued.
        array = self._empty(contiguous.shape, contiguous.dtype, self._staging_stream)
        if contiguous.nbytes:
            self._staging.to_device(array.data.ptr, contiguous, self._staging_stream.stream)
        return CudaStaged(self, array, self._staging_stream.record(), contiguous.nbytes)

    def second(self) -> CudaDevice:
        other = copy(self)  # arena, compiler, modules and pinned buffers are shared: any thread may use these
        other._stream, other._copy_stream, other._bring_stream = CudaStream(FIRST), CudaStream(), CudaStream()
        other._now = Queue(other._stream)
        other._staging_stream, other._meter_stream = CudaStream(), CudaStream()
        other._side_streams, other._at_work, other._kernels = [], {}, {}
        other._ring, other.traffic = PinnedRing(), Traffic()
        other.meter = EventMeter(other._timed_event)
        return other

    def staged(self, array: Array, made: Event, to_device: int) -> CudaStaged:
        assert isinstance(made, CudaEvent)
        return CudaStaged(self, array, made, to_device)

    def retire(self, array: Array, last_use: CudaEvent) -> None:
        """Keep `array` until the device has passed `last_use`, then release it."""
        self._retired.add(array, last_use.event)

    def download(self, array: Array) -> HostArray:
        _require_contiguous(array)
        if 0 < array.nbytes <= SMALL_DOWNLOAD:
            return self.fetch(array).result()
        host = np.empty(array.shape, array.dtype)
        if host.nbytes:
            self.meter.pause()
            self.traffic.waits += 1
            self._copy_stream.wait(self.stream.record())
            self._staging.to_host(host, array.data.ptr, self._copy_stream.stream)
            self.traffic.to_host += host.nbytes
        return host

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        self._device.use()
        kind = np.dtype(dtype)
        count = math.prod(shape)
        with beside_arena(f"{format_bytes(count * kind.itemsize)} of page-locked host memory"):
            memory = cupy.cuda.PinnedMemory(max(1, count * kind.itemsize))
        flat = np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype=kind, count=count)
        begin = flat.ctypes.data
        self._locked[begin] = begin + flat.nbytes
        weakref.finalize(flat, self._locked.pop, begin)
        return flat.reshape(shape)

    def locked(self, host: HostArray) -> HostArray:
        begin, known = host.ctypes.data, list(self._locked.items())  # at once: arrays may end on other threads
        if host.flags.c_contiguous and any(b <= begin and begin + host.nbytes <= e for b, e in known):
            return host
        copy = self.empty_host(host.shape, host.dtype)
        self._staging.copy(copy, host)
        return copy

    def bring(self, target: Array, host: HostArray, after: Event) -> CudaEvent:
        _require_contiguous(target)
        if target.nbytes != host.nbytes:
            raise SizeError(f"copy of {host.nbytes} bytes onto {target.nbytes}")
        self._device.use()
        self._bring_stream.wait(after)
        queue = self._bring_stream.stream.ptr
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(target.data.ptr, host.ctypes.data, host.nbytes, kind, queue)
        self.traffic.to_device += host.nbytes
        return self._bring_stream.record()

    def fetch(self, array: Array, stream: Stream | None = None) -> Pending:
        _require_contiguous(array)
        self.traffic.to_host += array.nbytes
        return CudaFetch(array, self._queue(stream), self._fetch_buffers, self.meter, self.traffic)

    def address(self, array: Array) -> int:
        _require_contiguous(array)
        return int(array.data.ptr)

    def memory_free(self) -> int:
        self._retired.sweep()
        return self.arena.free

    def watch_memory(self) -> None:
        self.arena.watch()

    def memory_peak(self) -> int:
        return self.arena.watched_peak

    # -- kernels ----------------------------------------------------------------------------------------------------

    def prepare(self, source: KernelSource) -> None:
        self.compiler.start(source)

    def compiled(self, source: KernelSource) -> bool:
        return source in self._modules or self.compiler.start(source).done()

    def kernel(self, source: KernelSource, name: str) -> Kernel:
        self._device.use()
        key = (source, name)
        if key not in self._kernels:
            if source not in self._modules:
                compiled = self.compiler.compile(source)
                module = cupy.cuda.Module()
                with beside_arena(f"memory for {source.title}"):
                    module.load(compiled.cubin)
                self._modules[source] = (module, compiled)
            module, compiled = self._modules[source]
            resources = compiled.kernels.get(name)
            if resources is None:
                raise BackendError(f"{source.title} has no kernel {name!r}; it has {', '.join(compiled.kernels)}")
            self._kernels[key] = CudaKernel(module.get_function(name), resources, self, self._now)
        return self._kernels[key]

    def synchronize(self) -> None:
        self._device.synchronize()

    def close(self) -> None:
        self.synchronize()
        self._retired.drain()
        self.compiler.close()
        self._kernels.clear()
        self._modules.clear()
        self._staging.close()
        self.arena.close()

    def _queue(self, stream: Stream | None) -> CudaStream:
        queue = self.stream if stream is None else stream
        assert isinstance(queue, CudaStream)
        return queue


def _triple(shape: Shape) -> tuple[int, int, int]:
    if isinstance(shape, int):
        return shape, 1, 1
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z


def _arguments(args: tuple[Argument, ...]) -> tuple[tuple[str, ...], list[Any]]:
    """Return kernel parameters as formats and values for `struct`. Takes some microseconds of every launch."""
    formats, values = [], []
    for value in args:
        kind = type(value)
        if kind is cupy.ndarray:
            _require_contiguous(value)
            formats.append("Q")
            values.append(value.data.ptr)
        elif kind in _FORMATS:
            formats.append(_FORMATS[kind])
            values.append(value)
        elif value is None:
            formats.append("Q")
            values.append(0)
        elif kind is ByValue:
            formats.append(value.format)
            values.append(value.packed)
        else:
            raise SizeError(f"a kernel argument must be an array or a NumPy scalar of known width, not {kind.__name__}")
    return tuple(formats), values


_FORMATS: dict[type, str] = {np.uint32: "I", np.int32: "i", np.uint64: "Q", np.int64: "q"}
"""Format for `struct` of each scalar type that kernels take."""


def _require_contiguous(array: Array) -> None:
    if not array.flags.c_contiguous:
        raise SizeError(f"an array of shape {array.shape} must be contiguous in memory")
