"""A pool that starts workers anew for each job: until there is one that keeps them."""

from __future__ import annotations

from cluster.executor.base import Executor
from cluster.executor.opening import open_executor
from cluster.lab.sweep.sharing import Client, SharedExecutor
from cluster.service.views import KeyView, WorkerView
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem


class LonePool:
    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings

    def start(self) -> None: ...

    def lend(self, system: ProofSystem, *, job: str, rank: int) -> Executor:
        executor = open_executor(self._settings)
        return LentAlone(SharedExecutor(executor, system), executor)

    def keys(self) -> list[KeyView]:
        return []

    def workers(self) -> list[WorkerView]:
        return []

    def close(self) -> None: ...


class LentAlone(Client):
    cold = True

    def __init__(self, shared: SharedExecutor, executor: Executor) -> None:
        super().__init__(shared, executor)
        shared._clients.append(self)
        shared.__enter__()

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)
        self._shared.__exit__()
        self._executor.close(now=now)
