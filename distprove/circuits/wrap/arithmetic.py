"""The arithmetic of an R1CS over BN254: what the verifier of the multilinear engine does becomes constraints.

Products stay as they are, and are reduced when they are factors again and the bits of both would not fit: a sum of
products takes one reduction. Each reduction is made once and kept with its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import ONE, Linear, Run, weighted_sum
from distprove.circuits.wrap import goldilocks, poseidon2
from distprove.circuits.wrap.drawn import challenge, element_bits
from distprove.circuits.wrap.goldilocks import assert_zero, canonical, reduced
from distprove.circuits.wrap.integers import Bounded, constant, decomposed
from distprove.errors import UsageError
from distprove.stark.arithmetic import Elements, Indices, Scalars
from distprove.stark.symbolic import SymbolicArithmetic, each
from distprove.stark.transcript import GRIND_LABEL, INDEX_BITS, INDICES, PackedTranscript
from kernels.interface.tree_hash import GRIND_TAG, TreeHash
from kernels.maths.goldilocks import P

MOST_BITS = 246
"""Bits of a product's factors together, at most: five products more, and signs, are within what a reduction takes."""
MOST_OF_A_SUM = 249
"""Bits of a sum, at most."""
FEW_BITS = 72
"""Bits of a value that is not reduced: a reduced one has 64, and sums of some have more. Three factors fit."""
WINDOW = 3
"""Bits of an index whose power is one factor."""


@dataclass(eq=False)
class Value:
    """An element of F as integers that are congruent to its parts modulo p."""

    parts: tuple[Bounded, Bounded, Bounded]
    base: bool = False
    """Whether the element is of F_p: the other two parts are zero."""
    words: bool = False
    """Whether the parts are canonical, as a transcript absorbs them."""
    power: tuple[tuple[Linear, ...], int] | None = None
    """The key of a cached power: the bits of its exponent, which is an index, and its base."""
    is_factor: bool = False
    """Whether it is one of a product."""
    _small: Value | None = field(default=None, repr=False)

    @property
    def known(self) -> int | None:
        """The number that it is, if it is of F_p and known."""
        part = self.parts[0]
        return part.low if self.base and part.low == part.high else None

    @property
    def bits(self) -> int:
        return max(max(abs(part.low), abs(part.high)).bit_length() for part in self.parts)


@dataclass(frozen=True)
class Nonce:
    """The eight bytes of a nonce, as one integer."""

    word: Linear


@dataclass(frozen=True)
class Seed:
    """The seed of a proof of work."""

    element: Linear


