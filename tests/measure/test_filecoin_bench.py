"""`distprove bench filecoin`: what does not fit is told before anything is made; a small job is measured."""

from __future__ import annotations

import json

import pytest

from distprove.circuits.registry import CIRCUITS, CircuitEntry, find_circuit
from distprove.measure import filecoin
from tests.circuits.test_registry import squares
from tests.cli.conftest import run

SMALL = "snap-deals-poseidon-1KiB"


def test_what_does_not_fit_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = filecoin.HostMemory.of(find_circuit(f"filecoin/{SMALL}").make().shape())
    assert (plan.constraints, plan.wires, plan.log_domain) == (32_164, 32_459, 15)
    assert plan.setup > 96 * (4 * 32_459 + 32_454 + 2**15)  # all points
    monkeypatch.setattr(filecoin, "memory_available", lambda: 1 << 20)
    done = run("bench", "filecoin", "--config", SMALL, "--threads", 1)
    assert done.exit_code == 2
    assert f"{SMALL} takes some" in done.output
    assert "of which 1.0 MiB are free" in done.output
    done = run("bench", "filecoin", "--config", "porep-2GiB")
    assert done.exit_code == 2
    assert "no circuit" in done.output
    done = run("bench", "filecoin", "--config", SMALL, "--gpus", 2)
    assert done.exit_code == 2
    assert "setup groth16 --circuit" in done.output


@pytest.fixture
def own_circuit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration "squares", which is proven in no time."""

    class Squares(CircuitEntry):
        def make(self):  # type: ignore[no-untyped-def]
            return squares()

    entry = Squares("filecoin/squares", "", "", "", (), partitions=3)
    monkeypatch.setitem(CIRCUITS, entry.name, entry)
    monkeypatch.setattr(filecoin, "random_inputs", lambda *_: lambda k: {"total": [k * k + 1], "x": [k, 1]})


@pytest.mark.usefixtures("own_circuit")
def test_partitions_are_measured_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("bench", "filecoin", "--config", "squares", "--threads", 1, "--json")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["rows"]
    assert row["partitions"] == 3
    assert row["steps"].keys() == {"pick", "A", "B in G1", "B in G2", "L", "products", "quotient", "H"}
    assert row["proof"] == pytest.approx(sum(row["steps"].values()))
    assert row["seconds_a_sector"] == pytest.approx(3 * row["seconds_a_partition"])
    assert row["host_peak"] > 0
    monkeypatch.setattr(filecoin, "verify", lambda *_: False)
    assert "does not verify" in run(*arguments).output
