"""What a prover of the multilinear engine keeps between commitment and proof, where partitions do not fit beside each
other: no partition is committed to twice, and the proofs are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from distprove.formats import canonical
from distprove.stark.example import cut, read_inputs
from distprove.stark.multilinear import prover as steps_of
from distprove.stark.multilinear import system as systems
from distprove.stark.multilinear.commitment import Stacked
from distprove.stark.multilinear.memory import plans
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.prover import commit
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.system import MultilinearProver, MultilinearSystem
from distprove.stark.plan import MemoryPlan, usable
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.steps import Steps
from distprove.system import PartitionId
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.interface.backend import Backend, DeviceInfo
from kernels.interface.tree_hash import TreeHash
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.multilinear_jobs import prove_committed, prove_program
from tests.support.stark_programs import Fibonacci, Ring

PARTITIONS = 6
SMALL = Parameters(1, 2, (6,) * 8, 0, 0, log_final=1)


class Work:
    """A job, its partitions' witnesses, and counts of what a prover does."""

    def __init__(self, params: Parameters, monkeypatch: pytest.MonkeyPatch, *, partitions: int = PARTITIONS) -> None:
        self.program, self.partitions = Ring(7), partitions
        self.system = MultilinearSystem(self.program, params, partitions)
        self.did: Counter[str] = Counter()
        self._count(monkeypatch, steps_of, "commit_stack")
        self._count(monkeypatch, Stacked, "drop_codewords")
        self._count(monkeypatch, systems.Committed, "to_host")
        self._count(monkeypatch, systems.Committed, "drop_columns")
        self._count(monkeypatch, systems, "restore_columns")
        monkeypatch.setattr(systems, "commit", steps_of.commit)

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        honest = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            self.did[name] += 1
            return honest(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    def prove(self, backend: Backend, budget: int | None = None) -> list[bytes]:
        """All proofs, encoded; the budget holds of plans alone."""
        self.did.clear()
        info = backend.info

        def limited() -> DeviceInfo:
            return info() if budget is None else replace(info(), memory_budget=budget)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "info", limited)
            prover, synthesiser = self.system.prover({}, backend), self.system.synthesiser({}, 1)
            work = [(p, synthesiser.synthesise(p)) for p in self.system.plan()]
            challenge = self.system.draw_challenge([prover.commit(*w) for w in work])
            proofs = []
            for given in work:
                made, times = prover.prove_partition(*given, challenge)
                assert self.system.verify(made)
                assert times.memory is not None
                assert budget is None or times.memory.predicted <= usable(budget)
                proofs.append(canonical.encode(made.data))
            assert not any(prover.holds(p.id) for p, _ in work)
        return proofs

    def shape(self) -> Shape:
        (heights,) = {tuple(p.data["heights"]) for p in self.expected.proofs}
        return Shape(self.system.key, heights)

    @property
    def expected(self) -> Any:
        return prove_program(self.program, partitions=self.partitions, params=self.system.params)


def budget_for(planned: int) -> int:
    budget = planned
    while usable(budget) < planned:
        budget += planned - usable(budget)
    return budget


