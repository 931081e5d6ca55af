"""The verifier of OpenVM 2's proofs. It uses NumPy, Python's integers and a native hash; no GPU, no Ray.

The steps are those of stark-backend 2.0's prover (SWIRL), in its order and with its transcript. An accepted proof
is accepted there too. This verifier also refuses a witness other than 0 where no work is asked for, and a stated
denominator zero of the buses.
"""

from __future__ import annotations

from distprove.stark.openvm.buses import verify_buses
from distprove.stark.openvm.constraints import BusChallenges, openings_of, verify_constraints
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.opening import verify_opening
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.reduction import verify_reduction
from distprove.stark.openvm.shape import Shape, check_lengths
from distprove.stark.openvm.statement import observe_statement
from distprove.stark.openvm.transcript import Transcript


def verify(key: OpenVmKey, proof: OpenVmProof) -> Shape:
    """Return the proof's shape, or raise InvalidProof unless it proves its traces and public values under `key`.

    The caller compares public values and commitments to cached traces with those that it expects.
    """
    # 1. Everything but the values follows from the key, the traces that are present and their heights.
    shape = Shape.of(key, proof.traces)
    check_lengths(shape, proof)

    # 2. Bind the statement, and draw the challenges of the buses.
    transcript = Transcript()
    observe_statement(transcript, key, proof.main_root, proof.traces, proof.public_values)
    transcript.need_work(key.params.logup_pow_bits, proof.buses.pow_witness, "of LogUp")
    challenges = BusChallenges(transcript.sample_ext(), transcript.sample_ext())

    # 3. The buses: from the denominator of the sum of all fractions to one claim about them.
    claim = verify_buses(shape, proof.buses, transcript, challenges.alpha)

    # 4. The batched sumcheck: from that claim and all constraints to the openings of all columns at one point.
    openings = openings_of(shape, proof.constraints)
    r = verify_constraints(shape, proof.constraints, openings, proof.public_values, transcript, challenges, claim)

    # 5. The stacked reduction: from all openings to one value of each stacked column.
    u = verify_reduction(shape, proof.stacking, openings, r, transcript)

    # 6. WHIR: the stacked columns have these values.
    verify_opening(shape, proof.whir, proof.stacking.openings, shape.roots(proof.main_root), u, transcript)
    return shape
