"""The options of each proof system: the part of a job file that belongs to Groth16 or to the STARK alone.

Each class reads its keys from a job file's table (`from_table`, paths relative to the file) and from a run's job.json
(`from_record`), with the same checks.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from distprove.errors import InputError, UsageError
from distprove.formats.files import is_file
from distprove.formats.names import is_name, name_after, natural_key, unique
from distprove.formats.nearest import nearest
from distprove.formats.owncode import names_code

MAX_PARTITIONS = 1 << 20
SECURITY_BITS = 128
"""Default proven security of a STARK in bits: what a prover reaches, and what a verifier requires."""

Keys = Mapping[str, "type | tuple[type, ...]"]


@dataclass(frozen=True)
class InputFile:
    """An input file and the name of the partition that is made from it."""

    name: str
    path: Path


@dataclass(frozen=True)
class Groth16Options:
    """A Groth16 key with either `inputs` and their witness program `wasm`, or `witnesses`."""

    KEYS: ClassVar[Keys] = {"zkey": str, "wasm": str, "vk": str, "inputs": (list, str), "witnesses": (list, str)}

    zkey: Path
    wasm: Path | None = None
    inputs: tuple[InputFile, ...] = ()
    """JSON inputs for the circuit's witness program."""
    witnesses: tuple[InputFile, ...] = ()
    """Finished witnesses (.wtns)."""
    vk: Path | None = None
    """A snarkjs verification_key.json that the zkey's own verification key must equal."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any], base: Path) -> Groth16Options:
        """Read a job file's table, with paths relative to `base`. Raises UsageError, and InputError for bad files."""
        if "zkey" not in table:
            raise UsageError("no `zkey`: the proving key")
        given = {key: table.get(key, []) for key in ("inputs", "witnesses")}
        files = {key: [value] if isinstance(value, str) else value for key, value in given.items()}
        for key, patterns in files.items():
            if not all(isinstance(item, str) for item in patterns):
                raise UsageError(f"{key} must be a list of strings")
        if bool(files["inputs"]) == bool(files["witnesses"]):
            raise UsageError("give either `inputs` (with `wasm`) or `witnesses`")
        if bool(files["inputs"]) != ("wasm" in table):
            raise UsageError("`inputs` and `wasm` (the circuit's witness program) go together")
        options = cls(
            zkey=base / table["zkey"],
            wasm=base / table["wasm"] if "wasm" in table else None,
            inputs=expand(files["inputs"], base, ".json"),
            witnesses=expand(files["witnesses"], base, ".wtns"),
            vk=base / table["vk"] if "vk" in table else None,
        )
        options.check()
        return options

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Groth16Options:
        """Read job.json's options. Raises KeyError or TypeError for a bad record, InputError for missing files."""
        options = dict(record)
        for key in ("zkey", "wasm", "vk"):
            options[key] = Path(options[key]) if options[key] is not None else None
        for key in ("inputs", "witnesses"):
            options[key] = tuple(InputFile(str(item["name"]), Path(item["path"])) for item in options[key])
        made = cls(**options)
        made.check()
        return made

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The input or witness files, one per partition, in order."""
        return self.inputs or self.witnesses

    def check(self) -> None:
        """Raise InputError unless every file exists and the partition names are valid and distinct."""
        if not 1 <= len(self.sources) <= MAX_PARTITIONS:
            raise InputError(f"a job has 1 to {MAX_PARTITIONS} partitions, not {len(self.sources)}")
        names = {source.name.lower() for source in self.sources}
        if len(names) != len(self.sources) or not all(is_name(s.name) for s in self.sources):
            raise InputError("partition names must be distinct and fit for file names")
        for what, path in (("zkey", self.zkey), ("wasm", self.wasm), ("vk", self.vk)):
            if path is not None and not is_file(path):
                raise InputError(f"{what}: no file at {path}")
        for source in self.sources:
            if not is_file(source.path):
                raise InputError(f"input {source.name}: no file at {source.path}")


@dataclass(frozen=True)
class StarkOptions:
    """A STARK program with its arguments, the number of partitions, and the parameters that give its security."""

    KEYS: ClassVar[Keys] = {
        "program": str,
        "arguments": dict,
        "partitions": int,
        "blowup": int,
        "security": int,
        "grinding": int,
        "queries": int,
    }

    program: str
    """The name of a program that ships, or a user's own program as MODULE:CLASS."""
    arguments: Mapping[str, int | str] = field(default_factory=dict)
    """All arguments of the program, checked, with absolute paths; a user's own program checks its arguments itself."""
    partitions: int = 1
    blowup: int = 2
    security: int = SECURITY_BITS
    """Bits of proven security that a proof must reach; the number of queries follows from it."""
    grinding: int = 16
    """Bits of proof of work before the queries."""
    queries: int | None = None
    """Number of queries, for programs that do not tell the heights of their tables."""

    @classmethod
    def from_table(cls, table: Mapping[str, Any], base: Path) -> StarkOptions:
        """Read a job file's table, with paths relative to `base`. Raises UsageError, and InputError for bad files."""
        if "program" not in table:
            raise UsageError("no `program`: what to prove")
        chosen = {key: table[key] for key in cls.KEYS if key in table and key != "arguments"}
        options = cls(**chosen, arguments=_arguments(table["program"], table.get("arguments", {}), base))
        options.check()
        return options

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> StarkOptions:
        """Read job.json's options. Raises KeyError or TypeError for a bad record, InputError for missing files."""
        check_keys(record, {**cls.KEYS, "queries": (int, type(None))}, "options.")
        arguments = _arguments(record["program"], record["arguments"], Path())
        made = cls(**{**record, "arguments": arguments})
        made.check()
        return made

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files that the program reads, each named after the argument that holds its path."""
        return tuple(InputFile(name, Path(str(self.arguments[name]))) for name in _path_arguments(self.program))

    def check(self) -> None:
        """Raise UsageError for numbers out of range, InputError for files that do not exist."""
        if self.blowup not in (2, 4, 8):
            raise UsageError(f"blowup must be 2, 4 or 8, not {self.blowup}")
        limits = {"partitions": (1, MAX_PARTITIONS), "security": (1, 128), "grinding": (0, 40), "queries": (1, 1024)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageError(f"{name} must be from {least} to {most}, not {value}")
        for source in self.sources:
            if not is_file(source.path):
                raise InputError(f"{source.name}: no file at {source.path}")


def _arguments(program: str, given: Mapping[str, Any], base: Path) -> dict[str, int | str]:
    """The program's arguments with absolute paths, checked against its registry entry. Raises UsageError."""
    from distprove.stark.programs import find_program

    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise UsageError(f"`arguments.{name}` must be an integer or a string")
    if names_code(program):
        return dict(given)
    values = find_program(program).values(given)
    return {**values, **{name: str((base / str(values[name])).resolve()) for name in _path_arguments(program)}}


