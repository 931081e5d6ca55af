"""What a newcomer's wheel is tried in: an environment with nothing of this machine's but its Python."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from distprove.measure.first_proof import FIRST, INSTALL, bare_environment, try_wheel

PROGRAM = """
import os, shutil, sys

def main():
    assert shutil.which("c++") is None and shutil.which("sh") is None
    assert os.environ["CC"] == os.environ["CXX"] == "false"
    assert "SECRET_OF_THIS_USER" not in os.environ
    home = os.environ["HOME"]
    assert os.getcwd() == home and set(os.listdir(home)) <= {".cache", "demo", "prove"}
    open(sys.argv[1], "w").close()
    sys.exit(sys.argv[1] == "verify" and not {"demo", "prove"} <= set(os.listdir(home)))
"""


def stand_in(folder: Path) -> Path:
    """A wheel without dependencies, whose program checks what it runs in."""
    name = "distprove-0.0.1-py3-none-any.whl"
    info = "distprove-0.0.1.dist-info"
    files = {
        "distprove.py": PROGRAM,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: distprove\nVersion: 0.0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ndistprove = distprove:main\n",
        f"{info}/RECORD": "",
    }
    with ZipFile(folder / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return folder / name


@pytest.mark.slow
def test_a_wheel_is_tried_without_anything_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THIS_USER", "x")
    made = try_wheel(Path(sys.executable), stand_in(tmp_path))
    assert made.python == platform.python_version()
    assert [*made.steps] == [INSTALL, FIRST, "distprove prove stark", "distprove verify"]
    assert made.to_first_proof.seconds == pytest.approx(made.steps[INSTALL].seconds + made.steps[FIRST].seconds)
    assert all(taken.cpu_seconds > 0 for taken in made.steps.values())


def test_a_step_that_fails_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_bytes(b"")
    with pytest.raises(subprocess.CalledProcessError):
        try_wheel(Path(sys.executable), tmp_path / "no.whl")


def test_pip_keeps_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CERT", "/certificates")
    made = bare_environment(Path("/home"), Path("/programs"))
    assert (made["PIP_CERT"], made["PATH"], made["HOME"]) == ("/certificates", "/programs", "/home")
