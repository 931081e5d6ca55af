"""A machine of two cores without a GPU: a guest of two segments ends in one proof of 128 bits, as a user proves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.support import ROOT

GUEST = ROOT / "tests" / "stark" / "riscv" / "guests" / "fibonacci.elf"
MOST_MEMORY = 8 << 30
"""Bytes of the largest process of the job."""


@pytest.mark.slow
@pytest.mark.timeout(1500)  # 80 s on two quiet cores, the keys of the tree included
def test_a_guest_of_two_segments_ends_in_one_proof(tmp_path: Path) -> None:
    """Nobody lowers its bits here, and its tree has the keys that ship."""
    (tmp_path / "n").write_bytes((1500).to_bytes(4, "little"))
    command = [sys.executable, "-m", "distprove", "prove", "stark", "riscv", "--elf", str(GUEST), "--segment", "4096"]
    command += ["--public", str(tmp_path / "n"), "--engine", "multilinear", "--hash", "poseidon2", "--one-proof"]
    command += ["--local", "--threads", "2", "--backend", "cpu", "--out", str(tmp_path / "run"), "--json"]
    with (tmp_path / "told").open("wb") as told:
        proving = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=told)
        _, status, used = os.wait4(proving.pid, 0)
    proving.returncode = os.waitstatus_to_exitcode(status)
    assert proving.returncode == 0, (tmp_path / "told").read_text()[-2000:]
    assert used.ru_maxrss << 10 < MOST_MEMORY
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    names = ["segment-00000", "segment-00001", "leaf-00000", "root"]
    assert [p["name"] for p in report["partitions"]] == names
    assert (tmp_path / "run" / "proof.msgpack").stat().st_size < 150_000
    facts = json.loads(run("verify", tmp_path / "run" / "proof.msgpack", "--json").stdout)
    assert facts["one_proof"]
    security = facts["proven"]["security"]
    assert security["bits"] >= security["target"] == 128
