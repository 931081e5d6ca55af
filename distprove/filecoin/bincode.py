"""Reads vanilla proofs in bincode, as Filecoin's API passes them on, into the values that serde's JSON has.

bincode 1 writes integers of fixed length, little-endian: 8 bytes for a length or a usize, 4 for a variant. Fields have
no names, and follow one another in the order of their declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.errors import FormatError
from distprove.filecoin.values import ELEMENT, base64_octets
from kernels.host.units import count_of

Read = Callable[["Cursor"], Any]
MAX_ITEMS = 1 << 20
_PIECES = {
    0: ("Single", ("root", "leaf", "path")),
    1: ("Sub", ("base_proof", "sub_proof", "root", "leaf")),
    2: ("Top", ("base_proof", "sub_proof", "top_proof", "root", "leaf")),
}
"""Tag and fields of a path, by variant."""


class Cursor:
    """A place in bytes that are read from the beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, size: int) -> bytes:
        """The next bytes. Raises FormatError where there are not so many."""
        end = self._place + size
        if end > len(self._data):
            raise FormatError(f"bincode ends at byte {len(self._data)}, within a value")
        taken, self._place = self._data[self._place : end], end
        return taken

    def integer(self, size: int = 8) -> int:
        return int.from_bytes(self.take(size), "little")

    def element(self) -> list[int]:
        return list(self.take(ELEMENT))

    def items(self, read: Read) -> list[Any]:
        count = self.integer()
        if count > MAX_ITEMS:
            raise FormatError(f"bincode: a list of {count_of(count, 'item')}")
        return [read(self) for _ in range(count)]

    def end(self) -> None:
        """Raise FormatError unless all was read."""
        if self._place != len(self._data):
            raise FormatError(f"bincode goes on after its value, from byte {self._place} on")


def decoded(value: Any, read: Callable[[bytes], dict[str, Any]]) -> Any:
    """A vanilla proof that is given as JSON, or as a text, its bincode in base64. Raises FormatError."""
    return read(base64_octets(value)) if isinstance(value, str) else value


def sector_proof(data: bytes) -> dict[str, Any]:
    """A `FallbackPoStSectorProof` of filecoin-proofs. Raises FormatError."""
    cursor = Cursor(data)
    made = {
        "sector_id": cursor.integer(),
        "comm_r": cursor.element(),
        "vanilla_proof": {"sectors": cursor.items(_sector)},
    }
    cursor.end()
    return made


def partition_proof(data: bytes) -> dict[str, Any]:
    """A `PartitionProof` of storage-proofs-update. Raises FormatError."""
    cursor = Cursor(data)
    made = {
        "comm_c": cursor.element(),
        "apex_leafs": cursor.items(Cursor.element),
        "challenge_proofs": cursor.items(_challenge),
    }
    cursor.end()
    return made


def _sector(cursor: Cursor) -> dict[str, Any]:
    paths = cursor.items(_path)
    return {"inclusion_proofs": paths, "comm_c": cursor.element(), "comm_r_last": cursor.element()}


def _challenge(cursor: Cursor) -> dict[str, Any]:
    return {name: _path(cursor) for name in ("proof_r_old", "proof_d_new", "proof_r_new")}


def _path(cursor: Cursor) -> dict[str, Any]:
    variant = cursor.integer(4)
    if variant not in _PIECES:
        raise FormatError(f"bincode: a path of variant {variant}")
    tag, names = _PIECES[variant]
    return {"data": {tag: {name: cursor.element() if name in ("root", "leaf") else _levels(cursor) for name in names}}}


def _levels(cursor: Cursor) -> dict[str, Any]:
    return {"path": cursor.items(_level)}


def _level(cursor: Cursor) -> dict[str, Any]:
    return {"hashes": cursor.items(Cursor.element), "index": cursor.integer()}
