"""Low-degree extensions as a prover holds them: on all cosets of their domain at once, or on one at a time.

An extension by B is the columns' polynomials on B cosets of the trace domain. Held whole it takes B times the trace's
memory. Held on one coset it takes the trace's own, and is moved where it is needed: one inverse and one forward
transform of each column, in place. What is computed on a coset is what the whole extension has there, so that a proof
does not show how it was made: for f on the coset 7 s <w_n>, f(s x) is a polynomial on the standard domain 7 <w_n>, an
extension of blow-up 1, and every kernel that takes an extension takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field import ONE, Ext, P, Words, e_scale, root_of_unity
from kernels.backend import Array, Backend
from kernels.goldilocks import NODE_TAG, Bytes, DeepPoint, GoldilocksKernels, LdeJob, MerkleTree, TreeOpening
from kernels.goldilocks_field import GENERATOR
from kernels.keccak import keccak256
from kernels.query_paths import Indices, QueryPaths


class Extension:
    """The extension of one matrix. Who reads it asks for the coset it needs; nobody else may write into its memory."""

    def __init__(
        self, kernels: GoldilocksKernels, array: Array, log_blowup: int, *, columns: Array | None = None
    ) -> None:
        """`array`: (w, B, n), or (w, 1, n), the first coset, to be moved; it is the extension's from here on.
        `columns`: (w, n), the trace that a whole extension keeps beside it.
        """
        self._kernels = kernels
        self._array = array
        self._columns = columns
        self._log_blowup = log_blowup
        self._shift = GENERATOR
        """Where the first coset of the array lies."""

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
        """(w, 1, n): the columns on this coset, until they are asked for elsewhere; of a whole extension (w, B, n), and
        only coset 0 is asked for. The same object each time.
        """
        return on_cosets(self._kernels, [(self, coset)])[0]

    def columns(self, run: range | None = None) -> Columns:
        """The columns of `run`, or all of them."""
        return Columns(self, range(self.width) if run is None else run)

    def trace(self) -> Array:
        """(w, n): the columns on the trace domain, until they are asked for on a coset."""
        if self._columns is not None:
            return self._columns
        _move(self._kernels, [(self, 1)])
        return self._array.reshape(self._array.shape[0], -1)

    def forget_trace(self) -> None:
        """Give back what a whole extension keeps of the trace."""
        self._columns = None

    def _shift_of(self, coset: int) -> int:
        return GENERATOR * coset_scale(self.log_n, self._log_blowup, coset) % P

    def _move_to(self, shift: int) -> LdeJob:
        """What moves the columns to the coset shift * <w_n>."""
        assert self._array.shape[1] == 1, "a whole extension stays where it is"
        columns = self._array.reshape(self._array.shape[0], -1)
        # `lde` ends on the coset of 7: f(x) = g(7 x / shift) for the g that it extends.
        return LdeJob(columns, self._shift * GENERATOR * pow(shift, -1, P) % P, self._array)


class Columns:
    """Neighbouring columns of an extension. They are where the extension is."""

    def __init__(self, extension: Extension, run: range) -> None:
        self.extension = extension
        self._array = extension._array[run.start : run.stop]

    def on(self, coset: int) -> Array:
        """As `Extension.on`: (k, 1, n) or (k, B, n), the same object each time."""
        self.extension.on(coset)
        return self._array


def on_cosets(kernels: GoldilocksKernels, wanted: Sequence[tuple[Extension, int]]) -> list[Array]:
    """`Extension.on` of each, moved together. An extension may be there several times, on one coset."""
    _move(kernels, [(extension, extension._shift_of(coset)) for extension, coset in wanted])
    return [extension._array for extension, _ in wanted]


def _move(kernels: GoldilocksKernels, wanted: Sequence[tuple[Extension, int]]) -> None:
    """Each extension to the coset shift * <w_n>, if it is elsewhere."""
    moving = {id(extension): (extension, shift) for extension, shift in wanted if shift != extension._shift}
    kernels.lde_all([extension._move_to(shift) for extension, shift in moving.values()], 0)
    for extension, shift in moving.values():
        extension._shift = shift


@dataclass(frozen=True)
class Opening:
    """One opening point of one table height; as `kernels.goldilocks.DeepPoint`."""

    point: Ext
    columns: Sequence[Columns]
    weights: Words
    value: Ext
    factor: Ext = ONE

    def on(self, coset: int, scale: int) -> DeepPoint:
        """For the extensions on a coset, there polynomials f(s x), s = `scale`: 1 / (s x - z) is 1/s / (x - z/s)."""
        matrices = tuple(c.on(coset) for c in self.columns)
        if scale == 1:
            return DeepPoint(self.point, matrices, self.weights, self.value, self.factor)
        point, value, factor = (e_scale(v, pow(scale, -1, P)) for v in (self.point, self.value, self.factor))
        return DeepPoint(point, matrices, self.weights, value, factor)


class Extender:
    """Makes extensions, and commits to them, whole or streamed: one coset at a time."""

    def __init__(self, backend: Backend, log_blowup: int, *, streamed: bool) -> None:
        self._backend = backend
        self._kernels = backend.goldilocks
        self._log_blowup = log_blowup
        self.streamed = streamed
        self._log_together = 0 if streamed else log_blowup
        """log2 of the cosets that are in memory together."""

    def extend(self, tables: Sequence[Array], *, keep_trace: Sequence[bool] | None = None) -> list[Extension]:
        """The extensions of (w, n) columns on their trace domains, whose memory they take when they are streamed.

        `keep_trace`: for which of them `Extension.trace` will be asked for.
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
        """`extend`, where some tables have no columns."""
        present = [columns for columns in tables if columns is not None]
        made = iter(self.extend(present, keep_trace=[keep_trace] * len(present)))
        return [None if columns is None else next(made) for columns in tables]

    def extend_chunks(self, tables: Sequence[tuple[Sequence[Array], Sequence[int]]]) -> list[Extension]:
        """Per table the extension of matrices (w, n), one above the other, each on a coset shift * <w_n> of its own.

        `tables`: the matrices and the shifts of each.
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
        """The extension of the sum of weight * column over columns of one height: its three coordinates.

        `weights`: (columns, 3). Computed on one coset, that on which a commitment leaves streamed extensions.
        """
        coset = self.cosets()[-1]
        combined = self._kernels.combine(on_cosets(self._kernels, [(e, coset) for e in extensions]), weights)
        shift = GENERATOR * coset_scale(extensions[0].log_n, self._log_blowup, coset) % P
        return self.extend_chunks([([combined], [shift])])[0]

    def cosets(self) -> Sequence[int]:
        """What `Extension.on` is asked for, one after the other, to see the whole domain."""
        return range(1 << (self._log_blowup - self._log_together))

    def parts(self, count: int) -> list[tuple[int, range]]:
        """What `Extension.on` is asked for to see cosets t B / count, t < count, each with the t that are there then.

        From the last one down: commitments leave extensions on their last coset, and openings begin on the first.
        """
        if not self.streamed:
            return [(0, range(count))]
        return [((t << self._log_blowup) // count, range(t, t + 1)) for t in reversed(range(count))]

    def evaluate_at(
        self, extensions: Sequence[Extension], point: Ext, *, next_row: Sequence[Sequence[int]]
    ) -> list[Words]:
        """`GoldilocksKernels.evaluate_at`, on the first coset."""
        return self._kernels.evaluate_at(
            on_cosets(self._kernels, [(e, 0) for e in extensions]), point, next_row=next_row
        )

    def deep(self, openings: Sequence[Opening]) -> Array:
        """`GoldilocksKernels.deep`: (3, B, n), put together from its cosets when the extensions are streamed."""
        if not self.streamed:
            return self._kernels.deep([o.on(0, 1) for o in openings])
        log_n = openings[0].columns[0].extension.log_n
        codeword = self._backend.empty((3, 1 << self._log_blowup, 1 << log_n))
        for coset in self.cosets():
            on_cosets(self._kernels, [(c.extension, coset) for o in openings for c in o.columns])
            scale = coset_scale(log_n, self._log_blowup, coset)
            codeword[:, coset : coset + 1] = self._kernels.deep([o.on(coset, scale) for o in openings])
        return codeword

    def commit(self, extensions: Sequence[Extension]) -> MerkleTree:
        """The tree of `GoldilocksKernels.commit` over all their rows. It opens them too, and so holds them."""
        if not self.streamed:
            return self._kernels.commit([e.on(0) for e in extensions])
        return CosetTrees(self._kernels, extensions, self._log_blowup)

    def open(self, trees: Sequence[MerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
        """`GoldilocksKernels.open`, of streamed extensions' trees too."""
        streamed = [tree for tree in trees if isinstance(tree, CosetTrees)]
        others = iter(self._kernels.open([tree for tree in trees if not isinstance(tree, CosetTrees)], indices))
        moved = iter(open_over_cosets(self._kernels, streamed, indices) if streamed else ())
        return [next(moved) if isinstance(tree, CosetTrees) else next(others) for tree in trees]


