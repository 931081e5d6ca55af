"""Levels the partitions of a job to as many different heights as a tree over them has room for."""

from __future__ import annotations

from typing import Any, Protocol

from distprove.errors import TooMuchWork
from distprove.stark.engine import Heights
from distprove.stark.multilinear.key import compile_key
from distprove.stark.program import Cut, Program
from distprove.stark.recursion.plan import MOST_LEAVES, Form, leaves_of
from distprove.stark.recursion.work import MOST_TREE_WIRES, tree_wires

MOST_KINDS = 4
"""Different heights of the partitions of a job, at most, where its program chooses them. Each takes a leaf's key."""


class Choose(Protocol):
    """Chooses the parameters of a job of so many partitions of the heights `known`. Raises UsageError."""

    def __call__(self, partitions: int, *, known: Heights) -> Any: ...


def level(program: Program, cut: Cut, choose: Choose, most: int | None = None) -> Cut:
    """Return the job with few different heights (`Program.levelled`): at most MOST_KINDS, and fewer where the circuits
    of their leaves would have more than `most` wires (by default MOST_TREE_WIRES). Raises UsageError."""
    wires = MOST_TREE_WIRES if most is None else most
    made = cut
    for kinds in range(MOST_KINDS, 0, -1):
        made = program.levelled(cut, kinds)
        if _has_room(program, made, choose, wires):
            break
    return made


def _has_room(program: Program, cut: Cut, choose: Choose, most: int) -> bool:
    """Whether the leaves over these partitions have at most so many wires, or all partitions have the same heights."""
    heights = [tuple(own) for own in cut.log_heights or ()]
    if len(set(heights)) < 2:
        return True
    key = compile_key(program, choose(len(heights), known=heights))
    forms = [Form.of(part.name, own) for part, own in zip(cut.slices, heights, strict=True)]
    leaves = list(dict.fromkeys(leaves_of(forms)))
    try:
        return len(leaves) <= MOST_LEAVES and tree_wires(key, leaves) <= most
    except TooMuchWork:
        return False
