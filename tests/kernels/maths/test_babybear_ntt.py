"""Transforms over BabyBear against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.maths.babybear import P, root_of_unity
from kernels.maths.babybear_ntt import intt, ntt


@pytest.mark.parametrize("log_n", [0, 1, 2, 5])
def test_values_at_the_powers_of_the_root(log_n: int) -> None:
    n = 1 << log_n
    coefficients = np.random.default_rng(log_n).integers(0, P, (3, n)).astype(np.uint32)
    values = ntt(coefficients)
    for row, found in zip(coefficients.tolist(), values.tolist(), strict=True):
        points = [pow(root_of_unity(log_n), i, P) for i in range(n)]
        assert found == [sum(c * pow(x, k, P) for k, c in enumerate(row)) % P for x in points]
    assert np.array_equal(intt(values), coefficients)


def test_any_axis() -> None:
    coefficients = np.random.default_rng(5).integers(0, P, (2, 8, 4)).astype(np.uint32)
    values = ntt(coefficients, axis=-2)
    for i in range(4):
        assert np.array_equal(values[..., i], ntt(np.ascontiguousarray(coefficients[..., i])))
    assert np.array_equal(intt(values, axis=-2), coefficients)


def test_a_length_is_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="3 is no power of two"):
        ntt(np.zeros(3, dtype=np.uint32))
