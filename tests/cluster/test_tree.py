"""A job of a tree: sixteen leaves, four nodes that need four leaves each, and a root that needs the nodes.

What a node states is computed from its children's proofs, so that a wrong child is seen when the job is bound. With a
barrier, in which the leaves alone take part, and without.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from distprove.cli.top import STAGES as SHOWN_BY_TOP
from distprove.errors import JobFailed, UsageError
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof, Witness
from tests.support.toy_system import Faults, ToySynthesiser, ToySystem
from tests.support.toy_tree import CheckingTree, TreeSynthesiser, TreeSystem, combined, tree_of

Make = Callable[..., Faults]
Prove = Callable[..., Proof]

CHILDREN = {name: needs for name, needs in tree_of(16).items() if needs}
LEAVES = [name for name in tree_of(16) if name not in CHILDREN]
NAMES = [*tree_of(16)]
"""In the order of the plan, in which nothing comes after what it needs."""


@pytest.fixture(params=[False, True], ids=["free", "barrier"])
def make_tree(request: pytest.FixtureRequest, faults: Make) -> Callable[..., TreeSystem]:
    """Makes the system with these faults, without and with a barrier."""
    return lambda **kinds: TreeSystem(16, faults(**kinds), needs_barrier=request.param)


def report(tmp_path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((tmp_path / "run" / "report.json").read_text())
    return facts


def by_status(tmp_path: Path) -> dict[str, set[str]]:
    """Names of the partitions of each status."""
    found: dict[str, set[str]] = {}
    for partition in report(tmp_path)["partitions"]:
        found.setdefault(partition["status"], set()).add(partition["name"])
    return found


def proven(tmp_path: Path, what: str = "proven") -> Counter[str]:
    """How often each partition was proven so far, bad proofs included."""
    lines = (tmp_path / "faults" / "log").read_text().splitlines()
    return Counter(line.split()[1] for line in lines if line.startswith(f"{what} "))


def committed(tmp_path: Path) -> Counter[str]:
    """How often each partition was committed to so far."""
    return proven(tmp_path, "committed")


def test_a_tree_is_proven_from_its_leaves_to_its_root(
    settings: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    system = make_tree()
    proof = run_toy(system, settings, seen.append)
    proof.verify(system)
    with Run.open(tmp_path / "run") as run:
        barrier = run.load_barrier()
    assert (list(barrier[0]) if barrier else []) == (LEAVES if system.needs_barrier else [])
    assert committed(tmp_path) == Counter(LEAVES if system.needs_barrier else ())
    assert [p.name for p in proof.partitions] == NAMES
    assert proven(tmp_path) == Counter(NAMES)
    order = [event["partition"] for event in read_journal(tmp_path / "run") if "to_host" in event]
    for name, children in CHILDREN.items():
        assert max(map(order.index, children)) < order.index(name), "a proof that it needs was not on disk"
    stages = [event.stages for event in seen if event.stages]
    assert stages[0]["blocked"] == 5
    assert "blocked" in SHOWN_BY_TOP
    assert set(report(tmp_path)["counters"].values()) == {0}


def test_a_tree_with_workers_killed_at_a_leaf_and_at_a_node(
    isolated: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    system = make_tree(kill_prover={"leaf-05": 1, "node-1": 1})
    run_toy(system, isolated).verify(system)
    assert report(tmp_path)["counters"]["deaths"] == 2
    assert by_status(tmp_path) == {"proved": set(NAMES)}
    assert proven(tmp_path) >= Counter(NAMES)


def test_bad_proofs_of_a_leaf_and_of_a_node_are_made_again(
    settings: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    """No node that is kept is made of a bad proof: else the job would not hold together. What was made of one, before
    it was verified, is made again; and so is a bad proof that was made before its children's were verified, without
    being counted."""
    system = make_tree(bad_proof={"leaf-03": 1, "node-2": 1})
    run_toy(system, settings).verify(system)
    assert 1 <= report(tmp_path)["counters"]["bad_proofs"] <= 2
    often = proven(tmp_path)
    assert often >= Counter([*NAMES, "leaf-03", "node-2"])
    assert often - Counter(["node-0"]) <= Counter([*NAMES, "leaf-03", "node-2", "root"])


def test_a_leaf_that_fails_fails_its_ancestors_and_nothing_else(
    settings: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    system = make_tree(unsatisfied=("leaf-06",))
    with pytest.raises(JobFailed, match="3 of 21 partitions failed") as raised:
        run_toy(system, settings)
    assert raised.value.exit_code == 2, "the input of the leaf is at fault, and nothing else"
    failed = {p["name"]: p["error"] for p in report(tmp_path)["partitions"] if p["status"] == "failed"}
    assert failed.keys() == {"leaf-06", "node-1", "root"}
    assert "constraint 7" in failed["leaf-06"]
    assert failed["node-1"] == failed["root"] == "leaf-06, which it needs, failed"
    assert by_status(tmp_path)["proved"] == {*NAMES} - failed.keys()
    before = proven(tmp_path)
    mended = replace(system, faults=replace(system.faults, unsatisfied=()))
    run_toy(mended, settings).verify(mended)
    assert by_status(tmp_path) == {"proved": {*failed}, "resumed": {*NAMES} - failed.keys()}
    assert proven(tmp_path) - before == Counter([*failed])


class Enough(Exception):
    """An interruption."""


@pytest.mark.parametrize("kept", [3, 19], ids=["leaves", "nodes"])
def test_a_tree_that_is_interrupted_proves_nothing_again_that_was_kept(
    kept: int, settings: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    # The root begins ahead of verdicts, and would be proven before a busy driver hears of its children.
    system = make_tree(slow=dict.fromkeys(NAMES, 0.02), waits={"root": "resumed"})

    def progress(event: Progress) -> None:
        if event.done >= kept:
            raise Enough

    with pytest.raises(Enough):
        run_toy(system, replace(settings, in_flight=1), progress)
    with Run.open(tmp_path / "run") as run:
        there = set(run.stored())
    before = proven(tmp_path)
    assert len(there) >= kept
    assert "root" not in there
    system.faults.log("resumed")
    run_toy(system, settings).verify(system)
    assert by_status(tmp_path) == {"resumed": there, "proved": {*NAMES} - there}
    again = (proven(tmp_path) - before).keys()  # with what workers were at when their job ended
    assert again >= {*NAMES} - there
    assert not again & there


def test_what_was_made_of_a_proof_that_is_lost_is_made_again(
    local: ExecutorSettings, make_tree: Callable[..., TreeSystem], run_toy: Prove, tmp_path: Path
) -> None:
    """A leaf's next proof may be another one."""
    system = make_tree()
    run_toy(system, local)
    (tmp_path / "run" / "proof.msgpack").unlink()
    (tmp_path / "run" / "partitions" / "leaf-09.msgpack").write_bytes(b"damaged")
    run_toy(system, local).verify(system)
    assert by_status(tmp_path)["proved"] == {"leaf-09", "node-2", "root"}
    reasons = {e["partition"]: e["reason"] for e in read_journal(tmp_path / "run") if e["event"] == "damaged"}
    assert "leaf-09" in reasons.pop("leaf-09")
    assert reasons == dict.fromkeys(("node-2", "root"), "the proof of a child is lost")


