"""The tree over a job's partitions, and the keys of its nodes.

Leaves verify four consecutive partitions each, nodes four consecutive leaves or nodes, and the *root* the one that is
left: its key has parameters for a small proof. The tree follows from the list of partitions alone.

Leaves and nodes have one frame, so one key of nodes serves at every height. A leaf's key depends on the partitions'
heights and on the lengths of their names (`Form`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.errors import InvalidProof
from distprove.stark.barrier import Commitment
from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.key import MultilinearKey, compile_key
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.multilinear.verifier import verify
from distprove.stark.recursion.circuit_cache import kept_circuit
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import MOST_CHILDREN, NODE, NODE_CHALLENGE, Child, Identity, Proven
from distprove.stark.recursion.program import NodeProgram, node_source
from distprove.stark.recursion.root import TreeVerifyingKeys
from distprove.steps import Steps
from kernels.interface.backend import Backend

ROOT = "root"
"""The name of a tree's last node."""


@dataclass(frozen=True)
class TreeNode:
    """A node of a job's tree: a partition that depends on others."""

    name: str
    children: tuple[str, ...]
    """Names of partitions (for a leaf) or of nodes, in order."""


def plan_tree(partitions: Sequence[str]) -> tuple[TreeNode, ...]:
    """The nodes over these partitions, children before parents. The last one is the root."""
    nodes: list[TreeNode] = []
    level, below = 0, list(partitions)
    while level == 0 or len(below) > 1:
        kind = f"node-{level}" if level else "leaf"
        starts = range(0, len(below), MOST_CHILDREN)
        made = [TreeNode(f"{kind}-{i:05}", tuple(below[s : s + MOST_CHILDREN])) for i, s in enumerate(starts)]
        nodes += made
        level, below = level + 1, [node.name for node in made]
    return (*nodes, TreeNode(ROOT, tuple(below)))


@dataclass(frozen=True)
class Form:
    """What a leaf's circuit has of a partition, beside its key."""

    log_heights: LogHeights
    name_length: int
    """In bytes."""


def leaf_forms(partitions: Sequence[Form]) -> tuple[Form, ...]:
    """The forms of all places of a leaf over at most four partitions: absent ones have the first one's."""
    return (*partitions, *[partitions[0]] * (MOST_CHILDREN - len(partitions)))


@dataclass(frozen=True)
class TreeParameters:
    """The parameters of leaves and nodes, and those of the root."""

    nodes: Parameters
    root: Parameters


