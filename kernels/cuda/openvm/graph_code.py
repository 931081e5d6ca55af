"""Linear forms of a graph's nodes as code for the interpreter in `cuda/src/openvm_rules.cu`.

A term's value is computed where the form adds it up, operands first, so that few values wait in slots. Code is cut into
pieces, which run in different blocks: each computes the values that it needs anew. A slot is near, in shared memory, or
far, in memory of the block's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.openvm.instructions import EMIT, MOST_TERMS, Step, StepKind, encoded
from kernels.errors import SizeError
from kernels.interface.openvm_rules import BoundForms, GraphProgram, Node, NodeKind
from kernels.maths.babybear import Elements, P, elements, mul

RELOADED = 256
"""A cell that was not read for more steps than this is loaded anew. In a slot it would take one from others, or memory
for each thread."""
LOAD_WEIGHT = 4
"""Instructions that a cell costs about as much as, where pieces are cut."""

AHEAD = 8
"""Loads behind the last one, for kernels that read ahead."""
NO_PART = -2
ZERO = -1
"""Stands for the constant 0 among the nodes that are constants."""

_SELECTORS = {NodeKind.IS_FIRST: 2, NodeKind.IS_LAST: 3, NodeKind.IS_TRANSITION: 4}
"""The kinds of cells that are no columns. Must equal those in openvm_rules.cu."""
_OPERATIONS = {
    NodeKind.ADD: StepKind.ADD,
    NodeKind.SUB: StepKind.SUB,
    NodeKind.MUL: StepKind.MUL,
    NodeKind.NEG: StepKind.SUB,
}


class Piece(NamedTuple):
    """Code that one block runs for a row."""

    first: int
    """Number of its first instruction."""
    instructions: int
    first_load: int
    weight: int


class GraphCode:
    """The code of a program. It does not refer to the program: a cache may keep it for as long as that is in use."""

    def __init__(self, program: GraphProgram, piece: int, near: int, whole_forms: bool) -> None:
        """`piece`: weight from which a new piece is begun; `near`: most near slots; `whole_forms`: a form is in one
        piece, which emits it even if it has no term. Raises SizeError for more nodes than instructions can name."""
        self.near = self.far = 0
        """Slots in use."""
        self.pieces: list[Piece] = []
        self.cells: list[Node] = []
        """The cells, each once, in the order of their first load."""
        self.constants: list[int] = []
        """The nodes of the constants; ZERO stands for 0."""
        self.uniform_terms: list[int] = []
        """The terms whose nodes have the same value in every row: not in the code."""
        self._uniform_uses: list[tuple[int, int]] = []
        """Node and form of each of these."""
        self._most_near = near
        self._nodes = program.rows
        self._uniform, self._depth = _classes(self._nodes)
        self._constant_of: dict[int, int] = {}
        self._cell_of: dict[Node, int] = {}
        self._words: list[int] = []
        self._loads: list[int] = []
        self._steps: list[Step] = []
        """The piece that is being written."""
        self._there: dict[int, int] = {}
        """The nodes whose values the piece has, and the numbers of these: a cell that is loaded anew has a new one."""
        self._read: dict[int, int] = {}
        """The number of steps before each cell was read last."""
        self._numbers = len(self._nodes)
        """Bound of the numbers of values."""
        self._weight = 0
        self._write(program, piece, whole_forms)
        self.code: NDArray[np.uint64] = np.array([*self._words, EMIT], dtype=np.uint64)
        """The instructions, and one more: the kernels read ahead."""
        self.loads: NDArray[np.int64] = np.array([*self._loads, *[0] * AHEAD], dtype=np.int64)
        """The cell of each load, in the order in which the pieces load them; then some for kernels that read ahead."""
        self.cell_columns: NDArray[np.int64] = np.array([column for _, column, _, _ in self.cells], dtype=np.int64)
        self.cell_parts: NDArray[np.int64] = np.array([_part(cell) for cell in self.cells], dtype=np.int64)
        """The part of each cell, NO_PART for a selector."""
        self.cell_kinds: NDArray[np.int64] = np.array([_kind(cell) for cell in self.cells], dtype=np.int64)
        """`Cell::kind` of openvm_rules.cu."""
        self.piece_words: NDArray[np.int64] = np.array(self.pieces, dtype=np.int64).reshape(-1, len(Piece._fields))
        """`pieces` as numbers, (pieces, 4)."""
        self._order = self._uniform_order()
        self._known: dict[tuple[int, ...], dict[int, int]] = {}
        self._constant_values: tuple[dict[int, int], Elements] | None = None
        self._uniform_values: tuple[dict[int, int], Elements, NDArray[np.int64]] | None = None
        """Values of the last public ones: those of the terms that are not in the code, and their forms."""

    def _write(self, program: GraphProgram, piece: int, whole_forms: bool) -> None:
        term = 0
        if len(program.term_nodes) > MOST_TERMS:
            raise SizeError(f"{len(program.term_nodes)} terms of linear forms; at most {MOST_TERMS}")
        for form, nodes in enumerate(program.forms):
            pending = whole_forms
            if whole_forms and self._weight >= piece:
                self._end_piece()
            for node in nodes.tolist():
                if self._uniform[node]:
                    self.uniform_terms.append(term)
                    self._uniform_uses.append((node, form))
                else:
                    if not whole_forms and self._weight >= piece:
                        if pending:
                            self._steps.append(Step(StepKind.EMIT, -1, b=form))
                        self._end_piece()
                    self._compute(node)
                    self._steps.append(Step(StepKind.ACCUMULATE, -1, self._there[node], term))
                    self._weight += 1
                    pending = True
                term += 1
            if pending:
                self._steps.append(Step(StepKind.EMIT, -1, b=form))
        self._end_piece()

    def _compute(self, output: int) -> None:
        """Write the instructions of a node and its operands, the deeper one first, unless their values are there."""
        nodes, there, depth, uniform = self._nodes, self._there, self._depth, self._uniform
        pending = [(output, False)]
        while pending:
            node, ready = pending.pop()
            kind, a, b, _ = nodes[node]
            if uniform[node] or (kind in _OPERATIONS and node in there):
                continue
            if kind not in _OPERATIONS:
                self._load(node)
            elif not ready:
                pending.append((node, True))
                if kind == NodeKind.NEG:
                    pending.append((a, False))
                else:
                    pending += [(a, False), (b, False)] if depth[a] < depth[b] else [(b, False), (a, False)]
                continue
            else:
                left, right = (ZERO, a) if kind == NodeKind.NEG else (a, b)
                operands = self._operand(left), self._operand(right)
                self._steps.append(Step(_OPERATIONS[NodeKind(kind)], node, *operands))
                self._weight += 1
                there[node] = node

    def _load(self, node: int) -> None:
        """Write the load of a cell, unless its value is there and was read not long ago."""
        now, before = len(self._steps), self._read.get(node)
        self._read[node] = now
        if before is not None and now - before <= RELOADED:
            return
        value = node
        if before is not None:
            value, self._numbers = self._numbers, self._numbers + 1
        self._loads.append(self._cell(self._nodes[node]))
        self._steps.append(Step(StepKind.LOAD, value))
        self._weight += LOAD_WEIGHT
        self._there[node] = value

    def _operand(self, node: int) -> int:
        if node != ZERO and not self._uniform[node]:
            return self._there[node]
        number = self._constant_of.setdefault(node, len(self.constants))
        if number == len(self.constants):
            self.constants.append(node)
        return ~number

    def _cell(self, node: Node) -> int:
        number = self._cell_of.setdefault(node, len(self.cells))
        if number == len(self.cells):
            self.cells.append(node)
        return number

    def _end_piece(self) -> None:
        """Give the values of the piece their slots, and begin another."""
        if not self._steps:
            return
        made = encoded(self._steps, self._most_near)
        self.near, self.far = max(self.near, made.near), max(self.far, made.far)
        loaded = sum(step.kind == StepKind.LOAD for step in self._steps)
        self.pieces.append(Piece(len(self._words), len(made.words), len(self._loads) - loaded, self._weight))
        self._words += made.words
        self._steps, self._weight = [], 0
        self._there.clear()
        self._read.clear()

    # -- values that are the same in every row ------------------------------------------------------------------------

    def _uniform_order(self) -> list[int]:
        """The nodes from which constants and uniform terms are computed, operands first."""
        pending = [node for node in self.constants if node != ZERO]
        pending += [node for node, _ in self._uniform_uses]
        needed: set[int] = set()
        while pending:
            node = pending.pop()
            if node not in needed:
                needed.add(node)
                kind, a, b, _ = self._nodes[node]
                if kind in _OPERATIONS:
                    pending += [a] if kind == NodeKind.NEG else [a, b]
        return sorted(needed)

    def _values(self, public: tuple[int, ...]) -> dict[int, int]:
        if public not in self._known:
            values = {ZERO: 0}
            for node in self._order:
                kind, a, b, _ = self._nodes[node]
                if kind == NodeKind.CONSTANT:
                    values[node] = a
                elif kind == NodeKind.PUBLIC:
                    values[node] = public[a]
                elif kind == NodeKind.NEG:
                    values[node] = -values[a] % P
                else:
                    x, y = values[a], values[b]
                    values[node] = (x * y if kind == NodeKind.MUL else x + y if kind == NodeKind.ADD else x - y) % P
            self._known = {public: values}
        return self._known[public]

    def constant_values(self, public: tuple[int, ...]) -> Elements:
        """The values of the constants, one at least."""
        values = self._values(public)
        if self._constant_values is None or self._constant_values[0] is not values:
            self._constant_values = values, elements([values[node] for node in self.constants] or [0])
        return self._constant_values[1]

    def form_constants(self, bound: BoundForms, public: tuple[int, ...]) -> Elements:
        """What is added to each form for the terms that are not in the code, and its constant: (forms, 4)."""
        if not self.uniform_terms:
            return bound.constants
        values = self._values(public)
        if self._uniform_values is None or self._uniform_values[0] is not values:
            own = elements([values[node] for node, _ in self._uniform_uses])
            forms = np.array([form for _, form in self._uniform_uses], dtype=np.int64)
            self._uniform_values = values, own[:, None], forms
        _, own, forms = self._uniform_values
        found = bound.constants.astype(np.uint64)
        np.add.at(found, forms, mul(bound.coefficients[self.uniform_terms], own).astype(np.uint64))
        return np.asarray(found % np.uint64(P)).astype(np.uint32)


def _part(cell: Node) -> int:
    kind, _, part, _ = cell
    return NO_PART if kind in _SELECTORS else -1 if kind == NodeKind.PREPROCESSED else part


def _kind(cell: Node) -> int:
    return _SELECTORS.get(NodeKind(cell[0]), cell[3])


def _classes(nodes: Sequence[Node]) -> tuple[list[bool], list[int]]:
    """For each node, whether its value is the same in every row, and its depth."""
    uniform, depth = list[bool](), list[int]()
    for kind, a, b, _ in nodes:
        if kind == NodeKind.NEG:
            b = a
        if kind in _OPERATIONS:
            uniform.append(uniform[a] and uniform[b])
            depth.append(1 + max(depth[a], depth[b]))
        else:
            uniform.append(kind in (NodeKind.CONSTANT, NodeKind.PUBLIC))
            depth.append(0)
    return uniform, depth
