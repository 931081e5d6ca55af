"""When a device works: by events in its own stream where it has them, else as the host sees its queue.

Events stand before a piece of work's first launch and after its last, and around each wait of the thread that computes,
because there the stream may run dry: what lies between the event before such a wait and the one before the next launch
is idle. Gaps from one kernel to the next, where the host launches more slowly than the device works, stay inside.

An event costs some microseconds of the host, and few are needed: two for a piece of work and two for a wait, at most
`MOST_EVENTS`. Their times become the host's by one event that the host waited for when it was idle. From then on only
the device's clock counts, so that under unbroken load the two may part by some milliseconds an hour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

Stretch = tuple[float, float]
"""Beginning and end, in seconds since the epoch."""

BACK_TO_BACK = 1e-5
"""Seconds between two events that may pass though the device was never without work."""
MOST_EVENTS = 512
"""For one piece of work: waits beyond that count as busy."""
RENEW = 300.0
"""Seconds without work after which the device's clock is compared with the host's again."""


def merged(stretches: Iterable[Stretch], within: float = 0.0) -> tuple[Stretch, ...]:
    """The union as disjoint stretches in order; what lies at most `within` seconds apart becomes one."""
    union: list[Stretch] = []
    for start, end in sorted(stretches):
        if union and start <= union[-1][1] + within:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return tuple(union)


@dataclass(frozen=True)
class DeviceTime:
    """When a device was at one piece of work."""

    stretches: tuple[Stretch, ...]
    """Disjoint, in order."""
    by_events: bool = False
    """By the device's own clock; else from the first launch to the last result, as the host saw it."""

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end in self.stretches)


class BusyWatch(Protocol):
    """Notes when the device is at what is queued from its making until `end`. Made by `Backend.watch_busy`."""

    def end(self) -> None:
        """All is queued. Called by the thread that queued it."""

    def time(self) -> DeviceTime:
        """When the device was at it, once, after `end`; waits until it is done. Any thread may ask."""


class QueueWatch:
    """The host's view: from here until it asks, which it does when the results are there."""

    def __init__(self) -> None:
        self._began = time.time()

    def end(self) -> None:
        return

    def time(self) -> DeviceTime:
        return DeviceTime(((self._began, time.time()),))


class TimedEvent(Protocol):
    """A point in a stream's work, and when the device passed it."""

    def synchronize(self) -> None:
        """Wait until it has passed."""

    def seconds_since(self, earlier: Any) -> float:
        """Of the device's clock, from another such event that has passed to this one, which has passed too."""


@dataclass(frozen=True)
class _Anchor:
    """An event whose time is known by the host's clock."""

    event: TimedEvent
    epoch: float


class EventMeter:
    """Watches the work of one stream. One thread at a time queues work there; any may ask for times."""

    def __init__(self, record: Callable[[], TimedEvent]) -> None:
        """`record` puts a new event into the stream."""
        self.waiting = False
        """The host has queued nothing yet, or waited since it last did: call `resume` before the next launch."""
        self._record = record
        self._anchor: _Anchor | None = None
        self._watch: EventWatch | None = None
        self._thread = 0

    def watch(self) -> EventWatch:
        """Begin to watch what this thread queues from here on."""
        if self._anchor is None or time.time() - self._anchor.epoch > RENEW:
            event = self._record()
            event.synchronize()
            self._anchor = _Anchor(event, time.time())
        self.waiting, self._thread = True, threading.get_ident()
        self._watch = watch = EventWatch(self, self._anchor)
        return watch

    def pause(self) -> None:
        """The host is about to wait, and the stream may run dry. Of no account in a thread that queues nothing."""
        watch = self._watch
        if watch is None or self.waiting or self._thread != threading.get_ident() or len(watch.marks) >= MOST_EVENTS:
            return
        watch.marks.append(self._record())
        self.waiting = True

    def resume(self) -> None:
        """Work is about to be queued again."""
        self.waiting = False
        if self._watch is not None:
            self._watch.marks.append(self._record())

    def leave(self, watch: EventWatch) -> None:
        """Watch it no longer. What ended in a wait ended with the last result before that."""
        if self._watch is watch:
            if not self.waiting:
                watch.marks.append(self._record())
            self._watch, self.waiting = None, False

    def passed(self, event: TimedEvent, epoch: float) -> None:
        """From here on count from this event, whose time is known: few digits are kept of a long time between two."""
        self._anchor = _Anchor(event, epoch)


class EventWatch:
    """Implements `BusyWatch`. Made by `EventMeter.watch`."""

    def __init__(self, meter: EventMeter, anchor: _Anchor) -> None:
        self._meter = meter
        self._anchor = anchor
        self.marks: list[TimedEvent] = []
        """Beginning and end of each stretch."""

    def end(self) -> None:
        self._meter.leave(self)

    def time(self) -> DeviceTime:
        if not self.marks:
            return DeviceTime((), by_events=True)
        first, last = self.marks[0], self.marks[-1]
        last.synchronize()
        began = self._anchor.epoch + first.seconds_since(self._anchor.event)
        moments = [began + mark.seconds_since(first) for mark in self.marks]
        self._meter.passed(last, moments[-1])
        self.marks.clear()
        stretches = zip(moments[::2], moments[1::2], strict=True)
        return DeviceTime(merged(stretches, BACK_TO_BACK), by_events=True)
