"""A `kernels.cuda.device.Device` that runs the CUDA kernels on the host: NumPy memory, kernels compiled by g++.

    device = EmulatedDevice()
    backend = CudaBackend(device=device)

Fresh memory holds rubbish, so reading what nothing wrote shows. Arguments are checked against the kernel's parameters,
which CUDA itself does not do.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda.compiler import KernelResources
from kernels.cuda.device import Argument, ByValue, Event, Shape, Stream, T, block_to_spread, grid_for
from kernels.errors import BackendError, OutOfMemory, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import DeviceInfo, Traffic
from kernels.interface.busy import EventMeter
from kernels.source import KernelSource, flatten

SHIM = Path(__file__).with_name("cuda_on_host.h")
_KERNEL = re.compile(r"dp_kernel_marker\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(")
_RUN_LONG = frozenset({"fixed_base", "miller", "msm_accumulate", "msm_buckets", "multiply_add", "points"})
"""Sources whose kernels run longer in the tests than the compiler takes to optimise them."""
_running = threading.Lock()
"""Held while a kernel runs: the fibers are those of one thread."""
_cache = Path(tempfile.gettempdir()) / f"distprove-emulation-{os.getuid()}"


def compiler() -> str | None:
    """The host's C++ compiler, None if there is none."""
    return next((path for name in ("g++", "c++", "clang++") if (path := shutil.which(name))), None)


def build(source: KernelSource) -> Path:
    """The shared library of a kernel source; built once per content of source, headers and shim,
    for all checkouts of this machine."""
    text = flatten(source)
    options = [f"-D{name}={value}" for name, value in source.defines]
    options.append("-O1" if source.name in _RUN_LONG else "-Og")
    return _built(source.name, source.title, f'#include "{SHIM}"\n{text}', options, (str(_threads()),))


@cache
def _threads() -> Path:
    """The library that runs the threads of every kernel."""
    path = SHIM.with_suffix(".cpp")
    return _built(path.stem, path.name, path.read_text(), [f"-I{SHIM.parent}", "-O2"], ())


