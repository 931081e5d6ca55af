"""A job: which proof system, which program and key, which inputs, and how to run it.

A job comes from a TOML file (`Job.from_toml`), from flags or Python (`Job.from_options`), or from a run's job.json
(`Job.from_record`); all three go through the same checks. In a job file:

    system = "groth16"
    title = "votes of May"           # optional
    zkey = "circuit.zkey"
    wasm = "circuit.wasm"            # with inputs; or: witnesses = ["w/*.wtns"]
    inputs = ["inputs/*.json"]       # files, globs and folders
    vk = "verification_key.json"     # optional: must equal the key inside the zkey

    [executor]                       # optional; see ExecutorSettings
    threads = 8
    memory = "48GiB"
    policy = "static"                # or "off", "auto"
    limits = { synthesis = 4 }       # threads by phase, for "static"
    place = { msm_g2 = "cpu" }       # or "auto"; see distprove.offload

or, for a STARK:

    system = "stark"
    program = "fibonacci"            # one that ships, or a class of your own as "module:Class"
    partitions = 4
    blowup = 2                       # these three have defaults
    security = 128
    grinding = 16
    arguments = { rows = "2^20" }    # the program's own

Paths are relative to the file. Unknown keys are refused with the nearest right name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from distprove.errors import InputError, UntrustedName, UsageError
from distprove.formats.files import read_bounded
from distprove.formats.nearest import nearest
from distprove.formats.owncode import names_code
from distprove.host.phases import Phase
from distprove.offload import parse_place
from distprove.options import MAX_PARTITIONS, Groth16Options, InputFile, StarkOptions, check_keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ProofOptions = Groth16Options | StarkOptions
_OPTIONS: dict[str, type[Groth16Options] | type[StarkOptions]] = {"groth16": Groth16Options, "stark": StarkOptions}
SYSTEMS = tuple(_OPTIONS)
MAX_JOB_FILE = 1 << 24
POLICIES = ("off", "static", "auto")
"""Of a node's governor."""
MAX_TIMEOUT = 7 * 24 * 3600
_BOUNDS = {
    "gpus": (0, 4096),
    "threads": (1, 4096),
    "synthesisers": (1, 1024),
    "memory": (1 << 20, 1 << 50),
    "device_memory": (1 << 20, 1 << 50),
    "in_flight": (1, 64),
    "parallel": (1, MAX_PARTITIONS),
    "gpu_workers": (1, 64),
    "max_retries": (0, 1000),
}
"""Least and most of each setting that is an integer: beyond what a machine has, and within what one survives."""


