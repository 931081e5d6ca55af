"""Turns of clients: of jobs of one priority, those of each client begin as often as any other's that waits."""

from __future__ import annotations

from collections import Counter


class Turns:
    """Gives each job a number on submission, in whose order jobs of one rank begin. A client's next job has a higher
    one than its last; a client that had none in the queue begins where the others are by now. So one job of each client
    begins before a second one of any, and no client gains by what it left out before. Whoever calls holds a lock."""

    def __init__(self) -> None:
        self._now: Counter[int] = Counter()
        """The highest number that began, by rank."""
        self._next: Counter[tuple[int, str]] = Counter()
        """The number of a client's next job, at least, by rank and client."""

    def take(self, rank: int, client: str) -> int:
        """The number of another job of a client."""
        turn = max(self._now[rank], self._next[rank, client])
        self._next[rank, client] = turn + 1
        return turn

    def begun(self, rank: int, turn: int) -> None:
        """A job of that number begins."""
        self._now[rank] = max(self._now[rank], turn)
