"""The parts of a run's page about its nodes: witnesses in flight, memory, leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cluster.record.analysis import witnesses_in_flight
from cluster.record.nodestory import NodeStory
from cluster.record.story import Story
from cluster.record.timeline import Session
from distprove.cli.pages.html import COLOURS, chart, escape, note
from distprove.cli.pages.svg import Series, legend, line_chart
from distprove.cli.pages.waterfall import seconds_axis
from kernels.host.units import format_bytes

Format = Callable[[float], str]


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
    title = f"Node {node.node}" + (f", policy {node.policy}" if node.policy else "")
    parts = [f"<h2>{escape(title)}</h2>"]
    if node.limits:
        limits = ", ".join(f"{lease_class} {_count(limit)}" for lease_class, limit in node.limits.items())
        parts.append(f'<p class="dim">Limits: {escape(limits)}</p>')
    if node.peak_memory is not None:
        parts.append(f'<p class="dim">Most host memory leased: {escape(format_bytes(node.peak_memory))}</p>')
    end = session.seconds
    used = [(s.time, s.memory_used) for s in node.samples if s.memory_used is not None]
    leased = [(s.time, s.memory_leased) for s in node.samples if s.memory_leased is not None]
    cpu = [(s.time, s.cpu) for s in node.samples if s.cpu is not None]
    if node.samples:
        parts.append('<div class="half">')
        parts.append(_plot("Host memory", [("used", used), ("leased", leased)], end, format_bytes, stepped=True))
        parts.append(_plot("Processors busy", [("busy", cpu)], end, _percent, most=1.0))
        leases = _by_class([(s.time, s.leases) for s in node.samples])
        queue = _by_class([(s.time, s.queue) for s in node.samples])
        parts.append(_plot("Leases held", leases, end, _count, stepped=True))
        parts.append(_plot("Waiting for a lease", queue, end, _count, stepped=True))
        parts.append("</div>")
    else:
        parts.append(note("No samples of memory or leases were recorded."))
    return parts


def _by_class(samples: Sequence[tuple[float, Mapping[str, float]]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """A line for each lease class that any sample has."""
    lease_classes = dict.fromkeys(lease_class for _, counts in samples for lease_class in counts)
    return [
        (lease_class, [(time, counts.get(lease_class, 0.0)) for time, counts in samples])
        for lease_class in lease_classes
    ]


def _plot(
    title: str,
    named: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    end: float,
    form: Format,
    *,
    stepped: bool = False,
    most: float = 0.0,
) -> str:
    """A heading and a chart with its legend; says so where nothing was measured."""
    series = [Series(name, points, i % COLOURS, stepped=stepped) for i, (name, points) in enumerate(named) if points]
    if not series:
        return f"<div><h3>{escape(title)}</h3>{note('Not measured.')}</div>"
    keys = legend([(f"s{line.colour}", line.name) for line in series]) if len(series) > 1 else ""
    drawn = line_chart(
        title,
        series,
        (0.0, end),
        x_format=seconds_axis,
        y_format=form,
        y_most=most,
        binary=form is format_bytes,
        width=560,
    )
    return f"<div><h3>{escape(title)}</h3>{keys}{chart(drawn)}</div>"


def _count(value: float) -> str:
    return f"{value:g}"


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"
