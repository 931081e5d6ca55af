"""Opens the executor that a job's settings ask for."""

from __future__ import annotations

import sys

from cluster.executor.base import Executor
from cluster.executor.connection import joined_address, prepare
from distprove.settings import ExecutorSettings


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor the settings ask for: of this machine, over a Ray that is joined, or over one started for it. Raises
    ClusterError for a Ray that is not there."""
    if settings.local:
        from cluster.executor.local import local_executor  # it is made of what is here

        return local_executor(settings)
    prepare(settings)
    if "ray" not in sys.modules or not sys.modules["ray"].is_initialized():
        joined_address(settings)  # before anything is made for the job
    from cluster.executor.ray import RayExecutor  # Ray takes seconds to import, and reads its environment then

    return RayExecutor(settings)
