"""The table of commands: each is a file and a line here, and only the module that is asked for is imported."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from distprove.cli.console import DEBUG_FLAG
from distprove.cli.plain_help import App, PlainCommand, PlainGroup


class Entry(NamedTuple):
    """A command before its module is imported."""

    target: str
    """A function or a `typer.Typer`, as "module:name" below distprove.cli."""
    help: str
    """The first paragraph of the command's own help."""


PROVE: Mapping[str, Entry] = {
    "demo": Entry(
        "demo:demo",
        "Prove that some members of a group vote, each once, without saying who: every step of a job, offline.",
    ),
    "prove": Entry("prove:app", "Prove every partition of a job, verify each, and bind them into one proof."),
    "resume": Entry(
        "prove:resume",
        "Do what is missing of a run, after verifying what is there. Settings are the job's, but for those given here.",
    ),
    "verify": Entry(
        "verify:verify",
        "Verify a proof: its binding, then all partitions as one batch with random coefficients; or an aggregate.",
    ),
    "aggregate": Entry(
        "aggregate:aggregate",
        "Aggregate the proofs of several jobs into one: all under one key (docs/aggregation.md), or of jobs that end "
        "in one proof, each under its own key (docs/recursion.md).",
    ),
    "export": Entry(
        "verify:export",
        "Write what others verify with: the key, and the proof of every partition, in the files of the proof system's "
        "own verifiers (snarkjs' JSON, or verifying_key.msgpack for `verify --vk`).",
    ),
    "top": Entry(
        "top:top", "Show partitions, GPUs, leases, queues and throughput of a run, live. Ends when the run does."
    ),
    "report": Entry(
        "report:report",
        "Write one HTML page that says where the time of a run went, and a trace that Perfetto opens.",
    ),
}
SERVICE: Mapping[str, Entry] = {
    "up": Entry(
        "up:up",
        "Start the standing service: it takes jobs, keeps them on disk, and proves them with workers that stay warm.",
    ),
    "submit": Entry(
        "jobs:submit",
        "Submit a job to the service, and print its id. It is on the service's disk when this returns.",
    ),
    "status": Entry("jobs:status", "Show what a job is at, or the service: its queue, keys, workers and throughput."),
    "await": Entry(
        "jobs:wait",
        "Wait until jobs are over. The exit code is the job's; of several that differ, 1 where one failed.",
    ),
    "list": Entry("jobs:list_jobs", "List jobs, the newest first."),
    "logs": Entry("jobs:logs", "Print the journal of a job, a JSON object on each line (docs/formats.md)."),
    "cancel": Entry(
        "jobs:cancel", "Cancel jobs. What they have proven stays in their runs; one that is over stays as it is."
    ),
    "keys": Entry("keys:app", "List the keys of the service, load one before a job needs it, or put one away."),
    "cuzk": Entry(
        "cuzk:cuzk", "Answer curio nodes by gRPC as cuzk's daemon does, and have the service prove what they ask for."
    ),
    "down": Entry(
        "jobs:down", "End the service, after the jobs that run. Jobs that are queued wait for its next start."
    ),
}
PROGRAMS: Mapping[str, Entry] = {
    "run": Entry(
        "run:run",
        "Execute a RISC-V program (RV32IM or RV64IM) without proving it; docs/riscv.md says how to write one.",
    ),
    "new": Entry("new:app", "Make a project: a folder with an example to change."),
    "air": Entry("air:app", "Inspect and debug AIRs written in Python."),
    "key": Entry(
        "key:app",
        "Make the verifying key of a program, for those who verify without it. `PROGRAM --help` tells more.",
    ),
    "security": Entry(
        "security:app",
        "What a proof of a program is worth: proven bits of every round. `PROGRAM --help` tells its options.",
    ),
    "setup": Entry("setup:app", "Make proving keys, and inputs for measurements."),
    "zkey": Entry("zkey:app", "Contribute to the ceremony of a .zkey, verify it, and export its key."),
    "ptau": Entry("ptau:app", "Verify files of powers-of-tau ceremonies."),
    "gnark": Entry("gnark:app", "Exchange proofs and verifying keys with gnark."),
    "wtns": Entry("wtns:app", "Make witnesses, and check them against their circuit."),
    "r1cs": Entry("r1cs:app", "Show what is in a circuit's .r1cs file."),
}
MEASURE: Mapping[str, Entry] = {
    "doctor": Entry("doctor:doctor", "GPUs, drivers, memory, limits, Ray: what is here, what will be used, and why."),
    "bench": Entry("bench:app", "Measure this machine: medians, beside the ceiling of the hardware."),
    "sweep": Entry(
        "sweep:sweep",
        "Measure a job under a grid of settings, and name the best. What is measured is kept: run it again to go on.",
    ),
    "kernels": Entry(
        "kernels:app", "Compile every CUDA kernel with NVRTC and list its registers, spills and shared memory."
    ),
}
SECTIONS = {"Prove": PROVE, "Prove as a service": SERVICE, "Programs and keys": PROGRAMS, "Measure": MEASURE}
"""All commands by name, in the sections and the order in which help lists them."""
COMMANDS: Mapping[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class Commands(PlainGroup):
    """The commands by their names and lines; the one that is asked for is loaded."""

    def __init__(self, **attributes: Any) -> None:
        listed = {name: PlainCommand(name, help=entry.help) for name, entry in COMMANDS.items()}
        super().__init__(**{**attributes, "commands": listed})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name is not None else None, rest


def load(name: str) -> Any:
    """The command itself, from its module."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    found = getattr(import_module(f"distprove.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        made = App()
        made.command(name)(found)
        found = made
    command = typer.main.get_command(found)
    command.name = name
    return command


app = App(
    name="distprove",
    add_completion=True,
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"distprove {metadata.version('distprove')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
    debug: Annotated[bool, typer.Option(DEBUG_FLAG, help="Show tracebacks. May also follow a command.")] = False,
) -> None:
    """Prove big statements, cut into partitions, on many GPUs or none."""
