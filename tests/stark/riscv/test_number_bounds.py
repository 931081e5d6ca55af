"""No equation on long numbers comes round p, whatever the cells of its table are, and every carry has room.

The bounds are exact interval arithmetic over each constraint's own expression. A cell has the range that its lookup or
its boolean constraint gives, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import cast

import pytest

from distprove.stark.air import Air
from distprove.stark.air.definition import Definition, trace_air
from distprove.stark.air.expression import MAIN
from distprove.stark.riscv import edwards
from distprove.stark.riscv.buses import LOOKUP
from distprove.stark.riscv.edwards import EdwardsAir
from distprove.stark.riscv.modular import Modular384Air, ModularAir
from distprove.stark.riscv.points import CARRY_BITS, EQUATIONS, Points384Air, PointsAir
from kernels.interface.row_program import Op
from kernels.maths.goldilocks import P

Range = tuple[int, int]
WORD, BIT = (0, (1 << 32) - 1), (0, 1)
OPERATIONS = (Op.ADD, Op.SUB, Op.MUL)


def looked_up(definition: Definition) -> dict[int, Range]:
    """The ranges of the columns that the table looks up, by column."""
    graph, found = definition.graph, dict[int, Range]()
    for interaction in definition.interactions:
        if interaction.bus.name == LOOKUP.name:
            kind, _, number, _ = interaction.values
            op, matrix, column, next_row = graph.nodes[number]
            assert (op, matrix, next_row) == (Op.LOAD, MAIN, 0)
            most = graph.value(kind)
            assert most is not None
            found[column] = 0, most
    return found


def boolean(definition: Definition) -> dict[int, Range]:
    """The ranges of the columns x that a constraint x (x - 1) holds to 0 and 1, by column."""
    graph = definition.graph
    loads = [
        (node, column) for node, (op, matrix, column, _) in enumerate(graph.nodes) if (op, matrix) == (Op.LOAD, MAIN)
    ]
    held = {constraint.node for constraint in definition.constraints if constraint.kind == "always"}
    return {
        column: BIT
        for node, column in loads
        if held & {graph.mul(node, graph.sub(node, graph.one)), graph.mul(node, graph.sub(graph.one, node))}
    }


def ranges(definition: Definition, cells: Mapping[int, Range]) -> list[Range | None]:
    """The range of every node as an integer, of constants from -p/2 to p/2; None where a cell has no range."""
    found = list[Range | None]()
    for op, a, b, _ in definition.graph.nodes:
        if op == Op.CONST:
            value = a if a <= P // 2 else a - P
            found.append((value, value))
            continue
        if op not in OPERATIONS:
            found.append(cells.get(b) if (op, a) == (Op.LOAD, MAIN) else None)
            continue
        one, other = found[a], found[b]
        if one is None or other is None:
            found.append((0, 0) if op == Op.MUL and (0, 0) in (one, other) else None)
        elif op == Op.ADD:
            found.append((one[0] + other[0], one[1] + other[1]))
        elif op == Op.SUB:
            found.append((one[0] - other[1], one[1] - other[0]))
        else:
            ends = [x * y for x, y in product(one, other)]
            found.append((min(ends), max(ends)))
    return found


def columns(definition: Definition, name: str) -> list[int]:
    """The columns of this name."""
    starts = list(definition.main)[: list(definition.main).index(name)]
    start = sum(definition.main[each] for each in starts)
    return list(range(start, start + definition.main[name]))


CASES: list[tuple[Air, Mapping[str, int]]] = [
    *((air, {"on": 1, "adds": adds}) for air in (ModularAir(), Modular384Air()) for adds in (0, 1)),
    *(
        (air, {"curve": curve, "adds": 1 - doubles, "doubles": doubles})
        for air in (PointsAir(), Points384Air())
        for curve in range(len(air.curves))
        for doubles in (0, 1)
    ),
    (EdwardsAir(), {"on": 1}),
]
"""Tables, each with the flags of a kind of row in use."""
EQUATIONS_OF = {"modular": ("product",), "points": EQUATIONS, "edwards": edwards.EQUATIONS}
MEMORY_OF = {"modular": ["addend"], "points": ["y2"], "edwards": []}
"""The columns that have words of memory, which other tables keep below 2^32."""
CARRIES_OF = {"modular": 22, "points": CARRY_BITS, "edwards": edwards.CARRY_BITS}


def shown(value: object) -> str:
    """The part of a test's name."""
    return value.name if isinstance(value, Air) else "-".join(f"{k}{v}" for k, v in cast(dict[str, int], value).items())


def cells_of(definition: Definition, flags: Mapping[str, int]) -> dict[int, Range]:
    """The ranges of the columns in rows with these flags."""
    memory = [column for name in MEMORY_OF[definition.name.removesuffix("384")] for column in columns(definition, name)]
    cells = {**boolean(definition), **looked_up(definition), **dict.fromkeys(memory, WORD)}
    for name, flag in flags.items():
        own = columns(definition, name)
        values = [int(k == flag) for k in range(len(own))] if name == "curve" else [flag]
        assert all(cells[column] == BIT for column in own)
        cells |= {column: (value, value) for column, value in zip(own, values, strict=True)}
    return cells


@pytest.mark.parametrize(("air", "flags"), CASES, ids=shown)
def test_no_equation_comes_round(air: Air, flags: Mapping[str, int]) -> None:
    """Neither the equations over the integers do, nor those that order the numbers."""
    definition = trace_air(air)
    found = ranges(definition, cells_of(definition, flags))
    kinds = (*EQUATIONS_OF[air.name.removesuffix("384")], "equal above,", "below the modulus")
    checked = set()
    for constraint in definition.constraints:
        kind = next((each for each in kinds if re.search(rf"(^|: ){each}( \d+)?$", constraint.name)), None)
        if kind is None:
            continue
        bound = found[constraint.node]
        assert bound is not None, constraint.name
        assert -P < bound[0] <= 0 <= bound[1] < P, constraint.name
        checked.add(kind)
    assert checked == set(kinds)


@pytest.mark.parametrize(("air", "flags"), CASES, ids=shown)
def test_every_carry_has_room(air: Air, flags: Mapping[str, int]) -> None:
    """Whatever limbs an equation has, its carries are in the range that is looked up: no row in use lacks them."""
    definition, name = trace_air(air), air.name.removesuffix("384")
    cells = cells_of(definition, flags)
    low, high = columns(definition, "low"), columns(definition, "high")
    half = 1 << (CARRIES_OF[name] - 1)
    cells |= {**dict.fromkeys(low, (0, 0)), **dict.fromkeys(high, (half >> 16, half >> 16))}  # no carry
    found = ranges(definition, cells)
    nodes = {constraint.name: constraint.node for constraint in definition.constraints}
    count = len(low) // len(EQUATIONS_OF[name])
    for equation in EQUATIONS_OF[name]:
        bounds = [cast(Range, found[nodes[f"{equation} {k}"]]) for k in range(count)]
        carry = 0, 0
        if name == "edwards":
            # The quotient leaves the highest word in place of a carry, and enters the lowest one 19 times.
            least, most = (sum(bound[end] << 32 * k for k, bound in enumerate(bounds)) for end in (0, 1))
            quotient = -(-least // edwards.MODULUS), most // edwards.MODULUS
            assert -half <= quotient[0] <= quotient[1] < half, equation
            carry = 19 * quotient[0], 19 * quotient[1]
            bounds.pop()
        for k, bound in enumerate(bounds):
            carry = -(-(bound[0] + carry[0]) >> 32), bound[1] + carry[1] >> 32
            assert -half <= carry[0] <= carry[1] < half, (equation, k)
