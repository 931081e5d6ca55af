"""The multilinear engine's kernels and whole proofs on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from distprove.formats import canonical
from distprove.stark.multilinear.memory import plans
from kernels.cuda.backend import CudaBackend
from tests.stark.test_multilinear_keeping import PARTITIONS, PROGRAMS, SMALL, Work, budget_for, proven_under_each_plan
from tests.support import ROOT
from tests.support.golden_jobs import FOLDER
from tests.support.multilinear_cases import CASES, Case
from tests.support.multilinear_golden import JOBS as GOLDEN
from tests.support.multilinear_golden import prove_golden, to_bytes
from tests.support.multilinear_jobs import prove_program
from tests.support.multilinear_tiles import (
    MOVES,
    leaves_without_their_codewords,
    runs_move_to_a_coset,
    runs_of_many_tiles,
)

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"
JOBS: Mapping[str, tuple[str, dict[str, int | str], int | None]] = {
    "wide-fibonacci": ("wide-fibonacci", {"rows": 1 << 14, "width": 9}, 2),
    "range-check": ("range-check", {"values": 1 << 12, "bits": 8}, 2),
    "riscv": ("riscv", {"elf": str(GUESTS / "fibonacci.elf"), "segment": 4096}, None),
    "riscv64": ("riscv", {"elf": str(GUESTS / "sha256_block64.elf"), "segment": 4096}, None),
    "keccak-f": ("keccak-f", {"permutations": 4}, 1),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_is_what_it_is_defined_as(cuda: CudaBackend, case: Case) -> None:
    for seed in range(40):
        case(cuda, np.random.default_rng(seed))


@pytest.mark.parametrize("hash_", ["keccak256", "poseidon2"])
@pytest.mark.parametrize("name", JOBS)
def test_a_proof_is_the_same_on_both_backends(cuda: CudaBackend, name: str, hash_: str) -> None:
    program, arguments, partitions = JOBS[name]
    on_gpu = prove_program(program, arguments, partitions=partitions, backend=cuda, hash=hash_)
    on_gpu.check()
    on_cpu = prove_program(program, arguments, partitions=partitions, hash=hash_)
    assert [p.data for p in on_gpu.proofs] == [p.data for p in on_cpu.proofs]


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(("log_run", "height"), MOVES)
def test_runs_move_to_a_coset(cuda: CudaBackend, log_run: int, height: int, part: int) -> None:
    runs_move_to_a_coset(cuda, log_run, height, part)


@pytest.mark.parametrize("log_run", [0, 1, 4, 5, 6])
def test_runs_of_many_tiles_are_bound_and_summed(cuda: CudaBackend, log_run: int) -> None:
    runs_of_many_tiles(cuda, log_run)


@pytest.mark.parametrize("log_blowup", [0, 1, 2])
def test_leaves_without_their_codewords(cuda: CudaBackend, log_blowup: int) -> None:
    leaves_without_their_codewords(cuda, log_blowup)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_jobs(cuda: CudaBackend, name: str) -> None:
    assert to_bytes(prove_golden(GOLDEN[name], cuda)) == (FOLDER / f"{name}.msgpack").read_bytes()


def test_partitions_wait_in_host_memory(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their codewords are made again on the device, and none is committed to twice."""
    work = Work(SMALL, monkeypatch)
    expected = [canonical.encode(p.data) for p in work.expected.proofs]
    assert work.prove(cuda, budget_for(plans(work.shape())[-1].peak)) == expected
    assert (work.did["commit_stack"], work.did["to_host"]) == (PARTITIONS, PARTITIONS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_proof_is_the_same_under_each_plan(cuda: CudaBackend, name: str) -> None:
    seen = proven_under_each_plan(PROGRAMS[name], cuda)
    assert seen["lean"] == seen["whole"] == seen["streamed"]
