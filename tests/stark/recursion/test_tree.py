"""Trees of nodes: a job of four segments becomes one proof, and what a cheating prover could put into it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from distprove.errors import FormatError, InvalidProof
from distprove.formats import canonical
from distprove.stark.barrier import Commitment
from distprove.stark.field import P
from distprove.stark.heights import encode_heights
from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.recursion.node import START, Child, Proven, node_end
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.prover import node_child, prove_node
from distprove.stark.recursion.root import verify_root
from distprove.stark.recursion.security import tree_layers
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from tests.support import second_root_verifier as second
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.second_verifier import Refused
from tests.support.stark_programs import Fibonacci, Ring

SMALL = Parameters(1, 2, (4,) * 8, 2, 0, log_final=2, tree_hash=TreeHash.POSEIDON2)
NODES = Parameters(1, 4, (2,) * 8, 2, 0, log_final=3, tree_hash=TreeHash.POSEIDON2)
"""Not for use: parameters of little work."""


def segments(job: MultilinearJob) -> list[tuple[Child, Proven]]:
    found = []
    for own in job.proofs:
        proof, shape = MultilinearProof.from_record(own.data, job.key, own.name)
        found.append((Child(shape, len(own.name)), Proven(own.name, tuple(own.public), proof)))
    return found


def listed(proven: Sequence[Proven]) -> list[Commitment]:
    return [own.proof.commitment(own.name, own.public) for own in proven]


@dataclass(frozen=True)
class Tree:
    job: MultilinearJob
    segments: list[Proven]
    leaf: MultilinearProvingKey
    root: MultilinearProvingKey
    leaves: list[Proven]
    proven: Proven

    def check(self, **changed: object) -> None:
        """Verify the root, with some of what stands beside it changed."""
        given: dict[str, object] = {
            "record": canonical.decode(canonical.encode(self.proven.proof.to_record()), "root"),
            "total": node_end(self.proven.public)[1],
            "partitions": listed(self.segments),
            **changed,
        }
        verify_root(self.root.key, key=self.job.key, **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tree() -> Iterator[Tree]:
    """Four partitions with global buses, two nodes of two of them, and a node of these."""
    job = prove_program(Ring(3), partitions=4, params=SMALL)
    children, proven = zip(*segments(job), strict=True)
    challenge = proven[0].proof.challenge
    with CpuBackend() as backend:
        leaf = make_key(NodeProgram(children[:2]), NODES, backend)
        first = prove_node(leaf, proven[:2], challenge, START, Steps())
        second = prove_node(leaf, proven[2:], challenge, node_end(first.public)[0], Steps())
        root = make_key(NodeProgram([node_child(leaf)] * 2), NODES, backend)
        made = prove_node(root, [first, second], challenge, START, Steps())
        yield Tree(job, list(proven), leaf, root, [first, second], made)


def test_a_job_of_four_segments_ends_in_one_proof(tree: Tree) -> None:
    tree.check()


def second_accepts(tree: Tree, **changed: object) -> bool:
    """Whether the second verifier accepts the root, with some of what stands beside it changed."""
    given: dict[str, object] = {
        "total": node_end(tree.proven.public)[1],
        "partitions": listed(tree.segments),
        **changed,
    }
    partitions = [
        (c.name, list(encode_heights(c.log_heights)), list(c.public), c.main_root, c.anchors)
        for c in given["partitions"]  # type: ignore[attr-defined]
    ]
    record = canonical.decode(canonical.encode(tree.proven.proof.to_record()), "root")
    keys = tree.root.key.to_record(), tree.job.key.to_record()
    try:
        second.verify_root(keys[0], record, given["total"], keys[1], partitions)  # type: ignore[arg-type]
    except Refused:
        return False
    return True


def test_a_second_verifier_of_the_root(tree: Tree) -> None:
    assert second_accepts(tree)
    first, *others = listed(tree.segments)
    assert not second_accepts(tree, partitions=others)
    assert not second_accepts(tree, partitions=[*others, first])
    assert not second_accepts(tree, partitions=[replace(first, anchors=first.anchors[8:] + bytes(8)), *others])
    assert not second_accepts(tree, total=(1, 2, 3))


def test_the_root_binds_the_list_of_partitions(tree: Tree) -> None:
    partitions = listed(tree.segments)
    first, second, third, fourth = partitions
    public = (*first.public[:-1], first.public[-1] ^ 1)
    for changed in (
        [second, first, third, fourth],
        [first, second, third],
        [first, second, third, third],
        [*partitions, replace(fourth, name="more")],
        [replace(first, name="other"), second, third, fourth],
        [replace(first, public=public), second, third, fourth],
        [replace(first, main_root=bytes([first.main_root[0] ^ 1]) + first.main_root[1:]), second, third, fourth],
        [replace(first, anchors=bytes([first.anchors[0] ^ 1]) + first.anchors[1:]), second, third, fourth],
        [],
    ):
        assert changed != partitions
        with pytest.raises((InvalidProof, FormatError)):
            tree.check(partitions=changed)


@pytest.mark.parametrize("root", [b"", bytes(3), bytes(31), bytes(33), P.to_bytes(8, "little") + bytes(24)])
def test_a_listed_root_has_one_encoding(tree: Tree, root: bytes) -> None:
    """The digest of the list takes words modulo p: x + p for x passed, and 31 bytes were a ValueError."""
    first, *others = listed(tree.segments)
    with pytest.raises(FormatError):
        tree.check(partitions=[replace(first, main_root=root), *others])
    assert not second_accepts(tree, partitions=[replace(first, main_root=root), *others])


def test_a_tree_over_segments_without_a_global_bus() -> None:
    """The job's challenge binds their names and not their roots."""
    job = prove_program(Fibonacci(4), partitions=2, params=SMALL)
    children, proven = zip(*segments(job), strict=True)
    with CpuBackend() as backend:
        key = make_key(NodeProgram(children), NODES, backend)
        made = prove_node(key, proven, proven[0].proof.challenge, START, Steps())
    tree = Tree(job, list(proven), key, key, [made], made)
    tree.check()
    assert second_accepts(tree)
    first, second = listed(proven)
    for changed in ([second, first], [first], [first, replace(second, main_root=first.main_root)]):
        with pytest.raises((InvalidProof, FormatError)):
            tree.check(partitions=changed)
        assert not second_accepts(tree, partitions=changed)


