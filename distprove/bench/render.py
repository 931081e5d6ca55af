"""Writes docs/performance.md from the raw results in docs/results: `python -m distprove.bench.render`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from distprove.bench.results import SCHEMA
from distprove.errors import FormatError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "performance.md"

HEAD = """\
# Performance

Made by `make performance` from the raw results in [docs/results](results); do not edit it by hand. Each file there is
what `distprove bench ... --json` or the comparison it names printed. Medians of wall time after warm-up, inputs rotated
past the caches, every result checked. The percentage is the share of what the hardware could do at most in the
operation that bounds the work; where that figure comes from stands under each table.
"""

TITLES = {
    "msm": "Multi-scalar multiplication",
    "ntt": "Number-theoretic transform",
    "lde": "Low-degree extension",
    "merkle": "Keccak-256 tree",
    "groth16": "Groth16",
    "filecoin": "Filecoin's partitions",
    "stark": "STARK",
    "versions": "STARKs on the CPU, one version beside the other",
    "peers": "Side by side with other provers",
    "witness": "Witness programs",
    "scaling": "Several GPUs",
    "cluster": "The driver of a large cluster",
}


def render(documents: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """Render the page from (file name, document) pairs. Raises FormatError for a document of another schema."""
    parts = [HEAD]
    by_bench: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, document in documents:
        if document.get("schema") != SCHEMA:
            raise FormatError(f"{name}: not a benchmark result of schema {SCHEMA}")
        by_bench.setdefault(document["bench"], []).append((name, document))
    for bench, title in TITLES.items():
        if bench not in by_bench:
            continue
        parts.append(f"## {title}\n")
        for name, document in by_bench[bench]:
            parts.append(_SECTIONS.get(bench, _section)(name, document))
    return "\n".join(parts)


def _section(name: str, document: dict[str, Any]) -> str:
    rows = document["rows"]
    sizes = sorted({row["log_n"] for row in rows})
    lines = [*_heading(name, document), ""]
    lines += [_cells(["", *(f"2^{size}" for size in sizes)]), _cells(["---", *("---:" for _ in sizes)])]
    groups: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["curve"], row["what"], row["variant"]), {})[row["log_n"]] = row
    for (curve, what, variant), cells in groups.items():
        label = " ".join(part for part in (curve, what.removeprefix("msm ").upper() if "msm" in what else "") if part)
        label += f", {variant}" if variant else ""
        lines.append(_cells([label, *(_cell(cells.get(size)) for size in sizes)]))
    lines += ["", *_notes(document)]
    return "\n".join(lines) + "\n"


def _peers(name: str, document: dict[str, Any]) -> str:
    """The section of a comparison: a row for each measured task with the median milliseconds of each contender, by the
    clock and, where they were taken, of CPU time."""
    contenders: list[str] = document["contenders"]
    clocks = {"seconds": ""}
    if all("cpu_seconds" in row for row in document["rows"]):
        clocks["cpu_seconds"] = ", CPU time"
    heads = [f"{c}{clock}" for clock in clocks.values() for c in contenders]
    lines = [*_heading(name, document), "", _cells(["", *heads]), _cells(["---", *("---:" for _ in heads)])]
    for row in document["rows"]:
        lines.append(_cells([row["what"], *(_milliseconds(row[key].get(c)) for key in clocks for c in contenders)]))
    return "\n".join([*lines, "", *_notes(document)]) + "\n"


def _stark(name: str, document: dict[str, Any]) -> str:
    """The section of whole STARK proofs: a table of times and sizes, then the times of each proof's stages, where the
    host waits for the device after each. Below a stage are the operation that bounds it and the share of its ceiling.
    """
    head = ["program", "rows", "columns", "proof", "its size", "verification", "over PCIe", "proven"]
    lines = [*_heading(name, document), "", _cells(head), _cells(["---", *("---:" for _ in head[1:])])]
    for row in document["rows"]:
        facts = row["facts"]
        values = [f"2^{row['log_n']}", str(facts["columns"]), _milliseconds(row["seconds"]["median"])]
        values += [f"{facts['proof_bytes'] / 1e6:.2f} MB", _milliseconds(facts["verify_seconds"])]
        values += [f"{facts['pcie_share'] * 100:.2f} % of the extension", f"{int(facts['security']['bits'])} bits"]
        lines.append(_cells([f"{row['what']}, blow-up {facts['security']['blowup']}", *values]))
    for row in document["rows"]:
        stages = [(stage, seconds) for stage, seconds in row["steps"].items() if seconds >= 5e-5]
        lines += ["", _cells(stage.replace("_", " ") for stage, _ in stages)]
        lines += [_cells("---:" for _ in stages), _cells(_milliseconds(seconds) for _, seconds in stages)]
        limits = row["facts"].get("limits")
        if limits:
            least = [limits.get(stage) for stage, _ in stages]
            lines.append(_cells(limit["operation"] if limit else "" for limit in least))
            shares = [(limit["seconds"] / s if limit else None) for limit, (_, s) in zip(least, stages, strict=True)]
            lines.append(_cells("" if share is None else f"{share * 100:.0f} %" for share in shares))
    return "\n".join([*lines, "", *_notes(document)]) + "\n"


def _scaling(name: str, document: dict[str, Any]) -> str:
    """The section on rates by number of workers: a table for each job, a row for each way and number."""
    head = ["over", "workers", "steady rate", "of so many alone", "first proof", "tail", "driver's CPU"]
    lines = _heading(name, document)
    for row in document["rows"]:
        lines += ["", f"{row['what']}, {row['scales'][0]['partitions']} partitions:", ""]
        lines += [_cells(head), _cells(["---", *("---:" for _ in head[1:])])]
        for scale in row["scales"]:
            values = [f"{scale['steady']:.1f} a second", f"{100 * scale['efficiency']:.1f} %"]
            values += [f"{scale['first_proof']:.1f} s", f"{scale['tail']:.2f} s", f"{1e3 * scale['driver_cpu']:.2f} ms"]
            lines.append(_cells([scale["over"], str(scale["workers"]), *values]))
    return "\n".join([*lines, "", *_notes(document)]) + "\n"


def _filecoin(name: str, document: dict[str, Any]) -> str:
    """The section of Filecoin's partitions: times and memory, then the times of a partition's steps."""
    head = ["", "constraints", "a partition", "a sector", "witness", "verification", "set-up", "device", "host"]
    lines = [*_heading(name, document), "", _cells(head), _cells(["---", *("---:" for _ in head[1:])])]
    for row in document["rows"]:
        values = [row["config"], f"{row['plan']['constraints']:,}", _milliseconds(row["seconds_a_partition"])]
        values += [f"{row['seconds_a_sector']:.1f} s", _milliseconds(row["synthesis"])]
        values += [_milliseconds(row["verification"]), f"{sum(row['setup'].values()):.0f} s"]
        lines.append(_cells([*values, *(f"{row[peak] / 2**30:.1f} GiB" for peak in ("device_peak", "host_peak"))]))
    for row in document["rows"]:
        lines += ["", _cells(["", *row["steps"]]), _cells(["---", *("---:" for _ in row["steps"])])]
        lines.append(_cells([row["config"], *map(_milliseconds, row["steps"].values())]))
    return "\n".join([*lines, "", *_notes(document)]) + "\n"


def _cluster(name: str, document: dict[str, Any]) -> str:
    """The section on simulated clusters: what the driver took."""
    head = ["workers", "partitions", "of", "workers lost", "wall", "ideal", "driver's CPU", "of a core", "memory"]
    lines = [*_heading(name, document), "", _cells(head), _cells("---:" for _ in head)]
    for row in document["rows"]:
        values = [f"{row['workers']:,}", f"{row['partitions']:,}", f"{row['seconds']:g} s", str(row["lost"])]
        values += [f"{row['wall']:.1f} s", f"{row['ideal']:.1f} s", f"{1e3 * row['driver_cpu_per_partition']:.2f} ms"]
        lines.append(_cells([*values, f"{100 * row['driver_share']:.0f} %", f"{row['peak_memory'] / 2**20:.0f} MiB"]))
    return "\n".join([*lines, "", *_notes(document)]) + "\n"


_SECTIONS = {
    "peers": _peers,
    "versions": _peers,
    "witness": _peers,
    "stark": _stark,
    "scaling": _scaling,
    "filecoin": _filecoin,
    "cluster": _cluster,
}
"""Functions for kinds of documents that have their own layout; all others use `_section`."""


def _heading(name: str, document: dict[str, Any]) -> list[str]:
    machine = document["machine"]
    gpus = machine["gpus"]["devices"] if document["backend"]["kind"] == "cuda" else []
    processor = machine["processor"]
    title = gpus[0]["name"] if gpus else processor["model"]
    where = f"{processor['usable']} processors"
    if gpus:
        where = f"driver {machine['gpus']['driver']}, CUDA up to {machine['gpus']['cuda_driver']}"
    return [f"### {title}", "", f"{document['date']}, {where}; raw: [{name}](results/{name})"]


def _notes(document: dict[str, Any]) -> list[str]:
    ceilings: dict[str, set[str]] = {}
    for row in document["rows"]:
        if ceiling := row.get("ceiling"):
            rate = f"{row['curve']} {ceiling['per_second']:.3g} {ceiling['operation']}"
            ceilings.setdefault(ceiling["source"], set()).add(rate)
    notes = [f"Timed: {document['timed']}.", f"Checked: {document['checked']}."]
    for source, rates in sorted(ceilings.items()):
        notes.append(f"Ceilings, per second: {'; '.join(sorted(rates))} ({source}).")
    return notes


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    fraction = f" ({row['fraction'] * 100:.0f} %)" if row.get("fraction") else ""
    return _milliseconds(row["seconds"]["median"]) + fraction


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    value = seconds * 1e3
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} ms"


def _cells(values: Iterable[str]) -> str:
    return f"| {' | '.join(values)} |"


def load(folder: Path = RESULTS) -> list[tuple[str, dict[str, Any]]]:
    """Load the raw results as (file name, document) pairs, sorted by name, but for those that name a format of their
    own: other pages tell of these. Raises FormatError."""
    documents = []
    for path in sorted(folder.glob("*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FormatError(f"{path}: not JSON: {error}") from None
        if "format" not in document:
            documents.append((path.name, document))
    return documents


if __name__ == "__main__":
    PAGE.write_text(render(load()), encoding="utf-8")
