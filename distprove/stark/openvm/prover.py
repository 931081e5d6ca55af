"""The prover of OpenVM 2's proofs: SWIRL, as stark-backend 2.0 has it. `prove` reads from top to bottom.

Its proofs equal those of stark-backend's own provers byte for byte, if these take the least witness of each proof of
work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.openvm.bus_prover import prove_buses
from distprove.stark.openvm.commitment import commit
from distprove.stark.openvm.constraints_prover import ProverTrace, fractions, prove_constraints
from distprove.stark.openvm.forms import BusWeights
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.parts import PartCommitments
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.stacking_prover import prove_stacking
from distprove.stark.openvm.statement import observe_statement
from distprove.stark.openvm.traces import AirTrace, CachedMain, shape_of
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.whir_prover import prove_whir
from distprove.steps import Steps
from kernels.host.babybear import ext_powers
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import Elements, ext_mul


def prove(
    kernels: OpenVmKernels,
    key: OpenVmKey,
    traces: Sequence[AirTrace],
    steps: Steps,
    parts: PartCommitments | None = None,
) -> OpenVmProof:
    """Prove that traces fulfil the constraints of a key and balance its buses.

    `traces` have been checked as a file's are. `parts`, of the same kernels, has commitments of earlier proofs and
    keeps those of this one. Raises UnbalancedBuses, and UsageError for traces of which the key allows no proof, or
    whose cached parts have another commitment than stated. A trace that violates a constraint gives a proof that does
    not verify, so callers must verify the proof.
    """
    params, shape = key.params, shape_of(key, traces)

    # 1. Commit to the common mains, tallest first, and to the parts with commitments of their own.
    by_air = {trace.air: trace for trace in traces}
    present = [by_air.get(number) for number in range(len(key.airs))]
    ordered, airs = [by_air[trace.number] for trace in shape.traces], [trace.air for trace in shape.traces]
    with steps("load"):
        common = [trace.load(kernels) for trace in ordered]
    with steps("main_stack"):
        main = commit(kernels, params, common)
        # The stack has the traces, but for those of less than a run.
        del common
        for trace in ordered:
            if trace.height >= 1 << params.log_skip:
                trace.release()
    with steps("further_stacks"):
        parts = PartCommitments(kernels, most=0) if parts is None else parts
        preprocessed = [
            parts.commit(params, CachedMain(air.preprocessed.root, air.preprocessed.trace), air.name)
            if air.preprocessed is not None
            else None
            for air in airs
        ]
        cached = [
            [parts.commit(params, part, air.name) for part in trace.cached]
            for trace, air in zip(ordered, airs, strict=True)
        ]
    commitments, reads_next = [main], [[air.needs_next for air in airs]]
    for air, fixed, others in zip(airs, preprocessed, cached, strict=True):
        own = [*([] if fixed is None else [fixed]), *others]
        commitments += own
        reads_next += [[air.needs_next]] * len(own)

    # 2. Bind the statement: the shape of the traces, their commitments and the public values.
    stated = tuple(None if trace is None else trace.shape for trace in present)
    public = tuple(np.array(() if trace is None else trace.public_values, dtype=np.uint32) for trace in present)
    transcript = Transcript()
    observe_statement(transcript, key, main.tree.root, stated, public)

    # 3. LogUp: draw the challenges of the buses, and prove that all fractions sum to zero.
    prover_traces = [
        ProverTrace(
            forms=air.forms,
            degree=air.max_constraint_degree,
            reads_next=air.needs_next,
            parts=(*(part.matrices[0] for part in others), columns),
            preprocessed=None if fixed is None else fixed.matrices[0],
            public=trace.public_values,
        )
        for trace, air, columns, fixed, others in zip(ordered, airs, main.matrices, preprocessed, cached, strict=True)
    ]
    with steps("buses"):
        witness = transcript.grind(params.logup_pow_bits, kernels.least_witness)
        alpha, beta = (transcript.sample_array() for _ in range(2))
        longest = max(air.forms.longest for air in airs)
        weights = BusWeights(alpha, ext_powers(beta, longest + 1))
        # No name keeps the fractions, which are as large as the stacked columns, longer than their sum takes.
        buses, bus_point = prove_buses(
            kernels, transcript, witness, fractions(kernels, prover_traces, params.log_skip, weights), alpha
        )

    # 4. One sumcheck for all constraints, and for the claims about the fractions.
    with steps("constraints"):
        constraints, point = prove_constraints(
            kernels, transcript, prover_traces, params.log_skip, params.max_constraint_degree, weights, bus_point, steps
        )

    # 5. Reduce the claims about columns to claims about stacked columns, and open those.
    with steps("reduction"):
        stacking, stacked_point = prove_stacking(kernels, transcript, params, commitments, reads_next, point)
    with steps("opening"):
        whir = prove_whir(kernels, transcript, params, commitments, cube_point(params, stacked_point))

    return OpenVmProof(
        main_root=main.tree.root,
        traces=stated,
        public_values=public,
        buses=buses,
        constraints=constraints,
        stacking=stacking,
        whir=whir,
    )


def cube_point(params: SystemParams, point: Sequence[Elements]) -> list[Elements]:
    """Return the point of a stacked column's message: z, z^2, z^4, ... for D's bits, then the other coordinates."""
    squares = [point[0]]
    while len(squares) < params.log_skip:
        squares.append(ext_mul(squares[-1], squares[-1]))
    return [*squares[: params.log_skip], *point[1:]]
