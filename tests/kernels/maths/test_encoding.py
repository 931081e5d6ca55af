"""Round trips between integers and arrays."""

from __future__ import annotations

import pytest

from kernels.maths import encoding
from kernels.maths.curves import CURVES, Curve, Group


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_fields_round_trip(curve: Curve) -> None:
    for field in (curve.fr, curve.fq):
        values = [0, 1, 2, field.modulus - 1, field.modulus // 3]
        array = encoding.field_from_ints(field, values)
        assert array.shape == (5, field.limbs)
        assert encoding.field_to_ints(field, array) == values
        assert encoding.unpack(array)[1] == (1 << (64 * field.limbs)) % field.modulus


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_generators_lie_on_their_curves(curve: Curve) -> None:
    q = curve.fq.modulus
    x, y = encoding.point_to_ints(curve, Group.G1, encoding.generator(curve, Group.G1)) or (0, 0)
    assert (y * y - x**3 - curve.b1) % q == 0
    x0, x1, y0, y1 = encoding.point_to_ints(curve, Group.G2, encoding.generator(curve, Group.G2)) or (0, 0, 0, 0)

    def times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] * b[0] - a[1] * b[1]) % q, (a[0] * b[1] + a[1] * b[0]) % q

    cube = times((x0, x1), times((x0, x1), (x0, x1)))
    assert times((y0, y1), (y0, y1)) == ((cube[0] + curve.b2[0]) % q, (cube[1] + curve.b2[1]) % q)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_roots_of_unity_have_their_order(curve: Curve) -> None:
    field = curve.fr
    for log_n in (1, 5, field.two_adicity):
        root = field.root_of_unity(log_n)
        assert pow(root, 1 << (log_n - 1), field.modulus) == field.modulus - 1
    with pytest.raises(ValueError, match="root of unity"):
        field.root_of_unity(field.two_adicity + 1)
