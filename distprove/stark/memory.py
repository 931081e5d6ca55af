"""How much memory a partition's proof takes on its device, predicted from its shape before it starts.

Only what grows with the tables is counted; a few megabytes of constants, twiddles and partial sums are not. The stages
are those of `prover.commit` and `prover.prove`: what is alive in each is listed here in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.merkle import TreeShape
from distprove.stark.shape import ProofShape

WORD = 8
DIGEST = 32
EXTENSION = 3


def tree_bytes(shape: TreeShape) -> int:
    """All levels of a tree, leaves included, and the leaf digests of the tallest level that enters above them."""
    heights = {log for log, _ in shape.matrices}
    injected = sorted(heights)[-2] if len(heights) > 1 else None
    return DIGEST * ((2 << shape.log_leaves) + (0 if injected is None else 1 << injected))


def committed_bytes(shape: ProofShape) -> int:
    """What a partition holds between its commitment and its proof: extensions, tree, columns with interactions."""
    blowup = shape.key.params.blowup
    total = tree_bytes(shape.rounds["main"])
    for table, air in zip(shape.tables, shape.key.tables, strict=True):
        rows = WORD * air.main_width << table.log_height
        total += blowup * rows + (rows if air.interactions is not None else 0)
    return total


def preprocessed_bytes(shape: ProofShape) -> int:
    """What a prover keeps of a key for good."""
    blowup = shape.key.params.blowup
    total = sum((1 + blowup) * (WORD * t.widths[0] << t.log_height) for t in shape.tables)
    return total + (tree_bytes(shape.rounds["preprocessed"]) if "preprocessed" in shape.rounds else 0)


def peak_bytes(shape: ProofShape) -> int:
    """The most that is in use at once while one partition is committed to and proven, the key's columns included."""
    return preprocessed_bytes(shape) + max(stages(shape).values())


def stages(shape: ProofShape) -> dict[str, int]:
    """Bytes in use at each stage, without the key's."""
    params, rounds = shape.key.params, shape.rounds
    airs = shape.key.tables
    tables = list(zip(shape.tables, airs, strict=True))

    def columns(width: int, log_height: int, extended: bool = True) -> int:
        return WORD * width << (log_height + (params.log_blowup if extended else 0))

    trace = sum(columns(a.main_width, t.log_height, False) for t, a in tables)
    main = sum(columns(a.main_width, t.log_height) for t, a in tables) + tree_bytes(rounds["main"])
    kept = sum(columns(a.main_width, t.log_height, False) for t, a in tables if a.interactions is not None)
    aux_trace = sum(columns(a.aux_width, t.log_height, False) for t, a in tables)
    aux = sum(columns(t.widths[2], t.log_height) for t, _ in tables)
    aux_tree = tree_bytes(rounds["aux"]) if "aux" in rounds else 0
    # Numerators and denominators of all groups of one table, and their quotients.
    fractions = max((9 * len(a.groups) * WORD << t.log_height for t, a in tables), default=0)
    quotient = sum(columns(t.widths[3], t.log_height) for t, _ in tables)
    # Folded constraints on the chunks' cosets, one chunk's columns again, and the selectors there.
    folding = max(columns((2 * EXTENSION + 1) * a.quotient_chunks, t.log_height, False) for t, a in tables)
    codewords = sum(columns(EXTENSION, h) for h in shape.distinct_heights)
    committed = main + aux + aux_tree + quotient + tree_bytes(rounds["quotient"])
    return {
        "main": trace + main,
        "logup": main + kept + aux_trace + fractions,
        "aux": main + aux_trace + aux + aux_tree,
        "constraints": main + aux + aux_tree + quotient + folding,
        "deep": committed + codewords,
        "fri": committed + codewords + fri_bytes(shape),
    }


def fri_bytes(shape: ProofShape) -> int:
    """All layers with their trees: a layer is kept for its openings."""
    layers: Sequence[TreeShape] = shape.fri_trees
    folded = sum(WORD * EXTENSION << (s.log_reached + shape.key.params.log_blowup) for s in shape.steps)
    return folded + sum(tree_bytes(tree) for tree in layers)
