"""Generates CUDA source from row programs: one thread per row, one line per instruction, using
`cuda/src/row_program.h`.

Values that do not depend on the row (constants, challenges and what is computed from these alone) cost the kernel no
arithmetic: constants are literals, the rest is evaluated on the host for each call and passed by value, in the
constant bank of the kernel's parameters.

A long program becomes several kernels, each with a run of the program's outputs and everything that these need; values
that two of them share are computed in both. A fold's kernels add to one another's result. Short kernels compile in
parallel, keep few values alive, and stay in the instruction cache: straight-line code that every warp runs once is
otherwise bound by instruction fetch.

Tables repeat themselves: the same rule for every bit, word or limb. So a kernel's text does not depend on its position
in the program. Values are numbered in order of appearance, and the offsets of the columns that it reads are passed by
value too. Runs of outputs that compute the same from other columns then have one text, compiled and loaded once.

Where many folded values have a common factor, as every constraint on transitions has its selector, the other factors
are summed and the sum is multiplied once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import Ext
from kernels.maths.goldilocks_extension import ext_add, ext_mul, ext_sub
from kernels.source import KernelSource

MAX_MATRICES, MAX_COSETS = 8, 32
"""Most matrices and cosets of a launch. Must equal MATRICES and COSETS in row_program.h."""
KERNEL = "row_program"
"""Name of the one kernel in every generated source."""
BLOCK = 256
"""Most threads of a block."""
MAX_UNIFORM_WORDS = 440
"""Most 8-byte words passed by value. With the shape and the addresses they fit the 4096 bytes that any driver takes."""
MIN_SHARED = 8
"""Fewest folded values of a kernel from which a common factor is taken out: a sum of its own costs some products."""

MAX_SUMS = 3
"""Most sums added up side by side. One of base values takes 27 registers; one of extension values, 45, counts twice."""

_LINEAR, _LOAD = 0.5, 0.5
_NAMES = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul"}


@dataclass(frozen=True)
class RowProfile:
    """Limits for cutting a row program into kernels."""

    max_work: float = 200.0
    """Most work of one kernel, in base field products, unless one output alone takes more. The default is some 5000
    instructions of 16 bytes; twice as many compile two and a half times as long and fill the instruction cache."""
    blocks_per_sm: int = 2
    """Blocks of 256 threads that a multiprocessor must hold: at most 128 registers a thread for two, 80 for three."""


@dataclass(frozen=True)
class RowKernel:
    """One kernel of a plan, and the words that it takes by value: weights, uniforms, column offsets."""

    source: KernelSource
    weights: tuple[int, ...]
    """Scalars that weigh the folded outputs, three words each."""
    uniforms: tuple[int, ...]
    """Values of the program that are the same on every row: one word for a base value, three for an extension value."""
    columns: tuple[tuple[int, int], ...]
    """Columns, as (matrix, column), whose offsets the kernel takes."""
    first_column: int
    """Output column at which the kernel's outputs begin."""


@dataclass(frozen=True)
class _Parts:
    """A recipe for the words of all kernels of a plan, made once: each call is a single gather for all kernels."""

    uniforms: tuple[int, ...]
    matrix: NDArray[np.int64]
    column: NDArray[np.uint64]
    """Every column whose offset a kernel takes; `matrix` has its matrix."""
    order: NDArray[np.int64]
    """Words of all kernels, as indices into the scalars, a zero, the uniform values and the column offsets."""
    ends: list[int]
    """Ends in `order` of the words of each kernel but the last."""


