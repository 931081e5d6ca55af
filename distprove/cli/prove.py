"""`distprove prove` and `distprove resume`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from distprove.cli.console import fail, print_json, reports_errors, warn
from distprove.cli.console import out as stdout
from distprove.cli.option_groups import AsJson, OptionGroup, SettingsGroup, Writes, takes_groups
from distprove.cli.plain_help import App, PlainCommand, PlainGroup
from distprove.cli.programs import command_of, import_from_here, program_app
from distprove.cli.variadic import VariadicCommand
from distprove.errors import DistproveError, InputError, JobFailed, UsageError, error_named, exit_code
from distprove.formats.nearest import nearest
from distprove.options import Setting, settings_of
from distprove.registry import SYSTEMS, entry_of
from distprove.settings import ExecutorSettings, in_bytes

if TYPE_CHECKING:
    from cluster.service.views import JobView
    from distprove.job import Job
    from distprove.settings import Settings

EXECUTION = "How it is run"
JOB_FILE = "job-file"
HELP = ("-h", "--help")
NO_OUT = "no --out: the run folder"

Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Check every rule on every row of all traces first, and prove nothing where one fails."
    ),
]
Title = Annotated[str, typer.Option(help="A name for the job, kept in the run.")]


class Execution(SettingsGroup):
    """The settings of a job that may be given on the command line; None where one was not."""

    settings, panel, unset = ExecutorSettings, EXECUTION, True

    def given(self) -> dict[str, Any]:
        """Settings that were given, by their names in `ExecutorSettings`. Raises UsageError."""
        return in_bytes(self.values)


@dataclass(frozen=True)
class RunFolder(OptionGroup):
    """Options for a run's folder, and for a run that is there already."""

    out: Annotated[
        Path | None,
        typer.Option(help="The run folder: journal, partition proofs, proof, report.  [required]"),
        Writes(None, owns=True),
    ] = None
    resume_existing: Annotated[bool, typer.Option("--resume", help="Continue the run at --out if there is one.")] = (
        False
    )
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that is at --out.")] = False
    no_service: Annotated[
        bool, typer.Option("--no-service", help="Prove here, also where a service of yours runs.")
    ] = False

    @property
    def path(self) -> Path:
        """The run folder. Raises UsageError if none is given."""
        if self.out is None:
            raise UsageError(NO_OUT)
        return self.out

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Read a job within: a missing --out is named beside the job's own fault, and does not hide it.

        Raises UsageError, InputError.
        """
        try:
            yield
        except (UsageError, InputError) as error:
            if self.out is None:
                raise type(error)(f"{error}\n{NO_OUT}") from None
            raise
        _ = self.path


class ProveGroup(PlainGroup):
    """The proof systems as subcommands; anything else is a job file, and options may also come first."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SYSTEMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return system_command(cmd_name) if cmd_name in SYSTEMS else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, subject_first(args, SYSTEMS))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in SYSTEMS:
            return super().resolve_command(ctx, args)
        return "JOB.toml", self.commands[JOB_FILE], args


def subject_first(args: list[str], systems: Collection[str]) -> list[str]:
    """`--out R groth16 ...` as `groth16 --out R ...`: what is proven comes first where options stood before it."""
    if not args or not args[0].startswith("-") or args[0] in HELP:
        return args
    for position, arg in enumerate(args):
        if (arg in systems or arg.endswith(".toml")) and args[position - 1] not in ("--out", "--title"):
            return [arg, *args[:position], *args[position + 1 :]]
    return args


app = App(
    cls=ProveGroup,
    subcommand_metavar=f"{'|'.join(SYSTEMS)}|JOB.toml ...",
    help="Prove every partition of a job, verify each, and bind them into one proof.",
    epilog="What is proven is said by options, after the name of a proof system, or by a job file. "
    "Exit code 0 only if every partition was proven and verified.",
)


