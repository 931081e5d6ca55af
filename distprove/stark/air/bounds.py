"""Whether an AIR's own constraints show that a multiplicity keeps to its declared bound of 1.

LogUp is sound only if they do, and forgetting `t.boolean(on)` is easy. What is recognised is what authors write: a
column or expression that a constraint holds to 0 and 1 on every row, its complement, and products of such. An
unrecognised multiplicity may still be right, by an argument that only its author knows.
"""

from __future__ import annotations

from distprove.stark.air.definition import Definition, Interaction
from distprove.stark.air.expression import MAIN
from kernels.row_program import Op


def unconfirmed(definition: Definition) -> list[Interaction]:
    """Interactions with a bound that no constraint is seen to enforce.

    Constants are bounded by themselves. Multiplicities out of preprocessed columns alone are fixed by the program.
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
    """Nodes x for which x (x - 1), x (1 - x) or x x - x is zero on every row."""
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
    if op == Op.LOAD and c == 1:  # what holds in every row holds in the next
        return graph.load(a, b) in booleans
    if op == Op.MUL:
        return _is_boolean(definition, a, booleans) and _is_boolean(definition, b, booleans)
    return op == Op.SUB and a == graph.one and _is_boolean(definition, b, booleans)
