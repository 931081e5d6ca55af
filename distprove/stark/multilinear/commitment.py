"""Stacked columns of a prover: their cells, coefficients, codewords and tree. And the anchor of a commitment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distprove.stark.field import Ext, Words, ext_powers
from distprove.stark.multilinear.params import LOG_FOLD, Parameters
from distprove.stark.multilinear.stacking import Stack
from distprove.stark.multilinear.vectors import Vectors
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import MerkleTree


@dataclass
class Stacked:
    """A committed stack. It holds secret columns and never leaves the prover."""

    stack: Stack
    coefficients: Words = field(repr=False)
    """(width, 2^log_height)"""
    tree: MerkleTree
    codewords: Any = field(repr=False)
    """The codewords, in the backend's memory."""

    @property
    def nbytes(self) -> int:
        return int(self.coefficients.nbytes) + int(self.codewords.nbytes)


def stack_columns(stack: Stack, columns: Mapping[int, Words]) -> Words:
    """Lay out the tables' columns (width, rows), by the numbers that the stack knows: (width, 2^log_height)."""
    cells = np.zeros((stack.width, 1 << stack.log_height), dtype=np.uint64)
    for number, positions in stack.positions.items():
        for column, at in zip(columns[number], positions, strict=True):
            cells[at.column, at.offset : at.offset + len(column)] = column
    return cells


def commit_stack(
    backend: Backend, stack: Stack, columns: Mapping[int, Words], params: Parameters, *, main: bool
) -> Stacked:
    """Stack columns, encode them and commit to the codewords. Leaves of the main stack hold what folds together."""
    vectors = Vectors(backend)
    coefficients = vectors.runs_to_coefficients(stack_columns(stack, columns), params.log_skip)
    codewords = vectors.codewords(coefficients, params.log_blowup)
    log_arity = min(LOG_FOLD, stack.log_height) if main else 0
    tree = backend.goldilocks.commit([codewords], log_arity=log_arity, tree_hash=params.tree_hash)
    return Stacked(stack, coefficients, tree, codewords)


def combined(backend: Backend, stacked: Stacked, weights: Words) -> Words:
    """The sum of weight times coefficients over stacked columns, (3, 2^log_height)."""
    columns = backend.to_device(stacked.coefficients[:, None])
    return backend.to_host(backend.goldilocks.combine([columns], weights))


def value_at(vectors: Vectors, coefficients: Words, point: Sequence[Ext]) -> Ext:
    """The value at `point` of the multilinear polynomial with coefficients (3, 2^len)."""
    for x in point:
        coefficients = vectors.fold_coefficients(coefficients, x)
    a, b, c = coefficients[:, 0].tolist()
    return a, b, c


def anchor_of(backend: Backend, stacked: Stacked, eta: Sequence[Ext], delta: Ext) -> Ext:
    """The anchor of a committed main stack: the sum of delta^j V_j(eta)."""
    weights = ext_powers(delta, stacked.stack.width)
    return value_at(Vectors(backend), combined(backend, stacked, weights), eta)
