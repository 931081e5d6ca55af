"""Row programs as CUDA source text: one thread a row, every instruction a line, in `cuda/row_program.h`'s words.

What does not depend on the row (constants, challenges and what is computed from these alone) never reaches the kernel
as arithmetic: constants are literals, the rest is evaluated on the host for each call and passed by value, in the
constant bank of the kernel's parameters.

A long program becomes several kernels, each with a run of the program's outputs and everything that these need; what
two of them share is computed in both. A fold's kernels add to one another's result. Short kernels compile in parallel,
keep few values alive, and stay in the instruction cache: straight-line code that every warp walks through once is
otherwise bound by fetching it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.backend import SizeError
from kernels.compiler import KernelSource
from kernels.goldilocks_field import Ext
from kernels.goldilocks_scalar import ext_add, ext_mul, ext_sub
from kernels.row_program import Op, RowProgram

MAX_MATRICES, MAX_COSETS = 8, 32
"""As MATRICES and COSETS in row_program.h."""
KERNEL = "row_program"
"""Name of the one kernel of every generated source."""
MAX_UNIFORM_WORDS = 440
"""Of 8 bytes: with the shape and the addresses they stay within 4096 bytes, what every driver takes."""
MAX_WORK = 400.0
"""What one kernel computes, in base field products, unless one output alone is more."""

_LINEAR, _LOAD = 0.5, 0.5
_NAMES = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul"}


@dataclass(frozen=True)
class RowKernel:
    """One kernel of a plan and what it takes by value."""

    source: KernelSource
    uniforms: tuple[int, ...]
    """Values of the program that are the same on every row; a base value is one word, an extension value three."""
    weights: tuple[int, ...]
    """Scalars that weigh the folded outputs, three words each, after the uniforms."""


@dataclass(frozen=True)
class RowPlan:
    """The kernels that together run one program. Raises SizeError for a program with more matrices than they take."""

    program: RowProgram
    max_work: float = MAX_WORK
    kernels: tuple[RowKernel, ...] = field(init=False)

    def __post_init__(self) -> None:
        if len(self.program.widths) > MAX_MATRICES:
            raise SizeError(f"a row program over {len(self.program.widths)} matrices; at most {MAX_MATRICES}")
        analysis = _Analysis(self.program)
        object.__setattr__(self, "kernels", tuple(_generate(analysis, g) for g in _groups(analysis, self.max_work)))

    def words(self, scalars: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
        """For each kernel, the words that it takes by value, given (program.scalars, 3) scalars."""
        rows: list[Ext] = [(int(a), int(b), int(c)) for a, b, c in scalars.tolist()]
        values = self._uniform_values(rows)
        for kernel in self.kernels:
            words: list[int] = []
            for v in kernel.uniforms:
                value = values[v]
                words += value if self.program.is_extension[v] else value[:1]
            for w in kernel.weights:
                words += rows[w]
            yield np.array(words or [0], dtype=np.uint64)

    def _uniform_values(self, scalars: Sequence[Ext]) -> dict[int, Ext]:
        values: dict[int, Ext] = {}
        for i in self._uniform_order:
            op, a, b, _ = self._code[i]
            if op == Op.CONST:
                values[i] = (self.program.constants[a], 0, 0)
            elif op in (Op.SCALAR, Op.BASE_SCALAR):
                values[i] = scalars[a] if op == Op.SCALAR else (scalars[a][0], 0, 0)
            else:
                arithmetic = {Op.ADD: ext_add, Op.SUB: ext_sub, Op.MUL: ext_mul}[Op(op)]
                values[i] = arithmetic(values[a], values[b])
        return values

    @cached_property
    def _code(self) -> list[list[int]]:
        code: list[list[int]] = self.program.code.tolist()
        return code

    @cached_property
    def _uniform_order(self) -> list[int]:
        """Every value that the kernels' uniforms are computed from, operands first."""
        needed: set[int] = set()
        pending = [v for kernel in self.kernels for v in kernel.uniforms]
        while pending:
            v = pending.pop()
            if v not in needed:
                needed.add(v)
                op, a, b, _ = self._code[v]
                pending += (a, b) if op >= Op.ADD else ()
        return sorted(needed)