def _path_arguments(program: str) -> list[str]:
    from distprove.stark.programs import find_program

    return [] if names_code(program) else [a.name for a in find_program(program).arguments if a.kind == "path"]


def expand(patterns: Iterable[str | Path], base: Path, suffix: str) -> tuple[InputFile, ...]:
    """Expand files, globs (`**` included) and folders into named inputs, in order.

    Patterns keep their order; the files of one glob or folder are sorted naturally (`in2` before `in10`). A folder
    stands for its files that end in `suffix`. A file that several patterns match counts once. Names follow
    `names.name_after`; files of equal name become `name`, `name-2`, ... in order. Raises InputError for a pattern that
    matches nothing.
    """
    files: dict[Path, Path] = {}
    for pattern in patterns:
        path = base / pattern
        try:
            folder = path.is_dir()
            found = _matches(path, str(pattern), base, suffix if folder else None)
        except (OSError, ValueError) as error:  # a name that no file can have, a folder that may not be read
            raise InputError(f"{pattern}: {getattr(error, 'strerror', None) or error}") from None
        if not found:
            kind = f"folder without {suffix} files" if folder else "no file matches"
            raise InputError(f"{pattern}: {kind}")
        for file in sorted(found, key=natural_key):
            files.setdefault(file.resolve(), file)  # named as it was given, also when it is a link
        if len(files) > MAX_PARTITIONS:
            raise InputError(f"{pattern}: a job has at most {MAX_PARTITIONS} inputs")
    given = list(files.values())
    return tuple(InputFile(name, path) for name, path in zip(unique(map(name_after, given)), given, strict=True))


def _matches(path: Path, pattern: str, base: Path, suffix: str | None) -> list[Path]:
    """The files that one pattern matches. `path` is the pattern as a path; `suffix` is given if that is a folder."""
    if suffix is not None:
        return [p for p in path.iterdir() if p.suffix == suffix and p.is_file()]
    if path.is_file():
        return [path]
    return [p for p in (base / match for match in glob.iglob(pattern, root_dir=base, recursive=True)) if p.is_file()]


def check_keys(table: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]], prefix: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"unknown key `{prefix}{key}`{nearest(key, known)}; known: {', '.join(known)}")
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
    type(None): "nothing",
}
