"""The verifier of the stacked reduction: all openings become one value of each stacked column, at one point."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.openvm.constraints import Opened
from distprove.stark.openvm.field import (
    BABYBEAR4,
    Ext,
    eq_prism,
    eq_uni_one,
    exts,
    rotation,
    sum_at,
    sum_over_domain,
)
from distprove.stark.openvm.proof import StackingProof
from distprove.stark.openvm.shape import Shape, Trace
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.polynomials import evaluate, squares


def verify_reduction(
    shape: Shape,
    proof: StackingProof,
    openings: Sequence[Sequence[Opened]],
    r: Sequence[Ext],
    transcript: Transcript,
) -> list[Ext]:
    """Reduce the openings of all columns at r to those of the stacked columns.

    Returns the point (u_0, u_1, .. u_n_stack) of the latter. Raises InvalidProof.
    """
    f, params = BABYBEAR4, shape.key.params
    # 1. Batch the openings, in the order of the layouts: of a column and its next row with lambda^(2i) and one more.
    claims = [pair for parts in openings for pair in parts[0]]
    claims += [pair for parts in openings for part in parts[1:] for pair in part]
    lambda_ = transcript.sample_ext()
    squared = f.powers(f.mul(lambda_, lambda_), len(claims))
    pairs = zip(claims, squared, strict=True)
    batched = f.sum([f.mul(f.add(here, f.mul(lambda_, after)), power) for (here, after), power in pairs])

    # 2. The univariate round, which sums to them over D, and the multilinear ones.
    coefficients = exts(proof.univariate)
    summed = sum_over_domain(coefficients, params.log_skip)
    f.need_equal(batched, summed, "the univariate round does not sum to the openings")
    transcript.observe_words(proof.univariate)
    u = [transcript.sample_ext()]
    current = evaluate(f, coefficients, u[0])
    for row in proof.rounds:
        transcript.observe_words(row)
        u.append(transcript.sample_ext())
        current = sum_at(current, row, u[-1])

    # 3. The stacked columns' values, and their weights in the claim.
    expected = f.zero
    for values, weights in zip(proof.openings, _stacked_weights(shape, r, u, lambda_, squared), strict=True):
        transcript.observe_words(values)
        expected = f.add(expected, f.sum([f.mul(v, w) for v, w in zip(exts(values), weights, strict=True)]))
    f.need_equal(current, expected, "the openings are not those of the stacked columns")
    return u


def _stacked_weights(
    shape: Shape, r: Sequence[Ext], u: Sequence[Ext], lambda_: Ext, squared: Sequence[Ext]
) -> list[list[Ext]]:
    """The weight of each stacked column of each commitment."""
    f, found, powers = BABYBEAR4, list[list[Ext]](), iter(squared)
    kernels = {trace.number: _kernel(trace, r, u, lambda_) for trace in shape.traces}
    for layout, traces in zip(shape.layouts, shape.layout_traces, strict=True):
        weights = [f.zero] * layout.width
        for placed, trace in zip(layout.traces, traces, strict=True):
            positions = [placed.position(column, layout.log_stacked) for column in range(placed.width)]
            places = [(trace.n_lift, row >> placed.log_rows) for _, row in positions]
            for (column, _), eq in zip(positions, f.eqs(u[1:], places), strict=True):
                weight = f.mul(f.mul(next(powers), kernels[trace.number]), eq)
                weights[column] = f.add(weights[column], weight)
        found.append(weights)
    return found


def _kernel(trace: Trace, r: Sequence[Ext], u: Sequence[Ext], lambda_: Ext) -> Ext:
    """The weight of a trace's columns before their places in the stack: eq(u, r), and lambda times the kernel of the
    next row if that is read. A trace shorter than D takes only some of the rows that it has in a stack."""
    f, shorter = BABYBEAR4, max(0, -trace.n)
    log_domain = trace.log_skip - shorter
    x, y = u[: trace.n_lift + 1], [squares(f, r[0], 1 + shorter)[-1], *r[1 : trace.n_lift + 1]]
    kernel = eq_prism(log_domain, x, y)
    if trace.air.needs_next:
        kernel = f.add(kernel, f.mul(lambda_, rotation(log_domain, x, y)))
    return f.mul(kernel, eq_uni_one(shorter, squares(f, u[0], 1 + log_domain)[-1]))
