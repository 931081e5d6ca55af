"""Checks whether an AIR's own constraints enforce the declared bound of 1 on its multiplicities.

LogUp is sound only if the bound holds, and forgetting `t.boolean(on)` is easy. The check recognises the usual forms: a
column or expression that a constraint restricts to 0 and 1 on every row, its complement, and products of these. A
multiplicity that it does not recognise may still be right, by an argument that only the author knows.
"""

from __future__ import annotations

from distprove.stark.air.definition import Definition, Interaction
from distprove.stark.air.expression import MAIN
from kernels.interface.row_program import Op


def unconfirmed(definition: Definition) -> list[Interaction]:
    """Interactions with a bound that no recognised constraint enforces.

    Constants need no constraint. Multiplicities made of preprocessed columns alone are fixed by the program.
    """
    graph = definition.graph
    booleans = _booleans(definition)
    return [
        interaction
        for interaction in definition.interactions
        if interaction.at_most is not None
        and graph.value(interaction.times) is None
        and any(matrix == MAIN for _, matrix, _, _ in graph.leaves([interaction.times]))
        and not (interaction.times in booleans or _is_boolean(definition, interaction.times, booleans))
    ]


def _booleans(definition: Definition) -> set[int]:
    """Nodes x that a constraint x (x - 1), x (1 - x) or x x - x makes boolean on every row."""
    graph = definition.graph
    nodes, one = graph.nodes, graph.one
    found = set()
    for constraint in definition.constraints:
        op, a, b, _ = nodes[constraint.node]
        if constraint.kind != "always":
            continue
        if op == Op.MUL:
            found |= {x for x, y in ((a, b), (b, a)) if nodes[y] in ((Op.SUB, x, one, 0), (Op.SUB, one, x, 0))}
        elif op == Op.SUB and nodes[a] == (Op.MUL, b, b, 0):
            found.add(b)
    return found


def _is_boolean(definition: Definition, node: int, booleans: set[int]) -> bool:
    graph = definition.graph
    op, a, b, c = graph.nodes[node]
    if node in booleans:
        return True
    if op == Op.LOAD and c == 1:  # what holds in every row holds in the next row
        return graph.load(a, b) in booleans
    if op == Op.MUL:
        return _is_boolean(definition, a, booleans) and _is_boolean(definition, b, booleans)
    return op == Op.SUB and a == graph.one and _is_boolean(definition, b, booleans)
