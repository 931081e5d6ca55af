"""What programs say of their tables' heights before a trace is made: the number of queries rests on it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from distprove.errors import UsageError
from distprove.stark.example import cut, fixed_columns, placed
from distprove.stark.plan import fits
from distprove.stark.program import Program, whole_trace
from distprove.stark.programs import PROGRAMS, load_program
from distprove.stark.security import choose_parameters
from distprove.stark.verifying_key import compile_program
from kernels.cpu.backend import CpuBackend
from tests.stark.riscv.test_guests import GUESTS
from tests.support.stark_programs import Fibonacci
from tests.support.stark_reference import ReferenceBackend


def heights_of_traces(program: Program, partitions: int) -> list[tuple[int, ...]]:
    backend = ReferenceBackend()
    fixed = placed(fixed_columns(program), backend)
    traces = [whole_trace(program, program.inputs(s.source), fixed, backend) for s in program.slices(partitions)]
    return [tuple(int(m.shape[1]).bit_length() - 1 for m in trace.main if m is not None) for trace in traces]


SMALL: dict[str, list[dict[str, int | str]]] = {
    "fibonacci": [{"rows": 1}, {"rows": 16}],
    "wide-fibonacci": [{"rows": 8, "width": 4}],
    "keccak-f": [{"permutations": 1}, {"permutations": 5}],
    "range-check": [{"values": 1, "bits": 2}, {"values": 9, "bits": 5}],
}


def test_all_programs_are_covered() -> None:
    assert {*SMALL, "file-root", "riscv"} == set(PROGRAMS)


@pytest.mark.parametrize("guest", ["fibonacci", "keccak_f"])
@pytest.mark.parametrize("segment", [256, 1 << 20])
def test_a_guest_in_segments(tmp_path: Path, segment: int, guest: str) -> None:
    """Its run tells the heights, before any trace is made."""
    (tmp_path / "input").write_bytes((100).to_bytes(4, "little") * (1 if guest == "fibonacci" else 75))
    where = "public" if guest == "fibonacci" else "input"
    given = {"elf": str(GUESTS / f"{guest}.elf"), where: str(tmp_path / "input"), "segment": segment}
    program = load_program("riscv", given)
    key = compile_program(program, choose_parameters(program, 1, queries=1))
    made = cut(program, None, partial(fits, key))
    assert (len(made.slices) > 1) == (segment == 256)
    with CpuBackend() as backend:
        fixed = placed(fixed_columns(program), backend)
        for slice_, told in zip(made.slices, made.log_heights, strict=True):
            trace = whole_trace(program, program.inputs(slice_.source), fixed, backend)
            assert [None if m is None else int(m.shape[1]).bit_length() - 1 for m in trace.main] == list(told)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("partitions", [1, 3])
def test_programs(name: str, partitions: int) -> None:
    for arguments in SMALL[name]:
        program = load_program(name, arguments)
        assert [tuple(h) for h in program.log_heights(partitions)] == heights_of_traces(program, partitions)


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 21, 64])
@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
def test_a_file_of_any_size(tmp_path: Path, chunks: int, partitions: int) -> None:
    (tmp_path / "file").write_bytes(bytes(128 * chunks - 5))
    program = load_program("file-root", {"file": str(tmp_path / "file")})
    if partitions > chunks:
        with pytest.raises(UsageError, match="at most so many partitions"):
            program.log_heights(partitions)
    else:
        assert [tuple(h) for h in program.log_heights(partitions)] == heights_of_traces(program, partitions)


def test_a_program_that_does_not_say() -> None:
    with pytest.raises(UsageError, match="the number of queries must be given"):
        Fibonacci().log_heights(1)
