"""Verification of a key's ceremony: spoilt keys are refused for the right reason, and snarkjs judges the same ones."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import CurveMismatch, InvalidCeremony, InvalidKey, TooMuchWork
from distprove.groth16.beacon import Beacon
from distprove.groth16.ceremony import initial_points
from distprove.groth16.contribute import contribute
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from distprove.groth16.r1cs import R1cs, write_r1cs
from distprove.groth16.setup import CONTRIBUTOR, setup
from distprove.groth16.zkey import read_zkey
from distprove.groth16.zkey_check import verify_key
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve
from tests.cli.conftest import run
from tests.conftest import Snarkjs
from tests.groth16.conftest import MadeCeremony
from tests.groth16.test_setup import SECRETS, small_circuit
from tests.support.known_tau import write_known_tau
from tests.support.spoilt_keys import Spoilt, spoilt_keys, write_key

JUDGE = Path(__file__).parents[1] / "interop" / "verify_ceremonies.mjs"


@dataclass(frozen=True)
class Ceremony:
    """A circuit, its powers of tau, and a key with two persons' contributions and a beacon's."""

    folder: Path
    r1cs: R1cs
    key: Path
    ptau: Path
    spoilt: tuple[Spoilt, ...]

    def file_of(self, spoilt: Spoilt) -> Path:
        return write_key(self.folder / f"{spoilt.name}.zkey", read_zkey(self.key), spoilt)


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


def three_contributions(folder: Path, r1cs: R1cs, ptau: Path, backend: Backend) -> Path:
    folder.mkdir()
    setup(r1cs, ptau=ptau, backend=backend, out=folder / "1.zkey")
    contribute(folder / "1.zkey", out=folder / "2.zkey", name="second", backend=backend)
    contribute(folder / "2.zkey", out=folder / "3.zkey", name="block", backend=backend, beacon=Beacon(b"block", 10))
    return folder / "3.zkey"


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.title)
def ceremony(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: Backend) -> Ceremony:
    curve: Curve = request.param
    folder = tmp_path_factory.mktemp(curve.name)
    r1cs, ptau = small_circuit(curve).r1cs, folder / "p.ptau"
    write_known_tau(ptau, curve, 5, backend, **SECRETS)
    write_r1cs(folder / "c.r1cs", r1cs)
    made, other = (three_contributions(folder / name, r1cs, ptau, backend) for name in ("made", "other"))
    initial = initial_points(Qap.from_r1cs(r1cs), read_ptau(ptau), backend)
    return Ceremony(
        folder, r1cs, made, ptau, tuple(spoilt_keys(read_zkey(made), initial, read_zkey(other).contributions, backend))
    )


def test_a_key_of_a_ceremony_holds(ceremony: Ceremony, backend: Backend) -> None:
    found = verify_key(ceremony.key, ceremony.r1cs, ceremony.ptau, backend=backend)
    assert [one.name for one in found.contributions] == [CONTRIBUTOR, "second", "block"]
    assert [one.beacon for one in found.contributions] == [None, None, Beacon(b"block", 10)]
    assert found.circuit_hash == read_zkey(ceremony.key).ceremony[0]


def test_every_spoilt_key_is_refused_for_its_fault(ceremony: Ceremony, backend: Backend) -> None:
    assert len(ceremony.spoilt) > 35
    one_curve = ceremony.r1cs.curve is BN254  # the other one's take longer
    for spoilt in (one for i, one in enumerate(ceremony.spoilt) if one_curve or i % 3 == 0 or one.snarkjs_accepts):
        path = ceremony.file_of(spoilt)
        with pytest.raises(InvalidCeremony, match=spoilt.says):
            verify_key(path, ceremony.r1cs, ceremony.ptau, backend=backend)


def test_other_powers_and_other_circuits_are_refused(ceremony: Ceremony, backend: Backend, tmp_path: Path) -> None:
    curve, r1cs = ceremony.r1cs.curve, ceremony.r1cs
    for secret, says in (("tau", "section IC"), ("alpha", "alpha1"), ("beta", "beta1")):
        write_known_tau(tmp_path / "other.ptau", curve, 5, backend, **{**SECRETS, secret: SECRETS[secret] + 1})
        with pytest.raises(InvalidCeremony, match=says):
            verify_key(ceremony.key, r1cs, tmp_path / "other.ptau", backend=backend)
    columns = np.array(r1cs.c.columns)
    columns[0] ^= 1
    for other, says in (
        (replace(r1cs, c=replace(r1cs.c, columns=columns)), "section IC|section C are"),
        (replace(r1cs, a=r1cs.b, b=r1cs.a), "section IC|section A"),
        (replace(r1cs, n_outputs=r1cs.n_outputs + 1), "number of public wires"),
    ):
        with pytest.raises(InvalidCeremony, match=says):
            verify_key(ceremony.key, other, ceremony.ptau, backend=backend)


def test_a_development_key_is_refused(ceremony: Ceremony, backend: Backend, tmp_path: Path) -> None:
    setup(ceremony.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "dev.zkey")
    contribute(tmp_path / "dev.zkey", out=tmp_path / "more.zkey", name="honest", backend=backend)
    with pytest.raises(InvalidCeremony, match="without a ceremony"):
        verify_key(tmp_path / "more.zkey", ceremony.r1cs, ceremony.ptau, backend=backend)


def test_who_adds_a_beacon_learns_that_nobody_else_contributed(
    ceremony: Ceremony, backend: Backend, tmp_path: Path
) -> None:
    bare = next(ceremony.file_of(one) for one in ceremony.spoilt if one.name == "no contribution")
    for key, persons in ((bare, 0), (ceremony.key, 2)):
        made = contribute(key, out=tmp_path / "b.zkey", name="b", backend=backend, beacon=Beacon(b"b", 10))
        assert made.persons == persons
    words = ("zkey", "beacon", bare, "--beacon", "0b", "--out", tmp_path / "c.zkey", "--backend", "cpu")
    assert "everybody knows its delta" in run(*words).stderr


def test_a_beacon_may_not_take_forever(ceremony: Ceremony, backend: Backend) -> None:
    with pytest.raises(TooMuchWork, match="--beacon-exponent 10"):
        verify_key(ceremony.key, ceremony.r1cs, ceremony.ptau, backend=backend, most=9)


def test_files_of_another_curve(ceremony: Ceremony, backend: Backend, tmp_path: Path) -> None:
    other = BN254 if ceremony.r1cs.curve is BLS12_381 else BLS12_381
    write_known_tau(tmp_path / "p.ptau", other, 5, backend, **SECRETS)
    with pytest.raises(CurveMismatch):
        verify_key(ceremony.key, ceremony.r1cs, tmp_path / "p.ptau", backend=backend)
    with pytest.raises(InvalidKey, match="the curve is"):
        verify_key(ceremony.key, small_circuit(other).r1cs, tmp_path / "p.ptau", backend=backend)


def judged(snarkjs: Snarkjs, *words: object) -> list[bool]:
    """What snarkjs says of each file."""
    library = snarkjs.program.with_name("main.cjs")
    done = subprocess.run(
        ["node", str(JUDGE), str(library), *map(str, words)], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.startswith("ok ") for line in done.stdout.splitlines()]


@pytest.mark.node
def test_snarkjs_judges_the_same(ceremony: Ceremony, snarkjs: Snarkjs) -> None:
    """It accepts our key, and refuses what we refuse, but for the few that are marked."""
    one_curve = ceremony.r1cs.curve is BN254  # the other one's take twice as long
    chosen = [one for one in ceremony.spoilt if one_curve or one.snarkjs_accepts]
    files = (ceremony.key, *map(ceremony.file_of, chosen))
    verdicts = judged(snarkjs, "zkey", ceremony.folder / "c.r1cs", ceremony.ptau, *files)
    names = ("ours", *(one.name for one in chosen))
    assert dict(zip(names, verdicts, strict=True)) == {
        "ours": True,
        **{one.name: one.snarkjs_accepts for one in chosen},
    }


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_a_whole_ceremony_of_snarkjs_holds(
    curve: Curve, backend: Backend, made_by_snarkjs: Callable[[Curve], MadeCeremony]
) -> None:
    made = made_by_snarkjs(curve)
    found = verify_key(made / "last.zkey", made.r1cs, made / "final.ptau", backend=backend)
    assert [one.name for one in found.contributions] == ["one", None, "end"]
    assert [one.hash.hex() for one in found.contributions] == list(made.hashes)
    assert found.contributions[-1].beacon == Beacon(bytes.fromhex("0a0b"), 10)
    with pytest.raises(InvalidCeremony, match="no contribution"):
        verify_key(made / "initial.zkey", made.r1cs, made / "final.ptau", backend=backend)
