"""The machine's rules, one by one: a row of the table, or a sentence of a module's text, for each test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from actors import patience
from actors.protocol import (
    Batch,
    Interval,
    Order,
    Outcome,
    PartitionId,
    Timed,
    UnderWay,
    WitnessGone,
    WorkerDied,
    WorkerStuck,
    WorkKind,
)
from cluster.scheduler import events as e
from cluster.scheduler.jobs import Job
from cluster.scheduler.keys import NO_ROOM
from cluster.scheduler.machine import Machine
from cluster.scheduler.rules import MAX_DEATHS, MAX_GIVEN_UP, RULES, Fact, Rule, Stage
from cluster.scheduler.workers import Watch, WorkerHandle
from distprove.errors import ClusterError, InputError, UnsatisfiedWitness, UsageError
from distprove.settings import ExecutorSettings
from kernels.errors import OutOfMemory
from tests.cluster.scheduler.world import SYSTEMS, TIMED, commitment_of, good_proof, loaded, make_job

PLAIN, CHECKED, BARRIER, DRAWS = SYSTEMS


class Rig:
    """A machine whose effects are carried out at once, but for the orders: the test says what becomes of these."""

    def __init__(
        self,
        workers: int = 2,
        *,
        standing: bool = False,
        nodes: int = 1,
        uuid: bool = False,
        room: int = 99,
        **given: Any,
    ) -> None:
        self.settings = ExecutorSettings(local=True, **{"in_flight": 1, **given})
        self.machine = Machine(self.settings, standing=standing)
        self.state = self.machine.state
        self.now = 100.0
        self.room, self.uuid = room, uuid
        self.ignored: set[type] = set()
        """Effects that are not carried out."""
        self.effects: list[e.Effect] = []
        self.orders: dict[str, dict[PartitionId, Order]] = {}
        self.on: dict[str, set[str]] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.send(e.Joined([WorkerHandle(f"w{i}", f"n{i % nodes}", (f"w{i}s",)) for i in range(workers)]))

    def send(self, *found: e.Event, seconds: float = 0.01) -> list[e.Effect]:
        """The effects of events, and of what follows from these at once."""
        self.now += seconds
        made = list(self.machine.handle(found, self.now, self.now))
        self.effects += made
        follows = [event for effect in made if (event := self.do(effect)) is not None]
        return made + (self.send(*follows) if follows else [])

    def do(self, effect: e.Effect) -> e.Event | None:
        if type(effect) in self.ignored:
            return None
        match effect:
            case e.OpenKey(key):
                return e.KeyOpened(key)
            case e.CloseKey(key):
                for having in self.on.values():
                    having.discard(key)
                return e.KeyClosed(key)
            case e.Load(worker, key, epoch):
                having = self.on.setdefault(worker, set())
                if len(having) >= self.room:
                    return e.LoadFailed(worker, key, epoch, OutOfMemory("no room for another key"))
                having.add(key)
                self.epochs[worker, key], known = epoch, self.state.workers[worker]
                return e.KeyLoaded(
                    worker, key, epoch, loaded(worker, known.handle.synthesisers, f"G-{worker}" if self.uuid else "")
                )
            case e.Check(worker, key, epoch):
                return e.KeyChecked(worker, key, epoch, Timed(None, 0.0, 0.0))
            case e.Verify(_, _, proofs):
                return e.Verified([e.Verdict(id, p, None if p.data["good"] else "bad", 1.0, 1.0) for id, p in proofs])
            case e.Keep(proofs):
                return e.Kept(proofs)
            case e.StoreBarrier(job):
                return e.BarrierStored(job)
            case e.Hand(worker, _, _, orders):
                self.orders.setdefault(worker, {}).update({order.id: order for order in orders})
            case e.Forget(worker, _, job, _):
                mine = self.orders.get(worker, {})
                self.orders[worker] = {id: order for id, order in mine.items() if id.job != job}
            case e.Interrupt(worker, key, who) if who == worker:
                return self.death(worker, key)
        return None

    def add(self, name: str = "j", key: str = "k", count: int = 1, **given: Any) -> Job:
        job = make_job(name, key, count, **given)
        self.send(e.JobAdded(job))
        return job

    def death(self, worker: str, key: str = "k", at: PartitionId | None = None, stuck: bool = False) -> e.Event:
        """What a worker's death is told as."""
        self.orders[worker] = {}
        self.on[worker] = set()
        error = (WorkerStuck if stuck else WorkerDied)("it crashed", at)
        return e.Died(worker, key, self.epochs.get((worker, key), 0), error)

    def die(self, worker: str, at: PartitionId | None = None, key: str = "k", stuck: bool = False) -> list[e.Effect]:
        return self.send(self.death(worker, key, at, stuck))

    def news(self, worker: str, *outcomes: Outcome, key: str = "k", **batch: Any) -> list[e.Effect]:
        known = {"forgotten": self.state.forgets, **batch}
        return self.send(e.News(worker, key, self.epochs[worker, key], Batch(list(outcomes), **known)))

    def outcome(
        self, worker: str, id: PartitionId, error: BaseException | None = None, *, good: bool = True
    ) -> Outcome:
        """What becomes of an order."""
        order = self.orders[worker].pop(id)
        stage = "commit" if order.kind is WorkKind.COMMIT else "prove"
        spans = [Interval(f"{worker}s", "synthesise", 1.0, 1.1, "{"), Interval(worker, stage, 1.1, 1.2, "{")]
        made = Outcome(id, order.kind, worker, error=error, intervals=spans)
        if order.kind is WorkKind.COMMIT:
            made.value = commitment_of(order.partition) if good else b"another"
        elif order.kind is WorkKind.PROVE:
            made.value = good_proof(order.partition, order.challenge, good)
        return made

    def end(self, worker: str, id: PartitionId, error: BaseException | None = None, **given: Any) -> list[e.Effect]:
        job = self.state.jobs[id.job]
        return self.news(worker, self.outcome(worker, id, error, **given), key=job.key)

    def first(self, worker: str) -> PartitionId:
        """The order of a worker that goes first."""
        return min(self.orders[worker], key=lambda id: self.orders[worker][id].place)

    def run(self, fails: Callable[[str, PartitionId], str] = lambda worker, id: "", most: int = 20_000) -> None:
        """Workers take turns, an order each, until nothing is left. `fails` says how one fails."""
        for _ in range(most):
            busy = [worker for worker, orders in self.orders.items() if orders]
            if not busy:
                return
            for worker in busy:
                if not self.orders[worker]:
                    continue
                id = self.first(worker)
                how = fails(worker, id) if self.orders[worker][id].kind is not WorkKind.DIAGNOSE else ""
                if how == "dies":
                    self.die(worker, id)
                elif how == "fault":
                    self.end(worker, id, RuntimeError("device fault"))
                else:
                    self.end(worker, id, good=how != "bad proof")
        raise AssertionError("it does not end")

    def ended(self, job: str) -> e.Ended | None:
        return next((each for each in self.effects if isinstance(each, e.Ended) and each.job == job), None)

    def notes(self, event: str) -> list[dict[str, Any]]:
        return [each.facts for each in self.effects if isinstance(each, e.Note) and each.event == event]

    def waits(self) -> list[str | None]:
        """What jobs were told that they wait for."""
        told = [each.progress for each in self.effects if isinstance(each, e.Tell)]
        return [each.detail for each in told if each.event == "waiting"]

    def look(self, times: int = 1, seconds: float = 2.0, **given: Any) -> None:
        for _ in range(times):
            self.send(e.Looked(**given), seconds=seconds)


def retired(job: Job) -> list[str]:
    return [each.id for each in job.workers.values() if each.status == "retired" and each.role == "prover"]


def test_news_that_are_told_again_are_not_of_the_next_order() -> None:
    """The worker has another order for the partition by then: to find out whether its witness is to blame."""
    rig = Rig(workers=1)
    job = rig.add()
    id = rig.first("w0")
    bad = rig.outcome("w0", id, good=False)
    rig.news("w0", bad, number=1)
    assert rig.orders["w0"][id].kind is WorkKind.DIAGNOSE
    before = len(rig.effects)
    rig.news("w0", bad, number=1)
    assert not [each for each in rig.effects[before:] if isinstance(each, e.Hand | e.Verify)]
    rig.news("w0", Outcome(id, WorkKind.DIAGNOSE, "w0"), number=2)
    assert rig.orders["w0"][id].kind is WorkKind.PROVE
    rig.end("w0", id)
    assert job.proofs.keys() == {id.name}


