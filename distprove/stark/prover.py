"""The prover of one partition. `prove` reads from top to bottom, and `verifier.verify` has the same steps in order.

All large data stays in the backend from the trace to the queries. Only roots, terminals, values at the out-of-domain
points, FRI's final polynomial and the opened rows reach the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.formats.owncode import own_faults
from distprove.stark import logup
from distprove.stark.anchor import Anchor, make_anchor
from distprove.stark.barrier import Commitment
from distprove.stark.challenges import ProofTranscript, anchor_challenges, next_point
from distprove.stark.extension import Extender, Extension, Opening
from distprove.stark.field import Ext, Words, e_dot, e_dots, e_mul, element, ext_powers, interpolate, spread
from distprove.stark.memory import folded_together, tree_bytes
from distprove.stark.plan import MemoryPlan, choose, usable
from distprove.stark.program import SHOWN_BY, Program, Trace, whole_trace
from distprove.stark.proof import StarkProof, TableValues
from distprove.stark.proving_key import ProvingKey, copied
from distprove.stark.quotient import Folded, extend_quotients, folded_constraints
from distprove.stark.shape import ProofShape, TableShape, heights_fit
from distprove.stark.trace_shape import check_trace_shape
from distprove.steps import Steps
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import MerkleTree, column_runs


@dataclass
class Committed:
    """A committed partition, after its first round. It holds secret columns and never leaves the prover."""

    commitment: Commitment
    shape: ProofShape
    plan: MemoryPlan
    extensions: list[Extension]
    """Extensions of the present tables' main columns. Those of tables with interactions keep the trace, for the LogUp
    columns."""
    tree: MerkleTree
    anchor: Anchor | None
    """The anchor of the main columns; None when the key has no global buses."""
    peak: int | None = None
    """Peak memory of the commitment in bytes; None where the backend does not count it."""

    @property
    def nbytes(self) -> int:
        """Device memory that it holds in bytes, the tree included."""
        anchor = 0 if self.anchor is None else self.anchor.nbytes
        return sum(e.nbytes for e in self.extensions) + tree_bytes(self.shape.rounds["main"]) + anchor

    def __repr__(self) -> str:
        return f"Committed({self.commitment.name})"


def commit(
    pk: ProvingKey,
    name: str,
    inputs: Mapping[str, NDArray[Any]],
    steps: Steps,
    *,
    held: int = 0,
    more: bool = False,
    expected: Sequence[int | None] | None = None,
    program: Program | None = None,
) -> Committed:
    """Make the trace of a partition, extend it, commit to it and, for global buses, anchor it.

    `held` is the number of bytes of the device that other partitions keep. `more` says whether another partition should
    fit beside this one while it waits. `expected` is log2 of each table's rows, None for an absent one, if known: what
    cannot fit is refused before its trace is made. `program` is the job's, unless its arguments are those that the key
    was made with. Raises UsageError for a trace of the wrong shape, OutOfMemory for
    one that the device cannot hold.
    """
    backend, params = pk.backend, pk.key.params
    program = program or pk.program

    def plan_for(shape: ProofShape) -> MemoryPlan:
        return choose(shape, usable(backend.info().memory_budget), held, key_streamed=pk.streamed, more=more)

    if expected is not None:
        shape = ProofShape(pk.key, tuple(expected))
        plan_for(shape)
        pk.prepare_optional(shape)
    with steps("trace"), own_faults(program.__module__, secret=True, told_by=SHOWN_BY):
        given = {key: backend.to_device(value) for key, value in inputs.items()}
        trace = whole_trace(program, given, pk.fixed_columns, backend)
    log_heights = check_trace_shape(pk.key, trace, heights_fit)
    shape = ProofShape(pk.key, log_heights)
    pk.prepare_optional(shape)
    plan = plan_for(shape)
    extender = Extender(backend, params.log_blowup, streamed=plan.streamed, tree_hash=params.tree_hash)
    with steps("main_lde"):
        if plan.streamed:
            take_over(trace, inputs.values(), backend)
        looked_up = [air.interactions is not None for air in shape.airs]
        extensions = extender.extend([m for m in trace.main if m is not None], keep_trace=looked_up)
    del trace.main
    with steps("main_tree"):
        tree = extender.commit(extensions)
        root = tree.root
    anchor = None
    if pk.key.anchored:
        with steps("anchor"):
            eta, delta = anchor_challenges(shape, name, trace.public, root)
            anchor = make_anchor(extender, shape, extensions, eta, delta)
    values = b"" if anchor is None else anchor.values.astype("<u8").tobytes()
    commitment = Commitment(name, log_heights, trace.public, root, values)
    return Committed(commitment, shape, plan, extensions, tree, anchor)


def prove(pk: ProvingKey, committed: Committed, challenge: bytes, steps: Steps) -> StarkProof:
    """Prove a committed partition under the job's challenge.

    A trace that violates a constraint gives a proof that does not verify, so callers must verify the proof.
    """
    backend, kernels, key = pk.backend, pk.backend.goldilocks, pk.key
    params, shape = key.params, committed.shape
    public = committed.commitment.public
    extender = Extender(backend, params.log_blowup, streamed=committed.plan.streamed, tree_hash=params.tree_hash)
    preprocessed, main = pk.extended(extender, shape.numbers), committed.extensions

    # 1. Bind the statement, and draw the challenges of the buses, now that the main columns are fixed.
    transcript = ProofTranscript(shape, challenge, committed.commitment.name, public)
    anchor = committed.anchor
    anchored = np.zeros((0, 3), dtype=np.uint64) if anchor is None else anchor.values
    buses = transcript.bus_challenges(committed.commitment.main_root, anchored)

    # 2. LogUp: one column per group of interactions, running sums, and their terminals.
    with steps("logup"):
        aux_columns, terminals = logup_columns(backend, shape, preprocessed, main, public, buses)
        for extension in main:
            extension.forget_trace()  # later steps need only the extensions
    with steps("aux_lde"):
        aux = extender.extend_present(aux_columns)
        del aux_columns
    with steps("aux_tree"):
        aux_tree = commit_present(extender, shape, "aux", aux)
        flat = flatten_terminals(terminals)
        alpha = transcript.constraint_challenge(None if aux_tree is None else aux_tree.root, flat)

    # 3. The quotient: all constraints folded with alpha, divided by x^n - 1, cut into chunks. Tables are done together
    # as far as that does not raise the proof's peak memory.
    rounds = list(zip(preprocessed, main, aux, strict=True))
    with steps("constraints"):
        folded = [
            Folded(
                table,
                height,
                extensions,
                logup.constraint_scalars(table, public, buses, ends, n=1 << height, alpha=alpha),
            )
            for table, height, extensions, ends in zip(shape.airs, shape.heights, rounds, terminals, strict=True)
        ]
    extended: dict[int, Extension] = {}
    for numbers in folded_together(shape, streamed=committed.plan.streamed):
        together = [folded[i] for i in numbers]
        with steps("constraints"):
            evaluations = folded_constraints(backend, extender, params.log_blowup, together)
        with steps("quotient_lde"):
            made = extend_quotients(backend, extender, params.log_blowup, together, evaluations)
            extended.update(zip(numbers, made, strict=True))
            del evaluations
    quotients = [extended[i] for i in range(len(folded))]
    with steps("quotient_tree"):
        quotient_tree = commit_present(extender, shape, "quotient", quotients)
        assert quotient_tree is not None, "every table has a quotient"
        zeta = transcript.out_of_domain_point(quotient_tree.root)

    # 4. Open every column at zeta, and the columns that the constraints read at the next row also at that row's point.
    with steps("openings"):
        groups = [[e for e in extensions if e is not None] for extensions in rounds]
        values = out_of_domain_values(extender, shape, groups, quotients, zeta)
        gamma = transcript.batching_challenge(values)

    # 5. DEEP: one codeword per height, which has low degree exactly when all these values are right.
    with steps("deep"):
        weights = ext_powers(gamma, shape.weights)
        codewords = {
            h: deep_codeword(extender, shape, h, groups, quotients, anchor, values, weights, zeta)
            for h in shape.distinct_heights
        }

    # 6. FRI: fold from the tallest height down; codewords of lower heights enter where the fold reaches their height.
    layers: list[MerkleTree] = []
    codeword = codewords.pop(shape.distinct_heights[0])
    for step in shape.steps:
        with steps("fri_tree"):
            layer = kernels.commit([codeword], log_arity=step.log_arity, tree_hash=params.tree_hash)
            beta = transcript.folding_challenge(layer.root)
        with steps("fri_fold"):
            added = codewords.pop(step.log_reached) if step.mixes else None
            codeword = kernels.fold(codeword, step.log_arity, beta, add=added)
        layers.append(layer)
    with steps("final"):
        # The last codeword is (3, B, n); its first coset suffices after honest steps.
        final = interpolate(np.ascontiguousarray(backend.to_host(codeword)[:, 0].T))

    # 7. Grind, draw the queries, open every tree at them.
    with steps("grind"):
        seed = transcript.grinding_seed(final)
        nonce = kernels.grind(seed, params.grinding_bits, tree_hash=params.tree_hash)
    with steps("queries"):
        indices = transcript.queries(nonce)
        trees = [tree for number, tree in pk.trees.items() if number is None or number in shape.numbers]
        trees += [t for t in (committed.tree, aux_tree, quotient_tree) if t is not None] + layers
        opened = tuple(extender.open(trees, indices))
    roots = [committed.commitment.main_root, *(t.root for t in (aux_tree, quotient_tree) if t is not None)]
    layer_roots = tuple(t.root for t in layers)
    return StarkProof(
        challenge, shape.log_heights, tuple(roots), anchored, flat, values, layer_roots, final, nonce, opened
    )


def take_over(trace: Trace, inputs: Iterable[NDArray[Any]], backend: Backend) -> None:
    """Make the prover the owner of the trace's memory, which it will overwrite: copy arrays that belong to the inputs.

    On a backend in host memory a program's trace may be its inputs themselves, which a later attempt needs again.
    """
    lent = list(inputs)
    for i, columns in enumerate(trace.main):
        if isinstance(columns, np.ndarray) and any(np.may_share_memory(columns, array) for array in lent):
            trace.main[i] = copied(backend, columns)


def logup_columns(
    backend: Backend,
    shape: ProofShape,
    preprocessed: Sequence[Extension | None],
    main: Sequence[Extension],
    public: Sequence[int],
    buses: logup.BusChallenges[Ext],
) -> tuple[list[Array | None], list[logup.Terminals]]:
    """The LogUp columns of each table on the trace's rows (None without interactions), and its terminals."""
    columns: list[Array | None] = []
    terminals: list[logup.Terminals] = []
    for table, fixed, extension in zip(shape.airs, preprocessed, main, strict=True):
        if table.interactions is None:
            columns.append(None)
            terminals.append((None, None))
            continue
        scalars = logup.interaction_scalars(table, public, buses)
        fixed_columns = None if fixed is None else fixed.trace()
        made, terminal = logup.aux_columns(backend, table, fixed_columns, extension.trace(), scalars)
        columns.append(made)
        terminals.append(terminal)
    return columns, terminals


