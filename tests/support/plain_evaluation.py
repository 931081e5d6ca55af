"""The values of a circuit's wires from a proof, one operation after the other: what native code must find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.field import ZERO, P, Words, e_add, e_inv, e_mul, e_sub
from distprove.stark.merkle import TreeClaim, leaf_header
from distprove.stark.recursion.circuit import BINARY_REST, HALF, Circuit
from kernels.cpu.poseidon2 import DIGEST, WIDTH, permuted
from kernels.cpu.tree_digests import leaf_digests, node_digests
from tests.support.circuit_operations import (
    Bits,
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
    operations_of,
)

Value = Any
"""Three elements of F_p, or the four of a digest."""


@dataclass
class PlainEvaluation:
    """As `distprove.stark.recursion.evaluation.Evaluation`, in numbers."""

    values: list[Value] = field(repr=False)
    states: list[list[int]] = field(default_factory=list, repr=False)
    faults: list[str] = field(default_factory=list)
    unfit: list[int] = field(default_factory=list)


def evaluate(circuit: Circuit, fields: Mapping[str, Words], trees: Sequence[TreeClaim]) -> PlainEvaluation:
    made = PlainEvaluation([ZERO] * circuit.wires)
    values, opened = made.values, _Trees(trees, made.unfit)
    given = {name: words.tolist() for name, words in fields.items()}
    public = [word for name, count in circuit.public for word in _exactly(given, name, count)]
    for operation in operations_of(circuit):
        match operation:
            case Relation():
                _relate(operation, made)
            case Constant(value, out):
                values[out] = value if any(value[1:]) else value[:3]
            case Public(index, out):
                values[out] = (public[index], 0, 0)
            case Given(name, place, parts, whole):
                if name:
                    for i, wire in enumerate(parts):
                        values[wire] = (given[name][place + i], 0, 0)
                if whole is not None:
                    values[whole] = tuple(values[part][0] for part in parts)
            case Join(parts, out):
                values[out] = tuple(values[part][0] for part in parts)
            case Bits(of, (low, high), bits, base, exponent_bits, power):
                x = values[of][0]
                for i, wire in enumerate(bits):
                    values[wire] = (x >> i & 1, 0, 0)
                values[low], values[high] = (x & (1 << HALF) - 1, 0, 0), (x >> HALF, 0, 0)
                if power is not None:
                    values[power] = (pow(base, x & (1 << exponent_bits) - 1, P), 0, 0)
            case Permutation(state, outs, digest, expected):
                before = [values[wire][0] % P for wire in state]
                made.states.append(before)
                after = permuted(before)
                for wire, x in zip(outs, after, strict=True):
                    values[wire] = (x, 0, 0)
                if digest is not None:
                    _meet(made, digest, tuple(after[:DIGEST]), expected)
            case Step():
                _step(operation, made, opened)
            case OpenedTree(tree, leaves, rows):
                numbers = [_number(leaf, values) for leaf in leaves]
                for words, row in zip(opened.open(tree, numbers), rows, strict=True):
                    for wire, word in zip(row, words, strict=True):
                        values[wire] = (word, 0, 0)
            case OpenedNode(tree, leaf, log_size, flipped, parts):
                found = opened.node(tree, _number(leaf, values) ^ (1 << flipped), log_size)
                for wire, word in zip(parts, found, strict=True):
                    values[wire] = (word, 0, 0)
    return made


def _exactly(given: Mapping[str, list[int]], name: str, count: int) -> list[int]:
    if len(given[name]) != count:
        raise InvalidProof(f"{name} has {len(given[name])} elements; the circuit is for {count}")
    return given[name]


def _relate(relation: Relation, made: PlainEvaluation) -> None:
    values = made.values
    a, b, c, d = (values[wire] for wire in relation.wires)
    match relation.target:
        case "d":
            values[relation.wires[3]] = e_add(e_mul(a, b), c)
        case "c":
            values[relation.wires[2]] = e_sub(d, e_mul(a, b))
        case "b":
            if a == ZERO:
                made.faults.append(relation.otherwise)
            else:
                values[relation.wires[1]] = e_mul(e_sub(d, c), e_inv(a))
        case _:
            if e_add(e_mul(a, b), c) != d:
                made.faults.append(relation.otherwise)


def _meet(made: PlainEvaluation, number: int, digest: Value, expected: bool) -> None:
    """Write a digest, or hold it against the one that is expected."""
    if not expected:
        made.values[number] = digest
    elif made.values[number] != digest:
        made.faults.append("an opening does not match its commitment")


def _step(step: Step, made: PlainEvaluation, opened: _Trees) -> None:
    at = sum(made.values[wire][0] << i for i, wire in enumerate(step.position))
    children = opened.children(step.tree, _number(step.leaf, made.values), step.log_size, len(step.position))
    children[at] = list(made.values[step.child])
    state = [x for child in children for x in child]
    state += [] if len(state) == WIDTH else BINARY_REST
    made.states.append(state)
    digest = tuple((x + y) % P for x, y in zip(state[:DIGEST], permuted(state)[:DIGEST], strict=True))
    _meet(made, step.out, digest, step.expected)


class _Trees:
    """The openings of a proof, with a path for each leaf."""

    def __init__(self, claims: Sequence[TreeClaim], unfit: list[int]) -> None:
        self._claims, self._unfit = claims, unfit
        self._nodes: dict[int, dict[int, dict[int, bytes]]] = {}

    def open(self, tree: int, indices: Sequence[int]) -> list[list[int]]:
        """The rows at these leaves."""
        claim = self._claims[tree]
        log_leaves, ((_, width),), (rows,) = claim.shape.log_leaves, claim.shape.matrices, claim.opening.rows
        known = sorted({index % (1 << log_leaves) for index in indices})
        self._nodes[tree] = found = self._opened(claim, known) if len(rows) == len(known) else {}
        if log_leaves not in found:
            self._unfit.append(tree)
            return [[0] * width for _ in indices]
        by_number = dict(zip(known, rows.tolist(), strict=True))
        return [by_number[index % (1 << log_leaves)] for index in indices]

    def _opened(self, claim: TreeClaim, known: list[int]) -> dict[int, dict[int, bytes]]:
        """The nodes of each level, by log2 of their number; nothing unless there are exactly those that this takes."""
        shape, path, found = claim.shape, [*map(bytes, claim.opening.path)], {}
        if any(int.from_bytes(node[k : k + 8], "little") >= P for node in path for k in range(0, DIGEST * 8, 8)):
            return {}
        head = leaf_header([claim.shape.matrices[0][1]]).astype("<u8").tobytes()
        leaves = [head + row.astype("<u8").tobytes() for row in claim.opening.rows[0]]
        digests = leaf_digests(shape.tree_hash, np.stack([np.frombuffer(leaf, dtype=np.uint8) for leaf in leaves]))
        nodes = dict(zip(known, map(bytes, digests), strict=True))
        for below, above in pairwise(shape.levels):
            parents = sorted({number % (1 << above) for number in nodes})
            numbers = [parent + (child << above) for child in range(1 << below - above) for parent in parents]
            missing = [number for number in numbers if number not in nodes]
            if len(missing) > len(path):
                return {}
            nodes |= zip(missing, path, strict=False)
            path, found[below] = path[len(missing) :], nodes
            children = [np.frombuffer(nodes[number], dtype=np.uint8) for number in numbers]
            stacked = np.stack(children).reshape(1 << below - above, len(parents), -1)
            nodes = dict(zip(parents, map(bytes, node_digests(shape.tree_hash, list(stacked))), strict=True))
        return {} if path else {**found, 0: nodes}

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
    number: int = index.fixed_part + sum(values[wire][0] << i for i, wire in enumerate(index.bits))
    return number
