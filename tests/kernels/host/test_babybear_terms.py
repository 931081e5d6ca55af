"""Powers, eq of places, sums of products and the Montgomery form in native code, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.errors import SizeError
from kernels.host.babybear import ProductTerms, canonical, eq_of_places, ext_powers, matmul, montgomery
from kernels.maths import babybear as field
from kernels.maths.babybear import P
from tests.support.numpy_babybear import drawn

RADIX = np.uint32((1 << 32) % P)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 100])
def test_powers(count: int) -> None:
    base = drawn(4)
    assert np.array_equal(ext_powers(base, count), field.ext_powers(base, count))


@pytest.mark.parametrize("shape", [(0,), (7,), (3, 1, 4)])
def test_the_montgomery_form_and_back(shape: tuple[int, ...]) -> None:
    values = drawn(*shape)
    found = montgomery(values)
    assert np.array_equal(found, field.mul(values, RADIX))
    assert np.array_equal(canonical(found), values)
    columns = np.ascontiguousarray(values.T)
    assert np.array_equal(montgomery(columns.T), found), "an array in another order"


def test_sums_in_montgomery_form() -> None:
    sums = np.random.default_rng(3).integers(0, 1 << 64, (9, 4), dtype=np.uint64)
    sums[0] = (0, P, P - 1, (1 << 64) - 1)
    expected = [int(x) * pow(1 << 32, -1, P) % P for x in sums.reshape(-1).tolist()]
    assert canonical(sums).reshape(-1).tolist() == expected


@pytest.mark.parametrize("coordinates", [0, 1, 4, 5, 11])
def test_eq_of_places(coordinates: int) -> None:
    rng = np.random.default_rng(coordinates)
    point, starts = drawn(coordinates, 4), rng.integers(0, 1 << coordinates, 30)
    log_rows = rng.integers(0, coordinates + 2, 30)
    found = eq_of_places(point, starts, log_rows)
    for own, start, rows in zip(found, starts.tolist(), log_rows.tolist(), strict=True):
        expected = field.ext_one()
        for bit in range(rows, coordinates):
            chosen = point[bit] if start >> bit & 1 else field.sub(field.ext_one(), point[bit])
            expected = field.ext_mul(expected, chosen)
        assert np.array_equal(own, expected)


def test_a_point_has_a_bound() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(SizeError, match="64 coordinates"):
        eq_of_places(drawn(64, 4), nothing, nothing)


def test_sums_of_products() -> None:
    rng = np.random.default_rng(1)
    a, b = drawn(30, 4), drawn(20, 4)
    at_a, at_b, to = rng.integers(0, 30, 200), rng.integers(0, 20, 200), rng.integers(0, 8, 200)
    found = ProductTerms(at_a, at_b, to, 9).summed(a, b)
    for place in range(9):
        own = to == place
        assert np.array_equal(found[place], field.ext_dot(a[at_a[own]], b[at_b[own]]))
    assert not found[8].any()


@pytest.mark.parametrize(("at_a", "at_b", "to"), [(30, 0, 0), (0, 20, 0), (0, 0, 9), (-1, 0, 0)])
def test_products_out_of_range(at_a: int, at_b: int, to: int) -> None:
    indices = (np.array([own], dtype=np.int64) for own in (at_a, at_b, to))
    with pytest.raises(ValueError, match="out of range"):
        ProductTerms(*indices, 9).summed(drawn(30, 4), drawn(20, 4))


def test_products_of_matrices() -> None:
    a, b = drawn(5, 7), drawn(7, 3)
    expected = a.astype(object) @ b.astype(object) % P
    assert np.array_equal(matmul(a, b), expected.astype(np.uint32))
    with pytest.raises(SizeError, match="times one"):
        matmul(a, b.T)
