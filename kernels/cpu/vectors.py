"""Field vectors on the CPU: elementwise operations and transforms."""

from __future__ import annotations

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.cpu.points import Bytes, flat_bytes
from kernels.interface.arrays import Array, Empty
from kernels.interface.vectors import Elementwise, Transform, Vectors
from kernels.maths import encoding
from kernels.maths.curves import Field

MAX_LOG_ROOTS = 15
"""log2 of the most roots of unity kept for each field and direction (1 MB). Longer transforms derive the rest."""

_NAMES = {"add": "field_add", "sub": "field_sub", "mul": "field_mul", "mul_sub": "field_mul_sub"}
"""Functions of the extension that do not have their operation's name."""


class CpuVectors(Vectors):
    """Field vectors, on the threads of `pool`."""

    def __init__(self, pool: LeasedPool, empty: Empty) -> None:
        super().__init__(empty)
        self._pool = pool
        self._roots: dict[tuple[str, bool], tuple[int, Bytes]] = {}

    def clear(self) -> None:
        """Drop the cached roots of unity."""
        self._roots.clear()

    def _elementwise(self, operation: Elementwise, field: Field, n: int, inputs: tuple[Array, ...], out: Array) -> None:
        function = getattr(self._pool.native, _NAMES.get(operation, operation))
        with self._pool.leased(n) as threads:
            function(threads, field.name, *map(flat_bytes, inputs), flat_bytes(out))

    def _scale_powers(self, field: Field, n: int, a: Array, base: int, first: int, out: Array) -> None:
        with self._pool.leased(n) as threads:
            self._pool.native.scale_powers(
                threads, field.name, flat_bytes(a), _element(field, base), _element(field, first), flat_bytes(out)
            )

    def _bits(self, field: Field, a: Array, count: int, out: Array) -> None:
        with self._pool.leased(int(a.shape[0])) as threads:
            self._pool.native.bits(threads, field.name, flat_bytes(a), count, flat_bytes(out))

    def _equal(self, a: Array, b: Array) -> bool:
        return bool(np.array_equal(a, b))

    def _ntt(self, field: Field, a: Array, transform: Transform) -> None:
        p, log_n, inverse = field.modulus, transform.log_n, transform.inverse
        shift = 1 if transform.coset is None else transform.coset
        root = field.root_of_unity(log_n)
        first = 1
        if inverse:
            root, shift, first = pow(root, -1, p), pow(shift, -1, p), pow(1 << log_n, -1, p)
        scaled = shift != 1 or first != 1
        constants = (_element(field, value) for value in (root, shift, first))
        scales = scaled and not inverse, scaled and inverse
        orders = transform.bit_reversed_input, transform.bit_reversed_output
        roots = self._root_table(field, log_n, inverse)
        with self._pool.leased(a.size // field.limbs * max(1, log_n // 2)) as threads:
            self._pool.native.ntt(threads, field.name, flat_bytes(a), log_n, roots, *constants, *scales, *orders)

    def _root_table(self, field: Field, log_n: int, inverse: bool) -> Bytes:
        """Return roots of unity in bit-reversed order: at least 2^(log_n - 1), or as many as are ever kept."""
        wanted = min(max(log_n, 1), MAX_LOG_ROOTS + 1, field.two_adicity)
        key = (field.name, inverse)
        if key not in self._roots or self._roots[key][0] < wanted:
            root = field.root_of_unity(wanted)
            table = np.empty(field.bytes << (wanted - 1), dtype=np.uint8)
            self._pool.native.root_table(
                field.name, _element(field, pow(root, -1, field.modulus) if inverse else root), wanted, table
            )
            self._roots[key] = (wanted, table)
        return self._roots[key][1]


def _element(field: Field, value: int) -> Bytes:
    return flat_bytes(encoding.field_from_ints(field, [value]))
