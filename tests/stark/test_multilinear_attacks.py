"""Attacks on the multilinear engine: cheating provers, one step at a time, and the order of the transcript."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.stark.arithmetic import NUMBERS
from distprove.stark.example import cut, read_inputs
from distprove.stark.field import P, e_add
from distprove.stark.multilinear import commitment, prover
from distprove.stark.multilinear.challenges import anchor_challenges
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import Committed, commit
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.row_prover import RowProof
from distprove.stark.multilinear.stacking import Position, Stack
from distprove.stark.program import Program, Trace
from distprove.stark.programs import load_program
from distprove.stark.transcript import KeccakTranscript as Transcript
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.cpu.goldilocks.multilinear import CpuMultilinear
from kernels.interface.multilinear_rows import RowRounds
from kernels.maths.goldilocks_runs import coset_shift
from tests.support.multilinear_jobs import MultilinearJob, prove_committed, prove_program
from tests.support.stark_programs import USED, Ring, Sparse

SMALL = Parameters(1, 2, (6,) * 8, 0, 0, log_final=1)


def forged(patch: Any, program: str | Program = "fibonacci", partitions: int = 1, params: Parameters = SMALL) -> None:
    """Check that a job that is proven under a patch is refused."""
    arguments: dict[str, int | str] = {"rows": 32} if program == "fibonacci" else {}
    with patch:
        job = prove_program(program, arguments, partitions=partitions, params=params)
    with pytest.raises(InvalidProof):
        job.check()


def spoiled(program: Program, table: int, column: int, row: int | range) -> Program:
    """The program with one more in a cell of its trace, or in some of a column."""
    honest = program.trace

    def trace(inputs: Mapping[str, Any], backend: Any) -> Trace:
        made = honest(inputs, backend)
        columns = made.main[table]
        assert columns is not None
        changed = backend.to_host(columns).copy()
        changed[column, row] = (changed[column, row] + np.uint64(1)) % np.uint64(P)
        return Trace([*made.main[:table], backend.to_device(changed), *made.main[table + 1 :]], made.public)

    program.trace = trace  # type: ignore[method-assign]
    return program


# -- traces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 1, 15, 16, 30, 31])
@pytest.mark.parametrize("column", [0, 1])
def test_a_trace_that_breaks_a_constraint(column: int, row: int) -> None:
    job = prove_program(spoiled(load_program("fibonacci", {"rows": 32}), 0, column, row), params=SMALL)
    with pytest.raises(InvalidProof, match="rules do not hold"):
        job.check()


def test_a_local_bus_that_does_not_balance() -> None:
    job = prove_program(spoiled(Ring(), 1, 0, 4), partitions=2, params=SMALL)
    with pytest.raises(InvalidProof, match="a layer of the buses' fractions"):
        job.check_partition(0)


def test_a_global_bus_that_does_not_balance() -> None:
    """A value that goes around the ring is another one in one partition: its own table and local bus hold."""

    class Other(Ring):
        def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
            made = super().trace(inputs, backend)
            own = int(backend.to_host(inputs["facts"])[0])
            if own != 1:
                return made
            squares, times = (backend.to_host(m).copy() for m in made.main if m is not None)
            squares[0][squares[0] == 3], squares[1][squares[1] == 9] = 2, 4
            times[0, 2], times[0, 3] = times[0, 3], 0
            return Trace([backend.to_device(squares), backend.to_device(times)], made.public)

    job = prove_program(Other(), partitions=3, params=SMALL)
    for number in range(3):
        job.check_partition(number)
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        job.check_job()


@pytest.mark.parametrize(
    ("log_rows", "tree", "match"),
    [
        (log_rows, *kind)
        for log_rows in (3, 7)
        for kind in (("false", "does not match its commitment"), ("honest", "final polynomial"))
    ],
)
def test_a_preprocessed_table_that_is_not_the_keys(log_rows: int, tree: str, match: str) -> None:
    """A table says that 3^2 is 10, and all else follows from it. It is of the main stack's height, or far below; its
    tree is its own, or the key's, whose leaves are not its codeword."""

    class False10(Ring):
        def preprocessed(self) -> Mapping[str, np.ndarray]:
            made = super().preprocessed()["TableAir"].copy()
            made[1, 3] = 10
            return {"TableAir": made}

    params = replace(SMALL, log_final=2)
    with CpuBackend() as backend:
        honest = make_key(Ring(log_rows), params, backend)
        false = make_key(spoiled(False10(log_rows), 0, 1, range(USED)), params, backend)
        assert honest.fixed is not None
        assert false.fixed is not None
        taken = false.fixed if tree == "false" else replace(false.fixed, tree=honest.fixed.tree)
        pk = replace(false, key=honest.key, fixed=taken)
        (made,) = cut(false.program, 1).slices
        committed = commit(pk, made.name, read_inputs(false.program, made.source), Steps())
        job = prove_committed(pk, [committed])
        assert (committed.stacked.stack.log_height > false.fixed.stack.log_height) is (log_rows == 7)
    with pytest.raises(InvalidProof, match=match):
        job.check_partition(0)


