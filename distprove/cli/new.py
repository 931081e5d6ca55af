"""`distprove new guest`: the folder of a new program for the RISC-V machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import escape, out, reports_errors
from distprove.cli.option_groups import Writes
from distprove.cli.plain_help import App
from kernels.host.units import count_of

app = App(no_args_is_help=True, help="Make a project: a folder with an example to change.")


@app.callback()
def group() -> None:
    """Make a project: a folder with an example to change."""


@app.command()
@reports_errors
def guest(
    folder: Annotated[
        Path,
        typer.Argument(metavar="NAME", help="The folder to make; its last name is the program's."),
        Writes(None),
    ],
    language: Annotated[str, typer.Option("--lang", metavar="LANGUAGE", help="rust or c.")] = "rust",
    isa: Annotated[
        str, typer.Option("--isa", metavar="SET", help="The instruction set of the compiled program: rv32im or rv64im.")
    ] = "rv32im",
) -> None:
    """Make a program for the RISC-V machine in Rust or C, with all that it needs to be built, run, proven and verified.

    Its README.md has the commands. The example has typed input and output, and prints to a debug stream.
    """
    from distprove.stark.riscv.project import make_project

    written = make_project(folder, language, isa)
    out().print(f"made {count_of(len(written), 'file')} in {escape(str(folder))}")
    out().print(f"[dim]next:[/] cd {escape(str(folder))}, and follow README.md")
