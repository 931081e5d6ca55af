"""The interface of a STARK program: several tables that share buses, and the generation of their traces."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distprove.errors import AirError, UsageError
from distprove.stark.air import Air, Bus, CompiledAir, CppRows, trace_air
from distprove.stark.air.compiler import compile_definition
from distprove.stark.air.definition import Definition
from distprove.stark.counting import Counting, compile_counting
from distprove.stark.given import check_columns, check_public, checked_preprocessed
from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.air import Rules, compile_rules
from distprove.stark.statement import Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class Slice:
    """One partition of a job as the program cuts it, for the prover."""

    name: str
    source: dict[str, Any] = field(repr=False)
    """Plain data (numbers, paths, offsets) from which `Program.inputs` makes the partition's inputs. May be secret."""


@dataclass(frozen=True)
class Cut:
    """A job that its program has cut into partitions."""

    slices: Sequence[Slice]
    log_heights: Sequence[Sequence[int | None]] | None = None
    """log2 of each table's rows in each partition, None for an absent table, where cutting the job has told them."""
    output: bytes | None = None
    """The job's output of variable length, if the program's statement has one (`Statement.output`). It is public."""
    exit_code: int | None = None
    """The exit code that the job will state, of a program that states one and has run to be cut."""


Fits = Callable[[Sequence[Sequence[int | None]]], bool]
"""Takes log2 of each table's rows in each partition, and tells whether no partition takes too much memory."""


@dataclass
class Trace:
    """A partition's trace: the main columns of each table of the program, and the public values."""

    main: list[Array | None] = field(repr=False)
    """Main columns of each table, (width, rows) canonical uint64 in the backend's memory; rows is a power of two. None
    for an absent table (`Program.optional`), or for one of counts alone, which the prover makes (`Table.receive`)."""
    public: tuple[int, ...]


SHOWN_BY = "`distprove air check`"
"""The command that shows the messages of errors in a user's program, which may quote its inputs."""

KEPT_CLASSES = 8
"""Maximum number of classes of programs whose traced tables a process keeps."""

_COMPILED = ("definitions", "_counting", "_compiled", "_rules")
"""What a program caches of its compiled tables."""


