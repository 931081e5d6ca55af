"""Files of arrays that a process maps instead of reading: a canonical header, then each array as it lies in memory.

The header's length in 8 bytes, the header {arrays, record}, then the arrays, each from the next multiple of 64 bytes
on, little-endian. These are files of a private cache (`kernels.host.cache`), whose digests are checked before they are
mapped; nobody who could change one afterwards is kept from changing this program.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.proof import check_fields

ALIGNMENT = 64
KINDS = {np.dtype(name).str: np.dtype(name) for name in ("<u1", "<u4", "<u8")}
"""The types that arrays may have, by their names in a file."""
_LENGTH = 8
"""Bytes of the header's length."""


def write_arrays(file: IO[bytes], record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a record and arrays of unsigned integers of 8, 32 or 64 bits, of any shape."""
    stored = {name: np.ascontiguousarray(own, own.dtype.newbyteorder("<")) for name, own in arrays.items()}
    told = [[name, own.dtype.str, list(own.shape)] for name, own in stored.items()]
    header = canonical.encode({"arrays": told, "record": record})
    file.write(len(header).to_bytes(_LENGTH, "little") + header)
    at = _LENGTH + len(header)
    for own in stored.values():
        file.write(bytes(-at % ALIGNMENT))
        file.write(own.data)
        at += -at % ALIGNMENT + own.nbytes


def map_arrays(file: IO[bytes], what: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The record of a file of `write_arrays`, and its arrays, which lie in the mapped file and cannot be written.

    The file may be closed. Raises FormatError for a file of another form.
    """
    try:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file
        raise FormatError(f"{what}: an empty file") from None
    at = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    header = canonical.decode(content[_LENGTH:at], what)
    check_fields(header, {"arrays": list, "record": dict}, what)
    arrays: dict[str, NDArray[Any]] = {}
    for told in header["arrays"]:
        name, kind, shape = _described(told, what)
        at += -at % ALIGNMENT
        if at + kind.itemsize * prod(shape) > len(content):
            raise FormatError(f"{what}: shorter than its arrays")
        try:
            arrays[name] = np.frombuffer(content, kind, prod(shape), at).reshape(shape)
        except ValueError:  # more dimensions, or a longer one, than an array can have
            raise FormatError(f"{what}: an array of a shape that is none") from None
        at += arrays[name].nbytes
    if at != len(content):
        raise FormatError(f"{what}: longer than its arrays")
    return header["record"], arrays


def _described(told: Any, what: str) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """The name, type and shape of an array."""
    if type(told) is not list or [type(part) for part in told] != [str, str, list] or told[1] not in KINDS:
        raise FormatError(f"{what}: an array is a name, a type and a shape")
    name, kind, shape = told
    if not all(type(size) is int and size >= 0 for size in shape):
        raise FormatError(f"{what}: an array of a shape that is none")
    return name, KINDS[kind], tuple(shape)
