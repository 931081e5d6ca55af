"""Sweeps: the grid, copies of a job on shared workers, what is measured and kept, what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.worker import Worker
from cluster.record.analysis import Spread
from distprove.errors import FormatError, JobFailed, UsageError
from distprove.formats.folder import Folder
from distprove.measure.sweep import sweep as module
from distprove.measure.sweep.grid import Cell, Grid
from distprove.measure.sweep.results import Measured, SweepResult
from distprove.measure.sweep.sweep import Step, read_cell, sweep
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import Partition
from tests.support.toy_system import SECRET, Faults, ToySystem, until_called_off

Prove = Callable[..., Proof]
Make = Callable[..., Faults]


def measured(cell: Cell, wall: float, **stages: float) -> Measured:
    spreads = {name: Spread.of([seconds]) for name, seconds in stages.items()}
    times = Spread.of([wall])
    return Measured(cell, 4, (wall, wall * 3, wall), times, times, spreads, 0.5, 0.25, Spread.of([]), 0.0, 0, 0, 1.0)


# -- the grid ---------------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_and_axes_left_out_stay_as_they_are() -> None:
    cells = Grid(jobs=(1, 2), gpu_workers=(1, 4)).cells()
    assert [cell.id for cell in cells] == ["jobs1-workers1", "jobs1-workers4", "jobs2-workers1", "jobs2-workers4"]
    base = ExecutorSettings(parallel=7, throttle={"threads": 3})
    assert cells[1].settings(base) == replace(base, gpu_workers=4)
    assert Cell(2).settings(base) == base
    assert Cell(3, 2, 4).settings(base) == replace(base, parallel=2, gpu_workers=4)
    assert Grid(gpu_workers=(4, 2)).isolation() == Cell(1, 1, 2)


@pytest.mark.parametrize("axes", [{"jobs": (0,)}, {"jobs": (65,)}, {"jobs": ()}, {"parallel": (1, 1)}])
def test_a_grid_that_makes_no_sense_is_refused(axes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Grid(**axes)
    with pytest.raises(UsageError, match="at most 1000 settings"):
        Grid(jobs=range(1, 65), parallel=range(1, 30))


# -- results ----------------------------------------------------------------------------------------------------------


def test_figures_come_from_medians_and_are_shared_among_copies() -> None:
    four = measured(Cell(4), 8.0)
    assert four.seconds_per_proof == 2.0
    assert four.proofs_per_minute == 30.0


def test_the_best_has_the_most_proofs_a_minute_and_inflation_is_over_isolation() -> None:
    alone = measured(Cell(1, 1), 10.0, synthesise=1.0, prove=2.0)
    busy = measured(Cell(4, 1), 20.0, synthesise=1.5, prove=2.5, diagnose=1.0)
    nearly = measured(Cell(4, 2), 20.5, synthesise=1.5)
    result = SweepResult([alone, nearly, busy], alone, {})
    assert result.best is busy
    assert result.close == [nearly]
    assert busy.inflation(alone) == {"synthesise": 1.5, "prove": 1.25}
    record = json.loads(json.dumps(result.to_record()))
    assert record["best"] == {"jobs": 4, "parallel": 1, "gpu_workers": None}
    assert [row["inflation"].get("prove") for row in record["cells"]] == [1.0, None, 1.25]
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert [row["seconds_per_proof"] for row in rows] == ["10.0", "5.125", "5.0"]
    assert [row["synthesise inflation"] for row in rows] == ["1.0", "1.5", "1.5"]


def test_a_measurement_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = measured(Cell(2, None, 3), 5.0, prove=1.0)
    folder = Folder.open(tmp_path)
    path = tmp_path / f"{one.cell.id}.json"
    path.write_text(json.dumps(one.to_record()))
    assert read_cell(folder, one.cell) == one
    for damage in ({"schema": 99}, {"wall": []}, {"wall": [0]}, {"cell": {"jobs": 1, "x": 2}}, {"idle": 3}):
        path.write_text(json.dumps({**one.to_record(), **damage}))
        with pytest.raises(FormatError):
            read_cell(folder, one.cell)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("node_peak",), {}),
        (("busy_share",), "1"),
        (("devices",), [1.5]),
        (("wall",), [1e-320]),
        (("wall",), ["9" * 400]),
        (("cell", "jobs"), 0),
        (("cell", "parallel"), "3"),
        (("idle", "median"), None),
        (("stages", "prove", "median"), "a"),
        (("stages",), {"prove": []}),
        (("governors",), [1]),
        (("counters",), {"retries": "x"}),
    ],
    ids=str,
)
def test_a_measurement_with_something_else_in_it_is_refused(place: tuple[str, ...], value: object) -> None:
    record = json.loads(json.dumps(measured(Cell(), 1.0, prove=0.5).to_record()))
    inner = record
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(FormatError, match="not a measurement"):
        Measured.from_record(record, "cell")


@pytest.mark.parametrize("name", ["format", "schema", "cell", "wall", "idle"])
def test_a_measurement_with_another_name_for_something_is_refused(name: str) -> None:
    record = json.loads(json.dumps(measured(Cell(), 1.0, prove=0.5).to_record()))
    record["another"] = record.pop(name)
    with pytest.raises(FormatError, match="not a measurement"):
        Measured.from_record(record, "cell")


# -- shared workers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("barrier", "in_turn"), [(False, False), (True, False), (False, True)])
def test_a_sweep_measures_every_setting_and_keeps_it(
    faults: Make, local: ExecutorSettings, tmp_path: Path, barrier: bool, in_turn: bool
) -> None:
    names = [f"copy{copy}-{i}" for copy in range(2) for i in range(3)]
    system = ToySystem(3, faults(slow=dict.fromkeys(names, 0.02)), needs_barrier=barrier)
    grid = Grid(jobs=(1, 2), parallel=(2,))
    steps: list[Step] = []
    result = sweep(system, local, grid, tmp_path / "sweep", repeats=2, in_turn=in_turn, watch=steps.append)
    assert [m.cell.id for m in result.measured] == ["jobs1-parallel2", "jobs2-parallel2"]
    assert result.isolated.cell == Cell(1, 1, None)
    for each in result.measured:
        assert len(each.wall) == 2
        assert each.partitions == 3
        assert each.prove_latency.count == 2 * 3 * each.cell.jobs
        assert each.prove_latency.median >= 0.02
        assert each.proof_latency.count == 2 * each.cell.jobs
        assert 0 < each.busy_share <= 1
        # A device is busy with a partition for no longer than it has it, and no device longer than the round takes.
        assert (
            0
            < each.device_seconds
            <= sum(each.wall) * len(each.devices) / (each.partitions * each.cell.jobs * len(each.wall))
        )
        assert [node["limits"]["deallocations"] for node in each.governors] == [1]
        assert each.devices == ("toy",)
        assert not any(each.counters.values())
    assert {"commit"} & result.isolated.stages.keys() == ({"commit"} if barrier else set())
    folder = tmp_path / "sweep"
    assert not (folder / "work").exists()
    assert sorted(path.name for path in (folder / "cells").iterdir()) == sorted(
        f"{m.cell.id}.json" for m in (*result.measured, result.isolated)
    )
    assert not any(str(SECRET) in path.read_text() for path in folder.rglob("*.json"))
    # Again: nothing is measured that is there.
    (folder / "cells" / f"{result.measured[0].cell.id}.json").unlink()
    again: list[Step] = []
    second = sweep(system, local, grid, folder, repeats=2, in_turn=in_turn, watch=again.append)
    assert [step.doing for step in again if step.measured] == ["kept", "kept", "measured"]
    repeated = [step.cell for step in steps if step.doing.startswith("repeat")]
    one, *others = dict.fromkeys(repeated)
    assert repeated == (
        [one, *others, *others[::-1], one] if in_turn else [c for c in (one, *others) for _ in range(2)]
    )
    assert second.measured[1] == result.measured[1]
    with pytest.raises(UsageError, match="differs in repeats"):
        sweep(system, local, grid, folder, repeats=3, in_turn=in_turn)
    with pytest.raises(UsageError, match="differs in partitions"):
        sweep(ToySystem(4, system.faults), local, grid, folder, repeats=2, in_turn=in_turn)
    with pytest.raises(UsageError, match="only without Ray"):
        sweep(system, replace(local, local=False, isolate=None), grid, folder, in_turn=True)


def test_a_folder_with_something_else_is_refused(faults: Make, local: ExecutorSettings, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not a sweep"):
        sweep(ToySystem(1, faults()), local, Grid(), tmp_path)


def test_a_partition_that_fails_ends_the_measurement_for_all_copies(
    faults: Make, local: ExecutorSettings, tmp_path: Path
) -> None:
    system = ToySystem(3, faults(unsatisfied=("copy1-2",)))
    with pytest.raises(JobFailed, match="copy1-2"):
        sweep(system, local, Grid(jobs=(3,)), tmp_path / "sweep", repeats=1, warmup=0)
    assert [p.stem for p in (tmp_path / "sweep" / "cells").iterdir()] == ["jobs1-parallel1"]
    assert not (tmp_path / "sweep" / "work").exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_every_copy_and_keeps_what_is_done(
    faults: Make, local: ExecutorSettings, tmp_path: Path
) -> None:
    repeats = threading.Event()

    def gate(partition: Partition) -> None:
        if repeats.is_set() and partition.index >= 10:
            until_called_off(partition)

    system = ToySystem(50, faults(), gate=gate)
    kept = measured(Cell(1, 1), 1.0, prove=1.0)
    (tmp_path / "sweep" / "cells").mkdir(parents=True)
    (tmp_path / "sweep" / "cells" / "jobs1-parallel1.json").write_text(json.dumps(kept.to_record()))
    about = json.loads(json.dumps(module._about(system, local, 1, 0, False)))
    (tmp_path / "sweep" / "about.json").write_text(json.dumps(about))

    def interrupt(step: Step) -> None:
        if step.doing.startswith("repeat"):  # which nothing else ends
            repeats.set()
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        sweep(system, local, Grid(jobs=(2,)), tmp_path / "sweep", repeats=1, warmup=0, watch=interrupt)
    assert [p.stem for p in (tmp_path / "sweep" / "cells").iterdir()] == ["jobs1-parallel1"]
    for thread in [t for t in threading.enumerate() if t.name.startswith("distprove-copy")]:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("bound", [1, 3])
def test_parallel_bounds_how_many_witnesses_are_ahead(
    faults: Make, local: ExecutorSettings, run_toy: Prove, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    """In the making or ready; with more synthesisers than that, and more room at the prover."""
    ahead: set[str] = set()
    most = 0
    begin = Worker._begin

    def noted(worker: Worker, order: Any, stage: str, who: str) -> None:
        nonlocal most
        (ahead.add if stage == "synthesising" else ahead.discard)(order.id.name)
        most = max(most, len(ahead))
        begin(worker, order, stage, who)

    monkeypatch.setattr(Worker, "_begin", noted)
    system = ToySystem(12, faults(slow={f"p{i}": 0.02 for i in range(12)}))
    run_toy(system, replace(local, parallel=bound, synthesisers=4, in_flight=8))
    assert 1 <= most <= bound


@pytest.mark.ray
@pytest.mark.slow
def test_a_sweep_over_ray_gives_each_setting_workers_of_its_own(
    faults: Make, ray_settings: ExecutorSettings, tmp_path: Path
) -> None:
    system = ToySystem(3, faults())
    result = sweep(system, ray_settings, Grid(jobs=(2,), gpu_workers=(2,)), tmp_path / "sweep", repeats=1, warmup=0)
    (both,) = result.measured
    assert both.devices == ("toy", "toy")
    assert both.prove_latency.count == 6
    assert both.load_seconds > 0
    assert not any(both.counters.values())
