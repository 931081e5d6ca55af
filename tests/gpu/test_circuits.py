"""Witnesses of circuits in Python that a GPU makes, and proofs of them there: the same as the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from distprove.circuits.filecoin.inputs import porep_inputs, post_inputs, winning_post_inputs
from distprove.circuits.filecoin.porep import porep_circuit
from distprove.circuits.filecoin.post import post_circuit
from distprove.errors import UnsatisfiedWitness
from distprove.groth16.device_key import dev_key
from distprove.groth16.params import read_params
from distprove.groth16.prover import Blinding, prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.templated import TemplatedQap
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.synthesis import GROUP_THREADS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=8) as backend:
        yield backend


@pytest.mark.parametrize("group_threads", [0, GROUP_THREADS], ids=["one thread", "groups"])
def test_a_replica(cpu: CpuBackend, cuda: CudaBackend, group_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.synthesis, "group_threads", group_threads)
    circuit = porep_circuit(1, 2, (8, 8)).build()
    inputs = porep_inputs(1, 2, (8, 8), Random(2))
    assert np.array_equal(circuit.witness(inputs, cuda), circuit.witness(inputs, cpu))
    lie = {**inputs, "comm_c": [inputs["comm_c"][0] + 1]}
    with pytest.raises(UnsatisfiedWitness, match="comm_r is the hash"):
        circuit.witness(lie, cuda)


def test_a_winning_post_is_proven_where_its_witness_is_made(cpu: CpuBackend, cuda: CudaBackend, tmp_path: Path) -> None:
    circuit = post_circuit(3, 1, (8, 8)).build()
    inputs = winning_post_inputs(3, 1, (8, 8), Random(3))
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "post.zkey")
    key, blinding = read_zkey(tmp_path / "post.zkey"), Blinding(3, 5)
    want, _ = prove(load_key(key, cpu), circuit.witness(inputs, cpu), lambda _: blinding)
    got, _ = prove(load_key(key, cuda), lambda device: circuit.witness_on(device, inputs), lambda _: blinding)
    assert got.to_dict() == want.to_dict()


def test_bellpersons_parameters_of_a_circuit(cpu: CpuBackend, cuda: CudaBackend, tmp_path: Path) -> None:
    builder, inputs = post_circuit(3, 2, (8, 8)), post_inputs(3, 2, (8, 8), Random(3))
    setup(builder.build().r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "key.params")
    key, blinding = read_params(tmp_path / "key.params", builder.system), Blinding(3, 5)
    witness = builder.witness_program().witness(inputs, cpu)
    proofs = [prove(load_key(key, backend), witness, lambda _: blinding)[0] for backend in (cpu, cuda)]
    assert proofs[0].to_dict() == proofs[1].to_dict()
    assert verify(key.verification_key, inputs["public"], proofs[0])


@pytest.mark.parametrize("monomial", [False, True])
def test_a_key_that_the_device_makes_and_keeps(cuda: CudaBackend, monomial: bool) -> None:
    builder, inputs = post_circuit(3, 1, (8, 8)), winning_post_inputs(3, 1, (8, 8), Random(3))
    key = dev_key(TemplatedQap.from_system(builder.system()), cuda, monomial=monomial)
    program = builder.witness_program()
    proof, _ = prove(load_key(key, cuda), lambda device: program.witness_on(device, inputs))
    public = [int(value) for value in inputs["public"]]
    assert verify(key.verification_key, public, proof)
    assert not verify(key.verification_key, [public[0] + 1, *public[1:]], proof)
