"""A proof of replication: its statement, and what the output of C1 has to do with it.

The public inputs of a partition are those of `get_seal_inputs` (filecoin-proofs 19.1.0).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from distprove.circuits.filecoin.hashing import FIELD, hash_poseidon, node_label, poseidon_hashes, sha256_hashes
from distprove.circuits.filecoin.porep import ALL_PARENTS, DRG_PARENTS, hashed_parents, labelled_layer
from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin.challenges import seal_challenges
from distprove.filecoin.graph import StackedGraph
from distprove.filecoin.sectors import SEAL_PROOFS, Draw, SealProof, tree_d, tree_r
from distprove.filecoin.statement import check_record
from distprove.filecoin.trees import MerklePath, check_paths

KIND = "porep"


@dataclass(frozen=True)
class Sealed:
    """Whose sector it is, from which its replica id follows."""

    prover_id: bytes
    sector: int
    ticket: bytes

    def replica_id(self, comm_d: bytes, porep_id: bytes) -> bytes:
        """SHA-256 of prover id, sector, ticket, comm_d and porep id, without its two highest bits."""
        hashed = hashlib.sha256(self.prover_id + self.sector.to_bytes(8, "big") + self.ticket + comm_d + porep_id)
        digest = bytearray(hashed.digest())
        digest[31] &= 0x3F
        return bytes(digest)


@dataclass(frozen=True)
class SealStatement:
    """A sector is sealed: comm_r is the replica of the data comm_d."""

    proof: SealProof
    porep_id: bytes
    comm_d: bytes
    comm_r: bytes
    replica_id: bytes
    seed: bytes
    """Zero where challenges are drawn without one, as those of a non-interactive type are."""
    sealed: Sealed | None = None
    """Where it is given, the replica id has been derived from it."""

    kind = KIND

    def __post_init__(self) -> None:
        """Raises VanillaMismatch for a replica id that is not the sector's, commitments that are no elements, or a seed
        that the type has no use for."""
        for name in ("comm_d", "comm_r", "replica_id"):
            value = int.from_bytes(getattr(self, name), "little")
            if value >= FIELD.modulus or (value == 0 and name != "replica_id"):
                raise VanillaMismatch(f"{name} is {'zero' if not value else 'not below the prime of the field'}")
        if self.has_seed and not any(self.seed):
            raise VanillaMismatch("the seed is zero: no challenges were drawn yet")
        if not self.has_seed and any(self.seed):
            raise VanillaMismatch("the seed is not zero, and the challenges of this type are drawn without one")
        if self.sealed is not None and self.sealed.replica_id(self.comm_d, self.porep_id) != self.replica_id:
            raise VanillaMismatch(
                "replica_id is not the hash of this prover id, sector number, ticket, comm_d and porep id"
            )

    @property
    def has_seed(self) -> bool:
        """Whether the challenges are drawn from a seed."""
        return self.proof.draw is not Draw.NON_INTERACTIVE

    @property
    def circuit(self) -> str:
        return self.proof.circuit

    @property
    def partitions(self) -> int:
        return self.proof.partitions

    @cached_property
    def graph(self) -> StackedGraph:
        return StackedGraph(self.proof.nodes, self.porep_id, legacy=self.proof.version == (1, 0))

    def challenges(self, partition: int) -> list[int]:
        """The challenged nodes of a partition."""
        return seal_challenges(self.proof, self.replica_id, self.comm_r, self.seed, partition)

    def public_inputs(self, partition: int) -> list[int]:
        public = [int.from_bytes(each, "little") for each in (self.replica_id, self.comm_d, self.comm_r)]
        for node in self.challenges(partition):
            public += [node, *self.graph.parents(node), node, node, node]
        return public

    def record(self) -> dict[str, Any]:
        sealed = self.sealed
        return {
            "proof_type": self.proof.name,
            "porep_id": self.porep_id,
            "comm_d": self.comm_d,
            "comm_r": self.comm_r,
            "replica_id": self.replica_id,
            "seed": self.seed,
            "sealed": None
            if sealed is None
            else {"prover_id": sealed.prover_id, "sector": sealed.sector, "ticket": sealed.ticket},
        }

    @classmethod
    def from_record(cls, record: Any) -> SealStatement:
        """The statement that `record` wrote, from untrusted data. Raises FormatError, VanillaMismatch."""
        octets = dict.fromkeys(("porep_id", "comm_d", "comm_r", "replica_id", "seed"), bytes)
        sealed = record.get("sealed") if isinstance(record, Mapping) else None
        own = None
        if sealed is not None:
            own = Sealed(**check_record(sealed, {"prover_id": bytes, "sector": int, "ticket": bytes}))
            if not 0 <= own.sector < 1 << 64:
                raise FormatError("the statement: a sector's number has 64 bits")
        found = check_record(record, {"proof_type": str, **octets, "sealed": type(sealed)})
        if found["proof_type"] not in SEAL_PROOFS:
            raise FormatError("the statement: an unknown type of proof")
        return cls(SEAL_PROOFS[found["proof_type"]], **{name: found[name] for name in octets}, sealed=own)

    def says(self) -> dict[str, str]:
        made = {
            "proof type": self.proof.name,
            "comm_d": self.comm_d.hex(),
            "comm_r": self.comm_r.hex(),
            "replica id": self.replica_id.hex(),
        }
        if self.has_seed:
            made["seed"] = self.seed.hex()
        if self.porep_id != self.proof.porep_id:
            made["porep id"] = self.porep_id.hex()
        if self.sealed is None:
            return {**made, "replica id": f"{made['replica id']}, as the file has it: not derived"}
        own = {"prover id": self.sealed.prover_id.hex(), "sector": str(self.sealed.sector)}
        return {**own, "ticket": self.sealed.ticket.hex(), **made}


@dataclass(frozen=True, repr=False)
class ColumnProof:
    """The labels of a node in all layers, and the path of their hash in tree C."""

    index: int
    rows: tuple[int, ...]
    path: MerklePath


@dataclass(frozen=True, repr=False)
class LabelProof:
    """A label's preimage: what is encoded with it, too."""

    layer: int
    node: int
    parents: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class ChallengeProof:
    """The vanilla proof of one challenged node. Its leaves and labels are secret."""

    data: MerklePath
    replica: MerklePath
    column: ColumnProof
    parents: tuple[ColumnProof, ...]
    """Of the six parents in the same layer, then of the eight in the layer before."""
    labels: tuple[LabelProof, ...]
    """One for each layer."""
    encoding: LabelProof


