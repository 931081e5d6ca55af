"""What a contract reads of a job: each false claim breaks a condition of the circuit.

Segments of the test program state anything, and each is proven. So the tree under a false job holds, and the faults are
those of the circuit's own steps, which docs/recursion.md numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distprove.errors import InvalidProof, UsageError
from distprove.stark.field import P
from distprove.stark.multilinear.key import compile_key, with_params, with_root
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.programs import load_program
from distprove.stark.recursion.contract import ProgramRecord, check_program, check_readable
from distprove.stark.recursion.contract_circuit import contract_circuit, contract_fields
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.contract_proof import record_of
from distprove.stark.recursion.evaluation import Evaluation, evaluate
from distprove.stark.recursion.node import Identity, any_node, node_trees
from distprove.stark.recursion.plan import INNER, ROOT, kinds_of, plan_tree
from distprove.stark.recursion.tree import node_child
from distprove.stark.recursion.tree_keys import chosen_tree, verifiers_key
from distprove.stark.statement import Boundary, Constant, PublicRef, Statement
from kernels.cpu.backend import CpuBackend
from tests.support import second_root_verifier as second
from tests.support.one_proofs import FEW
from tests.support.read_program import ENTRY, PUBLIC, ReadJob, ReadJobs, Reads, true_segments

OUTPUT = b"a word, and two."
OTHER = b"A word, and two."
PLACES = 6
BUSES = "the global buses do not balance over the segments"
PROGRAM = "the program's record has another digest than is stated"


@pytest.fixture(scope="module")
def maker() -> Iterator[ReadJobs]:
    with CpuBackend(threads=2) as backend:
        yield ReadJobs(backend, PLACES)


@pytest.fixture(scope="module")
def three(maker: ReadJobs) -> ReadJob:
    return maker.prove(true_segments(3, OUTPUT, exit_code=9), OUTPUT)


@pytest.fixture(scope="module")
def five(maker: ReadJobs) -> ReadJob:
    return maker.prove(true_segments(5, OUTPUT), OUTPUT)


def evaluated(job: ReadJob, **changed: Any) -> Evaluation:
    """The circuit's values for a job with other fields, by name ("." is written "__")."""
    fields = contract_fields(job.form, job.record, job.segments, job.read, job.below)
    given = {name.replace("__", "."): np.array(own, dtype=np.uint64).reshape(-1) for name, own in changed.items()}
    assert given.keys() <= fields.keys()
    return evaluate(contract_circuit(job.form), {**fields, **given}, node_trees([job.form.below], [job.below]))


def faults(job: ReadJob, **changed: Any) -> set[str]:
    made = evaluated(job, **changed)
    with pytest.raises(InvalidProof):
        made.check()
    return set(made.faults)


def beyond(found: set[str], known: set[str]) -> bool:
    """Whether something else than these breaks: the proof of the node below."""
    return bool(found - known)


@pytest.mark.parametrize("count", [1, 4, 5, PLACES])
def test_a_true_job_satisfies_the_circuit(maker: ReadJobs, count: int) -> None:
    for output in (OUTPUT, b"") if count == 1 else (OUTPUT,):
        evaluated(maker.prove(true_segments(count, output, exit_code=3), output)).check()


def test_three_levels() -> None:
    with CpuBackend(threads=2) as backend:
        job = ReadJobs(backend, 18).prove(true_segments(17, OUTPUT), OUTPUT)
    evaluated(job).check()


def test_the_second_verifier_finds_the_same_program(three: ReadJob) -> None:
    leaf, length = [*three.record.leaf.scalars()], len(three.segments[0].name)
    found = second.program_digest(three.key.to_record(), [4], leaf, three.node.to_record(), length)
    assert tuple(found) == three.read.program == three.record.digest()


# -- 1: places --------------------------------------------------------------------------------------------------------


def test_no_place_is_left_out(three: ReadJob) -> None:
    message = "a place has a segment, and the one before has none"
    assert message in faults(three, present=[0, 1, 0, 0, 0])
    assert message in faults(three, present=[1, 0, 1, 0, 0])
    assert "present is neither 0 nor 1" in faults(three, present=[2, 0, 0, 0, 0])


