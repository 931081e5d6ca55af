"""Reads vanilla proofs in bincode, as Filecoin's software hands them on: a `FallbackPoStSectorProof` for each sector of
a PoSt, a `PartitionProof` for each partition of an update (filecoin-proofs 19.1.0).

bincode 1 writes the fields of a structure one after the other, integers of 64 bits little-endian, a length as such an
integer before a vector, the number of a variant as 32 bits before it, and arrays of 32 bytes as they are. What is read
becomes the value that the same proof has as JSON, but 32 bytes stay bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distprove.errors import FormatError

ELEMENT = 32
MOST = 1 << 16
"""Most items of a vector: no proof has as many."""

Read = Callable[["_Reader"], Any]


class _Reader:
    """The bytes that are left of a proof."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise FormatError("the bincode ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def finish(self) -> None:
        if self._at != len(self._data):
            raise FormatError(f"{len(self._data) - self._at} bytes after the end of the bincode")


def _u64(reader: _Reader) -> int:
    return int.from_bytes(reader.take(8), "little")


def _octets(reader: _Reader) -> bytes:
    return reader.take(ELEMENT)


def _vector(item: Read) -> Read:
    def read(reader: _Reader) -> list[Any]:
        count = _u64(reader)
        if count > MOST:
            raise FormatError(f"a vector of {count} items in the bincode")
        return [item(reader) for _ in range(count)]

    return read


def _structure(**fields: Read) -> Read:
    return lambda reader: {name: read(reader) for name, read in fields.items()}


def _variant(**variants: Read) -> Read:
    listed = list(variants.items())

    def read(reader: _Reader) -> dict[str, Any]:
        number = int.from_bytes(reader.take(4), "little")
        if number >= len(listed):
            raise FormatError(f"variant {number} in the bincode, of {len(listed)}")
        name, inner = listed[number]
        return {name: inner(reader)}

    return read


_PATH = _structure(path=_vector(_structure(hashes=_vector(_octets), index=_u64)))
_ENDS = {"root": _octets, "leaf": _octets}
_MERKLE = _structure(
    data=_variant(
        Single=_structure(**_ENDS, path=_PATH),
        Sub=_structure(base_proof=_PATH, sub_proof=_PATH, **_ENDS),
        Top=_structure(base_proof=_PATH, sub_proof=_PATH, top_proof=_PATH, **_ENDS),
    )
)
_SECTOR = _structure(
    sector_id=_u64,
    comm_r=_octets,
    vanilla_proof=_structure(
        sectors=_vector(_structure(inclusion_proofs=_vector(_MERKLE), comm_c=_octets, comm_r_last=_octets))
    ),
)
_PARTITION = _structure(
    comm_c=_octets,
    apex_leafs=_vector(_octets),
    challenge_proofs=_vector(_structure(proof_r_old=_MERKLE, proof_d_new=_MERKLE, proof_r_new=_MERKLE)),
)


def sector_proof(data: bytes) -> Any:
    """The `FallbackPoStSectorProof` of one sector. Raises FormatError."""
    return _whole(_SECTOR, data)


def partition_proof(data: bytes) -> Any:
    """The `PartitionProof` of one partition of an update. Raises FormatError."""
    return _whole(_PARTITION, data)


def _whole(read: Read, data: bytes) -> Any:
    reader = _Reader(data)
    made = read(reader)
    reader.finish()
    return made
