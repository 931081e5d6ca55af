"""Every field of the golden jobs changed, one at a time: both verifiers refuse every one, in their own typed way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from distprove.stark.field import P
from distprove.stark.proof import StarkProof
from distprove.stark.verifying_key import VerifyingKey
from tests.support.golden_jobs import JOBS, golden
from tests.support.golden_verifiers import REFUSALS, VERIFIERS, Verify, ours
from tests.support.records import Place, at, with_value


def leaves(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place in a record that is not a container, and every empty list."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    found = [path for key, child in children for path in leaves(child, (*here, key))] if children is not None else []
    yield from found or [here]


def mutants(value: Any) -> Iterator[Any]:
    """Other values for one leaf: near ones, and ones of another size or type."""
    if isinstance(value, bytes):
        places = sorted({0, len(value) // 2, len(value) - 1}) if value else []
        for i in places:
            yield value[:i] + bytes([value[i] ^ (1 << (i % 8))]) + value[i + 1 :]
        # Words of 8 bytes: the next element, and the same one in its other form, where 64 bits have room for it.
        for i in sorted({0, len(value) // 16 * 8, len(value) - 8}) if len(value) >= 8 and len(value) % 8 == 0 else []:
            word = int.from_bytes(value[i : i + 8], "little")
            for other in ((word + 1) % P, word + P):
                if other < 1 << 64:
                    yield value[:i] + other.to_bytes(8, "little") + value[i + 8 :]
        yield value + b"\0"
        yield value[:-1] if value else None
        yield bytes(value[::-1]) if value != value[::-1] else bytes(len(value) + 32)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (v for v in (value + 1, value - 1, value + P, -value - 1, 1 << 63) if -(1 << 63) <= v < 1 << 64)
    elif isinstance(value, str):
        yield from (value + "x", value[:-1])
    elif isinstance(value, list):
        yield from ([b""], None)
    else:
        yield from (0, "")


def refuses(verify: Verify, job: dict[str, Any]) -> bool:
    try:
        verify(job)
    except REFUSALS:
        return True
    return False


def survivors(verify: Verify, job: dict[str, Any], paths: list[Place], every: int = 1) -> list[tuple[Place, Any]]:
    """What is accepted of the changes of these places: of all of them, or of every so manieth."""
    tried = [(path, value) for path in paths for value in mutants(at(job, path))][::every]
    assert len(tried) > len(paths) or every > 1
    return [(path, value) for path, value in tried if not refuses(verify, with_value(job, path, value))]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_no_changed_proof_name_or_public_value_is_accepted(name: str, verify: Verify) -> None:
    job = golden(name)
    parts = [("partitions", 0, *path) for path in leaves(job["partitions"][0])]
    assert len(parts) >= 20
    # The second verifier takes a tenth of a second for what the first takes a hundredth.
    assert survivors(verify, job, parts, every=1 if verify is ours else 4) == []


def items_of_trees(job: dict[str, Any]) -> Iterator[tuple[Place, int]]:
    """Every list of nodes and of rows in the first partition's proof, and the bytes of one item."""
    _, shape = StarkProof.from_record(job["partitions"][0]["proof"], VerifyingKey.from_record(job["key"]))
    for i, tree in enumerate([*shape.rounds.values(), *shape.fri_trees]):
        here = ("partitions", 0, "proof", "trees", i)
        yield (*here, "path"), 32
        yield from (((*here, "rows", m), 8 * width) for m, (_, width) in enumerate(tree.matrices))


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_no_node_or_row_may_be_doubled_left_out_added_or_moved(name: str, verify: Verify) -> None:
    job = golden(name)
    spoiled: list[tuple[Place, bytes]] = []
    for place, size in items_of_trees(job):
        data = at(job, place)
        items = [data[i : i + size] for i in range(0, len(data), size)]
        others = [[*items, bytes(size)], items[::-1], items[1:] + items[:1]]
        if items:
            others += [[items[0], *items], [*items, items[-1]], items[1:], items[:-1], [items[-1], *items[:-1]]]
        spoiled += [(place, b"".join(other)) for other in others if other != items]
    assert len(spoiled) > 50
    for place, value in spoiled[:: 1 if verify is ours else 4]:
        assert refuses(verify, with_value(job, place, value)), place


@pytest.mark.parametrize("name", ["fibonacci", "ring"])
def test_no_changed_key_is_accepted(name: str) -> None:
    """The key's digest is in every transcript, so that not even its names and bounds can be others."""
    job = golden(name)
    assert survivors(ours, job, [("key", *path) for path in leaves(job["key"])]) == []


@pytest.mark.parametrize("verify", VERIFIERS)
def test_no_part_of_a_proof_may_be_of_another_type(verify: Verify) -> None:
    job = golden("fibonacci")
    for path in leaves(job["partitions"][0]["proof"]):
        whole = ("partitions", 0, "proof", *path)
        for value in (None, True, "text", [], {}, [0], b""):
            assert value == at(job, whole) or refuses(verify, with_value(job, whole, value)), path


def lists(value: Any, here: Place = ()) -> Iterator[Place]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, list):
        yield here
    for key, child in children:
        yield from lists(child, (*here, key))


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("verify", VERIFIERS)
def test_no_list_may_be_longer_shorter_or_in_another_order(name: str, verify: Verify) -> None:
    job = golden(name)
    for path in [("partitions",), *(("partitions", 0, *p) for p in lists(job["partitions"][0]))]:
        items = at(job, path)
        others = [items[:-1], [*items, items[-1]], items[::-1]] if items else [[0]]
        for other in others:
            assert other == items or refuses(verify, with_value(job, path, other)), path


@pytest.mark.parametrize("verify", VERIFIERS)
def test_parts_of_one_partition_do_not_fit_another(verify: Verify) -> None:
    job = golden("ring")
    first, second = job["partitions"]
    for field in first["proof"]:
        if first["proof"][field] != second["proof"][field]:
            assert refuses(verify, with_value(job, ("partitions", 0, "proof", field), second["proof"][field])), field
    assert refuses(verify, with_value(job, ("partitions", 0, "public"), second["public"]))
    assert refuses(verify, with_value(job, ("partitions", 0, "name"), second["name"]))


@pytest.mark.parametrize("verify", VERIFIERS)
def test_fields_cannot_be_added_or_left_out(verify: Verify) -> None:
    job = golden("fibonacci")
    proof = job["partitions"][0]["proof"]
    for record, path in ((proof, ()), (proof["trees"][0], ("trees", 0))):
        whole = ("partitions", 0, "proof", *path)
        assert refuses(verify, with_value(job, whole, {**record, "more": 0}))
        for field in record:
            assert refuses(verify, with_value(job, whole, {k: v for k, v in record.items() if k != field}))
