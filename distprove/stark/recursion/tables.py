"""The tables that prove a circuit: one for each kind of operation, joined by a bus of wires.

A wire is a tuple of its number and its four words. The table of the operation that writes a wire sends the tuple as
often as the circuit reads it, and every operation that reads the wire takes it once. All numbers and multiplicities are
preprocessed columns: they are the circuit. So each number has one writer, with a fixed multiplicity, and what readers
take sums to it only if all of them take what was written. No multiplicity is the prover's choice, and their total is
below p. Where a column says `times`, it is the number of reads for a writer and -1 for a reader.
"""

from __future__ import annotations

from collections.abc import Mapping

from distprove.stark.air import Air, Bus, Table
from distprove.stark.air.definition import Value
from distprove.stark.recursion.circuit import BITS, HALF, WORDS
from kernels.interface.tree_hash import NODE_TAG
from kernels.maths.goldilocks import TWO_ADICITY
from kernels.maths.poseidon2 import ALPHA, PERMUTATION, WIDTH

WIRE = Bus("wire", fields=("number", "a", "b", "c", "d"))
FIRST_PUBLIC = 2
"""The wire of the first public value; those before it are the constants zero and one."""
USED_BITS = POWER_BITS = TWO_ADICITY
"""How many of the lowest bits of a scalar a circuit may read, and of an exponent. No domain is larger."""


def _wire(number: Value, *words: Value) -> list[Value]:
    return [number, *words, *[0] * (WORDS - len(words))]


class Relations(Air):
    """a b + c = d in F."""

    main = {"a": 3, "b": 3, "c": 3, "d": 3}
    preprocessed = {"number": 4, "times": 4}

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def define(self, t: Table) -> None:
        (a, b, c, d) = operands = [t.this[name] for name in "abcd"]
        above, top = a[1] * b[2] + a[2] * b[1], a[2] * b[2]  # at x^3 = x + 1 and x^4 = x^2 + x
        t.always(a[0] * b[0] + above + c[0] - d[0])
        t.always(a[0] * b[1] + a[1] * b[0] + above + top + c[1] - d[1])
        t.always(a[0] * b[2] + a[1] * b[1] + a[2] * b[0] + top + c[2] - d[2])
        for number, words, times in zip(t.fixed["number"], operands, t.fixed["times"], strict=True):
            t.send(WIRE, _wire(number, *words), times=times, at_most=None)


class Joins(Air):
    """Scalars as parts of an element or a digest. What a proof gives enters here."""

    name = "joins"
    main = {"part": WORDS}
    preprocessed = {"number": WORDS, "times": WORDS, "whole": 1, "reads": 1}

    def define(self, t: Table) -> None:
        parts = t.this["part"]
        for number, part, times in zip(t.fixed["number"], parts, t.fixed["times"], strict=True):
            t.send(WIRE, _wire(number, part), times=times, at_most=None)
        t.send(WIRE, _wire(t.fixed.whole, *parts), times=t.fixed.reads, at_most=None)


class Constants(Air):
    """Wires that the circuit fixes."""

    name = "constants"
    main = {"word": 1}
    preprocessed = {"number": 1, "words": WORDS, "reads": 1}

    def define(self, t: Table) -> None:
        words = t.fixed["words"]
        t.always(t.this.word - words[0])  # a table has a main column
        t.send(WIRE, _wire(t.fixed.number, *words), times=t.fixed.reads, at_most=None)


class Publics(Air):
    """The public values, on the first row, where alone there are reads."""

    name = "publics"
    main = {"begins": 1}

    def __init__(self, public: Mapping[str, int]) -> None:
        """`public`: names and numbers of elements. Their wires are numbered from FIRST_PUBLIC on."""
        self.public = public
        self.preprocessed = {"reads": sum(public.values())}

    def define(self, t: Table) -> None:
        t.marks_first(t.this.begins)  # a table has a main column
        values = [value for name in self.public for value in t.public[name]]
        for place, (value, reads) in enumerate(zip(values, t.fixed["reads"], strict=True)):
            t.send(WIRE, _wire(FIRST_PUBLIC + place, value), times=reads, at_most=None)


