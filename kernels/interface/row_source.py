"""Columns of a trace as a C++ function of the row's index: one text, which runs on a GPU and on the CPU.

The text is C++17 with the project's headers (`#include "hash/keccak.h"`), and no others. Around it are generated

    namespace column { constexpr u64 word = 0, limb = 1; }       where each name's columns begin in a row
    struct Inputs { u64 rows; dp::trace::Input values; dp::trace::Sums used; };     the table's height, the named arrays

so that its function, here called `row`, reads and writes by name:

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      out[column::word] = in.values[i];
      in.used.add(in.values[i]);
    }

Rows are computed in any order and in parallel, each by one call. A call must compute again what is not in its inputs.
To sums it may add, at any place, and read them it must not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array

FUNCTION = "dp_trace_rows"
"""Name of the CUDA kernel, and of the function that the CPU calls."""
MAX_INPUTS = 64

_NAME = re.compile(r"[A-Za-z_]\w*")
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class RowSource:
    """A row function. Raises SizeError for names that are not valid in C++."""

    name: str
    """File name of the text, for messages."""
    text: str = field(repr=False)
    columns: tuple[tuple[str, int], ...]
    """Names and widths of the columns that the function writes, in the trace's order."""
    inputs: tuple[str, ...]
    """Names of the arrays that the function reads: uint64, (n,) or (k, n)."""
    function: str = "row"
    sums: tuple[str, ...] = ()
    """Names of the arrays that the function adds to: uint64, (n,)."""

    def __post_init__(self) -> None:
        for kind, names in (("column", [name for name, _ in self.columns]), ("input", [*self.inputs, *self.sums])):
            if len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
                raise SizeError(f"{self.name}: {kind} names must be different names of C++, not {', '.join(names)}")
        if not self.columns or any(width < 1 for _, width in self.columns):
            raise SizeError(f"{self.name}: a row function writes at least one column, and one at least of each name")
        if len(self.inputs) + len(self.sums) > MAX_INPUTS or "rows" in (*self.inputs, *self.sums):
            raise SizeError(f"{self.name}: at most {MAX_INPUTS} inputs, none called rows")
        if not _QUALIFIED.fullmatch(self.function):
            raise SizeError(f"{self.name}: {self.function!r} is not a function's name")

    @cached_property
    def width(self) -> int:
        """Columns of the result."""
        return sum(width for _, width in self.columns)

    def column_name(self, column: int) -> str:
        """Return the readable name of a column: `limb[2]`, or `limb` alone if that is one column. Raises SizeError."""
        for name, width in self.columns:
            if column < width:
                return name if width == 1 else f"{name}[{column}]"
            column -= width
        raise SizeError(f"{self.name} writes {self.width} columns")

    def whole(self, runner: str, wrapper: str) -> str:
        """Return the text with the generated code around it; `runner` is the header with the macro `wrapper`."""
        starts, at = [], 0
        for name, width in self.columns:
            starts.append(f"{name} = {at}")
            at += width
        arrays = "".join(f"  dp::trace::Input {name};\n" for name in self.inputs)
        arrays += "".join(f"  dp::trace::Sums {name};\n" for name in self.sums)
        return (
            f'#include "{runner}"\n'
            "using dp::u32;\nusing dp::u64;\nusing dp::trace::Row;\n"
            f"namespace column {{\nconstexpr u64 {', '.join(starts)};\n}}\n"
            f"struct Inputs {{\n  u64 rows;\n{arrays}}};\n"
            f'#line 1 "{self.name}"\n{self.text}\n'
            f'#line 1 "generated"\n{wrapper}({FUNCTION}, {self.function})\n'
        )

    def inputs_struct(
        self, rows: int, arrays: Mapping[str, Array], address: Callable[[Array], int]
    ) -> NDArray[np.uint64]:
        """Return `Inputs` as words: height, then address and length of each array. Raises SizeError if they misfit."""
        named = (*self.inputs, *self.sums)
        if set(arrays) != set(named):
            expected, given = (", ".join(sorted(names)) or "nothing" for names in (named, arrays))
            raise SizeError(f"{self.name} reads {expected}; it was given {given}")
        words = [rows]
        for name in named:
            array = arrays[name]
            if name in self.sums:
                preconditions.writable(array, (int(array.size),))
            if array.dtype != np.uint64 or array.ndim not in (1, 2):
                raise SizeError(f"{self.name}: {name} must be uint64, (n,) or (k, n), not {array.shape} {array.dtype}")
            words += [address(array), array.shape[-1]]
        return np.array(words, dtype=np.uint64)

    def output_shape(self, rows: int, out: Array | None) -> tuple[int, int]:
        """Return (width, rows). Raises SizeError for no rows, or if `out` is no contiguous array of this shape."""
        shape = self.width, rows
        if rows < 1:
            raise SizeError(f"{self.name}: a trace has at least one row, not {rows}")
        if out is not None and (out.shape != shape or out.dtype != np.uint64 or not out.flags.c_contiguous):
            raise SizeError(f"{self.name} writes a contiguous {shape} array of uint64, not {out.shape} {out.dtype}")
        return shape


SAMPLE = RowSource("sample", "DP_ROW void row(const Inputs&, u64 i, Row& out) { out[0] = i; }", (("i", 1),), ())
"""The smallest row function: it tells whether a compiler works, and stands for the others in lists of kernels."""
