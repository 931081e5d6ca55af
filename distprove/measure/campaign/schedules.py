"""Random schedules of events through the scheduler's machine, by the million. A seed makes a schedule, and the same one
each time.

    python -m distprove.measure.campaign.schedules --count 1000000 --processes 16

Each failure is a line with its seed. The test of such schedules shortens it to the events that matter:

    DISTPROVE_FIRST_SCHEDULE=253 DISTPROVE_SCHEDULES=1 python -m pytest tests/cluster/scheduler/test_random.py
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from distprove.measure.campaign import made_by, write_result

WORLD = "tests.cluster.scheduler.world"
"""The module of the world in which schedules happen."""
STEPS = 60
"""Things that happen at random in a schedule, before it comes to its end without further faults."""
SLICE = 250
"""Schedules that a process takes at a time."""


class World(Protocol):
    """The module of a world."""

    Choices: Callable[[int], Any]
    """Takes a seed."""
    failure_of: Callable[[Any, int], tuple[Exception | None, list[Any]]]
    """Takes choices and the number of steps; gives what went wrong, and the events."""


class Played(NamedTuple):
    """What became of some schedules."""

    schedules: int
    events: int
    seconds: float
    """CPU time."""
    failures: list[tuple[int, str]]
    """Seeds, with what went wrong."""


def play(first: int, *, last: int, steps: int, world: str) -> Played:
    """Play the schedules of a slice."""
    module, events, began = cast(World, import_module(world)), 0, time.process_time()
    failures: list[tuple[int, str]] = []
    seeds = range(first, min(last, first + SLICE))
    for seed in seeds:
        error, found = module.failure_of(module.Choices(seed), steps)
        events += len(found)
        if error is not None:
            failures.append((seed, f"{type(error).__name__}: {error}"))
    return Played(len(seeds), events, time.process_time() - began, failures)


def campaign(first: int, count: int, processes: int, steps: int = STEPS, world: str = WORLD) -> Iterator[Played]:
    """Play the schedules of `count` seeds, in slices, on so many processes."""
    import_module(world)  # once, for all that are forked
    gc.freeze()
    call = partial(play, last=first + count, steps=steps, world=world)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(call, range(first, first + count, SLICE))
        pool.close()  # a pool that is ended while its processes wait for work can wait for ever
        pool.join()


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Play random schedules of events through the scheduler's machine.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=STEPS, help="random steps of each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--world", default=WORLD, help="module of the world")
    parser.add_argument("--seconds", type=float, default=math.inf, help="play no longer than that")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    began, played, events, failures, cpu = time.monotonic(), 0, 0, 0, 0.0
    for found in campaign(given.first, given.count, given.processes, given.steps, given.world):
        played, events, cpu = played + found.schedules, events + found.events, cpu + found.seconds
        failures += len(found.failures)
        for seed, why in found.failures:
            print(f"seed {seed}: {' '.join(why.split())[:300]}", flush=True)
        if time.monotonic() - began > given.seconds:
            break
    result = {
        "format": "distprove.schedules",
        "what": "random schedules of events through the scheduler's machine",
        "made_by": made_by(),
        "first": given.first,
        "schedules": played,
        "steps": given.steps,
        "events": events,
        "failures": failures,
        "processes": given.processes,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_ms_each": round(1e3 * cpu / max(1, played), 3),
    }
    write_result(result, given.out)
    sys.exit(1 if failures or (played != given.count and result["seconds"] < given.seconds) else 0)


if __name__ == "__main__":
    main()
