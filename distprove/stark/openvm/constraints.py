"""The verifier of the batched sumcheck: all constraints, and the fractions of the buses, at one point.

A column of 2^(log_skip + n) rows is a function on D x {0, 1}^n, D the subgroup of 2^log_skip points. Round 0 is over D,
the others over one bit each; smaller traces join the rounds from the front. A trace that is shorter than D is lifted to
it: its value at r_0 is that of the trace itself at r_0^(2^-n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from distprove.stark.fraction_layers import LeafClaim
from distprove.stark.openvm.field import (
    BABYBEAR4,
    Ext,
    eq_mle,
    eq_rows,
    eq_uni,
    eq_uni_one,
    exts,
    root_of_unity,
    sum_at,
    sum_over_domain,
)
from distprove.stark.openvm.graph import PointValues, values
from distprove.stark.openvm.proof import ConstraintProof
from distprove.stark.openvm.shape import Shape, Trace
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.polynomials import evaluate, squares
from kernels.maths.babybear import Elements, P

Opened = Sequence[tuple[Ext, Ext]]
"""The values of a part's columns: of each column, and of its next row, zero if the AIR does not read it."""


@dataclass(frozen=True)
class BusChallenges:
    """The challenges of LogUp: a message m_0, .. m_(k-1) on a bus has the denominator alpha + m_0 + beta m_1 + .. +
    beta^(k-1) m_(k-1) + beta^k (bus + 1)."""

    alpha: Ext
    beta: Ext


def openings_of(shape: Shape, proof: ConstraintProof) -> list[list[Opened]]:
    """The openings of each trace and part."""
    return [
        [_pairs(exts(part), trace.air.needs_next) for part in parts]
        for trace, parts in zip(shape.traces, proof.openings, strict=True)
    ]


def _pairs(opened: Sequence[Ext], needs_next: bool) -> Opened:
    if needs_next:
        return list(zip(opened[::2], opened[1::2], strict=True))
    return [(value, BABYBEAR4.zero) for value in opened]


def verify_constraints(
    shape: Shape,
    proof: ConstraintProof,
    openings: Sequence[Sequence[Opened]],
    public_values: Sequence[Elements],
    transcript: Transcript,
    challenges: BusChallenges,
    claim: LeafClaim[Ext],
) -> list[Ext]:
    """Reduce the claim about the fractions, and that all constraints are zero, to the openings of all columns.

    Returns the point (r_0, r_1, .. r_n) of these openings. Raises InvalidProof.
    """
    f, log_skip = BABYBEAR4, shape.key.params.log_skip
    # 1. The point xi that constraints and fractions share: the fractions' own, and more coordinates if a trace is
    #    taller than their stack. lambda batches the constraints of an AIR.
    xi = list(claim.point)
    while len(xi) < log_skip + shape.n_global:
        xi.append(transcript.sample_ext())
    lambda_ = transcript.sample_ext()

    # 2. The shares of the traces in the claim, which mu batches with the constraints.
    numerators, denominators = exts(proof.numerators), exts(proof.denominators)
    for share in chain.from_iterable(zip(numerators, denominators, strict=True)):
        transcript.observe_ext(share)
    f.need_equal(claim.numerator, f.sum(numerators), "the traces' numerators are not that of the buses")
    total = f.add(challenges.alpha, f.sum(denominators))
    f.need_equal(claim.denominator, total, "the traces' denominators are not that of the buses")
    mu = transcript.sample_ext()
    claimed = evaluate(f, list(chain.from_iterable(zip(numerators, denominators, strict=True))), mu)

    # 3. The univariate round.
    transcript.observe_words(proof.univariate)
    r = [transcript.sample_ext()]
    coefficients = exts(proof.univariate)
    summed = sum_over_domain(coefficients, log_skip)
    f.need_equal(claimed, summed, "the univariate round does not sum to the traces' shares")
    current = evaluate(f, coefficients, r[0])

    # 4. The multilinear rounds.
    for row in proof.rounds:
        transcript.observe_words(row)
        r.append(transcript.sample_ext())
        current = sum_at(current, row, r[-1])

    # 5. The openings, all common parts first, and the value that follows from them.
    for parts in openings:
        _observe_openings(transcript, parts[:1])
    for parts in openings:
        _observe_openings(transcript, parts[1:])
    plain, sharp = _round_weights(shape, xi, r)
    block_weights = _block_weights(shape, xi)
    fractions, constraints = list[Ext](), list[Ext]()
    for trace, parts, weights in zip(shape.traces, openings, block_weights, strict=True):
        nodes = values(f, trace.air.graph, _point_values(trace, parts, public_values[trace.number].tolist(), r))
        batched = evaluate(f, [nodes[node] for node in trace.air.graph.constraints], lambda_)
        constraints.append(f.mul(plain[trace.n_lift], batched))
        numerator, denominator = _fractions(trace, nodes, weights, challenges.beta)
        lifted = f.scale(numerator, pow(f.half, max(0, -trace.n), P))
        fractions += [f.mul(sharp[trace.n_lift], lifted), f.mul(sharp[trace.n_lift], denominator)]
    expected = evaluate(f, [*fractions, *constraints], mu)
    f.need_equal(current, expected, "the openings do not satisfy the constraints and interactions")
    return r


