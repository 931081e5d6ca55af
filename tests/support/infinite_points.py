"""Keys with points at infinity where a test wants them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.groth16.zkey import ZKey
from tests.support.file_builders import with_points


def with_infinity(zkey: ZKey, finite: Sequence[float], *, seed: int) -> ZKey:
    """`zkey` with about these shares of finite points under A, B1 and B2, on wires that depend on the seed.

    That is no circuit's key, but one under which any two provers make the same proof of a witness.
    """
    rng, vectors = np.random.default_rng(seed), {}
    for name, share in zip(("a", "b1", "b2"), finite, strict=True):
        rows = getattr(zkey.points, name)
        some = rows[rows.any(axis=1)]
        vectors[name] = some[np.arange(len(rows)) % len(some)]
        vectors[name][rng.permutation(len(rows)) >= round(share * len(rows))] = 0
    return with_points(zkey, **vectors)
