"""Reads the output of the first commit phase of a seal (C1), JSON of some 50 MB at 32 GiB.

Three layouts are read, which hold the same: `SealCommitPhase1Output` of filecoin-proofs; that of filecoin-proofs-api,
which names the registered proof and tags the vanilla proofs with the sector's size; and the file of lotus-bench and
curio, {"SectorNum", "Phase1Out", "SectorSize"}, with the second in base64 in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.circuits.filecoin.porep import ALL_PARENTS, DRG_PARENTS, HASHED_PARENTS
from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin.porep import ChallengeProof, ColumnProof, LabelProof, Partition
from distprove.filecoin.sectors import SEAL_PROOFS, SIZES, SealProof, find_proof, tree_d, tree_r
from distprove.filecoin.trees import read_path
from distprove.filecoin.values import (
    MAX_FILE,
    base64_octets,
    elements,
    fields,
    integer,
    items,
    json_value,
    octets,
    within,
    without_collector,
)
from distprove.formats.files import read_bounded
from kernels.host.units import count_of

_WRAPPED = ("SectorNum", "Phase1Out", "SectorSize")
_COMMON = ("comm_r", "comm_d", "replica_id", "seed", "ticket")


@dataclass(frozen=True, repr=False)
class CommitOutput:
    """What C1 wrote: public facts of the sector, and its vanilla proofs, which are secret."""

    proof: SealProof
    assumed: bool
    """Whether the file does not name its proof type, and none was given."""
    sector: int | None
    """The sector's number, if the file has it."""
    comm_r: bytes
    comm_d: bytes
    replica_id: bytes
    seed: bytes
    ticket: bytes
    partitions: tuple[Partition, ...]


def read_c1(path: Path, proof_type: str | None = None) -> CommitOutput:
    """Read a file. Its structure is checked, and that each element is canonical; not yet what it says.

    Raises InputError for a file that cannot be read, FormatError, with the place in it, for what is no such output,
    UsageError for an unknown proof type, VanillaMismatch for a file of another one.
    """
    return parse_c1(read_bounded(path, MAX_FILE), str(path), proof_type)


def parse_c1(data: bytes, name: str, proof_type: str | None = None) -> CommitOutput:
    """As `read_c1`, for the file's content."""
    with within(name), without_collector():
        value, sector, size = json_value(data), None, None
        if isinstance(value, dict) and "Phase1Out" in value:
            number, text, sector_size = fields(value, *_WRAPPED)
            sector, size = integer(number, "SectorNum", 64), integer(sector_size, "SectorSize", 64)
            del value
            with within("Phase1Out"):
                value = json_value(base64_octets(text))
        output = _output(value, sector, proof_type)
        if size is not None and size != SIZES[output.proof.size]:
            raise VanillaMismatch(f"SectorSize is {size}, and the proof type is {output.proof.name}")
        return output


def _output(value: Any, sector: int | None, proof_type: str | None) -> CommitOutput:
    given = None if proof_type is None else find_proof(proof_type, SEAL_PROOFS)
    named = isinstance(value, dict) and "registered_proof" in value
    if named:
        stated, tagged, *common = fields(value, "registered_proof", "vanilla_proofs", *_COMMON)
        if not isinstance(stated, str) or stated not in SEAL_PROOFS:
            raise FormatError("registered_proof is not a type of proof that this distprove knows")
        proof = SEAL_PROOFS[stated]
        if given not in (None, proof):
            raise VanillaMismatch(f"registered_proof is {stated}, not {proof_type}")
        (vanilla,) = fields(tagged, f"StackedDrg{proof.size}V1")
    else:
        vanilla, *common = fields(value, "vanilla_proofs", *_COMMON)
        proof = given or SEAL_PROOFS[f"StackedDrg{_size_of(vanilla)}V1_1"]
    comm_r, comm_d, replica_id, seed, ticket = map(octets, common, _COMMON)
    partitions = tuple(
        _partition(proof, number, each)
        for number, each in enumerate(items(vanilla, proof.partitions, f"partitions of {proof.name}"))
    )
    assumed = given is None and not named
    return CommitOutput(proof, assumed, sector, comm_r, comm_d, replica_id, seed, ticket, partitions)


def _size_of(vanilla: Any) -> str:
    """The size of the sector: the data's tree has as many levels."""
    try:
        levels = len(vanilla[0][0]["comm_d_proofs"]["data"]["Single"]["path"]["path"])
    except (LookupError, TypeError):
        raise FormatError("vanilla_proofs: partition 0, challenge 0 has no comm_d_proofs") from None
    for size in SIZES:
        if len(tree_d(size).arities) == levels:
            return size
    raise FormatError(f"comm_d_proofs has {count_of(levels, 'level')}: no size of a sector that ships")


def _partition(proof: SealProof, number: int, value: Any) -> Partition:
    with within(f"partition {number}"):
        made = []
        for k, each in enumerate(items(value, proof.challenges, "challenges")):
            with within(f"challenge {k}"):
                made.append(_challenge(proof, each))
        return tuple(made)


def _challenge(proof: SealProof, value: Any) -> ChallengeProof:
    names = ("comm_d_proofs", "comm_r_last_proof", "replica_column_proofs", "labeling_proofs", "encoding_proof")
    data, replica, columns, labels, encoding = fields(value, *names)
    with within("comm_d_proofs"):
        in_d = read_path(data, tree_d(proof.size))
    with within("comm_r_last_proof"):
        in_r = read_path(replica, tree_r(proof.size))
    with within("replica_column_proofs"):
        own, drg, expander = fields(columns, "c_x", "drg_parents", "exp_parents")
        column = _column(proof, "c_x", own)
        parents = [
            _column(proof, f"{name}[{k}]", each)
            for name, listed, count in (
                ("drg_parents", drg, DRG_PARENTS),
                ("exp_parents", expander, ALL_PARENTS - DRG_PARENTS),
            )
            for k, each in enumerate(items(listed, count, name))
        ]
    listed = items(labels, proof.layers, "labeling_proofs")
    made = tuple(_label(f"labeling_proofs[{k}]", each) for k, each in enumerate(listed))
    return ChallengeProof(in_d, in_r, column, tuple(parents), made, _label("encoding_proof", encoding))


def _column(proof: SealProof, name: str, value: Any) -> ColumnProof:
    with within(name):
        column, inclusion = fields(value, "column", "inclusion_proof")
        index, rows, nothing = fields(column, "index", "rows", "_h")
        if nothing is not None:
            raise FormatError("_h is not null")
        made = tuple(elements(rows, proof.layers, "a row", "rows"))
        return ColumnProof(integer(index, "index", 32), made, read_path(inclusion, tree_r(proof.size)))


def _label(name: str, value: Any) -> LabelProof:
    with within(name):
        parents, layer, node = fields(value, "parents", "layer_index", "node")
        made = tuple(elements(parents, HASHED_PARENTS, "a parent", "parents"))
        return LabelProof(integer(layer, "layer_index", 32), integer(node, "node", 64), made)
