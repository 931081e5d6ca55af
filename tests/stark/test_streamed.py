"""Extensions on one coset at a time: the proofs are, byte for byte, those of whole extensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from distprove.formats import canonical
from distprove.stark.extension import CosetTrees, Extender
from distprove.stark.params import Parameters
from distprove.stark.plan import plans, usable
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.prover import commit
from distprove.stark.proving_key import make_key
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity
from tests.stark.test_proofs import check, prove_job
from tests.support.golden_jobs import FOLDER, JOBS
from tests.support.golden_jobs import prove_job as prove_golden
from tests.support.stark_programs import Fibonacci, Ring, Tables


@pytest.fixture
def backend() -> CpuBackend:
    return CpuBackend(threads=2)


def columns(width: int, n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, P, (width, n), dtype=np.uint64)


@pytest.mark.parametrize(("log_n", "log_blowup"), [(0, 1), (1, 3), (3, 2), (12, 1)])
def test_a_streamed_extension_is_the_whole_one_coset_by_coset(backend: CpuBackend, log_n: int, log_blowup: int) -> None:
    trace = columns(5, 1 << log_n)
    whole = Extender(backend, log_blowup, streamed=False).extend([trace])[0].on(0)
    extender = Extender(backend, log_blowup, streamed=True)
    (streamed,) = extender.extend([trace.copy()])
    for coset in (*extender.cosets(), 0, (1 << log_blowup) - 1):
        assert np.array_equal(streamed.on(coset)[:, 0], whole[:, coset])
    assert np.array_equal(streamed.trace(), trace)
    assert np.array_equal(streamed.on(1)[:, 0], whole[:, 1])
    assert streamed.nbytes == trace.nbytes


def test_chunks_extend_from_their_own_cosets(backend: CpuBackend) -> None:
    log_n, log_blowup = 4, 2
    chunks = [columns(3, 1 << log_n, seed) for seed in (1, 2)]
    shifts = [GENERATOR, GENERATOR * root_of_unity(log_n + 1) % P]
    whole = Extender(backend, log_blowup, streamed=False).extend_chunks([(chunks, shifts)])[0].on(0)
    (streamed,) = Extender(backend, log_blowup, streamed=True).extend_chunks([(chunks, shifts)])
    assert np.array_equal(np.concatenate([streamed.on(k).copy() for k in range(4)], axis=1), whole)


@pytest.mark.parametrize("log_blowup", [1, 2, 3])
def test_trees_over_cosets_are_the_tree_over_the_whole(backend: CpuBackend, log_blowup: int) -> None:
    traces = [columns(3, 8), columns(2, 32), columns(1, 2), columns(4, 32, seed=2)]
    extenders = [Extender(backend, log_blowup, streamed=streamed) for streamed in (False, True)]
    trees = [extender.commit(extender.extend([t.copy() for t in traces])) for extender in extenders]
    whole, streamed_tree = trees
    assert isinstance(streamed_tree, CosetTrees)
    assert streamed_tree.root == whole.root
    leaves = 32 << log_blowup
    for indices in ([*range(leaves), 3, 3, 0], [leaves - 1], [5, 2, 5, 9], [*range(0, leaves, 7)]):
        a, b = (extender.open([tree], indices)[0] for extender, tree in zip(extenders, trees, strict=True))
        assert all(np.array_equal(x, y) for x, y in zip(a.rows, b.rows, strict=True))
        assert np.array_equal(a.path, b.path)


def streaming_budget(program: Program, params: Parameters, partitions: int) -> int:
    """Memory in which each partition fits streamed, and as few as possible whole: none if they are alike."""
    with CpuBackend() as backend:
        pk = make_key(program, params, backend)
        slices = program.slices(partitions)
        shapes = [commit(pk, s.name, program.inputs(s.source), Steps()).shape for s in slices]
    both = [plans(shape, key_streamed=False) for shape in shapes]
    least = max(streamed.peak for _, streamed in both)
    return min(whole.peak for whole, _ in both if least < usable(whole.peak))


def encoded(program: Program, params: Parameters, budget: int | None) -> list[bytes]:
    with CpuBackend(threads=2, budget=budget) as backend:
        made = prove_job(program, 2, params, backend=backend)
    check(*made)
    return [canonical.encode(proof.to_record()) for proof in made[3]]


@pytest.mark.parametrize("log_blowup", [1, 2, 3])
@pytest.mark.parametrize("program", [Fibonacci(6), Ring(6), Tables(7)], ids=lambda p: p.name)
def test_small_programs(program: Program, log_blowup: int) -> None:
    params = Parameters(log_blowup, 9, 3, 1, log_final=1)
    budget = streaming_budget(program, params, 2)
    assert encoded(program, params, budget) == encoded(program, params, None)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fibonacci", {"rows": 1 << 8}),
        ("wide-fibonacci", {"rows": 1 << 8, "width": 20}),
        ("range-check", {"values": 300}),
        ("keccak-f", {"permutations": 3}),
        ("file-root", {}),
    ],
)
def test_programs_that_ship(name: str, arguments: dict[str, int | str], tmp_path: Path) -> None:
    if name == "file-root":
        (tmp_path / "file").write_bytes(np.random.default_rng(5).bytes(3000))
        arguments = {"file": str(tmp_path / "file")}
    program, params = load_program(name, arguments), Parameters(2, 9, 0, 1)
    budget = streaming_budget(program, params, 2)
    assert encoded(program, params, budget) == encoded(program, params, None)


@pytest.mark.parametrize("name", JOBS)
def test_golden_jobs(name: str) -> None:
    job = JOBS[name]
    budget = streaming_budget(job.program, job.params, job.partitions)
    with CpuBackend(budget=budget) as backend:
        assert prove_golden(job, backend).to_bytes() == (FOLDER / f"{name}.msgpack").read_bytes()
