"""Development keys that are made where they are used: proofs under them verify, and their points are a file's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from distprove.circuits.filecoin.inputs import post_inputs
from distprove.circuits.filecoin.post import post_circuit
from distprove.groth16.dev_setup import ToxicWaste, dev_points
from distprove.groth16.device_key import dev_key
from distprove.groth16.placed import PlacedQap
from distprove.groth16.prover import prove
from distprove.groth16.qap import Qap
from distprove.groth16.resident import load_key
from distprove.groth16.verifier import verify
from kernels.cpu.backend import CpuBackend

SHAPE = (1, 1, (2,))


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=2) as backend:
        yield backend


@pytest.mark.parametrize("monomial", [False, True])
def test_a_proof_under_a_key_in_memory(cpu: CpuBackend, monomial: bool) -> None:
    builder, inputs = post_circuit(*SHAPE), post_inputs(*SHAPE, Random(5))
    key = dev_key(PlacedQap.from_system(builder.system()), cpu, monomial=monomial)
    assert key.wires_b is not None
    assert len(key.points_b1) == len(key.wires_b) < key.n_vars
    witness = builder.witness_program().witness(inputs, cpu)
    proof, _ = prove(load_key(key, cpu), witness)
    public = [int(v) for v in inputs["public"]]
    assert verify(key.verification_key, public, proof)
    assert not verify(key.verification_key, [public[0] + 1, *public[1:]], proof)


def test_points_are_those_of_the_whole_program(cpu: CpuBackend) -> None:
    system = post_circuit(*SHAPE).system()
    placed, whole = PlacedQap.from_system(system), Qap.from_r1cs(system.r1cs())
    waste = ToxicWaste(tau=3, alpha=5, beta=7, delta=11)
    ours, theirs = (dev_points(qap, waste, cpu) for qap in (placed, whole))
    for name, vector in vars(theirs).items():
        assert np.array_equal(getattr(ours, name), vector), name
