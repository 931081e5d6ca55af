"""A key that a device loads piece by piece makes the proofs of one that is loaded at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.groth16.binfile import map_file
from distprove.groth16.prover import prove
from distprove.groth16.setup import setup
from distprove.groth16.shared_key import SHARE, holding
from distprove.groth16.verifier import verify
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import BN254


def test_pieces_make_a_key(emulated: CudaBackend, tmp_path: Path) -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    b.output("square", b.multiply(x, x))
    circuit, path = b.build(), tmp_path / "small.zkey"
    with CpuBackend(threads=1) as cpu:
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=path)
        witness = circuit.witness({"x": ["3"]}, cpu)
    with holding(map_file(path), "small", emulated) as shared:
        pieces = 0
        while shared.load_more():
            assert shared.nbytes == 0
            pieces += 1
        assert pieces == 2 + 5  # matrices, and vectors of points
        key = shared.resident()
        assert shared.nbytes == key.nbytes > 0
        assert key.plan.peak <= emulated.info().memory_budget // SHARE
        proof, _ = prove(key, np.ascontiguousarray(witness))
        assert verify(shared.zkey.verification_key, (9,), proof)
        assert not verify(shared.zkey.verification_key, (10,), proof)
