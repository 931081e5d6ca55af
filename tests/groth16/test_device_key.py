"""Development keys that are made where they are used: proofs under them verify, and their points are a file's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from distprove.circuits.filecoin.inputs import post_inputs
from distprove.circuits.filecoin.post import post_circuit
from distprove.groth16 import dev_setup
from distprove.groth16.dev_setup import ToxicWaste, dev_points
from distprove.groth16.device_key import dev_key
from distprove.groth16.key import SECTIONS
from distprove.groth16.prover import prove
from distprove.groth16.qap import Qap
from distprove.groth16.resident import load_key
from distprove.groth16.templated import TemplatedQap
from distprove.groth16.verifier import verify
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group

SHAPE = (1, 1, (2,))


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=2) as backend:
        yield backend


@pytest.mark.parametrize("monomial", [False, True])
def test_a_proof_under_a_key_in_memory(cpu: CpuBackend, monomial: bool) -> None:
    builder, inputs = post_circuit(*SHAPE), post_inputs(*SHAPE, Random(5))
    key = dev_key(TemplatedQap.from_system(builder.system()), cpu, monomial=monomial)
    assert key.wires_b is not None
    assert len(key.points.b1) == len(key.wires_b) < key.n_vars
    witness = builder.witness_program().witness(inputs, cpu)
    proof, _ = prove(load_key(key, cpu), witness)
    public = [int(v) for v in inputs["public"]]
    assert verify(key.verification_key, public, proof)
    assert not verify(key.verification_key, [public[0] + 1, *public[1:]], proof)


def test_points_are_those_of_the_whole_program(cpu: CpuBackend) -> None:
    system = post_circuit(*SHAPE).system()
    placed, whole = TemplatedQap.from_system(system), Qap.from_r1cs(system.r1cs())
    waste = ToxicWaste(tau=3, alpha=5, beta=7, delta=11)
    ours, theirs = (dev_points(qap, waste, cpu) for qap in (placed, whole))
    for name, vector in vars(theirs).items():
        assert np.array_equal(getattr(ours, name), vector), name


class SmallDevice(CpuBackend):
    """Says that it is a device whose memory holds the vectors of a proof, and not all points of its key."""

    def __init__(self, free: int) -> None:
        super().__init__(threads=2, budget=free)
        self.groups = SizedGroups(self.pool, np.empty)
        self.free, self.made = free, 0

    def memory_free(self) -> int:
        return self.free

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        array = super().empty_host(shape, dtype)
        self.made += array.nbytes
        return array


class SizedGroups(CpuGroups):
    def table_bytes(self, curve: Curve, group: Group, n: int, memory: int) -> int:
        return 8 * curve.point_limbs(group) * n


def test_points_that_do_not_fit_go_to_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slice by slice, and the proofs are those of the key's circuit."""
    monkeypatch.setattr(dev_setup, "POINTS_AT_ONCE", 1000)
    builder, inputs = post_circuit(*SHAPE), post_inputs(*SHAPE, Random(5))
    qap = TemplatedQap.from_system(builder.system())
    with SmallDevice(1 << 40) as roomy:
        dev_key(qap, roomy, monomial=True)
        assert roomy.made == 0
    with SmallDevice(5 * 32 * qap.domain_size) as small:
        key = dev_key(qap, small, monomial=True)
        points = [getattr(key.points, name) for name in SECTIONS]
        assert small.made == sum(vector.nbytes for vector in points)
        resident = load_key(key, small)
        assert resident.plan.streamed
        proof, _ = prove(resident, builder.witness_program().witness(inputs, small))
    assert verify(key.verification_key, [int(v) for v in inputs["public"]], proof)
