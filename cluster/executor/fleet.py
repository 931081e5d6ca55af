"""A fleet: the workers of a machine or of a cluster, with their processes and devices, and without any key.

scheduler --key slot on each worker--> fleet --host of each worker--> a process of one device
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from actors import patience
from actors.backends import BackendChoice, device_backend
from actors.messages import WorkerSpec
from actors.protocol import Host, Slot
from actors.rooms import Rooms
from cluster.executor.verifiers import Verifiers
from cluster.scheduler.workers import WorkerHandle
from distprove.host.beside import at_once
from distprove.settings import ExecutorSettings
from distprove.system import PredictsKey, ProofSystem

Value = TypeVar("Value")
LIKELY_MEMORY = 1 << 36
"""Bytes of memory that a GPU is taken to have until that is known."""


@dataclass(frozen=True)
class Site:
    """A worker's place in the fleet."""

    worker: WorkerHandle
    choice: BackendChoice
    threads: int
    """CPU threads of each of its synthesisers."""
    host: Host


class Fleet(ABC):
    """The workers of a machine or a cluster. Any thread may call."""

    kind: str

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self.sites: dict[str, Site] = {}
        """Workers that were not given up, by id."""
        self.report_age = 0.0
        """Seconds for which a look at processes and GPUs is new enough for a report."""
        self.verifying_threads = 1
        """Threads of this process that verify."""
        self.started = False
        """Whether what the workers run on was started for this fleet, and can be started again."""
        self.lost = False
        """Whether what they run on is gone."""
        self.grows = False
        """Whether devices may be added, as by nodes that join a cluster."""
        self.remarks: list[str] = []
        """Devices that are not used because they were given up, and what is wrong with the list of them, in words."""
        self.listeners: list[Callable[[str], None]] = []
        """Called with the reason when that is lost."""
        self._slots = itertools.count(1)
        self._opening = threading.Lock()
        self._opened = False

    def open(self, system: ProofSystem | None, waits_for: Callable[[str], None] = lambda what: None) -> None:
        """Place the workers and open their processes, once. `system`: the only one, where there is one; memory for keys
        is planned for it. Raises ClusterError."""
        with self._opening:
            if not self._opened:
                self._open(system, waits_for)
                self._opened = True

    @abstractmethod
    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None: ...

    def queued(self, worker: str) -> bool:
        """Whether a worker waits for resources of a cluster that others have."""
        return False

    def grow(self) -> list[Site]:
        """Place workers where devices were added since, as far as the settings allow more; the new ones. Waits for
        nothing."""
        return []

    def left(self) -> list[str]:
        """Workers that were not given up, and whose node has left the cluster for good."""
        return []

    def unless_lost(self, call: Callable[[], Value]) -> Value:
        """What `call` returns. Raises ClusterError where what the workers run on is lost meanwhile, and answers nothing
        that is asked of it."""
        return call()

    def lose(self, reason: str) -> None:
        """Tell all that what the workers run on is gone."""
        self.lost = True
        for tell in list(self.listeners):
            tell(reason)

    @abstractmethod
    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None:
        """Have a worker's device not used by later jobs, on its machine. Waits for nothing on another one."""

    def share(self, system: ProofSystem) -> Any:
        """Give a system's files to all nodes, for `slot`; here they have them."""
        return None

    def slot(self, host: Host, spec: WorkerSpec, shared: Any) -> Slot:
        """The transport to a worker's slot for one key, which is opened when it is started. `host` is the worker's,
        whose site may be given up meanwhile."""
        number = next(self._slots)
        return Slot(host, number, self.opener(spec, host, number, shared), self.shutter(host, number))

    @abstractmethod
    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        """What opens that slot."""

    def shutter(self, host: Host, number: int) -> Callable[[], object]:
        """What shuts that slot, once what is under way in it is done."""
        return lambda: host.call(Rooms.shut, number)

    @abstractmethod
    def keep(self, system: ProofSystem) -> Callable[[], None]:
        """Lease the memory that workers will keep of a key, on all nodes, before anything is loaded; what gives it back
        is returned. Raises ClusterError where that does not fit beside the keys that are kept.

        For as long as the key is resident, workers that die and come back included, and before there are witnesses of
        its own: a prover never waits for memory that these hold until they are proven.
        """

    def residents(self, system: ProofSystem) -> dict[str, int]:
        """Bytes of host memory that each worker keeps of its own, by its id."""
        return {name: kept_by(system, site.choice) for name, site in self.sites.items()}

    def verifiers(self, system: ProofSystem) -> Verifiers | None:
        """Processes that verify, for a system for which threads would not do."""
        return None

    @abstractmethod
    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """Reports of the nodes' governors, with times in seconds since `began` (since the epoch)."""

    def retire(self, worker: str) -> None:
        """Stop a worker for good."""
        site = self.sites.pop(worker, None)
        if site is not None:
            site.host.end()

    def close(self, *, now: bool = False) -> None:
        """End all workers; unless `now`, once they have given back their devices."""
        hosts, self.sites = [site.host for site in self.sites.values()], {}
        if not now:
            at_once(lambda host: host.call(Rooms.close), hosts, patience.FLEET_CLOSES, "distprove-shut")
        at_once(
            lambda host: host.end(), hosts, patience.FLEET_CLOSES, "distprove-end"
        )  # a device's memory takes a while to unmap


def files_bytes(system: ProofSystem) -> int:
    """Bytes of a system's files."""
    return sum(array.nbytes for array in system.shared().values())


def kept_by(system: ProofSystem, choice: BackendChoice) -> int:
    """Bytes of host memory that a prover keeps beside the system's files, which workers share: the page-locked buffers
    of its transfers on a GPU, on the CPU what it makes of the key."""
    on_device = device_backend(choice.name)
    if on_device is not None:
        return on_device[1].pinned
    return system.key_bytes() if isinstance(system, PredictsKey) else 0
