"""Ceremonies and keys with holes, and with points in other places: all are members of their groups."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InvalidKey
from distprove.groth16.binfile import BinFile
from distprove.groth16.ceremony import check_ptau
from distprove.groth16.key_check import check_key, find_damage
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from distprove.groth16.r1cs import read_r1cs, write_r1cs
from distprove.groth16.setup import setup
from distprove.groth16.wtns import read_wtns, write_wtns
from distprove.groth16.zkey import read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cpu.group import add, mul
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import field_to_ints, generator
from tests.cli.conftest import run
from tests.support.known_tau import write_known_tau
from tests.support.simulated_proofs import multiple

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


UNUSED = {"tau G2": (3, 5), "alpha tau G1": (4, 5), "beta tau G1": (5, 5)}
"""The powers that a key is not made from, and a point of each."""


@pytest.mark.parametrize("place", [*USED, *UNUSED])
def test_a_hole_in_a_ceremony_is_refused(ceremony: Path, backend: Backend, place: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(ceremony, tmp_path / "hole.ptau"))
    section, point = {**USED, **UNUSED}[place]
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


@pytest.mark.parametrize(("section", "point"), [(4, 0), (5, 0), (3, 1)])
def test_single_points_of_a_ceremony_are_held_to_the_rest(
    ceremony: Path, backend: Backend, section: int, point: int, tmp_path: Path
) -> None:
    """alpha, beta, and tau in G2, which is the ratio of the powers in G1."""
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    ptau = read_ptau(path)
    section_of(path, section).swap(point, 2)
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


def test_tau_in_g2_is_held_to_its_group(ceremony: Path, backend: Backend, tmp_path: Path) -> None:
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    section_of(path, 3)._map[1, 0] ^= 1
    with pytest.raises(InvalidKey, match="of tau G2 is not in G2"):
        check_ptau(qap_for(read_ptau(path).curve, backend), read_ptau(path), backend)


@pytest.mark.parametrize("power", [N // 2, 1])
def test_an_h_basis_that_is_right_for_some_polynomials_alone_is_refused(
    power: int, ceremony: Path, backend: Backend, tmp_path: Path
) -> None:
    """Points x_i^k P added to it cancel for degrees below the domain's size, or below the greatest, and a key's H would
    hold multiples of P, which its maker chooses: of the public inputs' points, say."""
    path = Path(shutil.copy(ceremony, tmp_path / "odd.ptau"))
    curve, group = read_ptau(path).curve, Group.G1
    basis = section_of(path, 12)._map[2 * N - 1 : 4 * N - 1]
    chosen, root = mul(curve, group, generator(curve, group), 123456789), curve.fr.root_of_unity(N.bit_length())
    for i in range(2 * N):
        added = mul(curve, group, chosen, pow(root, i * power, curve.fr.modulus))
        basis[i] = add(curve, group, basis[i].view("<u8").copy(), added).view(np.uint8)
    basis.flush()
    with pytest.raises(InvalidKey, match="H basis does not agree"):
        check_ptau(qap_for(curve, backend), read_ptau(path), backend)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_points_that_are_no_powers_are_refused(curve: Curve, backend: Backend, tmp_path: Path) -> None:
    """The means of two files' points: a polynomial's value is a mean of those at both tau's. All sections agree, and
    with tau^n the same in both, the second half of the powers is a multiple of the first."""
    tau, p = 12345678987654321, curve.fr.modulus
    paths = [tmp_path / f"{i}.ptau" for i in range(2)]
    for i, path in enumerate(paths):
        own = tau * curve.fr.root_of_unity(N.bit_length() - 1) ** i % p
        write_known_tau(path, curve, 6, backend, tau=own, alpha=987654321, beta=123123123)
    for section in (2, 3, 12, 13, 14, 15, 4, 5):
        group = Group.G2 if section in (3, 13) else Group.G1
        one, other = (section_of(path, section)._map for path in paths)
        for i in range(len(one)):
            twice = mul(curve, group, other[i].view("<u8").copy(), 2)
            total = add(curve, group, one[i].view("<u8").copy(), twice)
            one[i] = mul(curve, group, total, pow(3, -1, p)).view(np.uint8)
        one.flush()
    with pytest.raises(InvalidKey, match="tau G1 does not agree"):
        check_ptau(qap_for(curve, backend), read_ptau(paths[0]), backend)


