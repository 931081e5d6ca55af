"""`distprove prove` and `distprove resume`."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from distprove import errors
from distprove.cli.console import fail, print_json, reports_errors
from distprove.cli.console import out as stdout
from distprove.cli.summary import show_summary
from distprove.errors import DistproveError, InputError, JobFailed, UsageError
from distprove.job import SYSTEMS, ExecutorSettings, Job, parse_bytes

EXECUTION = "How it is run"
GROTH16 = "Groth16"

Local = Annotated[bool, typer.Option("--local", help="Run in this process, without Ray.", rich_help_panel=EXECUTION)]
Address = Annotated[
    str | None,
    typer.Option(help="Join this Ray cluster (auto, or host:port) instead of starting one.", rich_help_panel=EXECUTION),
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads per node, at most.", rich_help_panel=EXECUTION)]
GpuCount = Annotated[
    int | None, typer.Option("--gpus", min=0, help="GPUs to use, at most; 0 for none.", rich_help_panel=EXECUTION)
]
Backend = Annotated[str | None, typer.Option(help="auto, cpu or cuda.", rich_help_panel=EXECUTION)]
MemoryBudget = Annotated[
    str | None,
    typer.Option("--memory", help="Host memory per node for witnesses, such as 48GiB.", rich_help_panel=EXECUTION),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else, on stdout.")]


@reports_errors
def prove(
    what: Annotated[
        str, typer.Argument(metavar="SYSTEM|JOB.toml", help="A proof system (groth16), or the path of a job file.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder: journal, partition proofs, proof, report.")],
    zkey: Annotated[Path | None, typer.Option(help="Proving key.", rich_help_panel=GROTH16)] = None,
    wasm: Annotated[
        Path | None, typer.Option(help="circom's witness program, for --input.", rich_help_panel=GROTH16)
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="I.json...", help="Files, globs, folders.", rich_help_panel=GROTH16),
    ] = None,
    wtns: Annotated[
        list[str] | None,
        typer.Option("--wtns", metavar="W.wtns...", help="Files, globs, folders.", rich_help_panel=GROTH16),
    ] = None,
    vk: Annotated[
        Path | None,
        typer.Option(help="verification_key.json that the key must agree with.", rich_help_panel=GROTH16),
    ] = None,
    title: Annotated[str, typer.Option(help="A name for the job, kept in the run.")] = "",
    resume_existing: Annotated[
        bool, typer.Option("--resume", help="Continue the run at --out if there is one.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete a run that is at --out first.")] = False,
    local: Local = False,
    address: Address = None,
    threads: Threads = None,
    gpus: GpuCount = None,
    backend: Backend = None,
    memory: MemoryBudget = None,
    as_json: AsJson = False,
) -> None:
    """Prove every partition of a job, verify each, and bind them into one proof.

    Partitions are named after their input files. Exit code 0 only if every partition was proven and verified.
    """
    given = {"local": local or None, "address": address, "threads": threads, "gpus": gpus, "backend": backend}
    given["memory"] = parse_bytes(memory) if memory is not None else None
    if resume_existing and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    if what in SYSTEMS:
        if zkey is None:
            raise UsageError("--zkey is missing: the proving key")
        if bool(inputs) == bool(wtns):
            raise UsageError("give either --input with --wasm, or --wtns")
        job = Job.from_options(
            what, zkey=zkey, wasm=wasm, inputs=inputs or (), witnesses=wtns or (), vk=vk, title=title
        )
    else:
        if not what.endswith(".toml") and not Path(what).exists():
            raise UsageError(f"{what!r} is neither a proof system ({', '.join(SYSTEMS)}) nor a job file")
        if zkey or wasm or inputs or wtns or vk or title:
            raise UsageError(
                "a job file says what to prove; --zkey, --wasm, --input, --wtns, --vk, --title go without one"
            )
        job = Job.from_toml(Path(what))
    job = replace(job, executor=executor_settings(job.executor, given))
    if (out / "job.json").is_file() and not resume_existing:
        if not overwrite:
            raise UsageError(f"{out} already holds a run: --resume continues it, --overwrite replaces it")
        # Only what is a run goes; whatever else stands there is left alone, and refused below.
        shutil.rmtree(out)
    run_job(out, job, resume_existing=resume_existing, as_json=as_json)


@reports_errors
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    local: Local = False,
    address: Address = None,
    threads: Threads = None,
    gpus: GpuCount = None,
    backend: Backend = None,
    memory: MemoryBudget = None,
    as_json: AsJson = False,
) -> None:
    """Do what is missing of a run, after verifying what is there. Settings are the job's, but for those given here."""
    from cluster.run import Run

    given = {"local": local or None, "address": address, "threads": threads, "gpus": gpus, "backend": backend}
    given["memory"] = parse_bytes(memory) if memory is not None else None
    with Run.open(run) as opened:
        recorded = opened.job().executor
    run_job(run, None, settings=executor_settings(recorded, given), as_json=as_json)


def executor_settings(base: ExecutorSettings, given: dict[str, Any]) -> ExecutorSettings:
    """The job's settings with the flags that were given in their place. Raises UsageError."""
    changes = {name: value for name, value in given.items() if value is not None}
    # --local on the command line is an answer to an address in the job file, and the other way round.
    if "local" in changes and "address" not in changes:
        changes["address"] = None
    if "address" in changes and "local" not in changes:
        changes["local"] = False
    assert changes.keys() <= {field.name for field in fields(ExecutorSettings)}
    return replace(base, **changes)


def run_job(
    run: Path,
    job: Job | None,
    *,
    settings: ExecutorSettings | None = None,
    resume_existing: bool = False,
    as_json: bool = False,
) -> None:
    """Prove `job` into `run` (None: resume it, with `settings`), show what happens, end with the summary or JSON."""
    from distprove import api
    from distprove.cli.progress import ProgressDisplay
    from distprove.memory import give_back_large_blocks

    give_back_large_blocks()
    try:
        with ProgressDisplay() as display:
            if job is None:
                result = api.resume(run, executor=settings, progress=display)
            else:
                result = api.prove(job, out=run, resume_existing=resume_existing, progress=display)
    except JobFailed as error:
        # What succeeded is kept, so the table is worth as much as after a success.
        report = api.read_report(run)
        _show(run, report, as_json)
        fail(str(error), f"distprove resume {run} tries the rest again" if exit_code(report) == 1 else None)
        raise typer.Exit(exit_code(report)) from None
    _show(run, result.report, as_json)


def exit_code(report: dict[str, Any]) -> int:
    """Of a job that failed: 2 when nothing but its inputs is at fault, so that trying again is useless; else 1."""
    kinds = {p["error_kind"] for p in report["partitions"] if p["status"] == "failed"}
    types = [getattr(errors, str(kind), DistproveError) for kind in kinds]
    return InputError.exit_code if types and all(issubclass(t, InputError) for t in types) else JobFailed.exit_code


def _show(run: Path, report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"run": str(run), "proof": str(run / "proof.msgpack"), **report})
    else:
        show_summary(stdout(), run, report)
