"""The table at the end of a job, from its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from distprove.cli.console import escape, facts_table, format_seconds, message, plain_table, warn
from kernels.host.units import count_of, format_bytes

MAX_ROWS = 40
"""Partitions listed one by one; beyond, those with something to tell come first."""

MAX_NAMES = 5
"""Partitions named beside an error that they share."""

MAX_ITEMS = 8
"""Items listed of those that a statement names."""

INSECURE_WRAP = "insecure wrap: the maker of its key can forge wraps"

STATUS = {"proved": "[green]proved[/]", "resumed": "[green]kept[/]", "failed": "[red]failed[/]", "waiting": "[dim]-[/]"}

COUNTERS = {
    "retries": ("retry", "retries"),
    "bad_proofs": ("bad proof", "bad proofs"),
    "faults": ("fault", "faults"),
    "deaths": ("worker death", "worker deaths"),
    "lost_witnesses": ("lost witness", "lost witnesses"),
    "damaged_files": ("damaged file", "damaged files"),
    "retired": ("worker given up", "workers given up"),
}
"""What a report counts of trouble: one, and several."""


def show_summary(console: Console, run: Path, report: dict[str, Any]) -> None:
    """Print one row per partition, then what the job came to."""
    partitions = report["partitions"]
    if partitions:
        console.print(_partitions(partitions))
        hidden = len(partitions) - MAX_ROWS
        if hidden > 0:
            console.print(f"[dim]and {hidden} more, in {escape(str(run / 'report.json'))}[/]")
        console.print()
        errors = grouped_errors(partitions)
        for error, names in errors:
            console.print(f"[red]{escape(names)}:[/] {message(error)}")
        if errors:
            console.print()
    console.print(_totals(run, report))


def _partitions(partitions: list[dict[str, Any]]) -> Table:
    shown = sorted(partitions, key=lambda p: (p["status"] != "failed", p["attempts"] <= 1))[:MAX_ROWS]
    if len(partitions) <= MAX_ROWS:
        shown = partitions
    pcie = any(p["to_device"] or p["to_host"] for p in shown)
    moved = ("to GPU", "back") if pcie else ()
    table = plain_table("partition", "status", numbers=(*stage_columns(partitions).values(), "tries", *moved))
    table.add_column("by")
    for p in shown:
        cells = [escape(p["name"]), STATUS.get(p["status"], escape(p["status"]))]
        cells += [_time(p.get(f"{stage}_seconds") or 0.0) for stage in stage_columns(partitions)]
        cells.append(str(p["attempts"]) if p["attempts"] else "-")
        if pcie:
            cells += [format_bytes(p["to_device"]), format_bytes(p["to_host"])]
        table.add_row(*cells, escape(p["worker"] or "-"))
    return table


def stage_columns(partitions: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The stages of a partition whose times are listed, and the names of their columns."""
    commits = {"commit": "commit"} if any(p.get("commit_seconds") for p in partitions) else {}
    return {"synthesise": "witness", **commits, "prove": "prove", "verify": "verify"}


