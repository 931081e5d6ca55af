"""The commands, gathered. Modules that compute are imported when a command runs, so that --help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from distprove.cli.console import DEBUG_FLAG
from distprove.cli.doctor import doctor

app = typer.Typer(
    name="distprove",
    help="Prove big statements, cut into partitions, on many GPUs or none.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(DEBUG_FLAG, help="Show tracebacks. May also follow a command.")] = False,
) -> None:
    """Prove big statements, cut into partitions, on many GPUs or none."""


app.command("doctor")(doctor)
