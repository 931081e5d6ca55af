"""The verifier of WHIR: the stacked columns, combined with powers of mu, have their claimed values at a point.

A stacked column is a multilinear polynomial in the bits of a coefficient's index; its codeword evaluates the univariate
polynomial with the same coefficients. A round folds the codeword 2^k to 1, and adds what it was opened at as claims:
that the folded polynomial has a value at pow(z) = (z, z^2, z^4, ..).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.openvm.field import BABYBEAR4, Ext, exts, sum_at
from distprove.stark.openvm.merkle import OpenedTree, check_paths
from distprove.stark.openvm.proof import WhirProof
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.polynomials import between, evaluate, squares
from kernels.maths.babybear import DEGREE, Elements, P, add, ext_dot, ext_mul, ext_powers, ext_scale, mul

SUMMED_COLUMNS = 1 << 12
"""Columns of rows that are weighted at a time: their sums stay below 2^64."""


@dataclass(frozen=True)
class Claims:
    """The claims of a round: values at points pow(z) of the polynomial after its folds."""

    sample: Ext | None
    """The out-of-domain point; None in the last round."""
    points: Elements
    """(queries,)"""
    gamma: Ext
    """The out-of-domain claim has the factor gamma, the queries' ones gamma^2, gamma^3, ..."""


def verify_opening(
    shape: Shape,
    proof: WhirProof,
    stacked: Sequence[Elements],
    roots: Sequence[Elements],
    u: Sequence[Ext],
    transcript: Transcript,
) -> None:
    """Check that the committed columns have the values `stacked` at the point u = (u_0, .. u_n_stack).

    `stacked`: (columns, 4) for each commitment, `roots`: theirs. Raises InvalidProof.
    """
    f, params, whir = BABYBEAR4, shape.key.params, shape.key.params.whir
    # 1. Combine all stacked columns.
    transcript.need_work(whir.mu_pow_bits, proof.mu_pow_witness, "before the columns are combined")
    mu = transcript.sample_ext()
    claim = evaluate(f, [value for values in stacked for value in exts(values)], mu)
    alphas, claims = list[Ext](), list[Claims]()
    for i, queries in enumerate(whir.queries):
        # 2. Fold by k rounds of a sumcheck.
        for j in range(i * whir.log_fold, (i + 1) * whir.log_fold):
            transcript.observe_words(proof.rounds[j])
            transcript.need_work(whir.folding_pow_bits, int(proof.folding_pow_witnesses[j]), "of a fold")
            alphas.append(transcript.sample_ext())
            claim = sum_at(claim, proof.rounds[j], alphas[-1])

        # 3. Bind the next codeword and its value at a point outside of its domain, or the final polynomial.
        last, sample, value = i == whir.rounds - 1, None, f.zero
        if last:
            transcript.observe_words(proof.final)
        else:
            transcript.observe_words(proof.roots[i])
            sample = transcript.sample_ext()
            transcript.observe_words(proof.samples[i])
            (value,) = exts(proof.samples[i])

        # 4. Open the codeword at queries. The first is that of the combined columns.
        transcript.need_work(whir.query_pow_bits, int(proof.query_pow_witnesses[i]), "of the queries")
        drawn = [transcript.sample_bits(params.log_leaves(i)) for _ in range(queries)]
        indices = np.array(drawn, dtype=np.uint32)
        if i:
            word = proof.words[i - 1]
            check_paths(indices, [OpenedTree(f"codeword {i}", proof.roots[i - 1], word, proof.word_paths[i - 1])])
        else:
            word = _first_word(proof, roots, indices, mu)
        folded, points = f.fold_leaves(word, indices, params.log_domain(i), alphas[-whir.log_fold :])

        # 5. Add the claims. In the last round they are about the final polynomial itself.
        gamma = transcript.sample_ext()
        factors = ext_powers(np.array(gamma, dtype=np.uint32), queries + 2)[2:]
        claim = f.sum([claim, f.mul(gamma, value), *exts(ext_dot(factors, folded))])
        claims.append(Claims(sample, points, gamma))

    # 6. The final polynomial meets all claims.
    point = [*squares(f, u[0], params.log_skip), *u[1:]]
    f.need_equal(
        claim, _final_value(proof.final, point, alphas, claims, whir.log_fold), "the final polynomial is wrong"
    )