def flatten_terminals(terminals: Sequence[logup.Terminals]) -> Words:
    """The existing terminals, table by table, (terminals, 3)."""
    flat = [t for pair in terminals for t in pair if t is not None]
    return np.array(flat, dtype=np.uint64).reshape(-1, 3)


def commit_present(
    extender: Extender, shape: ProofShape, round_name: str, extensions: Sequence[Extension | None]
) -> MerkleTree | None:
    """Commit to the extensions of a round: their tree, or None when no table has columns in it."""
    if round_name not in shape.rounds:
        return None
    return extender.commit([e for e in extensions if e is not None])


def out_of_domain_values(
    extender: Extender, shape: ProofShape, groups: list[list[Extension]], quotients: list[Extension], zeta: Ext
) -> tuple[TableValues, ...]:
    """Evaluate every table's columns at zeta, and those read at the next row at that row's point, in one call."""
    opened = [e for group in groups for e in group]
    next_row = [columns for t, group in zip(shape.tables, groups, strict=True) for columns in next_row_of(t, group)]
    found = iter(extender.evaluate_at([*opened, *quotients], zeta, next_row=[*next_row, *([()] * len(quotients))]))
    here, after = [], []
    for group in groups:
        values = [np.split(next(found), [e.width]) for e in group]
        here.append(np.concatenate([near for near, _ in values]))
        after.append(np.concatenate([later for _, later in values]))
    return tuple(map(TableValues, here, after, found))


