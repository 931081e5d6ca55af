"""The prover of LogUp-GKR: leaves of all interactions, the layers of their sums, and a sumcheck for each layer.

Layers are kept. Only leaves of interactions are held, not those that pad a scope to a power of two: these are 0/1, so
that they add a layer's batching challenge times their weight, to the constant alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.field import ONE, ZERO, Ext, Words, e_add, e_inv, e_mul, e_sub, element
from distprove.stark.multilinear.buses import LeafClaim, between, evaluate, first_claim
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import eq
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import eq_prefix


def build_layers(backend: Backend, shape: Shape, leaves: Sequence[Array]) -> list[list[Array]]:
    """The layers of the tree from the leaves up to the stated one. `leaves` holds each scope's fractions (3, 2, n)."""
    layers = [list(leaves)]
    for _ in range(shape.leaves.log_scope):
        layers.append([backend.multilinear.layer(scope) for scope in layers[-1]])
    return layers


def prove_layers(
    backend: Backend, shape: Shape, layers: list[list[Array]], transcript: ProofTranscript
) -> tuple[list[Ext], list[Words], LeafClaim]:
    """Prove the sums of `build_layers`: the stated fractions, the proof's layers, and the claim about the leaves. Drops
    each layer when it is proven."""
    stated: list[Ext] = []
    if layers[-1]:
        roots = [backend.to_host(scope)[:, :, 0] for scope in layers[-1]]
        for scope, root in zip(shape.leaves.scopes, roots, strict=True):
            stated += [element(root[:, 0])] * (scope == "global") + [element(root[:, 1])]
    transcript.totals(stated)
    claim = first_claim(shape, stated, transcript)
    proof = []
    layers.pop()
    while layers:
        words, claim = _prove_layer(backend, layers.pop(), claim, transcript)
        proof.append(words)
    return stated, proof, claim


def _prove_layer(
    backend: Backend, layer: list[Array], claim: LeafClaim, transcript: ProofTranscript
) -> tuple[Words, LeafClaim]:
    """Reduce a claim about a layer to one about the layer below, of which `layer` holds the fractions."""
    kernels, batch = backend.multilinear, transcript.layer()
    # p_0, p_1 + batch q_1, q_0, q_1 of each scope: then all three sums are two products.
    segments = [kernels.halves(scope, batch) for scope in layer]
    c = e_add(claim.numerator, e_mul(batch, claim.denominator))
    sent: list[Ext] = []
    drawn: list[Ext] = []
    point, scopes = claim.point, len(layer)
    rows = point if scopes == 1 else point[:-1]

    def end_round(t_0: Ext, t_2: Ext) -> None:
        nonlocal c
        t_1 = e_sub(e_mul(e_sub(c, t_0), e_inv(point[len(drawn)])), t_2)
        sent.extend((t_1, t_2))
        drawn.append(transcript.layer_round([t_1, t_2]))
        c = evaluate([t_0, t_1, t_2], drawn[-1])

    for i in range(len(point) - 1):
        t_0, t_2, rest = ZERO, ZERO, ONE
        fold = drawn[-1] if drawn else None
        for number, segment in enumerate(segments):
            scale = ONE if scopes == 1 else eq([point[-1]], number)
            length = int(segment.shape[-1])
            pairs = ((length if fold is None else (length + 1) // 2) + 1) // 2
            own = rows[i + 1 : i + 1 + (pairs - 1).bit_length()]
            for x in rows[i + 1 + len(own) :]:
                scale = e_mul(scale, e_sub(ONE, x))
            first, square, segments[number] = kernels.layer_round(
                segment, fold, batch, kernels.products(own, scale, eq=True)
            )
            t_0, t_2 = e_add(t_0, first), e_add(t_2, square)
            rest = e_sub(rest, eq_prefix(own, scale, pairs))
        end_round(e_add(t_0, e_mul(batch, rest)), t_2)  # and the fractions 0/1

    # The last variable: of both roots side by side if it is the scope's own. Few values are left.
    whole = [values for segment in segments for values in _folded(backend.to_host(segment), batch, drawn[-1:])]
    if point:
        even, odd = whole[0], whole[1] if len(whole) > 1 else _none(batch)
        p_0, p_1, q_0, q_1 = even
        d_p0, d_p1, d_q0, d_q1 = (e_sub(b, a) for a, b in zip(even, odd, strict=True))
        end_round(e_add(e_mul(p_0, q_1), e_mul(p_1, q_0)), e_add(e_mul(d_p0, d_q1), e_mul(d_p1, d_q0)))
        whole = [[between(a, b, drawn[-1]) for a, b in zip(even, odd, strict=True)]]
    left, joined, q_0, q_1 = whole[0]
    right = e_sub(joined, e_mul(batch, q_1))
    children = [left, right, q_0, q_1]
    mu = transcript.children(children)
    numerator, denominator = between(left, right, mu), between(q_0, q_1, mu)
    words = np.array([*sent, *children], dtype=np.uint64)
    return words, LeafClaim(numerator, denominator, (mu, *drawn))


def _none(batch: Ext) -> list[Ext]:
    """The values p_0, p_1 + batch q_1, q_0, q_1 of the fractions 0/1."""
    return [ZERO, batch, ONE, ONE]


def _folded(halves: Words, batch: Ext, r: Sequence[Ext]) -> list[list[Ext]]:
    """The values of halves (3, 4, n) on the host, folded at `r` if it holds an element."""
    values = [[element(halves[:, k, j]) for k in range(4)] for j in range(halves.shape[-1])]
    if not r:
        return values
    values += [_none(batch)] * (len(values) % 2)
    return [
        [between(a, b, r[0]) for a, b in zip(even, odd, strict=True)]
        for even, odd in zip(values[0::2], values[1::2], strict=True)
    ]
