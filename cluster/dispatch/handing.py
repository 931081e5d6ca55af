"""Handing out: which partition goes to which worker, and what is asked back."""

from __future__ import annotations

import itertools
import math

from actors.worker import Ask, Order
from cluster.dispatch.barrier import raise_barrier
from cluster.dispatch.members import Member
from cluster.dispatch.partitions import PREPARING, Item, Stage
from cluster.dispatch.state import State

CHUNK = 0.5
"""Seconds of work in a chunk, about."""

MAX_CHUNK = 2000
"""Partitions in a chunk, at most."""


class HandingOut:
    """Hands out what waits, and has the key checked before anything is proven."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._items = state.items
        self._members = state.members

    def hand_out(self) -> None:
        """All that can be handed out now."""
        if self._state.system.needs_barrier and self._state.barrier is None:
            raise_barrier(self._state)
        if self._state.barrier is not None and self._items.at[Stage.COMMITTED]:
            self._hand_home(self._state.barrier[1])
        live = self._members.live()
        usable = sorted((member for member in live if member.ready), key=lambda member: len(member.tasks))
        if self._items.at[Stage.WAITING]:
            left = self._items.count(Stage.WAITING) + sum(len(member.tasks) for member in live)
            for member in usable:
                self._hand_to(member, live, fair=math.ceil(left / len(live)))
        elif usable:
            self._ask_back(usable)

    def diagnose(self, item: Item, member: Member) -> None:
        """Have a worker say whether the witness of a partition is good."""
        self._hand(member, [item], Ask.DIAGNOSE)

    def check_key(self) -> None:
        """Have the key checked by a prover that is ready, unless that is done or under way."""
        state = self._state
        ready = next((member for member in self._members.provers.values() if member.usable), None)
        if not state.key_checked and state.checker is None and ready is not None:
            state.checker = ready.worker.id
            state.executor.check(ready.worker)
            state.tell.wait(f"the key's check on {state.checker}")

    def _hand_to(self, member: Member, live: list[Member], fair: int) -> None:
        """A chunk for a worker that has less than one; near the end no more than its fair share of what is left."""
        in_flight, parallel = self._state.settings.in_flight, self._state.settings.parallel
        chunk = max(in_flight + len(member.worker.synthesisers), min(MAX_CHUNK, math.ceil(member.rate * CHUNK)))
        room = min(2 * chunk, max(in_flight, fair)) - len(member.tasks)
        if room <= 0 or len(member.tasks) > chunk:
            return
        if parallel is not None and parallel < len(live):  # one at a time, wherever a prover is free
            room = min(1, parallel - self._items.count(*PREPARING), in_flight - len(member.tasks))
            if room <= 0:
                return
        free = (item for item in self._items.at[Stage.WAITING].values() if self._may_have(member, item, live))
        ask = Ask.COMMIT if self._state.system.needs_barrier else Ask.PROVE
        self._hand(member, list(itertools.islice(free, room)), ask)

    def _may_have(self, member: Member, item: Item, live: list[Member]) -> bool:
        """Not a worker that has failed with it, unless all have."""
        return member.worker.id not in item.avoid or all(other.worker.id in item.avoid for other in live)

    def _hand_home(self, challenge: bytes) -> None:
        """After the barrier: prove where the partitions were committed, in the plan's order."""
        for member in self._members.provers.values():
            items = [item for item in self._items.at[Stage.COMMITTED].values() if item.home == member.worker.id]
            if member.usable:
                self._hand(member, sorted(items, key=lambda item: item.partition.index), Ask.PROVE, challenge)

    def _hand(self, member: Member, items: list[Item], ask: Ask, challenge: bytes | None = None) -> None:
        if not items:
            return
        for item in items:
            item.home = member.worker.id
            self._items.move(item, Stage.HANDED if ask is not Ask.DIAGNOSE else Stage.DIAGNOSING)
            member.tasks[item.partition.name] = None
        orders = [Order(item.partition, ask, challenge) for item in items]
        self._state.executor.hand(member.worker, orders, self._state.session.began, self._parallel(member))

    def _parallel(self, member: Member) -> int | None:
        """A worker's share of the setting `parallel`. Where there are more workers, `_hand_to` counts over all."""
        live, parallel = self._members.live(), self._state.settings.parallel
        if parallel is None:
            return None
        share, more = divmod(parallel, len(live))
        return max(1, share + (live.index(member) < more))

    def _ask_back(self, usable: list[Member]) -> None:
        """Have the worker with the most left return part of what it has not begun, while others have nothing."""
        idle, most = sum(not member.tasks for member in usable), usable[-1]
        spare = len(most.tasks) - self._state.settings.in_flight
        if idle and spare > 0 and self._state.barrier is None and not most.asked_back:
            most.asked_back = True
            self._state.executor.ask_back(most.worker, max(1, spare // (idle + 1)))
