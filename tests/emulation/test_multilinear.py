"""The multilinear engine's kernels and whole proofs on the emulated GPU."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.params import Parameters
from distprove.stark.programs import load_program
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.cuda.goldilocks.kernels import CudaGoldilocks
from kernels.cuda.goldilocks.lde import LdeProfile
from kernels.cuda.goldilocks.multilinear import CudaMultilinear
from tests.support.emulated_device import EmulatedDevice
from tests.support.golden_jobs import FOLDER
from tests.support.multilinear_cases import CASES, Case, leaves, random, row_rounds
from tests.support.multilinear_golden import JOBS, prove_golden, to_bytes
from tests.support.multilinear_tiles import (
    MOVES,
    leaves_without_their_codewords,
    runs_move_to_a_coset,
    runs_of_many_tiles,
)

SMALL = Parameters(1, 2, (1,) * 8, 0, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_is_what_it_is_defined_as(emulated: CudaBackend, case: Case) -> None:
    for seed in range(6):
        case(emulated, np.random.default_rng(seed))


@pytest.mark.parametrize("piece", [1, 7])
def test_rules_in_pieces(emulated: CudaBackend, piece: int) -> None:
    kernels = emulated.multilinear
    assert isinstance(kernels, CudaMultilinear)
    kernels.piece = piece
    kernels.clear()
    try:
        for seed in range(3):
            leaves(emulated, np.random.default_rng(seed))
            row_rounds(emulated, np.random.default_rng(seed))
        assert max(len(code.pieces) for code, _, _ in kernels._codes.values()) > 4
    finally:
        del kernels.piece
        kernels.clear()


def test_programs_of_tall_tables_are_compiled(emulated: CudaBackend) -> None:
    kernels = emulated.multilinear
    assert isinstance(kernels, CudaMultilinear)
    kernels.compiled_work = 1
    try:
        for seed in (1, 2):
            row_rounds(emulated, np.random.default_rng(seed))
        assert kernels._compiled
    finally:
        del kernels.compiled_work


def launches_of_large(backend: CudaBackend, moved_bytes: int, together: int) -> int:
    """Check rounds over programs that are compiled, and count their launches."""
    kernels, device = backend.multilinear, backend.device
    assert isinstance(kernels, CudaMultilinear)
    assert isinstance(device, EmulatedDevice)
    kernels.large, kernels.moved_bytes, kernels.together_bytes = 40, moved_bytes, together
    before = device.did["launch"]
    try:
        for seed in (0, 3, 5, 13, 17):
            row_rounds(backend, np.random.default_rng(seed))
    finally:
        del kernels.large, kernels.moved_bytes, kernels.together_bytes
    return device.did["launch"] - before


@pytest.mark.parametrize("moved_bytes", [1, 4096])
def test_large_programs_are_compiled(emulated: CudaBackend, moved_bytes: int) -> None:
    """For some rows after the others where memory for cells on a coset is short."""
    launches_of_large(emulated, moved_bytes, 1)


def test_large_programs_run_on_several_cosets_at_once(emulated: CudaBackend) -> None:
    one, some, all = (launches_of_large(emulated, 1 << 30, most) for most in (1, 1 << 13, 1 << 30))
    assert one > some > all


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("log_run", "height"), MOVES)
def test_runs_move_to_a_coset(emulated: CudaBackend, log_run: int, height: int, part: int) -> None:
    runs_move_to_a_coset(emulated, log_run, height, part)


@pytest.mark.parametrize("log_run", [0, 1, 4, 5, 6])
def test_runs_of_many_tiles_are_bound_and_summed(emulated: CudaBackend, log_run: int) -> None:
    runs_of_many_tiles(emulated, log_run)


@pytest.mark.parametrize("log_blowup", [0, 1, 2])
def test_leaves_without_their_codewords(emulated: CudaBackend, log_blowup: int) -> None:
    leaves_without_their_codewords(emulated, log_blowup)


def test_prepared_rules_are_not_prepared_again(emulated: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large program's compilation begins before a round runs it; nothing goes to the device."""
    kernels, rows = emulated.multilinear, emulated.goldilocks
    assert isinstance(kernels, CudaMultilinear)
    assert isinstance(rows, CudaGoldilocks)
    cells = [CellPrograms.of(rules) for rules in compile_key(load_program("range-check", {}), SMALL).tables]
    programs = [own for each in cells for own in (each.leaves, each.constraints, each.interactions) if own is not None]
    kernels.clear()
    kernels.large = 0
    try:
        moved = emulated.traffic.snapshot()
        kernels.prepare(programs)
        assert emulated.traffic.since(moved).to_device == 0
        assert all(kernels._made[program].code.size for program in programs)
        assert all(id(program.on_coset) in rows._plans for program in programs)
        with monkeypatch.context() as patched:
            patched.setattr("kernels.cuda.goldilocks.rules.RuleCode", lambda *_: pytest.fail("it is made"))
            assert [code for program in programs for code in kernels._code(program)[:1]]
    finally:
        del kernels.large
        kernels.clear()


@pytest.mark.parametrize("log_n", range(10))
def test_codewords_by_several_passes(emulated: CudaBackend, log_n: int) -> None:
    profile = LdeProfile(log_elements=2, log_row=3, log_strided=3, log_row_tile=5, log_strided_tile=5)
    kernels = CudaGoldilocks(emulated.device, lde_profile=profile).multilinear
    coefficients = random(np.random.default_rng(log_n), 3, 1 << log_n)
    with CpuBackend(threads=1) as cpu:
        for log_blowup in range(3):
            expected = cpu.multilinear.encode(coefficients, log_blowup)
            assert np.array_equal(kernels.encode(emulated.to_device(coefficients), log_blowup), expected)


@pytest.mark.parametrize("name", JOBS)
def test_golden_jobs(emulated: CudaBackend, name: str) -> None:
    assert to_bytes(prove_golden(JOBS[name], emulated)) == (FOLDER / f"{name}.msgpack").read_bytes()
