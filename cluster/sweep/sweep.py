"""A sweep: every setting of a grid, measured one after the other; what is measured is kept, and not measured again.

DIR/about.json        what is measured: the job's key and partitions, repeats; a sweep of something else is refused
DIR/cells/<id>.json   a setting that was measured
DIR/work              runs while they are measured; deleted at the end
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cluster.driver import interruptible
from cluster.sweep.grid import Cell, Grid
from cluster.sweep.measure import measure
from cluster.sweep.results import SCHEMA, Measured, SweepResult
from distprove import jsontext
from distprove.errors import UsageError
from distprove.files import write_atomically
from distprove.job import ExecutorSettings
from distprove.machine import inspect_machine
from distprove.system import ProofSystem

MAX_FILE = 1 << 24


@dataclass(frozen=True)
class Step:
    """Something the sweep tells whoever watches: what it is at, and what came of a setting that is done."""

    cell: Cell
    number: int
    """Of `total`, from 1."""
    total: int
    doing: str
    measured: Measured | None = None


def sweep(
    system: ProofSystem,
    settings: ExecutorSettings,
    grid: Grid,
    folder: Path,
    *,
    repeats: int = 3,
    warmup: int = 1,
    watch: Callable[[Step], None] = lambda _: None,
) -> SweepResult:
    """Measure what `folder` does not hold yet, the isolated setting first.

    Raises UsageError for a folder that holds something else, and what `measure` raises; settings that were measured
    before that are kept.
    """
    _settle(folder, system, settings, repeats, warmup)
    isolated = grid.isolation()
    cells = list(dict.fromkeys([isolated, *grid.cells()]))
    done: dict[Cell, Measured] = {}
    for number, cell in enumerate(cells, 1):
        path = folder / "cells" / f"{cell.id}.json"
        if path.exists():
            done[cell] = read_cell(path)
            watch(Step(cell, number, len(cells), "kept", done[cell]))
            continue

        def tell(doing: str, cell: Cell = cell, number: int = number) -> None:
            watch(Step(cell, number, len(cells), doing))

        try:
            with interruptible():
                done[cell] = measure(system, settings, cell, folder / "work", repeats=repeats, warmup=warmup, tell=tell)
        finally:
            shutil.rmtree(folder / "work", ignore_errors=True)
        write_atomically(path, _json(done[cell].to_record()))
        watch(Step(cell, number, len(cells), "measured", done[cell]))
    about = {**_about(system, settings, repeats, warmup), "machine": inspect_machine().to_dict()}
    return SweepResult([done[cell] for cell in grid.cells()], done[isolated], about)


def read_cell(path: Path) -> Measured:
    """A setting that was measured. Raises InputError or FormatError."""
    return Measured.from_record(jsontext.read(path, MAX_FILE), str(path))


def _settle(folder: Path, system: ProofSystem, settings: ExecutorSettings, repeats: int, warmup: int) -> None:
    """Make the folder of a sweep, or make sure that the one that is there is of the same."""
    about = json.loads(_json(_about(system, settings, repeats, warmup)))
    path = folder / "about.json"
    if path.exists():
        before = jsontext.read(path, MAX_FILE)
        if before != about:
            known = before if isinstance(before, dict) else {}
            differs = [key for key in about if known.get(key) != about[key]] or ["its format"]
            raise UsageError(f"{folder} holds a sweep that differs in {', '.join(differs)}; choose another folder")
    elif folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty and not a sweep; choose another folder")
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    write_atomically(path, _json(about))


def _about(system: ProofSystem, settings: ExecutorSettings, repeats: int, warmup: int) -> dict[str, Any]:
    """What the figures of a sweep have in common; nothing of an input but how many there are."""
    compared = {field.name for field in fields(Cell)}
    kept = [field.name for field in fields(ExecutorSettings) if field.name not in compared]
    return {
        "schema": SCHEMA,
        "system": system.name,
        "key_digest": system.key_digest().hex(),
        "facts": system.describe(),
        "partitions": len(system.plan()),
        "repeats": repeats,
        "warmup": warmup,
        "executor": {name: getattr(settings, name) for name in kept},
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
