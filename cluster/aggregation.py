"""Has a job's proofs aggregated at its end: on a worker's device that is free, or else on the driver's CPU."""

from __future__ import annotations

import time
from typing import Any

from cluster.dispatch.workers import Workers, WorkerState
from cluster.executor.base import Executor, Worker
from cluster.record.report import public_message
from cluster.record.run import Run
from distprove.errors import InvalidProof
from distprove.host.machine import usable_threads
from distprove.proof import Aggregates, Proof
from distprove.system import DeviceTask
from kernels.cpu.backend import CpuBackend

DRIVER = "driver"
"""Name of the driver's CPU where the journal tells of workers."""


def aggregated(
    system: Aggregates, proof: Proof, executor: Executor, workers: Workers, run: Run
) -> tuple[str, bytes] | None:
    """Name and content of the aggregate's file; None for a job that asks for none. The journal tells where it was made,
    and where it could not be. Raises InvalidProof, InputError."""
    if not system.aggregates():
        return None
    began, where = time.monotonic(), _Where(executor, workers, run)
    try:
        made = system.aggregate(proof, where.run)
    except InvalidProof as error:
        if where.made_on == DRIVER:
            raise
        where.failed(error)
        made = system.aggregate(proof, where.on_cpu)
    run.note("aggregated", worker=where.made_on, seconds=round(time.monotonic() - began, 3))
    return made


class _Where:
    """Where a task is done: on the device with the shortest line, or another one if that fails, or the driver's CPU."""

    def __init__(self, executor: Executor, workers: Workers, run: Run) -> None:
        self._executor = executor
        self._run = run
        handles = (worker.handle for worker in workers.by_id.values() if _has_device(worker))
        self._devices: list[Worker] = sorted(handles, key=executor.backlog)
        self.made_on = DRIVER
        """Id of the worker that did the last task."""

    def run(self, task: DeviceTask) -> Any:
        for worker in self._devices if task.large else ():
            self.made_on = worker.id
            try:
                return self._executor.run(worker, task)
            except Exception as error:  # of the device, or of the way to it
                self.failed(error)
        return self.on_cpu(task)

    def on_cpu(self, task: DeviceTask) -> Any:
        self.made_on = DRIVER
        with CpuBackend(threads=usable_threads()) as cpu:
            return task.run(cpu, None)

    def failed(self, error: Exception) -> None:
        self._run.note("not-aggregated", worker=self.made_on, error=public_message(error))


def _has_device(worker: WorkerState) -> bool:
    return worker.usable and worker.report.facts.get("kind", "cpu") != "cpu"
