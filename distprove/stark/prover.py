"""The prover of one partition. Read `prove` from top to bottom; `verifier.verify` has the same steps in the same order.

Everything large stays in the backend from the trace to the queries; roots, terminals, values at the out-of-domain
points, the last polynomial and the opened rows are what reaches the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark import logup
from distprove.stark.barrier import Commitment
from distprove.stark.challenges import (
    BusChallenges,
    ProofTranscript,
    next_point,
    quotient_cosets,
    vanishing_on_cosets,
)
from distprove.stark.field import Ext, P, Words, e_dot, ext_powers, interpolate
from distprove.stark.key import ProvingKey, VerifyingKey
from distprove.stark.memory import peak_bytes, tree_bytes
from distprove.stark.program import Trace
from distprove.stark.proof import OpenedTree, StarkProof, TableValues
from distprove.stark.shape import ProofShape, heights_fit
from distprove.stark.timing import Phases
from kernels.backend import Array, Backend, OutOfMemory
from kernels.goldilocks import DeepPoint, MerkleTree


@dataclass
class Committed:
    """A partition after its first round. Holds secret columns; never leaves the prover."""

    commitment: Commitment
    shape: ProofShape
    columns: list[Array | None]
    """The trace of the tables with interactions, whose LogUp columns are made from it; the others' is dropped."""
    extensions: list[Array]
    tree: MerkleTree

    @property
    def nbytes(self) -> int:
        """Device memory it holds, the tree included."""
        held = [a for a in (*self.columns, *self.extensions) if a is not None]
        return sum(int(a.nbytes) for a in held) + tree_bytes(self.shape.rounds["main"])

    def __repr__(self) -> str:
        return f"Committed({self.commitment.name})"


def commit(pk: ProvingKey, name: str, inputs: Mapping[str, NDArray[Any]], phases: Phases) -> Committed:
    """Make the trace of a partition, extend it and commit to it. Raises UsageError for a trace of the wrong shape,
    OutOfMemory for one that the device cannot hold.
    """
    backend, params = pk.backend, pk.key.params
    with phases("trace"):
        trace = pk.program.trace({key: backend.to_device(value) for key, value in inputs.items()}, backend)
    log_heights = check_trace_shape(pk.key, trace)
    shape = ProofShape(pk.key, log_heights)
    check_memory(shape, backend)
    with phases("main_lde"):
        extensions = [backend.goldilocks.lde(columns, params.log_blowup) for columns in trace.main]
    with phases("main_tree"):
        tree = backend.goldilocks.commit(extensions, log_cap=shape.rounds["main"].log_cap_nodes)
        root = tree.root
    columns = [c if t.interactions is not None else None for c, t in zip(trace.main, pk.key.tables, strict=True)]
    return Committed(Commitment(name, log_heights, trace.public, root), shape, columns, extensions, tree)


