"""Our prover's bytes are those of stark-backend's own prover, which wrote the golden proofs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from distprove.errors import FormatError, UsageError
from distprove.stark.openvm.memory import commitment_bytes
from distprove.stark.openvm.parts import PartCommitments
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.traces import AirTrace, check_traces, read_traces
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.cpu.openvm.kernels import CpuOpenVm
from kernels.cuda.backend import CudaBackend
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import P
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.numpy_babybear import NumpyBabyBear
from tests.support.openvm_golden import GOLDEN, NAMES, key_of, proof_bytes, proof_of


@pytest.fixture(scope="module")
def kernels() -> Iterator[OpenVmKernels]:
    backend = CpuBackend(threads=2)
    yield backend.openvm
    backend.close()


def traces_of(name: str) -> tuple[AirTrace, ...]:
    return read_traces(GOLDEN / name / "traces.bin", key_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_as_their_prover(name: str, kernels: OpenVmKernels) -> None:
    proof = prove(kernels, key_of(name), traces_of(name), Steps())
    assert proof.to_bytes() == proof_bytes(name)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_by_the_kernels_of_the_gpu(name: str) -> None:
    with CudaBackend(EmulatedDevice()) as backend:
        proof = prove(backend.openvm, key_of(name), traces_of(name), Steps())
    assert proof.to_bytes() == proof_bytes(name)


def test_the_same_bytes_without_native_code() -> None:
    proof = prove(CpuOpenVm(NumpyBabyBear()), key_of("short"), traces_of("short"), Steps())
    assert proof.to_bytes() == proof_bytes("short")


def test_another_trace_gives_another_commitment(kernels: OpenVmKernels) -> None:
    [trace] = traces_of("fibonacci")
    changed = trace.common.copy()
    changed[0, 3] = (int(changed[0, 3]) + 1) % P
    proof = prove(kernels, key_of("fibonacci"), [replace(trace, common=changed)], Steps())
    assert not np.array_equal(proof.main_root, proof_of("fibonacci").main_root)


def test_buses_that_do_not_balance_are_refused(kernels: OpenVmKernels) -> None:
    traces = list(traces_of("interactions"))
    changed = traces[0].common.copy()
    changed[0, 0] = (int(changed[0, 0]) + 1) % P
    traces[0] = replace(traces[0], common=changed)
    with pytest.raises(UsageError, match="do not balance their buses"):
        prove(kernels, key_of("interactions"), traces, Steps())


def test_a_cached_part_has_the_commitment_that_is_stated(kernels: OpenVmKernels) -> None:
    traces = list(traces_of("cached"))
    number = next(i for i, trace in enumerate(traces) if trace.cached)
    first, *others = traces[number].cached
    changed = replace(first, columns=first.columns[:, ::-1].copy())
    traces[number] = replace(traces[number], cached=(changed, *others))
    with pytest.raises(UsageError, match="has not the commitment that is stated"):
        prove(kernels, key_of("cached"), traces, Steps())


def test_parts_are_kept_for_further_proofs(kernels: OpenVmKernels) -> None:
    parts = PartCommitments(kernels, most=1)
    traces = traces_of("cached")
    for _ in range(2):
        proof = prove(kernels, key_of("cached"), traces, Steps(), parts)
        assert proof.to_bytes() == proof_bytes("cached")
    params = key_of("cached").params
    [part, *_] = next(trace.cached for trace in traces if trace.cached)
    first = parts.commit(params, part, "an AIR")
    assert parts.commit(params, replace(part, columns=part.columns.copy()), "an AIR") is first
    # Another trace with the same root is not taken for the one that is kept.
    changed = replace(part, columns=part.columns[:, ::-1].copy())
    with pytest.raises(UsageError, match="has not the commitment that is stated"):
        parts.commit(params, changed, "an AIR")


def test_parts_of_other_proofs_make_room(kernels: OpenVmKernels) -> None:
    parts, params = PartCommitments(kernels), key_of("cached").params
    one, other = next(trace.cached for trace in traces_of("cached") if trace.cached)
    first, second = (parts.commit(params, part, "an AIR") for part in (one, other))
    size = commitment_bytes(params, second.layout)
    parts.make_room(size, [one.root.tobytes()])
    assert [parts.commit(params, part, "an AIR") is kept for part, kept in ((one, first), (other, second))] == [
        True
    ] * 2
    parts.make_room(size - 1, [one.root.tobytes()])
    assert parts.commit(params, one, "an AIR") is first
    assert parts.commit(params, other, "an AIR") is not second


def test_traces_are_in_order_and_complete() -> None:
    key, traces = key_of("mixed"), traces_of("mixed")
    assert len(traces) > 1
    with pytest.raises(FormatError, match="ascending"):
        check_traces(traces[::-1], key, "traces")
    with pytest.raises(FormatError, match="no trace"):
        check_traces((), key_of("fibonacci"), "traces")
    required = replace(key, airs=tuple(replace(air, is_required=True) for air in key.airs))
    with pytest.raises(FormatError, match="which must be present"):
        check_traces(traces[1:], required, "traces")
