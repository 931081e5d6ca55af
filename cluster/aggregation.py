"""Has a job's proofs aggregated at its end: on a worker's device that is free, or else on the driver's CPU."""

from __future__ import annotations

import time
from typing import Any

from cluster.dispatch.state import State, WorkerState
from cluster.record.report import public_message
from distprove.errors import InvalidProof
from distprove.host.machine import usable_threads
from distprove.proof import Aggregates, Proof
from distprove.system import DeviceTask
from kernels.cpu.backend import CpuBackend


def aggregated(system: Aggregates, proof: Proof, state: State) -> tuple[str, bytes] | None:
    """Name and content of the aggregate's file; None for a job that asks for none. The journal tells where it was made,
    and where it could not be. Raises InvalidProof, InputError."""
    if not system.aggregates():
        return None
    began, where = time.monotonic(), _Where(state)
    try:
        made = system.aggregate(proof, where.run)
    except InvalidProof as error:
        if where.device is None:
            raise
        where.failed(error)
        made = system.aggregate(proof, where.on_cpu)
    worker = "driver" if where.device is None else where.device.report.id
    state.run.note("aggregated", worker=worker, seconds=round(time.monotonic() - began, 3))
    return made


class _Where:
    """Where a task is done: on the device with the shortest line, or another one if that fails, or the driver's CPU."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.device: WorkerState | None = None
        """The worker that did the last task; None for the driver's CPU."""

    def run(self, task: DeviceTask) -> Any:
        executor, workers = self._state.executor, self._state.workers.by_id.values()
        devices = sorted(filter(_has_device, workers), key=lambda worker: executor.backlog(worker.handle))
        for self.device in devices if task.large else ():
            try:
                return executor.run(self.device.handle, task)
            except Exception as error:  # of the device, or of the way to it
                self.failed(error)
        return self.on_cpu(task)

    def on_cpu(self, task: DeviceTask) -> Any:
        self.device = None
        with CpuBackend(threads=usable_threads()) as cpu:
            return task.run(cpu, None)

    def failed(self, error: Exception) -> None:
        assert self.device is not None
        self._state.note("not-aggregated", self.device, public_message(error))


def _has_device(worker: WorkerState) -> bool:
    return worker.usable and worker.report.facts.get("kind", "cpu") != "cpu"