class Program(ABC):
    """A program with its arguments. `distprove prove stark NAME` proves one of its subclasses."""

    name: ClassVar[str]
    compared: ClassVar[Sequence[str]] = ()
    """Names of arguments on which the key does not depend, and the public values do: `verify` compares them."""
    of_key: ClassVar[Sequence[str]] = _COMPILED
    """Cached attributes that the key's provers have and no partition carries (`JobProgram`)."""

    @property
    def arguments(self) -> dict[str, int | str]:
        """The public arguments of the program that its key binds. The verifier reads them and makes the key from them.
        By default none.

        Each must change the tables, their fixed heights, the preprocessed columns or the statement, or the program is
        refused (`check_arguments`). An argument that only the prover needs, such as a file or a starting value, does
        not belong here but in the slices, and its effect in the public values. Secrets do not belong here either.
        """
        return {}

    def key_arguments(self, root: bytes, heights: Mapping[str, int]) -> dict[str, int | str]:
        """The `arguments` of the finished key, which may name the root of the preprocessed columns and the heights of
        their tables: a verifier's program can then do without the columns (`preprocessed_root`)."""
        return self.arguments

    @property
    def preprocessed_root(self) -> bytes | None:
        """The root of the preprocessed columns, if the arguments tell it; the columns are not asked for then, and
        `fixed_heights` must have their tables' heights. None if it is to be computed."""
        return None

    @property
    @abstractmethod
    def tables(self) -> Sequence[Air]: ...

    @property
    def buses(self) -> Sequence[Bus]:
        return ()

    @property
    def compiled_tables(self) -> tuple[CompiledAir, ...]:
        """The compiled `tables`. Cached, since compiling a table of thousands of columns takes half a second.

        Raises AirError.
        """
        return self._compiled

    @property
    def rules(self) -> tuple[Rules, ...]:
        """The `tables` compiled for the multilinear engine. Cached like `compiled_tables`. Raises AirError."""
        return self._rules

    @property
    def counting(self) -> Counting:
        """The columns of `tables` that a prover counts. Raises AirError."""
        return self._counting

    def __getstate__(self) -> dict[str, Any]:
        """Leave the traced tables behind, which hold functions of their authors. What was compiled of them travels."""
        state = dict(vars(self))
        if state.pop("definitions", None) is not None:
            state["_counting"] = self._counting
        return state

    @cached_property
    def definitions(self) -> list[Definition]:
        """The traced `tables`. Raises AirError."""
        layout = self.statement.layout()
        if self._of_class:
            return list(_tables_traced(type(self), tuple(layout.items())))
        return [trace_air(air, layout) for air in self.tables]

    @cached_property
    def _counting(self) -> Counting:
        return compile_counting(self.definitions)

    @cached_property
    def _compiled(self) -> tuple[CompiledAir, ...]:
        if self._of_class:
            return _tables_compiled(type(self), tuple(self.statement.layout().items()), tuple(self._numbers.items()))
        return tuple(compile_definition(definition, self._numbers) for definition in self.definitions)

    @cached_property
    def _rules(self) -> tuple[Rules, ...]:
        return tuple(compile_rules(definition, self._numbers) for definition in self.definitions)

    @property
    def _of_class(self) -> bool:
        """Whether all programs of the class have the same tables, which are traced and compiled once then."""
        return getattr(type(self), "tables", None) is self.tables

    @property
    def _numbers(self) -> dict[str, int]:
        return {bus.name: number for number, bus in enumerate(self.buses, start=1)}

    def compiled_as(self, other: Program) -> None:
        """Use the compiled tables of `other`, a program with the same key, unless this one's are compiled."""
        for name in _COMPILED:
            if name in vars(other):
                vars(self).setdefault(name, vars(other)[name])

    @property
    @abstractmethod
    def statement(self) -> Statement: ...

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        """Preprocessed columns by table name, (width, rows). Such a table always has this many rows."""
        return {}

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        """log2 of the rows of the tables, by name, that have the same height in every proof. Part of the key.

        A prover chooses the heights of all other tables without preprocessed columns: the statement of a program must
        not depend on these, unless its constraints count the rows.
        """
        return {}

    @property
    def optional(self) -> Sequence[str]:
        """Names of the tables that a partition may lack. Part of the key.

        An absent table costs a proof nothing; it sends and receives nothing, and none of its constraints holds of
        anything. So no table that reads public values can be one. The statement of a program must hold whichever of
        these tables a prover leaves out.
        """
        return ()

    @property
    def row_functions(self) -> Sequence[CppRows]:
        """The row functions in C++ that `trace` uses. A prover on a GPU compiles them when it starts."""
        return ()

    def log_heights(self, partitions: int) -> Sequence[Sequence[int | None]]:
        """log2 of each table's rows in each partition, None for an absent table, known before a trace is made; it
        decides the number of queries.

        By default they are the fixed heights and those of preprocessed columns, if all tables have one. Otherwise
        raises UsageError, which names the other tables, and a job of the program must give its number of queries.
        """
        heights = dict(self.fixed_heights)
        if any(air.name not in heights for air in self.tables):  # else columns may be slow to make, or not known yet
            for name, columns in self.preprocessed().items():
                if name not in self.optional and np.ndim(columns) == 2:
                    heights.setdefault(name, np.shape(columns)[1].bit_length() - 1)
        unknown = [air.name for air in self.tables if air.name not in heights]
        if not unknown:
            return [tuple(heights[air.name] for air in self.tables)] * partitions
        raise UsageError(
            f"program {self.name} does not say how tall {_listed(unknown)} will be (Program.log_heights, or "
            "Program.fixed_heights), so the number of queries must be given (--queries, queries)"
        )

    @property
    def counts(self) -> Sequence[int]:
        """The numbers of partitions, ascending, among which `cut` chooses. All must cut one and the same job, and if
        one of them fits, so should the greater ones. By default there is 1 alone, since more partitions of most
        programs prove something else."""
        return (1,)

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        """Cut the job into so many partitions; None leaves their number to the program: by default the least of
        `counts` that `fits`, or the greatest if none does.

        The driver calls it once, before anything else, and again when a run is resumed, maybe on another machine, where
        it must give the same. A program that has to run to know its partitions overrides it. It runs here, once, and
        puts into each slice what that partition needs: a snapshot and inputs, not a trace. Slices travel as messages to
        where they are proven, and are written nowhere. Raises UsageError for a number that does not fit.
        """
        if partitions is None:
            counts = self.counts
            partitions = counts[0] if len(counts) == 1 else _least(counts, lambda n: fits(self.log_heights(n)))
        return Cut(self.slices(partitions))

    def levelled(self, cut: Cut, kinds: int = 1) -> Cut:
        """The same job with its partitions at no more than so many different heights, for a job that ends in one proof:
        the tree over them has a key for each.

        By default the cut as it is. A program whose partitions differ raises tables, with rows of its own that fill
        them up; for one kind each to the greatest height that it has in the job. A table that no partition has stays
        absent.
        """
        return cut

    @property
    def declared_heights(self) -> LogHeights | None:
        """log2 of the rows of each table, None for an absent one, of every partition of a job that ends in one proof,
        where the arguments say so: whatever the run, which must fit. None otherwise. Raises UsageError."""
        return None

    name_bytes: int | None = None
    """Bytes of the name of every partition, for a program with declared heights."""

    def declares(self, log_heights: Sequence[int | None]) -> str:
        """The argument by which a job has these heights (`declared_heights`); "" where there is none."""
        return ""

    def check_job(self, partitions: int | None) -> None:  # noqa: B027
        """Raise UsageError or InputError for a job of so many partitions that the arguments, the lengths of files and
        what is quickly read of them rule out. It is called when a job is submitted, and before it is cut."""

    @property
    def cuts_itself(self) -> bool:
        """Whether the program knows its partitions only when `cut` was called."""
        return type(self).cut is not Program.cut

    def slices(self, partitions: int) -> list[Slice]:
        """Cut the job into partitions, deterministically. Raises UsageError for a number that does not fit. A program
        whose `cut` does so needs none."""
        raise NotImplementedError(f"{type(self).__name__} has neither `slices` nor a `cut` of its own")

    @abstractmethod
    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Read the inputs of a slice, from which its trace is generated, as host arrays. Raises InputError."""

    @abstractmethod
    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        """Generate the trace of one partition. `inputs` are in the backend's memory, where the trace is made.

        Its arrays may be among the inputs; otherwise they must be new each time, since the prover overwrites them.
        """

    def trace_beside(
        self, inputs: Mapping[str, Array], fixed: Callable[[int], Array | None], backend: Backend
    ) -> Trace:
        """`trace`, for programs that read preprocessed columns there: `fixed` gives those of a table, by its number, in
        the backend's memory."""
        return self.trace(inputs, backend)

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        """What the public values of a verified job state for an argument in `compared`, and what they would state for
        `value`, as `verify` was given it. Raises InputError, UsageError."""
        raise NotImplementedError(f"{type(self).__name__} has no `compare` for {argument}")

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[Any]]) -> dict[str, str]:
        """What a verified job states, for people, for example the root in hexadecimal. The arguments are the public
        values and log2 of the rows of each table (an int, or None for an absent one), for each partition in order.

        The text counts as proven, so it must follow from these and from what the key fixes (`arguments`), and from
        nothing else: a verifier's program is made without the prover's own arguments.
        """
        return {}


