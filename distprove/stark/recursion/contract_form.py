"""What the circuit of the proof that a contract reads depends on: `recursion.contract_circuit` makes it of a form.

The program that a contract knows states the digest of the form. So a wrap shows a program's jobs under this circuit
alone: neither statement, places, nor the parameters of the tree are the choice of whoever makes a Groth16 key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from distprove.formats import canonical
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.recursion.contract import check_readable, without_values
from distprove.stark.recursion.node import Child, Identity, any_node
from distprove.stark.statement import Statement

_DOMAIN = "distprove/stark contract circuit/1"


@dataclass(frozen=True)
class ContractForm:
    """What the circuit depends on."""

    below: Child
    """The node that it verifies."""
    node_key: Identity
    """The key of nodes above leaves."""
    statement: Statement
    """Of the segments, with zeros as its constants."""
    buses: tuple[tuple[str, int], ...]
    """The numbers of the buses, by their names."""
    tables: int
    """Tables of the segments' key: their heights are so many bytes."""
    name_length: int
    """Bytes of a segment's name."""
    places: int

    @classmethod
    def of(cls, key: MultilinearKey, name_length: int, node: MultilinearKey) -> ContractForm:
        """The form for jobs under a key, in trees with this key of nodes. Raises UsageError for a key whose jobs no
        contract reads."""
        check_readable(key)
        assert key.params.places is not None
        buses = tuple(key.bus_numbers.items())
        told = without_values(key.statement), buses, len(key.tables), name_length, key.params.places
        return cls(any_node(node), Identity.of(node), *told)

    def to_record(self) -> list[Any]:
        """All that the circuit depends on, as plain data."""
        told = [self.below.shape.key.digest, self.node_key.digest, self.node_key.root, self.statement.to_record()]
        return [*told, [list(bus) for bus in self.buses], self.tables, self.name_length, self.places]

    def digest(self) -> bytes:
        """The digest of the record, 32 bytes: a constant of the circuit, and part of each program's digest."""
        return canonical.digest(_DOMAIN, *self.to_record())
