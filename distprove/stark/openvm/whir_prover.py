"""The prover of WHIR: opens all stacked columns of all commitments at one point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distprove.stark.openvm.commitment import Stacked
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.proof import WhirProof
from distprove.stark.openvm.transcript import Transcript
from kernels.host.babybear import ext_powers
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_codes import CodeTree, Opened
from kernels.maths.babybear import Elements, P, root_of_unity


def prove_whir(
    kernels: OpenVmKernels,
    transcript: Transcript,
    params: SystemParams,
    commitments: Sequence[Stacked],
    point: Sequence[Elements],
) -> WhirProof:
    """Open the stacked columns at a point of log_height elements (4,), the variables of D's bits first."""
    codes, whir, search = kernels.codes, params.whir, kernels.least_witness

    # 1. Combine all stacked columns, as polynomials on the cube that have the codewords' messages as coefficients.
    mu_witness = transcript.grind(whir.mu_pow_bits, search)
    powers = ext_powers(transcript.sample_array(), sum(stacked.layout.width for stacked in commitments))
    opening = kernels.opening.begin([stacked.columns for stacked in commitments], powers, params.log_skip, point)

    rounds: list[Elements] = []
    folding_witnesses: list[int] = []
    query_witnesses: list[int] = []
    roots: list[Elements] = []
    samples: list[Elements] = []
    opened: list[list[Opened]] = []
    final: Elements | None = None
    trees: list[CodeTree] = [stacked.tree for stacked in commitments]
    for number, queries in enumerate(whir.queries):
        # 2. Sumcheck rounds over the product of values and weights, each with a challenge that binds a variable.
        for _ in range(whir.log_fold):
            rounds.append(opening.sums())
            transcript.observe_words(rounds[-1])
            folding_witnesses.append(transcript.grind(whir.folding_pow_bits, search))
            opening.bind(transcript.sample_array())

        # 3. Commit to the folded codeword and sample it outside of its domain; in the last round send the polynomial.
        following: CodeTree | None = None
        outside: Elements | None = None
        if number < whir.rounds - 1:
            log_blowup = params.log_domain(number + 1) - (params.log_height - len(rounds))
            following = codes.commit_coefficients(opening.coefficients, log_blowup, whir.log_fold)
            roots.append(following.root)
            transcript.observe_words(following.root)
            outside = transcript.sample_array()
            samples.append(opening.evaluate(outside))
            transcript.observe_words(samples[-1])
        else:
            final = np.ascontiguousarray(kernels.download(opening.coefficients).T)
            transcript.observe_words(final)

        # 4. Open the last codeword at leaves that the transcript chooses.
        query_witnesses.append(transcript.grind(whir.query_pow_bits, search))
        log_leaves = params.log_leaves(number)
        leaves = np.array([transcript.sample_bits(log_leaves) for _ in range(queries)], dtype=np.int64)
        opened.append(codes.open(trees, leaves))

        # 5. The next round's weights also bind the folded polynomial at the opened points: by a power of a challenge
        # for the point outside of the domain, by the next one for the first leaf, and so on.
        scale = transcript.sample_array()
        if following is not None and outside is not None:
            opening.add_points(outside, root_powers(log_leaves, leaves), ext_powers(scale, queries + 2)[1:])
            trees = [following]

    assert final is not None
    first, *others = opened
    return WhirProof(
        mu_witness,
        np.stack(rounds),
        np.array(roots, dtype=np.uint32).reshape(-1, 8),
        np.array(samples, dtype=np.uint32).reshape(-1, 4),
        np.array(folding_witnesses, dtype=np.uint32),
        np.array(query_witnesses, dtype=np.uint32),
        tuple(each.rows for each in first),
        tuple(each.paths for each in first),
        tuple(each.rows for [each] in others),
        tuple(each.paths for [each] in others),
        final,
    )


def root_powers(log_n: int, exponents: NDArray[np.int64]) -> Elements:
    """Return the powers of the 2^log_n-th root of unity."""
    root = root_of_unity(log_n)
    return np.array([pow(root, exponent, P) for exponent in exponents.tolist()], dtype=np.uint32)