Partition = tuple[ChallengeProof, ...]


def check_vanilla(statement: SealStatement, partitions: Sequence[Partition]) -> None:
    """Raise VanillaMismatch, which names partition, challenge and field, unless the vanilla proofs are those of the
    statement: indices, labels, columns, encoding, and every path up to comm_d and comm_r."""
    first = partitions[0][0]
    comm_c, comm_r_last = first.column.path.root, first.replica.root
    if hash_poseidon([comm_c, comm_r_last]).to_bytes(32, "little") != statement.comm_r:
        raise VanillaMismatch("comm_r is not the hash of comm_c and comm_r_last, the roots in partition 0, challenge 0")

    in_d: list[tuple[str, MerklePath]] = []
    in_r: list[tuple[str, MerklePath]] = []
    columns: list[tuple[str, ColumnProof]] = []
    for k, partition in enumerate(partitions):
        for number, (node, given) in enumerate(zip(statement.challenges(k), partition, strict=True)):
            place = f"partition {k}, challenge {number} (node {node})"
            for name, own in _columns(given):
                if own.path.root != comm_c:
                    raise VanillaMismatch(f"{place}: {name}: the root is not comm_c, that of partition 0, challenge 0")
                columns.append((f"{place}: {name}", own))
            if given.replica.root != comm_r_last:
                raise VanillaMismatch(f"{place}: comm_r_last_proof: the root is not that of partition 0, challenge 0")
            if given.data.root.to_bytes(32, "little") != statement.comm_d:
                raise VanillaMismatch(f"{place}: comm_d_proofs: the root is not comm_d")
            _check_challenge(statement, place, node, given)
            in_d.append((f"{place}: comm_d_proofs", given.data))
            in_r.append((f"{place}: comm_r_last_proof", given.replica))

    # Hashes, of all challenges at once.
    for (name, own), hashed in zip(columns, _column_hashes([own.rows for _, own in columns]), strict=True):
        if own.path.leaf != hashed:
            raise VanillaMismatch(f"{name}: the path's leaf is not the hash of the column's rows")
    size = statement.proof.size
    check_paths(in_d, tree_d(size), sha256_hashes)
    check_paths([*in_r, *((name, own.path) for name, own in columns)], tree_r(size), poseidon_hashes)


