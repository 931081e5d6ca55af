"""The bare loop beside a service: it proves all partitions, and a bad proof of it is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.backends import BackendChoice
from actors.prover import Device, ProverWorker
from distprove.errors import JobFailed, UsageError
from distprove.measure import service_rate
from distprove.measure.scaling import repeated
from distprove.system import PartitionProof
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

Make = Callable[..., Faults]


def bare_loop(system: ToySystem, count: int, provers: int) -> float:
    plan = repeated(system, count)
    synthesiser, shared = system.synthesiser(system.shared(), 1), system.shared()
    works = [synthesiser.synthesise(partition) for partition in plan]
    workers = [ProverWorker(system, Device(BackendChoice(TOY_BACKEND))) for _ in range(provers)]
    for worker in workers:
        worker.load(shared)
    return service_rate.bare_loop(system, workers, 2, plan, works)


@pytest.mark.parametrize("stages", [False, True])
def test_it_proves_every_partition_once(faults: Make, stages: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def none_invalid(system: ToySystem, proofs: list[PartitionProof]) -> list[int]:
        names.extend(proof.name for proof in proofs)
        return []

    monkeypatch.setattr(service_rate, "invalid_among", none_invalid)
    assert bare_loop(ToySystem(3, faults(), stages=stages), 7, provers=2) > 0
    assert names == [f"partition-{i}" for i in range(7)]


def test_its_proofs_are_checked(faults: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_rate, "invalid_among", lambda system, proofs: [1])
    with pytest.raises(JobFailed, match="bare loop does not verify"):
        bare_loop(ToySystem(2, faults()), 2, provers=1)


def test_partitions_that_fit_each_other_are_not_repeated(faults: Make) -> None:
    system = ToySystem(2, faults(), needs_barrier=True)
    assert len(repeated(system, 2)) == 2
    with pytest.raises(UsageError, match="cannot be repeated"):
        repeated(system, 5)
