"""Circuits that ship, built once on a machine: their witness programs and constraint systems in the user's cache.

Building a circuit of Filecoin's takes seconds of Python, and each process of a prover needs it. Both follow from the
circuit's entry and from this package's code alone, and both are in a file's name. So changed code finds no file of the
code before it. Nothing depends on the cache (`kernels.host.cache`): a file that is absent, damaged, of another user, or
no circuit, is made anew.

These files serve provers. A prover with a wrong circuit makes proofs that do not verify. Whoever makes a key decides by
the circuit what its proofs show: set-up builds the circuit by its code and never asks this cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import distprove.circuits
import distprove.formats
import distprove.groth16
import kernels
from distprove.circuits import circuit_file
from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import WitnessProgram
from distprove.formats import canonical
from distprove.formats.kept_arrays import Content, find_kept, keep_content
from distprove.groth16.templated import TemplatedSystem
from kernels.host import cache as files
from kernels.host.loaded_code import digest_of, sources
from kernels.host.native import native

BOUND = files.Bound(bytes=1 << 30, files=64)
"""Of the folder. The largest circuit, a PoRep of 64 GiB, takes some 45 MB."""
_WITNESS, _SYSTEM = ".witness", ".system"

Made = TypeVar("Made")
Make = Callable[[], CircuitBuilder]


def kept_witness_program(facts: str, make: Make, folder: Path | None = None) -> WitnessProgram:
    """The witness program of the circuit that `make` builds, from the user's cache if it is there. Otherwise one
    process builds it and others wait. `facts` say which circuit it is. `folder` is the cache's by default."""
    return _kept(
        facts, folder, _WITNESS, circuit_file.decode_witness_program, make, lambda built: built.witness_program()
    )


def kept_system(facts: str, make: Make, folder: Path | None = None) -> TemplatedSystem:
    """The constraint system of a circuit, otherwise as `kept_witness_program`. Raises UsageError for a circuit without
    constraints."""
    return _kept(facts, folder, _SYSTEM, circuit_file.decode_system, make, lambda built: built.system())


def _kept(
    facts: str,
    folder: Path | None,
    suffix: str,
    decode: Callable[[Content], Made],
    make: Make,
    part: Callable[[CircuitBuilder], Made],
) -> Made:
    folder = folder or files.user_cache_dir("built-circuits")
    key = name_of(facts)
    found = find_kept(folder, key, suffix, decode)
    if found is None:
        with files.making(folder, "circuits"):
            found = find_kept(folder, key, suffix, decode)
            if found is None:
                built = make()
                found = part(built)
                _keep(folder, key, built)
    return found


def _keep(folder: Path, key: str, built: CircuitBuilder) -> None:
    """Keep both parts of a circuit: a process that needs one needs the other, or starts one that does."""
    program = circuit_file.encode_witness_program(built.witness_program())
    contents = {_WITNESS: program, _SYSTEM: circuit_file.encode_system(built.system())}
    for suffix, content in contents.items():
        if content is not None:
            keep_content(folder, key, suffix, content, BOUND, code())


def name_of(facts: str) -> str:
    """A digest of what a built circuit depends on, as hexadecimal digits."""
    return hashlib.sha256(digest_of(code()) + canonical.encode(facts)).hexdigest()


@cache
def code() -> tuple[Path, ...]:
    """The code that builds circuits and keeps them, and all that it could reach: Python modules, and the native library
    that this process has loaded."""
    packages = (distprove.circuits, distprove.formats, distprove.groth16, kernels)
    return (*sources(*(package.__path__ for package in packages)), Path(native.__file__))
