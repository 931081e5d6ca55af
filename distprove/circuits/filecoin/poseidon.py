"""Filecoin's Poseidon (neptune), of 2, 4, 8 or 11 elements, as a circuit and on integers.

The state starts as (2^arity - 1, inputs...) and its second element after one permutation is the hash. The circuit takes
31 t + 4 R_P - 2 constraints for t = arity + 1: linear layers cost nothing until an S-box needs its input as a wire.
Round constants are moved behind the S-boxes before them, and the matrix of each partial round is factored into a
sparse one and a rest that the round before takes on, so that an element grows by one term a partial round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear, weighted_sum
from distprove.circuits.poseidon import permute
from distprove.circuits.poseidon_params import FULL_ROUNDS, PoseidonParameters, neptune_parameters
from distprove.circuits.templates import Template
from kernels.maths.curves import Curve, Field

Matrix = Sequence[Sequence[int]]


def merkle_tag(arity: int) -> int:
    """The first element of the state of a tree's hash. It keeps hashes for other purposes apart."""
    return (1 << arity) - 1


def filecoin_poseidon(field: Field, inputs: Sequence[int], tag: int | None = None) -> int:
    """Filecoin's Poseidon hash of 2, 4, 8 or 11 integers, reduced modulo the field; a tree's hash without `tag`."""
    tag = merkle_tag(len(inputs)) if tag is None else tag
    return permute(neptune_parameters(field, len(inputs) + 1), [tag, *inputs])[1]


def hash_elements(b: CircuitBuilder, inputs: Sequence[Linear], tag: int | None = None) -> Linear:
    """The hash of 2, 4, 8 or 11 wires, lane by lane; a tree's without `tag`."""
    return b.place(_template(b.curve, len(inputs), merkle_tag(len(inputs)) if tag is None else tag), inputs)[0]


@lru_cache(maxsize=8)
def _template(curve: Curve, arity: int, tag: int) -> Template:
    return CircuitBuilder.record(curve, arity, lambda b, inputs: [poseidon(b, inputs, tag)])


def poseidon(b: CircuitBuilder, inputs: Sequence[Linear], tag: int) -> Linear:
    """The hash of 2, 4, 8 or 11 wires of one lane, recorded constraint by constraint."""
    parameters = neptune_parameters(b.field, len(inputs) + 1)
    rounds = _optimised(parameters)
    after = rounds.after[0]
    state = [b.constant(pow(tag + rounds.first[0], 5, b.field.modulus) + after[0])]
    state += [_fifth_power(b, x + k, add) for x, k, add in zip(inputs, rounds.first[1:], after[1:], strict=True)]
    state = _times(state, rounds.matrices[0])
    for after, matrix in zip(rounds.after[1:], rounds.matrices[1:], strict=True):
        for i, add in enumerate(after):
            state[i] = _fifth_power(b, b.settle(state[i]), add)
        state = _times(state, matrix)
    return b.settle(state[1])


def _fifth_power(b: CircuitBuilder, x: Linear, add: int) -> Linear:
    """x^5 + add, with the last constraint x * x^4 = result - add."""
    square = b.multiply(x, x)
    fourth = b.multiply(square, square)
    return b.multiply_add(x, fourth, b.constant(add))


def _times(state: Sequence[Linear], matrix: Matrix) -> list[Linear]:
    """The row vector `state` times `matrix`."""
    return [weighted_sum(column, state) for column in zip(*matrix, strict=True)]


@dataclass(frozen=True)
class _Rounds:
    """Constants and matrices of all rounds after the optimisation."""

    first: tuple[int, ...]
    """What is added to each element before the first round."""
    after: tuple[tuple[int, ...], ...]
    """What is added behind each S-box of each round; as many as the round has S-boxes."""
    matrices: tuple[Matrix, ...]
    """The matrix of each round."""


@lru_cache(maxsize=8)
def _optimised(parameters: PoseidonParameters) -> _Rounds:
    p, width, half = parameters.field.modulus, parameters.width, FULL_ROUNDS // 2
    keys, partial = parameters.constants, parameters.partial_rounds
    inverse = _inverse(parameters.matrix, p)

    def before(key: Sequence[int]) -> list[int]:
        """What has to be added ahead of the matrix so that `key` is added behind it."""
        return [sum(k * inverse[i][j] for i, k in enumerate(key)) % p for j in range(width)]

    # Backwards through the partial rounds: the first element's constant stays, the others move on to the round before.
    single: list[int] = []
    carried = list(keys[half + partial])
    for number in reversed(range(half, half + partial)):
        first, *others = before(carried)
        single.insert(0, first)
        carried = [keys[number][0], *((k + o) % p for k, o in zip(keys[number][1:], others, strict=True))]
    after = [
        *(tuple(before(keys[number])) for number in range(1, half)),
        tuple(before(carried)),
        *((key,) for key in single),
        *(tuple(before(keys[number])) for number in range(half + partial + 1, parameters.rounds)),
        (0,) * width,
    ]

    # Backwards again: M = rest * sparse, where the rest leaves the first element as it is and joins the round before.
    sparse: list[Matrix] = []
    current: Matrix = parameters.matrix
    for _ in range(partial):
        corner = [row[1:] for row in current[1:]]
        rest = [[int(i == j == 0) for j in range(width)] for i in range(width)]
        for i, row in enumerate(corner):
            rest[i + 1][1:] = row
        column = [row[0] for row in current[1:]]
        column = [sum(m * c for m, c in zip(row, column, strict=True)) % p for row in _inverse(corner, p)]
        unit = [[w, *(int(i == j) for j in range(width - 1))] for i, w in enumerate(column)]
        sparse.insert(0, [list(current[0]), *unit])
        current = _product(parameters.matrix, rest, p)
    dense = [parameters.matrix] * (half - 1)
    return _Rounds(keys[0], tuple(after), (*dense, current, *sparse, *dense, parameters.matrix))


def _product(a: Matrix, b: Matrix, p: int) -> Matrix:
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) % p for column in columns] for row in a]


def _inverse(matrix: Matrix, p: int) -> Matrix:
    """The inverse of an invertible matrix modulo p, by Gauss and Jordan."""
    n = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i] % p)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = pow(rows[i][i], -1, p)
        rows[i] = [x * scale % p for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [(x - factor * y) % p for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]
