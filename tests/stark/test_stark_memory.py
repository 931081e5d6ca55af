"""Memory plans: what each takes, which one is chosen, and what a prover keeps between commitment and proof."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from distprove.formats import canonical
from distprove.stark.memory import folded_together, folding_bytes, key_bytes, stages
from distprove.stark.params import Parameters
from distprove.stark.plan import choose, leaves_room, plans, usable
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.prover import Committed, commit
from distprove.stark.proving_key import make_key
from distprove.stark.shape import ProofShape
from distprove.stark.system import StarkProver, StarkSystem
from distprove.steps import Steps
from distprove.system import MemoryUse
from kernels.cpu.backend import CpuBackend
from kernels.errors import OutOfMemory
from tests.support.stark_programs import Fibonacci, Ring, Tables

PARAMS = Parameters(1, 9, 0, 1)
BLOWN = Parameters(3, 9, 0, 1)


def budget_for(planned: int) -> int:
    """The least budget in which plans may take `planned` bytes."""
    budget = planned
    while usable(budget) < planned:
        budget += planned - usable(budget)
    return budget


def committed(program: Program, params: Parameters = PARAMS, budget: int | None = None, held: int = 0) -> Committed:
    with CpuBackend(budget=budget) as backend:
        pk = make_key(program, params, backend)
        return commit(pk, "a", program.inputs(program.slices(1)[0].source), Steps(), held=held)


@cache
def shape_of(log_rows: int, params: Parameters = PARAMS) -> ProofShape:
    return committed(Fibonacci(log_rows), params).shape


@pytest.mark.parametrize("program", [Fibonacci(10), Ring(8)], ids=lambda p: p.name)
def test_a_commitment_holds_what_was_predicted(program: Program) -> None:
    whole = committed(program)
    streamed = committed(program, budget=budget_for(whole.plan.peak - 1))
    for made, name in ((whole, "whole"), (streamed, "streamed")):
        assert made.plan.name == name
        assert made.nbytes == made.plan.held
        assert made.plan.peak >= max(stages(made.shape, streamed=made.plan.streamed).values()) > made.nbytes
    assert streamed.commitment == whole.commitment
    assert streamed.plan.peak < whole.plan.peak


def test_the_fastest_plan_that_fits_is_chosen() -> None:
    shape = shape_of(10)
    whole, streamed = plans(shape, key_streamed=False)
    assert choose(shape, whole.peak, 0) == whole
    assert choose(shape, whole.peak - 1, 0) == streamed
    assert choose(shape, streamed.peak, 0) == streamed
    assert choose(shape, whole.peak + 5, 5) == whole
    assert choose(shape, whole.peak + 5, 6) == streamed
    assert [plan.streamed for plan in plans(shape, key_streamed=True)] == [True]


def test_a_plan_that_leaves_room_for_the_next_is_better_than_a_faster_one() -> None:
    shape = committed(load_program("wide-fibonacci", {"rows": 64, "width": 40}), BLOWN).shape
    whole, streamed = plans(shape, key_streamed=False)
    budget = whole.peak
    assert not leaves_room(shape, whole, budget, 0)
    assert leaves_room(shape, streamed, budget, 0)
    assert choose(shape, budget, 0) == whole
    assert choose(shape, budget, 0, more=True) == streamed
    assert choose(shape, whole.held + streamed.peak, 0, more=True) == whole
    assert choose(shape, streamed.peak, 0, more=True) == streamed


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "program", [Fibonacci(6), Ring(6), Tables(12, 6), Tables(12, 2)], ids=lambda p: repr(p.arguments)
)
def test_tables_are_folded_together_within_the_peak(program: Program, streamed: bool) -> None:
    shape = committed(program).shape
    groups, known = folded_together(shape, streamed=streamed), stages(shape, streamed=streamed)
    assert sorted(i for group in groups for i in group) == list(range(len(shape.tables)))
    alone = max(folding_bytes(shape, i) for i in range(len(shape.tables)))
    for group in groups:
        together = sum(folding_bytes(shape, i) for i in group)
        assert known["constraints"] - alone + together <= max(known.values())
    assert len(groups) < max(2, len(shape.tables) / 2), "some go together"


def test_what_does_not_fit_is_refused_with_what_it_needs() -> None:
    shape = shape_of(10)
    least = plans(shape, key_streamed=False)[-1].peak
    assert usable(budget_for(least)) == least
    committed(Fibonacci(10), budget=budget_for(least))
    committed(Fibonacci(10), budget=budget_for(least + 7), held=7)
    for budget, held in ((budget_for(least) - 1, 0), (budget_for(least), 1)):
        with pytest.raises(OutOfMemory, match=r"streamed.*more partitions"):
            committed(Fibonacci(10), budget=budget, held=held)


def test_a_program_that_knows_its_heights_is_refused_before_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program("wide-fibonacci", {"rows": 64, "width": 40})
    least = plans(committed(program).shape, key_streamed=False)[-1].peak
    system = StarkSystem(program, PARAMS, 1)
    (partition,) = system.plan()
    work = system.synthesiser({}, 1).synthesise(partition)
    made: list[bool] = []
    honest = program.trace
    monkeypatch.setattr(program, "trace", lambda *given: (made.append(True), honest(*given))[1])
    with CpuBackend(budget=budget_for(least)) as backend:
        StarkProver(system, backend).commit(partition, work)
    with CpuBackend(budget=budget_for(least) - 1) as backend, pytest.raises(OutOfMemory, match=r"2\^6 x 40 needs"):
        StarkProver(system, backend).commit(partition, work)
    assert len(made) == 1


def test_inputs_are_not_written_over() -> None:
    """Where the backend's memory is the host's, a trace may be its inputs; a retry needs them as they were."""
    program = load_program("range-check", {"values": 300, "bits": 8})
    inputs = program.inputs(program.slices(1)[0].source)
    before = {name: array.copy() for name, array in inputs.items()}
    for array in inputs.values():
        array.flags.writeable = False
    with CpuBackend(budget=budget_for(committed(program).plan.peak - 1)) as backend:
        assert commit(make_key(program, PARAMS, backend), "a", inputs, Steps()).plan.streamed
    assert all((inputs[name] == array).all() for name, array in before.items())


def prove_all(system: StarkSystem, budget: int | None) -> tuple[list[bytes], list[str], list[MemoryUse]]:
    """Encoded proofs, names of the partitions that were committed to twice, and how each was fitted in."""
    with CpuBackend(budget=budget) as backend:
        prover, synthesiser = StarkProver(system, backend), system.synthesiser({}, 1)
        work = [(p, synthesiser.synthesise(p)) for p in system.plan()]
        challenge = system.draw_challenge([prover.commit(*w) for w in work])
        proofs, again, uses = [], [], []
        for partition, witness in work:
            made, times = prover.prove_partition(partition, witness, challenge)
            assert system.verify(made)
            assert times.memory is not None
            proofs.append(canonical.encode(made.data))
            uses.append(times.memory)
            if "main_tree" in times.seconds:
                again.append(partition.name)
        prover.close()
    return proofs, again, uses


@pytest.mark.parametrize("params", [PARAMS, BLOWN], ids=["blow-up 2", "blow-up 8"])
@pytest.mark.parametrize("program", [Fibonacci(6), Ring(6)], ids=lambda p: p.name)
def test_any_budget_gives_the_same_proofs(program: Program, params: Parameters) -> None:
    system = StarkSystem(program, params, 4)
    whole, streamed = plans(committed(program, params).shape, key_streamed=False)
    expected, again, uses = prove_all(system, None)
    assert not again
    assert {use.plan for use in uses} == {"whole"}
    seen = set()
    most = whole.peak + 3 * whole.held
    for planned in range(streamed.peak, most, most // 12):
        budget = budget_for(planned)
        proofs, again, uses = prove_all(system, budget)
        assert proofs == expected
        assert all(use.predicted <= budget for use in uses)
        seen.add((len(again), tuple(sorted({use.plan for use in uses}))))
    assert (4, ("streamed",)) in seen or (3, ("streamed",)) in seen, "too little even to keep all streamed"
    assert any(len(names) == 2 for _, names in seen), "some whole, later ones streamed"


def test_a_large_key_is_streamed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program("range-check", {"values": 300, "bits": 10})
    system = StarkSystem(program, PARAMS, 2)
    expected = prove_all(system, None)[0]
    (only,) = plans(committed(program).shape, key_streamed=True)
    monkeypatch.setattr("distprove.stark.proving_key.MAX_KEY_SHARE", 0.01)
    budget = budget_for(only.peak + only.held)
    with CpuBackend(budget=budget) as backend:
        pk = make_key(program, PARAMS, backend)
    assert pk.streamed
    assert pk.key.digest == system.key_digest()
    proofs, _, uses = prove_all(system, budget)
    assert proofs == expected
    assert {use.plan for use in uses} == {"streamed"}
    assert key_bytes(pk.key, streamed=True) < key_bytes(pk.key, streamed=False)


def test_jobs_that_name_partitions_alike_keep_their_own_commitments() -> None:
    """A prover may serve several jobs, and memory goes back with a job."""
    system = StarkSystem(Fibonacci(6), PARAMS, 4)
    with CpuBackend() as backend:
        prover, synthesiser = StarkProver(system, backend), system.synthesiser({}, 1)
        first, second, *_ = system.plan()
        # The second job's partition of that name has the inputs of another one.
        jobs = {"a": first, "b": replace(second, name=first.name)}
        work = {job: (replace(p, job=job), synthesiser.synthesise(p)) for job, p in jobs.items()}
        commitments = {job: prover.commit(*given) for job, given in work.items()}
        assert commitments["a"] != commitments["b"]
        for job, given in work.items():
            made, times = prover.prove_partition(*given, system.draw_challenge([commitments[job]] * 4))
            assert system.made_under(made)[0] == commitments[job]
            assert "main_tree" not in times.seconds, "it was committed to again"
        for given in work.values():
            prover.commit(*given)
        assert prover.drop("a")
        assert not prover.drop("a")
        assert prover.drop()


def test_what_another_worker_proves_is_given_back_alone() -> None:
    """Commitments are given back by job and name. All others stay, and need not be made again."""
    system = StarkSystem(Fibonacci(6), PARAMS, 4)
    with CpuBackend() as backend:
        prover, synthesiser = StarkProver(system, backend), system.synthesiser({}, 1)
        kept = [replace(partition, job=job) for job in "ab" for partition in system.plan()[:2]]
        assert not any(prover.holds(partition.id) for partition in kept)
        for partition in kept:
            prover.commit(partition, synthesiser.synthesise(partition))
        assert prover.drop("a", {kept[0].id})
        assert not prover.drop("a", {kept[0].id})
        assert [prover.holds(partition.id) for partition in kept] == [False, True, True, True]
