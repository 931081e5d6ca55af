"""A world without threads, processes or sleep: it carries out the machine's effects, and chance decides what happens
next. After every step it checks what must hold always, and at the end that every job ended with its reason.

All chance comes as numbers from `Choices`, so that a schedule that fails can be replayed and shortened.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from actors import patience
from actors.protocol import (
    Batch,
    Interval,
    Loaded,
    Order,
    Outcome,
    PartitionId,
    Place,
    Timed,
    UnderWay,
    WitnessGone,
    WorkerDied,
    WorkerStuck,
    WorkKind,
)
from cluster.record.report import PartitionReport, Report
from cluster.record.timeline import Session
from cluster.scheduler import events as e
from cluster.scheduler.ahead import RANK
from cluster.scheduler.barrier import draw_challenge
from cluster.scheduler.jobs import Barrier, Job
from cluster.scheduler.machine import HANDLERS, Machine
from cluster.scheduler.rules import PROVEN, Stage
from cluster.scheduler.workers import SlotStage, WorkerHandle
from distprove.errors import ClusterError, InputError
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof
from kernels.errors import BackendError, OutOfMemory

DIGEST = bytes(32)


class Choices:
    """Numbers that decide what happens: drawn at random and recorded, or replayed. 0 is always the most usual thing."""

    def __init__(self, seed: int, replayed: Sequence[int] | None = None) -> None:
        self.random = random.Random(seed).random
        self.replayed = replayed
        self.made: list[int] = []

    def below(self, bound: int) -> int:
        if self.replayed is None:
            made = int(self.random() * bound)
        else:
            at = len(self.made)
            made = self.replayed[at] % bound if at < len(self.replayed) else 0
        self.made.append(made)
        return made

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent


class Plain:
    """A proof system of which only the scheduler's questions are answered."""

    name = "tiny"
    needs_barrier = False

    def key_digest(self) -> bytes:
        return DIGEST


class Checked(Plain):
    def check(self, shared: Any, backend: Any) -> None:
        raise AssertionError("nobody checks here")


class WithBarrier(Plain):
    needs_barrier = True


class Draws(WithBarrier):
    def draw_challenge(self, commitments: Sequence[bytes]) -> bytes:
        return b"drawn of " + b"".join(commitments)

    def made_under(self, proof: PartitionProof) -> tuple[bytes, bytes]:
        return proof.data["commitment"], proof.data["challenge"]


SYSTEMS: tuple[Any, ...] = (Plain(), Checked(), WithBarrier(), Draws())


def tree(leaves: int) -> list[tuple[str, ...]]:
    """What each partition of a tree needs: leaves, then nodes of up to four, then a root."""
    needs: list[tuple[str, ...]] = [() for _ in range(leaves)]
    level = list(range(leaves))
    while len(level) > 1:
        above = []
        for first in range(0, len(level), 4):
            needs.append(tuple(f"p{i}" for i in level[first : first + 4]))
            above.append(len(needs) - 1)
        level = above
    return needs


def make_job(
    name: str,
    key: str = "key",
    count: int = 1,
    *,
    system: Any = SYSTEMS[0],
    rank: int = 0,
    max_retries: int = 3,
    needs: Sequence[tuple[str, ...]] = (),
    holds_key: bool = False,
    done: Sequence[str] = (),
    barrier: Barrier | None = None,
    listens: bool = True,
    ahead: bool = False,
) -> Job:
    """A job of so many partitions, named p0 and so on."""
    needs = needs or [()] * count
    plan = [Partition(i, f"p{i}", DIGEST, {}, name, needs[i]) for i in range(len(needs))]
    report = Report("tiny", {}, "world", "", [PartitionReport(p.name) for p in plan], made_by={})
    if barrier is None and done and system.needs_barrier:
        barrier = barrier_of(system, plan)
    proofs = {p.name: good_proof(p, barrier[1] if barrier and p.commits else None) for p in plan if p.name in done}
    job = Job(name, key, system, plan, report, Session(0.0), max_retries, rank, proofs, barrier, holds_key=holds_key)
    job.listens, job.ahead = listens, ahead
    return job


def barrier_of(system: Any, plan: Sequence[Partition]) -> Barrier:
    """The barrier of a job, as a run has it."""
    commitments = {p.name: commitment_of(p) for p in plan if p.commits}
    return commitments, draw_challenge(system, commitments)


def good_proof(partition: Partition, challenge: bytes | None = None, good: bool = True) -> PartitionProof:
    data = {"job": partition.job, "good": good, "challenge": challenge, "commitment": commitment_of(partition)}
    data["of"] = partition.children
    return PartitionProof(partition.name, partition.digest, (), data)


def commitment_of(partition: Partition) -> bytes:
    return f"{partition.job} {partition.name};".encode()


TIMED = Timed({"device": "tiny", "uuid": ""}, 0.0, 0.0)


def loaded(worker: str, synthesisers: Sequence[str], uuid: str = "", device: str = "tiny", pid: int = 0) -> Loaded:
    timed = Timed({"device": device, "uuid": uuid, "gpus": [uuid or worker], "pid": pid}, 0.0, 0.01)
    return Loaded(timed, dict.fromkeys(synthesisers, timed))


class SimSlot:
    """What a worker really has of a key."""

    __slots__ = (
        "batch",
        "begun",
        "epoch",
        "forgotten",
        "key",
        "numbers",
        "orders",
        "permitted",
        "synthesisers",
        "told",
    )

    def __init__(self, key: str, epoch: int, permitted: bool, synthesisers: Sequence[str]) -> None:
        self.key, self.epoch, self.permitted = key, epoch, permitted
        self.orders: dict[PartitionId, Order] = {}
        self.begun: dict[PartitionId, str] = {}
        self.batch: Batch | None = None
        self.forgotten = 0
        self.numbers = itertools.count(1)
        self.told: deque[e.News] = deque()
        """News on their way, in order."""
        self.synthesisers = list(synthesisers)


