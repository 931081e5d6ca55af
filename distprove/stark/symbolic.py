"""Arrays of symbols: what the arithmetics of circuits have in common. The last axis has one symbol an element."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distprove.stark.air.point import PointProgram
from distprove.stark.arithmetic import Arithmetic, E, Elements, Scalars
from kernels.interface.row_program import Op


class SymbolicArithmetic(Arithmetic[E]):
    """An arithmetic on symbols, each of which is one object. Scalars are symbols, too."""

    @abstractmethod
    def scalar(self, value: Any) -> E:
        """A scalar that may be a number."""

    def elements(self, array: Elements) -> list[E]:
        return list(array[:, 0])

    def array(self, elements: Sequence[E]) -> Elements:
        out = np.empty((len(elements), 1), dtype=object)
        out[:, 0] = elements
        return out

    def embed(self, a: Scalars) -> Elements:
        embedded: Elements = a[..., None]
        return embedded

    def adds(self, a: Elements, b: Elements) -> Elements:
        return each(self.add, a, b)

    def subs(self, a: Elements, b: Elements) -> Elements:
        return each(self.sub, a, b)

    def muls(self, a: Elements, b: Elements) -> Elements:
        return each(self.mul, a, b)

    def scales(self, a: Elements, b: Scalars) -> Elements:
        return each(self._scaled, a, b[..., None])

    def scalar_muls(self, a: Scalars, b: Scalars) -> Scalars:
        return each(self._scaled, a, b)

    def _scaled(self, a: Any, b: Any) -> E:
        """The product of an element or scalar and a scalar, each of which may be a number."""
        return self.mul(self.scalar(a), self.scalar(b))

    def weighted(self, weights: Sequence[E], rows: Scalars) -> Elements:
        out = np.full((*rows.shape[:-1], 1), self.zero, dtype=object)
        for column, weight in enumerate(weights):
            out = self.adds(out, self.muls(self.array([weight]), rows[..., column, None]))
        return out

    def program_at(self, program: PointProgram, this: Sequence[Any], next_: Sequence[Any], scalars: Elements) -> E:
        values: list[E] = []
        row = program.program
        for op, a, b, later in row.instructions():
            match op:
                case Op.LOAD:
                    values.append((next_ if later else this)[a][b, 0])
                case Op.CONST:
                    values.append(self.constant(row.constants[a]))
                case Op.SCALAR | Op.BASE_SCALAR:
                    values.append(scalars[a, 0])
                case _:
                    combine = {Op.ADD: self.add, Op.SUB: self.sub, Op.MUL: self.mul}[Op(op)]
                    values.append(combine(values[a], values[b]))
        assert row.fold is not None, "a point program folds"
        weights = self.elements(scalars[row.fold :][: len(row.outputs)])
        return self.sum([self.mul(w, values[v]) for w, v in zip(weights, row.outputs, strict=True)])

    def need_all_equal(self, a: Elements, b: Elements, otherwise: str) -> None:
        for x, y in zip(self.elements(a), self.elements(b), strict=True):
            self.need_equal(x, y, otherwise)


def each(function: Callable[[Any, Any], Any], a: Scalars, b: Scalars) -> Scalars:
    """What a function makes of each pair, with broadcasting."""
    made: Scalars = np.frompyfunc(function, 2, 1)(a, b)
    return made