def test_a_packed_node_that_was_discarded_does_not_come_back_beside_its_childs_next_proof(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """It stayed in its pack, and the session after the next one took it for a proof that fits the leaf's new one. From
    then on no session could bind the job."""
    system = TreeSystem(16, faults())
    with Run.create(tmp_path / "run", system, system.plan()) as run:
        made = system.prover(system.shared(), None)
        proofs: dict[str, PartitionProof] = {}
        for partition in reversed(system.plan()):
            planned = replace(partition, children=tuple(proofs[name] for name in partition.needs))
            witness = system.synthesiser({}, 1).synthesise(planned)
            proofs[partition.name] = made.prove_partition(planned, witness)[0]
        run.store([*proofs.values()])
    assert [path.suffix for path in (tmp_path / "run" / "partitions").iterdir()] == [".pack"]
    (tmp_path / "run" / "partitions" / "leaf-09.msgpack").write_bytes(b"damaged")

    def progress(event: Progress) -> None:
        if event.event == "proved" and event.partition == "leaf-09":
            raise Enough

    with pytest.raises(Enough):
        run_toy(TreeSystem(16, faults(waits={"node-2": "resumed"})), local, progress)
    run_toy(system, local).verify(system)
    assert by_status(tmp_path)["proved"] == {"node-2", "root"}


def test_leaves_whose_barrier_is_lost_are_proven_again_and_so_is_what_was_made_of_them(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = TreeSystem(16, faults(), needs_barrier=True)
    run_toy(system, local)
    (tmp_path / "run" / "proof.msgpack").unlink()
    (tmp_path / "run" / "barrier.msgpack").unlink()
    run_toy(system, local).verify(system)
    assert by_status(tmp_path)["proved"] == {*NAMES}
    reasons = {e["partition"]: e["reason"] for e in read_journal(tmp_path / "run") if e["event"] == "damaged"}
    assert reasons == {
        **dict.fromkeys(LEAVES, "the commitments it was proven under are lost"),
        **dict.fromkeys(CHILDREN, "the proof of a child is lost"),
    }


def test_a_node_of_other_proofs_than_its_childrens_is_seen(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strayed(self: TreeSynthesiser, partition: Partition) -> Witness:
        made = ToySynthesiser.synthesise(self, partition)
        if partition.needs:
            made.arrays["witness"][1] = combined(partition.children[::-1])
        return made

    monkeypatch.setattr(TreeSynthesiser, "synthesise", strayed)
    with pytest.raises(JobFailed, match="not together: root was made of other proofs"):
        run_toy(TreeSystem(16, faults()), local)


def test_a_node_of_other_proofs_is_proven_again_where_the_system_compares(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strayed: set[str] = set()
    honest = TreeSynthesiser.synthesise

    def once(self: TreeSynthesiser, partition: Partition) -> Witness:
        made = honest(self, partition)
        if partition.name in ("node-1", "root") and partition.name not in strayed:
            strayed.add(partition.name)
            made.arrays["witness"][1] = combined(partition.children[::-1])
        return made

    monkeypatch.setattr(TreeSynthesiser, "synthesise", once)
    system = CheckingTree(16, faults())
    run_toy(system, local).verify(system)
    assert report(tmp_path)["counters"]["bad_proofs"] <= 2, "only those made of verified proofs count"
    often = proven(tmp_path)
    assert often >= Counter([*NAMES, "node-1", "root"])
    assert often - Counter(["root"]) <= Counter([*NAMES, "node-1", "root"])


def test_a_stored_node_of_other_proofs_is_made_again(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = TreeSystem(16, faults())
    run_toy(system, local)
    (tmp_path / "run" / "proof.msgpack").unlink()

    class Doubting(CheckingTree):
        def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
            again = proven(tmp_path)[partition.name] > 1
            return super().made_of(partition, proof, children) and (again or partition.name != "node-3")

    run_toy(Doubting(16, system.faults), local).verify(system)
    assert by_status(tmp_path)["proved"] == {"node-3", "root"}
    reasons = {e["partition"]: e["reason"] for e in read_journal(tmp_path / "run") if e["event"] == "damaged"}
    assert reasons == {
        "node-3": "it was made from other proofs than its children's",
        "root": "the proof of a child is lost",
    }


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"p0": ("p9",)}, "the plan lacks p9, which another partition needs"),
        ({"p0": ("p1",), "p1": ("p2",), "p2": ("p0",)}, "partitions need each other: p"),
    ],
    ids=["absent", "circle"],
)
def test_a_plan_that_would_never_end_is_refused(
    needs: dict[str, tuple[str, ...]],
    message: str,
    local: ExecutorSettings,
    faults: Make,
    run_toy: Prove,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = [replace(p, needs=needs.get(p.name, ())) for p in ToySystem(3, faults()).plan()]
    monkeypatch.setattr(ToySystem, "plan", lambda self: plan)
    with pytest.raises(UsageError, match=message):
        run_toy(ToySystem(3, faults()), local)
