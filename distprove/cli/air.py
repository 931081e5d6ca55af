"""`distprove air`: what an AIR costs, and whether it accepts its own example."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import err, escape, out, plain_table, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson
from distprove.cli.plain_help import App
from distprove.cli.programs import import_from_here, pairs
from distprove.errors import UnsatisfiedWitness, UsageError
from distprove.formats.owncode import import_named, names_code, own_faults, require_methods
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.stark.air import Air, AirReport
    from distprove.stark.air.check import Example, Failure
    from distprove.stark.air.definition import Layout
    from distprove.stark.heights import LogHeights
    from distprove.stark.program import Program, Trace
    from distprove.stark.verifying_key import VerifyingKey

app = App(no_args_is_help=True, help="Inspect and debug AIRs written in Python.")

Target = Annotated[
    str, typer.Argument(metavar="MODULE:CLASS|PROGRAM", help="An AIR or a program by its class, or one that ships.")
]
Parameters = Annotated[
    list[str] | None, typer.Option("--with", metavar="NAME=VALUE", help="An argument of it; repeatable.")
]
MOST = 20
"""Failures that are listed, unless a command says otherwise."""


@app.command("report")
@reports_errors
def report(target: Target, parameters: Parameters = None, as_json: AsJson = False) -> None:
    """List degrees, widths, interactions and instructions of an AIR, or of all tables of a program."""
    from distprove.stark.air import report_airs

    found = report_airs(*_tables(_load(target, parameters or [])))
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
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Partitions to cut a program into; by default 2, or as its execution says."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Failures to list.")] = MOST,
    show_values: Annotated[
        bool,
        typer.Option("--show-values", help="Print values of the trace that a failing rule reads. They may be secret."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check on every row the traces that a program makes, or the `example()` of an AIR. Exits 1 on a failure.

    A failing rule is printed with its table, its row, and the file and line that state it; a bus that does not balance
    with the tables that send and receive a tuple, and how often. Values are printed with --show-values alone. Refused,
    with exit code 2, is what `prove` would refuse. An error of your own code is printed with its message, which may
    quote inputs.
    """
    checked = _checked(_load(target, parameters or []), partitions, most)
    if as_json:
        document = {
            "tables": [air.name for air in checked.compiled],
            "checked": checked.example is not None,
            "failures": [failure.to_record(values=show_values) for failure in checked.failures],
        }
        print_json(document)
    else:
        for air in checked.compiled:
            _warn_of(air)
        for failure in checked.failures:
            text = str(failure) if show_values else failure.without_values()
            out().print(f"[red]fails[/] {escape(text)}")
        if checked.example is None:
            warn(f"{target} offers no example(): it compiles, and no trace was checked")
        elif not checked.failures:
            out().print(f"[green]holds[/] on every row: {escape(_sizes(checked.compiled, checked.example))}")
        elif not show_values:
            out().print("[dim]--show-values prints the values, which may be secret[/]")
    if checked.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Checked:
    """The tables of a program or an AIR, the traces that were checked, if there were any, and what fails."""

    compiled: list[AirReport]
    example: Example | None
    failures: list[Failure]


def _checked(loaded: Any, partitions: int | None, most: int, *, secret: bool = False) -> _Checked:
    from distprove.stark.air import report_airs
    from distprove.stark.params import BLOWUPS

    compiled = report_airs(*_tables(loaded))
    blowup = max([BLOWUPS["speed"], *(air.quotient_chunks for air in compiled)])
    example = _provable(loaded, partitions, blowup, secret=secret)
    return _Checked(compiled, example, example.check(most) if example else [])