# -- buses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 2])
def test_a_denominator_of_zero(place: int) -> None:
    job = prove_program(Ring(), partitions=2, params=SMALL)
    record = job.proofs[0].data
    totals = bytearray(record["totals"])
    totals[24 * place : 24 * place + 24] = bytes(24)
    with pytest.raises(InvalidProof, match="denominator zero"):
        job.with_record(0, {**record, "totals": bytes(totals)}).check_partition(0)


def test_a_tree_of_fractions_0_over_0_is_refused_by_its_root() -> None:
    """A leaf of denominator zero makes every sum above it 0/0, which any claim about the others satisfies."""
    honest = prover.leaves_of

    def leaves(*given: Any) -> Any:
        made = honest(*given)
        made[0][:, :, 0] = 0
        return made

    with mock.patch.object(prover, "leaves_of", leaves):
        job = prove_program(spoiled(Ring(), 1, 0, 4), partitions=2, params=SMALL)
    with pytest.raises(InvalidProof, match="denominator zero"):
        job.check_partition(0)


def test_a_terminal_that_is_only_claimed() -> None:
    honest = prover.prove_layers

    def layers(backend: Any, shape: Any, made: Any, *given: Any) -> Any:
        # The global root's numerator, before anything is drawn.
        made[-1][-1] = made[-1][-1].copy()
        made[-1][-1][0, 0, 0] ^= 1
        return honest(backend, shape, made, *given)

    forged(mock.patch.object(prover, "prove_layers", layers), Ring(), 2)


# -- rounds -----------------------------------------------------------------------------------------------------------


def altered(name: str, change: Callable[[Any], Any]) -> Any:
    """Change what a step of the prover returns, before it is absorbed."""
    honest = getattr(prover, name)
    return mock.patch.object(prover, name, lambda *given, **named: change(honest(*given, **named)))


def altered_sums(change: Callable[[int, int], int], *, constrains: bool, least: int) -> Any:
    """Change one table's sums on the cosets of the univariate round, of which it has `least`: add `change(Z^L there,
    place)` to each. All that follows is in accord with them."""
    honest = CpuMultilinear._coset_sums

    def sums(kernels: Any, base: Any, made: RowRounds) -> None:
        honest(kernels, base, made)
        size = 1 << made.log_run
        found = [(n, r) for n, r in enumerate(made.rules) if r.constrains == constrains and len(r.cosets) >= least]
        for number, rule in found[:1]:
            for i, coset in enumerate(rule.cosets):
                constant, first = pow(coset_shift(made.log_run, coset), size, P), made.coset_sums[number] + i
                for place in range(size):
                    made.sums[first * size + place, 0] += np.uint64(change(constant, place))

    return mock.patch.object(CpuMultilinear, "_coset_sums", sums)


def test_leaves_that_only_agree_on_the_domain() -> None:
    """B + k (Z^L - 1) has the same sum over D."""

    def change(constant: int, place: int) -> int:
        reached.append(constant)  # on two cosets, for a tuple of degree 2: B can have degree L
        return 5 * (constant - 1) % P

    reached: list[int] = []
    forged(altered_sums(change, constrains=False, least=2), Sparse(), 2)
    assert len(set(reached)) > 1


def test_a_quotient_that_is_not_the_constraints() -> None:
    forged(altered_sums(lambda constant, place: int(place == 0), constrains=True, least=1))


