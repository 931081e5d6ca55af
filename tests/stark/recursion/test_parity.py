"""The circuit of the verifier accepts and refuses exactly what the verifier does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pytest

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.stark.field import Words
from distprove.stark.merkle import TreeClaim
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.recursion.circuit import WORDS, Circuit
from distprove.stark.recursion.evaluation import Evaluation, evaluate
from distprove.stark.recursion.node import Child, Identity, Proven, node_circuit, node_fields, node_trees, stated_by
from kernels.interface.tree_hash import TreeHash
from tests.stark.test_multilinear_mutations import mutations
from tests.support import plain_evaluation
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.stark_programs import Ring, Sparse

SMALL = Parameters(1, 2, (5,) * 8, 2, 0, log_final=1, tree_hash=TreeHash.POSEIDON2)
"""Parameters with several rounds of WHIR for small tables. Not for use."""
NODE_KEY = Identity(bytes(32), bytes(32))
"""A leaf takes any key of nodes."""


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


def verified(job: MultilinearJob, number: int) -> str | None:
    """The fault that the verifier finds; None for a proof that it accepts."""
    try:
        job.check_partition(number)
    except (InvalidProof, FormatError) as error:
        return str(error)
    return None


Inputs = tuple[Circuit, Mapping[str, Words], list[TreeClaim]]


def inputs(job: str, number: int, record: Mapping[str, Any], **stated: Any) -> Inputs | None:
    """The circuit of this partition's shape with a proof; None where that is no proof of this shape."""
    circuit, child = circuit_of(job, number)
    honest = made(job).proofs[number]
    try:
        proof, own = MultilinearProof.from_record(record, child.shape.key, honest.name)
        if own.log_heights != child.shape.log_heights:
            return None
        given = [Proven(stated.get("name", honest.name), tuple(stated.get("public", honest.public)), proof)]
        fields = node_fields([child], given, stated_by([child], given, proof.challenge, NODE_KEY))
    except (InvalidProof, FormatError):
        return None
    return circuit, fields, node_trees([child], given)


def evaluated(job: str, number: int, record: Mapping[str, Any], **stated: Any) -> Evaluation | None:
    found = inputs(job, number, record, **stated)
    return None if found is None else evaluate(*found)


@pytest.mark.parametrize("name", NAMES)
def test_the_circuit_accepts_what_the_verifier_does(name: str) -> None:
    job = made(name)
    for number, proof in enumerate(job.proofs):
        assert verified(job, number) is None
        found = evaluated(name, number, proof.data)
        assert found is not None
        found.check()


BEFORE_QUERIES = ("denominator zero", "does not sum to", "do not have the claimed", "do not hold", "stacked columns")
"""Parts of the faults that do not depend on the openings of trees."""


@pytest.mark.parametrize("name", NAMES)
def test_the_circuit_refuses_what_the_verifier_does(name: str) -> None:
    """Over every change of every field, or for some programs each fourth. Up to the queries both find the same fault
    first, and the verifier stops."""
    job, unlike, same = made(name), [], 0
    every = 1 if name in ("global", "range-check") else 4
    for what, record in islice(mutations(job.proofs[1].data), 0, None, every):
        fault = verified(job.with_record(1, record), 1)
        found = evaluated(name, 1, record)
        if fault is None:
            unlike += [] if found and not found.faults and not found.unfit else [what]
        elif found is not None:
            early = any(part in fault for part in BEFORE_QUERIES)
            same += early
            # What has too much beside what its queries need is another encoding of the same rows and nodes.
            refused = found.faults or (found.unfit and what.startswith("trees"))
            unlike += [] if refused and (not early or fault.endswith(found.faults[0])) else [what]
    assert unlike == []
    assert same > 20


@pytest.mark.parametrize("name", NAMES)
def test_native_code_finds_what_the_operations_say(name: str) -> None:
    """Every wire, state and fault of an honest proof, and of some changes in each field."""
    honest = made(name).proofs[1].data
    for record in [honest, *(changed for _, changed in islice(mutations(honest), 0, None, 29))]:
        found = inputs(name, 1, record)
        if found is None:
            continue
        plain, native = plain_evaluation.evaluate(*found), evaluate(*found)
        values = [(*value, *[0] * (WORDS - len(value))) for value in plain.values]
        assert native.values.tolist() == list(map(list, values))
        assert native.states.tolist() == plain.states
        assert (native.faults, native.unfit) == (plain.faults, plain.unfit)


@pytest.mark.parametrize("name", ["global", "range-check"])
def test_the_circuit_binds_the_public_values_and_the_name(name: str) -> None:
    proof = made(name).proofs[1]
    stated: list[dict[str, Any]] = [{"name": proof.name[:-1] + "x"}]
    for place in range(len(proof.public)):
        public = list(proof.public)
        public[place] ^= 1
        stated.append({"public": public})
    for changed in stated:
        found = evaluated(name, 1, proof.data, **changed)
        assert found is not None
        assert found.faults


def test_a_key_of_another_hash_has_no_circuit() -> None:
    job = prove_program("fibonacci", {"rows": 32}, params=replace(SMALL, tree_hash=TreeHash.KECCAK))
    _, shape = MultilinearProof.from_record(job.proofs[0].data, job.key, "proof")
    with pytest.raises(UsageError, match="Keccak"):
        node_circuit([Child(shape, 6)])
