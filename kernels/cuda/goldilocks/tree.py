"""Trees that stay on the device, and their openings: one launch and one transfer for many trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import Device, layout
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import TreeOpening, Words
from kernels.maths.query_paths import QueryPaths
from kernels.source import KernelSource

DIGEST_LANES = 4
LEAF_THREADS, NODE_THREADS = 128, 128
LEAF_BLOCKS, NODE_BLOCKS = 5, 6
"""Blocks per multiprocessor that the registers of leaves' and nodes' kernels must leave room for."""
SOURCE = KernelSource(
    "goldilocks_merkle",
    (
        ("LEAF_THREADS", str(LEAF_THREADS)),
        ("LEAF_BLOCKS", str(LEAF_BLOCKS)),
        ("NODE_THREADS", str(NODE_THREADS)),
        ("NODE_BLOCKS", str(NODE_BLOCKS)),
    ),
)

HASH_THREADS, HASH_BLOCKS = 256, 2
POSEIDON2 = KernelSource(
    "goldilocks_poseidon2", (("HASH_THREADS", str(HASH_THREADS)), ("HASH_BLOCKS", str(HASH_BLOCKS)))
)

BN254_THREADS = 128
POSEIDON2_BN254 = KernelSource("goldilocks_poseidon2_bn254", (("BN254_THREADS", str(BN254_THREADS)),))

_PART = layout(("u8", "source begin list"), ("u4", "width log_n log_blowup log_count log_arity nodes"))
"""The layout of `struct Part` in goldilocks_merkle.cu."""


@dataclass(frozen=True)
class LeafShape:
    """Leaves of one matrix (width, B, n): leaf i < m = 2^log_count holds its rows i + t m, t < 2^log_arity."""

    matrix: Array = field(repr=False)
    log_arity: int

    @cached_property
    def width(self) -> int:
        """Field elements in one row of the matrix."""
        return int(self.matrix.shape[0])

    @cached_property
    def log_n(self) -> int:
        return int(self.matrix.shape[2]).bit_length() - 1

    @cached_property
    def log_blowup(self) -> int:
        return int(self.matrix.shape[1]).bit_length() - 1

    @cached_property
    def log_count(self) -> int:
        return self.log_n + self.log_blowup - self.log_arity

    @cached_property
    def elements(self) -> int:
        """Field elements in one leaf."""
        return self.width << self.log_arity


class CudaMerkleTree:
    """A `kernels.interface.goldilocks.StoredTree` whose digests and matrices stay on the device."""

    def __init__(self, device: Device, leaves: tuple[LeafShape, ...], digests: Array, levels: tuple[int, ...]) -> None:
        """Hold the tree of `levels`, log2 of their nodes from the leaves to the root.

        `digests`: all binary levels from the leaves up, (2 m - 1, 4) for m leaves, each in the kernels' order. Those
        that `levels` skips are not set.
        """
        self.leaves = leaves
        self.levels = levels
        self.digests = digests
        self.log_blowup, self._log_arity = leaves[0].log_blowup, leaves[0].log_arity
        self.log_leaves = max(leaf.log_count for leaf in leaves)
        self._device = device

    @cached_property
    def root(self) -> bytes:
        return bytes(self._device.download(self.digests[-1:]).tobytes())

    @property
    def nodes(self) -> Array:
        return self.digests

    def over(self, matrices: Sequence[Array], nodes: Array) -> CudaMerkleTree:
        other = copy(self)
        vars(other)["root"] = self.root  # nodes may be elsewhere from here on
        other.leaves = tuple(LeafShape(matrix, self._log_arity) for matrix in matrices)
        other.digests = nodes
        return other


def open_trees(device: Device, trees: Sequence[CudaMerkleTree], indices: NDArray[np.int64]) -> list[TreeOpening]:
    """Open all trees at `indices` by one upload, one launch and one download."""
    paths = QueryPaths(indices, max((tree.log_leaves for tree in trees), default=0))
    numbers, spans = paths.numbers, {}
    for levels in {tree.levels: None for tree in trees}:
        path = paths.path_of(levels)
        if len(levels) == levels[0] + 1:  # a binary tree, whose path `numbers` has
            spans[levels] = paths.path_span(levels[0])
        else:
            spans[levels] = len(numbers), len(path)
            numbers = np.concatenate((numbers, path))
    parts = [part for tree in trees for part in _parts(device, tree, paths, spans[tree.levels])]
    ends = list(accumulate((part.items * part.words for part in parts), initial=0))
    opened: Words = np.empty(0, dtype=np.uint64)
    if ends[-1]:
        read = [(p.source, begin, p.list, *p.shape) for p, begin in zip(parts, ends, strict=False) if p.items]
        given = device.upload(np.concatenate((numbers.view(np.uint64), np.array(read, dtype=_PART).view(np.uint64))))
        out = device.empty((ends[-1],))
        arguments = (given, given[len(numbers) :], np.uint32(len(read)), out, np.uint64(ends[-1]))
        device.kernel(SOURCE, "merkle_open").launch_items(ends[-1], arguments)
        opened = device.download(out)
    pieces = (
        opened[begin:end].reshape(part.items, part.words)
        for part, (begin, end) in zip(parts, pairwise(ends), strict=True)
    )
    return [TreeOpening(tuple(next(pieces) for _ in tree.leaves), next(pieces).view(np.uint8)) for tree in trees]


class _Part(NamedTuple):
    """The items that an opening reads from one array: a matrix' leaves, or a tree's nodes."""

    source: int
    list: int
    """Position in the uploaded numbers at which those of the leaves or nodes begin."""
    items: int
    """Number of leaves or nodes that are read."""
    words: int
    """Number of 64-bit words in one leaf or node."""
    shape: tuple[int, int, int, int, int, int]
    """The fields of `struct Part` from `width` on."""


def _parts(device: Device, tree: CudaMerkleTree, paths: QueryPaths, path: tuple[int, int]) -> Iterator[_Part]:
    """Yield the parts of the tree's matrices, then that of the path, whose numbers lie at `path` (begin, count)."""
    for leaf in tree.leaves:
        log_count = leaf.log_count
        shape = (leaf.width, leaf.log_n, leaf.log_blowup, log_count, leaf.log_arity, 0)
        yield _Part(device.address(leaf.matrix), *paths.known_span(log_count), leaf.elements, shape)
    shape = (0, 0, tree.log_blowup, tree.log_leaves, 0, 1)
    yield _Part(device.address(tree.digests), *path, DIGEST_LANES, shape)
