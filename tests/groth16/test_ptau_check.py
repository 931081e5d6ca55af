"""Verification of powers-of-tau files: spoilt ones are refused for their fault, and snarkjs judges some of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from distprove.errors import FormatError, InvalidCeremony, TooMuchWork
from distprove.groth16 import ptau_contributions
from distprove.groth16.beacon import Beacon
from distprove.groth16.blake2b import resumed_digest
from distprove.groth16.points import chunks_to_compressed
from distprove.groth16.ptau_check import verify_ptau
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import generator
from tests.conftest import Snarkjs
from tests.groth16.conftest import MadeCeremony
from tests.groth16.test_zkey_check import judged
from tests.support import LONG
from tests.support.known_tau import write_known_tau
from tests.support.ptau_ceremony import (
    ENDED,
    PERSONS,
    Maker,
    Ones,
    SpoiltPtau,
    make_ptau,
    saved_state,
    spoilt_files,
    with_section,
)

POWER = 3


@dataclass(frozen=True)
class Spoiling:
    """A file, and what was done to it."""

    curve: Curve
    path: Path
    spoilt: tuple[SpoiltPtau, ...]

    def file_of(self, spoilt: SpoiltPtau) -> Path:
        return with_section(self.path, self.path.with_name(f"{spoilt.name}.ptau"), spoilt.section, spoilt.content)


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.title)
def spoiling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: Backend) -> Spoiling:
    folder = tmp_path_factory.mktemp("ptau")
    paths = [make_ptau(folder / f"{name}.ptau", request.param, POWER, ENDED, backend) for name in ("made", "other")]
    return Spoiling(request.param, paths[0], tuple(spoilt_files(*paths, backend)))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 1000])
def test_a_hash_goes_on_from_its_saved_state(length: int) -> None:
    data = bytes(i * 7 % 256 for i in range(length))
    for rest in (b"", b"abc", bytes(300)):
        assert resumed_digest(saved_state(data), rest) == hashlib.blake2b(data + rest).digest()
    with pytest.raises(ValueError, match="216"):
        resumed_digest(bytes(215), b"")


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_infinity_is_compressed_as_ffjavascript_does(curve: Curve, backend: Backend) -> None:
    for group in Group:
        points = generator(curve, group).reshape(1, -1).repeat(2, axis=0)
        points[1] = 0
        encoded = b"".join(chunks_to_compressed(curve, group, points, backend))
        size = len(encoded) // 2
        assert encoded[size:] == b"\x40" + bytes(size - 1)
        assert not encoded[0] & 0x40


def test_a_file_of_a_ceremony_holds(spoiling: Spoiling, backend: Backend) -> None:
    found = verify_ptau(spoiling.path, backend=backend)
    assert (found.power, found.ceremony_power, found.prepared) == (POWER, POWER, True)
    assert [one.name for one in found.contributions] == ["first", None, "block"]
    assert [one.beacon for one in found.contributions] == [None, None, Beacon(b"block", 10)]
    with pytest.raises(TooMuchWork):
        verify_ptau(spoiling.path, backend=backend, most=9)


def test_every_spoilt_file_is_refused_for_its_fault(spoiling: Spoiling, backend: Backend) -> None:
    assert len(spoiling.spoilt) > 50
    step = 1 if spoiling.curve is BN254 else 4  # the other one's take longer
    for spoilt in spoiling.spoilt[::step]:
        path = spoiling.file_of(spoilt)
        with pytest.raises(InvalidCeremony, match=spoilt.says):
            verify_ptau(path, backend=backend)


NOBODYS = {
    "beacons alone": ((Maker("b", Beacon(b"b", 10)),), "only 1 public beacon: everybody knows"),
    "a factor of one": ((*PERSONS, Maker(draws=Ones)), "contribution 3 has the factor 1 for tau"),
}
"""Ceremonies that hold together and are bad, and what is said of them. snarkjs accepts them."""


@pytest.mark.parametrize("name", NOBODYS)
def test_ceremonies_whose_secrets_everybody_knows(name: str, backend: Backend, tmp_path: Path) -> None:
    makers, says = NOBODYS[name]
    with pytest.raises(InvalidCeremony, match=says):
        verify_ptau(make_ptau(tmp_path / "p.ptau", BN254, 2, makers, backend), backend=backend)


def test_a_known_first_challenge_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptau_contributions, "hashed_first_challenge", lambda curve, power: b"hashed")
    assert ptau_contributions.first_challenge(BN254, 27) == b"hashed"
    assert ptau_contributions.first_challenge(BLS12_381, 28) == b"hashed"
    assert len(ptau_contributions.first_challenge(BN254, 28)) == ptau_contributions.CHALLENGE_BYTES


@LONG
def test_known_first_challenges_are_the_hashes() -> None:
    """96 GiB, some minutes of a core."""
    for (name, power), known in ptau_contributions.FIRST_CHALLENGES.items():
        curve = next(curve for curve in CURVES if curve.name == name)
        assert ptau_contributions.hashed_first_challenge(curve, power) == known


def test_a_ceremony_is_not_larger_than_any(backend: Backend, tmp_path: Path) -> None:
    path = make_ptau(tmp_path / "p.ptau", BN254, 2, PERSONS, backend)
    header = path.read_bytes()[24:68]
    for power in (1, 29, 2**32 - 1):
        lying = with_section(path, tmp_path / "l.ptau", 1, header[:-4] + power.to_bytes(4, "little"))
        with pytest.raises(FormatError, match="of a ceremony of"):
            verify_ptau(lying, backend=backend)


def test_a_file_with_a_known_tau_is_refused(backend: Backend, tmp_path: Path) -> None:
    write_known_tau(tmp_path / "p.ptau", BLS12_381, 2, backend, tau=5, alpha=6, beta=7)
    with pytest.raises(InvalidCeremony, match="no contribution"):
        verify_ptau(tmp_path / "p.ptau", backend=backend)


@pytest.mark.node
def test_snarkjs_judges_the_same(spoiling: Spoiling, snarkjs: Snarkjs) -> None:
    """It accepts our file, and refuses what we refuse, but for the few that are marked."""
    if spoiling.curve is not BN254:
        pytest.skip("a second for each file, and the curve makes no difference")
    some = [one for number, one in enumerate(spoiling.spoilt) if number % 7 == 0 or one.snarkjs_accepts]
    chosen = {one.name: (spoiling.file_of(one), one.snarkjs_accepts) for one in some}
    verdicts = judged(snarkjs, "ptau", spoiling.path, *(path for path, _ in chosen.values()))
    expected = {"ours": True, **{name: accepts for name, (_, accepts) in chosen.items()}}
    assert dict(zip(expected, verdicts, strict=True)) == expected


@pytest.mark.node
def test_snarkjs_accepts_what_everybody_knows(snarkjs: Snarkjs, backend: Backend, tmp_path: Path) -> None:
    files = [make_ptau(tmp_path / f"{name}.ptau", BN254, 2, makers, backend) for name, (makers, _) in NOBODYS.items()]
    assert judged(snarkjs, "ptau", *files) == [True, True]


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_files_of_snarkjs_hold(
    curve: Curve, backend: Backend, made_by_snarkjs: Callable[[Curve], MadeCeremony]
) -> None:
    made = made_by_snarkjs(curve)
    for name, names in (("first", ["first"]), ("last", ["first", None, "block"]), ("final", ["first", None, "block"])):
        found = verify_ptau(made / f"{name}.ptau", backend=backend)
        assert [one.name for one in found.contributions] == names
        assert found.prepared == (name == "final")
    assert found.contributions[-1].beacon == Beacon(bytes.fromhex("0c0d"), 10)
    with pytest.raises(InvalidCeremony, match="no contribution"):
        verify_ptau(made / "new.ptau", backend=backend)
