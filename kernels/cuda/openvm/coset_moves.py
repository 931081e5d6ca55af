"""Moves of values on D to its cosets: on the host, and the factors by which `openvm_rules.cu` moves cells."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernels.host.babybear import matmul
from kernels.interface.openvm_rules import coset_shifts
from kernels.maths.babybear import Elements, P, mul, powers
from kernels.maths.babybear_ntt import intt, ntt

COSETS = 2
"""Most cosets of a thread of `openvm_cosets`: there is a kernel for each number."""
USUAL_LOG_RUN = 4
"""log2 of the runs for which there are kernels of their own, whose names end with `_of_16`."""


def on_cosets(values: Elements, count: int) -> Elements:
    """The values (..., count, n, 4) on cosets of polynomials with values (..., n, 4) on D."""
    n = values.shape[-2]
    moved = matmul(np.swapaxes(values, -1, -2).reshape(-1, n), _moves(n, count))
    return np.moveaxis(moved.reshape(*values.shape[:-2], 4, count, n), -3, -1)


@lru_cache(maxsize=64)
def _moves(n: int, count: int) -> Elements:
    """Row z, (n, count * n): the values on cosets of D of the polynomial that is 1 at point z of D and 0 elsewhere."""
    scales = np.array([powers(shift, n) for shift in coset_shifts(count)], dtype=np.uint32).reshape(count, n)
    return ntt(mul(intt(np.eye(n, dtype=np.uint32))[:, None], scales)).reshape(n, -1)


@lru_cache(maxsize=64)
def factors_of(log_run: int, first: int) -> NDArray[np.uint32]:
    """The factors of `OnCosets` in openvm_rules.cu for cosets from number `first` on.

    A factor is a value on a coset of the polynomial that is 1 at 1 and 0 at the other points of D, in Montgomery form.
    For runs of 16 they are bytes of matrices, (cosets, halves, 2, 32, 4), as the lanes of a warp hold them.
    """
    run = 1 << log_run
    scale = np.uint32((pow(run, -1, P) << 32) % P)
    found = np.stack([mul(ntt(powers(shift, run)), scale) for shift in coset_shifts(COSETS, first)])
    if log_run != USUAL_LOG_RUN:
        return found
    low, high = found[:, : run // 2].astype(np.int64), found[:, run // 2 :].astype(np.int64)
    halves = np.stack((low + high, low - high), axis=1) * ((P + 1) // 2) % P
    """(cosets, halves, 8): of sums, and of differences."""
    places = np.arange(run // 2)
    apart = places[:, None] - places
    signs = np.stack((np.ones_like(apart), np.where(apart < 0, -1, 1)))
    of_words = halves[:, :, apart % (run // 2)] * signs % P
    """(cosets, halves, 8 places of results, 8 words)"""
    of_bytes = (of_words[..., None] << 8 * np.arange(4)) % P
    digits = (of_bytes[..., None] >> 8 * np.arange(4) & 255).astype(np.uint8)
    """(cosets, halves, places, words, bytes of words, bytes of factors)"""
    # Lane 4 g + q has of tile t four words: bytes 2 t and 2 t + 1 of the factors of word q, then of word q + 4.
    digits = digits.reshape(COSETS, 2, 8, 2, 4, 4, 2, 2)  # words: w / 4, q; bytes of factors: t, odd
    ordered = digits.transpose(0, 1, 6, 2, 4, 3, 7, 5)
    return np.ascontiguousarray(ordered).view(np.uint32).reshape(COSETS, 2, 2, 32, 4)