class WrapArithmetic(SymbolicArithmetic[Value]):
    """Adds constraints to a circuit."""

    def __init__(self, b: CircuitBuilder) -> None:
        self.b = b
        self._constants: dict[int, Linear] = {}
        self._known: dict[int, Value] = {}
        self._made: dict[tuple[str, int, int], tuple[Value, Value, Value]] = {}
        """Results of operations, with the operands."""
        self.zero = self.constant(0)
        self.one = self.constant(1)
        self.counts: dict[str, int] = {}
        """Constraints by what they are for."""
        self._counted = 0
        self._powers: dict[tuple[tuple[tuple[tuple[Run, int], ...], ...], int], Value] = {}

    # -- values -----------------------------------------------------------------------------------------------------

    def constant(self, value: int) -> Value:
        """A number modulo p, by its residue nearest to zero."""
        value %= P
        if value not in self._known:
            zero = constant(self.b, 0)
            self._known[value] = Value(
                (constant(self.b, value - P if value > P // 2 else value), zero, zero), base=True
            )
        return self._known[value]

    def given(self, name: str, count: int) -> list[Value]:
        """Canonical scalars that a proof gives."""
        if not count:
            return []
        wires = self.b.private_input(name, count)
        self.counted("given words", lambda: canonical(self.b, wires))
        return [self.word(wires[i]) for i in range(count)]

    def given_elements(self, name: str, count: int) -> list[Value]:
        """Canonical elements of F that a proof gives."""
        scalars = self.given(name, 3 * count)
        parts = [scalar.parts[0] for scalar in scalars]
        return [Value((parts[i], parts[i + 1], parts[i + 2]), words=True) for i in range(0, len(parts), 3)]

    def word(self, wire: Linear) -> Value:
        """The scalar of a wire that is canonical."""
        zero = constant(self.b, 0)
        return Value((Bounded(wire, 0, P - 1), zero, zero), base=True, words=True)

    def scalar(self, value: Any) -> Value:
        """A scalar that may be a number."""
        return value if isinstance(value, Value) else self.constant(int(value))

    def small(self, x: Value) -> Value:
        """The element with parts of few bits, reduced once if it has more."""
        if x.bits <= FEW_BITS:
            return x
        if x._small is None:
            parts = self.counted("reductions", lambda: [self._reduced(part) for part in x.parts])
            x._small = Value((parts[0], parts[1], parts[2]), base=x.base)
        return x._small

    def _reduced(self, part: Bounded) -> Bounded:
        return part if part.low == part.high == 0 else reduced(self.b, part)

    def counted(self, what: str, make: Callable[[], Any]) -> Any:
        """What `make` returns; the constraints that it adds count as these."""
        before, counted = self.b.constraints, self._counted
        made = make()
        added = self.b.constraints - before
        self.counts[what] = self.counts.get(what, 0) + added - (self._counted - counted)
        self._counted = counted + added
        return made

    # -- field ------------------------------------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        return self._once("+", a, b, lambda: self._sum(a, b, lambda x, y: x + y))

    def sub(self, a: Value, b: Value) -> Value:
        return self._once("-", a, b, lambda: self._sum(a, b, lambda x, y: x - y))

    def mul(self, a: Value, b: Value) -> Value:
        return self._once("*", a, b, lambda: self._new_product(a, b))

    def _once(self, operator: str, a: Value, b: Value, make: Callable[[], Value]) -> Value:
        """The result of an operation, made once for the same operands. These are kept, so that ids stay theirs."""
        place = operator, id(a), id(b)
        if place not in self._made:
            self._made[place] = make(), a, b
        return self._made[place][0]

    def _sum(self, a: Value, b: Value, combine: Callable[[Bounded, Bounded], Bounded]) -> Value:
        if a.known is not None and b.known is not None:
            return self.constant(combine(a.parts[0], b.parts[0]).low)
        if max(a.bits, b.bits) > MOST_OF_A_SUM:
            a, b = self.small(a), self.small(b)
        x, y, z = (combine(own, other) for own, other in zip(a.parts, b.parts, strict=True))
        return Value((x, y, z), base=a.base and b.base)

    def _new_product(self, a: Value, b: Value) -> Value:
        if b.known is not None:
            a, b = b, a
        if a.known is not None:
            return self._times(b, a.known)
        a, b = self._fitting(a, b)
        if a.base or b.base:
            scalar, other = (a, b) if a.base else (b, a)
            parts = self.counted("products", lambda: [self._product(scalar.parts[0], part) for part in other.parts])
            return Value((parts[0], parts[1], parts[2]), base=other.base)
        return Value(self.counted("products", lambda: goldilocks.multiply(self.b, a.parts, b.parts)))

    def _fitting(self, a: Value, b: Value) -> tuple[Value, Value]:
        """The factors, of which those are reduced that were factors before; and one or both where their bits do not
        fit, as cheaply as it can be."""
        a, b = self._again(a), self._again(b)
        if a.bits + b.bits <= MOST_BITS:
            return a, b
        if self._cost(a) <= self._cost(b):
            first, second = b, a
        else:
            first, second = a, b
        if min(second.bits, FEW_BITS) + first.bits > MOST_BITS:  # the cheaper one alone is not enough
            small = self.small(first)
            first, second = (small, second) if small.bits + second.bits <= MOST_BITS else (small, self.small(second))
        else:
            second = self.small(second)
        return first, second

    def _again(self, x: Value) -> Value:
        if x.is_factor:
            return self.small(x)
        x.is_factor = True
        return x

    def _cost(self, x: Value) -> int:
        """The constraints that a reduction would take."""
        done = x.bits <= FEW_BITS or x._small is not None
        return 0 if done else x.bits * (1 if x.base else 3)

    def _times(self, x: Value, factor: int) -> Value:
        if x.known is not None:
            return self.constant(x.known * factor)
        if factor == 1:
            return x
        if x.bits + abs(factor).bit_length() > MOST_OF_A_SUM:
            x = self.small(x)
        first, second, third = (part.times(factor) for part in x.parts)
        return Value((first, second, third), base=x.base)

    def _product(self, a: Bounded, b: Bounded) -> Bounded:
        if b.low == b.high:
            return a.times(b.low)
        return Bounded(self.b.multiply(a.value, b.value), *a.bounds_of_product(b))

    # -- arrays -----------------------------------------------------------------------------------------------------

    def scalars(self, values: Sequence[Value]) -> Scalars:
        """The array (n,) of scalars."""
        out: Scalars = np.empty(len(values), dtype=object)
        out[:] = values
        return out

    def _scaled(self, a: Any, b: Any) -> Value:
        a, b = self.scalar(a), self.scalar(b)
        made = self.mul(a, b)
        if a is b and a.power is not None:
            made.power = a.power[0], a.power[1] ** 2 % P
        return made

    def folded(self, scaled: Elements, first: Scalars, a: Elements, b: Elements) -> Elements:
        """The factor of the base field comes first: it keeps the difference small enough for the other one."""
        difference = each(self._apart, a, b)
        reduced_first = self.scalars([self.small(value) for value in first])
        moved = self.muls(scaled[None], self.scales(difference, reduced_first[:, None]))
        return self.adds(self.adds(b, self.scales(difference, self.scalars([self.constant(self.half)]))), moved)

    def _apart(self, a: Value, b: Value) -> Value:
        """The difference, small enough to be a factor beside two reduced ones."""
        made = self.sub(a, b)
        return self.small(made) if made.bits + 2 * FEW_BITS > MOST_BITS else made

    def paired(self, factors: Elements, points: Elements, alphas: Sequence[Value]) -> tuple[Elements, Elements]:
        """Two alphas at a time: (1 + a y)(1 + b y^2) has the bits of one factor where y is of the base field."""
        made = [self._paired(*own, alphas) for own in zip(self.elements(factors), self.elements(points), strict=True)]
        return self.array([factor for factor, _ in made]), self.array([y for _, y in made])

    def _paired(self, factor: Value, y: Value, alphas: Sequence[Value]) -> tuple[Value, Value]:
        rest = list(alphas)
        while rest:
            square = self.small(self.mul(y, y))
            a, *rest = rest
            both = self.add(self.one, self.mul(a, y))
            if rest and y.base:
                b, *rest = rest
                cube = self.small(self.mul(square, y))
                both = self.add(both, self.add(self.mul(b, square), self.mul(self.small(self.mul(a, b)), cube)))
                square = self.small(self.mul(square, square))
            factor, y = self.mul(factor, both), square
        return factor, y

    def powers_at(self, base: int, exponents: Indices, bits: int) -> Scalars:
        return self.scalars([self._power(index.bits[:bits], base) for index in exponents])

    def _power(self, bits: tuple[Linear, ...], base: int) -> Value:
        """The power of a number by the number of these bits: a factor for each window of them."""
        place = tuple(tuple(bit.terms.items()) for bit in bits), base
        if place not in self._powers:
            self._powers[place] = self.counted("points", lambda: self._new_power(bits, base))
        return self._powers[place]

    def _new_power(self, bits: tuple[Linear, ...], base: int) -> Value:
        found = self.one
        for start in range(0, len(bits), WINDOW):
            window = bits[start : start + WINDOW]
            weights = [pow(base, k << start, P) for k in range(1 << len(window))]
            terms = [self.b.constant(1)]
            for bit in window:  # the products of each set of bits
                terms += [bit if i == 0 else self.b.multiply(term, bit) for i, term in enumerate(terms)]
            sums = list(weights)  # the coefficients of these products in the power
            for i in range(len(window)):
                sums = [s - sums[k ^ 1 << i] if k >> i & 1 else s for k, s in enumerate(sums)]
            value = weighted_sum(sums, terms)
            factor = Value((Bounded(value, min(weights), max(weights)), *self.zero.parts[1:]), base=True)
            found = self.mul(found, factor)
        return Value(found.parts, base=True, power=(bits, base))

    def inverses(self, a: Scalars) -> Scalars:
        """The inverses of powers by indices, which are such powers too."""
        found = []
        for value in a:
            if value.known == 1:
                found.append(value)
                continue
            if value.power is None:
                raise UsageError("only powers by indices are inverted in this circuit")
            bits, base = value.power
            found.append(self._power(bits, pow(base, -1, P)))
        return self.scalars(found)

    # -- conditions -------------------------------------------------------------------------------------------------

    def need_equal(self, a: Value, b: Value, otherwise: str) -> None:
        for part in self.sub(a, b).parts:
            if part.low != 0 or part.high != 0:
                self.counted("conditions", lambda part=part: assert_zero(self.b, part, otherwise))  # type: ignore[misc]

    def need_nonzero(self, a: Value, otherwise: str) -> None:
        """The canonical parts, side by side, make an element of the circuit's field that has an inverse."""
        if not a.words:
            raise UsageError(f"only what a proof gives is compared with zero: {otherwise}")
        self.b.inverse(poseidon2.packed([part.value for part in a.parts])[0])

    # -- hashing ----------------------------------------------------------------------------------------------------

    def permuted(self, state: Sequence[Any]) -> list[Linear]:
        """The permutation of three elements or numbers."""
        made: list[Linear] = self.counted("hashes", lambda: poseidon2.placed(self.b, [self.wire(x) for x in state]))
        return made

    def sponge(self, words: Sequence[Linear | int]) -> Linear:
        """The digest of words below 2^64, as a wire."""
        elements = poseidon2.packed([self.b.constant(w) if isinstance(w, int) else w for w in words])
        state: list[Linear | int] = [0, 0, poseidon2.SPONGE_TAG + (len(words) << 64)]
        for i in range(0, len(elements), poseidon2.RATE):
            block: list[Linear | int] = [*elements[i : i + poseidon2.RATE], 0]
            state = [*self.permuted([*block[: poseidon2.RATE], state[2]])]
        return self.wire(state[0])

    def wire(self, x: Linear | int) -> Linear:
        """A wire of a value or number; numbers have one each."""
        if isinstance(x, Linear):
            single = list(x.terms.values()) == [1] and ONE not in x.terms
            return x if single else self.b.settle(x)
        if x not in self._constants:
            self._constants[x] = self.b.settle(self.b.constant(x))
        return self._constants[x]

    def transcript(self, purpose: bytes, tree_hash: TreeHash) -> WrapTranscript:
        if tree_hash is not TreeHash.POSEIDON2_BN254:
            raise UsageError(f"a wrap is of keys under {TreeHash.POSEIDON2_BN254.label}, not {tree_hash.label}")
        return WrapTranscript(self, purpose)

    def drawn(self, transcript: Any, label: bytes) -> Value:
        drawn: Value = transcript.extension(label)
        return drawn

    def drawn_scalars(self, transcript: Any, label: bytes, count: int) -> Scalars:
        raise UsageError("a wrap draws elements of the extension alone")

    def nonce_bytes(self, nonce: Linear) -> Nonce:
        return Nonce(nonce)

    def need_work(self, seed: Seed, nonce: Linear, bits: int, tree_hash: TreeHash, otherwise: str) -> None:
        low = self.bits_of(self.permuted([seed.element, nonce, GRIND_TAG])[0])[:bits]
        if low:
            self.b.assert_equal(weighted_sum([1] * len(low), low), self.b.constant(0), otherwise)

    def bits_of(self, element: Linear) -> list[Linear]:
        """The bits of an element that a permutation gives."""
        made: list[Linear] = self.counted("transcript", lambda: element_bits(self.b, element))
        return made

    def given_nonce(self, name: str) -> Linear:
        """A nonce of 64 bits that a proof gives."""
        wire = self.b.private_input(name)
        decomposed(self.b, wire, 64)
        return wire


class WrapTranscript(PackedTranscript):
    """A transcript over wires."""

    def __init__(self, arithmetic: WrapArithmetic, purpose: bytes) -> None:
        self._f = arithmetic
        super().__init__(purpose)

    def _permuted(self, state: list[Any]) -> list[Any]:
        return list(self._f.permuted(state))

    def absorb(self, label: bytes, data: bytes | Nonce) -> None:
        if isinstance(data, Nonce):
            self._absorb_octets(label, (data.word,), 8)
        else:
            super().absorb(label, data)

    def absorb_words(self, label: bytes, words: Any) -> None:
        flat: list[Value] = list(words.reshape(-1))
        if not all(value.words for value in flat):
            raise UsageError("only canonical elements are absorbed")
        parts = [part.value for value in flat for part in (value.parts[:1] if words.ndim == 1 else value.parts)]
        self._absorb_packed(label, poseidon2.packed(parts) if parts else (), len(parts))

    def absorb_root(self, label: bytes, root: Any) -> None:
        if isinstance(root, Linear):
            self._absorb_digest(label, root)
        else:
            super().absorb_root(label, root)

    def extension(self, label: bytes) -> Any:
        element = next(self._elements(label))
        drawn = self._f.counted("transcript", lambda: challenge(self._f.b, element))
        return Value(drawn, words=True)

    def indices(self, label: bytes, count: int, bits: int) -> list[Any]:
        elements = islice(self._elements(label), -(-count // INDICES))
        made = [self._f.bits_of(element) for element in elements]
        pieces = [own[INDEX_BITS * k :][:bits] for own in made for k in range(INDICES)]
        return [WrapIndex(tuple(piece)) for piece in pieces[:count]]

    def grinding_seed(self) -> Any:
        return Seed(next(self._elements(GRIND_LABEL)))


@dataclass(frozen=True, eq=False)
class WrapIndex:
    """An index by its bits, the lowest first."""

    bits: tuple[Linear, ...]