def test_next_columns_are_opened_at_the_columns_own_point() -> None:
    """Values of next columns that satisfy the rules at the point, but are not those of the columns."""

    def change(made: RowProof) -> RowProof:
        # left' - right and right' - left - right: both changes cancel in lambda-weighted sums only by chance, so the
        # verifier's equation is left out below.
        changed = made.openings.copy()
        changed[-1, 0] = (int(changed[-1, 0]) + 1) % P
        return replace(made, openings=changed)

    with altered("multilinear_rounds", change):
        job = prove_program("fibonacci", {"rows": 32}, params=SMALL)
    with pytest.raises(InvalidProof, match="rules do not hold"):
        job.check()
    with (
        mock.patch("distprove.stark.multilinear.verifier.rules_at", _whatever_is_claimed()),
        pytest.raises(InvalidProof, match="not those of the stacked columns"),
    ):
        job.check()


def _whatever_is_claimed() -> Any:
    """A value that equals everything: the check of the rules is left out."""

    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = None  # type: ignore[assignment]

    return lambda *given: Anything()


# -- stacks and anchor ------------------------------------------------------------------------------------------------


def test_an_anchor_that_is_not_that_of_the_columns() -> None:
    forged(altered("anchor_of", lambda y: e_add(y, (1, 0, 0))))


def test_a_layout_of_the_provers_choice() -> None:
    honest = commitment.stack_columns

    def stacked(backend: Any, stack: Stack, columns: Any) -> Any:
        return honest(backend, stack, {n: np.ascontiguousarray(m[::-1]) for n, m in columns.items()})

    forged(mock.patch.object(commitment, "stack_columns", stacked))


def test_a_layout_follows_from_heights_alone() -> None:
    tables = [(0, 3, 2), (1, 5, 1), (2, 5, 3)]
    stack = Stack.of(tables, 0, 2)
    assert (stack.log_height, stack.width) == (6, 3)  # 144 cells: five columns of 2^5 would be too many
    assert stack.positions[1] == (Position(0, 0),)
    assert stack.positions[2] == (Position(0, 32), Position(1, 0), Position(1, 32))
    assert stack.positions[0] == (Position(2, 0), Position(2, 8))
    assert [(s.log_height, s.width) for s in (Stack.of(tables, 0, c) for c in (0, 1, 3, 6))] == [
        (8, 1),
        (7, 2),
        (5, 5),
        (5, 5),  # no lower than the tallest table
    ]
    assert Stack.of([(0, 3, 1)], 5, 2).log_height == 5
    assert Stack.of([], 2, 2) == Stack(2, 0, ())


def test_a_proof_under_a_key_of_wide_tables_is_refused_in_bounded_memory() -> None:
    """A few bytes state the width of a table. The values of its columns must be there before any place is computed."""
    job = prove_program("fibonacci", {"rows": 16}, params=SMALL)
    record = job.key.to_record()
    (table,) = record["tables"]
    wide = {**table, "constraints": {**table["constraints"], "widths": [0, 1 << 17, 0, 3]}}
    record["tables"] = [{**wide, "name": f"wide-{i}"} for i in range(4)]
    record |= {"fixed_heights": [None] * 4, "optional": [False] * 4}
    tracemalloc.start()
    try:
        key = MultilinearKey.from_record(record)
        with pytest.raises(FormatError):
            MultilinearProof.from_record({**job.proofs[0].data, "heights": bytes([2] * 4)}, key)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_root_between_two_traces_has_one_anchor() -> None:
    """A word that is one trace's on half of the leaves and another's on the others opens to either, but for the anchor,
    which is in the job's list before any challenge of a bus."""
    program, params = load_program("fibonacci", {"rows": 64}), replace(SMALL, queries=(1,) * 8)
    with CpuBackend() as backend:
        pk = make_key(program, params, backend)
        both = [_committed(pk, first) for first in (0, 7)]
        words = [np.asarray(c.stacked.codewords) for c in both]
        # Index (k, j) is j B + k, and a leaf holds the indices i mod N/16: the lowest bit of j tells leaves apart.
        mixed = np.where(np.arange(words[0].shape[2]) % 2 == 0, words[0], words[1])
        tree = backend.goldilocks.commit([np.ascontiguousarray(mixed)], log_arity=4)
        outcomes: dict[bool, list[str]] = {True: [], False: []}
        for attempt in range(12):
            for own in (True, False):
                chosen = _under(both[0], tree, f"attempt-{attempt}", backend)
                if not own:  # the other trace, under the root and the anchor that the list holds
                    other = replace(both[1], stacked=replace(both[1].stacked, tree=tree), anchor=chosen.anchor)
                    public = both[1].commitment.public
                    chosen = replace(other, commitment=replace(chosen.commitment, public=public))
                job = prove_committed(pk, [chosen])
                try:
                    job.check_partition(0)
                    outcomes[own].append("accepted")
                except InvalidProof as error:
                    outcomes[own].append(str(error))
    assert "accepted" in outcomes[True]
    assert all("not those of the stacked columns" in outcome for outcome in outcomes[False])


