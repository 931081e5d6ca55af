"""BabyBear on the CPU: products, transforms, Poseidon2 and proofs of work in native code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.errors import SizeError
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import DEGREE, Elements, P, elements, powers, root_of_unity
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.poseidon2_babybear import DIAGONAL, DIGEST, WIDTH, round_constants

PERMUTATION = 800
"""Field multiplications of a permutation."""


@cache
def _constants() -> Elements:
    return elements((*round_constants(), *DIAGONAL))


@cache
def _roots(log_n: int) -> Elements:
    """The powers of the root of unity that a transform of 2^log_n items takes."""
    return powers(root_of_unity(log_n), 1 << (log_n - 1)) if log_n else np.zeros(0, dtype=np.uint32)


class CpuBabyBear(BabyBearKernels):
    """The kernels, on the threads of `pool`."""

    def __init__(self, pool: LeasedPool) -> None:
        self._pool = pool

    def mul(self, a: Elements, b: Elements) -> Elements:
        return self._product(self._pool.native.bb_mul, np.asarray(a), np.asarray(b), ())

    def ext_mul(self, a: Elements, b: Elements) -> Elements:
        return self._product(self._pool.native.bb_ext_mul, a, b, (DEGREE,))

    def _product(self, product: object, a: Elements, b: Elements, item: tuple[int, ...]) -> Elements:
        """The product of elements of the shape `item`. A factor that stays the same along leading or trailing axes is
        not copied there."""
        axes = len(item)
        shape = np.broadcast_shapes(a.shape[: a.ndim - axes], b.shape[: b.ndim - axes])
        out = np.empty((*shape, *item), dtype=np.uint32)
        if not out.size:
            return out
        split = _split(a.shape[: a.ndim - axes], b.shape[: b.ndim - axes], len(shape))
        outer = int(np.prod(shape[:split], dtype=np.int64))
        (a, *a_steps), (b, *b_steps) = (_steps(each, shape, split, axes) for each in (a, b))
        with self._pool.leased(out.size) as threads:
            product(threads, a, *a_steps, b, *b_steps, outer, out.reshape(-1))  # type: ignore[operator]
        return out

    def matmul(self, a: Elements, b: Elements) -> Elements:
        (rows, inner), columns = a.shape, b.shape[1]
        if b.shape[0] != inner:
            raise SizeError(f"a matrix {a.shape} times one {b.shape}")
        out = np.zeros((rows, columns), dtype=np.uint32)
        with self._pool.leased(rows * inner * columns) as threads:
            self._pool.native.bb_matmul(threads, _flat(a), _flat(b), rows, inner, columns, out.reshape(-1))
        return out

    def ntt(self, coefficients: Elements, axis: int = -1) -> Elements:
        out = np.array(coefficients, dtype=np.uint32, order="C")
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

    def permute(self, state: Sequence[int]) -> list[int]:
        words = elements(state)
        if len(words) != WIDTH:
            raise SizeError(f"a state is {WIDTH} elements, not {len(words)}")
        out = np.empty_like(words)
        self._pool.native.bb_permute(self._pool.threads, _constants(), words, out)
        found: list[int] = out.tolist()
        return found

    def hash_rows(self, rows: Elements) -> Elements:
        n, width = rows.shape
        out = np.zeros((n, DIGEST), dtype=np.uint32)
        with self._pool.leased(n * -(-width // DIGEST) * PERMUTATION) as threads:
            self._pool.native.bb_hash_rows(threads, _constants(), _flat(rows), out.reshape(-1))
        return out

    def compress(self, left: Elements, right: Elements) -> Elements:
        out = np.empty((len(left), DIGEST), dtype=np.uint32)
        with self._pool.leased(len(left) * PERMUTATION) as threads:
            self._pool.native.bb_compress(threads, _constants(), _flat(left), _flat(right), out.reshape(-1))
        return out

    def least_witness(self, state: Sequence[int], position: int, bits: int) -> int:
        if len(state) != WIDTH:
            raise SizeError(f"a state is {WIDTH} elements, not {len(state)}")
        with self._pool.leased(PERMUTATION << bits) as threads:
            witness = int(self._pool.native.bb_grind(threads, _constants(), elements(state), position, bits))
        if witness == P:
            raise ValueError(f"no element does the work of {bits} bits")
        return witness


def _flat(array: Elements) -> Elements:
    return np.ascontiguousarray(array, dtype=np.uint32).reshape(-1)


def _split(a: tuple[int, ...], b: tuple[int, ...], axes: int) -> int:
    """Where to cut the common axes in two groups, so that each factor varies over all of a group or stays the same."""
    varies = [[size > 1 for size in (1,) * (axes - len(shape)) + shape] for shape in (a, b)]
    changes = [i for i in range(1, axes) if any(own[i] != own[i - 1] for own in varies)]
    return changes[-1] if changes else 0


def _steps(array: Elements, shape: tuple[int, ...], split: int, axes: int) -> tuple[Elements, int, int]:
    """Elements of a factor, flat, and its steps along the two groups of axes: 0 where it stays the same."""
    item = array.shape[array.ndim - axes :]
    own = (1,) * (len(shape) - (array.ndim - axes)) + array.shape[: array.ndim - axes]
    groups = []
    for part, whole in ((own[:split], shape[:split]), (own[split:], shape[split:])):
        # A group over which the factor varies only in part is copied.
        groups.append(part if part == whole or all(size == 1 for size in part) else whole)
    full = (*groups[0], *groups[1])
    flat = _flat(np.broadcast_to(array.reshape(*own, *item), (*full, *item)))
    inner = int(np.prod(groups[1], dtype=np.int64))
    varies = [any(size > 1 for size in group) for group in groups]
    return flat, inner if varies[0] else 0, 1 if varies[1] else 0
