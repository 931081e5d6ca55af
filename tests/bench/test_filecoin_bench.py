"""`distprove bench filecoin`: what does not fit is told before anything is made; a small job is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distprove.bench import filecoin, resident
from distprove.circuits.registry import CIRCUITS, CircuitEntry, find_circuit
from kernels.cuda.backend import CudaBackend
from tests.circuits.test_registry import squares
from tests.cli.conftest import run
from tests.support.emulated_device import EmulatedDevice

SMALL = "snap-deals-poseidon-1KiB"


def test_a_plan_covers_the_key(tmp_path: Path) -> None:
    gpu = CudaBackend(EmulatedDevice())
    plan = filecoin.MemoryPlan.of(find_circuit(f"filecoin/{SMALL}"), gpu)
    assert (plan.constraints, plan.wires, plan.log_domain) == (32_164, 32_459, 15)
    entries = 217_601 + 32_582
    assert plan.key_file == 96 * (4 * 32_459 + 32_454 + 2**15) + 44 * (entries - 5)
    assert plan.device > 5 * 32 * 2**15
    assert filecoin.MemoryPlan.of(find_circuit(f"filecoin/{SMALL}"), None).device == 0


def test_what_does_not_fit_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filecoin, "memory_available", lambda: 1 << 20)
    done = run("bench", "filecoin", "--config", SMALL, "--threads", 1)
    assert done.exit_code == 2
    assert f"{SMALL} does not fit this machine: it takes at least" in done.output
    assert "of host memory to make the key, of which 1.0 MiB are free" in done.output
    done = run("bench", "filecoin", "--config", "porep-2GiB")
    assert done.exit_code == 2
    assert "no circuit" in done.output


@pytest.fixture
def own_circuit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration "squares", which is proven in no time."""

    class Squares(CircuitEntry):
        def make(self):  # type: ignore[no-untyped-def]
            return squares()

    entry = Squares("filecoin/squares", "", "", "", (), partitions=3)
    monkeypatch.setitem(CIRCUITS, entry.name, entry)
    for module in (filecoin, resident):
        monkeypatch.setattr(module, "random_inputs", lambda *_: lambda k: {"total": [k * k + 1], "x": [k, 1]})


@pytest.mark.usefixtures("own_circuit")
def test_partitions_are_measured_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("bench", "filecoin", "--config", "squares", "--in-memory", "--threads", 1, "--json")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["rows"]
    assert row["partitions"] == 3
    assert row["steps"].keys() == {"pick", "A", "B in G1", "B in G2", "L", "products", "quotient", "H"}
    assert row["proof"] == pytest.approx(sum(row["steps"].values()))
    assert run(*arguments, "--zkey", "k.zkey").exit_code == 2
    monkeypatch.setattr(resident, "verify", lambda *_: False)
    assert "does not verify" in run(*arguments).output


@pytest.mark.usefixtures("own_circuit")
def test_a_job_is_measured(tmp_path: Path) -> None:
    done = run("bench", "filecoin", "--config", "squares", "--zkey", tmp_path / "k.zkey", "--threads", 1, "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["rows"]
    assert row["partitions"] == 3
    assert row["seconds_a_sector"] == pytest.approx(3 * row["seconds_a_partition"])
    assert row["proof"] > 0 < row["synthesis"]
    assert row["steps"].keys() >= {"witness_msm", "quotient", "quotient_msm"}
    assert row["host_peak"] > 0
    assert (tmp_path / "k.zkey").exists()
