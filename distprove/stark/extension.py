"""Low-degree extensions (LDE) in a prover's memory: on all cosets of their domain at once, or on one at a time.

An extension by B holds the values of the columns' polynomials on B cosets of the trace domain. A whole extension takes
B times the trace's memory. A streamed one holds one coset at a time in the trace's own memory, and is moved to the
coset that is needed by one inverse and one forward transform of each column, in place. The values on a coset are those
of the whole extension, so that a proof does not show how it was made: for f on the coset 7 s <w_n>, f(s x) is a
polynomial on the standard domain 7 <w_n>, an extension of blow-up 1, which every kernel for extensions accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field import ONE, Ext, P, Words, e_scale, root_of_unity
from kernels.cpu.tree_digests import node_digests
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import Bytes, DeepPoint, GoldilocksKernels, LdeJob, MerkleTree, TreeOpening
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import GENERATOR
from kernels.maths.query_paths import Indices, QueryPaths


class Extension:
    """The extension of one matrix. Readers ask for the coset that they need; nobody else may write into its memory."""

    def __init__(
        self, kernels: GoldilocksKernels, array: Array, log_blowup: int, *, columns: Array | None = None
    ) -> None:
        """`array` is (w, B, n), or (w, 1, n) for a streamed extension on its first coset; the extension then owns it.
        `columns` is (w, n), the trace, if a whole extension is to keep it.
        """
        self._kernels = kernels
        self._array = array
        self._columns = columns
        self._log_blowup = log_blowup
        self._shift = GENERATOR
        """Shift of the array's first coset; 1 for the trace domain."""

    @property
    def width(self) -> int:
        return int(self._array.shape[0])

    @property
    def log_n(self) -> int:
        return int(self._array.shape[2]).bit_length() - 1

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes) + (0 if self._columns is None else int(self._columns.nbytes))

    def on(self, coset: int) -> Array:
        """Move a streamed extension to this coset: its columns there, (w, 1, n), valid until the next move. A whole
        extension accepts only coset 0 and returns (w, B, n). It is the same array each time.
        """
        return on_cosets(self._kernels, [(self, coset)])[0]

    def columns(self, run: range | None = None) -> Columns:
        """The columns in `run`, or all columns."""
        return Columns(self, range(self.width) if run is None else run)

    def trace(self) -> Array:
        """The columns on the trace domain, (w, n), in a streamed extension valid until it is moved to a coset."""
        if self._columns is not None:
            return self._columns
        _move(self._kernels, [(self, 1)])
        return self._array.reshape(self._array.shape[0], -1)

    def forget_trace(self) -> None:
        """Free the trace that a whole extension keeps."""
        self._columns = None

    def _shift_of(self, coset: int) -> int:
        return GENERATOR * coset_scale(self.log_n, self._log_blowup, coset) % P

    def _move_to(self, shift: int) -> LdeJob:
        """The transform that moves the columns to the coset shift * <w_n>."""
        assert self._array.shape[1] == 1, "a whole extension stays where it is"
        columns = self._array.reshape(self._array.shape[0], -1)
        # `lde` ends on the coset of 7: f(x) = g(7 x / shift) for the g that it extends.
        return LdeJob(columns, self._shift * GENERATOR * pow(shift, -1, P) % P, self._array)


class Columns:
    """Consecutive columns of an extension, which are on the same coset as the extension."""

    def __init__(self, extension: Extension, run: range) -> None:
        self.extension = extension
        self._array = extension._array[run.start : run.stop]

    def on(self, coset: int) -> Array:
        """Move the extension as `Extension.on` does: these k columns, (k, 1, n) or (k, B, n), always the same array."""
        self.extension.on(coset)
        return self._array


def on_cosets(kernels: GoldilocksKernels, wanted: Sequence[tuple[Extension, int]]) -> list[Array]:
    """Move several extensions together, as `Extension.on` does for one. An extension may occur several times with the
    same coset."""
    _move(kernels, [(extension, extension._shift_of(coset)) for extension, coset in wanted])
    return [extension._array for extension, _ in wanted]


