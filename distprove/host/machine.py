"""Describes this machine: its CPUs, its memory with the limits of its control group, its GPUs. Facts only, no advice.

`distprove doctor` prints it, and every benchmark result includes it. Works without a GPU and without nvidia-ml-py.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from distprove.host import cgroup
from distprove.host.telemetry import ask, text_of
from kernels.host.processor import processor_facts

INTERESTING_FLAGS = ("bmi2", "adx", "avx2", "avx512f", "avx512ifma", "asimd", "sve")
"""CPU features that decide which variant of the native code runs, or how fast it can be."""


@dataclass(frozen=True)
class Processor:
    """The host's CPUs as this process may use them."""

    model: str
    architecture: str
    logical: int
    physical: int | None
    usable: int
    """Number of logical CPUs in this process's affinity mask."""
    quota: float | None
    """Number of CPUs whose time the control group grants; None without a limit."""
    flags: tuple[str, ...]

    @property
    def threads(self) -> int:
        """Number of threads that can run at once, by affinity and quota; at least 1."""
        return _threads(self.usable, self.quota)


@dataclass(frozen=True)
class Memory:
    """Host memory, in bytes."""

    total: int
    available: int
    cgroup_limit: int | None
    cgroup_used: int | None
    shm_total: int | None
    """Size of /dev/shm, where Ray keeps its objects; None where there is none."""
    shm_free: int | None
    lock_limit: int | None
    """Bytes that may be locked (RLIMIT_MEMLOCK); None without a limit."""


@dataclass(frozen=True)
class Gpu:
    """One CUDA device as the driver's management library sees it. Memory in bytes."""

    index: int
    name: str
    uuid: str
    compute_capability: str
    memory_total: int
    memory_free: int
    utilisation: int | None
    """Percentage of the last sampling period in which a kernel ran; None where NVML does not tell."""
    power_limit_watts: int | None
    mig: bool


@dataclass(frozen=True)
class Gpus:
    """The GPUs of this machine, or the reason why none was found."""

    devices: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda_driver: str | None = None
    """The highest CUDA version that the driver supports."""
    reason: str | None = None


@dataclass(frozen=True)
class Machine:
    """All facts about this machine: operating system, Python, CPU, memory, GPUs."""

    system: str
    python: str
    processor: Processor
    memory: Memory
    gpus: Gpus = field(default_factory=Gpus)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect_machine() -> Machine:
    """Read the facts about this machine now. Takes some milliseconds and starts no process."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        processor=_processor(),
        memory=_memory(),
        gpus=find_gpus(),
    )


def _processor() -> Processor:
    facts = processor_facts()
    return Processor(
        model=facts.model,
        architecture=platform.machine(),
        logical=os.cpu_count() or 1,
        physical=psutil.cpu_count(logical=False),
        usable=_affinity(),
        quota=cgroup.cpu_quota(),
        flags=tuple(f for f in INTERESTING_FLAGS if f in facts.flags),
    )


def _memory() -> Memory:
    virtual = psutil.virtual_memory()
    shm = psutil.disk_usage("/dev/shm") if Path("/dev/shm").is_dir() else None
    group = cgroup.memory_limit()
    if group is not None and group.limit >= virtual.total:
        group = None
    return Memory(
        total=virtual.total,
        available=virtual.available,
        cgroup_limit=None if group is None else group.limit,
        cgroup_used=None if group is None else group.used,
        shm_total=shm.total if shm else None,
        shm_free=shm.free if shm else None,
        lock_limit=_lock_limit(),
    )


def usable_threads() -> int:
    """Number of threads that this process can run at once, by affinity and the control group's quota; at least 1."""
    return _threads(_affinity(), cgroup.cpu_quota())


def _threads(usable: int, quota: float | None) -> int:
    return max(1, usable if quota is None else min(usable, int(quota)))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lock_limit() -> int | None:
    import resource  # not on every platform

    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else int(soft)


def find_gpus() -> Gpus:
    """List the CUDA devices that NVML reports, whatever CUDA_VISIBLE_DEVICES says."""
    try:
        import pynvml
    except ImportError:
        return Gpus(reason="nvidia-ml-py is not installed (pip install 'distprove[cuda13]' or '[cuda12]')")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Gpus(reason=f"no NVIDIA driver answers ({error})")
    try:
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return Gpus(
            devices=tuple(_gpu(pynvml, i) for i in range(pynvml.nvmlDeviceGetCount())),
            driver=text_of(pynvml.nvmlSystemGetDriverVersion()),
            cuda_driver=f"{version // 1000}.{version % 1000 // 10}",
        )
    except pynvml.NVMLError as error:
        return Gpus(reason=f"the NVIDIA driver failed to describe its devices ({error})")
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    utilisation = ask(nvml, handle, "nvmlDeviceGetUtilizationRates")
    power = ask(nvml, handle, "nvmlDeviceGetEnforcedPowerLimit")
    mig = ask(nvml, handle, "nvmlDeviceGetMigMode")
    return Gpu(
        index=index,
        name=text_of(nvml.nvmlDeviceGetName(handle)),
        uuid=text_of(nvml.nvmlDeviceGetUUID(handle)),
        compute_capability=f"{major}.{minor}",
        memory_total=int(memory.total),
        memory_free=int(memory.free),
        utilisation=None if utilisation is None else int(utilisation.gpu),
        power_limit_watts=None if power is None else int(power) // 1000,
        mig=bool(mig and mig[0]),
    )
