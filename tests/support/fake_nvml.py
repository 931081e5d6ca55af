"""A stand-in for the module pynvml, with GPUs that a test makes up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FakeGpu:
    """A GPU. What is None, the card does not support."""

    uuid: str = "GPU-0"
    name: str | bytes = b"NVIDIA H200"
    use: int | None = 90
    milliwatts: int | None = 500_000
    celsius: int | None = 60
    used: int = 70 << 30
    ecc: int | None = 0
    mig: int | None = 0
    """Whether it is divided into instances."""


@dataclass
class FakeNvml:
    """The part of pynvml that is used. `errors` are Xids that wait to be read, with the GPU's place."""

    gpus: list[FakeGpu]
    errors: list[tuple[int, int]] = field(default_factory=list)
    lost: bool = False
    """Whether the driver no longer answers."""
    closed: threading.Event = field(default_factory=threading.Event)

    class NVMLError(Exception):
        """As in pynvml."""

    NVML_TEMPERATURE_GPU = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = nvmlEventTypeXidCriticalError = 0

    def nvmlInit(self) -> None:
        self._answer(1)

    def nvmlShutdown(self) -> None:
        self.closed.set()

    def nvmlDeviceGetCount(self) -> int:
        self._answer(1)
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str | bytes:
        return gpu.name

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(gpu=self._answer(gpu.use))

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(used=gpu.used, total=141 << 30)

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> Any:
        return self._answer(gpu.milliwatts)

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, _: int) -> Any:
        return self._answer(gpu.celsius)

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, *_: int) -> Any:
        return self._answer(gpu.ecc)

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        return [self._answer(gpu.mig), 0]

    def nvmlEventSetCreate(self) -> object:
        return self

    def nvmlEventSetFree(self, _: object) -> None:
        pass

    def nvmlDeviceRegisterEvents(self, *_: Any) -> None:
        pass

    def nvmlEventSetWait_v2(self, *_: Any) -> Any:
        if not self.errors:
            raise self.NVMLError("timeout")
        place, xid = self.errors.pop(0)
        return SimpleNamespace(device=self.gpus[place], eventData=xid)

    def _answer(self, value: Any) -> Any:
        if self.lost or value is None:
            raise self.NVMLError("not supported")
        return value
