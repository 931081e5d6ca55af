"""The programs that ship: what they prove, end to end, on the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from stark_reference import ReferenceBackend
from test_proofs import check, prove_job

from distprove.errors import InvalidProof, UsageError
from distprove.stark.field import P
from distprove.stark.programs import load_program
from distprove.stark.programs.fibonacci import advance


def sequence(pair: tuple[int, int], steps: int) -> tuple[int, int]:
    for _ in range(steps):
        pair = pair[1], sum(pair) % P
    return pair


@pytest.mark.parametrize("steps", [1, 2, 64])
def test_advancing_by_squaring(steps: int) -> None:
    assert advance((5, 8), steps) == sequence((5, 8), steps)


def test_fibonacci() -> None:
    key, names, publics, proofs = prove_job(load_program("fibonacci", {"rows": "2^4", "first": 3}), 3)
    check(key, names, publics, proofs)
    assert publics[0][:2] == (3, 1)
    assert publics[2][2:] == sequence((3, 1), 48)


def test_a_cut_chain_is_noticed() -> None:
    """Two honest partitions of other sequences, committed together, do not make one sequence."""
    program = load_program("fibonacci", {"rows": 16})
    slices = program.slices(3)
    program.slices = lambda partitions: [slices[0], slices[2]]  # type: ignore[method-assign]
    with pytest.raises(InvalidProof, match="start of partition 1 is not end"):
        check(*prove_job(program, 2))


def test_wide_fibonacci() -> None:
    program = load_program("wide-fibonacci", {"rows": 8, "width": 5})
    check(*prove_job(program, 2))
    trace = program.trace(program.inputs(program.slices(1)[0].source), ReferenceBackend())
    for row in np.asarray(trace.main[0]).T.tolist():
        assert all(row[i + 2] == (row[i] ** 2 + row[i + 1] ** 2) % P for i in range(3))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fibonaci", {}, "did you mean fibonacci"),
        ("fibonacci", {"row": 8}, "did you mean rows"),
        ("fibonacci", {"rows": 9}, "power of two"),
        ("fibonacci", {"rows": "many"}, "integer"),
        ("fibonacci", {"first": P}, "field elements"),
        ("wide-fibonacci", {"width": 2}, "width"),
        ("no_such_module:Thing", {}, "no_such_module"),
        ("distprove.errors:UsageError", {}, "not a class of"),
    ],
)
def test_bad_arguments(name: str, arguments: dict[str, int | str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_program(name, arguments)
