"""What a prover of a wrapped job opens before the wrap's turn comes, and what stays of it for the next job."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.wrap.statement import statement_digest
from distprove.circuits.wrap.tape import record
from distprove.errors import InvalidKey
from distprove.groth16 import shared_key
from distprove.groth16.setup import setup
from distprove.job import Job
from distprove.stark.recursion.system import OneProofProver
from distprove.stark.wrap import prover as provers
from distprove.stark.wrap import system as systems
from distprove.stark.wrap.prover import WrappedProver
from distprove.stark.wrap.system import WrappedSystem
from distprove.steps import Steps
from distprove.system import PartitionProof, StepTimes, Witness
from kernels.cpu.backend import CpuBackend
from kernels.errors import OutOfMemory
from tests.stark.recursion.test_ahead import Device
from tests.stark.wrap.test_development_keys import OPTIONS, small_circuit


@pytest.fixture
def key(tmp_path: Path) -> Path:
    with CpuBackend(threads=1) as cpu:
        setup(small_circuit().system().r1cs(), insecure_dev=True, backend=cpu, out=tmp_path / "wrap.zkey")
    return tmp_path / "wrap.zkey"


@pytest.fixture
def tapes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The keys whose tapes are asked for. Nothing else of a tree is made."""
    asked: list[Any] = []
    monkeypatch.setattr(provers, "node_key", lambda key, kind, threads: kind.role)
    monkeypatch.setattr(provers, "resident_tape", asked.append)
    monkeypatch.setattr(OneProofProver, "_prepare", lambda *_: None)
    monkeypatch.setattr(OneProofProver, "_ahead", lambda *_: iter(()))
    monkeypatch.setattr(OneProofProver, "_second_ahead", lambda *_: iter(()))
    return asked


@pytest.fixture
def device() -> Iterator[Device]:
    with Device(threads=1) as made:
        yield made


def wrapped_system(key: Path) -> WrappedSystem:
    """As a worker gets it, of a job that is planned."""
    made = Job.from_options("stark", **OPTIONS, wrap_key=str(key)).load()
    made.plan()
    sent: WrappedSystem = pickle.loads(pickle.dumps(made))
    return sent


def opened(system: WrappedSystem, backend: CpuBackend) -> WrappedProver:
    """A prover, once the host has done its part."""
    before = set(threading.enumerate())
    prover = system.prover(system.shared(), backend)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    return prover


def test_an_idle_device_loads_the_key_piece_by_piece(key: Path, tapes: list[Any], device: Device) -> None:
    system = wrapped_system(key)
    prover = opened(system, device)
    assert tapes == ["wrap"]
    before, pieces = prover._held(), 1
    assert prover._groth16 is not None
    while prover.prepare_more():
        assert prover._groth16.nbytes == 0
        pieces += 1
    assert pieces > len(("A", "B", "a", "b1", "b2", "c", "h"))
    assert prover._held() == before + prover._groth16.nbytes > before  # partitions are planned in what it leaves
    # Another job's prover finds it, and leaves it.
    loaded, other = prover._groth16.resident(), opened(system, device)
    assert other._groth16 is prover._groth16
    assert not other.prepare_more()
    other.close()
    assert prover._groth16.resident() is loaded
    # It gives way to partitions, and to those of one job alone it does not.
    assert not prover.drop("job")
    assert prover._groth16.nbytes > 0
    assert prover.drop()
    assert prover._groth16.nbytes == 0
    shared = prover._groth16
    assert shared.resident() is not loaded
    prover.close()
    assert shared.nbytes == 0
    assert not shared_key._HELD


