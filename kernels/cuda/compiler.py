"""Compiles the CUDA kernels with NVRTC, with or without a GPU, and keeps the results on disk.

A kernel source is one `.cu` file of `kernels/cuda/src`, or generated text in its place, plus preprocessor definitions
(the field or curve it is for). It is first flattened with its headers into one string. The cache key then covers every
byte that the compiler sees, so an edited header can never run a stale kernel. Kernels are `extern "C" __global__`
functions, found by their plain names.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernels.errors import BackendError
from kernels.host import cache
from kernels.source import KernelSource, flatten

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\w+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class KernelResources:
    """Resources of one kernel, as ptxas reports them: registers per thread, everything else in bytes."""

    name: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int


@dataclass(frozen=True)
class CompiledKernels:
    """A cubin and the resources of its kernels."""

    arch: str
    cubin: bytes = field(repr=False)
    kernels: dict[str, KernelResources]
    seconds: float
    """Compilation time; for a cubin from the cache, the time that it took originally."""
    cached: bool


@dataclass(frozen=True)
class KernelRow:
    """One row of the table that `distprove kernels` prints."""

    source: str
    arch: str
    resources: KernelResources
    seconds: float
    cached: bool


def parse_ptxas(log: str) -> dict[str, KernelResources]:
    """Return the resources of each kernel in a `--ptxas-options=-v` log, by name.

    Device functions that were not inlined have property lines too, but no entry line; their frames do not count.
    """
    entry = subject = ""
    frames: dict[str, tuple[int, int, int]] = {}
    kernels: dict[str, KernelResources] = {}
    for line in log.splitlines():
        if m := _ENTRY.search(line):
            entry = m[1]
        elif m := _PROPERTIES.search(line):
            subject = m[1]
        elif m := _FRAME.search(line):
            frames[subject] = (int(m[1]), int(m[2]), int(m[3]))
        elif (m := _REGISTERS.search(line)) and entry:
            shared = _SHARED.search(line)
            stack, stores, loads = frames.get(entry, (0, 0, 0))
            kernels[entry] = KernelResources(entry, int(m[1]), stores, loads, stack, int(shared[1]) if shared else 0)
            entry = ""
    return kernels


def nvrtc_version() -> tuple[int, int]:
    """Return NVRTC's (major, minor) version. Raises BackendError if NVRTC or its Python interface is missing."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise BackendError(f"NVRTC's Python interface is missing (pip install 'distprove[cuda13]'): {error}") from error
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the interface is there, the library is not
        raise BackendError(f"NVRTC cannot be loaded (pip install 'distprove[cuda13]'): {error}") from error
    if int(status) != 0:
        raise BackendError(f"NVRTC does not answer: status {int(status)}")
    return int(major), int(minor)


def _program_types() -> tuple[Any, Any]:
    """Import cuda-core's Program and ProgramOptions. It takes a tenth of a second, for which a device whose kernels are
    all in the cache does not wait. One thread at a time: concurrent first imports can fail."""
    with _importing:
        try:
            from cuda.core import Program, ProgramOptions
        except ImportError:  # before cuda-core 0.5
            from cuda.core.experimental import Program, ProgramOptions
    return Program, ProgramOptions


_importing = threading.Lock()