# -- 2 and 8: the program ---------------------------------------------------------------------------------------------


def test_another_program_is_refused(maker: ReadJobs, three: ReadJob) -> None:
    other = maker.prove(true_segments(3, OUTPUT, entry=ENTRY + 1, exit_code=9), OUTPUT, entry=ENTRY + 1)
    evaluated(other).check()
    assert other.read.program != three.read.program
    assert faults(replace(other, read=three.read)) == {PROGRAM}
    # With the record of the program that is claimed, the segments are others than the tree has.
    found = faults(replace(other, read=three.read, record=three.record))
    assert "start is not the constant of the statement" in found
    assert PROGRAM not in found
    key_alone = replace(other.record, key=three.record.key)
    claimed = replace(other.read, program=key_alone.digest())
    assert beyond(faults(replace(other, record=key_alone, read=claimed)), set())


def test_a_changed_record_is_another_program(three: ReadJob) -> None:
    record = three.record
    leaf = Identity(record.leaf.digest, bytes(32))
    for other in (
        replace(record, key=bytes(32)),
        replace(record, log_heights=(5,)),
        replace(record, leaf=leaf),
        replace(record, constants=(ENTRY, 0)),
    ):
        assert PROGRAM in faults(replace(three, record=other))
        told = replace(three.read, program=other.digest())
        found = faults(replace(three, record=other, read=told))
        assert PROGRAM not in found  # it is the digest of another program, of which the tree has no segment


def test_another_entry_is_refused(maker: ReadJobs) -> None:
    started = maker.prove(true_segments(2, OUTPUT, entry=ENTRY + 5), OUTPUT)
    assert faults(started) == {"start is not the constant of the statement"}


def test_another_circuit_is_of_another_program(maker: ReadJobs, three: ReadJob) -> None:
    """Whoever made a wrap's key of a circuit that checks less has no wrap of this program."""
    honest = three.form
    weaker = with_params(three.node, replace(three.node.params, queries=(1,) * len(three.node.params.queries)))
    lax = replace(honest, statement=replace(honest.statement, chain=()))
    others = [
        lax,
        replace(honest, places=PLACES + 1),
        replace(honest, name_length=honest.name_length + 1),
        replace(honest, tables=2),
        replace(honest, buses=tuple((name, 3 - number) for name, number in honest.buses)),
        replace(honest, node_key=replace(honest.node_key, root=bytes(32))),
        replace(honest, below=any_node(weaker)),
    ]
    assert len({form.digest() for form in (honest, *others)}) == 1 + len(others)
    broken = true_segments(3, OUTPUT, exit_code=9)
    broken[1] = broken[1].stating(start=5)
    for job in (three, maker.prove(broken, OUTPUT)):
        assert faults(replace(job, form=lax)) == {PROGRAM}
        assert PROGRAM in faults(replace(job, form=others[1]))
    fewer = with_params(three.key, replace(three.key.params, queries=(1,) * len(three.key.params.queries)))
    assert ContractForm.of(fewer, honest.name_length, three.node) == honest  # the segments' own are in the leaf's key
    # A verifier computes the form from the key, with the parameters that the key's own bits ask for.
    claimed = replace(three.record, circuit=replace(honest, below=any_node(weaker)).digest())
    assert claimed.digest() != three.record.digest()
    assert PROGRAM in faults(replace(three, read=replace(three.read, program=claimed.digest())))


def test_a_circuit_over_a_tree_of_fewer_bits_is_of_another_program(three: ReadJob) -> None:
    """The frame, and the columns of nodes and leaves, can be those of the honest tree: queries are in no column."""
    program, given = Reads(true_segments(1, OUTPUT), OUTPUT), {"part-00": three.record.log_heights}
    kind = kinds_of(plan_tree(given), given)[ROOT]
    options = {**FEW, "known": program.log_heights(PLACES)}
    high, low = (
        compile_key(
            program, replace(choose_parameters(program, PLACES, **{**options, "security": bits}), places=PLACES)
        )
        for bits in (8, 1)
    )
    (strong, frame), (weak, _) = (chosen_tree(key, kind.leaves) for key in (high, low))
    assert strong.nodes.queries > weak.nodes.queries
    nodes, length = verifiers_key(high, kind.of_role(INNER)), three.form.name_length
    assert ContractForm.of(high, length, nodes).digest() == record_of(high, verifiers_key, kind).circuit
    fewer = with_root(node_child(frame, weak.nodes).shape.key, nodes.preprocessed_root)
    for key in (high, low):
        assert ContractForm.of(key, length, fewer).digest() != record_of(high, verifiers_key, kind).circuit