def prove(pk: ProvingKey, committed: Committed, challenge: bytes, phases: Phases) -> StarkProof:
    """Prove a committed partition under the job's challenge.

    A trace that violates a constraint gives a proof that does not verify; callers verify.
    """
    backend, kernels, key = pk.backend, pk.backend.goldilocks, pk.key
    params, shape = key.params, committed.shape
    public, heights = committed.commitment.public, shape.log_heights
    tables = range(len(key.tables))

    # 1. Bind the statement, and draw the challenges of the buses: the main columns are fixed.
    transcript = ProofTranscript(shape, challenge, committed.commitment.name, public)
    buses = transcript.bus_challenges(committed.commitment.main_root)

    # 2. LogUp: one column per group of interactions, running sums, and their terminals.
    with phases("logup"):
        aux, terminals = logup_columns(pk, committed, buses)
        committed.columns = [None] * len(key.tables)  # all that follows is made from the extensions
    with phases("aux_lde"):
        aux_extensions = [None if a is None else kernels.lde(a, params.log_blowup) for a in aux]
        del aux
    with phases("aux_tree"):
        aux_tree = commit_present(pk, shape, "aux", aux_extensions)
        flat = flatten_terminals(terminals)
        alpha = transcript.constraint_challenge(None if aux_tree is None else aux_tree.root, flat)

    # 3. The quotient: all constraints folded with alpha, divided by what vanishes on the trace's rows, cut into chunks.
    quotients: list[Array] = []
    for i in tables:
        table, n = key.tables[i], 1 << heights[i]
        log_chunks = table.quotient_chunks.bit_length() - 1
        with phases("constraints"):
            vanishing = vanishing_on_cosets(heights[i], params.log_blowup, table.quotient_chunks)
            scalars = logup.constraint_scalars(
                table,
                public,
                local=buses.local,
                global_=buses.global_,
                terminals=terminals[i],
                n=n,
                alpha=alpha,
            )
            evaluations = kernels.evaluate(
                table.constraints,
                [
                    pk.extensions[i],
                    committed.extensions[i],
                    aux_extensions[i],
                    kernels.selectors(heights[i], params.log_blowup, log_chunks),
                ],
                scalars,
                log_cosets=log_chunks,
                coset_factors=np.array([pow(v, -1, P) for v in vanishing], dtype=np.uint64),
            )
        with phases("quotient_lde"):
            chunks = backend.empty((3 * table.quotient_chunks, params.blowup, n))
            for t, shift in enumerate(quotient_cosets(heights[i], params.log_blowup, table.quotient_chunks)):
                columns = evaluations[:, t].copy()
                kernels.lde(columns, params.log_blowup, coset=shift, out=chunks[3 * t : 3 * t + 3])
            del evaluations, columns
        quotients.append(chunks)
    with phases("quotient_tree"):
        quotient_tree = commit_present(pk, shape, "quotient", list(quotients))
        assert quotient_tree is not None, "every table has a quotient"
        zeta = transcript.out_of_domain_point(quotient_tree.root)

    # 4. Open every column at zeta, and all but the quotient's at the next row's point.
    with phases("openings"):
        groups = [
            [m for m in (pk.extensions[i], committed.extensions[i], aux_extensions[i]) if m is not None] for i in tables
        ]
        values = out_of_domain_values(pk, shape, groups, quotients, zeta)
        gamma = transcript.batching_challenge(values)

    # 5. DEEP: one codeword per height, low-degree exactly when all these values are right.
    with phases("deep"):
        weights = ext_powers(gamma, shape.weights)
        codewords = {
            h: deep_codeword(pk, shape, h, groups, quotients, values, weights, zeta) for h in shape.distinct_heights
        }

    # 6. FRI: fold from the tallest height down; shorter ones enter where the fold reaches them.
    layers: list[MerkleTree] = []
    codeword = codewords.pop(shape.distinct_heights[0])
    for step, tree_shape in zip(shape.steps, shape.fri_trees, strict=True):
        with phases("fri_tree"):
            layer = kernels.commit([codeword], log_arity=step.log_arity, log_cap=tree_shape.log_cap_nodes)
            beta = transcript.folding_challenge(layer.root)
        with phases("fri_fold"):
            added = codewords.pop(step.log_reached) if step.mixes else None
            codeword = kernels.fold(codeword, step.log_arity, beta, add=added)
        layers.append(layer)
    with phases("final"):
        final = interpolate_final(backend.to_host(codeword))

    # 7. Grind, draw the queries, open every tree at them.
    with phases("grind"):
        nonce = kernels.grind(transcript.grinding_seed(final), params.grinding_bits)
    with phases("queries"):
        indices = transcript.queries(nonce)
        trees = [t for t in (pk.tree, committed.tree, aux_tree, quotient_tree) if t is not None] + layers
        openings = kernels.open(trees, indices)
        opened = tuple(OpenedTree(tree.cap, opening) for tree, opening in zip(trees, openings, strict=True))
    roots = [committed.commitment.main_root, *(t.root for t in (aux_tree, quotient_tree) if t is not None)]
    return StarkProof(
        challenge, heights, tuple(roots), flat, values, tuple(t.root for t in layers), final, nonce, opened
    )


def check_memory(shape: ProofShape, backend: Backend) -> None:
    """Raise OutOfMemory, before anything large is made, when this partition cannot fit into the device."""
    needed, there = peak_bytes(shape), backend.info().memory_budget
    if needed > there:
        rows = ", ".join(f"2^{t.log_height} x {t.widths[1]}" for t in shape.tables)
        raise OutOfMemory(
            f"a partition with tables of {rows} needs {needed / 2**30:.1f} GiB at blow-up {shape.key.params.blowup}; "
            f"the device has {there / 2**30:.1f}: cut the job into more partitions, or take a lower blow-up"
        )


