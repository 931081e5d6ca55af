"""The simulator: its parts behave as they should, its governor keeps its promises, and `auto` does well on it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.lab.simulator.engine import simulate
from cluster.lab.simulator.hardware import Running, Work, rates
from cluster.lab.simulator.machines import random_case
from cluster.lab.simulator.published import load, machine
from cluster.lab.simulator.study import NEAR, SAME, best_static, study
from cluster.policy import Auto, Fixed, Limits, off
from distprove.bench.render import RESULTS
from distprove.cli.app import app
from distprove.host.phases import Phase

MACHINE, LOAD = machine(), load()
DEMANDS = LOAD.demands


def speed(running: dict[Work, float], slowed: dict[Work, float] | None = None) -> dict[Work, float]:
    return rates(MACHINE, DEMANDS, LOAD.buckets, Running(running, slowed or {}))


def test_one_thread_alone_goes_at_full_speed() -> None:
    for work in Work:
        assert speed({work: 1})[work] == pytest.approx(1.0, abs=0.06)


def test_what_runs_beside_slows_everything_down() -> None:
    alone = speed({Work.GPU: 1, Work.SYNTHESIS: 4})
    beside = speed({Work.GPU: 1, Work.SYNTHESIS: 4, Work.CPU_MSM: MACHINE.cores})
    assert beside[Work.GPU] < alone[Work.GPU]
    assert beside[Work.SYNTHESIS] < alone[Work.SYNTHESIS]
    assert speed({Work.GPU: 1, Work.FREE: 8})[Work.GPU] < speed({Work.GPU: 1, Work.FREE: 1})[Work.GPU]


def test_cores_and_bus_are_never_given_twice() -> None:
    for threads in (1, 8, 32, 64, 200):
        found = speed({Work.SYNTHESIS: threads})[Work.SYNTHESIS]
        assert threads * found <= MACHINE.cores * (1 + 1e-9)
        assert threads * found * DEMANDS[Work.SYNTHESIS].bandwidth <= MACHINE.bandwidth * 1.01


def test_what_yields_leaves_room() -> None:
    running = {Work.SYNTHESIS: MACHINE.cores, Work.CPU_MSM: MACHINE.cores}
    yielding = speed(running, {Work.SYNTHESIS: 0.25})
    assert yielding[Work.CPU_MSM] > speed(running)[Work.CPU_MSM]
    assert yielding[Work.SYNTHESIS] < speed(running)[Work.SYNTHESIS]


def test_the_same_run_twice_is_the_same() -> None:
    machine, load = random_case(5, 60)
    assert simulate(machine, load, Auto(machine.cores)) == simulate(machine, load, Auto(machine.cores))


def test_a_lone_gpu_with_nothing_in_its_way_sets_the_pace() -> None:
    machine, load = random_case(2, 60)
    load = replace(load, jobs=4, parallel=4, synthesis=load.gpu / 8, spmv=0.0, cpu_msm=0.0, noise=0.0)
    outcome = simulate(replace(machine, gpus=1), load, off())
    assert outcome.gpu_busy > 0.95
    assert load.gpu * 60 * 0.99 < outcome.seconds < load.gpu * 60 * 1.5


@pytest.mark.parametrize("seed", range(4))
def test_memory_stays_within_the_budget_under_any_policy(seed: int) -> None:
    machine, load = random_case(seed, 60)
    machine = replace(machine, memory=int(1.5 * (load.scratch + load.witness)))
    for policy in (off(), Auto(machine.cores), Fixed("static", Limits({Phase.SYNTHESIS: 2}))):
        outcome = simulate(machine, load, policy)
        assert 0 < outcome.peak_memory <= machine.memory


def test_a_sweep_finds_nothing_slower_than_free_synthesis() -> None:
    machine, load = random_case(1, 60)
    assert best_static(machine, load).seconds <= simulate(machine, load, Fixed("static", Limits())).seconds


@pytest.mark.parametrize(("seed", "does_well"), [(7, True), (42, False)])
def test_the_recorded_cases_come_out_again(seed: int, does_well: bool) -> None:
    """docs/results/simulate.json holds 200 machines, those where `auto` falls behind among them."""
    recorded = json.loads((RESULTS / "simulate.json").read_text())
    assert recorded["cases"] == len(recorded["each"]) == 200
    assert recorded["over_budget"] == 0
    found = study(seed)
    assert not found.over_budget
    assert does_well == (found.short.auto_to_best <= NEAR and found.short.auto_to_off <= SAME)
    case, expected = json.loads(json.dumps(asdict(found))), recorded["each"][seed]
    assert expected.pop("long") is not None
    assert case.pop("long") is None, "not run here"
    assert case.pop("short") == pytest.approx(expected.pop("short"), rel=1e-6)
    assert case == expected


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    result = CliRunner().invoke(app, ["simulate", "--cases", "1", "--first", "7", "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = json.loads(out.read_text())
    assert found["cases"] == 1
    assert found["each"][0]["seed"] == 7
    assert "1 simulated machines" in result.output
    assert "throughputs predicted" in result.output
