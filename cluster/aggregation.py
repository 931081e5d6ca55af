"""Has a job's proofs aggregated at its end: on a worker's device, or else on the driver's CPU."""

from __future__ import annotations

import time
from typing import Any

from cluster.record.report import public_message
from cluster.record.run import Run
from cluster.scheduler.loop import Client
from distprove.errors import InvalidProof
from distprove.host.machine import usable_threads
from distprove.proof import Aggregates, Proof
from distprove.system import DeviceTask
from kernels.cpu.backend import CpuBackend


def aggregated(system: Aggregates, proof: Proof, client: Client, run: Run) -> tuple[str, bytes] | None:
    """Name and content of the aggregate's file; None for a job that asks for none. The journal tells where it was made,
    and where it could not be. Raises InvalidProof, InputError."""
    if not system.aggregates():
        return None
    began, where = time.monotonic(), _Where(client, run)
    try:
        made = system.aggregate(proof, where.run)
    except InvalidProof as error:
        if where.device is None:
            raise
        where.failed(error)
        made = system.aggregate(proof, where.on_cpu)
    run.note("aggregated", worker=where.device or "driver", seconds=round(time.monotonic() - began, 3))
    return made


class _Where:
    """Where a task is done: on the device with the shortest line, or another one if that fails, or the driver's CPU."""

    def __init__(self, client: Client, run: Run) -> None:
        self._client = client
        self._run = run
        self.device: str | None = None
        """The worker that did the last task; None for the driver's CPU."""

    def run(self, task: DeviceTask) -> Any:
        for device in self._client.devices() if task.large else ():
            self.device = device
            try:
                return self._client.run(device, task)
            except Exception as error:  # of the device, or of the way to it
                self.failed(error)
        return self.on_cpu(task)

    def on_cpu(self, task: DeviceTask) -> Any:
        self.device = None
        with CpuBackend(threads=usable_threads()) as cpu:
            return task.run(cpu, None)

    def failed(self, error: Exception) -> None:
        self._run.note("not-aggregated", worker=self.device, reason=public_message(error))
