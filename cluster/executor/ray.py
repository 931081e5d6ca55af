"""The executor over Ray: an actor for each worker, keys once per node, a governor on each node."""

from __future__ import annotations

import itertools
import math
import pickle
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.exceptions import (
    ActorUnschedulableError,
    PendingCallsLimitExceeded,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import patience
from actors.backends import BackendChoice, ahead_of
from actors.driver_liveness import DriverAddress, by_number
from actors.leases import NAMESPACE, governor_name
from actors.messages import HostSpec, MappedFile, VerifierSpec, WorkerSpec, files_of, pickled
from actors.protocol import Host, Verb, WorkerDied
from actors.ray_actor import Carried, RemoteWorker
from cluster.executor.connection import Connection, cluster_nodes
from cluster.executor.fleet import Fleet, Site, Value, files_bytes
from cluster.executor.placement import Node, Place, place, place_more, threads_of
from cluster.executor.reachability import Nodes, answering, head_address, reachable, watching
from cluster.executor.verifiers import Verifier, Verifiers, beside_driver, how_many, provers_for
from cluster.governor.actor import NodeGovernor
from cluster.governor.budget import memory_for_keys
from cluster.scheduler.workers import WorkerHandle
from distprove.errors import ClusterError, DistproveError
from distprove.host.beside import in_background
from distprove.host.machine import usable_threads
from distprove.host.provenance import identity
from distprove.host.telemetry import idle_memory
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem, provers_per_gpu
from kernels.host.units import count_of

CALLS = 8
"""Calls that an actor of one key serves at once: one waits for news, the others come and go."""
STANDING_CALLS = 64
"""Calls that an actor of several keys serves at once: one for each key waits for news."""
PENDING = 1000
"""Calls that an actor may have waiting for it from one process. More are refused: it does not answer, and what is told
to it would fill memory."""
ENDING = "ending"
"""The calls that end a worker's process have a thread of their own: a worker that hangs may hold all others."""


class RayTransport(Host):
    """The transport to an actor, which forwards verbs to the process that it started."""

    def __init__(
        self,
        actor: Any,
        spec: HostSpec | VerifierSpec,
        silent: Callable[[], bool],
        over: Callable[[], bool] = lambda: False,
        driver: DriverAddress | None = None,
        tell: Callable[[str], None] = lambda remark: None,
    ) -> None:
        """`spec` tells the actor, in each of its lives, what it is. `silent` tells whether its node does not answer,
        and `over` whether it is never going to. `driver` is the address of this process; the actor ends when it cannot
        be reached any more. `tell` is called with what is wrong with its node's list of devices that were given up."""
        self.actor = actor
        self._silent = silent
        self._is_over = over
        self.placed = False
        """Whether the actor has its resources."""
        self.waits_since = math.inf
        """When it was asked last whether it has, on the monotonic clock."""
        self._tell = tell
        self._driver = driver
        self._spec = Carried(spec)

    def start(self) -> None:
        """Start the process that serves, once its node answers. Raises ClusterError, before it is told anything, for
        another version there, or when its node left the cluster."""
        try:
            self.placed = False
            while self._silent() and not self._is_over():
                time.sleep(patience.RAY_GLANCE)
            self.waits_since = time.monotonic()
            theirs, node = self._get(self.actor.identity.options(max_task_retries=-1).remote())
            self.placed = True
            if not theirs.agrees(identity()):
                raise ClusterError(
                    f"{node} has {theirs}, and the driver {identity()}: install the same on every node of the cluster"
                )
            trouble = self._get(self.actor.serve.options(max_task_retries=-1).remote(self._spec, self._driver))
            if trouble:
                self._tell(trouble)
        except RayError as error:
            raise told(error) from None

    def open(self, slot: int, spec: Carried, shared: dict[str, ray.ObjectRef], files: dict[str, Any]) -> None:
        """Open a key slot. Raises what that raises, or WorkerDied."""
        self._answer(lambda: self.actor.open.remote(slot, spec, shared, files))

    def shut(self, slot: int) -> None:
        self._answer(lambda: self.actor.shut.remote(slot))

    def carry(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return pickle.loads(self._answer(lambda: self._ask(slot, verb, arguments, named)))

    def post(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        with suppress(RayError):
            self._ask(slot, verb, arguments, named)

    def kill(self) -> None:
        try:
            self._get(self.actor.kill.remote(), patience.FLEET_CLOSES)
        except (RayError, WorkerDied):
            if ray.is_initialized():
                ray.kill(self.actor, no_restart=False)  # it hangs itself; the worker's process ends with it

    def end(self) -> None:
        if ray.is_initialized():  # or else `ray.kill` would start a Ray, where our caller imported it
            ray.kill(self.actor, no_restart=True)

    def leave(self) -> Future[None]:
        """Have the actor end by itself: the head, which else would see to that, is lost. What is returned ends with
        it. Raises RayError."""
        left: Future[None] = self.actor.leave.remote().future()
        return left

    def _answer(self, ask: Callable[[], ray.ObjectRef]) -> Any:
        """The answer to a call. Raises what it raises, and the driver's own errors for those of Ray."""
        try:
            return self._get(ask())
        except RayError as error:
            raise told(error) from None

    def _get(self, asked: ray.ObjectRef, seconds: float = math.inf) -> Any:
        """The answer. Raises WorkerDied when there is none in so many seconds, and when the actor's node is silent:
        Ray's own error tells of that a minute later. Raises RayError where the actor's process ended."""
        answer, late = asked.future(), time.monotonic() + seconds
        while not wait([answer], min(patience.RAY_GLANCE, seconds)).done:
            if self._silent() or time.monotonic() > late:
                raise WorkerDied("its node does not answer")
        return answer.result()

    def _ask(self, slot: int | None, verb: Verb, arguments: Sequence[Any], named: Mapping[str, Any]) -> ray.ObjectRef:
        # As bytes: the actor forwards them to its process, and has not imported what is in them.
        return self.actor.ask.remote(pickle.dumps((slot, verb, arguments, named), pickle.HIGHEST_PROTOCOL))


@dataclass
class _KeptKey:
    """A key that is resident, and the memory that it takes on each node, by node id."""

    system: ProofSystem
    own: dict[str, tuple[str, int]]
    """Each worker's node, and its part."""
    resident: dict[str, int]
    tickets: dict[str, int]


class RayFleet(Fleet):
    """Workers are actors, each of which pins a GPU or none for as long as the fleet is there. Starts or joins Ray when
    it is opened, and in `close` stops what it started."""

    kind = "ray"

    def __init__(self, settings: ExecutorSettings, connection: Connection | None = None) -> None:
        """`connection`: one that its maker has begun, and that ends with the fleet."""
        super().__init__(settings)
        self._stack = ExitStack()
        self._connection = connection
        self._connected = False
        self._governors: dict[str, Any] = {}
        self._name = ""
        """Name among the drivers that share the governors."""
        self._over = threading.Event()
        """Set when nothing of it answers any more: it was closed, or is lost."""
        self._closing = False
        self._beating: threading.Thread | None = None
        self._nodes: list[Node] = []
        self._reachability = Nodes(lambda: self._nodes)
        self._joined: list[Node] = []
        """Nodes that joined since, whose governors count us in, and that have no worker."""
        self._coming: dict[str, Any] = {}
        """Governors of nodes that joined, which have not said yet that they count us in, by node id."""
        self._membership = threading.RLock()
        """Held by whoever changes `_nodes`, `_joined` or what keys take on them."""
        self._numbers = itertools.count(), itertools.count()
        """Numbers of provers and of synthesisers."""
        self._calls = CALLS
        self._leasing = threading.Lock()
        self._asks: dict[str, tuple[str, float, float]] = {}
        """Node, CPUs and GPUs that each worker asks for."""
        self._used: set[str] = set()
        """Nodes with workers or synthesisers."""
        self._keys: dict[int, _KeptKey] = {}
        self._expected: dict[str, int] = {}
        """Bytes that keys are expected to take of each node, by node id."""
        self._driver: DriverAddress | None = None
        """The addresses by which other nodes see that this process lives."""
        self._said: dict[str, Future[bool]] = {}
        """What came of the last sign of life that each node's governor was given, by node id."""
        """The governor of the node that this process is on."""

    def connect(self) -> None:
        """Join the Ray that is named, or start one. Raises ClusterError."""
        connection = self._connection or Connection(self.settings)
        self._stack.callback(connection.close)
        self.started = connection.how() == "started"
        self._connected = True

    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        waits_for("Ray")
        if not self._connected:
            self.connect()
        self.grows = not self.started
        self._name = secrets.token_hex(8)
        found = cluster_nodes()
        self._nodes = nodes = _present(found)
        head, raylet = head_address(), by_number((nodes[0].address, nodes[0].port))
        # Where this process cannot listen, as behind a translated address, the raylet of its node stands for it.
        process = self._stack.enter_context(reachable(raylet[0])) or raylet
        self._driver = DriverAddress(head, process, self._name)
        if len(nodes) < len(found):
            waits_for(f"no answer of {', '.join(node.address for node in found if node not in nodes)}: left out")
        self._stack.enter_context(watching(self.lose, self._reachability, head, raylet, own=self.started))
        self.unless_lost(lambda: self._place_all(system, waits_for))

    def _place_all(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        """Start all workers and governors."""
        nodes = self._nodes
        per_gpu = provers_per_gpu(system, self._device_memory)
        provers, synthesisers = place(nodes, self.settings, per_gpu)
        waits_for(f"places for {count_of(len(provers), 'prover')} and {count_of(len(synthesisers), 'synthesiser')}")
        self._calls = CALLS if system is not None else STANDING_CALLS
        self._settle(provers, synthesisers)
        self._expected = {node.id: memory_for_keys() for node in nodes}
        if system is not None:
            self._expected = self._predicted(system).resident
        for node in nodes:  # while the workers' processes start
            self._governors[node.id] = self._govern(node)
        self._join(nodes)
        self.verifying_threads = min(len(provers), usable_threads())

    def unless_lost(self, call: Callable[[], Value]) -> Value:
        waiting = in_background(call, "distprove-ray-start")
        while not wait([waiting], patience.RAY_GLANCE).done:
            if self.lost:
                raise ClusterError("Ray is lost: its head or raylet ended while the workers were started")
            if self._over.is_set():
                raise ClusterError("the fleet was closed")
        return waiting.result()

    def _settle(self, provers: list[Place], synthesisers: list[Place]) -> list[Site]:
        """Start workers at these places."""
        self._used |= {spot.node.id for spot in (*provers, *synthesisers)}
        settled = []
        for index, spot in enumerate(provers):
            beside = [other.node for other in provers].count(spot.node)
            number = [other.node for other in provers[:index]].count(spot.node)  # those of a node are equal
            # A node without a prover makes no witnesses: they would have to travel.
            own = [one for one in synthesisers if one.node == spot.node][number::beside]
            names = tuple(f"synthesiser-{next(self._numbers[1])}" for _ in own or (spot,))
            num_cpus = spot.num_cpus + sum(one.num_cpus for one in own)
            if num_cpus > 1:
                num_cpus = int(num_cpus)  # an actor that asks for more than one has to ask for whole ones
            spec = HostSpec(f"prover-{next(self._numbers[0])}", self._choice(spot), self.settings.in_flight)
            actor = _actor(spec, spot.node, num_cpus, spot.num_gpus, self._calls)
            node = spot.node.id
            silent = partial(self._is_silent, node)
            host = RayTransport(actor, spec, silent, self._is_over, self._driver, self._remark)
            worker = WorkerHandle(spec.name, spot.node.address, names, node)
            self._asks[spec.name] = (node, num_cpus, spot.num_gpus)
            settled.append(Site(worker, spec.choice, own[0].threads if own else 1, host))
        self.sites |= {site.worker.id: site for site in settled}
        return settled

    def grow(self) -> list[Site]:
        if not self._joined:
            return []
        with self._membership:
            return [] if self._closing else self._grown()

    def _grown(self) -> list[Site]:
        joined, live = self._joined, [site.worker for site in self.sites.values()]
        gpus = sum(self._asks[worker.id][2] for worker in live) if any(ask[2] for ask in self._asks.values()) else None
        count = sum(len(worker.synthesisers) for worker in live)
        provers, synthesisers = place_more(joined, self.settings, gpus, count)
        if not provers:
            return []
        used = {spot.node.id for spot in provers}
        new = [node for node in joined if node.id in used]
        self._nodes, self._joined = [*self._nodes, *new], [node for node in joined if node.id not in used]
        settled = self._settle(provers, synthesisers)
        for key in list(self._keys.values()):
            with suppress(DistproveError):  # a file of it is gone: its loading says so
                self._extend(key)
        return settled

    def _extend(self, key: _KeptKey) -> None:
        """Predict what a key takes on nodes that it does not know of. The lock of the nodes is held."""
        if any(node.id not in key.resident for node in self._nodes):
            predicted = self._predicted(key.system)
            key.own, key.resident = {**predicted.own, **key.own}, {**predicted.resident, **key.resident}

    def left(self) -> list[str]:
        there = {node.id for node in self._nodes}
        return [name for name, site in list(self.sites.items()) if site.worker.node_id not in there]

    def _device_memory(self) -> int:
        """Bytes that a job may use of each GPU here: what the settings allow, or 0 for a GPU that others use."""
        nodes = [node for node in self._nodes if node.gpus] if self.settings.gpus != 0 else []
        if not nodes or self.settings.backend not in ("auto", "cuda"):
            return 0  # NVML does not tell of another backend's devices
        own = self._nodes[0].id  # this process asks for itself: to start a process for it takes a second
        asked = [
            ray.remote(idle_memory)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
            .remote()
            for node in nodes
            if node.id != own
        ]
        found = [idle_memory()] if own in {node.id for node in nodes} else []
        try:
            idle: int = min([*found, *(answered(ref, patience.FLEET_CLOSES) for ref in asked)])
        except (RayError, TimeoutError):  # another version there, or nobody answers: its start tells of it
            return 0
        return min(idle, self.settings.device_memory or idle)

    def _is_silent(self, node: str) -> bool:
        """Whether no actor there answers now."""
        return self._is_over() or self._reachability.lacks(node)

    def _is_over(self) -> bool:
        """Whether no actor will ever answer."""
        return self.lost or self._over.is_set()

    def queued(self, worker: str) -> bool:
        site = self.sites.get(worker)
        if site is None or not isinstance(site.host, RayTransport) or site.host.placed:
            return False
        node = self._asks[worker][0]
        waits = time.monotonic() - site.host.waits_since >= patience.RAY_QUEUED
        return waits and node in self._governors and not self._reachability.lacks(node)  # else it waits for the node

    def _remark(self, what: str) -> None:
        """Have something told once: all actors of a node say the same."""
        if what not in self.remarks:
            self.remarks.append(what)

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None:
        governor = self._governors.get(worker.node_id or "")  # its actor may be gone by now
        if governor is not None:
            governor.remember.remote(device, reason)

    def share(self, system: ProofSystem) -> tuple[dict[str, ray.ObjectRef], dict[str, MappedFile]]:
        # One copy in the store of this node; Ray brings one to each other node that asks, and actors share it there.
        # (As plain arrays: a map of a file, being a subclass, would be pickled into every actor instead.)
        files = system.shared()
        return {name: ray.put(np.asarray(array)) for name, array in files.items()}, files_of(files)

    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        assert isinstance(host, RayTransport)
        carried = Carried(pickled(spec))

        def opens() -> None:
            self._keep_late(spec.name)
            host.open(number, carried, *shared)

        return opens

    def shutter(self, host: Host, number: int) -> Callable[[], object]:
        assert isinstance(host, RayTransport)
        return partial(host.shut, number)

    def keep(self, system: ProofSystem) -> Callable[[], None]:
        number = next(self._slots)
        with self._membership:
            key = self._predicted(system)
        try:
            self._lease(key, number, list(key.resident))
        except BaseException:
            self._release(key)
            raise
        with self._membership:
            self._extend(key)  # by nodes that joined meanwhile
            self._keys[number] = key
        return lambda: self._release(self._keys.pop(number, None))

    def _lease(self, key: _KeptKey, number: int, nodes: list[str]) -> None:
        """Lease what the key takes on these nodes. Raises ClusterError where that does not fit."""
        governors = self._governors
        asked = {
            node: governors[node].keep.remote(self._name, key.resident[node], str(number))
            for node in nodes
            if key.resident[node] and node in governors
        }
        try:
            for node, ref in asked.items():
                with suppress(RayActorError):  # its node is gone; or it is made anew, and then asked again
                    key.tickets[node] = answered(ref, over=self._is_over)
        except RayTaskError as error:
            if isinstance(error.cause, ClusterError):
                raise ClusterError(str(error.cause)) from None
            raise

    def _keep_late(self, worker: str) -> None:
        """Lease what keys take on the node of a worker that joined after them, unless that is done."""
        node = self._asks[worker][0]
        with self._leasing:
            for number, key in list(self._keys.items()):
                if node not in key.tickets and node in key.resident:
                    self._lease(key, number, [node])
                    if number not in self._keys:  # its job ended meanwhile
                        self._release(key)

    def _release(self, key: _KeptKey | None) -> None:
        for node, ticket in list(key.tickets.items()) if key is not None else ():
            governor = self._governors.get(node)
            if governor is not None:
                governor.release.remote(ticket)

    def _predicted(self, system: ProofSystem) -> _KeptKey:
        """What a key will take, without a lease of it."""
        files = files_bytes(system)
        own = {name: (self.sites[name].worker.node_id or "", nbytes) for name, nbytes in self.residents(system).items()}
        resident = {
            node.id: (files if node.id in self._used else 0)
            + sum(nbytes for where, nbytes in own.values() if where == node.id)
            for node in self._nodes
        }
        return _KeptKey(system, own, resident, {})

    def retire(self, worker: str) -> None:
        super().retire(worker)
        for key in list(self._keys.values()):
            node, own = key.own.pop(worker, ("", 0))
            governor = self._governors.get(node)
            if node in key.tickets and governor is not None:
                key.resident[node] -= own
                governor.shrink_key.remote(key.tickets[node], key.resident[node])

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        reports = []
        for node, governor in self._governors.items():
            if self._is_silent(node):
                continue
            try:
                reports.append({"node": node, **answered(governor.report.remote(began), 2.0)})
            except (RayError, TimeoutError):
                continue  # its node is gone, and its story with it
        return reports

    def close(self, *, now: bool = False) -> None:
        with self._membership:
            self._closing = True  # no node joins any more
        if self.lost:
            self._over.set()
            if not self.started:
                self._have_workers_end()
        elif (self.sites or self._governors or self._coming) and ray.is_initialized():
            for name in [name for name, site in self.sites.items() if not _placed(site)]:
                super().retire(name)  # it would be asked to close when it has its resources
            super().close(now=now)
            self._stop_looking()
            self._leave()
        self._stop_looking()  # its nodes may all have left
        self._governors = {}
        self._stack.close()

    def _stop_looking(self) -> None:
        self._over.set()
        if self._beating is not None and not self.lost:  # a lost head answers nothing: who waits for it ends late
            self._beating.join(patience.FLEET_CLOSES)
            self._beating = None

    def _have_workers_end(self) -> None:
        """Have all workers end that can be reached: without a head nobody else ends them for a minute."""
        left = []
        for site in self.sites.values():
            if isinstance(site.host, RayTransport) and not self._reachability.lacks(site.worker.node_id or ""):
                with suppress(RayError):
                    left.append(site.host.leave())
        wait(left, patience.RAY_ORPHANS)

    def _choice(self, spot: Place) -> BackendChoice:
        assert spot.backend is not None
        return BackendChoice(
            spot.backend,
            threads=spot.threads,
            share=spot.share,
            budget=self.settings.device_memory,
            host_threads=spot.host_threads,
        )

    def _join(self, nodes: list[Node]) -> None:
        """Have each node's governor count us in, from here to `_leave`; where one is about to end, or was left by jobs
        that were killed, make a new one. A node where that fails is gone, or does without. Raises ClusterError when one
        does not answer."""
        waiting, late = {node.id: node for node in nodes}, time.monotonic() + patience.FLEET_CLOSES
        while waiting:
            asked = {node: self._governors[node].attend.remote(self._name, self._driver) for node in waiting}
            for node, ref in asked.items():
                try:
                    if answered(ref, self.settings.start_timeout):
                        del waiting[node]
                except TimeoutError:
                    raise ClusterError(f"the governor of {waiting[node].address} does not answer") from None
                except RayError:
                    continue
            for node in waiting:
                ray.kill(self._governors.pop(node), no_restart=True)
            if not waiting or time.monotonic() > late:
                break
            time.sleep(patience.RAY_NODES / 10)  # until the name is free
            self._governors |= {node: self._govern(where) for node, where in waiting.items()}
        beating = threading.Thread(target=self._beat, name="distprove-driver", daemon=True)
        beating.start()
        self._beating = beating

    def _beat(self) -> None:
        """Say now and then that we live, and look for nodes that joined or left, until the end."""
        due, attended = time.monotonic() + patience.RAY_NODES, time.monotonic() + patience.GOVERNOR_ATTENDED
        while not self._over.wait(patience.RAY_LOOK):
            if time.monotonic() >= attended:
                attended = time.monotonic() + patience.GOVERNOR_ATTENDED
                for node in list(self._governors):
                    with suppress(Exception):  # there is another time
                        self._attend(node)
            if time.monotonic() < due:
                continue
            due = time.monotonic() + patience.RAY_NODES
            with suppress(Exception):  # whatever it met, the next look may find it gone
                self._look_for_nodes()

    def _attend(self, node: str) -> None:
        """Say to a node's governor that we live, unless it has not answered yet. One that is gone is made anew: where
        the network of its node was cut, it took us for dead. What keys take is leased of it again."""
        before = self._said.get(node)
        if before is not None and not before.done():
            return
        lost = before is not None and (before.exception() is not None or not before.result())
        if lost:
            where = next((each for each in self._nodes if each.id == node), None)
            if where is None or not answering([where], patience.RAY_LOOK):
                return
            self._governors = {**self._governors, node: self._govern(where)}
        governor = self._governors[node]
        self._said[node] = governor.attend.remote(self._name, self._driver, known=not lost).future()
        for number, key in list(self._keys.items()) if lost else ():
            if key.resident.get(node):
                asked = governor.keep.remote(self._name, key.resident[node], str(number)).future()
                asked.add_done_callback(partial(self._keep_again, key, number, node))

    def _keep_again(self, key: _KeptKey, number: int, node: str, asked: Future[int]) -> None:
        """Note what a governor that was made anew has leased for a key. One that only seemed to be gone had leased it
        before, and takes that back; for another one that ticket means nothing."""
        before = key.tickets.pop(node, None)
        if asked.exception() is None:
            key.tickets[node] = asked.result()
            if before is not None and node in self._governors:
                self._governors[node].release.remote(before)
            if number not in self._keys:  # its job ended meanwhile
                self._release(key)

    def _look_for_nodes(self) -> None:
        """Have the governors of nodes that joined count us in: then they are there for `grow`. Forget those that left,
        which come back as others, if they do."""
        found = cluster_nodes()
        there = {node.id for node in found}
        with self._membership:
            if self._closing:
                return
            known = {node.id for node in (*self._nodes, *self._joined)}
            # New lists and dictionaries: others read them without the lock.
            self._nodes = [node for node in self._nodes if node.id in there]
            self._joined = [node for node in self._joined if node.id in there]
            gone = known - there
            self._governors = {node: governor for node, governor in self._governors.items() if node not in gone}
        self._coming = {node: governor for node, governor in self._coming.items() if node in there}
        for node in found:
            if node.id in known:
                continue
            governor = self._coming[node.id] = self._govern(node)
            with suppress(RayError, TimeoutError):  # it is gone again, or not up yet: there is another look
                asked = governor.attend.remote(self._name, self._driver)
                if answered(asked, patience.RAY_NODES):
                    with self._membership:
                        self._governors = {**self._governors, node.id: governor}
                        self._joined = [*self._joined, node]
                        del self._coming[node.id]

    def _leave(self) -> None:
        """End our part in the governors, and those that nobody else uses."""
        there = [governor for node, governor in self._governors.items() if not self._reachability.lacks(node)]
        coming = list(self._coming.values())
        left = {governor.leave.remote(self._name): governor for governor in (*there, *coming)}
        done, late = ray.wait(list(left), num_returns=len(left), timeout=patience.FLEET_CLOSES) if left else ([], [])
        for ref in late:
            if left[ref] in coming:  # whoever else may wait for it makes another
                ray.kill(left[ref], no_restart=True)
        for ref in done:
            with suppress(RayError):  # its node is gone
                if ray.get(ref):
                    ray.kill(left[ref], no_restart=True)

    def verifiers(self, system: ProofSystem) -> Verifiers | None:
        """Verifiers on each node that can verify something, which is what another node proves, or else beside the
        driver; None where threads will do."""
        homes = [site.worker.node_id for site in self.sites.values()] if system.verifies_in_python else []
        found = []
        for node in self._nodes:
            for index in range(how_many(provers_for(node, self._nodes, homes), int(node.cpus))):
                spec = VerifierSpec(f"verifier-{node.address}-{index}", system)
                silent = partial(self._is_silent, node.id)
                transport = RayTransport(_actor(spec, node), spec, silent, self._is_over, self._driver)
                found.append(Verifier(node.id, transport, silent=silent))
        return Verifiers(system, found, self.settings) if found else beside_driver(system, len(homes), self.settings)

    def _govern(self, node: Node) -> Any:
        """The node's governor: the one that another job made, or a new one of our settings, which leaves room for the
        keys that are expected."""
        settings = self.settings
        options = ray.remote(NodeGovernor).options(
            name=governor_name(node.id),
            namespace=NAMESPACE,
            lifetime="detached",  # other jobs may use it when this one is over
            get_if_exists=True,
            num_cpus=0,
            max_restarts=0,  # whoever uses it makes another
            max_concurrency=1000,
            max_pending_calls=PENDING,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        keys = self._expected.get(node.id, max(self._expected.values(), default=0))
        waits = patience.GOVERNOR_UNATTENDED
        return options.remote(threads_of(node, settings), settings.memory, keys, dict(settings.throttle), waits=waits)


def _present(nodes: list[Node]) -> list[Node]:
    """The nodes, this one's first, without those that do not answer: Ray may not know yet that they are gone, and would
    keep the job waiting until it does."""
    found = answering(nodes[1:], patience.RAY_CONNECTS)
    return [node for index, node in enumerate(nodes) if not index or node.id in found]


def _placed(site: Site) -> bool:
    return isinstance(site.host, RayTransport) and site.host.placed


def _actor(
    spec: HostSpec | VerifierSpec, node: Node, num_cpus: float = 0, num_gpus: float = 0, calls: int = CALLS
) -> Any:
    """Start the actor that serves `spec` on that node."""
    options = ray.remote(concurrency_groups={ENDING: 1})(RemoteWorker).options(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=calls,
        max_pending_calls=PENDING,
        # Hard: a worker that moved to another node could take the room of the workers planned there. When a node is
        # gone, its workers are retired.
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
    )
    if isinstance(spec, VerifierSpec):
        return options.remote(spec.name, has_fork_server=False)
    ahead = ahead_of(spec.choice.name, spec.choice.device) if num_gpus else None
    return options.remote(spec.name, has_fork_server=True, ahead=ahead)


def answered(ref: ray.ObjectRef, seconds: float = math.inf, over: Callable[[], bool] = lambda: False) -> Any:
    """The answer. Raises TimeoutError, and ClusterError once it is `over`. Not `ray.get`: Ray ends the process of a
    thread that comes back from it after `ray.shutdown`."""
    answer, late = ref.future(), time.monotonic() + seconds
    while not wait([answer], min(patience.RAY_GLANCE, seconds)).done:
        if over():
            raise ClusterError("Ray is lost")
        if time.monotonic() > late:
            raise TimeoutError
    return answer.result()


def told(error: RayError) -> BaseException:
    """The driver's own error for one of Ray's."""
    if isinstance(error, ActorUnschedulableError):
        return ClusterError("its node left the cluster")
    if isinstance(error, PendingCallsLimitExceeded):
        return WorkerDied("its actor answers no calls")
    cause = error.cause if isinstance(error, RayTaskError) else None
    for candidate in (error, cause):
        if isinstance(candidate, (RayActorError, WorkerCrashedError)):
            # Ray's own account of the end (out of memory, a signal, a module that is missing there): its last line.
            lines = [line.strip() for line in str(candidate).splitlines() if line.strip()]
            return WorkerDied(lines[-1][:200] if lines else type(candidate).__name__)
    return cause if isinstance(cause, BaseException) else error