class SimWorker:
    __slots__ = ("alive", "handle", "life", "loading", "lost", "silent", "slots", "uuid")

    def __init__(self, handle: WorkerHandle, uuid: str) -> None:
        self.handle, self.uuid = handle, uuid
        self.alive, self.silent, self.lost, self.life = True, False, False, 0
        self.slots: dict[str, SimSlot] = {}
        self.loading: dict[str, e.Load] = {}


TWICE = tuple(each for each in HANDLERS if each is not e.JobAdded)
"""Events that may be told twice."""


class Wrong(AssertionError):
    """The machine did what it must not do."""


def require(holds: Any, what: str, *about: Any) -> None:
    """`about` is written into `what`, in case that it does not hold."""
    if not holds:
        raise Wrong(what.format(*about))


class World:
    """Carries out the machine's effects by chance, and checks after each step what must hold."""

    def __init__(self, choices: Choices, *, check_all: bool = False) -> None:
        self.choices = choices
        self.check_all = check_all
        pick = choices.below
        self.standing = pick(4) != 3
        parallel = (None, None, None, 1, 2)[pick(5)]
        patient = (None, 30.0)[pick(2)]
        self.settings = ExecutorSettings(
            local=True, hang_timeout=3.0, start_timeout=20.0, in_flight=1 + pick(3), parallel=parallel,
            wait_for_nodes=patient,
        )  # fmt: skip
        self.machine = Machine(self.settings, standing=self.standing)
        self.state = self.machine.state
        self.now = 100.0
        self.faults = (0, 0, 2, 6, 15)[pick(5)]
        """Faults that may still happen."""
        self.lies = (0, 30)[pick(2)]
        """How many in a hundred proofs do not hold, as long as faults may happen."""
        self.injected = 0
        self.slow = False
        """Whether time passed while something was under way, which may then count as late or hung."""
        self.capacity = 1 + pick(3)
        """Keys that fit on a device."""
        self.budget = 1 + pick(3)
        """Keys that may be open at a time."""
        self.workers: dict[str, SimWorker] = {}
        self.open: set[str] = set()
        self.closing: set[str] = set()
        self.pending: list[Callable[[], e.Event | None]] = []
        """What will happen at some time, in any order: each gives its event, or None."""
        self.jobs: dict[str, Job] = {}
        self.ended: dict[str, BaseException | None] = {}
        self.left: set[Job] = set()
        self.holder: dict[PartitionId, str] = {}
        self.good: set[PartitionId] = set()
        self.kept: dict[PartitionId, PartitionProof] = {}
        self.stored: dict[str, tuple[dict[str, bytes], bytes]] = {}
        self.checked: set[str] = set()
        self.turns: dict[str, int] = {}
        self.places: dict[PartitionId, Place] = {}
        """The place of each partition's last order."""
        self.events: list[e.Event] = []
        self.buffer: list[e.Event] = []
        self.names = 0
        self.fleet = 0
        """Number of fleets that were lost. The next one has workers of the same names."""
        self.keeping: list[tuple[Job, PartitionId, PartitionProof]] = []
        """Verified proofs that are not on disk yet."""
        self.prompt = (3, 2, 0)[pick(3)]
        """How often news arrive at once, in four."""
        self.more_sessions = pick(3)
        """Times that a job may be resumed."""
        self.more_jobs = 1 + pick(4)
        self.more_nodes = pick(3)
        self.grows = bool(self.more_nodes)
        self.steps = 0
        self.to_come: tuple[Sequence[e.Effect], int] = (), 0
        """The effects of now, and which is next."""
        self.batched = False
        """Whether the machine handled several events at once."""
        self.draining = False
        self.keys = (
            [(f"k{i}", SYSTEMS[pick(4)]) for i in range(1 + pick(3))] if self.standing else [("k", SYSTEMS[pick(4)])]
        )
        if not self.standing:
            self.more_jobs = 1
        self.join(1 + pick(3))
        self.add_job()

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self, most: int = 300) -> int:
        """Let things happen until all is over; the number of events."""
        for _ in range(most):
            if not self.step():
                break
        self.drain()
        return len(self.events)

    def step(self) -> bool:
        """One thing happens; False where nothing is left to."""
        pick = self.choices.below
        what = pick(16)
        if what < 5 and self.pending:
            self.deliver_one()
        elif what < 11 and self.work():
            pass
        elif what == 11 and self.standing and pick(3) == 2:
            self.send(e.KeyPutAway(self.keys[pick(len(self.keys))][0]))
        elif what == 12 and self.more_jobs:
            self.add_job()
        elif (what == 13 and self.trouble()) or (what == 15 and self.resume()):
            pass
        elif what == 14:
            self.look(2.0)
        elif self.pending:
            self.deliver_one()
        elif not self.work():
            if self.more_jobs:
                self.add_job()
            else:
                self.flush()
                return bool(self.pending) or self.busy()
        return True

    def busy(self) -> bool:
        return any(slot.orders or slot.batch for w in self.workers.values() if w.alive for slot in w.slots.values())

    def drain(self) -> None:
        """All that may happen happens, without further faults, until nothing is left."""
        self.draining, self.faults, self.grows = True, 0, False
        idle = 0
        while idle < 60:
            self.flush()
            if self.pending:
                self.deliver_one()
            elif self.more_jobs:
                self.add_job()
            elif self.work():
                pass
            elif self.state.jobs or self.buffer:
                idle += 1
                self.look(2.0)
                if not self.state.workers:
                    self.join(1)
                continue
            else:
                break
            idle = 0
        self.flush()
        self.at_the_end()

    def send(self, event: e.Event) -> None:
        self.buffer.append(event)
        how = self.choices.below(32)
        if how == 31 and isinstance(event, TWICE):
            self.buffer.append(event)
        if how < 24:
            self.flush()

    def flush(self) -> None:
        """Have the machine handle what happened, and do what it says."""
        if not self.buffer:
            return
        found, self.buffer = self.buffer, []
        self.events += found
        self.batched = len(found) > 1
        self.now += 0.01
        for event in found:
            self.note(event)
        effects = self.machine.handle(found, self.now, self.now)
        for number, effect in enumerate(effects, 1):
            self.to_come = effects, number
            DO[type(effect)](self, effect)
        self.steps += 1
        if self.check_all or self.steps % 8 == 0:
            self.check_state()

    def note(self, event: e.Event) -> None:
        """What the machine is told frees partitions from their workers."""
        kind = type(event)
        if kind is e.News:
            assert isinstance(event, e.News)
            worker = self.state.workers.get(event.worker)
            key = self.state.keys.get(event.key)
            if worker is not None and key is not None and worker.slot(event.key).epoch == event.epoch:
                for id in [*(o.id for o in event.batch.outcomes), *event.batch.returned]:
                    self.holder.pop(id, None)
        elif isinstance(event, (e.Died, e.LoadFailed, e.KeyChecked)):
            error = event.result if isinstance(event, e.KeyChecked) else event.error
            worker = self.state.workers.get(event.worker)
            if isinstance(error, WorkerDied) and worker is not None and worker.slot(event.key).epoch == event.epoch:
                self.free(event.worker)
        elif kind is e.FleetLost:
            self.holder.clear()

    def free(self, worker: str, job: str | None = None) -> None:
        for id in [id for id, where in self.holder.items() if where == worker and job in (None, id.job)]:
            del self.holder[id]

    # -- things that happen -----------------------------------------------------------------------------------------

    def fault(self, percent: int) -> bool:
        """Whether something goes wrong here."""
        if self.faults <= 0 or not self.choices.chance(percent):
            return False
        self.faults -= 1
        self.injected += 1
        return True

    def deliver_one(self) -> None:
        at = self.choices.below(len(self.pending))
        self.pending[at], self.pending[-1] = self.pending[-1], self.pending[at]
        event = self.pending.pop()()
        if event is not None:
            self.send(event)

    def join(self, count: int) -> None:
        new: list[WorkerHandle] = []
        for _ in range(count):
            name = f"w{self.names}"
            self.names += 1
            node = f"n{self.choices.below(2)}"
            handle = WorkerHandle(name, node, tuple(f"{name}s{i}" for i in range(1 + self.choices.below(2))))
            self.workers[name] = SimWorker(handle, ("", f"GPU-{name}")[self.choices.below(2)])
            new.append(handle)
        self.send(e.Joined(new))

    def add_job(self) -> None:
        pick = self.choices.below
        self.more_jobs -= 1
        key, system = self.keys[pick(len(self.keys))]
        if self.standing and pick(5) == 4:
            self.begin(make_job(f"a{len(self.jobs)}", key, 0, system=system, rank=RANK, ahead=True))
            return
        kind = pick(8)
        count = (1, 2, 3, 4, 5, 6, 12, 30)[kind] if not self.standing or pick(3) == 2 else 1 + pick(3)
        needs: Sequence[tuple[str, ...]] = ()
        if pick(4) == 3:
            needs = tree(1 + pick(9))
        retries = (3, 0, 1)[pick(3)]
        holds = self.standing and pick(3) == 2
        done = ["p0"] if pick(8) == 7 else []
        self.begin(
            make_job(
                f"j{len(self.jobs)}", key, count, system=system, rank=pick(3), max_retries=retries, needs=needs,
                holds_key=holds, done=done, listens=pick(4) == 3,
            )
        )  # fmt: skip

    def begin(self, job: Job) -> None:
        """A session of a job begins."""
        self.jobs[job.id] = job
        self.turns[job.id] = -1
        self.places = {id: place for id, place in self.places.items() if id.job != job.id}
        self.kept |= {PartitionId(job.id, name): proof for name, proof in job.proofs.items()}
        if job.barrier is not None:
            self.stored[job.id] = job.barrier
        self.send(e.JobAdded(job))

    def resume(self) -> bool:
        """A job that did not come to its end is begun again under its name, with what is on disk and not damaged."""
        pick = self.choices.below
        names = [name for name in self.ended if len(self.jobs[name].proofs) < len(self.jobs[name].partitions)]
        if not (self.standing and names and self.more_sessions):
            return False
        self.more_sessions -= 1
        name = names[pick(len(names))]
        former, barrier = self.jobs[name], self.stored.pop(name, None)
        if former.holds_key and (left := self.leaves(former)) is not None:
            self.send(left)
        self.check_end(name)
        del self.ended[name]
        found = [p.name for p in former.plan if self.kept.pop(PartitionId(name, p.name), None) is not None]
        found = [each for each in found if pick(8) != 7] if barrier or not former.system.needs_barrier else []
        whole: list[str] = []
        for partition in former.plan:  # what others need comes first
            if partition.name in found and all(name in whole for name in partition.needs):
                whole.append(partition.name)
        found, needs = whole, [p.needs for p in former.plan]
        if pick(3) == 2:  # or another job has its name
            found, needs = [], needs[: 1 + pick(len(needs))]
        barrier = barrier if any(p.commits and p.name in found for p in former.plan) else None
        self.begin(
            make_job(
                name, former.key, system=former.system, rank=former.rank, max_retries=former.max_retries, needs=needs,
                holds_key=former.holds_key, done=found, barrier=barrier, listens=former.listens,
            )
        )  # fmt: skip
        return True

    def look(self, seconds: float) -> None:
        for worker in self.workers.values():
            if worker.alive and not worker.silent:
                for slot in list(worker.slots.values()):
                    self.tell(worker, slot)
        self.flush()
        self.slow |= self.busy() or any(worker.loading for worker in self.workers.values())
        self.slow |= bool(self.pending)
        self.now += seconds
        queued = frozenset(name for name in self.workers if self.faults and self.choices.chance(10))
        remarks = ["a device is not used"] if self.injected else []
        self.send(e.Looked(queued, remarks, self.grows))
        self.flush()

    def tell(self, worker: SimWorker, slot: SimSlot) -> None:
        """A worker tells its news, which may be none."""
        batch, slot.batch = slot.batch or Batch(), None
        batch.forgotten, batch.number = slot.forgotten, next(slot.numbers)
        batch.under_way = [
            UnderWay(
                id,
                slot.begun[id],
                worker.handle.synthesisers[0] if slot.begun[id] == "synthesising" else worker.handle.id,
            )
            for id in slot.begun
        ]
        slot.told.append(e.News(worker.handle.id, slot.key, slot.epoch, batch))
        if len(slot.told) == 1 and self.choices.below(4) < self.prompt:
            self.send(slot.told.popleft())
        else:
            self.pending.append(slot.told.popleft)

    def work(self) -> bool:
        """Some worker goes on with some order; False where none can."""
        able = [
            (worker, slot)
            for worker in self.workers.values()
            if worker.alive and not worker.silent
            for slot in worker.slots.values()
            if slot.batch or (slot.permitted and slot.orders and slot.synthesisers)
        ]
        if not able:
            return False
        worker, slot = able[self.choices.below(len(able))]
        waiting = [id for id in slot.orders if id not in slot.begun]
        can_begin = slot.permitted and slot.synthesisers and waiting and len(slot.begun) < self.settings.in_flight
        what = self.choices.below(4)
        if can_begin and (what >= 2 or not slot.begun):
            id = min(waiting, key=lambda each: slot.orders[each].place)
            slot.begun[id] = "proving" if slot.orders[id].kind is not WorkKind.COMMIT else "committing"
            if self.choices.below(3) == 2:
                self.tell(worker, slot)
        elif slot.begun and slot.permitted and slot.synthesisers:
            id = list(slot.begun)[self.choices.below(len(slot.begun))]
            self.finish(worker, slot, id)
            if slot.batch and self.choices.below(4) != 3:
                self.tell(worker, slot)
        elif slot.batch:
            self.tell(worker, slot)
        return True

    def finish(self, worker: SimWorker, slot: SimSlot, id: PartitionId) -> None:
        """A worker comes to the end of an order, one way or another."""
        order, name, synthesiser = slot.orders[id], worker.handle.id, slot.synthesisers[0]
        if self.fault(15):
            how = self.choices.below(5)
            if how == 4:
                self.die(worker, id if self.choices.below(2) else None)
                return
            del slot.orders[id], slot.begun[id]
            slot.batch = slot.batch or Batch()
            outcome = Outcome(id, order.kind, name, intervals=self.intervals(name, synthesiser, order.kind))
            slot.batch.outcomes.append(outcome)
            if how == 0:
                self.badly(order, outcome)
            elif how == 1:
                outcome.error = (BackendError("device fault"), RuntimeError("secret"))[self.choices.below(2)]
            elif how == 2:
                outcome.error = (OutOfMemory("9 GiB"), WitnessGone(), InputError("no such file"))[self.choices.below(3)]
                if not isinstance(outcome.error, OutOfMemory):
                    outcome.worker = synthesiser
            else:
                outcome.worker, outcome.error = synthesiser, WorkerDied("it crashed")
                if self.choices.below(3) == 2:
                    slot.batch.lost.append((synthesiser, WorkerDied("again")))
                    slot.synthesisers.remove(synthesiser)
                else:
                    slot.batch.loaded.append((synthesiser, TIMED))
            return
        del slot.orders[id], slot.begun[id]
        slot.batch = slot.batch or Batch()
        outcome = Outcome(id, order.kind, name, intervals=self.intervals(name, synthesiser, order.kind))
        if order.kind is WorkKind.COMMIT:
            outcome.value = commitment_of(order.partition)
        elif order.kind is WorkKind.PROVE and self.fault(self.lies):
            outcome.value = good_proof(order.partition, order.challenge, good=False)
        elif order.kind is WorkKind.PROVE:
            spoilt = not all(child.data["good"] for child in order.partition.children)
            if spoilt and self.choices.below(2):
                outcome.error = (RuntimeError("no such child"), InputError("no such child"))[self.choices.below(2)]
            else:
                good = not spoilt or not self.choices.below(3)  # systems whose nodes do not verify their children
                outcome.value = good_proof(order.partition, order.challenge, good)
        slot.batch.outcomes.append(outcome)

    def badly(self, order: Order, outcome: Outcome) -> None:
        """What a worker gives is not what it should be."""
        partition, how = order.partition, self.choices.below(3)
        if order.kind is WorkKind.COMMIT:
            outcome.value = (b"another", None, b"a third")[how]
        elif order.kind is WorkKind.PROVE:
            other = PartitionProof("p999", DIGEST, (), {"good": True, "commitment": b"", "challenge": b""})
            other_digest = PartitionProof(partition.name, b"x" * 32, (), good_proof(partition, order.challenge).data)
            outcome.value = (good_proof(partition, order.challenge, good=False), other, other_digest)[how]
        else:
            outcome.error = (InputError("unsatisfied"), BackendError("fault"), WitnessGone())[how]

    def intervals(self, prover: str, synthesiser: str, kind: WorkKind) -> list[Interval]:
        if kind is WorkKind.DIAGNOSE:
            return []
        stage = "commit" if kind is WorkKind.COMMIT else "prove"
        return [Interval(synthesiser, "synthesise", 1.0, 1.01, "{"), Interval(prover, stage, 1.01, 1.02, "{")]

    def die(self, worker: SimWorker, at: PartitionId | None, stuck: bool = False) -> None:
        """The process of a worker ends. All that wait for an answer of it are told, late and in any order."""
        name = worker.handle.id
        worker.alive, worker.silent = not stuck, False  # it is started again as it is loaded
        worker.life += 1
        error = (WorkerStuck if stuck else WorkerDied)(f"the process of {name} ended", at)
        for key, slot in worker.slots.items():
            if slot.batch and self.choices.below(3) == 2:  # what it told last is on its way
                slot.batch.number = next(slot.numbers)
                slot.told.append(e.News(name, key, slot.epoch, slot.batch))
                self.pending.append(slot.told.popleft)
            died = e.Died(name, key, slot.epoch, error)
            self.pending.append(lambda died=died: died)  # type: ignore[misc]
        for load in worker.loading.values():
            failed = e.LoadFailed(name, load.key, load.epoch, error)
            self.pending.append(lambda failed=failed: failed)  # type: ignore[misc]
        worker.slots, worker.loading = {}, {}

    def trouble(self) -> bool:
        """Something goes wrong with a worker, the fleet or a job."""
        pick, how = self.choices.below, self.choices.below(10)
        running = [name for name in self.jobs if name not in self.ended]
        if how == 9 and self.more_nodes:
            self.more_nodes -= 1
            self.join(1 + pick(2))
            return True
        alive = [worker for worker in self.workers.values() if worker.alive]
        if self.faults <= 0 or not (running if how < 3 else alive):
            return False
        self.faults -= 1
        self.injected += 1
        if how < 3:
            job = running[pick(len(running))]
            self.send(e.JobStopped(job, KeyboardInterrupt()))
            if self.jobs[job].holds_key and pick(3) == 2:  # its driver does not wait for the end
                self.send(self.leaves(self.jobs[job]) or e.JobLeft(job))
            if pick(4):
                self.flush()
                self.resume()
            return True
        worker = alive[pick(len(alive))]
        if how < 5:
            ids = [id for slot in worker.slots.values() for id in slot.orders]
            self.die(worker, ids[pick(len(ids))] if ids and pick(2) else None, stuck=how == 4 and pick(3) == 2)
        elif how == 5:
            self.flush()
            self.die(worker, None)
            worker.alive = False
            self.send(e.Left(worker.handle.id))
        elif how == 6 and pick(3) == 2:
            self.lose_fleet()
        else:
            worker.silent = True
        return True

    def lose_fleet(self) -> None:
        """All workers are gone. What they told last, and their deaths, come late; others have their names by then."""
        self.flush()
        for worker in self.workers.values():
            self.die(worker, None)
        self.workers, self.names = {}, 0
        self.open, self.closing, self.checked = set(), set(), set()
        self.fleet += 1
        self.send(e.FleetLost(ClusterError("Ray is lost")))
        self.flush()
        self.join(1 + self.choices.below(2))

    def leaves(self, job: Job) -> e.Event | None:
        """The driver of a job needs its key no more."""
        if job in self.left:
            return None
        self.left.add(job)
        return e.JobLeft(job.id)

    # -- effects ----------------------------------------------------------------------------------------------------

    def live(self, job: str) -> None:
        require(job not in self.ended, "an effect for a job that is over ({})", job)

    def open_key(self, effect: e.OpenKey) -> None:
        require(effect.key not in self.open, "a key is opened that is open")
        self.open.add(effect.key)
        fleet = self.fleet

        def happens() -> e.Event | None:
            if self.fleet != fleet:
                return None
            if len(self.open) > self.budget:
                self.open.discard(effect.key)
                return e.KeyRefused(effect.key, ClusterError("no room in the node's budget"))
            if self.fault(10):
                self.open.discard(effect.key)
                return e.KeyRefused(effect.key, (InputError("no such key"), ClusterError("no"))[self.choices.below(2)])
            return e.KeyOpened(effect.key)

        self.pending.append(happens)

    def close_key(self, effect: e.CloseKey) -> None:
        require(effect.key in self.open and effect.key not in self.closing, "a key is closed that is not open")
        self.closing.add(effect.key)
        for worker in self.workers.values():
            worker.slots.pop(effect.key, None)
            load = worker.loading.pop(effect.key, None)
            require(load is None or worker.silent, "a key is closed while it is loaded")
        fleet = self.fleet

        def happens() -> e.Event | None:
            if self.fleet != fleet:
                return None
            self.open.discard(effect.key)
            self.closing.discard(effect.key)
            self.checked.discard(effect.key)
            return e.KeyClosed(effect.key)

        self.pending.append(happens)

    def load(self, effect: e.Load) -> None:
        worker = self.workers[effect.worker]
        require(not worker.lost, "a worker that was given up for all loads a key")
        require(effect.key in self.open and effect.key not in self.closing, "a key is loaded that is not open")
        require(effect.key not in worker.slots, "a key is loaded that is loaded there")
        require(all(each.key == effect.key for each in worker.loading.values()) or worker.silent, "it loads two keys")
        require(
            effect.permitted <= (effect.key in self.checked or not hasattr(self.system_of(effect.key), "check")),
            "permitted",
        )
        worker.loading[effect.key] = effect

        def happens() -> e.Event | None:
            if self.workers.get(effect.worker) is not worker or worker.loading.get(effect.key) is not effect:
                return None
            if not worker.alive:
                del worker.loading[effect.key]
                return e.LoadFailed(effect.worker, effect.key, effect.epoch, WorkerStuck("it does not end"))
            waits = self.state.workers[effect.worker].slot(effect.key).epoch == effect.epoch
            if worker.silent and waits:
                self.pending.append(happens)
                self.look(7.0)
                return None
            del worker.loading[effect.key]
            if len(worker.slots) >= self.capacity:
                return e.LoadFailed(effect.worker, effect.key, effect.epoch, OutOfMemory("no room"))
            if self.fault(15):
                how = self.choices.below(4)
                if how == 3:
                    worker.loading[effect.key] = effect
                    self.die(worker, None)
                    return None
                error = (BackendError("fault"), InputError("the key is at fault"), OutOfMemory("too large"))[how]
                return e.LoadFailed(effect.worker, effect.key, effect.epoch, error)
            names = worker.handle.synthesisers
            worker.slots[effect.key] = SimSlot(effect.key, effect.epoch, effect.permitted, names)
            return e.KeyLoaded(
                effect.worker, effect.key, effect.epoch, loaded(effect.worker, names, worker.uuid, pid=worker.life)
            )

        self.pending.append(happens)

    def system_of(self, key: str) -> Any:
        return dict(self.keys)[key]

    def check(self, effect: e.Check) -> None:
        worker = self.workers[effect.worker]
        epoch = effect.epoch

        def happens() -> e.Event | None:
            slot = worker.slots.get(effect.key)
            if self.workers.get(effect.worker) is worker and effect.key not in self.open:
                return None
            if slot is None or slot.epoch != epoch:
                return e.KeyChecked(effect.worker, effect.key, epoch, WorkerDied("it ended"))
            if self.fault(15):
                error = (BackendError("fault"), InputError("a bad key"), RuntimeError("what"))[self.choices.below(3)]
                return e.KeyChecked(effect.worker, effect.key, epoch, error)
            self.checked.add(effect.key)
            return e.KeyChecked(effect.worker, effect.key, epoch, Timed(None, 0.0, 0.1))

        self.pending.append(happens)

    def permit(self, effect: e.Permit) -> None:
        good = effect.key in self.checked or not hasattr(self.system_of(effect.key), "check")
        require(good, "a worker may prove before the key's check")
        slot = self.workers[effect.worker].slots.get(effect.key)
        if slot is not None:
            slot.permitted = True

    def hand(self, effect: e.Hand) -> None:
        worker, known = self.workers[effect.worker], self.state.workers[effect.worker]
        require(not worker.lost, "orders for a worker that was given up for all")
        require(effect.orders, "a Hand without orders")
        mine = known.slots[effect.key]
        if effect.epoch != mine.epoch or mine.stage is not SlotStage.READY:
            require(self.batched, "orders of another epoch")
            return  # it died after that, among the same events
        slot = worker.slots.get(effect.key)
        for order in effect.orders:
            self.check_order(effect, order)
            if slot is not None and slot.epoch == effect.epoch and worker.alive:
                slot.orders[order.id] = order
        first = effect.orders[0]
        job = self.jobs[first.partition.job]
        parallel = self.settings.parallel
        if first.kind is not WorkKind.DIAGNOSE and job.barrier is None:
            if parallel is not None and parallel < len(self.state.live(job)):
                making = job.count(Stage.HANDED, Stage.SYNTHESISING, Stage.READY)
                require(making <= parallel, "{} witnesses, more than `parallel`", making)
            chunk = max(
                self.settings.in_flight + len(worker.handle.synthesisers),
                min(2000, math.ceil(known.rate * patience.CHUNK)),
            )
            place = max(order.place for order in effect.orders)
            held = sum(each <= place for s in known.slots.values() for each in s.handed.values())
            extra = sum(job.count(Stage.DIAGNOSING) + job.count(Stage.PROVING) for job in self.state.jobs.values())
            require(held <= 2 * chunk + extra + 1, "{} orders at {}, of chunks of {}", held, effect.worker, chunk)

    def check_order(self, effect: e.Hand, order: Order) -> None:
        id, partition = order.id, order.partition
        self.live(id.job)
        job = self.jobs[id.job]
        require(job.key == effect.key and id not in self.kept, "a proven partition is handed out")
        require(id not in self.holder, "{} is with another already: {}", id, self.holder)
        self.holder[id] = effect.worker
        require(order.place.rank == job.rank, "another rank than the job's")
        self.check_place(order)
        stored = self.stored.get(id.job)
        in_barrier = job.system.needs_barrier and partition.commits
        if order.kind is WorkKind.PROVE and in_barrier:
            require(stored is not None and order.challenge == stored[1], "a proof without the barrier's challenge")
        else:
            require(order.challenge is None, "a challenge where there is none")
        if order.kind is WorkKind.COMMIT:
            require(in_barrier, "a commitment without barrier")
        for name, child in zip(partition.needs, partition.children, strict=True):
            needed = job.partitions[name]
            require(needed.stage in PROVEN, "a node is begun before {}, which is {}", name, needed.stage)
            require(self.kept.get(needed.id, needed.proof) is child, "a node without its children")
        standing = self.state.workers[effect.worker].health.known(id.job, effect.worker)
        if standing is not None and standing.given_up:  # by a later one of the same events
            effects, after = self.to_come
            forgets = [each for each in effects[after:] if isinstance(each, e.Forget)]
            taken_back = any((each.worker, each.job) == (effect.worker, id.job) for each in forgets)
            require(taken_back, "orders for a worker that the job gave up")

    def check_place(self, order: Order) -> None:
        """The turns of a job grow, but what needs others goes where the first of these was."""
        own = [PartitionId(order.id.job, name) for name in order.partition.needs]
        first = min((self.places[id] for id in own if id in self.places), default=None)
        if first is None:
            require(order.place.turn > self.turns[order.id.job], "turns of a job do not grow")
            self.turns[order.id.job] = order.place.turn
        else:
            require(order.place == first, "{} at {}, not {}", order.id, order.place, first)
        self.places[order.id] = order.place

    def ask_back(self, effect: e.AskBack) -> None:
        require(effect.most > 0, "nothing is asked back")
        slot = self.workers[effect.worker].slots.get(effect.key)
        if slot is None or self.workers[effect.worker].silent:
            return
        free = [id for id in reversed(slot.orders) if id not in slot.begun]
        back = [id for id in free if slot.orders[id].kind is not WorkKind.DIAGNOSE][: effect.most]
        slot.batch = slot.batch or Batch()
        for id in back:
            del slot.orders[id]
        slot.batch.returned += back

    def forget(self, effect: e.Forget) -> None:
        self.free(effect.worker, effect.job)
        worker = self.workers[effect.worker]
        slot = worker.slots.get(effect.key)
        if slot is None:
            return
        slot.forgotten = effect.number
        for id in [id for id in slot.orders if id.job == effect.job]:
            del slot.orders[id]
            slot.begun.pop(id, None)
        if slot.batch:
            slot.batch.outcomes = [each for each in slot.batch.outcomes if each.id.job != effect.job]
            slot.batch.returned = [each for each in slot.batch.returned if each.job != effect.job]

    def dismiss(self, effect: e.Dismiss) -> None:
        slot = self.workers[effect.worker].slots.get(effect.key)
        if slot is not None and effect.synthesiser in slot.synthesisers:
            slot.synthesisers.remove(effect.synthesiser)

    def interrupt(self, effect: e.Interrupt) -> None:
        worker = self.workers[effect.worker]
        require(not worker.lost, "a worker that was given up is interrupted")
        if not worker.alive:
            return
        if effect.who == effect.worker:
            self.die(worker, None)
            return
        slot = worker.slots.get(effect.key)
        for id in list(slot.begun) if slot is not None else ():
            if slot is not None and slot.begun[id] == "synthesising":
                kind = slot.orders[id].kind
                del slot.begun[id], slot.orders[id]
                slot.batch = slot.batch or Batch()
                slot.batch.outcomes.append(Outcome(id, kind, effect.who, error=WorkerDied("killed")))

    def retire(self, effect: e.Retire) -> None:
        worker = self.workers[effect.worker]
        require(not worker.lost, "a worker is retired twice")
        worker.lost, worker.alive = True, False
        worker.slots, worker.loading = {}, {}
        self.free(effect.worker)

    def remember(self, effect: e.Remember) -> None:
        require(effect.device == self.workers[effect.worker].uuid != "", "a CPU is quarantined")

    def verify(self, effect: e.Verify) -> None:
        require(effect.proofs, "nothing is verified")
        for id, _ in effect.proofs:
            self.live(id.job)

        def happens() -> e.Event:
            verdicts = []
            for id, proof in effect.proofs:
                good = proof.data["good"] and proof.data["job"] == id.job and proof.name == id.name
                verdicts.append(e.Verdict(id, proof, None if good else "it does not hold", 1.0, 1.1))
                if good:
                    self.good.add(id)
            return e.Verified(verdicts)

        self.pending.append(happens)

    def keep(self, effect: e.Keep) -> None:
        require(effect.proofs, "nothing is kept")
        for id, proof in effect.proofs:
            self.live(id.job)
            require(id in self.good and proof.data["good"] and proof.data["job"] == id.job, "kept, and not verified")
            require(id not in self.kept, "kept twice")
            for name in self.jobs[id.job].partitions[id.name].planned.needs:
                require(PartitionId(id.job, name) in self.kept, "{} is kept before {}, which it is made of", id, name)
            for child in proof.data["of"]:
                require(self.kept[PartitionId(id.job, child.name)] is child, "{} is made of another {}", id, child.name)
            self.keeping.append((self.jobs[id.job], id, proof))
        self.pending.append(self.keeps)

    def keeps(self) -> e.Event | None:
        """A thread puts on disk what waits for that, of all jobs."""
        found, self.keeping = self.keeping, []
        if not found:
            return None
        proofs = [(id, proof) for _, id, proof in found]
        if self.fault(5):
            return e.KeepFailed(proofs, OSError("the disk is full"))
        for job, id, proof in found:
            if self.jobs[job.id] is job:
                self.kept[id] = proof
        return e.Kept(proofs)

    def store_barrier(self, effect: e.StoreBarrier) -> None:
        self.live(effect.job)
        job = self.jobs[effect.job]
        require(effect.job not in self.stored, "a second barrier")
        require(list(effect.commitments) == [p.name for p in job.plan if p.commits], "the barrier leaves out some")

        def happens() -> e.Event | None:
            if self.jobs[effect.job] is not job:
                return None  # its driver is gone
            if self.fault(5):
                return e.JobStopped(effect.job, OSError("the disk is full"))
            self.stored[effect.job] = (effect.commitments, effect.challenge)
            return e.BarrierStored(effect.job)

        self.pending.append(happens)

    def sink(self, effect: e.Note | e.Proved | e.Tell) -> None:
        self.live(effect.job)

    def end(self, effect: e.Ended) -> None:
        self.live(effect.job)
        job = self.jobs[effect.job]
        if job.ahead and effect.error is None:
            there = [worker for worker in self.workers.values() if worker.alive and job.key in worker.slots]
            require(there or self.injected or self.slow, "{} is not loaded", job.key)
            require(job.key in self.checked or not isinstance(job.system, Checked), "{} is not checked", job.key)
        self.ended[effect.job] = effect.error
        for id in [id for id in self.holder if id.job == effect.job]:
            del self.holder[id]
        if self.jobs[effect.job].holds_key:
            job = self.jobs[effect.job]
            self.pending.append(lambda: self.leaves(job))

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check_state(self) -> None:
        """What must hold between any two steps."""
        state, seen = self.state, set()
        for worker in state.workers.values():
            for key, slot in worker.slots.items():
                for id in slot.handed:
                    require(id not in seen, "{} is with two workers", id)
                    seen.add(id)
                    job = state.jobs.get(id.job)
                    require(job is not None and job.key == key, "orders of {}, which is over", id.job)
                    partition = job.partitions[id.name] if job is not None else None
                    require(partition is not None and partition.worker == worker.id, "{} is with another worker", id)
                require(slot.stage is SlotStage.READY or not slot.handed, "orders in a slot that is not loaded")
            require(
                worker.loading is None or worker.slots[worker.loading].stage is SlotStage.LOADING, "it does not load"
            )
            require(worker.served <= state.jobs.keys(), "jobs that are over are served")
            require(worker.health.standings.keys() <= state.jobs.keys(), "standings of jobs that are over")
        for name, job in state.jobs.items():
            require(not job.over and name not in self.ended, "a job that is over is there")
            require(job.key in state.keys and name in state.keys[job.key].jobs, "a job without its key")
            for stage, partitions in job.at.items():
                for partition in partitions.values():
                    require(partition.stage is stage, "a partition at two stages")
                    at_worker = stage in WITH_WORKER
                    still = stage is Stage.FAILED and bool(partition.planned.needs)  # what it needs failed meanwhile
                    require(
                        (partition.id in seen) == at_worker or still,
                        "{}: {}, {}",
                        partition.id,
                        stage,
                        partition.worker,
                    )
                    require(partition.charged <= job.max_retries + (stage is Stage.FAILED), "tried too often")
        for resident in state.keys.values():
            require(resident.jobs.keys() <= state.jobs.keys() | state.held.keys(), "jobs that left use a key")
        require(state.held.keys() <= self.ended.keys(), "a job is held that goes on")

    def at_the_end(self) -> None:
        """What must hold when all is over."""
        state = self.state
        self.check_state()
        require(not state.jobs, "nothing happens, and these go on: {}", self.stuck())
        require(not state.held, "held for ever: {}", list(state.held))
        for key in state.keys.values():
            require(not key.jobs, "{} is used by {}", key.id, list(key.jobs))
        for name in self.jobs:
            self.check_end(name)

    def check_end(self, name: str) -> None:
        """What must hold when a job is over."""
        require(name in self.ended, "{} did not end", name)
        job, error = self.jobs[name], self.ended[name]
        for partition in job.partitions.values():
            if error is None and partition.stage is not Stage.DONE:
                require(partition.stage is Stage.FAILED, "{} is {} at the end", partition.id, partition.stage)
                require(partition.report.error, "{} failed without a reason", partition.id)
            if partition.stage is Stage.DONE:
                require(partition.id in self.kept and partition.id.name in job.proofs, "done, and not kept")
        if not self.injected and not self.slow:
            done = len(job.proofs) == len(job.partitions)
            require(error is None and done, "{} failed without a fault: {!r} {}", name, error, job.stages())

    def stuck(self) -> dict[str, Any]:
        state = self.state
        return {name: (job.key, job.stages(), state.keys[job.key].stage.value) for name, job in state.jobs.items()}


