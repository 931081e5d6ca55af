"""The keys of the nodes of a tree (`recursion.plan`), and their proofs.

Leaves and nodes have one frame, so one key of nodes serves at every height. A leaf's key depends on the partitions'
heights and on the lengths of their names (`Form`). The root's has parameters for a small proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.stark.barrier import Commitment
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_root
from distprove.stark.multilinear.memory import key_bytes
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.multilinear.verifier import verify
from distprove.stark.recursion.contract import ProgramRecord, Read
from distprove.stark.recursion.contract_program import ContractProgram
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.kept import found_root, kept_rows
from distprove.stark.recursion.node import MOST_CHILDREN, NODE, NODE_CHALLENGE, Child, Identity, Proven
from distprove.stark.recursion.plan import INNER, ROOT, WRAP, Form, TreeNode, leaf_forms, leaves_of
from distprove.stark.recursion.program import CircuitProgram, NodeProgram
from distprove.stark.recursion.root import TreeVerifyingKeys
from distprove.steps import Steps
from kernels.interface.backend import Backend

SecondRoot = Callable[[], tuple[CircuitProgram, Parameters]]
PREPARED_LEAVES = 4
"""Leaves whose columns are laid out before they are needed, 0.1 GB of host memory each. Jobs of RISC-V have at most
four, and most others one or two."""


@dataclass(frozen=True)
class TreeParameters:
    """The parameters of leaves and nodes, and those of the root."""

    nodes: Parameters
    root: Parameters


class NodeKeys(ABC):
    """The keys of a tree's nodes, by their children. They are made when they are first asked for, and kept."""

    def __init__(
        self, params: TreeParameters, frame: Frame, backend: Backend, second: SecondRoot | None = None
    ) -> None:
        """`frame` is that of leaves and nodes. `second` makes the program of a second root, if there may be one, and
        chooses its parameters."""
        self.params, self.frame, self._backend, self._second = params, frame, backend, second
        # Beside a device the children of a node are evaluated at once; on a CPU their proofs take far longer.
        self._threads = 1 if backend.info().kind == "cpu" else min(MOST_CHILDREN, backend.threads)
        self._programs: dict[tuple[Hashable, ...] | str, NodeProgram] = {}
        """By the forms of a leaf's places, or `INNER` or `ROOT`. A thread that prepares may add to it."""
        self._leaves: dict[tuple[Hashable, ...], MultilinearProvingKey] = {}
        self._node: MultilinearProvingKey | None = None
        self._root: MultilinearProvingKey | None = None
        self._wrap: MultilinearProvingKey | None = None
        self._identity: Identity | None = None

    def leaf_over(self, children: Sequence[Child]) -> MultilinearProvingKey:
        """The key of a leaf with these places. Raises UsageError for a circuit that is too large for the frame."""
        forms = tuple(child.form for child in children)
        if forms not in self._leaves:
            self._leaves[forms] = make_key(self._leaf_program(children), self.params.nodes, self._backend)
        return self._leaves[forms]

    @property
    def node(self) -> MultilinearProvingKey:
        """The key of nodes above leaves."""
        if self._node is None:
            self._node = make_key(self._node_program, self.params.nodes, self._backend)
        return self._node

    def _leaf_program(self, children: Sequence[Child]) -> NodeProgram:
        return self._program(tuple(child.form for child in children), children, self.frame)

    @property
    def _node_program(self) -> NodeProgram:
        return self._program(INNER, [self.below] * MOST_CHILDREN, self.frame)

    @property
    def _root_program(self) -> NodeProgram:
        return self._program(ROOT, [self.below], root_frame(self.frame, self.params.nodes))

    def _program(self, role: tuple[Hashable, ...] | str, children: Sequence[Child], frame: Frame) -> NodeProgram:
        """The program of a leaf, by the forms of its places, of nodes (`INNER`) or of the root (`ROOT`)."""
        made = self._programs.get(role)
        if made is None:
            made = self._programs.setdefault(role, NodeProgram(children, frame, self._threads))
        return made

    @property
    def identity(self) -> Identity:
        """That of the key of nodes, which every node states. It is kept where the key is dropped."""
        if self._identity is None:
            program = self._node_program
            root = found_root(program, self.params.nodes) if self._node is None else None
            known = root and with_root(compile_key(program, self.params.nodes), root)
            self._identity = Identity.of(known or self.node.key)
        return self._identity

    @property
    def root(self) -> MultilinearProvingKey:
        if self._root is None:
            self._root = make_key(self._root_program, self.params.root, self._backend)
        return self._root

    @property
    def wrap(self) -> MultilinearProvingKey:
        """The key of a second root, whose proof a Groth16 circuit verifies."""
        if self._wrap is None:
            self._wrap = make_key(*self._second_root, self._backend)
        return self._wrap

    @property
    def wrap_bytes(self) -> int:
        """Bytes of the device that the key of a second root takes."""
        return key_bytes(compile_key(*self._second_root))

    @cached_property
    def _second_root(self) -> tuple[CircuitProgram, Parameters]:
        assert self._second is not None, "a tree with a second root"
        return self._second()

    @property
    def below(self) -> Child:
        """What nodes and the root have of a leaf or a node."""
        return node_child(self.frame, self.params.nodes)

    def prove(
        self, node: TreeNode, children: Sequence[Proven], challenge: bytes, steps: Steps, *, held: int = 0
    ) -> Proven:
        """Prove a node from its children's proofs, in a job of this challenge. `held` is the number of bytes of the
        device that others keep, beside these keys. Raises InvalidProof where a child does not verify, OutOfMemory."""
        with steps("key"):
            pk = self.key_of(node, children)
        with steps("witness"):
            assert isinstance(pk.program, NodeProgram), "made here"
            inputs = pk.program.inputs_of(children, challenge, self.identity)
        return self._proven(pk, node.name, inputs, steps, held)

    def prove_read(
        self,
        record: ProgramRecord,
        segments: Sequence[Commitment],
        read: Read,
        below: Proven,
        steps: Steps,
        *,
        held: int = 0,
    ) -> Proven:
        """Prove what a contract reads of a job, as the second root of its tree, whose last node is `below`. Raises
        InvalidProof for a job of another program, exit code or output, OutOfMemory."""
        with steps("key"):
            pk = self.wrap
        with steps("witness"):
            assert isinstance(pk.program, ContractProgram), "of a key with places"
            inputs = pk.program.inputs_of(record, segments, read, below)
        return self._proven(pk, WRAP, inputs, steps, held)

    def _proven(
        self, pk: MultilinearProvingKey, name: str, inputs: Mapping[str, NDArray[Any]], steps: Steps, held: int
    ) -> Proven:
        committed = commit(pk, NODE, inputs, steps, held=held + self.nbytes - key_bytes(pk.key))
        proof: MultilinearProof = prove(pk, committed, NODE_CHALLENGE, steps)
        return Proven(name, committed.commitment.public, proof, Identity.of(pk.key))

    def key_of(self, node: TreeNode, children: Sequence[Proven]) -> MultilinearProvingKey:
        """The key of a node over these children."""
        if node.name == ROOT:
            return self.root
        if node.name == WRAP:
            return self.wrap
        return self.leaf_over(self.places(children)) if node.is_leaf else self.node

    @abstractmethod
    def places(self, children: Sequence[Proven]) -> Sequence[Child]:
        """The places of a leaf over these proofs, in order."""

    @property
    def nbytes(self) -> int:
        """Bytes of the device that the keys take."""
        return sum(key_bytes(pk.key) for pk in self._made())

    def drop(self, keep: MultilinearProvingKey | None = None) -> bool:
        """Free all keys but `keep`; whether there were any. They are made again when they are needed."""
        dropped = any(pk is not keep for pk in self._made())
        self._leaves = {forms: pk for forms, pk in self._leaves.items() if pk is keep}
        self._node = self._node if self._node is keep else None
        self._root = self._root if self._root is keep else None
        self._wrap = self._wrap if self._wrap is keep else None
        self._programs = {role: own for role, own in list(self._programs.items()) if keep and own is keep.program}
        return dropped

    def _made(self) -> list[MultilinearProvingKey]:
        return [pk for pk in (*self._leaves.values(), self._node, self._root, self._wrap) if pk is not None]

    def upper_keys(self) -> list[tuple[int, Callable[[], object]]]:
        """The keys of nodes and of the root: the bytes of the device that each takes, and what makes it."""
        root = compile_key(self._root_program, self.params.root)
        return [(key_bytes(self.below.shape.key), lambda: self.node), (key_bytes(root), lambda: self.root)]

    def verify(self, node: TreeNode, proven: Proven, children: Sequence[Proven]) -> None:
        """Raise InvalidProof unless a node's proof verifies under the key that it has over these children."""
        key = self.key_of(node, children).key
        if proven.key != Identity.of(key):
            raise InvalidProof(f"{node.name}: a proof under another key")
        if proven.proof.challenge != NODE_CHALLENGE:
            raise InvalidProof(f"{node.name}: a node's proof has no job of its own")
        verify(key, NODE, proven.public, proven.proof, Shape(key, proven.proof.log_heights))