def test_what_no_key_is_made_from_may_be_missing(ceremony: Path, backend: Backend, tmp_path: Path) -> None:
    """Lagrange bases of other domains: a ceremony's file has them all, and a circuit uses one of each."""
    path = Path(shutil.copy(ceremony, tmp_path / "part.ptau"))
    for section in (12, 13, 14, 15):
        section_of(path, section).hole(1, 6)
    curve = read_ptau(path).curve
    circuit = synthetic_circuit(curve, 20, backend, public_inputs=2)
    setup(circuit.r1cs, ptau=path, backend=backend, out=tmp_path / "c.zkey")


# -- proving keys ------------------------------------------------------------------------------------------------------

SECTION = {"IC": 3, "A": 5, "B1": 6, "B2": 7, "C": 8, "H": 9}


@dataclass(frozen=True)
class Job:
    """A key, its circuit, a witness of it, and another that does not satisfy it."""

    folder: Path
    key: str = "c.zkey"

    def prove(self, witness: str, *more: str) -> str:
        """What is said of a proof under the key; empty when it is proven. Exit codes are those of inputs at fault."""
        zkey, wtns, out = (self.folder / name for name in (self.key, witness, "run"))
        done = run(
            "prove",
            "groth16",
            "--zkey",
            zkey,
            "--wtns",
            wtns,
            "--out",
            out,
            "--local",
            "--threads",
            "2",
            "--overwrite",
            *more,
        )
        assert done.exit_code in (0, 2), done.output
        return " ".join(done.stderr.split()) if done.exit_code else ""

    @property
    def r1cs(self) -> tuple[str, str]:
        return "--r1cs", str(self.folder / "c.r1cs")

    def damaged(self, section: str) -> Points:
        """The points of a section of another key, which are to be changed."""
        shutil.copy(self.folder / "c.zkey", self.folder / self.key)
        group = Group.G2 if section == "B2" else Group.G1
        return Points(self.folder / self.key, "zkey", SECTION[section], 8 * BN254.point_limbs(group))