@dataclass(frozen=True)
class RowPlan:
    """The kernels that together run one program. Raises SizeError for more than MAX_MATRICES matrices."""

    program: RowProgram
    profile: RowProfile = field(default_factory=RowProfile)
    kernels: tuple[RowKernel, ...] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.program.widths) > MAX_MATRICES:
            raise SizeError(f"a row program over {len(self.program.widths)} matrices; at most {MAX_MATRICES}")
        analysis = _Analysis(self.program)
        kernels = tuple(_generate(analysis, g, self.profile) for g in _groups(analysis, self.profile.max_work))
        object.__setattr__(self, "kernels", kernels)

    def words(self, scalars: NDArray[np.uint64], strides: NDArray[np.uint64]) -> Sequence[NDArray[np.uint64]]:
        """Return the words that each kernel takes by value.

        `scalars`: (program.scalars, 3); `strides`: for each matrix, elements from one column to the next.
        """
        parts = self._parts
        values = self._uniform_values(scalars)
        uniforms = [0, *(word for v in parts.uniforms for word in values[v][: self._coordinates(v)])]
        begins = parts.column * strides[parts.matrix]
        every = np.concatenate((scalars.reshape(-1), np.array(uniforms, dtype=np.uint64), begins))
        return np.split(every[parts.order], parts.ends)

    @cached_property
    def _parts(self) -> _Parts:
        uniforms = list(dict.fromkeys(v for kernel in self.kernels for v in kernel.uniforms))
        zero = 3 * self.program.scalars
        places, at = {}, zero + 1
        for v in uniforms:
            places[v] = range(at, at + self._coordinates(v))
            at += self._coordinates(v)
        columns = {pair: at + i for i, pair in enumerate(dict.fromkeys(p for k in self.kernels for p in k.columns))}
        order: list[int] = []
        ends = []
        for kernel in self.kernels:
            words = [3 * w + i for w in kernel.weights for i in range(3)]
            words += [place for v in kernel.uniforms for place in places[v]]
            order += words or [zero]
            order += [columns[pair] for pair in kernel.columns] or [zero]
            ends.append(len(order))
        pairs = np.array(list(columns), dtype=np.int64).reshape(-1, 2)
        return _Parts(
            tuple(uniforms), pairs[:, 0], pairs[:, 1].astype(np.uint64), np.array(order, dtype=np.int64), ends[:-1]
        )

    def _uniform_values(self, scalars: NDArray[np.uint64]) -> dict[int, Ext]:
        values: dict[int, Ext] = {}
        for i, (op, a, b, _) in self._uniform_order.items():
            if op == Op.CONST:
                values[i] = (self.program.constants[a], 0, 0)
            elif op in (Op.SCALAR, Op.BASE_SCALAR):
                x, y, z = scalars[a].tolist()
                values[i] = (x, y, z) if op == Op.SCALAR else (x, 0, 0)
            else:
                arithmetic = {Op.ADD: ext_add, Op.SUB: ext_sub, Op.MUL: ext_mul}[Op(op)]
                values[i] = arithmetic(values[a], values[b])
        return values

    def _coordinates(self, v: int) -> int:
        """The words of value v, as `_Analysis.coordinates`."""
        return 3 if self.program.is_extension[v] else 1

    @cached_property
    def _uniform_order(self) -> dict[int, list[int]]:
        """Every value from which the kernels' uniforms are computed, operands first, with its instruction."""
        needed: dict[int, list[int]] = {}
        pending = [v for kernel in self.kernels for v in kernel.uniforms]
        while pending:
            v = pending.pop()
            if v not in needed:
                op, a, b, _ = needed[v] = self.program.code[v].tolist()
                pending += (a, b) if op >= Op.ADD else ()
        return dict(sorted(needed.items()))


