"""The values of a circuit's wires from a proof, and the conditions that they break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.field import ZERO, P, Words, e_add, e_inv, e_mul, e_sub
from distprove.stark.merkle import TreeClaim, opened_nodes
from distprove.stark.recursion.circuit import (
    BINARY_REST,
    HALF,
    Bits,
    Circuit,
    Constant,
    Given,
    Index,
    Join,
    OpenedNode,
    OpenedTree,
    Permutation,
    Public,
    Relation,
    Step,
)
from kernels.cpu.poseidon2 import DIGEST, WIDTH, permuted
from kernels.maths.query_paths import QueryPaths

Value = Any
"""Three elements of F_p, or the four of a digest."""


@dataclass
class Evaluation:
    """The values of all wires."""

    values: list[Value] = field(repr=False)
    """By the wires' numbers."""
    steps: list[list[int]] = field(default_factory=list, repr=False)
    """The 16 elements that each step of a path permutes."""
    faults: list[str] = field(default_factory=list)
    """The conditions that do not hold, in order. Without any the circuit is satisfied."""
    unfit: list[int] = field(default_factory=list)
    """Trees whose openings have other rows or nodes than the drawn indices need. Zeros stand in their place, so that
    there are faults, too, unless the openings merely have too much."""

    def check(self) -> None:
        """Raise InvalidProof unless the circuit is satisfied."""
        if self.faults or self.unfit:
            found = self.faults[:1] or ["an opening of other rows or nodes than the queries meet"]
            raise InvalidProof(f"the circuit is not satisfied: {found[0]}")


def evaluate(circuit: Circuit, fields: Mapping[str, Words], trees: Sequence[TreeClaim]) -> Evaluation:
    """Compute all wires. `fields` are those of proofs, `trees` their openings, whose roots are not looked at."""
    made = Evaluation([ZERO] * circuit.wires)
    values, opened = made.values, _Trees(trees, made.unfit)
    given = {name: words.tolist() for name, words in fields.items()}
    public = [word for name, count in circuit.public for word in _exactly(given, name, count)]
    for operation in circuit.operations:
        match operation:
            case Relation():
                _relate(operation, made)
            case Constant(value, out):
                values[out.number] = value if any(value[1:]) else value[:3]
            case Public(index, out):
                values[out.number] = (public[index], 0, 0)
            case Given(name, place, parts, whole):
                if name:
                    for i, wire in enumerate(parts):
                        values[wire.number] = (given[name][place + i], 0, 0)
                if whole is not None:
                    values[whole.number] = tuple(values[part.number][0] for part in parts)
            case Join(parts, out):
                values[out.number] = tuple(values[part.number][0] for part in parts)
            case Bits(of, bits, (low, high), power):
                x = values[of.number][0]
                for i, wire in enumerate(bits):
                    values[wire.number] = (x >> i & 1, 0, 0)
                values[low.number], values[high.number] = (x & (1 << HALF) - 1, 0, 0), (x >> HALF, 0, 0)
                if power is not None:
                    values[power.out.number] = (pow(power.base, x & (1 << power.bits) - 1, P), 0, 0)
            case Permutation(state, outs, digest, expected):
                after = permuted([values[wire.number][0] for wire in state])
                for wire, x in zip(outs, after, strict=True):
                    values[wire.number] = (x, 0, 0)
                if digest is not None:
                    _meet(made, digest.number, tuple(after[:DIGEST]), expected)
            case Step():
                _step(operation, made, opened)
            case OpenedTree(tree, leaves, rows):
                numbers = [_number(leaf, values) for leaf in leaves]
                for words, row in zip(opened.open(tree, numbers), rows, strict=True):
                    for part in row:
                        for i, wire in enumerate(part.parts):
                            values[wire.number] = (words[part.place + i], 0, 0)
            case OpenedNode(tree, leaf, log_size, flipped, node):
                found = opened.node(tree, _number(leaf, values) ^ (1 << flipped), log_size)
                for wire, word in zip(node.parts, found, strict=True):
                    values[wire.number] = (word, 0, 0)
    return made


def _exactly(given: Mapping[str, list[int]], name: str, count: int) -> list[int]:
    if len(given[name]) != count:
        raise InvalidProof(f"{name} has {len(given[name])} elements; the circuit is for {count}")
    return given[name]


def _relate(relation: Relation, made: Evaluation) -> None:
    values = made.values
    a, b, c, d = (values[wire.number] for wire in relation.wires)
    match relation.target:
        case "d":
            values[relation.d.number] = e_add(e_mul(a, b), c)
        case "c":
            values[relation.c.number] = e_sub(d, e_mul(a, b))
        case "b":
            if a == ZERO:
                made.faults.append(relation.otherwise)
            else:
                values[relation.b.number] = e_mul(e_sub(d, c), e_inv(a))
        case _:
            if e_add(e_mul(a, b), c) != d:
                made.faults.append(relation.otherwise)


def _meet(made: Evaluation, number: int, digest: Value, expected: bool) -> None:
    """Write a digest, or hold it against the one that is expected."""
    if not expected:
        made.values[number] = digest
    elif made.values[number] != digest:
        made.faults.append("an opening does not match its commitment")


def _step(step: Step, made: Evaluation, opened: _Trees) -> None:
    place = step.place
    at = sum(made.values[wire.number][0] << i for i, wire in enumerate(step.position))
    children = opened.children(place.tree, _number(place.leaf, made.values), place.log_size, len(step.position))
    children[at] = list(made.values[step.child.number])
    state = [x for child in children for x in child]
    state += [] if len(state) == WIDTH else BINARY_REST
    made.steps.append(state)
    digest = tuple((x + y) % P for x, y in zip(state[:DIGEST], permuted(state)[:DIGEST], strict=True))
    _meet(made, step.out.number, digest, step.expected)


class _Trees:
    """The openings of a proof, with a path for each leaf."""

    def __init__(self, claims: Sequence[TreeClaim], unfit: list[int]) -> None:
        self._claims, self._unfit = claims, unfit
        self._nodes: dict[int, dict[int, dict[int, bytes]]] = {}

    def open(self, tree: int, indices: Sequence[int]) -> list[list[int]]:
        """The rows at these leaves."""
        claim = self._claims[tree]
        nodes = opened_nodes(claim, QueryPaths(indices, claim.shape.log_leaves))
        if nodes is None:
            self._unfit.append(tree)
            self._nodes[tree] = {}
            return [[0] * claim.shape.matrices[0][1] for _ in indices]
        self._nodes[tree] = nodes
        rows = claim.opening.rows[0]
        distinct = sorted(set(indices))
        by_number = dict(zip(distinct, rows.tolist(), strict=True))
        return [by_number[index] for index in indices]

    def children(self, tree: int, leaf: int, log_size: int, log_children: int) -> list[list[int]]:
        """The children of the node above a leaf's ancestor at the level of 2^log_size nodes."""
        above = log_size - log_children
        first = leaf & (1 << above) - 1
        return [self.node(tree, first + (c << above), log_size) for c in range(1 << log_children)]

    def node(self, tree: int, leaf: int, log_size: int) -> list[int]:
        """The node at a level, which must be known, that a leaf of this number has for an ancestor."""
        level = self._nodes[tree].get(log_size)
        digest = level[leaf & (1 << log_size) - 1] if level else bytes(DIGEST * 8)
        words: list[int] = np.frombuffer(digest, dtype="<u8").tolist()
        return words


def _number(index: Index, values: Sequence[Value]) -> int:
    number: int = index.upper + sum(values[wire.number][0] << i for i, wire in enumerate(index.bits))
    return number
