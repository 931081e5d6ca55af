"""Predicts the device memory of a partition's proof from its shape, before it starts, and chooses how to hold it.

| plan | held from the commitment on | made twice |
|---|---|---|
| whole | columns, coefficients, codewords, tree | |
| lean | columns, codewords, tree | coefficients, for the reduction; the leaves of GKR, for their own sumcheck |
| streamed | columns, the tree's nodes | codewords too, for the queries |

The proof is the same. Codewords take long transforms, coefficients and leaves a pass over the columns. In a proof the
columns are those among the cells, and go with them. A GPU makes the leaves again that a streamed proof opens, and not
all codewords: its peak is lower than predicted where that is in the opening.

Arrays that grow with the tables are counted in blocks as the device hands them out, and `CONSTANT_BYTES` for factors of
points and partial sums. The stages are the steps of `prover.commit` and `prover.prove`, with the data that is alive in
each, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.multilinear.stacking import Stack
from distprove.stark.plan import CONSTANT_BYTES, PARTITION_BYTES, MemoryPlan
from kernels.errors import OutOfMemory
from kernels.host.units import format_bytes
from kernels.interface.device_blocks import block_bytes
from kernels.interface.multilinear_rows import moved_rows, moved_together, moves_apart

WORD, DIGEST = 8, 32
VECTOR = 3 * WORD
"""Bytes of an element of F."""
FRACTION = 2 * VECTOR


def stack_bytes(stack: Stack) -> int:
    """Bytes of a stack's columns, or of their coefficients."""
    return block_bytes(WORD * stack.width << stack.log_height)


def column_bytes(tables: Iterable[tuple[int, int]]) -> int:
    """Bytes of the columns of tables, each of so many columns and log2 of the rows."""
    return sum(block_bytes(WORD * width << height) for width, height in tables)


def codeword_bytes(stack: Stack, log_blowup: int) -> int:
    """Bytes of the codewords of a stack's columns."""
    return block_bytes(WORD * stack.width << stack.log_height + log_blowup)


def tree_bytes(log_leaves: int) -> int:
    """Bytes of the nodes of a tree of 2^log_leaves leaves."""
    return block_bytes(2 * DIGEST << log_leaves)


def key_bytes(key: MultilinearKey) -> int:
    """Bytes that a prover keeps for a key: its preprocessed columns, their coefficients, codewords and tree."""
    stack, params = key.preprocessed, key.params
    if not stack.width:
        return 0
    columns = column_bytes((width, height) for _, height, width in stack.tables)
    codewords = codeword_bytes(stack, params.log_blowup)
    return columns + stack_bytes(stack) + codewords + tree_bytes(stack.log_height + params.log_blowup)


def node_bytes(shape: Shape) -> int:
    """Bytes of the nodes of a partition's main tree."""
    return tree_bytes(shape.rounds[0].log_leaves)


def main_bytes(shape: Shape) -> int:
    """Bytes of the main columns of a partition."""
    return column_bytes((table.main_width, height) for table, height in zip(shape.tables, shape.heights, strict=True))


def held_bytes(shape: Shape, *, lean: bool = False, streamed: bool = False) -> int:
    """Bytes held between commitment and proof."""
    stack = stack_bytes(shape.main)
    coefficients = 0 if lean or streamed else stack
    codewords = 0 if streamed else codeword_bytes(shape.main, shape.key.params.log_blowup)
    return main_bytes(shape) + coefficients + codewords + node_bytes(shape)