class _Analysis:
    """Facts about each value of a program that the generator uses."""

    def __init__(self, program: RowProgram) -> None:
        self.program = program
        self.code: list[list[int]] = program.code.tolist()
        self.extension: list[bool] = program.is_extension.tolist()
        self.uniform: list[bool] = []
        self.work: list[float] = []
        """Cost of each value's own instruction, in base field products."""
        self.depth: list[int] = []
        for i, (op, a, b, _) in enumerate(self.code):
            arithmetic = op >= Op.ADD
            self.uniform.append(op != Op.LOAD and (not arithmetic or (self.uniform[a] and self.uniform[b])))
            self.depth.append(1 + max(self.depth[a], self.depth[b]) if arithmetic else 0)
            self.work.append(0.0 if self.uniform[i] else self._work(op, a, b))
        self._ordered: list[tuple[int, ...] | None] = [None] * len(self.code)

    def _work(self, op: int, a: int, b: int) -> float:
        if op == Op.LOAD:
            return _LOAD
        if op == Op.MUL:
            return float(self.coordinates(a) * self.coordinates(b))
        return _LINEAR * max(self.coordinates(a), self.coordinates(b))

    def coordinates(self, v: int) -> int:
        """Return the words of value v: three for an extension value, else one."""
        return 3 if self.extension[v] else 1

    def factors(self, v: int) -> tuple[int, ...]:
        """Return the operands of product v that are base values and differ from row to row; () if v is no product."""
        op, a, b, _ = self.code[v]
        if op != Op.MUL or a == b:
            return ()
        return tuple(x for x in (a, b) if not self.uniform[x] and not self.extension[x])

    def operands(self, v: int) -> tuple[int, ...]:
        """Return the operands of value v that differ from row to row."""
        op, a, b, _ = self.code[v]
        return tuple(x for x in dict.fromkeys((a, b)) if not self.uniform[x]) if op >= Op.ADD else ()

    def schedule(self, output: int, done: set[int]) -> list[int]:
        """Return the values still to be computed for value `output`, and add them to `done`. Operands come first, the
        deeper one before the other: the longer a value waits for its partner, the more values are alive."""
        order: list[int] = []
        pending = [(output, False)] if not self.uniform[output] else []
        while pending:
            v, ready = pending.pop()
            if ready:
                order.append(v)
            elif v not in done:
                done.add(v)
                pending.append((v, True))
                pending += [(x, False) for x in self._by_depth(v)]
        return order

    def _by_depth(self, v: int) -> tuple[int, ...]:
        """`operands` of value v, the deepest one last. Kept, since a value is scheduled several times."""
        ordered = self._ordered[v]
        if ordered is None:
            ordered = self._ordered[v] = tuple(sorted(self.operands(v), key=self.depth.__getitem__))
        return ordered

    def words(self, values: Iterable[int]) -> dict[int, int]:
        """Return the number of words of each one of `values` and their operands that is passed by value: the uniform
        ones except constants, which are literals."""
        used = {x for v in values for x in (v, *self.code[v][1 : 3 if self.code[v][0] >= Op.ADD else 1])}
        return {x: self.coordinates(x) for x in used if self.uniform[x] and self.code[x][0] != Op.CONST}

    def columns(self, values: Iterable[int]) -> set[tuple[int, int]]:
        """Return (matrix, column) of every load among `values`."""
        return {(self.code[v][1], self.code[v][2]) for v in values if self.code[v][0] == Op.LOAD}


@dataclass(frozen=True)
class _Term:
    """One folded output: `factor` times `value`, or `value` alone if no factor is taken out."""

    position: int
    """Index among the program's outputs."""
    value: int
    factor: int | None


def _groups(analysis: _Analysis, max_work: float) -> list[range]:
    """Cut the outputs into runs, as long as `max_work` and the room for parameters allow. Raises SizeError."""
    program = analysis.program
    groups: list[range] = []
    begin, work, done = 0, 0.0, set[int]()
    words, columns = dict[int, int](), set[tuple[int, int]]()
    for position, output in enumerate(program.outputs):
        order = analysis.schedule(output, done)
        work += sum(analysis.work[v] for v in order) + analysis.coordinates(output) ** 2
        words.update(analysis.words((output, *order)))
        columns |= analysis.columns(order)
        room = sum(words.values()) + len(columns) + (3 * (position + 1 - begin) if program.fold is not None else 0)
        if position > begin and (work > max_work or room > MAX_UNIFORM_WORDS):
            groups.append(range(begin, position))
            begin, done = position, set()
            order = analysis.schedule(output, done)
            work = sum(analysis.work[v] for v in order) + analysis.coordinates(output) ** 2
            words, columns = analysis.words((output, *order)), analysis.columns(order)
        if sum(words.values()) + 3 > MAX_UNIFORM_WORDS:
            raise SizeError(f"one output of a row program takes {len(words)} challenges and values computed from these")
    groups.append(range(begin, len(program.outputs)))
    return groups


