"""The findings of `distprove doctor`: each finding with its state, what it means, and what to do about it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import site
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from distprove.host.cgroup import memory_available
from distprove.host.machine import Gpus, Machine, inspect_machine
from distprove.host.set_aside import CLEARED_BY, remembered
from kernels.host.units import count_of, format_bytes

State = Literal["ok", "note", "warning", "fault"]

OUR_PACKAGES = ("distprove", "kernels", "actors", "cluster")
CUPY = {"cuda12": "cupy-cuda12x", "cuda13": "cupy-cuda13x"}
NVRTC = {"cuda12": "nvidia-cuda-nvrtc-cu12", "cuda13": "nvidia-cuda-nvrtc"}
OBJECT_STORE_MINIMUM = 1 << 30
"""Bytes of shared memory below which Ray keeps objects in files in /tmp, from where a key is read slowly."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    section: str
    subject: str
    state: State
    value: str
    advice: str = ""


@dataclass(frozen=True)
class Choice:
    """Devices that a job on this machine would use, and the reason."""

    backend: str
    devices: tuple[str, ...]
    threads: int
    memory: int
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    machine: Machine
    findings: tuple[Finding, ...]
    choice: Choice

    @property
    def healthy(self) -> bool:
        """Whether nothing found keeps distprove from proving."""
        return all(finding.state != "fault" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.healthy,
            "machine": self.machine.to_dict(),
            "findings": [asdict(finding) for finding in self.findings],
            "choice": asdict(self.choice),
        }


def diagnose() -> Diagnosis:
    """Look at the machine and the installation. Starts no Ray and runs nothing on a GPU."""
    machine = inspect_machine()
    findings = (
        *_processor(machine),
        *_memory(machine),
        *_gpus(machine.gpus),
        *_packages(),
        *_ray(),
    )
    return Diagnosis(machine, findings, _choose(machine))


def _processor(machine: Machine) -> Iterator[Finding]:
    cpu = machine.processor
    yield Finding("processor", "model", "ok", cpu.model)
    cores = f"{cpu.logical} logical" + (f", {cpu.physical} physical" if cpu.physical else "")
    yield Finding("processor", "cores", "ok", f"{cores}; {cpu.threads} for us")
    if cpu.quota is not None:
        advice = "" if cpu.quota >= cpu.usable else "the control group grants less than there are; threads follow it"
        yield Finding("processor", "control group", "note", f"{cpu.quota:g} processors", advice)
    if cpu.usable < cpu.logical:
        yield Finding(
            "processor", "affinity", "note", f"{cpu.usable} of {cpu.logical}", "taskset or a container says so"
        )
    yield Finding("processor", "features", "ok", ", ".join(cpu.flags) or "none of those we look for")
    yield _native()
    yield _compiler()


def _compiler() -> Finding:
    from kernels.errors import CompilerMissing
    from kernels.host.compiler import find_compiler

    try:
        return Finding("processor", "C++ compiler", "ok", find_compiler().version)
    except CompilerMissing:
        advice = "row functions in C++ of your own AIRs need one on the CPU; programs that ship do without"
        return Finding("processor", "C++ compiler", "note", "none", advice)


def _native() -> Finding:
    try:
        builds = importlib.import_module("kernels.host.native").variants()
    except ImportError as error:
        return Finding("processor", "native code", "fault", str(error), "build it: make setup, or pip install .")
    return Finding(
        "processor",
        "native code",
        "ok",
        f"{builds[-1]}, the fastest that runs here of {count_of(len(builds), 'build')}",
    )