def check_before_proof(program: str, arguments: Mapping[str, int | str], partitions: int | None) -> None:
    """Check every rule on every row of the traces of a job, as `air check` does, and say so on standard error. Raises
    UnsatisfiedWitness, which has no value of the trace, for a rule that fails, and as `air check`."""
    from distprove.stark.programs import load_program

    loaded = load_program(program, arguments)
    counted = partitions or (None if loaded.cuts_itself else 1)
    checked = _checked(loaded, counted, MOST, secret=True)
    if checked.failures:
        failing = "\n".join(failure.without_values() for failure in checked.failures)
        raise UnsatisfiedWitness(f"nothing was proven: rules do not hold on the traces\n{failing}")
    if checked.example is not None:
        err().print(f"[green]holds[/] on every row: {escape(_sizes(checked.compiled, checked.example))}")


@app.command("compile")
@reports_errors
def compile_kernels(
    target: Target,
    parameters: Parameters = None,
    arch: Annotated[
        list[str] | None, typer.Option(metavar="SM", help="90, sm_100, ...; repeatable. Default: the GPU's, or 90.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile the CUDA kernels that proving a program takes, and keep them: ahead of time, without a GPU."""
    from distprove.cli.kernels import compilation, compile_for
    from distprove.stark.program import Program
    from distprove.stark.proving_key import programs_of
    from kernels.cuda.sources import goldilocks_sources

    program = _load(target, parameters or [], proving=False)
    if not isinstance(program, Program):
        raise UsageError(f"{target} is no program: kernels are compiled for what can be proven")
    sources = goldilocks_sources(
        programs_of(program, range(len(program.compiled_tables))),
        [function.source for function in program.row_functions],
    )
    rows = compile_for(arch or [], sources)
    spilling = sum(bool(row.resources.spill_stores) for row in rows)
    if as_json:
        print_json([{**asdict(row.resources), "source": row.source, "arch": row.arch} for row in rows])
    else:
        out().print(
            f"{count_of(len(sources), 'source')}, {count_of(len(rows), 'kernel')}, {spilling} with spills; "
            f"{compilation(rows)}"
        )


# -- what is named ----------------------------------------------------------------------------------------------------


def _load(target: str, parameters: list[str], *, proving: bool = True) -> Any:
    """The object that `target` names; a class is called with the parameters. Not `proving`: it needs no input files."""
    from distprove.stark.program import Program
    from distprove.stark.programs import find_program, load_program
    from distprove.stark.programs.registry import integer

    arguments = pairs(parameters)
    import_from_here()
    if not names_code(target):
        return load_program(target, arguments) if proving else find_program(target).make(arguments, proving=False)
    found = import_named(target)
    if not inspect.isclass(found):
        return found
    if issubclass(found, Program):
        return load_program(target, arguments)
    require_methods(found, target)
    values = {key: integer(key, value) for key, value in arguments.items()}
    try:
        inspect.signature(found).bind(**values)
    except TypeError as error:
        raise UsageError(f"{target} cannot be made with these parameters (--with NAME=VALUE): {error}") from None
    with own_faults(found.__module__):
        return found(**values)


def _program_example(program: Program, partitions: int | None, key: VerifyingKey, *, secret: bool) -> Example:
    """The traces of a program, none of which `prove` refuses. Raises UsageError, AirError."""
    from distprove.stark.example import program_example
    from distprove.stark.provable import check_heights
    from distprove.stark.shape import heights_fit
    from distprove.stark.trace_shape import check_trace_shape
    from kernels.cpu.backend import CpuBackend

    heights: list[LogHeights] = []

    def check(trace: Trace) -> None:
        heights.append(check_trace_shape(key, trace, heights_fit))

    with CpuBackend() as backend:
        count = partitions or (None if program.cuts_itself else 2)
        example = program_example(program, count, backend, check, secret=secret)
    with own_faults(program.__module__):
        check_heights(program, heights)
    return example


def _example(loaded: Any) -> Example | None:
    from distprove.stark.air.check import Example

    if not callable(getattr(loaded, "example", None)):
        return None
    with own_faults(type(loaded).__module__):
        example = loaded.example()
    if not isinstance(example, Example):
        raise UsageError(f"{type(loaded).__name__}.example() gave {type(example).__name__}, expected an Example")
    return example


def _tables(loaded: Any) -> tuple[list[Air], Layout | None]:
    """The AIRs of what was named, and the public values of a program."""
    from distprove.stark.air import Air
    from distprove.stark.program import Program

    if isinstance(loaded, Air):
        return [loaded], None
    if isinstance(loaded, Program):
        with own_faults(loaded.__module__):
            return list(loaded.tables), loaded.statement.layout()
    example = _example(loaded)
    if example is None:
        raise UsageError(f"{type(loaded).__name__} is neither an Air nor a Program, and offers no example()")
    return list(example.airs), example.layout


def _provable(loaded: Any, partitions: int | None, blowup: int, *, secret: bool) -> Example | None:
    """The traces to check. With `secret` no error quotes an input.

    Raises UsageError for tables that no job can prove, by any number of queries.
    """
    from distprove.options import SECURITY_BITS
    from distprove.stark.air.definition import default_layout
    from distprove.stark.params import MAX_BLOWUP, Parameters
    from distprove.stark.program import Program
    from distprove.stark.provable import check_job, check_multiplicities, least_heights, tables_key
    from distprove.stark.security import MAX_QUERIES
    from distprove.stark.verifying_key import compile_program

    params = Parameters(min(blowup, MAX_BLOWUP).bit_length() - 1, MAX_QUERIES, 0, SECURITY_BITS)
    if isinstance(loaded, Program):
        with own_faults(loaded.__module__):
            key = compile_program(loaded, params)  # before its traces are made
        example: Example | None = _program_example(loaded, partitions, key, secret=secret)
    else:
        example = _example(loaded)
        if example is None:  # what is missing on its buses may stand in other tables
            key = tables_key([loaded], default_layout(loaded), params)
            check_multiplicities(key, least_heights(key, 1))
            return None
        key = tables_key(example.airs, example.layout, params, example.boundary)
    if example is not None:
        check_job(
            key, [[None if m is None else m.shape[1].bit_length() - 1 for m in p.main] for p in example.partitions]
        )
    return example


# -- what is shown ----------------------------------------------------------------------------------------------------


def _sizes(airs: list[AirReport], example: Example) -> str:
    """ "Limbs (16 rows), Ranges (8 rows); 2 partitions" """
    first = example.partitions[0].main
    rows = ("absent" if main is None else count_of(main.shape[1], "row") for main in first)
    tables = ", ".join(f"{air.name} ({each})" for air, each in zip(airs, rows, strict=True))
    count = len(example.partitions)
    return f"{tables}; {count_of(count, 'partition')}" if count > 1 else tables


def _show(air: AirReport) -> None:
    console = out()
    console.print(
        f"[bold]{escape(air.name)}[/]: {air.main_columns} main, {air.preprocessed_columns} preprocessed, "
        f"{count_of(air.auxiliary_columns, 'auxiliary column')}; {count_of(air.public_values, 'public value')}"
    )
    console.print(
        f"degree {air.degree}: {count_of(air.quotient_chunks, 'quotient chunk')} "
        f"of 3 columns; blow-up {' or '.join(map(str, air.blowups)) or 'above 8 needed'}"
    )
    table = plain_table()
    table.add_column("constraint", min_width=24)
    table.add_column("kind", min_width=10)
    table.add_column("degree", justify="right")
    for constraint in air.constraints:
        table.add_row(escape(constraint.name), constraint.kind, str(constraint.degree))
    console.print(table)
    if air.interactions:
        table = plain_table("bus", "scope", "width", "direction", "at most", "group")
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
    """Print warnings about what compiles and is probably not meant."""
    if air.unread_columns:
        warn(f"{air.name}: nothing reads {', '.join(air.unread_columns)}")
    for use in air.unconfirmed_bounds:
        warn(f"{air.name}: no constraint is seen to hold `times` to its bound: {use} (t.boolean, or another at_most)")
