"""Wraps that a contract reads: their public values, and the file of their program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distprove.circuits.wrap.statement import READ_NAMES, read_values
from distprove.errors import FormatError, InvalidKey, InvalidProof
from distprove.formats import canonical
from distprove.proof import SALT
from distprove.stark.recursion.contract import Read
from distprove.stark.wrap.contract_verifier import halves, read_in
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.partition import proven, states, wrap_in
from distprove.stark.wrap.program_file import ProgramFile
from distprove.system import Partition, PartitionProof
from kernels.maths.curves import BN254
from tests.support.simulated_proofs import trapdoor

PROGRAM = (1, (1 << 64) - (1 << 32), 3, 4)
READ = Read(PROGRAM, 9, b"twelve bytes")
VALUES = read_values(READ.scalars())
FILE = ProgramFile({"program": "riscv"}, (5, None, 20), 13)


def test_values_have_all_that_is_read() -> None:
    assert VALUES[:2] == (PROGRAM[0] + (PROGRAM[1] << 64), 3 + (4 << 64)) == halves(PROGRAM)
    assert VALUES[2] == int.from_bytes(b"twelve bytes", "little")
    assert VALUES[3:] == (0, 9 + (12 << 32))
    for output in (b"", bytes(32), b"\xff" * 32, READ.output):
        read = replace(READ, output=output, exit_code=(1 << 32) - 1)
        assert read_in(read_values(read.scalars()), PROGRAM) == read


@pytest.mark.parametrize(
    "changed",
    [
        {0: VALUES[0] + 1},
        {1: VALUES[1] + 1},
        {2: VALUES[2] + (1 << 96)},  # a byte behind the output
        {3: 1},
        {2: 1 << 128},
        {4: 9 + (11 << 32)},
        {4: 9 + (8 << 32)},
        {4: 9 + (36 << 32)},
        {4: 1 << 200},
    ],
)
def test_values_that_no_wrap_has_are_refused(changed: dict[int, int]) -> None:
    public = tuple(changed.get(place, value) for place, value in enumerate(VALUES))
    with pytest.raises(InvalidProof):
        read_in(public, PROGRAM)


def test_other_numbers_of_values_are_refused() -> None:
    for public in ((), VALUES[:4], (*VALUES, 0)):
        with pytest.raises(InvalidProof, match="has 5 public values"):
            read_in(public, PROGRAM)


def wrapped(count: int, salt: bytes | None) -> PartitionProof:
    """A partition's proof with a wrap of so many public values."""
    secret, public = trapdoor(BN254, count), (VALUES if count == len(READ_NAMES) else (5,))
    wrap = Wrap(secret.key, secret.prove(list(public), seed=0), public)
    return proven(Partition(0, "groth16", bytes(32), {}), wrap, salt)


def test_a_wrap_of_the_other_kind_is_refused() -> None:
    read, hidden = wrapped(5, None), wrapped(1, bytes(32))
    assert wrap_in(read, read=True).public == VALUES
    assert wrap_in(hidden).public == (5,)
    for proof, asked in ((read, False), (hidden, True)):
        with pytest.raises(FormatError):
            wrap_in(proof, read=asked)
    salted = replace(read, data={**read.data, SALT: bytes(32)})
    with pytest.raises(FormatError):
        wrap_in(salted, read=True)
    with pytest.raises(InvalidKey, match="has 1 public value"):
        wrap_in(salted)
    with pytest.raises(InvalidKey, match="has 5 public values"):
        wrap_in(wrapped(1, None), read=True)


def test_it_states_what_the_second_root_does() -> None:
    read = wrapped(5, None)
    second = PartitionProof("wrap", bytes(32), READ.scalars(), {})
    assert states(read, [second], read=True)
    other = replace(second, public=replace(READ, exit_code=8).scalars())
    assert not states(read, [other], read=True)


def test_the_file_of_a_program_is_read_as_it_was_written() -> None:
    assert ProgramFile.from_bytes(FILE.to_bytes()) == FILE
    assert len(FILE.leaf) == 4
    record = canonical.decode(FILE.to_bytes(), "file")
    for changed in (
        {"format": "distprove.stark"},
        {"heights": b""},
        {"heights": [5]},
        {"heights": bytes(513)},
        {"name_length": 0},
        {"name_length": 121},
        {"name_length": True},
        {"verification_key": []},
        {"more": 1},
    ):
        with pytest.raises(FormatError):
            ProgramFile.from_bytes(canonical.encode({**record, **changed}))
