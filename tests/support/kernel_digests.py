"""Digests of what the CPU kernels compute from fixed inputs. As a program it prints them, and needs no pytest.

Two machines, or two builds of the native code, compute the same.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from kernels.maths import encoding
from kernels.maths.curves import CURVES, Curve, Group
from kernels.maths.goldilocks import P

LENGTH = 256
"""Elements of a vector, rows of a matrix, and points of a sum."""


def digests(threads: int = 2) -> dict[str, str]:
    """SHA-256 of each result, by the name of what is computed."""
    backend = CpuBackend(threads)
    return {
        name: hashlib.sha256(np.ascontiguousarray(made).tobytes()).hexdigest()
        for results in (*(_curve(backend, curve) for curve in CURVES), _goldilocks(backend))
        for name, made in results
    }


def _curve(backend: CpuBackend, curve: Curve) -> Iterator[tuple[str, Any]]:
    """Products, inverses and transforms in both fields, and sums of points in both groups."""
    rng = random.Random(curve.name)
    for field in (curve.fr, curve.fq):
        values = [0, 1, field.modulus - 1, *(rng.randrange(field.modulus) for _ in range(LENGTH - 3))]
        vector = encoding.field_from_ints(field, values)
        yield f"{field.name} product", backend.vectors.mul(field, vector, vector[::-1].copy())
        yield f"{field.name} inverse", backend.vectors.batch_inverse(field, vector)
    scalars = [0, 1, curve.fr.modulus - 1, *(rng.randrange(curve.fr.modulus) for _ in range(LENGTH - 3))]
    words = encoding.scalars_from_ints(curve.fr, scalars)
    yield f"{curve.name} transform", backend.vectors.ntt(curve.fr, encoding.field_from_ints(curve.fr, scalars), coset=5)
    for group in Group:
        points = backend.groups.fixed_base(curve, group, encoding.generator(curve, group), words[1:])
        table = backend.groups.load_points(curve, group, points)
        yield f"{curve.name} {group.name} multiples", points
        yield f"{curve.name} {group.name} sum", backend.groups.msm(table, words[:-1]).result()


def _goldilocks(backend: CpuBackend) -> Iterator[tuple[str, Any]]:
    """An extension of columns, and its commitment under each hash."""
    columns = np.random.default_rng(1).integers(0, P, (20, LENGTH), dtype=np.uint64)
    extended = backend.goldilocks.lde(columns, 1)
    yield "Goldilocks extension", extended
    for tree_hash in TreeHash:
        yield (
            f"{tree_hash.name} root",
            np.frombuffer(backend.goldilocks.commit([extended], tree_hash=tree_hash).root, dtype=np.uint8),
        )


if __name__ == "__main__":
    print(json.dumps(digests()))
