"""The verifier. It uses NumPy, Python's integers and Keccak-256; no kernels of the prover, no GPU, no Ray.

`verify` checks one partition's proof, with the steps of `prover.prove` in the same order; `verify_job` checks that the
partitions form one job. docs/stark-protocol.md is the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.formats.names import is_name
from distprove.stark import logup
from distprove.stark.barrier import Commitment, global_challenges, job_challenge
from distprove.stark.challenges import ProofTranscript, anchor_challenges, next_point, quotient_cosets
from distprove.stark.field import (
    GENERATOR,
    ONE,
    ZERO,
    Ext,
    P,
    Words,
    add,
    dot,
    dots,
    e_add,
    e_dots,
    e_inv,
    e_join,
    e_mul,
    e_pow,
    e_scale,
    e_sub,
    element,
    embed,
    ext_inverse,
    ext_mul,
    ext_powers,
    ext_scale,
    mul,
    powers,
    powers_at,
    root_of_unity,
    spread,
    sub,
    total,
)
from distprove.stark.merkle import TreeClaim, openings_hold
from distprove.stark.proof import JobPart, StarkProof
from distprove.stark.security import job_security, security_bits
from distprove.stark.shape import ProofShape
from distprove.stark.transcript import work_is_done
from distprove.stark.verifying_key import VerifyingKey
from distprove.stark.whole_job import JobRules, check_multiplicities, verify_whole_job, verify_whole_statement
from kernels.host.units import count_of
from kernels.maths.query_paths import QueryPaths


def verify(key: VerifyingKey, name: str, public: Sequence[int], proof: StarkProof, shape: ProofShape) -> None:
    """Raise InvalidProof unless `proof` proves the partition `name` with these public values.

    This does not check the global buses, whose sum needs all partitions of the job, nor the job's challenge; both are
    for `verify_job`. `proof` and `shape` come from `StarkProof.from_record`, which checked every length and element.
    """
    params = key.params
    if not is_name(name):
        raise InvalidProof(f"not a partition's name: {name!r}")
    public = tuple(public)
    if len(public) != key.statement.public_values or not all(type(v) is int and 0 <= v < P for v in public):
        raise InvalidProof(f"{name}: not {count_of(key.statement.public_values, 'canonical public value')}")
    reached = security_bits(shape)
    if reached < params.security_bits:
        raise InvalidProof(
            f"{name}: {reached:.1f} bits of security at these heights; the key asks for {params.security_bits}"
        )
    check_multiplicities(key.tables, [shape.log_heights])
    roots = dict(zip((r for r in shape.rounds if r not in shape.key_roots), proof.roots, strict=True))

    # 1. Bind the statement, and draw the challenges of the buses.
    transcript = ProofTranscript(shape, proof.challenge, name, public)
    buses = transcript.bus_challenges(roots["main"], proof.anchors)

    # 2. The LogUp terminals. Those of the local buses must cancel within the partition.
    terminals = terminals_of(shape, proof)
    if not logup.balanced([local for local, _ in terminals]):
        raise InvalidProof(f"{name}: the local buses do not balance")
    alpha = transcript.constraint_challenge(roots.get("aux"), proof.terminals)

    # 3. The quotient. Its root fixes it before the out-of-domain point is drawn.
    zeta = transcript.out_of_domain_point(roots["quotient"])

    # 4. Every table's constraints at zeta must equal its quotient times zeta^n - 1.
    for i, table in enumerate(shape.airs):
        scalars = logup.constraint_scalars(table, public, buses, terminals[i], n=1 << shape.heights[i], alpha=alpha)
        if constraints_at(shape, i, proof, scalars, zeta) != quotient_at(shape, i, proof, zeta):
            raise InvalidProof(f"{name}: the constraints of table {table.name} do not hold")
    gamma = transcript.batching_challenge(proof.values)

    # 5 and 6. FRI's challenges, in the order of its layers.
    betas = [transcript.folding_challenge(root) for root in proof.fri_roots]

    # 7. Proof of work, queries, and the openings of all trees at them.
    seed = transcript.grinding_seed(proof.final)
    if not work_is_done(seed, proof.nonce, params.grinding_bits, params.tree_hash):
        raise InvalidProof(f"{name}: the proof of work is not done")
    indices = transcript.queries(proof.nonce)
    all_roots = [*(({**shape.key_roots, **roots})[r] for r in shape.rounds), *proof.fri_roots]
    tree_shapes = [*shape.rounds.values(), *shape.fri_trees]
    claims = [
        TreeClaim(tree_shape, root, opening)
        for tree_shape, root, opening in zip(tree_shapes, all_roots, proof.trees, strict=True)
    ]
    queries = Queries(shape, np.array(indices, dtype=np.int64))
    if not openings_hold(claims, queries.paths):
        raise InvalidProof(f"{name}: an opening does not match its commitment")

    # 8. The DEEP codewords at the queries, and the folds from layer to layer down to the final polynomial.
    anchor = anchor_challenges(shape, name, public, roots["main"]) if key.anchored else None
    codewords = deep_codewords(shape, proof, gamma, zeta, anchor, queries)
    if not folds_agree(shape, proof, codewords, betas, queries):
        raise InvalidProof(f"{name}: the folding of FRI is not consistent")


def verify_job(
    key: VerifyingKey,
    names: Sequence[str],
    publics: Sequence[Sequence[int]],
    proofs: Sequence[JobPart],
    output: bytes | None = None,
) -> None:
    """Raise InvalidProof unless these partitions form one whole job (`verify_whole_job`)."""
    verify_whole_job(RULES, key, names, publics, proofs, output)


def check_commitments(key: VerifyingKey, commitments: Sequence[Commitment]) -> None:
    """Raise InvalidProof unless these commitments can be a job under `key`."""
    verify_whole_statement(RULES, key, commitments)


def _global_terminals(key: VerifyingKey, proof: JobPart) -> list[Ext | None]:
    return [terminal for _, terminal in terminals_of(ProofShape(key, proof.log_heights), proof)]


def _job_challenge(key: VerifyingKey, commitments: Sequence[Commitment], output: bytes | None) -> bytes:
    return job_challenge(key.digest, commitments)


RULES = JobRules(_job_challenge, global_challenges, job_security, _global_terminals)


def terminals_of(shape: ProofShape, proof: JobPart) -> list[tuple[Ext | None, Ext | None]]:
    """The (local, global) terminals of each present table; None for a scope without interactions."""
    flat = map(element, proof.terminals)
    return [(next(flat) if t.has_local else None, next(flat) if t.has_global else None) for t in shape.airs]


def constraints_at(shape: ProofShape, table: int, proof: StarkProof, scalars: Words, zeta: Ext) -> Ext:
    """Evaluate the folded constraints of a table at zeta, from its opened values."""
    air, t = shape.airs[table], shape.tables[table]
    cuts = np.cumsum(t.widths[:2])
    values, after = proof.values[table], np.zeros((t.columns, 3), dtype=np.uint64)
    after[list(t.next_row)] = values.after  # other columns are not read at the next row
    selectors = np.zeros((3, 3), dtype=np.uint64)
    w_inverse = pow(root_of_unity(t.log_height), -1, P)
    vanishing = e_sub(e_pow(zeta, 1 << t.log_height), ONE)
    before_last = e_sub(zeta, (w_inverse, 0, 0))
    selectors[0] = e_mul(vanishing, e_inv(e_sub(zeta, ONE)))
    selectors[1] = e_mul(vanishing, e_inv(before_last))
    selectors[2] = before_last
    return air.at_point([*np.split(values.here, cuts), selectors], [*np.split(after, cuts), None], scalars)


def quotient_at(shape: ProofShape, table: int, proof: StarkProof, zeta: Ext) -> Ext:
    """The value (zeta^n - 1) Q(zeta) of a table. Chunk t equals Q on its own coset, so Q interpolates the chunks."""
    t, chunks = shape.tables[table], shape.airs[table].quotient_chunks
    n = 1 << t.log_height
    powers = [pow(g, n, P) for g in quotient_cosets(t.log_height, shape.key.params.log_blowup, chunks)]
    zeta_n = e_pow(zeta, n)
    total = ZERO
    for c in range(chunks):
        factor = ONE
        for other in range(chunks):
            if other != c:
                away = e_sub(zeta_n, (powers[other], 0, 0))
                factor = e_mul(factor, e_scale(away, pow(powers[c] - powers[other], -1, P)))
        total = e_add(total, e_mul(factor, e_join(proof.values[table].quotient[3 * c : 3 * c + 3].tolist())))
    return e_mul(total, e_sub(zeta_n, ONE))


@dataclass(frozen=True)
class Queries:
    """The queries of a proof, in the domains of all heights and layers."""

    shape: ProofShape
    indices: NDArray[np.int64]
    """The query indices, (q,), below 2^log_domain."""

    def within(self, log_size: int) -> NDArray[np.int64]:
        """The indices of the queries in a domain of 2^log_size points, (q,)."""
        return self.indices & ((1 << log_size) - 1)

    @cached_property
    def paths(self) -> QueryPaths:
        """The paths that open trees at the query indices."""
        return QueryPaths(self.indices, self.shape.log_domain)

    def of_each(self, opened: Words, log_size: int) -> Words:
        """Pick each query's row, (q, width), from the rows `opened`, (k, width), of a domain's distinct indices."""
        return opened[np.searchsorted(self.paths.known(log_size), self.within(log_size))]

    def powers(self, exponents: NDArray[np.int64], log_size: int) -> Words:
        """The powers w^e for the generator w of the domain of 2^log_size points."""
        log_domain = self.shape.log_domain
        # w is a power of the tallest domain's generator, whose tables of powers serve all domains.
        largest = (exponents << (log_domain - log_size)) & ((1 << log_domain) - 1)
        return powers_at(root_of_unity(log_domain), largest, log_domain)


def deep_codewords(
    shape: ProofShape, proof: StarkProof, gamma: Ext, zeta: Ext, anchor: tuple[Ext, Ext] | None, queries: Queries
) -> dict[int, Words]:
    """The DEEP codeword of each height at the queries, (q, 3), from the opened rows.

    A table adds gamma^a (row - row(zeta)) / (x - zeta) for the columns opened at zeta and those of the quotient, and
    the same at w zeta, with the exponents of `TableShape.weights`. `anchor` is (eta, delta), for the anchors' terms at
    eta. All weighted sums of a row are computed together, since splitting it into limbs costs as much as a sum.
    """
    powers_of_gamma = ext_powers(gamma, max(max(t.columns, t.widths[3]) for t in shape.tables))
    spread_of_gamma = spread(powers_of_gamma)
    anchors = anchor_weights(shape, anchor[1]) if anchor is not None else None
    heights, terms = shape.distinct_heights, []
    for i, (t, opened, values) in enumerate(zip(shape.tables, _rows_by_table(shape, proof), proof.values, strict=True)):
        at_zeta = np.empty((t.columns, 3), dtype=np.uint64)
        at_zeta[[*t.next_row, *t.others]] = powers_of_gamma[: t.columns]
        weights = spread(at_zeta)
        near, *anchored = dots(opened[:-1], [weights] if anchors is None else [weights, spread(anchors[i])])
        if len(t.others) < len(t.next_row):  # subtracting the others takes fewer columns
            after = sub(near, dot(columns_of(opened[:-1], t.others), weights[t.others]))
        else:
            after = dot(columns_of(opened[:-1], t.next_row), weights[list(t.next_row)])
        once = dot(opened[-1:], spread_of_gamma)
        (here,) = e_dots(values.here[:, None], weights)
        (later,) = e_dots(values.after[:, None], spread_of_gamma)
        (quotient,) = e_dots(values.quotient[:, None], spread_of_gamma)
        first, _, next_first, quotient_first = (r.start for r in t.weights)
        log_leaves = t.log_height + shape.key.params.log_blowup
        # The numerators of each point. An anchor's value counts once, with the first table of its height.
        sums = [(near, here, first, 0), (once, quotient, quotient_first, 0), (after, later, next_first, 1)]
        if anchored:
            place = heights.index(t.log_height)
            value = element(proof.anchors[place]) if shape.tables_by_height[t.log_height][0] == i else ZERO
            sums.append((anchored[0], value, shape.anchor_weight(t.log_height), 2))
        for found, value, exponent, point in sums:
            difference = sub(queries.of_each(found, log_leaves), _vector(value))
            terms.append((t.log_height, point, exponent, difference))

    scales = np.array([e_pow(gamma, exponent) for _, _, exponent, _ in terms], dtype=np.uint64)
    scaled = ext_mul(np.stack([difference for *_, difference in terms]), scales[:, None])
    points = [(zeta, next_point(zeta, h), *([] if anchor is None else [anchor[0]])) for h in heights]
    numerators = np.zeros((len(heights), len(points[0]), len(queries.indices), 3), dtype=np.uint64)
    for (height, point, *_), term in zip(terms, scaled, strict=True):
        sums_here = numerators[heights.index(height), point]
        sums_here[...] = add(sums_here, term)
    log_blowup = shape.key.params.log_blowup
    x = np.stack([queries.powers(queries.indices, h + log_blowup) for h in heights])
    x = embed(mul(x, np.uint64(GENERATOR)))
    distances = sub(x[:, None], np.array(points, dtype=np.uint64)[:, :, None])
    return dict(zip(heights, total(ext_mul(numerators, ext_inverse(distances)), axis=1), strict=True))


def columns_of(matrices: Sequence[Words], chosen: Sequence[int]) -> list[Words]:
    """Take the chosen columns, given in ascending order, of matrices (q, w) side by side."""
    places, out, begin = np.array(chosen, dtype=np.int64), [], 0
    for matrix in matrices:
        end = begin + matrix.shape[1]
        out.append(matrix[:, places[(begin <= places) & (places < end)] - begin])
        begin = end
    return out


def anchor_weights(shape: ProofShape, delta: Ext) -> list[Words]:
    """The anchor's weights for each table's columns, (columns, 3): powers of delta for main columns, else zero."""
    weights: list[Words] = [np.zeros((t.columns, 3), dtype=np.uint64) for t in shape.tables]
    for tables in shape.tables_by_height.values():
        rest = ext_powers(delta, sum(shape.tables[i].widths[1] for i in tables))
        for i in tables:
            fixed, main, _, _ = shape.tables[i].widths
            weights[i][fixed : fixed + main], rest = rest[:main], rest[main:]
    return weights


def folds_agree(
    shape: ProofShape, proof: StarkProof, codewords: dict[int, Words], betas: Sequence[Ext], queries: Queries
) -> bool:
    """Whether every layer holds the values that the previous one folds to, and the final polynomial the last ones."""
    log_blowup, count = shape.key.params.log_blowup, len(queries.indices)
    layers = [
        queries.of_each(opening.rows[0], step.log_reached + log_blowup).reshape(count, 1 << step.log_arity, 3)
        for step, opening in zip(shape.steps, proof.trees[len(shape.rounds) :], strict=True)
    ]
    folded = fold_layers(shape, layers, betas, queries)
    value = codewords[shape.distinct_heights[0]]
    for step, beta, layer, reached in zip(shape.steps, betas, layers, folded, strict=True):
        index = queries.within(step.log_height + log_blowup)
        if not np.array_equal(layer[np.arange(count), index >> (step.log_reached + log_blowup)], value):
            return False
        value = reached
        if step.mixes:
            power = _vector(e_pow(beta, 1 << step.log_arity))
            value = add(value, ext_mul(codewords[step.log_reached], power))
    # The final polynomial, at the points of the last domain.
    log_size = shape.log_final + log_blowup
    exponents = queries.within(log_size)[:, None] * np.arange(len(proof.final))
    return np.array_equal(dot([queries.powers(exponents, log_size)], spread(proof.final)), value)


def fold_layers(shape: ProofShape, layers: Sequence[Words], betas: Sequence[Ext], queries: Queries) -> list[Words]:
    """Fold each step's opened leaves (q, arity, 3) to (q, 3). Steps of equal arity are done together."""
    folded: dict[int, Words] = {}
    for log_arity in {step.log_arity for step in shape.steps}:
        alike = [i for i, step in enumerate(shape.steps) if step.log_arity == log_arity]
        first = []  # the inverse of the point of element 0
        for i in alike:
            log_rows = shape.steps[i].log_reached + shape.key.params.log_blowup
            first.append(queries.powers(-queries.within(log_rows), log_rows + log_arity))
        leaves = np.stack([layers[i] for i in alike])
        folded.update(zip(alike, fold_leaves(leaves, np.stack(first), [betas[i] for i in alike]), strict=True))
    return [folded[i] for i in range(len(layers))]


