"""Trees of nodes: a job becomes one proof, and what a cheating prover could put into it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.stark.barrier import Commitment
from distprove.stark.field import P
from distprove.stark.heights import encode_heights
from distprove.stark.merkle import TreeClaim
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.proving_key import MultilinearProvingKey
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.program import Trace
from distprove.stark.recursion.circuit import WORDS
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.node import (
    OCTETS,
    Identity,
    Proven,
    list_digest,
    node_fields,
    node_statement,
    node_trees,
    node_words,
    stated_by,
)
from distprove.stark.recursion.plan import Form, TreeNode, in_fours, leaf_forms, leaf_places, leaves_of, plan_tree
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.root import root_statement, verify_root
from distprove.stark.recursion.security import tree_layers
from distprove.stark.recursion.tree import TreeKeys, TreeParameters, frame_of, node_child, segments_of
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.cpu.poseidon2 import DIGEST
from kernels.interface.tree_hash import TreeHash
from tests.support import plain_evaluation
from tests.support import second_root_verifier as second
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.second_verifier import Refused
from tests.support.stark_programs import Fibonacci, Ring

SMALL = Parameters(1, 2, (2,) * 8, 2, 0, log_final=2, tree_hash=TreeHash.POSEIDON2)
NODES = Parameters(1, 4, (1,) * 8, 2, 0, log_final=3, tree_hash=TreeHash.POSEIDON2)
ROOT = Parameters(2, 4, (1,) * 8, 2, 0, log_final=3, tree_hash=TreeHash.POSEIDON2_BINARY)
"""Not for use: parameters of little work."""


def segments(job: MultilinearJob) -> list[Proven]:
    parsed = [(own, MultilinearProof.from_record(own.data, job.key, own.name)[0]) for own in job.proofs]
    return [Proven(own.name, tuple(own.public), proof) for own, proof in parsed]


def listed(proven: Sequence[Proven]) -> list[Commitment]:
    return [own.proof.commitment(own.name, own.public) for own in proven]


def forms_of(proven: Sequence[Proven]) -> list[Form]:
    return [Form(own.proof.log_heights, len(own.name)) for own in proven]


@dataclass(frozen=True)
class Tree:
    job: MultilinearJob
    keys: TreeKeys
    segments: list[Proven]
    nodes: list[Proven]
    plan: Sequence[TreeNode]

    @classmethod
    def of(cls, job: MultilinearJob, backend: CpuBackend) -> Tree:
        given = segments(job)
        tallest = max(leaves_of(forms_of(given)), key=lambda leaf: [form.log_heights for form in leaf])
        frame = frame_of(job.key, tallest, NODES)
        keys = TreeKeys(job.key, TreeParameters(NODES, ROOT), frame, backend)
        made = {own.name: own for own in given}
        plan = plan_tree({own.name: own.proof.log_heights for own in given})
        for node in plan:
            children = [made[name] for name in node.children]
            made[node.name] = keys.prove(node, children, given[0].proof.challenge, Steps())
            keys.verify(node, made[node.name], children)
        return cls(job, keys, given, [made[node.name] for node in plan], plan)

    @property
    def proven(self) -> Proven:
        return self.nodes[-1]

    def check(self, **changed: object) -> None:
        """Verify the root, with some of what stands beside it changed."""
        given: dict[str, object] = {
            "record": canonical.decode(canonical.encode(self.proven.proof.to_record()), "root"),
            "total": node_statement(self.proven.public)[1],
            "partitions": listed(self.segments),
            **changed,
        }
        verify_root(self.keys.verifying(given["partitions"]), **given)  # type: ignore[arg-type]

    def second_accepts(self, **changed: object) -> bool:
        """Whether the second verifier accepts the root, with some of what stands beside it changed."""
        given: dict[str, object] = {
            "total": node_statement(self.proven.public)[1],
            "partitions": listed(self.segments),
            **changed,
        }
        partitions = [
            (c.name, list(encode_heights(c.log_heights)), list(c.public), c.main_root, c.anchors)
            for c in given["partitions"]  # type: ignore[attr-defined]
        ]
        record = canonical.decode(canonical.encode(self.proven.proof.to_record()), "root")
        forms = forms_of(self.segments)
        leaves = [self.keys.leaf(leaf) for leaf in leaves_of(forms)]
        keys = [self.keys.root.key, self.keys.node.key, self.job.key, *[leaf.key for leaf in leaves]]
        root, node, key, *leaf = (each.to_record() for each in keys)
        try:
            second.verify_root(root, node, leaf, record, given["total"], key, partitions)  # type: ignore[arg-type]
        except Refused:
            return False
        return True


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    """Five partitions with global buses: two leaves, one of them of one partition, a node, and the root."""
    with CpuBackend() as backend:
        yield Tree.of(prove_program(Ring(3), partitions=5, params=SMALL), backend)


def test_a_job_of_five_segments_ends_in_one_proof(tree: Tree) -> None:
    tree.check()
    assert tree.second_accepts()


class TwoHeights(Ring):
    """Each third partition has twice the rows."""

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        own = int(backend.to_host(inputs["facts"])[0])
        return Ring(4 if own % 3 == 1 else 3).trace(inputs, backend)


class TwoHeightsWithoutBuses(Fibonacci):
    """Each third partition has twice the rows. Nothing but the job's challenge ties the partitions together."""

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        own = int(backend.to_host(inputs["seed"])[0])
        return Fibonacci(4 if own % 3 == 2 else 3).trace(inputs, backend)


