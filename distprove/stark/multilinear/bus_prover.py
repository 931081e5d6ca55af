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
from distprove.stark.multilinear.vectors import Vectors, total_of


def even(fractions: Words) -> Words:
    """Pad fractions (3, k, n) to an even number: the last k / 2 of the k rows are denominators."""
    if fractions.shape[-1] % 2 == 0:
        return fractions
    pad = np.zeros((*fractions.shape[:-1], 1), dtype=np.uint64)
    pad[0, fractions.shape[1] // 2 :] = 1
    return np.concatenate([fractions, pad], axis=-1)


def build_layers(vectors: Vectors, shape: Shape, leaves: Sequence[Words]) -> list[list[Words]]:
    """The layers of the tree from the leaves up to the stated one. `leaves` holds each scope's fractions (3, 2, n)."""
    layers = [list(leaves)]
    for _ in range(shape.leaves.log_scope):
        layers.append([vectors.layer(even(scope)) for scope in layers[-1]])
    return layers


def prove_layers(
    vectors: Vectors, shape: Shape, layers: list[list[Words]], transcript: ProofTranscript
) -> tuple[list[Ext], list[Words], LeafClaim]:
    """Prove the sums of `build_layers`: the stated fractions, the proof's layers, and the claim about the leaves."""
    stated: list[Ext] = []
    if layers[-1]:
        roots = [scope[:, :, 0] for scope in layers[-1]]
        for scope, root in zip(shape.leaves.scopes, roots, strict=True):
            stated += [element(root[:, 0])] * (scope == "global") + [element(root[:, 1])]
    transcript.totals(stated)
    claim = first_claim(shape, stated, transcript)
    proof = []
    for layer in reversed(layers[:-1]):
        words, claim = _prove_layer(vectors, layer, claim, transcript)
        proof.append(words)
    return stated, proof, claim


def _prove_layer(
    vectors: Vectors, layer: list[Words], claim: LeafClaim, transcript: ProofTranscript
) -> tuple[Words, LeafClaim]:
    """Reduce a claim about a layer to one about the layer below, of which `layer` holds the fractions."""
    batch = transcript.layer()
    # p_0, p_1 + batch q_1, q_0, q_1 of each scope: then all three sums are two products.
    segments = []
    for scope in layer:
        whole = even(scope)
        p, q = whole[:, 0], whole[:, 1]
        batched = vectors.add(p[:, 1::2], vectors.scaled(q[:, 1::2], batch))
        segments.append(np.stack([p[:, 0::2], batched, q[:, 0::2], q[:, 1::2]], axis=1))
    c = e_add(claim.numerator, e_mul(batch, claim.denominator))
    sent: list[Ext] = []
    drawn: list[Ext] = []
    point, scopes = claim.point, len(layer)
    for i, x in enumerate(point):
        last = i == len(point) - 1
        if last and scopes == 2:  # the scope's own variable: both roots side by side
            segments = [np.concatenate(segments, axis=-1)]
        t_0 = t_2 = ZERO
        rest = ONE
        together = scopes == 1 or last
        rest_point = point[i + 1 :] if together else point[i + 1 : -1]
        segments = [_even(segment, batch) for segment in segments]
        for number, segment in enumerate(segments):
            scale = ONE if together else eq([point[-1]], number)
            table = _eq_prefix(vectors, rest_point, scale, segment.shape[-1] // 2)
            first, square = vectors.layer_round(segment, table)
            t_0, t_2 = e_add(t_0, first), e_add(t_2, square)
            rest = e_sub(rest, total_of(table))
        t_0 = e_add(t_0, e_mul(batch, rest))  # the fractions 0/1
        t_1 = e_sub(e_mul(e_sub(c, t_0), e_inv(x)), t_2)
        sent += [t_1, t_2]
        drawn.append(transcript.layer_round([t_1, t_2]))
        c = evaluate([t_0, t_1, t_2], drawn[-1])
        segments = [vectors.fold_values(segment, drawn[-1]) for segment in segments]
    (whole,) = segments
    left, joined, q_0, q_1 = (element(whole[:, k, 0]) for k in range(4))
    right = e_sub(joined, e_mul(batch, q_1))
    children = [left, right, q_0, q_1]
    mu = transcript.children(children)
    numerator, denominator = between(left, right, mu), between(q_0, q_1, mu)
    words = np.array([*sent, *children], dtype=np.uint64)
    return words, LeafClaim(numerator, denominator, (mu, *drawn))


def _even(segment: Words, batch: Ext) -> Words:
    """Pad p_0, p_1 + batch q_1, q_0, q_1, (3, 4, n), to an even number with those of the fractions 0/1."""
    if segment.shape[-1] % 2 == 0:
        return segment
    pad = np.zeros((3, 4, 1), dtype=np.uint64)
    pad[0, 2:] = 1
    pad[:, 1, 0] = batch
    return np.concatenate([segment, pad], axis=-1)


def _eq_prefix(vectors: Vectors, point: Sequence[Ext], scale: Ext, count: int) -> Words:
    """The first `count` of scale eq(point, j), (3, count)."""
    used = min(len(point), max(0, (count - 1).bit_length()))
    for x in point[used:]:
        scale = e_mul(scale, e_sub(ONE, x))
    return np.ascontiguousarray(vectors.eq_table(point[:used], scale)[:, :count])
