"""Trees and grinding of `GoldilocksKernels` on CUDA: `goldilocks_merkle.cu`, `goldilocks_poseidon2.cu` and
`goldilocks_poseidon2_bn254.cu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import ByValue, Device, Stream, layout, parallel
from kernels.cuda.goldilocks.tree import (
    DIGEST_LANES,
    HASH_THREADS,
    NODE_THREADS,
    POSEIDON2,
    POSEIDON2_BN254,
    SOURCE,
    CudaMerkleTree,
    LeafShape,
    open_trees,
)
from kernels.errors import BackendError, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import MerkleTree, TreeOpening
from kernels.interface.tree_hash import GRIND_TAG, INJECT_TAG, LEAF_TAG, NODE_TAG, TreeHash

RATE_LANES = {
    TreeHash.KECCAK: 17,
    TreeHash.POSEIDON2: 12,
    TreeHash.POSEIDON2_BINARY: 12,
    TreeHash.POSEIDON2_BN254: 6,
}
STATE_LANES = {
    TreeHash.KECCAK: 25,
    TreeHash.POSEIDON2: 16,
    TreeHash.POSEIDON2_BINARY: 16,
    TreeHash.POSEIDON2_BN254: 18,
}
"""Words of a block of a leaf, and of a sponge that waits for more of its leaf."""
LEAF_KERNELS = {
    TreeHash.KECCAK: (SOURCE, "merkle_leaves"),
    TreeHash.POSEIDON2: (POSEIDON2, "poseidon2_leaves"),
    TreeHash.POSEIDON2_BINARY: (POSEIDON2, "poseidon2_leaves"),
    TreeHash.POSEIDON2_BN254: (POSEIDON2_BN254, "bn254_leaves"),
}
MATRICES = 8
"""Matrices per launch of leaves. Must equal MATRICES in tree_rows.h."""
RESUME, FINISH = 1, 2
"""Bits of `Leaves::flags`. Must equal RESUME and FINISH in tree_rows.h."""
LOG_BLOCK = NODE_THREADS.bit_length()
"""log2 of the nodes that one block hashes up to the single node above them."""
LOG_TOP = 2 * LOG_BLOCK
"""log2 of the nodes of the largest level from which one launch reaches the root."""
CLIMBED, LOG_CLIMBED = 20, 18
"""Most levels of one climb over Poseidon2 nodes, and log2 of the nodes of the largest level that it begins with. The
first must equal LEVELS in goldilocks_poseidon2.cu."""
MAX_HEADERS = 256
"""Most leaf headers kept on the device: one for every combination of widths."""
MIN_LOG_NONCES, MAX_LOG_NONCES = 12, 26
"""Bounds on log2 of the nonces of one launch of `grind`."""
NOT_FOUND = 2**64 - 1


class CudaTrees:
    """Makes and opens trees, and grinds, on one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._header = lru_cache(MAX_HEADERS)(self._upload_header)
        self._ended: Array | None = None

    def _clear_trees(self) -> None:
        """Release the device memory that is kept between calls."""
        self._header.cache_clear()
        self._ended = None

    def _commit(self, matrices: Sequence[Array], log_arity: int, tree_hash: TreeHash) -> CudaMerkleTree:
        for matrix in matrices:
            preconditions.contiguous(matrix, "a tree's matrix")
        leaves = tuple(LeafShape(matrix, log_arity) for matrix in matrices)
        if any(leaf.elements >= 2**32 for leaf in leaves):
            raise SizeError("a leaf's width must fit 32 bits")
        log_m, log_blowup = max(leaf.log_count for leaf in leaves), leaves[0].log_blowup
        levels = tree_hash.levels(log_m, log_blowup, [leaf.log_count for leaf in leaves])
        digests = self._device.empty(((2 << log_m) - 1, DIGEST_LANES))
        entering = self._hash_leaves(leaves, digests[: 1 << log_m], tree_hash)
        if tree_hash is TreeHash.KECCAK:
            while log_m:
                log_m = self._hash_nodes(digests, log_m, log_blowup, entering)
        elif tree_hash is TreeHash.POSEIDON2_BN254:
            for below, log_size in pairwise(levels):
                self._hash_bn254_level(digests, below, log_size, log_blowup, entering.get(log_size))
        else:
            climbed = next(
                (i for i, log in enumerate(levels) if log <= LOG_CLIMBED and not any(e < log for e in entering)),
                len(levels) - 1,
            )
            for below, log_size in pairwise(levels[: climbed + 1]):
                self._hash_level(digests, below, log_size, log_blowup, entering.get(log_size))
            self._climb(digests, levels[climbed:], log_blowup)
        return CudaMerkleTree(self._device, leaves, digests, levels)

    def _open_trees(self, trees: Sequence[MerkleTree], indices: NDArray[np.int64]) -> list[TreeOpening]:
        ours = [tree for tree in trees if isinstance(tree, CudaMerkleTree)]
        if len(ours) != len(trees):
            raise BackendError("a tree was not made by this backend")
        return open_trees(self._device, ours, indices)

    def _hash_leaves(self, leaves: tuple[LeafShape, ...], digests: Array, tree_hash: TreeHash) -> dict[int, Array]:
        """Hash leaves of all heights in parallel, the tallest into `digests`; returns others by log2 of their count."""
        heights = sorted({leaf.log_count for leaf in leaves}, reverse=True)
        digests_of = {log: self._device.empty((1 << log, DIGEST_LANES)) for log in heights[1:]}
        hashed = []
        for log_count in heights:
            members = [leaf for leaf in leaves if leaf.log_count == log_count]
            head = self._header(tuple(leaf.elements for leaf in members))
            lanes = STATE_LANES[tree_hash]
            state = self._device.empty((lanes, 1 << log_count)) if len(members) > MATRICES else None
            hashed.append((members, head, state, digests_of.get(log_count, digests)))
        with parallel(self._device, len(hashed)) as streams:
            for given, stream in zip(hashed, streams, strict=True):
                self._hash_leaves_of_height(*given, stream, tree_hash)
        return digests_of

    def _hash_leaves_of_height(
        self,
        leaves: list[LeafShape],
        head: Array,
        state: Array | None,
        digests: Array,
        stream: Stream,
        tree_hash: TreeHash,
    ) -> None:
        log_count = leaves[0].log_count
        kernel = self._device.kernel(*LEAF_KERNELS[tree_hash])
        words = len(head) + sum(leaf.elements for leaf in leaves)
        groups = [leaves[i : i + MATRICES] for i in range(0, len(leaves), MATRICES)]
        absorbed = 0
        for index, group in enumerate(groups):
            header_words = 0 if index else len(head)
            flags = RESUME * (index > 0) | FINISH * (index == len(groups) - 1)
            widths = [leaf.width for leaf in group] + [0] * (MATRICES - len(group))
            first = group[0]
            shape = (first.log_n, first.log_blowup, log_count, first.log_arity)
            filled = absorbed % RATE_LANES[tree_hash]
            fields = (1 << log_count, words, *shape, header_words, len(group), filled, flags, widths)
            launch = np.array(fields, dtype=_LEAVES)
            matrices = [leaf.matrix for leaf in group] + [None] * (MATRICES - len(group))
            kernel.launch_items(1 << log_count, (head, *matrices, state, digests, ByValue(launch)), stream=stream)
            absorbed += header_words + sum(leaf.elements for leaf in group)

    def _upload_header(self, elements: tuple[int, ...]) -> Array:
        """Upload the header hashed before leaves with `elements[i]` elements of matrix i, as whole lanes."""
        header = [LEAF_TAG + 256 * len(elements), *elements]
        header += [0] * (len(header) % 2)
        return self._device.upload(np.array(header, dtype="<u4").view(np.uint64))

    def _hash_nodes(self, digests: Array, log_m: int, log_blowup: int, entering: Mapping[int, Array]) -> int:
        """Hash as many levels above that of 2^log_m nodes as one launch takes; returns log2 of the last one's nodes.

        `entering` has the digests of leaves that enter at a level, by log2 of its nodes. A launch ends at such a level.
        """
        log_stop = max((log for log in entering if log < log_m), default=0)
        if log_m > LOG_TOP:
            log_end = log_m - 1
            # Siblings are half a coset's nodes apart, or half a level if every coset has at most one node.
            log_apart = log_end - (log_blowup if log_end >= log_blowup else 0)
            below, level = _level(digests, log_m), _level(digests, log_end)
            arguments = (below, entering.get(log_end), level, np.uint64(1 << log_end), np.uint32(log_apart))
            self._device.kernel(SOURCE, "merkle_nodes").launch_items(1 << log_end, arguments)
            return log_end
        log_middle = max(log_stop, log_m - LOG_BLOCK)  # as far as one block gets alone
        log_end = log_middle if log_stop else 0
        log_ends = min(log_middle, LOG_BLOCK - (log_m - log_middle))
        sizes = map(np.uint32, (log_m, log_middle, log_end, log_ends, log_blowup))
        self._device.kernel(SOURCE, "merkle_climb").launch(
            1 << (log_middle - log_ends),
            NODE_THREADS,
            (_level(digests, log_m), entering.get(log_end), *sizes, self._counter()),
        )
        return log_end

    def _hash_level(
        self, digests: Array, log_below: int, log_size: int, log_blowup: int, injected: Array | None
    ) -> None:
        """Hash a level of Poseidon2 nodes, and the leaves `injected` that enter there."""
        # Children are a coset's nodes of this level apart, or all of them if every coset has at most one.
        log_apart = log_size - (log_blowup if log_size >= log_blowup else 0)
        sizes = (np.uint64(1 << log_size), np.uint32(log_apart), np.uint32(log_below - log_size))
        arguments = (_level(digests, log_below), injected, _level(digests, log_size), *sizes)
        kernel = self._device.kernel(POSEIDON2, "poseidon2_nodes")
        kernel.launch_items(1 << log_size, (*arguments, np.uint64(NODE_TAG), np.uint64(INJECT_TAG)))

    def _hash_bn254_level(
        self, digests: Array, log_below: int, log_size: int, log_blowup: int, injected: Array | None
    ) -> None:
        """Hash a level of nodes of Poseidon2 over BN254, and the leaves `injected` that enter there."""
        log_apart = log_size - (log_blowup if log_size >= log_blowup else 0)
        sizes = (np.uint64(1 << log_size), np.uint32(log_apart))
        arguments = (_level(digests, log_below), injected, _level(digests, log_size), *sizes)
        kernel = self._device.kernel(POSEIDON2_BN254, "bn254_nodes")
        kernel.launch_items(1 << log_size, (*arguments, np.uint64(NODE_TAG), np.uint64(INJECT_TAG)))

    def _climb(self, digests: Array, levels: tuple[int, ...], log_blowup: int) -> None:
        """Hash all Poseidon2 levels above the first of `levels`, by one launch."""
        if len(levels) < 2:
            return
        threads = HASH_THREADS.bit_length() - 1
        middle = max(i for i in range(1, len(levels)) if levels[1] - levels[i] <= threads)
        log_ends = min(levels[middle], threads - (levels[1] - levels[middle]))
        given = np.zeros((), dtype=_LEVELS)
        given["count"], given["log"][: len(levels)] = len(levels), levels
        sizes = map(np.uint32, (middle, log_ends, log_blowup))
        arguments = (_level(digests, levels[0]), ByValue(given), *sizes, np.uint64(NODE_TAG), self._counter())
        kernel = self._device.kernel(POSEIDON2, "poseidon2_climb")
        kernel.launch(1 << (levels[middle] - log_ends), HASH_THREADS, arguments)

    def _counter(self) -> Array:
        """How many blocks of a climb have ended; zero between climbs."""
        if self._ended is None:
            self._ended = self._device.zeros((1,), np.uint32)
        return self._ended

    def _grind(self, seed: bytes, bits: int, tree_hash: TreeHash) -> int:
        lanes = ByValue(np.frombuffer(seed, dtype=np.uint64))
        if tree_hash is TreeHash.KECCAK:
            kernel = self._device.kernel(SOURCE, "grind")
            top = ((1 << bits) - 1) << (64 - bits)
            # The first lane is little-endian, and the leading bits are those of its first bytes.
            mask = np.uint64(int.from_bytes(top.to_bytes(8, "big"), "little"))
            given: tuple[object, ...] = (lanes,)
        else:
            bn254 = tree_hash is TreeHash.POSEIDON2_BN254
            kernel = self._device.kernel(*(POSEIDON2_BN254, "bn254_grind") if bn254 else (POSEIDON2, "poseidon2_grind"))
            mask, given = np.uint64((1 << bits) - 1), (lanes, np.uint64(GRIND_TAG))
        best = self._device.upload(np.array([NOT_FOUND], dtype=np.uint64))
        # Four times the nonces that one hit needs on average: a second launch is rare, and threads beyond the least hit
        # exit at once.
        count = 1 << min(max(bits + 2, MIN_LOG_NONCES), MAX_LOG_NONCES)
        for first in range(0, NOT_FOUND, count):
            kernel.launch_items(count, (*given, np.uint64(first), np.uint64(count), mask, best))
            found = int(self._device.fetch(best).result()[0])
            if found != NOT_FOUND:
                return found
        raise SizeError(f"no nonce of 64 bits gives {bits} leading zero bits")


def _level(digests: Array, log_m: int) -> Array:
    """Return the level of 2^log_m nodes and all levels above it from a tree's digests."""
    return digests[-((2 << log_m) - 1) :]


_LEAVES = layout(
    ("u8", "count words"),
    ("u4", "log_n log_blowup log_count log_arity header_words matrices filled flags"),
    (("u4", (MATRICES,)), "widths"),
)
"""The layout of `struct Leaves` in tree_rows.h."""

_LEVELS = layout(("u4", "count"), (("u4", (CLIMBED,)), "log"))
"""The layout of `struct Levels` in goldilocks_poseidon2.cu."""
