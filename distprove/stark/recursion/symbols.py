"""The arithmetic of symbols: what the verifier does on numbers becomes the operations of a circuit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from distprove.errors import UsageError
from distprove.stark.air.point import PointProgram
from distprove.stark.arithmetic import Arithmetic, Elements, Indices, Scalars
from distprove.stark.field import P
from distprove.stark.recursion.circuit import (
    BITS,
    WORDS,
    Bits,
    Circuit,
    Constant,
    Given,
    Index,
    Join,
    OpenedNode,
    OpenedTree,
    Operation,
    Permutation,
    Power,
    Public,
    Relation,
    SiblingPlace,
    Step,
    Wire,
    simplified,
)
from distprove.stark.transcript import GRIND_LABEL, DuplexTranscript, work_state
from kernels.cpu.poseidon2 import DIGEST, WIDTH
from kernels.interface.row_program import Op
from kernels.interface.tree_hash import TreeHash


@dataclass(frozen=True)
class Octets:
    """Bytes of a known number: the scalars as which a transcript absorbs them."""

    scalars: tuple[Wire, ...]
    length: int


@dataclass(frozen=True)
class Root:
    """A digest that is given: its four scalars, and the wire of the whole."""

    parts: tuple[Wire, ...]
    wire: Wire


def scalar_array(wires: Sequence[Wire]) -> Scalars:
    """The array (n,) of scalars."""
    out: Scalars = np.empty(len(wires), dtype=object)
    out[:] = wires
    return out


class Symbols(Arithmetic[Wire]):
    """Records operations. Equal ones are recorded once, and those of constants are computed."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._wires = 0
        self._constants: dict[tuple[int, ...], Wire] = {}
        self._values: dict[int, int] = {}
        """The values of constant scalars, by the wire's number."""
        self._relations: dict[tuple[str, int, int], Wire] = {}
        self._joined: dict[int, tuple[Wire, ...]] = {}
        """The parts of elements, by the wire's number."""
        self._decomposed: dict[int, Bits] = {}
        """By the number of the scalar."""
        self._decompositions: dict[int, Wire] = {}
        """The decomposed scalars, by the number of their lowest bit."""
        self._powers: dict[int, Power] = {}
        """By the number of the scalar whose lowest bits are the exponent."""
        self._places: dict[str, int] = {}
        self._public: list[tuple[str, int]] = []
        self._publics = 0
        self.zero = self.constant(0)
        self.one = self.constant(1)

    def circuit(self) -> Circuit:
        powered = [
            replace(o, power=self._powers.get(o.of.number)) if isinstance(o, Bits) else o for o in self._operations
        ]
        operations = simplified(powered, self.zero, self.one)
        return Circuit(tuple(operations), self._wires, tuple(self._public))

    # -- what a proof gives -----------------------------------------------------------------------------------------

    def public(self, field: str, count: int) -> tuple[Wire, ...]:
        """The next `count` public values: this field."""
        self._public.append((field, count))
        wires = self._new(count)
        for wire in wires:
            self._add(Public(self._publics, wire))
            self._publics += 1
        return wires

    def scalars(self, field: str, count: int) -> tuple[Wire, ...]:
        """The next scalars of a field of the proof."""
        wires: list[Wire] = []
        for start in range(0, count, WORDS):
            given = self._given(field, min(WORDS, count - start))
            self._add(given)
            wires += given.parts
        return tuple(wires)

    def flag(self, field: str) -> Wire:
        """The next scalar of a field of the proof, which must be 0 or 1."""
        (flag,) = self.scalars(field, 1)
        self.need_equal(self.mul(flag, flag), flag, f"{field} is neither 0 nor 1")
        return flag

    def element(self, field: str) -> Wire:
        """The next element of a field of the proof."""
        return self._whole(field, 3)

    def root(self, field: str) -> Root:
        """The next digest of a field of the proof."""
        wire = self._whole(field, DIGEST)
        return Root(self._joined[wire.number], wire)

    def join(self, parts: Sequence[Wire]) -> Wire:
        """The element of three scalars, or the digest of four."""
        (out,) = self._new(1)
        self._joined[out.number] = tuple(parts)
        self._add(Join(tuple(parts), out))
        return out

    def opened(self, tree: int, leaves: Sequence[Index], width: int) -> list[tuple[Wire, ...]]:
        """The given rows of a tree at some leaves. Whoever takes them must hash them to the root."""
        rows = []
        for _ in leaves:
            wires = self._new(width)
            starts = range(0, width, WORDS)
            rows.append(tuple(Given("", start, wires[start : start + WORDS]) for start in starts))
        self._add(OpenedTree(tree, tuple(leaves), tuple(rows)))
        for row in rows:
            self._operations += row
        return [tuple(wire for given in row for wire in given.parts) for row in rows]

    def opened_node(self, tree: int, leaf: Index, log_size: int, flipped: int) -> tuple[Wire, ...]:
        """The scalars of a given digest of a tree (`OpenedNode`)."""
        given = Given("", 0, self._new(DIGEST))
        self._add(OpenedNode(tree, leaf, log_size, flipped, given))
        self._add(given)
        return given.parts

    def _whole(self, field: str, count: int) -> Wire:
        (out,) = self._new(1)
        given = self._given(field, count, out)
        self._joined[out.number] = given.parts
        self._add(given)
        return out

    def _given(self, field: str, count: int, out: Wire | None = None) -> Given:
        place = self._places.get(field, 0)
        self._places[field] = place + count
        return Given(field, place, self._new(count), out)

    # -- field ------------------------------------------------------------------------------------------------------

    def constant(self, value: int) -> Wire:
        return self.fixed((value % P, 0, 0, 0))

    def fixed(self, value: tuple[int, ...]) -> Wire:
        """The wire of four numbers."""
        wire = self._constants.get(value)
        if wire is None:
            (wire,) = self._new(1)
            self._constants[value] = wire
            if not any(value[1:]):
                self._values[wire.number] = value[0]
            self._add(Constant(value, wire))
        return wire

    def scalar(self, value: Any) -> Wire:
        """The wire of a scalar that may be a number."""
        return value if isinstance(value, Wire) else self.constant(int(value))

    def add(self, a: Wire, b: Wire) -> Wire:
        if a is self.zero:
            return b
        if b is self.zero:
            return a
        x, y = self._values.get(a.number), self._values.get(b.number)
        if x is not None and y is not None:
            return self.constant(x + y)
        a, b = sorted((a, b), key=lambda wire: wire.number)
        return self._result("+", a, b)

    def sub(self, a: Wire, b: Wire) -> Wire:
        if b is self.zero:
            return a
        x, y = self._values.get(a.number), self._values.get(b.number)
        if x is not None and y is not None:
            return self.constant(x - y)
        return self._result("-", a, b)

    def mul(self, a: Wire, b: Wire) -> Wire:
        x, y = self._values.get(a.number), self._values.get(b.number)
        if x is not None and y is not None:
            return self.constant(x * y)
        if 0 in (x, y):
            return self.zero
        if x == 1 or y == 1:
            return b if x == 1 else a
        a, b = sorted((a, b), key=lambda wire: wire.number)
        return self._result("*", a, b)

    def _result(self, operator: str, a: Wire, b: Wire) -> Wire:
        key = operator, a.number, b.number
        wire = self._relations.get(key)
        if wire is None:
            (wire,) = self._new(1)
            self._relations[key] = wire
            match operator:
                case "+":
                    self._add(Relation(a, self.one, b, wire, "d"))
                case "-":
                    self._add(Relation(b, self.one, wire, a, "c"))
                case _:
                    self._add(Relation(a, b, self.zero, wire, "d"))
        return wire

    # -- arrays -----------------------------------------------------------------------------------------------------

    def elements(self, array: Elements) -> list[Wire]:
        return list(array[:, 0])

    def array(self, elements: Sequence[Wire]) -> Elements:
        out = np.empty((len(elements), 1), dtype=object)
        out[:, 0] = elements
        return out

    def embed(self, a: Scalars) -> Elements:
        embedded: Elements = a[..., None]
        return embedded

    def adds(self, a: Elements, b: Elements) -> Elements:
        return _each(self.add, a, b)

    def subs(self, a: Elements, b: Elements) -> Elements:
        return _each(self.sub, a, b)

    def muls(self, a: Elements, b: Elements) -> Elements:
        return _each(self.mul, a, b)

    def scales(self, a: Elements, b: Scalars) -> Elements:
        return _each(self._scaled, a, b[..., None])

    def scalar_muls(self, a: Scalars, b: Scalars) -> Scalars:
        return _each(self._scaled, a, b)

    def _scaled(self, a: Any, b: Any) -> Wire:
        return self.mul(self.scalar(a), self.scalar(b))

    def weighted(self, weights: Sequence[Wire], rows: Scalars) -> Elements:
        out = np.full((*rows.shape[:-1], 1), self.zero, dtype=object)
        for column, weight in enumerate(weights):
            out = self.adds(out, self.muls(self.array([weight]), rows[..., column, None]))
        return out

    def powers_at(self, base: int, exponents: Indices, bits: int) -> Scalars:
        return scalar_array([self._power(base, index, bits) for index in exponents])

    def _power(self, base: int, index: Index, bits: int) -> Wire:
        """The power of a number by an index, once for each index."""
        assert len(index.bits) == bits, "the whole index"
        if not bits:
            return self.one
        own = self._decompositions[index.bits[0].number]
        if own.number in self._powers:
            raise UsageError("two powers by one index; circuits have room for one")
        (out,) = self._new(1)
        self._powers[own.number] = Power(base, bits, out)
        return out

    def inverses(self, a: Scalars) -> Scalars:
        return scalar_array([self.inverse(value, "a point of the domain is zero") for value in a])

    def inverse(self, a: Wire, otherwise: str) -> Wire:
        """The inverse of an element that must not be zero."""
        if a is self.one:
            return a
        (inverse,) = self._new(1)
        self._add(Relation(a, inverse, self.zero, self.one, "b", otherwise))
        return inverse

    def program_at(self, program: PointProgram, this: Sequence[Any], next_: Sequence[Any], scalars: Elements) -> Wire:
        values: list[Wire] = []
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

    # -- conditions -------------------------------------------------------------------------------------------------

    def need_equal(self, a: Wire, b: Wire, otherwise: str) -> None:
        self._add(Relation(a, self.one, self.zero, b, None, otherwise))

    def need_all_equal(self, a: Elements, b: Elements, otherwise: str) -> None:
        for x, y in zip(self.elements(a), self.elements(b), strict=True):
            self.need_equal(x, y, otherwise)

    def need_nonzero(self, a: Wire, otherwise: str) -> None:
        self.inverse(a, otherwise)

    # -- bits and hashing -------------------------------------------------------------------------------------------

    def bits(self, of: Wire) -> Bits:
        """The decomposition of a scalar."""
        found = self._decomposed.get(of.number)
        if found is None:
            low, high = self._new(2)
            found = self._decomposed[of.number] = Bits(of, self._new(BITS), (low, high))
            self._decompositions[found.bits[0].number] = of
            self._add(found)
        return found

    def permute(self, state: Sequence[Any], digest: Wire | None = None) -> Permutation:
        """The permutation of 16 scalars, which may be numbers. `digest`, if given, must be the first four."""
        wires = tuple(self.scalar(value) for value in state)
        made = Permutation(wires, self._new(WIDTH), digest, digest is not None)
        self._add(made)
        return made

    def hashed(self, state: Sequence[Any]) -> Wire:
        """The digest that the permutation of 16 scalars begins with."""
        (digest,) = self._new(1)
        wires = tuple(self.scalar(value) for value in state)
        self._add(Permutation(wires, self._new(WIDTH), digest))
        return digest

    def step(self, child: Wire, position: Sequence[Wire], place: SiblingPlace, root: Wire | None = None) -> Wire:
        """The digest of the node above `child`, which must be `root` if that is given."""
        out = root or self._new(1)[0]
        self._add(Step(child, tuple(position), out, place, root is not None))
        return out

    def transcript(self, purpose: bytes, tree_hash: TreeHash) -> SymbolTranscript:
        if tree_hash is not TreeHash.POSEIDON2:
            raise UsageError(f"circuits are made for keys under {TreeHash.POSEIDON2.label}, not {tree_hash.label}")
        return SymbolTranscript(self, purpose)

    def drawn(self, transcript: Any, label: bytes) -> Wire:
        drawn: Wire = transcript.extension(label)
        return drawn

    def drawn_scalars(self, transcript: Any, label: bytes, count: int) -> Scalars:
        return scalar_array([self.scalar(drawn) for drawn in transcript.scalars(label, count)])

    def nonce_bytes(self, nonce: Wire) -> Octets:
        return Octets(self.bits(nonce).halves, 8)

    def need_work(self, seed: Sequence[Wire], nonce: Wire, bits: int, tree_hash: TreeHash, otherwise: str) -> None:
        first = self.permute(work_state(seed, nonce)).outs[0]
        low = self.bits(first).bits[:bits]  # each is 0 or 1, so that their sum is zero for zeros alone
        self.need_equal(self.sum(low), self.zero, otherwise)

    def parts(self, element: Wire) -> tuple[Wire, ...]:
        """The scalars of an element that a proof gives. Nothing else is ever absorbed."""
        return self._joined[element.number]

    def _new(self, count: int) -> tuple[Wire, ...]:
        first, self._wires = self._wires, self._wires + count
        return tuple(Wire(number) for number in range(first, first + count))

    def _add(self, operation: Operation) -> None:
        self._operations.append(operation)


