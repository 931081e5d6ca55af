"""The prover of LogUp-GKR: leaves of all interactions, the layers of their sums, and a sumcheck for each layer.

Layers are kept. The leaves, which are half of them, may be made twice instead: for the layer above, and for their own
sumcheck, the last one. Only leaves of interactions are held, not those that pad a scope to a power of two: these are
0/1, so that they add a layer's batching challenge times their weight, to the constant alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import Ext, Words, element
from distprove.stark.fraction_layers import LeafClaim
from distprove.stark.multilinear.buses import first_claim
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.shape import Shape
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import LayerClaim

MakeLeaves = Callable[[], list[Array]]
"""Makes the leaves of each scope, fractions (3, 2, n)."""


def build_layers(backend: Backend, shape: Shape, make: MakeLeaves, *, keep_leaves: bool) -> list[list[Array]]:
    """The layers of the tree from the leaves, or without them from the layer above, up to the stated one. A tree of one
    layer has its leaves in any case."""
    depth, sums = shape.leaves.log_scope, backend.multilinear.sum_layers
    return sums(make(), depth) if keep_leaves or not depth else sums(sums(make(), 1)[1], depth - 1)


def prove_layers(
    backend: Backend, shape: Shape, layers: list[list[Array]], make: MakeLeaves, transcript: ProofTranscript[Ext]
) -> tuple[list[Ext], list[Words], LeafClaim[Ext]]:
    """Prove the sums of `build_layers`: the stated fractions, the proof's layers, and the claim about the leaves. Drops
    each layer when it is proven. Makes the leaves again if `layers` lack them."""
    stated: list[Ext] = []
    if layers[-1]:
        roots = [backend.to_host(scope)[:, :, 0] for scope in layers[-1]]
        for scope, root in zip(shape.leaves.scopes, roots, strict=True):
            stated += [element(root[:, 0])] * (scope == "global") + [element(root[:, 1])]
    transcript.totals(stated)
    claim = first_claim(NUMBERS, shape, stated, transcript)
    depth, first, again = shape.leaves.log_scope, len(claim.point), len(layers) <= shape.leaves.log_scope
    layers.pop()
    if not depth:
        return stated, [], claim
    left = LayerClaim(transcript.words(), claim.numerator, claim.denominator, claim.point)
    parts = []
    if layers:
        sent, left = backend.multilinear.prove_layers(layers, left)
        parts.append(sent)
    if again:
        sent, left = backend.multilinear.prove_layers([make()], left)
        parts.append(sent)
    transcript.resume(left.transcript)
    ends = np.cumsum([2 * (first + i) + 4 for i in range(depth)])
    proved = np.split(np.concatenate(parts), ends[:-1])
    return stated, proved, LeafClaim(left.numerator, left.denominator, left.point)
