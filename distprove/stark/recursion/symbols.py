"""The arithmetic of symbols: what the verifier does on numbers becomes the operations of a circuit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from distprove.errors import UsageError
from distprove.stark.arithmetic import Indices, Scalars
from distprove.stark.field import P
from distprove.stark.recursion.circuit import (
    BITS,
    HALVES,
    NONE,
    WORDS,
    Circuit,
    Index,
    SiblingPlace,
    Target,
    Wire,
)
from distprove.stark.recursion.recorder import Part, Recorder
from distprove.stark.symbolic import SymbolicArithmetic
from distprove.stark.transcript import GRIND_LABEL, DuplexTranscript, work_state
from kernels.cpu.poseidon2 import DIGEST, WIDTH
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


@dataclass(frozen=True)
class Decomposition:
    """The 64 bits of a scalar, the lowest first, as a number below p; and its lower and upper half as scalars."""

    number: int
    of: Wire
    bits: tuple[Wire, ...]
    halves: tuple[Wire, Wire]


@dataclass
class _Scope:
    """What a part of a circuit may use again."""

    relations: dict[tuple[str, int, int], Wire] = field(default_factory=dict)
    decomposed: dict[int, Decomposition] = field(default_factory=dict)
    """By the number of the scalar."""
    by_bit: dict[int, Decomposition] = field(default_factory=dict)
    """By the number of the lowest bit."""
    powered: set[int] = field(default_factory=set)
    """Numbers of the decomposed scalars whose lowest bits are an exponent."""
    leaves: dict[Index, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Repeated:
    """A part of a circuit, with what it depended on."""

    part: Part
    prefix: str
    trees: int
    inputs: tuple[Wire, ...]
    outs: tuple[Wire, ...]


class Symbols(SymbolicArithmetic[Wire]):
    """Records operations. Equal ones are recorded once, and those of constants are computed."""

    def __init__(self) -> None:
        self._record = Recorder()
        self._constants: dict[tuple[int, ...], Wire] = {}
        self._values: dict[int, int] = {}
        """The values of constant scalars, by the wire's number."""
        self._joined: dict[int, tuple[Wire, ...]] = {}
        """The parts of elements, by the wire's number."""
        self._scope = _Scope()
        self._repeated: dict[Any, _Repeated] = {}
        self._public: list[tuple[str, int]] = []
        self.zero = self.constant(0)
        self.one = self.constant(1)

    def circuit(self) -> Circuit:
        return self._record.circuit(self._public, self.zero.number, self.one.number)

    def repeated(
        self, key: Hashable, prefix: str, trees: int, inputs: Sequence[Wire], make: Callable[[], Sequence[Wire]]
    ) -> Sequence[Wire]:
        """The results of a part of the circuit that depends on `inputs` alone: what `make` returns. A part of a known
        key is not made but copied.

        The part's fields of the proof begin with `prefix`, and its trees are numbered from `trees` on.
        """
        found = self._repeated.get(key)
        if found is None:
            self._record.cut()
            outer, self._scope = self._scope, _Scope()
            outs = make()
            self._scope = outer
            self._repeated[key] = _Repeated(self._record.cut(), prefix, trees, tuple(inputs), tuple(outs))
            return outs
        wires = {wire.number: wire.number for wire in self._constants.values() if wire.number < found.part.wires.start}
        wires |= {old.number: new.number for old, new in zip(found.inputs, inputs, strict=True)}
        moved = self._record.copy(found.part, wires, (found.prefix, prefix), trees - found.trees)
        outs = [Wire(int(moved[wire.number])) for wire in found.outs]
        assert all(wire.number != NONE for wire in outs), "a part's results are its own, its inputs or constants"
        return outs

    # -- what a proof gives -----------------------------------------------------------------------------------------

    def public(self, field: str, count: int) -> tuple[Wire, ...]:
        """The next `count` public values: this field."""
        self._public.append((field, count))
        wires = self._new(count)
        for wire in wires:
            self._record.public(wire.number)
        return wires

    def scalars(self, field: str, count: int) -> tuple[Wire, ...]:
        """The next scalars of a field of the proof."""
        wires = self._new(count)
        for start in range(0, count, WORDS):
            self._record.given(wires[start].number, min(WORDS, count - start), field=field)
        return wires

    def flag(self, field: str) -> Wire:
        """The next scalar of a field of the proof, which must be 0 or 1. The fault is the same for all children."""
        (flag,) = self.scalars(field, 1)
        self.need_equal(self.mul(flag, flag), flag, f"{field.rpartition('.')[2]} is neither 0 nor 1")
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
        self._record.join([part.number for part in parts], out.number)
        return out

    def opened(self, tree: int, leaves: Sequence[Index], width: int) -> list[tuple[Wire, ...]]:
        """The given rows of a tree at some leaves. Whoever takes them must hash them to the root."""
        rows = [self._new(width) for _ in leaves]
        numbers = [self._leaf(leaf, fresh=True) for leaf in leaves]
        self._record.opened_tree(tree, numbers[0], len(leaves), rows[0][0].number, width)
        for row in rows:
            for start in range(0, width, WORDS):
                self._record.given(row[start].number, min(WORDS, width - start))
        return rows

    def opened_node(self, tree: int, leaf: Index, log_size: int, flipped: int) -> tuple[Wire, ...]:
        """The scalars of a given digest of a tree: of the node beside a leaf's ancestor at the level of 2^log_size
        nodes, whose number differs in bit `flipped`."""
        parts = self._new(DIGEST)
        self._record.opened_node(tree, self._leaf(leaf), log_size, flipped, parts[0].number)
        self._record.given(parts[0].number, DIGEST)
        return parts

    def _leaf(self, leaf: Index, fresh: bool = False) -> int:
        """The row of a leaf's index; those of a tree that is opened follow each other."""
        found = None if fresh else self._scope.leaves.get(leaf)
        if found is None:
            first = leaf.bits[0].number if leaf.bits else self.zero.number
            found = self._scope.leaves[leaf] = self._record.index(first, len(leaf.bits), leaf.upper)
        return found

    def _whole(self, field: str, count: int) -> Wire:
        (out,) = self._new(1)
        self._joined[out.number] = parts = self._new(count)
        self._record.given(parts[0].number, count, out.number, field)
        return out

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
            self._record.constant(value, wire.number)
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
        return self._result("+", a, b) if a.number < b.number else self._result("+", b, a)

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
        return self._result("*", a, b) if a.number < b.number else self._result("*", b, a)

    def _result(self, operator: str, a: Wire, b: Wire) -> Wire:
        key = operator, a.number, b.number
        wire = self._scope.relations.get(key)
        if wire is None:
            wire = self._scope.relations[key] = Wire(self._record.new(1))
            match operator:
                case "+":
                    self._record.relation(a.number, self.one.number, b.number, wire.number, Target.D)
                case "-":
                    self._record.relation(b.number, self.one.number, wire.number, a.number, Target.C)
                case _:
                    self._record.relation(a.number, b.number, self.zero.number, wire.number, Target.D)
        return wire

    # -- arrays -----------------------------------------------------------------------------------------------------

    def powers_at(self, base: int, exponents: Indices, bits: int) -> Scalars:
        return scalar_array([self._power(base, index, bits) for index in exponents])

    def _power(self, base: int, index: Index, bits: int) -> Wire:
        """The power of a number by an index, once for each index."""
        assert len(index.bits) == bits, "the whole index"
        if not bits:
            return self.one
        own = self._scope.by_bit[index.bits[0].number]
        if own.of.number in self._scope.powered:
            raise UsageError("two powers by one index; circuits have room for one")
        self._scope.powered.add(own.of.number)
        (out,) = self._new(1)
        self._record.power(own.number, base, bits, out.number)
        return out

    def inverses(self, a: Scalars) -> Scalars:
        return scalar_array([self.inverse(value, "a point of the domain is zero") for value in a])

    def inverse(self, a: Wire, otherwise: str) -> Wire:
        """The inverse of an element that must not be zero."""
        if a is self.one:
            return a
        (inverse,) = self._new(1)
        wires = a.number, inverse.number, self.zero.number, self.one.number
        self._record.relation(*wires, Target.B, otherwise)
        return inverse

    # -- conditions -------------------------------------------------------------------------------------------------

    def need_equal(self, a: Wire, b: Wire, otherwise: str) -> None:
        wires = a.number, self.one.number, self.zero.number, b.number
        self._record.relation(*wires, Target.NOTHING, otherwise)

    def need_nonzero(self, a: Wire, otherwise: str) -> None:
        self.inverse(a, otherwise)

    # -- bits and hashing -------------------------------------------------------------------------------------------

    def bits(self, of: Wire) -> Decomposition:
        """The decomposition of a scalar."""
        found = self._scope.decomposed.get(of.number)
        if found is None:
            wires = self._new(HALVES + BITS)
            number = self._record.bits(of.number, wires[0].number)
            found = Decomposition(number, of, wires[HALVES:], (wires[0], wires[1]))
            self._scope.decomposed[of.number] = self._scope.by_bit[found.bits[0].number] = found
        return found

    def permute(self, state: Sequence[Any], digest: Wire | None = None) -> tuple[Wire, ...]:
        """The permutation of 16 scalars, which may be numbers. `digest`, if given, must be the first four."""
        return self._permute(state, NONE if digest is None else digest.number, digest is not None)

    def hashed(self, state: Sequence[Any]) -> Wire:
        """The digest that the permutation of 16 scalars begins with."""
        (digest,) = self._new(1)
        self._permute(state, digest.number, False)
        return digest

    def _permute(self, state: Sequence[Any], digest: int, expected: bool) -> tuple[Wire, ...]:
        numbers = [self.scalar(value).number for value in state]
        outs = self._new(WIDTH)
        self._record.permutation(numbers, outs[0].number, digest, expected)
        return outs

    def step(self, child: Wire, position: Sequence[Wire], place: SiblingPlace, root: Wire | None = None) -> Wire:
        """The digest of the node above `child`, which must be `root` if that is given. The position has one bit for a
        node of two children, two for one of four, the lower first."""
        out = root or self._new(1)[0]
        bits = [bit.number for bit in position]
        leaf = self._leaf(place.leaf)
        self._record.step(child.number, bits, out.number, root is not None, place.tree, leaf, place.log_size)
        return out

    def transcript(self, purpose: bytes, tree_hash: TreeHash) -> SymbolTranscript:
        if not tree_hash.digests_are_elements:
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
        first = self.permute(work_state(seed, nonce))[0]
        low = self.bits(first).bits[:bits]  # each is 0 or 1, so that their sum is zero for zeros alone
        self.need_equal(self.sum(low), self.zero, otherwise)

    def parts(self, element: Wire) -> tuple[Wire, ...]:
        """The scalars of an element that a proof gives. Nothing else is ever absorbed."""
        return self._joined[element.number]

    def _new(self, count: int) -> tuple[Wire, ...]:
        first = self._record.new(count)
        return tuple(map(Wire, range(first, first + count)))


class SymbolTranscript(DuplexTranscript):
    """A transcript over symbols."""

    def __init__(self, symbols: Symbols, purpose: bytes) -> None:
        self._symbols = symbols
        super().__init__(purpose)

    def _permuted(self, state: list[Any]) -> list[Any]:
        return list(self._symbols.permute(state))

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
