"""Staging beside kernels on a real GPU: memory is never reused too early, and proofs in flight are as proofs alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from actors.inflight import InFlight
from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.binfile import map_file
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import Blinding, StagedWitness, prove
from distprove.groth16.resident import ResidentKey, load_key
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16Prover
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import read_zkey
from distprove.system import Partition, Witness
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.interface.arrays import HostArray
from kernels.maths.curves import BN254

pytestmark = pytest.mark.gpu

FIELD = BN254.fr
LARGER_THAN_A_SLOT = (16 << 20) // 32 + 12345
"""Elements; the pinned buffers hold 16 MiB each."""


def elements(n: int, seed: int) -> HostArray:
    words = np.random.default_rng(seed).integers(0, 2**63, size=(n, 4), dtype=np.uint64)
    words[:, 3] >>= np.uint64(3)  # below the modulus
    return words


@pytest.mark.parametrize("n", [1, 1000, LARGER_THAN_A_SLOT, 3 * LARGER_THAN_A_SLOT])
def test_staged_memory_is_not_reused_before_its_last_reader(cuda: CudaBackend, n: int) -> None:
    """Each array is read by the last of many queued kernels and released at once, while the next one is staged."""
    rounds, depth = 24, 30
    hosts = [elements(n, seed) for seed in range(4)]
    with CpuBackend(threads=8) as cpu:
        expected = [cpu.vectors.add(FIELD, host, host) for host in hosts]

    def stage(index: int) -> Any:
        host = hosts[index % 4].copy()
        staged = cuda.stage(host)
        host[:] = 0  # the device's own stage has read it when it returns
        return staged

    results = []
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(stage, 0)
        for index in range(rounds):
            staged = coming.result()
            coming = thread.submit(stage, index + 1)
            x = staged.array()
            busy = cuda.vectors.add(FIELD, x, x)
            for _ in range(depth):
                cuda.vectors.add(FIELD, busy, busy, out=busy)
            results.append(cuda.vectors.add(FIELD, x, x))  # the last reader, behind all of them
            staged.release()
            small = cuda.stage(hosts[0][:1])  # blocks of other sizes come and go between
            small.release()
            del x, busy
        coming.result().release()
    for index, result in enumerate(results):
        assert np.array_equal(cuda.to_host(result), expected[index % 4]), index


def test_a_staged_copy_does_not_wait_for_queued_kernels(cuda: CudaBackend) -> None:
    a = cuda.to_device(elements(1 << 22, 1))
    host = elements(1 << 16, 2)
    for _ in range(2):  # the first round compiles and allocates
        cuda.synchronize()
        for _ in range(100):
            cuda.vectors.ntt(FIELD, a)
        end = cuda.device.stream.record()
        staged: Any = cuda.stage(host)
        staged._made.synchronize()
        under_way = not end.event.done  # type: ignore[attr-defined]
        got = cuda.to_host(staged.array())
        staged.release()
        assert np.array_equal(got, host)
    assert under_way, "the copy came after the kernels that were queued before it"


def test_memory_of_staged_arrays_is_in_the_budget_and_comes_back(cuda: CudaBackend) -> None:
    backend = CudaBackend(budget=256 << 20)
    try:
        host = elements((96 << 20) // 32, 1)
        first, second = backend.stage(host), backend.stage(host)
        with pytest.raises(OutOfMemory, match=r"96\.0 MiB of device memory needed"):
            backend.stage(host)
        total = backend.vectors.add(FIELD, first.array(), first.array(), out=first.array())
        first.release()
        del total
        third = backend.stage(host)  # waits for the reader of the first
        assert np.array_equal(backend.to_host(third.array()), host)
        second.release()
        third.release()
        assert backend.empty((200 << 17,)).nbytes == 200 << 20  # of another stream's part of the pool
        backend.synchronize()
        assert backend.device.memory_free() == 256 << 20
    finally:
        backend.close()


@pytest.fixture(scope="module", params=[12, 16])
def circuit(
    cuda: CudaBackend, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """(key file, two witnesses, the second unsatisfied) of a synthetic circuit."""
    made = synthetic_circuit(BN254, (1 << request.param) - 3, cuda, public_inputs=2)
    path = tmp_path_factory.mktemp("key") / "synthetic.zkey"
    setup(made.r1cs, insecure_dev=True, backend=cuda, out=path)
    other = made.witness.copy()
    other[3:] = made.witness[:2:-1]
    yield path, [made.witness, other]
    path.unlink()


def blinded(number: int) -> Callable[[int], Blinding]:
    return lambda _: Blinding(1000 + number, 2000 + number)


def test_proofs_in_flight_are_those_of_the_cpu(cuda: CudaBackend, circuit: Any) -> None:
    path, witnesses = circuit
    zkey = read_zkey(path)
    with CpuBackend(threads=8) as cpu:
        on_cpu = load_key(zkey, cpu)
        expected = [prove(on_cpu, w, blinded(i))[0].to_dict() for i, w in enumerate(witnesses)]
    key: ResidentKey = load_key(zkey, cuda)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(StagedWitness, key, witnesses[0])
        before = None
        for index in range(20):
            staged = coming.result()
            coming = thread.submit(StagedWitness, key, witnesses[(index + 1) % 2])
            pending = staged.start(blinded(index % 2))
            if before is not None:
                proof, times = before.result()
                assert proof.to_dict() == expected[(index + 1) % 2]
                assert times.to_device == witnesses[0].nbytes
            before = pending
        coming.result().release()
    assert before is not None
    assert before.result()[0].to_dict() == expected[1]


@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_a_stream_of_proofs_verifies(cuda: CudaBackend, circuit: Any, in_flight: int) -> None:
    path, (witness, _) = circuit
    vk = read_zkey(path).verification_key
    prover, line = Groth16Prover({"zkey": map_file(path)}, cuda), InFlight()
    partition, work = Partition(0, "p", bytes(32), {}), Witness("p", {"witness": witness})
    with ThreadPoolExecutor(in_flight) as threads:
        timed = list(threads.map(lambda _: line.staged(prover, partition, work), range(30)))
    for each in timed:
        proof, times = each.value
        assert verify(vk, proof.public, Groth16Proof.from_dict(proof.data))
        assert times.to_device == witness.nbytes
        assert times.to_host < witness.nbytes // 4
    spans = sorted((t.started, t.ended) for t in timed)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
