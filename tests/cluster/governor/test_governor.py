"""The governor's promises: never more than the budget, first come first served, nobody waits for ever."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, cast

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors import grants, patience
from actors.grants import Memory, MemoryCache, SynthesisLease, ThreadCache
from cluster.governor import watch
from cluster.governor.actor import NodeGovernor
from cluster.governor.budget import budget_of
from cluster.governor.local import LocalGovernor
from cluster.governor.state import NOBODY, Budget, Ledger, Request
from distprove.errors import ClusterError
from tests.support.own_module import give
from tests.support.own_time import give_time

BUDGET = Budget(threads=4, memory=100)
PICK = st.randoms(use_true_random=False)
KEYS = {"a": 30, "b": 45, "c": 60}
"""Bytes of three keys: two of them fit together at best."""

AMOUNTS = st.one_of(
    st.fixed_dictionaries({"threads": st.integers(1, 6), "least": st.sampled_from([0, 1, 2])}),
    st.fixed_dictionaries({"memory": st.integers(0, 100)}),
    st.just({"reclaim": True}),
)
"""What a request may be for: threads or memory or the reclaim lock."""


class Machine(RuleBasedStateMachine):
    """Any sequence of requests, releases and deaths, under any budget."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(BUDGET)
        self.tickets: dict[int, int] = {}
        self.next_holder = 0

    def _ask(self, keeps: bool = False, **what: Any) -> bool:
        """Whether it was not refused, as what does not fit beside the keys that are kept must be."""
        kept = sum(KEYS[str(key)] for key in self.kept - {what.get("key")})
        memory = what.get("memory", 0)
        fits = not (memory and memory + kept > BUDGET.memory)
        self.next_holder += 1
        try:
            ticket = self.ledger.request(Request(NOBODY if keeps else (self.next_holder, 0.0), **what))
        except ClusterError:
            assert not fits
            return False
        assert fits
        self.tickets[ticket] = 0 if keeps else self.next_holder
        return True

    @property
    def kept(self) -> set[str]:
        leases = self.ledger.leases.values()
        return {lease.key for lease in leases if lease.key is not None and lease.holder == NOBODY}

    @initialize(threads=st.integers(1, 4), deallocations=st.integers(1, 3))
    def decide(self, threads: int, deallocations: int) -> None:
        self.ledger = Ledger(replace(BUDGET, threads=threads, deallocations=deallocations))

    @rule(amounts=AMOUNTS)
    def ask(self, amounts: dict[str, Any]) -> None:
        self._ask(**amounts)

    @rule()
    def ask_as_provers_do(self) -> None:
        """For threads only: who waits for memory, or for the reclaim lock, does not stand in their way."""
        assert self._ask(threads=4, least=2), "threads there are"
        ticket = max(self.tickets)
        if ticket not in self.ledger.leases:
            assert self.ledger.threads, "nobody computes, and one who asks for threads alone waits"

    @rule(name=st.sampled_from(sorted(KEYS)))
    def ask_for_a_key(self, name: str) -> None:
        self._ask(key=name, memory=KEYS[name])

    @rule(name=st.sampled_from(sorted(KEYS)))
    def keep_a_key(self, name: str) -> None:
        """As an executor does, for as long as its job takes."""
        self._ask(keeps=True, key=name, memory=KEYS[name])

    @rule(pick=PICK, memory=st.integers(0, 100))
    def give_back_early(self, pick: random.Random, memory: int) -> None:
        held = [ticket for ticket in self.tickets if ticket in self.ledger.leases]
        if held:
            ticket = pick.choice(sorted(held))
            before = self.ledger.leases[ticket]
            self.ledger.shrink(ticket, memory)
            after = self.ledger.leases[ticket]
            assert after == before if before.key else after.memory == min(memory, before.memory)

    @rule(pick=PICK)
    def give_back(self, pick: random.Random) -> None:
        """Whether it is granted or still waits."""
        if self.tickets:
            ticket = pick.choice(sorted(self.tickets))
            self.ledger.release(ticket)
            del self.tickets[ticket]

    @rule(pick=PICK)
    def die(self, pick: random.Random) -> None:
        """What is kept for a job stays."""
        holders = sorted(set(self.tickets.values()) - {0})
        if holders:
            holder = pick.choice(holders)
            self.ledger.reclaim((holder, 0.0))
            self.tickets = {ticket: who for ticket, who in self.tickets.items() if who != holder}

    @invariant()
    def never_more_than_the_budget(self) -> None:
        leases, budget = self.ledger.leases.values(), self.ledger.budget
        in_use = {lease.key for lease in leases if lease.key is not None}
        assert sum(lease.memory for lease in leases if lease.key is None) + sum(map(KEYS.get, in_use)) <= budget.memory
        assert self.ledger.memory <= budget.memory
        assert self.ledger.peak_memory <= budget.memory
        assert sum(lease.threads for lease in leases) == self.ledger.threads <= budget.threads
        assert sum(lease.reclaim for lease in leases) <= budget.deallocations

    @invariant()
    def keys_in_use_stay(self) -> None:
        keys = self.ledger.keys
        in_use = [lease.key for lease in self.ledger.leases.values() if lease.key is not None]
        for name in KEYS:
            assert keys.users(name) == in_use.count(name)
            assert (name in keys) == (name in in_use)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        waiting = [ticket for ticket, _ in self.ledger.waiting]
        assert sorted([*self.ledger.leases, *waiting]) == sorted(self.tickets)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """The oldest request for each resource waits because it does not fit now."""
        ledger, heads = self.ledger, dict[str, Request]()
        for _, request in ledger.waiting:
            heads.setdefault(request.resource, request)
        for resource, head in heads.items():
            if resource == "memory":
                memory = 0 if head.key in ledger.keys else head.memory
                assert ledger.memory + memory > ledger.budget.memory
            elif resource == "threads":
                least = min(head.least or head.threads, head.threads)
                assert ledger.threads + least > ledger.budget.threads
            else:
                assert ledger.deallocations == ledger.budget.deallocations

    @invariant()
    def first_come_first_served(self) -> None:
        """No request that waits was passed by a later one for the same resource."""
        for resource in ("memory", "threads", "deallocations"):
            waiting = [t for t, request in self.ledger.waiting if request.resource == resource]
            granted = [t for t, lease in self.ledger.leases.items() if lease.resource == resource]
            assert waiting == sorted(waiting)
            assert not waiting or not granted or max(granted) < waiting[0]

    def teardown(self) -> None:
        """However it stands, giving back leases one after another serves everybody."""
        while self.tickets:
            held = sorted(self.ledger.leases)
            assert held, "somebody waits and nobody holds: a deadlock"
            self.ledger.release(held[0])
            del self.tickets[held[0]]