def _terms(analysis: _Analysis, group: range) -> list[_Term]:
    """Return the folded outputs of a group; factors that at least MIN_SHARED of them share are taken out."""
    outputs = analysis.program.outputs
    uses = Counter(v for i in group for v in analysis.factors(outputs[i]))
    terms = []
    for i in group:
        shared = [v for v in analysis.factors(outputs[i]) if uses[v] >= MIN_SHARED]
        factor = max(shared, key=lambda v: uses[v], default=None)
        value = outputs[i]
        if factor is not None:
            _, a, b, _ = analysis.code[value]
            value = b if factor == a else a
        terms.append(_Term(i, value, factor))
    return terms


def _generate(analysis: _Analysis, group: range, profile: RowProfile) -> RowKernel:
    """Generate the kernel of a run of outputs."""
    program = analysis.program
    weights = () if program.fold is None else tuple(program.fold + i for i in group)
    done = set[int]()
    values = [v for i in group for v in (program.outputs[i], *analysis.schedule(program.outputs[i], done))]
    uniform_words = 3 * len(weights) + sum(analysis.words(values).values())
    writer = _Writer(analysis, 3 * len(weights), MAX_UNIFORM_WORDS - max(1, uniform_words))
    first_column = 0
    if program.fold is None:
        first_column = sum(analysis.coordinates(v) for v in program.outputs[: group.start])
        writer.outputs(group)
    else:
        writer.fold(_terms(analysis, group))
    text = _text(len(program.widths), writer, profile.blocks_per_sm)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    source = KernelSource(f"{KERNEL}_{digest}", text=text)
    return RowKernel(source, weights, tuple(writer.places), tuple(writer.columns), first_column)


