"""The Poseidon hash of one to sixteen elements, as a circuit and on integers.

It equals circomlib's: the state starts as (0, inputs...), goes through one permutation, and its first element is the
hash.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear, common_lanes, weighted_sum
from distprove.circuits.poseidon_params import PoseidonParameters, poseidon_parameters
from kernels.maths.curves import Field

LONGEST_COMBINATION = 10
"""Maximum terms of a state element; a longer one gets its own wire. Partial rounds raise one element to the fifth
power, so the others grow by one term a round. For t = 3 this limit costs 6 % more constraints, and leaves a quarter of
the matrix entries, which fill the key."""


def poseidon_hash(field: Field, inputs: Sequence[int]) -> int:
    """The Poseidon hash of 1 to 16 integers, which are reduced modulo the field."""
    parameters = poseidon_parameters(field, len(inputs) + 1)
    return permute(parameters, [0, *inputs])[0]


def permute(parameters: PoseidonParameters, state: Sequence[int]) -> list[int]:
    """Poseidon's permutation of as many integers as `parameters` has."""
    p = parameters.field.modulus
    state = [x % p for x in state]
    for number, constants in enumerate(parameters.constants):
        state = [(x + k) % p for x, k in zip(state, constants, strict=True)]
        powered = len(state) if parameters.is_full(number) else 1
        state[:powered] = [pow(x, 5, p) for x in state[:powered]]
        state = [sum(m * x for m, x in zip(row, state, strict=True)) % p for row in parameters.matrix]
    return state


def poseidon(b: CircuitBuilder, inputs: Sequence[Linear]) -> Linear:
    """The Poseidon hash of 1 to 16 values, lane by lane. Two inputs take about 256 constraints a lane."""
    parameters = poseidon_parameters(b.field, len(inputs) + 1)
    lanes = common_lanes(*inputs)
    state = [b.constant(0, lanes), *inputs]
    for number, constants in enumerate(parameters.constants):
        state = [x + k for x, k in zip(state, constants, strict=True)]
        powered = len(state) if parameters.is_full(number) else 1
        state[:powered] = [_fifth_power(b, x) for x in state[:powered]]
        state[powered:] = [b.settle(x) if len(x.terms) > LONGEST_COMBINATION else x for x in state[powered:]]
        state = [weighted_sum(row, state) for row in parameters.matrix]
    return state[0]


def _fifth_power(b: CircuitBuilder, x: Linear) -> Linear:
    square = b.multiply(x, x)
    return b.multiply(b.multiply(square, square), x)
