"""Ceilings: the maximum rates of the hardware. They are measured in the same run on a CPU, and tabled for known GPUs.

On a GPU a vector product through memory is bound by bandwidth, so the rate of the multiplier itself cannot be measured
through the Backend interface; the table holds what microkernels that use registers only have reached.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from distprove.measure.results import Ceiling
from distprove.measure.timing import measure
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Field, Group

IN_CACHE = 1 << 11
"""Elements per operand of the timed product: 64 KiB of elements with 4 limbs, which stay in a second-level cache."""

XYZZ_PRODUCTS = {Group.G1: 9.5, Group.G2: 28}
"""Base-field products that adding an affine point to an XYZZ accumulator takes: 8 M + 2 S. In G2 an M takes 3 products
and an S 2. In G1 two of the M share one of their reductions, and a reduction is half of a product.
http://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html, madd-2008-s."""
AFFINE_PRODUCTS = {Group.G1: 6, Group.G2: 17}
"""Base-field products that adding affine points in a batch takes: 5 M + 1 S. The shared inversion counts as free."""

TABLE_SOURCE = "table: register-only microkernels on one H200, SM clock 1980 MHz"
BUTTERFLIES = {("H200", "bn128"): 6.84e10, ("H200", "bls12381"): 7.05e10}
"""Butterflies a second of a scalar field with prepared twiddles, in registers alone, by device. With products in
Montgomery form they were 5.6e10 and 5.0e10 in the same run."""
MIXED_ADDS = {("H200", "bn128"): 6.32e9, ("H200", "bls12381"): 2.84e9}
"""Additions of a point of G1 to a bucket a second, by device and curve. The multiplier allows 6.00e9 and 2.70e9 of ten
products each, which are scaled here to `XYZZ_PRODUCTS`."""


def butterfly_ceiling(backend: Backend, curve: Curve) -> Ceiling | None:
    """Maximum scalar-field butterflies (one product, one addition, one subtraction) per second; None if unknown."""
    tabled = _tabled(BUTTERFLIES, backend, curve)
    if tabled is not None:
        return Ceiling("Fr butterflies", tabled, TABLE_SOURCE)
    if backend.info().kind != "cpu":
        return None
    return Ceiling("Fr products", product_rate(backend, curve.fr), "measured: vector product in cache")


def addition_ceiling(backend: Backend, curve: Curve, group: Group) -> Ceiling | None:
    """Maximum additions of a point to a bucket per second: XYZZ += affine on a GPU, affine in batches on a CPU."""
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
    """Products per second on vectors that fit a cache: the multiplier's own speed, on all threads of the backend."""
    # More elements than one cache holds, because each thread has its own share of the vector.
    n = IN_CACHE * max(1, int(backend.info().details.get("threads", 1)))
    a, b = random_elements(backend, field, n), random_elements(backend, field, n)
    out = backend.empty((n, field.limbs))
    # The best sample counts, because a ceiling is what the machine can do undisturbed.
    return n / min(measure(lambda _: backend.vectors.mul(field, a, b, out), backend, repeats=21).samples)


def random_elements(backend: Backend, field: Field, n: int) -> Array:
    """n random field elements, (n, limbs), in the backend's memory."""
    return backend.to_device(random_integers(field, n))


def random_integers(field: Field, n: int) -> NDArray[np.uint64]:
    """n random canonical integers, (n, limbs) uint64, which may equally be taken as elements in Montgomery form.

    They are uniform below 2^(bits - 1), which is below the modulus of every field in use; the missing top bit makes no
    difference to any algorithm that is measured with them.
    """
    rng = np.random.default_rng(secrets.randbits(64))
    words = rng.integers(0, 1 << 64, size=(n, field.limbs), dtype=np.uint64)
    words[:, -1] >>= np.uint64(64 * field.limbs - (field.bits - 1))
    return words


def _tabled(table: dict[tuple[str, str], float], backend: Backend, curve: Curve) -> float | None:
    name = backend.info().name
    return next((rate for (device, c), rate in table.items() if device in name and c == curve.name), None)
