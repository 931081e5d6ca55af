"""The verifier of WHIR: the stacked columns, combined with powers of mu, have their claimed value at a point.

Claims are about the coefficients of a polynomial, weighted by the products of a point's coordinates at an index's bits
(docs/multilinear-protocol.md, section 3). A round folds the word 16 to 1 and adds what it was opened at as claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.stark.field import (
    ONE,
    ZERO,
    Ext,
    P,
    Words,
    add,
    e_add,
    e_mul,
    e_powers,
    e_sub,
    element,
    embed,
    ext_mul,
    ext_powers,
    ext_scale,
    mul,
    powers_at,
    root_of_unity,
    sub,
    total,
)
from distprove.stark.merkle import TreeClaim, openings_hold
from distprove.stark.multilinear.buses import elements, evaluate
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.params import Round
from distprove.stark.multilinear.proof import MultilinearProof, tree_shapes
from distprove.stark.multilinear.shape import Shape
from distprove.stark.transcript import work_is_done
from kernels.maths.query_paths import QueryPaths

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Terms:
    """Claims that were added together: at points pow(x), each with a factor, from one variable on."""

    first: int
    """Number of the first variable of these points, counted over all folds."""
    x: Words
    """(terms, 3)"""
    factors: Words


def verify_opening(
    shape: Shape, proof: MultilinearProof, transcript: ProofTranscript, rho: Sequence[Ext], mu: Ext
) -> None:
    """Raise InvalidProof unless the main and the preprocessed columns that are committed to have the stacked values at
    `rho`."""
    params, rounds = shape.key.params, shape.rounds
    batch = e_powers(mu, shape.stacked)
    c = ZERO
    for power, value in zip(batch, elements(proof.stacked), strict=True):
        c = e_add(c, e_mul(power, value))
    alphas: list[Ext] = []
    terms: list[Terms] = []
    queried: list[Indices] = []
    for i, round_ in enumerate(rounds):
        for words in proof.folds[len(alphas) :][: round_.log_fold]:
            h_1, h_2 = elements(words)
            alphas.append(transcript.fold([h_1, h_2]))
            c = evaluate([e_sub(c, h_2), h_1, h_2], alphas[-1])
        last = i == len(rounds) - 1
        sample = ZERO
        if last:
            transcript.final(proof.final)
        else:
            sample = transcript.sample_point(proof.roots[i])
            transcript.sample_value(element(proof.samples[i]))
        if not work_is_done(transcript.grinding_seed(), proof.nonces[i], params.grinding_bits, params.tree_hash):
            raise InvalidProof("the proof of work of a round is not done")
        indices = np.array(transcript.queries(proof.nonces[i], round_.queries, round_.log_leaves), dtype=np.int64)
        queried.append(indices)
        _check_row_counts(shape, proof, i, round_, indices)
        word = first_word(shape, proof, batch, indices) if i == 0 else later_word(shape, proof, i, indices)
        values = fold_leaves(word, round_, indices, alphas[len(alphas) - round_.log_fold :])
        points = embed(powers_at(root_of_unity(round_.log_leaves), indices, max(1, round_.log_leaves)))
        if last:
            if not np.array_equal(univariate_at(proof.final, points), values):
                raise InvalidProof("the last word of WHIR is not that of the final polynomial")
            break
        gamma = transcript.combination()
        factors = ext_powers(gamma, len(indices) + 2)[1:]
        claims = np.concatenate([proof.samples[i : i + 1], values])
        c = e_add(c, element(total(ext_mul(factors, claims))))
        x = np.concatenate([np.array([sample], dtype=np.uint64), points])
        terms.append(Terms(len(alphas), x, factors))
    if not _trees_hold(shape, proof, queried):
        raise InvalidProof("an opening does not match its commitment")
    if c != final_value(proof.final, rho, alphas, terms):
        raise InvalidProof("the final polynomial does not have the claimed sum")


def first_word(shape: Shape, proof: MultilinearProof, batch: Sequence[Ext], indices: Indices) -> Words:
    """The leaves of the first round's word at the queries, (q, 2^k, 3): stacked columns weighted by powers of mu."""
    round_ = shape.rounds[0]
    rows = _each(proof.trees[0].rows[0], indices).reshape(len(indices), 1 << round_.log_fold, shape.main.width)
    word = _weighted(rows, batch[: shape.main.width])
    tree = shape.preprocessed_tree
    if tree is not None:
        places = _fibre(indices, round_) & ((1 << tree.log_leaves) - 1)
        opened = _each(proof.trees[1].rows[0], places.reshape(-1)).reshape(*places.shape, shape.preprocessed.width)
        word = add(word, _weighted(opened, batch[shape.main.width :]))
    return word


def later_word(shape: Shape, proof: MultilinearProof, number: int, indices: Indices) -> Words:
    """The leaves of a later round's codeword at the queries, (q, 2^k, 3)."""
    first = 1 + (shape.preprocessed_tree is not None)
    rows = proof.trees[first + number - 1].rows[0]
    return _each(rows, indices).reshape(len(indices), -1, 3)


def _each(rows: Words, indices: Indices) -> Words:
    """Pick each index's row from those of the distinct indices, ascending."""
    return rows[np.searchsorted(np.unique(indices), indices)]


