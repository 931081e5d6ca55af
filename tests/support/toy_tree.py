"""The toy system with a tree of partitions: leaves, nodes that need up to four partitions each, and a root.

What a node states is computed from its children's proofs, so that a wrong child is seen when the job is bound. With a
barrier, in which the leaves alone take part, and without.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from distprove.errors import InvalidProof
from distprove.formats import canonical
from distprove.system import Partition, PartitionProof, StepTimes, Witness
from tests.support.toy_system import SECRET, ToyProver, ToySynthesiser, ToySystem

ARITY = 4


@cache
def tree_of(leaves: int) -> Mapping[str, tuple[str, ...]]:
    """All names of a tree with what each needs, the root first, so that nothing comes before what needs it."""
    level = [f"leaf-{i:02}" for i in range(leaves)]
    tree: dict[str, tuple[str, ...]] = dict.fromkeys(level, ())
    nodes = 0
    while len(level) > 1:
        groups = [tuple(level[i : i + ARITY]) for i in range(0, len(level), ARITY)]
        level = ["root"] if len(groups) == 1 else [f"node-{nodes + i}" for i in range(len(groups))]
        nodes += len(groups)
        tree = {**dict(zip(level, groups, strict=True)), **tree}
    return tree


def combined(children: Sequence[PartitionProof]) -> int:
    """What a node states of its children's proofs, before it is squared."""
    content = [[child.name, list(child.public), child.data["tag"]] for child in children]
    return int.from_bytes(canonical.digest("toy/children", content)[:4], "little")


class TreeSystem(ToySystem):
    """`count` leaves and what stands over them."""

    def plan(self) -> list[Partition]:
        return [
            Partition(
                *(i, name, canonical.digest("toy/input", i, self.key), {"secret": str(SECRET + i)}), needs=children
            )
            for i, (name, children) in enumerate(tree_of(self.count).items())
        ]

    def in_barrier(self, name: str) -> bool:
        return self.needs_barrier and not tree_of(self.count)[name]

    def synthesiser(self, shared: dict[str, np.ndarray], threads: int) -> TreeSynthesiser:
        return TreeSynthesiser(self.faults, self.witness_bytes, self.count)

    def prover(self, shared: dict[str, np.ndarray], backend: object) -> TreeProver:
        return TreeProver(self, shared["key"].tobytes(), False)

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        by_name = {proof.name: proof for proof in proofs}
        for index, (name, children) in enumerate(tree_of(self.count).items()):
            stated = combined([by_name[child] for child in children]) if children else index
            if by_name[name].public[0] != stated**2:
                raise InvalidProof(f"{name} was made of other proofs than those of its children")


class TreeSynthesiser(ToySynthesiser):
    def __init__(self, faults: object, witness_bytes: int, count: int) -> None:
        super().__init__(faults, witness_bytes)  # type: ignore[arg-type]
        self._count = count

    def synthesise(self, partition: Partition) -> Witness:
        needed = tree_of(self._count)[partition.name]
        assert tuple(child.name for child in partition.children) == partition.needs == needed
        made = super().synthesise(partition)
        if partition.needs:
            made.arrays["witness"][1] = combined(partition.children)
        return made


class TreeProver(ToyProver):
    def nonce(self) -> int:
        """Another one each time, so that a node of one proof of a child does not fit the next."""
        return secrets.randbits(32)

    def commit(self, partition: Partition, witness: Witness) -> bytes | None:
        assert self.system.in_barrier(partition.name)
        self.system.faults.log(f"committed {partition.name}")
        return super().commit(partition, witness)

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        assert tuple(child.name for child in partition.children) == partition.needs
        assert (challenge is not None) == self.system.in_barrier(partition.name)
        proven = super().prove_partition(partition, witness, challenge)
        self.system.faults.log(f"proven {partition.name}")
        return proven


class CheckingTree(TreeSystem):
    """Compares what a node states with its children's proofs (`distprove.system.ChecksChildren`)."""

    def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
        assert tuple(child.name for child in children) == partition.needs
        return not partition.needs or proof.public[0] == combined(children) ** 2
