"""Ceilings: what the hardware can do at most. Measured in the same run on a CPU; from a table on GPUs that are in it.

On a GPU a vector product through memory is bound by bandwidth, so the rate of the multiplier itself cannot be had from
the Backend interface; there the table holds what microkernels of registers alone reached.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from distprove.bench.measure import measure
from distprove.bench.results import Ceiling
from kernels.backend import Array, Backend
from kernels.curves import Curve, Field, Group

IN_CACHE = 1 << 11
"""Elements per operand of the product that is timed: 64 KiB of 4 limbs, which stays in a second-level cache."""

XYZZ_PRODUCTS = {Group.G1: 10, Group.G2: 28}
"""Base-field products of adding an affine point to an XYZZ accumulator: 8 M + 2 S; in G2 an M is three and an S two.
http://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html, madd-2008-s."""
AFFINE_PRODUCTS = {Group.G1: 6, Group.G2: 17}
"""The same of adding affine points whose inversions are shared: 5 M + 1 S, and the shared inversion counted as free."""

TABLE_SOURCE = "table: register-only microkernels on one H200, SM clock 1980 MHz"
BUTTERFLIES = {("H200", "bn128"): 5.74e10, ("H200", "bls12381"): 5.66e10}
MIXED_ADDS = {("H200", "bn128"): 6.00e9, ("H200", "bls12381"): 2.70e9}


def butterfly_ceiling(backend: Backend, curve: Curve) -> Ceiling | None:
    """Scalar-field butterflies per second: one product each, an addition and a subtraction."""
    tabled = _tabled(BUTTERFLIES, backend, curve)
    if tabled is not None:
        return Ceiling("Fr butterflies", tabled, TABLE_SOURCE)
    if backend.info().kind != "cpu":
        return None
    return Ceiling("Fr products", product_rate(backend, curve.fr), "measured: vector product in cache")


def addition_ceiling(backend: Backend, curve: Curve, group: Group) -> Ceiling | None:
    """Additions of a point to a bucket per second: XYZZ += affine on a GPU, affine in batches on a CPU."""
    tabled = _tabled(MIXED_ADDS, backend, curve)
    if tabled is not None:
        # One G2 addition costs what its base-field products cost.
        scale = XYZZ_PRODUCTS[Group.G1] / XYZZ_PRODUCTS[group]
        return Ceiling(f"{group.value.upper()} mixed additions", tabled * scale, TABLE_SOURCE)
    if backend.info().kind != "cpu":
        return None
    rate = product_rate(backend, curve.fq) / AFFINE_PRODUCTS[group]
    return Ceiling(f"{group.value.upper()} affine additions", rate, "measured: Fq vector product in cache")


def product_rate(backend: Backend, field: Field) -> float:
    """Products per second of vectors that fit a cache: the multiplier's own speed, on every thread of the backend."""
    # More elements than one cache holds, because each thread has its own share of the vector.
    n = IN_CACHE * max(1, int(backend.info().details.get("threads", 1)))
    a, b = random_elements(backend, field, n), random_elements(backend, field, n)
    out = backend.empty((n, field.limbs))
    # The best sample: a ceiling is what the machine could do undisturbed.
    return n / min(measure(lambda _: backend.mul(field, a, b, out), backend, repeats=21).samples)


def random_elements(backend: Backend, field: Field, n: int) -> Array:
    """n uniform field elements, (n, limbs), in the backend's memory."""
    return backend.to_device(random_integers(field, n))


def random_integers(field: Field, n: int) -> NDArray[np.uint64]:
    """(n, limbs) integers below the modulus: canonical, and as good a random vector in Montgomery form.

    Uniform below 2^(bits - 1), which is short of the modulus for every field here; the top bit makes no difference to
    any algorithm that is measured with them.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    words = rng.integers(0, 1 << 64, size=(n, field.limbs), dtype=np.uint64)
    words[:, -1] >>= np.uint64(64 * field.limbs - (field.bits - 1))
    return words


def _tabled(table: dict[tuple[str, str], float], backend: Backend, curve: Curve) -> float | None:
    name = backend.info().name
    return next((rate for (device, c), rate in table.items() if device in name and c == curve.name), None)
