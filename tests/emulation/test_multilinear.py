"""A whole proof of the multilinear engine on the emulated GPU, which has no kernels of its own for it yet."""

from __future__ import annotations

from distprove.stark.multilinear.params import Parameters
from kernels.cuda.backend import CudaBackend
from tests.support.multilinear_jobs import prove_program
from tests.support.stark_programs import Ring

PARAMS = Parameters(1, 2, (4,) * 8, 2, 0, log_final=1)


def test_a_proof_is_the_same_on_both_backends(emulated: CudaBackend) -> None:
    on_gpu = prove_program(Ring(3), partitions=2, params=PARAMS, backend=emulated)
    on_gpu.check()
    assert [p.data for p in on_gpu.proofs] == [
        p.data for p in prove_program(Ring(3), partitions=2, params=PARAMS).proofs
    ]
