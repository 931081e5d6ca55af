"""The kernels over BabyBear in NumPy: what native implementations are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.interface.babybear import BabyBearKernels, check_sum
from kernels.maths import babybear, babybear_ntt, poseidon2_babybear
from kernels.maths.babybear import Elements, P, elements


def drawn(*shape: int) -> Elements:
    """Random elements with the ends of the range among them."""
    found = np.random.default_rng(sum(shape) + 1).integers(0, P, shape).astype(np.uint32)
    found.reshape(-1)[::7], found.reshape(-1)[3::7] = P - 1, 0
    return found


class NumpyBabyBear(BabyBearKernels):
    def mul(self, a: Elements, b: Elements) -> Elements:
        return babybear.mul(a, b)

    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        return babybear.ext_mul(a, b)

    def add_scaled(self, total: Elements, a: Elements, by: Elements) -> None:
        check_sum(total, a)
        scaled = babybear.mul(a[..., None], by) if a.ndim < total.ndim else babybear.ext_mul(a, by)
        total[...] = babybear.add(total, scaled)

    def matmul(self, a: Elements, b: Elements) -> Elements:
        return np.asarray((a.astype(object) @ b.astype(object)) % P).astype(np.uint32)

    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        return babybear_ntt.ntt(coefficients, axis)

    def intt(self, values: Elements, axis: int = -1) -> Elements:
        return babybear_ntt.intt(values, axis)

    def hash_rows(self, rows: Elements) -> Elements:
        return poseidon2_babybear.hash_rows(rows)

    def compress(self, left: Elements, right: Elements) -> Elements:
        return poseidon2_babybear.compress(left, right)

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        batch = 4 << bits
        for first in range(0, P, batch):
            tried = np.arange(first, min(first + batch, P), dtype=np.uint32)
            states = np.tile(elements(state), (len(tried), 1))
            states[:, position] = tried
            found = np.flatnonzero(poseidon2_babybear.permute(states)[:, 7] & np.uint32((1 << bits) - 1) == 0)
            if len(found):
                return first + int(found[0])
        raise ValueError(f"no element does the work of {bits} bits")
