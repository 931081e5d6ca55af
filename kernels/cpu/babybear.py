"""BabyBear on the CPU: products, transforms, Poseidon2 and proofs of work in native code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.errors import SizeError
from kernels.host.babybear import matmul
from kernels.interface.babybear import BabyBearKernels, check_sum
from kernels.maths.babybear import DEGREE, Elements, P, elements, powers, root_of_unity
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.broadcasting import Broadcast, flat
from kernels.maths.poseidon2_babybear import DIGEST, PERMUTATION, WIDTH

HASH_WORK = 800
"""Field multiplications of a permutation."""


@cache
def _roots(log_n: int) -> Elements:
    """The powers of the root of unity that a transform of 2^log_n items takes."""
    return powers(root_of_unity(log_n), 1 << (log_n - 1)) if log_n else np.zeros(0, dtype=np.uint32)


@cache
def permutation_constants() -> Elements:
    """What native hashes are given: the rounds' constants, then the diagonal of the internal layer."""
    return elements((*PERMUTATION.round_constants, *PERMUTATION.diagonal))


class CpuBabyBear(BabyBearKernels):
    """The kernels, on the threads of `pool`."""

    def __init__(self, pool: LeasedPool) -> None:
        self._pool = pool

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self._product(self._pool.native.bb_mul, np.asarray(a), np.asarray(b), ())

    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        return self._product(self._pool.native.bb_ext_mul, a, b, (DEGREE,))

    def _product(self, product: Any, a: Elements, b: Elements, item: tuple[int, ...]) -> Elements:
        """The product of elements of the shape `item`."""
        both = Broadcast.of(a, b, len(item))
        out = np.empty((*both.shape, *item), dtype=np.uint32)
        if out.size:
            words = [word for each in (both.a, both.b) for word in (each.items, each.outer, each.inner)]
            with self._pool.leased(out.size) as threads:
                product(threads, *words, both.outer, out.reshape(-1))
        return out

    def add_scaled(self, total: Elements, a: Elements, by: Elements) -> None:
        check_sum(total, a)
        if total.size:
            with self._pool.leased(4 * total.size) as threads:
                self._pool.native.bb_add_scaled(threads, flat(a), flat(by), total.reshape(-1))

    def matmul(self, a: Elements, b: Elements) -> Elements:
        with self._pool.leased(a.size * b.shape[1]) as threads:
            return matmul(a, b, threads, self._pool.native)

    def fold(self, table: Elements, at: Elements) -> Elements:
        *shape, size, degree = table.shape
        out = np.empty((*shape, size // 2, degree), dtype=np.uint32)
        with self._pool.leased(4 * table.size) as threads:
            self._pool.native.bb_fold(threads, flat(table), flat(at), out.reshape(-1))
        return out

    def pair_round(self, a: Elements, b: Elements) -> Elements:
        sums = np.empty((2, DEGREE), dtype=np.uint32)
        with self._pool.leased(8 * a.size) as threads:
            self._pool.native.bb_pair_round(threads, flat(a), flat(b), sums.reshape(-1))
        return sums

    def layer_round(self, eq: Elements, halves: Elements, batch: Elements) -> Elements:
        sums = np.empty((3, DEGREE), dtype=np.uint32)
        with self._pool.leased(12 * halves.size) as threads:
            self._pool.native.bb_layer_round(threads, flat(eq), flat(halves), flat(batch), sums.reshape(-1))
        return sums

    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        out = np.array(coefficients, order="C")
        self._transform(out, axis % out.ndim)
        return out

    def intt(self, values: Elements, axis: int = -1) -> Elements:
        axis %= values.ndim
        n = values.shape[axis]
        # Values at the inverse powers: the same in the reverse order, the first apart.
        back = np.take(values, -np.arange(n) % n, axis=axis)
        self._transform(back, axis)
        return self.mul(back, np.asarray(pow(n, -1, P), dtype=np.uint32))

    def _transform(self, data: Elements, axis: int) -> None:
        log_n = log2_of(data.shape[axis])
        inner = int(np.prod(data.shape[axis + 1 :], dtype=np.int64))
        if data.size:
            with self._pool.leased(data.size * max(1, log_n)) as threads:
                self._pool.native.bb_ntt(threads, data.reshape(-1), log_n, inner, _roots(log_n))

    def hash_rows(self, rows: Elements) -> Elements:
        n, width = rows.shape
        out = np.zeros((n, DIGEST), dtype=np.uint32)
        with self._pool.leased(n * -(-width // DIGEST) * HASH_WORK) as threads:
            self._pool.native.bb_hash_rows(threads, permutation_constants(), flat(rows), out.reshape(-1))
        return out

    def compress(self, left: Elements, right: Elements) -> Elements:
        if left.shape != right.shape or left.shape[1:] != (DIGEST,):
            raise SizeError(f"digests of the shapes {left.shape} and {right.shape}")
        out = np.empty(left.shape, dtype=np.uint32)
        with self._pool.leased(len(left) * HASH_WORK) as threads:
            self._pool.native.bb_compress(threads, permutation_constants(), flat(left), flat(right), out.reshape(-1))
        return out

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        if len(state) != WIDTH:
            raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
        with self._pool.leased(HASH_WORK << bits) as threads:
            witness = int(self._pool.native.bb_grind(threads, permutation_constants(), elements(state), position, bits))
        if witness == P:
            raise ValueError(f"no element does the work of {bits} bits")
        return witness
