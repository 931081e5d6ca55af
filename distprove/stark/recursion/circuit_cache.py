"""Circuits of nodes and their tables in the user's private cache: a prover need not make what another process has made.

A circuit follows from the forms of the children and from this package's code, and both are in a file's name. So changed
code, Python's or native, finds no file of the code before it. Nothing depends on the cache (`kernels.host.cache`): a
file that is absent, damaged or no circuit is made anew. Files are mapped: making tables takes as long as reading them,
but holds the interpreter's lock, for which the thread that proves would wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import distprove.formats
import distprove.stark
import kernels
from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.formats.kept_arrays import Content, find_kept, keep_content
from distprove.proof import check_fields
from distprove.stark.heights import encode_heights
from distprove.stark.recursion.circuit import TABLES, WORDS_OF, Circuit
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import Child, node_circuit
from kernels.host import cache as files
from kernels.host.loaded_code import digest_of, sources
from kernels.host.native import native

KEPT_OPERATIONS = 1 << 15
"""Operations of the smallest circuit that is kept. That of a root has 61,000 and takes 0.35 s to record."""
BOUND = files.Bound(bytes=1 << 30, files=1 << 12)
"""Of the folder. A circuit of a RISC-V segment's leaf takes some 40 MB, and its tables 35."""
_CIRCUIT, _LAYOUT = ".circuit", ".layout"
_FIELDS: dict[str, type] = {"wires": int, "public": list, "fields": list, "messages": list}


def kept_circuit(children: Sequence[Child], folder: Path | None = None) -> Circuit:
    """`node_circuit`, from the user's cache if it is there. `folder` is the cache's by default."""
    folder = folder or files.user_cache_dir("circuits")
    key = name_of(children)
    circuit = find_kept(folder, key, _CIRCUIT, decode_circuit)
    if circuit is None:
        circuit = node_circuit(children)
        if len(circuit.kinds) >= KEPT_OPERATIONS:
            keep_content(folder, key, _CIRCUIT, encode_circuit(circuit), BOUND, code())
    return circuit


def kept_layout(
    children: Sequence[Child], frame: Frame, circuit: Callable[[], Circuit], folder: Path | None = None
) -> Layout:
    """The tables of the circuit of these children in a frame, from the user's cache if they are there. Otherwise one
    process makes them and others wait. Raises UsageError for a circuit that is too large for the frame."""
    if sum(1 << height for height in frame.log_heights.values()) < KEPT_OPERATIONS:
        return Layout.of(circuit(), frame)
    folder = folder or files.user_cache_dir("circuits")
    key = layout_name(children, frame)
    decode = partial(decode_layout, frame)
    layout = find_kept(folder, key, _LAYOUT, decode)
    if layout is None:
        recorded = circuit()
        with files.making(folder, "layouts"):
            layout = find_kept(folder, key, _LAYOUT, decode)
            if layout is None:
                layout = Layout.of(recorded, frame)
                keep_content(folder, key, _LAYOUT, encode_layout(layout), BOUND, code())
    return layout


def encode_circuit(circuit: Circuit) -> Content:
    """The content of a circuit's file. Tables and words have names of their own."""
    record = {
        "wires": circuit.wires,
        "public": list(map(list, circuit.public)),
        "fields": list(map(list, circuit.fields)),
        "messages": list(circuit.messages),
    }
    return record, {"kinds": circuit.kinds, **circuit.tables, **circuit.words}


def decode_circuit(content: Content) -> Circuit:
    """The circuit of a file. Raises FormatError for content that is no circuit."""
    record, arrays = content
    check_fields(record, _FIELDS, "circuit")
    if not 0 <= record["wires"] < 1 << 32 or not all(type(message) is str for message in record["messages"]):
        raise FormatError("circuit: its wires or messages")
    check_fields(arrays, dict.fromkeys(("kinds", *TABLES, *WORDS_OF), np.ndarray), "circuit")
    circuit = Circuit(
        record["wires"],
        _sized(record["public"]),
        _sized(record["fields"]),
        tuple(record["messages"]),
        _checked(arrays["kinds"], (None,), np.uint8),
        {name: _checked(arrays[name], (None, count), np.uint32) for name, count in TABLES.items()},
        {name: _checked(arrays[name], (None, count), np.uint64) for name, count in WORDS_OF.items()},
    )
    try:
        if circuit.native.publics != circuit.public_count or circuit.native.fields > len(circuit.fields):
            raise FormatError("circuit: its public values or fields")
    except ValueError as error:
        raise FormatError(f"circuit: {error}") from None
    return circuit


def encode_layout(layout: Layout) -> Content:
    """The content of a layout's file."""
    return {"rows": dict(layout.rows)}, dict(layout.preprocessed)


def decode_layout(frame: Frame, content: Content) -> Layout:
    """The layout of a file for a frame. Raises FormatError for content that is none of this frame."""
    record, columns = content
    check_fields(record, {"rows": dict}, "layout")
    check_fields(record["rows"], dict.fromkeys(KINDS, int), "layout")
    rows = {kind: record["rows"][kind] for kind in KINDS}
    if not frame.has_room(rows) or min(rows.values()) < 0:
        raise FormatError("layout: rows without room")
    check_fields(columns, dict.fromkeys(frame.log_heights, np.ndarray), "layout")
    sizes = frame.log_heights.items()
    return Layout(
        frame, rows, {name: _checked(columns[name], (None, 1 << height), np.uint64) for name, height in sizes}
    )


def _checked(array: NDArray[Any], shape: tuple[int | None, ...], kind: Any) -> NDArray[Any]:
    """The array. Raises FormatError unless it has this type and shape, of which None is any size."""
    fits = array.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    if array.dtype != kind or not fits:
        raise FormatError("an array of another type or shape")
    return array


def _sized(given: Any) -> tuple[tuple[str, int], ...]:
    """Names with numbers of scalars."""
    for item in given:
        if type(item) is not list or list(map(type, item)) != [str, int] or item[1] < 0:
            raise FormatError("circuit: a field is a name and a number")
    return tuple((name, count) for name, count in given)


def name_of(children: Sequence[Child]) -> str:
    """A digest of what a circuit depends on, as hexadecimal digits."""
    forms = [[c.shape.key.digest, encode_heights(c.shape.log_heights), c.name_length, c.of_job] for c in children]
    return hashlib.sha256(digest_of(code()) + canonical.encode(forms)).hexdigest()


def layout_name(children: Sequence[Child], frame: Frame) -> str:
    """A digest of what a layout depends on, as hexadecimal digits."""
    told = [name_of(children), list(map(list, frame.log_heights.items()))]
    return hashlib.sha256(canonical.encode(told)).hexdigest()


@cache
def code() -> tuple[Path, ...]:
    """The code that records circuits, commits to their columns and keeps them, and all that it could reach: Python
    modules, and the native library that this process has loaded."""
    return (
        *sources(distprove.stark.__path__, distprove.formats.__path__, kernels.__path__),
        Path(native.__file__),
    )
