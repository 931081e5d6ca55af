"""Compiles C++ with the machine's own compiler into a library that this process loads, cached on disk by content.

This is for code that is known only at run time: the row functions of a user's own AIRs
(`kernels.interface.row_source`). Those of programs that ship lie compiled beside the extension modules, named by the
digests of their texts (kernels/CMakeLists.txt), and need no compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from kernels.errors import BackendError, CompilerMissing
from kernels.host import cache
from kernels.host.native import native
from kernels.host.private import NotPrivate
from kernels.host.scratch import scratch_folder

PROGRAMS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-exceptions", "-Wno-unknown-pragmas")
"""Compiler flags, without -march: machines with different CPUs may share the cache."""
SHIPPED = "rows"
"""Folder of the libraries that ship, beside the extension modules."""
TIMEOUT = 600
"""Most seconds that a compiler may take."""


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler of this machine."""

    program: str
    version: str
    """First line of the output of `--version`."""


@once
def find_compiler() -> HostCompiler:
    """Return the first of PROGRAMS that answers. Raises CompilerMissing if none does."""
    for name in PROGRAMS:
        program = shutil.which(name)
        if program is None:
            continue
        try:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if said.returncode == 0 and said.stdout:
            return HostCompiler(program, said.stdout.splitlines()[0])
    raise CompilerMissing(
        f"no C++ compiler was found ({', '.join(PROGRAMS)}): row functions in C++ of your own AIRs need one on the "
        "CPU, those of programs that ship do not; install, for example, the package g++"
    )


def load(title: str, text: str, *, probe: str, cache_dir: Path | None = None) -> ctypes.CDLL:
    """Return the library of `text`, compiled unless it ships or the cache holds it. Safe to call in several processes
    at once.

    `title` names the text in messages. `probe` is a text that every usable compiler compiles: it tells whether the text
    or the compiler is at fault. Raises BackendError with the compiler's messages, CompilerMissing.
    """
    shipped = Path(native.__file__ or "").with_name(SHIPPED) / f"{digest(text)}.so"
    if shipped.is_file():
        return _open(title, str(shipped))
    compiler = find_compiler()
    folder = cache.user_cache_dir("rows") if cache_dir is None else cache_dir
    key = hashlib.sha256(json.dumps([compiler.version, FLAGS]).encode() + b"\0" + text.encode()).hexdigest()
    kept = cache.find(folder, key, ".so")
    if kept is not None:
        with kept:
            return _open(title, kept.name)
    with ExitStack() as stack:
        try:
            work = stack.enter_context(scratch_folder())
        except NotPrivate as error:
            raise BackendError(f"{title} cannot be compiled: {error}") from None
        library = work / "library.so"
        failed = _compile(compiler, text, library)
        if failed:
            broken = _compile(compiler, probe, library)
            if broken:
                raise CompilerMissing(f"{compiler.program} does not compile the project's headers:\n{broken}")
            raise BackendError(f"{title} does not compile ({compiler.version}):\n{failed}")
        kept = cache.keep(folder, key, ".so", lambda file: file.write(library.read_bytes()))
        if kept is None:
            return _open(title, str(library))
        with kept:
            return _open(title, kept.name)


def digest(text: str) -> str:
    """Name of a text's library among those that ship."""
    return hashlib.sha256(text.encode()).hexdigest()


def _compile(compiler: HostCompiler, text: str, library: Path) -> str:
    """Compile `text` to `library`. Returns the compiler's messages if it fails, else an empty string."""
    command = [compiler.program, *FLAGS, "-x", "c++", "-", "-o", str(library)]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"it took more than {TIMEOUT} s"
    return "" if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"


def _open(title: str, library: str) -> ctypes.CDLL:
    """Load by path, which nobody else can change, not by descriptor: the loader identifies libraries by name."""
    try:
        return ctypes.CDLL(library)
    except OSError as error:  # for example a cache folder on a file system mounted noexec
        raise CompilerMissing(f"{title} was compiled and cannot be loaded: {error}") from error
