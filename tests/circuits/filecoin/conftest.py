"""What the tests of Filecoin's circuits share."""

from __future__ import annotations

import numpy as np

from distprove.circuits.circuit import Circuit
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend


def satisfies(circuit: Circuit, witness: HostArray, backend: Backend) -> bool:
    """Whether a witness satisfies every constraint, by three sparse products."""
    fr, r1cs = circuit.curve.fr, circuit.r1cs
    wires = backend.to_device(np.ascontiguousarray(witness))
    a, b, c = (
        backend.sparse.spmv(backend.sparse.load_matrix(fr, matrix), wires, standard_form=True)
        for matrix in (r1cs.a, r1cs.b, r1cs.c)
    )
    return backend.vectors.equal(backend.vectors.mul(fr, a, b), c)
