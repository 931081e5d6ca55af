"""Estimates what the keys of a tree cost, from the partitions' key and heights alone, before any circuit is recorded.

A proof file names its key, and lists the heights of its partitions. Whoever makes such a file chooses how large the
circuits of the leaves are, and how many different leaves there are. A verifier records each circuit and commits to its
columns, which takes time in proportion to the wires. All nodes have the tables of the largest one, which may be a leaf
or the node above leaves. So the estimate is the number of leaves times the wires of the largest. The one inner node and
the root add a bounded share.

The wires of a child are counted group by group, as `distprove.stark.multilinear.verifier` goes. The counts are not
exact, since a circuit shares what repeats. Tests hold them to the recorded circuits.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.errors import TooMuchWork
from distprove.stark.merkle import TreeShape
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Round
from distprove.stark.multilinear.shape import Shape
from distprove.stark.recursion.circuit import BITS, HALVES
from distprove.stark.recursion.plan import Form
from distprove.stark.recursion.recorder import MOST_WIRES
from distprove.stark.recursion.security import FEW_BITS
from kernels.cpu.poseidon2 import DIGEST, RATE, WIDTH
from kernels.host.units import count_of

MOST_TREE_WIRES = 6_000_000
"""Wires of all leaves of a tree, at most, by the estimate. Recording and committing to them takes a core some
80 s. A RISC-V job of segments of 2^20 cycles has 1.4 million for its one kind of leaf. At 128 bits a leaf counts at
least 0.7 million, which a node above it has: eight different leaves have room."""

_NODE, _NODE_BIT, _NODE_BIT_OF_FEW = 131_000, 4_690, 8_100
"""Wires of a node without queries, and for each bit that queries have to give: at blow-up 4, and at blow-up 2, which
nodes of few bits have. Recorded of nodes over small partitions; over large ones they have a twentieth more."""

TreeWork = tuple[MultilinearKey, Sequence[Sequence[Form]]]
"""The partitions' key, and the different leaves of their tree."""

_ELEMENT = 4
"""Wires of an element that a proof gives: itself and its three scalars."""
_DRAW = WIDTH + 1
"""Wires of a challenge: one permutation, and the element that joins its scalars."""
_ABSORB = 3 * WIDTH / RATE
"""Wires for absorbing an element."""
_GIVEN = _ELEMENT + _ABSORB


def check_work(key: MultilinearKey, leaves: Sequence[Sequence[Form]], most: int | None = None) -> None:
    """Raise TooMuchWork if the different leaves of a tree, each by the forms of its places, need more than `most` wires
    (by default MOST_TREE_WIRES), or one of them more than a circuit can have."""
    kinds = count_of(len(leaves), "different leaf", "different leaves") if len(leaves) > 1 else "one kind of leaf"
    _check(tree_wires(key, leaves), f"the tree over these partitions needs {{}}, for {kinds}", most)


def check_work_of_jobs(jobs: Sequence[TreeWork], most: int | None = None) -> None:
    """Raise TooMuchWork as `check_work` does, for the trees of several jobs together. What
    two jobs have in common is made once."""
    different = {(key.digest, tuple(map(tuple, leaves))): (key, leaves) for key, leaves in jobs}
    wires = sum(tree_wires(key, leaves) for key, leaves in different.values())
    _check(wires, f"the trees of {count_of(len(jobs), 'job')} need {{}}", most)


def _check(wires: int, said: str, most: int | None) -> None:
    most = MOST_TREE_WIRES if most is None else most
    if wires > most:
        told = said.format(f"circuits of some {count_of(wires, 'wire')}")
        raise TooMuchWork(f"{told}; at most {most} are allowed, and `tree_wires` (--tree-wires) allows more")


def tree_wires(key: MultilinearKey, leaves: Sequence[Sequence[Form]]) -> int:
    """The estimated wires of the different leaves of a tree. Raises TooMuchWork if one would have more than a circuit
    can have."""
    largest = leaf_wires(key, leaves)
    if largest > MOST_WIRES:
        raise TooMuchWork(
            f"the circuit of a leaf over these partitions would have some {count_of(largest, 'wire')}, and none "
            f"has more than "
            f"{MOST_WIRES}: a higher blow-up (--blowup) takes fewer queries, and so do fewer bits of security"
        )
    return max(largest, node_wires(key)) * len(leaves)


def leaf_wires(key: MultilinearKey, leaves: Sequence[Sequence[Form]]) -> int:
    """The estimated wires of the largest of these leaves."""
    forms = {form.log_heights for leaf in leaves for form in leaf}
    each = {heights: child_wires(Shape(key, heights)) for heights in forms}
    return max(sum(each[form.log_heights] for form in leaf) for leaf in leaves)


