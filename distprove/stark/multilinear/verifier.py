"""The verifier. It uses NumPy, Python's integers and Keccak-256; no kernels of the prover, no GPU, no Ray.

`verify` checks one partition's proof, with the steps of `prover.prove` in the same order. `verify_job` checks that the
partitions form one job. docs/multilinear-protocol.md is the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.errors import InvalidProof
from distprove.formats.names import is_name
from distprove.stark import logup
from distprove.stark.barrier import Commitment
from distprove.stark.field import ONE, ZERO, Ext, P, Words, e_add, e_mul, e_pow, e_powers, e_sub, root_of_unity
from distprove.stark.multilinear.buses import (
    LeafClaim,
    block_weights,
    checked_totals,
    elements,
    evaluate,
    padding,
    shared_point,
    verify_layers,
)
from distprove.stark.multilinear.challenges import (
    ProofTranscript,
    anchor_challenges,
    global_challenges,
    multilinear_job_challenge,
)
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.opening import verify_opening
from distprove.stark.multilinear.proof import MultilinearPart, MultilinearProof
from distprove.stark.multilinear.rules import rules_at, scalars_of_all
from distprove.stark.multilinear.security import job_security, security_bits
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.stacking import RowWeights, at_offset, eq, point_paired
from distprove.stark.whole_job import JobRules, check_multiplicities, verify_whole_job, verify_whole_statement


def verify(key: MultilinearKey, name: str, public: Sequence[int], proof: MultilinearProof, shape: Shape) -> None:
    """Raise InvalidProof unless `proof` proves the partition `name` with these public values.

    This does not check the global buses, whose sum needs all partitions of the job, nor the job's challenge; both are
    for `verify_job`. `proof` and `shape` come from `MultilinearProof.from_record`, which checked every length and
    element.
    """
    public = tuple(public)
    _check_statement(key, name, public, shape)

    # 1. Bind the statement and the anchor, which fixes one trace, and draw the challenges of the buses.
    transcript = ProofTranscript(shape, proof.challenge, name, public, proof.root, proof.anchor)
    buses = logup.BusChallenges(transcript.bus_challenges(), global_challenges(proof.challenge, key.params.tree_hash))

    # 2. The buses: from the sums of their fractions to one claim about all leaves.
    transcript.totals(checked := checked_totals(shape, proof.totals))
    claim = verify_layers(shape, proof.layers, checked, transcript)
    xi = shared_point(shape, claim, transcript)

    # 3. The univariate round over constraints and leaves, then a multilinear one for each row variable.
    weights = block_weights(shape, claim)
    lambda_, kappa = transcript.constraint_challenges()
    if shape.leaves.scopes:
        _check_leaves(shape, proof.leaves, claim, xi, weights, kappa)
    r_0, nu = transcript.skip(proof.quotient, proof.leaves)
    vanishing = e_sub(e_pow(r_0, 1 << shape.log_skip), ONE)
    c = e_add(
        e_mul(vanishing, evaluate(elements(proof.quotient), r_0)), e_mul(nu, evaluate(elements(proof.leaves), r_0))
    )
    point = [r_0]
    for words, x in zip(proof.rounds, xi[shape.log_skip :], strict=False):
        sent = elements(words)
        t_0 = e_sub(c, e_mul(x, _sum(sent)))
        point.append(transcript.row_round(sent))
        c = evaluate([t_0, *sent], point[-1])

    # 4. At the point, the rules of all tables follow from the opened values of their columns.
    scalars = scalars_of_all(shape, public, buses, weights, lambda_, kappa)
    if c != rules_at(shape, proof.openings, point, scalars, nu):
        raise InvalidProof(f"{name}: the tables' rules do not hold")
    sigma = transcript.openings(proof.openings)

    # 5. All opened values and the anchor become one value of each stacked column.
    batch = e_powers(sigma, shape.openings + 1)
    c = e_mul(batch[-1], proof.anchor)
    for power, value in zip(batch, elements(proof.openings), strict=False):
        c = e_add(c, e_mul(power, value))
    rho = []
    for words in proof.reduction:
        h_1, h_2 = elements(words)
        rho.append(transcript.reduction_round([h_1, h_2]))
        c = evaluate([e_sub(c, h_2), h_1, h_2], rho[-1])
    eta, delta = anchor_challenges(shape, name, public, proof.root)
    stacked = elements(proof.stacked)
    if c != _dot(stacked, stacked_weights(shape, point, rho, batch, eta, delta)):
        raise InvalidProof(f"{name}: the opened values are not those of the stacked columns")
    mu = transcript.stacked(stacked)

    # 6. WHIR: the stacked columns have these values.
    verify_opening(shape, proof, transcript, rho, mu)


def _check_statement(key: MultilinearKey, name: str, public: tuple[int, ...], shape: Shape) -> None:
    if not is_name(name):
        raise InvalidProof(f"not a partition's name: {name!r}")
    if len(public) != key.statement.public_values or not all(type(v) is int and 0 <= v < P for v in public):
        raise InvalidProof(f"{name}: not {key.statement.public_values} canonical public values")
    reached = security_bits(shape)
    if reached < key.params.security_bits:
        raise InvalidProof(
            f"{name}: {reached:.1f} bits of security at these heights; the key asks for {key.params.security_bits}"
        )
    check_multiplicities(key.tables, [shape.log_heights])


def _check_leaves(
    shape: Shape, leaves: Words, claim: LeafClaim, xi: Sequence[Ext], weights: Sequence[Sequence[Ext]], kappa: Ext
) -> None:
    """Raise InvalidProof unless the leaves' polynomial sums to the claim over the domain of the univariate round."""
    root, size = root_of_unity(shape.log_skip), 1 << shape.log_skip
    coefficients, total = elements(leaves), ZERO
    for a in range(size):
        value = evaluate(coefficients, (pow(root, a, P), 0, 0))
        total = e_add(total, e_mul(eq(xi[: shape.log_skip], a), value))
    denominator = e_sub(claim.denominator, padding(weights))
    if total != e_add(claim.numerator, e_mul(kappa, denominator)):
        raise InvalidProof("the leaves of the buses do not have the claimed sums")


