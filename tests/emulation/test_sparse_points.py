"""Products of sparse matrices and points by the CUDA kernels, run on the host: the words that the CPU gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distprove.groth16.ceremony import ceremony_hash, check_ptau, initial_points, with_delta
from distprove.groth16.key import SECTIONS, SINGLE
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from kernels.cpu.backend import CpuBackend
from kernels.cuda import sparse_points
from kernels.cuda.backend import CudaBackend
from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
from kernels.maths.curves import BN254, CURVES, Curve, Group
from tests.groth16.test_setup import SECRETS, small_circuit
from tests.kernels.cpu.test_sparse_points import LOGS, matrix_of, multiples
from tests.support.known_tau import write_known_tau

Rows = list[list[tuple[int, int]]]
"""Each entry is a column and a coefficient."""


def check(emulated: CudaBackend, curve: Curve, group: Group, rows: Rows, points: HostArray | None = None) -> None:
    given = multiples(curve, group, LOGS) if points is None else points
    got = emulated.groups.sparse_product(curve, group, matrix_of(curve, len(LOGS), rows), given)
    expected = [sum(LOGS[column] * value for column, value in row) for row in rows]
    np.testing.assert_array_equal(got, multiples(curve, group, expected))


def rows_of_every_kind(curve: Curve) -> Rows:
    r = curve.fr.modulus
    return [
        [],
        [(1, 1)],
        [(1, -1)],
        [(0, 5), (0, 1)],
        [(2, 0)],
        [(2, 1), (4, 1)],  # the same point twice
        [(2, 1), (4, -1)],  # and opposite
        [(2, 7), (4, -7)],
        [(1, 2), (2, 3), (3, -15), (5, 16), (5, -3)],
        [(6, r - 2), (5, r // 2), (3, r // 2 + 1), (1, 2**253 % r)],
    ]


@pytest.mark.parametrize("group", Group)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_rows_of_every_kind(emulated: CudaBackend, curve: Curve, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_points, "SEGMENT", 2)  # a row of five entries takes three rounds
    monkeypatch.setattr(sparse_points, "BATCH", 4)
    check(emulated, curve, group, rows_of_every_kind(curve))


def test_rows_that_are_longer_than_a_segment(emulated: CudaBackend) -> None:
    rows: Rows = [[(1, 1)] * 3, [(i % 7, i % 3 - 1) for i in range(300)], [], [(3, 1)] * 17]
    check(emulated, BN254, Group.G1, rows)


def test_what_there_is_nothing_of(emulated: CudaBackend) -> None:
    check(emulated, BN254, Group.G1, [])
    check(emulated, BN254, Group.G1, [[], []])
    none = emulated.groups.sparse_product(BN254, Group.G1, matrix_of(BN254, 0, [[]]), multiples(BN254, Group.G1, []))
    assert not none.any()


def test_points_of_a_mapped_file(emulated: CudaBackend) -> None:
    shifted = np.frombuffer(b"x" + multiples(BN254, Group.G1, LOGS).tobytes(), dtype=np.uint8)[1:].reshape(-1, 64)
    check(emulated, BN254, Group.G1, [[(2, 2), (5, 3)]], shifted)


def test_more_numbers_than_a_code_holds(emulated: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_points, "_MOST_CODES", 8)
    check(emulated, BN254, Group.G1, [[(2, 5)]])
    with pytest.raises(SizeError, match="7 points and 2 multiples"):
        check(emulated, BN254, Group.G1, [[(2, 5), (3, 5)]])


def test_a_set_up_has_the_same_points_and_hash(emulated: CudaBackend, tmp_path: Path) -> None:
    """All that set-up, a contribution and `zkey verify` compute with a backend."""
    curve = BN254
    qap, path = Qap.from_r1cs(small_circuit(curve).r1cs), tmp_path / "p.ptau"
    with CpuBackend(threads=2) as cpu:
        write_known_tau(path, curve, 5, cpu, **SECRETS)
        ptau = read_ptau(path)
        check_ptau(qap, ptau, emulated)
        made = [initial_points(qap, ptau, backend) for backend in (cpu, emulated)]
        changed = [with_delta(curve, points, 2**200 + 7, b) for points, b in zip(made, (cpu, emulated), strict=True)]
        for theirs, ours in (made, changed):
            for name in (*SINGLE, "ic", *SECTIONS):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
        assert ceremony_hash(qap, made[0], ptau, cpu) == ceremony_hash(qap, made[1], ptau, emulated)
