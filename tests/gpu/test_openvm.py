"""OpenVM's proofs on a GPU: the bytes of stark-backend's own prover, and memory that comes back."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from distprove.measure.openvm_segments import key_of as key_of_segment
from distprove.measure.openvm_segments import log_stacked, read_profile, scaled, traces_of
from distprove.options import InputFile
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.system import SwirlSystem
from distprove.stark.openvm.traces import read_traces
from distprove.steps import Steps
from kernels.cpu.openvm.kernels import CpuOpenVm
from kernels.cuda.backend import CudaBackend
from kernels.maths.babybear import P
from tests.support import ROOT
from tests.support.numpy_babybear import NumpyBabyBear
from tests.support.openvm_golden import GOLDEN, NAMES, key_of, key_path, proof_bytes

pytestmark = pytest.mark.gpu

EXCERPT = ROOT / "tests" / "measure" / "openvm" / "reth-excerpt.jsonl"
DIGESTS = {
    -6: "c6ac9ba64d527d34406e17bfdf65d67b20690467369573d99a92a0c6b0dacaf1",
    -4: "7030e83eb5df755c2989a9d6fdba7ed5d4ee14f1d364937990041fdfb6e9fffc",
}
"""SHA-256 of the proofs that stark-backend's CPU prover wrote for the second segment there, its heights times 2 to
these: up to 2^16 and 2^18 rows, 34 AIRs with up to 2,634 columns."""


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_as_their_prover(name: str, cuda: CudaBackend) -> None:
    key = key_of(name)
    proof = prove(cuda.openvm, key, read_traces(GOLDEN / name / "traces.bin", key), Steps())
    assert proof.to_bytes() == proof_bytes(name)


def test_partitions_of_a_job_one_staged_while_another_is_proven(cuda: CudaBackend) -> None:
    sources = [InputFile(str(i), GOLDEN / "mixed" / "traces.bin") for i in range(3)]
    system = SwirlSystem(key_path("mixed"), sources)
    work = [(each, system.synthesiser({}, 1).synthesise(each)) for each in system.plan()]
    prover, proofs = system.prover({}, cuda), []
    staged = prover.stage(*work[0])
    for i in range(3):
        with ThreadPoolExecutor(1) as beside:
            following = beside.submit(prover.stage, *work[i + 1]) if i < 2 else None
            proofs.append(staged.start().result()[0].data["proof"])
            staged.release()
            staged = staged if following is None else following.result()
    prover.close()
    assert proofs == [proof_bytes("mixed")] * 3


@pytest.mark.parametrize("log_n", [4, 9, 13])
def test_commitments_of_many_columns(log_n: int, cuda: CudaBackend) -> None:
    columns = np.random.default_rng(log_n).integers(0, P, (17, 1 << log_n)).astype(np.uint32)
    found = cuda.openvm.codes.commit(cuda.openvm.load(columns), 4, 1, 2)
    expected = CpuOpenVm(NumpyBabyBear()).codes.commit(columns, 4, 1, 2)
    assert np.array_equal(found.root, expected.root)


@pytest.mark.parametrize("log_factor", DIGESTS)
def test_a_segment_of_a_block_gives_the_bytes_of_their_prover(log_factor: int, cuda: CudaBackend) -> None:
    segment = scaled(read_profile(EXCERPT)[1], log_factor)
    key, traces = key_of_segment(segment, log_stacked(log_factor)), traces_of(segment)
    proof = prove(cuda.openvm, key, traces, Steps()).to_bytes()
    assert hashlib.sha256(proof).hexdigest() == DIGESTS[log_factor]
    del proof
    free = cuda.device.memory_free()
    prove(cuda.openvm, key, traces, Steps())
    assert cuda.device.memory_free() == free, "a second proof leaves no memory behind"
