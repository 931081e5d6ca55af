"""Turns a witness program into machine code: compiled once per user and version of wasmtime, in a process beside.

circom's programs are made faster before that (`wasm_rewrite`).

The program is not trusted, and what a compiler needs for one can be out of proportion to its size. So what it declares
is counted first, and a child process compiles it, with limits on its memory and its time that grow with the program's
size; it also takes with it the memory that compiling takes, some 50 times the program's size, part of which an
allocator keeps. The code goes into a file of the user's cache, from where it is mapped: its pages are shared by all
synthesisers of a machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import wasmtime

from distprove.errors import DistproveError, FormatError, starved, typed
from distprove.groth16 import wasm_field, wasm_rewrite
from distprove.groth16.wasm_limits import check_limits
from distprove.wanted import called_off, require_wanted
from kernels.host import cache

_LOOK = 0.1
"""Seconds between two looks at whether a compilation is called off."""
_SUFFIX = ".cwasm"
_MIB = 1 << 20

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from {module} import compile_stdin; compile_stdin(*map(int, sys.argv[2:]))"
)
"""The program that the child runs. It is given our import path, whatever set it up, and nothing else of ours."""

_REFUSED = 3
"""The child's exit status when the program is at fault; the last line it writes says how."""
_NO_MEMORY = ("MemoryError", "memory allocation of", "annot allocate memory", "out of memory")
"""Texts by which Python, Rust and the system say that the limit on memory was met."""


@dataclass(frozen=True)
class CompileLimits:
    """Limits on the compilation of one program."""

    memory: int
    """Bytes of address space."""
    cpu: int
    """Seconds of CPU time."""
    wall: float
    """Seconds on the clock, for a child that waits."""

    @classmethod
    def for_size(cls, size: int) -> CompileLimits:
        """The limits for a program of `size` bytes. circom's programs take 45 MiB and 55 times their size, and 0.5 s a
        MiB, in CPU time on a processor of 2020: a twentieth of what is granted, at most a half of the memory."""
        cpu = 10 + 10 * size // _MIB
        return cls(memory=512 * _MIB + 256 * size, cpu=cpu, wall=60.0 + 10 * cpu)


def new_engine() -> wasmtime.Engine:
    """The engine that programs are compiled for and run on: interrupted by epochs."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.parallel_compilation = False  # of some lines; threads that cannot start would end the process
    return wasmtime.Engine(config)


def load_module(
    engine: wasmtime.Engine,
    wasm: bytes,
    name: str,
    cache_dir: Path | None = None,
    limits: CompileLimits | None = None,
) -> wasmtime.Module:
    """The compiled program, for an engine of `new_engine`. `cache_dir` defaults to the user's cache folder.

    Raises FormatError for what is not WebAssembly, and for what is beyond the limits; DistproveError where no child
    process can compile; CalledOff.
    """
    check_limits(name, wasm)
    folder, key = cache_dir or cache.user_cache_dir("witness-programs"), _key(wasm)
    kept = cache.find(folder, key, _SUFFIX)
    if kept is not None:
        # The file may be for a processor with other features, when the folder is on several machines.
        with kept, contextlib.suppress(wasmtime.WasmtimeError):
            return _map(engine, kept)
    with tempfile.TemporaryFile() as code:
        _compile_beside(name, wasm, code, limits or CompileLimits.for_size(len(wasm)))
        if kept is None:
            kept = cache.keep(folder, key, _SUFFIX, lambda file: _copy(code, file))
            if kept is not None:
                with kept, contextlib.suppress(wasmtime.WasmtimeError):  # nothing in that folder may be executed
                    return _map(engine, kept)
        code.seek(0)
        return wasmtime.Module.deserialize(engine, code.read())


def compile_stdin(memory: int, cpu: int, wanted: int) -> None:
    """The child's part: WebAssembly on standard input, its machine code on standard output, within limits, for as long
    as the other end of the pipe `wanted` is open: its parent may be killed."""
    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_CORE, 0)):
        most = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (value if most == resource.RLIM_INFINITY else min(value, most), most))
    threading.Thread(target=_end_after, args=(wanted,), daemon=True).start()
    config = wasmtime.Config()
    config.epoch_interruption = True  # as in new_engine
    config.parallel_compilation = False  # the address space that a thread reserves is no measure of the program
    try:
        wasm = wasm_rewrite.with_fast_field(sys.stdin.buffer.read())
        module = wasmtime.Module(wasmtime.Engine(config), wasm)
    except (FormatError, wasmtime.WasmtimeError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(module.serialize())


def _end_after(wanted: int) -> None:
    """End this process when the other end of the pipe is closed."""
    os.read(wanted, 1)
    os._exit(1)


def _compile_beside(name: str, wasm: bytes, out: IO[bytes], limits: CompileLimits) -> None:
    """Have a child process write the machine code of `wasm` to the file `out`."""
    command = [sys.executable, "-I", "-c", _CHILD.format(module=__name__), json.dumps(sys.path)]
    theirs, ours = os.pipe()
    command += [str(limits.memory), str(limits.cpu), str(theirs)]
    over, is_called_off = threading.Event(), called_off()

    def look() -> None:
        while not over.wait(_LOOK) and not is_called_off():
            pass
        os.close(ours)

    threading.Thread(target=look, name="witness-compiler", daemon=True).start()
    try:
        told: Any = {"input": wasm, "timeout": limits.wall, "pass_fds": (theirs,)}
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, **told)
        require_wanted()
    except subprocess.TimeoutExpired:
        raise FormatError(f"{name}: the program takes more than {limits.wall:g} s to compile, the limit") from None
    except OSError as error:
        error = OSError(error.errno, error.strerror)
        raise typed(error, f"{name}: no process to compile the program starts", DistproveError) from None
    finally:
        over.set()
        os.close(theirs)
    if done.returncode == 0:
        return
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == -signal.SIGXCPU:
        raise FormatError(f"{name}: the program takes more than {limits.cpu} s of CPU time to compile, the limit")
    if any(sign in said for sign in _NO_MEMORY):
        if 0 <= resource.getrlimit(resource.RLIMIT_AS)[1] < limits.memory:
            raise typed(MemoryError())
        raise FormatError(f"{name}: the program takes more than {limits.memory >> 20} MiB to compile, the limit")
    if done.returncode == _REFUSED:
        raise FormatError(f"{name}: not a WebAssembly module: {said.splitlines()[-1]}")
    if done.returncode < 0:
        raise FormatError(f"{name}: the program ends the compiler with signal {-done.returncode}")
    last = (said.splitlines() or [f"exit status {done.returncode}"])[-1]
    raise starved(said) or DistproveError(f"{name}: the process that compiles the program fails: {last}")


def _map(engine: wasmtime.Engine, file: IO[bytes]) -> wasmtime.Module:
    """The module in a file of the cache: by its descriptor, so that what was checked is what is mapped."""
    return wasmtime.Module.deserialize_file(engine, f"/proc/self/fd/{file.fileno()}")


def _copy(code: IO[bytes], file: IO[bytes]) -> None:
    code.seek(0)
    shutil.copyfileobj(code, file)


def _key(wasm: bytes) -> str:
    ours = [hashlib.sha256(inspect.getsource(part).encode()).hexdigest() for part in (wasm_field, wasm_rewrite)]
    version = " ".join([importlib.metadata.version("wasmtime"), platform.machine(), *ours])
    return hashlib.sha256(version.encode() + b"\0" + wasm).hexdigest()