def _each(function: Callable[[Any, Any], Wire], a: Scalars, b: Scalars) -> Scalars:
    made: Scalars = np.frompyfunc(function, 2, 1)(a, b)
    return made


class SymbolTranscript(DuplexTranscript):
    """A transcript over symbols."""

    def __init__(self, symbols: Symbols, purpose: bytes) -> None:
        self._symbols = symbols
        super().__init__(purpose)

    def _permuted(self, state: list[Any]) -> list[Any]:
        return list(self._symbols.permute(state).outs)

    def absorb(self, label: bytes, data: bytes | Octets) -> None:
        if isinstance(data, Octets):
            self._absorb_octets(label, data.scalars, data.length)
        else:
            super().absorb(label, data)

    def absorb_words(self, label: bytes, words: Any) -> None:
        if words.ndim > 1:  # elements
            self._absorb_scalars(
                label, [part for element in words.reshape(-1) for part in self._symbols.parts(element)]
            )
        else:
            self._absorb_scalars(label, list(words))

    def absorb_root(self, label: bytes, root: Any) -> None:
        self._absorb_scalars(label, root.parts)

    def extension(self, label: bytes) -> Any:
        return self._symbols.join(tuple(islice(self._drawn(label), 3)))

    def indices(self, label: bytes, count: int, bits: int) -> list[Any]:
        drawn = islice(self._drawn(label), count)
        return [Index(self._symbols.bits(element).bits[:bits]) for element in drawn]

    def grinding_seed(self) -> Any:
        return tuple(islice(self._drawn(GRIND_LABEL), DIGEST))

    def _drawn(self, label: bytes) -> Iterator[Wire]:
        return (self._symbols.scalar(element) for element in self._elements(label))