# -- the table ----------------------------------------------------------------------------------------------------


def bad(rig: Rig, id: PartitionId) -> None:
    rig.end("w0", id, good=False)


def diagnosed(rig: Rig, id: PartitionId) -> None:
    rig.news("w0", Outcome(id, WorkKind.DIAGNOSE, "w0"))


def bad_proof(rig: Rig, id: PartitionId) -> None:
    bad(rig, id)
    diagnosed(rig, id)


def fails_with(error: BaseException, who: str = "w0") -> Callable[[Rig, PartitionId], None]:
    def happens(rig: Rig, id: PartitionId) -> None:
        outcome = rig.outcome("w0", id, error)
        outcome.worker = who
        rig.news("w0", outcome)

    return happens


def good(rig: Rig, id: PartitionId) -> None:
    rig.end("w0", id)


Happens = Callable[[Rig, PartitionId], object]
CASES: dict[Fact, tuple[dict[str, Any], Sequence[type], Happens, str]] = {
    Fact.UNBLOCKED: ({"needs": [(), ("p0",)]}, (), good, "p1"),
    Fact.HANDED: ({"count": 3}, (), lambda rig, id: rig.news("w0", returned=[id]), ""),
    Fact.RETURNED: ({"count": 3}, (), lambda rig, id: rig.news("w0", returned=[id]), "p0"),
    Fact.COMMITTED: ({"count": 3, "system": DRAWS}, (), good, "p0"),
    Fact.PROVEN: ({}, (e.Verify,), good, "p0"),
    Fact.HOLDS: ({}, (e.Keep,), good, "p0"),
    Fact.KEPT: ({}, (), good, "p0"),
    Fact.SUSPECT: ({}, (), bad, "p0"),
    Fact.BAD_PROOF: ({"count": 3}, (), bad_proof, "p0"),
    Fact.FAULT: ({"count": 3}, (), fails_with(RuntimeError("x")), "p0"),
    Fact.DEVICE_FULL: ({"count": 3}, (), fails_with(OutOfMemory("x")), "p0"),
    Fact.REFUSED: ({"count": 3}, (), fails_with(InputError("x"), "w0s"), "p0"),
    Fact.WITNESS_LOST: ({"count": 3}, (), fails_with(WitnessGone("x")), "p0"),
    Fact.SYNTHESISER_DIED: ({"count": 3}, (), fails_with(WorkerDied("x"), "w0s"), "p0"),
    Fact.WORKER_DIED_AT: ({"count": 3}, (), lambda rig, id: rig.die("w0", id), "p0"),
    Fact.WORKER_GONE: ({"count": 3}, (), lambda rig, id: rig.send(e.Left("w0")), "p0"),
    Fact.GIVEN_UP: ({"max_retries": 0}, (), fails_with(RuntimeError("x")), "p0"),
}
STAYS = {
    Fact.HOLDS: 1, Fact.KEPT: 2, Fact.SUSPECT: 1, Fact.BAD_PROOF: 2,
}  # fmt: skip
"""Number of moves that the partition makes before the one that the rule is about."""


def observed(fact: Fact) -> Rule:
    """The rule as the machine follows it."""
    given, ignored, happens, name = CASES[fact]
    rig = Rig(2, nodes=2, in_flight=2)
    rig.ignored |= {*ignored}
    moves: list[tuple[Stage, bool]] = []
    job = make_job("j", "k", **{"count": 1, **given})
    move = job.move

    def moved(partition: Any, stage: Stage, *, front: bool = False) -> None:
        if partition.id.name == name or not name:
            moves.append((stage, front))
        move(partition, stage, front=front)

    job.move = moved  # type: ignore[method-assign]
    rig.send(e.JobAdded(job))
    worker = next(iter(rig.orders["w0"]))
    id = PartitionId("j", "p0")
    assert worker == id
    if name:
        moves.clear()
    state, before = job.partitions[name or "p0"], len(rig.effects)
    happens(rig, id)
    counters = {k for k, v in vars(job.report.counters).items() if v and k not in ("retries", "deaths", "retired")}
    noted = [each.event for each in rig.effects[before:] if isinstance(each, e.Note) and "partition" in each.facts]
    health = rig.state.workers["w0"].health.standings.get("j", {}).get("w0")
    struck = health is not None and id in health.failed_at and bool(health.strikes)
    to, front = moves[STAYS.get(fact, 0)]
    charged = state.charged > 0 and to is not Stage.FAILED
    return Rule(to, charged, struck, "".join(counters), "".join(noted[:1]), front)


EXPECTED = {
    Fact.UNBLOCKED: Rule(Stage.WAITING, front=True),
    Fact.HANDED: Rule(Stage.HANDED),
    Fact.RETURNED: Rule(Stage.WAITING),
    Fact.COMMITTED: Rule(Stage.COMMITTED),
    Fact.PROVEN: Rule(Stage.VERIFYING),
    Fact.HOLDS: Rule(Stage.KEEPING),
    Fact.KEPT: Rule(Stage.DONE),
    Fact.SUSPECT: Rule(Stage.DIAGNOSING),
    Fact.BAD_PROOF: Rule(Stage.WAITING, True, True, "bad_proofs", "bad-proof", True),
    Fact.FAULT: Rule(Stage.WAITING, True, True, "faults", "fault", True),
    Fact.DEVICE_FULL: Rule(Stage.WAITING, True, False, "faults", "fault", True),
    Fact.REFUSED: Rule(Stage.WAITING, False, False, "", "fault", False),
    Fact.WITNESS_LOST: Rule(Stage.WAITING, True, False, "lost_witnesses", "", True),
    Fact.SYNTHESISER_DIED: Rule(Stage.WAITING, True, False, "", "", True),
    Fact.WORKER_DIED_AT: Rule(Stage.WAITING, True, False, "", "", True),
    Fact.WORKER_GONE: Rule(Stage.WAITING),
}


@pytest.mark.parametrize("fact", EXPECTED)
def test_a_row_of_the_table(fact: Fact) -> None:
    assert observed(fact) == EXPECTED[fact] == RULES[fact]


def test_what_is_charged_too_often_fails() -> None:
    seen = observed(Fact.GIVEN_UP)
    assert (seen.to, seen.event) == (Stage.FAILED, "fault")
    assert RULES[Fact.GIVEN_UP] == Rule(Stage.FAILED, event="failed")


def test_what_is_withdrawn_goes_first_and_costs_nothing() -> None:
    assert RULES[Fact.WITHDRAWN] == Rule(Stage.WAITING, front=True)


SEEN = {Fact.BAD_PROOF: True, Fact.FAULT: True, Fact.DEVICE_FULL: True}
"""Facts whose row decides whether the worker is struck, and which event tells of it."""


def mutations() -> list[tuple[Fact, str, Any]]:
    found: list[tuple[Fact, str, Any]] = []
    for fact, rule in EXPECTED.items():
        found.append((fact, "to", Stage.DIAGNOSING if rule.to is not Stage.DIAGNOSING else Stage.FAILED))
        if rule.to is Stage.WAITING:
            found += [(fact, "charge", not rule.charge), (fact, "front", not rule.front)]
        found.append((fact, "counter", "damaged_files"))
        if fact in SEEN:
            found.append((fact, "strike", not rule.strike))
        if rule.event:
            found.append((fact, "event", "another"))
    return found


