"""Proof systems that stay loaded between jobs, while the files that they were made from are the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from actors import patience
from cluster.record.run import common_record, json_field
from cluster.scheduler.views import identity
from distprove.errors import typed
from distprove.job import Job
from distprove.options import Options
from distprove.system import ProofSystem, TakesInputs, implements
from distprove.wanted import require_wanted

MOST = 64
"""Systems that are kept; those that were used last."""

MadeFrom = tuple[str, ...]


@dataclass
class _Loaded:
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is loaded: of jobs that come together one loads it."""
    system: ProofSystem | None = None
    known_as: str | None = None
    """Its identity for the workers, which takes longer to find out than a short job does."""
    common: Mapping[str, Any] = field(default_factory=dict)
    """What the records of its runs have in common, and the same as JSON."""
    written: Mapping[str, str] = field(default_factory=dict)


class Known(NamedTuple):
    """A proof system that is loaded, with a job's inputs."""

    system: ProofSystem
    key: str
    """Its identity."""
    common: Mapping[str, Any]
    written: Mapping[str, str]


class Systems:
    """Loads the proof systems of jobs, each once. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: OrderedDict[MadeFrom, _Loaded] = OrderedDict()

    def load(self, job: Job) -> tuple[ProofSystem, str | None]:
        """The proof system of a job, as `Job.load` gives it, and its identity for the workers. Raises as that does, and
        CalledOff."""
        loaded = self._of(job)
        if loaded is None:
            return job.load(), None
        while not loaded.lock.acquire(timeout=patience.JOB_LOOK):
            require_wanted()
        try:
            if loaded.system is None:
                system = job.load()
                loaded.common = common_record(system)
                loaded.written = {name: json_field(value) for name, value in loaded.common.items()}
                loaded.system, loaded.known_as = system, identity(system)
        finally:
            loaded.lock.release()
        return _for(job, loaded.system), loaded.known_as

    def known(self, job: Job) -> Known | None:
        """As `load`, for a job whose system is loaded; else None, at once. Raises InputError."""
        loaded = self._of(job)
        if loaded is None or loaded.system is None or loaded.known_as is None:
            return None
        return Known(_for(job, loaded.system), loaded.known_as, loaded.common, loaded.written)

    def _of(self, job: Job) -> _Loaded | None:
        """What is loaded of a job, or is to be; None for one whose key is not in files, or may be in others."""
        keyed = job.options.keyed()
        if not keyed.names_all_files or any(source.content is not None for source in keyed.sources):
            return None
        made_from = _made_from(job.system, keyed)
        with self._lock:
            loaded = self._loaded.setdefault(made_from, _Loaded())
            self._loaded.move_to_end(made_from)
            while len(self._loaded) > MOST:
                self._loaded.popitem(last=False)
            return loaded


def _for(job: Job, system: ProofSystem) -> ProofSystem:
    return cast(TakesInputs, system).with_inputs(job.sources) if implements(type(system), TakesInputs) else system


def _made_from(system: str, keyed: Options) -> MadeFrom:
    """What a job's system depends on: its options, without the inputs that may change from job to job under one key,
    and which files these name. Raises InputError."""
    files = [value for value in vars(keyed).values() if isinstance(value, Path)]
    files += [source.path for source in keyed.sources]
    return (system, repr(keyed), *map(_stamp, files))


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        raise typed(error, path) from None
    return f"{path} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
