"""The prover of LogUp's fractional sum: GKR over a tree of fractions, of which the sum is zero."""

from __future__ import annotations

import numpy as np

from distprove.errors import UsageError
from distprove.stark.openvm.proof import BusProof
from distprove.stark.openvm.transcript import Transcript
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import DEGREE, Elements, ext_one


class UnbalancedBuses(UsageError):
    """The traces do not balance their buses."""


def prove_buses(
    kernels: OpenVmKernels,
    transcript: Transcript,
    pow_witness: int,
    fractions: tuple[Array, Array] | None,
    padding: Elements,
) -> tuple[BusProof, list[Elements]]:
    """Prove that the fractions of all interactions sum to zero; None stands for no fraction.

    `fractions` are numerators (count,) and denominators (count, 4) in the backend's memory, and may be overwritten.
    They are padded with 0 over `padding` (4,) to the next power of two, by one fraction at least. Returns the proof and
    the point at which the claims about numerators and denominators are left, elements (4,). Raises UnbalancedBuses if
    the fractions do not sum to zero.
    """
    if fractions is None:
        nothing = np.zeros((0, 4, DEGREE), dtype=np.uint32)
        return BusProof(pow_witness, ext_one(), nothing, ()), []

    # 1. Sum the fractions pair by pair: the layers of the circuit, the input last.
    tree = kernels.fractions.tree(*fractions, len(fractions[0]).bit_length(), padding)
    numerator, denominator = tree.root
    if numerator.any():
        raise UnbalancedBuses("the traces do not balance their buses: the sum of all interactions is not zero")
    transcript.observe_words(denominator)

    # 2. From the root on, reduce a claim about a layer to one about the layer below.
    reduced = tree.reduce(transcript)
    return BusProof(pow_witness, denominator, reduced.claims, reduced.rounds), list(reduced.point)
