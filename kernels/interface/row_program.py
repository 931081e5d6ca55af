"""Straight-line programs over the rows of matrices, to which an AIR's constraints and interactions are compiled.

A program is data, the same for every row: it loads elements of this row and the next, computes in the base field
F_p or the extension F_p[x]/(x^3 - x - 1), and either writes output columns or folds many values into one extension
column. The CPU backend interprets it over blocks of rows, the CUDA backend compiles it with NVRTC, and a verifier
evaluates it at one point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.maths.goldilocks import P

_BLOCK = 1024


class Op(IntEnum):
    """Opcode of an instruction, whose operands are `a`, `b`, `c` of `RowProgram.code`."""

    LOAD = 0
    """Base field element of input matrix a, column b, in this row (c = 0) or the next one, cyclically (c = 1)."""
    CONST = 1
    """The base field element constants[a]."""
    SCALAR = 2
    """The extension element scalars[a], given at evaluation (a challenge)."""
    BASE_SCALAR = 3
    """The base field element in the first coordinate of scalars[a], whatever the others are (a public value)."""
    ADD = 4
    """The sum of value a and value b."""
    SUB = 5
    """The difference of value a and value b."""
    MUL = 6
    """The product of value a and value b."""


@dataclass(frozen=True)
class RowProgram:
    """Instructions in static single assignment form: value i is the result of instruction i.

    Raises SizeError when it is not well formed: an operand that is not an earlier value, a column that its matrix does
    not have, a constant that is not canonical, an operand that its op does not use and that is not zero.
    """

    widths: tuple[int, ...]
    """Columns of each input matrix."""
    code: NDArray[np.int32]
    """Instructions as (n, 4) int32: op, a, b, c. Operands that an op does not use are 0."""
    constants: tuple[int, ...]
    """Canonical base field elements that CONST loads."""
    scalars: int
    """Number of extension scalars that are given at evaluation."""
    outputs: tuple[int, ...]
    """Values that become output columns, or, when `fold` is set, the values that are folded."""
    fold: int | None = None
    """Index of the first of len(outputs) scalars w: the output is the one extension column sum_i w_i outputs_i."""

    def __post_init__(self) -> None:
        check(self)

    @cached_property
    def is_extension(self) -> NDArray[np.bool_]:
        """Flags (n,): whether each value is an extension element. Sums and products of base values are base values."""
        kinds = bytearray(len(self.code))
        for i, (op, a, b, _) in enumerate(self.instructions()):
            kinds[i] = op == Op.SCALAR or (op >= Op.ADD and (kinds[a] or kinds[b]))
        return np.frombuffer(kinds, dtype=np.bool_)

    def instructions(self) -> Iterator[list[int]]:
        """The rows of `code` as lists. A list of all rows would take ten times the memory of `code`."""
        for start in range(0, len(self.code), _BLOCK):
            yield from self.code[start : start + _BLOCK].tolist()

    @property
    def output_columns(self) -> int:
        """Base field columns of the result: one for a base value, three for an extension value."""
        if self.fold is not None:
            return 3
        return sum(3 if self.is_extension[v] else 1 for v in self.outputs)


def check(program: RowProgram) -> None:
    """Raise SizeError unless `program` is well formed."""
    code = program.code
    if code.ndim != 2 or code.shape[1] != 4 or code.dtype != np.int32:
        raise SizeError(f"a row program's code is (instructions, 4) int32, not {code.shape} {code.dtype}")
    if not all(0 <= c < P for c in program.constants):
        raise SizeError("a row program's constants must be canonical field elements")
    op, a, b, c = code.T
    matrices = np.array([*program.widths, 0])  # a matrix that is not there has no columns
    width = matrices[np.where((a >= 0) & (a < len(program.widths)), a, -1)]
    earlier = np.arange(len(code))
    good = np.select(
        [op == Op.LOAD, op == Op.CONST, (op == Op.SCALAR) | (op == Op.BASE_SCALAR), (op >= Op.ADD) & (op <= Op.MUL)],
        [
            (b >= 0) & (b < width) & ((c == 0) | (c == 1)),
            (a >= 0) & (a < len(program.constants)) & (b == 0) & (c == 0),
            (a >= 0) & (a < program.scalars) & (b == 0) & (c == 0),
            (a >= 0) & (a < earlier) & (b >= 0) & (b < earlier) & (c == 0),
        ],
        default=False,
    )
    if not good.all():
        i = int(np.argmin(good))
        raise SizeError(f"instruction {i} of a row program is not valid: {tuple(code[i].tolist())}")
    if not all(0 <= v < len(code) for v in program.outputs):
        raise SizeError("a row program's outputs must be values it computes")
    if program.fold is not None and not 0 <= program.fold <= program.scalars - len(program.outputs):
        raise SizeError("a row program folds with more scalars than it has")