class TreeKeys(NodeKeys):
    """The keys of a tree over partitions of one key."""

    def __init__(
        self,
        key: MultilinearKey,
        params: TreeParameters,
        frame: Frame,
        backend: Backend,
        second: SecondRoot | None = None,
    ) -> None:
        """`frame` is that of leaves and nodes; `frame_of` finds it. `second` is for a second root (`NodeKeys`)."""
        super().__init__(params, frame, backend, second)
        self.key = key

    def leaf(self, forms: Sequence[Form]) -> MultilinearProvingKey:
        """The key of a leaf over at most four partitions of these forms. Raises InvalidProof for heights that no
        partition can have, UsageError for a circuit that is too large for the frame."""
        return self.leaf_over(segments_of(self.key, leaf_forms(forms)))

    def prepare(self, leaves: Sequence[tuple[Form, ...]]) -> None:
        """Record the circuits of these leaves, of nodes and of the root, and lay out their columns on the host: most of
        what it takes to make the keys. A thread beside the prover's may call. Raises as `leaf` does."""
        made = [self._leaf_program(segments_of(self.key, forms)) for forms in leaves[:PREPARED_LEAVES]]
        for program in (*made, self._node_program, self._root_program):
            program.preprocessed()
            _ = program.circuit  # which columns from the cache do not take

    def keys_ahead(self, leaves: Sequence[tuple[Form, ...]]) -> list[tuple[int, Callable[[], object]]]:
        """The keys that `prepare` has prepared, in the order in which a job needs them, as `upper_keys` has them."""
        own = key_bytes(self.below.shape.key)
        made = [(own, partial(self.leaf, forms)) for forms in leaves[:PREPARED_LEAVES]]
        return [*made, *self.upper_keys()]

    def places(self, children: Sequence[Proven]) -> Sequence[Child]:
        return segments_of(self.key, leaf_forms([Form.of(c.name, c.proof.log_heights) for c in children]))

    def verifying(self, partitions: Sequence[Commitment]) -> TreeVerifyingKeys:
        """What the root's verifier has of the tree over these partitions. Raises InvalidProof for heights that no
        partition can have."""
        forms = [Form.of(partition.name, partition.log_heights) for partition in partitions]
        leaves = tuple(Identity.of(self.leaf(leaf).key) for leaf in leaves_of(forms))
        return TreeVerifyingKeys(self.key, leaves, self.identity, self.root.key)


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
    return Frame.fitting(kept_rows([node_child(below, params)]))


def frame_of(key: MultilinearKey, forms: Sequence[Form], params: Parameters) -> Frame:
    """The lowest frame with room for a leaf over partitions of these forms, and for a node over nodes of that frame.
    Raises InvalidProof for heights that no partition can have."""
    rows = kept_rows(segments_of(key, leaf_forms(forms)))
    while True:
        frame = Frame.fitting(rows)
        own = kept_rows([node_child(frame, params)] * MOST_CHILDREN)
        if frame.has_room(own):
            return frame
        rows = {kind: max(rows[kind], own[kind]) for kind in KINDS}