@pytest.fixture(scope="module", params=[TwoHeights, TwoHeightsWithoutBuses])
def mixed(request: pytest.FixtureRequest) -> Iterator[Tree]:
    """Seven partitions of one form have two leaves, and three of the other one leaf, which is not over consecutive
    ones."""
    with CpuBackend() as backend:
        yield Tree.of(prove_program(request.param(), partitions=10, params=SMALL), backend)


def test_partitions_of_two_forms_end_in_one_proof(mixed: Tree) -> None:
    mixed.check()
    assert mixed.second_accepts()
    numbers = [[int(name.rpartition("-")[2]) for name in node.children] for node in mixed.plan if node.is_leaf]
    assert numbers == [[0, 2, 3, 5], [1, 4, 7], [6, 8, 9]]


def test_the_root_binds_the_order_of_partitions_of_two_forms(mixed: Tree) -> None:
    """Leaves and their digests stay the same where 7 and 8 are swapped, which are of different forms. So they do where
    the list has the order of the leaves. Then the job's challenge is another."""
    own = listed(mixed.segments)
    by_leaf = [own[number] for leaf in leaf_places(forms_of(mixed.segments)) for number in leaf]
    orders = [by_leaf, [*own[1:], own[0]], own[::-1]]
    for one, other in combinations(range(len(own)), 2):
        orders.append([*own])
        orders[-1][one], orders[-1][other] = own[other], own[one]
    for order in orders:
        with pytest.raises(InvalidProof):
            mixed.check(partitions=order)
    stated, total = mixed.proven.public, node_statement(mixed.proven.public)[1]
    for order in ([*own[:7], own[8], own[7], own[9]], by_leaf):
        found = root_statement(mixed.keys.verifying(order), total, order, None).scalars()
        assert found[OCTETS:] == stated[OCTETS:]
        assert found[:OCTETS] != stated[:OCTETS], "another job"
        assert not mixed.second_accepts(partitions=order)


def test_the_root_binds_which_partitions_of_two_forms_there_are(mixed: Tree) -> None:
    """Each left out, and each twice: in place of another, or at the end under a name of its own."""
    own = listed(mixed.segments)
    changed = [[*own[:number], *own[number + 1 :]] for number in range(len(own))]
    changed += [[*own[:number], own[number - 1], *own[number + 1 :]] for number in range(len(own))]
    changed += [[*own, replace(each, name="part-x")] for each in own]
    for partitions in changed:
        with pytest.raises(InvalidProof):
            mixed.check(partitions=partitions)
    assert not mixed.second_accepts(partitions=changed[1])


