"""The circuit of the verifier accepts and refuses exactly what the verifier does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.node import START, Child, Proven, node_circuit, node_fields, node_trees, stated_by
from kernels.interface.tree_hash import TreeHash
from tests.stark.test_multilinear_mutations import mutations
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.stark_programs import Ring, Sparse

SMALL = Parameters(1, 2, (5,) * 8, 2, 0, log_final=1, tree_hash=TreeHash.POSEIDON2)
"""Parameters with several rounds of WHIR for small tables. Not for use."""


@cache
def made(name: str) -> MultilinearJob:
    if name == "range-check":  # local buses, preprocessed columns
        return prove_program(name, {"values": 16, "bits": 4}, partitions=2, params=SMALL)
    if name == "global":  # both scopes
        return prove_program(Ring(5), partitions=3, params=SMALL)
    if name == "sparse":  # absent tables, one of them with preprocessed columns
        return prove_program(Sparse(), partitions=2, params=SMALL)
    if name == "no skip":
        return prove_program(Ring(3), partitions=2, params=replace(SMALL, log_skip=0, log_shrink=2))
    return prove_program("fibonacci", {"rows": 32}, partitions=2, params=SMALL)


NAMES = ["fibonacci", "range-check", "global", "sparse", "no skip"]


@cache
def circuit_of(name: str, number: int) -> tuple[Circuit, Child]:
    """The circuit of a node with this partition as its only child."""
    proof = made(name).proofs[number]
    _, shape = MultilinearProof.from_record(proof.data, made(name).key, proof.name)
    child = Child(shape, len(proof.name))
    return node_circuit([child]), child


def verifier_accepts(job: MultilinearJob, number: int) -> bool:
    try:
        job.check_partition(number)
    except (InvalidProof, FormatError):
        return False
    return True


def circuit_accepts(job: str, number: int, record: Mapping[str, Any], **stated: Any) -> bool:
    """Whether the circuit of this partition's shape is satisfied by a proof."""
    circuit, child = circuit_of(job, number)
    honest = made(job).proofs[number]
    try:
        proof, own = MultilinearProof.from_record(record, child.shape.key, honest.name)
        if own.log_heights != child.shape.log_heights:
            return False  # a proof for another circuit
        given = [Proven(stated.get("name", honest.name), tuple(stated.get("public", honest.public)), proof)]
        fields = node_fields([child], given, stated_by([child], given, proof.challenge, START))
        return not evaluate(circuit, fields, node_trees([child], given)).faults
    except (InvalidProof, FormatError):
        return False


@pytest.mark.parametrize("name", NAMES)
def test_the_circuit_accepts_what_the_verifier_does(name: str) -> None:
    job = made(name)
    for number, proof in enumerate(job.proofs):
        assert verifier_accepts(job, number)
        assert circuit_accepts(name, number, proof.data)


@pytest.mark.parametrize("name", NAMES)
def test_the_circuit_refuses_what_the_verifier_does(name: str) -> None:
    """Over every change of every field. The verifier alone decides what is to be accepted."""
    job = made(name)
    unlike = []
    for what, record in mutations(job.proofs[1].data):
        verified = verifier_accepts(job.with_record(1, record), 1)
        if circuit_accepts(name, 1, record) != verified:
            unlike.append((what, verified))
    assert unlike == []


@pytest.mark.parametrize("name", ["global", "range-check"])
def test_the_circuit_binds_the_public_values_and_the_name(name: str) -> None:
    proof = made(name).proofs[1]
    for place in range(len(proof.public)):
        public = list(proof.public)
        public[place] ^= 1
        assert not circuit_accepts(name, 1, proof.data, public=public)
    assert not circuit_accepts(name, 1, proof.data, name=proof.name[:-1] + "x")


def test_a_key_of_another_hash_has_no_circuit() -> None:
    job = prove_program("fibonacci", {"rows": 32}, params=replace(SMALL, tree_hash=TreeHash.KECCAK))
    _, shape = MultilinearProof.from_record(job.proofs[0].data, job.key, "proof")
    with pytest.raises(UsageError, match="Keccak"):
        node_circuit([Child(shape, 6)])
