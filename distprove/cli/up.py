"""`distprove up`: start the standing service."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from distprove.cli.console import err, escape, facts_table, out, print_json, reports_errors
from distprove.cli.option_groups import AsJson, OptionGroup, SettingsGroup, takes_groups
from distprove.errors import DistproveError, InUse, ServiceGone, UsageError, error_named
from distprove.host.log import wants_json
from distprove.settings import ExecutorSettings, in_bytes

if TYPE_CHECKING:
    from cluster.service.contact import Contact

PORT = 4870
STARTED = "options.json"
"""File of the service's folder with the options that it was started with."""
REACH, TAKES = "How it is reached", "What it takes"


class Workers(SettingsGroup):
    """The settings of the service's workers."""

    settings, panel, unset = ExecutorSettings, "Its workers", True


@dataclass(frozen=True)
class Reach(OptionGroup):
    """Options on who can reach the service."""

    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=REACH)] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Port; by default {PORT}, or one that is free.", rich_help_panel=REACH),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain to speak TLS with (PEM).", rich_help_panel=REACH)
    ] = None
    tls_key: Annotated[Path | None, typer.Option(help="Its key, yours alone to read.", rich_help_panel=REACH)] = None
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Listen on a network without TLS.", rich_help_panel=REACH)
    ] = False
    rate: Annotated[
        int, typer.Option(min=1, max=100_000, help="Requests a second for each token.", rich_help_panel=REACH)
    ] = 200


@dataclass(frozen=True)
class Takes(OptionGroup):
    """Options on the jobs that the service takes."""

    queue: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Jobs that may wait at a time.", rich_help_panel=TAKES)
    ] = 10_000
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Folder that files of jobs may lie in; repeatable. By default any.", rich_help_panel=TAKES),
    ] = None
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Run clients' own programs, MODULE:CLASS.", rich_help_panel=TAKES)
    ] = False


@reports_errors
@takes_groups
def up(
    *,
    context: typer.Context,
    folder: Annotated[Path | None, typer.Option(help="The service's folder; by default one of yours.")] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay in the foreground, as containers do.")] = False,
    reach: Reach,
    takes: Takes,
    workers: Workers,
    as_json: AsJson = False,
) -> None:
    """Start the standing service: it takes jobs, keeps them on disk, and proves them with workers that stay warm.

    Returns when the service takes jobs. One that runs already is left as it is: options that it was not started with
    are refused, with exit code 2. One that was killed is started again by this, and its jobs go on.
    """
    from cluster.service.contact import contact_in, default_folder, holder_of, make_folder

    place = (folder or default_folder()).absolute()
    options = _options(context)
    if holder_of(place) is not None:
        if foreground:
            raise InUse(f"a service runs in {place}")
        contact = contact_in(place)
        _require_same(options, contact, place)
        _show(contact, place, as_json, "runs already", reach.port)
        return
    settings = ExecutorSettings().changed(in_bytes(workers.values))
    make_folder(place)

    def run(ready: Callable[[Contact], None]) -> None:
        def started(contact: Contact) -> None:
            _keep(options, contact, place)
            ready(contact)

        _serve(place, settings, reach, takes, started)

    if foreground:
        run(lambda contact: _show(contact, place, as_json, "runs", reach.port))
    else:
        _detach(place, as_json, run, reach.port)


def _options(context: typer.Context) -> dict[str, dict[str, Any]]:
    """The command's options that a service keeps, by flag: their value as text, and whether the command line gives
    it."""
    options = {}
    for option in context.command.params:
        name = option.name or ""
        if option.param_type_name == "option" and name not in ("folder", "foreground", "as_json", "help"):
            value = context.params.get(name)
            texts = [str(Path(v).absolute() if isinstance(v, Path) else v) for v in _listed(value)]
            source = context.get_parameter_source(name)
            given = source is not None and source.name == "COMMANDLINE"
            options[option.opts[0]] = {"value": texts, "given": given}
    return options


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _keep(options: dict[str, dict[str, Any]], contact: Contact, folder: Path) -> None:
    """Write the options that a service was started with into its folder."""
    from distprove.formats.folder import Folder

    values = {flag: told["value"] for flag, told in options.items()}
    with Folder.open_ours(folder) as opened:
        opened.write(STARTED, json.dumps({"pid": contact.pid, "options": values}, indent=2).encode())


def _require_same(options: dict[str, dict[str, Any]], contact: Contact, folder: Path) -> None:
    """Raise UsageError for options given that the running service was not started with, or may not have been."""
    from distprove.formats.folder import Folder
    from distprove.formats.jsontext import read_in

    with Folder.open_ours(folder) as opened:
        found = read_in(opened, STARTED, 1 << 20) if opened.has(STARTED) else None
    kept = found.get("options") if isinstance(found, dict) and found.get("pid") == contact.pid else {}
    began = kept if isinstance(kept, dict) else {}
    others = [
        flag for flag, told in options.items() if told["given"] and not _is_met(flag, told["value"], began, contact)
    ]
    if others:
        raise UsageError(
            f"a service runs already in {folder}, and was not started with these options, which change nothing now: "
            f"{', '.join(others)}; `distprove down` ends it, and `distprove up` with them starts it anew"
        )