@pytest.mark.parametrize("number", [1, 6, 9])
def test_partitions_of_another_form_than_was_proven(mixed: Tree, number: int) -> None:
    """Heights and the length of a name decide under which leaf a partition is. The keys of all leaves stay the same if
    partition 1 is said to be lower: an absent place has the form of the first one."""
    own = listed(mixed.segments)
    (height, *others), name = own[number].log_heights, own[number].name
    assert height is not None
    for form in ({"log_heights": (7 - height, *others)}, {"name": name + "0"}, {"name": name[:-1]}):
        changed = [*own[:number], replace(own[number], **form), *own[number + 1 :]]
        with pytest.raises(InvalidProof):
            mixed.check(partitions=changed)


def test_a_tree_over_consecutive_partitions_is_none_over_partitions_of_two_forms(
    mixed: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof over consecutive leaves, the layout of before, is refused and not read in another way."""

    def consecutive(forms: Sequence[Form]) -> list[tuple[int, ...]]:
        return list(map(tuple, in_fours(range(len(forms)))))

    with CpuBackend() as backend:
        with monkeypatch.context() as patched:
            for module in ("plan", "root"):
                patched.setattr(f"distprove.stark.recursion.{module}.leaf_places", consecutive)
            older = Tree.of(mixed.job, backend)
            older.check()
        with pytest.raises(InvalidProof):
            older.check()
        assert not older.second_accepts()


@pytest.mark.parametrize("count", [1, 4, 5, 16, 17, 70])
def test_a_tree_has_each_partition_once_and_in_order(count: int) -> None:
    partitions = [f"part-{i}" for i in range(count)]
    nodes = plan_tree(dict.fromkeys(partitions, (4,)))
    assert len({node.name for node in nodes}) == len(nodes)
    known, below = {node.name: node for node in nodes}, [nodes[-1].name]
    assert len(nodes[-1].children) == 1
    while below[0] in known:
        assert all(1 <= len(known[name].children) <= 4 for name in below)
        below = [child for name in below for child in known[name].children]
    assert below == partitions
    places = {node.name: i for i, node in enumerate(nodes)}
    assert all(places.get(child, -1) < places[node.name] for node in nodes for child in node.children)


@pytest.mark.parametrize(
    ("forms", "leaves"),
    [
        ("aaaaa", [(0, 1, 2, 3), (4,)]),
        ("abcd", [(0, 1, 2, 3)]),
        ("aaab", [(0, 1, 2, 3)]),
        ("aabaaabbb", [(0, 1, 3, 4), (2, 6, 7, 8), (5,)]),
        ("cabababab", [(0,), (1, 3, 5, 7), (2, 4, 6, 8)]),
        ("caaaabbbb", [(0,), (1, 2, 3, 4), (5, 6, 7, 8)]),
        ("cdaaaacce", [(0, 1, 6, 7), (2, 3, 4, 5), (8,)]),
    ],
)
def test_four_partitions_of_one_form_have_leaves_of_their_own(forms: str, leaves: list[tuple[int, ...]]) -> None:
    assert leaf_places([Form((ord(form) - 90,), 6) for form in forms]) == leaves
    assert second.below_leaves([((ord(form) - 90,), 6) for form in forms]) == [list(leaf) for leaf in leaves]
    named = {f"part-{number}": (ord(form) - 90,) for number, form in enumerate(forms)}
    made = [node.children for node in plan_tree(named) if node.is_leaf]
    assert made == [tuple(f"part-{number}" for number in leaf) for leaf in leaves]


def spoiled(trees: list[TreeClaim], number: int) -> list[TreeClaim]:
    """The openings, of which one has a node more than the queries meet."""
    claim = trees[number]
    path = np.concatenate([claim.opening.path, claim.opening.path[:1]])
    made = replace(claim, opening=replace(claim.opening, path=path))
    return [*trees[:number], made, *trees[number + 1 :]]


@pytest.mark.parametrize("changed", [(), ("1.totals",), ("3.folds", "list", "0.final"), ("2.rounds", 1, 6)])
def test_children_are_evaluated_at_once_as_one_after_the_other(tree: Tree, changed: tuple[str | int, ...]) -> None:
    """In as many threads as there are, with the same values, and with the same faults in the same order."""
    given = tree.segments[:4]
    program = NodeProgram(segments_of(tree.job.key, leaf_forms(forms_of(given))), tree.keys.frame)
    stated = stated_by(program.children, given, given[0].proof.challenge, tree.keys.identity)
    fields, trees = dict(node_fields(program.children, given, stated)), node_trees(program.children, given)
    for each in changed:
        if isinstance(each, str):
            fields[each] = fields[each] ^ np.uint64(1)
        else:
            trees = spoiled(trees, each)
    assert program.circuit.native.parts == 4
    plain = plain_evaluation.evaluate(program.circuit, fields, trees)
    assert bool(plain.faults) == bool(changed)
    one = evaluate(program.circuit, fields, trees)
    assert one.values.tolist() == [[*value, *[0] * (WORDS - len(value))] for value in plain.values]
    for threads in (1, 2, 3, 4, 9):
        found = evaluate(program.circuit, fields, trees, threads)
        assert (found.faults, found.unfit) == (plain.faults, plain.unfit)
        assert np.array_equal(found.values, one.values)
        assert found.states.tolist() == plain.states
    others = [*given[1:], given[0]]
    stated = stated_by(program.children, others, given[0].proof.challenge, tree.keys.identity)
    before = evaluate(
        program.circuit, node_fields(program.children, others, stated), node_trees(program.children, others)
    )
    assert before.faults == []
    assert not np.array_equal(before.values, one.values)
    found = evaluate(program.circuit, fields, trees, 4, over=before)
    assert (found.values is before.values) == (not changed)
    assert (found.faults, found.unfit) == (plain.faults, plain.unfit)
    assert np.array_equal(found.values, one.values)
    assert found.states.tolist() == plain.states
    if changed:
        kept = one.values.copy()
        again = evaluate(program.circuit, fields, trees, 4, over=one)
        assert again.values is not one.values
        assert np.array_equal(one.values, kept)


def test_a_job_of_one_segment_without_a_global_bus() -> None:
    """The job's challenge binds names and not roots."""
    with CpuBackend() as backend:
        tree = Tree.of(prove_program(Fibonacci(4), partitions=1, params=SMALL), backend)
        tree.check()
        assert tree.second_accepts()
        (only,) = listed(tree.segments)
        for changed in ([], [only, only], [replace(only, main_root=tree.proven.proof.root)]):
            with pytest.raises((InvalidProof, FormatError)):
                tree.check(partitions=changed)
            assert not tree.second_accepts(partitions=changed)


def test_the_root_binds_the_list_of_partitions(tree: Tree) -> None:
    partitions = listed(tree.segments)
    first, two, three, four, five = partitions
    public = (*first.public[:-1], first.public[-1] ^ 1)
    for changed in (
        [two, first, three, four, five],
        [first, two, three, four],
        [first, two, three, four, four],
        [five, two, three, four, first],
        [*partitions, replace(five, name="more")],
        [replace(first, name="part-x"), two, three, four, five],
        [replace(first, public=public), two, three, four, five],
        [replace(first, main_root=bytes([first.main_root[0] ^ 1]) + first.main_root[1:]), two, three, four, five],
        [replace(first, anchors=bytes([first.anchors[0] ^ 1]) + first.anchors[1:]), two, three, four, five],
        [],
    ):
        assert changed != partitions
        with pytest.raises((InvalidProof, FormatError)):
            tree.check(partitions=changed)
        assert not tree.second_accepts(partitions=changed)


@pytest.mark.parametrize("root", [b"", bytes(3), bytes(31), bytes(33), P.to_bytes(8, "little") + bytes(24)])
def test_a_listed_root_has_one_encoding(tree: Tree, root: bytes) -> None:
    """The digest of the list takes words modulo p: x + p for x passed, and 31 bytes were a ValueError."""
    first, *others = listed(tree.segments)
    with pytest.raises(FormatError):
        tree.check(partitions=[replace(first, main_root=root), *others])
    assert not tree.second_accepts(partitions=[replace(first, main_root=root), *others])


def test_the_root_binds_the_sum_of_the_global_buses(tree: Tree) -> None:
    a, b, c = node_statement(tree.proven.public)[1]
    for total in ((a + 1) % P, b, c), (0, 0, 1), (0, 0), (0, 0, 0, 0):
        with pytest.raises((InvalidProof, FormatError)):
            tree.check(total=total)
        assert not tree.second_accepts(total=total)


def test_a_root_under_another_key(tree: Tree) -> None:
    """A leaf's proof is none of the root's, and a root's record cannot name a job of its own."""
    record = canonical.decode(canonical.encode(tree.nodes[0].proof.to_record()), "leaf")
    with pytest.raises((InvalidProof, FormatError)):
        tree.check(record=record)
    own = canonical.decode(canonical.encode(tree.proven.proof.to_record()), "root")
    with pytest.raises(InvalidProof, match="no job of its own"):
        tree.check(record={**own, "challenge": bytes([1]) + bytes(31)})


def refused(tree: Tree, key: MultilinearProvingKey, proven: Sequence[Proven]) -> None:
    program = key.program
    assert isinstance(program, NodeProgram)
    with pytest.raises(InvalidProof):
        program.inputs_of(proven, tree.segments[0].proof.challenge, Identity.of(tree.keys.node.key))


def test_children_of_another_job_or_number(tree: Tree) -> None:
    leaf = tree.keys.leaf(forms_of(tree.segments)[:4])
    strange = segments(prove_program(Ring(3), partitions=4, params=SMALL))
    refused(tree, leaf, strange)
    refused(tree, leaf, [*tree.segments[:3], strange[3]])
    refused(tree, leaf, tree.segments)
    refused(tree, leaf, [])
    refused(tree, leaf, tree.nodes[:2])
    refused(tree, tree.keys.node, tree.segments[:2])
    refused(tree, tree.keys.root, tree.nodes[:2])


def test_a_forged_child(tree: Tree) -> None:
    """Of which a public value, an opening, or what a node states is another."""
    leaf = tree.keys.leaf(forms_of(tree.segments)[:4])
    first, *others = tree.segments[:4]
    public = (*first.public[:-1], (first.public[-1] + 1) % P)
    refused(tree, leaf, [replace(first, public=public), *others])
    openings = first.proof.openings.copy()
    openings[0, 0] = (int(openings[0, 0]) + 1) % P
    refused(tree, leaf, [replace(first, proof=replace(first.proof, openings=openings)), *others])
    node, beside = tree.nodes[:2]
    for place in (OCTETS, OCTETS + DIGEST):  # the digest of its list, and the sum; the rest is the node's own
        changed = [*node.public]
        changed[place] ^= 1
        refused(tree, tree.keys.node, [replace(node, public=tuple(changed)), beside])


class OtherRing(Ring):
    """The same tables and statement under another key."""

    name = "other-ring"


def test_a_child_under_another_key(tree: Tree) -> None:
    other = prove_program(OtherRing(3), partitions=4, params=SMALL)
    assert other.key.digest != tree.job.key.digest
    refused(tree, tree.keys.leaf(forms_of(tree.segments)[:4]), segments(other))


def test_a_leaf_under_another_key(tree: Tree) -> None:
    """A node takes any leaf's key and states it: another one is another digest, which the root's verifier does not
    have. That it were the key of nodes is no way out, either."""
    first, second_leaf = tree.nodes[:2]
    assert first.key is not None
    assert second_leaf.key is not None
    other = Identity(first.key.digest, bytes(32))
    refused(tree, tree.keys.node, [first, replace(second_leaf, key=other)])
    refused(tree, tree.keys.node, [first, replace(second_leaf, key=Identity.of(tree.keys.node.key))])
    lists = [node_statement(leaf.public)[0] for leaf in (first, second_leaf)]
    node = Identity.of(tree.keys.node.key)
    words = [node_words(own, leaf.key or node, node) for own, leaf in zip(lists, tree.nodes, strict=False)]
    honest = list_digest(words, 4)
    assert node_statement(tree.nodes[2].public)[0] == honest
    assert list_digest([node_words(own, other, node) for own in lists], 4) != honest


def faults_with(tree: Tree, **changed: Sequence[int]) -> list[str]:
    """The faults of the node's circuit with some fields changed, when the digest that it states fits them."""
    program = tree.keys.node.program
    assert isinstance(program, NodeProgram)
    node = Identity.of(tree.keys.node.key)
    children = tree.nodes[:2]
    stated = stated_by(program.children, children, tree.segments[0].proof.challenge, node)
    fields = dict(node_fields(program.children, children, stated))
    for name, values in changed.items():
        place = name.replace("child_", "").replace("_", ".", 1)
        fields[place] = np.array(values, dtype=np.uint64)
    found = evaluate(program.circuit, fields, node_trees(program.children, children))
    return found.faults


def test_marks_of_a_child(tree: Tree) -> None:
    """Whether a child is there, and whether it is under the key of nodes, are 0 or 1, and go into the digest."""
    assert faults_with(tree) == []
    other = "the children are not those of the stated digest"
    assert other in faults_with(tree, child_1_present=[0])
    assert other in faults_with(tree, child_2_present=[1])
    assert "present is neither 0 nor 1" in faults_with(tree, child_1_present=[2])
    assert "own is neither 0 nor 1" in faults_with(tree, child_1_own=[2])
    assert "a node's key is not the one of nodes" in faults_with(tree, child_1_own=[1])


def test_a_circuit_too_large_for_its_frame(tree: Tree) -> None:
    forms = forms_of(tree.segments)[:4]
    low = Frame(dict.fromkeys(tree.keys.frame.log_heights, 4))
    with pytest.raises(UsageError, match="too large"):
        _ = NodeProgram(segments_of(tree.job.key, forms), low).layout


@pytest.mark.parametrize("count", [1, 16, 17, 24, 25, 32, 1000, 4096])
def test_a_frame_has_room(count: int) -> None:
    rows = dict.fromkeys(KINDS, count)
    frame = Frame.fitting(rows)
    assert frame.has_room(rows)
    assert all(count <= 16 or frame.room(kind) < 2 * count for kind in KINDS)
    assert not frame.has_room({**rows, "joins": 1 << 20})


def test_all_nodes_of_a_frame_have_the_same_rules(tree: Tree) -> None:
    """Their keys differ in the root alone."""
    forms = forms_of(tree.segments)
    keys = [tree.keys.node.key, tree.keys.leaf(forms[:4]).key, tree.keys.leaf(forms[4:]).key]
    for one, other in pairwise([{**key.to_record(), "preprocessed_root": b""} for key in keys]):
        assert one == other
    assert len({key.preprocessed_root for key in keys}) == 2  # both leaves have partitions of one form


def test_the_forms_of_a_leaf() -> None:
    one, two = Form((4,), 6), Form((5,), 6)
    assert leaf_forms([one, two]) == (one, two, one, one)


def test_partitions_of_heights_that_no_leaf_has(tree: Tree) -> None:
    first, *others = listed(tree.segments)
    taller = replace(first, log_heights=tuple((h or 0) + 1 for h in first.log_heights))
    with pytest.raises(InvalidProof):
        tree.check(partitions=[taller, *others])


def test_the_bits_of_a_tree_are_told_by_layer(tree: Tree) -> None:
    heights = [own.proof.log_heights for own in tree.segments]
    layers = tree_layers(tree.job.key, heights, [(tree.keys.node.key, 3), (tree.keys.root.key, 1)])
    assert [(layer.program, layer.proofs) for layer in layers] == [("test-ring", 5), ("node", 3), ("node", 1)]
    program = tree.keys.node.program
    strong = choose_parameters(program, 1, grinding=16, hash="poseidon2")
    child = node_child(tree.keys.frame, strong)
    strong_layer = tree_layers(tree.job.key, heights, [(child.shape.key, 1)])[-1]
    assert strong_layer.bits >= 128 > max(layer.bits for layer in layers)
    assert all(layer.weakest.startswith("WHIR queries") for layer in layers)  # of which these keys have too few
