"""The columns that the backend makes: of permutations, bits and wires."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest

from distprove.stark.air import CppRows
from distprove.stark.field import P, Words
from distprove.stark.recursion.circuit import BITS
from distprove.stark.recursion.columns import BIT_ROWS, CONSTANT_ROWS, JOIN_ROWS, PERMUTATION_ROWS, RELATION_ROWS
from distprove.stark.recursion.tables import POWER_BITS
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.poseidon2 import PERMUTATION, WIDTH


def described(states: Words, places: Words, height: int) -> Words:
    """The columns by the description of the permutation (`kernels.maths.poseidon2`)."""
    rows = []
    for number in range(height):
        given = number < len(states)
        state = states[number].tolist() if given else [0] * WIDTH
        powers: list[int] = []

        def power(x: int, constant: int, powers: list[int] = powers) -> int:
            powers.append(pow(x + constant, 7, P))
            return powers[-1]

        PERMUTATION.rounds(state, power, lambda a, b: (a + b) % P, lambda a, c: a * c % P)
        rows.append([*state, *powers, *(places[number].tolist() if given else [0, 0])])
    return np.array(rows, dtype=np.uint64).T


def some_permutations(count: int) -> tuple[Words, Words]:
    generator = np.random.default_rng(5)
    states = generator.integers(0, P, (count, WIDTH), dtype=np.uint64)
    return states, generator.integers(0, 2, (count, 2), dtype=np.uint64)


def made_on(backend: Backend, rows: CppRows, height: int, **inputs: Words) -> Words:
    """The columns of a row function, made on a backend, as a host array."""
    return backend.to_host(rows.make(backend, height, **{name: backend.to_device(own) for name, own in inputs.items()}))


def some_values(wires: int) -> Words:
    """Four words of each wire, the first one zero."""
    values = np.random.default_rng(6).integers(0, P, (wires, 4), dtype=np.uint64)
    values[0] = 0
    return values


def check_permutations(backend: Backend) -> None:
    states, places = some_permutations(21)
    values = some_values(43)
    bits = np.zeros((2, 32), dtype=np.uint64)
    bits[:, :21] = np.arange(1, 43).reshape(2, 21)
    values[bits[:, :21], 0] = places.T
    made = made_on(backend, PERMUTATION_ROWS, 32, states=states.reshape(-1), values=values.reshape(-1), bits=bits)
    assert made.shape == (WIDTH + PERMUTATION.powers + 2, 32)
    assert np.array_equal(made, described(states, places, 32))


def check_wires(backend: Backend) -> None:
    values, generator = some_values(50), np.random.default_rng(7)
    for rows, operands, words in ((RELATION_ROWS, 4, 3), (JOIN_ROWS, 4, 1), (CONSTANT_ROWS, 1, 1)):
        numbers = generator.integers(0, 50, (operands, 64), dtype=np.uint64)
        numbers[:, 50:] = 0
        made = made_on(backend, rows, 64, values=values.reshape(-1), numbers=numbers)
        assert np.array_equal(made, values[numbers.T][:, :, :words].reshape(64, -1).T)
        assert not made[:, 50:].any()


def check_bits(backend: Backend) -> None:
    """Of some scalars, the edges of the field among them, and the products that they make."""
    scalars = [0, 1, P - 1, P - 2, 2**32 - 1, (2**32 - 1) << 32, 2**63, *some_values(9)[:, 0].tolist()]
    values = np.zeros((len(scalars), 4), dtype=np.uint64)
    values[:, 0] = scalars
    factors = np.random.default_rng(8).integers(0, P, (POWER_BITS, 16), dtype=np.uint64)
    factors[0, :3], factors[1] = P - 1, 0  # one less than zero and than one
    made = made_on(
        backend, BIT_ROWS, 16, values=values.reshape(-1), of=np.arange(16, dtype=np.uint64)[None], factors=factors
    )
    for row, scalar in enumerate(scalars):
        bits = [scalar >> i & 1 for i in range(BITS)]
        missing = ((scalar >> 32) - (2**32 - 1)) % P
        terms = [1 + bit * int(factor) for bit, factor in zip(bits, factors[:, row], strict=False)]
        products = list(accumulate(terms, lambda a, b: a * b % P, initial=1))[1:]
        assert made[:, row].tolist() == [*bits, pow(missing, P - 2, P), int(missing == 0), *products]


CHECKS = (check_permutations, check_wires, check_bits)


@pytest.mark.parametrize("check", CHECKS)
def test_columns(check: Callable[[Backend], None]) -> None:
    with CpuBackend() as backend:
        check(backend)
