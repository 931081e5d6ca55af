"""The prover of the reduction from claims about columns and their next rows to claims about stacked columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.openvm.commitment import Stacked
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.proof import StackingProof
from distprove.stark.openvm.tables import eq_table, lagrange, weighted
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import evaluate, multiply
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import (
    Elements,
    add,
    ext_power,
    ext_powers,
    ext_scale,
    root_of_unity,
    sub,
)
from kernels.maths.babybear_ntt import intt


@dataclass(frozen=True)
class _Weights:
    """The weights of the columns of one height at the rows, in the factors that a univariate polynomial separates.

    eq is `eq_row(Z) eq_cube(x)`; the kernel of the next row is `next_row(Z) eq_cube(x) + carry(Z) step_cube(x)`.
    """

    eq_row: Elements
    """Coefficients (2^log_skip, 4) of polynomials over D, as the next two."""
    next_row: Elements
    carry: Elements
    eq_cube: Elements
    """(2^n, 4), n the variables of a column beside Z."""
    step_cube: Elements


def prove_stacking(
    k: BabyBearKernels,
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
    claims = sum(placed.width for stacked in commitments for placed in stacked.layout.traces)
    pairs = ext_powers(batch, 2 * claims).reshape(claims, 2, 4)
    by_height: dict[int, _Weights] = {}
    jobs = []
    for number, stacked in enumerate(commitments):
        for placed in stacked.layout.traces:
            own, pairs = pairs[: placed.width], pairs[placed.width :]
            if not placed.width:
                continue
            if placed.log_height not in by_height:
                by_height[placed.log_height] = _weights(k, params, placed.log_height, point)
            scales = own[:, 0], own[:, 1] if reads_next[number][placed.trace] else None
            jobs.append((number, placed, by_height[placed.log_height], scales))

    # 2. The univariate round: s(Z), the sum over the cube of all columns times their weights.
    run = 1 << params.log_skip
    degree = 2 * (run - 1)
    sent = np.zeros((degree + 1, 4), dtype=np.uint32)
    for number, placed, weights, (own, following) in jobs:
        cells = commitments[number].columns.reshape(-1)
        columns = cells[placed.start : placed.start + (placed.width << placed.log_rows)].reshape(placed.width, -1, run)
        parts = [(own, weights.eq_cube, weights.eq_row)]
        if following is not None:
            parts += [(following, weights.eq_cube, weights.next_row), (following, weights.step_cube, weights.carry)]
        for scale, cube, row in parts:
            sent = add(sent, multiply(intt(_combined(k, columns, scale, cube), -2), row, degree + 1))
    transcript.observe_words(sent)
    drawn = [np.array(transcript.sample_ext(), dtype=np.uint32)]

    # 3. Bind Z in the stacked columns, and in the weights, which become one table over all stacked columns.
    at_rows = lagrange(params.log_skip, drawn[0])
    runs = [stacked.columns.reshape(stacked.layout.width, -1, run) for stacked in commitments]
    tables = [weighted(k, columns, at_rows) for columns in runs]
    weights_of = [np.zeros_like(table) for table in tables]
    for number, placed, weights, (own, following) in jobs:
        eq_row, next_row, carry = (evaluate(row, drawn[0]) for row in (weights.eq_row, weights.next_row, weights.carry))
        table = k.ext_mul(own[:, None], k.ext_mul(weights.eq_cube, eq_row))
        if following is not None:
            step = add(k.ext_mul(weights.eq_cube, next_row), k.ext_mul(weights.step_cube, carry))
            table = add(table, k.ext_mul(following[:, None], step))
        start = placed.start >> params.log_skip
        weights_of[number].reshape(-1, 4)[start : start + table.shape[0] * table.shape[1]] = table.reshape(-1, 4)
    values = np.concatenate(tables)
    weights_at = np.concatenate(weights_of)

    # 4. The multilinear rounds.
    rounds = []
    for _ in range(params.n_stack):
        rounds.append(k.pair_round(values, weights_at))
        transcript.observe_words(rounds[-1])
        drawn.append(np.array(transcript.sample_ext(), dtype=np.uint32))
        values, weights_at = k.fold(values, drawn[-1]), k.fold(weights_at, drawn[-1])

    # 5. What is left are the stacked columns at the new point.
    transcript.observe_words(values)
    starts = np.cumsum([len(table) for table in tables])[:-1]
    openings = tuple(np.split(values[:, 0], starts))
    sent_rounds = np.stack(rounds) if rounds else np.zeros((0, 2, 4), dtype=np.uint32)
    return StackingProof(sent, sent_rounds, openings), drawn


def _weights(k: BabyBearKernels, params: SystemParams, log_height: int, point: Sequence[Elements]) -> _Weights:
    """The weights of the columns with 2^log_height rows at a point.

    A column of fewer than 2^log_skip rows fills every n-th row of D, n = 2^missing. Its weights are the polynomial that
    is 1 at these rows and 0 at the others, times those over the smaller subgroup, at the n-th power of the point.
    """
    log_skip = params.log_skip
    missing = max(0, log_skip - log_height)
    log_rows, variables = log_skip - missing, max(0, log_height - log_skip)
    at = ext_power(point[0], 1 << missing)
    after = ext_scale(at, np.asarray(root_of_unity(log_rows), dtype=np.uint32))
    # The rows z with w^z in the smaller subgroup are the multiples of n: eq is 1 there and 0 elsewhere.
    taken = slice(None, None, 1 << missing)
    eq_row, next_row, carry = (np.zeros((1 << log_skip, 4), dtype=np.uint32) for _ in range(3))
    eq_row[taken], next_row[taken] = lagrange(log_rows, at), lagrange(log_rows, after)
    eq_cube = eq_table(k, point[1 : 1 + variables])
    # The step from the last point of D to 1 increments the bits: the previous entry of eq, cyclically.
    step_cube = sub(np.roll(eq_cube, 1, axis=0), eq_cube)
    if variables:
        # eq_D(Z, 1) eq_D(w r, 1)
        carry[0] = lagrange(log_skip, after)[0]
    return _Weights(intt(eq_row, -2), intt(next_row, -2), intt(carry, -2), eq_cube, step_cube)


def _combined(k: BabyBearKernels, columns: Elements, scale: Elements, cube: Elements) -> Elements:
    """Return the sum over columns and over the cube of columns (width, 2^n, rows) times scale (width, 4) and cube
    (2^n, 4), for each row of D: (rows, 4)."""
    weights = k.ext_mul(scale[:, None], cube).reshape(-1, 4)
    return np.ascontiguousarray(k.matmul(np.ascontiguousarray(weights.T), columns.reshape(len(weights), -1)).T)
