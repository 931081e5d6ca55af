"""A toy system whose jobs are aggregated: the aggregate says where it was made. And a device that is a CPU."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from distprove.errors import InvalidProof
from distprove.proof import Proof
from distprove.system import DeviceTask
from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError
from kernels.interface.backend import Backend, DeviceInfo
from tests.support.toy_system import Faults, ToySystem

DEVICE = "tests.support.toy_system:toy_device"
"""A toy backend that is no CPU."""
OTHER_CPU = "tests.support.toy_aggregate:other_cpu"
"""A backend that computes on the CPU, and says that it is another device."""


class OtherCpu(CpuBackend):
    def info(self) -> DeviceInfo:
        return replace(super().info(), kind="other")


def other_cpu(device: int = 0, threads: int = 1, budget: int | None = None) -> CpuBackend:
    return OtherCpu(threads)


@dataclass(frozen=True)
class ToyTask:
    """Comes to the kind of the device that it is done on. On the first `deaths` devices that are no CPU its process
    dies, and on the first `errors` it fails."""

    faults: Faults
    large: bool
    deaths: int
    errors: int

    def run(self, backend: Backend, host: Backend | None) -> str:
        kind = backend.info().kind
        if kind != "cpu":
            assert host is not None
            assert host.info().kind == "cpu"
            if any(self.faults.first(f"death-{i}") for i in range(self.deaths)):
                os.kill(os.getpid(), signal.SIGKILL)
            if any(self.faults.first(f"error-{i}") for i in range(self.errors)):
                raise BackendError("the device is lost")
        return f"{kind} {os.getpid()}"


class AggregatingToy(ToySystem):
    """`bad`: the kind of device that makes aggregates that do not hold."""

    large, deaths, errors, bad = True, 0, 0, ""

    def aggregates(self) -> bool:
        return True

    def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
        made = run(ToyTask(self.faults, self.large, self.deaths, self.errors))
        if self.bad and made.startswith(self.bad):
            raise InvalidProof("the aggregate does not verify")
        return "aggregate.msgpack", made.encode()
