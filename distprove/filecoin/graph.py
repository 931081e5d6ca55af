"""The graph of a sector's nodes (Stacked DRG): six parents in the same layer, eight in the layer before.

The first six come from a depth-robust graph by bucket sampling, the last eight from an expander, a Feistel permutation
of all pairs of a node and an edge. Both depend on the porep id. Follows storage-proofs 19.1.0 (`BucketGraph`,
`StackedGraph`, `feistel`).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

from distprove.circuits.filecoin.porep import ALL_PARENTS, DRG_PARENTS
from distprove.filecoin.chacha import keystream

EXPANDER_PARENTS = ALL_PARENTS - DRG_PARENTS
_SAMPLED = DRG_PARENTS - 1
"""Parents that are sampled; the sixth is the node before."""
_FEISTEL_ROUNDS = 3


@dataclass(frozen=True)
class StackedGraph:
    """The parents of the nodes of a sector."""

    nodes: int
    """Nodes of a layer, a power of two."""
    porep_id: bytes
    """32 bytes."""
    legacy: bool = False
    """Whether the proof type is of API version 1.0: the node before is the last of the six parents, not the first, and
    a permuted index has 32 bits."""

    def parents(self, node: int) -> list[int]:
        """The 14 parents of a node in the order of labels: six of its own layer, then eight of the layer before."""
        return self.drg_parents(node) + self.expander_parents(node)

    def drg_parents(self, node: int) -> list[int]:
        """The six parents of a node in its own layer."""
        if node < 2:
            return [0] * DRG_PARENTS
        draws = struct.unpack(
            f"<{2 * _SAMPLED}Q",
            keystream(self._drg_seed + node.to_bytes(4, "little"), bytes(8), 0, 16 * _SAMPLED, rounds=8),
        )
        # Distances are sampled in a graph with a node for each edge, in buckets whose bounds are powers of two.
        meta = node * _SAMPLED
        buckets = (meta - 1).bit_length()
        sampled = []
        for bucket, offset in zip(draws[::2], draws[1::2], strict=True):
            largest = min(meta, 1 << bucket % buckets + 1)
            smallest = max(2, largest >> 1)
            parent = (meta - smallest - offset % (largest - smallest + 1)) // _SAMPLED
            sampled.append(node - 1 if parent == node else parent)
        return [*sampled, node - 1] if self.legacy else [node - 1, *sampled]

    def expander_parents(self, node: int) -> list[int]:
        """The eight parents of a node in the layer before its own."""
        first = node * EXPANDER_PARENTS
        permuted = [self._permuted(first + edge) for edge in range(EXPANDER_PARENTS)]
        return [(index & 0xFFFFFFFF if self.legacy else index) // EXPANDER_PARENTS for index in permuted]

    def _permuted(self, index: int) -> int:
        count, half = self.nodes * EXPANDER_PARENTS, self._half_bits
        mask = (1 << half) - 1
        while True:  # the network permutes the numbers of 2 * half bits, of which all or half are indices
            left, right = index >> half, index & mask
            for key in self._feistel_keys:
                digest = hashlib.blake2b(struct.pack(">2Q", right, key)).digest()
                left, right = right, left ^ int.from_bytes(digest[:8], "big") & mask
            index = left << half | right
            if index < count:
                return index

    @cached_property
    def _half_bits(self) -> int:
        """Half of the bits of the Feistel network, whose size is a power of four."""
        return max(1, -(-(self.nodes * EXPANDER_PARENTS - 1).bit_length() // 2))

    @cached_property
    def _drg_seed(self) -> bytes:
        return _domain_seed(b"Filecoin_DRSample", self.porep_id)[:28]

    @cached_property
    def _feistel_keys(self) -> tuple[int, ...]:
        return struct.unpack("<4Q", _domain_seed(b"Filecoin_Feistel", self.porep_id))[:_FEISTEL_ROUNDS]


def _domain_seed(tag: bytes, porep_id: bytes) -> bytes:
    return hashlib.sha256(tag + porep_id).digest()