@app.callback()
def options() -> None:
    """Prove every partition of a job, verify each, and bind them into one proof."""


class JobFileCommand(PlainCommand):
    """The command for a job file, whose name stands in place of a command's in its usage."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [self.options_metavar or ""]


@app.command(JOB_FILE, hidden=True, cls=JobFileCommand)
@reports_errors
@takes_groups
def job_file(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file: what to prove, from what.")],
    folder: RunFolder,
    execution: Execution,
    as_json: AsJson = False,
) -> None:
    """Prove the job that a file describes."""
    as_client = _may_ask_service(folder, execution)
    with folder.needed():
        job = _job_in(path, as_client)
    _start(job, folder, execution, as_json, as_client=as_client)


def _job_in(path: Path, as_client: bool) -> Job:
    from cluster.record.run import RECORD
    from distprove.job import Job

    if path.is_dir():
        hint = f": `distprove resume {quote(str(path))}` goes on with a run" if (path / RECORD).exists() else ""
        raise UsageError(f"{path} is a folder, not a job file{hint}")
    if path.suffix != ".toml" and not path.exists():
        hint = nearest(str(path), SYSTEMS)
        raise UsageError(f"{str(path)!r} is neither a proof system ({', '.join(SYSTEMS)}) nor a job file{hint}")
    return Job.from_toml(path, as_client=as_client)


def system_command(system: str) -> Any:
    """`distprove prove SYSTEM`: an option for each setting of the system that names one, and for a system of programs a
    subcommand for each program."""
    entry = entry_of(system)

    def run(
        program: str,
        arguments: Mapping[str, int | str],
        *,
        folder: RunFolder,
        chosen: SettingsGroup,
        title: Title = "",
        execution: Execution,
        as_json: AsJson = False,
    ) -> None:
        from distprove.job import Job

        subject: dict[str, Any] = {"program": program, "arguments": dict(arguments)} if program else {}
        as_client = _may_ask_service(folder, execution)
        told = partial(in_flags, settings=settings)
        with folder.needed():
            try:
                job = Job.from_options(system, title=title, as_client=as_client, **subject, **chosen.values)
            except UsageError as error:
                raise UsageError(told(str(error))) from None
        _start(job, folder, execution, as_json, as_client=as_client, told=told)

    def run_program(
        program: str,
        arguments: Mapping[str, int | str],
        *,
        folder: RunFolder,
        chosen: SettingsGroup,
        check: Check = False,
        title: Title = "",
        execution: Execution,
        as_json: AsJson = False,
    ) -> None:
        if check:
            from distprove.cli.air import check_before_proof

            _ = folder.path  # a check may take long
            check_before_proof(program, arguments, chosen.values["partitions"])
        run(program, arguments, folder=folder, chosen=chosen, title=title, execution=execution, as_json=as_json)

    settings = settings_of(entry.options)
    group = type("Chosen", (SettingsGroup,), {"settings": entry.options, "panel": entry.title})
    taking = takes_groups(run_program if "program" in settings else run, chosen=group)
    if "program" in settings:
        command = typer.main.get_command(program_app(taking, entry.help))
        command.name = system
        return command
    return command_of(system, entry.help, partial(taking, "", {}), [], taking, VariadicCommand)


def in_flags(message: str, settings: Mapping[str, Setting]) -> str:
    """A message about keys of a job file as one about the options that stand for them."""
    return re.sub(r"`(\w+)`", lambda key: settings[key[1]].flag or key[0] if key[1] in settings else key[0], message)


@reports_errors
@takes_groups
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    program: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="The run's program or circuit, if it is your own. It is imported."),
    ] = None,
    same_inputs: Annotated[
        bool, typer.Option("--same-inputs", help="Inputs that were written again have the content that they had.")
    ] = False,
    *,
    execution: Execution,
    as_json: AsJson = False,
) -> None:
    """Do what is missing of a run, after verifying what is there. Settings are the job's, but for those given here.

    A run does not choose what code runs here, nor which cluster is joined: --program, --backend and --address do.
    """
    from distprove.formats.owncode import names_code

    if program is not None or names_code(execution.values["backend"] or ""):
        import_from_here()
    run_job(run, None, settings=execution.given(), program=program, same_inputs=same_inputs, as_json=as_json)


def _may_ask_service(folder: RunFolder, execution: Execution) -> bool:
    """Whether this user has a service, and the options leave the job to it."""
    from distprove.cli.through_service import contact_here

    own_way = folder.no_service or folder.resume_existing or folder.overwrite
    return not own_way and all(value is None for value in execution.given().values()) and contact_here() is not None


def _start(
    job: Job,
    folder: RunFolder,
    execution: Execution,
    as_json: bool,
    *,
    as_client: bool,
    told: Callable[[str], str] = str,
) -> None:
    """Prove a job, by this user's service if it is checked `as_client` and may be that service's. `told` makes what the
    command line says of a message about a job file."""
    from cluster.record.run import is_run

    out, resume_existing = folder.path, folder.resume_existing
    if resume_existing and folder.overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    given = execution.given()
    job = replace(job, executor=job.executor.changed(given))
    if job.left_out:
        warn(f"left out: {', '.join(job.left_out)}")
    if job.code:
        import_from_here()
        job.find_code()
    if is_run(out) and not resume_existing and not folder.overwrite:
        raise UsageError(
            f"{out} already holds a run: --resume continues it, if it is of this job, and --overwrite replaces it"
        )
    own_way = bool(job.code) or any(source.url is not None for source in job.sources)  # a service fetches nothing
    try:
        if as_client and not own_way and job.executor == ExecutorSettings():
            from distprove.cli.through_service import prove_with_service

            view = prove_with_service(job, out)
            if view is not None:
                _show_ended(view, out, as_json)
                return
        if as_client:
            job.options.check()
    except UsageError as error:
        raise UsageError(told(str(error))) from None
    run_job(out, job, resume_existing=resume_existing, overwrite=folder.overwrite, as_json=as_json)


def _show_ended(view: JobView, run: Path, as_json: bool) -> None:
    """Show how a job of the service ended, and end as one of this process would."""
    from cluster.record.story import read_report
    from cluster.service.views import JobState

    if view.error_kind == JobFailed.__name__:
        _show_failed(run, view.error or "", as_json)
    if view.error is not None:
        kind = error_named(view.error_kind)
        raise (kind if issubclass(kind, DistproveError) else DistproveError)(view.error)
    if view.state is not JobState.PROVED:
        raise DistproveError(f"{view.id} is not proven: the service says that it is {view.state.value}")
    _show(run, read_report(run), as_json)


def run_job(
    run: Path,
    job: Job | None,
    *,
    settings: Settings | None = None,
    program: str | None = None,
    resume_existing: bool = False,
    overwrite: bool = False,
    same_inputs: bool = False,
    as_json: bool = False,
) -> None:
    """Prove `job` into `run` (None: resume it, as `api.resume` does); show it, and at the end a summary."""
    from cluster.opening import forking_workers
    from distprove import api
    from distprove.cli.progress import shown
    from distprove.host.memory import give_back_large_blocks

    give_back_large_blocks()
    try:
        # Forking is first: a display has a thread.
        with forking_workers(job, job.executor) if job is not None else nullcontext(), shown(run.name) as display:
            if job is None:
                result = api.resume(run, program=program, executor=settings, same_inputs=same_inputs, progress=display)
            else:
                result = api.prove(job, out=run, resume_existing=resume_existing, overwrite=overwrite, progress=display)
    except JobFailed as error:
        _show_failed(run, str(error), as_json)
    else:
        _show(run, result.report, as_json)


def _show_failed(run: Path, error: str, as_json: bool) -> NoReturn:
    """Show a run some of whose partitions failed, and exit as their errors say."""
    from cluster.record.story import report_of_ours

    # What succeeded is kept, so the table is worth as much as after a success.
    report = report_of_ours(run)
    _show(run, report, as_json)
    failed = [partition["error_kind"] for partition in report["partitions"] if partition["status"] == "failed"]
    code = JobFailed(error, failed).exit_code
    # The table names the error of each partition already.
    told = error.partition(": ")[0] if failed and not as_json else error
    hint: str | None
    refused = any(exit_code(error_named(kind)) == InputError.exit_code for kind in failed)
    options = _options_of(run)
    check = _check_of(options) if refused or not failed else ""  # to try again would end the same
    if check:
        hint = f"run `{check}`: it names the rule and the row, and with --show-values the values"
    elif code == InputError.exit_code:
        hint = _mended(run, report, _own_code(report, options))
    else:
        hint = way_on(run, report, _own_code(report, options)) if failed else None
    fail(told, hint)
    raise typer.Exit(code) from None


def _options_of(run: Path) -> dict[str, Any]:
    """The options of the job that a run of this command proves, as its record has them."""
    from cluster.record.run import read_record
    from distprove.formats.folder import Folder

    with Folder.open(run) as folder:
        job = read_record(folder)["job"] or {}
    options: dict[str, Any] = job.get("options", {})
    return options


def _own_code(report: dict[str, Any], options: dict[str, Any]) -> str:
    """The user's own program or circuit that a job names; empty for a job without."""
    from distprove.formats.owncode import names_code

    name = options.get(entry_of(report["system"]).options.code_field)
    return name if isinstance(name, str) and names_code(name) else ""