class Compiler:
    """Compiles kernel sources for one architecture. Thread-safe; compilations run on `threads` threads of its own."""

    def __init__(self, arch: str, *, cache_dir: Path | None = None, threads: int = 4) -> None:
        """`arch` is NVRTC's name, such as "sm_90". `cache_dir` defaults to the user's cache folder."""
        self.arch = arch
        self.version = nvrtc_version()
        self._cache_dir = cache.user_cache_dir("kernels") if cache_dir is None else cache_dir
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="nvrtc")
        self._lock = threading.Lock()
        self._started: dict[KernelSource, Future[CompiledKernels]] = {}

    def start(self, source: KernelSource) -> Future[CompiledKernels]:
        """Begin to compile `source` in the background. Each source is compiled once, however often it is requested."""
        with self._lock:
            future = self._started.get(source)
            failed = future is not None and future.done() and not future.cancelled() and future.exception() is not None
            if future is None or failed:  # the failure may have been temporary: the next request tries again
                future = self._started[source] = self._pool.submit(self._compile, source)
        return future

    def compile(self, source: KernelSource) -> CompiledKernels:
        """Wait for the compiled source and return it. One that waits behind others is compiled here and now: nobody
        waits for those. Raises BackendError with NVRTC's log if it does not compile."""
        while True:
            future = self.start(source)
            with self._lock:
                ours = self._started.get(source) is future and future.cancel()
                if ours:
                    future = self._started[source] = Future()
            if ours:
                try:
                    future.set_result(self._compile(source))
                except BaseException as error:
                    future.set_exception(error)
            try:
                return future.result()
            except CancelledError:
                with self._lock:
                    if self._started.get(source) is future:
                        raise  # by `close`; else another thread compiles it

    def close(self) -> None:
        """Cancel compilations that have not begun and wait for those that run."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _compile(self, source: KernelSource) -> CompiledKernels:
        text = flatten(source)
        key = self._key(source, text)
        kept = cache.find(self._cache_dir, key, ".cubin")
        if kept is not None:
            with kept:
                return _unpack(kept.read(), self.arch)
        # Where a driver is installed, NVRTC keeps a cache of its own, keyed by the input of ptxas, and a cached answer
        # has no report by ptxas. An extra empty kernel with a unique name forces a new compilation.
        extra = f"request_{os.urandom(16).hex()}"
        compiled = self._run_nvrtc(source, text)
        if compiled is None:
            compiled = self._run_nvrtc(source, f'{text}extern "C" __global__ void {extra}() {{}}\n')
        if compiled is None:
            raise BackendError(f"{source.title} holds no kernel, or NVRTC's report of it has changed its format")
        compiled.kernels.pop(extra, None)
        kept = cache.keep(self._cache_dir, key, ".cubin", lambda file: file.write(_pack(compiled)))
        if kept is not None:
            kept.close()
        return compiled

    def _options(self, source: KernelSource) -> dict[str, Any]:
        return {
            "name": f"{source.name}.cu",
            "arch": self.arch,
            "std": "c++17",
            "ptxas_options": ["-v"],
            "define_macro": list(source.defines) or None,
            # Without this, NVRTC before 13.1 takes lambdas in kernels for host code.
            "device_as_default_execution_space": True,
        }

    def _key(self, source: KernelSource, text: str) -> str:
        options = json.dumps([self._options(source), self.version], sort_keys=True)
        return hashlib.sha256(options.encode() + b"\0" + text.encode()).hexdigest()

    def _run_nvrtc(self, source: KernelSource, text: str) -> CompiledKernels | None:
        """Compile `text`; returns None if NVRTC reported no kernels. Raises BackendError with NVRTC's log."""
        log = io.StringIO()
        begin = time.perf_counter()
        try:
            program_type, options_type = _program_types()
            program = program_type(text, "c++", options_type(**self._options(source)))
            cubin = bytes(program.compile("cubin", logs=log).code)
        except Exception as error:  # cuda-core raises its own types, one per layer that can fail
            raise BackendError(f"{source.title} does not compile for {self.arch}: {error}\n{log.getvalue()}") from error
        seconds = time.perf_counter() - begin
        kernels = parse_ptxas(log.getvalue())
        return CompiledKernels(self.arch, cubin, kernels, seconds, cached=False) if kernels else None


def list_kernels(
    arch: str,
    sources: Iterable[KernelSource],
    *,
    cache_dir: Path | None = None,
    threads: int | None = None,
    done: Callable[[], object] = lambda: None,
) -> list[KernelRow]:
    """Return registers, spills and shared memory of every kernel of `sources` on `arch`. Needs no GPU.

    Compiles on `threads` threads (None: one per core) and calls `done` after each source, on the calling thread.
    """
    compiler = Compiler(arch, cache_dir=cache_dir, threads=threads or os.cpu_count() or 1)
    try:
        futures = {compiler.start(source): source for source in sources}
        for future in as_completed(futures):
            future.result()
            done()
        return [
            KernelRow(source.title, arch, resources, future.result().seconds, future.result().cached)
            for future, source in futures.items()
            for resources in future.result().kernels.values()
        ]
    finally:
        compiler.close()


def _pack(compiled: CompiledKernels) -> bytes:
    """Return the bytes that the cache keeps: the length of a JSON header in 4 bytes, the header, the cubin."""
    meta = json.dumps({"kernels": [asdict(k) for k in compiled.kernels.values()], "seconds": compiled.seconds}).encode()
    return len(meta).to_bytes(4, "little") + meta + compiled.cubin


def _unpack(data: bytes, arch: str) -> CompiledKernels:
    meta_end = 4 + int.from_bytes(data[:4], "little")
    meta = json.loads(data[4:meta_end])
    kernels = {row["name"]: KernelResources(**row) for row in meta["kernels"]}
    return CompiledKernels(arch, data[meta_end:], kernels, meta["seconds"], cached=True)
