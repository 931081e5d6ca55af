"""The challenges of proofs of replication, as storage-proofs-porep 19.1.0 draws them.

A drawn number of 256 bits is read little-endian and reduced modulo the nodes less one, plus one: node 0 is never
challenged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from distprove.filecoin.chacha import keystream
from distprove.filecoin.sectors import Draw, SealProof

_NON_INTERACTIVE = b"filecoin.io|PoRep|1|NonInteractive|1"
_GENERATION = b"filecoin.io|PoRep|1|Synthetic|1|Generation"
_SELECTION = b"filecoin.io|PoRep|1|Synthetic|1|Selection"
_NONCE = b"synth-porep\0"
SYNTHETIC = 1 << 18
"""Synthetic challenges of a sector, or as many as it has nodes."""


def seal_challenges(proof: SealProof, replica_id: bytes, comm_r: bytes, seed: bytes, partition: int) -> list[int]:
    """The challenged nodes of a partition, in order. `replica_id`, `comm_r` and `seed` have 32 bytes each; what the
    proof type does not draw from is not looked at."""
    count, nodes = proof.challenges, proof.nodes
    numbers = range(partition * count, (partition + 1) * count)
    if proof.draw is Draw.INTERACTIVE:
        return [_node(_hashed(replica_id + seed, j), nodes) for j in numbers]
    if proof.draw is Draw.NON_INTERACTIVE:
        return [_node(_hashed(_NON_INTERACTIVE + replica_id + comm_r, j), nodes) for j in numbers]
    generated = _stream(_GENERATION, replica_id + comm_r)
    selected = _stream(_SELECTION, replica_id + seed)(4 * numbers.start, 4 * count)
    indices = [int.from_bytes(selected[k : k + 4], "little") % min(nodes, SYNTHETIC) for k in range(0, 4 * count, 4)]
    return [_node(generated(32 * index, 32), nodes) for index in indices]


def _hashed(data: bytes, number: int) -> bytes:
    return hashlib.sha256(data + number.to_bytes(4, "little")).digest()


def _node(drawn: bytes, nodes: int) -> int:
    return int.from_bytes(drawn, "little") % (nodes - 1) + 1


def _stream(tag: bytes, data: bytes) -> Callable[[int, int], bytes]:
    """Bytes of the stream of a tag by their place and count."""
    key = hashlib.blake2b(data, digest_size=32, key=tag).digest()
    return lambda first, size: keystream(key, _NONCE, first, size, rounds=20)
