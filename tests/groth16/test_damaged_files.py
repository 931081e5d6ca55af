"""Ceremonies and keys with holes, and with points in other places: all are members of their groups."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InvalidKey
from distprove.groth16.binfile import BinFile
from distprove.groth16.ceremony import check_ptau
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from distprove.groth16.setup import setup
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import CURVES, Curve, Group
from tests.support.known_tau import write_known_tau

N = 32
"""Rows of the domain of the circuit below."""


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


@pytest.fixture(scope="module", params=[(curve, power) for curve in CURVES for power in (5, 6)], ids=str)
def ceremony(request: pytest.FixtureRequest, backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Path:
    curve, power = request.param
    path: Path = tmp_path_factory.mktemp("ptau") / "p.ptau"
    write_known_tau(path, curve, power, backend, tau=12345678987654321, alpha=987654321, beta=123123123)
    return path


def qap_for(curve: Curve, backend: Backend) -> Qap:
    made = Qap.from_r1cs(synthetic_circuit(curve, 20, backend, public_inputs=2).r1cs)
    assert made.domain_size == N
    return made


class Points:
    """The points of one section of a file, which a test changes where they lie."""

    def __init__(self, path: Path, kind: str, section: int, size: int) -> None:
        offset, length = BinFile.read(path, kind, (1,)).sections[section]
        self._map = np.memmap(path, np.uint8, "r+", offset=offset, shape=(length // size, size))

    def hole(self, first: int, count: int = 2) -> None:
        self._map[first : first + count] = 0
        self._map.flush()

    def swap(self, one: int, other: int) -> None:
        self._map[[one, other]] = self._map[[other, one]]
        self._map.flush()

    def repeat(self, one: int) -> None:
        self._map[one] = self._map[one + 1]
        self._map.flush()


def section_of(path: Path, section: int) -> Points:
    ptau = read_ptau(path)
    group = Group.G2 if section in (3, 6, 13) else Group.G1
    return Points(path, "ptau", section, 8 * ptau.curve.point_limbs(group))


USED = {
    "tau G1": (2, 7),
    "tau G1, the last": (2, 2 * N - 3),
    "Lagrange tau G1": (12, N - 1 + 9),
    "Lagrange tau G2": (13, N - 1 + 9),
    "Lagrange alpha": (14, N - 1 + 9),
    "Lagrange beta": (15, N - 1 + 9),
    "H basis": (12, 2 * N - 1 + 21),
}
"""The sections that a key is made from, and a point of each."""


@pytest.mark.parametrize("used", USED)
def test_a_hole_in_a_ceremony_is_refused(ceremony: Path, backend: Backend, used: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(ceremony, tmp_path / "hole.ptau"))
    section, point = USED[used]
    section_of(path, section).hole(point)
    with pytest.raises(InvalidKey, match=r"hole\.ptau: damaged: point \d+ of .* is infinity"):
        check_ptau(qap_for(read_ptau(path).curve, backend), read_ptau(path), backend)


@pytest.mark.parametrize("used", USED)
@pytest.mark.parametrize("change", ["swap", "repeat"])
def test_points_of_a_ceremony_in_other_places_are_refused(
    ceremony: Path, backend: Backend, used: str, change: str, tmp_path: Path
) -> None:
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    section, point = USED[used]
    changed = section_of(path, section)
    changed.swap(point, point - 3) if change == "swap" else changed.repeat(point)
    with pytest.raises(InvalidKey, match=r"odd\.ptau: damaged, or of several ceremonies: .* does not agree"):
        check_ptau(qap_for(read_ptau(path).curve, backend), read_ptau(path), backend)


@pytest.mark.parametrize(("section", "point"), [(4, 0), (5, 0), (3, N - 1)])
def test_single_points_of_a_ceremony_are_held_to_the_rest(
    ceremony: Path, backend: Backend, section: int, point: int, tmp_path: Path
) -> None:
    """alpha, beta, and the power of tau in G2 that the second half of the powers in G1 is held to."""
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    ptau = read_ptau(path)
    section_of(path, section).swap(point if section != 3 else min(N, (1 << ptau.power) - 1), 2)
    with pytest.raises(InvalidKey, match=r"odd\.ptau: damaged, or of several ceremonies: .* does not agree"):
        check_ptau(qap_for(ptau.curve, backend), read_ptau(path), backend)


def test_beta_in_g2_is_held_to_the_rest(ceremony: Path, backend: Backend, tmp_path: Path) -> None:
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    ptau = read_ptau(path)
    beta, tau = section_of(path, 6), section_of(path, 3)
    beta._map[0] = tau._map[1]
    beta._map.flush()
    with pytest.raises(InvalidKey, match="does not agree"):
        check_ptau(qap_for(ptau.curve, backend), read_ptau(path), backend)


def test_what_no_key_is_made_from_may_be_missing(ceremony: Path, backend: Backend, tmp_path: Path) -> None:
    """Lagrange bases of other domains: a ceremony's file has them all, and a circuit uses one of each."""
    path = Path(shutil.copy(ceremony, tmp_path / "part.ptau"))
    for section in (12, 13, 14, 15):
        section_of(path, section).hole(1, 6)
    curve = read_ptau(path).curve
    circuit = synthetic_circuit(curve, 20, backend, public_inputs=2)
    setup(circuit.r1cs, ptau=path, backend=backend, out=tmp_path / "c.zkey")
