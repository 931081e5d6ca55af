"""Attacks that real systems fell to, each forged with all that a cheat can recompute, and refused for the right reason.

The list is that of the project's soundness notes; fields that are only changed, without recomputing, are in
test_mutations.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest

from distprove.errors import AirError, FormatError, InputError, InvalidProof, UsageError
from distprove.stark import prover, security
from distprove.stark.air import Air, Bus, Table
from distprove.stark.barrier import job_challenge
from distprove.stark.challenges import ProofTranscript
from distprove.stark.field import ONE, Ext, P, e_add, e_scale, e_sub, root_of_unity
from distprove.stark.merkle import TreeShape
from distprove.stark.params import Parameters, fri_schedule
from distprove.stark.program import Trace
from distprove.stark.programs import load_program
from distprove.stark.proof import StarkProof, TableValues
from distprove.stark.security import ANCHOR, GLOBAL_BUSES, job_security, statistics_of_job
from distprove.stark.shape import ProofShape
from distprove.stark.statement import Boundary, Statement
from distprove.stark.transcript import KeccakTranscript as Transcript
from distprove.stark.transcript import work_is_done
from distprove.stark.verifying_key import VerifyingKey
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import GENERATOR
from tests.support.air_examples import compile_air
from tests.support.cheats import (
    WEAK,
    Job,
    balanced_by_the_last,
    forged_logup,
    plus_one,
    prove_job,
    quotient_values_that_fit,
)
from tests.support.golden_jobs import Mixed
from tests.support.stark_programs import LIMIT, RANGE, USED, Fibonacci, Ring, WithoutInputs
from tests.support.stark_reference import opening_holds


@pytest.fixture(scope="module")
def fibonacci() -> Job:
    return prove_job(Fibonacci(5))


@pytest.fixture(scope="module")
def ring() -> Job:
    return prove_job(Ring(5), 3)


def test_honest_jobs_hold(fibonacci: Job, ring: Job) -> None:
    """Or every refusal below would mean nothing."""
    fibonacci.check()
    ring.check()


# -- the transcript ---------------------------------------------------------------------------------------------------

DRAWN = ("local", "global", "alpha", "zeta", "gamma", "fold", "seed", "queries")
ABSORBED = {  # what a proof has -> the first challenge that must depend on it
    "key": "local",
    "challenge": "local",
    "name": "local",
    "heights": "local",
    "public": "local",
    "main": "local",
    "anchors": "local",
    "aux": "alpha",
    "terminals": "alpha",
    "quotient": "zeta",
    "values": "gamma",
    "next values": "gamma",
    "quotient values": "gamma",
    "layer": "fold",
    "final": "seed",
    "nonce": "queries",
}


def challenges(job: Job, changed: str | None) -> dict[str, Any]:
    """Every challenge of the first partition's proof, one of the absorbed things being another."""
    proof, public, name = job.proofs[0], list(job.publics[0]), job.names[0]
    heights, challenge, key = list(proof.log_heights), proof.challenge, job.key

    def root(what: str, value: bytes) -> bytes:
        return bytes([value[0] ^ 1]) + value[1:] if what == changed else value

    if changed == "key":
        key = replace(key, program=key.program + "x")
    if changed == "heights":
        heights[0] -= 1
    if changed == "public":
        public[0] += 1
    terminals, values, final = proof.terminals.copy(), [replace_values(v) for v in proof.values], proof.final.copy()
    anchors = proof.anchors.copy()
    if changed == "anchors":
        plus_one(anchors, (0, 0))
    if changed == "terminals":
        plus_one(terminals, (0, 0))
    if changed == "values":
        plus_one(values[0].here, (0, 0))
    if changed == "next values":
        plus_one(values[-1].after, (-1, 2))
    if changed == "quotient values":
        plus_one(values[-1].quotient, (-1, 2))
    if changed == "final":
        plus_one(final, (-1, 2))
    transcript = ProofTranscript(
        ProofShape(key, tuple(heights)), root("challenge", challenge), name + "x" * (changed == "name"), public
    )
    main, aux, quotient = proof.roots
    buses = transcript.bus_challenges(root("main", main), anchors)
    return {
        "local": buses.local,
        "global": buses.global_,
        "alpha": transcript.constraint_challenge(root("aux", aux), terminals),
        "zeta": transcript.out_of_domain_point(root("quotient", quotient)),
        "gamma": transcript.batching_challenge(values),
        "fold": [transcript.folding_challenge(root("layer", layer)) for layer in proof.fri_roots],
        "seed": transcript.grinding_seed(final),
        "queries": transcript.queries(proof.nonce + (changed == "nonce")),
    }