# -- 3: the list ------------------------------------------------------------------------------------------------------


def test_the_level_is_not_the_provers_choice(maker: ReadJobs, three: ReadJob, five: ReadJob) -> None:
    challenge = bytes(np.array(three.below.public[:8], dtype="<u4"))
    raised = maker.node_over(three, [three.below], challenge)
    assert faults(replace(three, below=raised))
    for leaf in five.leaves:
        assert faults(replace(five, below=leaf))
        assert faults(replace(five, below=leaf), present=[1, 1, 1, 0, 0])


def test_a_segment_more_or_less_is_refused(three: ReadJob, five: ReadJob) -> None:
    assert faults(replace(three, segments=three.segments[:2]))
    assert faults(replace(three, segments=[*three.segments, three.segments[0]]))
    assert faults(replace(five, segments=five.segments[:4]))
    a, b, c = three.segments
    for listed in ([b, a, c], [a, a, c], [a, c], [a, b, replace(c, name="part-03")]):
        assert faults(replace(three, segments=listed))


def test_a_node_of_another_tree_is_refused(maker: ReadJobs, three: ReadJob) -> None:
    other = maker.prove(true_segments(3, OTHER, exit_code=9), OTHER)
    assert faults(replace(three, below=other.below))


# -- 4: the challenge -------------------------------------------------------------------------------------------------


def test_the_output_is_fixed_before_the_challenge(maker: ReadJobs) -> None:
    """The tables send this output and it is stated, but the challenge was drawn without it."""
    job = maker.prove(true_segments(2, OUTPUT), OUTPUT, bound=OTHER)
    assert faults(job)
    assert faults(replace(job, read=replace(job.read, output=OTHER)))


# -- 5: the statement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "values", "fault"),
    [
        (1, {"segment": 2, "stated": 0}, "segment is not the position"),
        (1, {"start": 5}, "start of a segment is not end of the one before"),
        (1, {"end": 5}, "start of a segment is not end of the one before"),
        (0, {"start": 5}, "start is not the constant of the statement"),
        (2, {"final": 0}, "final is not the constant of the statement"),
        (0, {"inputs": 1}, "a segment has read public input"),
        (2, {"inputs": P - 1}, "a segment has read public input"),
        (0, {"length": 12}, "a segment states another length of the output"),
        (2, {"length": 20}, "a segment states another length of the output"),
        (0, {"count": 2}, "count is not the number"),
        (2, {"count": 4}, "count is not the number"),
        (1, {"digest": 5}, "digest of a segment differs from the first one's"),
    ],
)
def test_a_false_statement_is_refused(maker: ReadJobs, at: int, values: dict[str, int], fault: str) -> None:
    segments = true_segments(3, OUTPUT)
    segments[at] = segments[at].stating(**values)
    if "stated" in values:  # and the tables send what is stated, so that the buses balance
        segments[at] = replace(segments[at], pairs=((values["segment"], values["stated"]),))
    assert faults(maker.prove(segments, OUTPUT)) == {fault}


def test_segments_swapped_or_repeated_are_refused(maker: ReadJobs) -> None:
    a, b, c = true_segments(3, OUTPUT)
    chain, place = "start of a segment is not end of the one before", "segment is not the position"
    final, start = "final is not the constant of the statement", "start is not the constant of the statement"
    number = "count is not the number"
    assert faults(maker.prove([a, c, b], OUTPUT)) == {chain, place, final}
    assert faults(maker.prove([a, b, b, c], OUTPUT)) == {chain, place, number}
    assert faults(maker.prove([a, c], OUTPUT)) == {chain, place, number}
    assert faults(maker.prove([b, c], OUTPUT)) == {place, start, number}
    assert faults(maker.prove([a, b], OUTPUT)) == {final, BUSES, number}


