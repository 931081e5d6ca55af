"""The verifier's own arithmetic against Python's integers and polynomial division."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from distprove.stark import field
from distprove.stark.field import P

EDGES = [0, 1, 2, 2**32 - 1, 2**32, 2**32 + 1, 2**63, P - 2**32, P - 2, P - 1]
elements = st.one_of(st.sampled_from(EDGES), st.integers(0, P - 1))
extensions = st.tuples(elements, elements, elements)


def words(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def schoolbook(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Product of polynomials, reduced by x^3 = x + 1 from the top."""
    product = [0] * 5
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    for degree in (4, 3):
        product[degree - 2] += product[degree]
        product[degree - 3] += product[degree]
    return tuple(c % P for c in product[:3])


@given(st.lists(st.tuples(elements, elements), min_size=1, max_size=40))
def test_vectors(pairs: list[tuple[int, int]]) -> None:
    a, b = words([x for x, _ in pairs]), words([y for _, y in pairs])
    assert field.add(a, b).tolist() == [(x + y) % P for x, y in pairs]
    assert field.sub(a, b).tolist() == [(x - y) % P for x, y in pairs]
    assert field.mul(a, b).tolist() == [x * y % P for x, y in pairs]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_products_of_any_words(x: int, y: int) -> None:
    """Sums over columns are multiplied before they are reduced."""
    assert field.mul(words([x]), words([y])).tolist() == [x * y % P]


@given(st.lists(elements, min_size=1, max_size=5))
def test_inverse(values: list[int]) -> None:
    expected = [pow(v, -1, P) if v else 0 for v in values]
    assert field.inverse(words(values)).tolist() == expected


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_many_inverses(count: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, P, count, dtype=np.uint64)
    values[:: 1 + seed % 7] = 0
    expected = [pow(v, -1, P) if v else 0 for v in values.tolist()]
    assert field.inverse(values).tolist() == expected


@given(st.integers(1, 3), st.integers(1, 2500), st.integers(0, 2**32))
def test_extension_vectors(rows: int, count: int, seed: int) -> None:
    """Long ones, done in blocks, and those that broadcast; the largest elements among them."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, P, shape, dtype=np.uint64) for shape in ((rows, count, 3), (rows, 1, 3)))
    a[:, ::3], b[0] = P - 1, P - 1
    found = field.ext_mul(a, b)
    assert found.shape == a.shape
    for i in range(rows):
        for j in range(0, count, 1 + count // 5):
            assert tuple(found[i, j].tolist()) == schoolbook(a[i, j].tolist(), b[i, 0].tolist())


@given(extensions, extensions)
def test_extension(a: tuple[int, int, int], b: tuple[int, int, int]) -> None:
    expected = schoolbook(a, b)
    assert field.e_mul(a, b) == expected
    assert tuple(field.ext_mul(words([*a])[None], words([*b])[None])[0].tolist()) == expected
    if a != field.ZERO:
        assert schoolbook(a, field.e_inv(a)) == field.ONE
        assert tuple(field.ext_inverse(words([*a])[None])[0].tolist()) == field.e_inv(a)


@given(elements, st.integers(1, 70))
def test_powers(base: int, count: int) -> None:
    assert field.powers(base, count).tolist() == [pow(base, i, P) for i in range(count)]


@given(extensions, st.integers(1, 70))
def test_extension_power_vectors(base: tuple[int, int, int], count: int) -> None:
    assert [tuple(v) for v in field.ext_powers(base, count).tolist()] == field.e_powers(base, count)


@given(extensions, st.integers(0, 50))
def test_extension_powers(base: tuple[int, int, int], exponent: int) -> None:
    expected = field.ONE
    for _ in range(exponent):
        expected = schoolbook(expected, base)
    assert field.e_pow(base, exponent) == expected
    assert field.e_powers(base, exponent + 1)[-1] == expected


def test_roots_have_their_order() -> None:
    for log_n in (0, 1, 5, 32):
        w = field.root_of_unity(log_n)
        assert pow(w, 1 << log_n, P) == 1
        assert log_n == 0 or pow(w, 1 << (log_n - 1), P) == P - 1


def test_the_extension_is_a_field() -> None:
    """x^3 - x - 1 has no root in F_p: x^p differs from x modulo it, and gcd(x^p - x, x^3 - x - 1) is 1."""
    frobenius = field.e_pow((0, 1, 0), P)
    difference = field.e_sub(frobenius, (0, 1, 0))
    assert field.e_mul(difference, field.e_inv(difference)) == field.ONE
    assert field.e_pow((0, 1, 0), P**3) == (0, 1, 0)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 2**32))
def test_dot(count: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = (rng.integers(0, P, shape, dtype=np.uint64) for shape in ((count, width), (width, 3)))
    rows[:, ::2], weights[::3] = P - 1, P - 1
    for row, found in zip(
        rows.tolist(), field.dot([rows[:, :3], rows[:, 3:]], field.spread(weights)).tolist(), strict=True
    ):
        assert found == [sum(r * w[c] for r, w in zip(row, weights.tolist(), strict=True)) % P for c in range(3)]


def test_dots_are_exact_for_the_largest_words_and_many_columns() -> None:
    """Words that are no elements, whose halves and limbs have all bits set; one set of weights by itself and two."""
    largest = np.full((2, 700), 2**64 - 1, dtype=np.uint64)
    weights = np.full((700, 3), P - 1, dtype=np.uint64)
    weights[1::2] = (1 << 39) - 1  # three limbs of ones
    expected = [[(2**64 - 1) * sum(w[c] for w in weights.tolist()) % P for c in range(3)]] * 2
    spread = field.spread(weights)
    for found in (field.dot([largest], spread), *field.dots([largest[:, :300], largest[:, 300:]], [spread, spread])):
        assert found.tolist() == expected


@given(st.lists(st.tuples(extensions, extensions, extensions), min_size=1, max_size=9))
def test_sums_of_extension_products(triples: list[tuple[tuple[int, int, int], ...]]) -> None:
    a, b, weights = (np.array([t[i] for t in triples], dtype=np.uint64) for i in range(3))
    expected = [field.e_sum([schoolbook(t[i], t[2]) for t in triples]) for i in range(2)]
    assert field.e_dots(np.stack((a, b), axis=1), field.spread(weights)) == expected
    assert field.e_dot(a, weights) == expected[0]


@given(elements, st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=9))
def test_powers_at(base: int, exponents: list[int]) -> None:
    found = field.powers_at(base, np.array(exponents, dtype=np.int64), 20)
    assert found.tolist() == [pow(base, e, P) for e in exponents]
