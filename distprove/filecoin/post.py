"""Proofs of spacetime: their statements, and what sectors' vanilla proofs have to do with them.

Follows `FallbackPoSt` of storage-proofs-post 19.1.0. A vanilla proof is a `FallbackPoStSectorProof` of filecoin-proofs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distprove.circuits.filecoin.hashing import FIELD, poseidon_hashes
from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin.bincode import decoded, sector_proof
from distprove.filecoin.sectors import POST_PROOFS, PostProof, find_proof, size_of_tree_r, tree_r
from distprove.filecoin.statement import check_record
from distprove.filecoin.trees import MerklePath, check_paths, read_path
from distprove.filecoin.values import element, fields, integer, items, within
from distprove.proof import check_fields

WINNING, WINDOW = "winning-post", "window-post"


@dataclass(frozen=True)
class PostStatement:
    """A prover has sectors' replicas at hand: their challenged leaves are those of trees that comm_r commits to."""

    proof: PostProof
    randomness: bytes
    sectors: tuple[tuple[int, bytes], ...]
    """Number and comm_r of each sector, in the order of the numbers."""

    def __post_init__(self) -> None:
        """Raises VanillaMismatch for what no verifier accepts."""
        numbers = [number for number, _ in self.sectors]
        if not numbers or numbers != sorted(set(numbers)):
            raise VanillaMismatch("the sectors' numbers are distinct, and in order")
        if self.proof.winning and len(numbers) != 1:
            raise VanillaMismatch(f"{self.proof.name} is of one sector, not of {len(numbers)}")
        for name, value in [("randomness", self.randomness), *((f"comm_r of sector {n}", c) for n, c in self.sectors)]:
            if int.from_bytes(value, "little") >= FIELD.modulus:
                raise VanillaMismatch(f"{name} is not below the prime of the field")

    @property
    def kind(self) -> str:
        return WINNING if self.proof.winning else WINDOW

    @property
    def circuit(self) -> str:
        return self.proof.circuit

    @property
    def partitions(self) -> int:
        return 1 if self.proof.winning else -(-len(self.sectors) // self.proof.shape[0])

    def challenges(self, place: int) -> list[int]:
        """The challenged leaves of the sector at this place among all."""
        count = self.proof.challenges
        first = 0 if self.proof.own_indices else place * count
        return [self._leaf(self.sectors[place][0], first + number) for number in range(count)]

    def _leaf(self, sector: int, number: int) -> int:
        hashed = hashlib.sha256(self.randomness + sector.to_bytes(8, "little") + number.to_bytes(8, "little"))
        return int.from_bytes(hashed.digest()[:8], "little") % self.proof.nodes

    def places(self, partition: int) -> list[int]:
        """The sectors of a partition's circuit, the last of which is repeated to fill it. A WinningPoSt has one."""
        if self.proof.winning:
            return [0]
        count = self.proof.shape[0]
        own = range(partition * count, min((partition + 1) * count, len(self.sectors)))
        return [*own, *[own[-1]] * (count - len(own))]

    def public_inputs(self, partition: int) -> list[int]:
        public: list[int] = []
        for place in self.places(partition):
            comm_r, leaves = int.from_bytes(self.sectors[place][1], "little"), self.challenges(place)
            public += [x for leaf in leaves for x in (comm_r, leaf)] if self.proof.winning else [comm_r, *leaves]
        return public

    def record(self) -> dict[str, Any]:
        sectors = [{"sector": number, "comm_r": comm_r} for number, comm_r in self.sectors]
        return {"proof_type": self.proof.name, "randomness": self.randomness, "sectors": sectors}

    @classmethod
    def from_record(cls, record: Any) -> PostStatement:
        """The statement that `record` wrote, from untrusted data. Raises FormatError, VanillaMismatch."""
        check_fields(record, {"proof_type": str, "randomness": bytes, "sectors": list}, "the statement")
        check_record({"randomness": record["randomness"]}, {"randomness": bytes})
        sectors = [check_record(each, {"sector": int, "comm_r": bytes}) for each in record["sectors"]]
        if any(not 0 <= each["sector"] < 1 << 64 for each in sectors) or record["proof_type"] not in POST_PROOFS:
            raise FormatError("the statement: an unknown type of proof, or a number of more than 64 bits")
        listed = tuple((each["sector"], each["comm_r"]) for each in sectors)
        return cls(POST_PROOFS[record["proof_type"]], record["randomness"], listed)

    def says(self) -> dict[str, str]:
        sectors = ", ".join(f"{number}: {comm_r.hex()}" for number, comm_r in self.sectors)
        return {"proof type": self.proof.name, "randomness": self.randomness.hex(), "sectors": sectors}


@dataclass(frozen=True, repr=False)
class SectorProof:
    """The vanilla proof of a sector. Its leaves are secret."""

    sector: int
    comm_r: int
    comm_c: int
    comm_r_last: int
    paths: tuple[MerklePath, ...]


def read_sectors(value: Any, proof_type: str | None, *, winning: bool) -> tuple[PostProof, list[SectorProof]]:
    """Read vanilla proofs, of one sector or a list of them, in the order of the sectors' numbers.

    Without `proof_type` the newest type of the sectors' size is taken. Raises FormatError, UsageError.
    """
    listed = []
    for place, each in enumerate(value if isinstance(value, list) else [value]):
        with within(f"vanilla proof {place}"):
            listed.append(decoded(each, sector_proof))
    given = None if proof_type is None else find_proof(proof_type, POST_PROOFS)
    proof = given or POST_PROOFS[_newest(listed, winning)]
    if proof.winning is not winning:
        raise VanillaMismatch(f"{proof.name} is no {'WinningPoSt' if winning else 'WindowPoSt'}")
    made = []
    for place, each in enumerate(listed):
        with within(f"vanilla proof {place}"):
            made.append(_sector(proof, each))
    return proof, sorted(made, key=lambda own: own.sector)


def _newest(listed: list[Any], winning: bool) -> str:
    try:
        (tree,) = listed[0]["vanilla_proof"]["sectors"][0]["inclusion_proofs"][0]["data"].values()
        size = size_of_tree_r(sum(len(piece["path"]) for piece in tree.values() if isinstance(piece, dict)))
    except (LookupError, TypeError, ValueError, AttributeError):
        size = None
    if size is None:
        raise FormatError("vanilla proof 0 has no path of a sector whose size ships")
    return f"StackedDrgWinning{size}V1" if winning else f"StackedDrgWindow{size}V1_2"


def _sector(proof: PostProof, value: Any) -> SectorProof:
    number, comm_r, vanilla = fields(value, "sector_id", "comm_r", "vanilla_proof")
    ((sector,),) = [items(each, 1, "sectors") for each in fields(vanilla, "sectors")]
    inclusion, comm_c, comm_r_last = fields(sector, "inclusion_proofs", "comm_c", "comm_r_last")
    paths = []
    for k, path in enumerate(items(inclusion, proof.challenges, "inclusion_proofs")):
        with within(f"challenge {k}"):
            paths.append(read_path(path, tree_r(proof.size)))
    return SectorProof(
        integer(number, "sector_id", 64),
        element(comm_r, "comm_r"),
        element(comm_c, "comm_c"),
        element(comm_r_last, "comm_r_last"),
        tuple(paths),
    )


def statement_of(proof: PostProof, randomness: bytes, sectors: Sequence[SectorProof]) -> PostStatement:
    """The statement of sectors' vanilla proofs. Raises VanillaMismatch."""
    return PostStatement(proof, randomness, tuple((own.sector, own.comm_r.to_bytes(32, "little")) for own in sectors))


def check_sectors(statement: PostStatement, sectors: Sequence[SectorProof]) -> None:
    """Raise VanillaMismatch, which names sector, challenge and field, unless the vanilla proofs are those of the
    statement: indices, and every path up to comm_r."""
    paths = []
    roots = poseidon_hashes([(own.comm_c, own.comm_r_last) for own in sectors])
    for place, (own, root) in enumerate(zip(sectors, roots, strict=True)):
        name = f"partition {place // statement.proof.shape[0]}, sector {own.sector}"
        if root != own.comm_r:
            raise VanillaMismatch(f"{name}: comm_r is not the hash of comm_c and comm_r_last")
        for number, (path, leaf) in enumerate(zip(own.paths, statement.challenges(place), strict=True)):
            if path.index != leaf:
                raise VanillaMismatch(f"{name}, challenge {number}: the path's index is {path.index}, not {leaf}")
            if path.root != own.comm_r_last:
                raise VanillaMismatch(f"{name}, challenge {number}: the root is not comm_r_last")
            paths.append((f"{name}, challenge {number}", path))
    check_paths(paths, tree_r(statement.proof.size), poseidon_hashes)


def circuit_inputs(statement: PostStatement, partition: int, sectors: Sequence[SectorProof]) -> dict[str, list[int]]:
    """The inputs of `post_circuit` for one partition. All but `public` are secret."""
    own = [sectors[place] for place in statement.places(partition)]
    repeated = statement.proof.challenges if statement.proof.winning else 1
    return {
        "public": statement.public_inputs(partition),
        "comm_c": [one.comm_c for one in own] * repeated,
        "comm_r_last": [one.comm_r_last for one in own] * repeated,
        "leaf": [path.leaf for one in own for path in one.paths],
        "siblings": [x for one in own for path in one.paths for x in path.siblings],
    }