def check_trace_shape(key: VerifyingKey, trace: Trace) -> tuple[int, ...]:
    """log2 of each table's rows. Raises UsageError when the trace is not one of this key's program."""
    if len(trace.main) != len(key.tables):
        raise UsageError(f"the trace has {len(trace.main)} tables; the program has {len(key.tables)}")
    if len(trace.public) != key.statement.public_values or not all(0 <= v < P for v in trace.public):
        raise UsageError(f"the trace must come with {key.statement.public_values} canonical public values")
    heights = []
    for table, columns in zip(key.tables, trace.main, strict=True):
        width, rows = columns.shape
        if width != table.main_width or rows & (rows - 1) or rows == 0:
            raise UsageError(
                f"table {table.name} has {table.main_width} columns and a power of two of rows, not {columns.shape}"
            )
        heights.append(rows.bit_length() - 1)
    if not heights_fit(key, heights):
        raise UsageError(f"tables of 2^{heights} rows do not fit this key (fixed heights: {key.fixed_heights})")
    logup.check_multiplicities(key.tables, [1 << h for h in heights])
    return tuple(heights)


def logup_columns(
    pk: ProvingKey, committed: Committed, buses: BusChallenges
) -> tuple[list[Array | None], list[logup.Terminals]]:
    """Per table the LogUp columns on the trace's rows, and the local and global terminal."""
    columns: list[Array | None] = []
    terminals: list[logup.Terminals] = []
    for i, table in enumerate(pk.key.tables):
        main = committed.columns[i]
        if main is None:
            columns.append(None)
            terminals.append((None, None))
            continue
        scalars = logup.interaction_scalars(
            table, committed.commitment.public, local=buses.local, global_=buses.global_
        )
        made, terminal = logup.aux_columns(pk.backend, table, pk.columns[i], main, scalars)
        columns.append(made)
        terminals.append(terminal)
    return columns, terminals


def flatten_terminals(terminals: Sequence[logup.Terminals]) -> Words:
    """(terminals, 3): those that exist, table by table."""
    flat = [t for pair in terminals for t in pair if t is not None]
    return np.array(flat, dtype=np.uint64).reshape(-1, 3)


def commit_present(
    pk: ProvingKey, shape: ProofShape, round_name: str, matrices: Sequence[Array | None]
) -> MerkleTree | None:
    """The tree over the matrices of a round, None when no table has any."""
    tree = shape.rounds.get(round_name)
    if tree is None:
        return None
    return pk.backend.goldilocks.commit([m for m in matrices if m is not None], log_cap=tree.log_cap_nodes)


def out_of_domain_values(
    pk: ProvingKey, shape: ProofShape, groups: list[list[Array]], quotients: list[Array], zeta: Ext
) -> tuple[TableValues, ...]:
    """Every table's columns at zeta and at its next row's point. Tables of one height go to the backend together."""
    kernels = pk.backend.goldilocks
    found: dict[int, TableValues] = {}
    for height in shape.distinct_heights:
        here = [i for i, t in enumerate(shape.tables) if t.log_height == height]
        both = iter(kernels.evaluate_at([m for i in here for m in groups[i]], zeta, next_row=True))
        once = iter(kernels.evaluate_at([quotients[i] for i in here], zeta, next_row=False))
        for i in here:
            found[i] = TableValues(np.concatenate([next(both) for _ in groups[i]]), next(once))
    return tuple(found[i] for i in range(len(shape.tables)))


def deep_codeword(
    pk: ProvingKey,
    shape: ProofShape,
    height: int,
    groups: list[list[Array]],
    quotients: list[Array],
    values: tuple[TableValues, ...],
    weights: Words,
    zeta: Ext,
) -> Array:
    """(3, B, n): the sum over this height's tables, columns and points of gamma^k (f(x) - f(point)) / (x - point)."""
    points = []
    for i in shape.by_height:
        table = shape.tables[i]
        if table.log_height != height:
            continue
        here, after, quotient = (weights[r.start : r.stop] for r in table.weights)
        both = tuple(groups[i])
        points += [
            DeepPoint(zeta, both, here, e_dot(here, values[i].both[:, 0])),
            DeepPoint(next_point(zeta, height), both, after, e_dot(after, values[i].both[:, 1])),
            DeepPoint(zeta, (quotients[i],), quotient, e_dot(quotient, values[i].quotient)),
        ]
    return pk.backend.goldilocks.deep(points)


def interpolate_final(codeword: Words) -> Words:
    """(n, 3): coefficients of the last codeword (3, B, n); all beyond are zero when every step was honest."""
    n, blowup = codeword.shape[2], codeword.shape[1]
    natural = codeword.transpose(2, 1, 0).reshape(n * blowup, 3)
    return interpolate(natural)[:n]
