"""A small job made once: circuit, development key, witnesses, and the run that `distprove prove --local` makes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from distprove.circuits.merkle import MembershipTree, membership_circuit, random_members
from distprove.cli.app import app
from distprove.groth16.r1cs import write_r1cs
from distprove.groth16.wtns import write_wtns
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254

DEPTH = 2
MEMBERS = 3


@dataclass(frozen=True)
class SmallJob:
    """Files of a job of three partitions, and one witness that does not satisfy the circuit."""

    folder: Path

    @property
    def zkey(self) -> Path:
        return self.folder / "c.zkey"

    @property
    def vk(self) -> Path:
        return self.folder / "vk.json"

    @property
    def witnesses(self) -> Path:
        return self.folder / "w"

    @property
    def bad_witness(self) -> Path:
        return self.folder / "bad.wtns"

    def prove(self, out: Path, *more: str) -> list[str]:
        """Arguments that prove the whole job in this process."""
        args = ["prove", "groth16", "--zkey", self.zkey, "--wtns", self.witnesses, "--out", out, "--local"]
        return [str(arg) for arg in args] + ["--threads", "2", *more]


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def why_refused(done: Any) -> str:
    """What a command that was refused for its usage or input said, on one line."""
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert done.stdout == ""
    return " ".join(done.stderr.split())


@pytest.fixture(scope="session")
def small_job(tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    job = SmallJob(tmp_path_factory.mktemp("job"))
    job.witnesses.mkdir()
    circuit = membership_circuit(BN254, DEPTH)
    tree = MembershipTree(BN254.fr, random_members(BN254.fr, MEMBERS), DEPTH)
    backend = CpuBackend(threads=2)
    witnesses = circuit.witnesses([tree.membership(i).inputs(scope=7) for i in range(MEMBERS)], backend)
    backend.close()
    for i, witness in enumerate(witnesses):
        write_wtns(job.witnesses / f"member-{i}.wtns", BN254, witness)
    bad = np.array(witnesses[0])
    bad[-1, 0] ^= np.uint64(1)
    write_wtns(job.bad_witness, BN254, bad)
    write_r1cs(job.folder / "c.r1cs", circuit.r1cs)
    made = run(
        *("setup", "groth16", "--r1cs", job.folder / "c.r1cs", "--insecure-dev", "--out", job.zkey),
        *("--vk", job.vk, "--backend", "cpu", "--threads", 2, "--json"),
    )
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["insecure"] is True
    assert "forge" in made.stderr
    return job


@pytest.fixture(scope="session")
def proven(small_job: SmallJob, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    done = run(*small_job.prove(out, "--json"))
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["status"] == "proved"
    assert [p["name"] for p in report["partitions"]] == ["member-0", "member-1", "member-2"]
    assert report["facts"]["insecure_setup"] is True
    return out
