"""Opens the executor, or the fleet, that settings ask for."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from actors.bootstrap import forking_from_here
from cluster.executor.connection import joined_address, prepare
from cluster.executor.fleet import Fleet, FleetExecutor
from distprove.job import Job
from distprove.registry import entry_of
from distprove.settings import ExecutorSettings


class Choice(NamedTuple):
    """Whether a job runs on this machine without Ray, and the reason, which reports quote."""

    local: bool
    reason: str

    def __str__(self) -> str:
        return f"{'without Ray' if self.local else 'over Ray'}: {self.reason}"


def choose(settings: ExecutorSettings) -> Choice:
    """Choose between this machine alone and Ray. A Ray of its own, which takes seconds to start, must be asked for."""
    if settings.local is not None:
        return Choice(settings.local, "asked for")
    if settings.address is not None:
        return Choice(False, "an address was given")
    if settings.isolate is not None:
        return Choice(True, "isolate was given")
    if os.environ.get("RAY_ADDRESS"):
        return Choice(False, "RAY_ADDRESS names a cluster, as inside a submitted job")
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return Choice(False, "this process is connected to one")
    return Choice(True, "no cluster was named")


def forking_workers(job: Job, settings: ExecutorSettings) -> AbstractContextManager[None]:
    """Have workers forked from what this process has imported, if the job, under these settings, has processes of this
    machine. For main programs, as `actors.bootstrap.forking_from_here`."""
    if not job.code and choose(settings).local:  # what a user's code did as it was imported is not known
        from cluster.executor.local import likely_isolated

        if likely_isolated(settings):
            entry_of(job.system).system_class()  # imported once for all of them
            return forking_from_here()
    return nullcontext()


def open_executor(settings: ExecutorSettings) -> FleetExecutor:
    """The executor the settings ask for: of this machine, over a Ray that is joined, or over one started for it. Raises
    ClusterError for a Ray that is not there."""
    executor = FleetExecutor(open_fleet(settings))
    executor.chosen = str(choose(settings))
    return executor


def open_fleet(settings: ExecutorSettings) -> Fleet:
    """The fleet the settings ask for. Processes of this machine start at once. Raises ClusterError for a Ray that is
    not there."""
    if choose(settings).local:
        from cluster.executor.local import local_fleet

        return local_fleet(settings)
    prepare(settings)
    if "ray" not in sys.modules or not sys.modules["ray"].is_initialized():
        joined_address(settings)  # before anything is made for the job
    from cluster.executor.ray import RayFleet  # Ray takes seconds to import, and reads its environment then

    return RayFleet(settings)