def _move(kernels: GoldilocksKernels, wanted: Sequence[tuple[Extension, int]]) -> None:
    """Move each extension to its coset shift * <w_n>, unless it is there already."""
    moving = {id(extension): (extension, shift) for extension, shift in wanted if shift != extension._shift}
    kernels.lde_all([extension._move_to(shift) for extension, shift in moving.values()], 0)
    for extension, shift in moving.values():
        extension._shift = shift


@dataclass(frozen=True)
class Opening:
    """The openings of columns of one height at one point, in the form of `kernels.interface.goldilocks.DeepPoint`."""

    point: Ext
    columns: Sequence[Columns]
    weights: Words
    value: Ext
    factor: Ext = ONE

    def on(self, coset: int, scale: int) -> DeepPoint:
        """Move the columns to a coset, where they are polynomials f(s x) with s = `scale`: the term there, which is
        rescaled because 1 / (s x - z) = (1/s) / (x - z/s)."""
        matrices = tuple(c.on(coset) for c in self.columns)
        if scale == 1:
            return DeepPoint(self.point, matrices, self.weights, self.value, self.factor)
        point, value, factor = (e_scale(v, pow(scale, -1, P)) for v in (self.point, self.value, self.factor))
        return DeepPoint(point, matrices, self.weights, value, factor)


