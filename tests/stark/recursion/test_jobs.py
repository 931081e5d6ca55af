"""One proof of several jobs: it holds, and what a cheating aggregator could put into it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distprove
from distprove.entry import OwnProgram
from distprove.errors import (
    DistproveError,
    FormatError,
    InputError,
    InvalidProof,
    OutputMissing,
    TooMuchWork,
    UsageError,
)
from distprove.formats import canonical
from distprove.proof import KEY_FILE, OUTPUT_FILE, PROOF_FILE, Proof
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.aggregate.prover import aggregate_jobs
from distprove.stark.aggregate.trusted import MAKERS, trusted, verify
from distprove.stark.aggregate.verifier import KeyMakers, roots_of, verify_aggregate
from distprove.stark.field import P
from distprove.stark.heights import encode_heights
from distprove.stark.keyfile import key_content
from distprove.stark.multilinear.key import MultilinearKey, with_params
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.programs import load_program
from distprove.stark.recursion.circuit_cache import name_of
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.frame import Frame
from distprove.stark.recursion.jobs_keys import jobs_tree
from distprove.stark.recursion.jobs_root import MOST_JOBS, JobRoot, check_together, jobs_statement, places_of
from distprove.stark.recursion.jobs_tree import JobsKeys, prove_jobs
from distprove.stark.recursion.kept import kept_rows
from distprove.stark.recursion.node import (
    JOBS,
    LIST,
    NODE,
    NODE_CHALLENGE,
    Identity,
    Proven,
    list_digest,
    node_circuit,
    node_fields,
    node_trees,
    stated_by,
)
from distprove.stark.recursion.plan import INNER, ROOT, Kind
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.security import bits_of
from distprove.stark.recursion.tree import TreeKeys, node_child
from distprove.stark.recursion.whole import commitments_of, kinds_of_listed, sum_in
from distprove.stark.recursion.work import tree_wires
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from tests.cli.conftest import run as command
from tests.cli.conftest import why_refused
from tests.support import second_root_verifier as second
from tests.support.one_proofs import OneProofs
from tests.support.output_program import Writes
from tests.support.second_verifier import Refused

CPU = ("--backend", "cpu", "--threads", "2")
COUNT = 5
"""One more than a leaf has: the tree over the jobs has two leaves, a node and the root."""


@dataclass(frozen=True)
class Jobs:
    """Proven jobs of two programs, one of them of two partitions, and their aggregate."""

    proofs: list[Proof]
    roots: list[JobRoot]
    aggregate: StarkAggregate
    backend: CpuBackend

    def check(self, jobs: Sequence[Proof] | None = None, proof: dict[str, Any] | None = None, **given: Any) -> None:
        """Verify the aggregate's file, with other jobs or another proof, whose digests fit."""
        changed = StarkAggregate(
            self.aggregate.jobs if jobs is None else tuple(jobs), self.aggregate.proof if proof is None else proof
        )
        verify(StarkAggregate.from_bytes(changed.to_bytes()), least_security=1, **given)


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with CpuBackend(threads=2) as backend:
        one = OneProofs(backend)
        fibonacci = [load_program("fibonacci", {"rows": 16, "first": first}) for first in range(COUNT - 1)]
        checked = one.prove(load_program("range-check", {"values": 8, "bits": 4}), partitions=2)
        first, *others = map(one.prove, fibonacci)
        proofs = [first, checked, *others]
        verifiers = [own.verifier for own in trusted(proofs)]
        made = aggregate_jobs(proofs, verifiers, MAKERS, backend)
        yield Jobs(proofs, roots_of(made, verifiers, MAKERS), made, backend)


def bound(job: Proof, partitions: Sequence[Any] | None = None, **whole: Any) -> Proof:
    """The job with other partitions, or another sum or proof, whose digests fit."""
    listed = job.partitions if partitions is None else partitions
    return Proof.bind("stark", job.key_digest, job.verification_key, listed, {**(job.whole or {}), **whole})


