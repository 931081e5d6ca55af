"""The parts of a run's page about its nodes: witnesses in flight, memory, leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.record.analysis import witnesses_in_flight
from cluster.record.nodestory import NodeStory, number
from cluster.record.story import Story
from cluster.record.timeline import Session
from distprove.cli.pages.html import COLOURS, chart, escape, note, table
from distprove.cli.pages.svg import Series, legend, line_chart
from distprove.cli.pages.waterfall import seconds_axis
from kernels.host.units import format_bytes

Format = Callable[[float], str]
LISTED = 60
"""Rows of a table for one node."""


def witnesses(story: Story, session: Session) -> list[str]:
    """Chart of the number and size of witnesses over time."""
    levels = witnesses_in_flight(session, story.witness_bytes)
    if not levels:
        return []
    counts = [(0.0, 0.0), *((level.time - session.began, float(level.count)) for level in levels)]
    sizes = [(0.0, 0.0), *((level.time - session.began, float(level.nbytes)) for level in levels)]
    plots = _plot("Witnesses in flight", [("witnesses", counts)], session.seconds, _count, stepped=True)
    plots += _plot("Their size", [("bytes", sizes)], session.seconds, format_bytes, stepped=True)
    return ["<h2>Memory</h2>", f'<div class="half">{plots}</div>']


def governor(session: Session, node: NodeStory) -> list[str]:
    """Charts and tables of the limits of the node's governor, and of what it saw."""
    parts = []
    if node.limits:
        limits = ", ".join(f"{resource} {_count(limit)}" for resource, limit in node.limits.items())
        parts.append(f'<p class="dim">Limits: {escape(limits)}</p>')
    if node.peak_memory:
        parts.append(f'<p class="dim">Most host memory leased: {escape(format_bytes(node.peak_memory))}</p>')
    end = session.seconds
    samples = [sample for sample in node.samples if sample.time <= end]
    used = [(s.time, s.memory_used) for s in samples if s.memory_used is not None]
    leased = [(s.time, s.memory_leased) for s in samples if s.memory_leased is not None]
    cpu = [(s.time, s.cpu) for s in samples if s.cpu is not None]
    leases = _by_resource([(s.time, s.leases) for s in samples])
    queue = _by_resource([(s.time, s.queue) for s in samples])
    plots = [
        _plot("Host memory", [("used", used), ("leased", leased)], end, format_bytes, stepped=True),
        _plot("Processors busy", [("busy", cpu)], end, _percent, most=1.0),
        _plot("Leases held", leases, end, _count, stepped=True),
        _plot("Waiting for a lease", [line for line in queue if any(y for _, y in line[1])], end, _count, stepped=True),
    ]
    if any(plots):
        parts.append(f'<div class="half">{"".join(plots)}</div>')
    return [f"<h2>{escape(f'Node {node.node}')}</h2>", *parts] if parts else []


def processes(nodes: Sequence[NodeStory], driver: float | None) -> list[str]:
    """Table of the memory that our processes were resident in, those of a kind together."""
    rows = [("-", "driver", "1", format_bytes(driver), format_bytes(driver))] if driver else []
    for node in nodes:
        kinds: dict[str, list[float]] = {}
        for name, peak in node.processes.items():
            kinds.setdefault(name.rstrip("-0123456789") or name, []).append(peak)
        for kind, peaks in list(kinds.items())[:LISTED]:
            rows.append((node.node, kind, str(len(peaks)), format_bytes(max(peaks)), format_bytes(sum(peaks))))
    if not rows:
        return []
    head = ("node", "process", "number", "largest", "together")
    said = "The most that each was resident in, at whatever time; pages that processes share count for each."
    return ["<h2>Host memory of our processes</h2>", table(head, rows, numbers=range(2, 5)), note(said)]


def gpus(nodes: Sequence[NodeStory]) -> list[str]:
    """Table of what the driver of the GPUs told of them."""
    rows = [(node.node, *_gpu_row(gpu)) for node in nodes for gpu in node.gpus[:LISTED]]
    if not rows:
        return []
    head = ("node", "GPU", "in use", "power", "power, most", "temperature, most", "memory, most", "ECC errors", "Xid")
    said = (
        "As their driver tells, averaged over looks some seconds apart: in use is the share of time with a kernel at "
        "work, ECC errors are uncorrected ones, Xid the critical errors that it reported, and how often."
    )
    return ["<h2>GPUs</h2>", table(head, rows, numbers=range(2, 8)), note(said)]


def _gpu_row(gpu: Mapping[str, Any]) -> tuple[str, ...]:
    def told(key: str, form: Format) -> str:
        value = number(gpu.get(key))
        return "-" if value is None else form(value)

    xids = gpu.get("xids")
    met = (
        ", ".join(f"{code} ({count})" for code, count in list(xids.items())[:LISTED])
        if isinstance(xids, dict) and xids
        else "none"
    )
    return (
        f"{gpu.get('index', '?')}: {gpu.get('name', '?')}",
        told("utilisation", _percent),
        told("watts", lambda value: f"{value:.0f} W"),
        told("watts_most", lambda value: f"{value:.0f} W"),
        told("celsius_most", lambda value: f"{value:.0f} °C"),
        told("memory_most", format_bytes),
        told("ecc_errors", _count),
        met,
    )


def _by_resource(samples: Sequence[tuple[float, Mapping[str, float]]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """A line for each resource that any sample has."""
    resources = dict.fromkeys(resource for _, counts in samples for resource in counts)
    return [(resource, [(time, counts.get(resource, 0.0)) for time, counts in samples]) for resource in resources]


def _plot(
    title: str,
    named: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    end: float,
    form: Format,
    *,
    stepped: bool = False,
    most: float = 0.0,
) -> str:
    """A heading and a chart with its legend; nothing where nothing was measured over time."""
    series = [Series(name, points, i % COLOURS, stepped=stepped) for i, (name, points) in enumerate(named)]
    series = [line for line in series if len(line.points) > 1]
    if not series:
        return ""
    keys = legend([(f"s{line.colour}", line.name) for line in series]) if len(series) > 1 else ""
    drawn = line_chart(
        title,
        series,
        (0.0, end),
        x_format=seconds_axis,
        y_format=form,
        y_most=most,
        binary=form is format_bytes,
        whole=form is _count,
        width=560,
    )
    return f"<div><h3>{escape(title)}</h3>{keys}{chart(drawn)}</div>"


def _count(value: float) -> str:
    return f"{value:g}"


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"
