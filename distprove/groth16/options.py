"""The options of Groth16: the part of a job file that belongs to it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import InputError, UsageError
from distprove.formats.files import is_file
from distprove.formats.names import is_name
from distprove.options import MAX_PARTITIONS, InputFile, expand, setting


@dataclass(frozen=True)
class Groth16Options:
    """A Groth16 key with either `inputs` and their witness program `wasm`, or `witnesses`."""

    zkey: Path = setting("The proving key.", flag="--zkey")
    wasm: Path | None = setting("circom's witness program, for the inputs.", None, flag="--wasm")
    inputs: tuple[InputFile, ...] = setting(
        "JSON inputs of the witness program: files, globs, folders.", (), flag="--input", metavar="I.json..."
    )
    witnesses: tuple[InputFile, ...] = setting(
        "Finished witnesses: files, globs, folders.", (), flag="--wtns", metavar="W.wtns..."
    )
    vk: Path | None = setting("A verification_key.json that the key must agree with.", None, flag="--vk")

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