def replace_values(values: Any) -> Any:
    return replace(values, here=values.here.copy(), after=values.after.copy(), quotient=values.quotient.copy())


@pytest.mark.parametrize("what", ABSORBED)
def test_every_challenge_depends_on_all_that_came_before_it(ring: Job, what: str) -> None:
    honest, other = challenges(ring, None), challenges(ring, what)
    first = DRAWN.index(ABSORBED[what])
    for name in DRAWN[:first]:
        assert other[name] == honest[name], name
    for name in DRAWN[first:]:
        # The global pair is the job's: of this partition's own parts, the job's challenge binds them (see below).
        if name != "global" or what == "challenge":
            assert other[name] != honest[name], name
    assert other["global"] == honest["global"] or what == "challenge"


@pytest.mark.parametrize("what", ["name", "heights", "public", "root", "anchors", "key", "count"])
def test_the_jobs_challenge_depends_on_every_commitment(ring: Job, what: str) -> None:
    commitments = ring.commitments
    last = commitments[-1]
    others = {
        "name": replace(last, name="other"),
        "heights": replace(last, log_heights=(last.log_heights[0] - 1, *last.log_heights[1:])),
        "public": replace(last, public=(*last.public[:-1], last.public[-1] + 1)),
        "root": replace(last, main_root=bytes(32)),
        "anchors": replace(last, anchors=bytes(len(last.anchors))),
    }
    key = bytes(32) if what == "key" else ring.key.digest
    changed = [*commitments[:-1], others[what]] if what in others else commitments
    if what == "count":
        changed = commitments[:-1]
    assert job_challenge(key, changed) != job_challenge(ring.key.digest, commitments)


def test_a_challenge_drawn_twice_is_not_the_same_and_purposes_are_apart() -> None:
    transcript = Transcript(b"a")
    assert transcript.extension(b"z") != transcript.extension(b"z")
    assert Transcript(b"a").extension(b"z") != Transcript(b"b").extension(b"z")


@pytest.mark.parametrize("what", ["public", "name"])
def test_a_public_value_or_name_put_beside_an_honest_proof(fibonacci: Job, what: str) -> None:
    if what == "name":
        job = replace(fibonacci, names=["another"])
    else:
        first, second, last = fibonacci.publics[0]
        job = replace(fibonacci, publics=[(first, second, last + 1)])
    with pytest.raises(InvalidProof, match="constraints"):
        job.check_partitions()


# -- the key ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["air", "parameters", "statement", "preprocessed", "arguments", "at_most"])
def test_a_proof_under_another_key_of_the_same_shape(ring: Job, what: str) -> None:
    record = ring.key.to_record()
    if what == "air":  # 16 instead of 1 somewhere in the constraints
        constants = record["tables"][0]["constraints"]["constants"]
        constants[constants.index(1)] = 16
    elif what == "parameters":
        record["params"]["security_bits"] -= 1
    elif what == "statement":
        record["statement"]["same"] = []
    elif what == "preprocessed":
        record["preprocessed_root"] = bytes(32)
    elif what == "arguments":
        record["arguments"]["log_rows"] = 9
    else:
        next(use for use in record["tables"][0]["uses"] if use[5])[5] += 1
    other = VerifyingKey.from_record(record)
    assert other.digest != ring.key.digest
    with pytest.raises(InvalidProof):
        replace(ring, key=other).check_partitions()
    with pytest.raises(InvalidProof, match="part of this job"):
        replace(ring, key=other).check_job()


def test_weaker_parameters_than_the_keys_do_not_pass_for_them() -> None:
    """Fewer queries, less grinding: the proof has another shape, or other challenges."""
    strong = prove_job(Fibonacci(5))
    shapes: list[dict[str, int]] = [{"log_final": 2}, {"log_arity": 1}]
    challenges: list[dict[str, int]] = [{"queries": 11}, {"log_blowup": 2}, {"grinding_bits": 0}]
    for error, cases in ((FormatError, shapes), (InvalidProof, challenges)):
        for changes in cases:
            weak = prove_job(Fibonacci(5), params=replace(WEAK, **changes))
            with pytest.raises(error):
                replace(weak, key=strong.key).check_partitions()


def test_fewer_bits_of_security_than_the_key_asks_for() -> None:
    job = prove_job(Fibonacci(5), params=replace(WEAK, security_bits=100))
    with pytest.raises(InvalidProof, match="bits of security"):
        job.check_partitions()