class _Writer:
    """Writes the lines of one kernel, and records what they take from the parameters and where."""

    def __init__(self, analysis: _Analysis, room: int, most_columns: int) -> None:
        self.room = room
        """Number of words of the weights, which come first, and of the uniform values."""
        self.places: dict[int, int] = {}
        """First word of each uniform value."""
        self.columns: dict[tuple[int, int], int] = {}
        """Index of each column (matrix, column) among the column offsets, which come last."""
        self.lines: list[str] = []
        self._analysis = analysis
        self._most_columns = most_columns
        self._done: set[int] = set()
        self._numbers: dict[int, int] = {}

    def outputs(self, group: range) -> None:
        """Write outputs as columns, the first of them as column 0."""
        column = 0
        for v in (self._analysis.program.outputs[i] for i in group):
            self._compute(v)
            self.lines.append(f"write_row(out, shape, row, {column}, {self._name(v)});")
            column += self._analysis.coordinates(v)

    def fold(self, terms: Sequence[_Term]) -> None:
        """Fold outputs, the first term with the first weight, by one sum for each factor and kind of value.

        Terms are written in the outputs' order if all sums fit the registers, so that neighbours share what they load,
        otherwise sum after sum.
        """
        sums: dict[tuple[int | None, bool], list[_Term]] = {}
        for term in terms:
            sums.setdefault((term.factor, self._analysis.extension[term.value]), []).append(term)
        names = {key: f"sum{i}" for i, key in enumerate(sums)}
        self.lines.append("Ext total = embed(0);")
        self.lines += [f"{'ExtProductSum' if ext else 'ExtSum'} {name};" for (_, ext), name in names.items()]
        together = sum(2 if ext else 1 for _, ext in sums) <= MAX_SUMS
        for term in terms if together else [t for parts in sums.values() for t in parts]:
            key = term.factor, self._analysis.extension[term.value]
            self._compute(term.value)
            weight = f"uniform.ext({3 * (term.position - terms[0].position)})"
            self.lines.append(f"{names[key]}.add({weight}, {self._name(term.value)});")
            if term is sums[key][-1]:
                self._add_sum(names[key], term.factor)
        self.lines.append("write_row(out, shape, row, 0, total);")

    def _add_sum(self, name: str, factor: int | None) -> None:
        value = f"{name}.value()"
        if factor is not None:
            self._compute(factor)
            value = f"mul({value}, {self._name(factor)})"
        self.lines.append(f"total = add(total, {value});")

    def _compute(self, v: int) -> None:
        self.lines += [self._statement(x) for x in self._analysis.schedule(v, self._done)]

    def _name(self, v: int) -> str:
        """Return how the text writes value v: as a variable, a literal, or words of the parameters."""
        op, a, _, _ = self._analysis.code[v]
        if op == Op.CONST:
            return f"{self._analysis.program.constants[a]:#x}ull"
        if not self._analysis.uniform[v]:
            return f"v{self._numbers.setdefault(v, len(self._numbers))}"
        if v not in self.places:
            self.places[v] = self.room
            self.room += self._analysis.coordinates(v)
        place = self.places[v]
        return f"uniform.ext({place})" if self._analysis.extension[v] else f"uniform.word[{place}]"

    def _statement(self, v: int) -> str:
        """Return the line that computes value v."""
        op, a, b, c = self._analysis.code[v]
        name = self._name(v)
        if op == Op.LOAD:
            return f"const u64 {name} = {'next' if c else 'here'}{a}[{self._column(a, b)}];"
        extension = self._analysis.extension
        if op == Op.MUL and a == b and not extension[v]:
            return f"const u64 {name} = sqr({self._name(a)});"
        if op != Op.SUB and extension[b] and not extension[a]:  # only (extension, base) is defined
            a, b = b, a
        kind = "Ext" if extension[v] else "u64"
        return f"const {kind} {name} = {_NAMES[Op(op)]}({self._name(a)}, {self._name(b)});"

    def _column(self, matrix: int, column: int) -> str:
        """Return the text of a column's offset in elements: a parameter, or a literal once the parameters are full."""
        key = matrix, column
        if key not in self.columns and len(self.columns) == self._most_columns:
            return f"{column}ull * shape.columns[{matrix}]"
        return f"uniform.column[{self.columns.setdefault(key, len(self.columns))}]"


def _text(matrices: int, written: _Writer, blocks_per_sm: int) -> str:
    """Return the whole source, with the written lines between the row's addresses and the end of the kernel."""
    parameters = "".join(f"const u64* __restrict__ m{i}, " for i in range(matrices))
    addresses = [
        f"const u64* {name}{i} = m{i} + row.coset * shape.cosets[{i}] + row.{name};"
        for i in range(matrices)
        for name in ("here", "next")
    ]
    body = "\n".join(f"  {line}" for line in (*addresses, *written.lines))
    return f"""// Generated: a row program's outputs, one thread a row.
#include "row_program.h"

using namespace dp;
using namespace dp::gl;

struct Uniform {{
  u64 word[{max(1, written.room)}], column[{max(1, len(written.columns))}];
  __device__ __forceinline__ Ext ext(int i) const {{ return {{{{word[i], word[i + 1], word[i + 2]}}}}; }}
}};

extern "C" __global__ void __launch_bounds__({BLOCK}, {blocks_per_sm})
    {KERNEL}({parameters}u64* out, const __grid_constant__ RowShape shape, const __grid_constant__ Uniform uniform) {{
  const Row row(shape);
  if (row.index >= shape.rows) return;
{body}
}}
"""
