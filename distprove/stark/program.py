"""What is proven: a program of several tables that meet on buses, and how its traces are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.air import Air, Bus, CompiledAir, CppRows, compile_air
from distprove.stark.statement import Statement
from kernels.backend import Array, Backend


@dataclass(frozen=True)
class Slice:
    """One partition of a job, from the prover's side."""

    name: str
    source: dict[str, Any] = field(repr=False)
    """Plain data from which `Program.inputs` makes the partition's inputs: numbers, paths, offsets. May be secret."""


@dataclass
class Trace:
    """A partition's trace: per table of the program its main columns, and the public values."""

    main: list[Array] = field(repr=False)
    """(width, rows) per table, canonical uint64 in the backend's memory; rows a power of two."""
    public: tuple[int, ...]


class Program(ABC):
    """A program with its arguments. Subclasses are what `distprove prove stark NAME` proves."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def arguments(self) -> dict[str, int | str]:
        """What the program was made with that its key binds: the verifier is told of these and makes the key from them.

        Each must change the tables, their fixed heights, the preprocessed columns or the statement, or the program is
        refused (`check_arguments`). What only the prover needs, such as a file or where to start, is none of them: it
        is in the slices, and what it leads to is in the public values. Nothing secret.
        """

    @property
    @abstractmethod
    def tables(self) -> Sequence[Air]: ...

    @property
    def buses(self) -> Sequence[Bus]:
        return ()

    @cached_property
    def compiled_tables(self) -> tuple[CompiledAir, ...]:
        """`tables`, compiled: once per program, since a table of thousands of columns takes half a second.

        Raises AirError.
        """
        numbers = {bus.name: number for number, bus in enumerate(self.buses, start=1)}
        layout = self.statement.layout()
        return tuple(compile_air(air, layout, numbers) for air in self.tables)

    @property
    @abstractmethod
    def statement(self) -> Statement: ...

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        """Fixed columns by table name, (width, rows): such a table always has this many rows."""
        return {}

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        """log2 of the rows of tables, by name, that have as many in every proof. Part of the key.

        All other tables without preprocessed columns have as many rows as a prover likes: what a program states must
        not rest on these, unless its constraints count them.
        """
        return {}

    @property
    def row_functions(self) -> Sequence[CppRows]:
        """The row functions in C++ that `trace` uses: a GPU's prover compiles them when it starts."""
        return ()

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        """Per partition log2 of each table's rows, known before a trace is made: the number of queries follows from it.

        Raises UsageError for a program that does not say, whose jobs must name their queries. One whose tables all have
        fixed heights says so with these.
        """
        fixed = [self.fixed_heights.get(air.name) for air in self.tables]
        known = tuple(height for height in fixed if height is not None)
        if len(known) == len(fixed):
            return [known] * partitions
        raise UsageError(
            f"program {self.name} does not say how tall its tables are (Program.log_heights), so the number of queries "
            "must be given"
        )

    @abstractmethod
    def slices(self, partitions: int) -> list[Slice]:
        """The job cut into partitions. Deterministic. Raises UsageError for a number that does not fit."""

    @abstractmethod
    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """What the trace of a slice is generated from, as host arrays. Raises InputError for files that do not hold."""

    @abstractmethod
    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        """The trace of one partition. `inputs` are in the backend's memory, where the trace is made.

        Its arrays may be among the inputs; otherwise they are made anew each time, since the prover writes over them.
        """

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        """What a verified job says, for people: for example the root in hexadecimal. Per partition in order, the public
        values and log2 of the rows of each table.

        It is said as proven, so it is made of these and of what the key fixes (`arguments`), and of nothing else: a
        verifier's program was made without the prover's own arguments.
        """
        return {}