def test_five_jobs_in_one_proof_state_what_each_states(jobs: Jobs) -> None:
    verified = verify(StarkAggregate.from_bytes(jobs.aggregate.to_bytes()), least_security=1)
    for own, proof in zip(verified.jobs, jobs.proofs, strict=True):
        alone = distprove.verify(proof, least_security=1)
        assert replace(own, seconds=0) == replace(alone, seconds=0)
    assert [job.proven["program"] for job in verified.jobs] == ["fibonacci", "range-check", *["fibonacci"] * 3]
    assert verified.jobs[3].proven["says"]["starts with"] == "2, 1"
    assert [layer.proofs for layer in verified.explained.layers] == [3, 1]
    least = [job.proven["security"]["bits"] for job in verified.jobs]
    assert verified.explained.bits == min(*least, bits_of(verified.explained.layers)) >= 1
    with pytest.raises(InvalidProof, match="bits of security"):
        verify(jobs.aggregate, least_security=2)


def test_an_aggregate_takes_less_than_its_jobs(jobs: Jobs) -> None:
    content = jobs.aggregate.to_bytes()
    assert len(content) < 2 * max(len(proof.to_bytes()) for proof in jobs.proofs)
    assert StarkAggregate.from_bytes(content) == jobs.aggregate


def test_the_work_for_all_jobs_is_bounded_before_any_key_is_made(jobs: Jobs) -> None:
    """Each job alone is within the bound. Jobs of one key and form count once."""
    verifiers = [own.verifier for own in trusted(jobs.proofs)]
    each = {(root.key.digest, root.leaves): tree_wires(root.key, root.leaves) for root in jobs.roots}
    assert len(each) < len(jobs.roots)
    most = sum(each.values())
    assert max(each.values()) < most - 1
    roots_of(jobs.aggregate, verifiers, MAKERS, most)
    never = KeyMakers(lambda *_: pytest.fail("a key is made"), lambda *_: pytest.fail("a key is made"))
    with pytest.raises(TooMuchWork, match=f"5 jobs need circuits of some {most} wires"):
        verify_aggregate(jobs.aggregate, verifiers, never, most - 1)
    with pytest.raises(TooMuchWork, match="--tree-wires"):
        jobs.check(tree_wires=1)


# -- other jobs beside the proof --------------------------------------------------------------------------------------


def first_public(job: Proof) -> Proof:
    first, *others = job.partitions
    return bound(job, [replace(first, public=(*first.public[:-1], first.public[-1] ^ 1)), *others])


def first_data(name: str) -> Callable[[Proof], Proof]:
    def change(job: Proof) -> Proof:
        first, *others = job.partitions
        value = first.data[name]
        return bound(job, [replace(first, data={**first.data, name: bytes([value[0] ^ 1]) + value[1:]}), *others])

    return change


def renamed(job: Proof) -> Proof:
    return bound(job, [replace(job.partitions[0], name="part-000x"), *job.partitions[1:]])


ON_JOBS: dict[str, Callable[[list[Proof]], list[Proof]]] = {
    "swapped": lambda j: [j[2], j[1], j[0], *j[3:]],
    "swapped across leaves": lambda j: [j[4], *j[1:4], j[0]],
    "other program first": lambda j: [j[1], j[0], *j[2:]],
    "left out": lambda j: j[:-1],
    "left out within": lambda j: [*j[:2], *j[3:]],
    "doubled": lambda j: [*j, j[0]],
    "doubled in place": lambda j: [*j[:4], j[3]],
    "public": lambda j: [first_public(j[0]), *j[1:]],
    "root": lambda j: [first_data("root")(j[0]), *j[1:]],
    "anchor": lambda j: [first_data("anchor")(j[0]), *j[1:]],
    "name": lambda j: [renamed(j[0]), *j[1:]],
    "sum": lambda j: [bound(j[0], sum=bytes([1]) + bytes(23)), *j[1:]],
    "partition left out": lambda j: [j[0], bound(j[1], j[1].partitions[:1]), *j[2:]],
    "partitions swapped": lambda j: [j[0], bound(j[1], j[1].partitions[::-1]), *j[2:]],
    "public of the last": lambda j: [*j[:-1], first_public(j[-1])],
}


