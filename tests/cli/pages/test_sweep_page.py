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
    assert "Its own repeats differ by 44 %" in page.text
    assert f"best: {noisy.best.cell.id}" not in page.text, "nothing is crowned on a disturbed machine"
    assert "baseline, one partition at a time, was disturbed: its repeats differ by 44 %" in page.text
    assert f"Not told apart from it by these repeats: {noisy.close[0].cell.id}" in page.text


def test_every_setting_whose_repeats_differ_is_marked() -> None:
    """Only the best one and the baseline were: others differed by half without a word."""
    result = made_sweep(repeats=(0.99, 1.0, 1.01))
    shaken = result.measured[5]
    wall = tuple(seconds * factor for seconds, factor in zip(shaken.wall, (1.0, 1.5, 1.0), strict=True))
    measured = [replace(m, wall=wall) if m is shaken else m for m in result.measured]
    page = Page(sweep_page("job", replace(result, measured=measured)))
    marked = [attributes for tag, attributes in page.tags if tag == "td" and "warn" in str(attributes.get("class"))]
    assert len(marked) == 1
    assert f"In doubt, because their repeats differ: {shaken.cell.id} (5" in page.text
    assert "best: " in page.text, "the others say enough"


def test_the_table_answers_what_an_operator_asks() -> None:
    result = made_sweep()
    result = replace(result, measured=[replace(m, device_seconds=0.0625) for m in result.measured])
    prove = Spread.of([1.0, 2.0, 6.0])
    result = replace(result, measured=[replace(m, prove_latency=prove) for m in result.measured])
    page = Page(sweep_page("job", result))
    for column in ("concurrency", "seconds a proof", "average prove time", "device time a partition", "utilisation"):
        assert column in page.text
    assert (prove.mean, prove.median) == (3.0, 2.0)
    assert "3.00 s" in page.text
    assert "2.00 s" in page.text
    assert "62.5 ms" in page.text
    assert "90.0 %" in page.text


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
