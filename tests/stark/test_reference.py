"""The reference itself, against first principles: it is what the backends are measured by."""

from __future__ import annotations

import numpy as np

from distprove.stark import field
from distprove.stark.field import P
from kernels.interface.goldilocks import DeepPoint
from kernels.maths.goldilocks import GENERATOR, root_of_unity
from tests.support.stark_reference import ReferenceKernels, domain, interpolate, keccak256, power

kernels = ReferenceKernels()
rng = np.random.default_rng(7)


def random(*shape: int) -> np.ndarray:
    return rng.integers(0, P, shape, dtype=np.uint64)


def horner(coefficients: np.ndarray, x: int) -> int:
    value = 0
    for c in coefficients[::-1].tolist():
        value = (value * x + c) % P
    return value


def test_keccak_is_the_original_one() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


def test_lde() -> None:
    columns = random(2, 8)
    extended = kernels.lde(columns, 2, coset=5)
    for column, values in zip(columns, extended, strict=True):
        coefficients = interpolate(column, 5)
        assert [horner(coefficients, 5 * pow(root_of_unity(3), j, P) % P) for j in range(8)] == column.tolist()
        for k in range(4):
            for j in range(8):
                x = GENERATOR * pow(root_of_unity(5), j * 4 + k, P) % P
                assert values[k, j] == horner(coefficients, x)


def test_deep_and_fold_keep_degrees() -> None:
    """A DEEP quotient of an honest opening is a polynomial of degree below n, and folding halves that."""
    extended = kernels.lde(random(3, 16), 1)
    zeta = (3, 1, 4)
    (values,) = kernels.evaluate_at([extended], zeta)
    weights = random(3, 3)
    codeword = kernels.deep([DeepPoint(zeta, (extended,), weights, field.e_dot(weights, values))])
    assert degree(codeword) == 14
    folded = kernels.fold(codeword, 2, (9, 9, 9))
    assert degree(folded) == 3
    wrong = kernels.deep([DeepPoint(zeta, (extended,), weights, field.e_add(field.e_dot(weights, values), (1, 0, 0)))])
    assert degree(wrong) == 31


def degree(codeword: np.ndarray) -> int:
    natural = codeword.transpose(0, 2, 1).reshape(3, -1)
    coefficients = interpolate(natural)
    return int(np.flatnonzero(coefficients.any(axis=0)).max())


def test_selectors_on_the_domain() -> None:
    first, last, transition = kernels.selectors(3, 1, 1)
    x = domain(3, 1)
    vanishing = field.sub(power(x, 8), np.uint64(1))
    assert (field.mul(first, field.sub(x, np.uint64(1))) == vanishing).all()
    assert (field.mul(last, transition) == vanishing).all()


def test_opening_a_tree() -> None:
    matrices = [random(2, 2, 8), random(3, 2, 4), random(1, 2, 8)]
    tree = kernels.commit(matrices)
    opening = tree.open([13])
    assert opening.rows[0].tolist() == [matrices[0][:, 1, 6].tolist()]  # 13 = 6 * 2 + 1
    assert opening.rows[1].tolist() == [matrices[1][:, 1, 2].tolist()]  # 13 mod 8 = 5 = 2 * 2 + 1
    assert opening.path.shape == (4, 32)
