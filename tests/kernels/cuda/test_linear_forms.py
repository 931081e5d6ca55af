"""Row programs whose chains of sums are replaced by sums of products have the same outputs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.recursion.program import node_rules
from kernels.cpu.backend import CpuBackend
from kernels.cuda.goldilocks.linear_forms import straightened
from kernels.cuda.goldilocks.rule_code import PIECE, RuleCode
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P
from tests.support.row_cases import elements, random_program, scalars_for


def check_equal(program: RowProgram, other: RowProgram, rng: np.random.Generator) -> None:
    inputs = [elements(rng, width, 16) if width else None for width in program.widths]
    scalars = scalars_for(rng, program)
    with CpuBackend() as backend:
        first, second = (backend.goldilocks.evaluate(own, inputs, scalars) for own in (program, other))
    assert np.array_equal(first, second)


def mixing(rng: np.random.Generator, rounds: int) -> RowProgram:
    """Rounds that add to each of four values a multiple of their sum, or subtract one. The first is cubed at times, and
    public values are added. Some values cancel."""
    constants = (0, 1, 2, P - 1, *map(int, elements(rng, 4)))
    code = [(int(Op.LOAD), 0, column, 0) for column in range(4)]
    code += [(int(Op.CONST), i, 0, 0) for i in range(len(constants))]
    code += [(int(Op.BASE_SCALAR), 0, 0, 0), (int(Op.SCALAR), 1, 0, 0)]
    public, challenge = len(code) - 2, len(code) - 1
    state = list(range(4))

    def add(op: Op, a: int, b: int) -> int:
        code.append((int(op), a, b, 0))
        return len(code) - 1

    for number in range(rounds):
        if number % 5 == 4:
            square = add(Op.MUL, state[0], state[0])
            state[0] = add(Op.MUL, square, state[0])
            state[1] = add(Op.ADD, state[1], public)
        total = add(Op.ADD, add(Op.ADD, state[0], state[1]), add(Op.SUB, state[2], state[3]))
        for i in range(4):
            factor = 4 + int(rng.integers(len(constants)))
            own = add(Op.MUL, *((state[i], factor) if i % 2 else (factor, state[i])))
            state[i] = add(Op.SUB if rng.integers(3) == 0 else Op.ADD, own, total)
    zero = add(Op.SUB, state[2], state[2])
    far = add(Op.MUL, state[3], challenge)
    outputs = (*state, zero, add(Op.ADD, far, state[0]), add(Op.MUL, state[0], state[1]))
    return RowProgram((4,), np.array(code, dtype=np.int32), constants, 2, outputs)


@pytest.mark.parametrize("rounds", [1, 6, 12, 40])
def test_chains(rounds: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        program = mixing(rng, rounds)
        found = straightened(program)
        assert rounds < 12 or len(found.code) < len(program.code)
        check_equal(program, found, rng)


def test_programs_of_any_kind() -> None:
    """Most have no long chain; those that are rewritten are the same."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        program = random_program(rng, (3, 2), int(rng.integers(5, 60)), folds=bool(rng.integers(2)))
        found = straightened(program)
        if found is not program:
            check_equal(program, found, rng)


def test_the_rules_of_permutations() -> None:
    """A node's largest rules: the code and its longest piece, which decides how long late rounds take."""
    (rules,) = [own for own in node_rules() if own.name == "poseidon2"]
    program = CellPrograms.of(rules).constraints
    assert program is not None
    code = RuleCode(program.on_coset, [begin for begin, _ in program.spans], PIECE)
    assert code.straightened
    assert code.code.size < 6000
    assert max(end - begin for begin, end in pairwise(code.pieces)) < 2 * PIECE
    check_equal(program.on_coset, code.program, np.random.default_rng(9))


def test_other_rules_are_left_as_they_are() -> None:
    programs = [CellPrograms.of(own).constraints for own in node_rules() if "poseidon2" not in own.name]
    found = [own.on_coset for own in programs if own is not None]
    assert len(found) > 4
    assert all(straightened(own) is own for own in found)
