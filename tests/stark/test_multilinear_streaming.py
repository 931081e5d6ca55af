"""Partitions of keys without global buses are proven as they are committed, and none is committed to twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.record.journal import read_journal
from cluster.record.timeline import read_timeline
from distprove import api
from distprove.errors import UsageError
from distprove.formats import canonical
from distprove.stark.multilinear import system as systems
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.prover import commit
from distprove.stark.multilinear.system import MultilinearSystem
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from kernels.cpu.backend import CpuBackend
from tests.support.multilinear_jobs import prove_program
from tests.support.output_program import Writes
from tests.support.stark_programs import Ring

SMALL = Parameters(1, 2, (6,) * 8, 0, 0, log_final=1)
PARTITIONS = 24
ARGUMENTS: dict[str, dict[str, int | str]] = {
    "fibonacci": {"rows": 64},
    "wide-fibonacci": {"rows": 64, "width": 5},
    "range-check": {"values": 16, "bits": 4},
    "keccak-f": {"permutations": 1},
}


@pytest.mark.parametrize("name", ["fibonacci", "range-check"])
def test_each_is_committed_once_and_gone_before_the_next(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proofs are those of a job whose partitions are all committed first."""
    program = load_program(name, ARGUMENTS[name])
    expected = prove_program(program, partitions=PARTITIONS, params=SMALL)
    system = MultilinearSystem(program, SMALL, PARTITIONS)
    assert not system.needs_barrier
    committed: list[str] = []

    def counted(pk: Any, name: str, *given: Any, **named: Any) -> Any:
        assert named["held"] == 0
        committed.append(name)
        return commit(pk, name, *given, **named)

    monkeypatch.setattr(systems, "commit", counted)
    peaks = []
    with CpuBackend() as backend:
        prover, synthesiser = system.prover({}, backend), system.synthesiser({}, 1)
        for partition, known in zip(system.plan(), expected.proofs, strict=True):
            made, times = prover.prove_partition(partition, synthesiser.synthesise(partition))
            assert canonical.encode(made.data) == canonical.encode(known.data)
            assert not prover.holds(partition.id)
            assert times.memory is not None
            peaks.append(times.memory.predicted)
        system.verify_job(expected.proofs)
    assert committed == [partition.name for partition in system.plan()]
    assert len(set(peaks)) == 1


@pytest.mark.parametrize(
    ("program", "barrier"),
    [*((load_program(name, given), False) for name, given in ARGUMENTS.items()), (Ring(), True), (Writes(b"x"), True)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_global_bus_makes_a_barrier(program: Program, barrier: bool) -> None:
    system = MultilinearSystem(program, SMALL, 2)
    assert system.needs_barrier is barrier
    assert (system.planned_challenge() is None) is barrier
    partition = system.plan()[0]
    if barrier:
        witness = system.synthesiser({}, 1).synthesise(partition)
        with CpuBackend() as backend:
            prover = system.prover({}, backend)
            with pytest.raises(UsageError, match="under its job's challenge"):
                prover.prove_partition(partition, witness)


def test_a_job_streams_and_is_resumed(tmp_path: Path) -> None:
    """The first proof is verified long before the last partition is proven. What was proven for another list of
    partitions is not taken up."""
    given: dict[str, Any] = {"program": "fibonacci", "engine": "multilinear", "security": 20, "arguments": {"rows": 64}}
    out, other = tmp_path / "run", tmp_path / "other"
    api.prove(system="stark", out=out, partitions=PARTITIONS, **given)
    spans = read_timeline(out)[-1].spans
    assert {s.stage for s in spans} == {"load", "synthesise", "prove", "verify"}
    assert min(s.end for s in spans if s.stage == "verify") < max(s.start for s in spans if s.stage == "prove")
    assert len([s for s in spans if s.stage == "prove"]) == PARTITIONS
    assert not (out / "barrier.msgpack").exists()
    before = (out / "proof.msgpack").read_bytes()

    api.prove(system="stark", out=other, partitions=PARTITIONS - 1, **given)
    (out / "proof.msgpack").unlink()
    for file in (other / "partitions").glob("*part-0000*"):
        (out / "partitions" / file.name).write_bytes(file.read_bytes())
    api.resume(out)
    assert (out / "proof.msgpack").read_bytes() == before
    damaged = [(e["partition"], e["reason"]) for e in read_journal(out) if e["event"] == "damaged"]
    assert damaged == [("part-0000", "it was proven for another list of partitions")]
