"""Circuits of nodes in the user's private cache: a prover need not record one that another process has recorded.

A circuit follows from the forms of the children and from this package's code, and both are in a file's name. So changed
code, Python's or native, finds no file of the code before it. Nothing depends on the cache (`kernels.host.cache`): a
file that is absent, damaged or no circuit is made anew. The layout is not kept, since it takes less time to make than
to read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import distprove.stark
import kernels
from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.proof import check_fields
from distprove.stark.heights import encode_heights
from distprove.stark.recursion.circuit import TABLES, WORDS_OF, Circuit
from distprove.stark.recursion.node import Child, node_circuit
from kernels.host import cache as files
from kernels.host.native import native

KEPT_OPERATIONS = 1 << 15
"""Operations of the smallest circuit that is kept. That of a root has 61,000 and takes 0.35 s to record."""
BOUND = files.Bound(bytes=1 << 30, files=1 << 12)
"""Of the folder. A circuit of a RISC-V segment's leaf takes some 40 MB."""
_SUFFIX = ".circuit"
_FIELDS: dict[str, type] = {
    "wires": int,
    "public": list,
    "fields": list,
    "messages": list,
    "kinds": bytes,
    "tables": dict,
    "words": dict,
}


def kept_circuit(children: Sequence[Child], folder: Path | None = None) -> Circuit:
    """`node_circuit`, from the user's cache if it is there. `folder` is the cache's by default."""
    folder = folder or files.user_cache_dir("circuits")
    key = name_of(children)
    found = _read(folder, key)
    if found is not None:
        return found
    circuit = node_circuit(children)
    if len(circuit.kinds) >= KEPT_OPERATIONS:
        kept = files.keep(folder, key, _SUFFIX, lambda file: file.write(encode_circuit(circuit)), BOUND)
        if kept is not None:
            kept.close()
    return circuit


def _read(folder: Path, key: str) -> Circuit | None:
    file = files.find(folder, key, _SUFFIX)
    if file is None:
        return None
    with file:
        try:
            return decode_circuit(file.read())
        except FormatError:
            return None


def encode_circuit(circuit: Circuit) -> bytes:
    """The content of a circuit's file."""
    return canonical.encode(
        {
            "wires": circuit.wires,
            "public": circuit.public,
            "fields": circuit.fields,
            "messages": circuit.messages,
            "kinds": circuit.kinds.tobytes(),
            "tables": {name: rows.astype("<u4").tobytes() for name, rows in circuit.tables.items()},
            "words": {name: rows.astype("<u8").tobytes() for name, rows in circuit.words.items()},
        }
    )


def decode_circuit(data: bytes) -> Circuit:
    """The circuit of a file. Raises FormatError for bytes that are no circuit."""
    record = canonical.decode(data, "circuit")
    check_fields(record, _FIELDS, "circuit")
    if not 0 <= record["wires"] < 1 << 32 or not all(type(message) is str for message in record["messages"]):
        raise FormatError("circuit: its wires or messages")
    circuit = Circuit(
        record["wires"],
        _sized(record["public"]),
        _sized(record["fields"]),
        tuple(record["messages"]),
        np.frombuffer(record["kinds"], dtype=np.uint8),
        _arrays(record["tables"], TABLES, np.dtype("<u4")),
        _arrays(record["words"], WORDS_OF, np.dtype("<u8")),
    )
    try:
        if circuit.native.publics != circuit.public_count or circuit.native.fields > len(circuit.fields):
            raise FormatError("circuit: its public values or fields")
    except ValueError as error:
        raise FormatError(f"circuit: {error}") from None
    return circuit


def _sized(given: Any) -> tuple[tuple[str, int], ...]:
    """Names with numbers of scalars."""
    for item in given:
        if type(item) is not list or list(map(type, item)) != [str, int] or item[1] < 0:
            raise FormatError("circuit: a field is a name and a number")
    return tuple((name, count) for name, count in given)


def _arrays(given: Any, columns: Mapping[str, int], kind: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    check_fields(given, dict.fromkeys(columns, bytes), "circuit")
    if any(len(given[name]) % (kind.itemsize * count) for name, count in columns.items()):
        raise FormatError("circuit: a table of broken rows")
    native = kind.newbyteorder("=")
    return {
        name: np.frombuffer(given[name], dtype=kind).astype(native, copy=False).reshape(-1, count)
        for name, count in columns.items()
    }


def name_of(children: Sequence[Child]) -> str:
    """A digest of what a circuit depends on, as hexadecimal digits."""
    forms = [[c.shape.key.digest, encode_heights(c.shape.log_heights), c.name_length, c.of_job] for c in children]
    return hashlib.sha256(_code() + canonical.encode(forms)).hexdigest()


@cache
def _code() -> bytes:
    """The digest of the code that records circuits and commits to their columns, and of all that it could reach: Python
    modules, and the native library that this process has loaded."""
    hashed = hashlib.sha256()
    for package in (distprove.stark, kernels):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            hashed.update(canonical.encode([str(path.relative_to(root)), path.read_bytes()]))
    hashed.update(canonical.encode(["native", Path(native.__file__).read_bytes()]))
    return hashed.digest()
