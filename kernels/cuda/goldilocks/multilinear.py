"""The CUDA implementation of `kernels.interface.multilinear.MultilinearKernels`. The kernels are in
`cuda/src/multilinear_steps.cu` and `multilinear_rules.cu`, those of codewords in `goldilocks_lde.cu`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.cuda.device import ByValue, Device, Kernel, grid_for, layout
from kernels.cuda.goldilocks.lde import Extended, LdeEngine
from kernels.cuda.goldilocks.rule_code import PIECE, RuleCode
from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array, HostArray
from kernels.interface.multilinear import (
    SETS,
    CosetTask,
    LeafTask,
    MultilinearKernels,
    Products,
    RoundTask,
    RuleProgram,
    Words,
)
from kernels.maths.goldilocks import Ext
from kernels.source import KernelSource

STEPS, RULES = KernelSource("multilinear_steps"), KernelSource("multilinear_rules")
THREADS = 256
"""Threads of a block, the most of one that runs rules. Must equal that in class_sums.h."""
SHARED = 48 << 10
"""Bytes of shared memory for the slots of a block that runs rules, unless its least number of threads needs more."""
MAX_BLOCKS_PER_SM = 4
"""Most blocks of a step with sums for each multiprocessor: the last one to end adds up those of all."""
ROUND_SUMS = 2
"""SUMS of the rounds that end on the device."""

MAX_LOG_ROWS, MAX_LOG_CODEWORD = 28, 30
"""Limits on log2 of the coefficients of a column and of its codeword. WHIR's later rounds have few coefficients and a
large blow-up: the tables of a plan grow with the codeword's points, and not with the blow-up alone."""


_TASK = layout(
    ("u8", "code constants coefficients cells instructions first_block rows pitch between at"),
    ("u8", "low high log_low log_run places"),
)
"""The layout of `struct Task` in multilinear_rules.cu."""


@dataclass(frozen=True, eq=False)
class _Bound:
    """A program's code with its constants and coefficients, on the device."""

    code: RuleCode
    instructions: Array
    constants: Array
    coefficients: Array


