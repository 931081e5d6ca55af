"""The columns of permutations, which the backend makes, and those of wires."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.field import P, Words
from distprove.stark.recursion.columns import PERMUTATION_ROWS, wire_columns
from kernels.cpu.backend import CpuBackend
from kernels.maths.poseidon2 import SBOXES, WIDTH, rounds


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

        rounds(state, power, lambda a, b: (a + b) % P, lambda a, c: a * c % P)
        rows.append([*state, *powers, *(places[number].tolist() if given else [0, 0])])
    return np.array(rows, dtype=np.uint64).T


def some_permutations(count: int) -> tuple[Words, Words]:
    generator = np.random.default_rng(5)
    states = generator.integers(0, P, (count, WIDTH), dtype=np.uint64)
    return states, generator.integers(0, 2, (count, 2), dtype=np.uint64)


def test_the_columns_of_permutations() -> None:
    states, places = some_permutations(21)
    with CpuBackend() as backend:
        made = PERMUTATION_ROWS.make(backend, 32, states=states.reshape(-1), places=places.reshape(-1))
    assert made.shape == (WIDTH + SBOXES + 2, 32)
    assert np.array_equal(made, described(states, places, 32))


@pytest.mark.parametrize(("rows", "height"), [(300, 512), (128, 128), (0, 16)])
@pytest.mark.parametrize("words", [1, 3])
def test_the_columns_of_wires(rows: int, height: int, words: int) -> None:
    generator = np.random.default_rng(6)
    values = generator.integers(0, P, (50, 4), dtype=np.uint64)
    wires = generator.integers(0, 50, (rows, 4), dtype=np.uint32)
    expected = np.zeros((height, 4, words), dtype=np.uint64)
    expected[:rows] = values[wires][:, :, :words]
    assert np.array_equal(wire_columns(values, wires, words, height), expected.reshape(height, -1).T)


def test_wires_beyond_the_last() -> None:
    with pytest.raises(ValueError, match="beyond the last"):
        wire_columns(np.zeros((5, 4), dtype=np.uint64), np.full((3, 1), 5, dtype=np.uint32), 1, 16)
    with pytest.raises(ValueError, match="no such shape"):
        wire_columns(np.zeros((5, 4), dtype=np.uint64), np.zeros((17, 1), dtype=np.uint32), 1, 16)
