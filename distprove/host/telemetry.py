"""Readings of NVIDIA GPUs while they work, by NVML: use, power, temperature, memory, and errors of the hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distprove.host.beside import in_background

IDLE = 16
"""A GPU is idle where less than 1 / IDLE of its memory is in use: contexts and the driver take some by themselves."""


@dataclass(frozen=True)
class GpuReading:
    """A GPU at one moment. None where the card or its driver does not tell."""

    index: int
    name: str
    uuid: str
    utilisation: float | None
    """Share of the last moments in which a kernel ran, 0 to 1."""
    memory_used: int | None
    """Bytes."""
    memory_total: int | None
    watts: float | None
    celsius: int | None
    ecc_errors: int | None
    """Uncorrected memory errors since the driver was loaded."""
    xids: Mapping[int, int] = field(default_factory=dict)
    """Critical errors that the driver reported since readings began: how often, by Xid."""
    divided: bool = False
    """Whether it is divided into instances (MIG)."""


class GpuTelemetry:
    """NVML, open. `open` gives None where there is none."""

    def __init__(self, nvml: Any) -> None:
        """`nvml` is the module pynvml, initialised."""
        self._nvml = nvml
        self._xids: dict[str, Counter[int]] = {}
        self._events: Any = None
        with suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
            for handle in _handles(self._nvml):
                with suppress(nvml.NVMLError):  # not of every card
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    @classmethod
    def open(cls) -> GpuTelemetry | None:
        """NVML, or None where the package or the driver is missing."""
        nvml = _opened()
        return None if nvml is None else cls(nvml)

    def read(self) -> list[GpuReading]:
        """Every GPU now; empty when NVML no longer answers."""
        try:
            self._drain()
            return [self._read(index, handle) for index, handle in enumerate(_handles(self._nvml))]
        except self._nvml.NVMLError:
            return []

    def close(self) -> None:
        with suppress(self._nvml.NVMLError):
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()

    def _drain(self) -> None:
        """Count the critical errors that were reported since the last time."""
        while self._events is not None:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # none is left: it says that it timed out
                return
            uuid = text_of(self._nvml.nvmlDeviceGetUUID(event.device))
            self._xids.setdefault(uuid, Counter())[int(event.eventData)] += 1

    def _read(self, index: int, handle: Any) -> GpuReading:
        nvml = self._nvml
        told = partial(ask, nvml, handle)
        used, memory = told("nvmlDeviceGetUtilizationRates"), told("nvmlDeviceGetMemoryInfo")
        milliwatts = told("nvmlDeviceGetPowerUsage")
        uuid, divided = text_of(nvml.nvmlDeviceGetUUID(handle)), told("nvmlDeviceGetMigMode")
        return GpuReading(
            index,
            text_of(nvml.nvmlDeviceGetName(handle)),
            uuid,
            None if used is None else used.gpu / 100,
            None if memory is None else int(memory.used),
            None if memory is None else int(memory.total),
            None if milliwatts is None else milliwatts / 1000,
            told("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            told("nvmlDeviceGetTotalEccErrors", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
            dict(self._xids.get(uuid, {})),
            bool(divided and divided[0]),
        )


def idle_memories() -> dict[str, int]:
    """Bytes of memory of each GPU of this machine, by its UUID, where all of it is one process's to take. It is 0 for a
    GPU that others use, that is divided, or that does not tell. Empty where NVML does not answer.

    Nothing else is asked: beside processes that open devices each question takes some 10 ms.
    """
    nvml = _opened()
    if nvml is None:
        return {}
    found = {}
    try:
        for handle in _handles(nvml):
            memory, divided = ask(nvml, handle, "nvmlDeviceGetMemoryInfo"), ask(nvml, handle, "nvmlDeviceGetMigMode")
            idle = memory is not None and not (divided and divided[0]) and memory.used < memory.total // IDLE
            found[text_of(nvml.nvmlDeviceGetUUID(handle))] = int(memory.total) if idle else 0
    except nvml.NVMLError:  # of one that is lost: the others do not stand for all
        found = {}
    in_background(nvml.nvmlShutdown, "distprove-nvml")  # which takes as long as all of this
    return found


def idle_memory(uuids: Collection[str] = (), found: Mapping[str, int] | None = None) -> int:
    """Bytes of memory of the smallest of the GPUs with these `uuids`, by default of all of this machine; 0 where one of
    them is not idle, or not told of. `found` is what `idle_memories` has told."""
    found = idle_memories() if found is None else found
    return min((found.get(uuid, 0) for uuid in uuids or found), default=0)


def _opened() -> Any:
    """The module pynvml, initialised; None where it, or the driver, is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def ask(nvml: Any, handle: Any, name: str, *arguments: Any) -> Any:
    """What the function of that name says of a card; None where the card or its driver does not tell."""
    try:
        return getattr(nvml, name)(handle, *arguments)
    except nvml.NVMLError:
        return None


def text_of(value: str | bytes) -> str:
    """A text that NVML tells, which older versions of its package give as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
