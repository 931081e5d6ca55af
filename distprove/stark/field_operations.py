"""The operations on single elements of a field over which polynomials' helpers and verifiers are written.

`distprove.stark.arithmetic` has those of Goldilocks, on numbers and on symbols; `distprove.stark.openvm.field` those of
BabyBear.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

E = TypeVar("E")


class FieldOperations(ABC, Generic[E]):
    """Operations on elements of type `E`. A `need_...` states a condition that a valid proof meets."""

    zero: E
    one: E

    @abstractmethod
    def constant(self, value: int) -> E:
        """An element of the prime field."""

    @abstractmethod
    def add(self, a: E, b: E) -> E: ...

    @abstractmethod
    def sub(self, a: E, b: E) -> E: ...

    @abstractmethod
    def mul(self, a: E, b: E) -> E: ...

    def scale(self, a: E, b: int) -> E:
        """The product with a number below p."""
        return self.mul(a, self.constant(b))

    def powers(self, a: E, count: int) -> list[E]:
        """The first `count` powers 1, a, a^2, ..."""
        out = [self.one]
        while len(out) < count:
            out.append(self.mul(out[-1], a))
        return out[:count]

    def sum(self, values: Sequence[E]) -> E:
        total = self.zero
        for value in values:
            total = self.add(total, value)
        return total

    def eqs(self, point: Sequence[E], places: Iterable[tuple[int, int]]) -> Iterator[E]:
        """For each (first, index) the product over i of point_(first + i) if bit i of the index is set, else of one
        less that."""
        for first, index in places:
            product = self.one
            for i, x in enumerate(point[first:]):
                product = self.mul(product, x if index >> i & 1 else self.sub(self.one, x))
            yield product

    @abstractmethod
    def need_equal(self, a: E, b: E, otherwise: str) -> None: ...

    @abstractmethod
    def need_nonzero(self, a: E, otherwise: str) -> None: ...


class NumberOperations(FieldOperations[E]):
    """Operations on numbers, where products that several results need are computed once."""

    def eqs(self, point: Sequence[E], places: Iterable[tuple[int, int]]) -> Iterator[E]:
        """Places that have their upper bits in common share the products of these."""
        away, known = [self.sub(self.one, x) for x in point], dict[tuple[int, int], E]()

        def value(first: int, index: int) -> E:
            if first == len(point):
                return self.one
            if (first, index) not in known:
                factor = point[first] if index & 1 else away[first]
                known[first, index] = self.mul(factor, value(first + 1, index >> 1))
            return known[first, index]

        return (value(first, index) for first, index in places)
