"""The executor over Ray: actors for workers, object references for witnesses, keys once per node."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from queue import Empty
from typing import Any

import numpy as np
import ray
from ray.exceptions import (
    GetTimeoutError,
    ObjectLostError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.backends import BackendChoice
from actors.leases import NAMESPACE, Governed, governor_name
from actors.remote import Carried, RemoteProver, RemoteSynthesiser
from cluster.connect import cluster_nodes, connect
from cluster.executors import Executor, Role, Work, Worker, keeps_lease
from cluster.governor import NodeGovernor, predicted_bytes
from cluster.placement import Node, Place, place
from cluster.policy import policy_for
from cluster.residents import Residents, of_node, of_prover
from cluster.tasks import Finished, Kind, Task, WorkerDied, WorkLost
from cluster.verifiers import verifiers_for
from distprove.errors import ClusterError
from distprove.inflight import Timed
from distprove.job import ExecutorSettings
from distprove.machine import usable_threads
from distprove.phases import Phase
from distprove.place import Placing, parse_place
from distprove.system import Partition, PartitionProof, ProofSystem

POLL = 0.01
"""Seconds between looks at the threads of this process while Ray is waited for."""
BEAT = 5.0
"""Seconds between the signs of life that governors are given."""
PATIENCE = 10.0
"""Seconds that provers have to give back their devices at the end, before their processes are ended."""


class RayExecutor(Executor):
    """Workers are actors. Starts or joins Ray in `start`, and in `close` stops what it started."""

    kind = "ray"

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._stack = ExitStack()
        self._actors: dict[str, Any] = {}
        self._governors: dict[str, Any] = {}
        self._shared: dict[str, ray.ObjectRef] = {}
        self._running: dict[ray.ObjectRef, tuple[Task, float]] = {}
        self._witnesses: dict[str, ray.ObjectRef] = {}
        self._homes: dict[str, str] = {}
        """The node of each worker."""
        self._numbers = itertools.count(1)
        self._errands: dict[str, tuple[str, int]] = {}
        """What each synthesiser was asked for last, by which its governor knows it."""
        self._beside = 0
        """Tasks at work in this process."""
        self._name = f"job-{secrets.token_hex(8)}"
        """Among the drivers that share the governors."""
        self._slots: dict[str, int] = {}
        """Partitions that our provers take at once, by node."""
        self._over = threading.Event()
        self._beating: threading.Thread | None = None
        self._resident: dict[str, Residents] = {}
        """What the workers of a node keep there, by node."""
        self._own: dict[str, tuple[str, Residents]] = {}
        """A prover's node, and its part of that."""
        self._tickets: dict[str, int] = {}
        """Under which it is leased, by node."""
        self._here: Governed | None = None
        """The governor of the node that this process is on."""

    def start(self, system: ProofSystem) -> list[Worker]:
        self._system = system
        placing = parse_place(self.settings.place, system.name)
        shared = system.shared()
        files = sum(array.nbytes for array in shared.values())
        self.waits_for("Ray")
        self._stack.enter_context(connect(self.settings, files + (256 << 20)))
        nodes = cluster_nodes()
        provers, synthesisers = place(nodes, self.settings)
        self._here = Governed(self._name)
        self.waits_for(f"places for {len(provers)} provers and {len(synthesisers)} synthesisers")
        choices = [self._choice(spot, placing) for spot in provers]
        kept = [(spot.node.id, of_prover(system, choice)) for spot, choice in zip(provers, choices, strict=True)]
        used = {spot.node.id for spot in (*provers, *synthesisers)}
        for node in nodes:
            here = [own for where, own in kept if where == node.id]
            self._slots[node.id] = len(here) * self.settings.in_flight
            self._resident[node.id] = of_node(files if node.id in used else 0, here)
            self._governors[node.id] = self._govern(node)
        workers = []
        for index, (spot, choice) in enumerate(zip(provers, choices, strict=True)):
            name = f"prover-{index}"
            workers.append(self._hire(name, Role.PROVER, spot, RemoteProver, Carried(system), choice, self._name))
            self._own[name] = kept[index]
        for index, spot in enumerate(synthesisers):
            name = f"synthesiser-{index}"
            arguments = (RemoteSynthesiser, Carried(system), spot.threads, self._name)
            workers.append(self._hire(name, Role.SYNTHESISER, spot, *arguments))
        self._attend(nodes)
        self._keep_keys()
        self._verifying = min(len(provers), usable_threads())
        self.verifiers = verifiers_for(system, len(provers))
        # One copy in the store of this node; Ray brings one to each other node that asks, and actors share it there.
        # (As plain arrays: a map of a file, being a subclass, would be pickled into every actor instead.)
        self._shared = {name: ray.put(np.asarray(array)) for name, array in shared.items()}
        return workers

    def load(self, worker: Worker) -> None:
        self._submit(Task(Kind.LOAD, worker.id, None), self._actors[worker.id].load.remote(self._shared))

    def synthesise(self, worker: Worker, partition: Partition) -> None:
        assert self._system is not None, "start first"
        need = predicted_bytes(self._system, partition)
        errand = (worker.id, next(self._numbers)) if keeps_lease(self._system) else None
        facts, witness = self._actors[worker.id].synthesise.remote(partition, need, errand)
        self._witnesses[partition.name] = witness
        if errand is not None:
            self._errands[worker.id] = errand
        self._submit(Task(Kind.SYNTHESISE, worker.id, partition.name), facts)

    def commit(self, worker: Worker, partition: Partition, work: Work) -> None:
        ref = self._actors[worker.id].commit.remote(partition, work.handle)
        self._submit(Task(Kind.COMMIT, worker.id, partition.name), ref)

    def prove(self, worker: Worker, partition: Partition, work: Work, challenge: bytes | None) -> None:
        ref = self._actors[worker.id].prove.remote(partition, work.handle, challenge)
        self._submit(Task(Kind.PROVE, worker.id, partition.name), ref)

    def check(self, worker: Worker) -> None:
        self._submit(Task(Kind.CHECK, worker.id, None), self._actors[worker.id].check.remote())

    def diagnose(self, worker: Worker, partition: Partition, work: Work) -> None:
        ref = self._actors[worker.id].diagnose.remote(partition, work.handle)
        self._submit(Task(Kind.DIAGNOSE, worker.id, partition.name), ref)

    def verify(self, proof: PartitionProof) -> None:
        self._beside += 1
        super().verify(proof)

    def keep(self, proof: PartitionProof, store: Callable[[PartitionProof], None]) -> None:
        self._beside += 1
        super().keep(proof, store)

    def verifying(self) -> AbstractContextManager[object]:
        return nullcontext() if self._here is None else self._here.lease(phase=Phase.VERIFICATION, threads=1)

    def wait(self, timeout: float) -> Finished | None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                finished = self._done.get_nowait()
            except Empty:
                pass
            else:
                self._beside -= 1
                return finished
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            pause = min(left, POLL) if self._beside else left
            if not self._running:
                time.sleep(min(pause, POLL))
                continue
            ready, _ = ray.wait(list(self._running), num_returns=1, timeout=pause)
            if ready:
                return self._collect(ready[0])

    def retire(self, worker: Worker) -> None:
        ray.kill(self._actors[worker.id], no_restart=True)
        node, own = self._own.pop(worker.id, ("", Residents(0)))
        if node in self._tickets:
            left = self._resident[node] = self._resident[node].without(own)
            self._governors[node].shrink_key.remote(self._tickets[node], left.memory, left.pinned)

    def forget(self, work: Work) -> None:
        governor = self._governors.get(work.lease[0]) if work.lease is not None else None
        if governor is not None and work.lease is not None:
            governor.release.options(max_task_retries=0).remote(work.lease[1])

    def _abandon(self, worker: str) -> None:
        """A synthesiser's answer is lost: so is the ticket of what it may have handed on."""
        governor, errand = self._governors.get(self._homes[worker]), self._errands.get(worker)
        if governor is not None and errand is not None:
            governor.abandon.options(max_task_retries=0).remote(self._name, errand)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        reports = []
        for node, governor in self._governors.items():
            try:
                reports.append({"node": node, **ray.get(governor.report.remote(began), timeout=2.0)})
            except (RayError, GetTimeoutError):
                continue  # its node is gone, and its story with it
        return reports

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)  # first: the verifier's lease is of a governor that ends here
        if self.verifiers is not None:
            self.verifiers.close()
        if (self._actors or self._governors) and ray.is_initialized():
            if not now:
                closing = [a.close.remote() for name, a in self._actors.items() if name.startswith("prover-")]
                ray.wait(closing, num_returns=len(closing), timeout=PATIENCE)
            for actor in self._actors.values():
                ray.kill(actor, no_restart=True)
            self._leave()
        self._actors, self._governors, self._running, self._witnesses, self._shared = {}, {}, {}, {}, {}
        self._stack.close()

    def _choice(self, spot: Place, placing: Placing) -> BackendChoice:
        assert spot.backend is not None
        return BackendChoice(
            spot.backend,
            threads=spot.threads,
            share=spot.share,
            budget=self.settings.device_memory,
            placing=placing,
            host_threads=spot.host_threads,
        )

    def _attend(self, nodes: list[Node]) -> None:
        """Have each node's governor count us in, from here to `_leave`; where one is about to end, make a new one. A
        node where that fails is gone, or does without. Raises ClusterError when one does not answer."""
        waiting, late = {node.id: node for node in nodes}, time.monotonic() + PATIENCE
        while waiting:
            asked = {node: self._governors[node].attend.remote(self._name, self._slots[node]) for node in waiting}
            for node, ref in asked.items():
                try:
                    if ray.get(ref, timeout=self.settings.start_timeout):
                        del waiting[node]
                except GetTimeoutError:
                    raise ClusterError(f"the governor of {waiting[node].address} does not answer") from None
                except RayError:
                    continue
            for node in waiting:
                ray.kill(self._governors.pop(node), no_restart=True)
            if not waiting or time.monotonic() > late:
                break
            time.sleep(BEAT / 10)  # until the name is free
            self._governors |= {node: self._govern(where) for node, where in waiting.items()}
        self._beating = threading.Thread(target=self._beat, name="distprove-driver", daemon=True)
        self._beating.start()

    def _beat(self) -> None:
        """Say that we live, until the end."""
        while not self._over.wait(BEAT):
            with suppress(RayError):
                for node, governor in self._governors.items():
                    governor.attend.options(max_task_retries=0).remote(self._name, self._slots[node])

    def _leave(self) -> None:
        """End our part in the governors, and those that nobody else uses."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
            self._beating = None
        left = {governor.leave.remote(self._name): governor for governor in self._governors.values()}
        done, _ = ray.wait(list(left), num_returns=len(left), timeout=PATIENCE) if left else ([], [])
        for ref in done:
            with suppress(RayError):  # its node is gone
                if ray.get(ref):
                    ray.kill(left[ref], no_restart=True)

    def _keep_keys(self) -> None:
        """Lease what the workers will keep, on all nodes, before anything is loaded. Raises ClusterError.

        For as long as there are workers, those that die and come back included, and before there are witnesses: a
        prover never waits for memory that witnesses hold until they are proven.
        """
        asked = {
            node: self._governors[node].keep.remote(self._name, resident.memory, resident.pinned)
            for node, resident in self._resident.items()
            if resident.memory and node in self._governors
        }
        try:
            self._tickets = dict(zip(asked, ray.get(list(asked.values())), strict=True))
        except RayTaskError as error:
            if isinstance(error.cause, ClusterError):
                raise ClusterError(str(error.cause)) from None
            raise

    def _hire(self, name: str, role: Role, spot: Place, cls: type, *arguments: Any) -> Worker:
        actor = ray.remote(cls).options(
            num_cpus=spot.num_cpus,
            num_gpus=spot.num_gpus,
            max_restarts=-1,
            max_task_retries=0,
            # One more than the partitions in flight, for a diagnosis or the end.
            max_concurrency=self.settings.in_flight + 1 if role is Role.PROVER else 1,
            # Hard: a worker that moved to another node could take the room of the workers planned there, and a prover
            # without a synthesiser waits for ever. When a node is gone, its workers are retired.
            scheduling_strategy=NodeAffinitySchedulingStrategy(spot.node.id, soft=False),
        )
        self._actors[name] = actor.remote(*arguments)
        self._homes[name] = spot.node.id
        return Worker(name, role, spot.node.address)

    def _govern(self, node: Node) -> Any:
        """The node's governor: the one that another job made, or a new one of our settings."""
        settings = self.settings
        options = ray.remote(NodeGovernor).options(
            name=governor_name(node.id),
            namespace=NAMESPACE,
            lifetime="detached",  # other jobs may use it when this one is over
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=1000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        threads = min(settings.threads or int(node.cpus) or 1, max(1, int(node.cpus)))
        policy = policy_for(settings, threads)
        governor = options.remote(threads, settings.memory, policy, keys=self._resident[node.id].memory)
        governor.start.remote()
        return governor

    def _submit(self, task: Task, ref: ray.ObjectRef) -> None:
        self._running[ref] = (task, time.time())

    def _collect(self, ref: ray.ObjectRef) -> Finished:
        task, submitted = self._running.pop(ref)
        witness = self._witnesses.pop(task.partition or "", None) if task.kind is Kind.SYNTHESISE else None
        finished = Finished(task, started=submitted)
        try:
            timed: Timed = ray.get(ref)
        except RayError as error:
            finished.error, finished.ended = _told(error), time.time()
            if task.kind is Kind.SYNTHESISE and isinstance(finished.error, (WorkerDied, WorkLost)):
                self._abandon(task.worker or "")
            return finished
        finished.started, finished.ended = timed.started, timed.ended
        finished.value = Work(witness, *timed.value) if task.kind is Kind.SYNTHESISE else timed.value
        return finished


def _told(error: RayError) -> BaseException:
    """What Ray's error means to the driver."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    for candidate in (error, cause):
        if isinstance(candidate, ObjectLostError):
            return WorkLost(type(candidate).__name__)
        if isinstance(candidate, (RayActorError, WorkerCrashedError)):
            # Ray's own account of the end (out of memory, a signal, a module that is missing there): its last line.
            lines = [line.strip() for line in str(candidate).splitlines() if line.strip()]
            return WorkerDied(lines[-1][:200] if lines else type(candidate).__name__)
    return cause if isinstance(cause, BaseException) else error