@pytest.mark.parametrize("change", ON_JOBS)
def test_the_proof_binds_the_jobs(jobs: Jobs, change: str) -> None:
    """The proof holds for no other list: its root would have to state another digest."""
    changed = ON_JOBS[change](list(jobs.aggregate.jobs))
    assert [job.binding for job in changed] != [job.binding for job in jobs.aggregate.jobs]
    why = "a job is given twice" if "doubled" in change else "node: a layer of the buses' fractions does not sum"
    with pytest.raises(InvalidProof, match=why):
        jobs.check(changed)
    assert not second_accepts(jobs, changed)


def second_accepts(jobs: Jobs, changed: Sequence[Proof] | None = None) -> bool:
    """Whether the second verifier accepts the aggregate's proof for these jobs."""
    listed = list(jobs.aggregate.jobs if changed is None else changed)
    try:
        given = [second_job(job) for job in listed]
        roots = roots_of(StarkAggregate(tuple(listed), {}), [own.verifier for own in trusted(listed)], MAKERS)
        keys = MAKERS.jobs_keys(roots)
        leaves = [leaf.to_record() for leaf in keys.leaves]
        second.verify_jobs(keys.root.to_record(), keys.node.to_record(), leaves, jobs.aggregate.proof, given)
    except (Refused, InvalidProof, FormatError):
        return False
    return True


def second_job(job: Proof) -> tuple[second.JobKeys, Sequence[int], Sequence[second.Listed], bytes | None]:
    key: Any = trusted([job])[0].verifier.key
    kinds = kinds_of_listed(key, job.partitions)
    leaves = [MAKERS.node_key(key, kind).to_record() for kind in kinds.values() if kind.is_leaf]
    root, node = (MAKERS.node_key(key, kinds[ROOT].of_role(role)).to_record() for role in (ROOT, INNER))
    partitions = [
        (c.name, list(encode_heights(c.log_heights)), list(c.public), c.main_root, c.anchors)
        for c in commitments_of(job.partitions)
    ]
    total = sum_in((job.whole or {})["sum"])
    return second.JobKeys(root, node, leaves, key.to_record()), total, partitions, job.output


def test_the_second_verifier_accepts(jobs: Jobs) -> None:
    assert second_accepts(jobs)


# -- proofs in the place of others ------------------------------------------------------------------------------------


def test_an_aggregate_is_no_jobs_proof_and_a_jobs_proof_no_aggregate(jobs: Jobs) -> None:
    """Even where both have the same key: they state other things."""
    keys = MAKERS.jobs_keys(jobs.roots)
    assert keys.root.digest == jobs.roots[0].root.digest
    first = jobs.proofs[0]
    with pytest.raises(InvalidProof, match="node: "):
        distprove.verify(bound(first, proof=jobs.aggregate.proof), least_security=1)
    with pytest.raises(InvalidProof, match="node: "):
        jobs.check(proof=(first.whole or {})["proof"])


def test_an_aggregate_of_aggregates_states_no_job(jobs: Jobs) -> None:
    """An aggregate's proof fits in the place of a job's root, whose key it has, and states another list there."""
    stated = jobs_statement(MAKERS.jobs_keys(jobs.roots), jobs.roots)
    posing = replace(jobs.roots[0], stated=stated)
    proof = prove_jobs([posing, jobs.roots[1]], [jobs.aggregate.proof, _record(jobs.proofs[1])], jobs.backend, Steps())
    with pytest.raises(InvalidProof, match="node: "):
        jobs.check(jobs.aggregate.jobs[:2], proof.to_record())


