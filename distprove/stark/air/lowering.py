"""From a graph of expressions to a straight-line `RowProgram`: what is needed, once, few values alive at a time.

The order is depth first from the outputs, the operand that needs more registers before the other (Sethi and Ullman, The
generation of optimal code for arithmetic expressions, 1970, applied to a graph whose shared nodes are computed at their
first use). Leaves cost no register there: a backend can load a cell where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.air.expression import Graph
from kernels.row_program import Op, RowProgram


def lower(
    graph: Graph, outputs: Sequence[int], *, widths: tuple[int, ...], scalars: int, fold: int | None = None
) -> RowProgram:
    """The program that computes the nodes `outputs`, in this order."""
    position: dict[int, int] = {}
    constants: dict[int, int] = {}
    code: list[tuple[int, int, int, int]] = []
    for node in _schedule(graph, outputs):
        op, a, b, c = graph.nodes[node]
        if op == Op.CONST:
            a = constants.setdefault(a, len(constants))
        elif op >= Op.ADD:
            a, b = position[a], position[b]
        position[node] = len(code)
        code.append((op, a, b, c))
    return RowProgram(
        widths=widths,
        code=np.array(code, dtype=np.int32).reshape(-1, 4),
        constants=tuple(constants),
        scalars=scalars,
        outputs=tuple(position[node] for node in outputs),
        fold=fold,
    )


def _schedule(graph: Graph, outputs: Sequence[int]) -> list[int]:
    """The nodes that `outputs` need, operands first. Iterative: a sum over many columns is a deep expression."""
    nodes = graph.nodes
    registers = _registers(graph)
    done = bytearray(len(nodes))
    order: list[int] = []
    for output in outputs:
        stack = [output]
        while stack:
            node = stack.pop()
            if node < 0:  # its operands are done
                node = ~node
            elif done[node]:
                continue
            elif nodes[node][0] >= Op.ADD:
                _, a, b, _ = nodes[node]
                # The operand on top is done first.
                stack += (~node, b, a) if registers[a] >= registers[b] else (~node, a, b)
                continue
            done[node] = 1
            order.append(node)
    return order


def _registers(graph: Graph) -> list[int]:
    """Per node, the Sethi-Ullman number of its expression."""
    numbers: list[int] = []
    for op, a, b, _ in graph.nodes:
        if op < Op.ADD:
            numbers.append(0)
        else:
            x, y = numbers[a], numbers[b]
            numbers.append(x + 1 if x == y else x if x > y else y)
    return numbers
