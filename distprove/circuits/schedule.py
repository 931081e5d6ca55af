"""The order in which a circuit's witness is computed: steps that wait for none of each other run side by side.

A circuit's author places templates one by one, as a path's levels follow each other. Instances of a template on many
paths wait for nothing of each other, and a backend that computes them at once has as many lanes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from distprove.circuits.program import Step
from distprove.circuits.templates import Placement, Placements, Template


def scheduled(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps by how many others they wait for in a row, with placements of a template at once where they can be."""
    levels = _levels(steps)
    alone: dict[int, list[Step]] = {}
    groups: dict[int, dict[tuple[Template, int], list[Placement]]] = {}
    for step, level in zip(steps, levels, strict=True):
        if isinstance(step, Placement) and step.template.program is not None:
            groups.setdefault(level, {}).setdefault((step.template, step.lanes), []).append(step)
        else:
            alone.setdefault(level, []).append(step)
    ordered: list[Step] = []
    for level in range(max(levels, default=-1) + 1):
        ordered += alone.get(level, [])
        ordered += [Placements(tuple(group)) for group in groups.get(level, {}).values()]
    return tuple(ordered)


def _levels(steps: Sequence[Step]) -> list[int]:
    """How many steps each one waits for in a row. Wires that no step sets are inputs, there from the start."""
    made = sorted((first, number) for number, step in enumerate(steps) for first, _ in step.sets())
    firsts = [first for first, _ in made]
    levels: list[int] = []
    for number, step in enumerate(steps):
        level = 0
        for low, high in step.reads():
            for _, maker in made[max(0, bisect_right(firsts, low) - 1) : bisect_right(firsts, high)]:
                # A step reads what earlier ones set; what lies between the wires of a run may be of later ones.
                if maker < number and any(
                    first <= high and low < first + count for first, count in steps[maker].sets()
                ):
                    level = max(level, levels[maker] + 1)
        levels.append(level)
    return levels
