"""The page of a sweep as text."""

from __future__ import annotations

from distprove.cli.pages.sweep import sweep_page
from tests.cli.pages.test_run_page import Page
from tests.support.made_sweeps import made_sweep


def test_every_setting_is_told_and_the_best_named() -> None:
    result = made_sweep()
    page = Page(sweep_page("a <b>job</b>", result))
    assert "a <b>job</b>: settings compared" in page.text
    assert f"best: {result.best.cell.id}" in page.text
    for measured in result.measured:
        assert measured.cell.id in page.text
    assert "Xeon <script>" in page.text
    assert "script" not in {tag for tag, _ in page.tags}
    best = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "best"]
    assert len(best) == 1


def test_each_plot_has_a_line_for_each_group_and_a_dot_for_each_setting() -> None:
    page = Page(sweep_page("job", made_sweep()))
    lines = [a for tag, a in page.tags if tag == "path"]
    dots = [a for tag, a in page.tags if tag == "circle"]
    charts = len([tag for tag, _ in page.tags if tag == "svg"])
    assert charts == 6
    assert len(lines) == charts * 4
    assert len(dots) == charts * 4 * 4
    assert all(0 < float(str(a["cx"])) <= 560 and float(str(a["cy"])) >= 0 for a in dots)
