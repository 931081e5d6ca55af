"""A production circuit as a submitted job: the README's way from a circom circuit to proofs that snarkjs accepts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.ray_nodes import submit

pytestmark = [pytest.mark.ray, pytest.mark.slow]

PARTITIONS = ("input_00", "input_01", "input_02")


@pytest.fixture(scope="module")
def circuit(shared_data: Path) -> Path:
    """The folder of a circuit of 7440 wires, with its ceremony's key."""
    return shared_data / "circom" / "reputation"


@pytest.fixture(scope="module")
def submitted(ray_cluster: Any, circuit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder that a submitted job left; the job ended with exit code 0."""
    run = tmp_path_factory.mktemp("submitted") / "run"
    files = ["--zkey", circuit / "circuit.zkey", "--wasm", circuit / "circuit.wasm", "--out", run]
    inputs = [circuit / "inputs" / f"{name}.json" for name in PARTITIONS]
    done = submit(ray_cluster, sys.executable, "-m", "distprove", "prove", "groth16", *files, "--input", *inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    return run


def distprove(*arguments: object) -> str:
    command = [sys.executable, "-m", "distprove", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_real_job_is_submitted_and_its_proof_verifies(submitted: Path, circuit: Path) -> None:
    report = json.loads((submitted / "report.json").read_text())
    assert (report["executor"], report["status"]) == ("ray", "proved")
    assert [(p["name"], p["status"]) for p in report["partitions"]] == [(name, "proved") for name in PARTITIONS]
    checked = json.loads(
        distprove("verify", submitted / "proof.msgpack", "--vk", circuit / "verification_key.json", "--json")
    )
    assert (checked["status"], checked["key_given"]) == ("verified", True)
    assert [p["name"] for p in checked["partitions"]] == list(PARTITIONS)
    for partition in checked["partitions"]:
        assert len(partition["public"]) == 6


@pytest.mark.node
def test_snarkjs_accepts_an_export_of_the_submitted_job(
    submitted: Path, circuit: Path, snarkjs: Any, tmp_path: Path
) -> None:
    distprove("export", submitted, "--out", tmp_path)
    folder = tmp_path / PARTITIONS[1]
    verified = snarkjs(
        "groth16", "verify", circuit / "verification_key.json", folder / "public.json", folder / "proof.json"
    )
    assert "OK!" in verified.stdout
