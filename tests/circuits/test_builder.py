"""The builder: its constraints hold exactly for right witnesses, on Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.gadgets import less_than, logical_and, logical_or, logical_xor, select, swap
from distprove.circuits.linear import Linear
from distprove.errors import UnsatisfiedWitness, UsageError, WitnessGenerationError
from distprove.groth16.r1cs import R1cs
from kernels.host.units import count_of
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BN254, CURVES, Curve
from kernels.maths.encoding import field_to_ints, unpack


def rows(r1cs: R1cs, matrix: CsrMatrix, witness: list[int]) -> list[int]:
    """matrix @ witness on integers."""
    p = r1cs.curve.fr.modulus
    values = field_to_ints(r1cs.curve.fr, matrix.values)
    out = []
    for i in range(matrix.rows):
        entries = range(int(matrix.row_ptr[i]), int(matrix.row_ptr[i + 1]))
        out.append(sum(values[matrix.value_index[k]] * witness[matrix.columns[k]] for k in entries) % p)
    return out


def unsatisfied(r1cs: R1cs, witness: list[int]) -> list[int]:
    """The constraints that `witness` breaks."""
    a, b, c = (rows(r1cs, m, witness) for m in (r1cs.a, r1cs.b, r1cs.c))
    return [i for i in range(r1cs.n_constraints) if (a[i] * b[i] - c[i]) % r1cs.curve.fr.modulus]


def solve(circuit: Circuit, backend: Backend, **inputs: object) -> list[int]:
    witness = unpack(circuit.witness(inputs, backend))
    assert witness[0] == 1
    assert not unsatisfied(circuit.r1cs, witness)
    return witness


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_wires_are_in_circoms_order(curve: Curve, backend: Backend) -> None:
    b = CircuitBuilder(curve)
    secret = b.private_input("secret")
    shown = b.public_input("shown", 2)
    product = b.multiply(secret, shown)
    b.output("first", product + 7)
    b.output("second", shown[0] - secret * 3)
    circuit = b.build()
    r1cs = circuit.r1cs
    assert (r1cs.n_outputs, r1cs.n_public_inputs, r1cs.n_private_inputs) == (3, 2, 1)
    p = curve.fr.modulus
    assert solve(circuit, backend, secret=5, shown=["2", "0x10"]) == [1, 17, 87, (2 - 15) % p, 2, 16, 5, 10, 80]


def test_every_constraint_is_needed(backend: Backend) -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x", 4)
    b.output("y", b.multiply(b.multiply(x, x), x[0]))
    b.inverse(x + 1)
    b.bits(x[3], 5)
    circuit = b.build()
    witness = solve(circuit, backend, x=[3, 4, 5, 21])
    for wire in range(1, len(witness)):
        changed = [v + (i == wire) for i, v in enumerate(witness)]
        assert unsatisfied(circuit.r1cs, changed), f"wire {wire} is free"


def test_batches_equal_single_witnesses(backend: Backend) -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x", 3)
    flag = b.private_input("flag")
    b.assert_boolean(flag, "flag is a boolean")
    b.output("y", select(b, flag, b.multiply(x, x), x[::-1]))
    b.bits(x[1], 8)
    circuit = b.build()
    inputs = [{"x": [i, i + 1, 2**77], "flag": i % 2} for i in range(5)]
    batch = circuit.witnesses(inputs, backend)
    assert batch.shape == (5, circuit.n_wires, 4)
    for item, expected in zip(inputs, batch, strict=True):
        np.testing.assert_array_equal(circuit.witness(item, backend), expected)
    assert circuit.witnesses([], backend).shape == (0, circuit.n_wires, 4)


def gadget_circuit() -> Circuit:
    b = CircuitBuilder(BN254)
    x, y = b.private_input("x"), b.private_input("y")
    p, q = b.private_input("p"), b.private_input("q")
    for bit in (p, q):
        b.assert_boolean(bit, "a boolean")
    b.output("and", logical_and(b, p, q))
    b.output("or", logical_or(b, p, q))
    b.output("xor", logical_xor(b, p, q))
    b.output("select", select(b, p, x, y))
    left, right = swap(b, q, x, y)
    b.output("left", left)
    b.output("right", right)
    b.output("less", less_than(b, x, y, 16))
    return b.build()


GADGETS = gadget_circuit()


@given(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.booleans(), st.booleans())
@settings(max_examples=25)
def test_gadgets(backend: Backend, x: int, y: int, p: bool, q: bool) -> None:
    witness = solve(GADGETS, backend, x=x, y=y, p=int(p), q=int(q))
    left, right = (y, x) if q else (x, y)
    assert witness[1:8] == [p and q, p or q, p != q, x if p else y, left, right, x < y]


def test_less_than_of_equal_values_is_zero(backend: Backend) -> None:
    assert solve(GADGETS, backend, x=9, y=9, p=0, q=0)[7] == 0


@given(st.integers(0, 2**64), st.integers(1, 70))
@settings(max_examples=25)
def test_bits_refuse_what_does_not_fit(backend: Backend, value: int, count: int) -> None:
    b = CircuitBuilder(BN254)
    bits = b.bits(b.private_input("x"), count)
    assert len(bits) == count
    circuit = b.build()
    if value >> count:
        with pytest.raises(UnsatisfiedWitness, match=f"fits {count_of(count, 'bit')}$"):
            circuit.witness({"x": value}, backend)
    else:
        witness = solve(circuit, backend, x=value)
        assert witness[2:] == [value >> k & 1 for k in range(count)]


def test_decompositions_as_wide_as_the_field_are_refused() -> None:
    b = CircuitBuilder(BN254)
    with pytest.raises(UsageError, match="1 to 253"):
        b.bits(b.private_input("x"), 254)


def test_assertions_name_the_lane_and_no_value(backend: Backend) -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x", 3)
    b.assert_equal(x, b.constant(123456789), "x is as agreed")
    circuit = b.build()
    with pytest.raises(UnsatisfiedWitness, match=r"x is as agreed, lane 1 \(input 1 of 2\)") as caught:
        circuit.witnesses([{"x": [123456789] * 3}, {"x": [123456789, 987654321, 123456789]}], backend)
    assert "987654321" not in str(caught.value)
    assert "123456789" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "'x' is missing"),
        ({"x": [1]}, "takes 2 values, not 1"),
        ({"x": [1, [2, 3]]}, "takes 2 values, not 3"),
        ({"x": [1, "two"]}, "'x': a string is not a decimal"),
        ({"x": [1, 2.5]}, "'x': a number that is not an exact integer"),
        ({"x": [1, 2], "z": 3}, "no input signal 'z'"),
    ],
)
def test_bad_inputs_name_the_signal(backend: Backend, inputs: dict[str, object], message: str) -> None:
    b = CircuitBuilder(BN254)
    x = b.public_input("x", 2)
    b.multiply(x, x)
    with pytest.raises(WitnessGenerationError, match=message):
        b.build().witness(inputs, backend)


def test_misuse_of_the_builder_is_refused() -> None:
    b = CircuitBuilder(BN254)
    with pytest.raises(UsageError, match="no constraints"):
        b.build()
    x = b.private_input("x", 2)
    with pytest.raises(UsageError, match="already"):
        b.public_input("x")
    with pytest.raises(UsageError, match="at least one lane"):
        b.private_input("none", 0)
    with pytest.raises(ValueError, match="2, 3 lanes"):
        x + b.private_input("y", 3)
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[2:]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(-3, 3)), max_size=4),
    st.slices(4),
    st.integers(-3, 3),
)
def test_linear_algebra_matches_its_meaning(terms: list[tuple[int, int, int]], chosen: slice, factor: int) -> None:
    p = BN254.fr.modulus
    wires = [1, *range(1000, 1020)]

    def values(linear: Linear) -> list[int]:
        return [
            sum(c * wires[first + lane * stride] for (first, stride), c in linear.terms.items()) % p
            for lane in range(linear.lanes)
        ]

    total = Linear.constant(BN254.fr, 9, lanes=4)
    expected = [9] * 4
    for first, stride, coefficient in terms:
        run = Linear(BN254.fr, 4, {(first, stride): 1})
        total = total + run * coefficient
        expected = [e + coefficient * v for e, v in zip(expected, values(run), strict=True)]
    assert values(total) == [e % p for e in expected]
    assert values(total * factor - total) == [(factor - 1) * e % p for e in expected]
    assert values(5 - total) == [(5 - e) % p for e in expected]
    if expected[chosen]:
        assert values(total[chosen]) == [e % p for e in expected[chosen]]
