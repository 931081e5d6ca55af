"""docs/performance.md is made from docs/results and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from distprove.errors import FormatError
from distprove.measure.performance_page import PAGE, load, render
from distprove.measure.results import SCHEMA, Ceiling, Row
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
    assert PAGE.read_text(encoding="utf-8") == render(load()), "run: make performance"


def test_a_table_has_a_column_per_size_and_the_share_of_the_ceiling() -> None:
    ceiling = Ceiling("butterflies", 1e6, "measured")
    page = render([("cpu.json", document([row(16, 0.002, ceiling), row(18, 0.5)]))])
    assert "|  | 2^16 | 2^18 |" in page
    assert "| BN254, natural | 2.00 ms (50 %) | 500 ms |" in page
    assert "Ceilings, per second: BN254 1e+06 butterflies (measured)." in page


def test_a_comparison_shows_cpu_time_where_it_was_taken() -> None:
    row: dict[str, Any] = {"what": "a proof", "seconds": {"ours": 0.2, "theirs": 0.3}}
    peers = {**document([]), "bench": "peers", "contenders": ["ours", "theirs"], "rows": [row]}
    assert "| a proof | 200 ms | 300 ms |\n" in render([("cpu.json", peers)])
    row["cpu_seconds"] = {"ours": 0.25, "theirs": 0.35}
    page = render([("cpu.json", peers)])
    assert "|  | ours | theirs | ours, CPU time | theirs, CPU time |" in page
    assert "| a proof | 200 ms | 300 ms | 250 ms | 350 ms |" in page


def test_another_schema_is_refused() -> None:
    with pytest.raises(FormatError, match=r"old\.json"):
        render([("old.json", {**document([]), "schema": 0})])
