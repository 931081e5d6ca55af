"""A sweep: every setting of a grid, measured one after the other, or all in turn; what is measured is kept, and not
measured again.

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
from cluster.opening import choose
from distprove.errors import FormatError, UsageError
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.host.machine import inspect_machine
from distprove.measure.sweep.grid import Cell, Grid
from distprove.measure.sweep.measure import measure_in_turn
from distprove.measure.sweep.results import SCHEMA, Measured, SweepResult
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem

ABOUT = "about.json"
MAX_FILE = 1 << 24


@dataclass(frozen=True)
class Step:
    """Something the sweep tells whoever watches: what it is at, and what came of a setting that is done."""

    cell: Cell
    number: int
    """Number of the step out of `total`, from 1."""
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
    in_turn: bool = False,
    watch: Callable[[Step], None] = lambda _: None,
) -> SweepResult:
    """Measure what `folder` does not hold yet, the isolated setting first. `in_turn`: by `measure_in_turn`.

    Raises UsageError for a folder that holds something else, and what `measure` raises; settings that were measured
    before that are kept.
    """
    if in_turn and not choose(settings).local:
        raise UsageError("settings can be measured in turn only without Ray: over it their workers wait for each other")
    about = _about(system, settings, repeats, warmup, in_turn)
    home = _settle(folder, about)
    cells_kept = home.folder("cells")
    isolated = grid.isolation()
    cells = list(dict.fromkeys([isolated, *grid.cells()]))
    done: dict[Cell, Measured] = {}

    def tell(cell: Cell, doing: str) -> None:
        watch(Step(cell, cells.index(cell) + 1, len(cells), doing, done.get(cell)))

    for cell in cells:
        if cells_kept.has(_file(cell)):
            done[cell] = read_cell(cells_kept, cell)
            tell(cell, "kept")
    missing = [cell for cell in cells if cell not in done]
    for group in [missing] if in_turn and missing else [[cell] for cell in missing]:
        try:
            # A link stays where it is, and is refused.
            shutil.rmtree(folder / "work", ignore_errors=True)
            home.folder("work")
            with interruptible():
                found = measure_in_turn(
                    system, settings, group, folder / "work", repeats=repeats, warmup=warmup, tell=tell
                )
        finally:
            shutil.rmtree(folder / "work", ignore_errors=True)
        for cell, measured in zip(group, found, strict=True):
            cells_kept.write(_file(cell), _json(measured.to_record()))
            done[cell] = measured
            tell(cell, "measured")
    about |= {"machine": inspect_machine().to_dict()}
    return SweepResult([done[cell] for cell in grid.cells()], done[isolated], about)


def read_cell(folder: Folder, cell: Cell) -> Measured:
    """A setting that was measured. Raises InputError or FormatError."""
    path = folder.path / _file(cell)
    measured = Measured.from_record(jsontext.read_in(folder, _file(cell), MAX_FILE), str(path))
    if measured.cell != cell:
        raise FormatError(f"{path}: a measurement of another setting")
    return measured


def _file(cell: Cell) -> str:
    return f"{cell.id}.json"


def _settle(path: Path, about: dict[str, Any]) -> Folder:
    """Make the folder of a sweep, or make sure that the one that is there is of the same."""
    about = json.loads(_json(about))
    folder = Folder.make(path)
    if folder.has(ABOUT):
        before = jsontext.read_in(folder, ABOUT, MAX_FILE)
        if before != about:
            known = before if isinstance(before, dict) else {}
            differs = [key for key in about if known.get(key) != about[key]] or ["its format"]
            raise UsageError(f"{path} holds a sweep that differs in {', '.join(differs)}; choose another folder")
    elif folder.names():
        raise UsageError(f"{path} is not empty and not a sweep; choose another folder")
    folder.close_to_others()
    folder.write(ABOUT, _json(about))
    return folder


def _about(system: ProofSystem, settings: ExecutorSettings, repeats: int, warmup: int, in_turn: bool) -> dict[str, Any]:
    """Facts that all figures of a sweep share; of inputs only their number."""
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
        "in_turn": in_turn,
        "executor": {name: getattr(settings, name) for name in kept},
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"
