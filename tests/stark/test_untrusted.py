"""Keys, proofs and commitments that come from anywhere: typed errors, in bounded memory, and nothing else."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import DistproveError, FormatError, InvalidProof
from distprove.formats import canonical
from distprove.job import Job
from distprove.proof import Proof, decode_partition, encode_public
from distprove.stark import logup
from distprove.stark.air import CompiledAir
from distprove.stark.barrier import Commitment
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import key_content, parse_key, shipped_key
from distprove.stark.programs import load_program
from distprove.stark.proof import JobPart, StarkProof
from distprove.stark.statement import MAX_EVERY, MAX_TUPLES, WHERE, Constant, Statement
from distprove.stark.verifier import check_commitments, check_multiplicities, verify
from distprove.stark.verifying_key import VerifyingKey
from distprove.system import PartitionProof
from tests.support.chained_keys import chained
from tests.support.golden_jobs import JOBS, golden, golden_file
from tests.support.records import places, with_value

MIB = 1 << 20
RECORDS = {name: golden(name) for name in JOBS}
KEYS = {name: VerifyingKey.from_record(job["key"]) for name, job in RECORDS.items()}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-2, 300),
    st.text(max_size=6),
    st.binary(max_size=48),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def verified(key: VerifyingKey, job: dict[str, Any]) -> None:
    """All that a verifier does with a record, from the partitions' container on."""
    verifier = StarkVerifier(key)
    proofs = []
    for part in job["partitions"]:
        stated = {"name": part["name"], "digest": bytes(32), "public": [encode_public(v) for v in part["public"]]}
        proofs.append(decode_partition({**stated, "data": part["proof"]}, "proof"))
        verifier.verify(proofs[-1])
    verifier.verify_job(proofs)


READERS: dict[str, Callable[[Any], Any]] = {
    "key": VerifyingKey.from_record,
    "air": CompiledAir.from_record,
    "statement": lambda record: Statement.from_record(record, "statement"),
    "proof": lambda record: StarkProof.from_record(record, KEYS["mixed"]),
    "commitment": lambda record: Commitment.from_bytes(canonical.encode({"commitment": record})),
    "container": lambda record: Proof.from_bytes(canonical.encode(record)),
}


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=40)
@given(record=anything)
def test_any_record_at_all(reader: str, record: Any) -> None:
    try:
        READERS[reader](record)
    except DistproveError:
        return
    assert reader == "commitment"


@settings(max_examples=150)
@given(st.data())
def test_a_key_with_anything_anywhere(data: st.DataObject) -> None:
    """It is refused, or it is a key that writes itself as it was read and under which nothing crashes."""
    name = data.draw(st.sampled_from(sorted(JOBS)))
    record = RECORDS[name]["key"]
    changed = with_value(record, data.draw(st.sampled_from(list(places(record)))), data.draw(anything))
    try:
        key = VerifyingKey.from_record(changed)
    except FormatError:
        return
    assert canonical.encode(key.to_record()) == canonical.encode(changed)
    try:
        verified(key, RECORDS[name])
    except DistproveError:
        return
    assert changed == record


