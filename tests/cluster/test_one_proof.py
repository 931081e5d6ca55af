"""Jobs that end in one proof: the tree's nodes through the driver, and what a forged file is refused for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.driver import drive
from cluster.opening import open_client, open_scheduler
from cluster.record.run import Run
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobRequest, JobState
from distprove.errors import FormatError, InputError, InvalidProof, JobFailed, TooMuchWork, UsageError
from distprove.formats import canonical
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.stark.export import export
from distprove.stark.keyfile import read_key
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS, Parameters
from distprove.stark.program import Trace
from distprove.stark.recursion.plan import MOST_LEAVES, Kind
from distprove.stark.recursion.recorder import MOST_WIRES, Recorder
from distprove.stark.recursion.system import OneProofSystem
from distprove.stark.recursion.tree import TreeKeys
from distprove.stark.recursion.tree_keys import keys_of_tree, node_key
from distprove.system import PartitionProof
from distprove.verification import Verified, verify_proof
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from tests.cli.conftest import run as command
from tests.support.await_end import await_end
from tests.support.faulty_tree import DIES, FAILS, FORGES, MISNAMES, OVERFLOWS, POSES, STRAYS, FaultySystem
from tests.support.ray_nodes import joined_node
from tests.support.stark_programs import Fibonacci, Ring, Sparse

LOCAL = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
PARTITIONS = 5
"""One more than a leaf has: the tree has two leaves, a node and the root."""
NODES = ["leaf-00000", "leaf-00001", "node-1-00000", "root"]


OPTIONS: dict[str, Any] = {
    **{"engine": "multilinear", "hash": "poseidon2", "one_proof": True},
    **{"security": 1, "grinding": 0},
}
"""Of few queries: not for use."""


def load(rows: int = 16, partitions: int = PARTITIONS, **options: Any) -> Any:
    """The system of a job."""
    arguments = {"rows": rows, **options.pop("arguments", {})}
    given = {**OPTIONS, "program": "fibonacci", "partitions": partitions, **options}
    return Job.from_options("stark", **given, arguments=arguments).load()


def run_job(path: Path, system: Any, settings: ExecutorSettings = LOCAL) -> dict[str, Any]:
    """Prove, or resume, in `path`; the report."""
    opened = Run.open(path) if path.exists() else Run.create(path, system, system.plan())
    with opened as run, open_client(settings) as client:
        drive(system, client, run, settings)
    report: dict[str, Any] = json.loads((path / "report.json").read_text())
    return report


@pytest.fixture(scope="module", autouse=True)
def shared_keys() -> Iterator[None]:
    """Provers of this process have one backend, and the keys of a tree in common: to make them takes longest."""
    made: dict[Any, TreeKeys] = {}

    def keys(key: MultilinearKey, kind: Kind, own: CpuBackend) -> TreeKeys:
        place = key.digest, kind.leaves
        if place not in made:
            made[place] = keys_of_tree(key, kind, own)
        return made[place]

    with CpuBackend(threads=2) as backend, pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "close", lambda: None)
        patch.setattr("actors.prover.make_backend", lambda choice, *_: backend)
        patch.setattr("distprove.stark.recursion.system.keys_of_tree", keys)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a job of five partitions."""
    path = tmp_path_factory.mktemp("one") / "run"
    run_job(path, load())
    return path


def check(proof: Proof, **given: Any) -> Verified:
    """Verify a proof as somebody does who has nothing but its file."""
    return verify_proof(Proof.from_bytes(proof.to_bytes()), least_security=1, **given)


def test_a_job_ends_in_one_proof(run: Path) -> None:
    report = json.loads((run / "report.json").read_text())
    names = [f"part-{i:04}" for i in range(PARTITIONS)]
    assert [p["name"] for p in report["partitions"]] == [*names, *NODES]
    assert {p["status"] for p in report["partitions"]} == {"proved"}
    assert set(report["counters"].values()) == {0}
    proof = Proof.read(run / "proof.msgpack")
    assert [p.name for p in proof.partitions] == names
    assert {frozenset(p.data) for p in proof.partitions} == {frozenset(("heights", "root", "anchor"))}
    verified = check(proof)
    assert verified.proven == report["proven"]
    assert verified.proven["says"]["starts with"] == "0, 1"
    assert [(layer["program"], layer["proofs"]) for layer in verified.proven["security"]["layers"]] == [
        ("fibonacci", 5),
        ("node", 2),
        ("node", 1),
        ("node", 1),
    ]