def _record(proof: Proof) -> dict[str, Any]:
    record: dict[str, Any] = (proof.whole or {})["proof"]
    return record


def proven(jobs: Jobs, number: int) -> Proven:
    root = jobs.roots[number]
    proof, _ = MultilinearProof.from_record(_record(jobs.proofs[number]), root.root, NODE)
    return Proven(NODE, root.stated.scalars(), proof, root.identity)


def faults_with(jobs: Jobs, count: int = 3, **changed: Sequence[int]) -> list[str]:
    """The faults of the circuit of a leaf over the first jobs with some fields changed, when the digest that it states
    fits the others. `child_0_key` is the field "0.key"."""
    places, children = places_of(jobs.roots[:count])[0], [proven(jobs, number) for number in range(count)]
    node = Identity.of(MAKERS.jobs_keys(jobs.roots).node)
    stated = stated_by(places, children, NODE_CHALLENGE, node)
    fields = dict(node_fields(places, children, stated))
    for name, values in changed.items():
        place = name.replace("child_", "").replace("_", ".", 1) if name.startswith("child_") else name
        assert not np.array_equal(fields[place], np.array(values, dtype=np.uint64)), "a change"
        fields[place] = np.array(values, dtype=np.uint64)
    return evaluate(leaf_circuit(jobs, count), fields, node_trees(places, children)).faults


_CIRCUITS: dict[int, Any] = {}


def leaf_circuit(jobs: Jobs, count: int) -> Any:
    if count not in _CIRCUITS:
        _CIRCUITS[count] = node_circuit(places_of(jobs.roots[:count])[0])
    return _CIRCUITS[count]


def test_what_a_leaf_over_jobs_is_told_of_them(jobs: Jobs) -> None:
    """Their number, their keys and public values go into the digest, and the proofs are verified under these."""
    assert faults_with(jobs) == []
    other = "the children are not those of the stated digest"
    assert faults_with(jobs, child_2_present=[0]) == [other] * 4
    assert faults_with(jobs, child_3_present=[1]) == [other] * 4
    assert "present is neither 0 nor 1" in faults_with(jobs, child_2_present=[2])
    key, public = jobs.roots[1].identity.scalars(), jobs.roots[1].stated.scalars()
    for name, values in (("key", key), ("public", public)):
        for place in (0, len(values) - 1):
            changed = [*values[:place], (values[place] + 1) % P, *values[place + 1 :]]
            found = faults_with(jobs, **{f"child_1_{name}": changed})
            assert other in found
            assert set(found) - {other}, "the child's proof does not hold under another key or statement"


def test_a_tree_over_jobs_states_no_challenge_and_no_sum(jobs: Jobs) -> None:
    """No job's root does: its challenge is a digest."""
    found = faults_with(jobs, challenge=[1, *[0] * 7])
    assert found == ["a tree over jobs has no challenge of a job"]
    assert faults_with(jobs, sum=[0, 1, 0]) == ["the global buses have another sum than is stated"]
    assert all(any(root.stated.challenge) for root in jobs.roots)


def test_a_root_under_another_key_or_of_another_job(jobs: Jobs) -> None:
    """A prover with a proof for each place, one of them of another job or under another key, makes no leaf."""
    keys = JobsKeys(jobs.roots, jobs.backend)
    program = NodeProgram(places_of(jobs.roots[:2])[0], keys.frame)
    first, checked = proven(jobs, 0), proven(jobs, 1)
    assert first.key is not None
    strange = replace(first.key, root=first.key.root[8:] + first.key.root[:8])
    program.inputs_of([first, checked], NODE_CHALLENGE, keys.identity)
    for children in (
        [replace(first, proof=checked.proof), checked],
        [first, replace(checked, public=first.public)],
        [first, replace(checked, key=strange)],
        [first, replace(checked, key=Identity.of(MAKERS.jobs_keys(jobs.roots).node))],
    ):
        with pytest.raises(InvalidProof, match="the circuit is not satisfied"):
            program.inputs_of(children, NODE_CHALLENGE, keys.identity)


