"""`distprove run`: execute a guest without proving."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import (
    err,
    escape,
    facts_table,
    fail,
    format_seconds,
    out,
    plain_table,
    print_json,
    reports_errors,
    shown_bytes,
)
from distprove.cli.option_groups import AsJson, Overwrite, Writes
from distprove.errors import DistproveError, UsageError
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from distprove.stark.riscv.elf import Elf
    from distprove.stark.riscv.executor import Execution, Inputs
    from distprove.stark.riscv.forecast import Forecast
    from distprove.stark.riscv.profile import Profile
    from distprove.stark.riscv.program import RiscV

MOST_INPUT = 1 << 30
"""Bytes of a file that a guest reads."""
MOST_FUNCTIONS = 20
"""Functions that the profile lists for people; JSON has all."""


@reports_errors
def run(
    guest: Annotated[
        Path, typer.Argument(metavar="GUEST", help="An ELF file for riscv32im or riscv64im, linked statically.")
    ],
    private_file: Annotated[
        Path | None, typer.Option("--input", help="File that the guest reads as private input.")
    ] = None,
    public_input: Annotated[
        Path | None,
        typer.Option("--public-input", "--public", help="File that the guest reads as public input."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="List cycles and host calls.")] = False,
    segment: Annotated[str, typer.Option(metavar="CYCLES", help="Cycles of a segment, to tell their number.")] = "2^20",
    max_cycles: Annotated[str, typer.Option(metavar="CYCLES", help="Cycles after which to give up.")] = "2^36",
    calls: Annotated[
        str, typer.Option(metavar="SYSTEM", help="sp1 or openvm for a guest of that system; its input has its form.")
    ] = "",
    engine: Annotated[str, typer.Option(help="The engine of the forecast: fri or multilinear.")] = "fri",
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write the public output to."), Writes()
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Execute a RISC-V program (RV32IM or RV64IM) without proving it; docs/riscv.md says how to write one.

    Exit code 0 only if the guest's own is 0; 1 if it is not, and for a trap or when the cycles are used up; 2 if a file
    cannot be used, or the run cannot be proven.
    """
    from distprove.formats.files import read_bounded, write_atomically
    from distprove.stark.params import ENGINES
    from distprove.stark.programs.registry import integer
    from distprove.stark.riscv.debug import debug_text
    from distprove.stark.riscv.executor import CycleLimit, Execution, Inputs, Stop, Trap
    from distprove.stark.riscv.foreign import FOREIGN
    from distprove.stark.riscv.profile import profile as profile_of
    from distprove.stark.riscv.program import RiscV, loaded, private_input

    size, most = integer("--segment", segment), integer("--max-cycles", max_cycles)
    if engine not in ENGINES:
        raise UsageError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}")
    if most <= 0:
        raise UsageError(f"--max-cycles is a positive number, not {most}")
    program = RiscV(elf=str(guest), segment=size, calls=calls)
    elf, _ = loaded(str(guest), calls)
    private, public = (read_bounded(path, MOST_INPUT) if path else b"" for path in (private_file, public_input))
    foreign = FOREIGN[calls] if calls else None
    inputs: Inputs | None = None
    try:
        inputs = Inputs(private_input(str(guest), calls, private, str(private_file), most), public)
        execution, seconds, forecast, refusal = _executed(program, elf, inputs, most, engine, show=not as_json)
        counted = Execution(elf, inputs, max_cycles=most) if profile else None
        profiled = profile_of(elf, counted.count(), counted.call_counts()) if counted is not None else None
    except (Trap, CycleLimit) as error:
        if profile and not as_json and inputs is not None:
            counted = Execution(elf, inputs, max_cycles=most)
            with suppress(Trap, CycleLimit):
                counted.count()
            _show_profile(profile_of(elf, counted.counted(), counted.call_counts()), counted.cycles)
        trap = error if isinstance(error, Trap) else None
        if trap is not None and trap.state is not None:
            err().print("\n".join(map(escape, trap.state.lines())))
            told = foreign.refused(trap.state.about) if foreign and trap.state.stop is Stop.UNKNOWN_CALL else None
            if told is not None:
                err().print(escape(told))
        raise
    done = execution.outcome
    segments = max(done.segments, -(-done.cycles // size))  # the first is 1 for a run that is not cut
    if output is not None:
        write_atomically(output, done.output)
    if as_json:
        record: dict[str, Any] = {
            "status": "exited",
            "exit_code": done.exit_code,
            "output": done.output.hex(),
            "cycles": done.cycles,
            "segments": segments,
            "segment_cycles": size,
            "seconds": seconds,
            "forecast": forecast.to_record() if forecast is not None else None,
            "not_provable": refusal,
            "debug": debug_text(elf, execution),
        }
        if foreign is not None and foreign.public_values is not None:
            record["public_values"] = foreign.public_values(execution).hex()
        if profiled is not None:
            record |= {"by_instruction": dict(profiled.by_instruction), "by_function": dict(profiled.by_function)}
            record["by_call"] = dict(profiled.by_call)
        print_json(record)
    else:
        table = facts_table()
        table.add_row("exit code", str(done.exit_code))
        table.add_row("output", shown_bytes(done.output, "--output writes them"))
        if foreign is not None and foreign.public_values is not None:
            table.add_row("public values", shown_bytes(foreign.public_values(execution), "--json has them"))
        table.add_row("cycles", f"{done.cycles:,}")
        table.add_row("segments", f"{segments} of at most {count_of(size, 'cycle', grouped=True)}")
        table.add_row(
            "time", f"{format_seconds(seconds)}, {done.cycles / max(seconds, 1e-9) / 1e6:,.0f} million cycles/s"
        )
        if forecast is not None:
            _show_forecast(table, forecast)
        out().print(table)
        if profiled is not None:
            _show_profile(profiled, done.cycles)
    if refusal is not None:
        if not as_json:
            fail(refusal)
        raise typer.Exit(UsageError.exit_code)
    if done.exit_code != 0:
        raise typer.Exit(DistproveError.exit_code)


def _executed(
    program: RiscV, elf: Elf, inputs: Inputs, max_cycles: int, engine: str, *, show: bool
) -> tuple[Execution, float, Forecast | None, str | None]:
    """Run to the end. Return the run, its seconds, and what proving it takes, or why it cannot be proven. With `show`
    the debug stream is printed, also before an error. Raises Trap, CycleLimit, UsageError for more segments than a
    proof has."""
    from distprove.stark.riscv.executor import Execution
    from distprove.stark.riscv.forecast import forecast
    from distprove.stark.riscv.segment import Fixed, operation_classes, run_heights

    fixed = Fixed.of(elf.image())
    execution = Execution(elf, inputs, max_cycles=max_cycles, classes=operation_classes(fixed, elf.program))
    started = time.perf_counter()
    try:
        usages = [execution.usage for _ in program.segments(execution)]
    finally:
        seconds = time.perf_counter() - started
        if show:
            _show_debug(elf, execution)
    try:
        heights = run_heights(fixed, usages, len(execution.words()[0]))
        return execution, seconds, forecast(program, heights, engine), None
    except UsageError as error:
        return execution, seconds, None, str(error)


def _show_debug(elf: Elf, execution: Execution) -> None:
    from distprove.stark.riscv.debug import debug_text

    for line in debug_text(elf, execution).splitlines():
        err().print(f"[dim]debug[/]     {escape(line)}")


def _show_forecast(table: Table, forecast: Forecast) -> None:
    from distprove.stark.riscv.forecast import MEASURED_ON

    memory = f"{format_bytes(forecast.device_bytes)} a segment, at least {format_bytes(forecast.least_device_bytes)}"
    table.add_row("device memory", f"{memory}, at blow-up {forecast.blowup}")
    one, whole = format_bytes(forecast.segment_proof_bytes), format_bytes(forecast.proof_bytes)
    table.add_row(
        "proof",
        f"{forecast.engine}, at most {one} a segment, {whole} in all, {count_of(forecast.queries, 'query', 'queries')}",
    )
    table.add_row(
        "proving",
        f"some {format_seconds(forecast.seconds)} and the start, estimated for {MEASURED_ON}, not this machine",
    )


def _show_profile(profiled: Profile, cycles: int) -> None:
    functions = list(profiled.by_function.items())
    for title, entries in (
        ("function", functions[:MOST_FUNCTIONS]),
        ("instruction", list(profiled.by_instruction.items())),
    ):
        table = plain_table(title, numbers=("cycles", "%"))
        for name, count in entries:
            table.add_row(escape(name), f"{count:,}", f"{100 * count / max(cycles, 1):.1f}")
        out().print()
        out().print(table)
    calls = plain_table("host call", numbers=("times",))
    for name, count in profiled.by_call.items():
        calls.add_row(name, f"{count:,}")
    out().print()
    out().print(calls)
    if len(functions) > MOST_FUNCTIONS:
        out().print(f"[dim]{count_of(len(functions) - MOST_FUNCTIONS, 'more function')}; --json lists all[/]")
