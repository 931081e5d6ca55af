"""Keccak-256 trees that stay on the device, and what opens them: one launch and one transfer for many trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from kernels.backend import Array, SizeError
from kernels.compiler import KernelSource
from kernels.device import Device
from kernels.goldilocks import Bytes, TreeOpening, Words

DIGEST_LANES = 4
DIGEST_BYTES = 8 * DIGEST_LANES

_PART = np.dtype(
    [
        ("source", "u8"),
        ("begin", "u8"),
        ("width", "u4"),
        ("log_n", "u4"),
        ("log_blowup", "u4"),
        ("log_count", "u4"),
        ("log_arity", "u4"),
        ("levels", "u4"),
    ]
)
"""`struct Part` of goldilocks_merkle.cu."""


@dataclass(frozen=True)
class LeafShape:
    """Leaves of one matrix (width, B, n): leaf i < `count` holds its rows i + t count, t < 2^log_arity."""

    matrix: Array = field(repr=False)
    log_arity: int

    @property
    def width(self) -> int:
        """Of one row."""
        return int(self.matrix.shape[0])

    @property
    def log_n(self) -> int:
        return int(self.matrix.shape[2]).bit_length() - 1

    @property
    def log_blowup(self) -> int:
        return int(self.matrix.shape[1]).bit_length() - 1

    @property
    def log_count(self) -> int:
        return self.log_n + self.log_blowup - self.log_arity

    @property
    def elements(self) -> int:
        """Of one leaf."""
        return self.width << self.log_arity


class CudaMerkleTree:
    """A `kernels.goldilocks.MerkleTree` whose digests and matrices stay on the device."""

    def __init__(
        self, device: Device, source: KernelSource, leaves: tuple[LeafShape, ...], digests: Array, log_cap: int
    ) -> None:
        """`source`: the kernels that made it. `digests`: all levels from the leaves up, (2 count - 1, 4), each in the
        kernels' order."""
        self.leaves = leaves
        self.digests = digests
        self.log_blowup = leaves[0].log_blowup
        self.log_leaves = max(leaf.log_count for leaf in leaves)
        self.log_cap = min(log_cap, self.log_leaves)
        self._device = device
        self._source = source

    @property
    def root(self) -> bytes:
        return bytes(self._top[-1].tobytes())

    @property
    def cap(self) -> Bytes:
        natural = self._top[: 1 << self.log_cap].reshape(1 << min(self.log_blowup, self.log_cap), -1, DIGEST_LANES)
        return np.ascontiguousarray(natural.transpose(1, 0, 2)).view(np.uint8).reshape(-1, DIGEST_BYTES)

    @property
    def levels(self) -> int:
        """Of a path: those below the cap."""
        return self.log_leaves - self.log_cap

    def open(self, indices: Sequence[int]) -> TreeOpening:
        """Raises SizeError for an index outside the tree."""
        if any(not 0 <= i < 1 << self.log_leaves for i in indices):
            raise SizeError(f"a leaf index is outside a tree of 2^{self.log_leaves} leaves")
        return open_trees(self._device, self._source, [self], indices)[0]

    @cached_property
    def _top(self) -> Words:
        """The cap's level and those above it, in the kernels' order: they end with the root. One transfer for both."""
        return self._device.download(self.digests[-((2 << self.log_cap) - 1) :])


def open_trees(
    device: Device, source: KernelSource, trees: Sequence[CudaMerkleTree], indices: Sequence[int]
) -> list[TreeOpening]:
    """`GoldilocksKernels.open`: one upload, one launch and one download. `source`: goldilocks_merkle.cu."""
    queries = np.array(indices, dtype=np.uint64)
    parts = [part for tree in trees for part in _parts(device, tree)]
    ends = list(accumulate(part.words * len(queries) for part in parts))
    opened: Words = np.empty(0, dtype=np.uint64)
    if ends and ends[-1]:
        read = [
            (p.source, end - p.words * len(queries), *p.shape) for p, end in zip(parts, ends, strict=True) if p.words
        ]
        given = device.upload(np.concatenate((queries, np.array(read, dtype=_PART).view(np.uint64))))
        out = device.empty((ends[-1],))
        arguments = (given, given[len(queries) :], np.uint32(len(read)), out, np.uint64(ends[-1]))
        device.kernel(source, "merkle_open").launch_items(ends[-1], arguments)
        opened = device.download(out)
    pieces = iter(np.split(opened, ends[:-1]))
    return [_opening(tree, len(queries), pieces) for tree in trees]


@dataclass(frozen=True)
class _Part:
    """What is read at each query: a matrix' leaf, or a path."""

    words: int
    source: int
    shape: tuple[int, int, int, int, int, int]
    """The last fields of `struct Part`."""


def _parts(device: Device, tree: CudaMerkleTree) -> Iterator[_Part]:
    """Of each matrix, then of the path."""
    for leaf in tree.leaves:
        shape = (leaf.width, leaf.log_n, leaf.log_blowup, leaf.log_count, leaf.log_arity, 0)
        yield _Part(leaf.elements, device.address(leaf.matrix), shape)
    shape = (0, 0, tree.log_blowup, tree.log_leaves, 0, tree.levels)
    yield _Part(DIGEST_LANES * tree.levels, device.address(tree.digests), shape)


def _opening(tree: CudaMerkleTree, queries: int, pieces: Iterator[Words]) -> TreeOpening:
    """What `_parts` read of one tree."""
    rows = tuple(next(pieces).reshape(queries, leaf.elements) for leaf in tree.leaves)
    return TreeOpening(rows, next(pieces).view(np.uint8).reshape(queries, tree.levels, DIGEST_BYTES))