def _first_word(proof: WhirProof, roots: Sequence[Elements], indices: Elements, mu: Ext) -> Elements:
    """The leaves of the combined columns' codeword at the queries, (queries, 2^k, 4), from the opened rows."""
    opened = zip(roots, proof.rows, proof.row_paths, strict=True)
    check_paths(indices, [OpenedTree(f"commitment {i}", *each) for i, each in enumerate(opened)])
    rows = np.concatenate(proof.rows, axis=-1)
    return weighted(rows, ext_powers(np.array(mu, dtype=np.uint32), rows.shape[-1]))


def weighted(rows: Elements, weights: Elements) -> Elements:
    """Return the sums over the last axis of base elements `rows` (..., n) times extension elements (n, 4): (..., 4)."""
    out = np.zeros((*rows.shape[:-1], DEGREE), dtype=np.uint32)
    for first in range(0, rows.shape[-1], SUMMED_COLUMNS):
        own = rows[..., first : first + SUMMED_COLUMNS].astype(np.uint64)
        each = weights[first : first + SUMMED_COLUMNS].astype(np.uint64)
        # Halves of 16 bits: 2^12 products of 31 and 16 bits are below 2^59.
        low, high = own @ (each & np.uint64(0xFFFF)), own @ (each >> np.uint64(16))
        joined = (low + (high % np.uint64(P) << np.uint64(16))) % np.uint64(P)
        out = add(out, joined.astype(np.uint32))
    return out


def _final_value(
    final: Elements, point: Sequence[Ext], alphas: Sequence[Ext], claims: Sequence[Claims], log_fold: int
) -> Ext:
    """The sum of all claims' weights times the final polynomial's coefficients."""
    f, folded = BABYBEAR4, len(alphas)
    # The claim of the stacked columns. A column's value at u is the sum of its coefficients weighted by the Moebius
    # transform of eq(u, .), whose factor in a variable at alpha is (1 - 2 u) (1 - alpha) + u alpha.
    prefix = f.one
    for x, alpha in zip(point[:folded], alphas, strict=True):
        prefix = f.mul(prefix, between(f, f.sub(f.one, f.add(x, x)), x, alpha))
    rest = exts(final)
    for x in point[folded:]:
        rest = [between(f, a, b, x) for a, b in zip(rest[0::2], rest[1::2], strict=True)]
    found = f.mul(prefix, rest[0])
    # The claims of each round: eq(pow(z), alpha) in the variables that were folded after it, and the final polynomial
    # at the power of z that is left.
    coefficients = exts(final)
    for i, own in enumerate(claims, 1):
        later = alphas[i * log_fold :]
        if own.sample is not None:
            *left, at = squares(f, own.sample, len(later) + 1)
            weight = own.gamma
            for x, alpha in zip(left, later, strict=True):
                weight = f.mul(weight, between(f, f.sub(f.one, x), x, alpha))
            found = f.add(found, f.mul(weight, evaluate(f, coefficients, at)))
        weights, points = ext_powers(np.array(own.gamma, dtype=np.uint32), len(own.points) + 2)[2:], own.points
        for alpha in later:
            # 1 - z - alpha + 2 alpha z
            slope, base = f.sub(f.add(alpha, alpha), f.one), f.sub(f.one, alpha)
            factor = add(ext_scale(np.array(slope, dtype=np.uint32)[None], points), np.array(base, dtype=np.uint32))
            weights, points = ext_mul(weights, factor), mul(points, points)
        found = f.sum([found, *exts(ext_dot(weights, _univariate_at(final, points)))])
    return found


def _univariate_at(coefficients: Elements, points: Elements) -> Elements:
    """Return the values (n, 4) at base elements (n,) of a polynomial with extension coefficients (m, 4)."""
    matrix = np.ones((len(points), 1), dtype=np.uint32)
    step = points[:, None]
    while matrix.shape[1] < len(coefficients):
        matrix, step = np.concatenate([matrix, mul(matrix, step)], axis=1), mul(step, step)
    return weighted(matrix[:, : len(coefficients)], coefficients)
