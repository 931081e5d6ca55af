"""Templates: a placed gadget is the gadget itself, for any number of instances, nested ones too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear
from distprove.errors import UnsatisfiedWitness, UsageError
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254
from kernels.maths.encoding import unpack
from tests.circuits.test_builder import solve, unsatisfied
from tests.support.row_digest import row_digest


def gadget(b: CircuitBuilder, inputs: Sequence[Linear]) -> list[Linear]:
    x, y = inputs
    product = b.multiply(x + 3, y)
    bits = b.bits(product, 20)
    return [b.multiply(product, product) + x, bits[2]]


INNER = CircuitBuilder.record(BN254, 2, gadget)


def twice(b: CircuitBuilder, inputs: Sequence[Linear]) -> list[Linear]:
    first, _ = b.place(INNER, inputs)
    return [b.multiply(first, inputs[1]), b.place(INNER, [inputs[1], inputs[0]])[1]]


OUTER = CircuitBuilder.record(BN254, 2, twice)


def expected(x: int, y: int) -> list[int]:
    return [(((x + 3) * y) ** 2 + x) * y, (y + 3) * x >> 2 & 1]


def circuit(lanes: int) -> CircuitBuilder:
    b = CircuitBuilder(BN254)
    x, y = b.private_input("x", lanes), b.private_input("y")
    for number, value in enumerate(b.place(OUTER, [x, y])):
        b.output(f"out{number}", value)
    return b


@pytest.mark.parametrize("lanes", [1, 5])
def test_instances_compute_what_the_gadget_does(lanes: int, backend: Backend) -> None:
    xs = [3 * k + 1 for k in range(lanes)]
    witness = solve(circuit(lanes).build(), backend, x=xs, y=11)
    results = [expected(x, 11) for x in xs]
    assert witness[1 : 1 + 2 * lanes] == [r[0] for r in results] + [r[1] for r in results]


def test_every_wire_of_an_instance_is_constrained(backend: Backend) -> None:
    built = circuit(2).build()
    witness = solve(built, backend, x=[4, 5], y=6)
    for wire in range(1, len(witness)):
        changed = [v + (i == wire) for i, v in enumerate(witness)]
        assert unsatisfied(built.r1cs, changed), f"wire {wire} is free"


def test_lanes_are_computed_in_batches(backend: Backend) -> None:
    built = circuit(7).build()
    inputs = [{"x": list(range(k, k + 7)), "y": k} for k in range(3)]
    batch = [unpack(w) for w in built.witnesses(inputs, backend)]
    assert not any(unsatisfied(built.r1cs, witness) for witness in batch)
    assert batch == [unpack(built.witness(one, backend)) for one in inputs]


def dealt(b: CircuitBuilder, inputs: Sequence[Linear]) -> list[Linear]:
    """A template with instances that are dealt in turn, some wires of its own before each round, and private inputs."""
    x, y = inputs
    first, second = (b.settle(b.multiply(b.private_input("given"), value)) for value in (x, y))
    pairs = b.place_in_turn(OUTER, [[first, y], [x, second], [y, x]])
    rest = b.private_input("given", 2)
    return [b.multiply(pairs[0][0], rest[0]) + pairs[1][1], b.multiply(pairs[2][0], rest[1])]


DEALT = CircuitBuilder.record(BN254, 2, dealt)


def dealt_circuit(groups: int, lanes: int) -> CircuitBuilder:
    """Instances that are placed one by one for no groups, at once for one, and else dealt in turn."""
    b = CircuitBuilder(BN254)
    x, y = b.private_input("x", lanes), b.private_input("y")
    if groups == 0:
        for lane in range(lanes):
            b.place(DEALT, [x[lane], y])
    else:
        b.place_in_turn(DEALT, [[x[k::groups], y] for k in range(groups)])
    return b


@pytest.mark.parametrize("groups", [1, 2, 3, 7])
def test_instances_have_the_order_of_one_after_the_other(groups: int, backend: Backend) -> None:
    by_groups, one_by_one = dealt_circuit(groups, 7), dealt_circuit(0, 7)
    assert by_groups.shape() == one_by_one.shape()
    assert row_digest(by_groups.system()) == row_digest(by_groups.build().r1cs) == row_digest(one_by_one.build().r1cs)
    inputs = {"x": [k % 3 for k in range(7)], "y": 2, "given": [k % 5 for k in range(28)]}
    witness = solve(by_groups.build(), backend, **inputs)
    assert witness == solve(one_by_one.build(), backend, **inputs)
    assert not unsatisfied(by_groups.build().r1cs, witness)


def test_groups_that_cannot_be_dealt_are_refused() -> None:
    b = CircuitBuilder(BN254)
    x, y = b.private_input("x", 5), b.private_input("y")
    for groups in ([[x[:2], y], [x[2:], y]], [[x, y], [x[:3], y]]):
        with pytest.raises(UsageError, match="cannot be dealt in turn"):
            b.place_in_turn(OUTER, groups)


def test_a_name_inside_of_a_template_is_no_other_signals() -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    b.place(DEALT, [x, x])
    for name in ("given", "x"):
        with pytest.raises(UsageError, match="already has a signal"):
            b.public_input(name)
    b = CircuitBuilder(BN254)
    with pytest.raises(UsageError, match="already has a signal named 'given'"):
        b.place(DEALT, [b.private_input("given"), b.private_input("x")])


def test_the_shape_is_counted_without_matrices() -> None:
    b = circuit(4)
    shape, r1cs = b.shape(), b.build().r1cs
    assert (shape.constraints, shape.inputs, shape.auxiliary) == (r1cs.n_constraints, 9, r1cs.n_vars - 9)
    assert shape.nnz == (r1cs.a.nnz, r1cs.b.nnz, r1cs.c.nnz)
    assert shape.a_auxiliary == sum(wire >= 9 for wire in set(r1cs.a.columns.tolist()))
    assert shape.b_auxiliary == sum(wire >= 9 for wire in set(r1cs.b.columns.tolist()))


def test_a_failing_instance_is_named(backend: Backend) -> None:
    b = CircuitBuilder(BN254)
    b.place(INNER, [b.private_input("x", 3), b.private_input("y", 3)])
    built = b.build()
    good, bad = {"x": [1, 1, 1], "y": [1, 1, 1]}, {"x": [1, 1, 1], "y": [1, 1 << 30, 1]}
    with pytest.raises(UnsatisfiedWitness, match=r"value fits 20 bits, lane 1 \(input 1 of 2\)"):
        built.witnesses([good, bad], backend)


def test_refuses_what_is_no_template() -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    with pytest.raises(UsageError, match="input 1 of a template is no wire"):
        b.place(INNER, [x, x + 1])
    with pytest.raises(UsageError, match="takes 2 inputs, not 1"):
        b.place(INNER, [x])
    with pytest.raises(UsageError, match="no public signals"):
        CircuitBuilder.record(BN254, 1, lambda b, inputs: [b.output("y", inputs[0])])
