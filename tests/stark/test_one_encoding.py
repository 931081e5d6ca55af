"""The document, the reference and the second verifier refuse the same keys and files: none is stricter than another."""

from __future__ import annotations

import copy
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import FormatError, InvalidProof
from distprove.formats import canonical
from distprove.stark import verifier
from distprove.stark.field import P
from distprove.stark.proof import StarkProof
from distprove.stark.security import statistics_of_job
from distprove.stark.shape import ProofShape
from distprove.stark.verifying_key import VerifyingKey
from tests.stark.test_untrusted import anything
from tests.support import second_verifier
from tests.support.golden_jobs import JOBS, golden
from tests.support.golden_verifiers import REFUSALS
from tests.support.records import at, places, with_value

RECORDS = {name: golden(name)["key"] for name in JOBS}
Change = Callable[[dict[str, Any]], None]


def ours(record: Any) -> bool:
    """Whether the reference takes this key."""
    try:
        VerifyingKey.from_record(record)
    except FormatError:
        return False
    return True


def second(record: Any) -> bool:
    """Whether the second verifier does."""
    try:
        second_verifier.Key(record)
    except second_verifier.Refused:
        return False
    return True


def word(program: dict[str, Any], op: int, operand: int, value: int) -> None:
    """Another operand in the first instruction of this op."""
    code = [list(instruction) for instruction in struct.iter_unpack("<4i", program["code"])]
    next(instruction for instruction in code if instruction[0] == op)[operand] = value
    program["code"] = b"".join(struct.pack("<4i", *instruction) for instruction in code)


def constraints(op: int, operand: int, value: int = 1) -> Change:
    return lambda key: word(key["tables"][0]["constraints"], op, operand, value)


def interactions(op: int, operand: int, value: int) -> Change:
    return lambda key: word(key["tables"][0]["interactions"], op, operand, value)


def put(*place: Any) -> Change:
    """Another value at a place: the last argument."""
    *path, last, value = place

    def change(record: Any) -> None:
        for step in path:
            record = record[step]
        record[last] = value

    return change


def base_output(key: dict[str, Any]) -> None:
    """The first numerator of the interactions becomes a value of the base field."""
    program = key["tables"][0]["interactions"]
    loads = [i for i, (op, *_) in enumerate(struct.iter_unpack("<4i", program["code"])) if op == 0]
    program["outputs"] = struct.pack("<i", loads[0]) + program["outputs"][4:]


def renamed_bus(name: str) -> Change:
    def change(key: dict[str, Any]) -> None:
        key["buses"][0][0] = name
        for table in key["tables"]:
            for use in table["uses"]:
                use[0] = name if use[0] == "range" else use[0]

    return change


def wide_bus(width: int) -> Change:
    """A bus that no table uses and that is so wide."""
    return lambda key: key["buses"].append(["unused", "local", width])


