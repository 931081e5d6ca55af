"""Opens the executor, or the fleet, that settings ask for."""

from __future__ import annotations

from cluster.executor.connection import prepare
from cluster.executor.fleet import Fleet, FleetExecutor
from distprove.settings import ExecutorSettings


def open_executor(settings: ExecutorSettings) -> FleetExecutor:
    """The executor the settings ask for: of this machine, over a Ray that is joined, or over one started for it."""
    if settings.local:
        from cluster.executor.local import local_executor  # it is made of what is here

        return local_executor(settings)
    return FleetExecutor(open_fleet(settings))


def open_fleet(settings: ExecutorSettings) -> Fleet:
    """The fleet the settings ask for. Processes of this machine start at once."""
    if settings.local:
        from cluster.executor.local import local_fleet

        return local_fleet(settings)
    prepare(settings)
    from cluster.executor.ray import RayFleet  # Ray takes seconds to import, and reads its environment then

    return RayFleet(settings)
