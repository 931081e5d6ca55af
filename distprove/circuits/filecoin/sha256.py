"""SHA-256 over bits as bellperson builds it.

Booleans that are known when the circuit is built fold away. 32-bit additions are deferred: each allocates the bits of
its sum, and the equality with the operands waits until as many equalities as the field holds are packed side by side
into one constraint. A block is a template for each pattern of known bits; its witness is computed on 32-bit words, for
all instances at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import ONE, Linear, Run
from distprove.circuits.program import RunProgram
from distprove.circuits.templates import Template
from kernels.interface.synthesis import SHA256_ONE, SHA256_ZERO, Sha256Block
from kernels.maths.curves import Curve
from kernels.maths.sha256 import INITIAL, ROUND_CONSTANTS

KnownBit = bool
BitLanes = Linear | KnownBit
"""A bit of each lane, or one known to the circuit."""


def sha256(b: CircuitBuilder, bits: Sequence[BitLanes]) -> list[Linear]:
    """The digest of whole bytes, their most significant bit first: 256 bits in the same order, lane by lane."""
    length = len(bits)
    tail = [bool(length >> i & 1) for i in reversed(range(64))]
    padded = [*bits, True, *[False] * (-(length + 65) % 512), *tail]
    state: list[BitLanes] = [bool(word >> i & 1) for word in INITIAL for i in reversed(range(32))]
    for start in range(0, len(padded), 512):
        block = [*padded[start : start + 512], *state]
        template = _block(b.curve, tuple(bit if isinstance(bit, bool) else None for bit in block))
        state = [*b.place(template, [bit for bit in block if isinstance(bit, Linear)])]
    return [bit for bit in state if isinstance(bit, Linear)]


@lru_cache(maxsize=64)
def _block(curve: Curve, known: tuple[KnownBit | None, ...]) -> Template:
    """The template of one block over 512 bits of message and 256 of state, of which those not `known` are inputs."""

    def gadget(b: CircuitBuilder, _inputs: Sequence[Linear]) -> list[Linear]:
        wire = 1
        bits = []
        for value in known:
            bits.append(Bit(wire) if value is None else Bit(0, not value))
            wire += value is None
        words = [tuple(reversed(bits[i : i + 32])) for i in range(0, 768, 32)]
        circuit = _CircuitWords(b)
        out = compress(circuit, words[:16], words[16:])
        circuit.finish()
        b.add_step(RunProgram(Sha256Block(b.field, wire - 1, _sources(known), circuit.bits())))
        return [Linear.wires(b.field, bit.wire, 1) for word in out for bit in reversed(word)]

    return CircuitBuilder.record(curve, sum(value is None for value in known), gadget)


def _sources(known: tuple[KnownBit | None, ...]) -> NDArray[np.int32]:
    """Where each bit of a block comes from, as `Sha256Block` says it."""
    numbers = iter(range(len(known)))
    sources = [next(numbers) if value is None else SHA256_ONE if value else SHA256_ZERO for value in known]
    return np.array(sources, dtype=np.int32)


# -- the compression function ------------------------------------------------------------------------------------------


def compress(words: _CircuitWords, message: Sequence[_Word], state: Sequence[_Word]) -> list[_Word]:
    """SHA-256's compression function of 16 words of message and 8 of state."""

    def mixed(x: _Word, first: int, second: int, third: _Word) -> _Word:
        return words.xor(words.xor(words.rotated(x, first), words.rotated(x, second)), third)

    w = list(message)
    for i in range(16, 64):
        s0 = mixed(w[i - 15], 7, 18, words.shifted(w[i - 15], 3))
        s1 = mixed(w[i - 2], 17, 19, words.shifted(w[i - 2], 10))
        w.append(words.total([w[i - 16], s0, w[i - 7], s1]))
    # a and e of a round are sums that are only taken when the next round needs them, so that the last ones and the
    # state are one sum.
    a, b, c, d, e, f, g, h = ([state[0]], state[1], state[2], state[3], [state[4]], state[5], state[6], state[7])

    def taken(operands: list[_Word]) -> _Word:
        return words.total(operands) if len(operands) > 1 else operands[0]

    for i in range(64):
        new_e = taken(e)
        s1 = mixed(new_e, 6, 11, words.rotated(new_e, 25))
        first = [h, s1, words.choose(new_e, f, g), words.constant(ROUND_CONSTANTS[i]), w[i]]
        new_a = taken(a)
        s0 = mixed(new_a, 2, 13, words.rotated(new_a, 22))
        second = [s0, words.majority(new_a, b, c)]
        a, b, c, d, e, f, g, h = [*first, *second], new_a, b, c, [*first, d], new_e, f, g
    sums = ([*a, state[0]], [state[1], b], [state[2], c], [state[3], d])
    more = ([*e, state[4]], [state[5], f], [state[6], g], [state[7], h])
    return [words.total(operands) for operands in (*sums, *more)]