LONG = "n" * 121
REFUSED: dict[str, Change] = {
    "constant with b": constraints(1, 2),
    "constant with c": constraints(1, 3),
    "scalar with b": constraints(2, 2),
    "scalar with c": constraints(2, 3),
    "public value with b": constraints(3, 2),
    "public value with c": constraints(3, 3),
    "sum with c": constraints(4, 3),
    "difference with c": constraints(5, 3),
    "product with c": constraints(6, 3),
    "interactions' product with c": interactions(6, 3, 1),
    "next row beyond one": constraints(0, 3, 2),
    "no such op": constraints(0, 0, 7),
    "instruction in parts": lambda key: key["tables"][0]["constraints"].update(
        code=key["tables"][0]["constraints"]["code"] + bytes(4)
    ),
    "interactions that read what is not there": interactions(0, 2, 99),
    "interactions out of order": interactions(4, 1, 1 << 20),
    "interactions with a constant of p": lambda key: key["tables"][0]["interactions"]["constants"].append(P),
    "interactions of other widths": lambda key: key["tables"][0]["interactions"]["widths"].append(1),
    "interactions with an output too many": lambda key: key["tables"][0]["interactions"].update(
        outputs=key["tables"][0]["interactions"]["outputs"] + bytes(4)
    ),
    "interactions in the base field": base_output,
    "interactions left out": put("tables", 0, "interactions", None),
    "2^22 + 1 constants": lambda key: key["tables"][0]["constraints"]["constants"].extend([1] * 2**22),
    "no name of a table": put("tables", 0, "name", ""),
    "long name of a table": put("tables", 0, "name", LONG),
    "no name of a constraint": put("tables", 0, "names", 0, ""),
    "long name of a constraint": put("tables", 0, "names", 0, LONG),
    "no name of a bus": renamed_bus(""),
    "long name of a bus": renamed_bus(LONG),
    "no name of a public value": lambda key: one_more_public_value(key, ""),
    "long name of a public value": lambda key: one_more_public_value(key, LONG),
    "no name of an unused bus": lambda key: key["buses"].append(["", "local", 1]),
    "width 0 of a bus": wide_bus(0),
    "width 257 of a bus": wide_bus(257),
    "two buses of one name": lambda key: key["buses"].append(["ring", "local", 1]),
    "at most 0": put("tables", 0, "uses", 0, 5, 0),
    "at most p": put("tables", 0, "uses", 0, 5, P),
    "at most true": put("tables", 0, "uses", 0, 5, True),
    "sends 1": put("tables", 0, "uses", 0, 4, 1),
    "group of 0": lambda key: key["tables"][0]["groups"].insert(0, ["local", 0]),
    "groups in the other order": lambda key: key["tables"][0]["groups"].reverse(),
    "bus number 0": put("tables", 0, "uses", 0, 3, 0),
    "513 tables": lambda key: key["tables"].extend({**key["tables"][0], "name": f"t{i}"} for i in range(511)),
    "a table twice": lambda key: key["tables"].append(key["tables"][0]),
    "public values of another number": put("tables", 0, "public", 2),
    "too many public values": put("statement", "public", 0, 1, 4095),
    "a public value of no elements": lambda key: key["statement"]["public"].append(["none", 0]),
    "a chain that is a string": lambda key: (key["statement"]["public"][0].__setitem__(0, "a"), chained(key, "aa")),
    "a chain that is a map": lambda key: (
        key["statement"]["public"][0].__setitem__(0, "a"),
        chained(key, {"a": 0, "total": 0}),
    ),
    "a boundary on a local bus": put("statement", "boundary", 0, "bus", "range"),
    "a boundary of another width": lambda key: key["statement"]["boundary"][0]["values"].append(0),
    "another version": put("version", 3),
    "an argument of another type": put("arguments", "log_rows", True),
    "a preprocessed table without a height": put("fixed_heights", 1, None),
    "a height beyond 28": put("fixed_heights", 1, 29),
    "no root": put("preprocessed_root", b""),
    "no queries": put("params", "queries", 0),
}


def one_more_public_value(key: dict[str, Any], name: str) -> None:
    key["statement"]["public"].append([name, 1])
    for table in key["tables"]:
        table["public"] += 1


def chained(key: dict[str, Any], pair: Any) -> None:
    key["statement"].update(chain=[pair], index=None, boundary=[])


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_document_forbids_both_refuse(name: str) -> None:
    record = copy.deepcopy(RECORDS["ring"])
    assert ours(record)
    assert second(record)
    REFUSED[name](record)
    assert canonical.encode(record) != canonical.encode(RECORDS["ring"])
    assert (ours(record), second(record)) == (False, False)


@pytest.mark.parametrize("place", ["preprocessed_root", "optional"])
def test_a_root_of_words_beyond_p_is_none_of_a_hash_over_field_elements(place: str) -> None:
    record = copy.deepcopy(RECORDS["ring" if place == "preprocessed_root" else "sparse"])
    roots = record if place == "preprocessed_root" else record["optional"]
    at = place if place == "preprocessed_root" else next(i for i, root in enumerate(roots) if root)
    for last, poseidon2, taken in ((P - 1, True, True), (P, True, False), (P, False, True)):
        roots[at] = bytes(24) + last.to_bytes(8, "little")
        record["params"].pop("hash", None)
        record["params"].update({"hash": "poseidon2"} if poseidon2 else {})
        assert (ours(record), second(record)) == (taken, taken)


