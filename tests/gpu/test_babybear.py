"""BabyBear on a GPU: the bytes of stark-backend's own prover, from its kernels."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.traces import read_traces
from distprove.steps import Steps
from kernels.cuda.backend import CudaBackend
from kernels.maths.babybear import P
from tests.support.numpy_babybear import NumpyBabyBear
from tests.support.openvm_golden import GOLDEN, NAMES, key_of, proof_bytes

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_as_their_prover(name: str, cuda: CudaBackend) -> None:
    key = key_of(name)
    proof = prove(cuda.openvm, key, read_traces(GOLDEN / name / "traces.bin", key), Steps())
    assert proof.to_bytes() == proof_bytes(name)


@pytest.mark.parametrize("log_n", [1, 9, 16])
def test_transforms_and_hashes_of_many_columns(log_n: int, cuda: CudaBackend) -> None:
    values = np.random.default_rng(log_n).integers(0, P, (16, 1 << log_n)).astype(np.uint32)
    numpy = NumpyBabyBear()
    assert np.array_equal(cuda.babybear.ntt(values), numpy.ntt(values))
    rows = np.ascontiguousarray(values.T)
    assert np.array_equal(cuda.babybear.hash_rows(rows), numpy.hash_rows(rows))
