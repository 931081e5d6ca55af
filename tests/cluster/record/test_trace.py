"""The Chrome trace against the rules of the format, on runs of every kind."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from cluster.record.story import Story
from cluster.record.trace import chrome_trace
from tests.support.made_runs import MadeRun, governor


def checked(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The events, after every rule that Perfetto holds a JSON trace to."""
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    events = trace["traceEvents"]
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    slices = defaultdict(list)
    for event in events:
        assert event["ph"] in "XCiM"
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["pid"] in processes
        if event["ph"] == "M":
            assert isinstance(event["args"]["name"], str)
            continue
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
            continue
        assert (event["pid"], event["tid"]) in named
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        else:
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in slices.values():  # on one thread a slice lies inside another or beside it
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)
    return events


@pytest.mark.parametrize(
    "made",
    [
        MadeRun(1, gpus=1),
        MadeRun(40, nodes=2, governors=[governor("node0", 9.0), governor("node1", 9.0)], faults=(3,)),
        MadeRun(5, failing=(0, 4)),
    ],
)
def test_a_trace_follows_the_format(made: MadeRun, tmp_path: Path) -> None:
    events = checked(chrome_trace(Story.read(made.make(tmp_path / "run"))))
    proven = [e for e in events if e["ph"] == "X" and e["cat"] == "prove" and e["args"]["outcome"] == "ok"]
    assert len(proven) == made.partitions - len(made.failing)
    assert len([e for e in events if e["ph"] == "i" and e["name"] == "fault"]) == len(made.faults) + 2 * len(
        made.failing
    )
    sampled = [e for e in events if e["ph"] == "C" and e["name"] == "memory leased"]
    assert len(sampled) == sum(len(node["samples"]) for node in made.governors)


def test_steps_that_begin_before_their_span_stand_beside_it(tmp_path: Path) -> None:
    path = MadeRun(2, gpus=1).make(tmp_path / "run")
    timeline = json.loads((path / "timeline.json").read_text())
    proven = [s for s in timeline["sessions"][0]["spans"] if s["stage"] == "prove"]
    proven[1]["steps"][0][1] -= 0.3  # staged while the first computes
    (path / "timeline.json").write_text(json.dumps(timeline))
    events = checked(chrome_trace(Story.read(path)))
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"prover-0", "prover-0 in flight 1", "prover-0 in flight 2"} <= threads
