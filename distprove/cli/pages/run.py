"""The page of a run: what came of it, where its time went, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from typing import Any

from cluster.analysis import DeviceUse, Inflation, Spread, devices, inflation, witnesses_in_flight
from cluster.nodestory import NodeStory
from cluster.story import Story
from cluster.timeline import Session, Span
from distprove.cli.console import format_seconds
from distprove.cli.pages.html import bars, cards, chart, document, folded, note, table
from distprove.cli.pages.svg import Series, legend, line_chart
from distprove.cli.pages.waterfall import Mark, device_lanes, seconds_axis, waterfall
from distprove.cli.summary import COUNTERS, grouped_errors, proven_rows
from kernels.units import format_bytes

LISTED = 60
"""Rows of a table that could have one for each partition or event."""
MARKS = 200
"""Lines drawn across the waterfall, at most."""

LEGEND = (
    ("p-load", "key loaded"),
    ("p-check", "key checked"),
    ("p-synthesise", "witness made"),
    ("p-commit", "committed"),
    ("p-prove", "proven"),
    ("p-verify", "verified"),
    ("p-diagnose", "diagnosed"),
    ("p-bad", "went wrong"),
)


def run_page(story: Story, against: Story | None = None) -> str:
    """One self-contained HTML document. `against`: a run without competition, to tell how much longer phases took."""
    body = [_head(story)]
    for number, session in enumerate(story.sessions, 1):
        last = number == len(story.sessions)
        parts = _session(story, session, against, last)
        if len(story.sessions) == 1:
            body += parts
        else:
            when = _moment(session.began)
            title = f"Session {number} of {len(story.sessions)}: {when}, {session.status}"
            body.append(folded(title, "\n".join(parts), opened=last))
    if not story.sessions:
        body.append(note("No timeline yet: it is written when a session of the run ends."))
    body += _trouble(story)
    body += _partitions(story)
    body += _workers(story)
    return document(f"{story.title}: {story.status}", body)


def _head(story: Story) -> str:
    report, record = story.report, story.record
    cls = {"proved": "good", "failed": "bad"}.get(story.status, "warn")
    partitions = report.get("partitions", [])
    done = sum(p["status"] in ("proved", "resumed") for p in partitions)
    fresh = sum(p["status"] == "proved" for p in partitions)
    wall = float(report.get("wall_seconds", 0.0))
    facts = [("partitions", f"{done} of {len(record['partitions'])}")]
    if report:
        facts.append(("wall time", format_seconds(wall)))
        facts.append(("partitions a second", f"{fresh / wall:.2f}" if fresh and wall else "-"))
    if story.sessions:
        facts += _session_facts(story.sessions[-1])
    if partitions:
        peak = max(p.get("device_peak") or 0 for p in partitions)
        facts += [("device memory, most", format_bytes(peak))] if peak else []
        facts.append(("retries", str(report["counters"].get("retries", 0))))
    lines = [
        f"<h1>{escape(story.title)}</h1>",
        f'<p><span class="status {cls}">{escape(story.status)}</span> '
        f'<span class="dim">{escape(_subtitle(story))}</span></p>',
        cards(facts),
    ]
    if report.get("error"):
        lines.append(f'<p class="bad">{escape(str(report["error"]))}</p>')
    rows = [*proven_rows(report.get("proven") or {}), ("key", str(record["key_digest"]))]
    if report.get("job_digest"):
        rows.append(("job", str(report["job_digest"])))
    lines.append("".join(f'<p class="note">{escape(name)}: <code>{escape(value)}</code></p>' for name, value in rows))
    return "\n".join(lines)


def _subtitle(story: Story) -> str:
    created = story.record.get("created")
    parts = [str(story.record["system"])]
    if isinstance(created, (int, float)):
        parts.append(f"begun {_moment(created)}")
    if len(story.sessions) > 1:
        parts.append(f"{len(story.sessions)} sessions")
    return ", ".join(parts)


def _session_facts(session: Session) -> list[tuple[str, str]]:
    provers = [place for place in session.workers if place.role == "prover"]
    facts = [("provers", f"{len(provers)} ({session.executor})" if session.executor else str(len(provers)))]
    names = sorted({place.device for place in provers if place.device})
    if names:
        facts.append(("device", names[0] if len(names) == 1 else f"{len(names)} kinds"))
    used = [use for use in devices(session) if use.busy]
    if used:
        share = sum(use.share for use in used) / len(used)
        facts.append(("devices busy", f"{share * 100:.1f} %"))
    return facts


def _session(story: Story, session: Session, against: Story | None, last: bool) -> list[str]:
    marks = [
        Mark(event["time"], "event", _event_text(event))
        for event in story.trouble
        if session.began <= event["time"] <= session.began + session.wall_seconds + 1
    ]
    nodes = [NodeStory.of(record) for record in story.report.get("governors", ())] if last else []
    decided = [
        Mark(session.began + d.time, "mark", f"{d.phase}: {d.before} to {d.after}") for n in nodes for d in n.decisions
    ]
    present = {span.phase if span.outcome == "ok" else "bad" for span in session.spans}
    parts = ["<h2>Where the time went</h2>"]
    if session.spans:
        parts.append(legend([(cls, name) for cls, name in LEGEND if cls.removeprefix("p-") in present]))
        parts.append(chart(waterfall(session, (marks + decided)[:MARKS])))
        parts.append(
            note("A prover's span is what the partition cost: staging hidden behind the one before is left out.")
        )
    else:
        parts.append(note("Nothing ran."))
    parts += _devices(session)
    isolated = [span for s in against.sessions for span in s.spans] if against is not None else []
    parts += _inflation(session.spans, isolated, against.name if against is not None else "")
    parts += _memory(story, session, nodes)
    for story_of_node in nodes:
        parts += _governor(session, story_of_node)
    return parts


def _devices(session: Session) -> list[str]:
    used = [use for use in devices(session) if use.busy]
    if not used:
        return []
    rows = [_device_row(use) for use in used]
    head = ("device", "busy", "busy share", "gaps", "gap, median", "gap, p95", "gap, longest", "idle in all")
    parts = ["<h2>Devices: busy and idle</h2>", chart(device_lanes(session, used))]
    parts.append(table(head, rows, numbers=range(1, len(head))))
    parts.append(
        note(
            "Busy: from the launch of a proof's work to its last result. Gaps are what lies between, from the first "
            "launch to the last result."
        )
    )
    return parts


def _device_row(use: DeviceUse) -> tuple[str, ...]:
    gaps = Spread.of(end - start for start, end in use.gaps)
    idle = sum(end - start for start, end in use.gaps)
    times = (format_seconds(value) if gaps.count else "-" for value in (gaps.median, gaps.p95, gaps.most, idle))
    return (use.name, format_seconds(use.busy_seconds), f"{use.share * 100:.1f} %", str(gaps.count), *times)


def _inflation(spans: Sequence[Span], isolated: Sequence[Span], name: str) -> list[str]:
    found = inflation(spans, isolated)
    if not found:
        return []
    most = max((i.ratio - 1 for i in found if i.ratio is not None), default=0.0)
    rows = [(_inflation_row(i), (i.ratio - 1) / most if i.ratio is not None and most > 0 else 0.0) for i in found]
    baseline = f"the run {name}" if isolated else "the fastest tenth of the same run"
    return [
        "<h2>Phases</h2>",
        bars(("phase", "times", "undisturbed", "median", "p95", "longer by"), rows),
        note(f"Undisturbed: {baseline}. Steps are shown in full, also where they passed behind another partition."),
    ]


def _inflation_row(item: Inflation) -> tuple[str, ...]:
    spread = item.spread
    times = (format_seconds(value) for value in (item.undisturbed, spread.median, spread.p95))
    longer = f"{(item.ratio - 1) * 100:+.0f} %" if item.ratio is not None else "-"
    return (item.phase, str(spread.count), *times, longer)


def _memory(story: Story, session: Session, nodes: Sequence[NodeStory]) -> list[str]:
    parts: list[str] = []
    levels = witnesses_in_flight(session, story.witness_bytes)
    end = _end(session)
    if levels:
        counts = [(0.0, 0.0), *((level.time - session.began, float(level.count)) for level in levels)]
        sizes = [(0.0, 0.0), *((level.time - session.began, float(level.nbytes)) for level in levels)]
        parts.append('<h2>Memory</h2><div class="half"><div><h3>Witnesses in flight</h3>')
        parts.append(
            _lines("Witnesses in flight", [Series("witnesses", counts, 1, stepped=True)], end, _count, width=560)
        )
        parts.append("</div><div><h3>Their size</h3>")
        parts.append(
            _lines("Bytes of witnesses", [Series("bytes", sizes, 0, stepped=True)], end, format_bytes, width=560)
        )
        parts.append("</div></div>")
    return parts


def _governor(session: Session, node: NodeStory) -> list[str]:
    title = f"Node {node.node}" + (f", policy {node.policy}" if node.policy else "")
    parts = [f"<h2>{escape(title)}</h2>"]
    if node.limits:
        limits = ", ".join(f"{phase} {_count(limit)}" for phase, limit in node.limits.items())
        parts.append(f'<p class="dim">Limits at the end: {escape(limits)}</p>')
    if node.peak_memory is not None:
        parts.append(f'<p class="dim">Most host memory leased: {escape(format_bytes(node.peak_memory))}</p>')
    end = _end(session)
    used = [(s.time, s.memory_used) for s in node.samples if s.memory_used is not None]
    leased = [(s.time, s.memory_leased) for s in node.samples if s.memory_leased is not None]
    bandwidth = [(s.time, s.bandwidth) for s in node.samples if s.bandwidth is not None]
    cpu = [(s.time, s.cpu) for s in node.samples if s.cpu is not None]
    if node.samples:
        parts.append('<div class="half">')
        parts.append(_plot("Host memory", [("used", used), ("leased", leased)], end, format_bytes, stepped=True))
        parts.append(_plot("Memory bandwidth, by a probe", [("bandwidth", bandwidth)], end, _per_second))
        parts.append(_plot("Processors busy", [("busy", cpu)], end, _percent, most=1.0))
        for what, mapping in (("Leases held", "leases"), ("Waiting for a lease", "queue")):
            phases = list(dict.fromkeys(phase for s in node.samples for phase in getattr(s, mapping)))
            named = [(p, [(s.time, getattr(s, mapping).get(p, 0.0)) for s in node.samples]) for p in phases]
            parts.append(_plot(what, named, end, _count, stepped=True))
        parts.append("</div>")
    else:
        parts.append(note("No samples of memory, bandwidth or leases were recorded."))
    if node.decisions:
        rows = [(format_seconds(d.time), d.phase, d.before, d.after, d.reason) for d in node.decisions]
        decisions = table(("at", "phase", "from", "to", "why"), rows[:LISTED], numbers=(0, 2, 3))
        more = note(f"and {len(rows) - LISTED} more, in report.json") if len(rows) > LISTED else ""
        parts.append(folded(f"{len(rows)} decisions", decisions + more, opened=len(rows) <= 12))
    return parts


def _plot(
    title: str,
    named: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    end: float,
    form: Any,
    *,
    stepped: bool = False,
    most: float = 0.0,
) -> str:
    """A heading and a chart with its legend; says so where nothing was measured."""
    series = [Series(name, points, i % 8, stepped=stepped) for i, (name, points) in enumerate(named) if points]
    if not series:
        return f"<div><h3>{escape(title)}</h3>{note('Not measured.')}</div>"
    keys = legend([(f"s{line.colour}", line.name) for line in series]) if len(series) > 1 else ""
    return f"<div><h3>{escape(title)}</h3>{keys}{_lines(title, series, end, form, width=560, most=most)}</div>"


def _lines(label: str, series: Sequence[Series], end: float, form: Any, *, width: float, most: float = 0.0) -> str:
    drawn = line_chart(
        label,
        series,
        (0.0, end),
        x_format=seconds_axis,
        y_format=form,
        width=width,
        y_most=most,
        binary=form is format_bytes,
    )
    return chart(drawn)


def _trouble(story: Story) -> list[str]:
    counters = {name: count for name, count in story.report.get("counters", {}).items() if count}
    if not story.trouble and not counters:
        return []
    parts = ["<h2>Retries and faults</h2>"]
    if counters:
        parts.append(
            f"<p>{escape(', '.join(f'{count} {COUNTERS.get(name, name)}' for name, count in counters.items()))}</p>"
        )
    for message, names in grouped_errors(story.report.get("partitions", ())):
        parts.append(f'<p><b class="bad">{escape(names)}:</b> {escape(message)}</p>')
    rows = [
        (
            _since(story, event["time"]),
            str(event["event"]),
            *(str(event.get(key, "")) for key in ("partition", "worker", "reason")),
        )
        for event in story.trouble
    ]
    if rows:
        listed = table(("at", "what", "partition", "worker", "why"), rows[:LISTED], numbers=(0,))
        more = note(f"and {len(rows) - LISTED} more, in journal.jsonl") if len(rows) > LISTED else ""
        parts.append(folded(f"{len(rows)} events", listed + more, opened=len(rows) <= 12))
    return parts


def _partitions(story: Story) -> list[str]:
    partitions = story.report.get("partitions", [])
    if not partitions:
        return []
    ordered = sorted(partitions, key=lambda p: (p["status"] not in ("failed", "waiting"), -p["prove_seconds"]))
    head = ("partition", "status", "witness", "prove", "verify", "tries", "size of witness", "by")
    rows = [
        (
            p["name"],
            p["status"],
            *(_time(p[f"{phase}_seconds"]) for phase in ("synthesise", "prove", "verify")),
            str(p["attempts"] or "-"),
            format_bytes(p["witness_bytes"]) if p["witness_bytes"] else "-",
            str(p.get("worker") or "-"),
        )
        for p in ordered[:LISTED]
    ]
    more = note(f"and {len(ordered) - LISTED} more, in report.json") if len(ordered) > LISTED else ""
    listed = table(head, rows, numbers=range(2, 7)) + more
    return ["<h2>Partitions</h2>", folded("Those that failed, then the slowest", listed, opened=len(ordered) <= 12)]


def _workers(story: Story) -> list[str]:
    workers = story.report.get("workers", [])
    if not workers:
        return []
    head = ("worker", "status", "device", "host", "partitions", "busy", "load", "deaths", "faults")
    rows = [
        (
            w["id"],
            w["status"],
            str(w["facts"].get("device", "-")),
            str(w["facts"].get("host", "-")),
            str(w["partitions"]),
            *(_time(float(w.get(key) or 0.0)) for key in ("busy_seconds", "load_seconds")),
            *(str(w.get(key, 0)) for key in ("deaths", "faults")),
        )
        for w in workers[:LISTED]
    ]
    return ["<h2>Workers</h2>", table(head, rows, numbers=range(4, len(head)))]


def _end(session: Session) -> float:
    return max([session.wall_seconds, 1e-6, *(span.end - session.began for span in session.spans)])


def _event_text(event: dict[str, Any]) -> str:
    return ", ".join(str(event[key]) for key in ("event", "partition", "worker", "reason") if event.get(key))


def _since(story: Story, moment: float) -> str:
    """Seconds since the session in which it happened began."""
    began = [session.began for session in story.sessions if session.began <= moment]
    return format_seconds(moment - began[-1]) if began else _moment(moment)


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "?"


def _time(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "-"


def _count(value: float) -> str:
    return f"{value:g}"


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def _per_second(value: float) -> str:
    return f"{value / 1e9:.3g} GB/s"
