"""`distprove sweep` over Ray, as it is typed: on a Ray of its own, and on a cluster that is joined."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.setup import setup
from distprove.groth16.wtns import write_wtns
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254

pytestmark = [pytest.mark.ray, pytest.mark.slow]

PATIENCE = 180.0
"""Seconds after which a cluster has told of what is free on it."""


@pytest.fixture(scope="module")
def groth16_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two partitions of a circuit of 16 rows."""
    folder = tmp_path_factory.mktemp("job")
    backend = CpuBackend(threads=1)
    circuit = synthetic_circuit(BN254, 13, backend, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=folder / "c.zkey")
    for name in "ab":
        write_wtns(folder / f"{name}.wtns", BN254, circuit.witness)
    (folder / "job.toml").write_text('system = "groth16"\nzkey = "c.zkey"\nwitnesses = ["*.wtns"]\n')
    return folder / "job.toml"


@pytest.fixture(scope="module")
def stark_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two partitions with a barrier."""
    path = tmp_path_factory.mktemp("job") / "job.toml"
    path.write_text(
        'system = "stark"\nprogram = "fibonacci"\npartitions = 2\nsecurity = 30\ngrinding = 0\n'
        "arguments = { rows = 64 }\n"
    )
    return path


def sweep(job: Path, out: Path, *options: str, environment: dict[str, str]) -> dict[str, Any]:
    """The document of `distprove sweep`, in a process of its own."""
    command = [sys.executable, "-m", "distprove", "sweep", str(job), "--out", str(out), "--json", "--gpus", "0"]
    command += ["--repeats", "1", "--warmup", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document == json.loads((out / "sweep.json").read_text())
    return document


def check(document: dict[str, Any], cells: list[tuple[int, int | None]]) -> None:
    assert [(cell["cell"]["jobs"], cell["cell"]["parallel"]) for cell in document["cells"]] == cells
    for cell in (*document["cells"], document["isolated"]):
        assert cell["partitions"] == 2
        assert cell["seconds_per_proof"] > 0
        assert cell["load_seconds"] > 0
        assert cell["prove_latency"]["count"] == 2 * cell["cell"]["jobs"]
        assert not any(cell["counters"].values())
        assert cell["governors"]


def test_each_setting_has_a_ray_of_its_own(groth16_job: Path, tmp_path: Path) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    document = sweep(groth16_job, tmp_path / "sweep", "--ray", "--threads", "2", "--jobs", "2", environment=alone)
    check(document, [(2, None)])


@pytest.mark.parametrize("job", ["groth16_job", "stark_job"])
def test_a_cluster_is_joined_and_left_as_it_was(
    ray_cluster: Any, job: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    options = ("--address", ray_cluster.address, "--jobs", "2", "--parallel", "2")
    document = sweep(request.getfixturevalue(job), tmp_path / "sweep", *options, environment=dict(os.environ))
    check(document, [(2, 2)])
    import ray

    until = time.monotonic() + PATIENCE
    while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"]:
        assert time.monotonic() < until, "a sweep's workers outlive it"
        time.sleep(0.5)