def test_so_many_partitions_that_the_buses_lose_their_bits(ring: Job) -> None:
    """Every partition by itself has the bits that the key asks for; the sum over all has not."""
    heights = ring.proofs[0].log_heights
    one, three = (statistics_of_job(ring.key, [heights] * n)[0].shared.bits for n in (1, 3))
    target = int(one)
    assert three < target <= one
    # Rounds that do not grow with the partitions are set aside: at so few rows and queries they are far weaker.
    key = replace(ring.key, params=replace(ring.key.params, security_bits=target))
    challenge = job_challenge(key.digest, ring.commitments)
    proofs = [replace(p, challenge=challenge) for p in ring.proofs]
    growing = (ANCHOR, GLOBAL_BUSES)
    every = security.rounds

    def rounds(*args: Any) -> Any:
        return [r if r.name in growing else replace(r, bits=1000.0) for r in every(*args)]

    uncached = security.best_rounds.__wrapped__
    with mock.patch.object(security, "rounds", rounds), mock.patch.object(security, "best_rounds", uncached):
        assert job_security(key, [heights]).bits == one
        with pytest.raises(InvalidProof, match=r"bits of security over all partitions \(LogUp, global buses\)"):
            replace(ring, key=key, proofs=proofs).check_job()


# -- constraints, and the low degree behind them ----------------------------------------------------------------------


def broken(index: int, trace: Trace) -> Trace:
    plus_one(trace.main[0], (1, 4))
    return trace


def test_a_trace_that_breaks_a_constraint() -> None:
    with pytest.raises(InvalidProof, match="constraints of table FibonacciAir"):
        prove_job(Fibonacci(5), tamper=broken).check()


@pytest.mark.parametrize("log_rows", [1, 5])
def test_values_at_zeta_that_fit_the_equation_but_no_polynomial(log_rows: int) -> None:
    """The equation at zeta then holds, and FRI must find that the DEEP codeword has no low degree."""

    def wrong_end(index: int, trace: Trace) -> Trace:
        first, second, last = trace.public
        return Trace(trace.main, (first, second, (last + 1) % P))

    with quotient_values_that_fit():
        job = prove_job(Fibonacci(log_rows), tamper=wrong_end)
    with pytest.raises(InvalidProof, match="folding of FRI"):
        job.check()


def test_values_of_the_trace_at_zeta_that_are_not_its_own() -> None:
    """One column's value is forged and the quotient's made to fit it."""
    honest = prover.out_of_domain_values

    def values(*args: Any) -> Any:
        given = honest(*args)
        plus_one(given[0].here, (0, 0))
        return given

    with mock.patch.object(prover, "out_of_domain_values", values):
        with pytest.raises(InvalidProof, match="constraints of table FibonacciAir"):
            prove_job(Fibonacci(5)).check()
        with quotient_values_that_fit(), pytest.raises(InvalidProof, match="folding of FRI"):
            prove_job(Fibonacci(5)).check()


# -- FRI --------------------------------------------------------------------------------------------------------------


def zero_fold(kernels: Any) -> None:
    """Layers that have low degree, but are not what the layer before folds to."""
    honest = kernels.fold

    def fold(codeword: Any, log_arity: int, beta: Ext, *, add: Any = None) -> Any:
        return np.zeros_like(honest(codeword, log_arity, beta, add=add))

    kernels.fold = fold


def other_beta(kernels: Any) -> None:
    honest = kernels.fold
    kernels.fold = lambda codeword, log_arity, beta, *, add=None: honest(codeword, log_arity, e_add(beta, ONE), add=add)


def without_short_tables(kernels: Any) -> None:
    honest = kernels.fold
    kernels.fold = lambda codeword, log_arity, beta, *, add=None: honest(codeword, log_arity, beta)


def fold_by_two(kernels: Any) -> None:
    """By 2 with beta, then by 2 with beta again, instead of with beta squared."""
    honest = kernels.fold

    def fold(codeword: Any, log_arity: int, beta: Ext, *, add: Any = None) -> Any:
        for step in range(log_arity):
            codeword = honest(codeword, 1, beta, add=add if step == log_arity - 1 else None)
        return codeword

    kernels.fold = fold


@pytest.mark.parametrize("cheat", [zero_fold, other_beta, without_short_tables, fold_by_two])
def test_fri_folding_that_is_wrong(cheat: Any) -> None:
    job = prove_job(Ring(5), kernels=cheat)
    with pytest.raises(InvalidProof, match="folding of FRI"):
        job.check_partitions()


