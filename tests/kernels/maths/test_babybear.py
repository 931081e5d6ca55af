"""BabyBear and its extension against the numbers of p3-baby-bear 0.4.3, and against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.maths import babybear as field
from kernels.maths.babybear import P, ext_of

A = ext_of([123456789, 987654321, 1111111111, 2013265920])
B = ext_of([31, 2013265919, 7, 1500000000])


def drawn(*shape: int) -> field.Elements:
    """Random elements, with the ends of the range among them."""
    found = np.random.default_rng(7).integers(0, P, shape).astype(np.uint32)
    found.reshape(-1)[:2] = 0, P - 1
    return found


def test_root_of_unity_is_that_of_plonky3() -> None:
    assert field.root_of_unity(27) == 0x1A427A41
    assert field.root_of_unity(1) == P - 1
    with pytest.raises(ValueError, match="no 2\\^28-th root"):
        field.root_of_unity(28)


def test_base_field_against_integers() -> None:
    a, b = drawn(500), drawn(500)[::-1]
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert field.add(a, b).tolist() == [(x + y) % P for x, y in pairs]
    assert field.sub(a, b).tolist() == [(x - y) % P for x, y in pairs]
    assert field.mul(a, b).tolist() == [x * y % P for x, y in pairs]
    assert field.neg(a).tolist() == [-x % P for x in a.tolist()]
    assert field.inverse(a[1:]).tolist() == [pow(x, -1, P) for x in a[1:].tolist()]
    assert field.powers(31, 9).tolist() == [pow(31, k, P) for k in range(9)]
    assert field.elements([-1, P, 2 * P + 5]).tolist() == [P - 1, 0, 5]
    with pytest.raises(ZeroDivisionError):
        field.inverse(a)


def test_extension_against_plonky3() -> None:
    assert field.ext_mul(A, B).tolist() == [1888343816, 1347641753, 727205954, 1918091677]
    assert field.ext_inverse(A).tolist() == [1057136130, 368696596, 901287695, 1437188603]


def test_extension_is_a_field() -> None:
    a, b, c = drawn(300, 4), drawn(300, 4)[::-1], drawn(4)
    assert np.array_equal(field.ext_mul(field.add(a, b), c), field.add(field.ext_mul(a, c), field.ext_mul(b, c)))
    assert np.array_equal(field.ext_mul(a, field.ext_inverse(a)), np.tile(field.ext_one(), (300, 1)))
    assert np.array_equal(field.ext_scale(a, b[:, 0]), field.ext_mul(a, field.ext(b[:, 0])))
    assert np.array_equal(field.ext_powers(c, 6)[1:], field.ext_mul(field.ext_powers(c, 5), c))
    by_hand = np.zeros(4, dtype=np.uint32)
    for row in field.ext_mul(a, b):
        by_hand = field.add(by_hand, row)
    assert np.array_equal(field.ext_dot(a, b), by_hand)
    with pytest.raises(ZeroDivisionError):
        field.ext_inverse(np.zeros((2, 4), dtype=np.uint32))


def test_largest_elements_do_not_wrap() -> None:
    top = ext_of([-1, -1, -1, -1])
    # (1 + x + x^2 + x^3)^2 by x^4 = 11.
    assert field.ext_mul(top, top.copy()).tolist() == [1 + 33, 2 + 22, 3 + 11, 4]


def test_an_extension_element_has_four_coefficients() -> None:
    with pytest.raises(ValueError, match="4 coefficients, not 3"):
        ext_of([1, 2, 3])