def test_a_job_states_what_it_does_without_a_tree(run: Path, tmp_path: Path) -> None:
    """Its key has parameters for circuits, and binds it as any key does."""
    run_job(tmp_path / "plain", load(one_proof=False))
    one, each = (Proof.read(path / "proof.msgpack") for path in (run, tmp_path / "plain"))
    assert check(one).proven["says"] == check(each).proven["says"]
    assert one.verification_key["params"] == {**each.verification_key["params"], "log_final": LOG_FINAL_IN_CIRCUITS}
    check(one, vk=run / "verifying_key.msgpack", expected_job=one.job_digest)
    with pytest.raises(InvalidProof):
        check(one, vk=tmp_path / "plain" / "verifying_key.msgpack")
    with pytest.raises(InvalidProof, match="the proof is of job"):
        check(one, expected_job=each.job_digest)


def bound(proof: Proof, partitions: list[PartitionProof], whole: dict[str, Any] | None = None) -> Proof:
    """The proof with other partitions, whose digests fit."""
    return Proof.bind(
        proof.system, proof.key_digest, proof.verification_key, partitions, proof.whole if whole is None else whole
    )


def public_changed(p: list[PartitionProof]) -> list[PartitionProof]:
    return [*p[:-1], replace(p[-1], public=(*p[-1].public[:-1], p[-1].public[-1] ^ 1))]


def data_changed(field: str) -> Callable[[list[PartitionProof]], list[PartitionProof]]:
    def change(p: list[PartitionProof]) -> list[PartitionProof]:
        value = p[1].data[field]
        return [p[0], replace(p[1], data={**p[1].data, field: bytes([value[0] ^ 1]) + value[1:]}), *p[2:]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p[:-1],
        lambda p: [p[1], p[0], *p[2:]],
        lambda p: [*p[:4], replace(p[3], name=p[4].name)],
        lambda p: [*p[:4], replace(p[4], name="part-0005")],
        public_changed,
        data_changed("root"),
        data_changed("anchor"),
        data_changed("heights"),
    ],
    ids=["left-out", "swapped", "doubled", "renamed", "public", "root", "anchor", "heights"],
)
def test_a_changed_list_of_partitions_is_refused(
    run: Path, change: Callable[[list[PartitionProof]], list[PartitionProof]]
) -> None:
    proof = Proof.read(run / "proof.msgpack")
    with pytest.raises((InvalidProof, FormatError)):
        check(bound(proof, change(list(proof.partitions))))


def test_the_proof_of_another_job_or_key_is_refused(run: Path, tmp_path: Path) -> None:
    proof = Proof.read(run / "proof.msgpack")
    run_job(tmp_path / "other", load(arguments={"first": 3}))
    other = Proof.read(tmp_path / "other" / "proof.msgpack")
    with pytest.raises(InvalidProof):
        check(bound(proof, list(proof.partitions), other.whole))
    strange = load(rows=32)
    with pytest.raises((InvalidProof, FormatError)):
        check(replace(proof, key_digest=strange.key_digest(), verification_key=strange.verification_key()))


def test_a_changed_one_proof_is_refused(run: Path) -> None:
    proof = Proof.read(run / "proof.msgpack")
    assert proof.whole is not None
    record, total = proof.whole["proof"], proof.whole["sum"]
    openings = bytes([record["openings"][0] ^ 1]) + record["openings"][1:]
    for whole in (
        {**proof.whole, "sum": bytes([1]) + total[1:]},
        {**proof.whole, "sum": total[1:]},
        {**proof.whole, "proof": {**record, "openings": openings}},
        {**proof.whole, "more": 1},
        {"sum": total},
    ):
        with pytest.raises((InvalidProof, FormatError)):
            check(bound(proof, list(proof.partitions), whole))
    with pytest.raises(InvalidProof, match="does not verify: part-0000, part-0001"):  # nothing proves the partitions
        check(replace(proof, whole=None))


