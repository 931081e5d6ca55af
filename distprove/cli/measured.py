"""What the commands of `distprove bench` share: their documents, their progress, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, out, plain_table, print_json

if TYPE_CHECKING:
    from distprove.measure.results import Reported
    from kernels.interface.backend import DeviceInfo


def document(bench: str, about: ModuleType, info: DeviceInfo, rows: Sequence[Reported]) -> dict[str, Any]:
    """The document of a benchmark on this machine, as `--json` prints it. The module `about` says what is timed and how
    results are checked: `TIMED` and `CHECKED`."""
    from distprove.host.machine import inspect_machine
    from distprove.measure.results import report

    return report(bench, about.TIMED, about.CHECKED, info, inspect_machine(), rows)


def show(made: dict[str, Any], as_json: bool, *notes: str) -> None:
    """Print the document: as JSON, or as its tables with the `notes` and what was timed, checked and on what."""
    from distprove.measure.tables import notes_of, place_of, tables_of

    if as_json:
        print_json(made)
        return
    console = out()
    for each in tables_of(made):
        if each.title:
            console.print(escape(each.title))
        head = list(map(escape, each.head))
        table = plain_table(*head[: each.texts], numbers=head[each.texts :])
        for row in each.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        console.print()
    for note in (*notes, *notes_of(made), f"On {', '.join(place_of(made))}."):
        console.print(f"[dim]{escape(note)}[/]")
