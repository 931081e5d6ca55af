"""What orchestration costs: both ways prove all partitions with the same provers, and a bad proof is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.lab import orchestration
from cluster.lab.orchestration import Cost, Pass, measure_orchestration
from distprove.errors import JobFailed, UsageError
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof
from tests.support.toy_system import SECRET, Faults, ToySystem

Make = Callable[..., Faults]


@pytest.mark.parametrize(
    ("barrier", "stages", "isolate"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, False), (False, True, True)],
)
def test_both_ways_prove_every_partition(
    faults: Make, local: ExecutorSettings, tmp_path: Path, barrier: bool, stages: bool, isolate: bool
) -> None:
    names = [f"{name}{i}" for name in ("partition-", "p") for i in range(7)]
    system = ToySystem(3, faults(slow=dict.fromkeys(names, 0.01)), needs_barrier=barrier, stages=stages)
    settings = replace(local, gpu_workers=2, policy="off", isolate=isolate)
    count = 3 if barrier else 7
    cost, facts = measure_orchestration(
        system, settings, "squares", tmp_path, partitions=None if barrier else count, repeats=2
    )
    assert facts["device"] == "toy"
    assert not (tmp_path / "run").exists()
    assert (cost.policy, cost.partitions, len(cost.bare), len(cost.pipeline)) == ("off", count, 2, 2)
    for each in (*cost.bare, *cost.pipeline):
        assert each.wall >= each.proving > 0
        assert each.device >= 0.01 * count / 2
        assert 0 <= each.idle_share < 1
        assert not each.by_events
    record = json.loads(json.dumps(cost.to_dict()))
    assert record["by_events"] is False
    assert record["pipeline"]["seconds_per_partition"] > 0
    assert str(SECRET) not in json.dumps(record)


def test_the_cost_is_of_medians() -> None:
    def passes(*walls: float) -> tuple[Pass, ...]:
        return tuple(Pass(wall, wall / 2, wall / 4, 0.5, True) for wall in walls)

    cost = Cost("x", "static", 4, passes(1.0, 9.0, 2.0), passes(3.0, 2.5, 2.0))
    assert cost.cost() == pytest.approx(0.25)
    record = cost.to_dict()
    assert record["cost_while_proving"] == pytest.approx(0.25)
    assert record["bare"]["seconds_per_partition"] == 0.5
    assert record["pipeline"]["device_seconds_per_partition"] == pytest.approx(2.5 / 4 / 4)
    assert record["pipeline"]["beside_proving"] == pytest.approx(1.25)


def test_proofs_of_the_bare_loop_are_checked_too(
    faults: Make, local: ExecutorSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(system: ToySystem, proofs: list[PartitionProof]) -> list[int]:
        assert [proof.name for proof in proofs] == ["partition-0", "partition-1"]
        return [1]

    monkeypatch.setattr(orchestration, "invalid_among", second)
    with pytest.raises(JobFailed, match="bare loop does not verify"):
        measure_orchestration(ToySystem(2, faults()), local, "x", tmp_path, partitions=2, repeats=1)


def test_partitions_that_fit_each_other_are_not_repeated(faults: Make, local: ExecutorSettings, tmp_path: Path) -> None:
    system = ToySystem(2, faults(), needs_barrier=True)
    with pytest.raises(UsageError, match="cannot be repeated"):
        measure_orchestration(system, local, "x", tmp_path, partitions=5)
