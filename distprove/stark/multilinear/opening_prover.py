"""The prover of WHIR: it folds the combined columns 16 to 1, commits to each fold, and opens the one before.

Claims are weights on coefficients. Those of the queries of a round are powers of roots of unity, so that all of them
together are one transform of the queries' factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import ONE, Ext, Words, ext_powers
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.commitment import Stacked, combined
from distprove.stark.multilinear.opened import preprocessed_queries
from distprove.stark.multilinear.shape import Shape
from distprove.stark.polynomials import squares
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import MerkleTree, TreeOpening


@dataclass(frozen=True)
class Opening:
    """WHIR's part of a proof."""

    folds: Words
    roots: tuple[bytes, ...]
    samples: Words
    nonces: tuple[int, ...]
    final: Words
    trees: tuple[TreeOpening, ...]


def prove_opening(
    backend: Backend,
    shape: Shape,
    main: Stacked,
    fixed: Stacked | None,
    rho: Sequence[Ext],
    mu: Ext,
    transcript: ProofTranscript[Ext],
) -> Opening:
    """Prove the values of the stacked columns at `rho`, combined with powers of mu."""
    goldilocks, kernels, params = backend.goldilocks, backend.multilinear, shape.key.params
    pair = kernels.pair(1 << shape.log_height)
    combine_stacks(backend, shape, main, fixed, mu, pair[0])
    kernels.tabulate(kernels.products(rho, eq=False), pair[1])
    folds: list[Words] = []
    roots, samples, nonces = [], [], []
    trees: list[TreeOpening] = []
    tree: MerkleTree = main.tree
    queried: tuple[int, MerkleTree, list[int]] | None = None
    """The round, tree and leaves that are still to be opened: the device has the next round to do meanwhile."""
    final: Words | None = None
    for i, round_ in enumerate(shape.rounds):
        if round_.log_fold:
            made = kernels.pair_rounds([pair], round_.log_fold, transcript.words(), opening=True)
            (pair,) = kernels.fold_drawn(made)
        last = i == len(shape.rounds) - 1
        next_tree, z = tree, ONE
        if not last:  # queued before the host waits for the rounds
            following = shape.rounds[i + 1]
            codeword = kernels.encode(pair[0], following.log_domain - following.log_size)
            next_tree = goldilocks.commit([codeword], log_arity=following.log_fold, tree_hash=params.tree_hash)
        if queried is not None:
            trees += _open(backend, shape, main, fixed, *queried)
        if round_.log_fold:
            transcript.resume(made.transcript)
            folds.append(made.sent)
            del made
        if last:
            final = np.ascontiguousarray(backend.to_host(pair)[0].T)
            transcript.final(final)
        else:
            roots.append(next_tree.root)
            z = transcript.sample_point(roots[-1])
            samples.append(kernels.dot(pair[0], kernels.products(squares(NUMBERS, z, following.log_size), eq=False)))
            transcript.sample_value(samples[-1])
        nonces.append(goldilocks.grind(transcript.grinding_seed(), params.grinding_bits, tree_hash=params.tree_hash))
        indices = transcript.queries(nonces[-1], round_.queries, round_.log_leaves)
        queried = i, tree, indices
        if not last:
            _add_claims(backend, z, indices, round_.log_leaves, shape.rounds[i + 1].log_size, transcript, pair[1])
        tree = next_tree
    assert final is not None, "there is a last round"
    assert queried is not None, "and it is queried"
    trees += _open(backend, shape, main, fixed, *queried)
    return Opening(
        np.concatenate([np.zeros((0, 2, 3), dtype=np.uint64), *folds]),
        tuple(roots),
        np.array(samples, dtype=np.uint64).reshape(-1, 3),
        tuple(nonces),
        final,
        tuple(trees),
    )


def combine_stacks(backend: Backend, shape: Shape, main: Stacked, fixed: Stacked | None, mu: Ext, out: Array) -> None:
    """Write the coefficients (3, 2^log_height) of the combined columns. Preprocessed ones do not depend on the first
    variables of a taller stack."""
    kernels, weights = backend.multilinear, ext_powers(mu, shape.stacked)
    combined(backend, main, weights[: main.stack.width], out)
    if fixed is not None:
        own = combined(backend, fixed, weights[main.stack.width :])
        kernels.add_to(out, own, step=1 << (shape.log_height - fixed.stack.log_height))


def _open(
    backend: Backend,
    shape: Shape,
    main: Stacked,
    fixed: Stacked | None,
    number: int,
    tree: MerkleTree,
    indices: Sequence[int],
) -> list[TreeOpening]:
    """Open the trees of a round, by its number, at the leaves that it queries. The first has the stacks' trees."""
    if number:
        return backend.goldilocks.open([tree], indices)
    trees = main.open(backend, indices)
    if fixed is not None:
        trees += backend.goldilocks.open([fixed.tree], preprocessed_queries(shape, np.array(indices, dtype=np.int64)))
    return trees


def _add_claims(
    backend: Backend,
    z: Ext,
    indices: Sequence[int],
    log_leaves: int,
    log_size: int,
    transcript: ProofTranscript[Ext],
    weights: Array,
) -> None:
    """Add to weights (3, 2^log_size) those of the claims of a sample at z and of queries, by powers of gamma."""
    kernels, gamma = backend.multilinear, transcript.combination()
    kernels.tabulate(kernels.products(squares(NUMBERS, z, log_size), gamma, eq=False), weights, add=True)
    # The sum over queries of factor w^(j b) for all b: a transform of the factors at the places j.
    spread = kernels.encode(kernels.scattered_powers(indices, gamma, 2, 1 << log_leaves), 0)
    kernels.add_to(weights, spread.reshape(3, -1))