def stages(shape: Shape, *, lean: bool = False, streamed: bool = False) -> dict[str, int]:
    """Bytes in use at each step, without the key. A streamed plan is lean."""
    params, m, log_skip = shape.key.params, shape.log_height, shape.log_skip
    lean = lean or streamed
    tables = list(zip(shape.tables, shape.heights, strict=True))
    columns = main_bytes(shape)
    words = sum(t.cells << h for t, h in tables)
    cells, stack = block_bytes(WORD * words), stack_bytes(shape.main)
    codewords, tree = codeword_bytes(shape.main, params.log_blowup), node_bytes(shape)
    kept = held_bytes(shape, lean=lean, streamed=streamed)
    begun = kept - columns  # what is held beside the cells
    rest = begun + (stack if lean else 0)  # and beside what the cells become

    fractions = FRACTION * sum(1 << block.log_height for blocks in shape.leaves.scopes.values() for block in blocks)
    layers = [block_bytes(fractions >> above) for above in range(shape.leaves.depth + 1)]
    # All layers; or the leaves, and the layer above or what their rounds fold them to.
    summed = sum(layers[:2] if lean else layers)
    proved = layers[0] + block_bytes(3 * fractions // 4) if lean else summed
    vectors = VECTOR * words >> log_skip
    # What is moved to a coset, of a table whose rules are many; others move tiles in scratch of their own.
    large = [(t, 1 << h) for t, h in tables if any(moves_apart(len(own.code), 1 << h) for own in t.programs)]
    moved = max((_moved_bytes(t, rows, 1 << log_skip) for t, rows in large), default=0)
    runs = [VECTOR * each.width << each.log_height - log_skip for each in (shape.main, shape.preprocessed)]
    kinds, pair = 4 * block_bytes(runs[0]) + 3 * block_bytes(runs[1]), 2 * block_bytes(runs[0])
    return {
        "main_stack": columns + max(2 * stack, stack + codewords + tree),
        "anchor": kept + (stack if lean else 0) + (VECTOR << m),
        "cells": kept + cells,
        "leaves": begun + cells + summed,
        "gkr": begun + cells + proved,
        "univariate": rest + cells + block_bytes(max(vectors, moved)),
        "rounds": rest + block_bytes(vectors) + block_bytes(vectors // 2),
        "reduction": rest + kinds + pair,
        "opening": opening_bytes(shape, rest, 0 if not streamed else codewords),
    }


def _moved_bytes(table: Rules, rows: int, run: int) -> int:
    """Bytes of a table's cells on the cosets to which they are moved at once."""
    degree = max(table.constraint_degree, table.interaction_degree)  # no more cosets than that
    together = moved_together(table.cells, rows, degree)
    return WORD * table.cells * together * moved_rows(table.cells, rows, run)


def opening_bytes(shape: Shape, held: int, codewords: int) -> int:
    """Peak bytes of WHIR beside `held`, with the codewords of the main stack if they are made there."""
    m, rounds = shape.log_height, shape.rounds
    pair = 2 * VECTOR << m
    # The combined columns on their way into the pair; or the pair at each fold of the first round.
    most = held + pair + max(VECTOR << m, sum(pair >> i for i in range(1, rounds[0].log_fold - 1)))
    # A round's tree is opened when that of the round after the next is made; the main stack's, whose codewords may have
    # to be made for it, beside the second of these.
    trees = [block_bytes(VECTOR << r.log_domain) + tree_bytes(r.log_leaves) for r in rounds[1:]]
    for i, round_ in enumerate(rounds):
        folded = 3 * (pair >> m - round_.log_folded)  # the pair, and the one before, of twice its length
        claims = 2 * VECTOR << round_.log_leaves if i < len(trees) else 0
        opened = codewords if i == min(1, len(trees)) else 0
        most = max(most, held + folded + sum(trees[max(0, i - 2) : i + 1]) + max(opened, claims))
    return most


def plans(shape: Shape) -> list[MemoryPlan]:
    """The plans for a partition, the fastest first."""
    key, known = key_bytes(shape.key), []
    for lean, streamed in ((False, False), (True, False), (True, True)):
        peak = max(stages(shape, lean=lean, streamed=streamed).values()) + CONSTANT_BYTES
        known.append(MemoryPlan(streamed, key + peak, held_bytes(shape, lean=lean, streamed=streamed), lean))
    return known


def choose(shape: Shape, budget: int) -> MemoryPlan:
    """The fastest plan of at most `budget` bytes. Raises OutOfMemory where there is none."""
    known = plans(shape)
    for plan in known:
        if plan.peak <= budget:
            return plan
    raise OutOfMemory(
        f"a partition of 2^{shape.log_height} x {shape.main.width} stacked cells needs {format_bytes(known[-1].peak)}, "
        f"{known[-1].name}; the device has {format_bytes(budget)}: cut the job into more or "
        "smaller partitions, or try the engine fri, which takes less where tables are wide"
    )


def fits(key: MultilinearKey, partitions: Sequence[Sequence[int | None]], room: int | None = None) -> bool:
    """Whether partitions of these heights (log2) take no more than `room` bytes each, held whole; by default
    `PARTITION_BYTES`."""
    most = PARTITION_BYTES if room is None else room
    return all(
        heights_fit(key, heights) and plans(Shape(key, heights))[0].peak <= most
        for heights in dict.fromkeys(map(tuple, partitions))
    )
