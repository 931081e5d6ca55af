"""`distprove run`: execute a guest without proving."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import err, escape, facts_table, format_seconds, out, plain_table, print_json, reports_errors
from distprove.cli.option_groups import AsJson
from distprove.errors import DistproveError, UsageError

if TYPE_CHECKING:
    from distprove.stark.riscv.profile import Profile

MOST_INPUT = 1 << 30
"""Bytes of a file that a guest reads."""
MOST_SHOWN = 256
"""Bytes of output that are shown; JSON has all."""
MOST_FUNCTIONS = 20
"""Functions that the profile lists for people; JSON has all."""


@reports_errors
def run(
    guest: Annotated[Path, typer.Argument(metavar="GUEST", help="An ELF file for riscv32im, statically linked.")],
    private_input: Annotated[
        Path | None, typer.Option("--input", help="File that the guest reads as private input.")
    ] = None,
    public_input: Annotated[Path | None, typer.Option(help="File that the guest reads as public input.")] = None,
    profile: Annotated[bool, typer.Option("--profile", help="List cycles and host calls.")] = False,
    segment: Annotated[str, typer.Option(metavar="CYCLES", help="Cycles of a segment, to tell their number.")] = "2^20",
    max_cycles: Annotated[str, typer.Option(metavar="CYCLES", help="Cycles after which to give up.")] = "2^36",
    output: Annotated[Path | None, typer.Option("--output", help="File to write the public output to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Execute a RISC-V program (an ELF file for RV32IM) without proving it; docs/riscv.md says how to write one.

    Exit code 0 only if the guest's own is 0; 1 if it is not, and for a trap or when the cycles are used up; 2 if a file
    cannot be used.
    """
    from distprove.formats.files import read_bounded, write_atomically
    from distprove.stark.programs.registry import integer
    from distprove.stark.riscv.elf import read_elf
    from distprove.stark.riscv.executor import MOST_SEGMENT_CYCLES, Execution, Inputs, Trap
    from distprove.stark.riscv.profile import profile as profile_of

    size, most = integer("--segment", segment), integer("--max-cycles", max_cycles)
    if not 0 < size <= MOST_SEGMENT_CYCLES or size & (size - 1):
        raise UsageError(f"--segment is a power of two of at most {MOST_SEGMENT_CYCLES} cycles, not {size}")
    if most <= 0:
        raise UsageError(f"--max-cycles is a positive number, not {most}")
    elf = read_elf(guest)
    private, public = (read_bounded(path, MOST_INPUT) if path else b"" for path in (private_input, public_input))
    execution = Execution(elf, Inputs(private, public), max_cycles=most)
    started = time.perf_counter()
    try:
        counts = execution.count() if profile else None
        if counts is None:
            execution.run()
    except Trap as trap:
        if trap.state is not None:
            err().print("\n".join(map(escape, trap.state.lines())))
        raise
    seconds = time.perf_counter() - started
    done = execution.outcome
    segments = -(-done.cycles // size)
    profiled = profile_of(elf, counts, execution.call_counts()) if counts is not None else None
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
        }
        if profiled is not None:
            record |= {"by_instruction": dict(profiled.by_instruction), "by_function": dict(profiled.by_function)}
            record["by_call"] = dict(profiled.by_call)
        print_json(record)
    else:
        table = facts_table()
        table.add_column(overflow="fold")
        table.add_row("exit code", str(done.exit_code))
        table.add_row("output", _shown(done.output))
        table.add_row("cycles", f"{done.cycles:,}")
        table.add_row("segments", f"{segments} of {size:,} cycles")
        table.add_row(
            "time", f"{format_seconds(seconds)}, {done.cycles / max(seconds, 1e-9) / 1e6:,.0f} million cycles/s"
        )
        out().print(table)
        if profiled is not None:
            _show_profile(profiled, done.cycles)
    if done.exit_code != 0:
        raise typer.Exit(DistproveError.exit_code)


def _shown(output: bytes) -> str:
    """The output for people: in hexadecimal, and as text if it is some."""
    if not output:
        return "none"
    start = output[:MOST_SHOWN]
    more = f"... ({len(output):,} bytes; --output writes them)" if len(output) > MOST_SHOWN else ""
    text = start.rstrip(b"\0").decode("ascii", "replace")
    lines = [f"{start.hex()}{more}", *([f'"{text}"'] if text.isprintable() and text.isascii() else [])]
    return "\n".join(map(escape, lines))


def _show_profile(profiled: Profile, cycles: int) -> None:
    functions = list(profiled.by_function.items())
    for title, entries in (
        ("function", functions[:MOST_FUNCTIONS]),
        ("instruction", list(profiled.by_instruction.items())),
    ):
        table = plain_table()
        table.add_column(title, overflow="fold")
        table.add_column("cycles", justify="right")
        table.add_column("%", justify="right")
        for name, count in entries:
            table.add_row(escape(name), f"{count:,}", f"{100 * count / cycles:.1f}")
        out().print()
        out().print(table)
    calls = plain_table()
    calls.add_column("host call")
    calls.add_column("times", justify="right")
    for name, count in profiled.by_call.items():
        calls.add_row(name, f"{count:,}")
    out().print()
    out().print(calls)
    if len(functions) > MOST_FUNCTIONS:
        out().print(f"[dim]{len(functions) - MOST_FUNCTIONS} more functions; --json lists all[/]")