def _column_hashes(rows: Sequence[tuple[int, ...]]) -> list[int]:
    """The hash of each column; equal columns, of parents that several nodes share, are hashed once."""
    known = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    hashed = poseidon_hashes(list(known))
    return [hashed[known[row]] for row in rows]


def _columns(given: ChallengeProof) -> Iterator[tuple[str, ColumnProof]]:
    """The columns of a challenge by the names of their fields."""
    yield "c_x", given.column
    for k, parent in enumerate(given.parents):
        yield f"drg_parents[{k}]" if k < DRG_PARENTS else f"exp_parents[{k - DRG_PARENTS}]", parent


def _check_challenge(statement: SealStatement, place: str, node: int, given: ChallengeProof) -> None:
    """Check indices, labels and encoding of one challenge."""
    wanted = [node, *statement.graph.parents(node)]
    for (name, own), index in zip(_columns(given), wanted, strict=True):
        for what, found in (("column's index", own.index), ("path's index", own.path.index)):
            if found != index:
                raise VanillaMismatch(f"{place}: {name}: the {what} is {found}, not {index}")
    for name, path in (("comm_d_proofs", given.data), ("comm_r_last_proof", given.replica)):
        if path.index != node:
            raise VanillaMismatch(f"{place}: {name}: the path's index is {path.index}, not {node}")

    replica_id = int.from_bytes(statement.replica_id, "little")
    layers = range(1, statement.proof.layers + 1)
    labelled = [*zip(layers, given.labels, strict=True), (layers[-1], given.encoding)]
    for number, (layer, label) in enumerate(labelled):
        name = f"labeling_proofs[{layer - 1}]" if number < len(layers) else "encoding_proof"
        parents = tuple(given.parents[k].rows[labelled_layer(layer, k) - 1] for k in hashed_parents(layer))
        if (label.layer, label.node) != (layer, node):
            of = f"of layer {label.layer} and node {label.node}"
            raise VanillaMismatch(f"{place}: {name}: {of}, not {layer} and {node}")
        if label.parents != parents:
            raise VanillaMismatch(f"{place}: {name}: the parents are not the labels in the parents' columns")
        if node_label(replica_id, layer, node, parents) != given.column.rows[layer - 1]:
            raise VanillaMismatch(f"{place}: {name}: the label in c_x is not the hash of replica_id, node and parents")
    if (given.column.rows[-1] + given.data.leaf) % FIELD.modulus != given.replica.leaf:
        raise VanillaMismatch(f"{place}: the replica's leaf is not the sum of the last label and the data's leaf")


def circuit_inputs(statement: SealStatement, partition: int, given: Partition) -> dict[str, list[int]]:
    """The inputs of `porep_circuit` for one partition. All but `public` are secret."""
    columns = [[*one.parents, one.column] for one in given]
    return {
        "public": statement.public_inputs(partition),
        "comm_c": [given[0].column.path.root],
        "comm_r_last": [given[0].replica.root],
        "data_leaf": [one.data.leaf for one in given],
        "data_siblings": [x for one in given for x in one.data.siblings],
        "columns": [x for own in columns for parent in own[:ALL_PARENTS] for x in parent.rows],
        "column_siblings": [x for own in columns for each in own for x in each.path.siblings],
        "replica_siblings": [x for one in given for x in one.replica.siblings],
    }