class _Analysis:
    """What the generator asks of a program, per value."""

    def __init__(self, program: RowProgram) -> None:
        self.program = program
        self.code: list[list[int]] = program.code.tolist()
        self.extension: list[bool] = program.is_extension.tolist()
        self.uniform: list[bool] = []
        self.work: list[float] = []
        """Base field products, or as much, of the instruction alone."""
        self.depth: list[int] = []
        for i, (op, a, b, _) in enumerate(self.code):
            arithmetic = op >= Op.ADD
            self.uniform.append(op != Op.LOAD and (not arithmetic or (self.uniform[a] and self.uniform[b])))
            self.depth.append(1 + max(self.depth[a], self.depth[b]) if arithmetic else 0)
            self.work.append(0.0 if self.uniform[i] else self._work(op, a, b))

    def _work(self, op: int, a: int, b: int) -> float:
        if op == Op.LOAD:
            return _LOAD
        if op == Op.MUL:
            return self.product(a) * self.product(b)
        return _LINEAR * max(self.product(a), self.product(b))

    def product(self, v: int) -> float:
        """Coordinates of value v."""
        return 3.0 if self.extension[v] else 1.0

    def operands(self, v: int) -> tuple[int, ...]:
        """The values that value v is computed from, of those that differ from row to row."""
        op, a, b, _ = self.code[v]
        return tuple(x for x in dict.fromkeys((a, b)) if not self.uniform[x]) if op >= Op.ADD else ()

    def schedule(self, output: int, done: set[int]) -> list[int]:
        """What must still be computed for value `output`, operands first, the deeper operand before the other: the
        longer a value waits for its partner, the more of them are alive. Adds them to `done`."""
        order: list[int] = []
        pending = [(output, False)] if not self.uniform[output] else []
        while pending:
            v, ready = pending.pop()
            if ready:
                order.append(v)
            elif v not in done:
                done.add(v)
                pending.append((v, True))
                pending += [(x, False) for x in sorted(self.operands(v), key=lambda x: self.depth[x])]
        return order

    def uniform_words(self, values: Sequence[int]) -> dict[int, int]:
        """The uniform operands of `values` that are passed by value, with the words that each takes."""
        words: dict[int, int] = {}
        for v in values:
            op, a, b, _ = self.code[v]
            for x in (a, b) if op >= Op.ADD else ():
                if self.passed(x):
                    words[x] = 3 if self.extension[x] else 1
        return words

    def passed(self, v: int) -> bool:
        """Whether value v is passed by value: uniform, and not a constant, which is a literal."""
        return self.uniform[v] and self.code[v][0] != Op.CONST


def _groups(analysis: _Analysis, max_work: float) -> list[range]:
    """Runs of outputs, as many in each as `max_work` and the parameters' room allow."""
    program = analysis.program
    groups: list[range] = []
    begin, work, done, words = 0, 0.0, set[int](), dict[int, int]()
    for position, output in enumerate(program.outputs):
        fresh = set(done)
        order = analysis.schedule(output, fresh)
        more = sum(analysis.work[v] for v in order) + analysis.product(output) ** 2
        grown = words | _words_of(analysis, output, order)
        room = sum(grown.values()) + (3 * (position + 1 - begin) if program.fold is not None else 0)
        if position > begin and (work + more > max_work or room > MAX_UNIFORM_WORDS):
            groups.append(range(begin, position))
            begin, work, fresh = position, 0.0, set[int]()
            order = analysis.schedule(output, fresh)
            more = sum(analysis.work[v] for v in order) + analysis.product(output) ** 2
            grown = _words_of(analysis, output, order)
        if sum(grown.values()) + 3 > MAX_UNIFORM_WORDS:
            raise SizeError(f"one output of a row program takes {len(grown)} challenges and values computed from these")
        work, done, words = work + more, fresh, grown
    groups.append(range(begin, len(program.outputs)))
    return groups


def _words_of(analysis: _Analysis, output: int, order: Sequence[int]) -> dict[int, int]:
    words = analysis.uniform_words(order)
    if analysis.passed(output):
        words[output] = 3 if analysis.extension[output] else 1
    return words


