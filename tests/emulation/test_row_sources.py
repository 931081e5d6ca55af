"""Row functions by the CUDA kernel on the host: the columns that the CPU backend makes of the same text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from distprove.stark.program import Trace
from distprove.stark.programs import keccak_slices
from distprove.stark.programs.keccak_rounds import ROWS, WIDTH, blocks_for
from distprove.stark.riscv.record import Image
from distprove.stark.riscv.segment import Fixed, segment_inputs, segment_trace
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.interface.backend import Backend
from tests.stark.recursion.test_columns import CHECKS
from tests.support import keccak_vectors
from tests.support.riscv_oracle import run
from tests.support.riscv_programs import hashing, multiplying, permuting, random_program, random_program_64
from tests.support.riscv_traces import places_of
from tests.support.row_source_cases import CASE, case_columns, case_inputs, case_sums


@pytest.mark.parametrize("rows", [1, 8, 256])
def test_columns(emulated: CudaBackend, rows: int) -> None:
    inputs = case_inputs()
    given = {name: emulated.to_device(array) for name, array in inputs.items()}
    assert np.array_equal(emulated.to_host(emulated.goldilocks.generate(CASE, given, rows)), case_columns(inputs, rows))
    assert {name: emulated.to_host(given[name]).tolist() for name in CASE.sums} == case_sums(inputs, rows)


def test_keccak_rounds(emulated: CudaBackend) -> None:
    rows = 64
    states = np.random.default_rng(4).integers(0, 2**64, (25, blocks_for(rows)), dtype=np.uint64)
    made = emulated.to_host(ROWS.make(emulated, rows, states=emulated.to_device(states)))
    expected = np.empty((WIDTH, rows), dtype=np.uint64)
    keccak_vectors.fill_rounds(expected, states, emulated)
    assert np.array_equal(made, expected)


def test_keccak_slices(emulated: CudaBackend) -> None:
    rows, width = 128, keccak_slices.WIDTH + len(keccak_slices.FLAGS)
    states = np.random.default_rng(4).integers(0, 2**64, (25, keccak_slices.blocks_for(rows)), dtype=np.uint64)
    columns = emulated.empty((width, rows))
    keccak_slices.fill_slices(columns, emulated.to_device(states), 1, emulated)
    expected = np.empty((keccak_slices.WIDTH, rows), dtype=np.uint64)
    keccak_vectors.fill_slices(expected, states, emulated)
    assert np.array_equal(emulated.to_host(columns)[: keccak_slices.WIDTH], expected)


@pytest.mark.parametrize("check", CHECKS)
def test_columns_of_circuits(emulated: CudaBackend, check: Callable[[Backend], None]) -> None:
    check(emulated)


@pytest.mark.parametrize(
    "image",
    [
        random_program(2, 400),
        random_program_64(2, 400),
        permuting(2),
        hashing(7, 8, 9),
        multiplying(5, 7, 1 << 200, (1 << 255) - 19),
    ],
    ids=["instructions", "instructions of RV64", "Keccak-f", "SHA-256", "products"],
)
def test_the_machine(emulated: CudaBackend, image: Image) -> None:
    """All tables of the RISC-V machine whose rows are made on the device."""
    found = run(image, bytes(64), bytes(64))
    inputs = segment_inputs(Fixed.of(found.image), found.records[0], places_of(found.records)[0])
    with CpuBackend() as backend:
        expected = segment_trace(inputs, backend)
    made: Trace = segment_trace({name: emulated.to_device(array) for name, array in inputs.items()}, emulated)
    assert made.public == expected.public
    for columns, others in zip(made.main, expected.main, strict=True):
        assert (columns is None) == (others is None)
        assert columns is None or np.array_equal(emulated.to_host(columns), others)
