"""How the parts of a proof are encoded and parsed: field elements, digests, openings of trees. Both engines use it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from distprove.errors import FormatError
from distprove.proof import check_fields
from distprove.stark.field import P, Words, is_canonical
from distprove.stark.merkle import TreeShape
from kernels.host.units import count_of
from kernels.interface.goldilocks import TreeOpening
from kernels.interface.tree_hash import TreeHash

ENCODING, NAMES = 1.01, 1024
"""An encoded proof takes at most this many times its content, and so many bytes more for the names of its fields."""


def read_opening(record: Any, shape: TreeShape, queries: int, what: str) -> TreeOpening:
    """Parse a tree's opening at so many queries. Rows and nodes are only bounded here, by the queries. Raises
    FormatError."""
    check_fields(record, {"path": bytes, "rows": list}, what)
    nodes = _count(record["path"], 32, queries * shape.most_siblings, what)
    path = np.frombuffer(record["path"], dtype=np.uint8).reshape(nodes, 32)
    given = zip(exactly(record["rows"], len(shape.matrices), what), shape.matrices, strict=True)
    return TreeOpening(
        tuple(unpack(r, (_count(r, 8 * width, queries, what), width), what) for r, (_, width) in given), path
    )


def pack(words: Words) -> bytes:
    """Field elements as 8 little-endian bytes each, in C order."""
    return np.ascontiguousarray(words).astype("<u8").tobytes()


def unpack(data: Any, shape: tuple[int, ...], what: str) -> Words:
    """Decode field elements of a given shape and check that each is below p. Raises FormatError."""
    if not isinstance(data, bytes) or len(data) != 8 * math.prod(shape):
        raise FormatError(f"{what}: field elements of another number than {shape}")
    words = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)
    if not is_canonical(words):
        raise FormatError(f"{what}: a field element that is not below {P}")
    return words


def _count(data: Any, size: int, most: int, what: str) -> int:
    """Number of items of `size` bytes in `data`. Raises FormatError for incomplete items and for more than `most`."""
    if not isinstance(data, bytes) or len(data) % size or len(data) > size * most:
        raise FormatError(f"{what}: not at most {count_of(most, 'item')} of {count_of(size, 'byte')}")
    return len(data) // size


def read_digest(data: Any, what: str) -> bytes:
    """Check that `data` is a digest. Raises FormatError."""
    if not isinstance(data, bytes) or len(data) != 32:
        raise FormatError(f"{what}: a digest has 32 bytes")
    return data


def check_root(root: bytes, tree_hash: TreeHash, what: str) -> None:
    """Raise FormatError for a root of a key's tree, of 32 bytes, whose words are no digest under its hash."""
    if not tree_hash.are_digests(np.frombuffer(root, dtype=np.uint8)):
        raise FormatError(f"{what}: no digest of {tree_hash.label}, of which each has one encoding")


def exactly(items: Any, count: int, what: str) -> list[Any]:
    """Check that `items` is a list of this length. Raises FormatError."""
    if not isinstance(items, list) or len(items) != count:
        raise FormatError(f"{what}: a list of another length than {count}")
    return items
