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

Paths are relative to the file. Unknown keys are refused with the nearest right name.
"""

from __future__ import annotations

import difflib
import glob
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from distprove.errors import InputError, UsageError
from distprove.names import is_name, name_after, natural_key, unique

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SYSTEMS = ("groth16",)
MAX_JOB_FILE = 1 << 24
MAX_PARTITIONS = 1 << 20


@dataclass(frozen=True)
class ExecutorSettings:
    """How a job is run. None means: chosen from what the machine or cluster has."""

    local: bool = False
    """Run in this process, without Ray."""
    address: str | None = None
    """A Ray cluster to join ("auto", or host:port); None starts one for the purpose."""
    backend: str = "auto"
    """"auto", "cpu", "cuda", or "module:factory" for a third backend."""
    gpus: int | None = None
    """Provers on GPUs, at most; 0 forbids GPUs."""
    threads: int | None = None
    """CPU threads per node, for provers without a GPU, synthesis and verification."""
    synthesisers: int | None = None
    """Synthesiser actors in all."""
    memory: int | None = None
    """Bytes of host memory per node for witnesses in the making and on their way."""
    in_flight: int = 2
    """Partitions handed to a prover at a time: the second one's witness travels while the first is proven."""
    max_retries: int = 3
    """How often a partition is tried again after a bad proof, a fault or a death before it counts as failed."""
    start_timeout: float = 600.0
    """Seconds a worker may take to load its key, first or after a restart, before it is given up."""

    def __post_init__(self) -> None:
        if self.local and self.address is not None:
            raise UsageError("local and address exclude each other")
        for name, least in (("gpus", 0), ("threads", 1), ("synthesisers", 1), ("memory", 1 << 20)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} must be at least {least}, not {value}")
        if self.in_flight < 1 or self.max_retries < 0 or self.start_timeout <= 0:
            raise UsageError("in_flight must be at least 1, max_retries at least 0, start_timeout above 0")


@dataclass(frozen=True)
class InputFile:
    """One input: the file, and the name of the partition made from it."""

    name: str
    path: Path


@dataclass(frozen=True)
class Groth16Options:
    """A Groth16 program with its key and inputs. Either `inputs` with `wasm`, or `witnesses`."""

    zkey: Path
    wasm: Path | None = None
    inputs: tuple[InputFile, ...] = ()
    """JSON inputs for the circuit's witness program."""
    witnesses: tuple[InputFile, ...] = ()
    """Witnesses already made (.wtns)."""
    vk: Path | None = None
    """snarkjs verification_key.json that the zkey's own key must equal."""