def test_export_writes_the_one_proof_beside_the_partitions(run: Path, tmp_path: Path) -> None:
    proof = Proof.read(run / "proof.msgpack")
    partitions = (replace(proof.partitions[0], name="one_proof"), *proof.partitions[1:])
    made = export(bound(proof, list(partitions)), run, tmp_path / "out")
    assert made.names[:2] == ["one_proof-2", "part-0001"]
    assert canonical.decode((tmp_path / "out" / "one_proof.msgpack").read_bytes(), "one proof") == proof.whole
    assert read_key(tmp_path / "out" / "verifying_key.msgpack").digest == proof.key_digest


def test_a_list_of_too_many_different_heights_is_refused_at_once(run: Path) -> None:
    """Each four of them would need a key."""
    proof = Proof.read(run / "proof.msgpack")
    first = proof.partitions[0]
    names = [f"{i:04}" + "p" * i for i in range(4 * MOST_LEAVES + 1)]
    many = [replace(first, name=name) for name in names]
    with pytest.raises(InvalidProof, match="different fours of heights"):
        check(bound(proof, many))


def test_security_lists_the_layers_of_the_tree(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is proven, those that the verifier of the job finds, and whether these circuits are too many."""
    options = ("--engine", "multilinear", "--hash", "poseidon2", "--security", "1", "--grinding", "0", "--one-proof")
    told = command("security", "fibonacci", "--rows", "16", "--partitions", str(PARTITIONS), *options, "--json")
    security = json.loads(told.stdout)["security"]
    leaf, node, root = check(Proof.read(run / "proof.msgpack")).proven["security"]["layers"][1:]
    nodes = {**node, "proofs": leaf["proofs"] + node["proofs"], "cells": leaf["cells"] + node["cells"]}
    assert security["layers"][1:] == [nodes, root]
    assert security["bits"] == min(layer["bits"] for layer in security["layers"])
    wires = security["tree_wires"]
    load(tree_wires=wires).plan()
    with pytest.raises(TooMuchWork):
        load(tree_wires=wires - 1).plan()
    said, again = f"--tree-wires {wires}", ("security", "fibonacci", "--rows", "16", "--partitions", "5", *options)
    assert said not in " ".join(command(*again).stdout.split())
    monkeypatch.setattr("distprove.stark.recursion.work.MOST_TREE_WIRES", wires - 1)
    assert said in " ".join(command(*again).stdout.split())


@pytest.mark.parametrize("options", [{"engine": "fri"}, {"hash": "keccak256"}], ids=["fri", "keccak256"])
def test_one_proof_needs_the_multilinear_engine_and_poseidon2(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="`one_proof` needs `engine` multilinear and `hash` poseidon2"):
        load(**options)


def test_a_job_of_one_partition(tmp_path: Path) -> None:
    system = load(partitions=1)
    assert isinstance(system, OneProofSystem)
    assert [p.name for p in system.plan()] == ["part-0000", "leaf-00000", "root"]
    run_job(tmp_path / "run", system)
    check(Proof.read(tmp_path / "run" / "proof.msgpack"))


# -- whatever happens on the way --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """proof.msgpack of a job of two partitions, made on threads of this process."""
    path = tmp_path_factory.mktemp("pair") / "run"
    run_job(path, load(partitions=2))
    return (path / "proof.msgpack").read_bytes()


def faulty(folder: Path, **faults: str) -> FaultySystem:
    """The job of two partitions, with faults at its nodes."""
    return FaultySystem.of(load(partitions=2), folder, **faults)


def test_workers_and_verifiers_in_processes_give_the_same_proof(tmp_path: Path, pair: bytes) -> None:
    report = run_job(tmp_path / "run", load(partitions=2), replace(LOCAL, isolate=True))
    assert {p["attempts"] for p in report["partitions"]} == {1}
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair


def test_a_prover_that_dies_of_a_node_costs_this_node_alone(tmp_path: Path, pair: bytes) -> None:
    system = faulty(tmp_path, leaf_00000=DIES)
    report = run_job(tmp_path / "run", system, replace(LOCAL, isolate=True))
    assert report["counters"]["deaths"] == 1
    assert sorted(system.proven()) == ["leaf-00000", "leaf-00000", "part-0000", "part-0001", "root"]
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair


@pytest.mark.parametrize("fault", [FORGES, STRAYS, OVERFLOWS, MISNAMES])
def test_a_bad_proof_of_a_node_is_made_again(tmp_path: Path, pair: bytes, fault: str) -> None:
    """No node that counts is made of it: one whose proof does not verify, or that states another digest than its
    children's. What is no statement at all ended the scheduler, and other jobs with it. The bad proof counts if its
    children's were verified by then; the root may have begun with it."""
    system = faulty(tmp_path, leaf_00000=fault)
    report = run_job(tmp_path / "run", system)
    assert report["counters"]["bad_proofs"] <= 1
    made = system.proven()
    assert sorted(made[:-1]) in (
        ["leaf-00000", "leaf-00000", "part-0000", "part-0001", *more] for more in ([], ["root"])
    )
    assert made[-1] == "root"
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair


def test_a_proof_of_another_form_is_none_of_a_partition(tmp_path: Path, pair: bytes) -> None:
    """It was stored, and no leaf could be made of it, in this session or a later one."""
    system = faulty(tmp_path, part_0001=POSES)
    report = run_job(tmp_path / "run", system)
    assert report["counters"]["bad_proofs"] == 1
    assert sorted(system.proven()) == ["leaf-00000", "part-0000", "part-0001", "part-0001", "root"]
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair


def test_a_job_whose_tree_takes_too_much_work_is_refused_before_it_begins(run: Path) -> None:
    with pytest.raises(TooMuchWork, match=r"at most 1000 are allowed, and `tree_wires` \(--tree-wires\) allows more"):
        load(tree_wires=1000).plan()
    proof = Proof.read(run / "proof.msgpack")
    with pytest.raises(TooMuchWork):
        check(proof, tree_wires=1000)
    check(proof, tree_wires=10**6)
    with pytest.raises(UsageError, match="for jobs that end in one proof"):
        load(one_proof=False, tree_wires=1000)


def test_what_a_file_makes_a_verifier_do_is_bounded(run: Path) -> None:
    """It names the key, and so what the keys of its tree cost."""
    with pytest.raises(UsageError, match="wires"):
        Recorder().new(MOST_WIRES + 1)
    proof = Proof.read(run / "proof.msgpack")
    assert proof.whole is not None
    with pytest.raises(FormatError, match="expected the keys"):
        check(bound(proof, list(proof.partitions), {**proof.whole, "proof": {}}))


def test_a_node_that_cannot_be_proven_fails_the_job_and_keeps_the_rest(tmp_path: Path, pair: bytes) -> None:
    system = faulty(tmp_path, root=FAILS)
    with pytest.raises(JobFailed, match="1 of 4 partitions failed: root"):
        run_job(tmp_path / "run", system, replace(LOCAL, max_retries=0))
    report = run_job(tmp_path / "run", faulty(tmp_path))
    status = {p["name"]: p["status"] for p in report["partitions"]}
    assert status == {**dict.fromkeys(("part-0000", "part-0001", "leaf-00000"), "resumed"), "root": "proved"}
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair


def test_a_run_whose_leaf_is_lost_makes_it_and_the_root_again(tmp_path: Path, pair: bytes) -> None:
    system = faulty(tmp_path)
    path = tmp_path / "run"
    run_job(path, system)
    (path / "proof.msgpack").unlink()
    (path / "partitions" / "leaf-00000.msgpack").write_bytes(b"damaged")
    run_job(path, system)
    assert system.proven() == ["part-0000", "part-0001", "leaf-00000", "root", "leaf-00000", "root"]
    assert (path / "proof.msgpack").read_bytes() == pair


def test_a_job_with_a_barrier(tmp_path: Path) -> None:
    """Its partitions have different heights, global buses and one challenge, which the nodes take from their proofs."""
    params = Parameters(1, 3, (1,) * 8, 0, 0, log_final=5, tree_hash=TreeHash.POSEIDON2)
    system = OneProofSystem(Sparse(), params, 3)
    assert system.needs_barrier
    run_job(tmp_path / "run", system)
    proof = Proof.read(tmp_path / "run" / "proof.msgpack")
    proof.verify(system)
    barrier = json.loads((tmp_path / "run" / "report.json").read_text())
    assert barrier["counters"] == dict.fromkeys(barrier["counters"], 0)
    first, *others = proof.partitions
    for changed in ([*others, first], others):
        with pytest.raises((InvalidProof, FormatError)):
            bound(proof, list(changed)).verify(system)


class SomeTaller(Ring):
    """Some of the partitions have twice the rows."""

    def __init__(self, *taller: int) -> None:
        super().__init__(3)
        self.taller = taller

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(4 if own in self.taller else 3, 4) for own in range(partitions)]

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        own = int(backend.to_host(inputs["facts"])[0])
        return Ring(4 if own in self.taller else 3).trace(inputs, backend)


