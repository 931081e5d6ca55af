"""A job: which proof system, which program and key, which inputs, and how to run it.

A job comes from a TOML file (`Job.from_toml`), from flags or Python (`Job.from_options`), or from a run's job.json
(`Job.from_record`); all three go through the same checks. docs/jobs.md has the keys of a job file. Unknown ones are
refused with the nearest right name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from distprove.errors import InputError, UntrustedName, UsageError
from distprove.formats.files import is_file, read_bounded, real
from distprove.formats.jsontext import number, utf8
from distprove.formats.nearest import nearest
from distprove.formats.owncode import import_also_from, names_code
from distprove.formats.visible import bounded
from distprove.options import InputFile, Options, check_keys, keys_of, settings_of
from distprove.registry import SYSTEMS, entry_of
from distprove.settings import ExecutorSettings, Settings, settings_from
from distprove.system import ProofSystem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_JOB_FILE = 1 << 24


@dataclass(frozen=True)
class Job:
    """What to prove, and how to run it. Paths are absolute, inputs expanded and named."""

    system: str
    options: Options
    title: str = ""
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)
    code_folder: str = ""
    """The folder from which code of the user's own is imported, beside what Python finds by itself: that of the job
    file, or the one that the job was made in. Empty for a job without such code, or one from a record: a run does not
    choose where code comes from."""
    left_out: tuple[str, ...] = field(default=(), compare=False)
    """What was met among the inputs and is none, as `distprove.options.expand` names it."""

    @classmethod
    def from_toml(cls, path: Path, *, as_client: bool = False) -> Job:
        """Read a job file; see `from_table` for `as_client`. Raises InputError for the file, UsageError for what it
        says."""
        table = job_table(path)
        try:
            return _job_from_table(table, real(path).parent, as_client=as_client)
        except (UsageError, InputError) as error:
            raise type(error)(f"{path}: {error}") from None

    @classmethod
    def from_options(
        cls,
        system: str,
        *,
        title: str = "",
        executor: ExecutorSettings | None = None,
        base: Path | None = None,
        as_client: bool = False,
        **options: Any,
    ) -> Job:
        """A job from flags or Python: `options` are the keys of a job file, those that are None left out.

        Paths may be `Path` objects and lists of them; they are relative to `base` (default: here). See `from_table` for
        `as_client`.
        """
        job = cls.from_table(system, title, options, real(base or Path.cwd()), as_client=as_client)
        return replace(job, executor=executor or settings_from({}))

    @classmethod
    def from_table(
        cls, system: str, title: str, options: Mapping[str, Any], base: Path, *, as_client: bool = False
    ) -> Job:
        """A job from `options` as `from_options` takes them; `base` is a folder's real path. A job `as_client` is for a
        service, which makes the checks that need code that computes (`Options.check_as_client`)."""
        given = {key: _plain(value) for key, value in options.items() if value is not None}
        there = {key: value for key, value in given.items() if not isinstance(value, list) or value}
        table = {"system": system, "title": title, **there}
        return _job_from_table(table, base, as_client=as_client)

    @classmethod
    def from_record(cls, record: Any, *, program: str | None = None, executor: Settings | None = None) -> Job:
        """The job that `to_record` wrote, with `executor` for its settings; files must still exist.

        A record names neither code nor a cluster: what it names of these is refused, unless the caller names a
        `program` of their own, or the settings, in its place. Raises InputError, and UsageError for such names.
        """
        if executor is not None and not isinstance(executor, ExecutorSettings):
            ExecutorSettings().changed(executor)  # or a wrong name of the caller's would be told as the record's fault
        try:
            options, system = record["options"], str(record["system"])
            kind = entry_of(system).options
            _check_program(options.get(kind.code_field), program)
            named = {} if program is None else {kind.code_field: program}
            left_out = tuple(map(str, record.get("left_out", ())))
            job = cls(system, kind.from_record({**options, **named}), str(record["title"]), left_out=left_out)
            settings = executor
            if not isinstance(settings, ExecutorSettings):
                settings = _recorded_settings(record["executor"], settings or {})
            return replace(job, executor=settings)
        except UntrustedName:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
            raise InputError(f"not the record of a job ({type(error).__name__}: {error})") from None

    def to_record(self) -> dict[str, Any]:
        """Plain data for job.json: paths, names and settings; no content of any file."""
        options = {name: getattr(self.options, name) for name in settings_of(type(self.options))}
        record = {**vars(self), "options": options, "executor": vars(self.executor)}
        return {key: _plain(value) for key, value in record.items()}

    @property
    def code(self) -> list[str]:
        """What the job imports that does not ship: its program or circuit, its backend."""
        return [name for name in (self.options.names, self.executor.backend) if names_code(name)]

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files that are proven about, in order."""
        return self.options.sources

    @property
    def files(self) -> list[Path]:
        """All files of this machine that the job names; of a user's own program those that its arguments may name."""
        named = [value for value in vars(self.options).values() if isinstance(value, Path)]
        arguments = getattr(self.options, "arguments", {}).values() if self.code else ()
        given = [Path(value) for value in arguments if isinstance(value, str) and is_file(Path(value))]
        return [*named, *given, *(source.path for source in self.sources if source.is_here)]

    def find_code(self) -> None:
        """Have Python find the user's own code in `code_folder` too, if the job imports any."""
        if self.code and self.code_folder:
            import_also_from(self.code_folder)

    def check(self) -> None:
        """Raise for a job that its proof system would refuse, as far as that is known before keys and inputs are read:
        a service asks when the job is submitted. Code of the user's own runs only when the job does."""
        check = getattr(entry_of(self.system).system_class(), "check_job", None)
        if check is not None and not self.code:
            check(self.options)

    def load(self) -> ProofSystem:
        """Load the proof system with the job's program and key. Raises UsageError, and InputError for bad files."""
        if self.system not in SYSTEMS:
            raise UsageError(f"unknown proof system {self.system!r}")
        self.find_code()
        entry = entry_of(self.system)
        if not isinstance(self.options, entry.options):
            raise UsageError(f"the options of a job of {self.system} must be {entry.options.__name__}")
        system: ProofSystem = entry.system_class().from_options(self.options)
        return system


