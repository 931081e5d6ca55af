"""The tables of the RISC-V machine accept what the plain interpreter executes."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.air import trace_air
from distprove.stark.air.bounds import unconfirmed
from tests.support import riscv_asm as asm
from tests.support.riscv_oracle import run
from tests.support.riscv_programs import CORNERS, fibonacci, operation, permuting, random_program
from tests.support.riscv_traces import AIRS, LAYOUT, job_of

INPUT = bytes(range(64))


@pytest.mark.parametrize("segment", [1 << 20, 16])
def test_a_loop(segment: int) -> None:
    found = run(fibonacci(20), segment=segment)
    assert (found.exit_code, found.output) == (7, [6765])
    job = job_of(found)
    assert job.failures() == []
    assert job.public[-1]["exit_code"] == 7
    assert np.frombuffer(job.output, dtype="<u4").tolist() == found.output


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    found = run(random_program(seed, 600), INPUT, INPUT[::-1], segment=128 if seed % 2 else 1 << 12)
    assert job_of(found).failures() == []


@pytest.mark.parametrize("name", asm.REGISTER_OPS)
def test_operations_on_corner_values(name: str) -> None:
    code = []
    for a in CORNERS:
        code += asm.li(5, a)
        for b in CORNERS:
            code += [*asm.li(6, b), asm.op(name, 7, 5, 6)]
    assert job_of(run(asm.image([*code, *asm.leave()]))).failures() == []


@pytest.mark.parametrize("segment", [1 << 20, 4])
def test_keccak_f(segment: int) -> None:
    """States that overlap, in one segment and over several, some of which have no call and no table for any."""
    found = run(permuting(4), segment=segment)
    job = job_of(found)
    assert job.failures() == []
    assert np.frombuffer(job.output, dtype="<u4").tolist() == found.output
    present = ["keccak" in main for main in job.main]
    assert present == [bool(len(record.permuted_before)) for record in found.records]
    assert all(present) == (segment > 4)


def test_an_operation_by_itself() -> None:
    found = run(operation("mulh", 0x80000000, 0xFFFFFFFF))
    assert found.exit_code == 0
    assert job_of(found).failures() == []


def test_multiplicities_are_bounded() -> None:
    """Every bound on a multiplicity follows from a constraint that the check of bounds recognises."""
    for air in AIRS.values():
        assert unconfirmed(trace_air(air, LAYOUT)) == [], air.name
