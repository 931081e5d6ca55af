"""Row programs as code of the interpreter in `cuda/src/multilinear_rules.cu`, which runs those of all tables at once.

What depends on challenges alone is left to the host: an output is a sum of base values of the row, its *atoms*, each
times a coefficient of F, and so is the fold of all outputs. The code computes atoms in slots, and adds each times its
coefficient to a sum as soon as it is there.

An instruction is 64 bits: 4 of the operation, then 20 each of two operands and of the result's slot. The upper two bits
of an operand say what it is: a slot, a cell, or a constant.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.goldilocks.linear_forms import straightened
from kernels.errors import SizeError
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import Ext, P
from kernels.maths.goldilocks_extension import ext_add, ext_mul, ext_sub

ADD, SUB, MUL, ACCUMULATE, EMIT = range(5)
SLOT, CELL, CONSTANT = (kind << 18 for kind in range(3))
MOST = 1 << 18
"""Most slots, cells and constants of a program."""

PIECE = 96
"""Instructions after which the code of a fold goes on in another piece. Pieces run side by side: a round over few rows
takes as long as the longest, 0.4 us an instruction on an H200."""
FEW_SLOTS = 32
"""Values are computed again where more slots than these would be needed to keep them."""

_OPERATIONS = {Op.ADD: ADD, Op.SUB: SUB, Op.MUL: MUL}
Words = NDArray[np.uint64]
_P = np.uint64(P)
_Term = tuple[int, tuple[int, ...], int]
"""A part of a coefficient: its sign, the values whose product it is, and the scalar that weighs it (-1 for none)."""


class RuleCode:
    """The code of one program, whose matrix i begins at cell `firsts[i]`. Raises SizeError for what cannot be run."""

    def __init__(self, program: RowProgram, firsts: Sequence[int], piece: int) -> None:
        self.program = self._program = straightened(program)
        """The program that is run, which has the same outputs."""
        self.straightened = self.program is not program
        """Whether the program had long chains."""
        program = self.program
        self._code: list[list[int]] = program.code.tolist()
        self._extension: list[bool] = program.is_extension.tolist()
        self._firsts = firsts
        self._uniform: list[bool] = []
        self._depth: list[int] = []
        for op, a, b, _ in self._code:
            arithmetic = op >= Op.ADD
            self._uniform.append(op != Op.LOAD and (not arithmetic or (self._uniform[a] and self._uniform[b])))
            self._depth.append(1 + max(self._depth[a], self._depth[b]) if arithmetic else 0)
        self.outputs = 1 if program.fold is not None else len(program.outputs)
        for together in (len(self._code), 64, 16, 4, 1):
            self._begin()
            self._write(together, piece)
            self.slots, self.code = self._packed()
            if self.slots <= FEW_SLOTS:
                break
        # What is left may be kept in a file (`kernels.cuda.goldilocks.kept_code`), which is read as a whole.
        del self._code, self._extension, self._firsts, self._uniform, self._depth, self._steps, self._at

    # -- what is computed -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.pieces = [0]
        """The first instruction of each piece, and the one after the last: an output is the sum of what they emit."""
        self._constants: dict[int, int] = {}
        """The number of each constant, by value; -1 stands for one."""
        self._terms: list[list[_Term]] = []
        self._steps: list[tuple[int, int, int]] = []
        """Operations and their operands; ~i is the result of step i, any other as in an instruction."""
        self._at: dict[int, int] = {}
        """The step that has computed a value."""

    def _write(self, together: int, piece: int) -> None:
        """Write the steps. Values are shared among so many atoms; those after them compute theirs again, as those of
        another piece do."""
        fold, atoms = self._program.fold, 0
        if fold is not None:
            folded: dict[int, list[_Term]] = {}
            for i, output in enumerate(self._program.outputs):
                for atom, factors, sign in self._expanded(output):
                    folded.setdefault(atom, []).append((sign, factors, fold + i))
            groups = [list(folded.items())]
        else:
            groups = [
                [(v, [(sign, factors, -1)]) for v, factors, sign in self._expanded(o)] for o in self._program.outputs
            ]
        for number, group in enumerate(groups):
            for atom, terms in group:
                full = fold is not None and len(self._steps) - self.pieces[-1] >= piece
                if full:
                    self._steps.append((EMIT, CONSTANT, number))
                    self.pieces.append(len(self._steps))
                if full or atoms % together == 0:
                    self._at.clear()
                atoms += 1
                for v in self._schedule(atom) if atom >= 0 else ():
                    op, a, b, _ = self._code[v]
                    self._steps.append((_OPERATIONS[Op(op)], self._operand(a), self._operand(b)))
                    self._at[v] = len(self._steps) - 1
                self._steps.append((ACCUMULATE, self._operand(atom), len(self._terms)))
                self._terms.append(terms)
            self._steps.append((EMIT, CONSTANT, number))
        self.pieces.append(len(self._steps))

    def _expanded(self, output: int) -> list[tuple[int, tuple[int, ...], int]]:
        """The atoms of an output, each with the uniform values that it is multiplied by, and its sign."""
        found: list[tuple[int, tuple[int, ...], int]] = []
        pending: list[tuple[int, tuple[int, ...], int]] = [(output, (), 1)]
        while pending:
            v, factors, sign = pending.pop()
            op, a, b, _ = self._code[v]
            if self._uniform[v]:
                found.append((-1, (*factors, v), sign))
            elif not self._extension[v]:
                found.append((v, factors, sign))
            elif op in (Op.ADD, Op.SUB):
                pending += [(b, factors, sign if op == Op.ADD else -sign), (a, factors, sign)]
            elif op == Op.MUL and (self._uniform[a] or self._uniform[b]):
                rest, factor = (b, a) if self._uniform[a] else (a, b)
                pending.append((rest, (*factors, factor), sign))
            else:
                raise SizeError("a row program whose outputs are not sums of base values times challenges")
        return found

    def _schedule(self, value: int) -> list[int]:
        """The instructions still to be done for a base value, operands first and the deeper one before the other."""
        order: list[int] = []
        pending, seen = [(value, False)], set[int]()
        while pending:
            v, ready = pending.pop()
            op, a, b, _ = self._code[v]
            if op < Op.ADD or self._uniform[v] or v in self._at:
                continue
            if ready:
                order.append(v)
            elif v not in seen:
                seen.add(v)
                pending.append((v, True))
                pending += [(x, False) for x in sorted({a, b}, key=lambda x: self._depth[x])]
        return order

    def _operand(self, v: int) -> int:
        if v < 0 or self._uniform[v]:
            return CONSTANT | self._below(self._constants.setdefault(v, len(self._constants)))
        op, matrix, column, _ = self._code[v]
        return CELL | self._below(self._firsts[matrix] + column) if op == Op.LOAD else ~self._at[v]

    # -- slots ------------------------------------------------------------------------------------------------------

    def _packed(self) -> tuple[int, Words]:
        """The number of slots, and the instructions."""
        last = {~x: i for i, (_, *operands) in enumerate(self._steps) for x in operands if x < 0}
        free: list[int] = []
        slots: dict[int, int] = {}
        count, words = 0, []
        for i, (operation, *operands) in enumerate(self._steps):
            a, b = (SLOT | self._below(slots[~x]) if x < 0 else x for x in operands)
            for x in {~x for x in operands if x < 0}:
                if last[x] == i:
                    heapq.heappush(free, slots[x])
            slot = 0
            if operation < ACCUMULATE:
                if not free:
                    heapq.heappush(free, count)
                    count += 1
                slot = slots[i] = heapq.heappop(free)
            if b >= 1 << 20:
                raise SizeError("a row program of more values than the interpreter's instructions can name")
            words.append(operation | a << 4 | b << 24 | slot << 44)
        return max(1, count), np.array(words, dtype=np.uint64)

    @staticmethod
    def _below(number: int) -> int:
        if number >= MOST:
            raise SizeError("a row program of more values than the interpreter's instructions can name")
        return number

    # -- what challenges decide -------------------------------------------------------------------------------------

    def words(self, scalars: Words) -> tuple[list[int], Words]:
        """The constants (k) and coefficients (m, 3) for scalars (program.scalars, 3)."""
        given: list[Ext] = [(a, b, c) for a, b, c in scalars.tolist()]
        values = self._values(given)
        constants = [values[v][0] for v in self._constants] or [0]
        coefficients = np.empty((len(self._terms), 3), dtype=np.uint64)
        plain, weights, negative = self._plain
        if len(plain):
            chosen = scalars[weights]
            coefficients[plain] = np.where(negative & (chosen != 0), _P - chosen, chosen) if negative.any() else chosen
        composed = []
        for number in self._composed:
            total: Ext = (0, 0, 0)
            for sign, factors, weight in self._terms[number]:
                product = (1, 0, 0) if weight < 0 else given[weight]
                for v in factors:
                    product = values[v] if product == (1, 0, 0) else ext_mul(product, values[v])
                total = ext_add(total, product) if sign > 0 else ext_sub(total, product)
            composed.append(total)
        if composed:
            coefficients[self._composed] = composed
        return constants, coefficients

    @cached_property
    def _plain(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The coefficients that are a scalar or its negative: their numbers, the scalars', the signs (n, 1)."""
        found = [
            (number, terms[0][2], terms[0][0] < 0)
            for number, terms in enumerate(self._terms)
            if len(terms) == 1 and not terms[0][1] and terms[0][2] >= 0
        ]
        numbers, weights, negative = np.array(found, dtype=np.int64).reshape(-1, 3).T
        return numbers, weights, negative.astype(np.bool_)[:, None]

    @cached_property
    def _composed(self) -> list[int]:
        """The numbers of all other coefficients."""
        return sorted(set(range(len(self._terms))) - set(self._plain[0].tolist()))

    def _values(self, scalars: Sequence[Ext]) -> dict[int, Ext]:
        values = dict(self._fixed)
        for i, (op, a, b, _) in self._uniform_order.items():
            if op in (Op.SCALAR, Op.BASE_SCALAR):
                values[i] = scalars[a] if op == Op.SCALAR else (scalars[a][0], 0, 0)
            else:
                values[i] = {Op.ADD: ext_add, Op.SUB: ext_sub, Op.MUL: ext_mul}[Op(op)](values[a], values[b])
        return values

    @cached_property
    def _fixed(self) -> dict[int, Ext]:
        """The values that are constants, and the one that -1 stands for."""
        code, constants = self._program.code, self._program.constants
        loads = np.flatnonzero(code[:, 0] == Op.CONST)
        places = zip(loads.tolist(), code[loads, 1].tolist(), strict=True)
        return {-1: (1, 0, 0)} | {i: (constants[a] % P, 0, 0) for i, a in places}

    @cached_property
    def _uniform_order(self) -> dict[int, list[int]]:
        """Every other value from which constants and coefficients are computed, operands first, with its
        instruction."""
        pending = [v for v in self._constants if v >= 0]
        pending += [v for terms in self._terms for _, factors, _ in terms for v in factors]
        needed: dict[int, list[int]] = {}
        while pending:
            v = pending.pop()
            if v not in needed and v not in self._fixed:
                op, a, b, _ = needed[v] = self._program.code[v].tolist()
                pending += (a, b) if op >= Op.ADD else ()
        return dict(sorted(needed.items()))