# -- words of a circuit ------------------------------------------------------------------------------------------------


class Bit(NamedTuple):
    """A wire that is 0 or 1, or its complement. Wire 0, the constant one, stands for a known bit."""

    wire: int
    negated: bool = False

    @property
    def known(self) -> bool | None:
        return None if self.wire else not self.negated

    def complement(self) -> Bit:
        return Bit(self.wire, not self.negated)

    def add_to(self, terms: dict[Run, int], factor: int) -> None:
        """Add `factor` times the bit to a combination of wires."""
        if self.negated:
            terms[ONE] = terms.get(ONE, 0) + factor
            factor = -factor
        run = (self.wire, 0)
        terms[run] = terms.get(run, 0) + factor


_Word = tuple[Bit, ...]
"""32 bits, the least significant first."""


class _CircuitWords:
    """What the compression function does with words: every operation adds constraints. Its value is a register of the
    witness."""

    def __init__(self, b: CircuitBuilder) -> None:
        self._b = b
        self._one = b.constant(1)
        self._zero = b.constant(0)
        self._minus_one = b.field.modulus - 1
        self._made: list[tuple[int, int, bool]] = []  # register, position and complement of each wire
        self._registers = 0
        # The equalities that wait: both sides, and how many bits they take.
        self._left: dict[Run, int] = {}
        self._right: dict[Run, int] = {}
        self._packed = 0

    def bits(self) -> NDArray[np.uint32]:
        """Which bit each wire is, as `Sha256Block` says it."""
        register, position, negated = np.array(self._made, dtype=np.uint32).T
        bits: NDArray[np.uint32] = register << 8 | position << 1 | negated
        return bits

    # -- operations on words --

    def constant(self, value: int) -> _Word:
        return tuple(Bit(0, not value >> i & 1) for i in range(32))

    def rotated(self, x: _Word, count: int) -> _Word:
        return x[count:] + x[:count]

    def shifted(self, x: _Word, count: int) -> _Word:
        return x[count:] + self.constant(0)[:count]

    def xor(self, x: _Word, y: _Word) -> _Word:
        self._registers += 1
        return tuple(self._xor(i, p, q) for i, (p, q) in enumerate(zip(x, y, strict=True)))

    def choose(self, x: _Word, y: _Word, z: _Word) -> _Word:
        """The bits of y where x is 1, else those of z."""
        self._registers += 1
        return tuple(self._choose(i, *bits) for i, bits in enumerate(zip(x, y, z, strict=True)))

    def majority(self, x: _Word, y: _Word, z: _Word) -> _Word:
        self._registers += 2
        return tuple(self._majority(i, *bits) for i, bits in enumerate(zip(x, y, z, strict=True)))

    def total(self, values: Sequence[_Word]) -> _Word:
        """The sum of the words modulo 2^32."""
        self._registers += 1
        operands: dict[Run, int] = {}
        for word in values:
            for i, bit in enumerate(word):
                bit.add_to(operands, 1 << i)
        if all(bit.known is not None for word in values for bit in word):
            return self.constant(operands.get(ONE, 0))
        size = (len(values) * 0xFFFFFFFF).bit_length()
        bits = [self._boolean(i) for i in range(size)]
        self._equate(size, operands, {(bit.wire, 0): 1 << i for i, bit in enumerate(bits)})
        return tuple(bits[:32])

    # -- bits: bellperson's rules for known and complemented ones --

    def _new(self, position: int, *, register: int = -1, negated: bool = False) -> Bit:
        """A wire for a bit of a register, by default the operation's last, or for its complement."""
        self._made.append((self._registers + register, position, negated))
        return Bit(self._b.new_wires(1)[0])

    def _sum(self, terms: dict[Run, int]) -> Linear:
        """A combination whose coefficients are reduced and not zero."""
        return Linear(self._b.field, 1, terms)

    def _linear(self, *terms: tuple[Bit, int]) -> Linear:
        sums: dict[Run, int] = {}
        for bit, factor in terms:
            bit.add_to(sums, factor)
        return Linear.total(self._b.field, 1, sums.items())

    def _boolean(self, position: int) -> Bit:
        bit = self._new(position)
        run = (bit.wire, 0)
        self._b.constrain(self._sum({ONE: 1, run: self._minus_one}), self._sum({run: 1}), self._zero)
        return bit

    def _xor(self, position: int, p: Bit, q: Bit) -> Bit:
        for one, other in ((p, q), (q, p)):
            if one.known is not None:
                return other.complement() if one.known else other
        negated = p.negated != q.negated
        out = self._new(position, negated=negated)
        a, b, c = (p.wire, 0), (q.wire, 0), (out.wire, 0)
        self._b.constrain(self._sum({a: 2}), self._sum({b: 1}), self._sum({a: 1, b: 1, c: self._minus_one}))
        return Bit(out.wire, negated)

    def _and(self, position: int, p: Bit, q: Bit, *, register: int = -1, complement: bool = False) -> Bit:
        """p and q, or its complement."""
        for one, other in ((p, q), (q, p)):
            if one.known is not None:
                result = other if one.known else one
                return result.complement() if complement else result
        if p.negated and not q.negated:
            p, q = q, p
        out = self._new(position, register=register, negated=complement)
        self._b.constrain(self._linear((p, 1)), self._linear((q, 1)), self._linear((out, 1)))
        return Bit(out.wire, complement)

    def _choose(self, position: int, x: Bit, y: Bit, z: Bit) -> Bit:
        if x.known is not None:
            return y if x.known else z
        if y.known is False:
            return self._and(position, x.complement(), z)
        if z.known is not None:
            return self._and(position, x, y.complement() if z.known else y, complement=z.known)
        if y.known:
            return self._and(position, x.complement(), z.complement(), complement=True)
        out = self._new(position)
        self._b.constrain(self._linear((y, 1), (z, -1)), self._linear((x, 1)), self._linear((out, 1), (z, -1)))
        return out

    def _majority(self, position: int, x: Bit, y: Bit, z: Bit) -> Bit:
        for known, p, q in ((x.known, y, z), (y.known, x, z), (z.known, x, y)):
            if known is False:
                return self._and(position, p, q, register=-2)
        for known, p, q in ((z.known, x, y), (y.known, x, z), (x.known, y, z)):
            if known:
                return self._and(position, p.complement(), q.complement(), register=-2, complement=True)
        out = self._new(position, register=-2)
        both = self._and(position, y, z)
        a = self._linear((both, 2), (y, -1), (z, -1))
        self._b.constrain(a, self._linear((x, 1)), self._linear((both, 1), (out, -1)))
        return out

    # -- packed equalities --

    def _equate(self, size: int, left: dict[Run, int], right: dict[Run, int]) -> None:
        """Constrain that two sums of at most `size` bits are equal, together with others that wait."""
        if self._packed + size >= self._b.field.bits - 1:
            self.finish()
        for side, waiting in ((left, self._left), (right, self._right)):
            for run, factor in side.items():
                waiting[run] = waiting.get(run, 0) + (factor << self._packed)
        self._packed += size

    def finish(self) -> None:
        """Constrain the equalities that wait."""
        if self._packed:
            left, right = (Linear.total(self._b.field, 1, side.items()) for side in (self._left, self._right))
            self._b.constrain(left, self._one, right)
        self._left, self._right, self._packed = {}, {}, 0
