"""What a service takes from its clients: bounds, and checks of each job before anything of it is opened."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import Any

from cluster.service.views import JobRequest, Priority
from distprove.errors import UsageError
from distprove.formats.files import opening_only
from distprove.formats.owncode import is_found
from distprove.formats.remote import is_url
from distprove.formats.visible import bounded
from distprove.job import Job, options_of
from distprove.registry import entry_of
from distprove.settings import ExecutorSettings
from kernels.host.units import count_of

MAX_TITLE, MAX_PATH = 1000, 4096
"""Characters of a title, which is kept and told in every list of jobs, and of a path. The kernel opens no longer path,
and finding out where one leads takes time that grows with the square of its length."""


_ZERO = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""A zero byte in JSON, and no backslash before `u0000`."""
ELSEWHERE = "a link leads to a file that is not in a folder that this service takes files from"


@dataclass(frozen=True)
class Limits:
    """What a service takes on, and what it lets its clients ask for."""

    queued: int = 10_000
    """Jobs that may wait at a time."""
    queued_bytes: int = 1 << 30
    """Bytes of memory that the inputs of jobs which are not over take, all together: those that were given as values,
    and the names of the others, a KiB each."""
    running: int = 64
    """Jobs that are worked on at a time, of one priority and the more urgent ones together: an urgent job does not wait
    for a place that a less urgent one has. Of short jobs eight times as many (`cluster.service.service.LIGHT`)."""
    request_bytes: int = 64 << 20
    """Bytes of one job as JSON, with the inputs that it holds."""
    kept: int = 10_000
    """Jobs that are over and still known."""
    kept_seconds: float | None = None
    """Seconds for which a job that is over stays known; None for ever."""
    roots: tuple[Path, ...] | None = None
    """Folders in which all files of a job must lie; None for no such rule."""
    allow_code: bool = False
    """Whether jobs may name programs of their own, MODULE:CLASS, which the service then imports and runs."""


@dataclass
class Looked:
    """What was looked at for jobs that are asked for together, or that begin together."""

    bases: dict[str, Path] = field(default_factory=dict)
    """Where the bases of jobs lead."""
    allowed: set[Path] = field(default_factory=set)
    """Paths that were seen to be allowed."""
    texts: set[tuple[Path, str]] = field(default_factory=set)
    """Texts of jobs that mean such a path, by the base they are relative to."""


def usual_priority(job: Job) -> Priority:
    """The priority of a job for which none is asked."""
    for setting, priority in entry_of(job.system).deadlines.items():
        if getattr(job.options, setting, None) is not None:
            return Priority(priority)
    return Priority.NORMAL


def job_of(
    request: JobRequest, settings: ExecutorSettings, limits: Limits, folder: Path, looked: Looked | None = None
) -> Job:
    """The job that is asked for, with the service's settings. `folder` is the service's own, which is no job's to name.
    Files that were `looked` at just before, for jobs that are asked for with it, are not looked at again; the others
    are added.

    Raises UsageError and InputError. No message quotes an input.
    """
    table = {key: value for key, value in request.job.items() if value is not None}
    if "executor" in table:
        raise UsageError("`executor` is not for a job of a service, which has workers of its own: leave it out")
    # Before anything is looked for: that there is no such file is told of allowed places alone.
    longest = max(map(len, (request.base, *_texts(table))))
    if longest > MAX_PATH:
        raise UsageError(f"a text in a job, such as a path, has at most {MAX_PATH} characters, not {longest}")
    system, title = table.get("system"), table.pop("title", "")
    if not isinstance(system, str) or not isinstance(title, str):
        raise UsageError("a job names its `system`, and both `system` and `title` are strings")
    if len(title) > MAX_TITLE:
        raise UsageError(f"a title has at most {MAX_TITLE} characters, not {len(title)}")
    looked = Looked() if looked is None else looked
    base = looked.bases.get(request.base) or real_base(request.base)
    looked.bases[request.base] = base

    def judged(text: str) -> str:
        """A text that names files, once it is seen to lead to an allowed place; without `..`, which would have what it
        means depend on folders elsewhere, and tell of them."""
        if (base, text) in looked.texts:
            return text
        if is_url(text):
            raise UsageError("this service fetches nothing from elsewhere: name files of its own machine, not URLs")
        place, rest = _before_patterns(Path(text))
        if ".." in place.parts:
            place = _real((base / place).parent) / place.name if place.name != ".." else _real(base / place)
        path = base / place
        if path not in looked.allowed:
            real, is_inside = _real(path), _is_in(path, limits)
            note = "" if os.path.isabs(text) or _is_in(base, limits) else f": paths of this job are relative to {base}"
            _require_allowed(real, limits, folder, named=real if is_inside else path, note=note)
            if ".." in rest.parts:
                _require_allowed(Path(os.path.normpath(path / rest)), limits, folder)
            if not has_magic(text):
                looked.allowed.add(path)
        meant = str(place / rest) if text else text
        if meant == text and path in looked.allowed:
            looked.texts.add((base, text))
        return meant

    named = options_of(table).with_files(table, judged)
    job = Job.from_table(named.pop("system"), title, named, base)
    if job.code and not limits.allow_code:
        raise UsageError(
            "this service runs no programs of its clients' own: name one that ships with distprove, or start the "
            "service with `distprove up --allow-code`"
        )
    lost = next((name for name in job.code if not is_found(name)), None)
    if lost is not None:  # of the top-level module; it is imported only when the job begins
        raise UsageError(
            f"this service finds no module of {bounded(lost, 100)}: it looks in the folder where `distprove up` ran "
            "and in what is installed, not beside a job file; start it in the program's folder"
        )
    require_allowed_files(job, limits, folder, looked)
    with files_stay_allowed(limits, folder):
        job.check()
    return replace(job, executor=settings, code_folder="")  # where code lies is not for a client to choose


