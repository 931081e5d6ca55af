"""When a device works, with events of a device whose clock the test moves."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from kernels.interface import busy
from kernels.interface.busy import MOST_EVENTS, RENEW, EventMeter, EventWatch
from tests.support.own_time import give_time


class Stream:
    """A stream whose clock the test moves: an event passes when what was queued before it is done."""

    def __init__(self) -> None:
        self.now = 0.0
        """Of host and device alike."""
        self.free = 0.0
        """When all that was queued is done."""
        self.waits = 0
        self.events = 0

    def record(self) -> Event:
        self.events += 1
        return Event(self, max(self.now, self.free))

    def launch(self, meter: EventMeter, seconds: float) -> None:
        if meter.waiting:
            meter.resume()
        self.free = max(self.now, self.free) + seconds

    def wait(self, meter: EventMeter) -> None:
        """For what was queued."""
        meter.pause()
        self.now = max(self.now, self.free)


@dataclass
class Event:
    stream: Stream
    passed: float

    def synchronize(self) -> None:
        self.stream.waits += 1
        self.stream.now = max(self.stream.now, self.passed)

    def seconds_since(self, earlier: Event) -> float:
        assert max(earlier.passed, self.passed) <= self.stream.now, "asked before it has passed"
        return self.passed - earlier.passed


EPOCH = 1_000_000.0


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    give_time(monkeypatch, busy, time=lambda: EPOCH + stream.now)
    return stream


def times(watch: EventWatch) -> list[tuple[float, float]]:
    found = watch.time()
    assert found.by_events
    return [(round(start - EPOCH, 9), round(end - EPOCH, 9)) for start, end in found.stretches]


def test_a_wait_that_lets_the_stream_run_dry_is_a_gap(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    stream.now = 5.0
    watch = meter.watch()
    stream.launch(meter, 1.0)
    stream.launch(meter, 1.0)
    stream.wait(meter)  # until 7
    stream.now += 0.5  # the host draws a challenge
    stream.launch(meter, 2.0)
    stream.wait(meter)
    stream.launch(meter, 1.0)  # at once
    watch.end()
    assert times(watch) == [(5.0, 7.0), (7.5, 10.5)]


def test_work_begins_with_its_first_launch(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    watch = meter.watch()
    stream.now += 2.0  # the host prepares
    stream.wait(meter)
    stream.launch(meter, 1.0)
    watch.end()
    assert times(watch) == [(2.0, 3.0)]
    nothing = meter.watch()
    nothing.end()
    assert times(nothing) == []


def test_what_ends_in_a_wait_ends_with_the_last_result(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    watch = meter.watch()
    stream.launch(meter, 1.0)
    stream.wait(meter)
    stream.now += 3.0  # the proof is put together
    watch.end()
    assert times(watch) == [(0.0, 1.0)]


def test_two_in_flight_follow_each_other_without_overlap(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    first = meter.watch()
    stream.launch(meter, 2.0)
    first.end()
    second = meter.watch()
    stream.launch(meter, 2.0)
    second.end()
    assert times(first) == [(0.0, 2.0)]
    assert times(second) == [(2.0, 4.0)]


def test_another_thread_that_waits_for_its_results_is_no_gap(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    watch = meter.watch()
    stream.launch(meter, 1.0)
    other = threading.Thread(target=meter.pause)
    other.start()
    other.join()
    assert not meter.waiting
    watch.end()
    assert times(watch) == [(0.0, 1.0)]
    meter.pause()  # nothing is watched
    assert not meter.waiting


def test_what_was_given_up_in_a_wait_leaves_nothing_behind(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    meter.watch()
    stream.launch(meter, 1.0)
    stream.wait(meter)
    later = meter.watch()  # after an error
    stream.launch(meter, 1.0)
    later.end()
    assert times(later) == [(1.0, 2.0)]


def test_what_is_watched_within_ends_what_was_watched(stream: Stream) -> None:
    """A key that is loaded for a proof of another kind, which watches itself."""
    meter = EventMeter(stream.record)
    outer = meter.watch()
    stream.launch(meter, 1.0)
    inner = meter.watch()
    stream.launch(meter, 2.0)
    inner.end()
    stream.launch(meter, 4.0)
    outer.end()
    assert times(inner) == [(1.0, 3.0)]
    assert times(outer) == [(0.0, 1.0)]


def test_the_clocks_are_compared_once_and_again_after_a_rest(stream: Stream) -> None:
    meter = EventMeter(stream.record)

    def prove() -> None:
        watch = meter.watch()
        stream.launch(meter, 1.0)
        watch.end()
        (stretch,) = times(watch)
        assert stretch == (stream.now - 1.0, stream.now)

    for _ in range(3 * round(RENEW)):
        prove()
    proofs = 3 * round(RENEW)
    assert stream.waits == 1 + proofs  # the anchor, and the end of each
    stream.now += RENEW + 1
    prove()
    assert stream.waits == 2 + proofs + 1


def test_events_are_bounded(stream: Stream) -> None:
    meter = EventMeter(stream.record)
    watch = meter.watch()
    for _ in range(2 * MOST_EVENTS):
        stream.launch(meter, 1.0)
        stream.wait(meter)
        stream.now += 1.0
    watch.end()
    assert stream.events <= MOST_EVENTS + 3
    found = times(watch)
    assert len(found) <= MOST_EVENTS // 2 + 1
    assert found[-1][1] == stream.now  # what was not noted counts as busy