class Extender:
    """Makes extensions and commits to them, whole or streamed (one coset at a time)."""

    def __init__(
        self, backend: Backend, log_blowup: int, *, streamed: bool, tree_hash: TreeHash = TreeHash.KECCAK
    ) -> None:
        self._tree_hash = tree_hash
        self._backend = backend
        self._kernels = backend.goldilocks
        self._log_blowup = log_blowup
        self.streamed = streamed
        self._log_together = 0 if streamed else log_blowup
        """log2 of the number of cosets that are in memory together."""

    def extend(self, tables: Sequence[Array], *, keep_trace: Sequence[bool] | None = None) -> list[Extension]:
        """Extend columns, (w, n) on their trace domains. Streamed extensions take over the columns' memory.

        `keep_trace` says for which tables `Extension.trace` will be called.
        """
        outs = [columns.reshape(columns.shape[0], 1, -1) if self.streamed else None for columns in tables]
        jobs = [LdeJob(columns, out=out) for columns, out in zip(tables, outs, strict=True)]
        arrays = self._kernels.lde_all(jobs, self._log_together)
        keep = [False] * len(tables) if keep_trace is None or self.streamed else keep_trace
        return [
            Extension(self._kernels, array, self._log_blowup, columns=columns if kept else None)
            for array, columns, kept in zip(arrays, tables, keep, strict=True)
        ]

    def extend_present(self, tables: Sequence[Array | None], *, keep_trace: bool = False) -> list[Extension | None]:
        """Extend columns as `extend` does; None for a table without columns."""
        present = [columns for columns in tables if columns is not None]
        made = iter(self.extend(present, keep_trace=[keep_trace] * len(present)))
        return [None if columns is None else next(made) for columns in tables]

    def extend_chunks(self, tables: Sequence[tuple[Sequence[Array], Sequence[int]]]) -> list[Extension]:
        """Extend the chunks of each table, matrices (w, n) on cosets shift * <w_n> of their own, into one extension.

        `tables` holds the matrices of each table and their shifts.
        """
        arrays, jobs = [], []
        for chunks, shifts in tables:
            width, n = map(int, chunks[0].shape)
            array = self._backend.empty((width * len(chunks), 1 << self._log_together, n))
            arrays.append(array)
            jobs += [
                LdeJob(columns, shift, array[width * t : width * (t + 1)])
                for t, (columns, shift) in enumerate(zip(chunks, shifts, strict=True))
            ]
        self._kernels.lde_all(jobs, self._log_together)
        return [Extension(self._kernels, array, self._log_blowup) for array in arrays]

    def combine(self, extensions: Sequence[Extension], weights: Words) -> Extension:
        """The extension of the sum of weight * column over columns of one height, as its three coordinates.

        `weights` is (columns, 3). The sum is computed on one coset, the last, on which a commitment leaves streamed
        extensions.
        """
        coset = self.cosets()[-1]
        combined = self._kernels.combine(on_cosets(self._kernels, [(e, coset) for e in extensions]), weights)
        shift = GENERATOR * coset_scale(extensions[0].log_n, self._log_blowup, coset) % P
        return self.extend_chunks([([combined], [shift])])[0]

    def cosets(self) -> Sequence[int]:
        """The arguments with which `Extension.on` must be called one after the other to see the whole domain."""
        return range(1 << (self._log_blowup - self._log_together))

    def parts(self, count: int) -> list[tuple[int, range]]:
        """The arguments of `Extension.on` to see the cosets t B / count for t < count, each with the t that it covers.

        They go from the last to the first: commitments leave extensions on the last coset, openings start on the first.
        """
        if not self.streamed:
            return [(0, range(count))]
        return [((t << self._log_blowup) // count, range(t, t + 1)) for t in reversed(range(count))]

    def evaluate_at(
        self, extensions: Sequence[Extension], point: Ext, *, next_row: Sequence[Sequence[int]]
    ) -> list[Words]:
        """Evaluate the columns at a point as `GoldilocksKernels.evaluate_at` does, from the first coset."""
        return self._kernels.evaluate_at(
            on_cosets(self._kernels, [(e, 0) for e in extensions]), point, next_row=next_row
        )

    def deep(self, openings: Sequence[Opening]) -> Array:
        """The codeword of `GoldilocksKernels.deep`, (3, B, n), assembled coset by coset from streamed extensions."""
        if not self.streamed:
            return self._kernels.deep([o.on(0, 1) for o in openings], polynomial=True)
        log_n = openings[0].columns[0].extension.log_n
        codeword = self._backend.empty((3, 1 << self._log_blowup, 1 << log_n))
        for coset in self.cosets():
            on_cosets(self._kernels, [(c.extension, coset) for o in openings for c in o.columns])
            scale = coset_scale(log_n, self._log_blowup, coset)
            codeword[:, coset : coset + 1] = self._kernels.deep([o.on(coset, scale) for o in openings])
        return codeword

    def commit(self, extensions: Sequence[Extension]) -> MerkleTree:
        """The Merkle tree of `GoldilocksKernels.commit` over all rows. It keeps the extensions, to open their rows."""
        if not self.streamed:
            return self._kernels.commit([e.on(0) for e in extensions], tree_hash=self._tree_hash)
        return CosetTrees(self._kernels, extensions, self._log_blowup, self._tree_hash)

    def open(self, trees: Sequence[MerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
        """Open trees at `indices` as `GoldilocksKernels.open` does, those over streamed extensions included."""
        streamed = [tree for tree in trees if isinstance(tree, CosetTrees)]
        others = iter(self._kernels.open([tree for tree in trees if not isinstance(tree, CosetTrees)], indices))
        moved = iter(open_over_cosets(self._kernels, streamed, indices) if streamed else ())
        return [next(moved) if isinstance(tree, CosetTrees) else next(others) for tree in trees]


class CosetTrees:
    """A tree over streamed extensions: one tree for each coset, and on the host the log2 B levels above their roots.

    The children of a node lie equally far apart, so that from the leaves up to the level of B nodes only nodes of the
    same coset meet. Node k of that level is the root of a tree of blow-up 1 over coset k. Row j of that tree is row
    j B + k of the whole tree, and its node number i is node number i B + k (see `kernels.maths.query_paths`).
    """

    def __init__(
        self,
        kernels: GoldilocksKernels,
        extensions: Sequence[Extension],
        log_blowup: int,
        tree_hash: TreeHash = TreeHash.KECCAK,
    ) -> None:
        self._kernels = kernels
        self._extensions = tuple(extensions)
        self._log_blowup = log_blowup
        # Each tree keeps the arrays it was made from, whose contents move: it opens rows only while they are back on
        # its coset.
        self._trees = [
            kernels.commit(on_cosets(kernels, [(e, k) for e in extensions]), tree_hash=tree_hash)
            for k in range(1 << log_blowup)
        ]
        self._tree_hash = tree_hash
        heights = [e.log_n + log_blowup for e in extensions]
        self._levels = tree_hash.levels(max(heights), log_blowup, heights)

    @cached_property
    def top(self) -> Bytes:
        """The nodes from the root down to the roots of the cosets, by number, (2 B, 32) uint8; there is no node 0."""
        nodes = np.zeros((2 * self.cosets, 32), dtype=np.uint8)
        nodes[self.cosets :] = [np.frombuffer(tree.root, dtype=np.uint8) for tree in self._trees]
        for below, above in pairwise(self._levels[-1 - self._levels[::-1].index(self._log_blowup) :]):
            size = 1 << above
            children = np.split(nodes[1 << below : 2 << below], 1 << (below - above))
            nodes[size : 2 * size] = node_digests(self._tree_hash, children)
        return nodes

    @property
    def root(self) -> bytes:
        return bytes(self.top[1])

    @property
    def cosets(self) -> int:
        return len(self._trees)

    @property
    def log_leaves(self) -> int:
        return max(e.log_n for e in self._extensions) + self._log_blowup

    def on(self, coset: int) -> MerkleTree:
        """Move the extensions to this coset and return the tree over its rows, which can then open them."""
        on_cosets(self._kernels, [(extension, coset) for extension in self._extensions])
        return self._trees[coset]

    def joined(self, paths: QueryPaths, parts: Mapping[int, tuple[QueryPaths, TreeOpening]]) -> TreeOpening:
        """Join the openings `parts` of the trees of some cosets into the opening of the whole tree along `paths`."""
        rows = []
        for m, extension in enumerate(self._extensions):
            given = [(own.known(extension.log_n), opening.rows[m]) for own, opening in parts.values()]
            places = [indices * self.cosets + coset for coset, (indices, _) in zip(parts, given, strict=True)]
            wanted = paths.known(extension.log_n + self._log_blowup)
            rows.append(_found(wanted, np.concatenate(places), np.concatenate([r for _, r in given])))
        own_levels = tuple(level - self._log_blowup for level in self._levels if level >= self._log_blowup)
        numbers = [own.path_of(own_levels) * self.cosets + coset for coset, (own, _) in parts.items()]
        numbers.append(np.arange(2 * self.cosets))
        nodes = [*(opening.path for _, opening in parts.values()), self.top]
        return TreeOpening(
            tuple(rows), _found(paths.path_of(self._levels), np.concatenate(numbers), np.concatenate(nodes))
        )


def open_over_cosets(
    kernels: GoldilocksKernels, trees: Sequence[CosetTrees], indices: Sequence[int]
) -> list[TreeOpening]:
    """Open trees as `GoldilocksKernels.open` does, coset by coset from the last to the first, a transfer for each."""
    cosets, log_leaves = trees[0].cosets, max(tree.log_leaves for tree in trees)
    at = np.array(indices, dtype=np.int64)
    opened = {}
    for coset in reversed(range(cosets)):
        here = at[at % cosets == coset] // cosets
        if len(here):
            own = QueryPaths(here, log_leaves - (cosets.bit_length() - 1))
            opened[coset] = own, kernels.open([tree.on(coset) for tree in trees], here.tolist())
    paths = QueryPaths(at, log_leaves)
    return [
        tree.joined(paths, {coset: (own, parts[i]) for coset, (own, parts) in opened.items()})
        for i, tree in enumerate(trees)
    ]


def _found(wanted: Indices, numbers: Indices, items: NDArray[Any]) -> NDArray[Any]:
    """The items whose numbers are `wanted`, in that order. `numbers` are distinct and in any order."""
    order = np.argsort(numbers)
    return items[order[np.searchsorted(numbers, wanted, sorter=order)]]


def coset_scale(log_n: int, log_blowup: int, coset: int) -> int:
    """The scale w_{Bn}^k of coset k of an extension, which lies at 7 w_{Bn}^k <w_n>."""
    return pow(root_of_unity(log_n + log_blowup), coset, P)
