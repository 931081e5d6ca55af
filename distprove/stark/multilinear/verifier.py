"""The verifier. It uses NumPy, Python's integers and the key's hash; no kernels of the prover, no GPU, no Ray.

`verify` checks one partition's proof, with the steps of `prover.prove` in the same order. `verify_job` checks that the
partitions form one job. docs/multilinear-protocol.md is the specification.

The steps are written over `Arithmetic`: on numbers they verify, on symbols they emit a circuit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.formats.names import is_name
from distprove.stark import logup
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Elements, Scalars
from distprove.stark.barrier import Commitment
from distprove.stark.field import Ext, P, root_of_unity
from distprove.stark.fraction_layers import LeafClaim
from distprove.stark.multilinear.buses import (
    block_weights,
    checked_totals,
    padding,
    shared_point,
    verify_layers,
)
from distprove.stark.multilinear.challenges import (
    ProofTranscript,
    anchor_challenges,
    draw_global,
    global_challenges,
)
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.opened import Opened, OpenedRows
from distprove.stark.multilinear.opening import verify_opening
from distprove.stark.multilinear.proof import MultilinearPart, MultilinearProof
from distprove.stark.multilinear.rules import rules_at, scalars_of_all
from distprove.stark.multilinear.security import job_security, security_bits
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import RowWeights, point_paired
from distprove.stark.polynomials import evaluate, squares
from distprove.stark.whole_job import JobRules, check_multiplicities, verify_whole_job, verify_whole_statement
from kernels.host.units import count_of


def verify(key: MultilinearKey, name: str, public: Sequence[int], proof: MultilinearProof, shape: Shape) -> None:
    """Raise InvalidProof unless `proof` proves the partition `name` with these public values.

    This does not check the global buses, whose sum needs all partitions of the job, nor the job's challenge; both are
    for `verify_job`. `proof` and `shape` come from `MultilinearProof.from_record`, which checked every length and
    element.
    """
    public = tuple(public)
    check_statement(key, name, public, shape)
    words = np.array(public, dtype=np.uint64)
    try:
        verify_steps(NUMBERS, shape, key.digest, name.encode(), words, proof, OpenedRows(shape, proof))
    except InvalidProof as error:
        raise InvalidProof(f"{name}: {error}") from None


def verify_steps(
    f: Arithmetic[E], shape: Shape, key: Any, name: Any, public: Scalars, proof: MultilinearProof, opened: Opened
) -> None:
    """The verifier over an arithmetic, in which the digest `key`, `name`, `public`, the fields of `proof` and the rows
    of `opened` are.

    Nothing here depends on the values of a proof but through `f` and `opened`.
    """
    # 1. Bind the statement and the anchor, which fixes one trace, and draw the challenges of the buses.
    anchor: Any = proof.anchor
    transcript = ProofTranscript(f, shape, key, proof.challenge, name, public, proof.root, anchor)
    shared = draw_global(f, proof.challenge, shape.key.params.tree_hash)
    buses = logup.BusChallenges(transcript.bus_challenges(), shared)

    # 2. The buses: from the sums of their fractions to one claim about all leaves.
    transcript.totals(checked := checked_totals(f, shape, proof.totals))
    claim = verify_layers(f, shape, proof.layers, checked, transcript)
    xi = shared_point(shape, claim, transcript)

    # 3. The univariate round over constraints and leaves, then a multilinear one for each row variable.
    weights = block_weights(f, shape, claim)
    lambda_, kappa = transcript.constraint_challenges()
    if shape.leaves.scopes:
        _check_leaves(f, shape, proof.leaves, claim, xi, weights, kappa)
    r_0, nu = transcript.skip(proof.quotient, proof.leaves)
    vanishing = f.sub(squares(f, r_0, 1 + shape.log_skip)[-1], f.one)
    quotient, leaves = (evaluate(f, f.elements(words), r_0) for words in (proof.quotient, proof.leaves))
    c = f.add(f.mul(vanishing, quotient), f.mul(nu, leaves))
    point = [r_0]
    for words, x in zip(proof.rounds, xi[shape.log_skip :], strict=False):
        sent = f.elements(words)
        t_0 = f.sub(c, f.mul(x, f.sum(sent)))
        point.append(transcript.row_round(sent))
        c = evaluate(f, [t_0, *sent], point[-1])

    # 4. At the point, the rules of all tables follow from the opened values of their columns.
    scalars = scalars_of_all(f, shape, f.elements(f.embed(public)), buses, weights, lambda_, kappa)
    f.need_equal(c, rules_at(f, shape, proof.openings, point, scalars, nu), "the tables' rules do not hold")
    sigma = transcript.openings(proof.openings)

    # 5. All opened values and the anchor become one value of each stacked column.
    batch = f.powers(sigma, shape.openings + 1)
    c = f.mul(batch[-1], anchor)
    for power, value in zip(batch, f.elements(proof.openings), strict=False):
        c = f.add(c, f.mul(power, value))
    rho = []
    for words in proof.reduction:
        h_1, h_2 = f.elements(words)
        rho.append(transcript.reduction_round([h_1, h_2]))
        c = evaluate(f, [f.sub(c, h_2), h_1, h_2], rho[-1])
    eta, delta = anchor_challenges(f, shape, key, name, public, proof.root)
    stacked = f.elements(proof.stacked)
    expected = f.sum(
        [f.mul(v, w) for v, w in zip(stacked, stacked_weights(f, shape, point, rho, batch, eta, delta), strict=True)]
    )
    f.need_equal(c, expected, "the opened values are not those of the stacked columns")
    mu = transcript.stacked(stacked)

    # 6. WHIR: the stacked columns have these values.
    verify_opening(f, shape, proof, opened, transcript, rho, mu)


def check_statement(key: MultilinearKey, name: str, public: tuple[int, ...], shape: Shape) -> None:
    """Raise InvalidProof unless the partition's name, public values and heights are ones that a proof may have."""
    check_values(key, name, public)
    check_shape(key, name, shape)