def test_a_job_whose_leaves_are_over_partitions_of_one_form(tmp_path: Path) -> None:
    """The leaf over 1, 4 and 7 is lost and made again. The list with 7 and 8 swapped has the same leaves, and is
    refused."""
    params = Parameters(1, 3, (1,) * 8, 0, 0, log_final=5, tree_hash=TreeHash.POSEIDON2)
    system, path = OneProofSystem(SomeTaller(1, 4, 7), params, 10), tmp_path / "run"
    needs = {part.name: [name[-1] for name in part.needs] for part in system.plan()}
    assert [needs[f"leaf-0000{number}"] for number in range(3)] == [[*"0235"], [*"147"], [*"689"]]
    run_job(path, system)
    content = (path / "proof.msgpack").read_bytes()
    proof = Proof.from_bytes(content)
    proof.verify(system)
    *first, seven, eight, nine = proof.partitions
    with pytest.raises(InvalidProof):
        bound(proof, [*first, eight, seven, nine]).verify(system)
    (path / "proof.msgpack").unlink()
    (path / "partitions" / "leaf-00001.msgpack").write_bytes(b"damaged")
    report = run_job(path, system)
    made = {p["name"] for p in report["partitions"] if p["status"] == "proved"}
    assert made == {"leaf-00001", "node-1-00000", "root"}
    assert (path / "proof.msgpack").read_bytes() == content


