"""A circuit as the preprocessed columns of its tables, and its values as their main columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from distprove.errors import UsageError
from distprove.stark.air import Air
from distprove.stark.field import P, Words, add, mul
from distprove.stark.recursion.circuit import (
    BITS,
    HALF,
    WORDS,
    Bits,
    Circuit,
    Constant,
    Given,
    Join,
    Permutation,
    Public,
    Relation,
    Step,
    Wire,
)
from distprove.stark.recursion.evaluation import Evaluation
from distprove.stark.recursion.frame import KINDS, MORE, Frame
from distprove.stark.recursion.tables import (
    FIRST_PUBLIC,
    POWER_BITS,
    USED_BITS,
    Constants,
    Decompositions,
    Joins,
    Permutations,
    Publics,
    Relations,
)
from kernels.maths.poseidon2 import WIDTH, rounds

READ = P - 1
"""The multiplicity of a wire that is read."""


_WIRES = {
    "relations": 4,
    "more relations": 4,
    "joins": WORDS,
    "constants": 1,
    "bits": 1,
    "poseidon2": WIDTH + 2,
    "more poseidon2": WIDTH + 2,
}
"""Wires whose values fill a row of a table."""


def node_tables(public: Sequence[tuple[str, int]], names: Iterable[str]) -> list[Air]:
    """The tables of these names for a circuit with these public values, names and numbers of scalars."""
    tables: list[Air] = [
        Relations("relations"),
        Relations("more relations"),
        Joins(),
        Constants(),
        Publics(dict(public)),
        Decompositions(),
        Permutations("poseidon2"),
        Permutations("more poseidon2"),
    ]
    known = {table.name: table for table in tables}
    return [known[name] for name in names]


@dataclass
class Rows:
    """The rows of one table: preprocessed columns, and the wires whose values are its main columns."""

    air: Air
    fixed: list[list[int]] = field(default_factory=list)
    wires: list[list[int]] = field(default_factory=list)


class Layout:
    """The tables of a circuit, of the heights of a frame; by default the lowest that the circuit fits."""

    def __init__(self, circuit: Circuit, frame: Frame | None = None) -> None:
        """Raises UsageError for a circuit that is too large for the frame."""
        self.circuit = circuit
        self._reads = circuit.reads()
        self._rows = {air.name: Rows(air) for air in node_tables(circuit.public, (*KINDS, *MORE.values()))}
        self._place()
        self.rows = {kind: len(self._rows[kind].fixed) for kind in KINDS}
        """How many rows of each kind are in use."""
        self.frame = frame or Frame.fitting(self.rows)
        if not self.frame.has_room(self.rows):
            raise UsageError(f"a circuit of {self.rows} rows, too large for tables of 2^{self.frame.log_heights}")
        for kind, more in MORE.items():
            self._split(self._rows[kind], self._rows[more], 1 << self.frame.log_heights[kind])
        self._rows = {name: self._rows[name] for name in self.frame.log_heights}

    @property
    def log_heights(self) -> Mapping[str, int]:
        return self.frame.log_heights

    @cached_property
    def preprocessed(self) -> Mapping[str, Words]:
        """Preprocessed columns, (width, rows), of the tables that have any."""
        return {name: self._columns(name, rows.fixed) for name, rows in self._rows.items() if rows.air.preprocessed}

    def _place(self) -> None:
        reads = self._reads
        zero = next(o.out for o in self.circuit.operations if isinstance(o, Constant) and not any(o.value))
        publics = [o.out.number for o in self.circuit.operations if isinstance(o, Public)]
        assert publics == list(range(FIRST_PUBLIC, FIRST_PUBLIC + len(publics))), "declared before anything else"

        joins = [o.parts for o in self.circuit.operations if isinstance(o, Join) or (isinstance(o, Given) and o.out)]
        reads[zero.number] += sum(WORDS - len(parts) for parts in joins)  # what a whole has none of is zero

        def written(wire: Wire | None) -> int:
            return 0 if wire is None else reads[wire.number]

        def joined(parts: Sequence[Wire], times: list[int], whole: Wire | None) -> None:
            rest = WORDS - len(parts)
            numbers = [wire.number for wire in (*parts, *[zero] * rest)]
            times = [*times, *[READ if whole is not None else 0] * rest]
            self._rows["joins"].fixed.append([*numbers, *times, 0 if whole is None else whole.number, written(whole)])
            self._rows["joins"].wires.append(numbers)

        for operation in self.circuit.operations:
            match operation:
                case Relation():
                    rows = self._rows["relations"]
                    numbers = [wire.number for wire in operation.wires]
                    named = zip("abcd", operation.wires, strict=True)
                    times = [written(wire) if name == operation.target else READ for name, wire in named]
                    rows.fixed.append([*numbers, *times])
                    rows.wires.append(numbers)
                case Given():
                    joined(operation.parts, [reads[wire.number] for wire in operation.parts], operation.out)
                case Join():
                    joined(operation.parts, [READ] * len(operation.parts), operation.out)
                case Constant():
                    rows = self._rows["constants"]
                    rows.fixed.append([operation.out.number, *operation.value, reads[operation.out.number]])
                    rows.wires.append([operation.out.number])
                case Bits():
                    rows = self._rows["bits"]
                    outs = [wire.number for wire in (*operation.halves, *operation.bits)]
                    _consecutive(outs)
                    power, factors = operation.power, [0] * POWER_BITS
                    if power is not None:
                        factors[: power.bits] = [pow(power.base, 1 << i, P) - 1 for i in range(power.bits)]
                    result = [0, 0] if power is None else [power.out.number, written(power.out)]
                    own = [1, operation.of.number, outs[0], *[reads[n] for n in outs[: 2 + USED_BITS]]]
                    rows.fixed.append([*own, *result, *factors])
                    rows.wires.append([operation.of.number])
                case Permutation():
                    rows = self._rows["poseidon2"]
                    state, outs = ([wire.number for wire in wires] for wires in (operation.state, operation.outs))
                    _consecutive(outs)
                    digest = operation.digest
                    whole = [0 if digest is None else digest.number, READ if operation.expected else written(digest)]
                    rows.fixed.append([*state, 1, outs[0], *[reads[n] for n in outs], *whole, *[0] * 5])
                    rows.wires.append([*state, 0, 0])
                case Step():
                    rows = self._rows["poseidon2"]
                    binary = len(operation.position) == 1
                    places = [wire.number for wire in (*operation.position, *[zero] * binary)]
                    whole = [operation.out.number, READ if operation.expected else written(operation.out)]
                    node = [operation.child.number, *places, 1, int(binary)]
                    rows.fixed.append([*[0] * WIDTH, 0, 0, *[0] * WIDTH, *whole, *node])
                    rows.wires.append([*[0] * WIDTH, *places])
                case _:
                    pass
        self._rows["publics"].fixed.append([reads[number] for number in publics])

    def _split(self, rows: Rows, more: Rows, height: int) -> None:
        """Move the rows beyond a table's height into the second table of the kind."""
        more.fixed, more.wires = rows.fixed[height:], rows.wires[height:]
        del rows.fixed[height:], rows.wires[height:]

    def _columns(self, name: str, rows: Sequence[Sequence[int]]) -> Words:
        """Rows as columns (width, 2^log_height), which end in zeros."""
        width = sum(self._rows[name].air.preprocessed.values())
        out = np.zeros((width, 1 << self.log_heights[name]), dtype=np.uint64)
        out[:, : len(rows)] = np.array(rows, dtype=np.uint64).reshape(len(rows), width).T
        return out

    def traces(self, made: Evaluation) -> list[Words]:
        """The main columns of each table."""
        words = np.zeros((len(made.values), WORDS), dtype=np.uint64)
        for number, value in enumerate(made.values):
            words[number, : len(value)] = value
        return [self._trace(name, words, made) for name in self._rows]

    def _trace(self, name: str, words: Words, made: Evaluation) -> Words:
        height = 1 << self.log_heights[name]
        if name == "publics":
            begins = np.zeros((1, height), dtype=np.uint64)
            begins[0, 0] = 1
            return begins
        rows = self._rows[name]
        wires = np.array(rows.wires, dtype=np.int64).reshape(len(rows.wires), _WIRES[name])
        values = np.zeros((height, wires.shape[1], WORDS), dtype=np.uint64)
        values[: len(wires)] = words[wires]
        match name:
            case "relations" | "more relations":
                return np.ascontiguousarray(values[:, :, :3].reshape(height, -1).T)
            case "bits":
                return _decomposed(values[:, 0, 0], self._columns(name, rows.fixed)[-POWER_BITS:])
            case "poseidon2" | "more poseidon2":
                state, place = values[:, :WIDTH, 0], values[:, WIDTH:, 0]
                steps = self._columns(name, rows.fixed)[-2] == 1
                count = int(steps.sum())
                own = made.steps[:count] if name == "poseidon2" else made.steps[len(made.steps) - count :]
                state[steps] = np.array(own, dtype=np.uint64).reshape(-1, WIDTH)
                return _permuted(state, place)
            case _:
                return np.ascontiguousarray(values[:, :, 0].T)


