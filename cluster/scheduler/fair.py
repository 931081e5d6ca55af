"""The fair queue: of one rank, each member's items begin as often as those of any other member that waits.

Members are jobs, whose orders go to workers, and the clients of a service, whose jobs begin.
"""

from __future__ import annotations

from collections import Counter

from actors.protocol import Place


class FairQueue:
    """Gives each item a place. A member's next item has a higher turn than its last one; a member that had none in the
    queue begins where the others are by now. So one item of each member goes before a second one of any, and no member
    gains by what it left out before. Whoever calls holds a lock."""

    def __init__(self) -> None:
        self._now: Counter[int] = Counter()
        """The highest turn that began, by rank."""
        self._next: dict[tuple[int, str], int] = {}
        """The turn of a member's next item, at least, by rank and member."""

    def peek(self, rank: int, member: str) -> Place:
        """The place of a member's next item."""
        return Place(rank, max(self._now[rank], self._next.get((rank, member), 0)))

    def take(self, rank: int, member: str) -> Place:
        """The place of another item of a member."""
        place = self.peek(rank, member)
        self._next[rank, member] = place.turn + 1
        return place

    def begun(self, place: Place) -> None:
        """Note that the item at a place begins, or ended."""
        if place.turn > self._now[place.rank]:
            self._now[place.rank] = place.turn

    def forget(self, rank: int, member: str) -> None:
        """Forget a member without items."""
        self._next.pop((rank, member), None)
