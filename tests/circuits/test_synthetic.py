"""Synthetic circuits: sizes, shares, and that the witness satisfies the constraints."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import UsageError
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254, CURVES, Curve
from kernels.maths.encoding import unpack
from tests.circuits.test_builder import unsatisfied


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
@pytest.mark.parametrize(("constraints", "share"), [(1, 0.0), (1, 1.0), (7, 0.5), (1000, 0.9), (300, 0.0), (300, 1.0)])
def test_witness_satisfies(curve: Curve, constraints: int, share: float, backend: Backend) -> None:
    made = synthetic_circuit(curve, constraints, backend, boolean_share=share, public_inputs=3)
    witness = unpack(made.witness)
    assert made.r1cs.n_constraints == constraints
    assert len(witness) == made.r1cs.n_vars == constraints + 4
    assert not unsatisfied(made.r1cs, witness)
    small = sum(v < 2 for v in witness[4:])
    assert small == round(constraints * share)


def test_a_changed_witness_does_not_satisfy(backend: Backend) -> None:
    made = synthetic_circuit(BN254, 64, backend)
    witness = unpack(made.witness)
    for wire in range(3, len(witness)):
        assert unsatisfied(made.r1cs, [v + 5 * (i == wire) for i, v in enumerate(witness)])


def test_seed_fixes_the_circuit_and_not_the_witness(backend: Backend) -> None:
    first, second, other = (synthetic_circuit(BN254, 500, backend, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.r1cs.a.columns, second.r1cs.a.columns)
    assert not np.array_equal(first.r1cs.a.columns, other.r1cs.a.columns)
    assert not np.array_equal(first.witness, second.witness)


@pytest.mark.parametrize(
    "wrong", [{"constraints": 0}, {"constraints": (1 << 24) + 1}, {"boolean_share": 1.5}, {"public_inputs": 0}]
)
def test_sizes_are_checked(backend: Backend, wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        synthetic_circuit(BN254, **{"constraints": 8, "backend": backend, **wrong})  # type: ignore[arg-type]
