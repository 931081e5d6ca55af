"""Lowers a graph of expressions to a straight-line `RowProgram` that keeps few values alive at a time.

The order is depth first from the outputs, the operand that needs more registers before the other (Sethi and Ullman, The
generation of optimal code for arithmetic expressions, 1970, applied to a graph whose shared nodes are computed at their
first use). Leaves need no register in this order: they are loaded where they are used, and again for a distant use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.air.expression import ADD, CONST, LOAD, SELECTORS, Graph
from kernels.interface.row_program import RowProgram

KEEP = 256
"""Maximum number of instructions for which a value that is cheap to recompute is kept without being used.

A long program reads the same columns in constraints far apart. For Keccak-f (2633 columns, 34,000 instructions) at most
82 values are alive instead of 3500, for a third more instructions, most of them loads; the CPU's interpreter takes half
to two thirds of the time. Values from 128 to 512 perform alike.
"""


def lower(
    graph: Graph, outputs: Sequence[int], *, widths: tuple[int, ...], scalars: int, fold: int | None = None
) -> RowProgram:
    """Lower the graph to the program that computes the nodes `outputs`, in this order."""
    emitter = _Emitter(graph)
    for node in _schedule(graph, outputs):
        emitter.emit(node)
    return RowProgram(
        widths=widths,
        code=np.array(emitter.code, dtype=np.int32).reshape(-1, 4),
        constants=tuple(emitter.constants),
        scalars=scalars,
        outputs=tuple(emitter.position[node] for node in outputs),
        fold=fold,
    )


class _Emitter:
    """Emits instructions. A cheap value (a cell, or one operation on cells) is recomputed if not used for long."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.code: list[tuple[int, int, int, int]] = []
        self.constants: dict[int, int] = {}
        self.position: dict[int, int] = {}
        self._last_use: dict[int, int] = {}

    def emit(self, node: int) -> None:
        op, a, b, c = self.nodes[node]
        if op == CONST:
            a = self.constants.setdefault(a, len(self.constants))
        elif op >= ADD:
            a, b = self._operand(a), self._operand(b)
        self.position[node] = self._last_use[node] = len(self.code)
        self.code.append((op, a, b, c))

    def _operand(self, node: int) -> int:
        if len(self.code) - self._last_use[node] > KEEP and self._is_cheap(node):
            self.emit(node)
        self._last_use[node] = len(self.code)
        return self.position[node]

    def _is_cheap(self, node: int) -> bool:
        op, a, b, _ = self.nodes[node]
        if op == LOAD:
            return a != SELECTORS  # loaded once, so that a backend sees the common factor of the constraints
        return op >= ADD and all(self.nodes[x][0] in (LOAD, CONST) for x in (a, b))


def _schedule(graph: Graph, outputs: Sequence[int]) -> list[int]:
    """The nodes that `outputs` need, operands first. Iterative, because a sum over many columns is deep."""
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
            elif nodes[node][0] >= ADD:
                _, a, b, _ = nodes[node]
                # The operand on top of the stack is computed first.
                stack += (~node, b, a) if registers[a] >= registers[b] else (~node, a, b)
                continue
            done[node] = 1
            order.append(node)
    return order


def _registers(graph: Graph) -> list[int]:
    """The Sethi-Ullman number of each node's expression."""
    numbers: list[int] = []
    for op, a, b, _ in graph.nodes:
        if op < ADD:
            numbers.append(0)
        else:
            x, y = numbers[a], numbers[b]
            numbers.append(x + 1 if x == y else x if x > y else y)
    return numbers