def require_allowed_files(job: Job, limits: Limits, folder: Path, looked: Looked) -> None:
    """Raise UsageError unless all files that a job names are allowed, wherever links lead. A job is asked when it is
    submitted, and when it begins: it may have waited while links were laid, or been taken by a service with other
    limits. Those that were `looked` at just before are not looked at again; the others are added."""
    new = [path for path in job.files if path not in looked.allowed]
    require_allowed(new, limits, folder)
    looked.allowed.update(new)


def require_allowed(paths: Iterable[Path], limits: Limits, folder: Path) -> None:
    """Raise UsageError unless these files are allowed, wherever links lead."""
    for path in paths:
        try:
            _require_allowed(_real(path), limits, folder)
        except UsageError:  # which may name what a pattern found by a link
            raise UsageError(ELSEWHERE) from None


def files_stay_allowed(limits: Limits, folder: Path) -> AbstractContextManager[None]:
    """A block in which the files of a job are opened: each is looked at once more when it is open, as links may have
    been laid since. One that is elsewhere raises UsageError."""

    def allowed(path: Path) -> None:
        try:
            _require_allowed(path, limits, folder)
        except UsageError:
            raise UsageError(ELSEWHERE) from None

    return opening_only(allowed)


def out_of(request: JobRequest, limits: Limits, folder: Path) -> Path | None:
    """The run's folder that the client names, if it does. Raises UsageError."""
    if request.out is None:
        return None
    out = Path(request.base or "/") / request.out
    if not out.is_absolute():
        raise UsageError("`out` is an absolute path on the service's machine, or relative to a base that is one")
    if len(os.fsencode(out)) > MAX_PATH:
        raise UsageError(f"`out` has at most {MAX_PATH} bytes, not {len(os.fsencode(out))}")
    if out.name in ("", ".."):
        raise UsageError("`out` ends in the name of a folder, not in `..`")
    return allowed_out(out, limits, folder)


def allowed_out(out: Path, limits: Limits, folder: Path) -> Path:
    """The folder of a run that is not in the service's own, without links above it. Raises UsageError."""
    out = _real(out.parent) / out.name
    _require_allowed(out, limits, folder)
    return out


def digest_of(request: JobRequest, key: bytes, limits: Limits) -> bytes:
    """A digest of what is asked for, under the service's secret key: without it nobody can test guesses of an input.
    Raises UsageError for what is too large, or not JSON."""
    asked = {"job": request.job, "base": request.base, "out": request.out}
    try:
        text = json.dumps(asked, sort_keys=True, allow_nan=False).encode()
        if rb"\ud" in text:  # half of a pair is in no text that can be kept
            json.dumps(asked, ensure_ascii=False).encode()
        if rb"\u0000" in text and _ZERO.search(text):
            raise UsageError("a text in a job has a zero byte, which no name of a file has")
    except (TypeError, ValueError, RecursionError):
        raise UsageError(
            "a job is made of what JSON has: objects, lists, strings of UTF-8, numbers, true, false, null"
        ) from None
    if len(text) > limits.request_bytes:
        raise UsageError(f"a job has at most {count_of(limits.request_bytes, 'byte')} as JSON, not {len(text)}")
    return hashlib.blake2b(text, key=key, digest_size=32).digest()


def _texts(value: Any) -> Iterator[str]:
    """Strings in a job, and keys: those outside of inputs that are given as values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            if not isinstance(inner, dict):
                yield from _texts(inner)


def real_base(base: str) -> Path:
    """Where the base of a job leads. Raises UsageError."""
    path = Path(base or "/")
    if not path.is_absolute():
        raise UsageError("the base of a job is an absolute path on the service's machine")
    return _real(path)


def _before_patterns(path: Path) -> tuple[Path, Path]:
    """The part of a path that names one place, which is what comes before wildcards; and the rest."""
    if not has_magic(str(path)):
        return path, Path()
    place = Path(*takewhile(lambda part: not has_magic(part), path.parts))
    return place, path.relative_to(place)


def _real(path: Path) -> Path:
    """Where a path leads. Raises UsageError.

    The kernel is asked, in three calls; `realpath` asks it about every folder on the way, and a job has many paths.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, AttributeError):  # there is nothing, or this is not Linux
        return Path(os.path.realpath(path))
    except ValueError:
        raise UsageError("a name with a zero byte is that of no file") from None
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        real = ""
    finally:
        os.close(descriptor)
    # What is deleted meanwhile has a remark for a name, and what lies outside of this process's root none.
    gone = not real.startswith("/") or real.endswith(" (deleted)")
    return Path(os.path.realpath(path) if gone else real)


def _holds(folder: Path, path: Path) -> bool:
    """Whether a path is a folder's or leads into it. Not by `Path.parents`, which makes a path of each."""
    return path.parts[: len(folder.parts)] == folder.parts


def _is_in(path: Path, limits: Limits) -> bool:
    """Whether a path is one of the roots' or leads into one."""
    return limits.roots is None or any(_holds(root, path) for root in limits.roots)


def _require_allowed(path: Path, limits: Limits, folder: Path, named: Path | None = None, note: str = "") -> None:
    """Raise UsageError, which says how the path is `named`, for one that is not in a folder of the limits."""
    if _holds(folder, path):
        raise UsageError(f"{named or path} is the service's own")
    if not _is_in(path, limits):
        raise UsageError(f"{named or path} is not in a folder that this service takes files from{note}")
