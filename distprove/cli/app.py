"""The commands, gathered. Modules that compute are imported when a command runs, so that --help is quick."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from distprove.cli import air, bench, prove, security, setup
from distprove.cli.console import DEBUG_FLAG
from distprove.cli.demo import demo
from distprove.cli.doctor import doctor
from distprove.cli.kernels import kernels
from distprove.cli.prove import resume
from distprove.cli.report import report
from distprove.cli.simulate import simulate
from distprove.cli.sweep import sweep
from distprove.cli.top import top
from distprove.cli.variadic import VariadicCommand
from distprove.cli.verify import export, verify

app = typer.Typer(
    name="distprove",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"distprove {metadata.version('distprove')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG_FLAG, help="Show tracebacks. May also follow a command.")] = False,
) -> None:
    """Prove big statements, cut into partitions, on many GPUs or none."""


app.add_typer(prove.app, name="prove")
app.command("resume")(resume)
app.command("report")(report)
app.command("sweep")(sweep)
app.command("top")(top)
app.command("verify")(verify)
app.command("export")(export)
app.add_typer(setup.app, name="setup")
app.add_typer(bench.app, name="bench")
app.add_typer(air.app, name="air")
app.add_typer(security.app, name="security")
app.command("kernels", cls=VariadicCommand)(kernels)
app.command("simulate")(simulate)
app.command("doctor")(doctor)
app.command("demo")(demo)
