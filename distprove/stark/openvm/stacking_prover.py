"""The prover of the reduction from claims about columns and their next rows to claims about stacked columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.openvm.commitment import Stacked
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.proof import StackingProof
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import lagrange, sum_of_products
from kernels.cpu.babybear_caller import ext_mul, intt
from kernels.host.babybear import ext_powers
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_stacking import StackedPiece
from kernels.maths.babybear import (
    Elements,
    P,
    ext_scale,
    mul,
    powers,
    root_of_unity,
    sub,
    total,
)

Kind = tuple[int, bool]
"""log2 of 2^log_skip divided by a column's rows, 0 for one that has more; and whether it has more than 2^log_skip."""


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
    batch = transcript.sample_array()
    pieces, kinds = _pieces(params.log_skip, commitments, reads_next)
    stacks = [stacked.columns for stacked in commitments]
    claims = kernels.stacking.claims(stacks, params.log_skip, pieces, point[1:], batch)

    # 2. The univariate round: s(Z), the sum over the cube of all columns times their weights.
    weights = _row_weights(params.log_skip, kinds, point[0])
    run = weights.shape[-2]
    sums = intt(claims.sums(), -2)
    sent = sum_of_products(sums.reshape(-1, run, 4), weights.reshape(-1, run, 4), 2 * run - 1)
    transcript.observe_words(sent)
    drawn = transcript.sample_array()

    # 3. Bind Z in the stacked columns, and in the weights, which become one table over all stacked columns.
    at_drawn = total(ext_mul(weights, ext_powers(drawn, run)), -2)
    claims.bind(lagrange(params.log_skip, drawn), at_drawn)

    # 4. The multilinear rounds. What is left are the stacked columns at the new point.
    rounds = claims.rounds(transcript)
    transcript.observe_words(rounds.openings)
    ends = np.cumsum([stacked.layout.width for stacked in commitments])[:-1]
    openings = tuple(np.split(rounds.openings, ends))
    return StackingProof(sent, rounds.rounds, openings), [drawn, *rounds.drawn]


def _pieces(
    log_skip: int, commitments: Sequence[Stacked], reads_next: Sequence[Sequence[bool]]
) -> tuple[list[StackedPiece], list[Kind]]:
    """The matrices that have columns, and the kinds of their weights over D."""
    pieces, kinds, claim = [], list[Kind](), 0
    for number, stacked in enumerate(commitments):
        for placed in stacked.layout.traces:
            if not placed.width:
                continue
            kind = placed.log_rows - placed.log_height, placed.log_rows > log_skip
            if kind not in kinds:
                kinds.append(kind)
            place, reads = (number, placed.start, placed.width, placed.log_rows), reads_next[number][placed.trace]
            pieces.append(StackedPiece(*place, kinds.index(kind), claim, reads))
            claim += placed.width
    return pieces, kinds


def _row_weights(log_skip: int, kinds: Sequence[Kind], at: Elements) -> Elements:
    """The factors over D of the weights of columns of some kinds, for the point's first coordinate `at`.

    The weight of a row is `eq_row(Z) eq_cube(x)`. That of a next row is `next_row(Z) eq_cube(x)` plus `carry(Z)` times
    the difference of eq_cube moved by one, cyclically, and eq_cube: the step from the last point of D to 1 increments
    the bits. Returns the coefficients of eq_row, next_row - carry, and carry, (kinds, 3, 2^log_skip, 4).

    A column of fewer than 2^log_skip rows fills every n-th row of D, n = 2^missing. Its weights are those over the
    subgroup of these rows, at the n-th power of the point, times the polynomial that is 1 there and 0 elsewhere.
    """
    run = 1 << log_skip
    mean = np.asarray(pow(run, -1, P), dtype=np.uint32)
    here = mul(ext_powers(at, run), mean)
    after = ext_scale(here, powers(root_of_unity(log_skip), run))
    found = []
    for missing, has_cube in kinds:
        # eq over a subgroup of m points is the sum over k < m of at^k Z^(m - k), divided by m. That it is 0 elsewhere
        # on D repeats its coefficients. The n-th powers of the point, and of its root of unity, are every n-th one.
        of_row, of_next = (np.roll(each[:: 1 << missing][::-1], 1, axis=0) for each in (here, after))
        eq_row, next_row = (np.tile(each, (1 << missing, 1)) for each in (of_row, of_next))
        # eq_D(Z, 1) eq_D(w r, 1): of the former all coefficients are equal.
        carry = np.tile(mul(total(after, 0), mean) if has_cube else np.zeros(4, dtype=np.uint32), (run, 1))
        found.append(np.stack((eq_row, sub(next_row, carry), carry)))
    return np.stack(found)
