"""The check of a proving key: every section, and what is wrong told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InvalidKey
from distprove.groth16.elements import as_words
from distprove.groth16.key_check import check_key
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import ZKey, read_zkey, write_zkey
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import CURVES, Curve, Group
from kernels.maths.encoding import point_from_ints, unpack
from tests.support.file_builders import key_points_of, with_points
from tests.support.simulated_proofs import OUTSIDE

SECTIONS = {
    "ic": ("IC", Group.G1),
    "a": ("A", Group.G1),
    "b1": ("B1", Group.G1),
    "b2": ("B2", Group.G2),
    "c": ("C", Group.G1),
    "h": ("H", Group.G1),
}


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend() as made:
        yield made


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.title)
def key(request: pytest.FixtureRequest, backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> ZKey:
    path: Path = tmp_path_factory.mktemp("key") / "c.zkey"
    setup(synthetic_circuit(request.param, 20, backend).r1cs, insecure_dev=True, backend=backend, out=path)
    return read_zkey(path, name="c.zkey")


def outside(curve: Curve, group: Group) -> np.ndarray:
    """A point of the curve, or of the twist, that is not in the subgroup; skips where there is none."""
    if (curve.name, group) not in OUTSIDE:
        pytest.skip(f"all of {curve.title} {group.name} is in the subgroup")
    return point_from_ints(curve, group, OUTSIDE[curve.name, group])


def test_a_good_key_passes(key: ZKey, backend: Backend) -> None:
    check_key(key, backend)


@pytest.mark.parametrize("field", SECTIONS)
def test_a_point_off_the_curve_is_named(key: ZKey, backend: Backend, field: str) -> None:
    name, group = SECTIONS[field]
    points = np.array(getattr(key.points, field))
    points[1, 0] ^= 1
    with pytest.raises(InvalidKey, match=rf"c\.zkey: point 1 of section {name} \({group.name}\) is not on"):
        check_key(with_points(key, **{field: points}), backend)


@pytest.mark.parametrize("field", SECTIONS)
def test_a_point_outside_the_subgroup_is_named(key: ZKey, backend: Backend, field: str) -> None:
    name, group = SECTIONS[field]
    points = np.array(getattr(key.points, field))
    points[-1] = outside(key.curve, group).view(np.uint8)
    expected = rf"point {len(points) - 1} of section {name} is outside the subgroup {group.name}"
    with pytest.raises(InvalidKey, match=expected):
        check_key(with_points(key, **{field: points}), backend)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_a_key_that_takes_the_blinding_from_proofs_is_refused(curve: Curve, backend: Backend, tmp_path: Path) -> None:
    """A key whose delta, beta and points of B in G1 are infinity makes proofs that verify. Their A is alpha plus a sum
    over the witness alone, so whoever guesses the witness sees whether the guess is right."""
    circuit = synthetic_circuit(curve, 20, backend, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "good.zkey")
    good = read_zkey(tmp_path / "good.zkey")
    nothing = {name: np.zeros_like(getattr(good.points, name)) for name in ("delta1", "beta1", "b1")}
    public = unpack(circuit.witness[1 : good.n_public + 1])
    made = {}
    for each in (good, with_points(good, **nothing)):
        key = load_key(each, backend)
        proofs = [prove(key, circuit.witness)[0] for _ in range(2)]
        assert all(verify(each.verification_key, public, proof) for proof in proofs)
        made[each is good] = len({proof.a.tobytes() for proof in proofs})
    assert made == {True: 2, False: 1}

    points = replace(key_points_of(good), beta1=nothing["beta1"], delta1=nothing["delta1"], b1=as_words(nothing["b1"]))
    a, b = good.matrices()
    write_zkey(
        tmp_path / "bad.zkey", curve=curve, n_vars=good.n_vars, n_public=good.n_public, domain_size=good.domain_size,
        points=points, a=a, b=b, circuit_hash=bytes(64),
    )  # fmt: skip
    with pytest.raises(InvalidKey, match="delta in G1 is infinity"):
        read_zkey(tmp_path / "bad.zkey")


@pytest.mark.parametrize(("field", "group"), [("delta1", Group.G1), ("delta2", Group.G2)])
def test_the_single_points_are_checked_too(key: ZKey, backend: Backend, field: str, group: Group) -> None:
    off = getattr(key.points, field).copy()
    off[0] ^= np.uint64(1)
    with pytest.raises(InvalidKey, match=r"point 2 of section header .* is not on"):
        check_key(with_points(key, **{field: off}), backend)
    with pytest.raises(InvalidKey, match="point 2 of section header is outside the subgroup"):
        check_key(with_points(key, **{field: outside(key.curve, group)}), backend)