@dataclass(frozen=True)
class ExecutorSettings:
    """How a job is run. None means: chosen from what the machine or cluster has."""

    local: bool = False
    """Run on this machine, without Ray."""
    isolate: bool | None = None
    """With `local`: each worker in a process of its own, or all on threads of this one. None: the former with GPUs."""
    address: str | None = None
    """A Ray cluster to join (host:port, or "auto": this user's on this machine); None starts one for the purpose."""
    backend: str = "auto"
    """"auto", "cpu", "cuda", or "module:factory" for a third backend."""
    gpus: int | None = None
    """Provers on GPUs, at most; 0 forbids GPUs."""
    threads: int | None = None
    """CPU threads per node, for provers without a GPU, synthesis and verification."""
    synthesisers: int | None = None
    """Synthesisers in all, shared out among the workers, at least one for each."""
    memory: int | None = None
    """Bytes of host memory per node for the key, and for witnesses in the making and on their way."""
    place: str | Mapping[str, str] | None = None
    """Where operations run, as `distprove.offload` reads it: "auto", "msm_g2=cpu,spmv=cpu", or a mapping of the
    same."""
    device_memory: int | None = None
    """Bytes of memory that each prover may use on its device, for GPUs that are shared; None: what is free there."""
    in_flight: int = 3
    """Partitions with a prover at a time: the second one's data travels while the first is proven, and the third is
    there when that is over."""
    parallel: int | None = None
    """Partitions whose witness may be in the making or ready, and not yet with a prover, at a time: shared out among
    the workers."""
    gpu_workers: int | None = None
    """Provers per node; None for one on each of its GPUs, or one on its CPUs. Several may share a GPU and its memory,
    or the CPUs."""
    max_retries: int = 3
    """How often a partition is tried again after a bad proof, a fault or a death before it counts as failed."""
    start_timeout: float = 600.0
    """Seconds a worker may take to load its key, first or after a restart, before it is given up."""
    hang_timeout: float = 60.0
    """Seconds after which a worker that gives no sign of life is ended, and the least that one step of a partition may
    take; else it may take many times as long as the longest so far."""
    policy: str = "static"
    """Who decides how much runs at once on a node: one of `POLICIES`, see docs/scheduling.md."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Threads that a phase (`distprove.host.phases.Phase`) may have at once per node; for the policy "static"."""

    def __post_init__(self) -> None:
        if self.local and self.address is not None:
            raise UsageError("local and address exclude each other")
        if self.isolate is not None and not self.local:
            raise UsageError("isolate is for local: over Ray every worker is a process")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if value is not None:
                _check_bounds(name, value, least, most)
        if self.policy not in POLICIES:
            raise UsageError(
                f"unknown policy {self.policy!r}{nearest(self.policy, POLICIES)}; known: {', '.join(POLICIES)}"
            )
        check_keys(self.limits, dict.fromkeys((phase.value for phase in Phase), int), "limits.")
        for phase, limit in self.limits.items():
            _check_bounds(f"limits.{phase}", limit, *_BOUNDS["threads"])
        if self.limits and self.policy != "static":
            raise UsageError(f"limits are for the policy static, not {self.policy}")
        for name in ("start_timeout", "hang_timeout"):
            if not 0 < getattr(self, name) <= MAX_TIMEOUT:
                raise UsageError(f"{name} must be above 0 and at most {MAX_TIMEOUT}, not {getattr(self, name)}")
        parse_place(self.place)

    def changed(self, given: Mapping[str, Any]) -> ExecutorSettings:
        """These settings with those of `given` that are not None in their place. Raises UsageError."""
        changes = {name: value for name, value in given.items() if value is not None}
        # Being told to stay on this machine is an answer to an address, and the other way round.
        if "local" in changes and "address" not in changes:
            changes["address"] = None
        if "address" in changes and "local" not in changes:
            changes = {"isolate": None, **changes, "local": False}
        if changes.get("policy", "static") != "static":
            changes["limits"] = {}  # those that were there belong to "static"
        return replace(self, **changes)


def _check_bounds(name: str, value: int, least: int, most: int) -> None:
    if value < least:
        raise UsageError(f"{name} must be at least {least}, not {value}")
    if value > most:
        raise UsageError(f"{name} must be at most {most}, not {value}")


Settings = ExecutorSettings | Mapping[str, Any]
"""Settings in place of a job's: all of them, or by name those that change."""


