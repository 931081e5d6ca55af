"""Predicts the device memory of a partition's proof from its shape, before it starts.

Only memory that grows with the tables is counted, not a few megabytes of constants, twiddles and partial sums. The
stages are those of `prover.commit` and `prover.prove`, with the data that is alive in each, in the same order. Counting
lookups takes two columns for each, beside the trace alone: less than their LogUp fractions take later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distprove.stark.merkle import TreeShape

if TYPE_CHECKING:  # `key` imports this module to choose how to hold its columns
    from distprove.stark.shape import ProofShape
    from distprove.stark.verifying_key import VerifyingKey

WORD = 8
DIGEST = 32
EXTENSION = 3


def tree_bytes(shape: TreeShape) -> int:
    """Bytes of all levels of a tree, leaves included, and of the digests of leaves that enter at a higher level."""
    heights = {log for log, _ in shape.matrices}
    return DIGEST * ((2 << shape.log_leaves) + sum(1 << log for log in heights - {shape.log_leaves}))


def key_bytes(key: VerifyingKey, *, streamed: bool) -> int:
    """Bytes that a prover keeps for a key: its preprocessed columns, extended, and their trees."""
    fixed = zip(key.tables, key.fixed_heights, strict=True)
    rows = sum(WORD * t.preprocessed_width << (height or 0) for t, height in fixed)
    trees = sum(tree_bytes(key.tree_shape(tree)) for tree in key.preprocessed_trees)
    return trees + (rows if streamed else rows + (rows << key.params.log_blowup))


def committed_bytes(shape: ProofShape, *, streamed: bool = False) -> int:
    """Bytes held between commitment and proof: extensions, tree, anchor, traces of tables with interactions."""
    total = tree_bytes(shape.rounds["main"]) + anchor_bytes(shape, streamed=streamed)
    for table, air in zip(shape.tables, shape.airs, strict=True):
        rows = WORD * air.main_width << table.log_height
        if streamed:
            total += rows
        else:
            total += (rows << shape.key.params.log_blowup) + (rows if air.interactions is not None else 0)
    return total


def anchor_bytes(shape: ProofShape, *, streamed: bool) -> int:
    """Bytes of the anchor's extended combinations of main columns; 0 without global buses."""
    log_blowup = 0 if streamed else shape.key.params.log_blowup
    return sum(WORD * EXTENSION << h + log_blowup for h in shape.distinct_heights) if shape.anchors else 0


def peak_bytes(shape: ProofShape, *, streamed: bool = False, key_streamed: bool = False) -> int:
    """Peak bytes while one partition is committed to and proven, the key's columns included."""
    kept = key_bytes(shape.key, streamed=key_streamed)
    if streamed and not key_streamed:  # the proof has its own copy, which it moves from coset to coset
        kept += sum(WORD * t.widths[0] << t.log_height for t in shape.tables)
    return kept + max(stages(shape, streamed=streamed).values())


def stages(shape: ProofShape, *, streamed: bool = False) -> dict[str, int]:
    """Bytes in use at each stage, without the key's columns."""
    params, rounds = shape.key.params, shape.rounds
    tables = list(zip(shape.tables, shape.airs, strict=True))

    def columns(width: int, log_height: int) -> int:
        return WORD * width << log_height

    def extended(width: int, log_height: int) -> int:
        return columns(width, log_height + (0 if streamed else params.log_blowup))

    main_columns = sum(extended(a.main_width, t.log_height) for t, a in tables)
    main = main_columns + tree_bytes(rounds["main"])
    aux = sum(extended(t.widths[2], t.log_height) for t, _ in tables)
    aux_tree = tree_bytes(rounds["aux"]) if "aux" in rounds else 0
    quotient = sum(extended(t.widths[3], t.log_height) for t, _ in tables)
    folding = max(folding_bytes(shape, i) for i in range(len(tables)))
    codewords = sum(columns(EXTENSION, h + params.log_blowup) for h in shape.distinct_heights)
    anchored = anchor_bytes(shape, streamed=streamed)
    committed = main + aux + aux_tree + quotient + tree_bytes(rounds["quotient"])
    if streamed:  # extensions replace their columns in place; a codeword is assembled coset by coset
        trace = traced = aux_trace = 0
        piece = columns(EXTENSION, max(shape.heights))
    else:
        trace = sum(columns(a.main_width, t.log_height) for t, a in tables)
        traced = sum(columns(a.main_width, t.log_height) for t, a in tables if a.interactions is not None)
        aux_trace = sum(columns(a.aux_width, t.log_height) for t, a in tables)
        piece = 0
    return {
        "main_lde": trace + main_columns,
        "main_tree": traced + main,
        "logup": main + traced + anchored + logup_bytes(shape),
        "aux": main + anchored + aux_trace + aux + aux_tree,
        "constraints": main + anchored + aux + aux_tree + quotient + folding,
        "deep": committed + anchored + codewords + piece,
        "fri": committed + anchored + codewords + fri_bytes(shape),
    }


def folding_bytes(shape: ProofShape, table: int) -> int:
    """Bytes while a table's constraints are folded and cut into quotient chunks: the folded values on the chunks'
    cosets, the columns of the chunks, and the selectors."""
    chunks = shape.airs[table].quotient_chunks
    return WORD * (2 * EXTENSION + 1) * chunks << shape.heights[table]


def folded_together(shape: ProofShape, *, streamed: bool) -> list[list[int]]:
    """Group the tables, the tallest first, such that the constraints of a group are folded at once.

    A group takes no more memory than the largest table alone, or than the stage with the highest use leaves free.
    """
    sizes = [folding_bytes(shape, i) for i in range(len(shape.tables))]
    known = stages(shape, streamed=streamed)
    room = max(sizes) + max(known.values()) - known["constraints"]
    groups: list[list[int]] = []
    for i in shape.by_height:
        into = next((g for g in groups if sum(sizes[k] for k in g) + sizes[i] <= room), None)
        if into is None:
            groups.append([i])
        else:
            into.append(i)
    return groups


def logup_bytes(shape: ProofShape) -> int:
    """Peak bytes while LogUp columns are made: those already made on the trace's rows, and one table's fractions."""
    most = done = 0
    for table, air in zip(shape.tables, shape.airs, strict=True):
        # First so many numerators, denominators and quotients are alive; then the quotients and the auxiliary columns.
        terms = EXTENSION * len(air.groups)
        most = max(most, done + (WORD * max(3 * terms, terms + air.aux_width) << table.log_height))
        done += WORD * air.aux_width << table.log_height
    return most


def fri_bytes(shape: ProofShape) -> int:
    """Bytes of all FRI layers and their trees. Each layer is kept for its openings."""
    layers: Sequence[TreeShape] = shape.fri_trees
    folded = sum(WORD * EXTENSION << (s.log_reached + shape.key.params.log_blowup) for s in shape.steps)
    return folded + sum(tree_bytes(tree) for tree in layers)