TestLedger = Machine.TestCase
TestLedger.settings = settings(max_examples=100, stateful_step_count=40)


def test_memory_that_can_never_be_granted_is_refused() -> None:
    with pytest.raises(ClusterError, match="needs 101 B of host memory; this node's budget is 100 B"):
        Ledger(BUDGET).request(Request((1, 0.0), memory=101))


def test_one_request_is_for_one_resource() -> None:
    """One that held threads while it waited for memory could keep those from computing who would give it back."""
    for both in ({"threads": 1, "memory": 1}, {"threads": 1, "reclaim": True}, {"key": "a", "reclaim": True}):
        with pytest.raises(ClusterError, match="one by one"):
            Ledger(BUDGET).request(Request((1, 0.0), **both))  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(1, 2),
)
@settings(max_examples=25)
def test_computing_and_deallocating_are_throttled(
    requests: list[tuple[int, int, bool]], most: int, deallocations: int
) -> None:
    """The caps on CPU threads and on concurrent deallocations hold, whatever their holders do, and nobody waits for
    ever."""
    governor = LocalGovernor(budget_of(4, 100, 0, {"threads": most, "deallocations": deallocations}))
    lock, used, worst = threading.Lock(), [0, 0, 0], [0, 0, 0]

    def note(sign: int, *amounts: int) -> None:
        with lock:
            for index, amount in enumerate(amounts):
                used[index] += sign * amount
                worst[index] = max(worst[index], used[index])

    def work(threads: int, memory: int, reclaims: bool) -> None:
        with governor.lease(memory=memory), governor.lease(threads=threads) as held:
            note(1, held.threads, memory, 0)
            if reclaims:
                with governor.lease(reclaim=True):
                    note(1, 0, 0, 1)
                    time.sleep(0.0005)
                    note(-1, 0, 0, 1)
            note(-1, held.threads, memory, 0)

    workers = [threading.Thread(target=work, args=request, daemon=True) for request in requests]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
        assert not worker.is_alive(), "a deadlock"
    assert worst[0] <= most
    assert worst[1] <= 100
    assert worst[2] <= deallocations
    report = governor.report()
    assert (report["reclaimed"], report["limits"]) == (0, {"threads": most, "deallocations": deallocations})


