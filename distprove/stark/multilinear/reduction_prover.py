"""The prover of the stacked reduction: all openings and the anchor become one value of each stacked column.

Weights are sums of few kinds that are each a product of low and high variables: powers of r_0, powers of w r_0, ones,
and the anchor's. So one pass over the columns gives vectors of 2^log_skip elements, which are all that the first rounds
need. Then the low variables are bound at once, and the other rounds draw on the device. A stack that joins later than
the low variables' rounds has none of its own bound then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import ONE, ZERO, Ext, Words, e_add, e_mul, e_powers, e_scale, e_sum, element, root_of_unity
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.commitment import Stacked
from distprove.stark.multilinear.shape import Shape
from distprove.stark.polynomials import squares
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


def prove_reduction(
    backend: Backend, shape: Shape, stacks: Sequence[Reduced], transcript: ProofTranscript[Ext]
) -> tuple[Words, list[Ext], list[Ext]]:
    """Prove the batched claims: the rounds' h_1 and h_2, the point drawn, and the value of each stacked column."""
    kernels, log_skip, count = backend.multilinear, shape.log_skip, shape.log_height - shape.log_skip
    sent = np.zeros((shape.log_height, 2, 3), dtype=np.uint64)
    rho: list[Ext] = []
    for stack in stacks:
        if stack.start < log_skip:
            _sum_low(backend, stack, log_skip)
    for i in range(log_skip):
        joined = [stack for stack in stacks if stack.start <= i]
        shares = [_round(stack, i - stack.start) for stack in joined]
        sent[i] = [e_sum([share[k] for share in shares]) for k in range(2)]
        rho.append(transcript.reduction_round([element(words) for words in sent[i]]))
        for stack in joined:
            _bind(stack, i - stack.start, rho[-1])
    pairs = [_pair(backend, stack, log_skip) for stack in stacks]
    if count:  # the host has no part in these rounds
        starts = [max(0, stack.start - log_skip) for stack in stacks]
        made = kernels.pair_rounds(pairs, count, transcript.words(), opening=False, starts=starts)
        pairs = kernels.fold_drawn(made)
        transcript.resume(made.transcript)
        sent[log_skip:] = made.sent
        rho += made.drawn
    values = []
    for stack, pair in zip(stacks, pairs, strict=True):
        found = backend.to_host(pair[0])
        values += [element(found[:, j]) for j in range(stack.stacked.stack.width)]
    return sent, rho, values


def main_stack(
    backend: Backend, shape: Shape, stacked: Stacked, point: Sequence[Ext], batch: Words, eta: Sequence[Ext], delta: Ext
) -> Reduced:
    """The main stack with its openings' and its anchor's weights. `batch` holds the powers of sigma."""
    kernels, log_skip, width = backend.multilinear, shape.log_skip, stacked.stack.width
    kinds, high = _opened_kinds(backend, shape, stacked, point, batch, main=True)
    kinds.append(Kind(list(eta[:log_skip])))
    entries = np.zeros((width, 7), dtype=np.uint64)
    entries[:, 0] = np.arange(width) << (shape.log_height - log_skip)
    entries[:, 1:4] = [e_mul(element(batch[-1]), power) for power in e_powers(delta, width)]
    kernels.opened_weights(kernels.products(eta[log_skip:], eq=False), ZERO, entries, high[-1:])
    return Reduced(stacked, kinds, high, 0)


def preprocessed_stack(backend: Backend, shape: Shape, stacked: Stacked, point: Sequence[Ext], batch: Words) -> Reduced:
    """The preprocessed stack with its openings' weights."""
    kinds, high = _opened_kinds(backend, shape, stacked, point, batch, main=False)
    return Reduced(stacked, kinds, high, shape.log_height - stacked.stack.log_height)


def _opened_kinds(
    backend: Backend, shape: Shape, stacked: Stacked, point: Sequence[Ext], batch: Words, *, main: bool
) -> tuple[list[Kind], Array]:
    """The kinds of the weights of columns and next columns, and their weights over all tables. The main stack has room
    for one more kind."""
    kernels, log_skip, stack = backend.multilinear, shape.log_skip, stacked.stack
    high = kernels.kinds(3 + main, stack.width << stack.log_height - log_skip)
    last = NUMBERS.lagrange(point[0], log_skip)[-1]
    opened: dict[int, list[Words]] = {}
    at = 0
    for table, (rules, height) in enumerate(zip(shape.tables, shape.heights, strict=True)):
        number, end = table if main else shape.numbers[table], at + rules.columns
        if number in stack.starts:
            entries = np.zeros((rules.columns, 7), dtype=np.uint64)
            entries[:, 1:4] = batch[at:end]
            entries[rules.next_row, 4:] = batch[end : end + len(rules.next_row)]
            cut = rules.preprocessed_width
            entries = entries[cut:] if main else entries[:cut]
            entries[:, 0] = stack.starts[number] + (np.arange(len(entries)) << height) >> log_skip
            opened.setdefault(height, []).append(entries)
        at = end + len(rules.next_row)
    for height, of_height in opened.items():
        eq = kernels.products(point[1 : 1 + height - log_skip], eq=True)
        kernels.opened_weights(eq, last, np.concatenate(of_height), high)
    root = root_of_unity(log_skip)
    lows = squares(NUMBERS, point[0], log_skip), squares(NUMBERS, e_scale(point[0], root), log_skip), [ONE] * log_skip
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


def _round(stack: Reduced, own: int) -> list[Ext]:
    """h_1 and h_2 of one stack in a round over its low variable `own`: h_0 follows from the claim."""
    h_1 = h_2 = ZERO
    for kind in stack.kinds:
        factor, rest = kind.low[own], _weights(kind.low[own + 1 :])
        even, odd = (e_mul(kind.scale, _dot(kind.sums[s::2], rest)) for s in (0, 1))
        h_2 = e_add(h_2, e_mul(factor, odd))
        h_1 = e_add(h_1, e_add(odd, e_mul(factor, even)))
    return [h_1, h_2]


def _bind(stack: Reduced, own: int, rho: Ext) -> None:
    """Bind a low variable of a stack's kinds."""
    for kind in stack.kinds:
        kind.sums = [e_add(a, e_mul(rho, b)) for a, b in zip(kind.sums[0::2], kind.sums[1::2], strict=True)]
        kind.scale = e_mul(kind.scale, e_add(ONE, e_mul(rho, kind.low[own])))
        kind.low[own] = rho  # what the coefficients are bound to


def _pair(backend: Backend, stack: Reduced, log_skip: int) -> Array:
    """Bind the low variables that were drawn, and join the kinds: coefficients and weights over all other variables,
    (2, 3, width 2^variables)."""
    kernels, bound = backend.multilinear, max(0, log_skip - stack.start)
    low = [[e_mul(kind.scale, weight) for weight in _weights(kind.low[bound:])] for kind in stack.kinds]
    pair = kernels.pair(int(stack.high.shape[-1]) << log_skip - bound)
    drawn = np.array(_weights(stack.kinds[0].low[:bound]), dtype=np.uint64)
    kernels.bind_runs(stack.stacked.coefficients, drawn, pair[0])
    kernels.expand(stack.high, np.array(low, dtype=np.uint64), pair[1])
    stack.kinds, stack.high = [], None
    return pair


def _dot(a: Sequence[Ext], b: Sequence[Ext]) -> Ext:
    return e_sum([e_mul(x, y) for x, y in zip(a, b, strict=True)])
