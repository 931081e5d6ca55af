"""The hashes of `kernels.interface.tree_hash` for a verifier: many leaves or nodes at once, on the calling thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface.tree_hash import NODE_TAG, TreeHash

Bytes = NDArray[np.uint8]

DIGEST_BYTES, DIGEST_WORDS = 32, 4

_instruction_set = native.gl_instruction_sets()[-1]


def leaf_digests(tree_hash: TreeHash, rows: Bytes) -> Bytes:
    """Return the digests (m, 32) of the rows of an (m, k) uint8 array. Raises SizeError.

    Others than Keccak take whole field elements of 8 bytes.
    """
    whole = rows.ndim == 2 and (tree_hash is TreeHash.KECCAK or rows.shape[1] % 8 == 0)
    if not whole or rows.dtype != np.uint8:
        raise SizeError(f"rows to hash have shape (m, k) and dtype uint8, not {rows.shape} {rows.dtype}")
    out = np.empty((len(rows), DIGEST_BYTES), dtype=np.uint8)
    flat = np.ascontiguousarray(rows).reshape(-1)
    native.hash_rows(native.Pool(1), _instruction_set, tree_hash.function, flat, rows.shape[1], out.reshape(-1))
    return out


def node_digests(tree_hash: TreeHash, children: Sequence[Bytes], tag: int = NODE_TAG) -> Bytes:
    """Return the digests (.., 32) of nodes over two or four children; child t of each node is in `children[t]`."""
    shape = children[0].shape
    if tree_hash is TreeHash.KECCAK:
        data = np.zeros((*shape[:-1], 72), dtype=np.uint8)
        data[..., 0] = tag
        data[..., 8:40], data[..., 40:] = children
        return leaf_digests(tree_hash, data.reshape(-1, 72)).reshape(shape)
    count = int(np.prod(shape[:-1]))
    words = np.stack([np.ascontiguousarray(c).reshape(count, DIGEST_BYTES).view("<u8") for c in children])
    level = np.ascontiguousarray(words.transpose(2, 0, 1)).reshape(-1).astype(np.uint64, copy=False)
    out = np.empty((DIGEST_WORDS, count), dtype=np.uint64)
    if count:
        into = out.reshape(-1)
        native.gl_parents(native.Pool(1), _instruction_set, tree_hash.function, tag, level, 1, len(children), into)
    return np.ascontiguousarray(out.T).astype("<u8", copy=False).view(np.uint8).reshape(shape)