class CudaMultilinear(MultilinearKernels):
    """The multilinear kernels of one device, on its compute stream."""

    piece = PIECE

    def __init__(self, device: Device, extend: LdeEngine) -> None:
        self._device = device
        self._extend = extend
        self._ended: Array | None = None
        """How many blocks of the step with sums that runs have ended; zero between steps."""
        self._partial: Array | None = None
        """The sums of the blocks of the step that runs."""
        self._codes: weakref.WeakKeyDictionary[RuleProgram, tuple[RuleCode, Array]] = weakref.WeakKeyDictionary()

    def prepare(self) -> None:
        for source in (STEPS, RULES, self._extend.profile.source):
            self._device.prepare(source)

    def clear(self) -> None:
        """Release the device memory that is kept between calls."""
        self._ended = self._partial = None
        self._codes.clear()

    # -- rules ------------------------------------------------------------------------------------------------------

    def bind(self, rules: Sequence[tuple[RuleProgram, Words]]) -> list[_Bound]:
        if not rules:
            return []
        codes = [self._code(program) for program, _ in rules]
        words = [code.words(scalars) for (code, _), (_, scalars) in zip(codes, rules, strict=True)]
        flat = [part.reshape(-1) for both in words for part in both]
        placed, at, bound = self._upload(np.concatenate(flat)), 0, []
        for (code, instructions), (constants, coefficients) in zip(codes, words, strict=True):
            middle = at + constants.size
            end = middle + coefficients.size
            bound.append(_Bound(code, instructions, placed[at:middle], placed[middle:end]))
            at = end
        return bound

    def _code(self, program: RuleProgram) -> tuple[RuleCode, Array]:
        if program not in self._codes:
            code = RuleCode(program.on_coset, [begin for begin, _ in program.spans], self.piece)
            self._codes[program] = code, self._upload(code.code)
        return self._codes[program]

    def _leaves(self, tasks: Sequence[LeafTask]) -> None:
        records, places, at = [], [], 0
        for task in tasks:
            uses = len(task.places)
            own = np.zeros((2 * uses, 2), dtype=np.uint64)
            for use, place in enumerate(task.places):
                if place is not None:
                    total = int(place.fractions.shape[-1])
                    begin = self._address(place.fractions) + 8 * place.first
                    own[use] = begin, 2 * total
                    own[uses + use] = begin + 8 * total, 2 * total
            rows = int(task.cells.shape[1])
            records.append(self._record(task.rules, self._address(task.cells), rows, places=16 * at))
            places.append(own)
            at += len(own)
        if tasks:
            told = self._upload(np.concatenate(places))
            for record in records:
                record["places"] += np.uint64(self._address(told))
            self._run_rules("rules_of_base", [task.rules for task in tasks], records, 0, sums=False)

    def _coset_sums(self, tasks: Sequence[CosetTask], log_run: int) -> Words:
        records = [
            self._record(task.rules, self._address(task.cells), int(task.cells.shape[1]), eq=task.eq, log_run=log_run)
            for task in tasks
        ]
        return self._run_rules("rules_of_base", [task.rules for task in tasks], records, log_run)

    def _round_sums(self, vectors: Array, tasks: Sequence[RoundTask]) -> list[list[Ext]]:
        begin, pitch = self._address(vectors), int(vectors.shape[-1])
        records, rules = [], []
        for task in tasks:
            cells, between = begin + 8 * task.first, int(bool(task.points))
            for point in task.points or (0,):
                rows, given = task.rows >> between, {"pitch": pitch, "between": between, "at": point}
                records.append(self._record(task.rules, cells, rows, task.eq, **given))
                rules.append(task.rules)
        found = iter(self._run_rules("rules_of_extended", rules, records, 0)[:, 0].tolist())
        return [[_ext(next(found)) for _ in task.points or (0,)] for task in tasks]

    def _record(self, rules: _Bound, cells: int, rows: int, eq: Products | None = None, **more: int) -> HostArray:
        """A program's tasks, one for each piece of its code."""
        pieces = rules.code.pieces
        record = np.zeros((len(pieces) - 1,), dtype=_TASK)
        parts = rules.instructions, rules.constants, rules.coefficients
        record["code"], record["constants"], record["coefficients"] = map(self._address, parts)
        record["code"] += 8 * np.array(pieces[:-1], dtype=np.uint64)
        record["cells"], record["rows"], record["instructions"] = cells, rows, np.diff(pieces)
        if eq is not None:
            low = self._address(eq.tables)
            record["low"], record["high"] = low, low + (24 << eq.log_low)
            record["log_low"] = eq.log_low
        for name, value in more.items():
            record[name] = value
        return record

    def _run_rules(
        self, name: str, rules: Sequence[_Bound], records: Sequence[HostArray], log_classes: int, *, sums: bool = True
    ) -> Words:
        """Run tasks by one launch, the longest programs first; returns the sums (tasks, classes, 3)."""
        slot = 8 * max(own.code.slots for own in rules) * (3 if name == "rules_of_extended" else 1)
        threads = THREADS
        while threads > max(32, 1 << log_classes) and slot * threads > SHARED:
            threads //= 2
        kernel = self._device.kernel(RULES, name)
        if slot * threads > self._device.shared_limit - kernel.resources.shared:
            raise SizeError(f"a row program of {slot} bytes a row; a block has {self._device.shared_limit}")
        order = sorted(range(len(records)), key=lambda i: -int(records[i]["instructions"].sum()))
        tasks = np.concatenate([records[i] for i in order])
        ends = np.cumsum([grid_for(int(rows), threads) for rows in tasks["rows"]], dtype=np.uint64)
        tasks["first_block"][1:] = ends[:-1]
        total = grid_for(int(ends[-1]), 1)
        last = np.cumsum([len(records[i]) for i in order])
        given = self._upload(np.concatenate([tasks.view(np.uint64), ends[last - 1]]))
        sizes = np.uint32(len(tasks)), np.uint32(log_classes)
        partial = self._empty((total if sums else 1, 1 << log_classes, 3))
        kernel.launch(total, threads, (given, *sizes, partial), shared=slot * threads)
        if not sums:
            return np.zeros((0,), dtype=np.uint64)
        out = self._empty((len(records), 1 << log_classes, 3))
        finish = self._device.kernel(RULES, "rules_totals")
        finish.launch(len(records), THREADS, (given[-len(records) :], sizes[1], partial, out))
        found: Words = np.empty(out.shape, dtype=np.uint64)
        found[order] = self._download(out)
        return found

    # -- transforms and runs ----------------------------------------------------------------------------------------

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        width, n = map(int, coefficients.shape)
        preconditions.contiguous(coefficients, "coefficients")
        if n > 1 << MAX_LOG_ROWS or n << log_blowup > 1 << MAX_LOG_CODEWORD:
            most = f"at most 2^{MAX_LOG_ROWS} rows and 2^{MAX_LOG_CODEWORD} points"
            raise SizeError(f"{n} rows with a blow-up of 2^{log_blowup}: {most}")
        out = self._empty((width, 1 << log_blowup, n))
        self._extend.encode(Extended(coefficients, out, 0))
        return out

    def _apply_runs(self, columns: Array, matrix: Words) -> Array:
        return self._applied(columns, np.ascontiguousarray(matrix.T), apart=False)

    def _bind_runs(self, columns: Array, weights: Words) -> Array:
        return self._applied(columns, weights, apart=True)

    def _applied(self, columns: Array, weights: Words, *, apart: bool) -> Array:
        """Apply weights (size, rows) to each run; with `apart` each row of them has an output of its own."""
        preconditions.contiguous(columns, "columns")
        size, rows = weights.shape
        runs = int(columns.size) // size
        out = self._empty((rows, runs) if apart else (int(columns.shape[0]), int(columns.shape[1]) // size * rows))
        matrix = self._upload(weights)
        given = {"log_run": size.bit_length() - 1, "rows": rows, "apart": runs if apart else 0}
        self._each("apply_runs", runs * rows, source=columns, matrix=matrix, out=out, **given)
        return out

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        log_run, runs = size.bit_length() - 1, int(columns.size) // size
        out = self._empty((SETS, size, 3))
        given = {"log_run": log_run, "runs": runs, "sets": len(weights)}
        self._sum("weighted_runs", int(columns.size), log_run, out, columns=columns, weights=weights, **given)
        return self._download(out)[: len(weights)]

    # -- steps and arrays -------------------------------------------------------------------------------------------

    def _run(self, step: str, items: int, arguments: Any) -> None:
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        kernel.launch(grid_for(items, THREADS), THREADS, (ByValue(arguments), np.uint64(items)))

    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None:
        kernel, blocks, partial = self._summing(step, items, int(out.size))
        sizes = np.uint64(items), np.uint32(log_classes)
        kernel.launch(blocks, THREADS, (ByValue(arguments), *sizes, partial, self._ended, out))

    def _run_round(self, step: str, items: int, arguments: Any) -> None:
        kernel, blocks, partial = self._summing(step, items, 3 * ROUND_SUMS)
        kernel.launch(blocks, THREADS, (ByValue(arguments), np.uint64(items), partial, self._ended))

    def _run_block(self, step: str, arguments: Any) -> None:
        self._device.kernel(STEPS, f"ml_{step}").launch(1, THREADS, (ByValue(arguments),))

    def _summing(self, step: str, items: int, words: int) -> tuple[Kernel, int, Array]:
        """The kernel of a step with sums, its number of blocks, and memory for each one's sums of `words`."""
        kernel = self._device.kernel(STEPS, f"ml_{step}")
        if self._ended is None:
            self._ended = self._device.zeros((1,), np.uint32)
        resident = min(MAX_BLOCKS_PER_SM, kernel.blocks_per_sm(THREADS)) * self._device.sm_count
        blocks = max(1, min(grid_for(items, THREADS), resident))
        if self._partial is None or self._partial.size < blocks * words:
            self._partial = self._empty((resident * words,))
        return kernel, blocks, self._partial

    def _empty(self, shape: tuple[int, ...]) -> Array:
        return self._device.empty(shape)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return self._device.zeros(shape)

    def _address(self, array: Array) -> int:
        return self._device.address(array)

    def _upload(self, host: Words) -> Array:
        return self._device.upload(np.ascontiguousarray(host))

    def _download(self, array: Array) -> Words:
        return self._device.download(array)

    def _join(self, arrays: Sequence[Array], out: Array) -> None:
        flat, at = out.reshape(-1), 0
        for array in arrays:
            preconditions.contiguous(array, "what is joined")
            if array.size:
                self._device.copy(flat[at : at + array.size], array)
            at += int(array.size)
        if at < out.size:
            self._device.clear(flat[at:])


def _ext(words: list[int]) -> Ext:
    a, b, c = words
    return a, b, c