@pytest.mark.parametrize("log_final", [0, 2, 5])
def test_fri_with_too_few_or_too_many_rounds(fibonacci: Job, log_final: int) -> None:
    """The cheat stops elsewhere than the key says, with a last polynomial of another degree."""

    def schedule(params: Parameters, heights: Sequence[int]) -> Any:
        return fri_schedule(replace(params, log_final=log_final), heights)

    with mock.patch("distprove.stark.shape.fri_schedule", schedule):
        job = prove_job(Fibonacci(5))
    assert job.key.digest == fibonacci.key.digest
    with pytest.raises(FormatError):
        job.check_partitions()


def test_a_last_polynomial_of_higher_degree(fibonacci: Job) -> None:
    record = fibonacci.proofs[0].to_record()
    with pytest.raises(FormatError, match="field elements"):
        StarkProof.from_record({**record, "final": record["final"] + bytes(24)}, fibonacci.key)


def test_a_last_codeword_of_higher_degree_cut_to_the_right_length() -> None:
    """Honest folds of a word that is no codeword: the coefficients left out must be missed."""

    def rough(kernels: Any) -> None:
        honest = kernels.deep

        def deep(points: Any, **how: Any) -> Any:
            word = honest(points, **how)
            word[0, 1] = np.arange(word.shape[2], dtype=np.uint64)
            return word

        kernels.deep = deep

    with pytest.raises(InvalidProof, match="folding of FRI"):
        prove_job(Fibonacci(5), kernels=rough).check()


def test_zero_queries_are_refused(fibonacci: Job) -> None:
    with pytest.raises(UsageError, match="queries"):
        replace(WEAK, queries=0)
    record = fibonacci.key.to_record()
    record["params"]["queries"] = 0
    with pytest.raises(FormatError, match="queries"):
        VerifyingKey.from_record(record)


def test_proof_of_work_that_is_not_done() -> None:
    def lazy(kernels: Any) -> None:
        kernels.grind = lambda seed, bits, **_: next(n for n in range(100) if not work_is_done(seed, n, bits))

    with pytest.raises(InvalidProof, match="proof of work"):
        prove_job(Fibonacci(5), kernels=lazy).check()


def test_queries_are_unbiased(fibonacci: Job) -> None:
    """Low bits of 64-bit words, and a power of two of places: each as likely. All are reached, none beyond."""
    shape = ProofShape(fibonacci.key, fibonacci.proofs[0].log_heights)
    drawn: list[int] = []
    for i in range(200):
        transcript = ProofTranscript(shape, i.to_bytes(32, "big"), "x", (1, 2, 3))
        drawn += transcript.queries(0)
    counts = np.bincount(drawn, minlength=64)
    assert len(counts) == 1 << shape.log_domain == 64
    expected = len(drawn) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120  # chi squared of 63 degrees: above with chance 2e-5


# -- the out-of-domain point ------------------------------------------------------------------------------------------


