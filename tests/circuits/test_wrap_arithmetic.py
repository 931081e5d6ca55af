"""The arithmetic of wires computes what that of numbers does, and its conditions refuse what those of numbers do."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap.arithmetic import Value, WrapArithmetic, WrapIndex
from distprove.circuits.wrap.integers import Bounded, decomposed
from distprove.errors import UnsatisfiedWitness, UsageError
from distprove.stark.arithmetic import NUMBERS, Arithmetic
from distprove.stark.field import P, root_of_unity
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254
from kernels.maths.encoding import unpack
from tests.circuits.test_builder import unsatisfied

RNG = random.Random(23)
EDGES = [0, 1, P - 1, 2**32, (P + 1) // 2]
Elements = list[Any]
Operation = Callable[[Arithmetic[Any], Elements], Elements]


def numbers(count: int) -> list[tuple[int, int, int]]:
    def part() -> int:
        return RNG.choice((RNG.randrange(P), RNG.choice(EDGES)))

    return [(part(), part(), part()) for _ in range(count)]


def horner(f: Arithmetic[Any], x: Elements) -> Elements:
    """A chain of products: bits add up until factors are reduced."""
    total = x[0]
    for value in x[1:]:
        total = f.add(f.mul(total, x[1]), f.scale(value, P - 3))
    return [total, f.sub(f.mul(total, total), f.mul(total, x[0]))]


def powers(f: Arithmetic[Any], x: Elements) -> Elements:
    return [*f.powers(x[0], 9), *f.lagrange(x[1], 2), f.sum(f.powers(x[2], 30))]


def folded(f: Arithmetic[Any], x: Elements) -> Elements:
    """Two halves of two leaves each, of reduced elements and of products."""
    a, b = (f.array(x[i : i + 4]).reshape(2, 2, -1) for i in (0, 4))
    scaled, first = f.array(x[8:10]), scalars(f, [7, P - 5])
    once = f.folded(scaled, first, a, b)
    again = f.folded(scaled[:1], f.scalar_muls(first, first), once[:, :1], once[:, 1:])
    return f.elements(np.concatenate([once.reshape(4, -1), again.reshape(2, -1)]))


def scalars(f: Arithmetic[Any], values: list[int]) -> Any:
    """Elements of F_p: numbers, or wires that the circuit knows nothing of."""
    if isinstance(f, WrapArithmetic):
        made = [Value(f.constant(v).parts, base=True) for v in values]
        for own in made:
            first, *zeros = own.parts
            own.parts = (Bounded(f.b.settle(first.value), -P, P), zeros[0], zeros[1])
        return f.scalars(made)
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize("alphas", [1, 2, 3, 6])
def test_factors_of_points(alphas: int, backend: Backend) -> None:
    def paired(f: Arithmetic[Any], x: Elements) -> Elements:
        points = np.concatenate([f.array(x[:2]), f.embed(scalars(f, [3, P - 1]))])
        factors, after = f.paired(f.array(x[2:6]), points, x[6 : 6 + alphas])
        return [*f.elements(factors), *f.elements(after)]

    assert_same(paired, numbers(6 + alphas), backend)


@pytest.mark.parametrize("operation", [horner, powers, folded])
def test_an_operation_is_that_of_numbers(operation: Operation, backend: Backend) -> None:
    for _ in range(2):
        assert_same(operation, numbers(12), backend)


def assert_same(operation: Operation, given: list[tuple[int, int, int]], backend: Backend) -> None:
    expected = [tuple(x) for x in operation(NUMBERS, list(given))]
    b = CircuitBuilder(BN254)
    f = WrapArithmetic(b)
    made = operation(f, f.given_elements("x", len(given)))
    for i, value in enumerate(made):
        for k, part in enumerate(f.small(value).parts):
            b.output(f"{i} {k}", part.value)
    circuit = b.build()
    witness = unpack(circuit.witness({"x": [str(part) for element in given for part in element]}, backend))
    assert not unsatisfied(circuit.r1cs, witness)
    found = [value if value <= BN254.fr.modulus // 2 else value - BN254.fr.modulus for value in witness]
    out = [tuple(x % P for x in found[1 + 3 * i : 4 + 3 * i]) for i in range(len(made))]
    assert out == expected


@pytest.mark.parametrize("bits", [1, 3, 5])
def test_powers_by_indices_and_their_inverses(bits: int, backend: Backend) -> None:
    base = root_of_unity(bits)
    for index in range(1 << bits):
        b = CircuitBuilder(BN254)
        f = WrapArithmetic(b)
        own = WrapIndex(tuple(decomposed(b, b.private_input("index"), bits)))
        found = f.powers_at(base, np.array([own], dtype=object), bits)
        found = f.scalar_muls(found, found)
        for k, value in enumerate((found[0], f.inverses(found)[0])):
            b.output(f"{k}", f.small(value).parts[0].value)
        witness = unpack(b.build().witness({"index": str(index)}, backend))
        power = pow(base, 2 * index, P)
        assert [value % P for value in witness[1:3]] == [power, pow(power, -1, P)]


def test_conditions(backend: Backend) -> None:
    b = CircuitBuilder(BN254)
    f = WrapArithmetic(b)
    x, y, z = f.given_elements("x", 3)
    f.need_equal(f.mul(x, y), z, "the product is another")
    f.need_nonzero(x, "it is zero")
    circuit = b.build()
    one, two = numbers(2)
    three = NUMBERS.mul(one, two)

    def words(*elements: tuple[int, int, int]) -> dict[str, Any]:
        return {"x": [str(part) for element in elements for part in element]}

    circuit.witness(words(one, two, three), backend)
    for k in range(3):
        other = tuple((part + (i == k)) % P for i, part in enumerate(three))
        with pytest.raises(UnsatisfiedWitness, match="the product is another"):
            circuit.witness(words(one, two, other), backend)  # type: ignore[arg-type]
    with pytest.raises(UnsatisfiedWitness, match="invertible"):
        circuit.witness(words((0, 0, 0), two, (0, 0, 0)), backend)
    with pytest.raises(UsageError, match="only what a proof gives"):
        f.need_nonzero(f.mul(x, y), "a product")
    with pytest.raises(UsageError, match="only powers by indices"):
        f.inverses(f.scalars([x]))