def test_lists_of_jobs_and_of_nodes_have_domains_of_their_own(jobs: Jobs) -> None:
    words = [root.words for root in jobs.roots[:4]]
    assert list_digest(words, 4, JOBS) != list_digest(words, 4, LIST)
    child = jobs.roots[0].child
    assert name_of([child]) != name_of([replace(child, of_job=False)])
    assert child.form != replace(child, of_job=False).form
    with pytest.raises(AssertionError, match="roots of jobs"):
        node_circuit([child, replace(child, of_job=False)])


def test_a_leaf_over_jobs_is_none_over_nodes(jobs: Jobs) -> None:
    """Its key is none of a job's tree, although both have one frame."""
    keys = JobsKeys(jobs.roots, jobs.backend)
    leaf, node = MAKERS.jobs_keys(jobs.roots).leaves[0], MAKERS.jobs_keys(jobs.roots).node
    assert keys.frame.log_heights == dict(zip([t.name for t in leaf.tables], leaf.fixed_heights, strict=True))
    assert {**leaf.to_record(), "preprocessed_root": b""} == {**node.to_record(), "preprocessed_root": b""}
    assert leaf.digest != node.digest
    program = NodeProgram(places_of(jobs.roots)[0], keys.frame)
    with pytest.raises(InvalidProof):
        program.inputs_of([replace(proven(jobs, 0), key=None)], NODE_CHALLENGE, keys.identity)


class OtherRoots(OneProofs):
    """Its jobs' roots have other parameters than a job's own."""

    def _keys(self, key: MultilinearKey, kind: Kind) -> TreeKeys:
        keys = super()._keys(key, kind)
        keys.params = replace(keys.params, root=replace(keys.params.root, log_blowup=2))
        self.root = keys.root.key
        return keys


def test_roots_of_different_parameters_in_one_leaf(jobs: Jobs) -> None:
    """Its circuit has a part for each form."""
    one = OtherRoots(jobs.backend)
    proof = one.prove(load_program("fibonacci", {"rows": 16, "first": 9}))
    whole: dict[str, Any] = proof.whole or {}
    root = JobRoot.of(
        jobs.roots[0].key,
        lambda key, kind: one.root if kind.role == ROOT else MAKERS.node_key(key, kind),
        proof.partitions,
        whole["sum"],
        None,
    )
    other = Proven(
        NODE, root.stated.scalars(), MultilinearProof.from_record(whole["proof"], root.root, NODE)[0], root.identity
    )
    roots, children = [jobs.roots[1], root, jobs.roots[0]], [proven(jobs, 1), other, proven(jobs, 0)]
    assert root.child.form != jobs.roots[0].child.form == jobs.roots[1].child.form
    program = NodeProgram(places_of(roots)[0], jobs_tree(roots)[1])
    node = Identity.of(MAKERS.jobs_keys(jobs.roots).node)
    program.inputs_of(children, NODE_CHALLENGE, node)
    for changed in ([children[1], children[0], children[2]], [children[0], children[2], children[1]]):
        with pytest.raises(InvalidProof, match="the circuit is not satisfied"):
            program.inputs_of(changed, NODE_CHALLENGE, node)
    swapped = [children[2], children[1], children[0]]
    assert program.inputs_of(swapped, NODE_CHALLENGE, node)["stated"].tolist() != jobs_list(program, children, node)


def jobs_list(program: NodeProgram, children: Sequence[Proven], node: Identity) -> list[int]:
    """What a leaf over these jobs states."""
    return list(stated_by(program.children, children, NODE_CHALLENGE, node).scalars())


