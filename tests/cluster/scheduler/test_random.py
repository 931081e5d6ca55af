"""Random schedules through the machine: whatever happens, in whatever order, each job ends right or says why."""

from __future__ import annotations

import os

import pytest

from tests.cluster.scheduler.world import Choices, failure_of, shorten

SCHEDULES = int(os.environ.get("DISTPROVE_SCHEDULES", "2500"))
"""Schedules in all, of some 40 events each. Campaigns play more (`distprove.measure.campaign.schedules`)."""
FIRST = int(os.environ.get("DISTPROVE_FIRST_SCHEDULE", "0"))
STEPS = 60
"""Things that happen at random, before the schedule comes to its end without further faults."""
PARTS = 4


def check(seed: int, steps: int) -> None:
    """Run the schedule of a seed; fail with the shortest list of events that is found to fail too."""
    choices = Choices(seed)
    error, _ = failure_of(choices, steps)
    if error is not None:
        made, error, events = shorten(choices.made, steps)
        told = "\n".join(f"  {event}"[:240] for event in events)
        pytest.fail(f"seed {seed}: {error!r}\nchoices {made}\nafter these events:\n{told}", pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_ends_right_or_says_why(part: int) -> None:
    for seed in range(FIRST + part, FIRST + SCHEDULES, PARTS):
        check(seed, STEPS)


def test_long_schedules_too() -> None:
    for seed in range(SCHEDULES // 100):
        check(-1 - seed, 600)
