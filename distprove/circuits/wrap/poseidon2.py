"""Poseidon2 over BN254's scalar field as a circuit: 240 constraints a permutation.

Each of the 80 powers takes three constraints, and linear layers none. In the partial rounds the two elements that are
not powered grow by a term a round. They get no wires of their own: that would shorten rows and add constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.gadgets import swap
from distprove.circuits.linear import Linear, weighted_sum
from distprove.circuits.templates import Template
from kernels.maths import poseidon2_bn254
from kernels.maths.curves import BN254

SPONGE_TAG = 1
"""In the capacity of a sponge, before the number of its words (docs/multilinear-protocol.md, section 2)."""
WORDS, RATE = 3, 2
"""Words of 64 bits that are packed into one element, and elements that a permutation takes."""


def permuted(b: CircuitBuilder, state: Sequence[Linear]) -> list[Linear]:
    """The permutation of three elements, lane by lane. The results are combinations of a few wires."""

    def power(x: Linear, constant: int) -> Linear:
        given = x + constant
        square = b.multiply(given, given)
        return b.multiply(b.multiply(square, square), given)

    return poseidon2_bn254.PERMUTATION.rounds(state, power, lambda x, y: x + y, lambda x, c: x * c)


def node(b: CircuitBuilder, tag: int, left: Linear, right: Linear) -> Linear:
    """The digest of a node over two wires. It takes 241 constraints a lane, of which one gives the digest a wire."""
    return b.place(_node(tag), [left, right])[0]


@cache
def _node(tag: int) -> Template:
    def gadget(b: CircuitBuilder, inputs: Sequence[Linear]) -> list[Linear]:
        return [b.settle(permuted(b, [*inputs, b.constant(tag)])[0])]

    return CircuitBuilder.record(BN254, 2, gadget)


def placed(b: CircuitBuilder, state: Sequence[Linear]) -> list[Linear]:
    """The permutation of three wires, as an instance of a template: for circuits of many."""
    return b.place(_permutation(), state)


@cache
def _permutation() -> Template:
    return CircuitBuilder.record(BN254, poseidon2_bn254.WIDTH, permuted)


def step(b: CircuitBuilder, tag: int, bit: Linear, own: Linear, sibling: Linear) -> Linear:
    """The digest of the node over two wires, of which `own` is the right one where the bit is 1. 242 constraints."""
    return b.place(_step(tag), [bit, own, sibling])[0]


@cache
def _step(tag: int) -> Template:
    def gadget(b: CircuitBuilder, inputs: Sequence[Linear]) -> list[Linear]:
        bit, own, sibling = inputs
        return [b.settle(permuted(b, [*swap(b, bit, own, sibling), b.constant(tag)])[0])]

    return CircuitBuilder.record(BN254, 3, gadget)


def packed(words: Sequence[Linear]) -> list[Linear]:
    """Words of 64 bits, three in an element. Each must be known to be below 2^64."""
    groups = (words[i : i + WORDS] for i in range(0, len(words), WORDS))
    return [weighted_sum([1 << 64 * i for i in range(len(group))], group) for group in groups]