def _fibre(indices: Indices, round_: Round) -> Indices:
    """The indices of the word that meet in each leaf, (q, 2^k)."""
    return indices[:, None] + (np.arange(1 << round_.log_fold, dtype=np.int64) << round_.log_leaves)


def _weighted(rows: Words, weights: Sequence[Ext]) -> Words:
    """The sums over the last axis of `rows` (.., w) of weight times element, (.., 3)."""
    out = np.zeros((*rows.shape[:-1], 3), dtype=np.uint64)
    for column, weight in enumerate(weights):
        out = add(out, mul(np.array(weight, dtype=np.uint64), rows[..., column, None]))
    return out


def fold_leaves(word: Words, round_: Round, indices: Indices, alphas: Sequence[Ext]) -> Words:
    """Fold leaves (q, 2^k, 3) of a round's word at the queries by its challenges: (q, 3)."""
    log_domain = round_.log_domain
    half = np.uint64(pow(2, -1, P))
    # The inverse of the point of element 0; that of element u is w_A^-u times it for a leaf of A elements.
    inverse_root = pow(root_of_unity(log_domain), -1, P)
    first = powers_at(inverse_root, indices, max(1, log_domain))
    for level, alpha in zip(range(round_.log_fold, 0, -1), alphas, strict=True):
        pairs = 1 << (level - 1)
        steps = powers_at(pow(root_of_unity(level), -1, P), np.arange(pairs), max(1, level))
        a, b = word[:, :pairs], word[:, pairs:]
        odd = ext_scale(sub(a, b), mul(first[:, None], steps))
        folded = add(add(a, b), ext_mul(odd, np.array(alpha, dtype=np.uint64)[None, None]))
        word, first = mul(folded, half), mul(first, first)
    return word[:, 0]


def univariate_at(coefficients: Words, points: Words) -> Words:
    """The values (n, 3) of a polynomial with coefficients (m, 3) at points (n, 3)."""
    out = np.zeros_like(points)
    for c in coefficients[::-1]:
        out = add(ext_mul(out, points), c)
    return out


def final_value(final: Words, rho: Sequence[Ext], alphas: Sequence[Ext], terms: Sequence[Terms]) -> Ext:
    """The sum of all claims' weights times the final polynomial."""
    folded = len(alphas)
    prefix = ONE
    for x, alpha in zip(rho, alphas, strict=False):
        prefix = e_mul(prefix, e_add(ONE, e_mul(x, alpha)))
    value = final
    for x in rho[folded:]:
        value = add(value[0::2], ext_mul(value[1::2], np.array(x, dtype=np.uint64)[None]))
    found = e_mul(prefix, element(value[0]))
    for term in terms:
        points, factors = term.x, term.factors
        for alpha in alphas[term.first :]:
            factors = ext_mul(factors, add(embed(np.ones(len(points), dtype=np.uint64)), _times(points, alpha)))
            points = ext_mul(points, points)
        found = e_add(found, element(total(ext_mul(factors, univariate_at(final, points)))))
    return found


def _times(words: Words, factor: Ext) -> Words:
    return ext_mul(words, np.array(factor, dtype=np.uint64)[None])


def _check_row_counts(shape: Shape, proof: MultilinearProof, number: int, round_: Round, indices: Indices) -> None:
    """Raise InvalidProof unless the trees of a round have as many rows as its queries meet leaves, so that each query
    finds its own."""
    fixed = shape.preprocessed_tree
    first = 1 + (fixed is not None)
    wanted = [(0 if number == 0 else first + number - 1, len(np.unique(indices)))]
    if number == 0 and fixed is not None:
        wanted.append((1, len(np.unique(_fibre(indices, round_) & ((1 << fixed.log_leaves) - 1)))))
    for tree, rows in wanted:
        if len(proof.trees[tree].rows[0]) != rows:
            raise InvalidProof("an opening of another number of rows than the queries meet")


def _trees_hold(shape: Shape, proof: MultilinearProof, queried: Sequence[Indices]) -> bool:
    """Whether all trees open at the queries of their rounds."""
    shapes = [tree for tree, _ in tree_shapes(shape)]
    claims = list(zip(shapes, proof.trees, strict=True))
    (main, opening), *claims = claims
    first = shape.rounds[0]
    held = [(TreeClaim(main, proof.root, opening), queried[0], first.log_leaves)]
    if shape.preprocessed_tree is not None:
        (fixed, opening), *claims = claims
        held.append(
            (
                TreeClaim(fixed, shape.key.preprocessed_root, opening),
                preprocessed_queries(shape, queried[0]),
                fixed.log_leaves,
            )
        )
    for (tree, opening), root, indices in zip(claims, proof.roots, queried[1:], strict=True):
        held.append((TreeClaim(tree, root, opening), indices, tree.log_leaves))
    return all(openings_hold([claim], QueryPaths(indices, log)) for claim, indices, log in held)


def preprocessed_queries(shape: Shape, indices: Indices) -> Indices:
    """The leaves of the preprocessed tree that the queries of the first round meet."""
    tree = shape.preprocessed_tree
    assert tree is not None, "a key without preprocessed columns has no tree"
    return (_fibre(indices, shape.rounds[0]) & ((1 << tree.log_leaves) - 1)).reshape(-1)
