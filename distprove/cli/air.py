"""`distprove air`: what an AIR costs, and whether it accepts its own example."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from distprove.cli.console import out, print_json, reports_errors, warn
from distprove.errors import UsageError

if TYPE_CHECKING:
    from distprove.stark.air.check import Example
    from distprove.stark.air.definition import Air
    from distprove.stark.air.report import AirReport

app = typer.Typer(no_args_is_help=True, help="Inspect and debug AIRs written in Python.")

Target = Annotated[
    str, typer.Argument(metavar="MODULE:CLASS", help="An AIR, or what offers example(): package.module:Name.")
]
Parameters = Annotated[
    list[str] | None, typer.Option("--with", metavar="NAME=INT", help="A parameter of the class; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


@app.command("report")
@reports_errors
def report(target: Target, parameters: Parameters = None, as_json: AsJson = False) -> None:
    """List degrees, widths, interactions and instructions of an AIR, or of all tables of an example."""
    from distprove.stark.air.report import report_airs

    found = report_airs(_airs(_load(target, parameters or [])))
    if as_json:
        print_json([air.to_dict() for air in found])
        return
    for air in found:
        _show(air)


@app.command("check")
@reports_errors
def check(
    target: Target,
    parameters: Parameters = None,
    most: Annotated[int, typer.Option(min=1, help="Failures to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Compile an AIR, and check the trace of its `example()` on every row, when it has one. Exits 1 on a failure.

    The cells that a failing constraint reads are printed: use an example without secrets.
    """
    from dataclasses import asdict

    from distprove.stark.air.report import report_airs

    loaded = _load(target, parameters or [])
    compiled = report_airs(_airs(loaded))
    example = _example(loaded)
    failures = example.check(most=most) if example else []
    if as_json:
        print_json(
            {
                "tables": [air.name for air in compiled],
                "checked": example is not None,
                "failures": [asdict(failure) for failure in failures],
            }
        )
    else:
        for air in compiled:
            _warn_of(air)
        for failure in failures:
            out().print(f"[red]fails[/] {escape(str(failure))}")
        if example is None:
            warn(f"{target} offers no example(): it compiles, and no trace was checked")
        elif not failures:
            rows = ", ".join(
                f"{air.name} ({main.shape[1]} rows)"
                for air, main in zip(compiled, example.partitions[0].main, strict=True)
            )
            out().print(f"[green]holds[/] on every row: {escape(rows)}")
    if failures:
        raise typer.Exit(1)


def _load(target: str, parameters: list[str]) -> Any:
    """The object that `target` names; a class is called with the parameters."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise UsageError(f"{target!r} does not name a class as MODULE:CLASS")
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` does: authors run this beside their module
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"cannot import {module_name}: {error}") from None
    found = getattr(module, name, None)
    if found is None:
        raise UsageError(f"module {module_name} has no {name}")
    if not inspect.isclass(found):
        return found
    try:
        return found(**dict(map(_parameter, parameters)))
    except TypeError as error:
        raise UsageError(f"{name} cannot be made with these parameters (--with NAME=INT): {error}") from None


def _parameter(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    try:
        return name, int(value, 0)
    except ValueError:
        raise UsageError(f"--with {text}: expected NAME=INT") from None


def _example(loaded: Any) -> Example | None:
    from distprove.stark.air.check import Example

    if not callable(getattr(loaded, "example", None)):
        return None
    example = loaded.example()
    if not isinstance(example, Example):
        raise UsageError(f"{type(loaded).__name__}.example() gave {type(example).__name__}, expected an Example")
    return example


def _airs(loaded: Any) -> list[Air]:
    from distprove.stark.air.definition import Air

    if isinstance(loaded, Air):
        return [loaded]
    example = _example(loaded)
    if example is None:
        raise UsageError(f"{type(loaded).__name__} is neither an Air nor offers example()")
    return list(example.airs)


def _show(air: AirReport) -> None:
    console = out()
    console.print(
        f"[bold]{escape(air.name)}[/]: {air.main_columns} main, {air.preprocessed_columns} preprocessed, "
        f"{air.auxiliary_columns} auxiliary columns; {air.public_values} public values"
    )
    console.print(
        f"degree {air.degree}: {air.quotient_chunks} quotient chunk{'s' if air.quotient_chunks > 1 else ''} "
        f"of 3 columns; blow-up {' or '.join(map(str, air.blowups)) or 'above 8 needed'}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("constraint", min_width=24)
    table.add_column("kind", min_width=10)
    table.add_column("degree", justify="right")
    for constraint in air.constraints:
        table.add_row(escape(constraint.name), constraint.kind, str(constraint.degree))
    console.print(table)
    if air.interactions:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for title in ("bus", "scope", "width", "direction", "at most", "group"):
            table.add_column(title)
        for use in air.interactions:
            bound = "unbounded" if use.at_most is None else str(use.at_most)
            table.add_row(escape(use.bus), use.scope, str(use.width), use.direction, bound, str(use.group))
        console.print(table)
    for title, counts in (
        ("constraints", air.constraint_instructions),
        ("interactions", air.interaction_instructions),
    ):
        if counts:
            parts = ", ".join(f"{count} {name}" for name, count in counts.items())
            console.print(f"[dim]instructions of the {title}: {sum(counts.values())} ({parts})[/]")
    _warn_of(air)


def _warn_of(air: AirReport) -> None:
    """What compiles, and is probably not meant."""
    if air.unread_columns:
        warn(f"{air.name}: nothing reads {', '.join(air.unread_columns)}")
    for use in air.unconfirmed_bounds:
        warn(
            f"{air.name}: no constraint is seen that holds `times` to its bound: {use} (t.boolean, or another at_most)"
        )
