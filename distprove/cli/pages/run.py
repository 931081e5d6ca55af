"""The page of a run: what came of it, where its time went, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from cluster.record.analysis import DeviceUse, Spread, StageTime, devices, stage_times
from cluster.record.nodestory import NodeStory, number
from cluster.record.story import Story
from cluster.record.timeline import Session, Span
from distprove.cli.console import format_seconds
from distprove.cli.pages.html import bars, cards, chart, document, escape, folded, note, table
from distprove.cli.pages.nodes import governor, gpus, processes, witnesses
from distprove.cli.pages.svg import legend
from distprove.cli.pages.waterfall import Mark, device_lanes, waterfall
from distprove.cli.summary import grouped_errors, key_warnings, proven_rows, stage_columns, troubles
from kernels.host.units import count_of, format_bytes

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


def run_page(story: Story) -> str:
    """One self-contained HTML document."""
    body = [_head(story)]
    for place, session in enumerate(story.sessions, 1):
        last = place == len(story.sessions)
        parts = _session(story, session, last)
        if len(story.sessions) == 1:
            body += parts
        else:
            when = _moment(session.began)
            title = f"Session {place} of {len(story.sessions)}: {when}, {session.status}"
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
    rows = [("ran", str(report["chosen"]))] if report.get("chosen") else []
    rows += [*proven_rows(report.get("proven") or {}), ("key", str(record["key_digest"]))]
    rows += [("warning", line) for line in key_warnings(record["facts"])]
    made_by = report.get("made_by") or record.get("made_by")
    if isinstance(made_by, dict):
        rows += [(name, str(made_by[name])) for name in ("version", "commit", "user", "host") if made_by.get(name)]
    if report.get("job_digest"):
        rows.append(("job", str(report["job_digest"])))
    told = "".join(f'<p class="note">{escape(name)}: <code>{escape(value)}</code></p>' for name, value in rows)
    lines.append(f'<div class="facts">{told}</div>')
    return "\n".join(lines)


def _subtitle(story: Story) -> str:
    created = story.record.get("created")
    parts = [str(story.record["system"])]
    if isinstance(created, (int, float)):
        parts.append(f"begun {_moment(created)}")
    if len(story.sessions) > 1:
        parts.append(count_of(len(story.sessions), "session"))
    return ", ".join(parts)


def _session_facts(session: Session) -> list[tuple[str, str]]:
    provers = [place for place in session.workers if place.role == "prover"]
    facts = [("provers", f"{len(provers)} ({session.executor})" if session.executor else str(len(provers)))]
    names = sorted({place.device for place in provers if place.device})
    if names:
        facts.append(("device", names[0] if len(names) == 1 else count_of(len(names), "kind")))
    used = [use for use in devices(session) if use.busy]
    if used:
        share = sum(use.share for use in used) / len(used)
        facts.append(("devices busy", f"{share * 100:.1f} %"))
    return facts


def _session(story: Story, session: Session, last: bool) -> list[str]:
    marks = [
        Mark(event["time"], _event_text(event))
        for event in story.trouble
        if session.began <= event["time"] <= session.began + session.wall_seconds + 1
    ]
    nodes = [NodeStory.of(record) for record in story.report.get("governors", ())] if last else []
    present = {span.stage if span.outcome == "ok" else "bad" for span in session.spans}
    parts = ["<h2>Where the time went</h2>"]
    if session.spans:
        parts.append(legend([(cls, name) for cls, name in LEGEND if cls.removeprefix("p-") in present]))
        parts.append(chart(waterfall(session, marks[:MARKS])))
        parts.append(
            note("A prover's span is what the partition cost: staging hidden behind the one before is left out.")
        )
    else:
        parts.append(note("Nothing ran."))
    parts += _devices(session)
    parts += _stages(session.spans)
    parts += witnesses(story, session)
    for story_of_node in nodes:
        parts += governor(session, story_of_node)
    if last:
        parts += processes(nodes, number(story.report.get("driver_memory")))
        parts += gpus(nodes)
    return parts


def _devices(session: Session) -> list[str]:
    used = [use for use in devices(session) if use.busy]
    if not used:
        return []
    rows = [_device_row(use) for use in used]
    head = ("device", "seen by", "busy", "busy share", "gaps", "gap, median", "gap, p95", "gap, longest", "idle in all")
    parts = ["<h2>Devices: busy and idle</h2>", chart(device_lanes(session, used))]
    parts.append(table(head, rows, numbers=range(2, len(head))))
    parts.append(
        note(
            "Busy, by the device's events: while it had work; by its queue: from the launch of a proof's work to its "
            "last result, as the host saw it. Gaps are what lies between, from the first launch to the last result."
        )
    )
    return parts


def _device_row(use: DeviceUse) -> tuple[str, ...]:
    gaps = Spread.of(end - start for start, end in use.gaps)
    idle = sum(end - start for start, end in use.gaps)
    times = (format_seconds(value) if gaps.count else "-" for value in (gaps.median, gaps.p95, gaps.most, idle))
    return (
        use.name,
        "events" if use.by_events else "queue",
        format_seconds(use.busy_seconds),
        f"{use.share * 100:.1f} %",
        str(gaps.count),
        *times,
    )


def _stages(spans: Sequence[Span]) -> list[str]:
    found = stage_times(spans)
    if not found:
        return []
    head = ("stage", "times", "median", "p95", "in all", "share")
    rows = [(_stage_row(stage), stage.share) for stage in found]
    return [
        "<h2>Stages</h2>",
        bars(head, rows),
        note(
            "The share is that of the time of all stages together. A step counts there with what it cost, and "
            "in its median and p95 in full, also where it passed behind another partition."
        ),
    ]


def _stage_row(stage: StageTime) -> tuple[str, ...]:
    times = (format_seconds(value) for value in (stage.spread.median, stage.spread.p95, stage.total))
    return (stage.stage, str(stage.spread.count), *times, f"{stage.share * 100:.1f} %")


def _trouble(story: Story) -> list[str]:
    counted = troubles(story.report.get("counters", {}))
    if not story.trouble and not counted:
        return []
    parts = ["<h2>Retries and faults</h2>"]
    if counted:
        parts.append(f"<p>{escape(counted)}</p>")
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
        count = len(rows) + story.more_trouble
        more = note(f"and {count - LISTED} more, in journal.jsonl") if count > LISTED else ""
        parts.append(folded(count_of(count, "event"), listed + more, opened=count <= 12))
    return parts


def _partitions(story: Story) -> list[str]:
    partitions = story.report.get("partitions", [])
    if not partitions:
        return []
    ordered = sorted(partitions, key=lambda p: (p["status"] not in ("failed", "waiting"), -p["prove_seconds"]))
    stages = stage_columns(partitions)
    head = ("partition", "status", *stages.values(), "tries", "size of witness", "by")
    rows = [
        (
            p["name"],
            p["status"],
            *(_time(p.get(f"{stage}_seconds") or 0.0) for stage in stages),
            str(p["attempts"] or "-"),
            format_bytes(p["witness_bytes"]) if p["witness_bytes"] else "-",
            str(p.get("worker") or "-"),
        )
        for p in ordered[:LISTED]
    ]
    more = note(f"and {len(ordered) - LISTED} more, in report.json") if len(ordered) > LISTED else ""
    listed = table(head, rows, numbers=range(2, len(head) - 1)) + more
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
