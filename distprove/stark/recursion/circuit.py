"""Circuits as data: wires that are written once, and the operations that relate them.

A wire carries four elements of F_p: a *scalar* (v, 0, 0, 0), an *element* of F (a, b, c, 0) or a *digest*. An operation
is a row of one of the tables (`distprove.stark.recursion.tables`) and states what it enforces. It *writes* some of its
wires and *reads* the others; what an honest prover writes there follows from what it reads, or is *given*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernels.interface.tree_hash import NODE_TAG
from kernels.maths.poseidon2 import WIDTH

WORDS = 4
"""Elements of F_p on a wire."""
BITS = 64
"""Bits of a scalar in its one decomposition below p."""
HALF = BITS // 2
BINARY_REST = (NODE_TAG, *[0] * (WIDTH // 2 - 1))
"""What a node of two children hashes beside them."""


@dataclass(frozen=True, eq=False, slots=True)
class Wire:
    """A wire; its number is its address on the bus."""

    number: int


@dataclass(frozen=True, slots=True)
class Constant:
    """The wire is fixed."""

    value: tuple[int, ...]
    out: Wire


@dataclass(frozen=True, slots=True)
class Public:
    """The wire is the scalar of this public value."""

    index: int
    out: Wire


@dataclass(frozen=True, slots=True)
class Given:
    """The wires are scalars of the prover's choice, of a field of the proof from this place on; at most four."""

    field: str
    place: int
    parts: tuple[Wire, ...]
    out: Wire | None = None
    """The element or digest of these parts."""


@dataclass(frozen=True, slots=True)
class Join:
    """The element or digest `out` has these scalars as its parts."""

    parts: tuple[Wire, ...]
    out: Wire


@dataclass(frozen=True, slots=True)
class Relation:
    """a b + c = d in F. The operation writes the wire called `target`; with None it reads all four."""

    a: Wire
    b: Wire
    c: Wire
    d: Wire
    target: str | None
    otherwise: str = ""
    """The fault of a proof for which the relation does not hold."""

    @property
    def wires(self) -> tuple[Wire, Wire, Wire, Wire]:
        return self.a, self.b, self.c, self.d

    @property
    def out(self) -> Wire | None:
        return {None: None, "b": self.b, "c": self.c, "d": self.d}[self.target]


@dataclass(frozen=True, slots=True)
class Bits:
    """The 64 bits of a scalar, the lowest first, as a number below p; and its lower and upper half as scalars."""

    of: Wire
    bits: tuple[Wire, ...]
    halves: tuple[Wire, Wire]
    power: Power | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """`out` is the power of a number by the number that the lowest bits make."""

    base: int
    bits: int
    out: Wire


@dataclass(frozen=True, slots=True)
class Permutation:
    """The scalars `outs` are the Poseidon2 permutation of the scalars `state`; `digest` has the first four."""

    state: tuple[Wire, ...]
    outs: tuple[Wire, ...]
    digest: Wire | None = None
    expected: bool = False
    """Whether the digest is read, not written."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a Merkle path: `out` is the digest of the node with `child` at the place of these bits."""

    child: Wire
    position: tuple[Wire, ...]
    """One bit for a node of two children, two for one of four; the lower bit first."""
    out: Wire
    place: SiblingPlace
    expected: bool = False
    """Whether `out` is read, not written."""


@dataclass(frozen=True, slots=True)
class Index:
    """A leaf of a tree: the number that the bits make, plus a fixed one."""

    bits: tuple[Wire, ...]
    upper: int = 0


@dataclass(frozen=True, slots=True)
class SiblingPlace:
    """Where a prover finds the other children of a node: of the leaf's ancestor at the level of 2^log_size nodes."""

    tree: int
    leaf: Index
    log_size: int


@dataclass(frozen=True, slots=True)
class OpenedTree:
    """Where a prover finds the given rows of a tree. It states nothing by itself."""

    tree: int
    leaves: tuple[Index, ...]
    rows: tuple[tuple[Given, ...], ...]
    """The rows at these leaves. Their places count within a row."""


@dataclass(frozen=True, slots=True)
class OpenedNode:
    """Where a prover finds a given digest: of the node beside a leaf's ancestor, whose number differs in bit `flipped`,
    at the level of 2^log_size nodes. It states nothing by itself."""

    tree: int
    leaf: Index
    log_size: int
    flipped: int
    node: Given


Operation = Constant | Public | Given | Join | Relation | Bits | Permutation | Step | OpenedTree | OpenedNode


@dataclass(frozen=True)
class Circuit:
    """A circuit. Operations stand in an order in which each is computed from those before it."""

    operations: tuple[Operation, ...]
    wires: int
    public: tuple[tuple[str, int], ...]
    """Fields of the proof that are public, with their numbers of scalars, in the order of the public values."""

    @property
    def public_count(self) -> int:
        return sum(count for _, count in self.public)

    def reads(self) -> Counter[int]:
        """How often each wire is read, by its number."""
        return Counter(wire.number for operation in self.operations for wire in read_by(operation))


def read_by(operation: Operation) -> Iterator[Wire]:
    """The wires that an operation reads, repeated ones repeatedly."""
    match operation:
        case Relation():
            yield from (w for name, w in zip("abcd", operation.wires, strict=True) if name != operation.target)
        case Join():
            yield from operation.parts
        case Bits():
            yield operation.of
        case Permutation():
            yield from operation.state
            if operation.digest is not None and operation.expected:
                yield operation.digest
        case Step():
            yield from (operation.child, *operation.position)
            if operation.expected:
                yield operation.out
        case _:
            return


def simplified(operations: Sequence[Operation], zero: Wire, one: Wire) -> list[Operation]:
    """Leave out relations whose result nobody reads, and make a product and the sum that alone reads it one relation.

    `zero` and `one` are the wires of these constants.
    """
    reads = Counter(wire.number for operation in operations for wire in read_by(operation))
    kept: list[Operation] = []
    for operation in reversed(operations):
        out = operation.out if isinstance(operation, Relation) else None
        if out is not None and not reads[out.number] and not (isinstance(operation, Relation) and operation.otherwise):
            reads.subtract(wire.number for wire in read_by(operation))
        else:
            kept.append(operation)
    multiplied = [o for o in kept if isinstance(o, Relation) and o.target == "d" and o.c is zero]
    products = {o.d.number: o for o in multiplied if reads[o.d.number] == 1}
    merged: list[Operation] = []
    gone: set[int] = set()
    for operation in kept:  # from the last to the first, so that a product is met after the sum that reads it
        if isinstance(operation, Relation):
            if operation.d.number in gone and operation.target == "d":
                continue
            if operation.b is one:
                product = products.get(operation.a.number)
                if product is not None:
                    gone.add(product.d.number)
                    operation = replace(operation, a=product.a, b=product.b)
                elif operation.target == "d" and (product := products.get(operation.c.number)) is not None:
                    gone.add(product.d.number)
                    operation = replace(operation, a=product.a, b=product.b, c=operation.a)
        merged.append(operation)
    return merged[::-1]
