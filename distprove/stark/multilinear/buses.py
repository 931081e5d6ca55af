"""The verifier of LogUp-GKR: from the stated sums of the buses' fractions to a claim about their leaves.

A round of a layer's sumcheck leaves the factor eq of its own variable out, so that its polynomial has degree 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.arithmetic import Arithmetic, E, Elements
from distprove.stark.fraction_layers import LeafClaim, added, claim_below
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.shape import Shape
from distprove.stark.polynomials import between, evaluate


def checked_totals(f: Arithmetic[E], shape: Shape, totals: Elements) -> list[E]:
    """The stated fractions as elements, whose denominators must not be zero."""
    stated = f.elements(totals)
    denominators = [stated[0]] if "local" in shape.leaves.scopes else []
    denominators += [stated[-1]] if "global" in shape.leaves.scopes else []
    for denominator in denominators:
        f.need_nonzero(denominator, "a sum of the buses' fractions has the denominator zero")
    return stated


def first_claim(f: Arithmetic[E], shape: Shape, stated: Sequence[E], transcript: ProofTranscript[E]) -> LeafClaim[E]:
    """The claim about the first layer: the root's, or the value between the roots of both scopes. The numerator of the
    local buses is zero."""
    scopes = shape.leaves.scopes
    if not scopes:
        return LeafClaim(f.zero, f.one, ())
    if len(scopes) == 1:
        return LeafClaim(f.zero if "local" in scopes else stated[0], stated[-1], ())
    x = transcript.scope()
    return LeafClaim(f.mul(x, stated[1]), between(f, stated[0], stated[2], x), (x,))


def verify_layers(
    f: Arithmetic[E], shape: Shape, layers: Sequence[Elements], stated: Sequence[E], transcript: ProofTranscript[E]
) -> LeafClaim[E]:
    """Reduce the stated fractions layer by layer to the leaves."""
    claim = first_claim(f, shape, stated, transcript)
    for words in layers:
        values = f.elements(words)
        batch = transcript.layer()
        c = f.add(claim.numerator, f.mul(batch, claim.denominator))
        drawn = []
        for i, x in enumerate(claim.point):
            t_1, t_2 = values[2 * i : 2 * i + 2]
            t_0 = f.sub(c, f.mul(x, f.add(t_1, t_2)))
            drawn.append(transcript.layer_round([t_1, t_2]))
            c = evaluate(f, [t_0, t_1, t_2], drawn[-1])
        numerator, denominator = added(f, children := values[-4:])
        expected = f.add(numerator, f.mul(batch, denominator))
        f.need_equal(c, expected, "a layer of the buses' fractions does not sum to the one above")
        claim = claim_below(f, children, transcript.children(children), drawn)
    return claim


def shared_point(shape: Shape, claim: LeafClaim[E], transcript: ProofTranscript[E]) -> list[E]:
    """The point xi that constraints and leaves share: the leaves' own, without the scope's variable, and as many more
    coordinates as the tallest table needs."""
    xi = list(claim.point[: shape.leaves.log_scope])
    while len(xi) < shape.log_skip + shape.row_variables:
        xi.append(transcript.further_point())
    return xi


def block_weights(f: Arithmetic[E], shape: Shape, claim: LeafClaim[E]) -> list[list[E]]:
    """The weight of the leaves of each interaction in the claim, by table and use."""
    leaves = shape.leaves
    weights = [[f.zero] * len(t.uses) for t in shape.tables]
    rest = claim.point[: leaves.log_scope]
    for number, blocks in enumerate(leaves.scopes.values()):
        (scale,) = f.eqs(claim.point[leaves.log_scope :], [(0, number)]) if len(leaves.scopes) == 2 else (f.one,)
        places = [(block.log_height, block.offset >> block.log_height) for block in blocks]
        for block, weight in zip(blocks, f.eqs(rest, places), strict=True):
            weights[block.table][block.use] = f.mul(scale, weight)
    return weights


def padding(f: Arithmetic[E], weights: Sequence[Sequence[E]]) -> E:
    """The weight of all leaves that belong to no interaction, whose denominators are 1."""
    total = f.one
    for own in weights:
        for weight in own:
            total = f.sub(total, weight)
    return total