def test_jobs_in_whose_frames_no_leaf_over_jobs_fits(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree over them has a frame of its own."""
    leaf = kept_rows(places_of(jobs.roots)[0])
    params, frame = jobs_tree(jobs.roots)
    assert frame.has_room(leaf)
    low = Frame(dict.fromkeys(frame.log_heights, 4))
    monkeypatch.setattr("distprove.stark.recursion.jobs_keys.chosen_tree", lambda key, leaves: (params, low))
    params, frame = jobs_tree(jobs.roots)
    assert frame.has_room(leaf)
    assert frame.has_room(kept_rows([node_child(frame, params.nodes)] * 4))


# -- jobs that have no aggregate --------------------------------------------------------------------------------------


def test_jobs_of_different_bits_or_too_many(jobs: Jobs) -> None:
    first, other = (root.key for root in jobs.roots[:2])
    for changed in ({"security_bits": 2}, {"grinding_bits": 3}):
        params = replace(other.params, **changed)  # type: ignore[arg-type]
        with pytest.raises(InvalidProof, match="the same bits of security and of work; these for 1 bit with 0 of"):
            check_together([first, with_params(other, params)])
    for wrong in ([first], [first] * (MOST_JOBS + 1)):
        with pytest.raises(InvalidProof, match="2 to 64 jobs"):
            check_together(wrong)
    keccak = with_params(other, replace(other.params, tree_hash=TreeHash.KECCAK))
    with pytest.raises(InvalidProof, match="Poseidon2 alone"):
        check_together([first, keccak])
    check_together([first, other])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda p: replace(p, whole=None), "job 2 has a proof for each partition.*--one-proof"),
        (lambda p: replace(p, system="groth16"), "job 2 is of groth16"),
        (lambda p: bound(p, sum=bytes([1]) + bytes(23)), "job 2: "),
        (lambda p: None, "2 to 64 jobs"),
    ],
    ids=["no one proof", "groth16", "false", "one job"],
)
def test_proofs_that_cannot_be_aggregated(jobs: Jobs, change: Callable[[Proof], Proof | None], why: str) -> None:
    proofs = [p for p in (jobs.proofs[0], change(jobs.proofs[1])) if p is not None]
    verifiers = [own.verifier for own in trusted(jobs.proofs[: len(proofs)])]
    with pytest.raises(DistproveError, match=why):
        aggregate_jobs(proofs, verifiers, MAKERS, jobs.backend)


def test_keys_and_programs_are_for_the_jobs_that_have_them(jobs: Jobs, tmp_path: Path) -> None:
    aggregate, own = jobs.aggregate, tmp_path / "key.msgpack"
    own.write_bytes(key_content(jobs.roots[1].key))
    given = verify(aggregate, vks=[own], least_security=1)
    assert [job.key_given for job in given.jobs] == [False, True, False, False, False]
    named = verify(aggregate, program=OwnProgram("range-check", {"bits": 4}), least_security=1)
    assert [job.own_program for job in named.jobs] == ["", "range-check", "", "", ""]
    digests = [job.job_digest for job in aggregate.jobs]
    verify(aggregate, expected_jobs=digests[::-1], least_security=1)
    for wrong, why in (
        ({"program": OwnProgram("range-check", {"bits": 5})}, "job 2: the proof is of range-check"),
        ({"program": OwnProgram("wide-fibonacci", {})}, "no job is of the program"),
        ({"expected_jobs": digests[:4]}, "other jobs than those expected"),
        ({"expected_jobs": [*digests[:4], digests[0]]}, "other jobs than those expected"),
    ):
        with pytest.raises(InvalidProof, match=why):
            verify(aggregate, least_security=1, **wrong)  # type: ignore[arg-type]
    strange = with_params(jobs.roots[1].key, replace(jobs.roots[1].key.params, security_bits=2))
    own.write_bytes(key_content(strange))
    with pytest.raises(InvalidProof, match="no job is under the key of"):
        verify(aggregate, vks=[own], least_security=1)
    for usage in ({"exit_code": 1}, {"public_input": b""}):
        with pytest.raises(UsageError, match="of the jobs"):
            verify(aggregate, least_security=1, **usage)  # type: ignore[arg-type]
    unknown = {**aggregate.jobs[1].verification_key, "program": "nobodys"}
    with pytest.raises(InputError, match="job 2: the program 'nobodys' does not ship"):
        jobs.check([aggregate.jobs[0], replace(aggregate.jobs[1], verification_key=unknown), *aggregate.jobs[2:]])


# -- the file, the command and the API --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda top: top | {"version": 2},
        lambda top: top | {"more": 1},
        lambda top: top | {"jobs": top["jobs"][:1]},
        lambda top: top | {"jobs": top["jobs"][::-1]},
        lambda top: top | {"binding": bytes(32)},
        lambda top: top | {"proof": {**top["proof"], "nonces": []}},
        lambda top: top | {"jobs": [top["jobs"][0] | {"output": 1}, *top["jobs"][1:]]},
        lambda top: top | {"jobs": [top["jobs"][0] | {"output": b"x"}, *top["jobs"][1:]]},
        lambda top: top | {"jobs": [top["jobs"][0] | {"digest": bytes(32)}, *top["jobs"][1:]]},
        lambda top: top | {"jobs": [top["jobs"][0] | {"key": bytes(31)}, *top["jobs"][1:]]},
        lambda top: top | {"jobs": [top["jobs"][0] | {"partitions": []}, *top["jobs"][1:]]},
        lambda top: top | {"jobs": [1, *top["jobs"][1:]]},
        lambda top: top["jobs"],
    ],
)
def test_a_changed_file_is_refused(jobs: Jobs, change: Callable[[Any], Any]) -> None:
    top = change(canonical.decode(jobs.aggregate.to_bytes(), "aggregate"))
    with pytest.raises((FormatError, InvalidProof)):
        StarkAggregate.from_bytes(canonical.encode(top))


def test_an_output_beside_a_job_without(jobs: Jobs) -> None:
    first, *others = jobs.aggregate.jobs
    with pytest.raises(InvalidProof, match="job 1: it comes with an output"):
        jobs.check([replace(first, output=b"x"), *others])


OUTPUT = b"an output of a job"


@pytest.fixture(scope="module")
def both(jobs: Jobs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file `a` of a job, the run `b` of one whose program does not ship and which has an output and
    global buses, and the file `both` that the command makes of them."""
    folder = tmp_path_factory.mktemp("both")
    run, args = folder / "b", ("aggregate", folder / "a", folder / "b", "--out", folder / "both", *CPU)
    jobs.proofs[0].write(folder / "a")
    one = OneProofs(jobs.backend)
    proof = one.prove(Writes(OUTPUT), partitions=2)
    assert any((proof.whole or {})["sum"])
    run.mkdir()
    proof.write(run / PROOF_FILE)
    (run / OUTPUT_FILE).write_bytes(OUTPUT)
    assert KEY_FILE in why_refused(command(*args))
    (run / KEY_FILE).write_bytes(key_content(one.key(proof)))
    done = command(*args, "--json")
    assert done.exit_code == 0, done.output
    digests = [own.job_digest.hex() for own in (jobs.proofs[0], proof)]
    assert json.loads(done.stdout)["jobs"] == digests
    return folder


def test_commands_aggregate_and_verify_jobs(both: Path) -> None:
    """`verify` tells of each job what it does of the job's own proof."""
    a, b, out = (both / name for name in ("a", "b", "both"))
    digests = [job.job_digest.hex() for job in StarkAggregate.read(out).jobs]
    few, vk = ("--security", "1"), ("--vk", b / KEY_FILE)
    told = command("verify", out, *few, *vk, *(word for digest in digests for word in ("--job", digest)), "--json")
    assert told.exit_code == 0, told.output
    said = json.loads(told.stdout)
    assert said["status"] == "verified"
    assert said["bits"] >= 1
    for own, args in zip(said["jobs"], ((a,), (b, *vk)), strict=True):
        alone = json.loads(command("verify", *args, *few, "--json").stdout)
        assert {"status": "verified", **own} == {**alone, "job_digest_given": True, "seconds": own["seconds"]}
    shown = " ".join(command("verify", out, *few, *vk, "--show-public").stdout.split())
    told_of = (
        "2 jobs in one proof",
        "job 1",
        "job 2",
        "fibonacci(rows = 16)",
        "over the jobs, node",
        "part-1: ",
        "given:",
    )
    for text in (*told_of, OUTPUT.decode()):
        assert text in shown
    assert command("verify", out, *vk).exit_code == 1  # of few bits
    assert command("verify", out, *few, *vk, "--job", digests[0]).exit_code == 1
    assert "job 2: the program 'test-writes' does not ship" in why_refused(command("verify", out, *few))
    assert "not for one proof of several jobs" in why_refused(command("verify", out, "--output", a))
    assert "more than one --vk" in why_refused(command("verify", a, *vk, *vk))


def test_the_api_aggregates_and_verifies_jobs(both: Path) -> None:
    a, b, out = (both / name for name in ("a", "b", "both"))
    again = distprove.verify_aggregate(out, vks=[b / KEY_FILE], least_security=1)
    assert [job.proven["program"] for job in again.jobs] == ["fibonacci", "test-writes"]
    with pytest.raises(UsageError, match="there already"):
        distprove.aggregate([a, b], out=out)
    with pytest.raises(UsageError, match="overwritten"):
        distprove.aggregate([a, b], out=b / PROOF_FILE, overwrite=True)
    for use in (distprove.verify, lambda path: distprove.aggregate([path, a], out=both / "more")):
        with pytest.raises(FormatError, match=PROOF_FILE):
            use(out)


def test_the_output_and_the_buses_of_a_job(both: Path) -> None:
    aggregate = StarkAggregate.read(both / "both")
    first, writes = aggregate.jobs
    assert writes.output == OUTPUT
    for changed, why in (
        (replace(writes, output=None), "job 2: every partition's proof holds by itself"),
        (replace(writes, output=OUTPUT[:-1]), "job 2: the job states an output of 18 bytes"),
        (
            replace(writes, output=OUTPUT[::-1]),
            "job 2: the output beside the proof, or given, is not the one that the job states",
        ),
        (replace(bound(writes, sum=bytes(24)), output=OUTPUT), "node: "),
    ):
        with pytest.raises((InvalidProof, OutputMissing), match=why):
            verify(StarkAggregate((first, changed), aggregate.proof), vks=[both / "b" / KEY_FILE], least_security=1)


def test_commands_refuse_what_has_no_aggregate(jobs: Jobs, tmp_path: Path) -> None:
    one, plain, other, out = (tmp_path / name for name in ("one", "plain", "other", "out"))
    jobs.proofs[0].write(one)
    replace(jobs.proofs[1], whole=None).write(plain)
    Proof.bind("groth16", bytes(32), {}, jobs.proofs[1].partitions).write(other)
    for given, why in (
        ((one, other), "proofs of groth16 and stark have no aggregate in common"),
        ((one, plain), "job 2 has a proof for each partition"),
        ((one, one), "a job is given twice"),
        ((one,), "2 to 64 jobs"),
        ((one, one, "--srs", plain), "--srs, --statement and --bellperson are for Groth16"),
        ((other, "--vk", plain), "--vk is for STARK jobs"),
        ((other,), "under --srs"),
    ):
        assert why in why_refused(command("aggregate", *given, "--out", out, "--backend", "cpu"))
    assert not out.exists()
