"""Opens the scheduler, or the fleet, that settings ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from actors.bootstrap import forking_from_here
from cluster.executor.connection import Connection, connected, is_joined, prepare
from cluster.executor.fleet import Fleet
from cluster.scheduler.loop import Client, Scheduler
from distprove.job import Job
from distprove.registry import entry_of
from distprove.settings import ExecutorSettings


class Choice(NamedTuple):
    """Whether a job runs on this machine without Ray, and the reason, which reports quote."""

    local: bool
    reason: str

    @property
    def kind(self) -> str:
        """The kind of the fleet."""
        return "local" if self.local else "ray"

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
    if connected():
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


@contextmanager
def open_client(settings: ExecutorSettings, likely_provers: int = 1) -> Iterator[Client]:
    """A scheduler for one job, over the workers that the settings ask for. Processes of this machine start at once, of
    `likely_provers` for each GPU. Raises ClusterError for a Ray that is not there."""
    choice = choose(settings)
    make: Callable[[], Fleet]
    give_up: Callable[[], None]
    if choice.local or is_joined(settings):
        fleet = open_fleet(settings, likely_provers)
        make, give_up = lambda: fleet, partial(fleet.close, now=True)
    else:  # Ray is imported and starts while the job is loaded
        connection = Connection(settings)
        make, give_up = partial(open_fleet, settings, connection=connection), connection.close
    scheduler = Scheduler(settings, make, standing=False, kind=choice.kind, chosen=str(choice))
    try:
        with scheduler:
            yield scheduler.lend()
    finally:
        if scheduler.unopened:
            give_up()


def open_scheduler(settings: ExecutorSettings) -> Scheduler:
    """A scheduler for many jobs and keys, which keeps keys resident. Use as a context manager."""
    choice = choose(settings)
    return Scheduler(settings, lambda: open_fleet(settings), standing=True, kind=choice.kind, chosen=str(choice))


def open_fleet(settings: ExecutorSettings, likely_provers: int = 1, connection: Connection | None = None) -> Fleet:
    """The fleet the settings ask for. Processes of this machine start at once, of `likely_provers` for each GPU.
    `connection`: one to a Ray of its own that was begun. Raises ClusterError for a Ray that is not there."""
    if connection is None and choose(settings).local:
        from cluster.executor.local import local_fleet

        return local_fleet(settings, likely_provers)
    prepare(settings)
    from cluster.executor.ray import RayFleet  # Ray takes seconds to import, and reads its environment then

    fleet = RayFleet(settings, connection)
    if is_joined(settings):
        try:
            fleet.connect()  # before anything is made for the job
        except BaseException:  # an interrupt, too: the caller cannot close a fleet that it was not given
            fleet.close(now=True)
            raise
    return fleet
