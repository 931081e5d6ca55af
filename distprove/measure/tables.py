"""The tables of a benchmark's result, from its document: what the commands print, and docs/performance.md shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table of texts: so many columns of `texts`, and then of numbers."""

    head: list[str]
    rows: list[list[str]]
    texts: int = 1
    title: str = ""
    """A line above it."""


def tables_of(document: Document) -> list[Table]:
    """The tables of a document as `results.report` makes it."""
    return _TABLES.get(document["bench"], _by_size)(document)


def place_of(document: Document) -> tuple[str, str]:
    """Where it was measured: the device, and what is around that."""
    machine = document["machine"]
    gpus = machine["gpus"]["devices"] if document["backend"]["kind"] == "cuda" else []
    processor = machine["processor"]
    if gpus:
        return gpus[0]["name"], f"driver {machine['gpus']['driver']}, CUDA up to {machine['gpus']['cuda_driver']}"
    return processor["model"], f"{processor['usable']} processors"


def notes_of(document: Document) -> list[str]:
    """What is timed, how results are checked, and where ceilings come from."""
    ceilings: dict[str, set[str]] = {}
    for row in document["rows"]:
        if ceiling := row.get("ceiling"):
            rate = f"{row['curve']} {ceiling['per_second']:.3g} {ceiling['operation']}"
            ceilings.setdefault(ceiling["source"], set()).add(rate)
    notes = [f"Timed: {document['timed']}.", f"Checked: {document['checked']}."]
    for source, rates in sorted(ceilings.items()):
        notes.append(f"Ceilings, per second: {'; '.join(sorted(rates))} ({source}).")
    return notes


def _by_size(document: Document) -> list[Table]:
    """A row for each kind of measurement and a column for each size, with the share of the ceiling."""
    sizes = sorted({row["log_n"] for row in document["rows"]})
    groups: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in document["rows"]:
        groups.setdefault((row["curve"], row["what"], row["variant"]), {})[row["log_n"]] = row
    rows = []
    for (curve, what, variant), cells in groups.items():
        label = " ".join(part for part in (curve, what.removeprefix("msm ").upper() if "msm" in what else "") if part)
        label += f", {variant}" if variant else ""
        rows.append([label, *(_cell(cells.get(size)) for size in sizes)])
    return [Table(["", *(f"2^{size}" for size in sizes)], rows)]


def _peers(document: Document) -> list[Table]:
    """A row for each measured task with the median milliseconds of each contender, by the clock and, where they were
    taken, of CPU time."""
    contenders: list[str] = document["contenders"]
    clocks = {"seconds": ""}
    if all("cpu_seconds" in row for row in document["rows"]):
        clocks["cpu_seconds"] = ", CPU time"
    head = ["", *(f"{contender}{clock}" for clock in clocks.values() for contender in contenders)]
    rows = [
        [row["what"], *(milliseconds(row[key].get(contender)) for key in clocks for contender in contenders)]
        for row in document["rows"]
    ]
    return [Table(head, rows)]


def _stark(document: Document) -> list[Table]:
    """Times and sizes of whole proofs, then the times of each proof's stages, where the host waits for the device after
    each. Below a stage are the operation that bounds it and the share of its ceiling."""
    whole, stages = [], []
    for row in document["rows"]:
        facts = row["facts"]
        values = [f"2^{row['log_n']}", str(facts["columns"]), milliseconds(row["seconds"]["median"])]
        values += [f"{facts['proof_bytes'] / 1e6:.2f} MB", milliseconds(facts["verify_seconds"])]
        values += [f"{facts['pcie_share'] * 100:.2f} % of the extension", f"{int(facts['security']['bits'])} bits"]
        whole.append([f"{row['what']}, blow-up {facts['security']['blowup']}", *values])
        stages.append(_stages({stage: s for stage, s in row["steps"].items() if s >= 5e-5}, facts.get("limits") or {}))
    head = ["program", "rows", "columns", "proof", "its size", "verification", "over PCIe", "proven"]
    return [Table(head, whole), *stages]


def _stages(seconds: dict[str, float], limits: dict[str, dict[str, Any]]) -> Table:
    rows = [list(map(milliseconds, seconds.values()))]
    if limits:
        least = {stage: limits.get(stage) for stage in seconds}
        rows.append([limit["operation"] if limit else "" for limit in least.values()])
        rows.append([f"{limit['seconds'] / seconds[s] * 100:.0f} %" if limit else "" for s, limit in least.items()])
    return Table([stage.replace("_", " ") for stage in seconds], rows, texts=0)


