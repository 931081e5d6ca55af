"""What follows from circuits of nodes, in the user's private cache: the rows that they take, the roots of their keys.

A verifier needs these alone, and making them takes seconds. A root stands for a commitment that is not made again, as a
checked key's file stands for its check (`kernels.host.cache`): nobody but the user can have written it. Names of files
have the forms of the children, frame and parameters, and a digest of the code, native code included. Only what this
machine's CPU made is kept here: a prover's device may err.

A file that is damaged, of another user or in a folder that others can change is made anew. A whole file with a wrong
root could be written by the user and root alone, and either can change this program as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.proof import check_fields
from distprove.stark.multilinear.params import Parameters
from distprove.stark.recursion.circuit_cache import BOUND, code, kept_circuit, name_of
from distprove.stark.recursion.frame import KINDS
from distprove.stark.recursion.node import DIGEST_BYTES, Child
from distprove.stark.recursion.program import CircuitProgram
from distprove.stark.recursion.rows import row_counts
from distprove.stark.recursion.shipped import shipped_root
from kernels.host import cache as files
from kernels.host.loaded_code import as_loaded

_ROWS, _ROOT = ".rows", ".root"


def kept_rows(children: Sequence[Child], folder: Path | None = None) -> Mapping[str, int]:
    """The rows of each kind that the circuit of these children takes. `folder` is the cache's by default."""
    name = name_of(children)

    def read() -> dict[str, int] | None:
        return _read(folder, name, _ROWS, dict.fromkeys(KINDS, int))

    found = read()
    if found is None:
        with files.making(_folder(folder), "rows"):
            found = read() or row_counts(kept_circuit(children))
            _write(folder, name, _ROWS, found)
    return {kind: found[kind] for kind in KINDS}


def kept_root(
    program: CircuitProgram, params: Parameters, make: Callable[[], bytes], folder: Path | None = None
) -> bytes:
    """The root of a program's preprocessed columns under these parameters, made by `make` if it is neither in the cache
    nor shipped (`recursion.shipped`)."""
    root = _read_root(program, params, folder)
    if root is None:
        with files.making(_folder(folder), "roots"):
            root = found_root(program, params, folder) or make()
            _write(folder, _root_name(program, params), _ROOT, {"root": root})
    return root


def found_root(program: CircuitProgram, params: Parameters, folder: Path | None = None) -> bytes | None:
    """The root that `kept_root` would return without making it. A shipped one takes the program's columns."""
    return _read_root(program, params, folder) or shipped_root(program, params)


def _read_root(program: CircuitProgram, params: Parameters, folder: Path | None) -> bytes | None:
    found = _read(folder, _root_name(program, params), _ROOT, {"root": bytes})
    return found["root"] if found is not None and len(found["root"]) == DIGEST_BYTES else None


def _root_name(program: CircuitProgram, params: Parameters) -> str:
    told = [program.circuit_name, list(map(list, program.frame.log_heights.items())), params.to_record()]
    return hashlib.sha256(canonical.encode(told)).hexdigest()


def _read(folder: Path | None, name: str, suffix: str, fields: dict[str, type]) -> dict[str, Any] | None:
    file = files.find(_folder(folder), name, suffix)
    if file is None:
        return None
    with file:
        try:
            record = canonical.decode(file.read(), name)
            check_fields(record, fields, name)
        except FormatError:
            return None
    found: dict[str, Any] = record
    return found


def _write(folder: Path | None, name: str, suffix: str, record: dict[str, Any]) -> None:
    if not as_loaded(code()):
        return
    data = canonical.encode(record)
    kept = files.keep(_folder(folder), name, suffix, lambda file: file.write(data), BOUND)
    if kept is not None:
        kept.close()


def _folder(given: Path | None) -> Path:
    return given or files.user_cache_dir("circuits")