WITH_WORKER = {
    Stage.HANDED, Stage.SYNTHESISING, Stage.READY, Stage.COMMITTING, Stage.PROVING, Stage.DIAGNOSING,
}  # fmt: skip

DO: dict[type, Callable[[World, Any], None]] = {
    e.OpenKey: World.open_key,
    e.CloseKey: World.close_key,
    e.Load: World.load,
    e.Check: World.check,
    e.Permit: World.permit,
    e.Hand: World.hand,
    e.AskBack: World.ask_back,
    e.Forget: World.forget,
    e.Dismiss: World.dismiss,
    e.Interrupt: World.interrupt,
    e.Retire: World.retire,
    e.Remember: World.remember,
    e.Verify: World.verify,
    e.Keep: World.keep,
    e.StoreBarrier: World.store_barrier,
    e.Note: World.sink,
    e.Proved: World.sink,
    e.Tell: World.sink,
    e.Ended: World.end,
}


def failure_of(choices: Choices, most: int, *, check_all: bool = False) -> tuple[Exception | None, list[e.Event]]:
    """Run a world; what went wrong, and its events."""
    world = None
    try:
        world = World(choices, check_all=check_all)
        world.run(most)
    except Exception as error:
        return error, (world.events if world is not None else [])
    return None, world.events


def shorten(made: Sequence[int], most: int, tries: int = 1500) -> tuple[list[int], Exception, list[e.Event]]:
    """A shorter list of choices that fails as well: parts left out, then numbers made 0."""
    best = list(made)

    def fails(candidate: list[int]) -> bool:
        error, _ = failure_of(Choices(0, candidate), most, check_all=True)
        return error is not None

    width = len(best) // 2
    while width >= 1 and tries > 0:
        at = 0
        while at < len(best) and tries > 0:
            tries -= 1
            shorter = best[:at] + best[at + width :]
            if fails(shorter):
                best = shorter
            else:
                at += width
        width //= 2
    for at in range(len(best)):
        if best[at] and tries > 0:
            tries -= 1
            lower = [*best[:at], 0, *best[at + 1 :]]
            best = lower if fails(lower) else best
    error, events = failure_of(Choices(0, best), most, check_all=True)
    if error is None:  # the whole world fails, and not with every check
        error, events = failure_of(Choices(0, list(made)), most)
    assert error is not None
    return best, error, events
