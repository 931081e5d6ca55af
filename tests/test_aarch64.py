"""The wheel for aarch64, run by an aarch64 Python under emulation: its kernels compute what those of this machine
compute, a STARK has the same bytes, and this machine verifies a Groth16 proof.

`make wheel ARCH=aarch64` builds the wheel, and `.ci/aarch64-python .uv/bin/uv build/aarch64` makes the Python.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import distprove
from distprove.measure.wheels import packaged_files
from distprove.proof import PROOF_FILE
from tests.support import ROOT
from tests.support.kernel_digests import digests

IN_ONE_PROCESS = ("--local", "--no-isolate", "--threads", "1")
PYTHON = ROOT / "build" / "aarch64" / "bin" / "python"
WHEELS = sorted((ROOT / "dist").glob("distprove-*_aarch64.whl"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),  # a proof took 40 to 47 s at a load of 8
    pytest.mark.skipif(not PYTHON.exists(), reason="no emulated Python: .ci/aarch64-python .uv/bin/uv build/aarch64"),
    pytest.mark.skipif(not WHEELS, reason="no wheel for aarch64: make wheel ARCH=aarch64"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the wheel, and with the tests."""
    if WHEELS[-1].stat().st_mtime < max((ROOT / name).stat().st_mtime for name in packaged_files()):
        pytest.skip("the wheel is older than the code: make wheel ARCH=aarch64")
    folder = tmp_path_factory.mktemp("aarch64")
    with ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(folder)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("interop", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def emulated(folder: Path, *args: str) -> str:
    """Run the emulated Python in a folder, and return what it prints."""
    environment = dict(os.environ, PYTHONPATH=str(folder), OPENBLAS_NUM_THREADS="1")
    done = subprocess.run([PYTHON, *args], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_kernels_compute_what_they_compute_here(installed: Path) -> None:
    """Fields, transforms, sums of points, and hashes; here they have vector instructions and another compiler."""
    assert json.loads(emulated(installed, "tests/support/kernel_digests.py")) == digests()


def test_a_stark_has_the_bytes_of_one_made_here(installed: Path, tmp_path: Path) -> None:
    """Nothing in it is random. Its rows come from the row functions that ship: no compiler is called."""
    arguments = (
        "-m",
        "distprove",
        "prove",
        "stark",
        "fibonacci",
        "--rows",
        "2^6",
        "--partitions",
        "2",
        *IN_ONE_PROCESS,
    )
    emulated(installed, *arguments, "--out", "run")
    subprocess.run([sys.executable, *arguments, "--out", "run"], cwd=tmp_path, check=True)
    assert (installed / "run" / PROOF_FILE).read_bytes() == (tmp_path / "run" / PROOF_FILE).read_bytes()
    assert distprove.verify(installed / "run").partitions == 2


def test_the_proof_of_a_demo_is_verified_by_this_machine(installed: Path) -> None:
    """A key, its witness and a Groth16 proof, in processes of their own."""
    emulated(installed, "-m", "distprove", "demo", "--partitions", "1", "--threads", "1")
    made = installed / "demo-run"
    assert distprove.verify(made / "run", vk=made / "verification_key.json").partitions == 1
