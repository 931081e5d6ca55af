"""Stacked columns of a prover: their coefficients, codewords and tree. And the anchor of a commitment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.field import Ext, Words, ext_powers
from distprove.stark.multilinear.params import LOG_FOLD, Parameters
from distprove.stark.multilinear.stacking import Stack
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import StoredTree, TreeOpening
from kernels.maths.distinct import distinct


@dataclass
class Stacked:
    """A committed stack, in the backend's memory. It holds secret columns and never leaves the prover."""

    stack: Stack
    params: Parameters
    tree: StoredTree
    coefficients: Array = field(repr=False)
    """(width, 2^log_height); None once they were dropped."""
    codewords: Array = field(repr=False)
    """(width, 2^log_blowup, 2^log_height); None once they were dropped."""

    @property
    def nbytes(self) -> int:
        """Memory that it holds in bytes."""
        return sum(int(a.nbytes) for a in (self.tree.nodes, self.coefficients, self.codewords) if a is not None)

    def drop_coefficients(self) -> None:
        """Keep codewords and the tree. Coefficients are made again from the tables' columns, by short transforms."""
        self.coefficients = None

    def drop_codewords(self) -> None:
        """Keep coefficients and the tree's nodes. Codewords are made again, by transforms."""
        self.tree = self.tree.over((), self.tree.nodes)
        self.codewords = None

    def interpolate(self, backend: Backend, columns: Mapping[int, Array]) -> None:
        """Make dropped coefficients again."""
        if self.coefficients is None:
            self.coefficients = interpolated(backend, self.stack, columns, self.params)

    def open(self, backend: Backend, indices: Sequence[int]) -> list[TreeOpening]:
        """Open the main tree at leaves. Of dropped codewords these leaves are made again alone, or all for it alone."""
        tree, kernels, log_blowup = self.tree, backend.multilinear, self.params.log_blowup
        if self.codewords is None:
            met = distinct(np.array(indices, dtype=np.int64) % (1 << tree.log_leaves))
            log_arity = min(LOG_FOLD, self.stack.log_height)
            leaves = kernels.codeword_leaves(self.coefficients, log_blowup, log_arity, met)
            if leaves is not None:
                (path,) = backend.goldilocks.open([tree], indices)
                return [TreeOpening((leaves,), path.path)]
            tree = tree.over((kernels.encode(self.coefficients, log_blowup),), tree.nodes)
        return backend.goldilocks.open([tree], indices)


def stack_columns(backend: Backend, stack: Stack, columns: Mapping[int, Array]) -> Array:
    """Lay out the tables' columns (width, rows), by the numbers that the stack knows: (width, 2^log_height)."""
    given = [columns[number] for number, _, _ in stack.tables]
    return backend.multilinear.stack(given, stack.width, 1 << stack.log_height)


def interpolated(backend: Backend, stack: Stack, columns: Mapping[int, Array], params: Parameters) -> Array:
    """The coefficients of stacked columns, (width, 2^log_height)."""
    coefficients = stack_columns(backend, stack, columns)
    backend.multilinear.interpolate_runs(coefficients, params.log_skip)
    return coefficients


def commit_stack(
    backend: Backend, stack: Stack, columns: Mapping[int, Array], params: Parameters, *, main: bool
) -> Stacked:
    """Stack tables' columns, encode them and commit to the codewords. Leaves of the main stack hold what folds
    together."""
    coefficients = interpolated(backend, stack, columns, params)
    codewords = backend.multilinear.encode(coefficients, params.log_blowup)
    log_arity = min(LOG_FOLD, stack.log_height) if main else 0
    tree = backend.goldilocks.commit([codewords], log_arity=log_arity, tree_hash=params.tree_hash)
    return Stacked(stack, params, tree, coefficients, codewords)


def combined(backend: Backend, stacked: Stacked, weights: Words, out: Array | None = None) -> Array:
    """The sum of weight times coefficients over stacked columns, (3, 2^log_height), in `out` if it is given."""
    return backend.goldilocks.combine([stacked.coefficients[:, None]], weights, out)


def anchor_of(backend: Backend, stacked: Stacked, eta: Sequence[Ext], delta: Ext) -> Ext:
    """The anchor of a committed main stack: the sum of delta^j V_j(eta)."""
    kernels = backend.multilinear
    weights = ext_powers(delta, stacked.stack.width)
    return kernels.dot(combined(backend, stacked, weights), kernels.products(eta, eq=False))