def _generate(analysis: _Analysis, group: range) -> RowKernel:
    """The kernel of a run of outputs."""
    program, fold = analysis.program, analysis.program.fold
    done: set[int] = set()
    orders = [analysis.schedule(program.outputs[i], done) for i in group]
    words: dict[int, int] = {}
    for i, order in zip(group, orders, strict=True):
        words.update(_words_of(analysis, program.outputs[i], order))
    places: dict[int, int] = {}
    room = 0
    for v, count in words.items():
        places[v] = room
        room += count
    names = _Names(analysis, places)
    column = sum(3 if analysis.extension[v] else 1 for v in program.outputs[: group.start])
    lines: list[str] = []
    kinds = set()
    for i, order in zip(group, orders, strict=True):
        lines += [names.statement(v) for v in order]
        output = program.outputs[i]
        if fold is None:
            lines.append(f"write_row(out, shape, row, {column}, {names[output]});")
            column += 3 if analysis.extension[output] else 1
            continue
        weight = f"uniform.ext({room + 3 * (i - group.start)})"
        kinds.add(analysis.extension[output])
        if analysis.extension[output]:
            lines.append(f"ext_terms = add(ext_terms, mul({weight}, {names[output]}));")
        else:
            lines.append(f"base_terms.add({weight}, {names[output]});")
    if fold is not None:
        total = {frozenset((False,)): "base_terms.value()", frozenset((True,)): "ext_terms"}
        value = total.get(frozenset(kinds), "add(base_terms.value(), ext_terms)")
        if not kinds:
            value = "embed(0)"
        lines = [*_ACCUMULATORS, *lines, f"write_row(out, shape, row, 0, {value});"]
    room += 3 * len(group) if fold is not None else 0
    weights = tuple(fold + i for i in group) if fold is not None else ()
    text = _text(len(program.widths), max(1, room), lines)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return RowKernel(KernelSource(f"{KERNEL}_{digest}", text=text), tuple(words), weights)


_ACCUMULATORS = ("ExtSum base_terms;", "Ext ext_terms = embed(0);")


class _Names(dict[int, str]):
    """How the text writes each value: a variable, a literal, or a word of the parameters."""

    def __init__(self, analysis: _Analysis, places: dict[int, int]) -> None:
        super().__init__()
        self._analysis = analysis
        self._places = places

    def __missing__(self, v: int) -> str:
        op, a, _, _ = self._analysis.code[v]
        if op == Op.CONST:
            return f"{self._analysis.program.constants[a]:#x}ull"
        if v in self._places:
            place = self._places[v]
            return f"uniform.ext({place})" if self._analysis.extension[v] else f"uniform.word[{place}]"
        return f"v{v}"

    def statement(self, v: int) -> str:
        """The line that computes value v."""
        op, a, b, c = self._analysis.code[v]
        if op == Op.LOAD:
            return f"const u64 v{v} = {'next' if c else 'here'}{a}[{b}ull * shape.columns[{a}]];"
        extension = self._analysis.extension
        left, right = (b, a) if op != Op.SUB and extension[b] and not extension[a] else (a, b)  # (Ext, u64) is there
        kind = "Ext" if extension[v] else "u64"
        if op == Op.MUL and a == b and not extension[v]:
            return f"const {kind} v{v} = sqr({self[a]});"
        return f"const {kind} v{v} = {_NAMES[Op(op)]}({self[left]}, {self[right]});"


def _text(matrices: int, room: int, lines: Sequence[str]) -> str:
    """The whole source: `lines` between the row's addresses and the end of the kernel."""
    parameters = "".join(f"const u64* __restrict__ m{i}, " for i in range(matrices))
    addresses = [
        f"const u64* {name}{i} = m{i} + row.coset * shape.cosets[{i}] + row.{name};"
        for i in range(matrices)
        for name in ("here", "next")
    ]
    body = "\n".join(f"  {line}" for line in (*addresses, *lines))
    return f"""// Generated: a row program's outputs, one thread a row.
#include "row_program.h"

using namespace dp;
using namespace dp::gl;

struct Uniform {{
  u64 word[{room}];
  __device__ __forceinline__ Ext ext(int i) const {{ return {{{{word[i], word[i + 1], word[i + 2]}}}}; }}
}};

extern "C" __global__ void __launch_bounds__(256)
    {KERNEL}({parameters}u64* out, const __grid_constant__ RowShape shape, const __grid_constant__ Uniform uniform) {{
  const Row row(shape);
  if (row.index >= shape.rows) return;
{body}
}}
"""
