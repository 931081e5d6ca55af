"""The prover of LogUp-GKR: leaves of all interactions, the layers of their sums, and a sumcheck for each layer.

Layers are kept. Only leaves of interactions are held, not those that pad a scope to a power of two: these are 0/1, so
that they add a layer's batching challenge times their weight, to the constant alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.arithmetic import NUMBERS
from distprove.stark.field import Ext, Words, element
from distprove.stark.multilinear.buses import LeafClaim, first_claim
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.shape import Shape
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import LayerClaim


def build_layers(backend: Backend, shape: Shape, leaves: Sequence[Array]) -> list[list[Array]]:
    """The layers of the tree from the leaves up to the stated one. `leaves` holds each scope's fractions (3, 2, n)."""
    return backend.multilinear.sum_layers(leaves, shape.leaves.log_scope)


def prove_layers(
    backend: Backend, shape: Shape, layers: list[list[Array]], transcript: ProofTranscript[Ext]
) -> tuple[list[Ext], list[Words], LeafClaim[Ext]]:
    """Prove the sums of `build_layers`: the stated fractions, the proof's layers, and the claim about the leaves. Drops
    each layer when it is proven."""
    stated: list[Ext] = []
    if layers[-1]:
        roots = [backend.to_host(scope)[:, :, 0] for scope in layers[-1]]
        for scope, root in zip(shape.leaves.scopes, roots, strict=True):
            stated += [element(root[:, 0])] * (scope == "global") + [element(root[:, 1])]
    transcript.totals(stated)
    claim = first_claim(NUMBERS, shape, stated, transcript)
    layers.pop()
    if not layers:
        return stated, [], claim
    first = len(claim.point)
    ends = np.cumsum([2 * (first + i) + 4 for i in range(len(layers))])
    given = LayerClaim(transcript.words(), claim.numerator, claim.denominator, claim.point)
    sent, left = backend.multilinear.prove_layers(layers, given)
    transcript.resume(left.transcript)
    return stated, np.split(sent, ends[:-1]), LeafClaim(left.numerator, left.denominator, left.point)
