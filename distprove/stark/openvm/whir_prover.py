"""The prover of WHIR: opens all stacked columns of all commitments at one point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distprove.stark.openvm.commitment import MerkleTree, Stacked
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.proof import WhirProof
from distprove.stark.openvm.tables import (
    cube_coefficients,
    eq_table,
    fold,
    line,
    linear_sum,
    message,
    mobius_table,
    subset_sums,
)
from distprove.stark.openvm.transcript import Transcript
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import (
    Elements,
    P,
    add,
    ext,
    ext_mul,
    ext_powers,
    root_of_unity,
    total,
)
from kernels.maths.babybear_ntt import log2_of


def prove_whir(
    k: BabyBearKernels,
    transcript: Transcript,
    params: SystemParams,
    commitments: Sequence[Stacked],
    point: Sequence[Elements],
) -> WhirProof:
    """Open the stacked columns at a point of log_height elements (4,), the variables of D's bits first."""
    whir = params.whir

    # 1. Combine all stacked columns, as polynomials on the cube that have the codewords' messages as coefficients.
    mu_witness = transcript.grind(whir.mu_pow_bits, k.least_witness)
    columns = np.concatenate([stacked.columns for stacked in commitments])
    combined = linear_sum(k, ext_powers(_drawn(transcript), len(columns)), columns)
    values = np.ascontiguousarray(subset_sums(message(k, np.ascontiguousarray(combined.T), params.log_skip)).T)
    weights = mobius_table(k, point)

    rounds: list[Elements] = []
    folding_witnesses: list[int] = []
    query_witnesses: list[int] = []
    roots: list[Elements] = []
    samples: list[Elements] = []
    opened: list[Elements] = []
    paths: list[Elements] = []
    rows: tuple[Elements, ...] = ()
    row_paths: tuple[Elements, ...] = ()
    final = values
    tree: MerkleTree | None = None
    for number, queries in enumerate(whir.queries):
        # 2. Sumcheck rounds over the product of values and weights, each with a challenge that binds a variable.
        for _ in range(whir.log_fold):
            at = [
                total(k.ext_mul(value, weight), 0)
                for value, weight in zip(line(values, 2), line(weights, 2), strict=True)
            ]
            rounds.append(np.stack(at))
            transcript.observe_words(rounds[-1])
            folding_witnesses.append(transcript.grind(whir.folding_pow_bits, k.least_witness))
            drawn = _drawn(transcript)
            values, weights = fold(k, values, drawn), fold(k, weights, drawn)

        # 3. Commit to the folded codeword and sample it outside of its domain; in the last round send the polynomial.
        coefficients = np.ascontiguousarray(cube_coefficients(np.ascontiguousarray(values.T)).T)
        following: MerkleTree | None = None
        outside: Elements | None = None
        if number < whir.rounds - 1:
            following = MerkleTree.over(k, _codeword(k, coefficients, params.log_domain(number + 1)), whir.log_fold)
            roots.append(following.root)
            transcript.observe_words(following.root)
            outside = _drawn(transcript)
            samples.append(total(k.ext_mul(coefficients, ext_powers(outside, len(coefficients))), 0))
            transcript.observe_words(samples[-1])
        else:
            final = coefficients
            transcript.observe_words(final)

        # 4. Open the last codeword at leaves that the transcript chooses.
        query_witnesses.append(transcript.grind(whir.query_pow_bits, k.least_witness))
        leaves = np.array([transcript.sample_bits(params.log_leaves(number)) for _ in range(queries)], dtype=np.int64)
        if tree is None:
            rows = tuple(stacked.tree.rows(leaves) for stacked in commitments)
            row_paths = tuple(stacked.tree.paths(leaves) for stacked in commitments)
        else:
            opened.append(tree.rows(leaves))
            paths.append(tree.paths(leaves))
        tree = following

        # 5. The next round's weights also bind the folded polynomial at the opened points.
        scale = _drawn(transcript)
        if outside is not None:
            weights = add(weights, _opened_weights(k, outside, leaves, params.log_leaves(number), scale, len(weights)))

    return WhirProof(
        mu_witness,
        np.stack(rounds),
        np.array(roots, dtype=np.uint32).reshape(-1, 8),
        np.array(samples, dtype=np.uint32).reshape(-1, 4),
        np.array(folding_witnesses, dtype=np.uint32),
        np.array(query_witnesses, dtype=np.uint32),
        rows,
        row_paths,
        tuple(opened),
        tuple(paths),
        final,
    )


def _codeword(k: BabyBearKernels, coefficients: Elements, log_domain: int) -> Elements:
    """Return the values (2^log_domain, 4) on the subgroup of a polynomial with coefficients (n, 4)."""
    room = np.zeros((1 << log_domain, 4), dtype=np.uint32)
    room[: len(coefficients)] = coefficients
    return k.ntt(room, -2)


def _opened_weights(
    k: BabyBearKernels, outside: Elements, leaves: NDArray[np.int64], log_leaves: int, scale: Elements, n: int
) -> Elements:
    """Return the sum over opened points z of a power of `scale` times eq(z, z^2, z^4, ...), a table (n, 4).

    The power is 1 for the point outside of the domain, 2 for the first leaf, and so on.
    """
    log_n = log2_of(n)
    powers = ext_powers(scale, len(leaves) + 2)[1:]
    root = root_of_unity(log_leaves)
    points = [outside, *(ext(np.asarray(pow(root, leaf, P), dtype=np.uint32)) for leaf in leaves.tolist())]
    found = np.zeros((n, 4), dtype=np.uint32)
    for point, power in zip(points, powers, strict=True):
        found = add(found, eq_table(k, _squares(point, log_n), power))
    return found


def _squares(x: Elements, count: int) -> list[Elements]:
    """Return x, x^2, x^4, ..., `count` of them."""
    found = []
    for _ in range(count):
        found.append(x)
        x = ext_mul(x, x)
    return found


def _drawn(transcript: Transcript) -> Elements:
    return np.array(transcript.sample_ext(), dtype=np.uint32)
