"""The file beside a wrap that a contract reads, from which a verifier computes the program's digest.

It names the segments' key and has their heights: {format: str, heights: bytes, name_length: int, verification_key:
map}. Nothing of it is trusted: the wrap states the digest of the true one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.formats.files import read_bounded
from distprove.formats.names import MAX_LENGTH
from distprove.proof import check_fields
from distprove.stark.heights import LogHeights, decode_heights, encode_heights
from distprove.stark.key_front import MAX_TABLES
from distprove.stark.recursion.plan import Form, leaf_forms

PROGRAM = "program.msgpack"
FORMAT = "distprove.contract-program"
MOST_BYTES = 1 << 20
"""Maximum size of the file."""
_FIELDS: dict[str, type] = {"format": str, "heights": bytes, "name_length": int, "verification_key": dict}


def folder_of(proof: Path) -> Path:
    """A run's folder, or that of a file."""
    return proof if proof.is_dir() else proof.parent


def is_read(proof: Path) -> bool:
    """Whether a wrap that a contract reads lies in a run's folder, or in that of a file."""
    return (folder_of(proof) / PROGRAM).is_file()


@dataclass(frozen=True)
class ProgramFile:
    """A program as its file has it."""

    named: Mapping[str, Any]
    """The map that names the segments' key."""
    log_heights: LogHeights
    """Of every segment."""
    name_length: int
    """Bytes of a segment's name."""

    @property
    def leaf(self) -> tuple[Form, ...]:
        """The forms of all places of a leaf."""
        return leaf_forms([Form(self.log_heights, self.name_length)])

    def to_bytes(self) -> bytes:
        told = {"heights": encode_heights(self.log_heights), "name_length": self.name_length}
        return canonical.encode({"format": FORMAT, **told, "verification_key": dict(self.named)})

    @classmethod
    def from_bytes(cls, data: bytes, what: str = PROGRAM) -> ProgramFile:
        """Read what `to_bytes` wrote. Raises FormatError."""
        record = canonical.decode(data, what)
        check_fields(record, _FIELDS, what)
        if record["format"] != FORMAT:
            raise FormatError(f"{what}: not the program of a wrap that a contract reads")
        if not 1 <= record["name_length"] <= MAX_LENGTH or not 1 <= len(record["heights"]) <= MAX_TABLES:
            raise FormatError(f"{what}: not the heights or the length of a name of segments")
        return cls(record["verification_key"], decode_heights(record["heights"]), record["name_length"])

    @classmethod
    def read(cls, path: Path) -> ProgramFile:
        """Read a file. Raises InputError, FormatError."""
        return cls.from_bytes(read_bounded(path, MOST_BYTES), str(path))
