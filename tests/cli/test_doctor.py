"""`distprove doctor`: what it finds, and that what it finds decides what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from distprove.cli import diagnosis
from distprove.cli.app import app
from distprove.host import machine
from distprove.host.machine import Gpu, Gpus, Processor

ONE_GPU = Gpus((Gpu(0, "NVIDIA H200", "GPU-0", "9.0", 150 << 30, 149 << 30, 0, 700, False),), "580.1", "13.0")


def versions(monkeypatch: pytest.MonkeyPatch, **installed: str) -> None:
    names = {name.replace("_", "-"): version for name, version in installed.items()}
    monkeypatch.setattr(diagnosis, "_version", lambda name: names.get(name))


def find(findings: object, subject: str) -> diagnosis.Finding:
    return next(f for f in findings if f.subject == subject)  # type: ignore[attr-defined]


def test_json_is_all_there_is_on_stdout() -> None:
    done = CliRunner().invoke(app, ["doctor", "--json"])
    facts = json.loads(done.stdout)
    assert facts["machine"]["processor"]["usable"] >= 1
    assert facts["choice"]["backend"] in ("cpu", "cuda")
    assert done.exit_code == (0 if facts["healthy"] else 1)


def test_both_cupy_packages_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, cupy_cuda12x="14.2.0", cupy_cuda13x="14.2.0")
    found = find(diagnosis._gpus(ONE_GPU), "CuPy")
    assert found.state == "fault"
    assert "cupy-cuda12x and cupy-cuda13x" in found.value


def test_a_cupy_newer_than_the_driver_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, cupy_cuda13x="14.2.0")
    old = Gpus(ONE_GPU.devices, "535.1", "12.2")
    found = find(diagnosis._gpus(old), "CuPy")
    assert found.state == "fault"
    assert "cuda12" in found.advice
    assert find(diagnosis._gpus(ONE_GPU), "CuPy").state == "ok"


def test_gpus_without_cupy_are_not_used_and_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch)
    here = machine.inspect_machine()
    with_gpu = machine.Machine(here.system, here.python, here.processor, here.memory, ONE_GPU)
    assert diagnosis._choose(with_gpu).backend == "cpu"
    assert "CuPy is not installed" in diagnosis._choose(with_gpu).reason
    versions(monkeypatch, cupy_cuda13x="14.2.0")
    assert diagnosis._choose(with_gpu).backend == "cuda"


def test_a_package_of_our_names_elsewhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").touch()
    assert find(diagnosis._shadowed(), "import names").state == "ok"
    monkeypatch.setattr(diagnosis, "_site_folders", lambda: [tmp_path])
    found = find(diagnosis._shadowed(), "kernels")
    assert found.state == "warning"
    assert str(tmp_path) in found.value


def test_threads_follow_affinity_and_quota() -> None:
    def threads(usable: int, quota: float | None) -> int:
        return Processor("cpu", "x86_64", 8, 4, usable, quota, ()).threads

    assert threads(8, None) == 8
    assert threads(8, 2.5) == 2
    assert threads(2, 6.0) == 2
    assert threads(4, 0.5) == 1
