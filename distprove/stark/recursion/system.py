"""A job that ends in one proof: beside its partitions it has the nodes of a tree, which are partitions that depend on
others. `distprove.stark.recursion.plan` says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any

from distprove.errors import AirError, FormatError, InputError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.host.beside import in_background
from distprove.host.machine import usable_threads
from distprove.stark.engine import engine_of
from distprove.stark.heights import LogHeights
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.memory import choose, key_bytes, plans
from distprove.stark.multilinear.prover import Committed
from distprove.stark.multilinear.proving_key import MultilinearProvingKey
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.system import MultilinearProver, MultilinearSystem
from distprove.stark.options import StarkOptions
from distprove.stark.program import Cut, Program
from distprove.stark.recursion.levelling import Choose, level
from distprove.stark.recursion.node import Proven
from distprove.stark.recursion.node_proof import (
    challenge_of,
    is_node,
    is_statement,
    node_data,
    proven_of,
    stated_node_key,
    statement,
    verify_node,
)
from distprove.stark.recursion.plan import INNER, MOST_LEAVES, ROOT, Form, Kind, TreeNode, kinds_of, plan_tree
from distprove.stark.recursion.program import node_rules
from distprove.stark.recursion.tree import TreeKeys
from distprove.stark.recursion.tree_keys import keys_of_tree, node_key
from distprove.stark.recursion.whole import listed, verify_whole, whole_of
from distprove.stark.recursion.work import check_work, leaf_wires
from distprove.stark.system import SharedFiles, StarkSynthesiser, context_of
from distprove.steps import Steps, measured
from distprove.system import MemoryUse, Partition, PartitionProof, StepTimes, Witness
from kernels.errors import OutOfMemory
from kernels.interface.backend import Backend

VERIFIERS_SHARE = 4
"""A key is made on the machine's threads divided by this, while provers are at work."""


