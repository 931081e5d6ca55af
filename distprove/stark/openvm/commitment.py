"""Commitments of OpenVM 2's prover: stacked columns, their Reed-Solomon codewords and Merkle trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distprove.stark.openvm.layout import Layout
from distprove.stark.openvm.params import SystemParams
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_codes import CodeTree, Place
from kernels.maths.babybear_ntt import log2_of


@dataclass(frozen=True)
class Stacked:
    """Matrices that one commitment holds, stacked to columns of equal height."""

    layout: Layout
    columns: Array = field(repr=False)
    """The stacked columns (width, 2^log_height) in the backend's memory: values over the prism, D first."""
    matrices: tuple[Array, ...] = field(repr=False)
    """The matrices (width, height). Those of at least 2^log_skip rows are parts of `columns`: the memory that they came
    from may be freed."""
    tree: CodeTree = field(repr=False)


def commit(kernels: OpenVmKernels, params: SystemParams, matrices: Sequence[Array]) -> Stacked:
    """Stack, encode and hash matrices (width, height) of the backend, in descending order of their heights.

    A column of fewer than 2^log_skip rows fills every n-th row of 2^log_skip. No matrix may be taller than the stack.
    """
    sizes = [(matrix.shape[0], log2_of(matrix.shape[1])) for matrix in matrices]
    layout = Layout.of(params.log_skip, params.log_height, sizes)
    places = [Place(placed.start, placed.log_rows - placed.log_height) for placed in layout.traces]
    columns = kernels.codes.stack(matrices, places, layout.width, params.log_height)
    cells = columns.reshape(layout.width << params.log_height)
    placed = tuple(
        matrix if place.log_step else cells[place.start : place.start + matrix.size].reshape(matrix.shape)
        for matrix, place in zip(matrices, places, strict=True)
    )
    tree = kernels.codes.commit(columns, params.log_skip, params.log_blowup, params.whir.log_fold)
    return Stacked(layout, columns, placed, tree)
