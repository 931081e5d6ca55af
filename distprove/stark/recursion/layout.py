"""A circuit as the preprocessed columns of its tables, and its values as their main columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

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
from distprove.stark.recursion.tables import (
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


@dataclass
class Rows:
    """The rows of one table: preprocessed columns, and the wires whose values are its main columns."""

    air: Air
    fixed: list[list[int]] = field(default_factory=list)
    wires: list[list[int]] = field(default_factory=list)


class Layout:
    """The tables of a circuit. Each has the least power of two of rows, and at least 2^least."""

    def __init__(self, circuit: Circuit, least: int) -> None:
        self.circuit, self._least = circuit, least
        self._reads = circuit.reads()
        bits = [o for o in circuit.operations if isinstance(o, Bits)]
        used = max((i + 1 for o in bits for i, bit in enumerate(o.bits) if self._reads[bit.number]), default=1)
        powered = max((o.power.bits for o in bits if o.power), default=1)
        publics = [o.out.number for o in circuit.operations if isinstance(o, Public)]
        self._rows = {
            "relations": Rows(Relations()),
            "joins": Rows(Joins()),
            "constants": Rows(Constants()),
            "publics": Rows(Publics(dict(circuit.public), [(number, self._reads[number]) for number in publics])),
            "bits": Rows(Decompositions(used, powered)),
            "poseidon2": Rows(Permutations()),
        }
        self._place(used, powered)
        self._split("relations", Relations("more relations"))

    @property
    def tables(self) -> Sequence[Air]:
        return [rows.air for rows in self._rows.values()]

    @cached_property
    def log_heights(self) -> Mapping[str, int]:
        return {name: max(self._least, (len(r.fixed) - 1).bit_length()) for name, r in self._rows.items()}

    @property
    def rows(self) -> Mapping[str, int]:
        """How many rows of each table are in use."""
        return {name: len(rows.fixed) for name, rows in self._rows.items()}

    @cached_property
    def preprocessed(self) -> Mapping[str, Words]:
        """Preprocessed columns, (width, rows), of the tables that have any."""
        return {name: self._columns(name, rows.fixed) for name, rows in self._rows.items() if rows.air.preprocessed}

    def _place(self, used: int, powered: int) -> None:
        reads = self._reads
        zero = next(o.out for o in self.circuit.operations if isinstance(o, Constant) and not any(o.value))

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
                    power, factors = operation.power, [0] * powered
                    if power is not None:
                        factors[: power.bits] = [pow(power.base, 1 << i, P) - 1 for i in range(power.bits)]
                    result = [0, 0] if power is None else [power.out.number, written(power.out)]
                    own = [1, operation.of.number, outs[0], *[reads[n] for n in outs[: 2 + used]]]
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

    def _split(self, name: str, more: Air) -> None:
        """Move rows beyond a power of two into a second table of the kind, where they are few: its height and the first
        one's are less than the next power of two."""
        rows = self._rows[name]
        full = 1 << (len(rows.fixed).bit_length() - 1)
        if 0 < len(rows.fixed) - full <= full // 4 and full > 1 << self._least:
            self._rows[more.name] = Rows(more, rows.fixed[full:], rows.wires[full:])
            del rows.fixed[full:], rows.wires[full:]

    def _columns(self, name: str, rows: Sequence[Sequence[int]]) -> Words:
        """Rows as columns (width, 2^log_height), which end in zeros."""
        given = np.array(rows, dtype=np.uint64)
        out = np.zeros((given.shape[1], 1 << self.log_heights[name]), dtype=np.uint64)
        out[:, : len(given)] = given.T
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
        wires = np.array(self._rows[name].wires, dtype=np.int64).reshape(len(self._rows[name].wires), -1)
        values = np.zeros((height, wires.shape[1], WORDS), dtype=np.uint64)
        values[: len(wires)] = words[wires]
        match name:
            case "relations" | "more relations":
                return np.ascontiguousarray(values[:, :, :3].reshape(height, -1).T)
            case "bits":
                factors = list(self._rows[name].air.preprocessed.values())[-1]
                return _decomposed(values[:, 0, 0], self._columns(name, self._rows[name].fixed)[-factors:])
            case "poseidon2":
                state, place = values[:, :WIDTH, 0], values[:, WIDTH:, 0]
                steps = self._columns(name, self._rows[name].fixed)[-2] == 1
                state[steps] = np.array(made.steps, dtype=np.uint64).reshape(-1, WIDTH)
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