def next_row_of(table: TableShape, extensions: Sequence[Extension]) -> list[list[int]]:
    """The columns of each of a table's extensions, without the quotient's, that are opened at the next row's point."""
    edges = np.cumsum([0, *(e.width for e in extensions)]).tolist()
    return [[c - a for c in table.next_row if a <= c < b] for a, b in pairwise(edges)]


def deep_codeword(
    extender: Extender,
    shape: ProofShape,
    height: int,
    groups: list[list[Extension]],
    quotients: list[Extension],
    anchor: Anchor | None,
    values: tuple[TableValues, ...],
    weights: Words,
    zeta: Ext,
) -> Array:
    """The DEEP codeword of a height, (3, B, n): the sum over its tables, columns and points of
    gamma^k (f(x) - f(point)) / (x - point), plus the same term of its anchor.
    """
    twice, once = [], []
    for i in shape.by_height:
        table = shape.tables[i]
        if table.log_height != height:
            continue
        near, rest, _, quotient = (weights[r.start : r.stop] for r in table.weights)
        runs = [
            (e.columns(run), both)
            for e, chosen in zip(groups[i], next_row_of(table, groups[i]), strict=True)
            for run, both in column_runs(e.width, chosen)
        ]
        here, after = values[i].here, values[i].after
        if table.next_row:
            columns = [c for c, both in runs if both]
            factor = element(weights[table.columns])  # that of the weights at the next row
            at_zeta, at_next = e_dots(np.stack([here[list(table.next_row)], after], axis=1), spread(near))
            twice += [
                Opening(zeta, columns, near, at_zeta),
                Opening(next_point(zeta, height), columns, near, e_mul(factor, at_next), factor),
            ]
        columns = [*(c for c, both in runs if not both), quotients[i].columns()]
        rest = np.concatenate([rest, quotient])
        once.append(Opening(zeta, columns, rest, e_dot(rest, np.concatenate([here[table.others], values[i].quotient]))))
    if anchor is not None:
        once.append(anchor.opening(shape, height, weights))
    return extender.deep(twice + once)  # a GPU ends a sum where the points change