@settings(max_examples=80)
@given(st.data())
def test_a_key_with_other_instructions(data: st.DataObject) -> None:
    """A word of a program changed, and all checks of the prover's challenges left to what the key then says."""
    name = data.draw(st.sampled_from(sorted(JOBS)))
    record = RECORDS[name]["key"]
    table = data.draw(st.integers(0, len(record["tables"]) - 1))
    code = bytearray(record["tables"][table]["constraints"]["code"])
    word = 4 * data.draw(st.integers(0, len(code) // 4 - 1))
    code[word : word + 4] = data.draw(st.integers(-1, 40)).to_bytes(4, "little", signed=True)
    changed = with_value(record, ("tables", table, "constraints", "code"), bytes(code))
    try:
        verified(VerifyingKey.from_record(changed), RECORDS[name])
    except DistproveError:
        return
    assert changed == record


def test_constraints_over_the_next_rows_selectors_are_refused() -> None:
    """A verifier has no values for them."""
    record = RECORDS["fibonacci"]["key"]
    code = record["tables"][0]["constraints"]["code"]
    loads = [i for i in range(0, len(code), 16) if code[i : i + 8] == bytes([0, 0, 0, 0, 3, 0, 0, 0])]
    changed = code[: loads[0] + 12] + bytes([1, 0, 0, 0]) + code[loads[0] + 16 :]
    with pytest.raises(FormatError, match="selectors"):
        VerifyingKey.from_record(with_value(record, ("tables", 0, "constraints", "code"), changed))


@settings(max_examples=100)
@given(st.data())
def test_a_proof_with_anything_anywhere(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(JOBS)))
    record = RECORDS[name]["partitions"][0]["proof"]
    place = data.draw(st.sampled_from(list(places(record))))
    changed = with_value(record, place, data.draw(anything))
    try:
        proof, _ = StarkProof.from_record(changed, KEYS[name])
    except FormatError:
        return
    assert canonical.encode(proof.to_record()) == canonical.encode(changed)


@settings(max_examples=60)
@given(st.data())
def test_flipped_bytes_of_a_proof_file(data: st.DataObject) -> None:
    """On the file, and with the digests that anyone can recompute made right again."""
    name = data.draw(st.sampled_from(["fibonacci", "ring"]))
    original = golden_file(RECORDS[name]).to_bytes()
    spoiled = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    try:
        proof = Proof.from_bytes(bytes(spoiled))
    except DistproveError:
        return
    assert proof.to_bytes() == original


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_at_all(data: bytes) -> None:
    for read in (Proof.from_bytes, Commitment.from_bytes):
        with pytest.raises(DistproveError):
            read(data)


@pytest.mark.parametrize(
    "record",
    [
        ["name", [3], [1], 1 << 40],
        ["name", 1 << 40, [1], bytes(32)],
        [["name"], [3], [1], bytes(32)],
        ["name", [3], ["1"], bytes(32)],
        ["name", [3], [-1], bytes(32)],
        ["name", [True], [1], bytes(32)],
        ["name", [3], [1], bytes(31)],
        ["name", [3], [1]],
    ],
    ids=str,
)
def test_a_commitment_of_other_parts(record: list[Any]) -> None:
    with pytest.raises(FormatError):
        Commitment.from_bytes(canonical.encode({"commitment": record}))


@pytest.mark.parametrize(
    "change",
    [
        {"same": "ab"},
        {"public": {}},
        {"boundary": ""},
        {"boundary": [{"bus": "ring", "values": [[]], "times": 1, "where": "first"}]},
        {"boundary": [{"bus": "ring", "values": [["own", 0, 0]], "times": 1, "where": "first"}]},
        {"boundary": [{"bus": "ring", "values": [["own", 1], 0], "times": 1, "where": "first"}]},
        {"boundary": [{"bus": "ring", "values": [0, 0], "times": 1, "where": "all"}]},
        {"chain": [["own"]]},
        {"public": [["own", 1], ["own", 1]]},
        {"public": [["own", 1 << 40]]},
    ],
    ids=str,
)
def test_a_statement_of_other_parts(change: dict[str, Any]) -> None:
    statement = RECORDS["ring"]["key"]["statement"]
    with pytest.raises(FormatError):
        Statement.from_record({**statement, **change}, "statement")


def test_what_a_key_promises_is_not_allocated() -> None:
    """Widths, heights, queries and public values at their limits, in a key and a proof of a few kilobytes."""
    record = copy.deepcopy(RECORDS["fibonacci"]["key"])
    record["params"] |= {"queries": 1024, "log_final": 10}
    record["tables"][0]["constraints"]["widths"][1] = 1 << 17
    proof = copy.deepcopy(RECORDS["fibonacci"]["partitions"][0]["proof"])
    proof["heights"] = bytes([28])
    tracemalloc.start()
    try:
        key = VerifyingKey.from_record(record)
        with pytest.raises(FormatError):
            StarkProof.from_record(proof, key)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


def test_openings_of_trees_are_bounded_before_the_queries_are_known() -> None:
    """At most a row for each query and a node for each of its levels; whole ones."""
    key, record = KEYS["fibonacci"], RECORDS["fibonacci"]["partitions"][0]["proof"]
    _, shape = StarkProof.from_record(record, key)
    main, queries = shape.rounds["main"], key.params.queries
    width = 8 * main.matrices[0][1]
    for place, size, most in ((("path",), 32, queries * main.log_leaves), (("rows", 0), width, queries)):
        for count, fits in ((0, True), (size * most, True), (size * most + size, False), (size * most - 1, False)):
            changed = with_value(record, ("trees", 0, *place), bytes(count))
            if fits:
                StarkProof.from_record(changed, key)
            else:
                with pytest.raises(FormatError, match=f"at most {most} items of {size} bytes"):
                    StarkProof.from_record(changed, key)


def test_a_key_of_chained_instructions_takes_no_more_than_others() -> None:
    """An array operation for each of its instructions would take 30 times its memory and ten times as long."""
    data = key_content(VerifyingKey.from_record(chained(RECORDS["fibonacci"]["key"], 1 << 15)))
    part = RECORDS["fibonacci"]["partitions"][0]
    verified(KEYS["fibonacci"], RECORDS["fibonacci"])  # what is kept for all proofs is made
    tracemalloc.start()
    key = parse_key(data, "key")
    proof, shape = StarkProof.from_record(part["proof"], key)
    with pytest.raises(InvalidProof, match="the constraints of table FibonacciAir do not hold"):
        verify(key, part["name"], part["public"], proof, shape)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(data) + 2 * MIB
    assert len(key.tables[0].at_point.steps) < 10


class Watched(tuple[Any, ...]):
    """A tuple that counts how often it is gone through or read from."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        Watched.reads += 1
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        Watched.reads += isinstance(index, slice)
        return super().__getitem__(index)


def test_a_key_that_says_a_thing_often_is_not_searched_as_often() -> None:
    """The work for a key is bounded by its length: not by interactions times buses, or repetitions times values."""
    key = KEYS["ring"]
    boundary, names = key.statement.boundary[:1], [name for name, _ in key.statement.public]
    public = Watched(RECORDS["ring"]["partitions"][0]["public"])

    def reads(times: int) -> int:
        tables = tuple(replace(t, uses=t.uses * times) for t in key.tables)
        chain = tuple((name, name) for name in names) * times
        said = replace(key.statement, boundary=boundary * times, same=tuple(names * times), chain=chain, index=None)
        big = replace(key, tables=tables, buses=Watched(key.buses), statement=said)
        Watched.reads = 0
        big.check("key")
        assert list(big.boundary_terms([public] * 2))
        assert said.violation([public] * 2) is None
        return Watched.reads

    assert boundary
    assert names
    assert reads(50) == reads(5)


def test_a_statement_says_no_more_of_public_values_than_there_is_to_say() -> None:
    """n^2 pairs of n values, or as many constants, would each be looked at for every partition."""
    names = [f"value{i}" for i in range(60)]
    public = tuple((name, 1) for name in names)
    every = tuple((end, start) for end in names for start in names)
    constants = tuple(Constant("value0", (i,), where) for i in range(61) for where in WHERE)
    for said, fits in (
        (Statement(public=public, chain=every), False),
        (Statement(public=public, chain=every[: 2 * len(names)] * 3), True),
        (Statement(public=public, chain=every[: 2 * len(names) + 1]), False),
        (Statement(public=public, constants=constants), False),
        (Statement(public=public, constants=constants[: 3 * len(names)] * 3), True),
    ):
        if fits:
            assert Statement.from_record(said.to_record(), "statement") == said
        else:
            with pytest.raises(FormatError, match="does not fit its public values"):
                Statement.from_record(said.to_record(), "statement")


def big_boundary(count: int, where: str) -> VerifyingKey:
    """The key of the ring with so many boundary tuples of its bus."""
    key = KEYS["ring"]
    [one, *_] = key.statement.boundary
    boundary = tuple(replace(one, values=(i, *one.values[1:]), where=where) for i in range(count))
    return replace(key, statement=replace(key.statement, boundary=boundary, same=(), chain=(), index=None, count=None))


def test_boundary_tuples_take_no_memory_for_each_partition() -> None:
    """384 kB of files took 633 MB: 650 bytes for each tuple and partition."""
    key, public = big_boundary(256, "every"), RECORDS["ring"]["partitions"][0]["public"]
    publics = [public] * 200
    heights = [JobPart.of_record(RECORDS["ring"]["partitions"][0]["proof"], key).log_heights] * len(publics)
    tracemalloc.start()
    assert key.statement.violation(publics) is None
    check_multiplicities(key.tables, heights, key.stated(len(publics)), key.output_bus)
    logup.boundary_sum(key.boundary_terms(publics), (1, 2, 3), (4, 5, 6))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB


def test_tuples_times_partitions_are_bounded() -> None:
    public = RECORDS["ring"]["partitions"][0]["public"]
    for count, partitions, where, fits in (
        (MAX_EVERY, MAX_TUPLES, "every", True),
        (MAX_EVERY + 1, MAX_TUPLES // (MAX_EVERY + 1), "every", True),
        (MAX_EVERY + 1, MAX_TUPLES // (MAX_EVERY + 1) + 1, "every", False),
        (5000, 50, "every", True),
        (5000, 195, "every", False),
        (5000, 100_000, "first", True),
    ):
        key = big_boundary(count, where)
        said = key.statement
        assert said.boundary_size(partitions) == sum(count for *_, count in key.stated(partitions))
        assert (said.excess(partitions) is None) == fits
        if partitions < 200:
            found = said.violation([public] * partitions)
            assert (found is None) == fits
            assert fits or f"{count} boundary tuples for each of {partitions} partitions" in str(found)


def test_a_job_of_too_many_tuples_is_refused_before_their_sum() -> None:
    key, record = big_boundary(5000, "every"), RECORDS["ring"]["partitions"][0]
    part = JobPart.of_record(record["proof"], key)
    commitments = [part.commitment(f"p{i}", record["public"]) for i in range(195)]
    tracemalloc.start()
    with pytest.raises(InvalidProof, match="boundary tuples for each of 195 partitions"):
        check_commitments(key, commitments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB


LONG = "rows" * (MIB // 4)


@pytest.mark.parametrize(
    "read",
    [
        lambda: shipped_key({**KEYS["fibonacci"].named(), "program": "fibonacci", "arguments": {LONG: 16}}),
        lambda: load_program(LONG, {}),
        lambda: Job.from_record({"system": "stark", "title": "", "options": {LONG: 1}, "executor": {}}),
    ],
    ids=["an argument in a proof", "a program in a run", "an option in a run"],
)
def test_a_name_that_is_not_known_costs_no_more_than_its_length(read: Callable[[], object]) -> None:
    """A search for the name that was meant takes forty times the memory of the one that was given."""
    tracemalloc.start()
    try:
        with pytest.raises(DistproveError):
            read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * MIB


@pytest.mark.parametrize("name", JOBS)
def test_a_part_of_a_job_reads_what_its_proof_does_and_no_more(name: str) -> None:
    """What ties a proof to its job is read alone before and after its verification, which reads all."""
    key = KEYS[name]
    for part in RECORDS[name]["partitions"]:
        record = part["proof"]
        proof, _ = StarkProof.from_record(record, key)
        assert_same(JobPart.of_record(record, key), proof)
        for field in ("challenge", "heights", "roots", "anchors", "terminals"):
            for value in (record[field][:-1], record[field] + record[field][:1], None):
                if value == record[field]:
                    continue
                with pytest.raises(FormatError):
                    JobPart.of_record({**record, field: value}, key)
        for field in ("values", "fri_roots", "final", "trees"):
            spoiled = {**record, field: record[field][:-1]}
            assert_same(JobPart.of_record(spoiled, key), proof)
            made = PartitionProof(part["name"], bytes(32), tuple(part["public"]), spoiled)
            with pytest.raises(FormatError):
                StarkVerifier(key).verify(made)


def assert_same(part: JobPart, proof: StarkProof) -> None:
    for name, mine in vars(part).items():
        theirs = getattr(proof, name)
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
