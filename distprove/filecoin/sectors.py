"""Sizes of sectors and the types of proofs that Filecoin registers, as filecoin-proofs-api 19.1.0 numbers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod
from typing import TypeVar

from distprove.circuits.registry import find_circuit
from distprove.errors import UsageError
from distprove.formats.nearest import nearest

NODE = 32
"""Bytes of a node."""
SIZES = {"2KiB": 1 << 11, "8MiB": 1 << 23, "512MiB": 1 << 29, "32GiB": 1 << 35, "64GiB": 1 << 36}
"""Bytes of a sector by the name of its size, in the order of the registered numbers."""
_LAYOUT = {"32GiB": ("Sub", 2), "64GiB": ("Top", 3)}
"""How a path in trees C and R is written (the tag, and its pieces), if not as one piece."""


class Draw(Enum):
    """How the challenges of a PoRep are drawn."""

    INTERACTIVE = "interactive"
    SYNTHETIC = "synthetic"
    NON_INTERACTIVE = "non-interactive"


@dataclass(frozen=True)
class TreeShape:
    """How a Merkle tree is built, and how its paths are written."""

    arities: tuple[int, ...]
    """Children of a node, from the leaves up."""
    tag: str = "Single"
    """The tag of a path: "Single", "Sub" or "Top"."""
    pieces: int = 1
    """Pieces of a path: the base tree's, then one level for each tree of trees."""

    @property
    def leaves(self) -> int:
        return prod(self.arities)

    @cached_property
    def parts(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The pieces of a path by the names of their fields, from the leaf up, with their arities."""
        if self.pieces == 1:
            return (("path", self.arities),)
        split = len(self.arities) - self.pieces + 1
        upper = [
            (name, (arity,)) for name, arity in zip(("sub_proof", "top_proof"), self.arities[split:], strict=False)
        ]
        return (("base_proof", self.arities[:split]), *upper)


def tree_r(size: str) -> TreeShape:
    """The trees C and R of a sector."""
    arities = find_circuit(f"filecoin/winning-post-{size}").arguments[2]
    return TreeShape(arities, *_LAYOUT.get(size, ()))


def tree_d(size: str) -> TreeShape:
    """The tree of a sector's data, under SHA-256."""
    return TreeShape((2,) * ((SIZES[size] // NODE).bit_length() - 1))


@dataclass(frozen=True)
class SealProof:
    """A registered type of a proof of replication."""

    name: str
    number: int
    """The number that Filecoin registers, which the porep id is made of."""
    size: str
    """The sector's size, a key of SIZES."""
    version: tuple[int, int]
    """The API version. With 1.0 the graph is an older one."""
    draw: Draw = Draw.INTERACTIVE

    @property
    def circuit(self) -> str:
        return f"filecoin/porep-{self.size}"

    @property
    def challenges(self) -> int:
        """Challenges of a partition."""
        return int(find_circuit(self.circuit).arguments[0])

    @property
    def layers(self) -> int:
        return int(find_circuit(self.circuit).arguments[1])

    @property
    def partitions(self) -> int:
        interactive = find_circuit(self.circuit).partitions
        if self.draw is not Draw.NON_INTERACTIVE:
            return interactive
        return 13 if interactive == 1 else 126

    @property
    def porep_id(self) -> bytes:
        """The porep id of this type: its number, and a nonce that is zero."""
        return self.number.to_bytes(32, "little")

    @property
    def nodes(self) -> int:
        return SIZES[self.size] // NODE


def _seal_proofs() -> dict[str, SealProof]:
    kinds = (
        ("V1", (1, 0), Draw.INTERACTIVE),
        ("V1_1", (1, 1), Draw.INTERACTIVE),
        ("V1_1_Feat_SyntheticPoRep", (1, 2), Draw.SYNTHETIC),
        ("V1_2_Feat_NonInteractivePoRep", (1, 2), Draw.NON_INTERACTIVE),
    )
    made = [
        SealProof(f"StackedDrg{size}{suffix}", row * len(SIZES) + column, size, version, draw)
        for row, (suffix, version, draw) in enumerate(kinds)
        for column, size in enumerate(SIZES)
    ]
    return {proof.name: proof for proof in made}


SEAL_PROOFS = _seal_proofs()
"""The registered types of proofs of replication by name."""


@dataclass(frozen=True)
class PostProof:
    """A registered type of a proof of spacetime."""

    name: str
    size: str
    winning: bool
    """Whether it is a WinningPoSt, of one sector; else a WindowPoSt."""
    own_indices: bool
    """Whether the challenges of a sector are numbered from 0, as from API version 1.2 on. Before they were numbered
    through all sectors of a job."""

    @property
    def circuit(self) -> str:
        return f"filecoin/{'winning' if self.winning else 'window'}-post-{self.size}"

    @property
    def shape(self) -> tuple[int, int]:
        """Sectors of a partition's circuit, and challenges of each."""
        sectors, challenges, _ = find_circuit(self.circuit).arguments
        return sectors, challenges

    @property
    def challenges(self) -> int:
        """Challenges of a sector. The circuit of a WinningPoSt has the sector once for each."""
        sectors, challenges = self.shape
        return sectors * challenges if self.winning else challenges

    @property
    def nodes(self) -> int:
        return SIZES[self.size] // NODE


def _post_proofs() -> dict[str, PostProof]:
    made = [
        PostProof(f"StackedDrg{kind}{size}{version}", size, kind == "Winning", version == "V1_2")
        for kind, version in (("Winning", "V1"), ("Window", "V1"), ("Window", "V1_2"))
        for size in SIZES
    ]
    return {proof.name: proof for proof in made}


POST_PROOFS = _post_proofs()
"""The registered types of proofs of spacetime by name."""


@dataclass(frozen=True)
class UpdateProof:
    """A registered type of a proof of an update (SnapDeals)."""

    name: str
    size: str

    @property
    def circuit(self) -> str:
        return f"filecoin/snap-deals-{self.size}"

    @property
    def partitions(self) -> int:
        return find_circuit(self.circuit).partitions


UPDATE_PROOFS = {name: UpdateProof(name, size) for size in SIZES for name in [f"StackedDrg{size}V1"]}
"""The registered types of proofs of updates by name."""


def types_of(circuit: str) -> list[str]:
    """The registered types of proofs of a circuit."""
    every: list[SealProof | PostProof | UpdateProof] = [*SEAL_PROOFS.values(), *POST_PROOFS.values()]
    every += UPDATE_PROOFS.values()
    return [proof.name for proof in every if proof.circuit == circuit]


Proof = TypeVar("Proof")


def find_proof(name: str, known: Mapping[str, Proof]) -> Proof:
    """A registered type of one kind. Raises UsageError."""
    if name not in known:
        raise UsageError(f"unknown proof type {name!r}{nearest(name, known)}; known: {', '.join(known)}")
    return known[name]


def size_of_tree_r(levels: int) -> str | None:
    """The size of a sector whose trees C and R have so many levels; None for none that ships."""
    return next((size for size in SIZES if len(tree_r(size).arities) == levels), None)
