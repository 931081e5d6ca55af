"""Writes a stretch of work on a partition for timeline.json (`cluster.record.timeline` says what that is).

Workers write it, so that the driver puts together only lines: it has several for each partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from distprove.system import Step, StepTimes
from kernels.interface.busy import DeviceTime


def span_json(
    worker: str,
    partition: str | None,
    stage: str,
    start: float,
    end: float,
    outcome: str,
    began: float,
    inner: Mapping[str, float],
    steps: Sequence[Step] = (),
    on_device: DeviceTime | None = None,
) -> str:
    """A span as JSON, but for its attempt and the brace that closes it (`with_attempt`). Put together by hand: `json`
    takes ten times as long. Times are seconds since the epoch; `began` is when the session did."""
    name = "null" if partition is None else quoted(partition)
    each = ", ".join([f"{quoted(step)}: {seconds:.6f}" for step, seconds in inner.items()])
    when = ", ".join([f"[{quoted(step)}, {first - began:.6f}, {last - began:.6f}]" for step, first, last in steps])
    device = "null"
    if on_device is not None:
        stretches = ", ".join([f"[{first - began:.6f}, {last - began:.6f}]" for first, last in on_device.stretches])
        device = f'{{"by": "{"events" if on_device.by_events else "queue"}", "stretches": [{stretches}]}}'
    return (
        f'{{"worker": {quoted(worker)}, "partition": {name}, "stage": {quoted(stage)}, '
        f'"start": {start - began:.6f}, "end": {end - began:.6f}, "outcome": {quoted(outcome)}, '
        f'"inner": {{{each}}}, "steps": [{when}], "on_device": {device}'
    )


def with_attempt(span: str, attempt: int) -> str:
    """The whole span."""
    return f'{span}, "attempt": {attempt}}}'


def of_times(times: StepTimes | None) -> tuple[Mapping[str, float], Sequence[Step], DeviceTime | None]:
    """`inner`, `steps` and `on_device` of a prover's times, if there are any."""
    return ({}, (), None) if times is None else (times.seconds, times.steps, times.on_device)


@lru_cache(maxsize=1024)
def quoted(text: str) -> str:
    """A text as JSON."""
    return json.dumps(text)