def fold_leaves(leaves: Words, first: Words, betas: Sequence[Ext]) -> Words:
    """Fold `leaves`, (s, q, arity, 3), by the challenges `betas` of s steps: (s, q, 3).

    `first`, (s, q), is the inverse of the point of a leaf's element 0; the point of element t is w_arity^t times that.
    """
    log_arity = leaves.shape[2].bit_length() - 1
    for level in range(log_arity, 0, -1):
        pairs = 1 << (level - 1)
        steps = powers(pow(root_of_unity(level), -1, P), pairs)
        a, b = leaves[:, :, :pairs], leaves[:, :, pairs:]
        odd = ext_scale(sub(a, b), mul(first[..., None], steps))
        leaves = add(add(a, b), ext_mul(odd, np.array(betas, dtype=np.uint64)[:, None, None]))
        betas, first = [e_mul(beta, beta) for beta in betas], mul(first, first)
    return mul(leaves[:, :, 0], np.uint64(pow(2, -log_arity, P)))  # the factors 1/2 of all levels


def _rows_by_table(shape: ProofShape, proof: StarkProof) -> list[list[Words]]:
    """The opened rows of each table, in the order of the rounds, so that the quotient's are last."""
    rows: list[list[Words]] = [[] for _ in shape.tables]
    for tables, opening in zip(shape.members.values(), proof.trees, strict=False):
        for table, opened in zip(tables, opening.rows, strict=True):
            rows[table].append(opened)
    return rows


def _vector(value: Ext) -> Words:
    return np.array(value, dtype=np.uint64)