def job_table(path: Path) -> dict[str, Any]:
    """The keys of a job file. Raises InputError."""
    try:
        table: dict[str, Any] = tomllib.loads(utf8(read_bounded(path, MAX_JOB_FILE), path).decode(), parse_float=number)
        return table
    except ValueError as error:  # not TOML, not UTF-8, an integer of thousands of digits
        raise InputError(f"{path}: not a TOML file: {bounded(str(error), 200)}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


def _check_program(recorded: Any, named: str | None) -> None:
    own = isinstance(recorded, str) and names_code(recorded)
    if own and named is None:
        raise UntrustedName(
            f"the program {recorded!r} is not one that ships, and a run folder does not choose what code runs here; if "
            "you have the program and know it, name it yourself: distprove resume RUN --program MODULE:CLASS"
        )
    if named is not None and not own:
        raise UntrustedName("the program of this run ships with distprove: leave out --program")
    if named is not None and not names_code(named):
        raise UntrustedName(f"{named!r} is not one of your own, MODULE:CLASS, and the program of this run is")


def _recorded_settings(record: Mapping[str, Any], given: Mapping[str, Any]) -> ExecutorSettings:
    """The settings in a job's record, changed by what is given. Those that would let the record run code are refused:
    a backend is imported, and a driver unpickles what a cluster sends it."""
    settings = settings_from({name: value for name, value in record.items() if value is not None}).changed(given)
    if names_code(settings.backend) and given.get("backend") is None:
        raise UntrustedName(
            f"the backend {settings.backend!r} is not one that ships, and a run folder does not choose what code runs "
            "here; name a backend yourself: --backend auto, or your own as MODULE:FACTORY"
        )
    # "auto" too: what it finds is not for a run to choose either.
    if settings.address is not None and given.get("address") is None:
        raise UntrustedName(
            f"the run was made on the Ray cluster at {settings.address!r}, and a run folder does not choose which "
            "cluster is trusted; name the one to join with --address, or stay on this machine with --local"
        )
    return settings


_COMMON_KEYS = {"system": (str,), "title": (str,), "executor": (dict,)}


def options_of(table: Mapping[str, Any]) -> type[Options]:
    """The options of the proof system that a job file's table names, once its keys are checked. Raises UsageError."""
    system = table.get("system")
    if system is None:
        # A misspelt `system` is better named as that than as missing.
        every = {key: kind for name in SYSTEMS for key, kind in keys_of(entry_of(name).options).items()}
        check_keys(table, {**_COMMON_KEYS, **every}, "")
        known = " or ".join(f'system = "{name}"' for name in SYSTEMS)
        raise UsageError(f"no `system`; expected {known}")
    if system not in (*SYSTEMS,):  # it may be of any kind
        raise UsageError(f"unknown proof system {system!r}{nearest(str(system), SYSTEMS)}; known: {', '.join(SYSTEMS)}")
    options = entry_of(system).options
    keys = keys_of(options)
    tables = [key for key, kinds in keys.items() if kinds == (dict,)]
    check_keys(table, {**_COMMON_KEYS, **keys}, "", own=tables[0] if tables else "")
    return options


def _job_from_table(table: Mapping[str, Any], base: Path, *, as_client: bool = False) -> Job:
    options = options_of(table)
    settings = settings_from(table.get("executor", {}))
    left_out: list[str] = []
    read = options.from_table(table, base, left_out, as_client=as_client)
    job = Job(table["system"], read, table.get("title", ""), settings, left_out=tuple(left_out))
    return replace(job, code_folder=str(base)) if job.code else job


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _plain(value: Any) -> Any:
    """Paths as strings, tuples as lists, input files by name and path, at any depth."""
    if type(value) in _PLAIN:  # most are
        return value
    if isinstance(value, InputFile):
        here = {"name": value.name, "path": str(value.path) if value.is_here else ""}
        return here if value.url is None else {**here, "url": value.url}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
