"""`distprove prove` where a service of this user runs: the service proves, and all that is seen of it is the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.errors import ServiceGone
from distprove.host.beside import in_background
from distprove.options import InputFile, settings_of
from kernels.host.units import count_of

if TYPE_CHECKING:
    from cluster.service.client import Client
    from cluster.service.contact import Contact
    from cluster.service.views import JobView
    from distprove.job import Job

PATIENCE = 3600.0
"""Seconds to wait for a service that is full, or is started again."""


def prove_with_service(job: Job, out: Path) -> JobView | None:
    """Have this user's service prove a job into the run folder `out`, with its progress shown. None where no service
    runs on this machine. Raises KeyboardInterrupt where the job is cancelled, and what the service refuses it for."""
    contact = contact_here()
    if contact is None:
        return None
    from cluster.service.client import Client

    # Rich takes longer to import than a service takes to read a job, and the service is at work meanwhile.
    shown = in_background(partial(_show, contact), "distprove-notice")
    with Client(contact, patience=PATIENCE) as client:
        try:
            view = client.submit(table_of(job), out=out, base=out.absolute().parent)
        finally:
            shown.result()
        try:
            view = _followed(client, view)
        except KeyboardInterrupt:
            client.cancel(view.id)
            raise
    if view.cancelling:
        raise KeyboardInterrupt
    return view


def _show(contact: Contact) -> None:
    from distprove.cli.console import err, escape

    err().print(f"[dim]proved by the service at {escape(contact.url)}; --no-service proves it here[/]")


def contact_here() -> Contact | None:
    """The service of this user that runs on this machine; None without one."""
    from cluster.service.contact import CONTACT, contact_in, local_folder

    folder = local_folder()
    if folder is None or not (folder / CONTACT).exists():
        return None
    try:
        return contact_in(folder)
    except ServiceGone:  # it was killed
        return None


def table_of(job: Job) -> dict[str, Any]:
    """The keys of a job file that stand for a job, with absolute paths."""
    values = {name: _plain(getattr(job.options, name)) for name in settings_of(type(job.options))}
    given = {name: value for name, value in values.items() if value is not None and value != []}
    return {"system": job.system, "title": job.title, **given}


def _plain(value: Any) -> Any:
    if isinstance(value, InputFile):
        return str(value.path)
    if isinstance(value, Path):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _followed(client: Client, view: JobView) -> JobView:
    from cluster.scheduler.jobs import Progress
    from distprove.cli import summary  # noqa: F401 - it shows the end, and has the time of the proof to be imported
    from distprove.cli.progress import shown

    with shown(view.id) as display:

        def progress(seen: JobView) -> None:
            counts = (seen.done, 0, seen.partitions)
            if not seen.partitions:
                waits = f"its turn, {count_of(seen.place, 'job')} before it" if seen.place else "the service"
                display(Progress("waiting", None, None, None, *counts, waits))
            else:
                done = count_of(seen.done, "partition")
                display(Progress("proved", done, "the service", None, *counts))

        return client.wait(view.id, progress=progress)
