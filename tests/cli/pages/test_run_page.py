"""The report page as text: what it says, that names cannot break out of it, that it loads nothing and stays bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from cluster.record.analysis import stage_times
from cluster.record.story import Story
from distprove.cli.pages.run import run_page
from distprove.cli.pages.svg import Scale, Series, line_chart, thinned
from distprove.errors import FormatError
from tests.support.made_runs import MadeRun, governor

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page, its text, and whether every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def page(made: MadeRun, path: Path) -> Page:
    return Page(run_page(Story.read(made.make(path))))


def test_a_page_says_what_happened(tmp_path: Path) -> None:
    made = MadeRun(40, governors=[governor("node0", 12.0)], faults=(3,))
    text = page(made, tmp_path / "run").text
    for said in (
        "votes of May",
        "proved",
        "40 of 40",
        "NVIDIA H200",
        "node0 GPU 1",
        "prove: quotient_msm",
    ):
        assert said in text
    for said in ("Waiting for a lease", "1 retry, 1 fault", "check", "93 %", "640 W", "79 (1)"):
        assert said in text
    for kind, *sizes in (("driver", "300.0 MiB", "300.0 MiB"), ("synthesiser", "2.0 GiB", "3.0 GiB")):
        assert f"{kind}{'1' if kind == 'driver' else '2'}{''.join(sizes)}" in text
    assert "longer by" not in text, "of that nothing is known without a run to compare with"


def test_a_failed_run_says_what_failed(tmp_path: Path) -> None:
    text = page(MadeRun(9, failing=(2, 5)), tmp_path / "run").text
    assert "7 of 9" in text
    assert "part-2, part-5:" in text
    assert "given up after 2 attempts" in text


def test_what_says_nothing_is_left_out(tmp_path: Path) -> None:
    idle = {**governor("node0", 12.0), "processes": {}, "gpus": [], "limits": {}, "peak_memory": None}
    idle["samples"] = [{**sample, "queue": {"threads": 0}} for sample in idle["samples"]]
    seen = page(MadeRun(3, governors=[idle]), tmp_path / "idle").text
    assert "Leases held" in seen
    assert "Waiting for a lease" not in seen
    assert "GPUs" not in seen
    seen = page(MadeRun(3, governors=[{**idle, "samples": []}]), tmp_path / "nothing").text
    assert "Node node0" not in seen


def test_shares_of_stages_add_up_and_luck_makes_no_bar(tmp_path: Path) -> None:
    """A step whose times differ a thousandfold, such as grinding, is as wide as its share of the time."""
    path = MadeRun(4, gpus=1).make(tmp_path / "run")
    timeline: dict[str, Any] = json.loads((path / "timeline.json").read_text())
    proven = [span for span in timeline["sessions"][0]["spans"] if span["stage"] == "prove"]
    for place, span in enumerate(proven):
        took = 1e-6 if place < 3 else 0.05
        span["inner"] = {"grind": took, "rest": span["end"] - span["start"] - took}
        span["steps"] = []
    (path / "timeline.json").write_text(json.dumps(timeline))
    found = {stage.stage: stage for stage in stage_times(Story.read(path).sessions[0].spans)}
    assert sum(stage.share for name, stage in found.items() if ":" not in name) == pytest.approx(1.0)
    assert found["prove: grind"].share + found["prove: rest"].share == pytest.approx(found["prove"].share)
    assert found["prove: grind"].share < 0.05
    assert found["check"].spread.count == 1


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "]]></style><b>"])
def test_no_name_breaks_out_of_the_page(hostile: str, tmp_path: Path) -> None:
    path = replace(MadeRun(3, faults=(1,), governors=[governor(hostile, 3.0, (hostile,))]), title=hostile).make(
        tmp_path / "r"
    )
    for file in ("report.json", "timeline.json", "journal.jsonl"):
        text = (path / file).read_text()
        for word in ("part-1", "prover-0", "node0", "RuntimeError", "upload", "NVIDIA H200"):
            text = text.replace(word, json.dumps(hostile)[1:-1])
        (path / file).write_text(text)
    seen = Page(run_page(Story.read(path)))
    assert {tag for tag, _ in seen.tags} & {"script", "img", "iframe", "object", "link", "b"} <= {"b"}
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    assert hostile in seen.text


def test_a_page_loads_and_runs_nothing(tmp_path: Path) -> None:
    seen = page(MadeRun(5), tmp_path / "run")
    assert not [(tag, a) for tag, a in seen.tags if {"src", "href", "action"} & a.keys()]
    policies = [a["content"] for tag, a in seen.tags if tag == "meta" and "http-equiv" in a]
    assert policies
    assert "default-src 'none'" in str(policies[0])


def test_a_page_stays_readable_with_any_number_of_partitions(tmp_path: Path) -> None:
    small = run_page(Story.read(MadeRun(2_000, gpus=2).make(tmp_path / "a")))
    large = run_page(Story.read(MadeRun(8_000, gpus=2).make(tmp_path / "b")))
    assert len(large) < 1.2 * len(small) < 2_000_000


def test_a_run_under_way_and_one_without_partitions_have_pages(tmp_path: Path) -> None:
    path = MadeRun(2).make(tmp_path / "run")
    (path / "report.json").unlink()
    (path / "timeline.json").unlink()
    assert "No timeline yet" in Page(run_page(Story.read(path))).text
    assert "Nothing ran" not in page(MadeRun(0), tmp_path / "none").text


def test_every_session_of_a_resumed_run_is_there(tmp_path: Path) -> None:
    path = MadeRun(3).make(tmp_path / "run")
    timeline: dict[str, Any] = json.loads((path / "timeline.json").read_text())
    later = {**timeline["sessions"][0], "began": timeline["sessions"][0]["began"] + 3600.0, "status": "proved"}
    timeline["sessions"] = [{**timeline["sessions"][0], "status": "interrupted"}, later]
    (path / "timeline.json").write_text(json.dumps(timeline))
    seen = Page(run_page(Story.read(path)))
    assert "Session 1 of 2" in seen.text
    assert "Session 2 of 2" in seen.text
    assert [("open" in a) for tag, a in seen.tags if tag == "details"][:2] == [False, True]


def test_ticks_are_round_and_inside() -> None:
    assert Scale(0.0, 10.0, 0, 1).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(0.0, 3.5, 0, 1).ticks(5) == [0, 1, 2, 3]
    assert Scale(0.0, 3 * 1024.0, 0, 1).ticks(5, 1024.0) == [0, 1024, 2048, 3072]
    assert Scale(2.0, 2.0, 0, 1).ticks() == [2.0]
    assert Scale(2.0, 2.0, 5, 9)(2.0) == 5


def test_counts_are_marked_at_whole_numbers() -> None:
    lines = [Series("witnesses", [(0.0, 0.0), (1.0, 2.0)], 0)]
    form: dict[str, Any] = {"x_format": lambda value: "", "y_format": lambda value: f"at {value:g}."}
    drawn = {whole: line_chart("c", lines, (0.0, 1.0), whole=whole, **form) for whole in (False, True)}
    assert "at 1.5." in drawn[False]
    assert [f"at {value}." in drawn[True] for value in ("0", "0.5", "1", "1.5", "2")] == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_thinned_lines_keep_their_extremes() -> None:
    points = [(i / 100, float(i % 7)) for i in range(50_000)]
    points[777] = (7.77, 1e6)
    kept = thinned(points)
    assert (7.77, 1e6) in kept
    assert len(kept) <= 4 * 501
    assert "1e" not in line_chart("x", [Series("s", points, 0)], (0, 500), x_format=str, y_format=str).split("<path")[1]


@pytest.mark.parametrize(
    ("of", "key", "value"),
    [
        ("", "proven", 3),
        ("", "proven", {"program": "p", "arguments": {}, "says": {}, "security": {"bits": "many"}}),
        ("partitions", "error", 3),
        ("partitions", "worker", ["a"]),
        ("partitions", "memory", 7),
        ("partitions", "device_peak", "most"),
        ("workers", "busy_seconds", "long"),
        ("workers", "load_seconds", {}),
    ],
)
def test_a_damaged_report_is_refused_with_its_name(of: str, key: str, value: object, tmp_path: Path) -> None:
    run = MadeRun(partitions=2).make(tmp_path / "run")
    report = json.loads((run / "report.json").read_text())
    (report[of][0] if of else report)[key] = value
    (run / "report.json").write_text(json.dumps(report))
    with pytest.raises(FormatError, match=r"report\.json: not a report"):
        Story.read(run)
