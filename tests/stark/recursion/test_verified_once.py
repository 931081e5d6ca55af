"""The root of a job's tree is verified once, by the driver itself, and bound to the list of partitions all the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import distprove
from cluster.record.run import Run
from distprove.errors import FormatError, InvalidProof
from distprove.job import Job
from distprove.stark.recursion import node_proof, root, whole
from distprove.stark.recursion.plan import ROOT
from distprove.stark.recursion.system import OneProofSystem
from distprove.system import PartitionProof, VerifiesHere

OPTIONS: dict[str, Any] = {
    "program": "fibonacci",
    "partitions": 2,
    "arguments": {"rows": 16},
    "engine": "multilinear",
    "hash": "poseidon2",
    "one_proof": True,
    "security": 1,
    "grinding": 0,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run, and what its driver verified of nodes: the root as a partition, or as the whole job."""
    path, found = tmp_path_factory.mktemp("once") / "run", list[str]()

    def counting(what: str, verify: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: Any) -> None:
            found.append(what)
            verify(*given)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_proof, "verify", counting("partition", node_proof.verify))
        patch.setattr(root, "verify", counting("whole", root.verify))
        distprove.prove(Job.from_options("stark", **OPTIONS), out=path)
    return path, found


@pytest.fixture
def system() -> OneProofSystem:
    loaded = Job.from_options("stark", **OPTIONS).load()
    assert isinstance(loaded, OneProofSystem)
    return loaded


@pytest.fixture
def proofs(made: tuple[Path, list[str]], system: OneProofSystem) -> list[PartitionProof]:
    run, found = Run.open(made[0]), []
    for partition in system.plan():
        proof = run.load(partition)
        assert proof is not None
        found.append(proof)
    return found


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root is not verified again."""

    def fails(*_: Any) -> None:
        raise AssertionError("it is verified again")

    monkeypatch.setattr(root, "verify", fails)


def test_the_driver_verifies_the_root_once(made: tuple[Path, list[str]]) -> None:
    """As a partition. The leaf may be verified in a process of its own."""
    assert made[1] in (["partition"], ["partition"] * 2)


def test_a_root_that_was_verified_is_not_verified_again(
    system: OneProofSystem, proofs: list[PartitionProof], never: None
) -> None:
    assert isinstance(system, VerifiesHere)
    assert [system.verifies_here(proof) for proof in proofs] == [proof.name == ROOT for proof in proofs]
    assert system.verify(proofs[-1])
    system.verify_job(proofs)


@pytest.mark.parametrize("how", ["unverified", "another object", "in another process"])
def test_any_other_root_is_verified(
    system: OneProofSystem, proofs: list[PartitionProof], how: str, never: None
) -> None:
    if how != "unverified":
        assert system.verify(proofs[-1])
    if how == "another object":
        proofs[-1] = replace(proofs[-1])
    if how == "in another process":
        system = pickle.loads(pickle.dumps(system))
    with pytest.raises(AssertionError, match="again"):
        system.verify_job(proofs)


def changed(proofs: Sequence[PartitionProof], place: int, **data: Any) -> list[PartitionProof]:
    own = proofs[place]
    return [*proofs[:place], replace(own, data={**own.data, **data}), *proofs[place + 1 :]]


def test_a_verified_root_is_bound_to_its_list(
    system: OneProofSystem, proofs: list[PartitionProof], never: None
) -> None:
    assert system.verify(proofs[-1])
    other = bytes([proofs[0].data["root"][0] ^ 1]) + proofs[0].data["root"][1:]
    public = (*proofs[0].public[:-1], proofs[0].public[-1] ^ 1)
    for wrong in (
        [proofs[1], proofs[0], *proofs[2:]],
        changed(proofs, 0, root=other),
        changed(proofs, 1, anchor=proofs[0].data["anchor"]),
        [replace(proofs[0], public=public), *proofs[1:]],
        [replace(proofs[0], name="part-0009"), *proofs[1:]],
    ):
        with pytest.raises((InvalidProof, FormatError)):
            system.verify_job(wrong)
    system.verify_job(proofs)


def test_a_verified_root_is_of_the_keys_and_the_proof_that_are_bound(
    system: OneProofSystem, proofs: list[PartitionProof], never: None
) -> None:
    own = proofs[-1]
    partitions, bound = system.bind_whole(proofs)

    def check(verified: PartitionProof, given: dict[str, Any] = bound) -> None:
        whole.verify_whole(system.key, system.verifier.tree_keys(), partitions, given, None, verified=verified)

    check(own)
    digest, preprocessed = own.data["key"]
    for key in ([bytes(32), preprocessed], [digest, bytes(32)]):
        with pytest.raises(InvalidProof, match="under another key"):
            check(replace(own, data={**own.data, "key": key}))
    with pytest.raises(InvalidProof, match="another one than was verified"):
        check(own, {**bound, "proof": {**bound["proof"], "anchor": bytes(24)}})
    with pytest.raises(InvalidProof, match="other values"):
        check(replace(own, public=(*own.public[:-1], own.public[-1] ^ 1)))
    with pytest.raises(InvalidProof, match="other values"):
        check(own, {**bound, "sum": (1).to_bytes(8, "little") + bytes(16)})
