"""The wheel for aarch64, run by an aarch64 Python under emulation: its kernels compute what those of this machine
compute, which also verifies its proofs.

`make wheel ARCH=aarch64` builds the wheel, and `.ci/aarch64-python .uv/bin/uv build/aarch64` makes the Python.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

import distprove
from distprove.measure.wheels import packaged_files
from tests.support import ROOT
from tests.support.kernel_digests import digests

PYTHON = ROOT / "build" / "aarch64" / "bin" / "python"
WHEELS = sorted((ROOT / "dist").glob("distprove-*_aarch64.whl"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),  # the digests alone took seven minutes of a core
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


def test_a_proof_is_verified_by_this_machine(installed: Path) -> None:
    """Its rows come from the row functions that ship: no compiler is called."""
    arguments = ("file-root", "--file", "pyproject.toml", "--partitions", "2", "--local", "--out", "run")
    emulated(installed, "-m", "distprove", "prove", "stark", *arguments)
    checked = distprove.verify(installed / "run")
    assert checked.partitions == 2
