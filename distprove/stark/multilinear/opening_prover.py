"""The prover of WHIR: it folds the combined columns 16 to 1, commits to each fold, and opens the one before.

Claims are weights on coefficients. Those of the queries of a round are powers of roots of unity, so that all of them
together are one transform of the queries' factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.field import ONE, Ext, Words, add, e_powers, ext_powers
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.commitment import Stacked, combined, value_at
from distprove.stark.multilinear.opening import preprocessed_queries
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import squares
from distprove.stark.multilinear.vectors import Vectors
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
    transcript: ProofTranscript,
) -> Opening:
    """Prove the values of the stacked columns at `rho`, combined with powers of mu."""
    kernels, vectors, params = backend.goldilocks, Vectors(backend), shape.key.params
    coefficients = combine_stacks(backend, shape, main, fixed, mu)
    pair = np.stack([coefficients, vectors.power_table(rho, ONE)], axis=1)
    folds: list[list[Ext]] = []
    roots, samples, nonces = [], [], []
    trees: list[TreeOpening] = []
    tree: MerkleTree = main.tree
    for i, round_ in enumerate(shape.rounds):
        for _ in range(round_.log_fold):
            folds.append(list(vectors.pair_round(pair)))
            pair = vectors.fold_coefficients(pair, transcript.fold(folds[-1]))
        last = i == len(shape.rounds) - 1
        next_tree, z = tree, ONE
        if last:
            transcript.final(np.ascontiguousarray(pair[:, 0].T))
        else:
            following = shape.rounds[i + 1]
            log_blowup = following.log_domain - following.log_size
            codeword = vectors.codewords(np.ascontiguousarray(pair[:, 0]), log_blowup)
            next_tree = kernels.commit([codeword], log_arity=following.log_fold, tree_hash=params.tree_hash)
            roots.append(next_tree.root)
            z = transcript.sample_point(roots[-1])
            samples.append(value_at(vectors, pair[:, 0], squares(z, following.log_size)))
            transcript.sample_value(samples[-1])
        nonces.append(kernels.grind(transcript.grinding_seed(), params.grinding_bits, tree_hash=params.tree_hash))
        indices = transcript.queries(nonces[-1], round_.queries, round_.log_leaves)
        trees += kernels.open([tree], indices)
        if i == 0 and fixed is not None:
            own = preprocessed_queries(shape, np.array(indices, dtype=np.int64))
            trees += kernels.open([fixed.tree], own.tolist())
        if not last:
            weights = _claims(vectors, z, indices, round_.log_leaves, shape.rounds[i + 1].log_size, transcript)
            pair = np.stack([pair[:, 0], vectors.add(pair[:, 1], weights)], axis=1)
        tree = next_tree
    return Opening(
        np.array(folds, dtype=np.uint64).reshape(-1, 2, 3),
        tuple(roots),
        np.array(samples, dtype=np.uint64).reshape(-1, 3),
        tuple(nonces),
        np.ascontiguousarray(pair[:, 0].T),
        tuple(trees),
    )


def combine_stacks(backend: Backend, shape: Shape, main: Stacked, fixed: Stacked | None, mu: Ext) -> Words:
    """The coefficients (3, 2^log_height) of the combined columns. Preprocessed ones do not depend on the first
    variables of a taller stack."""
    weights = ext_powers(mu, shape.stacked)
    coefficients = combined(backend, main, weights[: main.stack.width])
    if fixed is not None:
        own = combined(backend, fixed, weights[main.stack.width :])
        places = slice(None, None, 1 << (shape.log_height - fixed.stack.log_height))
        coefficients = coefficients.copy()
        coefficients[:, places] = add(coefficients[:, places], own)
    return coefficients


def _claims(
    vectors: Vectors, z: Ext, indices: Sequence[int], log_leaves: int, log_size: int, transcript: ProofTranscript
) -> Words:
    """The weights (3, 2^log_size) of the claims of a sample at z and of queries, by powers of gamma."""
    gamma = transcript.combination()
    powers = e_powers(gamma, len(indices) + 2)[1:]
    weights = vectors.power_table(squares(z, log_size), powers[0])
    # The sum over queries of factor w^(j b) for all b: a transform of the factors at the places j.
    factors = np.zeros((3, 1 << log_leaves), dtype=np.uint64)
    for j, power in zip(indices, powers[1:], strict=True):
        factors[:, j] = add(factors[:, j], np.array(power, dtype=np.uint64))
    return vectors.add(weights, np.ascontiguousarray(vectors.transform(factors)[:, : 1 << log_size]))