def test_another_exit_code_is_refused(maker: ReadJobs, three: ReadJob) -> None:
    fault = "the last segment has another exit code than is stated"
    for code in (0, 8, 9 + (1 << 32)):
        assert fault in faults(replace(three, read=replace(three.read, exit_code=code)))
    early = [own.stating(exit_code=4) for own in true_segments(2, OUTPUT)]
    early[1] = early[1].stating(exit_code=0)
    assert faults(maker.prove(early, OUTPUT, exit_code=4)) == {fault}
    large = true_segments(1, OUTPUT, exit_code=1 << 32)
    assert faults(maker.prove(large, OUTPUT)) == {"the exit code is beyond 32 bits"}


# -- 6: the output ----------------------------------------------------------------------------------------------------


def test_a_changed_output_is_refused(three: ReadJob) -> None:
    words = [int(word) for word in np.frombuffer(OUTPUT, dtype="<u4")] + [0] * 4
    changed = [words[0] ^ 1, *words[1:]]
    assert BUSES in faults(three, output=changed)
    beyond_range = "a word of the output is beyond 32 bits"
    for large in (words[0] + (1 << 32), P - 1):
        assert beyond_range in faults(three, output=[large, *words[1:]])
    assert "a word behind the output is not zero" in faults(three, output=[*words[:4], 1, 0, 0, 0])
    length = "the length of the output is another than that of its words"
    assert length in faults(three, output_length=15)
    assert length in faults(three, output_length=12)
    assert length in faults(three, within=[1, 1, 1, 1, 1, 0, 0, 0])
    assert "a word behind the output is not zero" in faults(three, within=[1, 1, 1, 0, 0, 0, 0, 0], output_length=12)
    gap = "a word is within the output, and the one before is not"
    assert gap in faults(three, within=[1, 1, 1, 0, 1, 0, 0, 0])
    assert "within is neither 0 nor 1" in faults(three, within=[4, 0, 0, 0, 0, 0, 0, 0])


def test_an_output_of_no_whole_words_has_no_fields(three: ReadJob) -> None:
    for output in (b"abc", bytes(36)):
        with pytest.raises(InvalidProof, match="a contract reads whole words"):
            contract_fields(three.form, three.record, three.segments, replace(three.read, output=output), three.below)


# -- 7: the buses -----------------------------------------------------------------------------------------------------


def test_the_tables_must_have_sent_exactly_the_output(maker: ReadJobs) -> None:
    segments = true_segments(2, OUTPUT)
    words = segments[1].words
    for sent in (words[:-1], (*words, (5, 0))):
        changed = [segments[0], replace(segments[1], words=sent)]
        assert faults(maker.prove(changed, OUTPUT)) == {BUSES}
    for pairs in ((), ((0, 999),)):
        changed = [replace(segments[0], pairs=pairs), segments[1]]
        assert faults(maker.prove(changed, OUTPUT)) == {BUSES}


def test_another_sum_is_refused(three: ReadJob) -> None:
    stated = list(three.below.public[12:15])
    for at in range(3):
        other = [(value + (at == k)) % P for k, value in enumerate(stated)]
        assert BUSES in faults(three, sum=other)


# -- all of it --------------------------------------------------------------------------------------------------------


