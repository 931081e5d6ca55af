"""The demonstration circuit. It proves "I am a member, and this is my nullifier", without telling which member.

Public: the root of a Merkle tree of members, a scope (a vote, an epoch), and the member's nullifier in that scope, so
that nobody can act twice in one scope. Private: the member's secret and its path in the tree.

    leaf = Poseidon(secret)    node = Poseidon(left, right)    nullifier = Poseidon(scope, secret)

Outputs: root, nullifier. Public input: scope. Private inputs: secret, siblings[depth], path[depth] (bit k is 1 where
the node at height k is a right child).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.gadgets import swap
from distprove.circuits.linear import Linear
from distprove.circuits.poseidon import poseidon, poseidon_hash
from distprove.errors import UsageError
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Field

DEPTH = 20


def merkle_root(b: CircuitBuilder, leaf: Linear, siblings: Linear, path: Linear) -> Linear:
    """The root of the tree with `leaf`. Lane k of `siblings` and of the booleans `path` belongs to height k."""
    node = leaf
    for k in range(len(path)):
        left, right = swap(b, path[k], node, siblings[k])
        node = poseidon(b, [left, right])
    return node


def membership_circuit(curve: Curve, depth: int = DEPTH) -> Circuit:
    """Build the membership circuit; depth 20 takes about 5700 constraints. Raises UsageError."""
    if not 1 <= depth <= 64:
        raise UsageError(f"a membership tree has a depth of 1 to 64, not {depth}")
    b = CircuitBuilder(curve)
    scope = b.public_input("scope")
    secret = b.private_input("secret")
    siblings = b.private_input("siblings", depth)
    path = b.private_input("path", depth)
    b.assert_boolean(path, "path bits are 0 or 1")
    b.output("root", merkle_root(b, poseidon(b, [secret]), siblings, path))
    b.output("nullifier", poseidon(b, [scope, secret]))
    return b.build()


@dataclass(frozen=True, repr=False)
class Membership:
    """One member's secret input to the circuit."""

    secret: int
    siblings: tuple[int, ...]
    path: tuple[int, ...]

    def inputs(self, scope: int) -> dict[str, object]:
        """The circuit's inputs in the form of a JSON input file: integers as decimal strings."""
        return {
            "scope": str(scope),
            "secret": str(self.secret),
            "siblings": [str(s) for s in self.siblings],
            "path": [str(bit) for bit in self.path],
        }


class MembershipTree:
    """A Merkle tree of 2^depth leaves: first Poseidon(secret) of each given secret, then zeros."""

    def __init__(self, field: Field, members: Sequence[int], depth: int = DEPTH) -> None:
        if not 0 < len(members) <= 1 << depth:
            raise UsageError(f"a tree of depth {depth} has 1 to {count_of(1 << depth, 'member')}, not {len(members)}")
        self._secrets = tuple(members)
        self._empty = [0]
        self._levels = [[poseidon_hash(field, [secret]) for secret in members]]
        for height in range(depth):
            level = self._levels[-1]
            if len(level) % 2:
                level = [*level, self._empty[height]]
            self._levels.append([poseidon_hash(field, level[i : i + 2]) for i in range(0, len(level), 2)])
            self._empty.append(poseidon_hash(field, [self._empty[height]] * 2))

    @property
    def root(self) -> int:
        return self._levels[-1][0]

    def membership(self, index: int) -> Membership:
        """The secret input of member `index`."""
        siblings = []
        for height, level in enumerate(self._levels[:-1]):
            sibling = (index >> height) ^ 1
            siblings.append(level[sibling] if sibling < len(level) else self._empty[height])
        path = tuple(index >> height & 1 for height in range(len(siblings)))
        return Membership(self._secrets[index], tuple(siblings), path)


def random_members(field: Field, count: int) -> list[int]:
    """Draw the secrets of `count` members from the operating system's random generator."""
    return [secrets.randbelow(field.modulus) for _ in range(count)]