class JobProgram:
    """The program of a job with the job's own arguments, for provers that were loaded for another job of the key.

    In another process its copies are one object, so that the program keeps what it caches. What the key has stays
    behind.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        bare = copy.copy(self.program)
        for name in bare.of_key:
            vars(bare).pop(name, None)
        return pickle.dumps(bare)


@lru_cache(maxsize=8)
def _received(pickled: bytes) -> JobProgram:
    return JobProgram(pickle.loads(pickled))


def _listed(tables: Sequence[str]) -> str:
    """The tables' names in words, not empty."""
    *some, last = tables
    return f"tables {', '.join(some)} and {last}" if some else f"table {last}"


def _least(counts: Sequence[int], fits: Callable[[int], bool]) -> int:
    """The least of `counts`, ascending, that fits, or the greatest if none does. Doubles the place until one fits, and
    bisects from there: far fewer partitions are counted than there may be."""
    place = 1
    while place < len(counts) and not fits(counts[place - 1]):
        place *= 2
    tried = counts[place // 2 : min(place, len(counts)) - 1]  # a greater one fits, or is the greatest
    return counts[place // 2 + bisect_left(tried, True, key=fits)]


def preprocessed_columns(program: Program) -> list[NDArray[Any] | None]:
    """The preprocessed columns of each table, (width, rows); None for a table without. Raises AirError."""
    return checked_preprocessed(program.tables, program.preprocessed(), program.fixed_heights)


def whole_trace(
    program: Program, inputs: Mapping[str, Array], fixed: Callable[[int], Array | None], backend: Backend
) -> Trace:
    """The trace of one partition, with the columns that are counted for the program. `fixed` gives the preprocessed
    columns of a table, by its number, in the backend's memory. Raises AirError for columns of a wrong shape."""
    trace: Any = program.trace_beside(inputs, fixed, backend)
    if not isinstance(trace, Trace):
        raise AirError(f"program {program.name}: trace gave a {type(trace).__name__}, expected a Trace")
    tables = program.tables
    check_columns(tables, trace.main)
    check_public(trace.public)
    optional = [air.name in program.optional for air in tables]
    if program.counting.counts:
        program.counting.fill(trace.main, fixed, trace.public, optional, backend)
    for air, columns, may_lack in zip(tables, trace.main, optional, strict=True):
        if columns is None and not may_lack:
            raise AirError(f"table {air.name} is absent, and the program does not say that it is optional")
    made: Trace = trace
    return made


@lru_cache(maxsize=KEPT_CLASSES)
def _tables_traced(kind: type[Program], layout: tuple[tuple[str, tuple[int, int]], ...]) -> tuple[Definition, ...]:
    """The traced tables of a class of programs, for public values of this layout."""
    tables: Any = kind.tables
    return tuple(trace_air(air, dict(layout)) for air in tables)


@lru_cache(maxsize=KEPT_CLASSES)
def _tables_compiled(
    kind: type[Program], layout: tuple[tuple[str, tuple[int, int]], ...], numbers: tuple[tuple[str, int], ...]
) -> tuple[CompiledAir, ...]:
    """The compiled tables of a class of programs; `numbers` are those of its buses."""
    return tuple(compile_definition(definition, dict(numbers)) for definition in _tables_traced(kind, layout))