def check_values(key: MultilinearKey, name: str, public: tuple[int, ...]) -> None:
    """Raise InvalidProof unless the partition's public values are ones that a proof may have."""
    if len(public) != key.statement.public_values or not all(type(v) is int and 0 <= v < P for v in public):
        raise InvalidProof(f"{name}: not {count_of(key.statement.public_values, 'canonical public value')}")


def check_shape(key: MultilinearKey, name: str, shape: Shape) -> None:
    """Raise InvalidProof unless the partition's name and heights are ones that a proof may have."""
    check_name(name)
    check_heights(key, name, shape)


def check_name(name: str) -> None:
    """Raise InvalidProof unless it is a partition's name."""
    if not is_name(name):
        raise InvalidProof(f"not a partition's name: {name!r}")


def check_heights(key: MultilinearKey, name: str, shape: Shape) -> None:
    """Raise InvalidProof unless a proof may have the heights of this partition."""
    reached = security_bits(shape)
    if reached < key.params.security_bits:
        raise InvalidProof(
            f"{name}: {reached:.1f} bits of security at these heights; the key asks for {key.params.security_bits}"
        )
    check_multiplicities(key.tables, [shape.log_heights])


def _check_leaves(
    f: Arithmetic[E],
    shape: Shape,
    leaves: Elements,
    claim: LeafClaim[E],
    xi: Sequence[E],
    weights: Sequence[Sequence[E]],
    kappa: E,
) -> None:
    """The leaves' polynomial must sum to the claim over the domain of the univariate round."""
    root, size = root_of_unity(shape.log_skip), 1 << shape.log_skip
    coefficients, total = f.elements(leaves), f.zero
    weights_of_rows = f.eqs(xi[: shape.log_skip], [(0, a) for a in range(size)])
    for a in range(size):
        value = evaluate(f, coefficients, f.constant(pow(root, a, P)))
        total = f.add(total, f.mul(next(weights_of_rows), value))
    denominator = f.sub(claim.denominator, padding(f, weights))
    expected = f.add(claim.numerator, f.mul(kappa, denominator))
    f.need_equal(total, expected, "the leaves of the buses do not have the claimed sums")


def stacked_weights(
    f: Arithmetic[E],
    shape: Shape,
    point: Sequence[E],
    rho: Sequence[E],
    batch: Sequence[E],
    eta: Sequence[E],
    delta: E,
) -> list[E]:
    """The weight of each stacked column's value in the batched claim: the openings' and the anchor's, `batch` being
    the powers of sigma."""
    weights = [f.zero] * shape.stacked
    folds = {True: rho, False: rho[shape.log_height - shape.preprocessed.log_height :]}
    first = {True: 0, False: shape.main.width}
    at = {of: f.at_offsets(own) for of, own in folds.items()}
    powers = iter(batch)
    for table, (rules, height) in enumerate(zip(shape.tables, shape.heights, strict=True)):
        own = point[: 1 + height - shape.log_skip]
        rows = {
            of: RowWeights.at(f, own, folds[of], shape.log_skip)
            for of in (True, False)
            if of or rules.preprocessed_width
        }
        positions = shape.positions(table)
        claimed = [next(powers) for _ in positions], {c: next(powers) for c in rules.next_row}
        for c, (of, position) in enumerate(positions):
            weight = f.mul(claimed[0][c], rows[of].here)
            if c in claimed[1]:
                weight = f.add(weight, f.mul(claimed[1][c], rows[of].after))
            place = first[of] + position.column
            weights[place] = f.add(weights[place], f.mul(weight, at[of](height, position.offset)))
    scale = f.mul(next(powers), point_paired(f, eta, rho))
    for j, power in enumerate(f.powers(delta, shape.main.width)):
        weights[j] = f.add(weights[j], f.mul(scale, power))
    return weights


def verify_job(
    key: MultilinearKey,
    names: Sequence[str],
    publics: Sequence[Sequence[int]],
    proofs: Sequence[MultilinearPart],
    output: bytes | None = None,
) -> None:
    """Raise InvalidProof unless these partitions form one whole job (`verify_whole_job`)."""
    verify_whole_job(RULES, key, names, publics, proofs, output)


def check_commitments(key: MultilinearKey, commitments: Sequence[Commitment]) -> None:
    """Raise InvalidProof unless these commitments can be a job under `key`."""
    verify_whole_statement(RULES, key, commitments)


def _terminals(key: MultilinearKey, proof: MultilinearPart) -> list[Ext | None]:
    shape = Shape(key, proof.log_heights)
    checked_totals(NUMBERS, shape, proof.totals)
    return [proof.terminal(shape)]


RULES = JobRules(multilinear_job_challenge, global_challenges, job_security, _terminals)