def test_a_public_value_more_is_another_key() -> None:
    """Or the refusals of its names above would mean nothing."""
    record = copy.deepcopy(RECORDS["ring"])
    one_more_public_value(record, "n" * 120)
    assert (ours(record), second(record)) == (True, True)


@pytest.mark.parametrize("name", JOBS)
def test_an_op_that_makes_degrees_too_high(name: str) -> None:
    """257 by squares of squares; 256 is in order, but for a blow-up that no proof has."""
    record = copy.deepcopy(RECORDS[name])
    program = record["tables"][0]["constraints"]
    program["code"] += struct.pack("<4i", 0, 1, 0, 0)
    for _ in range(9):
        last = len(program["code"]) // 16 - 1
        program["code"] += struct.pack("<4i", 6, last, last, 0)
    program["outputs"] = struct.pack("<i", len(program["code"]) // 16 - 1) + program["outputs"][4:]
    assert (ours(record), second(record)) == (False, False)


def outputs_of(record: dict[str, Any], instructions: list[tuple[int, int, int, int]], used: bool) -> dict[str, Any]:
    """The key with these instructions more, counted from the first of them; the last one is an output, or is not."""
    record = copy.deepcopy(record)
    program = record["tables"][0]["constraints"]
    first = len(program["code"]) // 16
    for op, a, b, c in instructions:
        program["code"] += struct.pack("<4i", op, a + first * (op > 3), b + first * (op > 3), c)
    if used:
        program["outputs"] = struct.pack("<i", len(program["code"]) // 16 - 1) + program["outputs"][4:]
    return record


def powers_of(column: tuple[int, int], most: int) -> list[tuple[int, int, int, int]]:
    return [(0, *column, 0), *((6, last, 0, 0) for last in range(most - 1))]


@pytest.mark.parametrize(("most", "taken"), [(256, True), (257, False)])
def test_the_limit_of_degrees_is_one_of_transition_selectors_too(most: int, taken: bool) -> None:
    """A product of nothing but these has degree 1, however many they are."""
    record = outputs_of(RECORDS["ring"], powers_of((3, 2), most), used=True)
    assert (ours(record), second(record)) == (taken, taken)


@pytest.mark.parametrize(("used", "taken"), [(False, True), (True, False)])
def test_only_outputs_have_a_limit_of_degrees(used: bool, taken: bool) -> None:
    """A value that is no output may have any. Who counted beyond the limit would hold numbers of thousands of bits."""
    squares = [(0, 1, 0, 0), *((6, last, last, 0) for last in range(20_000))]
    record = outputs_of(RECORDS["ring"], squares, used)
    tracemalloc.start()
    try:
        assert (ours(record), second(record)) == (taken, taken)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1000 * len(squares)


@pytest.mark.parametrize("field", ["same", "chain"])
def test_a_statement_may_say_a_thing_twice(field: str) -> None:
    record = copy.deepcopy(RECORDS["ring"])
    record["statement"][field] = [{"same": "total", "chain": ["total", "count"]}[field]] * 3
    assert (ours(record), second(record)) == (True, True)


def test_a_key_without_public_values() -> None:
    record = copy.deepcopy(RECORDS["fibonacci"])
    record["statement"]["public"] = []
    record["tables"][0]["public"] = 0
    assert (ours(record), second(record)) == (True, True)


@pytest.mark.parametrize("times", [0, P, True])
def test_how_often_a_boundary_tuple_is_there(times: int) -> None:
    record = copy.deepcopy(RECORDS["ring"])
    record["statement"]["boundary"][0]["times"] = times
    assert (ours(record), second(record)) == (False, False)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, P, -1, b"\1", [1]])
