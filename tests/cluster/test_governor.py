"""The governor's promises: never more than the budget, first come first served, nobody waits for ever."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cluster.governor import Budget, Governor, LocalGovernor, NodeGovernor, Request
from distprove.errors import ClusterError

BUDGET = Budget(threads=4, memory=100)


class Machine(RuleBasedStateMachine):
    """Any sequence of requests, releases and deaths."""

    def __init__(self) -> None:
        super().__init__()
        self.governor = Governor(BUDGET)
        self.tickets: dict[int, int] = {}
        self.next_holder = 0

    @rule(threads=st.integers(0, 4), memory=st.integers(0, 100))
    def ask(self, threads: int, memory: int) -> None:
        self.next_holder += 1
        ticket = self.governor.request(Request((self.next_holder, 0.0), threads, memory))
        self.tickets[ticket] = self.next_holder

    @rule(pick=st.randoms(use_true_random=False))
    def ask_for_the_lane(self, pick: random.Random) -> None:
        """By a new holder or by one that has threads and memory."""
        holders = sorted({lease.holder[0] for lease in self.governor.leases.values() if not lease.lane})
        if holders and pick.random() < 0.5:
            holder = pick.choice(holders)
            if any(lease.lane for lease in self.governor.leases.values() if lease.holder[0] == holder):
                return
        else:
            self.next_holder += 1
            holder = self.next_holder
        ticket = self.governor.request(Request((holder, 0.0), lane=True))
        self.tickets[ticket] = holder

    @rule(pick=st.randoms(use_true_random=False))
    def give_back(self, pick: random.Random) -> None:
        """Whether it is granted or still waits."""
        if self.tickets:
            ticket = pick.choice(sorted(self.tickets))
            self.governor.release(ticket)
            del self.tickets[ticket]

    @rule(pick=st.randoms(use_true_random=False))
    def die(self, pick: random.Random) -> None:
        if self.tickets:
            holder = self.tickets[pick.choice(sorted(self.tickets))]
            self.governor.reclaim((holder, 0.0))
            self.tickets = {ticket: who for ticket, who in self.tickets.items() if who != holder}

    @invariant()
    def never_more_than_the_budget(self) -> None:
        leases = self.governor.leases.values()
        assert sum(lease.threads for lease in leases) <= BUDGET.threads
        assert sum(lease.memory for lease in leases) <= BUDGET.memory
        assert sum(lease.lane for lease in leases) <= 1
        assert self.governor.peak_memory <= BUDGET.memory

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        waiting = [ticket for queue in (self.governor.waiting, self.governor.lane_waiting) for ticket, _ in queue]
        assert sorted([*self.governor.leases, *waiting]) == sorted(self.tickets)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """The head of each queue waits because it does not fit now; those behind wait for their turn."""
        governor = self.governor
        if governor.waiting:
            _, head = governor.waiting[0]
            assert governor.threads + head.threads > BUDGET.threads or governor.memory + head.memory > BUDGET.memory
        if governor.lane_waiting:
            assert any(lease.lane for lease in governor.leases.values())
        assert list(governor.waiting) == sorted(governor.waiting, key=lambda item: item[0])

    def teardown(self) -> None:
        """However it stands, giving back leases one after another serves everybody."""
        while self.tickets:
            held = sorted(self.governor.leases)
            assert held, "somebody waits and nobody holds: a deadlock"
            self.governor.release(held[0])
            del self.tickets[held[0]]


TestGovernor = Machine.TestCase
TestGovernor.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_what_can_never_be_granted_is_refused() -> None:
    governor = Governor(BUDGET)
    with pytest.raises(ClusterError, match="needs 5 threads"):
        governor.request(Request((1, 0.0), threads=5))
    with pytest.raises(ClusterError, match="budget is 4 threads"):
        governor.request(Request((1, 0.0), memory=101))


def test_holding_and_asking_for_more_is_refused() -> None:
    governor = Governor(BUDGET)
    governor.request(Request((1, 0.0), threads=1))
    with pytest.raises(ClusterError, match="give back its lease"):
        governor.request(Request((1, 0.0), threads=1))
    governor.request(Request((1, 0.0), lane=True))
    with pytest.raises(ClusterError, match="give back its lease"):
        governor.request(Request((1, 0.0), lane=True))
    with pytest.raises(ClusterError, match="by itself"):
        governor.request(Request((2, 0.0), threads=1, lane=True))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 100), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_threads_share_a_budget(requests: list[tuple[int, int, bool]]) -> None:
    governor = LocalGovernor(BUDGET)
    lock, used, worst = threading.Lock(), [0, 0, 0], [0, 0, 0]

    def note(sign: int, amounts: tuple[int, int, int]) -> None:
        with lock:
            for index, amount in enumerate(amounts):
                used[index] += sign * amount
                worst[index] = max(worst[index], used[index])

    def work(threads: int, memory: int, lane: bool) -> None:
        with governor.lease(threads=threads, memory=memory):
            note(1, (threads, memory, 0))
            if lane:
                with governor.lease(lane=True):
                    note(1, (0, 0, 1))
                    time.sleep(0.0005)
                    note(-1, (0, 0, 1))
            note(-1, (threads, memory, 0))

    workers = [threading.Thread(target=work, args=request, daemon=True) for request in requests]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=30)
        assert not worker.is_alive(), "a deadlock"
    assert worst[0] <= 4
    assert worst[1] <= 100
    assert worst[2] <= 1
    assert governor.report()["reclaimed"] == 0


def test_a_lease_ends_with_its_block_also_on_an_error() -> None:
    governor = LocalGovernor(BUDGET)
    with pytest.raises(RuntimeError), governor.lease(threads=4):
        raise RuntimeError
    with governor.lease(threads=4, memory=100):
        pass


def test_leases_of_a_dead_process_are_taken_back() -> None:
    async def story() -> dict[str, int]:
        governor = NodeGovernor(4, 100)
        governor.POLL = 0.01
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            await governor.acquire(process.pid, threads=4)
            waiting = asyncio.ensure_future(governor.acquire(os.getpid(), threads=1))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        finally:
            process.kill()
        # Not even waited for: a zombie holds nothing.
        ticket = await asyncio.wait_for(waiting, 30)
        process.wait()
        await governor.release(ticket)
        return await governor.report()

    report = asyncio.run(story())
    assert (report["reclaimed"], report["leases"], report["peak_threads"]) == (1, 2, 4)
