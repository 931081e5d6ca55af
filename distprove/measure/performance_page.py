"""Writes docs/performance.md from the raw results in docs/results: `make performance`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from distprove.errors import FormatError
from distprove.measure.results import SCHEMA
from distprove.measure.tables import notes_of, place_of, tables_of

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
        parts += [_section(name, document) for name, document in by_bench[bench]]
    return "\n".join(parts)


def _section(name: str, document: dict[str, Any]) -> str:
    title, where = place_of(document)
    lines = [f"### {title}", "", f"{document['date']}, {where}; raw: [{name}](results/{name})"]
    for table in tables_of(document):
        lines += ["", *([table.title, ""] if table.title else []), _cells(table.head)]
        lines.append(_cells("---" if column < table.texts else "---:" for column in range(len(table.head))))
        lines += map(_cells, table.rows)
    return "\n".join([*lines, "", *notes_of(document)]) + "\n"


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
