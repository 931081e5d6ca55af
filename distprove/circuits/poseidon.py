"""The Poseidon hash of one to sixteen elements: as a circuit, and on integers.

As in circomlib: the state starts as (0, inputs...), one permutation, the hash is the first element.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear, common_lanes
from distprove.circuits.poseidon_params import poseidon_parameters
from kernels.curves import Field

LONGEST_COMBINATION = 10
"""Partial rounds touch one element, so the others grow by one term a round. Past this many terms they get wires of
their own: 6 % more constraints for t = 3, and a quarter of the matrix entries, which fill the key."""


def poseidon_hash(field: Field, inputs: Sequence[int]) -> int:
    """The hash of 1 to 16 integers (reduced modulo the field)."""
    parameters = poseidon_parameters(field, len(inputs) + 1)
    p = field.modulus
    state = [0, *(x % p for x in inputs)]
    for number, constants in enumerate(parameters.constants):
        state = [(x + k) % p for x, k in zip(state, constants, strict=True)]
        powered = len(state) if parameters.is_full(number) else 1
        state[:powered] = [pow(x, 5, p) for x in state[:powered]]
        state = [sum(m * x for m, x in zip(row, state, strict=True)) % p for row in parameters.matrix]
    return state[0]


def poseidon(b: CircuitBuilder, inputs: Sequence[Linear]) -> Linear:
    """The hash of 1 to 16 values, lane by lane. Two inputs: about 256 constraints a lane."""
    parameters = poseidon_parameters(b.field, len(inputs) + 1)
    lanes = common_lanes(*inputs)
    state = [b.constant(0, lanes), *inputs]
    for number, constants in enumerate(parameters.constants):
        state = [x + k for x, k in zip(state, constants, strict=True)]
        powered = len(state) if parameters.is_full(number) else 1
        state[:powered] = [_fifth_power(b, x) for x in state[:powered]]
        state[powered:] = [b.settle(x) if len(x.terms) > LONGEST_COMBINATION else x for x in state[powered:]]
        state = [_weighted_sum(b, row, state, lanes) for row in parameters.matrix]
    return state[0]


def _fifth_power(b: CircuitBuilder, x: Linear) -> Linear:
    square = b.multiply(x, x)
    return b.multiply(b.multiply(square, square), x)


def _weighted_sum(b: CircuitBuilder, weights: Sequence[int], values: Sequence[Linear], lanes: int) -> Linear:
    total = b.constant(0, lanes)
    for weight, value in zip(weights, values, strict=True):
        total = total + value * weight
    return total
