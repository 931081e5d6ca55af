"""A key does not show its circuit's size, and neither does a proof: the verifier says which circuit the key is of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import distprove
from distprove.errors import InvalidProof, UsageError
from distprove.filecoin.porep import SealStatement
from distprove.filecoin.post import PostStatement
from distprove.filecoin.sectors import POST_PROOFS, SEAL_PROOFS, UPDATE_PROOFS, types_of
from distprove.filecoin.statement import Statement
from distprove.filecoin.update import UpdateStatement
from distprove.groth16.snarkjs import write_verification_key
from distprove.proof import Proof
from distprove.system import PartitionProof
from kernels.maths.curves import BLS12_381
from tests.support.simulated_proofs import trapdoor

POST = PostStatement(POST_PROOFS["StackedDrgWinning2KiBV1"], bytes(32), ((7, bytes([5]) * 31 + b"\0"),))
COMMITMENTS = {name: bytes([k]) * 31 + b"\0" for k, name in enumerate(("comm_r_old", "comm_r_new", "comm_d_new"), 1)}
UPDATES = {
    size: UpdateStatement(UPDATE_PROOFS[f"StackedDrg{size}V1"], **COMMITMENTS) for size in ("512MiB", "32GiB", "64GiB")
}


def proven(statement: Statement, folder: Path) -> tuple[Proof, Path]:
    """Proofs of the statement's public inputs, and the key that they hold under, which is of no circuit."""
    public = [tuple(statement.public_inputs(k)) for k in range(statement.partitions)]
    secret = trapdoor(BLS12_381, len(public[0]))
    carried = {"key": secret.key.to_dict(), "kind": statement.kind, "statement": statement.record()}
    partitions = [
        PartitionProof(f"partition-{k}", bytes(32), values, secret.prove(list(values), seed=k).to_dict())
        for k, values in enumerate(public)
    ]
    vk = folder / "vk.json"
    write_verification_key(vk, secret.key)
    return Proof.bind("filecoin", secret.key.digest(), carried, partitions), vk


def test_the_public_inputs_of_updates_do_not_tell_the_size() -> None:
    inputs = [[each.public_inputs(k) for k in range(each.partitions)] for each in UPDATES.values()]
    assert inputs[0] == inputs[1] == inputs[2]


@pytest.mark.parametrize("named", ["512MiB", "64GiB"])
def test_a_relabelled_update_is_refused(named: str, tmp_path: Path) -> None:
    proof, vk = proven(UPDATES["32GiB"], tmp_path)
    of_key = UPDATES["32GiB"].circuit
    relabelled = replace(proof, verification_key={**proof.verification_key, "statement": UPDATES[named].record()})
    with pytest.raises(InvalidProof, match=f"of circuit filecoin/snap-deals-{named}, and the key is of {of_key}"):
        distprove.verify(relabelled, vk=vk, circuit=of_key)
    told = distprove.verify(relabelled, vk=vk)
    assert told.circuit is None
    assert f"nothing says that this key is of circuit filecoin/snap-deals-{named}:" in str(told.unbound)
    checked = distprove.verify(proof, vk=vk, circuit=of_key)
    assert (checked.circuit, checked.unbound) == (of_key, None)


def test_a_winning_post_of_small_sectors_under_the_key_of_large_ones_is_refused(tmp_path: Path) -> None:
    large = replace(POST, proof=POST_PROOFS["StackedDrgWinning32GiBV1"])
    assert len(large.public_inputs(0)) == len(POST.public_inputs(0))
    proof, vk = proven(POST, tmp_path)
    with pytest.raises(InvalidProof, match="the statement is of circuit filecoin/winning-post-2KiB"):
        distprove.verify(proof, vk=vk, circuit=large.circuit)
    assert "filecoin/winning-post-2KiB" in str(distprove.verify(proof, vk=vk).unbound)
    assert distprove.verify(proof, trust_own_key=True, circuit=POST.circuit).unbound is None


@pytest.mark.parametrize("stated", ["StackedDrg2KiBV1", "StackedDrg2KiBV1_1", "StackedDrg2KiBV1_1_Feat_SyntheticPoRep"])
def test_a_seal_of_another_type_of_the_circuit_is_refused(stated: str, tmp_path: Path) -> None:
    """Types of one circuit have other graphs and challenges: which one is proven decides what that is worth."""
    facts = [bytes([k]) * 31 + b"\0" for k in range(1, 5)]
    statement = SealStatement(SEAL_PROOFS[stated], bytes(32), *facts)
    proof, vk = proven(statement, tmp_path)
    for expected in types_of(statement.circuit):
        if expected == stated:
            checked = distprove.verify(proof, vk=vk, circuit=statement.circuit, proof_type=expected)
            assert (checked.proof_type, checked.unbound) == (expected, None)
            assert distprove.verify(proof, vk=vk, proof_type=expected).unbound is not None, "the circuit is open"
            continue
        with pytest.raises(InvalidProof, match=f"of type {stated}, and not of {expected}, which is expected"):
            distprove.verify(proof, vk=vk, circuit=statement.circuit, proof_type=expected)
    told = distprove.verify(proof, vk=vk, circuit=statement.circuit).unbound
    assert told is not None
    assert f"of type {stated}: the circuit has 4" in told
    assert "StackedDrg2KiBV1_2_Feat_NonInteractivePoRep" in told


def test_every_type_is_of_its_circuit() -> None:
    every = [*SEAL_PROOFS.values(), *POST_PROOFS.values(), *UPDATE_PROOFS.values()]
    assert Counter(len(types_of(proof.circuit)) for proof in every) == {4: 20, 2: 10, 1: 10}
    assert all(proof.name in types_of(proof.circuit) for proof in every)


def test_a_proof_without_a_statement_names_no_circuit(tmp_path: Path) -> None:
    proof, vk = proven(POST, tmp_path)
    plain = Proof.bind("groth16", proof.key_digest, proof.verification_key["key"], proof.partitions)
    assert distprove.verify(plain, vk=vk).unbound is None
    with pytest.raises(UsageError, match="a proof of groth16 has no statement"):
        distprove.verify(plain, vk=vk, circuit=POST.circuit)