def test_public_values_are_integers_below_p(value: Any) -> None:
    """The golden job's first two are 1, and true is 1 to Python."""
    job = golden("fibonacci")
    part = job["partitions"][0]
    public = [value, value, part["public"][2]]
    key, own = VerifyingKey.from_record(job["key"]), second_verifier.Key(job["key"])
    proof, shape = StarkProof.from_record(part["proof"], key)
    with pytest.raises(InvalidProof, match="canonical public values"):
        verifier.verify(key, part["name"], public, proof, shape)
    with pytest.raises(second_verifier.Refused, match="an integer out of range"):
        second_verifier.verify_partition(own, part["name"], public, second_verifier.Proof(own, part["proof"]))


def test_multiplicities_of_local_buses_are_added_up_over_the_job() -> None:
    """They balance in each partition, and their limit is one of all partitions together all the same."""
    record = copy.deepcopy(RECORDS["ring"])
    for table in record["tables"]:
        for use in table["uses"]:
            use[5] = (P - 1) // 2**7 if use[2] == "local" and use[4] else use[5]
    key, own = VerifyingKey.from_record(record), second_verifier.Key(record)
    for partitions, holds in ((1, True), (2, False)):
        checks: list[Callable[[], None]] = [
            lambda: verifier.check_multiplicities(key.tables, [(6, 4)] * partitions, []),  # noqa: B023
            lambda: second_verifier.check_multiplicities(own, [(6, 4)] * partitions, []),  # noqa: B023
        ]
        for check in checks:
            with nullcontext() if holds else pytest.raises(REFUSALS):
                check()


def test_bits_are_counted_with_the_widest_bus_of_the_key_used_or_not() -> None:
    record = copy.deepcopy(RECORDS["ring"])
    record["buses"] += [["unused", "local", 255], ["unused too", "global", 256]]
    shape, own = ProofShape(VerifyingKey.from_record(record), (6, 4)), second_verifier.Key(record)
    (loads,) = statistics_of_job(shape.key, [shape.log_heights] * 2)
    for scope, load, partitions, width in (("local", loads.local, 1, 255), ("global", loads.shared, 2, 256)):
        boundary = 2 if scope == "global" else 0
        error = second_verifier.error_of_buses(own, scope, [[6, 4]] * partitions, boundary)
        assert (load.width, load.tuples * (load.width + 2)) == (width, error)


def shifted(name: str) -> list[tuple[Any, ...]]:
    return [place for place in places(RECORDS[name]) if place]


@settings(max_examples=200)
@given(st.data())
def test_both_take_and_refuse_the_same_keys(data: st.DataObject) -> None:
    """Anything at any place of a key."""
    name = data.draw(st.sampled_from(sorted(JOBS)))
    place = data.draw(st.sampled_from(shifted(name)))
    old = at(RECORDS[name], place)
    near = st.integers(old - 2, old + 2) if type(old) is int else st.sampled_from([old, None, 0, 1, "", []])
    changed = with_value(RECORDS[name], place, data.draw(st.one_of(anything, near)))
    assert ours(changed) == second(changed)