def _again(run: Path, code: str) -> str:
    """The command that goes on with a run, whose folder must not choose `code` of the user's own."""
    return shlex.join(["distprove", "resume", str(run), *(["--program", code] if code else [])])


def _check_of(options: dict[str, Any]) -> str:
    """The command that checks the traces of the user's own program that a job proves; empty for any other job."""
    from distprove.formats.owncode import names_code

    program, arguments = options.get("program"), options.get("arguments") or {}
    if not isinstance(program, str) or not names_code(program):
        return ""
    words = [program, *(word for name, value in arguments.items() for word in ("--with", f"{name}={value}"))]
    if isinstance(options.get("partitions"), int):
        words += ["--partitions", str(options["partitions"])]
    return f"distprove air check {shlex.join(words)}"


def _mended(run: Path, report: dict[str, Any], code: str) -> str | None:
    """What can be done about partitions whose inputs are at fault, if each has a file of its own. `code` is the user's
    own program or circuit."""
    from cluster.record.run import StoredRun

    failed = {partition["name"] for partition in report["partitions"] if partition["status"] == "failed"}
    together = hasattr(entry_of(report["system"]).system_class(), "verify_job")
    if together or not failed <= StoredRun.read(run).files().keys():
        return None
    return f"mend what failed, and {_again(run, code)} proves it; what is proven is kept"


def way_on(run: Path, report: dict[str, Any], code: str = "") -> str:
    """What can be done about partitions that failed. `code` is the user's own program or circuit."""
    from kernels.errors import OutOfMemory

    again = _again(run, code)
    if OutOfMemory.__name__ not in {partition["error_kind"] for partition in report["partitions"]}:
        return f"{again} tries the rest again"
    cut = "partitions" in settings_of(entry_of(report["system"]).options)
    fewer = "; a new run in more partitions (--partitions) or smaller ones needs less for each" if cut else ""
    return f"{again} tries the rest again, where there is more memory{fewer}"


def _show(run: Path, report: dict[str, Any], as_json: bool) -> None:
    from cluster.eventlog import log_report

    log_report(run, report)
    if as_json:
        print_json({"run": str(run), "proof": str(run / "proof.msgpack"), **report})
    else:
        from distprove.cli.summary import show_summary

        show_summary(stdout(), run, report)
