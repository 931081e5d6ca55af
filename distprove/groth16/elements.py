"""Vectorised checks and encodings of long vectors of field elements, in bounded memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.interface.arrays import Empty
from kernels.maths.curves import CURVES, Curve, Field

Words = NDArray[np.uint64]

_CHUNK = 1 << 15
"""Rows handled at a time: 1 MiB of 256-bit elements, which stay in the cache and bound the size of temporaries."""


def curve_by_order(r: int) -> Curve:
    """The curve whose scalar field has modulus `r`. Raises KeyError."""
    for curve in CURVES:
        if curve.fr.modulus == r:
            return curve
    raise KeyError("no known curve has this scalar field modulus")


def as_words(raw: NDArray[np.uint8], empty: Empty = np.empty) -> Words:
    """View (n, 8 * limbs) bytes as (n, limbs) uint64 if the memory is aligned, else copy them into a new array that
    `empty` allocates."""
    n, size = raw.shape
    if raw.ctypes.data % 8 == 0 and raw.flags.c_contiguous:
        return raw.view("<u8").reshape(n, size // 8)
    words = empty((n, size // 8), np.uint64)
    words.view(np.uint8)[:] = raw
    return words


def first_not_canonical(field: Field, elements: Words) -> int | None:
    """Index of the first row of `elements`, (n, limbs), that is not below the modulus; None if all are."""
    modulus = [(field.modulus >> (64 * i)) & (2**64 - 1) for i in range(field.limbs)]
    for start in range(0, elements.shape[0], _CHUNK):
        rows = elements[start : start + _CHUNK]
        undecided = rows[:, -1] >= modulus[-1]
        # The highest word decides all but a few rows; the rest are compared as integers.
        for index in np.flatnonzero(undecided):
            if int.from_bytes(rows[index].tobytes(), "little") >= field.modulus:
                return start + int(index)
    return None


def dictionary(elements: Words) -> tuple[Words, NDArray[np.uint32]]:
    """The distinct rows of `elements`, (n, limbs), and each row's index among the distinct ones, (n,) uint32.

    Rows are distinguished by a 64-bit fingerprint, which is much faster than comparing whole rows. If two distinct rows
    have the same fingerprint, which an attacker can arrange, the whole rows are sorted instead.
    """
    first, index = _distinct(_fingerprints(elements))
    distinct = np.ascontiguousarray(elements[first])
    for start in range(0, elements.shape[0], _CHUNK):
        if not np.array_equal(distinct[index[start : start + _CHUNK]], elements[start : start + _CHUNK]):
            rows, inverse = np.unique(elements, axis=0, return_inverse=True)
            return np.ascontiguousarray(rows), inverse.reshape(-1).astype(np.uint32)
    return distinct, index


def _fingerprints(elements: Words) -> Words:
    n, limbs = elements.shape
    fingerprints = np.zeros(n, dtype=np.uint64)
    for start in range(0, n, _CHUNK):
        mixed = fingerprints[start : start + _CHUNK]
        for limb in range(limbs):
            mixed ^= elements[start : start + _CHUNK, limb]
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return fingerprints


_FEW = 1 << 14
"""Maximum number of distinct values for which looking up each value is faster than sorting all of them. The table of
values then stays in the cache."""


def _distinct(keys: Words) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """The index of each distinct key's first occurrence, and each key's index among the distinct ones."""
    known, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)  # sorted, and the number of each
    first, index = np.empty(0, dtype=np.int64), np.empty(keys.shape[0], dtype=np.uint32)
    for start in range(0, keys.shape[0], _CHUNK):
        chunk = keys[start : start + _CHUNK]
        at = np.searchsorted(known, chunk)
        near = np.minimum(at, len(known) - 1)  # where all known ones are less the last one is another, too
        new = np.flatnonzero(known[near] != chunk) if known.size else np.arange(len(chunk))
        if new.size:
            added, places = np.unique(chunk[new], return_index=True)
            numbers = np.concatenate([numbers, np.arange(len(first), len(first) + len(added), dtype=np.uint32)])
            first, known = np.concatenate([first, start + new[places]]), np.concatenate([known, added])
            order = np.argsort(known)
            known, numbers = known[order], numbers[order]
            if known.shape[0] > _FEW:
                _, positions, inverse = np.unique(keys, return_index=True, return_inverse=True)
                return positions.astype(np.int64), inverse.reshape(-1).astype(np.uint32)
            at = np.searchsorted(known, chunk)
        index[start : start + _CHUNK] = numbers[at]
    return first, index
