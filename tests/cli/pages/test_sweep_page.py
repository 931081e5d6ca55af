"""The page of a sweep as text."""

from __future__ import annotations

from dataclasses import replace

from cluster.record.analysis import Spread
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


def test_the_spread_of_repeats_is_told_and_what_it_leaves_open() -> None:
    steady = Page(sweep_page("job", made_sweep()))
    assert "disturbed" not in steady.text
    noisy = made_sweep(repeats=(0.9, 1.0, 1.3))
    page = Page(sweep_page("job", noisy))
    least, most = noisy.best.range
    assert f"{least:.3g} to {most:.3g}" in page.text
    assert "Its own repeats differ by 44 %" in page.text
    assert f"best: {noisy.best.cell.id}" not in page.text, "nothing is crowned on a disturbed machine"
    assert "baseline, one partition at a time, was disturbed: its repeats differ by 44 %" in page.text
    assert f"Not told apart from it by these repeats: {noisy.close[0].cell.id}" in page.text


def test_a_baseline_slower_than_what_competes_is_said_to_be_disturbed() -> None:
    result = made_sweep()
    stages = {name: Spread.of([2 * spread.median]) for name, spread in result.isolated.stages.items()}
    result = replace(result, isolated=replace(result.isolated, stages=stages))
    assert "took 50 % less" in Page(sweep_page("job", result)).text


def test_each_plot_has_a_line_for_each_group_and_a_dot_for_each_setting() -> None:
    page = Page(sweep_page("job", made_sweep()))
    lines = [a for tag, a in page.tags if tag == "path"]
    dots = [a for tag, a in page.tags if tag == "circle"]
    charts = len([tag for tag, _ in page.tags if tag == "svg"])
    assert charts == 6
    assert len(lines) == charts * 4
    assert len(dots) == charts * 4 * 4
    assert all(0 < float(str(a["cx"])) <= 560 and float(str(a["cy"])) >= 0 for a in dots)
