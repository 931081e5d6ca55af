"""Figures computed from timelines made by hand."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.record.analysis import (
    Level,
    Spread,
    devices,
    quantile,
    stage_samples,
    stage_times,
    step_seconds,
    witnesses_in_flight,
)
from cluster.record.nodestory import NodeStory
from cluster.record.timeline import Place, Session, Span
from kernels.interface.busy import BACK_TO_BACK, DeviceTime, merged


def proved(
    worker: str, name: str, start: float, end: float, *on_device: tuple[float, float], by_events: bool = False
) -> Span:
    use = DeviceTime(on_device, by_events) if on_device else None
    return Span(worker, name, "prove", start, end, on_device=use)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)), max_size=20))
def test_a_union_covers_what_its_parts_cover_and_no_more(parts: list[tuple[int, int]]) -> None:
    intervals = [(float(start), float(start + length)) for start, length in parts]
    union = merged(intervals)
    assert all(a[1] < b[0] for a, b in pairwise(union))
    for half in range(130):
        moment = half / 2 + 0.25
        assert any(a < moment < b for a, b in union) == any(a < moment < b for a, b in intervals)


def test_a_device_is_busy_while_it_has_work_and_idle_between() -> None:
    session = Session(
        0.0,
        [
            Span("p0", None, "load", 0.0, 10.0),
            proved("p0", "a", 10.0, 14.0, (10.5, 13.5)),
            proved("p0", "b", 14.0, 17.0, (13.0, 16.5)),  # launched while the first still ran
            proved("p0", "c", 20.0, 22.0, (20.5, 21.5)),
        ],
        workers=[Place("p0", "prover", "n", gpus=("0",))],
    )
    (use,) = devices(session)
    assert use.name == "n GPU 0"
    assert use.busy == ((10.5, 16.5), (20.5, 21.5))
    assert use.gaps == ((16.5, 20.5),)
    assert use.busy_seconds == 7.0
    assert use.share == pytest.approx(7 / 11)


def test_events_show_the_gaps_within_a_proof_and_not_the_moment_between_two() -> None:
    moment = BACK_TO_BACK / 2
    first = proved("p0", "a", 0.0, 4.0, (0.5, 1.5), (2.0, 3.0), by_events=True)
    second = proved("p0", "b", 4.0, 6.0, (3.0 + moment, 5.0), by_events=True)
    place = Place("p0", "prover", "n", gpus=("0",))
    (use,) = devices(Session(0.0, [first, second], workers=[place]))
    assert use.by_events
    assert use.busy == ((0.5, 1.5), (2.0, 5.0))
    # One span that only the queue tells of, and the whole is not by events.
    (mixed,) = devices(Session(0.0, [first, second, proved("p0", "c", 6.0, 7.0)], workers=[place]))
    assert not mixed.by_events
    assert mixed.busy[1:] == ((2.0, 3.0), (3.0 + moment, 5.0), (6.0, 7.0))


def test_provers_that_share_a_gpu_are_one_device_and_those_without_are_their_own() -> None:
    spans = [proved("p0", "a", 0.0, 2.0), proved("p1", "b", 1.0, 3.0), proved("p2", "c", 5.0, 6.0)]
    places = [
        Place("p0", "prover", "n", gpus=("1",)),
        Place("p1", "prover", "n", gpus=("1",)),
        Place("p2", "prover", "n"),
    ]
    shared, own = devices(Session(0.0, spans, workers=places))
    assert (shared.name, shared.busy) == ("n GPU 1", ((0.0, 3.0),))
    assert (own.name, own.busy) == ("p2", ((5.0, 6.0),))
    assert devices(Session(0.0, [], workers=places))[0].share == 0.0


def test_equal_gpu_numbers_on_two_nodes_are_two_devices() -> None:
    places = [Place("p0", "prover", "n", gpus=("0",)), Place("p1", "prover", "m", gpus=("0",))]
    assert len(devices(Session(0.0, [proved("p0", "a", 0.0, 1.0)], workers=places))) == 2


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert quantile([5.0], 0.95) == 5.0
    samples = [float(i) for i in range(101)]
    random.Random(3).shuffle(samples)
    assert Spread.of(samples) == Spread(101, 50.0, 95.0, 100.0, 4.5, 50.0)
    assert Spread.of([]) == Spread(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_steps_count_in_full_where_they_are_known() -> None:
    hidden = Span(
        "p", "a", "prove", 1.0, 2.0, {"upload": 0.0, "wait": 1.0}, steps=(("upload", 0.5, 1.0), ("wait", 1.0, 2.0))
    )
    assert step_seconds(hidden) == {"upload": 0.5, "wait": 1.0}
    assert step_seconds(Span("p", "a", "prove", 1.0, 2.0, {"wait": 0.9})) == {"wait": 0.9}
    twice = Span("p", "a", "prove", 0.0, 2.0, steps=(("upload", 0.0, 0.5), ("upload", 1.0, 1.25)))
    assert step_seconds(twice) == {"upload": 0.75}


def test_stages_are_those_that_ended_well_and_have_their_share() -> None:
    spans = [proved("p", str(i), 0.0, 1.0 + i / 10) for i in range(20)]
    (own,) = stage_times(spans)
    assert (own.total, own.share) == (pytest.approx(39.0), 1.0)
    failed = Span("p", "y", "prove", 0.0, 99.0, outcome="RuntimeError")
    assert stage_times([*spans, failed])[0].spread.count == 20
    checked = stage_times([Span("p", None, "check", 0.0, 1.0), *spans])[0]
    assert (checked.stage, checked.share) == ("check", pytest.approx(1 / 40))
    assert "load" not in stage_samples([Span("p", None, "load", 0.0, 1.0)])


def test_witnesses_in_flight_rise_and_fall() -> None:
    session = Session(
        0.0,
        [
            Span("s", "a", "synthesise", 0.0, 1.0),
            Span("s", "b", "synthesise", 1.0, 2.0),
            Span("p", "a", "prove", 1.0, 3.0, outcome="RuntimeError"),
            Span("p", "a", "prove", 3.0, 4.0),
            Span("p", "b", "prove", 4.0, 5.0),
        ],
    )
    levels = witnesses_in_flight(session, {"a": 10, "b": 20})
    assert levels == [Level(1.0, 1, 10), Level(2.0, 2, 30), Level(4.0, 1, 20), Level(5.0, 0, 0)]


def test_what_a_governor_leaves_out_or_gets_wrong_is_missing_and_no_more() -> None:
    assert NodeStory.of({}) == NodeStory("?", {}, (), None, {}, ())
    story = NodeStory.of(
        {
            "node": "n",
            "samples": [
                {"t": 2, "cpu": "high", "leases": {"threads": 3}},
                {"cpu": 1},
                7,
                {"t": 1, "memory_used": None},
            ],
            "limits": [1],
        }
    )
    assert [(s.time, s.cpu, s.leases) for s in story.samples] == [(1.0, None, {}), (2.0, None, {"threads": 3.0})]
    assert story.limits == {}
