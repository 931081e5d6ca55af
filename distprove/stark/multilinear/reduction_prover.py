"""The prover of the stacked reduction: all openings and the anchor become one value of each stacked column.

Weights are sums of few kinds that are each a product of low and high variables: powers of r_0, powers of w r_0, ones,
and the anchor's. So one pass over the columns gives vectors of 2^log_skip elements, which are all that the first rounds
need; then the low variables are bound at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import ONE, ZERO, Ext, Words, e_add, e_mul, e_powers, e_scale, element, root_of_unity
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.commitment import Stacked
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import squares
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


@dataclass
class Kind:
    """One kind of weights of a stack: the product of `low`, over its lowest variables, and its part of `high`."""

    low: list[Ext]
    """The factors of the low variables: the weight of an index is the product of those at its set bits."""
    sums: list[Ext] = field(default_factory=list)
    """For each low index the sum of high weight times coefficient."""
    scale: Ext = ONE


@dataclass
class Reduced:
    """A stack in the reduction."""

    stacked: Stacked
    kinds: list[Kind]
    high: Array = field(repr=False)
    """The kinds' weights over the other variables, (kinds, 3, width 2^(log_height - log_skip))."""
    start: int
    """Number of the round that binds its first variable."""
    pair: Array = field(default=None, repr=False)
    """Coefficients and weights (2, 3, width 2^variables), once the low variables are bound."""
    fold: Ext | None = None
    """What the next round binds the variable before to."""


def prove_reduction(
    backend: Backend, shape: Shape, stacks: Sequence[Reduced], transcript: ProofTranscript[Ext]
) -> tuple[Words, list[Ext], list[Ext]]:
    """Prove the batched claims: the rounds' h_1 and h_2, the point drawn, and the value of each stacked column."""
    sent = np.zeros((shape.log_height, 2, 3), dtype=np.uint64)
    rho: list[Ext] = []
    for stack in stacks:
        _sum_low(backend, stack, shape.log_skip)
        if shape.log_skip == 0:
            bind_low(backend, stack, 0)
    low = max(stack.start for stack in stacks) + shape.log_skip
    for i in range(low):
        shares = [_round(backend, stack, i, shape.log_skip) for stack in stacks]
        sent[i] = [_sum([share[k] for share in shares]) for k in range(2)]
        rho.append(transcript.reduction_round([element(words) for words in sent[i]]))
        for stack in stacks:
            _bind(backend, stack, i, rho[-1], shape.log_skip)
    pairs = [_folded(backend, stack.pair, stack.fold) for stack in stacks]
    if low < shape.log_height:  # every stack is a pair: the host has no part in a round
        made = backend.multilinear.pair_rounds(pairs, shape.log_height - low, transcript.words(), opening=False)
        transcript.resume(made.transcript)
        sent[low:] = made.sent
        rho += made.drawn
        pairs = [_folded(backend, pair, rho[-1]) for pair in made.over]
    values = []
    for stack, pair in zip(stacks, pairs, strict=True):
        found = backend.to_host(pair)[0]
        values += [element(found[:, j]) for j in range(stack.stacked.stack.width)]
    return sent, rho, values


def main_stack(
    backend: Backend,
    shape: Shape,
    stacked: Stacked,
    point: Sequence[Ext],
    batch: Sequence[Ext],
    eta: Sequence[Ext],
    delta: Ext,
) -> Reduced:
    """The main stack with its openings' and its anchor's weights. `batch` holds the powers of sigma."""
    kernels, width, rows = backend.multilinear, stacked.stack.width, shape.log_height - shape.log_skip
    kinds, high = _opened_kinds(backend, shape, stacked, point, batch, main=True)
    kinds.append(Kind(list(eta[: shape.log_skip])))
    for j, power in enumerate(e_powers(delta, width)):
        products = kernels.products(eta[shape.log_skip :], e_mul(batch[-1], power), eq=False)
        kernels.tabulate(products, high[-1], at=j << rows)
    return Reduced(stacked, kinds, high, 0)


def preprocessed_stack(
    backend: Backend, shape: Shape, stacked: Stacked, point: Sequence[Ext], batch: Sequence[Ext]
) -> Reduced:
    """The preprocessed stack with its openings' weights."""
    kinds, high = _opened_kinds(backend, shape, stacked, point, batch, main=False)
    return Reduced(stacked, kinds, high, shape.log_height - stacked.stack.log_height)


