"""Opens the executor, or the fleet, that settings ask for."""

from __future__ import annotations

import sys

from cluster.executor.connection import joined_address, prepare
from cluster.executor.fleet import Fleet, FleetExecutor
from distprove.settings import ExecutorSettings


def open_executor(settings: ExecutorSettings) -> FleetExecutor:
    """The executor the settings ask for: of this machine, over a Ray that is joined, or over one started for it. Raises
    ClusterError for a Ray that is not there."""
    if settings.local:
        from cluster.executor.local import local_executor  # it is made of what is here

        return local_executor(settings)
    return FleetExecutor(open_fleet(settings))


def open_fleet(settings: ExecutorSettings) -> Fleet:
    """The fleet the settings ask for. Processes of this machine start at once. Raises ClusterError for a Ray that is
    not there."""
    if settings.local:
        from cluster.executor.local import local_fleet

        return local_fleet(settings)
    prepare(settings)
    if "ray" not in sys.modules or not sys.modules["ray"].is_initialized():
        joined_address(settings)  # before anything is made for the job
    from cluster.executor.ray import RayFleet  # Ray takes seconds to import, and reads its environment then

    return RayFleet(settings)
