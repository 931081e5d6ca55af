"""The options of the STARK: the part of a job file that belongs to it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from distprove.errors import InputError, UsageError
from distprove.formats.files import is_file
from distprove.formats.owncode import names_code
from distprove.options import MAX_PARTITIONS, SECURITY_BITS, InputFile, check_keys, keys_of, setting, settings_of


@dataclass(frozen=True)
class StarkOptions:
    """A STARK program with its arguments, the number of partitions, and the parameters that give its security."""

    program: str = setting("A program that ships, or one of your own as module:Class.")
    arguments: Mapping[str, int | str] = setting("The program's own; paths are relative to the job file.", dict)
    """All arguments of the program, checked, with absolute paths; a user's own program checks its arguments itself."""
    partitions: int = setting("Partitions to cut it into.", 1, bounds=(1, MAX_PARTITIONS), flag="--partitions")
    blowup: int = setting("2, 4 or 8: larger proofs faster, or smaller ones slower.", 2, bounds=(2, 8), flag="--blowup")
    security: int = setting("Proven bits; queries follow.", SECURITY_BITS, bounds=(1, 128), flag="--security")
    grinding: int = setting("Bits of proof of work before the queries.", 16, bounds=(0, 40), flag="--grinding")
    queries: int | None = setting(
        "Queries, for programs that do not say how tall they are.", None, bounds=(1, 1024), flag="--queries"
    )

    @classmethod
    def from_table(cls, table: Mapping[str, Any], base: Path) -> StarkOptions:
        """Read a job file's table, with paths relative to `base`. Raises UsageError, and InputError for bad files."""
        if "program" not in table:
            raise UsageError("no `program`: what to prove")
        chosen = {key: table[key] for key in keys_of(cls) if key in table and key != "arguments"}
        options = cls(**chosen, arguments=_arguments(table["program"], table.get("arguments", {}), base))
        options.check()
        return options

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> StarkOptions:
        """Read job.json's options. Raises KeyError or TypeError for a bad record, InputError for missing files."""
        check_keys(record, {**keys_of(cls), "queries": (int, NoneType)}, "options.")
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
        for name, told in settings_of(StarkOptions).items():
            value, (least, most) = getattr(self, name), told.bounds or (0, 0)
            if told.bounds is not None and value is not None and not least <= value <= most:
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
