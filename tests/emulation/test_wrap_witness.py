"""The wrap's gadgets have the same witness on the emulated GPU as on the CPU."""

from __future__ import annotations

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap import poseidon2
from distprove.circuits.wrap.drawn import challenge, element_bits
from distprove.circuits.wrap.goldilocks import canonical, multiply
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import BN254
from kernels.maths.goldilocks import P
from kernels.maths.poseidon2_bn254 import R


def test_a_witness_is_the_same_on_both_backends(emulated: CudaBackend) -> None:
    b = CircuitBuilder(BN254)
    x, y = b.private_input("x", 3), b.private_input("y", 3)
    drawn = challenge(b, poseidon2.node(b, 2, x, y))
    word = canonical(b, b.private_input("word", 3))
    made = multiply(b, drawn, (word, word, word))
    for k, part in enumerate(made):
        b.output(f"part{k}", part.value)
    b.output("bit", element_bits(b, x)[253])
    circuit = b.build()
    inputs = {"x": [str(v) for v in (1, R - 2**200, 2**253)], "y": ["5", "6", "7"]}
    inputs["word"] = [str(v) for v in (0, P - 1, 2**40)]
    ours = circuit.witness(inputs, emulated)
    with CpuBackend(threads=1) as cpu:
        assert np.array_equal(ours, circuit.witness(inputs, cpu))
        assert circuit.r1cs.first_unsatisfied(ours, cpu) is None
