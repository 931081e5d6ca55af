"""timeline.json: what is written can be read, sessions add up, damaged files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.spans import span_json, with_attempt
from cluster.record.timeline import Place, Session, Span, read_timeline, timeline_json
from distprove.errors import FormatError, InputError
from kernels.interface.busy import DeviceTime

SPANS = [
    Span("prover-0", None, "load", 100.0, 101.5),
    Span("synthesiser-0", "a", "synthesise", 101.5, 102.0, attempt=1),
    Span("prover-0", "a", "prove", 102.0, 103.0, outcome="RuntimeError", attempt=1),
    Span(
        "prover-0",
        "a",
        "prove",
        103.0,
        104.0,
        {"upload": 0.25, "wait": 0.75},
        "ok",
        (("upload", 102.5, 103.25), ("wait", 103.25, 104.0)),
        DeviceTime(((103.0, 103.5), (103.75, 104.0)), by_events=True),
        2,
    ),
]


def session() -> Session:
    workers = [Place("prover-0", "prover", "n", "H200", "cuda", ("3",)), Place("synthesiser-0", "synthesiser", "n")]
    return Session(100.0, list(SPANS), 4.5, "proved", "ray", workers)


def record(*sessions: Session) -> dict[str, Any]:
    return json.loads(timeline_json(sessions))


def write(path: Path, record: Any) -> Path:
    (path / "timeline.json").write_text(json.dumps(record))
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    two = [session(), Session(200.0, [], 1.0, "interrupted", "local")]
    assert read_timeline(write(tmp_path, record(*two))) == two


def test_spans_count_once_however_they_came() -> None:
    whole, one_by_one = session(), session()
    one_by_one.spans = SPANS[:1]
    for span in SPANS[1:]:
        facts = (span.stage, span.start, span.end, span.outcome, 100.0, span.inner, span.steps, span.on_device)
        written = with_attempt(span_json(span.worker, span.partition, *facts), span.attempt)
        one_by_one.add(span.worker, span.end - span.start, written)
    assert one_by_one.to_json() == one_by_one.to_json() == whole.to_json()
    assert one_by_one.busy() == whole.busy()
    assert timeline_json([whole]).count('"stage"') == len(SPANS)


def test_times_are_told_from_the_beginning_of_the_session() -> None:
    (told,) = record(session())["sessions"]
    assert [span["start"] for span in told["spans"]] == [0.0, 1.5, 2.0, 3.0]
    assert told["spans"][3]["steps"] == [["upload", 2.5, 3.25], ["wait", 3.25, 4.0]]
    assert told["spans"][3]["on_device"] == {"by": "events", "stretches": [[3.0, 3.5], [3.75, 4.0]]}


def test_busy_counts_partitions_and_not_the_key() -> None:
    assert session().busy() == {"prover-0": 2.0, "synthesiser-0": 0.5}


@pytest.mark.parametrize("broken", [{"by": "events"}, {"stretches": []}, {"by": "queue", "stretches": [[1.0]]}, 7])
def test_a_use_of_the_device_that_makes_no_sense_is_refused(tmp_path: Path, broken: Any) -> None:
    damaged = record(session())
    damaged["sessions"][0]["spans"][3]["on_device"] = broken
    with pytest.raises(FormatError, match="not a timeline"):
        read_timeline(write(tmp_path, damaged))


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 9},
        {"version": 3},
        {"format": "x"},
        {"sessions": 1},
        {"sessions": [{}]},
        {"sessions": [None]},
    ],
)
def test_what_is_not_a_timeline_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="not a timeline"):
        read_timeline(write(tmp_path, {**record(session()), **damage}))


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e200, "1", "9" * 400], ids=lambda time: str(time)[:9])
def test_times_that_are_no_numbers_are_refused(time: Any, tmp_path: Path) -> None:
    damaged = record(session())
    damaged["sessions"][0]["spans"][0]["end"] = time
    with pytest.raises(FormatError):
        read_timeline(write(tmp_path, damaged))
    (tmp_path / "timeline.json").write_text("[" * 10_000)
    with pytest.raises(InputError):
        read_timeline(tmp_path)