def grouped_errors(partitions: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each distinct error once, with the partitions it struck."""
    struck: dict[str, list[str]] = {}
    for p in partitions:
        if p["error"]:
            struck.setdefault(p["error"], []).append(p["name"])
    pairs = []
    for error, names in struck.items():
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        pairs.append((error, ", ".join(names[:MAX_NAMES]) + more))
    return pairs


def _totals(run: Path, report: dict[str, Any]) -> Table:
    partitions = report["partitions"]
    done = sum(p["status"] in ("proved", "resumed") for p in partitions)
    fresh = sum(p["status"] == "proved" for p in partitions)
    table = facts_table()
    status = report["status"]
    colour = {"proved": "green", "failed": "red"}.get(status, "yellow")
    wall = report["wall_seconds"]
    rate = f", {fresh / wall:.2f} a second" if fresh and wall else ""
    table.add_row("result", f"[bold {colour}]{escape(status)}[/]: {done} of {count_of(len(partitions), 'partition')}")
    table.add_row("time", f"{format_seconds(wall)}{rate}")
    workers = [w for w in report["workers"] if w["role"] == "prover"]
    devices = sorted({str(w["facts"].get("device", "?")) for w in workers if w["facts"]})
    if devices:
        table.add_row("provers", f"{len(workers)} on {escape(', '.join(devices))} ({escape(str(report['executor']))})")
    memory = memory_line(partitions)
    if memory:
        table.add_row("memory", escape(memory))
    trouble = troubles(report["counters"])
    if trouble:
        table.add_row("trouble", f"[yellow]{escape(trouble)}[/]")
    for name, value in proven_rows(report.get("proven", {})):
        table.add_row(name, escape(value))
    code = report.get("proven", {}).get("exit_code")
    if code:
        table.add_row(
            "guest", f"[bold yellow]exit code {code}[/]: `verify` refuses it, unless --exit-code {code} is given"
        )
    table.add_row("key", key_line(report["key_digest"], report["facts"]))
    if report["job_digest"]:
        table.add_row("job", escape(str(report["job_digest"])))
        table.add_row("proof", escape(str(run / "proof.msgpack")))
        for name in report.get("proven", {}).get("published", ()):
            table.add_row(escape(name), escape(str(run / name)))
        if report.get("aggregate"):
            table.add_row("aggregate", escape(str(run / report["aggregate"])))
        if "output" in report.get("proven", {}):
            table.add_row("output", escape(str(run / "output.bin")))
    return table


def troubles(counters: Mapping[str, int]) -> str:
    """The counters of a report that are not 0, in words; empty if all of them are."""
    return ", ".join(count_of(count, *COUNTERS.get(name, (name, name))) for name, count in counters.items() if count)


def memory_line(partitions: list[dict[str, Any]]) -> str:
    """Memory plans of the partitions in words; empty for systems that do not plan it."""
    uses = [p["memory"] for p in partitions if p.get("memory")]
    if not uses:
        return ""
    counts = Counter(use["plan"] for use in uses)
    plans = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    peaks = [use["peak"] for use in uses if use["peak"] is not None]
    taken = f", {format_bytes(max(peaks))} taken" if peaks else ""
    return f"{plans}; {format_bytes(max(use['predicted'] for use in uses))} a partition predicted{taken}"


def proven_rows(proven: dict[str, Any], *, wrapped: bool = False) -> list[tuple[str, str]]:
    """Rows on what a proof says and how sure that is; none for systems that do not tell. Of what was verified by a wrap
    the bits are those of the proofs inside."""
    rows = []
    if "program" in proven:
        if proven.get("known", True):
            arguments = ", ".join(f"{name} = {value}" for name, value in proven["arguments"].items())
            named = f"({arguments})"
        else:
            named = ", as the key calls it: the program is not at hand, and its arguments are not told"
        rows.append(("program", f"{proven['program']}{named}"))
    rows += [(name, _few(str(value))) for name, value in proven.get("stated", {}).items()]
    rows += [("says", f"{name} {value}") for name, value in proven.get("says", {}).items()]
    if "output" in proven:
        rows.append(
            (
                "output",
                f"{count_of(proven['output']['bytes'], 'byte', grouped=True)}, Keccak-256 "
                f"{proven['output']['keccak256']}",
            )
        )
    if "security" not in proven:
        return rows
    security = proven["security"]
    detail = f"{security['regime']}; blow-up {security['blowup']}, {count_of(security['queries'], 'query', 'queries')}"
    of = " of the proofs inside the wrap" if wrapped else ""
    rows.append(
        (
            "security",
            f"{security['bits']:.2f} bits, proven{of} ({detail}, {count_of(security['grinding_bits'], 'bit')} of work)",
        )
    )
    rows += [("layer", layer_line(layer)) for layer in security.get("layers", ())]
    return rows


def _few(listed: str) -> str:
    """The first of many items, which the report and `--json` have all."""
    items = listed.split(", ")
    more = len(items) - MAX_ITEMS
    return listed if more <= 0 else f"{', '.join(items[:MAX_ITEMS])}, and {more} more (--json has all)"


def layer_line(layer: dict[str, Any]) -> str:
    """A layer of the tree of a job that ends in one proof, in words."""
    proofs = f"{layer['proofs']} proof{'s' * (layer['proofs'] != 1)}"
    return (
        f"{layer['program']}: {proofs} of {layer['bits']:.2f} bits, "
        f"{count_of(layer['cells'], 'cell', grouped=True)} in all"
    )


def second_root_line(second: dict[str, Any]) -> str:
    """The proof inside a wrap, to compare with that which the wrap's key was made for."""
    return f"of {second['bits']:.2f} bits, by the rules {second['rules']}"


def key_line(digest: str, facts: dict[str, Any]) -> str:
    """The key's digest, and warnings where its set-up, or that of the aggregation keys, is not to be trusted."""
    return "\n".join([escape(digest), *(f"[bold yellow]{escape(line)}[/]" for line in key_warnings(facts))])


def key_warnings(facts: dict[str, Any]) -> list[str]:
    """What the facts of a key say against trusting proofs under it."""
    lines = []
    if facts.get("weakness"):
        lines.append(f"insecure key: {facts['weakness']}")
    elif facts.get("insecure_setup"):
        lines.append("insecure development set-up: whoever made this key can forge proofs")
    if facts.get("insecure_aggregation"):
        lines.append("insecure aggregation keys: whoever made them can forge aggregates")
    if facts.get("insecure_wrap"):
        lines.append(INSECURE_WRAP)
    return lines


def _time(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "-"


def warn_of_exit(code: int | None) -> None:
    """Warn where the parameters were chosen for a run that ended with another exit code than 0, as a guest does that
    misses its input."""
    if code:
        warn(
            f"the guest ended with exit code {code} on this input, and the number of queries is that of this run; a "
            "run of another length may have another one (--input, --public-input, --queries)"
        )