def test_a_pool_that_is_throttled_shares_what_is_left_with_synthesis() -> None:
    """Half of the cap has to do for a prover that has more threads than that: it would else wait for all of it."""
    governor = Ledger(Budget(threads=4, memory=100))
    synthesis = governor.request(Request((1, 0.0), threads=1))
    prover = governor.request(Request((2, 0.0), threads=16, least=8))
    assert (governor.leases[synthesis].threads, governor.leases[prover].threads) == (1, 3)


def test_a_prover_takes_what_synthesis_leaves_and_synthesis_gets_in_between() -> None:
    governor = Ledger(Budget(threads=8, memory=100))

    def prover() -> Request:
        return Request((1, 0.0), threads=8, least=4)

    first = governor.request(prover())
    assert governor.leases[first].threads == 8
    synthesis = governor.request(Request((2, 0.0), threads=1))
    assert synthesis not in governor.leases, "more threads than there are"
    governor.release(first)
    second = governor.request(prover())
    assert (governor.leases[synthesis].threads, governor.leases[second].threads) == (1, 7)
    governor.release(second)
    others = [governor.request(Request((holder, 0.0), threads=1)) for holder in range(3, 7)]
    third = governor.request(prover())
    assert third not in governor.leases, "three of eight are too few"
    late = governor.request(Request((9, 0.0), threads=1))
    assert late not in governor.leases, "it would keep the prover waiting"
    governor.release(others[0])
    assert governor.leases[third].threads == 4
    assert late not in governor.leases
    governor.release(third)
    assert late in governor.leases


