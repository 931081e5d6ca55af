"""Rewrites row programs whose values are long chains of sums and products by constants.

A value that is linear in a few others is computed from these directly where that takes fewer instructions. Code that is
cut into pieces computes chains again in each piece: the rules of a node's permutations, whose partial rounds are such
chains, take a quarter of the instructions, and their longest piece a seventh.
"""

from __future__ import annotations

import numpy as np

from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P

MOST_TERMS = 64
"""Most values in a form."""
LONGER = 2
"""A chain is replaced if it is longer than its form by this factor."""
_ONE = -1
"""Stands for the number one among the values of a form."""
_Form = dict[int, int]
"""Coefficients by value."""


def straightened(program: RowProgram) -> RowProgram:
    """A program with the same outputs. It is `program` itself if no chain is long."""
    forms = _Forms(program)
    chosen = {v: form for v in forms.roots for form in [forms.shorter(v)] if form is not None}
    return _rewritten(program, chosen) if chosen else program


class _Forms:
    """The values of a program as sums of others."""

    def __init__(self, program: RowProgram) -> None:
        self._code: list[list[int]] = program.code.tolist()
        self._constants = program.constants
        self._extension: list[bool] = program.is_extension.tolist()
        self._forms: list[_Form] = []
        self._most: list[int] = []
        """No fewer instructions than the chain of each value has."""
        for v, (_, a, b, _) in enumerate(self._code):
            self._forms.append(self._form(v))
            self._most.append(1 + self._most[a] + self._most[b] if self._follows(v) else 0)
        used = set(program.outputs)
        for v, (op, a, b, _) in enumerate(self._code):
            if op >= Op.ADD and not self._follows(v):
                used |= {a, b}
        self.roots = sorted(used)
        """Values that are outputs, or that something other than a sum reads."""

    def _form(self, v: int) -> _Form:
        op, a, b, _ = self._code[v]
        if op == Op.CONST:
            return {_ONE: self._constants[a]}
        if self._extension[v] or op < Op.ADD:
            return {v: 1}
        left, right = self._forms[a], self._forms[b]
        if op == Op.MUL:
            if right.keys() == {_ONE}:
                left, right = right, left
            if left.keys() != {_ONE}:
                return {v: 1}
            found = {x: c * left[_ONE] % P for x, c in right.items()}
        else:
            found, sign = dict(left), 1 if op == Op.ADD else -1
            for x, c in right.items():
                found[x] = (found.get(x, 0) + sign * c) % P
        found = {x: c for x, c in found.items() if c}
        return found if len(found) <= MOST_TERMS else {v: 1}

    def _follows(self, v: int) -> bool:
        """Whether a value is computed from others by sums and products by constants."""
        return self._code[v][0] >= Op.ADD and self._forms[v] != {v: 1}

    def shorter(self, v: int) -> _Form | None:
        """The form of a value, if its chain is so much longer."""
        steps = sum(1 if c in (1, P - 1) or x == _ONE else 2 for x, c in self._forms[v].items())
        if self._most[v] <= LONGER * steps:
            return None
        chain, pending = set[int](), [v]
        while pending and len(chain) <= LONGER * steps:
            own = pending.pop()
            if own not in chain and self._follows(own):
                chain.add(own)
                pending += self._code[own][1:3]
        return self._forms[v] if len(chain) > LONGER * steps else None


def _rewritten(program: RowProgram, chosen: dict[int, _Form]) -> RowProgram:
    """The program with these values computed by their forms."""
    code: list[list[int]] = program.code.tolist()
    needed = set(program.outputs)
    for v in reversed(range(len(code))):
        if v in needed:
            op, a, b, _ = code[v]
            needed |= chosen[v].keys() - {_ONE} if v in chosen else {a, b} if op >= Op.ADD else set()
    constants: dict[int, int] = {}
    """Numbers by value."""
    out: list[tuple[int, int, int, int]] = []
    place: dict[int, int] = {}
    numbers: dict[int, int] = {}
    """Where each constant was loaded."""

    def emit(op: int, a: int, b: int = 0, c: int = 0) -> int:
        out.append((int(op), a, b, c))
        return len(out) - 1

    def constant(value: int) -> int:
        if value not in numbers:
            numbers[value] = emit(Op.CONST, constants.setdefault(value, len(constants)))
        return numbers[value]

    def total(form: _Form) -> int:
        """The value of a form: what is only added comes first, so that the first term is none that is subtracted."""
        found: int | None = None
        for x, c in sorted(form.items(), key=lambda term: term[1] == P - 1):
            if x == _ONE:
                own, op = constant(c), Op.ADD
            elif c == P - 1 and found is not None:
                own, op = place[x], Op.SUB
            else:
                own, op = place[x] if c == 1 else emit(Op.MUL, place[x], constant(c)), Op.ADD
            found = own if found is None else emit(op, found, own)
        return constant(0) if found is None else found

    for v, (op, a, b, c) in enumerate(code):
        if v not in needed:
            continue
        if v in chosen:
            place[v] = total(chosen[v])
        elif op == Op.CONST:
            place[v] = constant(program.constants[a])
        else:
            place[v] = emit(op, place[a], place[b]) if op >= Op.ADD else emit(op, a, b, c)
    return RowProgram(
        widths=program.widths,
        code=np.array(out, dtype=np.int32).reshape(-1, 4),
        constants=tuple(constants),
        scalars=program.scalars,
        outputs=tuple(place[v] for v in program.outputs),
        fold=program.fold,
    )
