"""The public values that a verifier expects of a proof, from a file or from Python, and their comparison.

A file is JSON in one of two forms. Values are decimal strings, as snarkjs writes them, or integers.

    ["33", "1"]                                      all values of the only partition, in order: snarkjs's public.json
    {"start": [0, 1], "partitions": {"part-0000": {"end": ["987", "1597"]}, "part-0001": [...]}}

An object's names are those of public values in the statement of a STARK, as values of the whole job (`JobValue`).
`partitions` has every partition of the job by its name: with all of its values in order, or with some by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import jsontext
from distprove.formats.files import read_bounded
from distprove.formats.visible import visible
from distprove.proof import MAX_PUBLIC_BYTES
from distprove.system import PartitionProof
from kernels.host.units import count_of

MAX_BYTES = 1 << 26
"""Maximum size of a file of expected values."""
PARTITIONS = "partitions"
SEVERAL = f'{{"{PARTITIONS}": {{NAME: [VALUE, ...], ...}}}}'
"""The form for several partitions, in messages."""
"""The name in a file under which values stand by partition."""
MAX_DIGITS = len(str(1 << 8 * MAX_PUBLIC_BYTES))

Values = tuple[int, ...]
Expected = Sequence["int | str"] | Mapping[str, Any]
"""Expected values as Python objects, in the forms of a file."""

_DECIMAL = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class JobValue(NamedTuple):
    """A named public value of every partition."""

    name: str
    size: int
    """Number of field elements."""
    of_job: str
    """The partition that has the value of the whole job: "first" or "last"; "" where the partitions have values of
    their own."""


@runtime_checkable
class NamesPublic(Protocol):
    """Optional interface of a verifier under whose key public values have names."""

    def job_values(self) -> Sequence[JobValue]:
        """The public values of a partition, in order."""


class Stated(NamedTuple):
    """What a partition states."""

    record: dict[str, Any]
    """Plain data, for JSON."""
    lines: tuple[str, ...]
    """The same as text."""


class Expectation(Protocol):
    """Values that a job must state."""

    def require(self, partitions: Sequence[PartitionProof]) -> int:
        """Compare with what partitions whose proofs hold state. Returns the number of public values that were compared.
        Raises InvalidProof, which names both values, where they differ, and UsageError."""


@runtime_checkable
class StatesMore(Protocol):
    """Optional interface of a verifier whose partitions state more than a list of public values."""

    def stated(self, partition: PartitionProof) -> Stated:
        """What a partition whose proof holds states."""

    def expecting(self, top: Any, what: str) -> Expectation:
        """Take the objects of a file of expected values, in a form of the proof system's own. `what` names the file.
        Raises FormatError."""


@dataclass(frozen=True)
class GivenPublic:
    """Expected values before the verifier is known, whose proof system gives their form."""

    what: str
    """Name of the source in messages: the file, or "public"."""
    top: Any = field(repr=False)
    """The objects of the file."""

    @classmethod
    def read(cls, path: Path) -> GivenPublic:
        """Read a file. Raises InputError or FormatError."""
        return cls(str(path), _load(read_bounded(path, MAX_BYTES), str(path)))

    @classmethod
    def given(cls, value: str | Path | Expected) -> GivenPublic:
        """Read a file, or take Python objects in the same forms. Raises InputError or FormatError."""
        return cls.read(Path(value)) if isinstance(value, (str, Path)) else cls("public", value)

    def under(self, verifier: object) -> Expectation:
        """Parse the values for a verifier. Raises FormatError."""
        if isinstance(verifier, StatesMore):
            return verifier.expecting(self.top, self.what)
        names = verifier.job_values() if isinstance(verifier, NamesPublic) else ()
        return ExpectedPublic.parse(self.top, self.what, names)


@dataclass(frozen=True)
class ExpectedPublic:
    """Public values that a proof must state. Implements `Expectation`."""

    what: str
    """Name of the source in messages: the file, or "public"."""
    names: Sequence[JobValue] = ()
    """The public values that have names under the key."""
    only: Values | None = None
    """All values of the only partition."""
    of_job: Mapping[str, Values] = field(default_factory=dict)
    """Values of the whole job, by name."""
    by_partition: Mapping[str, Values | Mapping[str, Values]] | None = None
    """Values by partition; None where the source has none."""

    @classmethod
    def read(cls, path: Path) -> ExpectedPublic:
        """Read a file. Raises InputError or FormatError."""
        return cls.parse(_load(read_bounded(path, MAX_BYTES), str(path)), str(path))

    @classmethod
    def parse(cls, top: Any, what: str, names: Sequence[JobValue] = ()) -> ExpectedPublic:
        """Parse the objects of a file. `names` are those of public values under the key. Raises FormatError."""
        if not isinstance(top, Mapping):
            return cls(what, names, only=_values(top, what))
        if not top:
            raise FormatError(f"{what}: names no public value")
        named = {name: value for name, value in top.items() if name != PARTITIONS}
        if PARTITIONS not in top:
            return cls(what, names, of_job=_named(named, what))
        partitions = top[PARTITIONS]
        if not partitions or not isinstance(partitions, Mapping) or not all(isinstance(n, str) for n in partitions):
            raise FormatError(f"{what}: {PARTITIONS} is no object of values by the names of partitions")
        found: dict[str, Values | Mapping[str, Values]] = {}
        for name, value in partitions.items():
            where = f"{what}: partition {visible(name)}"
            found[name] = _named(value, where) if isinstance(value, Mapping) else _values(value, where)
        return cls(what, names, of_job=_named(named, what), by_partition=found)

    def require(self, partitions: Sequence[PartitionProof]) -> int:
        """Compare with what a proof that holds states.

        Returns the number of values that were compared. Raises InvalidProof, which names both values, where they differ
        or the partitions are others. Raises UsageError for names that the key does not have.
        """
        compared = 0
        if self.only is not None:
            if len(partitions) != 1:
                raise InvalidProof(
                    f"the proof holds, and is of {count_of(len(partitions), 'partition')}; {self.what} has the "
                    f"values of one. For "
                    f"several it has {SEVERAL}"
                )
            return self._require_all(partitions[0], self.only)
        for name, values in self.of_job.items():
            value = _of_name(self.names, name, self.what)
            if not value.of_job and len(partitions) > 1:
                raise UsageError(
                    f'{self.what}: "{visible(name)}" is a value of each partition, and not of the whole job; give it '
                    f'by partition, as {{"{PARTITIONS}": {{NAME: {{"{visible(name)}": [VALUE, ...]}}, ...}}}}'
                )
            compared += self._require_named(partitions[-1 if value.of_job == "last" else 0], name, values)
        if self.by_partition is None:
            return compared
        stated = [partition.name for partition in partitions]
        missing = [name for name in self.by_partition if name not in {*stated}]
        if missing:
            raise InvalidProof(f"the proof holds, and has no partition {visible(missing[0])}, which {self.what} has")
        for partition in partitions:
            if partition.name not in self.by_partition:
                raise InvalidProof(
                    f"the proof holds, and has a partition {visible(partition.name)}, which {self.what} has not"
                )
            expected = self.by_partition[partition.name]
            if isinstance(expected, Mapping):
                compared += sum(self._require_named(partition, name, of) for name, of in expected.items())
            else:
                compared += self._require_all(partition, expected)
        return compared

    def _require_named(self, partition: PartitionProof, name: str, expected: Values) -> int:
        value = _of_name(self.names, name, self.what)
        start = sum(each.size for each in self.names[: self.names.index(value)])
        return self._require_equal(partition, name, partition.public[start : start + value.size], expected)

    def _require_all(self, partition: PartitionProof, expected: Values) -> int:
        return self._require_equal(partition, "", partition.public, expected)

    def _require_equal(self, partition: PartitionProof, name: str, stated: Sequence[int], expected: Values) -> int:
        """Compare the values of one name, or all of a partition where `name` is empty."""
        of, shown = visible(partition.name), visible(name)
        require_values(
            f"public values{f' of {shown}' if name else ''} in partition {of}",
            lambda i: f"public value {i}" if not name else f"{shown}[{i}]" if len(stated) > 1 else shown,
            f"in partition {of}",
            stated,
            expected,
            self.what,
        )
        return len(stated)


def require_values(
    counted: str,
    label: Callable[[int], str],
    where: str,
    stated: Sequence[object],
    expected: Sequence[object],
    what: str,
) -> None:
    """Raise InvalidProof, which names the first difference, unless a proof that holds states the values that the file
    `what` expects. `counted` names all of them in a message, `label` and `where` the one at a place."""
    if len(stated) != len(expected):
        raise InvalidProof(f"the proof holds, and states {len(stated)} {counted}; {what} has {len(expected)}")
    differing = [place for place, (one, other) in enumerate(zip(stated, expected, strict=True)) if one != other]
    if differing:
        first, more = differing[0], f"; {len(differing) - 1} more differ" if len(differing) > 1 else ""
        raise InvalidProof(
            f"the proof holds, and states {label(first)} = {stated[first]} {where}; {expected[first]} is expected by "
            f"{what}{more}"
        )


def _of_name(names: Sequence[JobValue], name: str, what: str) -> JobValue:
    """The public value of this name. Raises UsageError."""
    for value in names:
        if value.name == name:
            return value
    has = f"it has: {', '.join(value.name for value in names)}" if names else "it has none"
    if not names:
        has += f": give the list of all values, or for several partitions {SEVERAL}"
    raise UsageError(f'{what}: no public value under this key is named "{visible(name)}" ({has})')


def _named(named: Mapping[Any, Any], what: str) -> dict[str, Values]:
    if not all(isinstance(name, str) for name in named):
        raise FormatError(f"{what}: a name of a public value is no text")
    return {name: _values(value, f"{what}: {visible(name)}", single=True) for name, value in named.items()}


def _values(value: Any, what: str, *, single: bool = False) -> Values:
    """The values of a list, or of a single one where that is allowed. Raises FormatError."""
    if single and isinstance(value, (int, str)):
        return (_value(value, what),)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise FormatError(f"{what}: expected a list of decimal strings or integers")
    return tuple(_value(each, f"{what}: value {place}") for place, each in enumerate(value))


def _value(value: Any, what: str) -> int:
    if isinstance(value, str) and len(value) <= MAX_DIGITS and _DECIMAL.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 8 * MAX_PUBLIC_BYTES:
        return value
    raise FormatError(f"{what}: neither a decimal string nor an integer, from 0 and of at most {MAX_DIGITS} digits")


def _load(data: bytes, what: str) -> Any:
    def refuse(_: str) -> NoReturn:
        raise FormatError(f"{what}: a number that is no integer, or too large")

    def integer(text: str) -> int:
        return int(text) if len(text) <= MAX_DIGITS else refuse(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) != len(pairs):
            raise FormatError(f"{what}: a name occurs twice")
        return table

    try:
        return jsontext.loads(data, what, object_pairs_hook=unique, parse_int=integer, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise FormatError(f"{what}: not JSON: {error.msg} at line {error.lineno}") from None
