"""Every limit of time that decides what a job, a worker or a service does, in one table. docs/operations.md prints it.

Each is a float in seconds, or a factor where its unit says so. What a user sets (`distprove.settings`) is not here.
"""

from __future__ import annotations

from typing import NamedTuple

TABLE: dict[str, Limit] = {}


class Limit(NamedTuple):
    """A row of the table."""

    value: float
    unit: str
    reason: str


def limit(name: str, value: float, reason: str, unit: str = "s") -> float:
    """Enter a limit into the table; returns its value."""
    assert name not in TABLE, name
    TABLE[name] = Limit(value, unit, reason)
    return value


# -- the scheduler ----------------------------------------------------------------------------------------------------

CHUNK = limit("CHUNK", 0.5, "work that a worker has in hand, and as much again behind it, so that it never runs dry")
LOOK = limit("LOOK", 0.25, "between two looks for workers that are late or hang; each is a walk over all of them")
HANG_FACTOR = limit("HANG_FACTOR", 10, "of the longest time that a step took, for each partition in flight", "times")
HANG_FIRST = limit("HANG_FIRST", 100, "of `hang_timeout`, for a step that none has finished yet", "times")
HANG_GRACE = limit("HANG_GRACE", 4, "as long, after a worker was ended for it: perhaps it did not hang", "times")
HANG_LOOK = limit("HANG_LOOK", 2.0, "that one look counts, at most: a driver that was stopped takes nobody for hung")
QUIET = limit("QUIET", 5.0, "that a worker without news may leave a question for news unanswered")
REPORT_AGE = limit("REPORT_AGE", 1.0, "that a look at processes and GPUs serves the reports of short jobs")
TOGETHER = limit("TOGETHER", 0.1, "between two batches of proofs that are verified or kept together, at least")
STATUS = limit("STATUS", 0.5, "between two looks of a job's driver whether it is still wanted")
FINISH = limit("FINISH", 10.0, "that a driver which fails waits until the scheduler has let go of its job")
SHORT_GROUP = limit("SHORT_GROUP", 1.0, "in which short jobs that begin share what their reports have in common")