def _committed(pk: Any, first: int) -> Committed:
    program = load_program("fibonacci", {"rows": 64, "first": first})
    return commit(pk, "part", read_inputs(program, program.slices(1)[0].source), Steps())


def _under(committed: Committed, tree: Any, name: str, backend: Any) -> Committed:
    """The commitment under another tree's root, with the anchor that is drawn for it."""
    stated = replace(committed.commitment, name=name, main_root=tree.root)
    eta, delta = anchor_challenges(
        NUMBERS,
        committed.shape,
        committed.shape.key.digest,
        name.encode(),
        np.array(stated.public, dtype=np.uint64),
        tree.root,
    )
    stacked = replace(committed.stacked, tree=tree)
    anchor = commitment.anchor_of(backend, stacked, eta, delta)
    value = prover.pack(np.array(anchor, dtype=np.uint64))
    return replace(committed, commitment=replace(stated, anchors=value), stacked=stacked, anchor=anchor)


# -- WHIR -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_a_codeword_that_is_not_the_fold_of_the_one_before(number: int) -> None:
    calls = []
    honest = CpuMultilinear.encode

    def encode(self: CpuMultilinear, coefficients: Any, log_blowup: int) -> Any:
        calls.append(len(coefficients))
        if len(calls) == number + 1:
            coefficients = np.ascontiguousarray(coefficients[::-1])
        return honest(self, coefficients, log_blowup)

    patched = mock.patch.object(CpuMultilinear, "encode", encode)
    with patched:
        job = prove_program("wide-fibonacci", {"rows": 256, "width": 8}, params=replace(SMALL, log_final=0))
    assert len(calls) > number
    with pytest.raises(InvalidProof):
        job.check()


def test_proof_of_work_that_is_not_done() -> None:
    job = prove_program("fibonacci", {"rows": 32}, params=replace(SMALL, grinding_bits=16))
    job.check()
    record = job.proofs[0].data
    nonces = [record["nonces"][0] + 1, *record["nonces"][1:]]
    with pytest.raises(InvalidProof, match="proof of work"):
        job.with_record(0, {**record, "nonces": nonces}).check()


@pytest.mark.parametrize(
    "wrong",
    [{"queries": ()}, {"queries": (0,)}, {"queries": (1,) * 9}, {"queries": [5]}, {"log_skip": 7}, {"log_blowup": 0}],
)
def test_parameters_that_prove_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        replace(SMALL, **wrong)
    record = {**SMALL.to_record(), **{k: list(v) if isinstance(v, tuple) else v for k, v in wrong.items()}}
    if record["queries"] != [5]:
        with pytest.raises(FormatError):
            Parameters.from_record(record)


# -- the transcript ---------------------------------------------------------------------------------------------------


def events_of(job: MultilinearJob, number: int) -> list[tuple[str, bytes]]:
    """What the verifier absorbs (label, data) and draws (label, empty) for one partition, from its own transcript."""
    found: list[tuple[int, str, bytes]] = []
    absorb, words, seed = Transcript.absorb, Transcript._words, Transcript.grinding_seed

    def absorbed(self: Transcript, label: bytes, data: bytes) -> None:
        found.append((id(self), label.decode(), data))
        absorb(self, label, data)

    def drawn(self: Transcript, label: bytes) -> Any:
        found.append((id(self), f"draw {label.decode()}", b""))
        return words(self, label)

    def ground(self: Transcript) -> bytes:
        found.append((id(self), "draw grind", b""))
        return seed(self)

    with (
        mock.patch.object(Transcript, "absorb", absorbed),
        mock.patch.object(Transcript, "_words", drawn),
        mock.patch.object(Transcript, "grinding_seed", ground),
    ):
        job.check_partition(number)
    own = next(which for which, label, data in found if (label, data) == ("purpose", b"multilinear partition"))
    return [(label, data) for which, label, data in found if which == own]