@pytest.mark.parametrize("throttle", [{}, {"threads": 1}], ids=["all threads", "one"])
def test_provers_end_though_memory_is_full(throttle: dict[str, int]) -> None:
    """Memory for one witness: its synthesis begins when the last one was proven, while others already
    wait. Whoever of them waited for one who waits for memory would wait for ever."""
    governor = LocalGovernor(budget_of(2, 100, 0, throttle))
    made: SimpleQueue[Memory] = SimpleQueue()
    count, worst = 12, 0
    cache = MemoryCache(governor)

    def synthesise() -> None:
        lease = SynthesisLease(ThreadCache(governor, 1, keeps=False))
        for _ in range(count // 2):
            lease.end()
            memory = cache.take(100)
            lease.begin()
            governor.shrink(memory.ticket, 60)
            made.put(memory)
        lease.end()

    def prove() -> None:
        nonlocal worst
        for _ in range(count // 2):
            memory = made.get()
            for _ in range(3):
                with governor.lease(threads=2, least=1) as lease:
                    worst = max(worst, lease.threads)
            cache.put(memory)
            cache.give_back(older_than=0.0)

    threads = [threading.Thread(target=call, daemon=True) for call in (synthesise, synthesise, prove, prove)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a deadlock"
    report = governor.report()
    assert (report["held"], report["peak_memory"]) == (0, 100)
    assert worst <= 2


def test_a_lease_ends_with_its_block_also_on_an_error() -> None:
    governor = LocalGovernor(BUDGET)
    with pytest.raises(RuntimeError), governor.lease(threads=4):
        raise RuntimeError
    with governor.lease(threads=4), governor.lease(memory=100):
        pass


def test_leases_of_a_dead_process_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GOVERNOR_LOOK", 0.01)

    async def story() -> dict[str, int]:
        governor = NodeGovernor(4, 100)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            await governor.acquire(process.pid, threads=4)
            waiting = asyncio.ensure_future(governor.acquire(os.getpid(), threads=1))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        finally:
            process.kill()
        # Not even waited for: a zombie holds nothing.
        ticket, _ = await asyncio.wait_for(waiting, 30)
        process.wait()
        await governor.release(ticket)
        return await governor.report()

    report = asyncio.run(story())
    assert (report["reclaimed"], report["leases"], report["peak_threads"]) == (1, 2, 4)


def test_calls_of_a_process_that_are_read_after_its_death_hold_nothing() -> None:
    async def story() -> dict[str, Any]:
        governor = NodeGovernor(4, 100)
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        await governor.acquire(process.pid, threads=4)
        return await governor.report()

    report = asyncio.run(story())
    assert (report["held"], report["reclaimed"]) == (0, 1)


def test_a_call_that_is_cancelled_leaves_no_lease() -> None:
    """While it waits, and when it was granted just before."""

    async def story() -> dict[str, Any]:
        governor, me = NodeGovernor(4, 100), os.getpid()
        for granted in (False, True):
            ticket, _ = await governor.acquire(me, threads=4)
            waiting = asyncio.ensure_future(governor.acquire(me, threads=4))
            await asyncio.sleep(0)
            if granted:
                await governor.release(ticket)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await governor.release(ticket)
        return await governor.report()

    report = asyncio.run(story())
    assert (report["held"], report["leases"]) == (0, 3)


def test_early_returns_and_keys_through_the_shell() -> None:
    """Memory is given back before a lease ends, and a key's with its last user."""
    governor = LocalGovernor(BUDGET)
    kept = governor.acquire(memory=80).ticket
    governor.shrink(kept, 30)
    assert governor.report()["peak_memory"] == 80
    users = [governor.keep("a", memory=60) for _ in range(2)]
    governor.release(users[0])
    assert governor.report()["keys"] == {"resident": 1, "memory": 60, "loaded": 1, "evicted": 0}
    governor.release(users[1])
    assert governor.report()["keys"] == {"resident": 0, "memory": 0, "loaded": 1, "evicted": 1}
    with governor.lease(memory=70):
        pass
    governor.release(kept)
    with governor.lease(memory=100):
        pass


def test_a_prover_that_is_gone_gives_back_its_part_of_what_is_kept() -> None:
    governor = Ledger(BUDGET)
    kept = governor.request(Request(NOBODY, key="job", memory=90))
    with pytest.raises(ClusterError, match="100 B, 90 B of that for keys in use"):
        governor.request(Request((1, 0.0), memory=20))
    governor.shrink_key(kept, 70)
    ticket = governor.request(Request((1, 0.0), memory=30))
    assert ticket in governor.leases
    governor.shrink_key(kept, 100)
    assert governor.memory == 100, "a key never grows"
    governor.release(ticket)
    governor.release(kept)
    assert governor.request(Request((1, 0.0), memory=100)) in governor.leases, "the key went with its user"


def test_a_key_that_can_never_fit_is_refused() -> None:
    with pytest.raises(ClusterError, match="a key, with what provers make of it"):
        LocalGovernor(BUDGET).keep("large", memory=101)


def test_a_node_keeps_what_the_driver_asks_for() -> None:
    async def story() -> dict[str, Any]:
        governor = NodeGovernor(4, 100)
        ticket = await governor.keep("job", 60)
        with pytest.raises(ClusterError, match="keys in use"):
            await governor.acquire(os.getpid(), memory=50)
        await governor.shrink_key(ticket, 40)
        lease, _ = await governor.acquire(os.getpid(), memory=50)
        await governor.release(lease)
        return await governor.report()

    report = asyncio.run(story())
    assert (report["held"], report["keys"]["memory"], report["peak_memory"]) == (0, 40, 90)


def test_jobs_share_a_node_and_what_a_dead_one_held_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GOVERNOR_LOOK", 0.01)

    async def story() -> None:
        governor = NodeGovernor(4, 100)
        me = os.getpid()
        assert await governor.attend("one")
        assert await governor.attend("two")
        assert await governor.attend("one"), "a sign of life"
        await governor.keep("one", 30)
        await governor.keep("two", 20)
        await governor.acquire(me, memory=40)
        _, threads = await governor.acquire(me, threads=9)
        assert threads == 4, "no more than the node's, whatever the job was told"
        waiting = asyncio.ensure_future(governor.acquire(me, memory=40))
        await asyncio.sleep(0.05)
        assert not waiting.done(), "the budget is one"
        assert not await governor.leave("one")
        await asyncio.wait_for(waiting, 30)
        report = await governor.report()
        assert (report["reclaimed"], report["peak_memory"]) == (1, 100)
        assert report["keys"]["resident"] == 1, "the room of the key that is left was needed"
        monkeypatch.setattr(patience, "GOVERNOR_FORGETS", 0.0)
        assert not await governor.attend("three"), "all are gone: it is at its end"
        assert await governor.leave("three")

    asyncio.run(story())


def test_the_report_has_what_pages_and_plots_read() -> None:
    governor = LocalGovernor(BUDGET)
    governor.start()
    with governor.lease(threads=1), governor.lease(memory=50):
        began, late = time.time() - 100.0, time.monotonic() + 120.0
        report = governor.report(began)
        while not (report["samples"] and report["samples"][-1]["leases"]) and time.monotonic() < late:
            time.sleep(0.1)
            report = governor.report(began)
    governor.close()
    sample = report["samples"][-1]
    assert 99.0 < sample["t"] < 300.0
    assert (sample["leases"], sample["queue"], sample["memory_leased"]) == ({"threads": 1}, {}, 50)
    assert sample["memory_used"] > 0
    assert 0.0 <= sample["cpu"] <= 1.0


def used_threads(governor: LocalGovernor) -> int:
    return sum(lease.threads for lease in governor._state.leases.values())


def granted(governor: LocalGovernor) -> int:
    leases: int = governor.report()["leases"]
    return leases


def test_threads_that_one_synthesiser_lets_go_of_are_the_next_ones() -> None:
    governor = LocalGovernor(Budget(threads=2, memory=100))
    cache = ThreadCache(governor, 1, keeps=True)
    first, second, third = (SynthesisLease(cache) for _ in range(3))
    first.begin()
    second.begin()
    second.end()
    assert not second.held
    third.begin()
    assert third.held
    assert granted(governor) == 2, "asked for threads that lay idle"
    first.end()
    third.end()
    assert used_threads(governor) == 2
    cache.give_back(older_than=60.0)
    assert used_threads(governor) == 2
    cache.give_back(older_than=0.0)
    assert used_threads(governor) == 0


def test_threads_are_asked_for_again_however_they_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "IDLE_LEASE", 0.0)
    governor = LocalGovernor(Budget(threads=1, memory=100))
    cache = ThreadCache(governor, 1, keeps=True)
    lease, other = SynthesisLease(cache), SynthesisLease(cache)
    for each in (lease, other, lease):
        each.begin()
        each.end()
    assert granted(governor) == 3


def test_threads_that_nobody_else_waits_for_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    give_time(monkeypatch, grants, monotonic=lambda: now)
    governor = LocalGovernor(Budget(threads=1, memory=100))
    cache = ThreadCache(governor, 1, keeps=True)
    lease = SynthesisLease(cache)
    lease.begin()
    for _ in range(5):
        now += 0.8 * patience.IDLE_LEASE
        lease.begin()
        cache.look()
    assert granted(governor) == 1, "asked again though nobody waited"
    other = governor.ask(Request((1, 0.0), threads=1))
    for _ in range(2):
        now += 0.8 * patience.IDLE_LEASE
        cache.look()
    renewing = threading.Thread(target=lease.begin)
    renewing.start()
    assert other.threads.result(60) == 1, "kept threads that somebody waits for"
    governor.release(other.ticket)
    renewing.join(60)
    assert granted(governor) == 3


def test_a_worker_that_takes_no_threads_does_not_ask_who_waits_for_them() -> None:
    governor = LocalGovernor(Budget(threads=1, memory=100))
    asked: list[bool] = []
    governor.threads_wanted = lambda: bool(asked.append(True))  # type: ignore[method-assign, func-returns-value]
    for keeps, takes, times in ((True, False, 0), (False, True, 0), (True, True, 1)):
        cache = ThreadCache(governor, 1, keeps=keeps)
        lease = SynthesisLease(cache)
        if takes:
            lease.begin()
        cache.look()
        lease.end()
        cache.close()
        assert len(asked) == times


def test_who_waits_for_memory_or_the_reclaim_lock_waits_for_no_threads() -> None:
    state = Ledger(Budget(threads=2, memory=100))
    first = state.request(Request((1, 0.0), memory=100))
    state.request(Request((2, 0.0), memory=1))
    state.request(Request((3, 0.0), reclaim=True))
    state.request(Request((4, 0.0), reclaim=True))
    state.request(Request((5, 0.0), threads=2))
    assert not state.threads_wanted
    last = state.request(Request((6, 0.0), threads=1))
    assert state.threads_wanted
    state.release(last)
    assert not state.threads_wanted
    assert first in state.leases


def test_where_provers_are_on_the_cpu_no_threads_lie_idle() -> None:
    governor = LocalGovernor(Budget(threads=1, memory=100))
    lease = SynthesisLease(ThreadCache(governor, 1, keeps=False))
    lease.begin()
    lease.end()
    assert used_threads(governor) == 0


class At:
    """Where a driver is, of which it is known whether it can be reached at each look."""

    def __init__(self, *reached: bool) -> None:
        self.reached = list(reached)

    def answers(self) -> bool:
        return self.reached.pop(0)


@pytest.mark.parametrize(
    ("reached", "stays"),
    [((True, True), True), ((True, False), False), ((False,), True)],
    ids=["stopped", "over or cut off", "behind a firewall"],
)
def test_a_driver_that_is_not_heard_is_looked_for(reached: tuple[bool, ...], stays: bool) -> None:
    async def story() -> None:
        governor = NodeGovernor(4, 100)
        address = cast("Any", At(*reached))
        assert await governor.attend("one", address)
        await asyncio.sleep(0.01)
        await governor._forget_the_unreached(0.0)
        if stays:
            assert await governor.attend("one", address, known=True)
            assert await governor.leave("one")
        else:
            assert governor._over, "it was the last one"

    asyncio.run(story())


@pytest.mark.parametrize("lives", [True, False])
def test_a_new_driver_does_not_share_the_governor_of_one_that_was_killed(lives: bool) -> None:
    """Budget and limits would be those that the other was given. It was heard a moment ago."""

    async def story() -> None:
        governor = NodeGovernor(4, 100)
        assert await governor.attend("one", cast("Any", At(True, lives)))
        await asyncio.sleep(0.01)
        assert await governor.attend("two", cast("Any", At(True))) is lives

    asyncio.run(story())


@pytest.mark.parametrize("found_by", ["its address", "another", "its silence"])
def test_a_governor_does_not_end_before_what_serves_its_drivers_on_its_node(
    found_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers whose driver is cut off live for 15 s, and another governor would lease their memory once more."""

    async def miss(governor: NodeGovernor) -> None:
        if found_by == "another":
            await governor.attend("two")
        elif found_by == "its silence":
            with monkeypatch.context() as at_once:
                at_once.setattr(patience, "GOVERNOR_FORGETS", 0.0)
                governor._look()
        else:
            await governor._forget_the_unreached(0.0)

    async def story() -> None:
        governor = NodeGovernor(4, 100)
        assert await governor.attend("one", cast("Any", At(True, False, False)))
        await governor.serves(worker.pid, "one")
        await governor.keep("one", 60)
        await governor.acquire(worker.pid, memory=30)
        await asyncio.sleep(0.01)
        await miss(governor)
        assert not governor._over
        waits = asyncio.ensure_future(governor.acquire(os.getpid(), memory=11))
        await asyncio.sleep(0)
        assert not waits.done(), "memory that a worker uses was leased again"
        worker.kill()
        worker.wait()
        await governor.leave("two")
        await miss(governor)
        assert governor._over
        await asyncio.wait_for(waits, 30)

    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        asyncio.run(story())
    finally:
        worker.kill()
        worker.wait()


def test_a_driver_that_was_taken_for_dead_hears_of_it() -> None:
    """What it held is lost, so that it has to lease it again."""

    async def story() -> None:
        governor = NodeGovernor(4, 100)
        assert await governor.attend("01-one")
        assert not await governor.attend("02-two", known=True)
        assert await governor.attend("02-two")
        assert await governor.attend("02-two", known=True)
        assert not await governor.leave("01-one")
        assert await governor.leave("02-two")

    asyncio.run(story())


def test_tickets_of_another_governor_mean_nothing_to_the_next() -> None:
    async def ticket() -> int:
        return (await NodeGovernor(4, 100).acquire(os.getpid(), threads=1))[0]

    assert asyncio.run(ticket()) != asyncio.run(ticket())


@pytest.mark.parametrize("heard", [True, False])
def test_a_governor_whose_driver_was_killed_before_it_said_a_word_ends(
    heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(NodeGovernor, "_end", staticmethod(ended.set))

    async def story() -> bool:
        governor = NodeGovernor(4, 100, waits=None if heard else 0.05)
        if heard:
            assert await governor.attend("01-one")
            governor._end_if_alone()  # as once it has waited
        return ended.is_set() if heard else await asyncio.to_thread(ended.wait, 60.0)

    assert asyncio.run(story()) is not heard


def test_a_look_without_a_free_descriptor_ends_no_governor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at the node also sees to holders that died."""
    governor, refused = LocalGovernor(BUDGET), list[str]()

    def refuse(*_arguments: object, **_options: object) -> None:
        refused.append("open")
        raise OSError(errno.EMFILE, "Too many open files")

    class Childless(psutil.Process):
        children = refuse

    give(monkeypatch, watch, "psutil", cpu_percent=refuse, Process=Childless)
    governor.sample()
    governor.watch.look()
    assert len(refused) == 2
    governor.watch.close()
