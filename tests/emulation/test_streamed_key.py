"""Groth16 keys that do not fit the device, with emulated kernels: the same proofs, in the memory that was planned."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.circuits.synthetic import SyntheticCircuit, synthetic_circuit
from distprove.groth16.key import SECTIONS
from distprove.groth16.memory import GIVEN_UP, WITNESSES, KeyShape
from distprove.groth16.prover import Blinding, StagedWitness, prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.vectors import KeyVectors
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.msm import MsmProfile
from kernels.errors import OutOfMemory
from kernels.maths.curves import BN254
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.least_memory import least_memory
from tests.support.templated_cases import placed_matrix

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

CONSTRAINTS = 600
PROFILE = MsmProfile(
    window_bits=2,
    bin_bits=8,
    digit_shared=16 << 10,
    sort_blocks_per_sm=1,
    chunk_entries=2048,
    affine_rounds=0,
    stream_points=64,
    accumulate_block=32,
    min_segment=64,
    least_segment=64,
    merge_block=32,
    reduce_block=1,
    reduce_threads=32,
    reduce_sums_per_sm=32,
)
"""Scratch that is small beside a key of 600 wires, as the default's is beside one of millions."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticCircuit, ZKey]:
    cpu, path = CpuBackend(), tmp_path_factory.mktemp("key") / "small.zkey"
    circuit = synthetic_circuit(BN254, CONSTRAINTS, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=path)
    return circuit, read_zkey(path)


def device(budget: int) -> CudaBackend:
    return CudaBackend(EmulatedDevice(budget=budget, sm_count=1), msm_profile=PROFILE)


def fixed(_: int) -> Blinding:
    return Blinding(1234567, 7654321)


@pytest.mark.parametrize(
    ("budget", "streamed", "witnesses", "picks"),
    [(610 << 10, {"h"}, WITNESSES, True), (410 << 10, {*GIVEN_UP}, 1, True), (380 << 10, {*GIVEN_UP}, 1, False)],
    ids=["some", "all", "all, with points at infinity"],
)
def test_a_key_that_does_not_fit_gives_the_same_proof(
    made: tuple[SyntheticCircuit, ZKey], budget: int, streamed: set[str], witnesses: int, picks: bool
) -> None:
    circuit, zkey = made
    expected, _ = prove(load_key(zkey, CpuBackend()), circuit.witness, fixed)
    backend = device(budget)
    key = load_key(zkey, backend)
    assert key.plan.streamed == streamed
    assert key.plan.witnesses == witnesses
    assert [key.pick_a is not None, key.pick_b is not None] == [picks, picks]
    # A plan leaves out the distinct values of matrices, here those of the two that pick wires.
    assert key.nbytes == pytest.approx(key.plan.resident, rel=0.01, abs=256)
    # Makes the transforms' tables, which all but the first proof have.
    key.quotient(*(backend.to_device(np.zeros((zkey.domain_size, 4), dtype=np.uint64)) for _ in "ab"))
    first, second = StagedWitness(key, circuit.witness), StagedWitness(key, circuit.witness)
    backend.watch_memory()
    before = backend.traffic.snapshot()
    proof, _ = first.start(fixed).result()
    assert proof == expected
    assert backend.memory_peak() == pytest.approx(key.plan.peak, rel=0.1)
    points = sum(len(getattr(zkey.points, name)) for name in streamed & SECTIONS.keys())
    assert backend.traffic.since(before).to_device >= 64 * points + circuit.witness.nbytes
    second.release()


def test_too_little_memory_is_refused_before_anything_is_loaded(made: tuple[SyntheticCircuit, ZKey]) -> None:
    _, zkey = made
    least = least_memory(KeyShape.of(zkey, KeyVectors.every_point(zkey), zkey.matrices()), device(260 << 10))
    backend = device(least - (16 << 10))
    with pytest.raises(OutOfMemory, match=r"1\d\.\d KiB of device memory short.* in its stage \w+"):
        load_key(zkey, backend)
    assert isinstance(backend.device, EmulatedDevice)
    assert backend.memory_peak() == 0
    assert backend.traffic.to_device == 0


@pytest.mark.parametrize("moved", [False, True])
def test_a_matrix_that_is_made_for_each_product_gives_the_same(moved: bool) -> None:
    field, backend = BN254.fr, CudaBackend(EmulatedDevice())
    placed = placed_matrix(field, 3, moved=moved)
    vector = np.random.default_rng(1).integers(0, 1 << 60, (placed.cols, field.limbs), dtype=np.uint64)
    x = backend.to_device(vector)
    for matrix in (placed, placed.csr()):
        resident, on_use = (backend.sparse.load_matrix(field, matrix, on_use=each) for each in (False, True))
        assert on_use.nbytes == 0
        free = backend.device.memory_free()
        expected = backend.to_host(backend.sparse.spmv(resident, x))
        for _ in range(2):
            assert np.array_equal(backend.to_host(backend.sparse.spmv(on_use, x)), expected)
        assert backend.device.memory_free() == free
