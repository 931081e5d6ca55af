"""The verifier of LogUp-GKR: from the stated denominator of the buses' sum to a claim about all its fractions."""

from __future__ import annotations

from distprove.stark.fraction_layers import LeafClaim, added, claim_below
from distprove.stark.openvm.field import BABYBEAR4, Ext, ext, exts, sum_at
from distprove.stark.openvm.proof import BusProof
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.polynomials import between


def verify_buses(shape: Shape, proof: BusProof, transcript: Transcript, padding: Ext) -> LeafClaim[Ext]:
    """Reduce the stated fraction layer by layer to the leaves. Raises InvalidProof.

    `padding` is the denominator of places without a fraction: the claim where there is no interaction at all.
    """
    f, root = BABYBEAR4, ext(proof.root_denominator)
    if not shape.interactions:
        f.need_equal(root, f.one, "a denominator of no interaction")
        return LeafClaim(f.zero, padding, ())
    f.need_nonzero(root, "the sum of the buses' fractions has the denominator zero")
    transcript.observe_ext(root)
    below = LeafClaim(f.zero, root, ())
    for j, layer in enumerate(proof.layers):
        # The root's two children are stated without rounds, so that nothing is batched there.
        batch = transcript.sample_ext() if j else f.zero
        claim, drawn, factor = f.add(below.numerator, f.mul(batch, below.denominator)), list[Ext](), f.one
        for x, values in zip(below.point, proof.rounds[j - 1] if j else (), strict=True):
            transcript.observe_words(values)
            drawn.append(r := transcript.sample_ext())
            claim = sum_at(claim, values, r)
            factor = f.mul(factor, between(f, f.sub(f.one, x), x, r))
        p_0, p_1, q_0, q_1 = children = exts(layer)
        for child in (p_0, q_0, p_1, q_1):
            transcript.observe_ext(child)
        crossed, product = added(f, children)
        if j:
            expected = f.mul(f.add(crossed, f.mul(batch, product)), factor)
            f.need_equal(claim, expected, "a layer of the buses' fractions does not sum to the one above")
        else:
            f.need_equal(crossed, f.zero, "the buses do not balance")
            f.need_equal(product, root, "the denominator of the buses is not that of its children")
        below = claim_below(f, children, transcript.sample_ext(), drawn)
    return below
