"""What the CPU backend computes, it computes under a lease, on no more threads than that grants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from kernels.cpu import leased_pool
from kernels.cpu.backend import CpuBackend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BN254, Group
from kernels.maths.encoding import field_from_ints

N = 64
FR = BN254.fr
GENERATOR = field_from_ints(BN254.fq, BN254.g1).reshape(-1)


class Node:
    """Grants one thread of three, and notes who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.held = 0

    @contextmanager
    def lease(self) -> Iterator[int]:
        assert not self.held, "a lease was asked for while another one was held"
        self.asked += 1
        self.held += 1
        yield 1
        self.held -= 1


def vector() -> Any:
    return field_from_ints(FR, range(1, N + 1))


def points(backend: CpuBackend) -> Any:
    return backend.groups.fixed_base(BN254, Group.G1, GENERATOR, vector())


def diagonal() -> CsrMatrix:
    ascending = np.arange(N + 1, dtype=np.uint32)
    return CsrMatrix(N, N, ascending, ascending[:-1].copy(), np.zeros(N, np.uint32), field_from_ints(FR, [5]))


OPERATIONS: dict[str, Callable[[CpuBackend], Any]] = {
    "mul": lambda b: b.vectors.mul(FR, vector(), vector()),
    "batch_inverse": lambda b: b.vectors.batch_inverse(FR, vector()),
    "scale_powers": lambda b: b.vectors.scale_powers(FR, vector(), 7),
    "ntt": lambda b: b.vectors.ntt(FR, vector(), coset=3),
    "fixed_base": points,
    "check_points": lambda b: b.groups.check_points(BN254, Group.G1, points(CpuBackend())),
    "spmv": lambda b: b.sparse.spmv(b.sparse.load_matrix(FR, diagonal()), vector()),
    "msm": lambda b: b.groups.msm(b.groups.load_points(BN254, Group.G1, points(CpuBackend())), vector()).result(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_holds_a_lease(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = OPERATIONS[name]
    expected = call(CpuBackend())
    node = Node()
    with CpuBackend(threads=3, lease=node.lease) as backend:
        assert np.array_equal(call(backend), expected)
        assert node.asked == 0, "small operations ask nobody"
        monkeypatch.setattr(leased_pool, "SMALL", 0)
        assert np.array_equal(call(backend), expected)
        assert node.asked == 1
        assert backend.pool.threads.threads == 1


def test_a_lease_ends_with_an_operation_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_pool, "SMALL", 0)
    given: list[bool] = []

    @contextmanager
    def lease() -> Iterator[int]:
        try:
            yield 1
        finally:
            given.append(True)

    class Broken:
        def field_mul(self, *_: Any) -> None:
            raise MemoryError

    with CpuBackend(lease=lease) as backend:
        backend.pool.native = Broken()
        with pytest.raises(MemoryError):
            backend.vectors.mul(FR, vector(), vector())
    assert given == [True]