def test_each_element_that_is_given_matters(three: ReadJob) -> None:
    """But those of places without a segment, and what a prover gives to bits, each changed by one."""
    fields: Mapping[str, Any] = contract_fields(three.form, three.record, three.segments, three.read, three.below)
    circuit, trees = contract_circuit(three.form), node_trees([three.form.below], [three.below])
    absent = {f"{number}." for number in range(3, PLACES)}
    free = set()
    for name, own in fields.items():
        for at in {0, len(own) // 2, len(own) - 1} if len(own) else ():
            changed = own.copy()
            changed[at] = (int(changed[at]) + 1) % P
            made = evaluate(circuit, {**fields, name: changed}, trees)
            if not made.faults:
                free.add(name)
    assert {name[:2] for name in free} == absent


def test_a_job_of_more_segments_than_places_has_no_fields(three: ReadJob) -> None:
    with pytest.raises(InvalidProof, match="7 segments in a job that has places for 6"):
        contract_fields(three.form, three.record, [three.segments[0]] * 7, three.read, three.below)


# -- which keys -------------------------------------------------------------------------------------------------------


class Same(Reads):
    """One public value is neither chained nor a constant: a contract would not know it."""

    @property
    def statement(self) -> Statement:
        said = super().statement
        return replace(said, public=(*PUBLIC, ("root", 1)), same=("root",))


class Unstated(Reads):
    """No public value counts the words of public input, which the boundary reads."""

    @property
    def statement(self) -> Statement:
        said = super().statement
        public = tuple(("read" if name == "inputs" else name, size) for name, size in PUBLIC)
        return replace(said, public=public, constants=(*said.constants, Constant("read", (0,), "every")))


class Unsent(Reads):
    """`stated` stands on no bus, so it is no public input that a segment could read."""

    @property
    def statement(self) -> Statement:
        return replace(super().statement, boundary=())


class Free(Reads):
    """Nothing says from where the first segment starts."""

    @property
    def statement(self) -> Statement:
        return replace(
            super().statement, constants=(Constant("start", (ENTRY,), "last"), Constant("final", (1,), "last"))
        )


class Told(Reads):
    """The statement sends a public value that is no word of the input."""

    @property
    def statement(self) -> Statement:
        said = super().statement
        sent = Boundary("given", (0, PublicRef("told")), -1, "first")
        return replace(said, public=(*PUBLIC, ("told", 1)), boundary=(*said.boundary, sent))


def test_keys_whose_jobs_no_contract_reads(three: ReadJob) -> None:
    check_readable(three.key)
    params = three.key.params
    with pytest.raises(UsageError, match="state root, which a contract would not read"):
        check_readable(compile_key(Same(), params))
    with pytest.raises(UsageError, match="state stated, which a contract would not read"):
        check_readable(compile_key(Unstated(), params))
    with pytest.raises(UsageError, match="state stated, which a contract would not read"):
        check_readable(compile_key(Unsent(), params))
    with pytest.raises(UsageError, match="start of a job's first segment is no constant"):
        check_readable(compile_key(Free(), params))
    with pytest.raises(UsageError, match="state told, which a contract would not read"):
        check_readable(compile_key(Told(), params))
    plain = compile_key(load_program("fibonacci", {"rows": 16}), replace(params, places=None))
    with pytest.raises(UsageError, match="an exit code and an output alone"):
        check_readable(plain)
    with pytest.raises(UsageError, match="an exit code and an output alone"):
        check_readable(compile_key(Reads(), replace(params, places=None)))


def test_bits_are_asked_for_all_places(three: ReadJob) -> None:
    check_program(three.key, (4,), PLACES)
    with pytest.raises(InvalidProof, match="not the heights"):
        check_program(three.key, (29,), PLACES)
    asking = replace(three.key, params=replace(three.key.params, security_bits=120))  # type: ignore[arg-type]
    with pytest.raises(InvalidProof, match="bits of security over 6 segments"):
        check_program(asking, (4,), PLACES)


def test_the_places_are_those_of_the_circuit(three: ReadJob) -> None:
    """Bits and multiplicities of fewer segments than the circuit has places for are none of its jobs'."""
    for places, told in ((1, "1 place"), (PLACES - 1, "5 places"), (PLACES + 1, "7 places")):
        other = with_params(three.key, replace(three.key.params, places=places))
        with pytest.raises(InvalidProof, match=f"a key of {told}; the circuit that a contract reads has 6"):
            check_program(other, (4,), PLACES)
        assert ContractForm.of(other, three.form.name_length, three.node).digest() != three.record.circuit
    with pytest.raises(InvalidProof, match="a key of 6 places; the circuit that a contract reads has 32"):
        check_program(three.key, (4,))


def test_a_record_has_the_constants_of_its_key(three: ReadJob) -> None:
    assert ProgramRecord.of(three.form.digest(), three.key, (4,), three.record.leaf) == three.record
    assert three.record.constants == (ENTRY, 1)
