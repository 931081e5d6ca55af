"""The CPU implementation of `kernels.interface.multilinear.MultilinearKernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.cpu.goldilocks.merkle import Hasher, root_of_cosets
from kernels.interface.arrays import Array, Empty
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.multilinear import LeafTask, MultilinearKernels
from kernels.interface.multilinear_rows import HALVES, POINTS, RowRounds, RuleProgram, TableRules, moved_rows
from kernels.interface.row_program import RowProgram
from kernels.interface.steps import Words
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import P, root_of_unity
from kernels.maths.goldilocks_runs import coset_shift

_NONE = np.empty(0, dtype=np.uint64)
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_MOVED_BYTES, _MOVED_RUNS = 8 << 20, 8
"""Most bytes of cells that are moved to a coset at once, unless so few runs, which fill the lanes, take more. With all
of a table's cells at once, the system needs as long to clear new pages as the transforms take."""
_UNITS = np.array([(0, 1, 0), (0, 0, 1)], dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class _Bound:
    program: RuleProgram
    scalars: Words


class CpuMultilinear(MultilinearKernels):
    """The multilinear kernels on a pool of threads of the extension module `native`."""

    def __init__(
        self,
        native: Any,
        pool: Any,
        empty: Empty = np.empty,
        zeros: Empty = np.zeros,
        *,
        rows: GoldilocksKernels | None = None,
        instruction_set: str | None = None,
    ) -> None:
        """`rows` runs row programs; without it there are no rules."""
        self._native, self._pool, self._new, self._new_zeros = native, pool, empty, zeros
        self._rows = rows
        self._set: str = instruction_set or native.gl_instruction_sets()[-1]

    def _evaluate(
        self, program: RowProgram, inputs: Sequence[Array | None], scalars: Words, log_points: int = 0
    ) -> Array:
        assert self._rows is not None, "there is nothing to run row programs"
        return self._rows.evaluate(program, inputs, scalars, log_cosets=log_points)

    def root(self, coefficients: Array, log_blowup: int, tree_hash: TreeHash) -> bytes:
        """The root of `GoldilocksKernels.commit` over what `encode` returns, made coset by coset: neither the codewords
        nor the tree are ever whole."""
        hasher = Hasher(self._native, self._pool, self._set, self._new, tree_hash)
        flat = _flat(coefficients)

        def coset(shift: int) -> Array:
            return self._on_cosets(flat, coefficients.shape, np.array([shift], dtype=np.uint64))

        return root_of_cosets(hasher, map(coset, _shifts(coefficients.shape[1], log_blowup)), log_blowup)

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        shifts = np.array(_shifts(coefficients.shape[1], log_blowup), dtype=np.uint64)
        return self._on_cosets(_flat(coefficients), coefficients.shape, shifts)

    def _on_cosets(self, coefficients: Words, shape: tuple[int, ...], shifts: Words) -> Array:
        width, n = shape
        log_n = n.bit_length() - 1
        out = self._empty((width, len(shifts), n))
        self._native.gl_encode(
            self._pool, self._set, coefficients, log_n, root_of_unity(log_n), shifts, out.reshape(-1)
        )
        return out

    def _interpolate_runs(self, columns: Array, log_run: int) -> None:
        assert columns.flags.c_contiguous, "runs are interpolated in place"
        self._native.gl_interpolate_runs(self._pool, self._set, columns.reshape(-1), log_run, root_of_unity(log_run))

    def _bind_runs(self, columns: Array, weights: Words, out: Array) -> None:
        assert out.flags.c_contiguous, "runs are bound in place"
        self._native.gl_bind_runs(self._pool, self._set, _flat(columns), _flat(weights), out.reshape(-1))

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        out = np.empty((3 * len(weights), size), dtype=np.uint64)
        self._native.gl_sum_runs(self._pool, self._set, _flat(columns), size, _flat(weights), out.reshape(-1))
        return np.ascontiguousarray(np.moveaxis(out.reshape(-1, 3, size), 1, 2))

    # -- rules ------------------------------------------------------------------------------------------------------

    def bind(self, rules: Sequence[tuple[RuleProgram, Words]]) -> list[_Bound]:
        return [_Bound(program, scalars) for program, scalars in rules]

    def _leaves(self, tasks: Sequence[LeafTask]) -> None:
        for task in tasks:
            found, n = self._on_coset(task.rules, task.cells), task.cells.shape[1]
            uses = len(task.places)
            for use, place in enumerate(task.places):
                if place is not None:
                    where = np.array([use, place.first], dtype=np.uint64)
                    given = {"log_n": n.bit_length() - 1, "uses": uses, "total": place.fractions.shape[-1]}
                    self._each("leaves", n, found=found, places=where, out=place.fractions, **given)

    def _bind_rows(self, columns: Array, weights: Array) -> Array:
        out = self._empty((3, columns.size // len(weights)))
        self._bind_runs(columns, weights, out)
        return out

    def _coset_sums(self, base: Array, made: RowRounds) -> None:
        flat, log_run, size = base.reshape(-1), made.log_run, 1 << made.log_run
        found = np.empty((size, 3), dtype=np.uint64)
        for first in dict.fromkeys(rule.first for rule in made.rules):
            own = [(number, rule) for number, rule in enumerate(made.rules) if rule.first == first]
            _, table = own[0]
            n, weights = 1 << table.log_rows, made.weights[table.log_rows - log_run]
            cells = flat[first : first + table.cells * n].reshape(table.cells, n)
            rows = moved_rows(table.cells, n, min(n, _MOVED_RUNS << log_run), _MOVED_BYTES)
            moved, values = self._empty((table.cells, rows)), self._empty((3, n))
            for coset in range(max(rule.cosets.stop for _, rule in own)):
                rules = [(number, rule) for number, rule in own if coset in rule.cosets]
                parts: dict[int, list[Array]] = {number: [] for number, _ in rules}
                for begin in range(0, n, rows) if coset and rules else [0]:
                    given = cells
                    if coset and rules:
                        programs = [rule.rules.program for _, rule in rules]
                        self._move(
                            cells, table, programs, coset_shift(log_run, coset), log_run, begin >> log_run, moved
                        )
                        given = moved
                    for number, rule in rules:
                        parts[number].append(self._on_coset(rule.rules, given))
                for number, rule in rules:
                    whole = parts[number]
                    outputs = whole[0] if len(whole) == 1 else np.concatenate(whole, axis=1, out=values)
                    self._sum("run_sums", n, log_run, found, values=outputs, n=n, log_run=log_run, eq=weights)
                    at = made.coset_sums[number] + coset - rule.cosets.start << log_run
                    made.sums[at : at + size] += _halves(found)

    def _move(
        self,
        cells: Array,
        table: TableRules,
        programs: Sequence[RuleProgram],
        shift: int,
        log_run: int,
        run: int,
        out: Array,
    ) -> None:
        """Move runs of a table's cells (w, n), from number `run` on, to a coset: as many as `out` (w, rows) has room
        for, of the cells that these programs read."""
        following, read = np.array(programs[0].next_columns, dtype=np.uint64), np.zeros((table.cells,), dtype=np.uint64)
        for program in programs:
            read[list(program.cells_read)] = 1
        columns, root = programs[0].spans[-1][0], root_of_unity(log_run)
        place = table.log_rows, log_run, root, shift, columns, following, read, run
        self._native.gl_move_runs(self._pool, self._set, _flat(cells), *place, out.reshape(-1))

    def _on_coset(self, rules: _Bound, cells: Array) -> Array:
        """The outputs (columns, n) of rules over base cells."""
        given = [cells[begin:end] if begin < end else None for begin, end in rules.program.spans]
        made = self._evaluate(rules.program.on_coset, given, rules.scalars)
        return made.reshape(made.shape[0], -1)

    def _round_sums(self, made: RowRounds) -> Callable[[int, Array], None]:
        def run(number: int, vectors: Array) -> None:
            for rule, variables, at in zip(made.rules, made.variables, made.point_sums, strict=True):
                if number < variables:
                    begin, rows = rule.first >> made.log_run + number, 1 << variables - number
                    cells = vectors[:, begin : begin + rule.cells * rows].reshape(-1, rows)
                    found = self._points_sums(rule, cells, number + 1, made.weights[variables])
                    made.row_sums[at : at + len(found)] += _halves(found)

        return run

    def _points_sums(self, rule: TableRules, cells: Array, first: int, weights: Words) -> Words:
        """The sums of a rule between neighbouring rows of cells (w, 2 n), at each of its points."""
        points, sums = list(rule.points), []
        scalars = np.concatenate([rule.rules.scalars, _UNITS])
        program = rule.rules.program.on_vectors
        assert program is not None, "leaves are not summed in rounds"
        while points:  # a program runs on a power of two of them at once
            count = min(POINTS, 1 << len(points).bit_length() - 1)
            values = self._evaluate(program, [self._between(cells, points[:count])], scalars, count.bit_length() - 1)
            n, out = cells.shape[1] // 2, np.empty((POINTS, 3), dtype=np.uint64)
            self._sum("point_sums", n, 0, out, values=values, n=n, points=count, first=first, eq=weights)
            sums.append(out[:count])
            points = points[count:]
        return np.concatenate(sums)

    def _between(self, cells: Array, points: Sequence[int]) -> Array:
        """The values even + t (odd - even) of neighbours of rows (w, 2 n) at integers t: (w, points, n)."""
        width, n = cells.shape
        out = self._empty((width, len(points), n // 2))
        at = np.zeros((POINTS,), dtype=np.uint64)
        at[: len(points)] = points
        given = {"log_n": n.bit_length() - 2, "points": len(points), "at": at}
        self._each("between", width * n // 2, source=np.ascontiguousarray(cells), out=out, **given)
        return out

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _run(self, step: str, items: int, arguments: Any) -> None:
        self._native.gl_step(self._pool, self._set, step, arguments.tobytes(), items, 0, _NONE)

    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None:
        self._native.gl_step(self._pool, self._set, step, arguments.tobytes(), items, log_classes, out.reshape(-1))

    def _run_round(self, step: str, items: int, arguments: Any) -> None:
        self._run(step, items, arguments)

    def _run_block(self, step: str, arguments: Any) -> None:
        self._run(step, 1, arguments)

    def _empty(self, shape: tuple[int, ...]) -> Array:
        return self._new(shape, np.uint64)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return self._new_zeros(shape, np.uint64)

    def _address(self, array: Array) -> int:
        assert array.flags.c_contiguous, "a step walks arrays by their shape"
        return int(array.ctypes.data)

    def _upload(self, host: Words) -> Array:
        return np.ascontiguousarray(host)

    def _download(self, array: Array) -> Words:
        return np.asarray(array)

    def _join(self, arrays: Sequence[Array], out: Array) -> None:
        flat, at = out.reshape(-1), 0
        for array in arrays:
            flat[at : at + array.size] = array.reshape(-1)
            at += array.size
        flat[at:] = 0


def _shifts(n: int, log_blowup: int) -> list[int]:
    """The shifts of the cosets on which n coefficients are encoded."""
    step = root_of_unity(n.bit_length() - 1 + log_blowup)
    return [pow(step, k, P) for k in range(1 << log_blowup)]


def _flat(array: Words) -> Words:
    return np.ascontiguousarray(array).reshape(-1)


def _halves(sums: Words) -> Words:
    """Sums (n, 3) as multilinear_rows.h has them, (n, HALVES)."""
    return np.stack([sums & _LOW, sums >> _32], axis=2).reshape(-1, HALVES)
