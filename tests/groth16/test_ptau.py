from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError
from distprove.groth16.binfile import BinFile, Bytes
from distprove.groth16.ptau import Powers, read_ptau
from kernels.maths.curves import BN254, Curve, Group
from kernels.maths.encoding import generator, point_to_ints
from tests.support.file_builders import CURVES, container, ptau_bytes


def counters(points: Bytes) -> list[tuple[int, int]]:
    """The counter and the mark that ptau_bytes puts into each point."""
    words = np.frombuffer(points.tobytes(), dtype="<u8").reshape(points.shape[0], -1)
    return [(int(row[0]), int(row[1])) for row in words]


def replaced(data: bytes, ident: int, change: Any) -> bytes:
    file = BinFile.read(data, "ptau", (1,))
    parts = [(i, data[at : at + size]) for i, (at, size) in file.sections.items()]
    return container(b"ptau", 1, [(i, change(c)) if i == ident else (i, c) for i, c in parts])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_views_show_the_right_points(curve: Curve) -> None:
    ptau = read_ptau(ptau_bytes(curve, 3))
    assert (ptau.curve, ptau.power, ptau.prepared) == (curve, 3, True)
    assert counters(ptau.powers(Powers.TAU_G1)) == [(i, 2) for i in range(15)]
    for which in (Powers.TAU_G2, Powers.ALPHA_TAU_G1, Powers.BETA_TAU_G1):
        assert counters(ptau.powers(which)) == [(i, int(which)) for i in range(8)]
    assert counters(ptau.beta_g2) == [(0, 6)]
    for which in Powers:
        for log_n in range(5 if which is Powers.TAU_G1 else 4):
            first = 2**log_n - 1
            expected = [(first + i, 10 + which) for i in range(2**log_n)]
            assert counters(ptau.lagrange(which, log_n)) == expected


def test_an_unprepared_file_says_what_to_run() -> None:
    ptau = read_ptau(ptau_bytes(BN254, prepared=False))
    assert not ptau.prepared
    with pytest.raises(FormatError, match="powersoftau prepare phase2"):
        ptau.lagrange(Powers.TAU_G1, 1)


def test_a_file_that_is_too_small_says_so() -> None:
    ptau = read_ptau(ptau_bytes(BN254, 2))
    assert ptau.lagrange(Powers.TAU_G1, 3).shape[0] == 8
    for which, log_n in ((Powers.TAU_G1, 4), (Powers.TAU_G2, 3), (Powers.BETA_TAU_G1, -1)):
        with pytest.raises(FormatError, match="too few"):
            ptau.lagrange(which, log_n)


@pytest.mark.parametrize("ident", [1, 2, 3, 4, 5, 6, 13, 14, 15])
def test_every_section_is_needed_and_has_one_size(ident: int) -> None:
    data = ptau_bytes(BN254)
    file = BinFile.read(data, "ptau", (1,))
    parts = [(i, data[at : at + size]) for i, (at, size) in file.sections.items() if i != ident]
    with pytest.raises(FormatError, match=f"section {ident} .*is missing"):
        read_ptau(container(b"ptau", 1, parts))
    for change in (lambda c: c[:-1], lambda c: c + bytes(64)):
        with pytest.raises(FormatError, match=f"section {ident} "):
            read_ptau(replaced(data, ident, change))


@pytest.mark.parametrize(("power", "message"), [(29, "more than 28"), (2**32 - 1, "more than 28"), (28, "are left")])
def test_a_lying_power(power: int, message: str) -> None:
    data = replaced(ptau_bytes(BN254), 1, lambda c: c[:36] + struct.pack("<I", power) + c[40:])
    with pytest.raises(FormatError, match=message):
        read_ptau(data)


def test_other_curves_are_refused() -> None:
    with pytest.raises(FormatError, match="neither BN254 nor BLS12-381"):
        read_ptau(replaced(ptau_bytes(BN254), 1, lambda c: c[:4] + b"\1" + c[5:]))


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_what_snarkjs_makes(snarkjs: Any, tmp_path: Path, curve: Curve) -> None:
    """A fresh ceremony has tau = 1: every power is the generator, and only the first Lagrange value is not zero."""
    name = {"bn128": "bn128", "bls12381": "bls12-381"}[curve.name]
    snarkjs("powersoftau", "new", name, "2", tmp_path / "new.ptau")
    snarkjs("powersoftau", "prepare", "phase2", tmp_path / "new.ptau", tmp_path / "final.ptau")
    assert not read_ptau(tmp_path / "new.ptau").prepared
    ptau = read_ptau(tmp_path / "final.ptau")
    for which in Powers:
        one = point_to_ints(curve, which.group, generator(curve, which.group))
        found = [point_to_ints(curve, which.group, row.view("<u8")) for row in ptau.powers(which).copy()]
        assert found == [one] * len(found)
        lagrange = [point_to_ints(curve, which.group, row.view("<u8")) for row in ptau.lagrange(which, 2).copy()]
        assert lagrange == [one, None, None, None]
    assert ptau.beta_g2.tobytes() == generator(curve, Group.G2).tobytes()