@pytest.fixture(scope="module")
def job(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Job:
    made = Job(tmp_path_factory.mktemp("job"))
    circuit = synthetic_circuit(BN254, 20, backend, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=made.folder / "c.zkey")
    write_r1cs(made.folder / "c.r1cs", circuit.r1cs)
    write_wtns(made.folder / "good.wtns", BN254, circuit.witness)
    bad = np.array(circuit.witness)
    bad[-1, 0] ^= np.uint64(1)
    write_wtns(made.folder / "bad.wtns", BN254, bad)
    return made


def test_a_sound_key_is_not_called_damaged(job: Job, backend: Backend) -> None:
    key = read_zkey(job.folder / "c.zkey")
    check_key(key, backend)
    assert find_damage(key, backend) is None
    assert job.prove("good.wtns", *job.r1cs) == ""


def test_without_the_circuit_the_key_is_named_before_the_witness(job: Job) -> None:
    said = job.prove("bad.wtns")
    assert 0 < said.index("the key is damaged or of another circuit") < said.index("the witness does not satisfy")


def test_with_the_circuit_the_witness_is_held_to_it(job: Job, backend: Backend) -> None:
    said = job.prove("bad.wtns", *job.r1cs)
    row = int(said.partition("the witness does not satisfy constraint ")[2].split()[0])
    assert "key" not in said.partition("partition bad")[2]
    circuit, bad = read_r1cs(job.folder / "c.r1cs"), read_wtns(job.folder / "bad.wtns").values
    rows = [backend.sparse.spmv(backend.sparse.load_matrix(BN254.fr, m), bad, standard_form=True) for m in
            (circuit.a, circuit.b, circuit.c)]  # fmt: skip
    a, b, c = (field_to_ints(BN254.fr, np.array(vector)) for vector in rows)
    wrong = [i for i in range(circuit.n_constraints) if (a[i] * b[i] - c[i]) % BN254.fr.modulus]
    assert row == wrong[0]


@pytest.mark.parametrize("section", ["IC", "H"])
def test_a_hole_where_no_sound_key_has_infinity_is_refused_at_once(job: Job, section: str) -> None:
    broken = replace(job, key=f"hole-{section}.zkey")
    broken.damaged(section).hole(1)
    said = broken.prove("good.wtns")
    assert re.search(r"hole-H.zkey: damaged: point 1 of section H is infinity|ic\[1\] is infinity", said), said


@pytest.mark.parametrize("section", ["A", "B1", "B2", "C"])
@pytest.mark.parametrize("change", ["hole", "swap"])
def test_holes_and_other_places_are_found_before_the_witness_is_blamed(job: Job, section: str, change: str) -> None:
    broken = replace(job, key=f"{change}-{section}.zkey")
    key = read_zkey(job.folder / "c.zkey")
    values = read_wtns(job.folder / "good.wtns").values[key.n_public + 1 if section == "C" else 0 :]
    finite = np.asarray(getattr(key.points, section.lower())).any(axis=1)
    here = np.flatnonzero(finite & (values[:, 1] != 0))  # large values, which are all different
    points = broken.damaged(section)
    points.hole(here[0], 1) if change == "hole" else points.swap(here[0], here[1])
    for witness in ("good.wtns", "bad.wtns"):
        said = broken.prove(witness)
        if change == "swap" and section in ("A", "C"):  # nothing in the key says more
            assert 0 < said.index("the key is damaged or of another circuit") < said.index("the witness does not")
        else:
            assert "the key is damaged: " in said
            assert "witness" not in said
    said = broken.prove("good.wtns", *job.r1cs)
    assert "the key is damaged" in said
    assert "does not satisfy" not in said


def test_a_key_whose_delta_is_not_one_is_refused(job: Job, backend: Backend) -> None:
    key = read_zkey(job.folder / "c.zkey")
    for name in ("beta1", "delta1"):
        other = replace(key.points, **{name: multiple(BN254, Group.G1, 5)})
        with pytest.raises(InvalidKey, match=f"damaged: {name[:-1]} is not the same in G1 and G2"):
            check_key(replace(key, points=other), backend)
    nothing = replace(key.points, beta1=np.zeros_like(key.points.beta1))
    with pytest.raises(InvalidKey, match="damaged: point 1 of section header is infinity"):
        check_key(replace(key, points=nothing), backend)


def test_the_circuit_beside_a_key_must_be_the_keys(job: Job, backend: Backend) -> None:
    write_r1cs(job.folder / "other.r1cs", synthetic_circuit(BN254, 21, backend, public_inputs=2).r1cs)
    assert "they are of different circuits" in job.prove("good.wtns", "--r1cs", str(job.folder / "other.r1cs"))


def test_a_key_of_bellpersons_is_held_to_its_circuit(backend: Backend, tmp_path: Path) -> None:
    circuit = synthetic_circuit(BLS12_381, 20, backend, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "c.params")
    write_r1cs(tmp_path / "c.r1cs", circuit.r1cs)
    write_wtns(tmp_path / "w.wtns", BLS12_381, circuit.witness)
    data = (tmp_path / "c.params").read_bytes()
    at = len((tmp_path / "c.vk").read_bytes()) + 4  # the first points of H, each of 96 bytes
    (tmp_path / "c.params").write_bytes(data[:at] + data[at + 96 : at + 192] + data[at : at + 96] + data[at + 192 :])
    done = run(
        *("prove", "groth16", "--params", tmp_path / "c.params", "--r1cs", tmp_path / "c.r1cs", "--wtns"),
        *(tmp_path / "w.wtns", "--out", tmp_path / "run", "--local", "--threads", "2"),
    )
    assert done.exit_code == 2, done.output
    said = " ".join(done.stderr.split())
    assert "the key is damaged or of another circuit; the witness satisfies the r1cs" in said