def _is_met(flag: str, value: list[str], began: dict[str, Any], contact: Contact) -> bool:
    port = str(urlsplit(contact.url).port)
    return began.get(flag) == value or (flag == "--port" and value in ([port], ["0"]))


def _serve(
    folder: Path, settings: ExecutorSettings, reach: Reach, takes: Takes, ready: Callable[[Contact], None]
) -> None:
    from cluster.service.http.access import TOKENS
    from cluster.service.http.server import Options
    from cluster.service.requests import Limits
    from cluster.service.serve import serve
    from distprove.cli.programs import import_from_here
    from distprove.formats.owncode import names_code
    from distprove.host.memory import give_back_large_blocks

    if takes.allow_code or names_code(settings.backend):
        import_from_here()
    give_back_large_blocks()
    cert, key = (path and path.absolute() for path in (reach.tls_cert, reach.tls_key))
    options = Options(
        folder / TOKENS,
        reach.host,
        PORT if reach.port is None else reach.port,
        reach.port is None,
        cert,
        key,
        reach.plain_http,
        reach.rate,
    )
    roots = tuple(root.absolute() for root in takes.root) if takes.root else None
    serve(folder, settings, Limits(queued=takes.queue, roots=roots, allow_code=takes.allow_code), options, ready)


def _detach(folder: Path, as_json: bool, run: Callable[[Callable[[Contact], None]], None], port: int | None) -> None:
    """Run the service in a process of its own session, which outlives this one; return when it is ready."""
    from cluster.service.contact import LOG, Contact
    from distprove.formats.folder import Folder

    with Folder.open_ours(folder) as opened:
        log = opened.open_in_place(LOG, os.O_APPEND)
    reading, writing = os.pipe()
    # A fork, as this process has neither threads nor anything else that a fork would split, and has all that it needs.
    child = os.fork()
    if child == 0:
        os.close(reading)
        _leave_terminal(log)
        with open(writing, "w", encoding="utf-8") as told:
            try:
                run(lambda contact: _tell(told, {"contact": asdict(contact)}))
            except Exception as error:
                _tell(told, {"kind": type(error).__name__, "error": str(error)})
                raise
        return
    os.close(writing)
    os.close(log)
    with open(reading, encoding="utf-8") as heard:
        try:
            line = heard.readline()
        except KeyboardInterrupt:
            os.kill(child, 15)
            raise
    answer = json.loads(line or "{}")
    if "contact" in answer:
        _show(Contact(**answer["contact"]), folder, as_json, "runs", port)
        return
    if "kind" not in answer:
        raise ServiceGone(f"the service ended while it started; {folder / LOG} says why")
    kind = error_named(answer["kind"])
    raise (kind if issubclass(kind, DistproveError) else UsageError)(answer["error"])


def _tell(told: Any, answer: dict[str, Any]) -> None:
    if not told.closed:
        told.write(json.dumps(answer) + "\n")
        told.close()


def _leave_terminal(log: int) -> None:
    os.setsid()
    for name in os.listdir("/proc/self/fd"):
        # What a shell or another program opened and left to its children: a service would hold it as long as it lives.
        with suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)
    os.close(log)


def _workers(contact: Contact) -> str:
    """How many workers there are, by device."""
    from cluster.service.client import Client

    with Client(contact) as client:
        devices = Counter(w.device or w.kind for w in client.overview().workers if w.lost is None)
    told = (f"{count} on {escape(device)}" if device else str(count) for device, count in devices.items())
    return ", ".join(told) or "with the first job"


def _show(contact: Contact, folder: Path, as_json: bool, says: str, port: int | None) -> None:
    """`port`: the one that was asked for, if any was."""
    if as_json:
        print_json({**asdict(contact), "folder": str(folder)})
        return
    if wants_json():  # the log has said it
        return
    table = facts_table()
    table.add_row("service", f"[green]{says}[/] at {escape(contact.url)} (process {contact.pid})")
    table.add_row("page", f"{escape(contact.url)}/ [dim](asks for the token)[/]")
    table.add_row("token", f"in {escape(contact.token_file)}")
    table.add_row("workers", _workers(contact))
    table.add_row("folder", escape(str(folder)))
    out().print(table)
    if says == "runs":
        if port is None and urlsplit(contact.url).port != PORT:
            err().print(f"[dim]port {PORT} is taken, so it has another one; --port names one[/]")
        err().print("[dim]distprove submit JOB.toml, status, list; distprove down ends it[/]")
