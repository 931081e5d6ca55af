"""The prover of LogUp's fractional sum: GKR over a tree of fractions, of which the sum is zero."""

from __future__ import annotations

import numpy as np

from distprove.errors import UsageError
from distprove.stark.openvm.proof import BusProof
from distprove.stark.openvm.tables import eq_table
from distprove.stark.openvm.transcript import Transcript
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import Elements, add, ext_one
from kernels.maths.babybear_ntt import log2_of


def prove_buses(
    k: BabyBearKernels, transcript: Transcript, pow_witness: int, fractions: Elements | None
) -> tuple[BusProof, list[Elements]]:
    """Prove that fractions (2, 2^n, 4), numerators then denominators, sum to zero; None stands for no fraction.

    Returns the proof and the point at which the claims about numerators and denominators are left, n elements (4,).
    Raises UsageError if the fractions do not sum to zero: the traces do not balance their buses.
    """
    if fractions is None:
        nothing = np.zeros((0, 4, 4), dtype=np.uint32)
        return BusProof(pow_witness, ext_one(), nothing, ()), []

    # 1. Sum the fractions pair by pair: the layers of the circuit, the input last.
    layers = [fractions]
    while layers[-1].shape[1] > 1:
        p, q = layers[-1]
        p0, p1, q0, q1 = p[::2], p[1::2], q[::2], q[1::2]
        layers.append(np.stack((add(k.ext_mul(p0, q1), k.ext_mul(p1, q0)), k.ext_mul(q0, q1))))
    numerator, denominator = layers.pop()[:, 0]
    if numerator.any():
        raise UsageError("the traces do not balance their buses: the sum of all interactions is not zero")
    transcript.observe_words(denominator)

    # 2. From the root on, reduce a claim about a layer to one about the layer below.
    claims: list[Elements] = []
    rounds: list[Elements] = []
    point: list[Elements] = []
    for layer in reversed(layers):
        halves = np.stack((layer[0, ::2], layer[0, 1::2], layer[1, ::2], layer[1, 1::2]))
        if point:
            halves, sent, point = _prove_layer(k, transcript, halves, point)
            rounds.append(sent)
        claim = halves[:, 0]
        claims.append(claim)
        for index in (0, 2, 1, 3):
            transcript.observe_words(claim[index])
        point = [np.array(transcript.sample_ext(), dtype=np.uint32), *point]
    return BusProof(pow_witness, denominator, np.stack(claims), tuple(rounds)), point


def _prove_layer(
    k: BabyBearKernels, transcript: Transcript, halves: Elements, point: list[Elements]
) -> tuple[Elements, Elements, list[Elements]]:
    """The sumcheck of one layer, from p_0, p_1, q_0, q_1 (4, 2^n, 4) of the layer below and the claim's point.

    Returns these bound to the challenges, (4, 1, 4); the values sent, (n, 3, 4); and the challenges.
    """
    batch = np.array(transcript.sample_ext(), dtype=np.uint32)
    eq = eq_table(k, point)
    sent, drawn = [], []
    for _ in range(log2_of(len(eq))):
        sent.append(k.layer_round(eq, halves, batch))
        transcript.observe_words(sent[-1])
        drawn.append(np.array(transcript.sample_ext(), dtype=np.uint32))
        halves, eq = k.fold(halves, drawn[-1]), k.fold(eq, drawn[-1])
    return halves, np.stack(sent), drawn
