"""Submits a job to a Ray cluster by Ray's own job API: small files of the job travel with it, larger ones are named.

What travels is a folder that Ray packs, unpacks on the cluster and runs `distprove prove` in: the job file, with paths
relative to it, and the files. It goes over TLS or within this machine alone, because inputs may be secret; to another
machine over plain HTTP all files are named by their paths.
"""

from __future__ import annotations

import asyncio
import itertools
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors import patience
from cluster.executor.connection import first_line, prepare
from cluster.service.http.access import is_loopback
from distprove.errors import ClusterError, InputError, JobFailed, UsageError, typed
from distprove.formats.remote import origin_of
from distprove.job import Job
from distprove.jobfile import job_text
from distprove.options import settings_of
from distprove.settings import ExecutorSettings
from kernels.host.private import temporary_root

SMALL, TOGETHER = 8 << 20, 64 << 20
"""Bytes of a file that travels, and of all that do, at most. Ray keeps them in the memory of the cluster's head."""
JOB_FILE = "job.toml"
NOT_YET = "No available agent"
"""Part of what a Ray says that has just started."""
PLAIN = "Ray's own dashboard speaks plain HTTP: https needs a proxy with a certificate in front of it"


def pack(job: Job, folder: Path, *, send: bool = True) -> list[Path]:
    """Write a job into `folder`, with its small files if they are to be sent. Returns the other files, which must be on
    every node under the paths that they have here. Raises InputError, UsageError."""
    named: list[Path] = []
    room, places = TOGETHER if send else 0, itertools.count()

    def moved(path: Path) -> Path | str:
        nonlocal room
        if (url := origin_of(path)) is not None:
            return url
        size = path.stat().st_size
        if size > min(SMALL, room) or not send:
            named.append(path)
            return path.absolute()
        room -= size
        place = Path("files") / str(next(places)) / path.name  # a partition has the name of its file
        (folder / place.parent).mkdir(parents=True)
        shutil.copy2(path, folder / place)
        return place

    try:
        options = replace(job.options, **_moved(job, moved))  # type: ignore[type-var]
    except OSError as error:
        raise typed(error) from None
    (folder / JOB_FILE).write_text(job_text(replace(job, options=options)), encoding="utf-8")
    return named


def _moved(job: Job, moved: Callable[[Path], Path | str]) -> dict[str, Any]:
    """The options that name files, with the paths that these have after the move."""
    changed: dict[str, Any] = {}
    for name, told in settings_of(type(job.options)).items():
        value = getattr(job.options, name)
        if told.types == (Path,) and value is not None:
            changed[name] = moved(value)
        elif told.types == (tuple,):
            changed[name] = tuple(replace(item, path=moved(item.path)) if item.is_here else item for item in value)
        elif name == "arguments":  # a program's own, of which those that are files are among the job's sources
            files = {str(source.path) for source in job.sources}
            changed[name] = {n: str(moved(Path(v))) if str(v) in files else v for n, v in value.items()}
    return changed


def submit(
    path: Path,
    address: str,
    out: str,
    *,
    id: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
    command: Sequence[str] = ("distprove",),
) -> tuple[Any, str]:
    """Submit the job file at `path` to the Ray whose dashboard is at `address`. It is proven into the run folder `out`
    on the cluster; a run that is there is continued. A job file that is not here is one of the cluster's own.

    `tell` hears which files must be on the nodes; `command` is what distprove is called there. Gives Ray's client and
    the id of the submission. Raises UsageError, InputError and ClusterError.
    """
    where = urlsplit(address)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise UsageError(f"--address {address}: the URL of a Ray dashboard is meant, such as http://HEAD:8265")
    if not out.startswith("/"):
        raise UsageError("--out must be an absolute path: a folder on the cluster that every node sees")
    with tempfile.TemporaryDirectory(prefix="distprove-submit-", dir=temporary_root()) as folder:
        environment: dict[str, Any] = {}
        subject = str(path)
        if path.exists():
            job = Job.from_toml(path)
            secret = where.scheme == "https" or is_loopback(where.hostname)
            subject, environment = JOB_FILE, {"working_dir": folder}
            for file in pack(job, Path(folder), send=secret):
                tell(f"{file} must be on every node, under this path")
        elif not path.is_absolute():
            raise InputError(f"{path}: no file here, and not an absolute path of the cluster")
        entry = shlex.join([*command, "prove", subject, "--out", out, "--resume"])
        prepare(ExecutorSettings(address="auto"))  # as for any Ray that is there
        from ray.job_submission import JobSubmissionClient

        late = time.monotonic() + patience.SUBMISSION_RETRIES
        while True:
            try:
                client = JobSubmissionClient(address)
                return client, client.submit_job(entrypoint=entry, submission_id=id, runtime_env=environment)
            except Exception as error:  # Ray raises RuntimeError, ConnectionError and those of its HTTP client
                if NOT_YET not in str(error) or time.monotonic() > late:
                    hint = f"; {PLAIN}" if where.scheme == "https" and isinstance(error, ConnectionError) else ""
                    raise ClusterError(f"Ray at {address} does not take the job: {first_line(error)}{hint}") from None
            time.sleep(patience.SUBMISSION_LOOK)


def follow(client: Any, id: str, show: Callable[[str], None]) -> int:
    """Show what a submitted job writes until it is over; its exit code, as of the command line. Ctrl-C stops the job.

    Raises KeyboardInterrupt, and ClusterError when the cluster is gone.
    """
    try:
        asyncio.run(_tail(client, id, show))
        while not client.get_job_status(id).is_terminal():
            time.sleep(patience.SUBMISSION_LOOK)
        code = client.get_job_info(id).driver_exit_code
        status = client.get_job_status(id).value
    except KeyboardInterrupt:
        client.stop_job(id)
        raise
    except Exception as error:
        raise ClusterError(f"no word of the job {id} any more: {first_line(error)}") from None
    if code is None:  # it did not come to run, or was killed
        return 0 if status == "SUCCEEDED" else JobFailed.exit_code
    return int(code)


async def _tail(client: Any, id: str, show: Callable[[str], None]) -> None:
    async for text in client.tail_job_logs(id):
        show(text.expandtabs())  # Ray's own lines have tabs
