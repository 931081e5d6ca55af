"""Updates of sectors (SnapDeals): their statement, and what the partitions' vanilla proofs have to do with it.

Follows `EmptySectorUpdate` of storage-proofs-update 19.1.0, whose `PartitionProof` a vanilla proof is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distprove.circuits.filecoin.hashing import FIELD, hash_poseidon, poseidon_hashes, sha256_hashes
from distprove.circuits.filecoin.inputs import hash_randomness, update_challenges
from distprove.circuits.filecoin.snap import Update
from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin.bincode import decoded, partition_proof
from distprove.filecoin.sectors import UPDATE_PROOFS, UpdateProof, find_proof, size_of_tree_r, tree_d, tree_r
from distprove.filecoin.statement import check_record
from distprove.filecoin.trees import MerklePath, check_paths, read_path
from distprove.filecoin.values import element, fields, items, within

KIND = "snap-deals"
_CHOICE = 3
"""Which h of six Filecoin chooses."""


@dataclass(frozen=True)
class UpdateStatement:
    """The sector that comm_r_old commits to holds the data comm_d_new, encoded into the replica comm_r_new."""

    proof: UpdateProof
    comm_r_old: bytes
    comm_r_new: bytes
    comm_d_new: bytes

    kind = KIND

    def __post_init__(self) -> None:
        """Raises VanillaMismatch for commitments that are no elements of the field."""
        for name in ("comm_r_old", "comm_r_new", "comm_d_new"):
            if int.from_bytes(getattr(self, name), "little") >= FIELD.modulus:
                raise VanillaMismatch(f"{name} is not below the prime of the field")

    @property
    def update(self) -> Update:
        return Update(tree_r(self.proof.size).arities)

    @property
    def circuit(self) -> str:
        return self.proof.circuit

    @property
    def partitions(self) -> int:
        return self.proof.partitions

    @property
    def high(self) -> int:
        """The h of the encoding: how many high bits of a node's index it depends on."""
        return self.update.high_bits[_CHOICE]

    def challenges(self, partition: int) -> list[int]:
        """The challenged nodes of a partition, which follow from comm_r_new."""
        update, comm_r_new = self.update, int.from_bytes(self.comm_r_new, "little")
        return update_challenges(update, comm_r_new, partition, update.partition_bits, update.challenges)

    def public_inputs(self, partition: int) -> list[int]:
        update = self.update
        choice = 1 << update.high_bits.index(self.high)  # in small sectors all six are alike, and the first is set
        commitments = (self.comm_r_old, self.comm_d_new, self.comm_r_new)
        return [partition | choice << update.partition_bits, *(int.from_bytes(each, "little") for each in commitments)]

    def record(self) -> dict[str, Any]:
        commitments = {name: getattr(self, name) for name in ("comm_r_old", "comm_r_new", "comm_d_new")}
        return {"proof_type": self.proof.name, **commitments}

    @classmethod
    def from_record(cls, record: Any) -> UpdateStatement:
        """The statement that `record` wrote, from untrusted data. Raises FormatError, VanillaMismatch."""
        octets = dict.fromkeys(("comm_r_old", "comm_r_new", "comm_d_new"), bytes)
        found = check_record(record, {"proof_type": str, **octets})
        if found["proof_type"] not in UPDATE_PROOFS:
            raise FormatError("the statement: an unknown type of proof")
        return cls(UPDATE_PROOFS[found["proof_type"]], **{name: found[name] for name in octets})

    def says(self) -> dict[str, str]:
        commitments = {name: getattr(self, name).hex() for name in ("comm_r_old", "comm_r_new", "comm_d_new")}
        return {"proof type": self.proof.name, **commitments}


@dataclass(frozen=True, repr=False)
class ChallengeProof:
    """The vanilla proof of one challenged node. Its leaves are secret."""

    old: MerklePath
    data: MerklePath
    new: MerklePath

    def named(self) -> list[tuple[str, MerklePath]]:
        """The paths by the names of their fields."""
        return [("proof_r_old", self.old), ("proof_d_new", self.data), ("proof_r_new", self.new)]


@dataclass(frozen=True, repr=False)
class PartitionProof:
    """The vanilla proof of a partition."""

    comm_c: int
    apex_leaves: tuple[int, ...]
    challenges: tuple[ChallengeProof, ...]


def read_update(value: Any, proof_type: str | None) -> tuple[UpdateProof, list[PartitionProof]]:
    """Read the vanilla proofs of all partitions. Raises FormatError, UsageError."""
    listed = []
    for k, each in enumerate(items(value, None, "partitions")):
        with within(f"partition {k}"):
            listed.append(decoded(each, partition_proof))
    given = None if proof_type is None else find_proof(proof_type, UPDATE_PROOFS)
    proof = given or UPDATE_PROOFS[f"StackedDrg{_size(listed)}V1"]
    made = []
    for k, each in enumerate(items(listed, proof.partitions, f"partitions of {proof.name}")):
        with within(f"partition {k}"):
            made.append(_partition(proof, each))
    return proof, made


def _size(listed: list[Any]) -> str:
    try:
        (tree,) = listed[0]["challenge_proofs"][0]["proof_r_old"]["data"].values()
        size = size_of_tree_r(sum(len(piece["path"]) for piece in tree.values() if isinstance(piece, dict)))
    except (LookupError, TypeError, ValueError, AttributeError):
        size = None
    if size is None:
        raise FormatError("partition 0 has no path of a sector whose size ships")
    return size


