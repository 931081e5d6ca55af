"""Poseidon against published values: circomlib's for BN254, the reference implementation's for BLS12-381."""

from __future__ import annotations

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.poseidon import poseidon, poseidon_hash
from distprove.circuits.poseidon_params import poseidon_parameters
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve
from kernels.maths.encoding import unpack


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ([1], 18586133768512220936620570745912940619677854269274689475585506675881198879027),
        ([1, 2], 7853200120776062878684798364095072458815029376092732009249414926327459813530),
        ([1, 2, 3, 4], 18821383157269793795438455681495246036402687001665670618754263018637548127333),
    ],
)
def test_bn254_is_circomlibs(inputs: list[int], expected: int) -> None:
    assert poseidon_hash(BN254.fr, inputs) == expected


def test_bls12_381_is_the_reference_implementations() -> None:
    # poseidonperm_x5_255_3 and _5 of the reference implementation's test vectors, whose inputs are 0, 1, 2, ...
    three = 0x28CE19420FC246A05553AD1E8C98F5C9D67166BE2C18E9E4CB4B4E317DD2A78A
    five = 0x2A918B9C9F9BD7BB509331C81E297B5707F6FC7393DCEE1B13901A0B22202E18
    assert poseidon_hash(BLS12_381.fr, [1, 2]) == three
    assert poseidon_hash(BLS12_381.fr, [1, 2, 3, 4]) == five


def test_first_round_constant_is_circomlibs() -> None:
    constants = poseidon_parameters(BN254.fr, 3).constants
    assert constants[0][0] == 0x0EE9A592BA9A9518D05986D656F40C2114C4993C11BB29938D21D47304CD8E6E


def test_refuses_widths_and_fields_it_has_no_parameters_for() -> None:
    with pytest.raises(ValueError, match="2 to 17"):
        poseidon_hash(BN254.fr, [])
    with pytest.raises(ValueError, match="255-bit prime"):
        poseidon_hash(BLS12_381.fq, [1])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_circuit_computes_the_hash_on_every_lane(curve: Curve, backend: Backend) -> None:
    b = CircuitBuilder(curve)
    left, right = b.private_input("left", 3), b.private_input("right", 3)
    b.output("hash", poseidon(b, [left, right]))
    circuit = b.build()
    pairs = [(1, 2), (0, curve.fr.modulus - 1), (2**200, 5)]
    witness = circuit.witness({"left": [x for x, _ in pairs], "right": [y for _, y in pairs]}, backend)
    assert unpack(witness[1:4]) == [poseidon_hash(curve.fr, pair) for pair in pairs]


def test_two_inputs_cost_about_256_constraints() -> None:
    b = CircuitBuilder(BN254)
    b.output("hash", poseidon(b, [b.private_input("x"), b.private_input("y")]))
    r1cs = b.build().r1cs
    assert 243 <= r1cs.n_constraints <= 270
    assert r1cs.a.nnz + r1cs.b.nnz < 2500