@settings(max_examples=200)
@given(st.data())
def test_both_take_and_refuse_the_same_programs(data: st.DataObject) -> None:
    """Any small word at any place of a table's instructions or outputs."""
    name = data.draw(st.sampled_from(sorted(JOBS)))
    table = data.draw(st.integers(0, len(RECORDS[name]["tables"]) - 1))
    part = data.draw(st.sampled_from(["constraints", "interactions"]))
    field = data.draw(st.sampled_from(["code", "outputs"]))
    program = RECORDS[name]["tables"][table][part]
    if program is None:
        return
    words = bytearray(program[field])
    at = 4 * data.draw(st.integers(0, len(words) // 4 - 1))
    words[at : at + 4] = data.draw(st.integers(-1, 40)).to_bytes(4, "little", signed=True)
    changed = with_value(RECORDS[name], ("tables", table, part, field), bytes(words))
    assert ours(changed) == second(changed)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


ENCODED: dict[str, tuple[bytes, bool]] = {
    "16 containers": (msgpack.packb(nested(16)), True),
    "17 containers": (msgpack.packb(nested(17)), False),
    "an empty list within 16": (msgpack.packb(nested(16)).replace(b"\0", b"\x90"), True),
    "2^64 - 1": (msgpack.packb(2**64 - 1), True),
    "-2^63": (msgpack.packb(-(2**63)), True),
    "a number in two bytes": (b"\xcc\x01", False),
    "a zero below zero": (b"\xd0\x00", False),
    "a float": (msgpack.packb(1.5), False),
    "an extension type": (b"\xd4\x05\x00", False),
    "a time": (b"\xd6\xff\x00\x00\x00\x00", False),
    "a key twice": (b"\x82\xa1a\x01\xa1a\x01", False),
    "keys in another order": (b"\x82\xa1b\x01\xa1a\x01", False),
    "a key that is a number": (b"\x81\x01\x01", False),
    "a key of bytes": (b"\x81\xc4\x01a\x01", False),
    "a string that is not UTF-8": (b"\xa1\xff", False),
    "more than is there": (b"\x92\x01", False),
    "bytes after the end": (b"\x01\x01", False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("name", ENCODED)
def test_one_encoding_of_a_value(name: str) -> None:
    data, taken = ENCODED[name]
    for read in (lambda: canonical.decode(data, "value"), lambda: second_verifier.decode(data)):
        if taken:
            read()
        else:
            with pytest.raises(REFUSALS):
                read()


@pytest.mark.parametrize("over", [False, True])
def test_a_file_holds_so_many_values(over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The containers and a map's keys included. The limit is another here, so that the test is not slow."""
    assert canonical.MAX_ITEMS == second_verifier.MOST_VALUES == 1 << 22
    data = canonical.encode([1, {"a": None, "b": [True]}, b"12", *([0] if over else [])])
    assert len(data) // 4 == 3
    monkeypatch.setattr(canonical, "MAX_ITEMS", 6)
    monkeypatch.setattr(second_verifier, "MOST_VALUES", 6)
    for read in (lambda: canonical.decode(data, "value"), lambda: second_verifier.decode(data)):
        if over:
            with pytest.raises(REFUSALS):
                read()
        else:
            read()


def test_a_boundary_tuple_of_fingerprint_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """No challenge can be made so; were one, nothing could be divided by it. Each verifier comes to the boundary."""
    job = golden("ring")
    key = VerifyingKey.from_record(job["key"])
    challenges = ((P - key.bus_numbers["ring"], 0, 0), (0, 0, 0))
    rules = replace(verifier.RULES, global_challenges=lambda challenge, tree_hash: challenges)
    monkeypatch.setattr(verifier, "RULES", rules)
    monkeypatch.setattr(second_verifier, "global_challenges", lambda challenge, tree_hash: challenges)
    monkeypatch.setattr(second_verifier, "verify_partition", lambda *given: [])
    names, publics = ([part[field] for part in job["partitions"]] for field in ("name", "public"))
    proofs = [StarkProof.from_record(part["proof"], key)[0] for part in job["partitions"]]
    with pytest.raises(InvalidProof, match="fingerprint zero"):
        verifier.verify_job(key, names, publics, proofs)
    with pytest.raises(second_verifier.Refused, match="division by zero"):
        second_verifier.verify_job(job["key"], [(p["name"], p["public"], p["proof"]) for p in job["partitions"]])


@pytest.mark.parametrize("name", ["", ".hidden", "-part", "a b", "a/b", "ä", "n" * 121, "part\n"])
def test_names_of_partitions(name: str) -> None:
    """They are refused for themselves, before anything that follows from them is looked at."""
    job = golden("fibonacci")
    part = job["partitions"][0]
    key = VerifyingKey.from_record(job["key"])
    proof, shape = StarkProof.from_record(part["proof"], key)
    with pytest.raises(InvalidProof, match="not a partition's name"):
        verifier.verify(key, name, part["public"], proof, shape)
    own = second_verifier.Key(job["key"])
    with pytest.raises(second_verifier.Refused, match="not a partition's name"):
        second_verifier.verify_partition(own, name, part["public"], second_verifier.Proof(own, part["proof"]))
