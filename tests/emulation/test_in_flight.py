"""Groth16 proofs in flight on the CUDA backend, its kernels on the host: the same proofs, and memory given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distprove.circuits.synthetic import SyntheticCircuit, synthetic_circuit
from distprove.errors import UnsatisfiedWitness, WitnessMismatch
from distprove.groth16.prover import Blinding, StagedWitness, prove
from distprove.groth16.resident import ResidentKey, load_key
from distprove.groth16.setup import setup
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254
from tests.support.emulated_device import EmulatedDevice
from tests.support.file_builders import with_points
from tests.support.infinite_points import with_infinity


@pytest.fixture(scope="module")
def circuit() -> SyntheticCircuit:
    return synthetic_circuit(BN254, 13, CpuBackend(), public_inputs=2)


@pytest.fixture(scope="module")
def zkey(circuit: SyntheticCircuit, tmp_path_factory: pytest.TempPathFactory) -> ZKey:
    path = tmp_path_factory.mktemp("key") / "small.zkey"
    setup(circuit.r1cs, insecure_dev=True, backend=CpuBackend(), out=path)
    return read_zkey(path)


@pytest.fixture(scope="module", params=[True, False], ids=["whole", "parts"])
def keys(
    emulated: CudaBackend, circuit: SyntheticCircuit, zkey: ZKey, request: pytest.FixtureRequest
) -> tuple[ResidentKey, ResidentKey, list[HostArray]]:
    """A small circuit's key on the CPU backend and on the emulated device, and two witnesses of the right shape. A
    whole proof is recorded, or each of its parts is."""
    other = circuit.witness.copy()
    other[3:] = circuit.witness[:2:-1]
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setattr("distprove.groth16.memory.RECORDED_DOMAIN", 0)
        on_device = load_key(zkey, emulated)
    assert (on_device.commitments is not None) == request.param
    return load_key(zkey, CpuBackend()), on_device, [circuit.witness, other]


def blinded(number: int) -> Callable[[int], Blinding]:
    return lambda _: Blinding(1000 + number, 2000 + number)


def staged(key: ResidentKey) -> int:
    """Staged arrays on the key's device that nobody gave back."""
    assert isinstance(key.backend, CudaBackend)
    assert isinstance(key.backend.device, EmulatedDevice)
    return key.backend.device.in_staging


def test_picked_wires_and_the_quotients_coefficients_are_those_of_the_cpu(
    zkey: ZKey, emulated: CudaBackend, circuit: SyntheticCircuit
) -> None:
    """The two steps that bellperson's keys add, under a key whose points need not fit them."""
    wires = np.arange(0, zkey.n_vars, 2, dtype=np.uint32)
    few = {name: getattr(zkey.points, name)[::2].copy() for name in ("a", "b1", "b2")}
    key = with_points(zkey, **few, h=zkey.points.h[:-1])
    for name, value in (("wires_a", wires), ("wires_b", wires), ("monomial", True)):
        object.__setattr__(key, name, value)
    here, there = (prove(load_key(key, each), circuit.witness, blinded(0))[0] for each in (CpuBackend(), emulated))
    assert here == there
    assert here != prove(load_key(zkey, CpuBackend()), circuit.witness, blinded(0))[0]