class OneProofSystem(MultilinearSystem):
    """A job under the multilinear engine and Poseidon2 that ends in one proof.

    Implements `ChecksChildren`, `PreparesVerifying` and `VerifiesHere` of `distprove.system`, and `BindsWhole` and
    `VerifiesWhole` of `distprove.proof`, beside the protocols of `StarkSystem`.
    """

    one_proof = True
    tree_wires: int | None = None
    """The most wires of circuits for the tree; None for the default of `distprove.stark.recursion.work`."""
    _planned: tuple[Kind, ...] = ()
    _root: PartitionProof | None = None
    """The last root that `verify` accepted in this process."""

    @classmethod
    def from_options(cls, options: StarkOptions) -> OneProofSystem:
        """Make the system of a job. Raises UsageError for a job over which there is no tree, also TooMuchWork."""
        system = super().from_options(options)
        assert isinstance(system, OneProofSystem)
        system.tree_wires = options.tree_wires
        return system

    def __getstate__(self) -> dict[str, Any]:
        left = "_heights", "_nodes", "_kinds", "_ahead", "_root"
        state = {name: value for name, value in super().__getstate__().items() if name not in left}
        return state | {"_planned": self.planned_kinds()}

    def planned_kinds(self) -> tuple[Kind, ...]:
        """The kinds of the nodes of the job, once it is planned: what its provers and verifiers can prepare."""
        return tuple(dict.fromkeys(self._kinds.values())) if "_kinds" in vars(self) else self._planned

    @staticmethod
    def level(program: Program, made: Cut, choose: Choose, options: StarkOptions) -> Cut:
        return level(program, made, choose, options.tree_wires)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "one_proof": self._added()}

    def _added(self) -> dict[str, Any]:
        """What the tree adds to the job's partitions, with the estimated wires of its largest leaf."""
        kinds = self._kinds
        wires = leaf_wires(self.key, kinds[ROOT].leaves)
        return {"nodes": len(self._nodes), "keys": len(set(kinds.values())), "leaf_wires": wires}

    @cached_property
    def _heights(self) -> dict[str, LogHeights]:
        """The heights of all partitions, by name. Raises UsageError for a program that does not tell them."""
        heights = self._known_heights()
        if not heights:
            raise UsageError(
                f"program {self.program.name} does not say how tall its tables are (Program.log_heights), so its jobs "
                "cannot end in one proof"
            )
        return {part.name: tuple(own) for part, own in zip(self._made.slices, heights, strict=True)}

    @cached_property
    def _nodes(self) -> tuple[TreeNode, ...]:
        nodes = self._tree_over(self._heights)
        taken = self._heights.keys() & {node.name for node in nodes}
        if taken:
            raise UsageError(f"{min(taken)} is the name of a node of the tree, and cannot be that of a partition")
        return nodes

    @staticmethod
    def _tree_over(partitions: Mapping[str, LogHeights]) -> tuple[TreeNode, ...]:
        """The nodes over partitions of these heights, by name and in order. The root is the last one."""
        return plan_tree(partitions)

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        """The kind of each node, by its name."""
        kinds = kinds_of(self._nodes, self._heights)
        if len(next(iter(kinds.values())).leaves) > MOST_LEAVES:
            raise UsageError(
                f"program {self.program.name}: its partitions have too many different heights or lengths of names for "
                f"one proof, which is of {MOST_LEAVES} different fours of them at most (Program.levelled)"
            )
        check_work(self.key, kinds[ROOT].leaves, self.tree_wires)
        return kinds

    def plan(self) -> list[Partition]:
        """The program's slices as partitions, and the nodes of the tree over them."""
        return [*self._plan, *self._node_plan]

    @cached_property
    def _node_plan(self) -> list[Partition]:
        made = []
        for index, node in enumerate(self._nodes, start=self.partitions):
            kind = self._kinds[node.name].to_record()
            told = (self.key_digest(), index, node.name, list(node.children), kind)
            digest = canonical.digest("distprove/stark node/1", *told)
            made.append(Partition(index, node.name, digest, {"kind": kind}, needs=node.children))
        return made

    def synthesiser(self, shared: SharedFiles, threads: int) -> OneProofSynthesiser:
        return OneProofSynthesiser()

    def prover(self, shared: SharedFiles, backend: Backend) -> OneProofProver:
        return OneProofProver(self, backend)

    @cached_property
    def verifier(self) -> StarkVerifier:
        return StarkVerifier(self.key, self.program, node_key=node_key_beside, tree_wires=self.tree_wires)

    # -- verification -----------------------------------------------------------------------------------------------

    def verify(self, proof: PartitionProof) -> bool:
        """Whether the proof of a partition or node holds. A node's names its kind, which `made_of` compares."""
        if not is_node(proof):
            return super().verify(proof)
        try:
            verify_node(node_key_beside, proof, self.key)
        except InvalidProof:
            return False
        if self.verifies_here(proof):
            self._root = proof
        return True

    def verifies_here(self, proof: PartitionProof) -> bool:
        """Whether it is the root's proof, which `verify_job` compares with the list of partitions."""
        return is_node(proof) and proof.name == ROOT

    def prepare_verifying(self) -> None:
        """Make the keys of the job's nodes, and what evaluates the rules of all keys. Where several processes do, one
        makes the roots of keys and the others read them."""
        _ = self.verifier  # whose engine is imported
        _evaluators(self.key)
        for kind in self.planned_kinds():
            _evaluators(node_key_beside(self.key, kind))
            _evaluators(node_key_beside(self.key, kind.of_role(INNER)))

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(self.verify(proof) for proof in proofs)

    def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
        try:
            if not partition.needs:
                return self._is_planned(partition, proof)
            _ = self._ahead
            if not is_node(proof) or proof.data["kind"] != partition.source["kind"] or not is_statement(proof.public):
                return False
            kind = Kind.from_record(partition.source["kind"], self.key, partition.name)
            return proof.public == statement(self.key, kind, children, stated_node_key(proof)).scalars()
        except (InvalidProof, FormatError):
            return False

    @cached_property
    def _ahead(self) -> Future[None]:
        """The keys that the verifier of the whole job needs. Whoever has seen a node's proof will need them soon, and
        the processes that verify nodes have made most of them."""
        return in_background(self.prepare_verifying, "distprove-whole-ahead")

    def _is_planned(self, partition: Partition, proof: PartitionProof) -> bool:
        """Whether this is a partition's proof, of the heights and under the challenge that a leaf's circuit has. Raises
        FormatError."""
        planned = context_of(partition).log_heights
        if is_node(proof) or planned is None:
            return False
        known, (_, challenge) = self.planned_challenge(), self.made_under(proof)
        heights = engine_of(self.params).heights_in(proof.data, self.key, proof.name)
        return heights == tuple(planned) and known in (None, challenge)

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Check all partitions together, whose proofs hold. The root is verified here unless `verify` has just done
        so."""
        partitions, whole = self.bind_whole(proofs)
        if _root_of(proofs) is not self._root:
            self.verify_whole(partitions, whole, self.output())
        else:
            verify_whole(
                self.key, node_key_beside, partitions, whole, self.output(), self.tree_wires, verified=self._root
            )

    def bind_whole(self, proofs: Sequence[PartitionProof]) -> tuple[list[PartitionProof], dict[str, Any]]:
        return [listed(proof) for proof in proofs[: self.partitions]], whole_of(_root_of(proofs))

    def verify_whole(self, partitions: Sequence[PartitionProof], whole: dict[str, Any], output: bytes | None) -> None:
        self.verifier.verify_whole(partitions, whole, output)

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        return self.explain_whole([listed(proof) for proof in proofs[: self.partitions]])

    def explain_whole(self, partitions: Sequence[PartitionProof]) -> dict[str, Any]:
        return self.verifier.explain_whole(partitions)


def _root_of(proofs: Sequence[PartitionProof]) -> PartitionProof:
    """The root's proof among those of the whole plan, which has it near its end."""
    return next(proof for proof in reversed(proofs) if proof.name == ROOT)