def _memory(machine: Machine) -> Iterator[Finding]:
    memory = machine.memory
    yield Finding("memory", "total", "ok", f"{format_bytes(memory.total)}, {format_bytes(memory.available)} available")
    if memory.cgroup_limit is not None:
        used = f", {format_bytes(memory.cgroup_used)} used" if memory.cgroup_used is not None else ""
        yield Finding("memory", "control group", "note", f"{format_bytes(memory.cgroup_limit)}{used}")
    if memory.shm_total is None:
        yield Finding("memory", "/dev/shm", "warning", "absent", "Ray keeps objects in files, slowly")
    elif memory.shm_total < OBJECT_STORE_MINIMUM:
        advice = "Ray keeps objects here; give a container --shm-size, or run without Ray"
        yield Finding("memory", "/dev/shm", "warning", format_bytes(memory.shm_total), advice)
    else:
        value = f"{format_bytes(memory.shm_total)}, {format_bytes(memory.shm_free or 0)} free"
        yield Finding("memory", "/dev/shm", "ok", value)
    if memory.lock_limit is not None and machine.gpus.devices:
        yield Finding("memory", "locked memory limit", "note", format_bytes(memory.lock_limit), "ulimit -l")


def _gpus(gpus: Gpus) -> Iterator[Finding]:
    installed = [extra for extra, name in CUPY.items() if _version(name)]
    if not gpus.devices:
        yield Finding("gpu", "devices", "note", f"none: {gpus.reason or 'the driver lists no device'}")
    else:
        yield Finding("gpu", "driver", "ok", f"{gpus.driver}, CUDA up to {gpus.cuda_driver}")
        for gpu in gpus.devices:
            value = f"{gpu.name}, sm_{gpu.compute_capability.replace('.', '')}, "
            value += f"{format_bytes(gpu.memory_free)} of {format_bytes(gpu.memory_total)} free"
            busy = gpu.memory_total - gpu.memory_free > gpu.memory_total // 10
            advice = "another process holds memory here" if busy else ""
            if gpu.mig:
                advice = "MIG is on: only its instances can be used"
            yield Finding("gpu", f"device {gpu.index}", "note" if advice else "ok", value, advice)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            yield Finding("gpu", "CUDA_VISIBLE_DEVICES", "note", visible or "(empty: no device)")
    yield from _set_aside()
    yield _cupy(gpus, installed)
    yield _nvrtc(gpus)


def _set_aside() -> Iterator[Finding]:
    """Devices that jobs gave up, which no job uses."""
    devices, trouble = remembered()
    for device in devices.values():
        yield Finding("gpu", "set aside", "warning", str(device))
    if trouble:
        yield Finding("gpu", "set aside", "warning", trouble, f"`{CLEARED_BY}` writes it anew")


def _cupy(gpus: Gpus, installed: list[str]) -> Finding:
    if len(installed) > 1:
        both = " and ".join(CUPY[extra] for extra in installed)
        advice = "both provide the package `cupy` and overwrite each other: uninstall both, then install one extra"
        return Finding("gpu", "CuPy", "fault", both, advice)
    if not installed:
        if not gpus.devices:
            return Finding("gpu", "CuPy", "note", "not installed (needed for GPUs only)")
        return Finding("gpu", "CuPy", "warning", "not installed", f"pip install 'distprove[{_extra_for(gpus)}]'")
    extra = installed[0]
    value = f"{_version(CUPY[extra])} (extra {extra})"
    if gpus.cuda_driver is not None and int(extra[4:]) > int(gpus.cuda_driver.split(".")[0]):
        advice = f"the driver supports CUDA {gpus.cuda_driver} at most: install 'distprove[{_extra_for(gpus)}]' instead"
        return Finding("gpu", "CuPy", "fault", value, advice)
    return Finding("gpu", "CuPy", "ok", value)


