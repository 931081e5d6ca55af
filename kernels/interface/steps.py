"""Steps of the multilinear engine: structs of `include/multilinear_steps.h` and `multilinear_rows.h` as NumPy records,
and how they are run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernels.interface.arrays import Array
from kernels.maths.goldilocks import Ext

Words = NDArray[np.uint64]
Layouts = Mapping[str, np.dtype[Any]]

COORDINATES = 40
"""Most coordinates of a point. Must equal that in multilinear_base.h."""
TRANSCRIPT = 18
"""Words of a transcript's state: which hash, how many elements are there, and 16 words of state."""


def struct(*fields: tuple[Any, str]) -> np.dtype[Any]:
    """The layout of a struct: types with the names of their fields, in order."""
    return np.dtype([(name, kind) for kind, names in fields for name in names.split()])


WORD, EXT = np.dtype("u8"), np.dtype(("u8", (3,)))
POINT = np.dtype(("u8", (COORDINATES, 3)))
STATE = np.dtype(("u8", (TRANSCRIPT,)))
PRODUCTS = struct((WORD, "low high log_low"))


@dataclass(frozen=True)
class Products:
    """A vector of 2^bits elements, each a product of one factor for each bit of its index: two tables in the backend's
    memory, of whose entries they are the products."""

    tables: Array
    bits: int

    @cached_property
    def log_low(self) -> int:
        return (self.bits + 1) // 2


def point_words(point: Sequence[Ext]) -> Words:
    """A point as a struct has it, (COORDINATES, 3)."""
    given = np.zeros((COORDINATES, 3), dtype=np.uint64)
    given[: len(point)] = np.array(point, dtype=np.uint64).reshape(-1, 3)
    return given


class StepKernels(ABC):
    """Runs the steps whose structs are in `layouts`, in the memory of one backend."""

    layouts: ClassVar[Layouts]

    def _each(self, step: str, items: int, **given: Any) -> None:
        if items:
            self._run(step, items, self._arguments(step, given))

    def _sum(self, step: str, items: int, log_classes: int, out: Array, **given: Any) -> None:
        self._run_sum(step, items, log_classes, self._arguments(step, given), out)

    def _block(self, step: str, **given: Any) -> None:
        self._run_block(step, self._arguments(step, given))

    def _arguments(self, step: str, given: dict[str, Any]) -> Words:
        """Pack a step's struct: arrays as addresses, or from an element on."""
        layout = self.layouts[step]
        packed = np.zeros((), dtype=layout)
        for name, value in given.items():
            if isinstance(value, Products):
                begin = self._address(value.tables)
                packed[name] = (begin, begin + (24 << value.log_low), value.log_low)
            elif isinstance(value, tuple) and len(value) == 2:
                packed[name] = self._address(value[0]) + 8 * value[1]
            elif value is None:
                packed[name] = 0
            elif isinstance(value, (int, tuple)) or layout[name].shape or layout[name].names:
                packed[name] = value
            else:
                packed[name] = self._address(value)
        return packed

    @abstractmethod
    def _run(self, step: str, items: int, arguments: Any) -> None: ...

    @abstractmethod
    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None: ...

    @abstractmethod
    def _run_round(self, step: str, items: int, arguments: Any) -> None:
        """Run a step with sums that ends its round itself."""

    @abstractmethod
    def _run_block(self, step: str, arguments: Any) -> None:
        """Run a step of one block."""

    @abstractmethod
    def _empty(self, shape: tuple[int, ...]) -> Array: ...

    @abstractmethod
    def _zeros(self, shape: tuple[int, ...]) -> Array: ...

    @abstractmethod
    def _address(self, array: Array) -> int: ...

    @abstractmethod
    def _upload(self, host: Words) -> Array: ...

    @abstractmethod
    def _download(self, array: Array) -> Words: ...

    @abstractmethod
    def _join(self, arrays: Sequence[Array], out: Array) -> None:
        """Write the arrays one after the other, then zeros."""
