"""Measures when a device is busy: by events in its own stream where it has them, else as the host sees its queue.

Events are recorded before a piece of work's first launch, after its last, and around each wait of the computing thread,
because the stream may run dry there: the time from the event before such a wait to the event before the next launch
counts as idle. Gaps between kernels, where the host launches more slowly than the device works, count as busy.

An event costs some microseconds of host time, and few are needed: two for a piece of work and two for a wait, at most
`MOST_EVENTS`. One event for which the idle host waited ties the device's clock to the host's. From then on only the
device's clock counts, so that under unbroken load the two may drift apart by some milliseconds an hour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

Stretch = tuple[float, float]
"""Start and end of an interval, in seconds since the epoch."""

BACK_TO_BACK = 1e-5
"""Longest gap between two stretches, in seconds, in which the device still counts as busy."""
MOST_EVENTS = 512
"""Most events of one piece of work; later waits count as busy."""
RENEW = 300.0
"""Age of the last known event, in seconds, from which the device's clock is compared with the host's again."""


def merged(stretches: Iterable[Stretch], within: float = 0.0) -> tuple[Stretch, ...]:
    """Return the union as disjoint stretches in order; those at most `within` seconds apart become one."""
    union: list[Stretch] = []
    for start, end in sorted(stretches):
        if union and start <= union[-1][1] + within:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return tuple(union)


@dataclass(frozen=True)
class DeviceTime:
    """The times at which a device was busy with one piece of work."""

    stretches: tuple[Stretch, ...]
    """Disjoint intervals, in order."""
    by_events: bool = False
    """True: by the device's own clock. False: from the first launch to the last result, as the host saw it."""


class BusyWatch(Protocol):
    """Records when the device is busy with the work queued from here until `end`. Made by `Backend.watch_busy`."""

    def end(self) -> None:
        """Note that all work is queued. Called by the thread that queued it."""

    def time(self) -> DeviceTime:
        """Wait for the work and return when the device was busy with it. Called once, after `end`, by any thread."""


class QueueWatch:
    """The host's view: busy from the creation of this object until `time` is called, when the results are there."""

    def __init__(self) -> None:
        self._began = time.time()

    def end(self) -> None:
        return

    def time(self) -> DeviceTime:
        return DeviceTime(((self._began, time.time()),))


class TimedEvent(Protocol):
    """A point in a stream's work that knows when the device passed it."""

    def synchronize(self) -> None:
        """Wait until the device has passed the event."""

    def seconds_since(self, earlier: Any) -> float:
        """Seconds of the device's clock from event `earlier` to this one. The device must have passed both."""


@dataclass(frozen=True)
class _Anchor:
    """An event whose time on the host's clock is known: `epoch`, in seconds since the epoch."""

    event: TimedEvent
    epoch: float


class EventMeter:
    """Measures the work of one stream. One thread at a time queues work there; any thread may ask for times."""

    def __init__(self, record: Callable[[], TimedEvent]) -> None:
        """`record` puts a new event into the stream and returns it."""
        self.waiting = False
        """Whether the host has queued nothing since `watch` or since its last wait: `resume` is due before a launch."""
        self._record = record
        self._anchor: _Anchor | None = None
        self._watch: EventWatch | None = None
        self._thread = 0

    def watch(self) -> EventWatch:
        """Begin to watch the work that this thread queues from now on. What was watched until now ends here."""
        if self._watch is not None:
            self.leave(self._watch)
        if self._anchor is None or time.time() - self._anchor.epoch > RENEW:
            event = self._record()
            event.synchronize()
            self._anchor = _Anchor(event, time.time())
        self.waiting, self._thread = True, threading.get_ident()
        self._watch = watch = EventWatch(self, self._anchor)
        return watch

    def pause(self) -> None:
        """Note that the host is about to wait and the stream may run dry. Ignored in threads that do not queue work."""
        watch = self._watch
        if watch is None or self.waiting or self._thread != threading.get_ident() or len(watch.marks) >= MOST_EVENTS:
            return
        watch.marks.append(self._record())
        self.waiting = True

    def resume(self) -> None:
        """Note that work is about to be queued again."""
        self.waiting = False
        if self._watch is not None:
            self._watch.marks.append(self._record())

    def leave(self, watch: EventWatch) -> None:
        """Stop recording for `watch`. If the host waited last, the work ended at the event before that wait."""
        if self._watch is watch:
            if not self.waiting:
                watch.marks.append(self._record())
            self._watch, self.waiting = None, False

    def passed(self, event: TimedEvent, epoch: float) -> None:
        """Measure from `event`, whose host time `epoch` is known, from now on: long intervals lose precision."""
        self._anchor = _Anchor(event, epoch)


class EventWatch:
    """The `BusyWatch` of a stream with events. Made by `EventMeter.watch`."""

    def __init__(self, meter: EventMeter, anchor: _Anchor) -> None:
        self._meter = meter
        self._anchor = anchor
        self.marks: list[TimedEvent] = []
        """Events at the start and the end of each stretch, in turn."""

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
