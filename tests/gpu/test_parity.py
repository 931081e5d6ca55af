"""The CUDA backend gives the words that the CPU backend gives: every operation, both curves, 2^10 to 2^22."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.ntt import LARGER, NttEngine, NttProfile
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.interface.vectors import Transform
from kernels.maths.curves import CURVES, Curve, Field
from kernels.maths.encoding import field_from_ints
from tests.support.synthesis_cases import bits_of, products, sha256_block, wires_of

pytestmark = pytest.mark.gpu
SIZES = [10, 16, 20, 22]


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    backend = CpuBackend(threads=8)
    yield backend
    backend.close()


def random_elements(field: Field, n: int, seed: int) -> NDArray[np.uint64]:
    """Uniform words below the modulus' top word, with zeros and ones among them as in a witness."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**63, size=(n, field.limbs), dtype=np.uint64)
    words[:, -1] %= np.uint64(field.modulus >> (64 * (field.limbs - 1)))
    words[rng.random(n) < 0.1] = 0
    words[rng.random(n) < 0.1] = field_from_ints(field, [1])[0]
    return words


def both(
    cpu: Backend, cuda: Backend, inputs: list[NDArray[np.uint64]], run: Callable[[Backend, list[Array]], Array]
) -> None:
    """Run on both backends and compare every word."""
    want = cpu.to_host(run(cpu, [cpu.to_device(x.copy()) for x in inputs]))
    got = cuda.to_host(run(cuda, [cuda.to_device(x) for x in inputs]))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("log_n", SIZES)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_vectors(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, log_n: int) -> None:
    for field in (curve.fr, curve.fq):
        x = [random_elements(field, 1 << log_n, seed) for seed in (1, 2, 3)]
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.add(f, a[0], a[1]))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.sub(f, a[0], a[1]))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.mul(f, a[0], a[1]))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.mul_sub(f, *a))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.to_montgomery(f, a[0]))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.from_montgomery(f, a[0]))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.scale_powers(f, a[0], 7, 3))
        both(cpu, cuda, x, lambda b, a, f=field: b.vectors.batch_inverse(f, a[0]))


@pytest.mark.parametrize("log_n", [0, 1, 5, *SIZES])
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_transforms(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, log_n: int) -> None:
    field = curve.fr
    x = [random_elements(field, 1 << log_n, log_n)]
    orders = [(a, b) for a in (False, True) for b in (False, True)]
    for inverse in (False, True):
        for coset in (None, field.non_residue):
            for order in orders if log_n <= 16 else orders[:1]:
                options = {
                    "inverse": inverse,
                    "coset": coset,
                    "bit_reversed_input": order[0],
                    "bit_reversed_output": order[1],
                }
                both(cpu, cuda, x, lambda b, a, o=options: b.vectors.ntt(field, a[0], **o))


@pytest.mark.parametrize("profile", LARGER, ids=str)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_profiles_of_larger_transforms(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, profile: NttProfile) -> None:
    field, engine = curve.fr, NttEngine(cuda.device, profile)
    x = random_elements(field, 1 << 22, 6)
    for inverse in (False, True):
        want = cpu.to_device(x.copy())
        cpu.vectors.ntt(field, want, inverse=inverse, coset=field.non_residue)
        got = cuda.to_device(x)
        engine.run(field, got, Transform(22, inverse, field.non_residue, False, False))
        assert np.array_equal(cuda.to_host(got), cpu.to_host(want))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_transform_of_a_batch(cpu: CpuBackend, cuda: CudaBackend, curve: Curve) -> None:
    x = [random_elements(curve.fr, 3 << 14, 4).reshape(3, 1 << 14, -1)]
    both(cpu, cuda, x, lambda b, a: b.vectors.ntt(curve.fr, a[0], coset=curve.fr.non_residue))


@pytest.mark.parametrize("log_n", SIZES)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_spmv(cpu: CpuBackend, cuda: CudaBackend, curve: Curve, log_n: int) -> None:
    field, n = curve.fr, 1 << log_n
    rng = np.random.default_rng(log_n)
    lengths = rng.integers(0, 6, n)
    lengths[[3, n // 2, n - 1]] = 33, n, 500  # rows of every kind
    values = np.concatenate([field_from_ints(field, [1, -1, 2]), random_elements(field, 20, 9)])
    nnz = int(lengths.sum())
    matrix = CsrMatrix(
        n,
        n,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        rng.integers(0, n, nnz).astype(np.uint32),
        rng.integers(0, len(values), nnz).astype(np.uint32),
        values,
    )
    for standard_form in (False, True):
        both(
            cpu,
            cuda,
            [random_elements(field, n, 5)],
            lambda b, a, s=standard_form: b.sparse.spmv(b.sparse.load_matrix(field, matrix), a[0], standard_form=s),
        )


def test_equal_and_traffic(cuda: CudaBackend) -> None:
    x = random_elements(CURVES[0].fr, 1 << 20, 6)
    before = cuda.traffic.snapshot()
    a, b = cuda.to_device(x), cuda.to_device(x)
    assert cuda.traffic.since(before).to_device == 2 * x.nbytes
    assert cuda.vectors.equal(a, b)
    assert cuda.traffic.since(before).to_host == 4
    assert not cuda.vectors.equal(a, cuda.vectors.add(CURVES[0].fr, a, b))
    assert np.array_equal(cuda.to_host(a), x)


def test_memory_is_refused_by_name_and_comes_back(cuda: CudaBackend) -> None:
    backend = CudaBackend(budget=256 << 20)
    try:
        kept = backend.empty((1 << 22, 4))
        with pytest.raises(OutOfMemory, match=r"256\.0 MiB of device memory needed; 128\.0 MiB"):
            backend.empty((1 << 23, 4))
        del kept
        assert backend.empty((1 << 23, 4)).nbytes == 256 << 20
        assert backend.device.memory_peak() == 256 << 20
    finally:
        backend.close()


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_synthesis(cpu: CpuBackend, cuda: CudaBackend, curve: Curve) -> None:
    field = curve.fr
    block = sha256_block(field, 26000, 2)
    for program, bits in ((products(field, 11, 600, 1), False), (bits_of(field, 11, 3, 250, 1), False), (block, True)):
        assert np.array_equal(wires_of(cuda, program, bits=bits), wires_of(cpu, program, bits=bits))
    both(cpu, cuda, [random_elements(field, 5000, 1)], lambda b, a: b.vectors.bits(field, a[0], 255))