@pytest.mark.parametrize(("fact", "what", "value"), mutations())
def test_a_row_that_is_changed_is_found(fact: Fact, what: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert what in {each.name for each in fields(Rule)}
    monkeypatch.setitem(RULES, fact, replace(RULES[fact], **{what: value}))
    try:
        seen = observed(fact)
    except Exception:
        return  # the machine does not stand it
    assert seen != EXPECTED[fact]


# -- workers that fail ----------------------------------------------------------------------------------------------

HOW = pytest.mark.parametrize("how", ["dies", "fault", "bad proof"])


class Failing:
    """Says which orders fail: how often each worker was asked, and failed."""

    def __init__(self, how: str, fails: Callable[[str, str, int], bool]) -> None:
        self.how, self.fails = how, fails
        self.asked: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.seen: Counter[tuple[str, str]] = Counter()

    def __call__(self, worker: str, id: PartitionId) -> str:
        self.asked[worker] += 1
        self.seen[worker, id.name] += 1
        failed = self.fails(worker, id.name, self.asked[worker])
        self.failed[worker] += failed
        return self.how if failed else ""


def of(one: str, every: int) -> Callable[[str, str, int], bool]:
    return lambda worker, name, number: worker == one and number % every == 0


def proven(workers: int, count: int, failing: Failing, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(patience, "CHUNK", 0.0)  # as where a proof takes seconds
    rig = Rig(workers, in_flight=3)
    job = rig.add(count=count)
    rig.run(failing)
    assert rig.ended("j") is not None
    return job


def failures(job: Job) -> set[str]:
    return {partition.name for partition in job.report.partitions if partition.status == "failed"}


@HOW
@pytest.mark.parametrize("every", [2, 4, 6])
def test_a_worker_that_fails_again_and_again_is_given_up(how: str, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(how, of("w1", every))
    job = proven(4, 200, failing, monkeypatch)
    assert (retired(job), failures(job)) == (["w1"], set())
    assert 3 <= failing.failed["w1"] <= 8
    (reason,) = [each.reason for each in job.workers.values() if each.id == "w1"]
    assert reason is not None
    assert "in a row" in reason or "which another proved" in reason


@HOW
def test_a_worker_that_fails_seldom_is_kept(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(how, of("w1", 30))
    job = proven(4, 600, failing, monkeypatch)
    assert failing.failed["w1"] >= 3
    assert (retired(job), failures(job)) == ([], set())


@pytest.mark.parametrize(
    ("how", "poison"),
    [*((how, range(5, 200, 10)) for how in ("dies", "fault", "bad proof")), ("dies", range(100, 106))],
)
def test_partitions_at_which_every_worker_fails_cost_no_worker(
    how: str, poison: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {f"p{i}" for i in poison}
    job = proven(4, 200, Failing(how, lambda worker, name, number: name in names), monkeypatch)
    assert (retired(job), failures(job)) == ([], names)


@HOW
def test_a_bad_worker_is_found_among_partitions_at_which_every_worker_fails(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, worse = {f"p{i}" for i in range(7, 300, 40)}, of("w1", 3)
    fails = Failing(how, lambda worker, name, number: name in names or worse(worker, name, number))
    job = proven(4, 300, fails, monkeypatch)
    assert (retired(job), failures(job)) == (["w1"], names)


@HOW
def test_the_last_worker_is_kept_while_it_proves(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = proven(1, 60, Failing(how, of("w0", 4)), monkeypatch)
    assert (retired(job), failures(job)) == ([], set())


@HOW
def test_what_failed_is_not_tried_again_where_it_failed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(how, lambda worker, name, number: worker == "w1")
    job = proven(3, 30, failing, monkeypatch)
    assert failures(job) == set()
    assert failing.failed["w1"] <= 8
    assert max(failing.seen.values()) == 1


@pytest.mark.parametrize(("workers", "interrupted"), [(2, 1), (1, 2)])
def test_a_worker_that_hangs_again_is_given_up_if_there_is_another(workers: int, interrupted: int) -> None:
    rig = Rig(workers, hang_timeout=4.0)
    job = rig.add(count=40, max_retries=9)
    for _ in range(2):
        for _ in range(4):
            for worker in [f"w{i}" for i in range(1, workers)]:
                rig.news(worker)
            rig.look()
    assert [each.who for each in rig.effects if isinstance(each, e.Interrupt)] == ["w0"] * interrupted
    reasons = {each.id: each.reason for each in job.workers.values() if each.id in retired(job)}
    assert reasons == ({"w0": "hung 2 times, the last: it said nothing for 6 s"} if workers == 2 else {})


def test_how_long_a_synthesiser_hung_says_nothing_of_how_long_a_witness_takes() -> None:
    rig = Rig(1, hang_timeout=4.0)
    rig.add(count=9, max_retries=9)
    rig.end("w0", rig.first("w0"))
    for hangs in (1, 2):
        id, looks = rig.first("w0"), 0
        while sum(isinstance(each, e.Interrupt) for each in rig.effects) < hangs:
            assert (looks := looks + 1) < 20, "it is not found"
            rig.news("w0", under_way=[UnderWay(id, "synthesising", "w0s")])
            rig.look()
        outcome = rig.outcome("w0", id, WorkerDied("it was ended"))
        outcome.worker, outcome.intervals = "w0s", [Interval("w0s", "synthesise", 0.0, 6.0, "{")]
        rig.news("w0", outcome, loaded=[("w0s", Timed({}, 0.0, 0.0))])


def test_a_hung_worker_that_one_job_gives_up_is_ended_for_the_others() -> None:
    """Else nobody would find it again: it said nothing since, and the others wait for ever."""
    rig = Rig(2, standing=True, hang_timeout=4.0)
    one = rig.add("one", count=9)
    rig.state.workers["w0"].health.of("one", "w0").hangs = 1
    other = rig.add("other", count=9)
    for _ in range(4):
        rig.news("w1")
        rig.look()
    assert (retired(one), retired(other)) == (["w0"], [])
    assert [each.who for each in rig.effects if isinstance(each, e.Interrupt)] == ["w0"]


def test_inputs_that_one_node_lacks_cost_that_node_and_two_that_agree_fail_a_partition() -> None:
    rig = Rig(3, nodes=3)
    job = rig.add(count=30, max_retries=0)
    asked: list[tuple[str, str]] = []
    while any(rig.orders.values()):
        for worker in [name for name, orders in rig.orders.items() if orders]:
            if not rig.orders[worker]:
                continue
            id = rig.first(worker)
            asked.append((worker, id.name))
            error: InputError | None = InputError("no such file") if worker == "w1" else None
            if id.name == "p7" and worker != "w1":
                error = UnsatisfiedWitness("it does not hold")
            rig.end(worker, id, error)
    assert failures(job) == {"p7"}
    assert job.partitions["p7"].report.error_kind == "UnsatisfiedWitness"
    assert retired(job) == ["w1"]
    assert "inputs in a row were refused there and taken on another node" in str(job.workers["w1"].reason)
    assert len(set(asked)) == len(asked), "no node is asked twice"


def test_what_a_program_refuses_is_asked_of_two_nodes_and_costs_no_worker() -> None:
    rig = Rig(2, nodes=2)
    job = rig.add(count=1, max_retries=9)
    for _ in range(2):
        (worker,) = [name for name, orders in rig.orders.items() if orders]
        rig.end(worker, PartitionId("j", "p0"), UsageError("rows must be a power of two"))
    report = job.partitions["p0"].report
    assert (report.error, report.error_kind) == ("rows must be a power of two", "UsageError")
    assert retired(job) == []
    assert {each.faults for each in job.workers.values()} == {0}


def test_what_fits_no_kind_of_device_fails_after_two_tried() -> None:
    rig = Rig(3)
    job = rig.add(count=1, max_retries=9)
    for _ in range(2):
        (worker,) = [name for name, orders in rig.orders.items() if orders]
        rig.end(worker, PartitionId("j", "p0"), OutOfMemory("9 GiB"))
    report = job.partitions["p0"].report
    assert (report.error, report.error_kind) == ("it fits no device here: 9 GiB", "OutOfMemory")


def test_a_death_is_counted_once_however_many_slots_report_it() -> None:
    rig = Rig(1, standing=True)
    rig.add("a", "k", 5)
    rig.add("b", "l", 5)
    rig.ignored.add(e.Load)
    first, second = rig.death("w0", "k"), rig.death("w0", "l")
    rig.send(first)
    rig.send(second)
    rig.send(first)
    assert rig.state.workers["w0"].health.deaths == 1


def test_jobs_that_share_reports_count_a_death_once() -> None:
    """Short jobs of a service share the report of their worker, and their journals have the same lines."""
    rig = Rig(1, standing=True)
    first, alone = rig.add("first"), rig.add("alone")
    second = make_job("second")
    second.report, second.workers = first.report, first.workers
    rig.send(e.JobAdded(second))
    rig.die("w0")
    assert first.report.counters.deaths == first.workers["w0"].deaths == 1
    assert alone.report.counters.deaths == alone.workers["w0"].deaths == 1
    assert len(rig.notes("death")) == 2


def test_a_late_report_of_a_death_ends_no_later_life() -> None:
    rig = Rig(1, standing=True)
    rig.add("a", "k")
    late = e.Died("w0", "k", rig.epochs["w0", "k"], WorkerDied("it crashed"))
    life = loaded("w0", ["w0s"], pid=7)
    rig.ignored.add(e.Load)
    rig.add("b", "l")
    (load,) = [each for each in rig.effects if isinstance(each, e.Load) and each.key == "l"]
    rig.send(e.KeyLoaded("w0", "l", load.epoch, life))
    rig.send(late)
    slots = rig.state.workers["w0"].slots
    assert slots["l"].ready
    assert not slots["k"].ready


def test_only_the_job_whose_partition_the_process_computed_is_charged() -> None:
    rig = Rig(1, standing=True)
    one, other = rig.add("one", "k", 3), rig.add("other", "l", 3)
    rig.die("w0", PartitionId("other", "p0"), key="k")
    charged = {p.id for job in (one, other) for p in job.partitions.values() if p.charged}
    assert charged == {PartitionId("other", "p0")}
    rig.die("w0", None)
    assert sum(p.charged for job in (one, other) for p in job.partitions.values()) == 1, "it is not known whose"


def test_word_of_an_order_that_just_ended_charges_what_its_job_has_there() -> None:
    rig = Rig(1, in_flight=2)
    job = rig.add(count=3)
    rig.end("w0", PartitionId("j", "p0"))
    rig.die("w0", PartitionId("j", "p0"))
    assert [p.charged for p in job.partitions.values()] == [0, 1, 0]


def test_a_worker_that_dies_again_and_again_is_given_up_for_all() -> None:
    rig = Rig(2, standing=True)
    rig.add("a", count=99, max_retries=99)
    rig.add("b", count=99, max_retries=99)
    for _ in range(MAX_DEATHS):
        rig.die("w0")
    assert rig.state.workers["w0"].health.lost == f"it died {MAX_DEATHS} times in a row"


def test_a_worker_that_several_jobs_give_up_is_given_up_for_all() -> None:
    rig = Rig(1, standing=True)
    for number in range(MAX_GIVEN_UP):
        assert rig.state.workers["w0"].health.lost is None
        rig.add(f"j{number}", count=3)
        for _ in range(3):
            rig.end("w0", rig.first("w0"), RuntimeError("fault"))
    assert rig.state.workers["w0"].health.lost == f"{MAX_GIVEN_UP} jobs in a row gave it up"
    late = rig.add("late")
    assert "3 jobs in a row gave it up" in str(late.partitions["p0"].report.error)


def test_a_process_that_does_not_end_costs_its_worker() -> None:
    rig = Rig(1)
    job = rig.add(count=2)
    rig.die("w0", stuck=True)
    assert {p.report.error for p in job.partitions.values()} == {"no prover is left (it crashed)"}


def test_a_device_is_quarantined_once_another_proved_what_it_failed_at() -> None:
    rig = Rig(2, uuid=True)
    rig.add(count=12, max_retries=9)
    rig.run(Failing("fault", lambda worker, name, number: worker == "w0"))
    assert [each.device for each in rig.effects if isinstance(each, e.Remember)] == ["G-w0"]
    alone = Rig(1, uuid=True)
    alone.add(max_retries=50)
    alone.run(Failing("bad proof", lambda worker, name, number: True))
    assert not [each for each in alone.effects if isinstance(each, e.Remember)]
    cpus = Rig(2)
    cpus.add(count=12, max_retries=9)
    cpus.run(Failing("fault", lambda worker, name, number: worker == "w0"))
    assert not [each for each in cpus.effects if isinstance(each, e.Remember)]


def test_a_synthesiser_that_one_job_gives_up_still_works_for_others() -> None:
    rig = Rig(0, standing=True)
    rig.send(e.Joined([WorkerHandle("w9", "n", ("a", "b"))]))
    one = rig.add("one", count=2)
    rig.state.workers["w9"].health.of("one", "a").strikes = 2
    id = rig.first("w9")
    outcome = rig.outcome("w9", id, WorkerDied("x"))
    outcome.worker = "a"
    rig.news("w9", outcome)
    assert one.workers["a"].status == "retired"
    other = rig.add("other", count=2)
    assert other.workers["a"].status != "retired"
    assert not [each for each in rig.effects if isinstance(each, e.Dismiss)]


def test_later_jobs_do_without_a_synthesiser_that_did_not_come_back() -> None:
    rig = Rig(0, standing=True)
    rig.send(e.Joined([WorkerHandle("w", "n", ("a", "ws"))]))
    rig.add("one", count=2)
    rig.news("w", lost=[("a", WorkerDied("gone"))])
    assert rig.add("other").workers["a"].reason == "could not load its program: gone"
    rig.news("w", lost=[("ws", WorkerDied("gone"))])
    assert [each.who for each in rig.effects if isinstance(each, e.Interrupt)][:1] == ["w"], (
        "its process is started anew"
    )


def test_a_worker_that_is_given_up_while_it_diagnoses_leaves_a_bad_proof() -> None:
    rig = Rig(2)
    job = rig.add(count=2)
    rig.end("w0", PartitionId("j", "p0"), good=False)
    assert job.partitions["p0"].stage is Stage.DIAGNOSING
    rig.send(e.Left("w0"))
    assert (job.report.counters.bad_proofs, job.partitions["p0"].charged) == (1, 1)


# -- order ------------------------------------------------------------------------------------------------------------


def names(rig: Rig, worker: str = "w0") -> list[str]:
    """The jobs of a worker's orders, in their order."""
    mine = rig.orders[worker]
    return [id.job for id in sorted(mine, key=lambda id: mine[id].place)]


def test_jobs_of_one_rank_take_turns_and_a_lower_rank_goes_first() -> None:
    rig = Rig(1, standing=True)
    rig.add("large", count=50, rank=1)
    rig.add("small", count=2, rank=1)
    rig.add("first", count=2, rank=0)
    found = names(rig)
    assert found[:2] == ["first", "first"]
    assert found[2:6] == ["large", "small", "large", "small"]


def test_a_job_that_comes_later_begins_where_the_others_are() -> None:
    rig = Rig(1, standing=True)
    rig.add("large", count=500)
    for _ in range(100):
        rig.end("w0", rig.first("w0"))
    rig.add("small", count=2)
    assert names(rig).index("small") <= 1


def test_a_small_job_goes_to_the_worker_with_the_least_to_do() -> None:
    rig = Rig(2, standing=True)
    rig.add("held")
    (held,) = [worker for worker, orders in rig.orders.items() if orders]
    for name in ("one", "two", "three"):
        rig.add(name)
        (free,) = [worker for worker, orders in rig.orders.items() if orders and worker != held]
        rig.end(free, PartitionId(name, "p0"))


def test_a_worker_has_no_more_than_two_chunks_and_near_the_end_its_share() -> None:
    rig = Rig(2, in_flight=2)
    rig.add(count=100)
    assert [len(rig.orders[worker]) for worker in ("w0", "w1")] == [6, 6]
    few = Rig(3, in_flight=2)
    few.add(count=9)
    assert [len(few.orders[f"w{i}"]) for i in range(3)] == [3, 3, 3]


def test_what_is_not_begun_is_asked_back_when_another_is_idle() -> None:
    rig = Rig(2, in_flight=1)
    rig.add(count=8)
    for id in list(rig.orders["w1"]):
        rig.end("w1", id)
    (asked,) = [each for each in rig.effects if isinstance(each, e.AskBack)]
    assert (asked.worker, asked.committed) == ("w0", True)
    back = list(rig.orders["w0"])[-asked.most :]
    for id in back:
        del rig.orders["w0"][id]
    rig.news("w0", returned=back)
    assert next(iter(rig.orders["w1"])) in back


@pytest.mark.parametrize(("parallel", "workers"), [(1, 4), (3, 4), (4, 4), (7, 3), (2, 1)])
def test_no_more_witnesses_are_asked_for_at_once_than_is_said(parallel: int, workers: int) -> None:
    rig = Rig(workers, parallel=parallel, in_flight=3, standing=True)
    rig.add("before")
    rig.run()
    before = len(rig.effects)
    job = rig.add(count=40)
    share = {each.worker: each.parallel or 0 for each in rig.effects[before:] if isinstance(each, e.Hand)}
    assert sum(min(len(rig.orders[worker]), most) for worker, most in share.items()) == parallel
    while any(rig.orders.values()):
        worker = max(rig.orders, key=lambda name: len(rig.orders[name]))
        id = rig.first(worker)
        rig.news(worker, under_way=[UnderWay(id, "proving", worker)])
        rig.end(worker, id)
        if parallel < workers:
            assert job.count(Stage.HANDED, Stage.SYNTHESISING, Stage.READY) <= parallel
    assert not failures(job)


def test_orders_stay_where_they_are_while_fewer_witnesses_may_be_made_than_there_are_workers() -> None:
    rig = Rig(2, parallel=1)
    rig.add(count=6, system=DRAWS)
    while len(rig.state.jobs["j"].at[Stage.COMMITTED]) + len(rig.state.jobs["j"].at[Stage.HANDED]) and not rig.notes(
        "barrier"
    ):
        worker = next(name for name, orders in rig.orders.items() if orders)
        rig.end(worker, rig.first(worker))
    rig.run()
    assert not [each for each in rig.effects if isinstance(each, e.AskBack)]


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_that_does_not_fit_takes_the_place_of_the_one_used_longest_ago() -> None:
    rig = Rig(1, standing=True, room=2)
    for number, (key, cold) in enumerate([("one", 1), ("two", 1), ("one", 0), ("three", 1), ("one", 0)]):
        job = rig.add(f"j{number}", key)
        rig.run()
        assert job.cold == bool(cold), number
        assert not failures(job)
    assert set(rig.state.keys) == {"one", "three"}


def test_a_job_waits_for_room_while_every_key_is_in_use_and_is_told_so_once() -> None:
    rig = Rig(1, standing=True, room=1)
    rig.add("a", "one", 2)
    rig.add("b", "two", 2)
    rig.look(3)
    waits = [
        each.progress.detail for each in rig.effects if isinstance(each, e.Tell) and each.progress.event == "waiting"
    ]
    assert waits.count(NO_ROOM) == 1
    rig.run()
    assert rig.ended("b") == e.Ended("b")
    assert set(rig.state.keys) == {"two"}


def test_a_key_is_held_until_the_driver_leaves() -> None:
    rig = Rig(1, standing=True, room=1)
    rig.add("a", "one", holds_key=True)
    rig.run()
    rig.add("b", "two")
    assert "b" in rig.state.jobs
    assert not any(rig.orders.values())
    rig.send(e.JobLeft("a"))
    rig.run()
    assert rig.ended("b") == e.Ended("b")


def test_no_key_is_held_for_a_driver_that_left_as_its_job_ended() -> None:
    rig = Rig(1, standing=True, room=1)
    rig.add("a", "one", holds_key=True)
    rig.send(e.JobStopped("a", ClusterError("its driver ended")), e.JobLeft("a"))
    rig.add("b", "two")
    rig.run()
    assert rig.ended("b") == e.Ended("b")
    assert not rig.state.held


def test_a_key_that_alone_does_not_fit_is_refused() -> None:
    rig = Rig(1, standing=True, room=0)
    job = rig.add()
    assert "no room for another key" in str(job.partitions["p0"].report.error)
    assert not rig.state.keys


def test_two_keys_of_which_none_fits_do_not_wait_for_each_other() -> None:
    rig = Rig(2, standing=True, room=0)
    rig.ignored.add(e.Load)
    rig.add("a", "one")
    rig.add("b", "two")
    for _ in range(20):
        for load in [each for each in rig.effects if isinstance(each, e.Load)]:
            rig.send(e.LoadFailed(load.worker, load.key, load.epoch, OutOfMemory("no room")))
    assert {rig.ended("a"), rig.ended("b")} == {e.Ended("a"), e.Ended("b")}


def test_jobs_do_not_wait_for_each_others_devices() -> None:
    """What failed at its only worker is tried there again where the other one has no room for the key."""
    rig = Rig(2, standing=True)
    rig.ignored.add(e.Load)
    rig.add("a", "one", max_retries=9)
    rig.add("b", "two", max_retries=9)

    def loads(worker: str, fits: str) -> None:
        load = [each for each in rig.effects if isinstance(each, e.Load) and each.worker == worker][-1]
        if load.key == fits:
            rig.epochs[worker, load.key] = load.epoch
            rig.send(e.KeyLoaded(worker, load.key, load.epoch, loaded(worker, [f"{worker}s"])))
        else:
            rig.send(e.LoadFailed(worker, load.key, load.epoch, OutOfMemory("no room")))

    for worker, fits in (("w0", "one"), ("w1", "two"), ("w0", "one"), ("w1", "two")):
        loads(worker, fits)
    rig.end("w0", PartitionId("a", "p0"), RuntimeError("fault"))
    rig.end("w1", PartitionId("b", "p0"), RuntimeError("fault"))
    assert (list(rig.orders["w0"]), list(rig.orders["w1"])) == ([PartitionId("a", "p0")], [PartitionId("b", "p0")])


def test_keys_that_the_nodes_budget_refuses_wait_for_one_another() -> None:
    rig = Rig(1, standing=True)
    rig.add("a", "one")
    rig.ignored.add(e.OpenKey)
    rig.add("b", "two")
    rig.send(e.KeyRefused("two", ClusterError("no room in the budget")))
    rig.run()
    opened = [each.key for each in rig.effects if isinstance(each, e.OpenKey)]
    assert opened == ["one", "two", "two"]
    rig.send(e.KeyRefused("two", ClusterError("no room in the budget")))
    assert isinstance((rig.ended("b") or e.Ended("b")).error, ClusterError)


def test_the_key_of_the_most_urgent_job_is_loaded_first() -> None:
    rig = Rig(1, standing=True)
    rig.ignored.add(e.Load)
    for name, rank in (("a", 2), ("b", 2), ("c", 0)):
        rig.add(name, name, rank=rank)
    found: list[str] = []
    while (load := rig.effects[-1] if isinstance(rig.effects[-1], e.Load) else None) or len(found) < 3:
        load = [each for each in rig.effects if isinstance(each, e.Load)][-1]
        found.append(load.key)
        rig.send(e.KeyLoaded("w0", load.key, load.epoch, loaded("w0", ["w0s"])))
        if len(found) == 3:
            break
    assert found == ["a", "c", "b"]


def test_nothing_is_proven_before_the_key_is_checked_and_a_check_that_hangs_is_asked_again() -> None:
    rig = Rig(1, start_timeout=10.0)
    rig.ignored.add(e.Check)
    rig.add(system=CHECKED)
    assert not [each for each in rig.effects if isinstance(each, e.Permit)]
    for _ in range(6):
        rig.news("w0")
        rig.look()
    assert [each.who for each in rig.effects if isinstance(each, e.Interrupt)] == ["w0"]
    check = [each for each in rig.effects if isinstance(each, e.Check)]
    assert len(check) == 2
    rig.send(e.KeyChecked("w0", "k", check[0].epoch, WorkerDied("it was killed")))
    assert rig.state.workers["w0"].health.deaths == 1, "the first check's end is known"
    rig.send(e.KeyChecked("w0", "k", check[1].epoch, TIMED))
    assert [each for each in rig.effects if isinstance(each, e.Permit)]


@pytest.mark.parametrize("event", ["load", "check"])
def test_a_key_at_fault_ends_its_jobs_and_the_next_job_tries_again(event: str) -> None:
    rig = Rig(1, standing=True)
    rig.ignored |= {e.Load, e.Check} if event == "load" else {e.Check}
    error = InputError("another file than when the job began")
    rig.add("a", system=CHECKED)
    asked = rig.effects[-1]
    if event == "load":
        load = next(each for each in rig.effects if isinstance(each, e.Load))
        rig.send(e.LoadFailed("w0", "k", load.epoch, error))
    else:
        check = next(each for each in rig.effects if isinstance(each, e.Check))
        rig.send(e.KeyChecked("w0", "k", check.epoch, error))
    assert rig.ended("a") == e.Ended("a", error), asked
    count = len(rig.effects)
    rig.look(3)
    assert len(rig.effects) == count, "it is not tried again for nobody"
    rig.ignored.clear()
    rig.add("b", system=CHECKED)
    rig.run()
    assert rig.ended("b") == e.Ended("b")


# -- barrier and dependencies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [BARRIER, DRAWS])
def test_all_are_committed_before_any_is_proven_where_it_was_committed(system: Any) -> None:
    rig = Rig(2)
    rig.add(count=6, system=system)
    kinds: list[WorkKind] = []
    where: dict[PartitionId, str] = {}
    while any(rig.orders.values()):
        worker = max(rig.orders, key=lambda name: len(rig.orders[name]))
        id = rig.first(worker)
        kinds.append(rig.orders[worker][id].kind)
        assert where.setdefault(id, worker) == worker
        rig.end(worker, id)
    assert kinds == [WorkKind.COMMIT] * 6 + [WorkKind.PROVE] * 6


def test_a_failure_before_the_barrier_fails_all() -> None:
    rig = Rig(1)
    job = rig.add(count=3, system=DRAWS, max_retries=0)
    rig.end("w0", rig.first("w0"), RuntimeError("fault"))
    assert failures(job) == {"p0", "p1", "p2"}


def test_what_moves_after_the_barrier_must_reproduce_its_commitment() -> None:
    rig = Rig(2)
    job = rig.add(count=4, system=BARRIER)
    while not rig.notes("barrier"):
        worker = next(name for name, orders in rig.orders.items() if orders)
        rig.end(worker, rig.first(worker))
    rig.die("w0")
    moved = [order for order in rig.orders["w0"].values() if order.kind is WorkKind.COMMIT]
    assert moved
    rig.end("w0", moved[0].id, good=False)
    assert job.report.counters.bad_proofs == 1
    rig.run()
    assert not failures(job)


@pytest.mark.parametrize("system", [PLAIN, BARRIER, DRAWS])
def test_a_node_of_a_tree_is_proven_after_its_children_with_their_proofs(system: Any) -> None:
    """Behind a barrier in which the leaves alone take part."""
    rig = Rig(2)
    needs = [*[()] * 8, ("p0", "p1", "p2", "p3"), ("p4", "p5", "p6", "p7"), ("p8", "p9")]
    job = rig.add(needs=needs, system=system)
    done: list[str] = []
    committed: list[str] = []
    while any(rig.orders.values()):
        for worker in [name for name, orders in rig.orders.items() if orders]:
            id = rig.first(worker)
            order = rig.orders[worker][id]
            assert [child.name for child in order.partition.children] == list(needs[int(id.name[1:])])
            assert {*needs[int(id.name[1:])]} <= {*done}
            assert (order.challenge is not None) == (
                order.kind is WorkKind.PROVE and len(committed) == 8 > order.partition.index
            )
            rig.end(worker, id)
            (committed if order.kind is WorkKind.COMMIT else done).append(id.name)
    assert sorted(committed) == ([] if system is PLAIN else [f"p{i}" for i in range(8)])
    assert done[-1] == "p10"
    assert len(done) == 11
    assert not failures(job)
    stored = [effect.commitments for effect in rig.effects if isinstance(effect, e.StoreBarrier)]
    assert [list(commitments) for commitments in stored] == ([] if system is PLAIN else [[f"p{i}" for i in range(8)]])


def verdict(rig: Rig, name: str, reason: str | None = None) -> e.Verified:
    """The verdict on the proof of a partition of j that is there."""
    partition = rig.state.jobs["j"].partitions[name]
    assert partition.proof is not None
    return e.Verified([e.Verdict(partition.id, partition.proof, reason, 1.0, 1.0)])


def kept(rig: Rig) -> list[str]:
    """Names of the proofs that went to disk, in order."""
    return [id.name for effect in rig.effects if isinstance(effect, e.Keep) for id, _ in effect.proofs]


def holder(rig: Rig, name: str) -> str:
    """The worker that has an order for a partition of j."""
    return next(worker for worker, orders in rig.orders.items() if PartitionId("j", name) in orders)


TREE = [*[()] * 6, ("p0", "p1")]


def test_a_node_begins_before_its_children_are_verified_and_goes_first() -> None:
    """Its proof waits for those of its children to be on disk."""
    rig = Rig(1, in_flight=9)
    rig.ignored.add(e.Verify)
    job = rig.add(needs=TREE)
    for _ in range(2):
        rig.end("w0", rig.first("w0"))
    assert rig.first("w0").name == "p6", "before the leaves that are left"
    assert job.partitions["p0"].stage is job.partitions["p1"].stage is Stage.VERIFYING
    rig.end("w0", rig.first("w0"))
    for name in ("p6", "p1"):
        rig.send(verdict(rig, name))
    assert kept(rig) == ["p1"]
    assert job.partitions["p6"].stage is Stage.VERIFYING
    rig.send(verdict(rig, "p0"))
    assert kept(rig) == ["p1", "p0", "p6"]
    assert job.partitions["p6"].stage is Stage.DONE


def test_a_node_goes_to_the_worker_that_was_idle_for_longest() -> None:
    """It has prepared the keys of nodes meanwhile. A job without nodes takes the first idle worker."""
    rig = Rig(workers=3)
    rig.add(needs=[(), *((f"p{i}",) for i in range(6))])
    took = []
    while busy := [worker for worker, orders in rig.orders.items() if orders]:
        (worker,) = busy
        took.append(worker)
        rig.end(worker, rig.first(worker))
    assert took == ["w0", "w1", "w2", "w0", "w1", "w2", "w0"]
    took.clear()
    for name in ("a", "b"):
        rig = Rig(workers=3, standing=True)
        for job in (name, f"{name}2"):
            rig.add(job)
            (worker,) = (worker for worker, orders in rig.orders.items() if orders)
            took.append(worker)
            rig.end(worker, rig.first(worker))
    assert {*took} == {"w0"}


@pytest.mark.parametrize("at", ["worker", "verifying", "verified"])
def test_a_node_made_of_a_proof_that_is_bad_is_made_again_and_nobody_is_blamed_for_it(at: str) -> None:
    rig = Rig(2, in_flight=9)
    rig.ignored.add(e.Verify)
    job = rig.add(needs=[(), (), ("p0", "p1"), ("p2",)])
    for name in ("p0", "p1"):
        rig.end(holder(rig, name), PartitionId("j", name))
    first = job.partitions["p0"].proof
    if at != "worker":
        rig.end(holder(rig, "p2"), PartitionId("j", "p2"))
    if at == "verified":
        rig.send(verdict(rig, "p2"))
    rig.send(verdict(rig, "p1"), verdict(rig, "p0", "it does not hold"))
    assert job.partitions["p2"].stage is (Stage.HANDED if at == "worker" else Stage.BLOCKED)
    rig.end(holder(rig, "p0"), PartitionId("j", "p0"))  # its witness is good
    rig.ignored.clear()
    rig.run()
    assert not failures(job)
    assert job.proofs.keys() == {"p0", "p1", "p2", "p3"}
    assert job.proofs["p0"] is not first
    assert job.report.counters.bad_proofs == 1
    assert [job.partitions[name].charged for name in ("p0", "p1", "p2", "p3")] == [1, 0, 0, 0]


@pytest.mark.parametrize("how", ["fault", "bad input", "bad proof"])
def test_a_node_that_fails_with_proofs_that_are_not_verified_waits_until_they_are(how: str) -> None:
    """Then its failure is its own."""
    rig = Rig(1, in_flight=9)
    rig.ignored.add(e.Verify)
    job = rig.add(needs=[(), ("p0",)], max_retries=0)
    rig.end("w0", PartitionId("j", "p0"))
    above, error = PartitionId("j", "p1"), {"fault": RuntimeError("x"), "bad input": InputError("x")}.get(how)
    for _ in range(2):
        rig.end("w0", above, error, good=error is not None)
        if error is None:
            rig.send(verdict(rig, "p1", "it does not hold"))
        if job.partitions["p0"].stage is Stage.VERIFYING:
            assert job.partitions["p1"].stage is Stage.BLOCKED
            assert job.partitions["p1"].charged == job.report.counters.bad_proofs == job.report.counters.faults == 0
            rig.send(verdict(rig, "p0"))
            assert above in rig.orders["w0"]
    if error is None:
        rig.end("w0", above)
    assert failures(job) == {"p1"}


@pytest.mark.parametrize("how", ["dies", "synthesiser dies", "memory", "witness"])
def test_what_befalls_a_worker_at_a_node_of_doubtful_proofs_is_not_held_against_it(how: str) -> None:
    """A child that is bad may be what kills it, or what asks for all memory. The second time it counts."""
    errors = {"memory": OutOfMemory("x"), "witness": WitnessGone("x"), "synthesiser dies": WorkerDied("x")}
    rig = Rig(1, in_flight=9)
    rig.ignored.add(e.Verify)
    job = rig.add(needs=[(), ("p0",)], max_retries=0)
    rig.end("w0", PartitionId("j", "p0"))
    above = PartitionId("j", "p1")

    def happens() -> None:
        if how == "dies":
            rig.die("w0", above)
            return
        outcome = rig.outcome("w0", above, errors[how])
        outcome.worker = "w0s" if how == "synthesiser dies" else "w0"
        rig.news("w0", outcome)

    happens()
    assert job.partitions["p1"].stage is Stage.BLOCKED
    assert job.partitions["p1"].charged == job.report.counters.faults == 0
    assert not job.partitions["p1"].avoid | {*job.partitions["p1"].too_large}
    standings = rig.state.workers["w0"].health.standings.get("j", {})
    assert not any(standing.strikes for standing in standings.values())
    rig.send(verdict(rig, "p0"))
    assert above in rig.orders["w0"]
    happens()
    assert failures(job) == {"p1"}


def test_a_node_that_a_worker_must_avoid_keeps_no_other_partition_from_it() -> None:
    """It is in front of all that wait. The worker that it waits for is gone for long."""
    rig = Rig(2, in_flight=1)
    job = rig.add(needs=[*[()] * 20, ("p0",)], max_retries=9)
    rig.end(holder(rig, "p0"), PartitionId("j", "p0"))
    while not any(PartitionId("j", "p20") in orders for orders in rig.orders.values()):
        worker = next(name for name, orders in rig.orders.items() if orders)
        rig.end(worker, rig.first(worker))
    at = holder(rig, "p20")
    other = {"w0": "w1", "w1": "w0"}[at]
    rig.ignored.add(e.Load)
    rig.die(other)
    rig.end(at, PartitionId("j", "p20"), RuntimeError("device fault"))
    while rig.orders[at]:
        rig.end(at, rig.first(at))
    assert [*job.at[Stage.WAITING]] == ["p20"]
    assert len(job.at[Stage.DONE]) == 20


@pytest.mark.parametrize("in_time", [True, False])
def test_what_a_worker_tells_of_a_node_that_failed_meanwhile_is_ignored(in_time: bool) -> None:
    """A partition that it needs failed while it was at it. If the job ends before it tells, it is told to forget: a job
    of the same name that comes later must not hear of it."""
    rig = Rig(2, in_flight=1)
    rig.ignored.add(e.Verify)
    job = rig.add(needs=[(), (), ("p0",)], max_retries=0)
    rig.end(holder(rig, "p0"), PartitionId("j", "p0"))
    at = holder(rig, "p2")
    rig.send(verdict(rig, "p0", "it does not hold"))
    rig.end(holder(rig, "p0"), PartitionId("j", "p0"))
    assert failures(job) == {"p0", "p2"}
    assert job.partitions["p2"].report.error == "p0, which it needs, failed"
    if in_time:
        rig.news(at, rig.outcome(at, PartitionId("j", "p2")))
        assert failures(job) == {"p0", "p2"}
    rig.send(e.JobStopped("j", KeyboardInterrupt()))
    assert any(isinstance(each, e.Forget) and each.worker == at for each in rig.effects) != in_time


@pytest.mark.parametrize("system", [BARRIER, DRAWS])
def test_a_leaf_that_moves_after_the_barrier_and_a_node_whose_worker_dies(system: Any) -> None:
    rig = Rig(2)
    job = rig.add(needs=[(), (), (), (), ("p0", "p1"), ("p2", "p3"), ("p4", "p5")], system=system)
    while not rig.notes("barrier"):
        worker = next(name for name, orders in rig.orders.items() if orders)
        rig.end(worker, rig.first(worker))
    rig.die("w0")
    died = False
    while any(rig.orders.values()):
        worker = next(name for name, orders in rig.orders.items() if orders)
        id = rig.first(worker)
        if id.name == "p5" and not died:
            rig.die(worker, at=id)
            died = True
        else:
            rig.end(worker, id)
    assert died
    assert not failures(job)
    assert len(job.proofs) == 7
    assert job.report.counters.deaths == 2


def test_a_leaf_that_fails_before_the_barrier_fails_the_other_leaves_and_the_nodes() -> None:
    rig = Rig(1)
    job = rig.add(needs=[(), (), ("p0",), ("p1",), ("p2", "p3")], system=DRAWS, max_retries=0)
    rig.end("w0", rig.first("w0"), RuntimeError("fault"))
    assert failures(job) == {f"p{i}" for i in range(5)}
    assert rig.ended("j") == e.Ended("j")


@pytest.mark.parametrize("system", [BARRIER, DRAWS])
def test_a_node_that_fails_after_the_barrier_fails_its_ancestors_alone(system: Any) -> None:
    rig = Rig(1)
    job = rig.add(needs=[(), (), ("p0",), ("p1",), ("p2", "p3")], system=system, max_retries=0)
    rig.run(lambda worker, id: "fault" if id.name == "p2" else "")
    assert failures(job) == {"p2", "p4"}


def test_the_last_proofs_of_a_tree_are_verified_and_kept_without_waiting_for_more() -> None:
    """Those of a level below wait for more, as those above begin without that."""
    rig = Rig(1)
    rig.add(needs=[(), (), ("p0", "p1"), ("p0", "p1"), ("p0", "p1"), ("p2", "p3", "p4")])
    rig.run()
    names = [[id.name for id, _ in effect.proofs] for effect in rig.effects if isinstance(effect, e.Verify)]
    last = [effect.last for effect in rig.effects if isinstance(effect, e.Verify)]
    assert (names, last) == ([[f"p{i}"] for i in range(6)], [False, False, False, False, True, True])
    assert [effect.last for effect in rig.effects if isinstance(effect, e.Keep)][-1:] == [True]


def test_what_needs_a_partition_that_fails_fails_and_the_others_are_proven() -> None:
    rig = Rig(2)
    job = rig.add(needs=[(), (), ("p0",), ("p1",), ("p2", "p3")], max_retries=0)
    rig.run(lambda worker, id: "fault" if id.name == "p0" else "")
    assert failures(job) == {"p0", "p2", "p4"}
    assert job.partitions["p4"].report.error == "p0, which it needs, failed"


@pytest.mark.parametrize("system", [PLAIN, DRAWS])
def test_resume_proves_only_what_is_missing(system: Any) -> None:
    rig = Rig(1)
    rig.add(needs=[(), (), ("p0", "p1")], done=["p0"], system=system)
    seen = []
    while rig.orders["w0"]:
        seen.append(rig.first("w0").name)
        rig.end("w0", rig.first("w0"))
    assert seen == ["p1", "p2"]


# -- jobs without workers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [None, 600.0])
def test_a_job_without_a_worker_waits_for_a_node_if_it_is_told_to(wait: float | None) -> None:
    rig = Rig(1, wait_for_nodes=wait)
    rig.look(grows=True)
    job = rig.add(count=3)
    rig.send(e.Left("w0"))
    if wait is None:
        assert failures(job) == {"p0", "p1", "p2"}
        return
    why = "no prover is left (its node left the cluster); a node may join for 600 s"
    assert [each["reason"] for each in rig.notes("stranded")] == [why]
    rig.look(3, grows=True)
    rig.send(e.Joined([WorkerHandle("w1", "there", ("w1s",))]))
    rig.run()
    assert not failures(job)


def test_a_job_waits_no_longer_for_a_node_than_it_is_told_to() -> None:
    rig = Rig(1, wait_for_nodes=5.0)
    rig.look(grows=True)
    job = rig.add()
    rig.send(e.Left("w0"))
    assert not failures(job)
    rig.look(3, grows=True)
    assert failures(job) == {"p0"}


def test_a_job_on_an_occupied_cluster_waits_and_says_so() -> None:
    rig = Rig(1, start_timeout=4.0)
    rig.ignored.add(e.Load)
    job = rig.add()
    rig.look(9, queued=frozenset({"w0"}))
    waits = [
        each.progress.detail for each in rig.effects if isinstance(each, e.Tell) and each.progress.event == "waiting"
    ]
    assert waits[-1] == "room on the cluster, for 1 of 1 prover"
    assert len(rig.notes("queued")) == 1
    rig.look(4)
    assert failures(job) == {"p0"}


def test_jobs_behind_a_key_that_is_not_loaded_in_time_do_not_wait_for_ever() -> None:
    rig = Rig(1, standing=True, start_timeout=4.0)
    rig.ignored |= {e.Load, e.Interrupt}  # as on threads, which cannot be ended
    one, other = rig.add("one", "k"), rig.add("other", "l")
    rig.look(3)
    assert (failures(one), failures(other)) == ({"p0"}, set())
    rig.look(4)
    assert failures(other) == {"p0"}


def test_the_fleets_end_ends_all_jobs_and_the_next_job_has_another_one() -> None:
    rig = Rig(2, standing=True)
    rig.add("a", count=5)
    lost = ClusterError("Ray is lost")
    rig.send(e.FleetLost(lost))
    assert rig.ended("a") == e.Ended("a", lost)
    rig.orders.clear()
    rig.on.clear()
    rig.add("b", count=2)
    assert "b" in rig.state.jobs
    rig.send(e.Joined([WorkerHandle("w0", "n", ("w0s",))]))
    rig.run()
    assert rig.ended("b") == e.Ended("b")


def test_a_job_that_is_stopped_leaves_nothing_behind() -> None:
    rig = Rig(1, standing=True)
    rig.add("a", count=20)
    stop = KeyboardInterrupt()
    effects = rig.send(e.JobStopped("a", stop))
    assert e.Ended("a", stop) in effects
    assert e.Forget("w0", "k", "a", 1) in effects
    worker = rig.state.workers["w0"]
    assert not [*worker.slots["k"].handed, *worker.served, *worker.health.standings, *rig.state.jobs]


def test_a_proof_that_cannot_be_kept_ends_its_job() -> None:
    rig = Rig(1)
    rig.ignored.add(e.Keep)
    rig.add()
    rig.end("w0", PartitionId("j", "p0"))
    full = OSError("the disk is full")
    (kept,) = [each for each in rig.effects if isinstance(each, e.Keep)]
    rig.send(e.KeepFailed(kept.proofs, full))
    assert rig.ended("j") == e.Ended("j", full)


def test_a_verdict_counts_for_no_proof_but_the_one_that_it_is_about() -> None:
    """An id is free once its job is over: a verdict on the old job's proof may come when a new job has it."""
    rig, id = Rig(1, standing=True), PartitionId("j", "p0")
    rig.ignored |= {e.Verify, e.Keep}
    rig.add()
    rig.end("w0", id)
    (old,) = [each.proofs[0][1] for each in rig.effects if isinstance(each, e.Verify)]
    rig.send(e.JobStopped("j", KeyboardInterrupt()))
    new = rig.add()
    rig.end("w0", id, good=False)
    rig.send(e.Verified([e.Verdict(id, old, None, 1.0, 1.0)]))
    assert new.partitions["p0"].stage is Stage.VERIFYING
    unverified = [each.proofs[0][1] for each in rig.effects if isinstance(each, e.Verify)][-1]
    assert unverified is not old
    rig.send(e.Verified([e.Verdict(id, unverified, "bad", 1.0, 1.0)]))
    assert new.partitions["p0"].stage is Stage.DIAGNOSING
    rig.send(e.Kept([(id, old)]))
    rig.send(e.KeepFailed([(id, old)], OSError("full")))
    assert not new.proofs
    assert not new.over


def test_late_news_of_a_former_job_do_not_count_for_a_job_of_its_id_with_another_plan() -> None:
    """All that a worker, a verifier or the disk may still tell of a partition that no plan of today has."""
    rig, gone = Rig(1, standing=True, in_flight=3), PartitionId("j", "p1")
    rig.ignored |= {e.Verify, e.Keep}
    rig.add(count=2)
    outcome = rig.outcome("w0", gone)
    proof = outcome.value
    rig.send(e.JobStopped("j", KeyboardInterrupt()))
    job = rig.add(count=1)
    rig.news("w0", outcome)
    rig.news("w0", returned=[gone])
    rig.news("w0", under_way=[UnderWay(gone, "proving", "w0")])
    rig.send(e.Verified([e.Verdict(gone, proof, None, 1.0, 1.0)]), e.Kept([(gone, proof)]))
    rig.send(e.KeepFailed([(gone, proof)], OSError("full")))
    assert (job.over, job.stages()) == (False, {"handed": 1})
    rig.end("w0", PartitionId("j", "p0"))
    assert job.stages() == {"verifying": 1}


def test_late_news_of_a_former_job_do_not_count_for_one_of_its_id_that_has_the_same_orders() -> None:
    """A worker may have told them before it heard that the former job is over. A random schedule took such a proof for
    one of the job that has the id now, which never came to its barrier then."""
    rig, id = Rig(1, standing=True, in_flight=3), PartitionId("j", "p0")
    rig.ignored |= {e.Verify, e.Keep}
    rig.add(count=2)
    late = rig.outcome("w0", id)
    rig.send(e.JobStopped("j", KeyboardInterrupt()))
    job = rig.add(count=2)
    rig.news("w0", late, forgotten=0, under_way=[UnderWay(PartitionId("j", "p1"), "proving", "w0")])
    rig.news("w0", returned=[id], forgotten=0)
    assert job.stages() == {"handed": 2}
    rig.end("w0", id)
    assert job.stages() == {"verifying": 1, "handed": 1}


@pytest.mark.parametrize("stuck", [False, True])
def test_a_death_at_a_partition_of_a_former_job_costs_the_worker_at_most(stuck: bool) -> None:
    rig, gone = Rig(2, standing=True, uuid=True), PartitionId("j", "p1")
    rig.add(count=2)
    rig.send(e.JobStopped("j", KeyboardInterrupt()))
    job = rig.add(count=1)
    rig.die("w0", at=gone, stuck=stuck)
    rig.run()
    assert rig.ended("j") is not None
    assert (retired(job), failures(job)) == (["w0"] if stuck else [], set())


@pytest.mark.parametrize("holds_key", [False, True])
def test_the_end_of_a_former_job_takes_no_key_of_a_job_of_its_id(holds_key: bool) -> None:
    rig, again, stopped = Rig(1, standing=True), make_job("j", "k"), e.JobStopped("j", KeyboardInterrupt())
    rig.add(holds_key=holds_key)
    if holds_key:  # its driver leaves when the next job has begun
        rig.send(stopped)
        rig.send(e.JobAdded(again))
        rig.send(e.JobLeft("j"))
    else:
        rig.send(stopped, e.JobAdded(again))
    assert rig.state.keys["k"].jobs == {"j": again}


# -- time -------------------------------------------------------------------------------------------------------------


def test_time_limits_follow_from_what_was_seen() -> None:
    watch, now = Watch(60.0, 3), 0.0

    def until_hung(saying: list[UnderWay] | None, most: float) -> float | None:
        """Seconds until w0 counts as hung, which says all the time what it does (None: nothing)."""
        nonlocal now
        passed = 0.0
        while passed < most:
            now, passed = now + 1.0, passed + 1.0
            watch.look(now)
            if saying is not None:
                watch.heard("w0", saying)
            if watch.hung("w0") is not None:
                return passed
        return None

    watch.look(now)
    assert until_hung(None, 1000) is None, "never loaded"
    watch.heard("w0")
    assert until_hung(None, 1000) == 61
    at = [
        UnderWay(PartitionId("j", f"p{i}"), stage, who)
        for i, (stage, who) in enumerate([("proving", "w0"), ("synthesising", "s0"), ("ready", "w0")])
    ]
    assert until_hung(at[2:], 9000) is None, "it waits for others"
    assert until_hung(at, 5000) is None, "who knows how long it takes"
    assert until_hung(at, 5000) == pytest.approx(60 * patience.HANG_FIRST - 5000, abs=2), "but not for ever"
    watch.took("prove", 1.0)
    watch.took("prove", 0.5)
    assert until_hung(at, 1) == 1
    watch.heard("w0", [])
    more = 3 * patience.HANG_FACTOR * patience.HANG_GRACE
    assert until_hung(at, 1000) == pytest.approx(more, abs=2), "once more, and more patiently"
    watch.forget("w0")
    assert until_hung(None, 1000) is None
    watch.heard("w0")
    watch.look(now := now + 3600.0)
    assert watch.hung("w0") is None, "nobody looked"
    watch.took("synthesise", 0.01)
    watch.heard("w0", [])
    hung = None
    for _ in range(62):
        watch.look(now := now + 1.0)
        watch.heard("w0", at[1:])
        hung = watch.hung("w0")
    assert hung is not None
    assert hung.who == "s0"
