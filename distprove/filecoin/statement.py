"""What a job of Filecoin's states: public facts from which the public inputs of each partition are derived.

A statement travels with the proof. Whoever verifies derives the public inputs from it again, so that no public input of
the prover's own is believed. The replica id of a sealed sector is an exception where its prover id and number are not
stated. What the statement says is for the verifier to compare, the type of the proof included: a key does not show its
circuit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.proof import check_fields

ELEMENT = 32
"""Bytes of a commitment, an id or a seed."""


class ProofType(Protocol):
    """A registered type of a proof."""

    @property
    def name(self) -> str:
        """Its name, such as StackedDrg32GiBV1_1."""


class Statement(Protocol):
    """The statement of a job."""

    @property
    def proof(self) -> ProofType:
        """The type of proof that it is of."""

    @property
    def kind(self) -> str:
        """What is proven, a key of `kinds.KINDS`."""

    @property
    def circuit(self) -> str:
        """The name of the partitions' circuit."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""

    def public_inputs(self, partition: int) -> list[int]:
        """The public inputs of a partition's circuit, derived."""

    def record(self) -> dict[str, Any]:
        """The statement as plain data, from which `from_record` makes it again."""

    def says(self) -> dict[str, str]:
        """The whole statement for people to read, and for reports."""


def digest_of(statement: Statement) -> bytes:
    """The digest of a whole statement, 32 bytes: SHA-256 of ["distprove/filecoin/statement/1", [kind, record]] in
    canonical MessagePack (docs/formats.md)."""
    return canonical.digest("distprove/filecoin/statement/1", statement.kind, statement.record())


def check_octets(record: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise FormatError unless these fields have 32 bytes each."""
    for name in names:
        if not isinstance(record[name], bytes) or len(record[name]) != ELEMENT:
            raise FormatError(f"the statement: {name} has 32 bytes")


def check_record(record: Any, fields: dict[str, type]) -> dict[str, Any]:
    """A statement's record, whose fields have these types; fields of bytes have 32. Raises FormatError."""
    check_fields(record, fields, "the statement")
    check_octets(record, [name for name, kind in fields.items() if kind is bytes])
    found: dict[str, Any] = record
    return found
