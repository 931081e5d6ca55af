"""Circuits of any size with a satisfying witness, for benchmarks and tests. They are made as arrays, in seconds.

The shape follows real circuits: a share of the wires is boolean (b * b = b), the others are products of short
combinations of earlier wires, with full-size values. Products come in a few wide layers, so that a witness is a few
vector operations; a layer draws from the one before and from all booleans.

    (u + b) * v = w      u, v of the layer before, b a boolean
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.groth16.r1cs import R1cs
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve
from kernels.maths.encoding import field_from_ints, pack

MAX_CONSTRAINTS = 1 << 24
LAYERS = 16


@dataclass(frozen=True)
class SyntheticCircuit:
    """A circuit and one witness of it."""

    r1cs: R1cs
    witness: NDArray[np.uint64] = field(repr=False)
    """The secret witness, (wires, limbs) canonical integers."""


@dataclass(frozen=True)
class _Layout:
    """The order of wires (one | public inputs | booleans | products by layer) and rows (booleans, then products)."""

    constraints: int
    booleans: int
    width: int
    public: int

    @property
    def first_boolean(self) -> int:
        return 1 + self.public

    @property
    def first_product(self) -> int:
        return self.first_boolean + self.booleans

    @property
    def products(self) -> int:
        return self.constraints - self.booleans

    @property
    def wires(self) -> int:
        return self.first_product + self.products


def synthetic_circuit(
    curve: Curve,
    constraints: int,
    backend: Backend,
    *,
    boolean_share: float = 0.5,
    public_inputs: int = 2,
    seed: int = 0,
) -> SyntheticCircuit:
    """Make a circuit of exactly `constraints` constraints, with a share of about `boolean_share` boolean private wires.

    `seed` fixes the circuit (the same seed, sizes and share give the same R1CS); its public inputs and booleans, and
    with them the witness, are random each time. Raises UsageError for sizes out of range.
    """
    if not 1 <= constraints <= MAX_CONSTRAINTS:
        raise UsageError(f"a synthetic circuit has 1 to {MAX_CONSTRAINTS} constraints, not {constraints}")
    if not 0 <= boolean_share <= 1 or public_inputs < 1:
        raise UsageError("boolean_share lies between 0 and 1, and there is at least one public input")
    booleans = min(round(constraints * boolean_share), constraints)
    width = max(public_inputs, -(-(constraints - booleans) // LAYERS))
    layout = _Layout(constraints, booleans, width, public_inputs)
    sources = _Sources.draw(layout, np.random.default_rng(seed))
    return SyntheticCircuit(_r1cs(curve, layout, sources), _witness(curve, layout, sources, backend))


@dataclass(frozen=True)
class _Sources:
    """The wires u, v and b of every product, (products,) each."""

    u: NDArray[np.uint32]
    v: NDArray[np.uint32]
    b: NDArray[np.uint32]

    @classmethod
    def draw(cls, layout: _Layout, rng: np.random.Generator) -> _Sources:
        index = np.arange(layout.products, dtype=np.int64)
        layer = index // layout.width
        # The first layer draws from the public inputs, every other layer from the whole previous layer.
        first = np.where(layer == 0, 1, layout.first_product + (layer - 1) * layout.width)
        size = np.where(layer == 0, layout.public, layout.width)
        u, v = (first + (rng.random(layout.products) * size).astype(np.int64) for _ in range(2))
        # Without booleans the constant takes their place.
        if layout.booleans:
            b = layout.first_boolean + rng.integers(0, layout.booleans, layout.products)
        else:
            b = np.zeros(layout.products, dtype=np.int64)
        return cls(u.astype(np.uint32), v.astype(np.uint32), b.astype(np.uint32))


def _r1cs(curve: Curve, layout: _Layout, sources: _Sources) -> R1cs:
    booleans = np.arange(layout.first_boolean, layout.first_product, dtype=np.uint32)
    products = np.arange(layout.first_product, layout.wires, dtype=np.uint32)
    one = field_from_ints(curve.fr, [1])

    def matrix(columns: NDArray[np.uint32], entries_of_product: int) -> CsrMatrix:
        lengths = np.ones(layout.constraints, dtype=np.uint32)
        lengths[layout.booleans :] = entries_of_product
        row_ptr = np.zeros(layout.constraints + 1, dtype=np.uint32)
        np.cumsum(lengths, out=row_ptr[1:])
        zero = np.zeros(columns.shape[0], dtype=np.uint32)
        return CsrMatrix(layout.constraints, layout.wires, row_ptr, columns, zero, one)

    sums = np.stack([sources.u, sources.b], axis=1).reshape(-1)
    return R1cs(
        curve=curve,
        n_vars=layout.wires,
        n_outputs=0,
        n_public_inputs=layout.public,
        n_private_inputs=layout.booleans,
        a=matrix(np.concatenate([booleans, sums]), 2),
        b=matrix(np.concatenate([booleans, sources.v]), 1),
        c=matrix(np.concatenate([booleans, products]), 1),
    )


def _witness(curve: Curve, layout: _Layout, sources: _Sources, backend: Backend) -> NDArray[np.uint64]:
    fr = curve.fr
    standard = np.zeros((layout.first_product, fr.limbs), dtype=np.uint64)
    standard[0, 0] = 1
    standard[1 : layout.first_boolean] = pack((secrets.randbelow(fr.modulus) for _ in range(layout.public)), fr.limbs)
    bits = np.frombuffer(secrets.token_bytes(-(-layout.booleans // 8)), dtype=np.uint8)
    standard[layout.first_boolean :, 0] = np.unpackbits(bits)[: layout.booleans]

    values = backend.empty((layout.wires, fr.limbs))
    values[: layout.first_product] = backend.vectors.to_montgomery(fr, backend.to_device(standard))
    for start in range(0, layout.products, layout.width):
        layer = slice(start, min(start + layout.width, layout.products))
        u, v, b = (values[backend.to_device(wires[layer])] for wires in (sources.u, sources.v, sources.b))
        product = backend.vectors.mul(fr, backend.vectors.add(fr, u, b, out=u), v)
        values[layout.first_product + layer.start : layout.first_product + layer.stop] = product
    return backend.to_host(backend.vectors.from_montgomery(fr, values, out=values))
