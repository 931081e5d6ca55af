"""The multilinear engine's memory plans: predicted as a device measures it, and kept to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.memory import choose, key_bytes, plans, stages
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.multilinear.shape import Shape
from distprove.stark.plan import CONSTANT_BYTES, CONTEXT_BYTES, MemoryPlan, usable
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.programs.file_root import FileRoot
from kernels.errors import OutOfMemory
from tests.support import ROOT
from tests.support.dry_device import Measured, measured
from tests.support.stark_programs import Tables

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"
MIB = 1 << 20
FIBONACCI = (20, None, 5, 5, None, None, 5, 5, None, None, 5, 5, 6, 6, 6, 18)
"""A RISC-V segment of 2^20 cycles of Fibonacci."""
TALL = (21, 17, 20, 19, 17, 14, 19, 19, 12, 12, 18, 18, 6, 6, 6, 18)
"""One of 2^21 cycles, in which most of the tables are tall."""
GUEST: Mapping[str, int | str] = {"elf": str(GUESTS / "fibonacci.elf")}
SHAPES: Mapping[str, tuple[str | Program, Mapping[str, int | str], tuple[int | None, ...], str]] = {
    "wide-fibonacci": ("wide-fibonacci", {"rows": 1 << 20, "width": 64}, (20,), "speed"),
    "wide-fibonacci, rate 1/4": ("wide-fibonacci", {"rows": 1 << 18, "width": 64}, (18,), "size"),
    "range-check": ("range-check", {"values": 1 << 20, "bits": 16}, (20, 16), "speed"),
    "30 tables": (Tables(29, 17), {}, (17,) * 30, "speed"),
    "riscv": ("riscv", GUEST, FIBONACCI, "speed"),
    "riscv, rate 1/4": ("riscv", GUEST, FIBONACCI, "size"),
    "riscv, 2^21": ("riscv", GUEST, (21, *FIBONACCI[1:]), "speed"),
    "riscv, 2^21, rate 1/4": ("riscv", GUEST, (21, *FIBONACCI[1:]), "size"),
    "riscv, tall": ("riscv", GUEST, TALL, "speed"),
    "keccak-f": ("keccak-f", {"permutations": 43690}, (20,), "speed"),
    "file-root": (FileRoot(), {}, (18, 5, 6), "speed"),
    "file-root, narrow, rate 1/4": (FileRoot(layout="narrow"), {}, (18, 5), "size"),
}


@cache
def shape_of(name: str) -> tuple[Program, Shape]:
    program, arguments, heights, prefer = SHAPES[name]
    loaded = load_program(program, dict(arguments)) if isinstance(program, str) else program
    params = choose_parameters(loaded, 1, known=[heights], prefer=prefer)
    return loaded, Shape(compile_key(loaded, params), heights)


def measure(name: str, budget: int = 1 << 50) -> Measured:
    program, shape = shape_of(name)
    return measured(program, shape.log_heights, shape.key.params, budget)


def assert_predicted(shape: Shape, found: Measured, plan: MemoryPlan) -> None:
    """Never less than is taken, and at most 2 % more; each step within 10 % of the whole, so that none hides behind
    another."""
    assert found.plan == plan.name
    known = stages(shape, lean=plan.lean, streamed=plan.streamed)
    peak = found.key + max(found.peaks.values())
    assert peak <= plan.peak <= 1.02 * peak + CONSTANT_BYTES
    assert known.keys() == found.peaks.keys() - {"trace"}
    for step, taken in found.peaks.items():
        if step != "trace":
            assert known[step] == pytest.approx(taken, abs=0.1 * plan.peak), step
    assert plan.held == pytest.approx(found.held, abs=MIB)
    assert key_bytes(shape.key) == pytest.approx(found.key, abs=MIB)


@pytest.mark.parametrize("name", SHAPES)
def test_the_peak_is_predicted(name: str) -> None:
    _, shape = shape_of(name)
    whole, lean, streamed = plans(shape)
    assert streamed.held < whole.held / 2
    assert_predicted(shape, measure(name), whole)
    if lean.peak < whole.peak:
        assert_predicted(shape, measure(name, just_below(whole.peak)), lean)
    if streamed.peak < lean.peak:
        assert_predicted(shape, measure(name, just_below(min(whole.peak, lean.peak))), streamed)


def test_leaves_that_are_made_again_alone_take_less_than_is_predicted() -> None:
    program, shape = shape_of("file-root")
    whole, lean, streamed = plans(shape)
    budget = just_below(min(whole.peak, lean.peak))
    found = measured(program, shape.log_heights, shape.key.params, budget, leaves_alone=True)
    assert found.plan == streamed.name
    assert found.peaks["opening"] < 0.7 * stages(shape, streamed=True)["opening"]


def just_below(peak: int) -> int:
    """The budget of which plans may use a little less than `peak`."""
    return peak + peak // 64 - 1


@pytest.mark.parametrize("name", ["riscv, 2^21", "riscv, 2^21, rate 1/4", "riscv, tall"])
def test_a_segment_of_2_21_is_proven_on_a_card_of_16_gb(name: str) -> None:
    """By what it takes, on a device that has no more: it is what the driver leaves to plans of a card of 16e9 bytes."""
    room = usable(16 * 10**9 - CONTEXT_BYTES)
    _, shape = shape_of(name)
    plan = choose(shape, room)
    found = measure(name, room)
    assert found.plan == plan.name
    assert found.key + max(found.peaks.values()) <= room


def test_what_fits_no_plan_is_refused_before_its_trace() -> None:
    _, shape = shape_of("riscv")
    streamed = plans(shape)[-1]
    assert choose(shape, streamed.peak) == streamed
    with pytest.raises(OutOfMemory, match=r"streamed.*more or smaller partitions"):
        choose(shape, streamed.peak - 1)
    with pytest.raises(OutOfMemory, match=r"streamed.*more or smaller partitions"):
        measure("riscv", streamed.peak - 1)
