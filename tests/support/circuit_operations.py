"""The operations of a circuit as objects, for tests that look at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distprove.stark.recursion.circuit import BITS, HALVES, NONE, WORDS, WORDS_OF, Circuit, Kind
from kernels.maths.poseidon2 import WIDTH


@dataclass(frozen=True)
class Constant:
    value: tuple[int, ...]
    out: int


@dataclass(frozen=True)
class Public:
    index: int
    out: int


@dataclass(frozen=True)
class Given:
    field: str
    """Empty for what a tree gives."""
    place: int
    parts: tuple[int, ...]
    out: int | None


@dataclass(frozen=True)
class Join:
    parts: tuple[int, ...]
    out: int


@dataclass(frozen=True)
class Relation:
    wires: tuple[int, ...]
    target: str | None
    otherwise: str

    @property
    def out(self) -> int | None:
        return None if self.target is None else self.wires["abcd".index(self.target)]


@dataclass(frozen=True)
class Bits:
    of: int
    halves: tuple[int, ...]
    bits: tuple[int, ...]
    base: int
    exponent_bits: int
    power: int | None


@dataclass(frozen=True)
class Permutation:
    state: tuple[int, ...]
    outs: tuple[int, ...]
    digest: int | None
    expected: bool


@dataclass(frozen=True)
class Index:
    bits: tuple[int, ...]
    fixed_part: int


@dataclass(frozen=True)
class Step:
    child: int
    position: tuple[int, ...]
    out: int
    expected: bool
    tree: int
    leaf: Index
    log_size: int


@dataclass(frozen=True)
class OpenedTree:
    tree: int
    leaves: tuple[Index, ...]
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class OpenedNode:
    tree: int
    leaf: Index
    log_size: int
    flipped: int
    parts: tuple[int, ...]


Operation = Constant | Public | Given | Join | Relation | Bits | Permutation | Step | OpenedTree | OpenedNode


def operations_of(circuit: Circuit) -> Iterator[Operation]:
    """The operations in their order."""
    rows = {name: enumerate(table.tolist()) for name, table in circuit.tables.items()}
    constants, bases, fixed_parts = (circuit.words[name].tolist() for name in WORDS_OF)
    indices = [
        Index(_run(first, count), fixed_part)
        for (first, count), (fixed_part,) in zip(circuit.tables["indices"].tolist(), fixed_parts, strict=True)
    ]
    for kind in circuit.kinds.tolist():
        name = list(circuit.tables)[kind]
        number, row = next(rows[name])
        match Kind(kind):
            case Kind.CONSTANT:
                yield Constant(tuple(constants[number]), row[0])
            case Kind.PUBLIC:
                yield Public(number, row[0])
            case Kind.GIVEN:
                first, count, out, field, place = row
                name = "" if field == NONE else circuit.fields[field][0]
                yield Given(name, place, _run(first, count), _maybe(out))
            case Kind.JOIN:
                yield Join(tuple(row[1 : 1 + row[0]]), row[-1])
            case Kind.RELATION:
                *wires, target, message = row
                otherwise = "" if message == NONE else circuit.messages[message]
                yield Relation(tuple(wires), (None, *"bcd")[target], otherwise)
            case Kind.BITS:
                of, first, exponent_bits, power = row
                bits = _run(first + HALVES, BITS)
                yield Bits(of, _run(first, HALVES), bits, bases[number][0], exponent_bits, _maybe(power))
            case Kind.PERMUTATION:
                *state, first, digest, expected = row
                yield Permutation(tuple(state), _run(first, WIDTH), _maybe(digest), bool(expected))
            case Kind.STEP:
                child, lower, upper, out, expected, tree, leaf, log_size = row
                position = (lower,) if upper == NONE else (lower, upper)
                yield Step(child, position, out, bool(expected), tree, indices[leaf], log_size)
            case Kind.OPENED_TREE:
                tree, first_leaf, leaves, first, width = row
                opened = tuple(_run(first + i * width, width) for i in range(leaves))
                yield OpenedTree(tree, tuple(indices[first_leaf:][:leaves]), opened)
            case Kind.OPENED_NODE:
                tree, leaf, log_size, flipped, first = row
                yield OpenedNode(tree, indices[leaf], log_size, flipped, _run(first, WORDS))


def written_by(operation: Operation) -> list[int]:
    """The wires that an operation writes. What a tree gives is written where its givens stand."""
    match operation:
        case Given(_, _, parts, out):
            return [*parts, *_some(out)]
        case Relation():
            return _some(operation.out)
        case Bits(_, halves, bits, _, _, power):
            return [*halves, *bits, *_some(power)]
        case Permutation(_, outs, digest, expected):
            return [*outs, *([] if expected else _some(digest))]
        case Step(_, _, out, expected):
            return [] if expected else [out]
        case OpenedTree() | OpenedNode():
            return []
        case _:
            return [operation.out]


def read_by(operation: Operation) -> list[int]:
    """The wires that an operation reads, repeated ones repeatedly. An opened tree or node states nothing."""
    match operation:
        case Relation(wires, target):
            return [wire for name, wire in zip("abcd", wires, strict=True) if name != target]
        case Join(parts):
            return list(parts)
        case Bits(of):
            return [of]
        case Permutation(state, _, digest, expected):
            return [*state, *(_some(digest) if expected else [])]
        case Step(child, position, out, expected):
            return [child, *position, *([out] if expected else [])]
        case _:
            return []


def _run(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def _maybe(wire: int) -> int | None:
    return None if wire == NONE else wire


def _some(wire: int | None) -> list[int]:
    return [] if wire is None else [wire]
