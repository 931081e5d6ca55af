"""The verifier of WHIR: the stacked columns, combined with powers of mu, have their claimed value at a point.

Claims are about the coefficients of a polynomial, weighted by the products of a point's coordinates at an index's bits
(docs/multilinear-protocol.md, section 3). A round folds the word 16 to 1 and adds what it was opened at as claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.arithmetic import Arithmetic, E, Elements, Indices
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.opened import Opened
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import point_paired
from distprove.stark.polynomials import evaluate


@dataclass(frozen=True)
class Terms:
    """Claims that were added together: at points pow(x), each with a factor, from one variable on."""

    first: int
    """Number of the first variable of these points, counted over all folds."""
    x: Elements
    """(terms, element)"""
    factors: Elements


def verify_opening(
    f: Arithmetic[E],
    shape: Shape,
    proof: MultilinearProof,
    opened: Opened,
    transcript: ProofTranscript[E],
    rho: Sequence[E],
    mu: E,
) -> None:
    """The main and the preprocessed columns that are committed to must have the stacked values at `rho`."""
    params, rounds = shape.key.params, shape.rounds
    batch = f.powers(mu, shape.stacked)
    c = f.sum([f.mul(power, value) for power, value in zip(batch, f.elements(proof.stacked), strict=True)])
    alphas: list[E] = []
    terms: list[Terms] = []
    for i, round_ in enumerate(rounds):
        for words in proof.folds[len(alphas) :][: round_.log_fold]:
            h_1, h_2 = f.elements(words)
            alphas.append(transcript.fold([h_1, h_2]))
            c = evaluate(f, [f.sub(c, h_2), h_1, h_2], alphas[-1])
        last = i == len(rounds) - 1
        sample = f.zero
        if last:
            transcript.final(proof.final)
        else:
            sample = transcript.sample_point(proof.roots[i])
            transcript.sample_value(f.elements(proof.samples[i : i + 1])[0])
        seed, nonce = transcript.grinding_seed(), proof.nonces[i]
        f.need_work(seed, nonce, params.grinding_bits, params.tree_hash, "the proof of work of a round is not done")
        indices = np.array(transcript.queries(nonce, round_.queries, round_.log_leaves))
        word = first_word(f, shape, opened, batch, indices) if i == 0 else opened.codeword(i, indices)
        values, places = f.fold_leaves(word, indices, round_.log_domain, alphas[len(alphas) - round_.log_fold :])
        points = f.embed(places)
        if last:
            found = univariate_at(f, proof.final, points)
            f.need_all_equal(found, values, "the last word of WHIR is not that of the final polynomial")
            break
        gamma = transcript.combination()
        factors = f.powers_array(gamma, len(indices) + 2)[1:]
        c = f.add(c, f.dot(factors, np.concatenate([proof.samples[i : i + 1], values])))
        terms.append(Terms(len(alphas), np.concatenate([f.array([sample]), points]), factors))
    opened.check()
    f.need_equal(
        c, final_value(f, proof.final, rho, alphas, terms), "the final polynomial does not have the claimed sum"
    )


def first_word(f: Arithmetic[E], shape: Shape, opened: Opened, batch: Sequence[E], indices: Indices) -> Elements:
    """The leaves of the first round's word at the queries, (q, 2^k, element): stacked columns weighted by powers of
    mu."""
    width = shape.main.width
    word = f.weighted(batch[:width], opened.main(indices).reshape(len(indices), -1, width))
    fixed = opened.fixed(indices)
    return word if fixed is None else f.adds(word, f.weighted(batch[width:], fixed))


def univariate_at(f: Arithmetic[E], coefficients: Elements, points: Elements) -> Elements:
    """The values (n, element) of a polynomial with coefficients (m, element) at points (n, element)."""
    out: Elements = f.array([f.zero] * len(points))
    for c in coefficients[::-1]:
        out = f.adds(f.muls(out, points), c)
    return out


def final_value(f: Arithmetic[E], final: Elements, rho: Sequence[E], alphas: Sequence[E], terms: Sequence[Terms]) -> E:
    """The sum of all claims' weights times the final polynomial."""
    folded = len(alphas)
    prefix = point_paired(f, rho[:folded], alphas)
    value = final
    for x in rho[folded:]:
        value = f.adds(value[0::2], f.muls(value[1::2], f.array([x])))
    found = f.mul(prefix, f.elements(value)[0])
    for term in terms:
        factors, points = f.paired(term.factors, term.x, alphas[term.first :])
        found = f.add(found, f.dot(factors, univariate_at(f, final, points)))
    return found