def stacked_weights(
    shape: Shape, point: Sequence[Ext], rho: Sequence[Ext], batch: Sequence[Ext], eta: Sequence[Ext], delta: Ext
) -> list[Ext]:
    """The weight of each stacked column's value in the batched claim: the openings' and the anchor's, `batch` being
    the powers of sigma."""
    weights = [ZERO] * shape.stacked
    folds = {True: rho, False: rho[shape.log_height - shape.preprocessed.log_height :]}
    first = {True: 0, False: shape.main.width}
    powers = iter(batch)
    for table, (rules, height) in enumerate(zip(shape.tables, shape.heights, strict=True)):
        own = point[: 1 + height - shape.log_skip]
        rows = {
            of: RowWeights.at(own, folds[of], shape.log_skip) for of in (True, False) if of or rules.preprocessed_width
        }
        positions = shape.positions(table)
        claimed = [next(powers) for _ in positions], {c: next(powers) for c in rules.next_row}
        for c, (of, position) in enumerate(positions):
            weight = e_mul(claimed[0][c], rows[of].here)
            if c in claimed[1]:
                weight = e_add(weight, e_mul(claimed[1][c], rows[of].after))
            place = first[of] + position.column
            weights[place] = e_add(weights[place], e_mul(weight, at_offset(folds[of], height, position.offset)))
    scale = e_mul(next(powers), point_paired(eta, rho))
    for j, power in enumerate(e_powers(delta, shape.main.width)):
        weights[j] = e_add(weights[j], e_mul(scale, power))
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
    checked_totals(shape, proof.totals)
    return [proof.terminal(shape)]


RULES = JobRules(multilinear_job_challenge, global_challenges, job_security, _terminals)


def _sum(values: Sequence[Ext]) -> Ext:
    total = ZERO
    for value in values:
        total = e_add(total, value)
    return total


def _dot(a: Sequence[Ext], b: Sequence[Ext]) -> Ext:
    return _sum([e_mul(x, y) for x, y in zip(a, b, strict=True)])
