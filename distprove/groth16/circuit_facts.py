"""Facts about a circuit that its `.r1cs` file shows, and whether a witness satisfies it."""

from __future__ import annotations

from dataclasses import dataclass

from distprove.errors import CurveMismatch, WitnessMismatch
from distprove.groth16.qap import log_domain_of
from distprove.groth16.r1cs import R1cs
from distprove.groth16.wtns import CircomWitness
from kernels.host.units import count_of
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class CircuitFacts:
    """Counts of a circuit."""

    curve: str
    constraints: int
    wires: int
    outputs: int
    public_inputs: int
    private_inputs: int
    labels: int
    """Signals before simplification."""
    entries: dict[str, int]
    """Entries of each matrix, by its name: a, b and c."""
    power: int
    """Binary logarithm of the domain: a powers-of-tau file has at least this power."""

    @classmethod
    def of(cls, r1cs: R1cs) -> CircuitFacts:
        """The facts of `r1cs`. Raises InputError for a circuit that is too large for its field."""
        return cls(
            curve=r1cs.curve.title,
            constraints=r1cs.n_constraints,
            wires=r1cs.n_vars,
            outputs=r1cs.n_outputs,
            public_inputs=r1cs.n_public_inputs,
            private_inputs=r1cs.n_private_inputs,
            labels=r1cs.n_labels or r1cs.n_vars,
            entries={name: getattr(r1cs, name).nnz for name in ("a", "b", "c")},
            power=log_domain_of(r1cs.curve, r1cs.n_constraints, r1cs.n_public),
        )


def first_fault(r1cs: R1cs, witness: CircomWitness, backend: Backend) -> int | None:
    """The first constraint that a witness does not satisfy, counted from 0; None if it satisfies all.

    Raises CurveMismatch or WitnessMismatch for a witness of another field or length, or whose first wire is not 1.
    """
    if witness.curve is not r1cs.curve:
        raise CurveMismatch(f"{witness.name}: for {witness.curve.title}, the circuit is for {r1cs.curve.title}")
    if len(witness.values) != r1cs.n_vars:
        raise WitnessMismatch(f"{witness.name}: {count_of(len(witness.values), 'wire')}, the circuit has {r1cs.n_vars}")
    if int(witness.values[0, 0]) != 1 or witness.values[0, 1:].any():
        raise WitnessMismatch(f"{witness.name}: the first wire is not 1")
    return r1cs.first_unsatisfied(witness.values, backend)