def test_the_transcript_has_the_documents_order() -> None:
    job = prove_program(Ring(), partitions=2, params=replace(SMALL, log_skip=1))
    record = job.proofs[0].data
    labels = [label for label, _ in events_of(job, 0)]
    layers, j = [], 1
    size = len(record["gkr"]) // 24
    while size:
        layers += ["draw layer", *["gkr", "draw rho"] * j, "children", "draw child"]
        size, j = size - 2 * j - 4, j + 1
    folds = len(record["folds"]) // 48
    m = len(record["reduction"]) // 48
    rounds = len(record["nonces"])
    whir = []
    for i in range(rounds):
        whir += ["sum", "draw alpha"] * min(4, folds - 4 * i)
        whir += ["final"] if i == rounds - 1 else ["codeword", "draw sample", "value"]
        whir += ["draw grind", "nonce", "draw queries"] + ["draw gamma"] * (i < rounds - 1)
    row_rounds = [label for label in labels if label == "round"]
    assert labels == [
        *("purpose", "key", "job", "name", "heights", "public", "main", "anchor", "draw z", "draw beta", "totals"),
        *("draw scope", *layers, *[label for label in labels if label == "draw xi"]),
        *("draw lambda", "draw kappa", "quotient", "leaves", "draw skip", "draw nu"),
        *["round", "draw r"] * len(row_rounds),
        *("openings", "draw sigma", *["reduce", "draw fold"] * m, "stacked", "draw mu", *whir),
    ]


def test_every_field_is_absorbed_whole() -> None:
    job = prove_program(Ring(), partitions=2, params=SMALL)
    record, events = job.proofs[0].data, events_of(job, 0)

    def absorbed(*labels: str) -> bytes:
        return b"".join(data for label, data in events if label in labels)

    assert absorbed("heights", "main", "anchor", "totals") == b"".join(
        record[name] for name in ("heights", "root", "anchor", "totals")
    )
    assert absorbed("gkr", "children") == record["gkr"]
    assert absorbed("quotient", "leaves") == record["skip"]
    of_label = {"round": "rounds", "openings": "openings", "reduce": "reduction", "stacked": "stacked", "sum": "folds"}
    for label, name in {**of_label, "value": "samples", "final": "final"}.items():
        assert absorbed(label) == record[name], name
    assert absorbed("codeword") == b"".join(record["roots"])
    assert absorbed("nonce") == b"".join(nonce.to_bytes(8, "little") for nonce in record["nonces"])
    assert absorbed("job") == record["challenge"]


def test_the_jobs_challenge_binds_the_anchor() -> None:
    job = prove_program(Ring(), partitions=2, params=SMALL)
    record = job.proofs[0].data
    anchor = bytes([record["anchor"][0] ^ 1]) + record["anchor"][1:]
    with pytest.raises(InvalidProof, match="not proven as a part of this job"):
        job.with_record(0, {**record, "anchor": anchor}).check_job()


def test_without_global_buses_the_challenge_binds_the_list_and_the_statement_ties_the_traces() -> None:
    """Partitions stand alone there: one of another job of the same list is taken where the statement holds of both, and
    one of another list is not."""
    made = [prove_program("fibonacci", {"rows": 32, "first": f}, partitions=3, params=SMALL) for f in (0, 0, 7)]
    one, again, other = made
    replace(one, proofs=(*one.proofs[:2], again.proofs[2])).check()
    with pytest.raises(InvalidProof, match="end"):
        replace(one, proofs=(*one.proofs[:2], other.proofs[2])).check_job()
    shorter = prove_program("fibonacci", {"rows": 32}, partitions=2, params=SMALL)
    assert shorter.key.digest == one.key.digest
    assert [p.public for p in shorter.proofs] == [p.public for p in one.proofs[:2]]
    for mixed in (one.proofs[:2], (shorter.proofs[0], *one.proofs[1:])):
        with pytest.raises(InvalidProof, match="not proven as a part of this job"):
            replace(one, proofs=mixed).check_job()


def test_a_declared_global_bus_makes_a_barrier_even_if_no_table_uses_it() -> None:
    """A statement may put tuples on it, whose sum must not be known when the public values are chosen."""
    key = prove_program("fibonacci", {"rows": 32}, params=SMALL).key
    assert not key.needs_barrier
    assert replace(key, buses=(("b", "local", 1),)).needs_barrier is False
    assert replace(key, buses=(("b", "global", 1),)).needs_barrier is True
