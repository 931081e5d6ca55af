"""Predicts the device memory of a proof from the key and the traces' heights, before anything is copied or computed.

The stages are the steps of `prover.prove`, with the data that is alive in each, in the same order, as the CUDA backend
takes it. From the commitment on, the stacks of all commitments are held, with their codewords and trees. Only memory
that grows with the traces is counted, in blocks as the device hands them out, and `CONSTANT_BYTES` for the rest.
"""

from __future__ import annotations

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.layout import Layout
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.shape import Shape
from distprove.stark.plan import CONSTANT_BYTES, MemoryPlan
from kernels.errors import OutOfMemory
from kernels.host.units import count_of, format_bytes
from kernels.interface.device_blocks import block_bytes

WORD = 4
EXTENSION = 4 * WORD
DIGEST = 8 * WORD


def trace_bytes(shape: Shape) -> int:
    """Bytes of the common columns of all traces, which are copied to the device."""
    return sum(block_bytes(WORD * trace.air.widths.common << trace.log_height) for trace in shape.traces)


def commitment_bytes(params: SystemParams, layout: Layout) -> int:
    """Bytes of a commitment: stacked columns, codewords and tree."""
    stack = WORD * layout.width << params.log_height
    return block_bytes(stack) + block_bytes(stack << params.log_blowup) + tree_bytes(params.log_leaves(0))


def tree_bytes(log_leaves: int) -> int:
    """Bytes of a tree of 2^log_leaves leaves."""
    return block_bytes(DIGEST * ((2 << log_leaves) - 1))


def key_bytes(key: OpenVmKey) -> int:
    """Bytes of the commitments to all preprocessed traces, which are kept for further proofs."""
    params = key.params
    heights = [
        (air.widths.preprocessed or 0, air.preprocessed.n + params.log_skip)
        for air in key.airs
        if air.preprocessed is not None
    ]
    layouts = (Layout.of(params.log_skip, params.log_height, [size]) for size in heights)
    return sum(commitment_bytes(params, layout) for layout in layouts)


def stages(shape: Shape) -> dict[str, int]:
    """Bytes in use at each step of a proof. The traces are released once they are stacked."""
    params, layouts = shape.key.params, shape.layouts
    main, *parts = (commitment_bytes(params, layout) for layout in layouts)
    widths = [(trace, width) for trace in shape.traces for width in trace.air.part_widths]
    # Columns of less than a run are kept as they were loaded, beside the stack.
    short = sum(WORD * width << trace.log_height for trace, width in widths if trace.log_height < trace.log_rows)
    held = main + sum(parts) + short
    eq = EXTENSION * (2 << shape.n_max)
    cells = EXTENSION * sum(trace.air.graph.cells << trace.n_lift for trace in shape.traces)
    runs = EXTENSION * sum(layout.width for layout in layouts) << params.n_stack
    return {
        "main_stack": trace_bytes(shape) + main,
        "further_stacks": held + max((WORD * layout.width << params.log_height for layout in layouts[1:]), default=0),
        "buses": held + bus_bytes(shape.interactions),
        "bind": held + block_bytes(eq) + block_bytes(cells),
        "rounds": held + sum(block_bytes(each) + block_bytes(each // 2) for each in (eq, cells)),
        # Values and weights of all runs, and two tables of half as many.
        "reduction": held + 2 * (block_bytes(runs) + block_bytes(runs // 2)) + block_bytes(eq),
        "opening": held + opening_bytes(params),
    }


def bus_bytes(fractions: int) -> int:
    """Bytes of so many fractions and of their tree, three quarters as large as the denominators."""
    quarter = -(-fractions // 4)
    tree = EXTENSION * (4 if fractions % 4 else 3) * quarter
    return sum(map(block_bytes, (WORD * fractions, EXTENSION * fractions, tree)))


def opening_bytes(params: SystemParams) -> int:
    """Peak bytes of WHIR beside the commitments."""
    whir, coefficients = params.whir, EXTENSION << params.log_height
    pair, tree, most = 2 * coefficients, 0, 0  # values and weights; the tree that is opened next, after the first
    for number, queries in enumerate(whir.queries):
        # 1. Each sum but a round's first is of a pair that is folded at once, beside the one before it.
        most = max(most, coefficients + tree + pair)
        for _ in range(whir.log_fold - 1):
            most = max(most, coefficients + tree + pair + pair // 2)
            pair //= 2
        # 2. The coefficients are folded by all challenges, and committed to.
        log_folded = params.log_height - (number + 1) * whir.log_fold
        folded = EXTENSION << log_folded
        most = max(most, coefficients + folded + tree + pair)
        coefficients = folded
        if number + 1 < whir.rounds:
            next_tree = (EXTENSION << params.log_domain(number + 1)) + tree_bytes(params.log_leaves(number + 1))
            most = max(most, coefficients + tree + next_tree + pair)
            # 3. The pair is folded by the last challenge, and the weights get those of the points.
            points = queries * ((WORD << log_folded // 2) + (EXTENSION << log_folded - log_folded // 2))
            most = max(most, coefficients + tree + next_tree + max(pair + pair // 2, pair // 2 + points))
            pair, tree = pair // 2, next_tree
    return most


def planned(shape: Shape) -> MemoryPlan:
    """The memory of a proof. There is one way to make it, and nothing is held before it."""
    return MemoryPlan(streamed=False, peak=max(stages(shape).values()) + CONSTANT_BYTES, held=0)


def choose(shape: Shape, budget: int) -> MemoryPlan:
    """The plan of a proof, which takes at most `budget` bytes. Raises OutOfMemory."""
    plan = planned(shape)
    if plan.peak > budget:
        stacked, rows = sum(layout.width for layout in shape.layouts), shape.key.params.log_height
        raise OutOfMemory(
            f"a proof of {count_of(stacked, 'stacked column')} of 2^{rows} rows and "
            f"{count_of(shape.interactions, 'fraction')} needs "
            f"{format_bytes(plan.peak)}; the device has {format_bytes(budget)}: cut the program into smaller segments"
        )
    return plan