@pytest.mark.parametrize("hash_", TreeHash)
def test_codewords_go_before_commitments_do(hash_: TreeHash, monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets from that in which all are kept whole, to that in which not even their columns are kept."""
    work = Work(replace(SMALL, tree_hash=hash_), monkeypatch)
    expected = [canonical.encode(p.data) for p in work.expected.proofs]
    whole, _, streamed = plans(work.shape())
    seen = []
    for planned in (
        PARTITIONS * whole.held + whole.peak,
        PARTITIONS * streamed.held + streamed.peak,
        streamed.peak + streamed.held,
        streamed.peak,
    ):
        with CpuBackend(threads=1) as backend:
            assert work.prove(backend, budget_for(planned)) == expected
        seen.append((work.did["commit_stack"], work.did["drop_codewords"] > 0))
    assert seen[0] == (PARTITIONS, False)
    assert seen[1] == (PARTITIONS, True), "columns and nodes of all are kept, and none is committed to again"
    assert seen[2][0] < 2 * PARTITIONS
    assert seen[3][0] == 2 * PARTITIONS, "too little to keep any, on a device whose memory is the host's"


def nodes_alone(work: Work) -> int:
    """The budget in which the nodes of all partitions are kept beside a proof, and the columns of none."""
    streamed, cells = plans(work.shape())[-1], work.shape().cells
    return budget_for(streamed.peak + PARTITIONS * (streamed.held - 8 * cells))


def test_columns_go_before_commitments_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace is made again where its columns have no room, and nothing is committed to twice."""
    work = Work(SMALL, monkeypatch)
    expected = [canonical.encode(p.data) for p in work.expected.proofs]
    with CpuBackend(threads=1) as backend:
        assert work.prove(backend, nodes_alone(work)) == expected
    assert (work.did["commit_stack"], work.did["restore_columns"]) == (PARTITIONS, PARTITIONS)


def test_columns_that_come_out_otherwise_are_committed_to_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept nodes are of the columns that were committed to: others are none of theirs, by the anchor."""
    work = Work(SMALL, monkeypatch)
    honest, restored = work.program.trace, list[int]()

    def trace(inputs: Any, backend: Any) -> Any:
        made = honest(inputs, backend)
        if work.did["restore_columns"] > len(restored):
            restored.append(1)
            made.main[0][0, -1] ^= 1  # a value that is not used
        return made

    expected = [canonical.encode(p.data) for p in work.expected.proofs]
    budget = nodes_alone(work)
    monkeypatch.setattr(work.program, "trace", trace)
    with CpuBackend(threads=1) as backend:
        assert work.prove(backend, budget) == expected
    assert len(restored) == PARTITIONS
    assert work.did["commit_stack"] == 2 * PARTITIONS


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler on this machine")
def test_a_device_of_its_own_memory_keeps_them_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = CudaBackend(EmulatedDevice())
    partitions = 2  # emulated kernels take four seconds for six
    work = Work(SMALL, monkeypatch, partitions=partitions)
    expected = [canonical.encode(p.data) for p in work.expected.proofs]
    least = budget_for(plans(work.shape())[-1].peak)
    assert work.prove(emulated, least) == expected
    assert (work.did["commit_stack"], work.did["to_host"]) == (partitions, partitions)
    assert work.did["drop_columns"] == 0, "such short columns are copied sooner than made"
    with monkeypatch.context() as slow_copies:
        slow_copies.setattr(systems, "COPIED_BYTES", 1.0)
        assert work.prove(emulated, least) == expected
    assert (work.did["commit_stack"], work.did["to_host"]) == (partitions, partitions)
    assert work.did["restore_columns"] == partitions, "nodes alone are on the host"
    monkeypatch.setattr(systems, "memory_available", lambda: 0)
    assert work.prove(emulated, least) == expected
    assert (work.did["commit_stack"], work.did["to_host"]) == (2 * partitions, 0)


def test_memory_that_runs_out_is_made_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commitment that fails for memory is tried again when the others' codewords are gone, then their columns."""
    work = Work(SMALL, monkeypatch)
    with CpuBackend(threads=1) as backend:
        prover, synthesiser = work.system.prover({}, backend), work.system.synthesiser({}, 1)
        assert isinstance(prover, MultilinearProver)
        first, second, third, fourth, *_ = ((p, synthesiser.synthesise(p)) for p in work.system.plan())
        failing = [0]

        def commit(*given: Any, **named: Any) -> Any:
            if failing[0]:
                failing[0] -= 1
                raise OutOfMemory("none")
            return steps_of.commit(*given, **named)

        monkeypatch.setattr(systems, "commit", commit)
        commitments = [prover.commit(*first), prover.commit(*second)]
        failing[0] = 1
        commitments.append(prover.commit(*third))
        assert [prover.holds(p.id) for p, _ in (first, second, third)] == [True] * 3
        assert work.did["drop_codewords"] == 2
        failing[0] = 2
        commitments.append(prover.commit(*fourth))
        assert [prover.holds(p.id) for p, _ in (first, second, third, fourth)] == [True] * 4
        assert work.did["drop_columns"] == 3
        failing[0] = 3
        assert prover.commit(*fourth) == commitments[-1]
        assert [prover.holds(p.id) for p, _ in (first, second, third, fourth)] == [False, False, False, True]
        assert len(set(commitments)) == 4
        failing[0] = 9
        with pytest.raises(OutOfMemory):
            prover.commit(*first)
        assert not prover.holds(PartitionId("", first[0].name))


PROGRAMS: Mapping[str, Program] = {
    "both scopes": Ring(7),
    "few leaves": Ring(3),
    "one scope": load_program("range-check", {"values": 100, "bits": 4}),
    "no buses": Fibonacci(5),
}


def proven_under_each_plan(program: Program, backend: Backend) -> dict[str, bytes]:
    """The proof of a job of one partition under each plan, by its name."""
    pk, seen = make_key(program, SMALL, backend), {}
    for plan in (MemoryPlan(False, 0, 0), MemoryPlan(False, 0, 0, lean=True), MemoryPlan(True, 0, 0, lean=True)):
        (part,) = cut(program, 1).slices
        committed = commit(pk, part.name, read_inputs(program, part.source), Steps())
        committed.plan = plan
        job = prove_committed(pk, [committed])
        job.check_partition(0)
        seen[plan.name] = canonical.encode(job.proofs[0].data)
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_proof_is_the_same_under_each_plan(name: str) -> None:
    """What is made twice is made the same: coefficients, leaves of GKR, codewords."""
    with CpuBackend(threads=1) as backend:
        seen = proven_under_each_plan(PROGRAMS[name], backend)
    assert seen["lean"] == seen["whole"] == seen["streamed"]