@dataclass(frozen=True)
class Job:
    """What to prove, and how to run it. Paths are absolute, inputs expanded and named."""

    system: str
    options: ProofOptions
    title: str = ""
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)

    def __post_init__(self) -> None:
        parse_place(self.executor.place, self.system)

    @classmethod
    def from_toml(cls, path: Path) -> Job:
        """Read a job file. Raises InputError for the file, UsageError for what it says."""
        try:
            table = tomllib.loads(read_bounded(path, MAX_JOB_FILE).decode())
        except ValueError as error:  # not TOML, not UTF-8, an integer of thousands of digits
            raise InputError(f"{path}: not a TOML file: {error}") from None
        except RecursionError:
            raise InputError(f"{path}: nested too deeply") from None
        try:
            return _job_from_table(table, path.resolve().parent)
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
        **options: Any,
    ) -> Job:
        """A job from flags or Python: `options` are the keys of a job file, those that are None left out.

        Paths may be `Path` objects and lists of them; they are relative to `base` (default: here).
        """
        given = {key: _plain(value) for key, value in options.items() if value is not None}
        table = {"system": system, "title": title, **{key: value for key, value in given.items() if value != []}}
        job = _job_from_table(table, (base or Path.cwd()).resolve())
        return cls(job.system, job.options, job.title, executor or ExecutorSettings())

    @classmethod
    def from_record(cls, record: Any, *, program: str | None = None, executor: Settings | None = None) -> Job:
        """The job that `to_record` wrote, with `executor` for its settings; files must still exist.

        A record names neither code nor a cluster: what it names of these is refused, unless the caller names a
        `program` of their own, or the settings, in its place. Raises InputError, and UsageError for such names.
        """
        try:
            options, system = record["options"], str(record["system"])
            _check_program(options.get("program"), program)
            job = cls(
                system,
                _OPTIONS[system].from_record(options if program is None else {**options, "program": program}),
                str(record["title"]),
            )
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
        record: dict[str, Any] = _plain(asdict(self))
        return record

    @property
    def code(self) -> list[str]:
        """What the job imports that does not ship: its program, its backend."""
        program = self.options.program if isinstance(self.options, StarkOptions) else ""
        return [name for name in (program, self.executor.backend) if names_code(name)]

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files that are proven about: for Groth16 one per partition, in order."""
        return self.options.sources


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
    settings = _settings({name: value for name, value in record.items() if value is not None}).changed(given)
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


_COMMON_KEYS = {"system": str, "title": str, "executor": dict}
_EXECUTOR_KEYS: dict[str, type | tuple[type, ...]] = {
    "local": bool,
    "isolate": bool,
    "address": str,
    "backend": str,
    "gpus": int,
    "threads": int,
    "synthesisers": int,
    "memory": (int, str),
    "place": (str, dict),
    "device_memory": (int, str),
    "in_flight": int,
    "parallel": int,
    "gpu_workers": int,
    "max_retries": int,
    "start_timeout": (int, float),
    "hang_timeout": (int, float),
    "policy": str,
    "limits": dict,
}


def _job_from_table(table: Mapping[str, Any], base: Path) -> Job:
    system = table.get("system")
    if system is None:
        # A misspelt `system` is better named as that than as missing.
        every = {key: kind for options in _OPTIONS.values() for key, kind in options.KEYS.items()}
        check_keys(table, {**_COMMON_KEYS, **every}, "")
        known = " or ".join(f'system = "{name}"' for name in SYSTEMS)
        raise UsageError(f"no `system`; expected {known}")
    if system not in SYSTEMS:
        raise UsageError(f"unknown proof system {system!r}{nearest(str(system), SYSTEMS)}; known: {', '.join(SYSTEMS)}")
    options = _OPTIONS[system]
    check_keys(table, {**_COMMON_KEYS, **options.KEYS}, "")
    settings = _settings(table.get("executor", {}))
    return Job(system, options.from_table(table, base), table.get("title", ""), settings)


def _settings(table: Mapping[str, Any]) -> ExecutorSettings:
    """The settings in a job file, or in a record, whose None are left out. Raises UsageError."""
    check_keys(table, _EXECUTOR_KEYS, "executor.")
    sizes = {name: table[name] for name in ("memory", "device_memory") if isinstance(table.get(name), str)}
    return ExecutorSettings(**{**table, **{name: parse_bytes(text) for name, text in sizes.items()}})


def parse_bytes(text: str) -> int:
    """Bytes from "48GiB", "500 MB" or "1024". Raises UsageError."""
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?)(b?)\s*", text, re.IGNORECASE | re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not a size in bytes; write it like 48GiB or 500MB")
    power = " kmgt".index(match[2].lower()) if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _plain(value: Any) -> Any:
    """Paths as strings, tuples as lists, at any depth."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
