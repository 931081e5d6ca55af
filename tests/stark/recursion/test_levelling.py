"""How many different heights the partitions of a job that ends in one proof may have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.program import Cut, Slice
from distprove.stark.recursion.levelling import MOST_KINDS, level
from distprove.stark.recursion.plan import Form, leaves_of
from distprove.stark.recursion.work import tree_wires
from tests.support.stark_programs import Fibonacci

OPTIONS: dict[str, Any] = {"security": 1, "grinding": 0, "hash": "poseidon2", "log_final": LOG_FINAL_IN_CIRCUITS}


class Levels(Fibonacci):
    """Has as many heights as it may have, up to 2^15."""

    asked: list[int]

    def levelled(self, cut: Cut, kinds: int = 1) -> Cut:
        self.asked.append(kinds)
        return Cut(cut.slices, [(15 - number % kinds,) for number in range(len(cut.slices))])


def levels() -> tuple[Levels, Cut]:
    program = Levels(5)
    program.asked = []
    return program, Cut([Slice(f"part-{number:02}", {}) for number in range(16)], [(5 + n % 8,) for n in range(16)])


def wires_of(program: Levels, heights: Sequence[Sequence[int | None]]) -> int:
    key = compile_key(program, choose_parameters(program, len(heights), known=heights, **OPTIONS))
    return tree_wires(key, list(dict.fromkeys(leaves_of([Form(tuple(own), 7) for own in heights]))))


@pytest.mark.parametrize("kinds", range(1, MOST_KINDS + 1))
def test_a_tree_has_room_for_the_leaves_of_all_kinds(kinds: int) -> None:
    program, cut = levels()
    choose = partial(choose_parameters, program, **OPTIONS)
    heights = program.levelled(cut, kinds).log_heights
    assert heights is not None
    wires = wires_of(program, heights)
    assert level(program, cut, choose, wires).log_heights == heights
    fewer = level(program, cut, choose, wires - 1).log_heights
    assert fewer is not None
    assert len({*fewer}) == max(1, kinds - 1)


def test_kinds_are_tried_from_the_most_on() -> None:
    program, cut = levels()
    level(program, cut, partial(choose_parameters, program, **OPTIONS), 0)
    assert program.asked == [4, 3, 2, 1]


def test_no_parameters_are_chosen_for_partitions_of_one_height() -> None:
    class Alike(Levels):
        def levelled(self, cut: Cut, kinds: int = 1) -> Cut:
            return cut

    def choose(*_: Any, **__: Any) -> Any:
        raise AssertionError("for nothing")

    for heights in ([(5,)] * 3, None):
        cut = Cut([Slice(f"part-{number}", {}) for number in range(3)], heights)
        assert level(Alike(5), cut, choose) is cut