def _partition(proof: UpdateProof, value: Any) -> PartitionProof:
    comm_c, apex, challenges = fields(value, "comm_c", "apex_leafs", "challenge_proofs")
    in_r, in_d = tree_r(proof.size), tree_d(proof.size)
    update = Update(in_r.arities)
    made = []
    for k, each in enumerate(items(challenges, update.challenges, "challenges")):
        with within(f"challenge {k}"):
            paths = []
            for name, shape in (("proof_r_old", in_r), ("proof_d_new", in_d), ("proof_r_new", in_r)):
                found = fields(each, "proof_r_old", "proof_d_new", "proof_r_new") and each[name]
                with within(name):
                    paths.append(read_path(found, shape))
            made.append(ChallengeProof(*paths))
    leaves = items(apex, 1 << update.apex_bits, "apex_leafs")
    return PartitionProof(
        element(comm_c, "comm_c"), tuple(element(leaf, "an apex leaf") for leaf in leaves), tuple(made)
    )


def statement_of(proof: UpdateProof, partitions: Sequence[PartitionProof]) -> UpdateStatement:
    """The statement of an update's vanilla proofs: its commitments follow from comm_c and the roots of the first."""
    first = partitions[0]
    one = first.challenges[0]
    roots = [hash_poseidon([first.comm_c, path.root]) for path in (one.old, one.new)]
    old, new, data = (each.to_bytes(32, "little") for each in (*roots, one.data.root))
    return UpdateStatement(proof, old, new, data)


def check_update(statement: UpdateStatement, partitions: Sequence[PartitionProof]) -> None:
    """Raise VanillaMismatch, which names partition, challenge and field, unless the vanilla proofs are those of the
    statement: indices, encoding, apex leaves, and every path up to the commitments."""
    update = statement.update
    first = partitions[0]
    roots = [path.root for _, path in first.challenges[0].named()]
    for name, root in (("comm_r_old", roots[0]), ("comm_r_new", roots[2])):
        if hash_poseidon([first.comm_c, root]).to_bytes(32, "little") != getattr(statement, name):
            raise VanillaMismatch(f"{name} is not the hash of comm_c and the root in partition 0, challenge 0")
    if roots[1].to_bytes(32, "little") != statement.comm_d_new:
        raise VanillaMismatch("comm_d_new is not the root in partition 0, challenge 0")

    comm_d, comm_r_old = (int.from_bytes(each, "little") for each in (statement.comm_d_new, statement.comm_r_old))
    phi = hash_randomness(comm_d, comm_r_old)
    rhos: dict[int, int] = {}
    paths: list[list[tuple[str, MerklePath]]] = [[], [], []]
    for k, own in enumerate(partitions):
        if own.comm_c != first.comm_c:
            raise VanillaMismatch(f"partition {k}: comm_c is not that of partition 0")
        for number, (node, given) in enumerate(zip(statement.challenges(k), own.challenges, strict=True)):
            place = f"partition {k}, challenge {number} (node {node})"
            for found, root, (name, path) in zip(paths, roots, given.named(), strict=True):
                if path.index != node:
                    raise VanillaMismatch(f"{place}: {name}: the path's index is {path.index}, not {node}")
                if path.root != root:
                    raise VanillaMismatch(f"{place}: {name}: the root is not that of partition 0, challenge 0")
                found.append((f"{place}: {name}", path))
            part = node >> update.bits - statement.high
            if part not in rhos:
                rhos[part] = hash_randomness(phi, part)
            if (given.old.leaf + given.data.leaf * rhos[part]) % FIELD.modulus != given.new.leaf:
                raise VanillaMismatch(f"{place}: the new replica's leaf is not the encoding of the data's leaf")
    size = statement.proof.size
    check_paths([*paths[0], *paths[2]], tree_r(size), poseidon_hashes)
    check_paths(paths[1], tree_d(size), sha256_hashes)
    for k, own in enumerate(partitions):
        _check_apex(update, k, own)


def _check_apex(update: Update, partition: int, own: PartitionProof) -> None:
    """Check that the apex leaves lead to the node of tree D that the partition's paths go through, and which the paths
    have been shown to reach."""
    one = own.challenges[0]
    row, node, index = list(own.apex_leaves), one.data.leaf, one.data.index
    while len(row) > 1:
        row = sha256_hashes([(row[k], row[k + 1]) for k in range(0, len(row), 2)])
    for level in range(update.bits - update.partition_bits):
        sibling = one.data.siblings[level]
        node = sha256_hashes([(sibling, node) if index >> level & 1 else (node, sibling)])[0]
    if row[0] != node:
        raise VanillaMismatch(f"partition {partition}: apex_leafs do not lead to the paths in the data's tree")


def circuit_inputs(statement: UpdateStatement, partition: int, given: PartitionProof) -> dict[str, list[int]]:
    """The inputs of `snap_circuit` for one partition. All but `public` are secret."""
    update = statement.update
    below = update.bits - update.partition_bits - update.apex_bits
    one = given.challenges[0]
    inputs = {
        "public": statement.public_inputs(partition),
        "comm_c": [given.comm_c],
        "root_r_old": [one.old.root],
        "root_r_new": [one.new.root],
        "leaf_r_old": [each.old.leaf for each in given.challenges],
        "leaf_d_new": [each.data.leaf for each in given.challenges],
        "siblings_r_old": [x for each in given.challenges for x in each.old.siblings],
        "siblings_r_new": [x for each in given.challenges for x in each.new.siblings],
        "apex_leaves": list(given.apex_leaves),
    }
    if below:
        inputs["siblings_d_new"] = [x for each in given.challenges for x in each.data.siblings[:below]]
    if update.partition_bits:
        inputs["partition_siblings"] = list(one.data.siblings[update.bits - update.partition_bits :])
    return inputs
