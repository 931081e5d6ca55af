"""Writes docs/performance.md from the raw results in docs/results: `make performance`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from distprove.errors import FormatError
from distprove.measure.prose import anchor, words
from distprove.measure.results import SCHEMA
from distprove.measure.tables import Document, Table, milliseconds, notes_of, place_of, tables_of

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
NOTES = RESULTS / "notes.md"
"""The part of the page that is written by hand: figures that no document of a benchmark has."""
PAGE = ROOT / "docs" / "performance.md"

HEAD = """\
# Performance
"""

ORIGIN = """\
`make performance` makes this page from the raw results in [docs/results](results): do not edit it by hand. Each raw
file is the output of `distprove bench ... --json`, or of the comparison that it names. [notes.md](results/notes.md)
there has the figures from [Jobs, Ray and the service](#jobs-ray-and-the-service) on. Times are medians of wall time
after warm-up unless a table says otherwise. Inputs rotate past the caches, and every result is checked. A percentage
beside a time is the share of the hardware's limit in the operation that bounds the work. The source of that limit is
under each table.
"""

HEADLINES: tuple[tuple[str, str, Callable[[Document], str]], ...] = (
    (
        "a Groth16 proof of 2^20 constraints over BN254, two in flight",
        "h200-groth16.json",
        lambda d: milliseconds(next(r for r in d["rows"] if _is_stream(r))["seconds"]["median"]),
    ),
    (
        "a partition of a 32 GiB Filecoin sector, 130 million constraints",
        "h200-porep-32GiB.json",
        lambda d: milliseconds(d["rows"][0]["seconds_a_partition"]),
    ),
    (
        "a STARK of 2^21 rows and 131 columns, 128 bits",
        "h200-stark-wide-fibonacci-128.json",
        lambda d: milliseconds(d["rows"][0]["seconds"]["median"]),
    ),
    (
        "two GPUs, the rate of each as a share of one alone, Groth16 proofs of 1.5 ms",
        "h200-scaling.json",
        lambda d: f"{100 * next(s for s in d['rows'][0]['scales'] if s['workers'] == 2)['efficiency']:.1f} %",
    ),
)
"""The first table: a measurement in words, the document that has it, and the figure."""

UNITS = re.compile(r"([\d.,]+) (ms|s|[KMG]i?B|bits|a second|%(?: of the extension)?)((?: \([\d.]+ %\))?)")
"""A number with its unit, and perhaps the share of a ceiling."""

LONG = 30
"""Words of a note from which on its clauses are a list."""

FIRST_HEADS = {
    "filecoin": "circuit",
    "openvm-profile": "proof",
    "peers": "task",
    "versions": "task",
    "witness": "program",
}

TITLES = {
    "msm": "Multi-scalar multiplication",
    "ntt": "Number-theoretic transform",
    "lde": "Low-degree extension",
    "merkle": "Keccak-256 tree",
    "groth16": "Groth16",
    "filecoin": "Filecoin's partitions",
    "stark": "STARK",
    "openvm-profile": "OpenVM's proofs of a block",
    "versions": "STARKs on the CPU, one version beside the other",
    "peers": "Side by side with other provers",
    "witness": "Witness programs",
    "scaling": "Several GPUs",
    "cluster": "The driver of a large cluster",
}


def render(documents: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """Render the page from (file name, document) pairs. Raises FormatError for a document of another schema."""
    by_bench: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, document in documents:
        if document.get("schema") != SCHEMA:
            raise FormatError(f"{name}: not a benchmark result of schema {SCHEMA}")
        by_bench.setdefault(document["bench"], []).append((name, document))
    parts = [HEAD, *_headlines({name: d for pairs in by_bench.values() for name, d in pairs}), ORIGIN]
    for bench, title in TITLES.items():
        if bench not in by_bench:
            continue
        parts.append(f"## {title}\n")
        parts += [_section(name, document, len(by_bench[bench]) > 1) for name, document in by_bench[bench]]
    return "\n".join(parts)


def _headlines(documents: dict[str, Document]) -> list[str]:
    rows = [[words, figure(documents[name])] for words, name, figure in HEADLINES if name in documents]
    if not rows:
        return []
    return ["On NVIDIA H200:\n", "\n".join(_markdown(Table(["measurement", "result"], rows))) + "\n"]


def _is_stream(row: dict[str, Any]) -> bool:
    return (row["curve"], row["log_n"]) == ("BN254", 20) and "2 in flight" in row["variant"]


def _section(name: str, document: dict[str, Any], named: bool) -> str:
    title, where = place_of(document)
    if named:  # several documents of one kind: each by its file's name
        title = f"{Path(name).stem.partition('-')[2]}, {title}"
    lines = [f"### {title}", "", f"{document['date']}, {where}; raw: [{name}](results/{name})"]
    for table in tables_of(document):
        lines += ["", *([table.title, ""] if table.title else [])]
        lines += _markdown(_with_units(_upright(table), FIRST_HEADS.get(document["bench"], "operation")))
    for note in notes_of(document):
        lines += ["", *_note(note)]
    return "\n".join(lines) + "\n"


def _upright(table: Table) -> Table:
    """Return the stages of a STARK as rows; any other table as it is."""
    if table.texts or len(table.rows) not in (1, 3) or len(table.head) < 10:
        return table
    head = ["stage", "time", "bound by", "share of the limit"][: 1 + len(table.rows)]
    return Table(head, [[stage, *cells] for stage, *cells in zip(table.head, *table.rows, strict=True)], texts=1)


def _with_units(table: Table, first: str) -> Table:
    """Return the table with the unit of a column in its head, where all numbers of the column share one."""
    columns = list(zip(*table.rows, strict=True))
    head, cells = [], []
    for name, column in zip(table.head, columns, strict=True):
        matches = [UNITS.fullmatch(cell) for cell in column if cell not in ("", "-")]
        units = {match.group(2) for match in matches if match}
        if matches and all(matches) and len(units) == 1:
            name += f" ({units.pop()})"
            column = tuple(UNITS.sub(r"\1\3", cell) for cell in column)
        head.append(name or first)
        cells.append(column)
    return Table(head, [list(row) for row in zip(*cells, strict=True)], table.texts, table.title)


def _note(note: str) -> Iterator[str]:
    """Yield the lines of a note: a long one of several clauses is a list."""
    clauses = _clauses(note.removesuffix("."))
    if len(clauses) == 1 or words(note) <= LONG:
        yield note
        return
    subject, _, clauses[0] = clauses[0].partition(": ")
    yield f"{subject}:"
    yield ""
    yield from (f"- {clause}" for clause in clauses)


def _clauses(text: str) -> list[str]:
    """Cut a text at its semicolons outside of parentheses."""
    clauses = [""]
    for piece in text.split("; "):
        open_one = clauses[-1].count("(") > clauses[-1].count(")")
        if open_one:
            clauses[-1] += "; " + piece
        else:
            clauses.append(piece)
    return clauses[1:]


def _markdown(table: Table) -> list[str]:
    ruler = ["---" if column < table.texts else "---:" for column in range(len(table.head))]
    return [_cells(table.head), _cells(ruler), *map(_cells, table.rows)]


def _cells(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def page() -> str:
    """Render the whole page: the benchmarks in docs/results, then the notes. Raises FormatError."""
    text = render(load()) + "\n" + NOTES.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    sections = "".join(f"- [{title}](#{anchor(title)})\n" for title in titles)
    return text.replace(ORIGIN, f"{ORIGIN}\n{sections}", 1)


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
    PAGE.write_text(page(), encoding="utf-8")
