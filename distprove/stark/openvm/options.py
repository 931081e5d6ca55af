"""The options of a job of OpenVM's proofs: the part of a job file that belongs to it alone."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from pathlib import Path

from distprove.errors import InputError
from distprove.formats.files import require_file
from distprove.formats.names import is_name
from distprove.options import InputFile, Options, setting


@dataclass(frozen=True)
class SwirlOptions(Options):
    """A key of OpenVM 2, and the traces of each proof."""

    key: Path = setting("the proving key, as openvm-judge exports it", MISSING, flag="--key")
    traces: tuple[InputFile, ...] = setting(
        "the traces of a proof each, such as a program's segments: files, globs, folders",
        MISSING,
        flag="--traces",
        metavar="T.bin...",
        suffix=".bin",
    )

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files of traces, one per partition, in order."""
        return self.traces

    def keyed(self) -> SwirlOptions:
        return replace(self, traces=())

    def check(self) -> None:
        """Raise InputError unless every file exists and the partition names are valid and distinct."""
        names = {source.name.lower() for source in self.traces}
        if not names or len(names) != len(self.traces) or not all(is_name(source.name) for source in self.traces):
            raise InputError("there must be traces, and partition names that are distinct and fit for file names")
        super().check()
        for source in self.traces:
            if source.is_here:
                require_file(f"traces {source.name}", source.path)
