"""Both verifiers of the multilinear engine accept the same proofs, and refuse every change of every field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import FormatError, InvalidProof
from distprove.stark.field import P
from distprove.stark.multilinear.params import Parameters
from kernels.interface.tree_hash import TreeHash
from tests.support import second_multilinear_verifier as second
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.stark_programs import Ring, Sparse

SMALL = Parameters(1, 2, (5,) * 8, 8, 0, log_final=1)
"""Parameters with several rounds of WHIR for small tables. Not for use. The next nonce hardly ever does the work. Where
it does, and its queries meet the leaves that are opened, it is as good as the first."""


@cache
def made(name: str) -> MultilinearJob:
    if name == "range-check":  # local buses, preprocessed columns
        return prove_program(name, {"values": 16, "bits": 4}, partitions=2, params=SMALL)
    if name == "global":  # both scopes
        return prove_program(Ring(5), partitions=3, params=SMALL)
    if name == "sparse":  # absent tables, one of them with preprocessed columns
        return prove_program(Sparse(), partitions=2, params=SMALL)
    if name == "poseidon2":
        return prove_program(Ring(3), partitions=2, params=replace(SMALL, tree_hash=TreeHash.POSEIDON2))
    if name == "poseidon2-bn254":
        return prove_program(Ring(3), partitions=2, params=replace(SMALL, tree_hash=TreeHash.POSEIDON2_BN254))
    return prove_program("fibonacci", {"rows": 32}, partitions=2, params=SMALL)


NAMES = ["fibonacci", "range-check", "global", "sparse", "poseidon2", "poseidon2-bn254"]


def second_accepts(job: MultilinearJob) -> bool:
    try:
        second.verify_job(job.key.to_record(), [(p.name, list(p.public), p.data) for p in job.proofs], job.output)
    except second.Refused:
        return False
    return True


def first_accepts(job: MultilinearJob, changed: int = 0) -> bool:
    """`changed`: the partition to look at first, which saves the others' verification where it is refused."""
    try:
        job.check_partition(changed)
        job.check()
    except (InvalidProof, FormatError):
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_both_accept(name: str) -> None:
    assert first_accepts(made(name))
    assert second_accepts(made(name))


def mutations(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes of every field: a bit in each element or digest, another length, a value that is not canonical."""
    for field, value in record.items():
        if isinstance(value, bytes):
            yield from ((f"{field} {what}", {**record, field: changed}) for what, changed in of_bytes(value))
        elif field == "trees":
            for i, tree in enumerate(value):
                parts = {"path": [tree["path"]], "rows": tree["rows"]}
                for part, (content,) in parts.items():
                    for what, changed in of_bytes(content):
                        new = {**tree, part: changed if part == "path" else [changed]}
                        yield f"trees {i} {part} {what}", {**record, field: [*value[:i], new, *value[i + 1 :]]}
                yield f"trees {i} left out", {**record, field: [*value[:i], *value[i + 1 :]]}
        else:
            yield f"{field} longer", {**record, field: [*value, *value[:1]]} if value else {**record, field: [0]}
            for i, item in enumerate(value):
                changed = bytes([item[0] ^ 1]) + item[1:] if isinstance(item, bytes) else item + 1
                yield f"{field} {i}", {**record, field: [*value[:i], changed, *value[i + 1 :]]}
                yield f"{field} {i} left out", {**record, field: [*value[:i], *value[i + 1 :]]}
        yield f"{field} missing", {name: v for name, v in record.items() if name != field}
        yield f"{field} of another type", {**record, field: 7}


def of_bytes(value: bytes) -> Iterator[tuple[str, bytes]]:
    places = range(0, len(value), 8) if len(value) < 400 else range(0, len(value), 8 * (len(value) // 320))
    for at in places:
        yield f"byte {at}", value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    yield "longer", value + bytes(8)
    if len(value) >= 8:
        yield "shorter", value[:-8]
        first = int.from_bytes(value[:8], "little")
        if first + P < 1 << 64:
            yield "not canonical", (first + P).to_bytes(8, "little") + value[8:]


@pytest.mark.parametrize("name", NAMES)
def test_every_change_of_every_field_is_refused(name: str) -> None:
    job = made(name)
    accepted = [what for what, record in mutations(job.proofs[1].data) if first_accepts(job.with_record(1, record), 1)]
    # A nonce is any that does the work, which changes the queries and so the openings.
    assert accepted == []


@pytest.mark.parametrize("name", NAMES)
def test_the_second_verifier_refuses_what_the_first_does(name: str) -> None:
    job = made(name)
    changes = [change for i, change in enumerate(mutations(job.proofs[0].data)) if i % 7 == 0]
    assert [what for what, record in changes if second_accepts(job.with_record(0, record))] == []


Change = Callable[[MultilinearJob], MultilinearJob]


def test_a_second_verifier_at_full_parameters(tmp_path: Path) -> None:
    job = prove_program("range-check", {"values": 64, "bits": 4})
    assert job.key.params.security_bits == 128
    assert first_accepts(job)
    assert second_accepts(job)
