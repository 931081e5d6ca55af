"""Devices that a job gives up are remembered on their machine, and not used before somebody clears them."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.backends import Ahead
from actors.messages import HostSpec
from cluster.driver import drive
from cluster.governor.actor import NodeGovernor
from cluster.opening import open_client, open_scheduler
from cluster.record.journal import read_journal
from cluster.record.run import Run
from distprove.cli.app import app
from distprove.errors import ClusterError, JobFailed
from distprove.host.set_aside import FILE, SetAside, clear, remember, remembered
from distprove.settings import ExecutorSettings
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem, toy_uuid

Make = Callable[..., Faults]
PAIR = ExecutorSettings(local=True, isolate=False, threads=2, backend="tests.support.toy_system:TOY_PAIR")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for state, which is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "distprove"


class Told:
    """What is left of a job: its report, and the journal's events "set-aside"."""

    def __init__(self, run: Path) -> None:
        self.report: dict[str, Any] = json.loads((run / "report.json").read_text())
        self.provers = [worker for worker in self.report["workers"] if worker["role"] == "prover"]
        self.aside = [event["reason"] for event in read_journal(run) if event["event"] == "set-aside"]


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Told]:
    """Proves a toy job in a run of its own."""

    def prove_toy(system: ToySystem, settings: ExecutorSettings = PAIR, fails: bool = False) -> Told:
        path = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        with Run.create(path, system, system.plan()) as run, open_client(settings) as executor:
            if fails:
                with pytest.raises(JobFailed):
                    drive(system, executor, run, settings)
            else:
                drive(system, executor, run, settings).verify(system)
        return Told(path)

    return prove_toy


def test_a_device_that_a_job_gave_up_is_not_used_until_it_is_cleared(
    state: Path, faults: Make, told: Callable[..., Told]
) -> None:
    first = told(ToySystem(16, faults(bad_first_prover=True, bad_before_good=3)))
    (bad,) = (worker for worker in first.provers if worker["status"] == "retired")
    device = bad["facts"]["uuid"]
    (known,) = remembered().devices.values()
    assert (known.host, known.device) == (platform.node(), device)
    assert "3 bad proofs or faults in a row" in known.reason
    assert first.aside == [f"{device} is not used by later jobs: {known.reason}"]

    later = told(ToySystem(3, faults()))
    assert [worker["facts"]["uuid"] for worker in later.provers] == [toy_uuid(1 - int(device[-1]))]
    assert later.aside == later.report["set_aside"] == [str(known)]
    with pytest.raises(ClusterError, match=f"2 Toy devices asked for, 1 usable here.*{device} on"):
        told(ToySystem(3, faults()), replace(PAIR, gpus=2))

    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["findings"]
    assert [each["value"] for each in found if each["subject"] == "set aside"] == [str(known)]
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json", "--clear-devices"]).stdout)["findings"]
    assert not [each for each in found if each["subject"] == "set aside"]
    assert len(told(ToySystem(3, faults())).provers) == 2


def test_a_partition_that_fails_everywhere_condemns_no_device_and_a_cpu_is_never_condemned(
    state: Path, faults: Make, told: Callable[..., Told]
) -> None:
    told(ToySystem(1, faults(bad_proof={"p0": 99})), replace(PAIR, max_retries=50), fails=True)
    assert not (state / FILE).exists()
    cpus = replace(PAIR, backend=TOY_BACKEND, gpu_workers=2)
    report = told(ToySystem(16, faults(bad_first_prover=True, bad_before_good=3)), cpus)
    assert [worker["status"] for worker in report.provers].count("retired") == 1
    assert not (state / FILE).exists()


def test_a_list_that_cannot_be_read_is_told_and_ignored(state: Path, faults: Make, told: Callable[..., Told]) -> None:
    state.mkdir(mode=0o700, parents=True)
    for content in (b"{", b'{"format": "distprove.devices", "version": 1, "devices": [{"host": 7}]}', bytes(9)):
        (state / FILE).write_bytes(content)
        report = told(ToySystem(3, faults()))
        assert len(report.provers) == 2
        (remark,) = report.aside
        assert "which devices were given up" in remark
        assert "is not known" in remark
    (state / FILE).write_text(json.dumps({"format": "distprove.devices", "version": 1, "devices": []}))
    state.chmod(0o777)
    assert "can be written by others" in remembered().trouble
    state.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"/{300 * 'x'}")
        assert remembered().trouble.endswith(f"/{FILE}: File name too long")
    (state / FILE).write_bytes(b"{")
    assert remember(toy_uuid(1), "hung twice") == ""
    assert list(remembered().devices) == [toy_uuid(1)]


def test_machines_that_share_a_home_folder_know_their_own_devices(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(toy_uuid(0), "hung\x1b[2J twice")
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert remembered().devices == {}
    remember(toy_uuid(0), "faults")
    clear()
    assert remembered().devices == {}
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(state.parent))
    (known,) = remembered().devices.values()
    assert isinstance(known, SetAside)
    assert "\x1b" not in str(known)


def test_a_node_reads_and_writes_its_own_list(state: Path) -> None:
    """As an actor on a GPU does, and the governor of the node."""
    pytest.importorskip("ray")
    from actors.ray_actor import RemoteWorker

    asyncio.run(NodeGovernor(1, None).remember(toy_uuid(1), "hung 2 times"))
    ahead = Ahead(PAIR.backend, 1, "")
    worker = RemoteWorker("prover-1", has_fork_server=False, ahead=ahead)
    spec = HostSpec("prover-1", None, 3)  # type: ignore[arg-type]
    try:
        with pytest.raises(ClusterError, match=r"TOY-1 on .* hung 2 times"):
            worker.serve(spec)
    finally:
        worker._started.end()  # type: ignore[union-attr]


def test_a_service_gives_up_such_a_device_for_all_jobs(state: Path, faults: Make, tmp_path: Path) -> None:
    system = ToySystem(16, faults(bad_first_prover=True, bad_before_good=3))
    with (
        open_scheduler(PAIR) as scheduler,
        Run.create(tmp_path / "run", system, system.plan()) as run,
        scheduler.lend(job="one") as executor,
    ):
        drive(system, executor, run, PAIR).verify(system)
        (lost,) = (worker for worker in scheduler.workers() if worker.lost is not None)
    assert "its device was given up" in str(lost.lost)
    assert len(remembered().devices) == 1