def test_a_key_without_room_is_left_for_the_wrap(
    key: Path, tapes: list[Any], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    prover = opened(wrapped_system(key), device)
    begin = shared_key.loading

    def full(*given: Any) -> Any:
        raise OutOfMemory("full")
        yield

    monkeypatch.setattr(shared_key, "loading", full)
    assert not prover.prepare_more()
    assert prover._groth16 is not None
    assert prover._groth16.nbytes == 0
    monkeypatch.setattr(shared_key, "loading", begin)
    assert prover._groth16.resident().n_vars == 4
    prover.close()


def test_a_witness_begins_with_the_second_root(
    key: Path, tapes: list[Any], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrap takes it, with its salt, if it is of the proof that the wrap needs, and else makes another."""
    system = wrapped_system(key)
    *_, planned, _, last = Job.from_options("stark", **OPTIONS, wrap_key=str(key)).load().plan()
    assert (planned.name, last.name) == ("wrap", "groth16")
    made: list[Any] = []
    salts: list[bytes] = []

    def witness(key: Any, second: PartitionProof, salt: bytes, cpu: CpuBackend, steps: Steps) -> Any:
        made.append((second, cpu is device))
        salts.append(salt)
        with CpuBackend(threads=1) as own:
            return record(small_circuit()).witness({"x": ["3"]}, own)

    monkeypatch.setattr(provers, "wrap_witness", witness)
    second, other = (PartitionProof("wrap", bytes(32), (word,), {}) for word in (1, 2))
    monkeypatch.setattr(OneProofProver, "prove_partition", lambda *_: (second, StepTimes()))
    prover, nothing = opened(system, device), Witness("none", {})
    for job, child, expected in (
        ("first", second, [(second, False)]),
        ("second", other, [(second, False), (other, True)]),
    ):
        del made[:]
        prover.prove_partition(replace(planned, job=job), nothing)
        begun = prover._begun[job]
        begun.result()
        assert repr(salts[-1]) not in f"{begun} {begun!r} {prover._begun}"
        assert made == [(second, False)]  # on threads of its own, beside the device
        proof, _ = prover.prove_partition(replace(last, job=job, children=(child,)), nothing)
        assert made == expected
        assert proof.data["salt"] == salts[-1]
        assert proof.public == (statement_digest(child.public, salts[-1]),)
        assert job not in prover._begun
    assert len(set(salts)) == len(salts) == 3
    for job in ("a", "b", "c"):
        prover.prove_partition(replace(planned, job=job), nothing)
    assert list(prover._begun) == ["b", "c"]
    prover.drop("b")
    assert list(prover._begun) == ["c"]
    prover.close()
    assert not prover._begun


def test_no_witness_begins_where_another_prover_is_idle(
    key: Path, tapes: list[Any], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one on the device makes the wrap, while this one's host is at the root."""
    *_, planned, _, _ = Job.from_options("stark", **OPTIONS, wrap_key=str(key)).load().plan()
    second = PartitionProof("wrap", bytes(32), (1,), {})
    monkeypatch.setattr(OneProofProver, "prove_partition", lambda *_: (second, StepTimes()))
    prover, info = opened(wrapped_system(key), device), device.info()
    monkeypatch.setattr(device, "info", lambda: replace(info, details={**info.details, "share": 2}))
    prover.prove_partition(replace(planned, job="a"), Witness("none", {}))
    assert not prover._begun
    prover.close()


def test_a_prover_on_the_cpu_opens_nothing_ahead(key: Path, tapes: list[Any]) -> None:
    with CpuBackend(threads=1) as cpu:
        prover = opened(wrapped_system(key), cpu)
        assert not prover.prepare_more()
        assert not tapes
        prover.close()


def test_a_key_of_another_circuit_is_refused_before_anything_is_proven(
    key: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recorded:
        wires = 5

    monkeypatch.setattr(systems, "node_key", lambda *_: None)
    monkeypatch.setattr(systems, "resident_tape", lambda key: Recorded())
    system = wrapped_system(key)
    with pytest.raises(InvalidKey, match="of 4 wires; this wrap's has 5"):
        system.check(system.shared(), device)
    Recorded.wires = 4
    system.check(system.shared(), device)


def test_what_is_not_kept_is_made_in_the_check(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(systems, "node_key", lambda key, kind, threads: kind.role)
    monkeypatch.setattr(systems, "development_key", lambda key, backend: made.append((key, backend)))
    monkeypatch.setattr(systems, "resident_tape", lambda key: made.append(key) or small_circuit())
    monkeypatch.setattr(systems, "require_key_folder", lambda: None)
    loaded = Job.from_options("stark", **OPTIONS, insecure_dev=True).load()
    loaded.plan()
    system: WrappedSystem = pickle.loads(pickle.dumps(loaded))
    assert system.shared() == {}
    system.check(system.shared(), device)
    assert made == [("wrap", device), "wrap"]
