"""The operations on elements of a field, single ones and arrays, over which verifiers and their helpers are written.

`distprove.stark.arithmetic` has those of Goldilocks, on numbers and on symbols; `distprove.stark.openvm.field` those of
BabyBear.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof

E = TypeVar("E")
Elements = NDArray[Any]
Scalars = NDArray[Any]
Indices = NDArray[Any]
"""Drawn indices of leaves: integers, or symbols of their bits."""


class FieldOperations(ABC, Generic[E]):
    """Operations on elements of type `E`."""

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


class ArrayOperations(FieldOperations[E]):
    """Operations on arrays of elements too, whose last axis holds one element, and on arrays of *scalars*, elements of
    the prime field, which have no such axis. A `need_...` states a condition that a valid proof meets."""

    p: int
    """Size of the prime field."""

    @property
    def half(self) -> int:
        """The inverse of two."""
        return (self.p + 1) // 2

    @staticmethod
    @abstractmethod
    def root_of_unity(log_n: int) -> int:
        """The primitive root of unity of order 2^log_n."""

    def lagrange(self, point: E, log_size: int) -> tuple[E, ...]:
        """The Lagrange polynomials of the domain of 2^log_size points, at `point`."""
        size = 1 << log_size
        powers, root = self.powers(point, size), pow(self.root_of_unity(log_size), -1, self.p)
        scale = pow(size, -1, self.p)
        found = []
        for a in range(size):
            total = self.zero
            for k, power in enumerate(powers):
                total = self.add(total, self.scale(power, pow(root, a * k % size, self.p)))
            found.append(self.scale(total, scale))
        return tuple(found)

    @abstractmethod
    def need_equal(self, a: E, b: E, otherwise: str) -> None: ...

    @abstractmethod
    def need_nonzero(self, a: E, otherwise: str) -> None: ...

    @abstractmethod
    def elements(self, array: Elements) -> list[E]:
        """The elements of an array (..., element), in C order."""

    @abstractmethod
    def array(self, elements: Sequence[E]) -> Elements:
        """The array (n, element)."""

    @abstractmethod
    def adds(self, a: Elements, b: Elements) -> Elements: ...

    @abstractmethod
    def subs(self, a: Elements, b: Elements) -> Elements: ...

    @abstractmethod
    def muls(self, a: Elements, b: Elements) -> Elements:
        """The products of elements, with broadcasting."""

    @abstractmethod
    def scales(self, a: Elements, b: Scalars) -> Elements:
        """The products of elements (..., element) and scalars (...)."""

    @abstractmethod
    def scalar_muls(self, a: Scalars, b: Scalars) -> Scalars:
        """The products of scalars, one of which may be numbers."""

    @abstractmethod
    def inverses(self, a: Scalars) -> Scalars:
        """The inverses of scalars, none of which is zero in a valid proof."""

    @abstractmethod
    def powers_at(self, base: int, exponents: Indices, bits: int) -> Scalars:
        """The powers of a number by indices of so many bits."""

    def folded(self, scaled: Elements, first: Scalars, a: Elements, b: Elements) -> Elements:
        """The halves a and b (q, n, element) of leaves, folded: (a + b) / 2 + scaled first (a - b), for `scaled`
        (n, element) and `first` (q,)."""
        weights = self.adds(self.scales(scaled[None], first[:, None]), self.array([self.constant(self.half)]))
        return self.adds(self.muls(weights, self.subs(a, b)), b)

    def fold_leaves(
        self, word: Elements, indices: Indices, log_domain: int, alphas: Sequence[E]
    ) -> tuple[Elements, Scalars]:
        """Fold leaves (q, 2^k, element) of a codeword of 2^log_domain elements, at the places `indices` of its tree, by
        k challenges: (q, element). And the points (q,) to which the folded values belong.

        Element u of leaf i is that of the point w^i v^u, w of order 2^log_domain and v of order 2^k.
        """
        # The inverse of the point of element 0; that of element u is v^-u times it.
        log_leaves = log_domain - len(alphas)
        first = self.powers_at(pow(self.root_of_unity(log_domain), -1, self.p), indices, log_leaves)
        for level, alpha in zip(range(len(alphas), 0, -1), alphas, strict=True):
            pairs = 1 << (level - 1)
            root = pow(self.root_of_unity(level), -1, self.p)
            # (a + b) / 2 + alpha (a - b) / (2 y) = b + (1 + alpha / y) / 2 (a - b)
            scaled = self.array([self.scale(alpha, self.half * pow(root, u, self.p) % self.p) for u in range(pairs)])
            word = self.folded(scaled, first, word[:, :pairs], word[:, pairs:])
            first = self.scalar_muls(first, first)
        folded: Elements = word[:, 0]
        return folded, self.inverses(first)


class NumberOperations(ArrayOperations[E]):
    """Operations on tuples of numbers and on NumPy arrays, where products that several results need are computed once.
    A condition that fails raises InvalidProof."""

    word: type[np.unsignedinteger[Any]]
    """The type of an array's numbers."""
    degree: int
    """Number of coordinates of an element."""

    def elements(self, array: Elements) -> list[E]:
        found: list[Any] = list(map(tuple, array.reshape(-1, self.degree).tolist()))
        return found

    def array(self, elements: Sequence[E]) -> Elements:
        return np.array(elements, dtype=self.word).reshape(-1, self.degree)

    def need_equal(self, a: E, b: E, otherwise: str) -> None:
        if a != b:
            raise InvalidProof(otherwise)

    def need_nonzero(self, a: E, otherwise: str) -> None:
        if a == self.zero:
            raise InvalidProof(otherwise)

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