def _built(name: str, title: str, text: str, options: Sequence[str], libraries: Sequence[str]) -> Path:
    """The shared library of a text, with an entry for each kernel in it."""
    program = compiler()
    assert program is not None, "no C++ compiler"
    key = hashlib.sha256(repr((text, SHIM.read_text(), options, libraries)).encode()).hexdigest()[:32]
    library = _cache / f"{name}-{key}.so"
    if library.is_file():
        return library
    _cache.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_cache) as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(text)
        # Checked jumps refuse those between the stacks of threads.
        flags = [program, "-std=c++17", "-x", "c++", "-w", "-U_FORTIFY_SOURCE", *options, str(path)]
        if libraries:
            expand = [*flags, "-E", "-P", "-D__global__=dp_kernel_marker"]
            expanded = subprocess.run(expand, capture_output=True, text=True, check=True).stdout
            kernels = sorted(set(_KERNEL.findall(expanded)))
            path.write_text(text + "".join(f"DP_EMULATED_KERNEL({name})\n" for name in kernels))
        out = Path(folder) / "kernel.so"
        command = [*flags, "-D__global__=", "-fPIC", "-shared", "-x", "none", *libraries, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{title} does not compile for the host:\n{done.stderr[:8000]}")
        os.replace(out, library)
    return library


class EmulatedEvent:
    """All work is done when its call returns."""

    def synchronize(self) -> None:
        return


class EmulatedTimedEvent(EmulatedEvent):
    """It passes when it is made."""

    def __init__(self) -> None:
        self._passed = time.perf_counter()

    def seconds_since(self, earlier: EmulatedTimedEvent) -> float:
        return self._passed - earlier._passed


class EmulatedStream:
    """A stream in name only."""

    def record(self) -> EmulatedEvent:
        return EmulatedEvent()

    def wait(self, event: Event) -> None:
        return


class EmulatedFetch:
    """A copy that is already there."""

    def __init__(self, array: Array, meter: EventMeter, traffic: Traffic) -> None:
        self._host = array.copy()
        self._meter = meter
        self._traffic = traffic

    def result(self) -> HostArray:
        self._meter.pause()
        self._traffic.waits += 1
        return self._host


class EmulatedStaged:
    """An array that is already there, counted when it is taken. Released memory is overwritten: a late reader shows."""

    def __init__(self, device: EmulatedDevice, array: Array, to_device: int) -> None:
        self._device = device
        self._taken = False
        self._to_device = to_device
        self._array: Array | None = array
        device.in_staging += 1

    def array(self) -> Array:
        if self._array is None:
            raise BackendError("a staged array was asked for after it had been released")
        if not self._taken:
            self._taken = True
            self._device.traffic.to_device += self._to_device
        return self._array

    def release(self) -> None:
        if self._array is not None:
            self._array.view(np.uint8)[...] = 0xA5
            self._array = None
            self._device.in_staging -= 1


class EmulatedKernel:
    """One kernel of a library that `build` made."""

    def __init__(self, device: EmulatedDevice, library: ctypes.CDLL, name: str, max_block: int) -> None:
        self._device = device
        self.resources = KernelResources(name, 0, 0, 0, 0, 0)
        self.launches = 0
        self._name = name
        self._max_block = max_block
        self._run = getattr(library, f"emulate_{name}")
        sizes = (ctypes.c_size_t * 64)()
        count = getattr(library, f"parameters_{name}")(sizes, 64)
        self._sizes = list(sizes[:count])

    def block(self, *, limit: int = 1024) -> int:
        return max(32, min(limit, self._max_block) // 32 * 32)

    def blocks_per_sm(self, block: int) -> int:
        return 2

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        values = [_bytes_of(a) for a in args]
        if [v.nbytes for v in values] != self._sizes:
            raise SizeError(f"{self._name} takes parameters of {self._sizes} bytes, not {[v.nbytes for v in values]}")
        shape, size = _triple(grid), _triple(block)
        if min(shape) < 1 or min(size) < 1 or int(np.prod(size)) > 1024 or max(shape[1:]) > 65535:
            raise SizeError(f"{self._name}: no device launches a grid of {shape} blocks of {size}")
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(v.ctypes.data for v in values))

        def run(_: object = (args, values)) -> None:  # kept as long as this is
            if self._device.meter.waiting:
                self._device.meter.resume()
            self.launches += 1
            self._device.did["launch"] += 1
            with _running:
                self._run((ctypes.c_uint * 3)(*shape), (ctypes.c_uint * 3)(*size), ctypes.c_size_t(shared), pointers)

        self._device.traffic.launches += 1
        self._device.run(run)

    def launch_items(
        self, items: int, args: tuple[Argument, ...], *, spread: bool = False, stream: Stream | None = None
    ) -> None:
        if items:
            block = min(self.block(), block_to_spread(items, self._device.sm_count)) if spread else self.block()
            self.launch(grid_for(items, block), block, args, stream=stream)


class EmulatedRecording:
    """Calls that are made again with the same arguments, while the contents of the inputs are others."""

    def __init__(self, device: EmulatedDevice, inputs: Sequence[Array], calls: list[Callable[[], None]]) -> None:
        self._device = device
        self._inputs = inputs
        self._calls = calls

    def replay(self, sources: Sequence[Array]) -> Stream:
        for target, source in zip(self._inputs, sources, strict=True):
            self._device.copy(target, source)
        for call in self._calls:
            call()
        self._device.did["replay"] += 1
        return EmulatedStream()


class EmulatedDevice:
    """Runs CUDA kernels on the host. `max_block` makes small inputs span several blocks; `budget` bounds the memory."""

    def __init__(
        self, *, max_block: int = 64, sm_count: int = 4, shared_limit: int = 227 << 10, budget: int = 1 << 34
    ) -> None:
        self.sm_count = sm_count
        self.shared_limit = shared_limit
        self.traffic = Traffic()
        self.did: Counter[str] = Counter()
        """Launches, uploads, downloads and forks so far; `fetch` is a download too."""
        self.in_staging = 0
        """Staged arrays that were not released."""
        self.stream: Stream = EmulatedStream()
        self.meter = EventMeter(EmulatedTimedEvent)
        self._budget = budget
        self._used = self._peak = 0
        self._forked: Sequence[Stream] = []
        self._recorded: list[Callable[[], None]] | None = None
        self._branches: list[list[Callable[[], None]]] = []
        self._max_block = max_block
        self._libraries: dict[KernelSource, ctypes.CDLL] = {}
        self._kernels: dict[tuple[KernelSource, str], EmulatedKernel] = {}

    def info(self) -> DeviceInfo:
        return DeviceInfo("kernels on the host", "cuda", 1 << 34, self._budget)

    def fork(self, count: int) -> Sequence[Stream]:
        assert not self._forked, "a fork in a fork"
        self._forked = [EmulatedStream() for _ in range(count)]
        self.did["fork"] += 1
        return self._forked

    def join(self, streams: Sequence[Stream]) -> None:
        assert streams == self._forked
        self._forked = []

    def record(self, inputs: Sequence[Array], work: Callable[[], T]) -> tuple[EmulatedRecording, T]:
        self._recorded = calls = []
        try:
            result = work()
        finally:
            # Branches run as late as they may, the last one first: what was overwritten before shows.
            calls += itertools.chain(*reversed(self._branches))
            self._recorded, self._branches = None, []
        return EmulatedRecording(self, inputs, calls), result

    @contextmanager
    def branch(self) -> Iterator[None]:
        assert self._recorded is not None, "a branch outside of a recording"
        before, self._recorded = self._recorded, []
        self._branches.append(self._recorded)
        try:
            yield
        finally:
            self._recorded = before

    def after(self, stream: Stream) -> None:
        return

    def run(self, call: Callable[[], None]) -> None:
        """Do it now, or at every replay of what is being recorded."""
        if self._recorded is None:
            call()
        else:
            self._recorded.append(call)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        assert not self._forked, "memory taken between a fork and its join would be of no stream's pool"
        kind = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        if self._used + nbytes > self._budget:
            raise OutOfMemory(f"{nbytes} bytes of device memory needed; {self._budget - self._used} are free")
        raw = np.full(nbytes + 64, 0xA5, dtype=np.uint8)
        self._count(nbytes)
        weakref.finalize(raw, self._count, -nbytes)
        begin = -raw.ctypes.data % 64  # as aligned as device memory, for the kernels' wide accesses
        return raw[begin : begin + nbytes].view(kind).reshape(shape)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        array = self.empty(shape, dtype)
        self.clear(array)
        return array

    def clear(self, array: Array) -> None:
        assert array.flags.c_contiguous
        self.run(lambda: array.fill(0))

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        assert target.flags.c_contiguous
        assert source.flags.c_contiguous
        self.run(lambda: np.copyto(target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8)))

    def upload(self, host: HostArray) -> Array:
        assert self._recorded is None
        array = self.empty(host.shape, host.dtype)
        array[...] = host
        self.traffic.to_device += host.nbytes
        self.did["upload"] += 1
        return array

    def stage(self, host: HostArray) -> EmulatedStaged:
        assert self._recorded is None
        array = self.empty(host.shape, host.dtype)
        array[...] = host
        return EmulatedStaged(self, array, host.nbytes)

    def second(self) -> EmulatedDevice:
        other = copy(self)
        other._count = self._count  # type: ignore[method-assign]
        other._forked, other._recorded, other._kernels, other.traffic = [], None, {}, Traffic()
        other._branches = []
        other.meter = EventMeter(EmulatedTimedEvent)
        return other

    def staged(self, array: Array, made: Event, to_device: int) -> EmulatedStaged:
        self.did["made"] += 1
        return EmulatedStaged(self, array, to_device)

    def download(self, array: Array) -> HostArray:
        assert self._recorded is None
        self.meter.pause()
        self.traffic.waits += 1
        self.traffic.to_host += array.nbytes
        self.did["download"] += 1
        return np.array(array)

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        return np.empty(shape, dtype)

    def locked(self, host: HostArray) -> HostArray:
        self.did["locked"] += 1
        return np.ascontiguousarray(host)

    def bring(self, target: Array, host: HostArray, after: Event) -> EmulatedEvent:
        assert self._recorded is None
        assert target.flags.c_contiguous
        assert target.nbytes == host.nbytes
        target.reshape(-1).view(np.uint8)[...] = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
        self.traffic.to_device += host.nbytes
        self.did["bring"] += 1
        return EmulatedEvent()

    def fetch(self, array: Array, stream: Stream | None = None) -> EmulatedFetch:
        assert self._recorded is None
        self.traffic.to_host += array.nbytes
        self.did["download"] += 1
        return EmulatedFetch(array, self.meter, self.traffic)

    def address(self, array: Array) -> int:
        assert array.flags.c_contiguous
        return int(array.ctypes.data)

    def prepare(self, source: KernelSource) -> None:
        return

    def compiled(self, source: KernelSource) -> bool:
        return True

    def kernel(self, source: KernelSource, name: str) -> EmulatedKernel:
        if (source, name) not in self._kernels:
            assert self._recorded is None, f"{name} is not loaded"
            if source not in self._libraries:
                self._libraries[source] = ctypes.CDLL(str(build(source)))
            self._kernels[source, name] = EmulatedKernel(self, self._libraries[source], name, self._max_block)
        return self._kernels[source, name]

    def memory_free(self) -> int:
        return self._budget - self._used

    def watch_memory(self) -> None:
        self._peak = self._used

    def memory_peak(self) -> int:
        return self._peak

    def _count(self, nbytes: int) -> None:
        """Memory was taken, or (below zero) came back."""
        self._used += nbytes
        self._peak = max(self._peak, self._used)

    def synchronize(self) -> None:
        return

    def close(self) -> None:
        self._kernels.clear()


def _bytes_of(value: Argument) -> HostArray:
    """The bytes that a launch passes for one argument."""
    if isinstance(value, ByValue):
        return np.frombuffer(value.packed, dtype=np.uint8)
    if value is None:
        return np.zeros(1, dtype=np.uint64)
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return np.array([value.ctypes.data], dtype=np.uint64)
    if isinstance(value, np.generic):
        return np.array([value])
    raise SizeError(f"a kernel argument must be an array or a NumPy scalar, not {type(value).__name__}")


def _triple(shape: Shape) -> tuple[int, int, int]:
    x, y, z = (*((shape,) if isinstance(shape, int) else shape), 1, 1)[:3]
    return x, y, z
