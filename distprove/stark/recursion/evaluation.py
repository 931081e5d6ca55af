"""The values of a circuit's wires from a proof, and the conditions that they break, in native code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distprove.errors import InvalidProof, UsageError
from distprove.stark.field import Words
from distprove.stark.merkle import TreeClaim, leaf_header
from distprove.stark.recursion.circuit import NONE, WORDS, Circuit
from kernels.cpu.poseidon2 import INSTRUCTION_SET, WIDTH
from kernels.host.native import native
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash

UNLIKE = "an opening does not match its commitment"
"""The fault of a permutation or step whose digest is not the expected one."""


@dataclass
class Evaluation:
    """The values of all wires."""

    values: Words = field(repr=False)
    """By the wires' numbers, (wires, 4)."""
    states: Words = field(repr=False)
    """What each permutation and each step of a path permutes, (n, 16), in the order of the operations."""
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


def evaluate(
    circuit: Circuit,
    fields: Mapping[str, Words],
    trees: Sequence[TreeClaim],
    threads: int = 1,
    over: Evaluation | None = None,
) -> Evaluation:
    """Compute all wires. `fields` are those of proofs, `trees` their openings, whose roots are not looked at. Children
    that have nothing in common run on `threads` threads.

    `over` is an evaluation of the same circuit, which is overwritten, as new memory for a leaf takes milliseconds. The
    words that this circuit leaves zero are zero there if it found no fault; otherwise `over` is left alone.

    Raises InvalidProof for fields of other lengths than the circuit's.
    """
    public = _joined([_exactly(fields, name, count) for name, count in circuit.public])
    given = [_exactly(fields, name, count) for name, count in circuit.fields]
    begins = np.cumsum([0, *map(len, given)]).tolist()[: len(given)]
    reused = over is not None and not (over.faults or over.unfit)
    if over is not None and reused:
        values, states = over.values, over.states
    else:
        values = np.zeros((circuit.wires, WORDS), dtype=np.uint64)
        states = np.empty((circuit.native.states, WIDTH), dtype=np.uint64)
    openings = [_opening(claim) for claim in trees]
    into = values.reshape(-1), states.reshape(-1)
    pool = native.Pool(max(1, min(threads, circuit.native.parts)))
    faults, unfit = circuit.native.evaluate(pool, INSTRUCTION_SET, public, _joined(given), begins, openings, *into)
    if reused and (faults or unfit):  # with zeros in place of what is missing, as always
        return evaluate(circuit, fields, trees, threads)
    found = [UNLIKE if message == NONE else circuit.messages[message] for message in faults]
    return Evaluation(values, states, found, unfit)


def _exactly(fields: Mapping[str, Words], name: str, count: int) -> Words:
    if len(fields[name]) != count:
        raise InvalidProof(f"{name} has {count_of(len(fields[name]), 'element')}; the circuit is for {count}")
    return fields[name]


def _joined(arrays: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, dtype=np.uint64), *arrays])


def _opening(claim: TreeClaim) -> tuple[Any, ...]:
    """An opening as native code takes it: levels, the leaves' header, rows, their width, and the path."""
    shape = claim.shape
    if not shape.tree_hash.digests_are_elements:
        raise UsageError(f"circuits open trees under {TreeHash.POSEIDON2.label}, not {shape.tree_hash.label}")
    ((_, width),), (rows,) = shape.matrices, claim.opening.rows
    header = leaf_header([width]).astype(np.uint64)
    path = np.ascontiguousarray(claim.opening.path).reshape(-1).view("<u8").astype(np.uint64)
    return list(shape.levels), header, np.ascontiguousarray(rows, dtype=np.uint64).reshape(-1), width, path
