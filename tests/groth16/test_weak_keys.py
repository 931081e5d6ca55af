"""Keys under which anybody can forge proofs: they are marked wherever development keys are, and do what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import distprove
from cluster.record.run import read_proof
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InvalidKey
from distprove.groth16.ceremony import initial_points
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.ptau import read_ptau
from distprove.groth16.qap import Qap
from distprove.groth16.setup import setup
from distprove.groth16.snarkjs import read_verification_key, write_verification_key
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import write_wtns
from distprove.groth16.zkey import read_zkey, write_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cpu.group import add, neg
from kernels.cpu.pairing import combine_g1
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import scalars_from_ints
from tests.cli.conftest import run
from tests.support.known_tau import write_known_tau
from tests.support.simulated_proofs import multiple, trapdoor


@dataclass(frozen=True)
class Job:
    """A key as `snarkjs groth16 setup` leaves it, without contributions, and a witness."""

    zkey: Path
    vk: Path
    wtns: Path


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


@pytest.fixture(scope="module")
def job(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("initial")
    made = Job(folder / "c.zkey", folder / "vk.json", folder / "w.wtns")
    circuit = synthetic_circuit(BN254, 20, backend, public_inputs=2)
    write_known_tau(folder / "p.ptau", BN254, 6, backend, tau=12345678987654321, alpha=987654321, beta=123123123)
    qap = Qap.from_r1cs(circuit.r1cs)
    write_zkey(
        made.zkey, curve=BN254, n_vars=qap.n_vars, n_public=qap.n_public, domain_size=qap.domain_size,
        points=initial_points(qap, read_ptau(folder / "p.ptau"), backend), a=qap.a, b=qap.b, circuit_hash=bytes(64),
    )  # fmt: skip
    write_verification_key(made.vk, read_zkey(made.zkey).verification_key)
    write_wtns(made.wtns, BN254, circuit.witness)
    return made


def inputs_point(key: VerificationKey, public: list[int]) -> np.ndarray:
    return combine_g1(key.curve, key.ic, scalars_from_ints(key.curve.fr, (1, *public)))


def with_c(key: VerificationKey, public: list[int]) -> Groth16Proof:
    """A proof of anything where delta = gamma, made of the verification key alone."""
    c = neg(key.curve, Group.G1, inputs_point(key, public))
    return Groth16Proof(key.curve, key.alpha1, key.beta2, c)


def with_a(key: VerificationKey, public: list[int]) -> Groth16Proof:
    """A proof of anything where gamma = beta."""
    a = add(key.curve, Group.G1, key.alpha1, inputs_point(key, public))
    return Groth16Proof(key.curve, a, key.beta2, np.zeros_like(a))


RELATED: dict[str, Callable[[list[int]], list[int]]] = {
    "delta equals gamma": lambda s: [s[0], s[1], s[2], s[2]],
    "delta equals beta": lambda s: [s[0], s[1], s[2], s[1]],
    "gamma equals beta": lambda s: [s[0], s[1], s[1], s[3]],
    "delta equals the generator": lambda s: [s[0], s[1], s[2], 1],
    "beta equals the generator": lambda s: [s[0], 1, s[2], s[3]],
    "alpha equals the generator": lambda s: [1, s[1], s[2], s[3]],
    "alpha equals beta": lambda s: [s[1], s[1], s[2], s[3]],
    "alpha equals gamma": lambda s: [s[2], s[1], s[2], s[3]],
    "alpha equals delta": lambda s: [s[3], s[1], s[2], s[3]],
}


def key_of(curve: Curve, secrets: list[int]) -> VerificationKey:
    groups = {"alpha1": Group.G1, "beta2": Group.G2, "gamma2": Group.G2, "delta2": Group.G2}
    points = {name: multiple(curve, group, k) for (name, group), k in zip(groups.items(), secrets, strict=True)}
    return replace(trapdoor(curve, 2).key, **points)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
@pytest.mark.parametrize("relation", RELATED)
def test_a_key_whose_secrets_are_related_says_so(curve: Curve, relation: str) -> None:
    secrets = RELATED[relation]([123456789, 987654321, 192837465, 918273645])
    for at in range(4):  # a relation holds with the other sign too
        signed = [-k if i == at else k for i, k in enumerate(secrets)]
        for key in (key_of(curve, secrets), key_of(curve, signed)):
            assert key.weakness is not None
            assert relation in key.weakness


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_a_key_of_independent_secrets_is_not_called_weak(curve: Curve) -> None:
    key = trapdoor(curve, 2).key
    assert key.weakness is None
    assert replace(key, gamma2=multiple(curve, Group.G2, 1)).weakness is None  # as snarkjs makes them


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
@pytest.mark.parametrize(("relation", "forged"), [("delta equals gamma", with_c), ("gamma equals beta", with_a)])
def test_what_it_says_is_so(
    curve: Curve, relation: str, forged: Callable[[VerificationKey, list[int]], Groth16Proof]
) -> None:
    key = key_of(curve, RELATED[relation]([123456789, 987654321, 192837465, 918273645]))
    for public in ([0, 0], [7, curve.fr.modulus - 1]):
        assert verify(key, public, forged(key, public))
        assert not verify(trapdoor(curve, 2).key, public, forged(trapdoor(curve, 2).key, public))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
@pytest.mark.parametrize("sign", [1, -1])
def test_public_inputs_that_can_be_exchanged_are_told(curve: Curve, sign: int) -> None:
    made, r = trapdoor(curve, 3), curve.fr.modulus
    made.ic[3] = sign * made.ic[1] % r
    ic = made.key.ic.copy()
    ic[3] = multiple(curve, Group.G1, made.ic[3])
    key = made.key = replace(made.key, ic=ic)
    proof = made.prove([5, 6, 7], seed=1)
    assert verify(key, [5, 6, 7], proof)
    assert verify(key, [5 + 100, 6, (7 - sign * 100) % r], proof)
    assert "anybody can change public inputs" in str(key.weakness)
    assert "ic[3] equals ic[1]" in str(key.weakness)
    assert replace(key, ic=ic[:3]).weakness is None
    assert replace(key, ic=ic[:1]).weakness is None


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_public_input_that_nothing_binds_is_refused(curve: Curve, at: int) -> None:
    key = trapdoor(curve, 2).key
    ic = key.ic.copy()
    ic[at] = 0
    with pytest.raises(InvalidKey, match=rf"ic\[{at}\] is infinity"):
        replace(key, ic=ic)
    data = {**key.to_dict()}
    size = len(data["ic"]) // 3
    data["ic"] = data["ic"][: at * size] + bytes(size) + data["ic"][(at + 1) * size :]
    with pytest.raises(InvalidKey, match=rf"ic\[{at}\] is infinity"):
        VerificationKey.from_dict(data)


def test_every_command_and_the_api_mark_a_key_without_contributions(job: Job, tmp_path: Path) -> None:
    weak = "anybody can forge proofs under this key: its delta equals gamma"
    key = read_verification_key(job.vk)
    assert verify(key, [5, 6], with_c(key, [5, 6]))

    out = tmp_path / "run"
    args = ("prove", "groth16", "--zkey", job.zkey, "--wtns", job.wtns, "--local", "--threads", "2")
    done = run(*args, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)["facts"]
    assert facts["insecure_setup"] is True
    assert weak in facts["weakness"]
    assert weak in " ".join(run(*args, "--out", tmp_path / "again").stdout.split())
    assert run("report", out, "--out", tmp_path / "page.html").exit_code == 0
    assert weak in (tmp_path / "page.html").read_text()

    keys = tmp_path / "k.srs"
    cpu = ("--backend", "cpu", "--threads", "2")
    assert run("setup", "aggregation", "--insecure-dev", "--proofs", "2", "--out", keys, *cpu).exit_code == 0
    small = tmp_path / "a"
    aggregated = ("verify", small, "--vk", job.vk, "--srs-verifier", f"{keys}.verifier")
    for command in (
        ("verify", out, "--vk", job.vk),
        ("verify", out, "--vk", job.vk, "--json"),
        ("export", out, "--out", tmp_path / "files"),
        ("export", out, "--out", tmp_path / "files2", "--json"),
        ("aggregate", out, "--srs", keys, "--out", small, *cpu),
        ("aggregate", out, "--srs", keys, "--out", tmp_path / "b", "--json", *cpu),
        aggregated,
        (*aggregated, "--json"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert weak in " ".join(done.stderr.split()), command
        if "--json" in command:
            assert weak in json.loads(done.stdout)["weakness"]

    assert weak in str(distprove.verify(out, vk=job.vk).weakness)
    assert weak in str(distprove.verify(read_proof(out), trust_own_key=True).weakness)


def test_keys_from_a_ceremony_and_of_others_are_not_marked(backend: Backend, tmp_path: Path) -> None:
    circuit = synthetic_circuit(BN254, 20, backend, public_inputs=2)
    write_known_tau(tmp_path / "p.ptau", BN254, 6, backend, tau=12345678987654321, alpha=987654321, beta=123123123)
    setup(circuit.r1cs, ptau=tmp_path / "p.ptau", backend=backend, out=tmp_path / "c.zkey")
    assert read_zkey(tmp_path / "c.zkey").verification_key.weakness is None
