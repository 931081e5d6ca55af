"""Segments at few different heights, as a job that ends in one proof has them."""

from __future__ import annotations

import pytest

from distprove.errors import UsageError
from distprove.stark.example import program_example
from distprove.stark.heights import tallest
from distprove.stark.program import Cut, Fits
from distprove.stark.riscv.calls import PRECOMPILES
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import raised
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from tests.support.multilinear_jobs import prove_program
from tests.support.riscv_asm import branch, call, imm, leave, li, load, op, store
from tests.support.riscv_elf import code_file
from tests.support.riscv_programs import DATA

NAMES = [air.name for air in MACHINES[32].tables_of(tuple(PRECOMPILES))]
SEGMENT = 64


class Levelled(RiscV):
    kinds = 1

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        return self.levelled(super().cut(partitions, fits), self.kinds)


def idle() -> list[int]:
    """A loop of three segments that asks nothing of the optional tables."""
    return [*li(7, SEGMENT), imm("addi", 7, 7, -1), imm("addi", 6, 6, 3), branch("bne", 7, 0, -8)]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Multiplies, permutes, hashes, makes products, and doubles and adds points in its middle; a word of a result is
    written to the output. Nothing divides."""
    permutes = [*li(10, DATA), *call(6), load("lw", 10, 10, 12), *call(2)]
    used = [*li(8, DATA), op("mul", 9, 6, 6), op("xor", 9, 9, 6), store("sb", 9, 8), op("sll", 9, 9, 6), *permutes]
    used += [*li(10, DATA), *call(8), *li(10, DATA + 0x600), *li(11, DATA + 0x400)]
    used += [store("sw", 11, 10, 4 * k) for k in range(3)]  # a product whose operands are one
    used += [*call(10), *call(12)]
    for number, point, y in ((15, DATA + 0x500, 32), (21, DATA + 0x700, 48)):
        used += [*li(10, point), store("sw", 11, 10, y), *call(number)]
    used += [*li(10, DATA + 0x640), *li(11, DATA + 0x500), store("sw", 11, 10), store("sw", 11, 10, 4), *call(22)]
    path = tmp_path_factory.mktemp("levelled") / "guest.elf"
    over_a_cut = [imm("addi", 6, 6, 0)] * 30
    code = [*idle(), *over_a_cut, *used, *idle(), *leave(7)]
    path.write_bytes(code_file(code, data=bytes(range(240)), data_address=DATA))
    return str(path)


def test_segments_have_the_tallest_tables_of_their_run(guest: str) -> None:
    program = RiscV(elf=guest, segment=SEGMENT)
    cut = program.cut(None, lambda heights: True)
    made = program.levelled(cut)
    assert cut.log_heights is not None
    assert made.log_heights is not None
    assert len({tuple(heights) for heights in cut.log_heights}) > 2
    assert len({tuple(heights) for heights in made.log_heights}) == 1
    absent = {name for name, height in zip(NAMES, made.log_heights[0], strict=True) if height is None}
    assert absent == {"divide", "compare"}
    assert absent < {*MACHINES[32].optional}
    for own, height in zip(zip(*cut.log_heights, strict=True), made.log_heights[0], strict=True):
        assert {*own} - {None} == set() if height is None else max(h for h in own if h is not None) == height
    assert [part.name for part in made.slices] == [part.name for part in cut.slices]
    assert made.output == cut.output


def test_segments_that_differ_much_have_few_different_heights(guest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distprove.stark.riscv.program.ANOTHER_KIND", 0)
    program = RiscV(elf=guest, segment=SEGMENT)
    cut = program.cut(None, lambda heights: True)
    made = program.levelled(cut, 2)
    assert cut.log_heights is not None
    assert made.log_heights is not None
    assert len({*made.log_heights}) == 2 < len({tuple(own) for own in cut.log_heights})
    for own, heights, part in zip(cut.log_heights, made.log_heights, made.slices, strict=True):
        assert tallest([own, heights]) == heights
        named = {name: height for name, height in zip(NAMES, heights, strict=True) if height is not None}
        assert part.source["heights"] == named
    with CpuBackend(threads=2) as backend:
        program = Levelled(elf=guest, segment=SEGMENT)
        program.kinds = 2
        assert program_example(program, None, backend).check() == []


def test_their_rules_hold(guest: str) -> None:
    with CpuBackend(threads=2) as backend:
        program = Levelled(elf=guest, segment=SEGMENT)
        example = program_example(program, None, backend)
    traces = [partition.main for partition in example.partitions]
    assert len({tuple(None if m is None else m.shape for m in main) for main in traces}) == 1
    assert example.check() == []


def test_they_are_proven_and_verified(guest: str) -> None:
    program = Levelled(elf=guest, segment=SEGMENT)
    prove_program(program, partitions=None, security=1, grinding=0, hash=TreeHash.POSEIDON2.value).check()


def test_a_height_below_the_segments_need_is_refused() -> None:
    assert raised({"cpu": 5, "host": 6}, {"cpu": 7, "divide": 5}) == {"cpu": 7, "host": 6, "divide": 5}
    with pytest.raises(UsageError, match="more rows of cpu"):
        raised({"cpu": 5}, {"cpu": 4})


def test_declared_heights_are_those_of_every_segment(guest: str) -> None:
    """Also of tables that the run does without."""
    run = RiscV(elf=guest, segment=SEGMENT)
    own = run.levelled(run.cut(None, lambda heights: True)).log_heights
    assert own is not None
    text = run.declares(own[0])
    assert "rom" not in text
    assert RiscV(elf=guest, heights=text).declared_heights == tuple(own[0])
    taller = ",".join(f"{name}={int(height) + 1}" for name, height in (item.split("=") for item in text.split(",")))
    program = Levelled(elf=guest, segment=SEGMENT, heights=f"{taller},divide=5,compare=6")
    made = program.cut(None, lambda heights: True)
    assert made.log_heights is not None
    assert {tuple(heights) for heights in made.log_heights} == {program.declared_heights}
    with CpuBackend(threads=2) as backend:
        assert program_example(program, None, backend).check() == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cpu", "expected TABLE=LOG2"),
        ("cpu=6,cpu=6", "each table once"),
        ("cpu=-6", "expected TABLE=LOG2"),
        ("cpu=" + "9" * 5000, "expected TABLE=LOG2"),
        ("cpu=\u0668", "expected TABLE=LOG2"),
        ("rom=6", "rom is no table whose height is declared"),
        ("chip=6", "chip is no table whose height is declared"),
        ("cpu=4,host=5,words=5,touched=5", "cpu is from 5 to"),
        ("cpu=60,host=5,words=5,touched=5", "cpu is from 5 to"),
        ("cpu=6", "which every segment has"),
    ],
)
def test_declared_heights_that_no_segment_has(guest: str, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        RiscV(elf=guest, heights=text)


def test_a_run_that_needs_more_than_is_declared_is_refused(guest: str) -> None:
    run = RiscV(elf=guest, segment=SEGMENT)
    own = run.levelled(run.cut(None, lambda heights: True)).log_heights
    assert own is not None
    text = run.declares(own[0])
    without = ",".join(item for item in text.split(",") if not item.startswith("keccak="))
    with pytest.raises(UsageError, match="rows of keccak, and no rows are declared"):
        Levelled(elf=guest, segment=SEGMENT, heights=without).cut(None, lambda heights: True)
