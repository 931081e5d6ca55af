"""Groth16 with operations offloaded to the host: the same proofs, and an offload chosen by memory and speed."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16 import offload as offloading
from distprove.groth16.keys import VerificationKey
from distprove.groth16.offload import CANDIDATES, G1, G2, choose_offload, missing
from distprove.groth16.prover import Blinding, StagedWitness, prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups
from kernels.interface.arrays import HostArray
from kernels.interface.backend import DeviceInfo
from kernels.interface.leases import SPMV
from kernels.interface.offload import OPERATIONS, Offload
from kernels.maths.curves import CURVES, Curve, Group
from kernels.maths.encoding import unpack
from kernels.split import SplitBackend

OFFLOADS = [Offload(frozenset(some)) for count in range(4) for some in combinations(OPERATIONS, count)]
GIB = 1 << 30


@pytest.fixture(scope="module", params=CURVES, ids=lambda c: c.title)
def circuit(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[ZKey, HostArray]:
    cpu, curve = CpuBackend(), request.param
    made = synthetic_circuit(curve, 61, cpu, public_inputs=2)
    path = tmp_path_factory.mktemp("key") / "small.zkey"
    setup(made.r1cs, insecure_dev=True, backend=cpu, out=path)
    return read_zkey(path), made.witness


def fixed(_: int) -> Blinding:
    return Blinding(1234567, 7654321)


@pytest.mark.parametrize("offload", OFFLOADS, ids=str)
def test_proofs_are_the_same_wherever_operations_run(circuit: tuple[ZKey, HostArray], offload: Offload) -> None:
    zkey, witness = circuit
    expected = prove(load_key(zkey, CpuBackend()), witness, fixed)[0]
    assert verify(VerificationKey.from_zkey(zkey), unpack(witness[1 : zkey.n_public + 1]), expected)
    with SplitBackend(CpuBackend(), CpuBackend(), offload) as backend:
        key = load_key(zkey, backend)
        assert prove(key, witness, fixed)[0].to_dict() == expected.to_dict()
        first, second = StagedWitness(key, witness), StagedWitness(key, witness)
        pending = [first.start(fixed), second.start(fixed)]
        assert [p.result()[0].to_dict() for p in pending] == 2 * [expected.to_dict()]
        called_off = StagedWitness(key, witness)
        called_off.release()


class SizedGroups(CpuGroups):
    def table_bytes(self, curve: Curve, group: Group, n: int, memory: int) -> int:
        return 8 * curve.point_limbs(group) * n

    def msm_scratch(
        self, curve: Curve, group: Group, n: int, *, memory: int | None = None, streamed: bool = False
    ) -> int:
        return (100 if group is Group.G1 else 200) * n


class SizedBackend(CpuBackend):
    """Says that it is a GPU with this much memory; its MSMs take as long as a test says."""

    def info(self) -> DeviceInfo:
        return DeviceInfo("a GPU", "cuda", self.memory, self.memory)

    def __init__(self, memory: int) -> None:
        super().__init__()
        self.memory = memory
        self.groups = SizedGroups(self.pool, np.empty)


def test_without_a_device_there_is_nothing_to_choose(circuit: tuple[ZKey, HostArray]) -> None:
    offload, reason = choose_offload(circuit[0], CpuBackend(), CpuBackend())
    assert offload == Offload()
    assert "no device" in reason


def test_less_memory_means_more_on_the_host(circuit: tuple[ZKey, HostArray], monkeypatch: pytest.MonkeyPatch) -> None:
    zkey, cpu = circuit[0], CpuBackend()
    monkeypatch.setattr(offloading, "msm_seconds", lambda _zkey, backend, *_: 9.0 if backend is cpu else 1.0)
    chosen = []
    for memory in range(256 << 10, 0, -1024):
        device = SizedBackend(memory)
        offload, reason = choose_offload(zkey, device, cpu)
        if missing(zkey, CANDIDATES[-1], device, memory) == 0:
            assert missing(zkey, offload, device, memory) == 0
        assert not offload.host or "needs" in reason
        chosen.append(CANDIDATES.index(offload))
    assert chosen == sorted(chosen)
    assert set(chosen) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("g1", "g2", "g2_on_host", "expected"),
    [(1.0, 3.0, 3.9, CANDIDATES[1]), (1.0, 3.0, 4.1, CANDIDATES[0])],
)
def test_with_room_for_all_g2_goes_where_a_proof_costs_less(
    circuit: tuple[ZKey, HostArray],
    monkeypatch: pytest.MonkeyPatch,
    g1: float,
    g2: float,
    g2_on_host: float,
    expected: Offload,
) -> None:
    device, host = SizedBackend(GIB), CpuBackend()

    def measured(_zkey: ZKey, backend: Any, group: Group, _most: int) -> float:
        return g2_on_host if backend is host else g1 if group is Group.G1 else g2

    monkeypatch.setattr(offloading, "msm_seconds", measured)
    offload, reason = choose_offload(circuit[0], device, host)
    assert offload == expected
    assert f"{1e3 * g2_on_host:.1f} ms on the CPU" in reason


def test_speed_is_measured_on_the_keys_own_points(circuit: tuple[ZKey, HostArray]) -> None:
    zkey, _ = circuit
    offload, reason = choose_offload(zkey, SizedBackend(GIB), CpuBackend())
    assert offload in CANDIDATES[:2]
    assert "ms" in reason


def test_each_candidate_asks_less_of_the_device(circuit: tuple[ZKey, HostArray]) -> None:
    zkey, _ = circuit
    needs = [missing(zkey, candidate, SizedBackend(0), 0) for candidate in CANDIDATES]
    assert needs == sorted(needs, reverse=True)
    assert len(set(needs)) == len(CANDIDATES)
    assert min(needs) >= 3 * 32 * zkey.domain_size
    assert [candidate.host for candidate in CANDIDATES] == [set(), {G2}, {G2, SPMV}, {G2, SPMV, G1}]