def _scaling(document: Document) -> list[Table]:
    """Rates by number of workers: a table for each job, a row for each way and number."""
    head = ["over", "workers", "steady rate", "of so many alone", "first proof", "tail", "driver's CPU"]
    tables = []
    for row in document["rows"]:
        rows = []
        for scale in row["scales"]:
            values = [f"{scale['steady']:.1f} a second", f"{100 * scale['efficiency']:.1f} %"]
            values += [f"{scale['first_proof']:.1f} s", f"{scale['tail']:.2f} s", f"{1e3 * scale['driver_cpu']:.2f} ms"]
            rows.append([scale["over"], str(scale["workers"]), *values])
        tables.append(Table(head, rows, title=f"{row['what']}, {row['scales'][0]['partitions']} partitions:"))
    return tables


def _filecoin(document: Document) -> list[Table]:
    """Times and memory of Filecoin's partitions, then the times of a partition's steps."""
    head = ["", "constraints", "a partition", "a sector", "witness", "verification", "set-up", "device", "host"]
    whole, steps = [], []
    for row in document["rows"]:
        values = [row["config"], f"{row['plan']['constraints']:,}", milliseconds(row["seconds_a_partition"])]
        values += [f"{row['seconds_a_sector']:.1f} s", milliseconds(row["synthesis"])]
        values += [milliseconds(row["verification"]), f"{sum(row['setup'].values()):.0f} s"]
        whole.append([*values, *(f"{row[peak] / 2**30:.1f} GiB" for peak in ("device_peak", "host_peak"))])
        steps.append(Table(["", *row["steps"]], [[row["config"], *map(milliseconds, row["steps"].values())]]))
    return [Table(head, whole), *steps]


def _service(document: Document) -> list[Table]:
    """Rates of a service and of bare loops, and the service's CPU time for each job."""
    head = ["jobs a second", "steady", "bare loop", "share", "CPU a job"]
    rates = ("rate_a_second", "steady_a_second", "bare_a_second")
    rows = [
        [
            *(f"{row[rate]:.1f}" for rate in rates),
            f"{row['rate_of_bare_loop'] * 100:.1f} %",
            f"{row['cpu_ms_a_job']:.2f} ms",
        ]
        for row in document["rows"]
    ]
    return [Table(head, rows, texts=0)]


def _cluster(document: Document) -> list[Table]:
    """What the driver of a simulated cluster took."""
    head = ["workers", "partitions", "time of a partition", "workers lost", "wall time", "ideal time"]
    head += ["driver's CPU a partition", "driver's share of a core", "driver's memory"]
    rows = []
    for row in document["rows"]:
        values = [f"{row['workers']:,}", f"{row['partitions']:,}", f"{row['seconds']:g} s", str(row["lost"])]
        values += [f"{row['wall']:.1f} s", f"{row['ideal']:.1f} s", f"{1e3 * row['driver_cpu_per_partition']:.2f} ms"]
        rows.append([*values, f"{100 * row['driver_share']:.0f} %", f"{row['peak_memory'] / 2**20:.0f} MiB"])
    return [Table(head, rows, texts=0)]


def _openvm_profile(document: Document) -> list[Table]:
    """Each segment with its size and its time; then, for each stage, the times of all segments, and what one proof
    launched and waited for there."""
    whole, stages, made = [], [], document["summary"]
    for row in document["rows"]:
        facts = row["facts"]
        values = [str(facts["airs"]), f"{facts['cells'] / 1e6:.1f} M", f"{facts['fractions'] / 1e6:.1f} M"]
        values += [milliseconds(row["seconds"]["median"]), milliseconds(facts["verify_seconds"])]
        peak = facts["peak_bytes"]
        whole.append([row["what"], *values, "-" if peak is None else f"{peak / 1e9:.2f} GB"])
    head = ["", "AIRs", "cells", "fractions", "proof", "verification", "device memory"]
    for name, times in made["stages"].items():
        counts = [row["facts"]["counts"][name] for row in document["rows"]]
        most = (max(each[kind] for each in counts) for kind in ("launches", "waits"))
        values = [milliseconds(times["median_seconds"]), f"{times['total_seconds']:.3f} s"]
        stages.append([name.replace("_", " "), *values, *map(str, most)])
    times = [milliseconds(made["median_seconds"]), f"{made['total_seconds']:.3f} s", "", ""]
    stages.append([f"proofs of {made['segments']} segments", *times])
    return [
        Table(head, whole),
        Table(["stage", "median", "sum", "most launches", "most waits"], stages, title="By stage:"),
    ]


_TABLES: dict[str, Callable[[Document], list[Table]]] = {
    "peers": _peers,
    "versions": _peers,
    "witness": _peers,
    "stark": _stark,
    "scaling": _scaling,
    "filecoin": _filecoin,
    "openvm-profile": _openvm_profile,
    "service": _service,
    "cluster": _cluster,
}
"""Functions for kinds of documents that have their own layout; all others use `_by_size`."""


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    fraction = f" ({row['fraction'] * 100:.0f} %)" if row.get("fraction") else ""
    return milliseconds(row["seconds"]["median"]) + fraction


def milliseconds(seconds: float | None) -> str:
    """A time as a table shows it, in three digits; "-" for none."""
    if seconds is None:
        return "-"
    value = seconds * 1e3
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} ms"
