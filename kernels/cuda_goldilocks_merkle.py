"""Makes Keccak-256 trees on the device, opens them, and grinds: what `cuda/goldilocks_merkle.cu` is launched with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from kernels.backend import Array, SizeError
from kernels.compiler import KernelSource
from kernels.cuda_goldilocks_tree import DIGEST_LANES, CudaMerkleTree, LeafShape, open_trees
from kernels.device import ByValue, Device
from kernels.goldilocks import LEAF_TAG, TreeOpening

RATE_LANES = 17
STATE_LANES = 25
MATRICES = 8
"""Of one launch of merkle_leaves."""
RESUME, FINISH = 1, 2
"""`Leaves::flags` of goldilocks_merkle.cu."""
LEAF_THREADS, NODE_THREADS = 128, 128
LOG_BLOCK = NODE_THREADS.bit_length()
"""log2 of the nodes that one block takes to the one above them all."""
LOG_TOP = 2 * LOG_BLOCK
"""log2 of the largest level from which one launch takes a tree to its root."""
MAX_HEADERS = 256
"""Headers of leaves that are kept on the device: one for every combination of widths."""
MIN_LOG_NONCES, MAX_LOG_NONCES = 12, 26
"""log2 of the nonces of one launch of `grind`."""
NOT_FOUND = 2**64 - 1


@dataclass(frozen=True)
class MerkleProfile:
    """What may be tuned: blocks of 128 threads that registers must leave room for on a multiprocessor."""

    leaf_blocks: int = 5
    node_blocks: int = 6

    @cached_property
    def source(self) -> KernelSource:
        """goldilocks_merkle.cu compiled for this profile."""
        defines = {
            "LEAF_THREADS": LEAF_THREADS,
            "LEAF_BLOCKS": self.leaf_blocks,
            "NODE_THREADS": NODE_THREADS,
            "NODE_BLOCKS": self.node_blocks,
        }
        return KernelSource("goldilocks_merkle", tuple((name, str(value)) for name, value in defines.items()))


class MerkleEngine:
    """Makes trees on one device."""

    def __init__(self, device: Device, profile: MerkleProfile | None = None) -> None:
        self._device = device
        self.profile = profile or MerkleProfile()
        self._header = lru_cache(MAX_HEADERS)(self._upload_header)
        self._ended: Array | None = None

    def clear(self) -> None:
        """Give the memory of what is kept back."""
        self._header.cache_clear()
        self._ended = None

    def prepare(self) -> None:
        """Begin to compile, in the background."""
        self._device.prepare(self.profile.source)

    def commit(self, leaves: tuple[LeafShape, ...], log_cap: int) -> CudaMerkleTree:
        """`GoldilocksKernels.commit` on checked matrices."""
        source = self.profile.source
        log_count = max(leaf.log_count for leaf in leaves)
        digests = self._device.empty(((2 << log_count) - 1, DIGEST_LANES))
        below = digests[: 1 << log_count]
        self._hash_leaves([leaf for leaf in leaves if leaf.log_count == log_count], below)
        nodes = self._device.kernel(source, "merkle_nodes")
        begin, log_blowup = 1 << log_count, leaves[0].log_blowup
        log_top = min(LOG_TOP, *(leaf.log_count for leaf in leaves))
        for log_m in range(log_count - 1, log_top - 1, -1):
            shorter = [leaf for leaf in leaves if leaf.log_count == log_m]
            injected = None
            if shorter:
                injected = self._device.empty((1 << log_m, DIGEST_LANES))
                self._hash_leaves(shorter, injected)
            level = digests[begin : begin + (1 << log_m)]
            # Children are half a coset's nodes apart, or half a level when every coset has one.
            log_apart = log_m - (log_blowup if log_m >= log_blowup else 0)
            nodes.launch_items(1 << log_m, (below, injected, level, np.uint64(1 << log_m), np.uint32(log_apart)))
            below, begin = level, begin + (1 << log_m)
        self._hash_top(digests[begin - (1 << log_top) :], log_top, log_blowup)
        return CudaMerkleTree(self._device, source, leaves, digests, log_cap)

    def open(self, trees: Sequence[CudaMerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
        """`GoldilocksKernels.open`."""
        return open_trees(self._device, self.profile.source, trees, indices)

    def _hash_leaves(self, leaves: list[LeafShape], digests: Array) -> None:
        head = self._header(tuple(leaf.elements for leaf in leaves))
        log_count, kernel = leaves[0].log_count, self._device.kernel(self.profile.source, "merkle_leaves")
        groups = [leaves[i : i + MATRICES] for i in range(0, len(leaves), MATRICES)]
        state = self._device.empty((STATE_LANES, 1 << log_count)) if len(groups) > 1 else None
        absorbed = 0
        for index, group in enumerate(groups):
            header_lanes = 0 if index else len(head)
            flags = RESUME * (index > 0) | FINISH * (index == len(groups) - 1)
            widths = [leaf.width for leaf in group] + [0] * (MATRICES - len(group))
            first = group[0]
            shape = (first.log_n, first.log_blowup, log_count, first.log_arity)
            launch = np.array(
                (1 << log_count, *shape, header_lanes, len(group), absorbed % RATE_LANES, flags, widths), dtype=_LEAVES
            )
            matrices = [leaf.matrix for leaf in group] + [None] * (MATRICES - len(group))
            kernel.launch_items(1 << log_count, (head, *matrices, state, digests, ByValue(launch)))
            absorbed += header_lanes + sum(leaf.elements for leaf in group)

    def _upload_header(self, elements: tuple[int, ...]) -> Array:
        """What is hashed before leaves of so many elements of each matrix, as whole lanes."""
        header = [LEAF_TAG + 256 * len(elements), *elements]
        header += [0] * (len(header) % 2)
        return self._device.upload(np.array(header, dtype="<u4").view(np.uint64))

    def _hash_top(self, nodes: Array, log_m: int, log_blowup: int) -> None:
        """All levels above one of 2^log_m nodes, for which there is room behind it."""
        if self._ended is None:
            self._ended = self._device.zeros((1,), np.uint32)
        log_end = max(0, log_m - LOG_BLOCK)
        arguments = (nodes, *map(np.uint32, (log_m, log_end, log_blowup)), self._ended)
        self._device.kernel(self.profile.source, "merkle_top").launch(1 << log_end, NODE_THREADS, arguments)

    def grind(self, seed: bytes, bits: int) -> int:
        """`GoldilocksKernels.grind` with a checked seed and 0 <= bits <= 64."""
        kernel = self._device.kernel(self.profile.source, "grind")
        top = ((1 << bits) - 1) << (64 - bits)
        # The first lane is little-endian, the leading bits are of its first bytes.
        mask = np.uint64(int.from_bytes(top.to_bytes(8, "big"), "little"))
        lanes = ByValue(np.frombuffer(seed, dtype=np.uint64))
        best = self._device.upload(np.array([NOT_FOUND], dtype=np.uint64))
        # Four times the nonces that one hit needs on average: a second launch is rare, and those beyond the least hit
        # leave at once.
        count = 1 << min(max(bits + 2, MIN_LOG_NONCES), MAX_LOG_NONCES)
        for first in range(0, NOT_FOUND, count):
            kernel.launch_items(count, (lanes, np.uint64(first), np.uint64(count), mask, best))
            found = int(self._device.fetch(best).result()[0])
            if found != NOT_FOUND:
                return found
        raise SizeError(f"no nonce of 64 bits gives {bits} leading zero bits")


_LEAVES = np.dtype(
    [
        ("count", "u8"),
        ("log_n", "u4"),
        ("log_blowup", "u4"),
        ("log_count", "u4"),
        ("log_arity", "u4"),
        ("header_lanes", "u4"),
        ("matrices", "u4"),
        ("filled", "u4"),
        ("flags", "u4"),
        ("widths", "u4", (MATRICES,)),
    ]
)
"""`struct Leaves` of goldilocks_merkle.cu."""