def test_zeta_in_a_domain_is_drawn_again(ring: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ProofShape(ring.key, ring.proofs[0].log_heights)
    good = (5, 6, 7)
    inside = []
    for height in shape.distinct_heights:
        w, v = root_of_unity(height), root_of_unity(height + 1)
        inside += [ONE, (pow(w, 3, P), 0, 0), (GENERATOR, 0, 0), (GENERATOR * pow(v, 5, P) % P, 0, 0)]
    drawn = iter([*inside, good])
    monkeypatch.setattr(Transcript, "extension", lambda self, label: next(drawn))
    transcript = ProofTranscript(shape, bytes(32), "x", ring.publics[0])
    assert transcript.out_of_domain_point(bytes(32)) == good
    assert next(drawn, None) is None


# -- encodings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["terminals", "values", "final", "rows"])
@pytest.mark.parametrize("word", [P, 2**64 - 1])
def test_an_element_that_is_not_canonical(ring: Job, field: str, word: int) -> None:
    record = ring.proofs[0].to_record()

    def spoil(data: bytes) -> bytes:
        return data[:-8] + word.to_bytes(8, "little")

    if field == "rows":
        record["trees"][0]["rows"][0] = spoil(record["trees"][0]["rows"][0])
    elif field == "values":
        record["values"][0] = spoil(record["values"][0])
    else:
        record[field] = spoil(record[field])
    with pytest.raises(FormatError, match="not below"):
        StarkProof.from_record(record, ring.key)


def test_a_public_value_that_is_not_canonical(fibonacci: Job) -> None:
    first, second, last = fibonacci.publics[0]
    for public in ((first + P, second, last), (-1, second, last), (first, second), (first, second, last, 0)):
        job = replace(fibonacci, publics=[public])
        with pytest.raises(InvalidProof, match="canonical public values"):
            job.check_partitions()
        with pytest.raises(InvalidProof):
            job.check_job()


# -- Merkle trees -----------------------------------------------------------------------------------------------------


def test_a_node_does_not_pass_for_a_leaf() -> None:
    """The two children of a node, read as eight elements, are not a row of the level above."""
    with CpuBackend(threads=1) as backend:
        kernels = backend.goldilocks
        # A tree is found whose digests are canonical words, so that only the hash itself can tell.
        for seed in range(64):
            rows = np.random.default_rng(seed).integers(0, P, (3, 2, 2), dtype=np.uint64)
            tree = kernels.commit([rows])
            # The path of 0 has node 2 of the lowest level, that of 2 its sibling 0; the level above is at the end.
            path = kernels.open([tree], [0])[0].path
            siblings = np.stack([kernels.open([tree], [2])[0].path[0], path[0]])
            children = siblings.reshape(-1).view("<u8").astype(np.uint64).reshape(1, 8)
            if (children < P).all():
                break
        (opened,) = kernels.open([tree], [0])
    forged = TreeShape(((1, 8),))
    assert not opening_holds(forged, tree.root, [0], [children], opened.path[1:])
    assert opening_holds(TreeShape(((2, 3),)), tree.root, [0], opened.rows, opened.path)


def test_no_opened_row_of_any_tree_is_unauthenticated(ring: Job) -> None:
    """Each row of each matrix of each tree, FRI's too."""
    proof, shape = ring.proofs[0], ProofShape(ring.key, ring.proofs[0].log_heights)
    transcript_roots = dict(zip(("main", "aux", "quotient"), proof.roots, strict=True))
    roots = [transcript_roots.get(r, ring.key.preprocessed_root) for r in shape.rounds] + list(proof.fri_roots)
    indices = challenges(ring, None)["queries"]
    for tree_shape, root, tree in zip([*shape.rounds.values(), *shape.fri_trees], roots, proof.trees, strict=True):
        assert opening_holds(tree_shape, root, indices, tree.rows, tree.path)
        for matrix, rows in enumerate(tree.rows):
            for place in range(len(rows)):
                changed = [r.copy() for r in tree.rows]
                plus_one(changed[matrix], (place, rows.shape[1] - 1))
                assert not opening_holds(tree_shape, root, indices, changed, tree.path)


def test_a_short_table_of_another_height(ring: Job) -> None:
    """Its rows at other places, its leaves on another level, its height in the proof: all refused."""
    shapes = TreeShape(((4, 2), (2, 3)))
    rng = np.random.default_rng(1)
    with CpuBackend(threads=1) as backend:
        matrices = [rng.integers(0, P, (w, 2, 1 << (log - 1)), dtype=np.uint64) for log, w in shapes.matrices]
        kernels = backend.goldilocks
        tree = kernels.commit(matrices)
        honest, elsewhere = (kernels.open([tree], [leaf])[0] for leaf in (5, 6))
    assert opening_holds(shapes, tree.root, [5], honest.rows, honest.path)
    assert not opening_holds(shapes, tree.root, [5], [honest.rows[0], elsewhere.rows[1]], honest.path)
    for other in (1, 3, 4):
        assert not opening_holds(TreeShape(((4, 2), (other, 3))), tree.root, [5], honest.rows, honest.path)
    # In a whole proof: the height is absorbed, fixes every length, and may not be chosen for preprocessed columns.
    record = ring.proofs[0].to_record()
    tall, fixed = record["heights"]
    for heights in ([tall - 1, fixed], [tall + 1, fixed], [tall, fixed - 1], [tall, fixed + 1], [tall], [29, fixed]):
        with pytest.raises(FormatError):
            StarkProof.from_record({**record, "heights": bytes(heights)}, ring.key)


def test_a_table_of_one_row_has_itself_as_its_next_row() -> None:
    """Both of its points are zeta: a cheat opens its column there at two values, and fits the quotient to them."""
    honest = prover.out_of_domain_values

    def values(*args: Any) -> tuple[TableValues, ...]:
        given = honest(*args)
        assert np.array_equal(given[1].here, given[1].after)
        plus_one(given[1].after, (0, 0))
        return given

    params = replace(WEAK, log_blowup=2)
    prove_job(Mixed(), params=params).check()
    with mock.patch.object(prover, "out_of_domain_values", values):
        with pytest.raises(InvalidProof, match="constraints of table OneRowAir"):
            prove_job(Mixed(), params=params).check()
        with quotient_values_that_fit(), pytest.raises(InvalidProof, match="folding of FRI"):
            prove_job(Mixed(), params=params).check()


@pytest.mark.parametrize("place", [0, 1])
def test_an_anchor_of_each_height_is_that_of_the_columns(place: int) -> None:
    """A cheat names another value before the challenge of the global buses is drawn, and proves with it."""
    honest, made = prover.make_anchor, []

    def anchor(*args: Any) -> Any:
        made.append(honest(*args))
        plus_one(made[-1].values, (place, 0))
        return made[-1]

    with mock.patch.object(prover, "make_anchor", anchor):
        job = prove_job(Ring(5), 2)
    assert all(len(each.values) == 2 for each in made)
    with pytest.raises(InvalidProof, match="folding of FRI"):
        job.check()


# -- LogUp ------------------------------------------------------------------------------------------------------------


def unbalanced(index: int, trace: Trace) -> Trace:
    """The range table provides a tuple once more than it is used."""
    plus_one(trace.main[1], (0, 7))
    return trace


def test_a_bus_that_does_not_balance() -> None:
    with pytest.raises(InvalidProof, match="local buses do not balance"):
        prove_job(Ring(5), tamper=unbalanced).check()


def test_a_terminal_that_is_only_claimed() -> None:
    """The cheat's terminals sum to zero; its columns sum to something else."""
    with balanced_by_the_last(scope=0):
        job = prove_job(Ring(5), tamper=unbalanced)
    with pytest.raises(InvalidProof, match="constraints of table TableAir"):
        job.check()


@pytest.mark.parametrize("row", [0, 1, 15])
def test_a_running_sum_that_jumps(row: int) -> None:
    """With the claimed terminal, and a column s that takes its share in every row but one: the first, one within, or
    the last, where it meets its start again. There is no condition on a first row that could be a tautology."""

    def jump(table: int, aux: np.ndarray, terminals: list[Ext | None]) -> None:
        if table != 1 or terminals[0] is None:
            return
        honest, claimed = terminals[0], e_add(terminals[0], ONE)
        n = aux.shape[1]
        less = e_scale(e_sub(claimed, honest), pow(n, -1, P))
        s = aux[-3:]
        for j in range(n):
            after = j * less[0] - (1 if j > row else 0)
            s[0, j] = np.uint64((int(s[0, j]) - after) % P)
        terminals[0] = claimed

    with forged_logup(jump), pytest.raises(InvalidProof, match="local buses do not balance"):
        prove_job(Ring(5)).check()
    with forged_logup(jump), balanced_claims(), pytest.raises(InvalidProof, match="constraints of table"):
        prove_job(Ring(5)).check()


def balanced_claims() -> Any:
    """Let the verifier's own sum pass, so that only the constraints are left to refuse."""
    return mock.patch("distprove.stark.verifier.logup.balanced", return_value=True)


def test_every_column_of_logup_is_constrained() -> None:
    """Each auxiliary base column, spoiled in one row: no column is free to take any value."""
    widths = [t.aux_width for t in prove_job(Ring(4)).key.tables]
    for table, width in enumerate(widths):
        for column in range(width):

            def spoil(i: int, aux: np.ndarray, terminals: Any, table: int = table, column: int = column) -> None:
                if i == table:
                    plus_one(aux, (column, 3))

            with forged_logup(spoil), pytest.raises(InvalidProof, match="constraints of table"):
                prove_job(Ring(4)).check()


def test_a_multiplicity_on_a_padding_row() -> None:
    """A padding row that counts: seen on the ring, however the range table is made to fit."""

    def padding(index: int, trace: Trace) -> Trace:
        trace.main[0][2, USED + 1] = 1
        trace.main[1][0, 0] += np.uint64(2)
        return trace

    job = prove_job(Ring(5), 2, tamper=padding)
    job.check_partitions()
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        job.check()


def test_a_multiplicity_beyond_its_bound() -> None:
    def twice(index: int, trace: Trace) -> Trace:
        trace.main[0][2, 0] = 2
        trace.main[1][0, 3] += np.uint64(1)
        trace.main[1][0, 0] += np.uint64(1)
        return trace

    with pytest.raises(InvalidProof, match="constraints of table SquaresAir"):
        prove_job(Ring(5), tamper=twice).check_partitions()


def test_tuples_of_a_bus_have_one_width(ring: Job) -> None:
    class Narrow(Air):
        main: ClassVar = {"x": 1}

        def define(self, t: Table) -> None:
            t.send(RANGE, (t.this.x,))

    with pytest.raises(AirError, match="1 value for tuples of 2"):
        compile_air(Narrow(), {}, {"range": 1})
    record = ring.key.to_record()
    record["tables"][1]["uses"][0][1] = 1
    with pytest.raises(FormatError):
        VerifyingKey.from_record(record)


ONE_BUS, OTHER_BUS, FAR = Bus("one", 1), Bus("other", 1), Bus("far", 1, "global")


class Sender(Air):
    main: ClassVar = {"x": 1}

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    def define(self, t: Table) -> None:
        t.send(self.bus, (t.this.x,))


class Receiver(Air):
    main: ClassVar = {"x": 1, "times": 1}

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    def define(self, t: Table) -> None:
        t.receive(self.bus, (t.this.x,), times=t.this.times)


class Pair(WithoutInputs):
    """What one table sends on a bus another one receives, on the same bus or not."""

    name = "test-pair"

    def __init__(self, tables: Sequence[Air], boundary: tuple[Boundary, ...] = ()) -> None:
        self._tables, self._boundary = tables, boundary

    @property
    def tables(self) -> Sequence[Air]:
        return self._tables

    @property
    def buses(self) -> Sequence[Bus]:
        return (ONE_BUS, OTHER_BUS, FAR)

    @property
    def statement(self) -> Statement:
        return Statement(boundary=self._boundary)

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        x = np.arange(4, dtype=np.uint64)[None]
        tables = {"Sender": x, "Receiver": np.concatenate((x, np.ones_like(x)))}
        return Trace([tables[t.name] for t in self.tables], ())


def test_a_tuple_of_one_bus_does_not_count_on_another() -> None:
    """The bus's number is part of the fingerprint: the same tuples, sent on one and received on another."""
    prove_job(Pair([Sender(ONE_BUS), Receiver(ONE_BUS)])).check()
    with pytest.raises(InvalidProof, match="local buses do not balance"):
        prove_job(Pair([Sender(ONE_BUS), Receiver(OTHER_BUS)])).check()
    with pytest.raises(InvalidProof, match="buses do not balance"):
        prove_job(Pair([Sender(ONE_BUS), Receiver(FAR)])).check()


def test_a_bus_with_one_side_only() -> None:
    """Also where a partition, or a table, has no such bus: nothing is left unsummed."""
    with pytest.raises(InvalidProof, match="local buses do not balance"):
        prove_job(Pair([Sender(ONE_BUS)])).check()
    job = prove_job(Pair([Sender(FAR)]), 2)
    job.check_partitions()
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        job.check()


def test_a_boundary_on_a_bus_that_no_table_uses() -> None:
    job = prove_job(Pair([Sender(ONE_BUS), Receiver(ONE_BUS)], (Boundary("far", (1,), 1),)))
    with pytest.raises(InvalidProof, match="no table has"):
        job.check()
    with pytest.raises(UsageError, match="boundary"):
        prove_job(Pair([Sender(ONE_BUS), Receiver(ONE_BUS)], (Boundary("one", (1,), 1),)))


def test_multiplicities_that_could_wrap_around_the_field() -> None:
    class Free(Receiver):
        def define(self, t: Table) -> None:
            t.send(self.bus, (t.this.x,), times=t.this.times, at_most=None)

    program = Pair([Free(ONE_BUS), Receiver(ONE_BUS)])
    wrapping = np.array([[0, 1, 2, 3], [1, 1, 1, 1]], dtype=np.uint64)
    program.trace = lambda inputs, backend: Trace([wrapping, wrapping], ())
    with pytest.raises(InputError, match="wrap around"):
        prove_job(program)
    with mock.patch.object(prover.logup, "check_multiplicities"):
        job = prove_job(program)
    with pytest.raises(InvalidProof, match="wrap around"):
        job.check_partitions()


# -- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1], [1, 2], [0, 2, 1], [2, 1, 0], [0, 1, 2, 2], [0], []], ids=str)
def test_partitions_dropped_moved_or_doubled(ring: Job, order: list[int]) -> None:
    with pytest.raises(InvalidProof, match=r"part of this job|same name|at least one"):
        ring.choose(order).check_job()


def test_a_partition_counted_twice_under_another_name(ring: Job) -> None:
    doubled = ring.choose([0, 1, 2, 2])
    with pytest.raises(InvalidProof, match="part of this job"):
        replace(doubled, names=[*ring.names, "again"]).check_job()
    with pytest.raises(InvalidProof, match="number of partitions"):
        prove_job(Ring(5), 3, order=[0, 1, 2, 2], rename=lambda i, name: f"{name}-{i}").check()


@pytest.mark.parametrize(
    ("order", "message"),
    [([0, 1], "number of partitions"), ([0, 2, 1], "its position"), ([1, 1, 2], "its position")],
    ids=str,
)
def test_a_job_proven_anew_with_other_partitions(order: list[int], message: str) -> None:
    """All is recomputed: each proof holds and starts from the right challenge, but the statement does not hold."""
    job = prove_job(Ring(5), 3, order=order, rename=lambda i, name: f"{name}-{i}")
    job.check_partitions()
    with pytest.raises(InvalidProof, match=message):
        job.check()


def test_a_chain_cut_in_the_middle_or_out_of_order() -> None:
    program = load_program("fibonacci", {"rows": 16})
    prove_job(program, 3).check()
    for order in ([0, 2], [1, 0, 2]):
        job = prove_job(program, 3, order=order, rename=lambda i, name: f"{name}-{i}")
        job.check_partitions()
        with pytest.raises(InvalidProof, match="is not end of the one before"):
            job.check()


def test_a_chain_cut_short_states_another_end() -> None:
    """What is left is a true statement about fewer steps, and its public values say so."""
    program = load_program("fibonacci", {"rows": 16})
    whole, short = prove_job(program, 3), prove_job(program, 3, order=[0, 1])
    short.check()
    assert short.publics[-1] != whole.publics[-1]
    with pytest.raises(InvalidProof, match="constraints"):
        replace(short, publics=[short.publics[0], (*short.publics[1][:2], *whole.publics[2][2:])]).check()


def test_a_ring_that_leaves_a_partition_out_and_lies_about_the_count() -> None:
    """The count is right for what is there, but what partition 1 sends nobody receives."""

    def lie(index: int, trace: Trace) -> Trace:
        own, _, total = trace.public
        return Trace(trace.main, (own, 2, total))

    prove_job(Ring(5), 3, order=[0, 1], tamper=lie).check()  # this is simply the ring of two

    def relabel(index: int, trace: Trace) -> Trace:
        _, _, total = trace.public
        return Trace(trace.main, (index, 2, total + index))

    with pytest.raises(InvalidProof, match="total of partition 1 differs"):
        prove_job(Ring(5), 3, order=[0, 2], tamper=relabel, rename=lambda i, name: f"{name}-{i}").check()


def test_a_proof_of_one_job_in_another(ring: Job) -> None:
    """The same partition, proven in a job of two: its own proof holds, the job's challenge is another."""
    other = prove_job(Ring(5), 3, order=[0, 1])
    job = replace(ring, proofs=[other.proofs[0], *ring.proofs[1:]])
    job.check_partitions()
    with pytest.raises(InvalidProof, match="part-0 was not proven as a part of this job"):
        job.check()


def test_a_challenge_that_the_cheat_chose(ring: Job) -> None:
    """Each proof holds under it by itself; the barrier's digest does not."""
    with mock.patch("tests.support.cheats.job_challenge", return_value=bytes(32)):
        job = prove_job(Ring(5), 2)
    job.check_partitions()
    with pytest.raises(InvalidProof, match="part of this job"):
        job.check()


def test_a_retried_partition_with_another_trace(ring: Job) -> None:
    """Committed again after the barrier to other columns: its root is not the one that the challenge binds."""
    with mock.patch("tests.support.cheats.job_challenge", return_value=ring.proofs[0].challenge):
        again = prove_job(Ring(5), 3, order=[0], tamper=_other_padding)
    job = replace(ring, proofs=[*again.proofs, *ring.proofs[1:]])
    job.check_partitions()
    assert again.proofs[0].roots[0] != ring.proofs[0].roots[0]
    with pytest.raises(InvalidProof, match="part of this job"):
        job.check()


def _other_padding(index: int, trace: Trace) -> Trace:
    trace.main[0][0, USED + 1] = LIMIT + 1
    return trace
