"""The prover of the reduction from claims about columns and their next rows to claims about stacked columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.openvm.commitment import Stacked
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.proof import StackingProof
from distprove.stark.openvm.tables import lagrange
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import multiply
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_stacking import StackedPiece
from kernels.maths.babybear import (
    Elements,
    ext_mul,
    ext_power,
    ext_powers,
    ext_scale,
    root_of_unity,
    sub,
    total,
)
from kernels.maths.babybear_ntt import intt


def prove_stacking(
    kernels: OpenVmKernels,
    transcript: Transcript,
    params: SystemParams,
    commitments: Sequence[Stacked],
    reads_next: Sequence[Sequence[bool]],
    point: Sequence[Elements],
) -> tuple[StackingProof, list[Elements]]:
    """Reduce the claims about all columns at `point` to claims about the stacked columns at one new point.

    `reads_next` states for each matrix of each commitment whether next rows are claimed too. `point` starts with the
    challenge of the univariate round. Returns the proof and the new point, 1 + n_stack elements (4,).
    """
    # 1. Draw one power for the claim of each column, and one for that of its next row.
    batch = np.array(transcript.sample_ext(), dtype=np.uint32)
    pieces, log_heights = _pieces(commitments, reads_next)
    stacks = [stacked.columns for stacked in commitments]
    claims = kernels.stacking.claims(stacks, params.log_skip, pieces, point[1:], batch)

    # 2. The univariate round: s(Z), the sum over the cube of all columns times their weights.
    weights = _row_weights(params.log_skip, log_heights, point[0])
    length = 2 * (1 << params.log_skip) - 1
    sent = total(multiply(intt(claims.sums(), -2), weights, length).reshape(-1, length, 4), 0)
    transcript.observe_words(sent)
    drawn = np.array(transcript.sample_ext(), dtype=np.uint32)

    # 3. Bind Z in the stacked columns, and in the weights, which become one table over all stacked columns.
    at_drawn = total(ext_mul(weights, ext_powers(drawn, weights.shape[-2])), -2)
    claims.bind(lagrange(params.log_skip, drawn), at_drawn)

    # 4. The multilinear rounds. What is left are the stacked columns at the new point.
    rounds = claims.rounds(transcript)
    transcript.observe_words(rounds.openings)
    ends = np.cumsum([stacked.layout.width for stacked in commitments])[:-1]
    openings = tuple(np.split(rounds.openings, ends))
    return StackingProof(sent, rounds.rounds, openings), [drawn, *rounds.drawn]


def _pieces(
    commitments: Sequence[Stacked], reads_next: Sequence[Sequence[bool]]
) -> tuple[list[StackedPiece], list[int]]:
    """The matrices that have columns, and log2 of the rows for each kind of weights: one kind for each height."""
    pieces, log_heights, claim = [], list[int](), 0
    for number, stacked in enumerate(commitments):
        for placed in stacked.layout.traces:
            if not placed.width:
                continue
            if placed.log_height not in log_heights:
                log_heights.append(placed.log_height)
            kind, reads = log_heights.index(placed.log_height), reads_next[number][placed.trace]
            place = number, placed.start, placed.width, placed.log_rows
            pieces.append(StackedPiece(*place, kind, claim, reads))
            claim += placed.width
    return pieces, log_heights


def _row_weights(log_skip: int, log_heights: Sequence[int], at: Elements) -> Elements:
    """The factors over D of the weights of columns with 2^log_height rows, for the point's first coordinate `at`.

    The weight of a row is `eq_row(Z) eq_cube(x)`. That of a next row is `next_row(Z) eq_cube(x)` plus `carry(Z)` times
    the difference of eq_cube moved by one, cyclically, and eq_cube: the step from the last point of D to 1 increments
    the bits. Returns the coefficients of eq_row, next_row - carry, and carry, (kinds, 3, 2^log_skip, 4).

    A column of fewer than 2^log_skip rows fills every n-th row of D, n = 2^missing. Its weights are the polynomial that
    is 1 at these rows and 0 at the others, times those over the smaller subgroup, at the n-th power of the point.
    """
    known: dict[tuple[int, bool], Elements] = {}
    kinds = [(max(0, log_skip - log_height), log_height > log_skip) for log_height in log_heights]
    for missing, has_cube in kinds:
        if (missing, has_cube) in known:
            continue
        log_rows = log_skip - missing
        here = ext_power(at, 1 << missing)
        after = ext_scale(here, np.asarray(root_of_unity(log_rows), dtype=np.uint32))
        # The rows z with w^z in the smaller subgroup are the multiples of n: eq is 1 there and 0 elsewhere.
        taken = slice(None, None, 1 << missing)
        eq_row, next_row, carry = (np.zeros((1 << log_skip, 4), dtype=np.uint32) for _ in range(3))
        eq_row[taken], next_row[taken] = lagrange(log_rows, here), lagrange(log_rows, after)
        if has_cube:
            # eq_D(Z, 1) eq_D(w r, 1), of which the factor of Z is a polynomial
            carry[0] = lagrange(log_skip, after)[0]
        known[missing, has_cube] = intt(np.stack((eq_row, sub(next_row, carry), carry)), -2)
    return np.stack([known[kind] for kind in kinds])