def _observe_openings(transcript: Transcript, parts: Sequence[Opened]) -> None:
    for part in parts:
        for here, after in part:
            transcript.observe_ext(here)
            transcript.observe_ext(after)


def _round_weights(shape: Shape, xi: Sequence[Ext], r: Sequence[Ext]) -> tuple[list[Ext], list[Ext]]:
    """For each number n of variables the weights of constraints and of fractions of traces with it: eq(xi, r) in the
    first n variables, and the product of the later r.

    On D a constraint's eq is eq_D(xi_0, r_0). A fraction's interpolates the multilinear eq of D's row bits.
    """
    f, log_skip = BABYBEAR4, shape.key.params.log_skip
    plain, sharp = [eq_uni(log_skip, xi[0], r[0])], [eq_rows(xi[:log_skip], r[0])]
    for x, own in zip(xi[log_skip : log_skip + shape.n_max], r[1:], strict=True):
        factor = eq_mle([x], [own])
        plain.append(f.mul(plain[-1], factor))
        sharp.append(f.mul(sharp[-1], factor))
    later = f.one
    for n in reversed(range(shape.n_max)):
        later = f.mul(later, r[n + 1])
        plain[n], sharp[n] = f.mul(plain[n], later), f.mul(sharp[n], later)
    return plain, sharp


def _block_weights(shape: Shape, xi: Sequence[Ext]) -> list[list[Ext]]:
    """For each trace the weights of its interactions: eq of xi's upper coordinates and the place of the interaction's
    fractions in the stack of all of them, one interaction behind another."""
    places, start = list[tuple[int, int]](), 0
    for trace in shape.traces:
        for _ in trace.air.graph.interactions:
            places.append((trace.log_rows, start >> trace.log_rows))
            start += 1 << trace.log_rows
    found = BABYBEAR4.eqs(xi[: shape.bus_layers], places)
    return [[next(found) for _ in trace.air.graph.interactions] for trace in shape.traces]


def _point_values(trace: Trace, parts: Sequence[Opened], public: Sequence[int], r: Sequence[Ext]) -> PointValues[Ext]:
    """The values from which the nodes of a trace's AIR are evaluated, at its part of the point r."""
    f, log_domain = BABYBEAR4, min(trace.log_height, trace.log_skip)
    first, rows = squares(f, r[0], 1 + max(0, -trace.n))[-1], r[1 : 1 + trace.n_lift]
    is_first = eq_uni_one(log_domain, first)
    is_last = eq_uni_one(log_domain, f.scale(first, root_of_unity(log_domain)))
    for x in rows:
        is_first, is_last = f.mul(is_first, f.sub(f.one, x)), f.mul(is_last, x)
    fixed = 1 if trace.air.preprocessed is None else 2
    ordered = [() if fixed == 1 else parts[1], *parts[fixed:], parts[0]]
    return PointValues(ordered, public, is_first, is_last)


def _fractions(trace: Trace, nodes: Sequence[Ext], weights: Sequence[Ext], beta: Ext) -> tuple[Ext, Ext]:
    """The weighted sums of the numerators and denominators, without alpha, of a trace's interactions."""
    f, numerator, denominator = BABYBEAR4, BABYBEAR4.zero, BABYBEAR4.zero
    for interaction, weight in zip(trace.air.graph.interactions, weights, strict=True):
        message = [*(nodes[node] for node in interaction.message), f.constant(interaction.bus + 1)]
        numerator = f.add(numerator, f.mul(weight, nodes[interaction.count]))
        denominator = f.add(denominator, f.mul(weight, evaluate(f, message, beta)))
    return numerator, denominator
