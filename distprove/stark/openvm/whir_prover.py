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
    ext_mul,
    ext_powers,
    mul,
    root_of_unity,
    sub,
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
    powers = ext_powers(_drawn(transcript), sum(stacked.layout.width for stacked in commitments))
    combined = np.zeros((4, 1 << params.log_height), dtype=np.uint32)
    for stacked in commitments:
        own, powers = powers[: stacked.layout.width], powers[stacked.layout.width :]
        combined = add(combined, linear_sum(k, own, stacked.columns))
    values = np.ascontiguousarray(subset_sums(message(k, combined, params.log_skip)).T)
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
            rounds.append(k.pair_round(values, weights))
            transcript.observe_words(rounds[-1])
            folding_witnesses.append(transcript.grind(whir.folding_pow_bits, k.least_witness))
            drawn = _drawn(transcript)
            values, weights = k.fold(values, drawn), k.fold(weights, drawn)

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

    The power is 1 for the point outside of the domain, 2 for the first leaf, and so on. The table of a leaf is the
    product of two small ones, in the base field; the sum over leaves is a product of matrices.
    """
    log_n = log2_of(n)
    powers = ext_powers(scale, len(leaves) + 2)[1:]
    coordinates = [outside]
    while len(coordinates) < log_n:
        coordinates.append(ext_mul(coordinates[-1], coordinates[-1]))
    found = eq_table(k, coordinates[:log_n], powers[0])
    log_low = log_n // 2
    squares = root_powers(log_leaves, leaves)
    low = _base_tables(squares, log_low)
    for _ in range(log_low):
        squares = mul(squares, squares)
    high = mul(_base_tables(squares, log_n - log_low)[..., None], powers[1:, None])
    # (4, high) by leaves, times leaves by low
    by_leaf = np.ascontiguousarray(high.transpose(2, 1, 0)).reshape(-1, len(leaves))
    return add(found, np.ascontiguousarray(k.matmul(by_leaf, low).reshape(4, n).T))


def root_powers(log_n: int, exponents: NDArray[np.int64]) -> Elements:
    """Return the powers of the 2^log_n-th root of unity."""
    root = root_of_unity(log_n)
    return np.array([pow(root, exponent, P) for exponent in exponents.tolist()], dtype=np.uint32)


def _base_tables(points: Elements, variables: int) -> Elements:
    """Return eq(z, z^2, z^4, ...) for base elements z (m,), tables (m, 2^variables)."""
    tables = np.ones((len(points), 1), dtype=np.uint32)
    for _ in range(variables):
        high = mul(tables, points[:, None])
        tables = np.concatenate((sub(tables, high), high), axis=1)
        points = mul(points, points)
    return tables


def _drawn(transcript: Transcript) -> Elements:
    return np.array(transcript.sample_ext(), dtype=np.uint32)