class TreeKeys:
    """The keys of a tree over partitions of one key. They are made when they are first asked for, and kept."""

    def __init__(self, key: MultilinearKey, params: TreeParameters, frame: Frame, backend: Backend) -> None:
        """`frame` is that of leaves and nodes; `frame_of` finds it."""
        self.key, self.params, self.frame, self._backend = key, params, frame, backend
        self._leaves: dict[tuple[Form, ...], MultilinearProvingKey] = {}
        self._node: MultilinearProvingKey | None = None
        self._root: MultilinearProvingKey | None = None

    def leaf(self, forms: Sequence[Form]) -> MultilinearProvingKey:
        """The key of a leaf over at most four partitions of these forms. Raises InvalidProof for heights that no
        partition can have, UsageError for a circuit that is too large for the frame."""
        forms = leaf_forms(forms)
        if forms not in self._leaves:
            program = NodeProgram(segments_of(self.key, forms), self.frame)
            self._leaves[forms] = make_key(program, self.params.nodes, self._backend)
        return self._leaves[forms]

    @property
    def node(self) -> MultilinearProvingKey:
        """The key of nodes above leaves."""
        if self._node is None:
            program = NodeProgram([self.below] * MOST_CHILDREN, self.frame)
            self._node = make_key(program, self.params.nodes, self._backend)
        return self._node

    @property
    def root(self) -> MultilinearProvingKey:
        if self._root is None:
            program = NodeProgram([self.below], root_frame(self.frame, self.params.nodes))
            self._root = make_key(program, self.params.root, self._backend)
        return self._root

    @property
    def below(self) -> Child:
        """What nodes and the root have of a leaf or a node."""
        return node_child(self.frame, self.params.nodes)

    def prove(self, node: TreeNode, children: Sequence[Proven], challenge: bytes, steps: Steps) -> Proven:
        """Prove a node from its children's proofs, in a job of this challenge. Raises InvalidProof where one does not
        verify."""
        with steps("key"):
            pk = self.key_of(node, children)
        with steps("witness"):
            inputs = pk.program.inputs(node_source(children, challenge, Identity.of(self.node.key)))
        committed = commit(pk, NODE, inputs, steps)
        proof: MultilinearProof = prove(pk, committed, NODE_CHALLENGE, steps)
        return Proven(node.name, committed.commitment.public, proof, Identity.of(pk.key))

    def key_of(self, node: TreeNode, children: Sequence[Proven]) -> MultilinearProvingKey:
        """The key of a node over these children."""
        if node.name == ROOT:
            return self.root
        if any(child.key is not None for child in children):
            return self.node
        return self.leaf([Form(c.proof.log_heights, len(c.name.encode())) for c in children])

    def verify(self, node: TreeNode, proven: Proven, children: Sequence[Proven]) -> None:
        """Raise InvalidProof unless a node's proof verifies under the key that it has over these children."""
        key = self.key_of(node, children).key
        if proven.key != Identity.of(key):
            raise InvalidProof(f"{node.name}: a proof under another key")
        if proven.proof.challenge != NODE_CHALLENGE:
            raise InvalidProof(f"{node.name}: a node's proof has no job of its own")
        verify(key, NODE, proven.public, proven.proof, Shape(key, proven.proof.log_heights))

    def verifying(self, partitions: Sequence[Commitment]) -> TreeVerifyingKeys:
        """What the root's verifier has of the tree over these partitions. Raises InvalidProof for heights that no
        partition can have."""
        forms = [Form(partition.log_heights, len(partition.name.encode())) for partition in partitions]
        starts = range(0, len(forms), MOST_CHILDREN)
        leaves = tuple(Identity.of(self.leaf(forms[s : s + MOST_CHILDREN]).key) for s in starts)
        return TreeVerifyingKeys(self.key, leaves, Identity.of(self.node.key), self.root.key)


def segments_of(key: MultilinearKey, forms: Sequence[Form]) -> list[Child]:
    """The children of a leaf. Raises InvalidProof for heights that no partition can have."""
    for form in forms:
        if not heights_fit(key, form.log_heights):
            raise InvalidProof("not the heights of a partition under this key")
    return [Child(Shape(key, form.log_heights), form.name_length) for form in forms]


def node_child(frame: Frame, params: Parameters) -> Child:
    """What a circuit has of a node of this frame, whose key is a value there."""
    key = compile_key(NodeProgram((), frame), params)
    return Child(Shape(key, tuple(key.fixed_heights)), None)


def root_frame(below: Frame, params: Parameters) -> Frame:
    """The lowest frame of a root over a node of this frame."""
    return Layout(kept_circuit([node_child(below, params)])).frame


def frame_of(key: MultilinearKey, forms: Sequence[Form], params: Parameters) -> Frame:
    """The lowest frame with room for a leaf over partitions of these forms, and for a node over nodes of that frame.
    Raises InvalidProof for heights that no partition can have."""
    rows = Layout(kept_circuit(segments_of(key, leaf_forms(forms)))).rows
    while True:
        frame = Frame.fitting(rows)
        own = Layout(kept_circuit([node_child(frame, params)] * MOST_CHILDREN)).rows
        if frame.has_room(own):
            return frame
        rows = {kind: max(rows[kind], own[kind]) for kind in KINDS}