def _opened_kinds(
    backend: Backend, shape: Shape, stacked: Stacked, point: Sequence[Ext], batch: Sequence[Ext], *, main: bool
) -> tuple[list[Kind], Array]:
    """The kinds of the weights of columns and next columns, and their weights over all tables. The main stack has room
    for one more kind."""
    kernels, log_skip, stack = backend.multilinear, shape.log_skip, stacked.stack
    rows_of_stack = stack.log_height - log_skip
    high = kernels.kinds(3 + main, stack.width << rows_of_stack)
    last = NUMBERS.lagrange(point[0], log_skip)[-1]
    at = 0
    for table, (rules, height) in enumerate(zip(shape.tables, shape.heights, strict=True)):
        after = {c: at + rules.columns + i for i, c in enumerate(rules.next_row)}
        entries = [
            (
                (p.column << rows_of_stack) + (p.offset >> log_skip),
                *batch[at + c],
                *(batch[after[c]] if c in after else ZERO),
            )
            for c, (of, p) in enumerate(shape.positions(table))
            if of == main
        ]
        if entries:
            eq = kernels.products(point[1 : 1 + height - log_skip], eq=True)
            kernels.opened_weights(eq, last, np.array(entries, dtype=np.uint64), high)
        at += rules.columns + len(rules.next_row)
    root = root_of_unity(log_skip)
    lows = squares(point[0], log_skip), squares(e_scale(point[0], root), log_skip), [ONE] * log_skip
    return [Kind(low) for low in lows], high


def _sum_low(backend: Backend, stack: Reduced, log_skip: int) -> None:
    """The sums of each kind at each low index."""
    found = backend.multilinear.sum_runs(stack.stacked.coefficients, stack.high, 1 << log_skip)
    for kind, sums in zip(stack.kinds, found, strict=True):
        kind.sums = [element(words) for words in sums]


def _weights(low: Sequence[Ext]) -> list[Ext]:
    out = [ONE]
    for factor in low:
        out += [e_mul(weight, factor) for weight in out]
    return out


def _round(backend: Backend, stack: Reduced, number: int, log_skip: int) -> list[Ext]:
    """h_1 and h_2 of one stack in a round: h_0 follows from the claim."""
    own = number - stack.start
    h_1 = h_2 = ZERO
    if own < 0:
        return [h_1, h_2]
    if own >= log_skip:
        h_1, h_2, stack.pair = backend.multilinear.pair_round(stack.pair, stack.fold)
        return [h_1, h_2]
    for kind in stack.kinds:
        factor, rest = kind.low[own], _weights(kind.low[own + 1 :])
        even, odd = (e_mul(kind.scale, _dot(kind.sums[s::2], rest)) for s in (0, 1))
        h_2 = e_add(h_2, e_mul(factor, odd))
        h_1 = e_add(h_1, e_add(odd, e_mul(factor, even)))
    return [h_1, h_2]


def _bind(backend: Backend, stack: Reduced, number: int, rho: Ext, log_skip: int) -> None:
    """Bind the round's variable of a stack, and after the last low one its coefficients and weights."""
    own = number - stack.start
    if own >= log_skip:
        stack.fold = rho  # when the next round passes over them
        return
    if own >= 0:
        for kind in stack.kinds:
            kind.sums = [e_add(a, e_mul(rho, b)) for a, b in zip(kind.sums[0::2], kind.sums[1::2], strict=True)]
            kind.scale = e_mul(kind.scale, e_add(ONE, e_mul(rho, kind.low[own])))
            kind.low[own] = rho  # what the coefficients are bound to
    if own == log_skip - 1:
        bind_low(backend, stack, log_skip)


def bind_low(backend: Backend, stack: Reduced, log_skip: int) -> None:
    """Bind the low variables of the coefficients, and join the kinds' weights."""
    kernels = backend.multilinear
    weights = np.array(_weights(stack.kinds[0].low), dtype=np.uint64)
    bound = kernels.bind_runs(stack.stacked.coefficients, weights)
    stack.pair = kernels.pair(int(stack.high.shape[-1]))
    kernels.place(bound, stack.pair[0])
    kernels.combine(stack.high, [kind.scale for kind in stack.kinds], stack.pair[1])
    stack.kinds, stack.high = [], None


def _folded(backend: Backend, pair: Array, r: Ext | None) -> Array:
    return pair if r is None else backend.multilinear.fold_pair(pair, r)


def _sum(values: Sequence[Ext]) -> Ext:
    total = ZERO
    for value in values:
        total = e_add(total, value)
    return total


def _dot(a: Sequence[Ext], b: Sequence[Ext]) -> Ext:
    return _sum([e_mul(x, y) for x, y in zip(a, b, strict=True)])
