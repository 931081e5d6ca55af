"""The page of a sweep: every setting's figures, and how they change with the number of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distprove.cli.console import format_rate, format_seconds
from distprove.cli.pages.html import COLOURS, cards, chart, document, escape, note, table
from distprove.cli.pages.svg import Series, legend, line_chart
from distprove.measure.sweep.results import DISTURBED, TIMED, Measured, SweepResult, headline_inflation
from kernels.host.units import count_of, format_bytes

Figure = Callable[[Measured], float]
SETTINGS = ("jobs", "parallel", "provers")
"""The columns of `setting_cells`."""
REPEATS = "repeats differ by"
_ANSWERS = ("seconds a proof", "average prove time", "device time a partition", "utilisation")
FIGURES = (*_ANSWERS, REPEATS, "proofs a minute", "prove: median, p95", "longest gap", "memory", "worst stage")
"""The columns of `figure_cells`."""


def sweep_page(title: str, result: SweepResult) -> str:
    """One self-contained HTML document."""
    best, about = result.best, result.about
    machine = about["machine"]
    processor = machine["processor"]
    body = [
        f"<h1>{escape(title)}: settings compared</h1>",
        *_verdict(result),
        cards(
            [
                ("proofs a minute", format_rate(best.proofs_per_minute)),
                ("time of a proof", format_seconds(best.seconds_per_proof)),
                ("utilisation", f"{best.busy_share * 100:.1f} %"),
                ("partitions a proof", str(about["partitions"])),
                ("repeats", f"{about['repeats']} after {about['warmup']}"),
                ("provers", ", ".join(dict.fromkeys(best.devices)) or "-"),
            ]
        ),
        note(
            f"{processor['model']}, {count_of(processor['usable'], 'processor')}. Timed: {TIMED}. Medians over "
            f"the repeats."
        ),
    ]
    body += _table(result)
    body += _plots(result)
    body += _inflation(result)
    return document(f"{title}: settings compared", body)


def _verdict(result: SweepResult) -> list[str]:
    """The best setting; and what keeps it from being that for sure."""
    crowned = result.best.spread <= DISTURBED
    cls, praise = ("good", "best") if crowned else ("warn", "fastest, on a machine that was disturbed")
    told = [f'<p><span class="status {cls}">{praise}: {escape(result.best.cell.id)}</span></p>']
    if result.close:
        names = ", ".join(measured.cell.id for measured in result.close[:COLOURS])
        more = f" and {len(result.close) - COLOURS} more" if len(result.close) > COLOURS else ""
        told.append(f'<p class="warn">Not told apart from it by these repeats: {escape(names)}{more}.</p>')
    if not crowned:
        told.append(f'<p class="warn">Its own repeats differ by {result.best.spread * 100:.0f} %.</p>')
    if noisy := [f"{m.cell.id} ({m.spread * 100:.0f} %)" for m in result.noisy if m is not result.best]:
        told.append(f'<p class="warn">In doubt, because their repeats differ: {escape(", ".join(noisy))}.</p>')
    if result.disturbed:
        told.append(
            f'<p class="warn">The baseline, one partition at a time, was disturbed: {escape(result.disturbed)}. '
            "A comparison of stages with it says little.</p>"
        )
    return told


def _plots(result: SweepResult) -> list[str]:
    """A line for each setting over the number of jobs."""
    groups: dict[str, list[Measured]] = {}
    for measured in result.measured:
        groups.setdefault(_group(measured), []).append(measured)
    shown = dict(list(groups.items())[:COLOURS])
    keys = legend([(f"s{index}", name) for index, name in enumerate(shown)]) if len(shown) > 1 else ""
    left_out = (
        note(f"Plotted: the first {COLOURS} of {count_of(len(groups), 'setting')}.") if len(groups) > COLOURS else ""
    )
    plots: list[tuple[str, Figure, Callable[[float], str], bool]] = [
        ("Proofs a minute, and their range over the repeats", lambda m: m.proofs_per_minute, format_rate, False),
        ("Latency of a proof, median", lambda m: m.proof_latency.median, _seconds, False),
        ("Devices busy", lambda m: m.busy_share, lambda v: f"{v * 100:.0f} %", False),
        ("Idle gaps, p95", lambda m: m.idle.p95, _seconds, False),
        ("Slowest stage, as a multiple of its time alone", lambda m: _worst(m, result), lambda v: f"{v:.2f}", False),
        ("Host memory, most", lambda m: float(m.node_peak), format_bytes, True),
    ]
    drawn = "".join(
        f"<div><h3>{escape(name)}</h3>{_plot(name, shown, figure, form, binary, place == 0)}</div>"
        for place, (name, figure, form, binary) in enumerate(plots)
    )
    return ["<h2>Over the number of jobs at once</h2>", keys, left_out, f'<div class="half">{drawn}</div>']


def _plot(
    name: str,
    groups: dict[str, list[Measured]],
    figure: Figure,
    form: Callable[[float], str],
    binary: bool,
    spread: bool,
) -> str:
    """A chart. `spread`: with the range of the repeats of each setting, in proofs a minute."""
    series = []
    for i, (group, members) in enumerate(groups.items()):
        ordered = sorted(members, key=lambda m: m.cell.jobs)
        points = [(float(m.cell.jobs), figure(m)) for m in ordered]
        series.append(Series(group, points, i, dots=True, ranges=[m.range for m in ordered] if spread else ()))
    jobs = sorted({m.cell.jobs for members in groups.values() for m in members})
    return chart(
        line_chart(
            name,
            series,
            (0.0, float(jobs[-1])),
            x_format=lambda value: f"{value:g}",
            y_format=form,
            x_ticks=[float(value) for value in jobs],
            binary=binary,
            width=560,
        )
    )


def setting_cells(measured: Measured) -> list[str]:
    cell = measured.cell
    return [str(cell.jobs), *("-" if v is None else str(v) for v in (cell.parallel, cell.gpu_workers))]


def figure_cells(measured: Measured, result: SweepResult) -> list[str]:
    """The columns of `FIGURES`."""
    stage, ratio = max(headline_inflation(measured.inflation(result.isolated)), key=lambda p: p[1], default=("", 1.0))
    return [
        format_seconds(measured.seconds_per_proof),
        format_seconds(measured.prove_latency.mean),
        format_seconds(measured.device_seconds),
        f"{measured.busy_share * 100:.1f} %",
        f"{measured.spread * 100:.0f} %",
        format_rate(measured.proofs_per_minute),
        f"{format_seconds(measured.prove_latency.median)}, {format_seconds(measured.prove_latency.p95)}",
        format_seconds(measured.idle.most) if measured.idle.count else "-",
        format_bytes(measured.node_peak),
        f"{(ratio - 1) * 100:+.0f} % {stage}" if stage else "-",
    ]


def _table(result: SweepResult) -> list[str]:
    head = ("concurrency", *SETTINGS[1:], *FIGURES)
    rows = [(*setting_cells(m), *figure_cells(m, result)) for m in result.measured]
    best = next(i for i, m in enumerate(result.measured) if m is result.best)
    place = len(SETTINGS) + FIGURES.index(REPEATS)
    doubtful = {(row, place) for row, m in enumerate(result.measured) if m in result.noisy}
    used = "by events on the device" if result.best.by_events else "as the host saw it"
    return [
        "<h2>Settings</h2>",
        table(head, rows, numbers=range(len(head)), best=best, doubtful=doubtful),
        note(
            "Concurrency: copies of the job at once. Seconds a proof: the median of the time of all copies, by their "
            f"number. Device time: the seconds in which devices were busy, {used}; utilisation: their part of the time "
            "from the first launch to the last result. Repeats: extra time of the slowest over the fastest."
        ),
    ]


def _inflation(result: SweepResult) -> list[str]:
    """Stages against the isolated setting, a row for each setting."""
    stages = [name for name in result.isolated.stages if ":" not in name]
    rows = []
    for measured in result.measured:
        ratios = measured.inflation(result.isolated)
        told = [f"{(ratios[name] - 1) * 100:+.0f} %" if name in ratios else "-" for name in stages]
        rows.append((measured.cell.id, *told))
    alone = ", ".join(f"{name} {format_seconds(result.isolated.stages[name].median)}" for name in stages)
    return [
        "<h2>Stages against one partition at a time</h2>",
        table(("setting", *stages), rows, numbers=range(1, 1 + len(stages))),
        note(f"In isolation ({result.isolated.cell.id}): {alone}. The median of each stage over that."),
    ]


def _group(measured: Measured) -> str:
    cell = measured.cell
    values = (("parallel", cell.parallel), ("provers", cell.gpu_workers))
    return ", ".join(f"{name} {value}" for name, value in values if value is not None) or "as the job has it"


def _worst(measured: Measured, result: SweepResult) -> float:
    ratios: Sequence[float] = [ratio for _, ratio in headline_inflation(measured.inflation(result.isolated))]
    return max(ratios, default=1.0)


def _seconds(value: float) -> str:
    return format_seconds(value) if value else "0"
