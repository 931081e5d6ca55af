"""From a witness program's bytes to machine code: compiled once per user and version of wasmtime, in a process beside.

Compiling takes some 50 times the program's size in memory, 80 MB for a large circuit, and the allocator keeps part of
it. So a child process compiles and takes that memory with it, into a file of the user's cache. From there the code is
mapped, whose pages all synthesisers of a machine share. Small programs are compiled on the spot.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import IO

import wasmtime

from kernels import cache

_SMALL = 256 << 10
"""Bytes up to which a program is compiled here: faster than starting a process, in under 20 MB."""

_SUFFIX = ".cwasm"

_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import compile_stdin; compile_stdin()"
"""What the child runs. It is given our import path, whatever set it up, and nothing else of ours."""


def new_engine() -> wasmtime.Engine:
    """The engine that programs are compiled for and run on: interrupted by epochs."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    return wasmtime.Engine(config)


def load_module(engine: wasmtime.Engine, wasm: bytes, cache_dir: Path | None = None) -> wasmtime.Module:
    """The compiled program, for an engine of `new_engine`. `cache_dir` defaults to the user's cache folder.

    Raises WasmtimeError for what is not WebAssembly.
    """
    wasmtime.Module.validate(engine, wasm)
    if len(wasm) <= _SMALL:
        return wasmtime.Module(engine, wasm)
    folder, key = cache_dir or cache.user_cache_dir("witness-programs"), _key(wasm)
    path = cache.find(folder, key, _SUFFIX)
    # Should no child start, or the file be for a processor with other features (the folder is on several machines), the
    # program is compiled here: that costs memory, nothing else.
    with contextlib.suppress(subprocess.CalledProcessError, wasmtime.WasmtimeError):
        path = path or cache.keep(folder, key, _SUFFIX, lambda file: _compile_beside(wasm, file))
        if path is not None:
            return wasmtime.Module.deserialize_file(engine, str(path))
    return wasmtime.Module(engine, wasm)


def compile_stdin() -> None:
    """The child's part: WebAssembly on standard input, its machine code on standard output."""
    module = wasmtime.Module(new_engine(), sys.stdin.buffer.read())
    sys.stdout.buffer.write(module.serialize())


def _compile_beside(wasm: bytes, out: IO[bytes]) -> None:
    """Have a child process write the machine code of `wasm` to the file `out`."""
    command = [sys.executable, "-I", "-c", _CHILD.format(module=__name__), json.dumps(sys.path)]
    subprocess.run(command, input=wasm, stdout=out, stderr=subprocess.DEVNULL, check=True)


def _key(wasm: bytes) -> str:
    version = f"{importlib.metadata.version('wasmtime')} {platform.machine()}"
    return hashlib.sha256(version.encode() + b"\0" + wasm).hexdigest()
