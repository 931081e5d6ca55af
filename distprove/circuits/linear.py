"""Linear combinations of wires, many rows at a time.

A `Linear` stands for `lanes` rows that share their coefficients: row i is the sum over its terms of
coefficient * wire[first + i * stride]. A constant is a term on wire 0, which is always one. A gadget written once on
such values describes one row or a million; the builder makes no Python object per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernels.maths.curves import Field

Run = tuple[int, int]
"""A run of wires (first, stride): first, first + stride, first + 2 * stride, ..."""

ONE: Run = (0, 0)

Span = tuple[int, int]
"""Wires from a first to a last."""


@dataclass(frozen=True)
class Linear:
    """`lanes` linear combinations over `field`, immutable. `terms` maps runs of wires to non-zero coefficients."""

    field: Field
    lanes: int
    terms: Mapping[Run, int]

    @classmethod
    def total(cls, field: Field, lanes: int, terms: Iterable[tuple[Run, int]]) -> Linear:
        """The sum of terms, whose runs may occur repeatedly and whose coefficients are any integers."""
        sums: dict[Run, int] = {}
        for run, coefficient in terms:
            sums[run] = sums.get(run, 0) + coefficient
        return cls(field, lanes, {run: value for run, c in sums.items() if (value := c % field.modulus)})

    @classmethod
    def constant(cls, field: Field, value: int, lanes: int = 1) -> Linear:
        value %= field.modulus
        return cls(field, lanes, {ONE: value} if value else {})

    @classmethod
    def wires(cls, field: Field, first: int, lanes: int) -> Linear:
        """The value of `lanes` consecutive wires from `first`, one wire a lane."""
        return cls(field, lanes, {(first, 1 if lanes > 1 else 0): 1})

    def spans(self, lanes: int) -> list[Span]:
        """The wires that `lanes` rows read, as spans from the first to the last."""
        ends = [(first, first + (lanes - 1) * stride) for first, stride in self.terms]
        return [(min(pair), max(pair)) for pair in ends]

    def _combine(self, other: Linear | int, factor: int) -> Linear:
        if isinstance(other, int):
            other = Linear.constant(self.field, other)
        terms, modulus = dict(self.terms), self.field.modulus
        for run, coefficient in other.terms.items():
            value = (terms.get(run, 0) + factor * coefficient) % modulus
            if value:
                terms[run] = value
            else:
                terms.pop(run, None)
        return Linear(self.field, common_lanes(self, other), terms)

    def __add__(self, other: Linear | int) -> Linear:
        return self._combine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Linear | int) -> Linear:
        return self._combine(other, -1)

    def __rsub__(self, other: int) -> Linear:
        return (-self)._combine(other, 1)

    def __neg__(self) -> Linear:
        return self * -1

    def __mul__(self, factor: int) -> Linear:
        """Multiply by a constant. The product of two combinations needs a constraint: `CircuitBuilder.multiply`."""
        modulus = self.field.modulus
        if not factor % modulus:
            return Linear(self.field, self.lanes, {})
        return Linear(self.field, self.lanes, {run: c * factor % modulus for run, c in self.terms.items()})

    __rmul__ = __mul__

    def __len__(self) -> int:
        return self.lanes

    def __getitem__(self, index: int | slice) -> Linear:
        """The lane at an index, or the lanes of a slice. Raises IndexError."""
        if isinstance(index, int):
            if not -self.lanes <= index < self.lanes:
                raise IndexError(f"lane {index} of {self.lanes}")
            chosen = range(index % self.lanes, index % self.lanes + 1)
        else:
            chosen = range(self.lanes)[index]
            if not chosen:
                raise IndexError(f"no lane in {index} of {self.lanes}")
        step = chosen.step if len(chosen) > 1 else 0
        if len(self.terms) == 1:
            (((first, stride), c),) = self.terms.items()
            return Linear(self.field, len(chosen), {(first + chosen.start * stride, stride * step): c})
        terms = (((first + chosen.start * stride, stride * step), c) for (first, stride), c in self.terms.items())
        return Linear.total(self.field, len(chosen), terms)

    def pieces(self, lanes: int) -> list[Linear]:
        """Cut the combination into pieces of `lanes` lanes each, in order. `lanes` divides the number of lanes."""
        if len(self.terms) != 1:
            return [self[start : start + lanes] for start in range(0, self.lanes, lanes)]
        (((first, stride), c),) = self.terms.items()
        field, step = self.field, stride if lanes > 1 else 0
        return [Linear(field, lanes, {(first + start * stride, step): c}) for start in range(0, self.lanes, lanes)]


def common_lanes(*values: Linear) -> int:
    """The number of lanes of an operation on `values`, which must agree except for values of one lane, which are
    repeated. Raises ValueError."""
    lanes = {value.lanes for value in values} - {1}
    if len(lanes) > 1:
        raise ValueError(f"cannot combine values of {', '.join(map(str, sorted(lanes)))} lanes")
    return lanes.pop() if lanes else 1


def lanes_of(wires: Sequence[Linear]) -> Linear:
    """The value whose lanes are these single wires. Raises ValueError unless they lie at equal distances."""
    firsts = [first for wire in wires for first, _ in wire.terms]
    stride = firsts[1] - firsts[0] if len(firsts) > 1 else 0
    if any(list(wire.terms.values()) != [1] or wire.lanes != 1 for wire in wires) or firsts != [
        firsts[0] + k * stride for k in range(len(wires))
    ]:
        raise ValueError("not single wires at equal distances")
    return Linear(wires[0].field, len(wires), {(firsts[0], stride): 1})


def weighted_sum(weights: Sequence[int], values: Sequence[Linear]) -> Linear:
    """The sum of weight * value over at least one value."""
    field, sums = values[0].field, dict[Run, int]()
    for weight, value in zip(weights, values, strict=True):
        if weight:
            for run, coefficient in value.terms.items():
                sums[run] = sums.get(run, 0) + weight * coefficient
    modulus = field.modulus
    return Linear(field, common_lanes(*values), {run: c for run, total in sums.items() if (c := total % modulus)})