def node_wires(key: MultilinearKey) -> int:
    """The estimated wires of a node above leaves, in a tree over partitions under this key. It follows from the bits
    that the key asks for: the tables of nodes differ little."""
    bits = key.params.security_bits
    each = _NODE_BIT_OF_FEW if bits < FEW_BITS else _NODE_BIT
    return _NODE + each * max(0, bits - key.params.grinding_bits)


def child_wires(shape: Shape) -> int:
    """The estimated wires of the part of a leaf's circuit that verifies one partition of this shape."""
    return int(_statement(shape) + _buses(shape) + _rules(shape) + _stacks(shape) + _opening(shape))


def _statement(shape: Shape) -> float:
    """Transcripts of the proof, the anchor, the global buses and the segment's digest, which absorb the statement."""
    public = shape.key.statement.public_values
    return 3 * (public + len(shape.key.tables) / 4 + 60) * WIDTH / RATE + public + shape.log_height * _DRAW + 8 * _DRAW


def _buses(shape: Shape) -> float:
    """The layers of GKR, and the weights of the leaves."""
    leaves = shape.leaves
    if not leaves.scopes:
        return 0
    layers = leaves.depth - leaves.first_layer
    rounds = sum(range(leaves.first_layer, leaves.depth))
    blocks = [block for own in leaves.scopes.values() for block in own]
    weights = sum(leaves.log_scope - block.log_height + 8 for block in blocks)
    return rounds * (2 * _GIVEN + _DRAW + 9) + layers * (4 * _GIVEN + 2 * _DRAW + 20) + weights


def _rules(shape: Shape) -> float:
    """The univariate round, the row rounds, and the rules of all tables at the point."""
    size = 1 << shape.log_skip
    skip = (shape.quotient_length + shape.leaves_length) * (_GIVEN + 2) + 2 * size * size
    leaves = size * (2 * shape.leaves_length + 2 * shape.log_skip)
    rows = shape.row_variables * (_DRAW + shape.degree * (_GIVEN + 3) + 8)
    tables = 0
    for table, height in zip(shape.tables, shape.heights, strict=True):
        tables += 4 * (height - shape.log_skip)
        for program in (table.constraints_at, table.interactions_at):
            if program is not None:
                tables += len(program.program.code) + 2 * len(program.program.outputs)
    return skip + leaves + rows + tables + shape.constraints


def _stacks(shape: Shape) -> float:
    """The openings of all columns, and their weights among the stacked columns."""
    weights = 0.0
    for table, height in zip(shape.tables, shape.heights, strict=True):
        weights += (table.columns + len(table.next_row)) * (_GIVEN + 7)
        weights += table.columns * (shape.log_height - height) / 2
        weights += 25 * (height - shape.log_skip) + 8 * shape.log_skip
    return weights + shape.log_height * (2 * _GIVEN + _DRAW + 10) + shape.stacked * (_GIVEN + 6)


def _opening(shape: Shape) -> float:
    """The rounds of WHIR: what each has once, and what each of its queries has."""
    wires, final = 0.0, 1 << shape.log_final
    trees = [shape.main_tree, *shape.codeword_trees]
    for number, (own, tree) in enumerate(zip(shape.rounds, trees, strict=True)):
        wires += own.log_fold * (2 * _GIVEN + _DRAW + 8) + 6 * _DRAW
        wires += own.queries * _query(shape, number, own, tree)
    return wires + final * (_GIVEN + 6)


def _query(shape: Shape, number: int, own: Round, tree: TreeShape) -> float:
    """A query of a round: its index, rows and paths, the fold, and its claim in the final value."""
    elements = 1 << own.log_fold
    wires = HALVES + BITS + 1 + WIDTH / RATE + _row(tree) + len(tree.levels) + 5 * (elements - 1) + own.log_fold + 1
    if number == 0:
        wires += elements * (2 * shape.main.width - 1) + _fixed(shape, own)
    else:
        wires += elements
    if number == len(shape.rounds) - 1:
        return wires + 2 * (1 << shape.log_final) - 2
    after = sum(r.log_fold for r in shape.rounds[number + 1 :])
    return wires + 3 + 3 * (after + shape.log_final)


def _fixed(shape: Shape, first: Round) -> float:
    """The preprocessed columns at a query of the first round: leaves that share a path from where they meet."""
    tree = shape.preprocessed_tree
    if tree is None:
        return 0
    leaves = 1 << max(0, tree.log_leaves - first.log_leaves)
    below = (leaves - 1) / 3 * (WIDTH + DIGEST)
    sums = 2 * leaves * shape.preprocessed.width + (1 << first.log_fold)
    return leaves * _row(tree) + below + len(tree.levels) + sums


def _row(tree: TreeShape) -> float:
    """A row of a tree: its words, and the permutations that hash them."""
    ((_, width),) = tree.matrices
    return width + WIDTH * -(-(width + 2) // RATE)