class CosetTrees:
    """A tree over streamed extensions: one for each coset, and the log2 B levels above their roots, on the host.

    Children lie half a level apart, so down to the level of B nodes only nodes of one coset meet: node k there is the
    root of a tree of blow-up 1 over coset k. That tree's row j is row j B + k of the whole, its node of number i the
    node of number i B + k (see `kernels.query_paths`).
    """

    def __init__(self, kernels: GoldilocksKernels, extensions: Sequence[Extension], log_blowup: int) -> None:
        self._kernels = kernels
        self._extensions = tuple(extensions)
        self._log_blowup = log_blowup
        # Each keeps the arrays it was made from, whose contents move on: it opens rows only when they are back.
        self._trees = [kernels.commit(on_cosets(kernels, [(e, k) for e in extensions])) for k in range(1 << log_blowup)]

    @cached_property
    def top(self) -> Bytes:
        """(2 B, 32): the nodes from the root to those of the cosets, by number; there is no node 0."""
        nodes = [bytes(32)] * self.cosets + [tree.root for tree in self._trees]
        for log_size in reversed(range(self._log_blowup)):
            size = 1 << log_size
            for i in range(size, 2 * size):
                nodes[i] = keccak256(NODE_TAG.to_bytes(8, "little") + nodes[i + size] + nodes[i + 2 * size])
        return np.frombuffer(b"".join(nodes), dtype=np.uint8).reshape(-1, 32)

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
        """The tree over this coset's rows, ready to open them."""
        on_cosets(self._kernels, [(extension, coset) for extension in self._extensions])
        return self._trees[coset]

    def open(self, indices: Sequence[int]) -> TreeOpening:
        return open_over_cosets(self._kernels, [self], indices)[0]

    def joined(self, paths: QueryPaths, parts: Mapping[int, tuple[QueryPaths, TreeOpening]]) -> TreeOpening:
        """The opening along `paths`, when the trees of some cosets open to `parts`."""
        rows = []
        for m, extension in enumerate(self._extensions):
            given = [(own.known(extension.log_n), opening.rows[m]) for own, opening in parts.values()]
            places = [indices * self.cosets + coset for coset, (indices, _) in zip(parts, given, strict=True)]
            wanted = paths.known(extension.log_n + self._log_blowup)
            rows.append(_found(wanted, np.concatenate(places), np.concatenate([r for _, r in given])))
        numbers = [
            own.path(self.log_leaves - self._log_blowup) * self.cosets + coset for coset, (own, _) in parts.items()
        ]
        numbers.append(np.arange(2 * self.cosets))
        nodes = [*(opening.path for _, opening in parts.values()), self.top]
        return TreeOpening(
            tuple(rows), _found(paths.path(self.log_leaves), np.concatenate(numbers), np.concatenate(nodes))
        )


def open_over_cosets(
    kernels: GoldilocksKernels, trees: Sequence[CosetTrees], indices: Sequence[int]
) -> list[TreeOpening]:
    """`GoldilocksKernels.open`, all trees on a coset after the other, the last one first; a transfer for each."""
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
    """Those of `items` whose `numbers`, distinct and in any order, are `wanted`, in that order."""
    order = np.argsort(numbers)
    return items[order[np.searchsorted(numbers, wanted, sorter=order)]]


def coset_scale(log_n: int, log_blowup: int, coset: int) -> int:
    """w_{Bn}^coset: coset k of an extension lies at 7 w_{Bn}^k <w_n>."""
    return pow(root_of_unity(log_n + log_blowup), coset, P)