@pytest.mark.parametrize("recorded", ["whole", "parts"])
@pytest.mark.parametrize("finite", [(0, 0, 0), (0.5, 0.3, 0.3), (0.6, 0, 0.4), (0.9, 1, 0.1), (1, 1, 1)], ids=str)
def test_points_at_infinity_change_no_proof(
    zkey: ZKey,
    emulated: CudaBackend,
    circuit: SyntheticCircuit,
    recorded: str,
    finite: tuple[float, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Proofs equal the CPU's under keys with these shares of finite points under A, B1 and B2. The CPU's sums take
    every point of the key."""
    if recorded == "parts":
        monkeypatch.setattr("distprove.groth16.memory.RECORDED_DOMAIN", 0)
    key, rng = with_infinity(zkey, finite, seed=7), np.random.default_rng(8)
    device, cpu = load_key(key, emulated), load_key(key, CpuBackend())
    assert (device.commitments is not None) == (recorded == "whole")
    whole = [share in (0, 1) for share in (finite[0], max(finite[1:]))]
    assert [device.pick_a is None, device.pick_b is None] == whole, "where nearly all points are finite, or none is"
    assert (cpu.pick_a, cpu.pick_b) == (None, None)
    heavy = circuit.witness.copy()
    heavy[3:] = 0
    heavy[3:, 0] = rng.integers(0, 2, len(heavy) - 3)
    for number, witness in enumerate((circuit.witness, heavy)):
        here, there = (prove(each, witness, blinded(number))[0] for each in (cpu, device))
        assert here == there


def test_two_in_flight_give_the_proofs_of_one_after_the_other(keys: Any) -> None:
    cpu, device, witnesses = keys
    expected = [prove(cpu, witness, blinded(i))[0].to_dict() for i, witness in enumerate(witnesses)]
    first, second = (StagedWitness(device, witness) for witness in witnesses)
    assert staged(device) == 2
    replayed = device.backend.device.did["replay"]
    pending = [first.start(blinded(0)), second.start(blinded(1))]
    assert staged(device) == 0  # their last readers are queued
    # Of each the two halves, or five MSMs and the quotient.
    assert device.backend.device.did["replay"] == replayed + 2 * (6 if device.commitments is None else 2)
    later, earlier = pending[1].result(), pending[0].result()
    assert [earlier[0].to_dict(), later[0].to_dict()] == expected
    assert [times.to_device for _, times in (earlier, later)] == [w.nbytes for w in witnesses]
    assert next(iter(later[1].seconds)) == "upload"


def test_a_witness_is_made_ahead_where_there_is_room_for_it(keys: Any) -> None:
    cpu, device, (witness, _) = keys
    expected = prove(cpu, witness, blinded(0))[0].to_dict()
    used: list[Backend] = []

    def make(backend: Backend) -> Array:
        used.append(backend)
        return backend.to_device(witness)

    ahead = StagedWitness(device, make)
    assert [backend is device.backend for backend in used] == [False]
    assert staged(device) == 1
    free = device.backend.memory_free()
    proof, times = ahead.start(blinded(0)).result()
    assert staged(device) == 0
    assert device.backend.memory_free() >= free + witness.nbytes
    assert (proof.to_dict(), times.to_device) == (expected, witness.nbytes)

    tight = StagedWitness(replace(device, plan=replace(device.plan, witnesses=1)), make)
    assert (len(used), staged(device)) == (1, 0)
    assert tight.start(blinded(0)).result()[0].to_dict() == expected
    tight.release()
    assert used[1:] == [device.backend]


def test_a_witness_that_cannot_be_made_ahead_says_so_at_once(keys: Any) -> None:
    _, device, (witness, _) = keys

    def unsatisfied(_: Backend) -> Array:
        raise UnsatisfiedWitness("the inputs do not satisfy the circuit: the sum")

    with pytest.raises(UnsatisfiedWitness):
        StagedWitness(device, unsatisfied)
    with pytest.raises(WitnessMismatch):
        StagedWitness(device, lambda backend: backend.to_device(witness[:-1]))
    assert staged(device) == 0


def test_a_failed_proof_gives_its_witness_back(keys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, device, (witness, _) = keys

    def no_memory(*_: Any, **__: Any) -> Any:
        raise OutOfMemory("1.0 GiB of device memory needed")

    if device.commitments is not None:
        device = replace(device, commitments=no_memory)
    monkeypatch.setattr(device.backend.sparse, "spmv", no_memory)
    with pytest.raises(OutOfMemory):
        prove(device, witness)
    assert staged(device) == 0


def test_a_witness_of_another_circuit_is_not_staged(keys: Any) -> None:
    _, device, (witness, _) = keys
    for wrong in (witness[:-1], np.zeros_like(witness)):
        with pytest.raises(WitnessMismatch):
            StagedWitness(device, wrong)
    assert staged(device) == 0


def test_events_stand_at_both_ends_of_a_proof(keys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, on_device, witnesses = keys
    staged = StagedWitness(on_device, witnesses[0])
    meter = on_device.backend.device.meter
    meter.watch().end()  # compares the clocks
    record, recorded = meter._record, []
    monkeypatch.setattr(meter, "_record", lambda: recorded.append(1) or record())
    _, times = staged.start(blinded(0)).result()
    assert len(recorded) == 2
    assert times.on_device.by_events
    assert sum(end - start for start, end in times.on_device.stretches) > 0
    assert all(start < end for start, end in times.on_device.stretches)
