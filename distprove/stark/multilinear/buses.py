"""The verifier of LogUp-GKR: from the stated sums of the buses' fractions to a claim about their leaves.

A layer's fraction is the sum of two of the layer below: numerator p_0 q_1 + p_1 q_0, denominator q_0 q_1. A round of a
layer's sumcheck leaves the factor eq of its own variable out, so that its polynomial has degree 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.errors import InvalidProof
from distprove.stark.field import ONE, ZERO, Ext, Words, e_add, e_mul, e_sub
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import eq


@dataclass(frozen=True)
class LeafClaim:
    """The claimed values of the leaves' numerators and denominators at a point, the lowest variable first."""

    numerator: Ext
    denominator: Ext
    point: tuple[Ext, ...]


def between(a: Ext, b: Ext, x: Ext) -> Ext:
    """The value at x of the line through a at 0 and b at 1."""
    return e_add(a, e_mul(x, e_sub(b, a)))


def evaluate(coefficients: Sequence[Ext], x: Ext) -> Ext:
    """The value at x of a polynomial with these coefficients, the constant first."""
    total = ZERO
    for c in reversed(coefficients):
        total = e_add(e_mul(total, x), c)
    return total


def elements(words: Words) -> list[Ext]:
    """The rows of an array (n, 3) as elements."""
    return [(a, b, c) for a, b, c in words.tolist()]


def checked_totals(shape: Shape, totals: Words) -> list[Ext]:
    """The stated fractions as elements. Raises InvalidProof for a denominator of zero."""
    stated = elements(totals)
    denominators = [stated[0]] if "local" in shape.leaves.scopes else []
    denominators += [stated[-1]] if "global" in shape.leaves.scopes else []
    if ZERO in denominators:
        raise InvalidProof("a sum of the buses' fractions has the denominator zero")
    return stated


def first_claim(shape: Shape, stated: Sequence[Ext], transcript: ProofTranscript) -> LeafClaim:
    """The claim about the first layer: the root's, or the value between the roots of both scopes. The numerator of the
    local buses is zero."""
    scopes = shape.leaves.scopes
    if not scopes:
        return LeafClaim(ZERO, ONE, ())
    if len(scopes) == 1:
        return LeafClaim(ZERO if "local" in scopes else stated[0], stated[-1], ())
    x = transcript.scope()
    return LeafClaim(e_mul(x, stated[1]), between(stated[0], stated[2], x), (x,))


def verify_layers(
    shape: Shape, layers: Sequence[Words], stated: Sequence[Ext], transcript: ProofTranscript
) -> LeafClaim:
    """Reduce the stated fractions layer by layer to the leaves. Raises InvalidProof."""
    claim = first_claim(shape, stated, transcript)
    for words in layers:
        values = elements(words)
        batch = transcript.layer()
        c = e_add(claim.numerator, e_mul(batch, claim.denominator))
        drawn = []
        for i, x in enumerate(claim.point):
            t_1, t_2 = values[2 * i : 2 * i + 2]
            t_0 = e_sub(c, e_mul(x, e_add(t_1, t_2)))
            drawn.append(transcript.layer_round([t_1, t_2]))
            c = evaluate([t_0, t_1, t_2], drawn[-1])
        p_0, p_1, q_0, q_1 = children = values[-4:]
        sums = e_add(e_mul(p_0, q_1), e_mul(p_1, q_0))
        if c != e_add(sums, e_mul(batch, e_mul(q_0, q_1))):
            raise InvalidProof("a layer of the buses' fractions does not sum to the one above")
        mu = transcript.children(children)
        claim = LeafClaim(between(p_0, p_1, mu), between(q_0, q_1, mu), (mu, *drawn))
    return claim


def shared_point(shape: Shape, claim: LeafClaim, transcript: ProofTranscript) -> list[Ext]:
    """The point xi that constraints and leaves share: the leaves' own, without the scope's variable, and as many more
    coordinates as the tallest table needs."""
    xi = list(claim.point[: shape.leaves.log_scope])
    while len(xi) < shape.log_skip + shape.row_variables:
        xi.append(transcript.further_point())
    return xi


def block_weights(shape: Shape, claim: LeafClaim) -> list[list[Ext]]:
    """The weight of the leaves of each interaction in the claim, by table and use."""
    leaves = shape.leaves
    weights = [[ZERO] * len(t.uses) for t in shape.tables]
    rest = claim.point[: leaves.log_scope]
    for number, blocks in enumerate(leaves.scopes.values()):
        scale = eq(claim.point[leaves.log_scope :], number) if len(leaves.scopes) == 2 else ONE
        for block in blocks:
            h = block.log_height
            weights[block.table][block.use] = e_mul(scale, eq(rest[h:], block.offset >> h))
    return weights


def padding(weights: Sequence[Sequence[Ext]]) -> Ext:
    """The weight of all leaves that belong to no interaction, whose denominators are 1."""
    total = ONE
    for own in weights:
        for weight in own:
            total = e_sub(total, weight)
    return total
