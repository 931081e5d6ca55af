"""Whole proofs on a GPU, byte for byte those of the CPU backend: a STARK has no randomness of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.formats import canonical
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from tests.stark.test_proofs import prove_job
from tests.support.golden_jobs import FOLDER, JOBS
from tests.support.golden_jobs import prove_job as prove_golden

pytestmark = pytest.mark.gpu

PROGRAMS: dict[str, dict[str, Any]] = {
    "fibonacci": {"rows": 1 << 12},
    "wide-fibonacci": {"rows": 1 << 14, "width": 40},
    "range-check": {"values": 5000},
    "keccak-f": {"permutations": 30},
    "file-root": {},
}


@pytest.mark.parametrize("name", JOBS)
def test_golden_jobs(cuda: CudaBackend, name: str) -> None:
    assert prove_golden(JOBS[name], cuda).to_bytes() == (FOLDER / f"{name}.msgpack").read_bytes()


CASES = [*((name, PROGRAMS[name], log) for name in PROGRAMS for log in (1, 2)), ("file-root", {"layout": "narrow"}, 2)]


@pytest.mark.parametrize(("name", "given", "log_blowup"), CASES)
@pytest.mark.timeout(600)  # the first proof compiles a program's kernels
def test_programs_that_ship(
    cuda: CudaBackend, name: str, given: dict[str, int | str], log_blowup: int, tmp_path: Path
) -> None:
    arguments = dict(given)
    if name == "file-root":
        arguments["file"] = str(tmp_path / "file")
        Path(arguments["file"]).write_bytes(np.random.default_rng(5).bytes(20_000))
    program, params = load_program(name, arguments), Parameters(log_blowup, 20, 8, 1)
    proofs = []
    for backend in (cuda, CpuBackend(threads=8)):
        *_, made = prove_job(program, 2, params, backend=backend)
        proofs.append([canonical.encode(proof.to_record()) for proof in made])
    assert proofs[0] == proofs[1]