@dataclass(frozen=True)
class Job:
    """What to prove, and how to run it. Paths are absolute, inputs expanded and named."""

    system: str
    options: Groth16Options
    title: str = ""
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)

    @classmethod
    def from_toml(cls, path: Path) -> Job:
        """Read a job file. Raises InputError for the file, UsageError for what it says."""
        try:
            if path.stat().st_size > MAX_JOB_FILE:
                raise InputError(f"{path}: a job file of more than {MAX_JOB_FILE} bytes")
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
        zkey: str | Path,
        wasm: str | Path | None = None,
        inputs: str | Path | Sequence[str | Path] = (),
        witnesses: str | Path | Sequence[str | Path] = (),
        vk: str | Path | None = None,
        title: str = "",
        executor: ExecutorSettings | None = None,
        base: Path | None = None,
    ) -> Job:
        """A job from flags or Python; the keys of a job file, with paths relative to `base` (default: here)."""
        table: dict[str, Any] = {"system": system, "title": title, "zkey": zkey, "wasm": wasm, "vk": vk}
        table.update(inputs=_paths(inputs), witnesses=_paths(witnesses))
        given = {key: str(v) if isinstance(v, Path) else v for key, v in table.items() if v is not None and v != []}
        job = _job_from_table(given, (base or Path.cwd()).resolve())
        return cls(job.system, job.options, job.title, executor or ExecutorSettings())

    @classmethod
    def from_record(cls, record: Any) -> Job:
        """The job that `to_record` wrote; files must still exist. Raises InputError."""
        try:
            options = dict(record["options"])
            for key in ("zkey", "wasm", "vk"):
                options[key] = Path(options[key]) if options[key] is not None else None
            for key in ("inputs", "witnesses"):
                options[key] = tuple(InputFile(str(item["name"]), Path(item["path"])) for item in options[key])
            job = cls(
                str(record["system"]),
                Groth16Options(**options),
                str(record["title"]),
                ExecutorSettings(**record["executor"]),
            )
        except (KeyError, TypeError, UsageError) as error:
            raise InputError(f"not the record of a job ({type(error).__name__}: {error})") from None
        _check_groth16(job.options)
        return job

    def to_record(self) -> dict[str, Any]:
        """Plain data for job.json: paths, names and settings; no content of any file."""

        def plain(value: Any) -> Any:
            if isinstance(value, Path):
                return str(value)
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

        record: dict[str, Any] = plain(asdict(self))
        return record

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The inputs or witnesses, one per partition, in order."""
        return self.options.inputs or self.options.witnesses


_GROTH16_KEYS = {"zkey": str, "wasm": str, "vk": str, "inputs": list, "witnesses": list}
_COMMON_KEYS = {"system": str, "title": str, "executor": dict}
_EXECUTOR_KEYS: dict[str, type | tuple[type, ...]] = {
    "local": bool,
    "address": str,
    "backend": str,
    "gpus": int,
    "threads": int,
    "synthesisers": int,
    "memory": (int, str),
    "in_flight": int,
    "max_retries": int,
    "start_timeout": (int, float),
}


def _job_from_table(table: Mapping[str, Any], base: Path) -> Job:
    system = table.get("system")
    if system is None:
        # A misspelt `system` is better named as that than as missing.
        _check_keys(table, {**_COMMON_KEYS, **_GROTH16_KEYS}, "")
        raise UsageError(f'no `system`; expected system = "{SYSTEMS[0]}"')
    if system not in SYSTEMS:
        raise UsageError(
            f"unknown proof system {system!r}{_nearest(str(system), SYSTEMS)}; known: {', '.join(SYSTEMS)}"
        )
    if isinstance(table.get("inputs"), str) or isinstance(table.get("witnesses"), str):
        table = {k: [v] if k in ("inputs", "witnesses") and isinstance(v, str) else v for k, v in table.items()}
    _check_keys(table, {**_COMMON_KEYS, **_GROTH16_KEYS}, "")
    settings = dict(table.get("executor", {}))
    _check_keys(settings, _EXECUTOR_KEYS, "executor.")
    if isinstance(settings.get("memory"), str):
        settings["memory"] = parse_bytes(settings["memory"])
    if "zkey" not in table:
        raise UsageError("no `zkey`: the proving key")
    for key in ("inputs", "witnesses"):
        if not all(isinstance(item, str) for item in table.get(key, [])):
            raise UsageError(f"{key} must be a list of strings")
    if bool(table.get("inputs")) == bool(table.get("witnesses")):
        raise UsageError("give either `inputs` (with `wasm`) or `witnesses`")
    if bool(table.get("inputs")) != ("wasm" in table):
        raise UsageError("`inputs` and `wasm` (the circuit's witness program) go together")
    options = Groth16Options(
        zkey=base / table["zkey"],
        wasm=base / table["wasm"] if "wasm" in table else None,
        inputs=expand(table.get("inputs", []), base, ".json"),
        witnesses=expand(table.get("witnesses", []), base, ".wtns"),
        vk=base / table["vk"] if "vk" in table else None,
    )
    _check_groth16(options)
    return Job(system, options, table.get("title", ""), ExecutorSettings(**settings))


def _check_groth16(options: Groth16Options) -> None:
    sources = options.inputs or options.witnesses
    if not 1 <= len(sources) <= MAX_PARTITIONS:
        raise InputError(f"a job has 1 to {MAX_PARTITIONS} partitions, not {len(sources)}")
    if len({source.name.lower() for source in sources}) != len(sources) or not all(is_name(s.name) for s in sources):
        raise InputError("partition names must be distinct and fit for file names")
    for what, path in (("zkey", options.zkey), ("wasm", options.wasm), ("vk", options.vk)):
        if path is not None and not path.is_file():
            raise InputError(f"{what}: no file at {path}")
    for source in sources:
        if not source.path.is_file():
            raise InputError(f"input {source.name}: no file at {source.path}")


def expand(patterns: Iterable[str | Path], base: Path, suffix: str) -> tuple[InputFile, ...]:
    """Files, globs (`**` included) and folders as named inputs, in order.

    Patterns keep their order; the files of one glob or folder are sorted naturally (`in2` before `in10`). A folder
    gives its files that end in `suffix`. A file that several patterns reach counts once. Names follow
    `names.name_after`; files of equal name become `name`, `name-2`, ... in order. A pattern that gives nothing raises
    InputError.
    """
    files: dict[Path, Path] = {}
    for pattern in patterns:
        path = base / pattern
        if path.is_file():
            found = [path]
        elif path.is_dir():
            found = [p for p in path.iterdir() if p.suffix == suffix and p.is_file()]
        else:
            matches = glob.iglob(str(pattern), root_dir=base, recursive=True)
            found = [p for p in (base / match for match in matches) if p.is_file()]
        if not found:
            kind = f"folder without {suffix} files" if path.is_dir() else "no file matches"
            raise InputError(f"{pattern}: {kind}")
        for file in sorted(found, key=natural_key):
            files.setdefault(file.resolve(), file)  # named as it was given, also when it is a link
        if len(files) > MAX_PARTITIONS:
            raise InputError(f"{pattern}: a job has at most {MAX_PARTITIONS} inputs")
    given = list(files.values())
    return tuple(InputFile(name, path) for name, path in zip(unique(map(name_after, given)), given, strict=True))


def parse_bytes(text: str) -> int:
    """Bytes from "48GiB", "500 MB" or "1024". Raises UsageError."""
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([kmgt]?)(i?)(b?)\s*", text, re.IGNORECASE | re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not a size in bytes; write it like 48GiB or 500MB")
    power = " kmgt".index(match[2].lower()) if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _paths(value: str | Path | Sequence[str | Path]) -> list[str]:
    return [str(value)] if isinstance(value, (str, Path)) else [str(item) for item in value]


def _check_keys(table: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]], prefix: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"unknown key `{prefix}{key}`{_nearest(key, known)}; known: {', '.join(known)}")
        kinds = known[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            wanted = " or ".join(_KINDS[kind] for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
            raise UsageError(f"`{prefix}{key}` must be {wanted}, not {_KINDS.get(type(value), type(value).__name__)}")


_KINDS = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean `{close[0]}`?" if close else ""