class Decompositions(Air):
    """The bits of a scalar, as a number below p: if all upper bits are one, no lower one is. And the power of a number
    by the lowest bits: the product of its powers by 2^i, less one and times the bit, plus one."""

    name = "bits"
    main = {"bit": BITS, "inverse": 1, "full": 1, "product": POWER_BITS}
    preprocessed = {"on": 1, "of": 1, "first": 1, "reads": 2 + USED_BITS, "power": 2, "factor": POWER_BITS}

    def define(self, t: Table) -> None:
        bits = t.this["bit"]
        for bit in bits:
            t.boolean(bit)
        low, high = (sum(bit * (1 << i) for i, bit in enumerate(half)) for half in (bits[:HALF], bits[HALF:]))
        missing = high - ((1 << HALF) - 1)
        t.always(missing * t.this.inverse + t.this.full - 1)
        t.always(missing * t.this.full)
        t.always(low * t.this.full)
        t.receive(WIRE, _wire(t.fixed.of, low + high * (1 << HALF)), times=t.fixed.on, at_most=1)
        for place, (value, reads) in enumerate(zip((low, high, *bits[:USED_BITS]), t.fixed["reads"], strict=True)):
            t.send(WIRE, _wire(t.fixed.first + place, value), times=reads, at_most=None)
        before: Value = 1
        for product, bit, factor in zip(t.this["product"], bits, t.fixed["factor"], strict=False):
            t.always(before * (bit * factor + 1) - product)
            before = product
        number, reads = t.fixed["power"]
        t.send(WIRE, _wire(number, before), times=reads, at_most=None)


class Permutations(Air):
    """Poseidon2, one permutation a row: of scalars that wires carry, or of the children of a node.

    On a row of a node (`node`) the child at the place of two bits is the digest that is read, and the others are the
    prover's. A node of two children (`binary`) hashes the rest as the tree's nodes do. The digest is the beginning of
    the permutation, plus for a node that of the state.
    """

    main = {"state": WIDTH, "power": PERMUTATION.powers, "place": 2}
    preprocessed = {
        "number": WIDTH,
        "sponge": 1,
        "out": 1,
        "reads": WIDTH,
        "digest": 1,
        "times": 1,
        "child": 1,
        "bit": 2,
        "node": 1,
        "binary": 1,
    }

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def define(self, t: Table) -> None:
        state, fixed = t.this["state"], t.fixed
        columns = iter(t.this["power"])

        def power(x: Value, constant: int) -> Value:
            column = next(columns)
            t.always(column - (x + constant) ** ALPHA)  # type: ignore[operator]
            return column

        outs = PERMUTATION.rounds(state, power, lambda x, y: x + y, lambda x, c: x * c)
        for number, value in zip(fixed["number"], state, strict=True):
            t.receive(WIRE, _wire(number, value), times=fixed.sponge, at_most=1)
        for place, (value, reads) in enumerate(zip(outs, fixed["reads"], strict=True)):
            t.send(WIRE, _wire(fixed.out + place, value), times=reads, at_most=None)
        lower, upper = t.this["place"]
        chosen = [(1 - lower) * (1 - upper), lower * (1 - upper), (1 - lower) * upper, lower * upper]
        child = [sum(s * state[WORDS * c + k] for c, s in enumerate(chosen)) for k in range(WORDS)]
        t.receive(WIRE, _wire(fixed.child, *child), times=fixed.node, at_most=1)
        t.receive(WIRE, _wire(fixed["bit"][0], lower), times=fixed.node, at_most=1)
        t.receive(WIRE, _wire(fixed["bit"][1], upper), times=fixed.node - fixed.binary, at_most=1)
        t.always(fixed.binary * upper)
        t.always(fixed.binary * (state[2 * WORDS] - NODE_TAG))
        for value in state[2 * WORDS + 1 :]:
            t.always(fixed.binary * value)
        digest = [out + fixed.node * x for out, x in zip(outs[:WORDS], state[:WORDS], strict=True)]
        t.send(WIRE, _wire(fixed.digest, *digest), times=fixed.times, at_most=None)