def _consecutive(numbers: Sequence[int]) -> None:
    assert list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))), "an operation's own wires"


def _decomposed(values: Words, factors: Words) -> Words:
    """The columns of the bits of scalars (n,), and of the products that they make with factors (k, n)."""
    bits = values[None] >> np.arange(BITS, dtype=np.uint64)[:, None] & np.uint64(1)
    missing = [(x >> HALF) - (1 << HALF) + 1 for x in values.tolist()]
    inverse = np.array([pow(m, -1, P) if m else 0 for m in missing], dtype=np.uint64)
    full = np.array([not m for m in missing], dtype=np.uint64)
    products: list[Words] = []
    before = np.ones(len(values), dtype=np.uint64)
    for bit, factor in zip(bits, factors, strict=False):
        before = mul(before, add(mul(bit, factor), np.ones_like(bit)))
        products.append(before)
    return np.concatenate([bits, inverse[None], full[None], *[product[None] for product in products]])


def _permuted(state: Words, place: Words) -> Words:
    """The columns of permutations of states (n, 16)."""
    powers: list[Words] = []

    def power(x: Words, constant: int) -> Words:
        x = add(x, np.uint64(constant))  # type: ignore[arg-type]
        square = mul(x, x)
        powers.append(mul(mul(square, square), mul(square, x)))
        return powers[-1]

    rounds(list(state.T), power, add, lambda x, c: mul(x, np.uint64(c)))  # type: ignore[arg-type]
    return np.concatenate([state.T, powers, place.T])