def test_a_run_whose_partitions_are_levelled_otherwise_is_not_resumed(tmp_path: Path) -> None:
    """Its barrier has commitments to other heights, which no prover could meet. Its key is the same."""
    params = Parameters(1, 3, (1,) * 8, 0, 0, log_final=5, tree_hash=TreeHash.POSEIDON2)
    path = tmp_path / "run"
    run_job(path, OneProofSystem(SomeTaller(1), params, 3))
    (path / "proof.msgpack").unlink()
    with pytest.raises(InputError, match="changed since the run began: leaf-00000, root"):
        run_job(path, OneProofSystem(SomeTaller(2), params, 3))
    report = run_job(path, OneProofSystem(SomeTaller(1), params, 3))
    assert {p["status"] for p in report["partitions"]} == {"resumed"}


def test_a_kept_node_chooses_no_key_that_it_is_verified_under(
    tmp_path: Path, pair: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A received run folder could name other leaves in each of its nodes, whose keys take a minute each to make."""
    system = faulty(tmp_path)
    path = tmp_path / "run"
    run_job(path, system)
    (path / "proof.msgpack").unlink()
    file = path / "partitions" / "leaf-00000.msgpack"
    outer = canonical.decode(file.read_bytes(), "file")
    leaf = canonical.decode(outer["body"], "leaf")
    leaves, role = leaf["data"]["kind"]
    leaf["data"]["kind"] = [[*leaves, [[heights, length + 1] for heights, length in leaves[0]]], role]
    body = canonical.encode(leaf)
    file.write_bytes(canonical.encode({**outer, "body": body, "sha256": hashlib.sha256(body).digest()}))
    asked: list[Kind] = []

    def noted(key: MultilinearKey, kind: Kind, threads: int) -> MultilinearKey:
        asked.append(kind)
        return node_key(key, kind, threads)

    monkeypatch.setattr("distprove.stark.recursion.system.node_key", noted)
    run_job(path, system)
    assert system.proven()[-2:] == ["leaf-00000", "root"]
    assert (path / "proof.msgpack").read_bytes() == pair
    assert {len(kind.leaves) for kind in asked} == {1}


class Taller(Fibonacci):
    """Its traces are taller than it says."""

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(self.log_rows - 1,)] * partitions


def test_a_program_that_says_other_heights_fails_its_job_and_no_prover(tmp_path: Path) -> None:
    """Each prover was given up after three partitions of such a job, and would have been missing for other jobs."""
    params = Parameters(1, 3, (1,) * 8, 0, 0, log_final=5, tree_hash=TreeHash.POSEIDON2)
    with pytest.raises(JobFailed, match="its trace has other heights than the program says") as caught:
        run_job(tmp_path / "run", OneProofSystem(Taller(5), params, 5))
    assert caught.value.exit_code == InputError.exit_code
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["counters"] == dict.fromkeys(report["counters"], 0)


def test_a_tree_without_keys_fails_its_job_and_no_prover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> TreeKeys:
        raise UsageError("a circuit of too many wires")

    monkeypatch.setattr("distprove.stark.recursion.system.keys_of_tree", none)
    with pytest.raises(JobFailed, match="leaf-00000: a circuit of too many wires") as caught:
        run_job(tmp_path / "run", load(partitions=2))
    assert caught.value.exit_code == InputError.exit_code
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["counters"] == dict.fromkeys(report["counters"], 0)


def test_several_jobs_at_once_share_workers_and_keys(tmp_path: Path) -> None:
    systems = {name: load(partitions=2, arguments={"first": first}) for name, first in (("a", 0), ("b", 7))}

    def drives(name: str) -> None:
        system, path = systems[name], tmp_path / name
        with scheduler.lend(job=name) as client, Run.create(path, system, system.plan()) as run:
            drive(system, client, run, LOCAL)

    with open_scheduler(LOCAL) as scheduler, ThreadPoolExecutor(2) as pool:
        list(pool.map(drives, systems))
        assert len(scheduler.keys()) == 1
    for name, says in (("a", "0, 1"), ("b", "7, 1")):
        verified = check(Proof.read(tmp_path / name / "proof.msgpack"))
        assert verified.proven["says"]["starts with"] == says


def test_a_service_proves_such_a_job(tmp_path: Path) -> None:
    job = {**OPTIONS, "system": "stark", "program": "fibonacci", "partitions": 2, "arguments": {"rows": "2^4"}}
    service = Service(tmp_path / "service", LOCAL, Limits(running=1), open_scheduler)
    service.start()
    try:
        service.submit(JobRequest("a", job))
        view = await_end(service, "a", 600)
        assert view.state is JobState.PROVED, view.error
        proof = Proof.read(Path(view.run) / "proof.msgpack")
    finally:
        service.close(drain=False)
    assert [p.name for p in proof.partitions] == ["part-0000", "part-0001"]
    check(proof)


@pytest.mark.ray
@pytest.mark.slow
def test_ray_gives_the_same_proof_on_two_nodes(ray_cluster: Any, tmp_path: Path, pair: bytes) -> None:
    """One of which dies at a leaf: the children's proofs travel with the order, to whatever worker is there."""
    system = faulty(tmp_path, leaf_00000=DIES)
    node = joined_node(ray_cluster)
    try:
        report = run_job(tmp_path / "run", system, ExecutorSettings(local=False, backend="cpu", threads=1))
    finally:
        ray_cluster.remove_node(node, allow_graceful=False)
    assert report["counters"]["deaths"] == 1
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == pair