def test_the_root_binds_the_sum_of_the_global_buses(tree: Tree) -> None:
    a, b, c = node_end(tree.proven.public)[1]
    for total in ((a + 1) % P, b, c), (0, 0, 1), (0, 0), (0, 0, 0, 0):
        with pytest.raises((InvalidProof, FormatError)):
            tree.check(total=total)
        assert not second_accepts(tree, total=total)


def test_a_root_under_another_key(tree: Tree) -> None:
    """A leaf's proof is none of the root's, and a root's record cannot name a job of its own."""
    record = canonical.decode(canonical.encode(tree.leaves[0].proof.to_record()), "leaf")
    with pytest.raises((InvalidProof, FormatError)):
        tree.check(record=record)
    own = canonical.decode(canonical.encode(tree.proven.proof.to_record()), "root")
    with pytest.raises(InvalidProof, match="no job of its own"):
        tree.check(record={**own, "challenge": bytes([1]) + bytes(31)})


def refused(tree: Tree, key: MultilinearProvingKey, proven: Sequence[Proven], before: Sequence[int] = START) -> None:
    program = key.program
    assert isinstance(program, NodeProgram)
    with pytest.raises(InvalidProof):
        program.traces_of(proven, tree.segments[0].proof.challenge, before)


def test_children_out_of_order_or_of_another_job(tree: Tree) -> None:
    first, second = tree.leaves
    for children in ([second, first], [first, first], [second, second], [first], [first, second, second]):
        refused(tree, tree.root, children)
    refused(tree, tree.root, [first, second], before=(1, 0, 0, 0))
    other = prove_program(Ring(3), partitions=3, params=SMALL)
    strange = [own for _, own in segments(other)]
    refused(tree, tree.leaf, strange[:2])
    refused(tree, tree.leaf, [tree.segments[0], strange[1]])


def test_a_forged_child(tree: Tree) -> None:
    """Of which a public value, an opening, or what a node states is another."""
    first, second = tree.segments[:2]
    public = (*first.public[:-1], (first.public[-1] + 1) % P)
    refused(tree, tree.leaf, [replace(first, public=public), second])
    openings = first.proof.openings.copy()
    openings[0, 0] = (int(openings[0, 0]) + 1) % P
    refused(tree, tree.leaf, [replace(first, proof=replace(first.proof, openings=openings)), second])
    node, beside = tree.leaves
    for place in (12, 16):  # the digest after it, and the sum; the rest is the node's own
        changed = [*node.public]
        changed[place] ^= 1
        refused(tree, tree.root, [replace(node, public=tuple(changed)), beside])


class OtherRing(Ring):
    """The same tables and statement under another key."""

    name = "other-ring"


def test_a_child_under_another_key(tree: Tree) -> None:
    other = prove_program(OtherRing(3), partitions=4, params=SMALL)
    strange = [own for _, own in segments(other)]
    assert other.key.digest != tree.job.key.digest
    assert strange[0].proof.log_heights == tree.segments[0].proof.log_heights
    program = tree.leaf.program
    assert isinstance(program, NodeProgram)
    with pytest.raises(InvalidProof):
        program.traces_of(strange[:2], strange[0].proof.challenge, START)


def test_a_node_of_four_children_and_one_of_one(tree: Tree) -> None:
    children, proven = zip(*segments(tree.job), strict=True)
    challenge = proven[0].proof.challenge
    four = NodeProgram(children).traces_of(proven, challenge, START)
    assert four["stated"].tolist() == list(tree.proven.public)  # whatever the tree between
    one = NodeProgram(children[:1]).traces_of(proven[:1], challenge, START)
    assert node_end(one["stated"].tolist())[0] != node_end(four["stated"].tolist())[0]
    taller = prove_program(Ring(4), partitions=4, params=SMALL)
    with pytest.raises(InvalidProof, match="other heights"):
        NodeProgram(children[:1]).traces_of([segments(taller)[0][1]], challenge, START)


def test_the_bits_of_a_tree_are_told_by_layer(tree: Tree) -> None:
    heights = [own.proof.log_heights for own in tree.segments]
    layers = tree_layers(tree.job.key, heights, [(tree.leaf.key, 2), (tree.root.key, 1)])
    assert [(layer.program, layer.proofs) for layer in layers] == [("test-ring", 4), ("node", 2), ("node", 1)]
    program = tree.root.program
    strong = compile_key(program, choose_parameters(program, 1, grinding=16, hash="poseidon2"))
    strong_layer = tree_layers(tree.job.key, heights, [(strong, 1)])[-1]
    assert strong_layer.bits >= 128 > max(layer.bits for layer in layers)
    assert all(layer.weakest.startswith("WHIR queries") for layer in layers)  # of which these keys have too few