def _nvrtc(gpus: Gpus) -> Finding:
    from kernels.cuda.compiler import nvrtc_version
    from kernels.errors import BackendError

    try:
        major, minor = nvrtc_version()
    except BackendError as error:
        return Finding("gpu", "NVRTC", "warning" if gpus.devices else "note", str(error))
    runtime = next((v for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12") if (v := _version(name))), None)
    return Finding("gpu", "NVRTC", "ok", f"{major}.{minor}" + (f", CUDA runtime {runtime}" if runtime else ""))


def _extra_for(gpus: Gpus) -> str:
    return "cuda12" if gpus.cuda_driver is not None and gpus.cuda_driver.startswith("12") else "cuda13"


def _packages() -> Iterator[Finding]:
    yield Finding("installation", "Python", "ok", f"{platform.python_version()} at {sys.executable}")
    version = _version("distprove")
    if version is None:
        yield Finding("installation", "distprove", "warning", "not installed", "run from a checkout: pip install -e .")
    else:
        yield Finding("installation", "distprove", "ok", f"{version} at {Path(__file__).resolve().parents[1]}")
    yield from _shadowed()


def _shadowed() -> Iterator[Finding]:
    """`kernels`, `actors` and `cluster` are common names: say when another package of the name is in the way."""
    ours = Path(__file__).resolve().parents[2]
    native = importlib.util.find_spec("kernels._native")
    built = Path(native.origin).resolve().parents[1] if native and native.origin else ours
    clean = True
    for name in OUR_PACKAGES:
        spec = importlib.util.find_spec(name)
        folder = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
        if folder not in (ours, built):
            clean = False
            value = f"`import {name}` finds {folder or 'nothing'}"
            yield Finding("installation", name, "fault", value, "run from another folder, in an environment of its own")
    for name in OUR_PACKAGES[1:]:
        others = [str(f) for f in _site_folders() if (f / name / "__init__.py").is_file() and f not in (ours, built)]
        if others:
            clean = False
            advice = "distprove hides another package of this name: use an environment of its own"
            yield Finding("installation", name, "warning", f"also in {', '.join(others)}", advice)
    if clean:
        yield Finding("installation", "import names", "ok", "kernels, actors and cluster are ours, and only ours")


def _site_folders() -> list[Path]:
    return [Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())]


def _ray() -> Iterator[Finding]:
    version = _version("ray")
    if version is None:
        yield Finding("ray", "version", "fault", "not installed", "pip install 'ray[default]', or run without it")
        return
    yield Finding("ray", "version", "ok", version)
    mode = os.environ.get("RAY_AUTH_MODE")
    token_file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()
    has_token = "RAY_AUTH_TOKEN" in os.environ or token_file.is_file()
    if mode == "token" and has_token:
        yield Finding("ray", "authentication", "ok", "token, with a token at hand")
    elif mode == "token":
        yield Finding(
            "ray", "authentication", "warning", "token, but no token here", "to join a cluster, set RAY_AUTH_TOKEN"
        )
    else:
        advice = (
            "a Ray started for a job has its own token; to join a cluster that asks for one, set RAY_AUTH_MODE=token"
        )
        yield Finding("ray", "authentication", "note", "not set in this environment", advice)
    address = os.environ.get("RAY_ADDRESS")
    if address:
        yield Finding("ray", "RAY_ADDRESS", "note", address, "joined unless --address or --local say otherwise")


def _choose(machine: Machine) -> Choice:
    """Make the choice that the driver makes by default: every usable GPU, else the CPU."""
    threads, memory = machine.processor.threads, memory_available()
    cpu = (machine.processor.model,)
    if not machine.gpus.devices:
        return Choice("cpu", cpu, threads, memory, "no GPU was found")
    installed = [extra for extra, name in CUPY.items() if _version(name)]
    if len(installed) != 1:
        why = "CuPy is not installed" if not installed else "two CuPy packages are installed"
        return Choice("cpu", cpu, threads, memory, f"there are GPUs, but {why}")
    aside = remembered().devices
    devices = tuple(f"{gpu.index}: {gpu.name}" for gpu in machine.gpus.devices if gpu.uuid not in aside)
    return Choice("cuda", devices, threads, memory, f"{len(devices)} GPU(s) to use, CuPy and NVRTC are here")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