def node_key_beside(key: MultilinearKey, kind: Kind) -> MultilinearKey:
    """The verifying key of a node. Beside provers the verifiers of a machine have a share of its threads together
    (`cluster.executor.verifiers.how_many`), which the one that makes a key has alone."""
    return node_key(key, kind, max(1, usable_threads() // VERIFIERS_SHARE))


def _evaluators(key: MultilinearKey) -> None:
    """Make what evaluates a key's rules at points, which its first verification would make otherwise."""
    for table in key.tables:
        _ = table.constraints_at, table.interactions_at


class OneProofSynthesiser(StarkSynthesiser):
    """Reads the inputs of partitions. Nodes have none: their prover computes with the proofs of their children."""

    def synthesise(self, partition: Partition) -> Witness:
        return Witness(partition.name, {}) if partition.needs else super().synthesise(partition)


class OneProofProver(MultilinearProver):
    """Proves partitions and nodes on one backend. The keys of nodes are made while it is idle, or when they are first
    needed. Implements `PreparesIdle` of `distprove.system`, too."""

    def __init__(self, system: OneProofSystem, backend: Backend) -> None:
        super().__init__(system, backend)
        self._trees: dict[tuple[tuple[Form, ...], ...], TreeKeys] = {}
        """The keys of each tree, by its leaves. A thread that prepares may add to it."""
        self._cells: list[CellPrograms] = []
        """The programs of nodes' rules: backends keep what they compile while these live."""
        self._pieces: Iterator[None] = iter(())
        """What is prepared on the device while it is idle, each piece when the next one is asked for."""
        planned = system.planned_kinds()
        if planned and backend.info().kind != "cpu":  # else the device's threads are the host's
            laid_out = in_background(partial(self._prepare, planned[0]), "distprove-tree-ahead")
            self._pieces = self._ahead(laid_out, planned[0])

    def prepare_more(self) -> bool:
        """Bring the next of what nodes need to the device: the kernels of their rules, or a key."""
        try:
            next(self._pieces)
        except StopIteration:
            return False
        return True

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        if not partition.needs:
            return super().prove_partition(partition, witness, challenge)
        kind = Kind.from_record(partition.source["kind"], self._key.key, partition.name)
        self._backend.watch_memory()
        try:
            with measured(self._backend) as steps:
                proven, steps.times.memory = self._prove_node(kind, partition, steps)
        except UsageError as error:  # such a tree has no keys, which is no fault of this prover
            raise InputError(f"{partition.name}: {error}") from None
        return PartitionProof(partition.name, partition.digest, proven.public, node_data(kind, proven)), steps.times

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Return for a node: the proofs that it is made of were verified, so that its prover is at fault."""
        if not partition.needs:
            super().diagnose(partition, witness)

    def close(self) -> None:
        self._pieces = iter(())
        self._trees.clear()
        super().close()

    def _prove_node(self, kind: Kind, partition: Partition, steps: Steps) -> tuple[Proven, MemoryUse]:
        """Prove a node. Returns its use of memory, too."""
        with steps("key"):
            keys = self._keys(kind)
            rules = self._key.key if kind.is_leaf else keys.below.shape.key
            children = [proven_of(proof, rules) for proof in partition.children]
            node, challenge = TreeNode(partition.name, partition.needs), challenge_of(partition.children[0])
        return self._prove_beside(
            keys,
            lambda: keys.key_of(node, children),
            lambda held: keys.prove(node, children, challenge, steps, held=held),
            steps,
        )

    def _prove_beside(
        self,
        keys: TreeKeys,
        key_of: Callable[[], MultilinearProvingKey],
        prove: Callable[[int], Proven],
        steps: Steps,
    ) -> tuple[Proven, MemoryUse]:
        """Prove under one of the `keys` beside what is kept or, if it does not fit there, after making room. `prove`
        takes the bytes of the device that others keep. Returns the use of memory, too."""
        while True:
            with steps("key"):
                pk = key_of()
            held = self._held_beside() + key_bytes(self._key.key) + self._nbytes(beside=keys)
            others = held + keys.nbytes - key_bytes(pk.key)
            try:
                plan = choose(Shape(pk.key, tuple(pk.key.fixed_heights)), self._budget - others)
                proven = prove(held)
            except OutOfMemory:
                if not (self._drop_keys(keep=pk) or super()._make_room()):
                    raise
            else:
                peak = self._backend.memory_peak()
                return proven, MemoryUse(plan.name, plan.peak, None if peak is None else peak - others)

    def _keys(self, kind: Kind) -> TreeKeys:
        made = self._trees.get(kind.leaves)
        if made is None:
            made = self._trees.setdefault(kind.leaves, keys_of_tree(self._key.key, kind, self._backend))
        return made

    def _node_rules(self) -> list[Rules]:
        """The rules of all nodes' tables."""
        return node_rules()

    def _prepare(self, kind: Kind) -> None:
        """Make on the host what the nodes of a tree need, while the device proves partitions."""
        self._cells = [CellPrograms.of(rules) for rules in self._node_rules()]
        self._backend.multilinear.prepare(program for each in self._cells for program in each.programs)
        self._keys(kind).prepare(kind.leaves)

    def _ahead(self, laid_out: Future[None], kind: Kind) -> Iterator[None]:
        """Prepare the tree of this kind on the device, piece by piece, once the host's part is done: nodes are proven
        one after the other at the end of a job, where nothing else is left to do beside them. Keys are made as far as
        a partition has room beside them."""
        while not laid_out.done():
            yield
        laid_out.result()
        for each in self._cells:
            self._backend.multilinear.load(each.programs)
            yield
        for nbytes, make in self._keys(kind).keys_ahead(kind.leaves):
            if not self._room_ahead(kind, nbytes):
                return
            make()
            yield

    def _room_ahead(self, kind: Kind, nbytes: int) -> bool:
        """Whether a key of so many bytes, as it is made, leaves room for a partition."""
        partition = plans(Shape(self._key.key, kind.leaves[0][0].log_heights))[0].peak
        return self._held() + partition + 2 * nbytes <= self._budget

    def _second_ahead(self, kind: Kind) -> Iterator[None]:
        """Make the key of a second root of this kind, if it leaves room for a partition."""
        keys = self._keys(kind)
        if self._room_ahead(kind, keys.wrap_bytes):
            _ = keys.wrap
            yield

    def _nbytes(self, beside: TreeKeys | None = None) -> int:
        """Bytes of the device that the keys of nodes take, without those of the tree `beside` which others are."""
        return sum(keys.nbytes for keys in list(self._trees.values()) if keys is not beside)

    def _drop_keys(self, keep: MultilinearProvingKey | None = None) -> bool:
        """Free all keys of nodes but `keep`; whether there were any."""
        dropped = [keys.drop(keep) for keys in list(self._trees.values())]
        return any(dropped)

    def _held(self) -> int:
        return self._held_beside() + self._nbytes()

    def _held_beside(self) -> int:
        """Bytes of the device that are held beside the keys of nodes."""
        return super()._held()

    def _make_room(self) -> bool:
        return self._drop_keys() or super()._make_room()

    def _commit_beside(self, partition: Partition, witness: Witness, steps: Steps, more: bool) -> Committed:
        committed = super()._commit_beside(partition, witness, steps, more)
        planned = context_of(partition).log_heights
        if planned is None or committed.shape.log_heights != tuple(planned):
            raise AirError(
                f"partition {partition.name}: its trace has other heights than the program says (Program.log_heights), "
                "and the keys of a job that ends in one proof depend on these"
            )
        return committed
