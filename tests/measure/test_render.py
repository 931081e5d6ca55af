"""docs/performance.md is made from docs/results and nothing else: documents of benchmarks, and notes."""

from __future__ import annotations

from typing import Any

import pytest

from distprove.errors import FormatError
from distprove.measure.performance_page import PAGE, _note, _with_units, page, render
from distprove.measure.results import SCHEMA, Ceiling, Row
from distprove.measure.tables import Table
from distprove.measure.timing import Timing


def document(rows: list[Row]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "bench": "ntt",
        "date": "2026-11-21",
        "timed": "one transform",
        "checked": "a round trip",
        "backend": {"name": "CPU", "kind": "cpu", "details": {}},
        "machine": {"processor": {"model": "A processor", "usable": 2}, "gpus": {"devices": []}},
        "rows": [row.to_dict() for row in rows],
    }


def row(log_n: int, seconds: float, ceiling: Ceiling | None = None) -> Row:
    timing = Timing((seconds, seconds * 2, seconds * 0.9))
    return Row("ntt", "BN254", log_n, timing, "natural", operations=1000, ceiling=ceiling)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make performance"


def test_a_table_has_a_column_per_size_and_the_share_of_the_ceiling() -> None:
    ceiling = Ceiling("butterflies", 1e6, "measured")
    page = render([("cpu.json", document([row(16, 0.002, ceiling), row(18, 0.5)]))])
    assert "| operation | 2^16 (ms) | 2^18 (ms) |" in page
    assert "| BN254, natural | 2.00 (50 %) | 500 |" in page
    assert "Ceilings, per second: BN254 1e+06 butterflies (measured)." in page


def test_a_unit_stays_with_its_number_where_a_column_has_several() -> None:
    rows = [["a", "1.0 ms", "2 %"], ["b", "3 s", "-"], ["c", "-", "4 %"]]
    table = _with_units(Table(["", "time", "share"], rows), "task")
    assert table.head == ["task", "time", "share (%)"]
    assert table.rows == [["a", "1.0 ms", "2"], ["b", "3 s", "-"], ["c", "-", "4"]]


def test_a_long_note_is_a_list_of_its_clauses() -> None:
    more = " ".join(["more"] * 30)
    assert list(_note(f"Timed: one (a; b); {more}.")) == ["Timed:", "", "- one (a; b)", f"- {more}"]
    assert list(_note("Timed: one; two.")) == ["Timed: one; two."]
    assert list(_note(f"Checked: all: {more}.")) == [f"Checked: all: {more}."]


def test_a_comparison_shows_cpu_time_where_it_was_taken() -> None:
    row: dict[str, Any] = {"what": "a proof", "seconds": {"ours": 0.2, "theirs": 0.3}}
    peers = {**document([]), "bench": "peers", "contenders": ["ours", "theirs"], "rows": [row]}
    assert "| task | ours (ms) | theirs (ms) |\n" in render([("cpu.json", peers)])
    assert "| a proof | 200 | 300 |\n" in render([("cpu.json", peers)])
    row["cpu_seconds"] = {"ours": 0.25, "theirs": 0.35}
    page = render([("cpu.json", peers)])
    assert "| task | ours (ms) | theirs (ms) | ours, CPU time (ms) | theirs, CPU time (ms) |" in page
    assert "| a proof | 200 | 300 | 250 | 350 |" in page


def test_another_schema_is_refused() -> None:
    with pytest.raises(FormatError, match=r"old\.json"):
        render([("old.json", {**document([]), "schema": 0})])
