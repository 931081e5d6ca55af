"""Rules of tables on CUDA: tasks for the interpreter in `cuda/src/multilinear_rules.cu`, all tables in one launch.

For the univariate round short programs of tall tables are compiled in the background. They have launches of their own
from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from kernels.cuda.device import ByValue, Device, Kernel, grid_for
from kernels.cuda.goldilocks.compiled_rules import compiled_source
from kernels.cuda.goldilocks.rule_code import PIECE, RuleCode
from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.interface.multilinear import MAX_LOG_RUN, LeafTask
from kernels.interface.multilinear_rows import (
    HALVES,
    LARGE,
    MOVED_BYTES,
    TOGETHER_BYTES,
    RowKernels,
    RowRounds,
    RuleProgram,
    moved_rows,
    moved_together,
)
from kernels.interface.steps import Words
from kernels.maths.goldilocks import P, root_of_unity
from kernels.maths.goldilocks_runs import coset_shift
from kernels.source import KernelSource

T = TypeVar("T")
RULES = KernelSource("multilinear_rules")
THREADS = 256
"""Threads of a block, the most of one that runs rules. Must equal that in class_sums.h."""
SHARED = 48 << 10
"""Bytes of shared memory for the slots of a block that runs rules, unless its least number of threads needs more."""
SCRATCH = 1 << 30
"""Most bytes that blocks have for cells on cosets, unless a block for each multiprocessor needs more."""
COMPILED_WORK, COMPILED_LENGTH = 1 << 24, 1 << 8
"""Least product of rows and instructions of a program that is compiled for the univariate round, and most of its
instructions. On an H200 one of 194 took 2.0 ms less than in the interpreter, and one of 516 took 0.9 ms more."""


@dataclass(frozen=True, eq=False)
class _Bound:
    """A program's code with its constants and coefficients, on the device."""

    program: RuleProgram
    scalars: Words
    code: RuleCode
    words: tuple[int, int, int, int]
    """`struct Code` of multilinear_rules.cu."""
    held: tuple[Array, Array]
    """What the words lie in."""


class CudaRules(RowKernels):
    """Runs rules of tables on one device."""

    piece, large, compiled_work, moved_bytes = PIECE, LARGE, COMPILED_WORK, MOVED_BYTES
    together_bytes = TOGETHER_BYTES

    def __init__(self, device: Device, rows: GoldilocksKernels) -> None:
        """`rows` compiles large programs."""
        self._device, self._rows = device, rows
        self._compiled: weakref.WeakKeyDictionary[RuleCode, KernelSource] = weakref.WeakKeyDictionary()
        self._made: weakref.WeakKeyDictionary[RuleProgram, RuleCode] = weakref.WeakKeyDictionary()
        self._codes: weakref.WeakKeyDictionary[RuleProgram, tuple[RuleCode, Array, int]] = weakref.WeakKeyDictionary()

    def clear_codes(self) -> None:
        """Release the code that is kept on the device, and what it was made from."""
        self._codes.clear()
        self._made.clear()

    def prepare_rules(self, program: RuleProgram) -> None:
        """Make a program's code, and begin to compile a large one, for which the univariate round would wait. Nothing
        goes to the device: a thread beside the one that computes may call."""
        code = self._rule_code(program)
        if self._is_large(code):
            self._rows.prepare([code.program])

    def bind(self, rules: Sequence[tuple[RuleProgram, Words]]) -> list[_Bound]:
        if not rules:
            return []
        codes = [self._code(program) for program, _ in rules]
        words = [code.words(scalars) for (code, _, _), (_, scalars) in zip(codes, rules, strict=True)]
        constants = np.array([word for own, _ in words for word in own], dtype=np.uint64)
        placed = self._upload(np.concatenate([constants, *(own.reshape(-1) for _, own in words)]))
        first, after, bound = self._address(placed), self._address(placed) + constants.nbytes, []
        for given, (code, instructions, begin), (own, coefficients) in zip(rules, codes, words, strict=True):
            parts = begin, first, after, int(code.code.size)
            bound.append(_Bound(*given, code, parts, (instructions, placed)))
            first, after = first + 8 * len(own), after + coefficients.nbytes
        return bound

    def _code(self, program: RuleProgram) -> tuple[RuleCode, Array, int]:
        """A program's code, its instructions on the device, and their address."""
        if program not in self._codes:
            code = self._rule_code(program)
            instructions = self._upload(code.code)
            self._codes[program] = code, instructions, self._address(instructions)
        return self._codes[program]

    def _rule_code(self, program: RuleProgram) -> RuleCode:
        code = self._made.get(program)
        if code is None:
            code = RuleCode(program.on_coset, [begin for begin, _ in program.spans], self.piece)
            self._made[program] = code
        return code

    def _is_large(self, code: RuleCode) -> bool:
        """Whether kernels of its own run a program on cosets. Those with long chains are large enough."""
        return code.straightened or int(code.code.size) > self.large

    # -- leaves -------------------------------------------------------------------------------------------------------

    def _leaves(self, tasks: Sequence[LeafTask]) -> None:
        if not tasks:
            return
        kernel, threads, shared = self._prepared(RULES, "rules_of_leaves", [task.rules for task in tasks], 1)
        places, told, blocks = [], [], 0
        first = len(tasks) * _LEAF_WORDS
        for task in sorted(tasks, key=lambda task: -task.rules.code.code.size):
            uses = len(task.places)
            own = np.zeros((2 * uses, 2), dtype=np.uint64)
            for use, place in enumerate(task.places):
                if place is not None:
                    total = int(place.fractions.shape[-1])
                    begin = self._address(place.fractions) + 8 * place.first
                    own[use] = begin, 2 * total
                    own[uses + use] = begin + 8 * total, 2 * total
            rows = int(task.cells.shape[1])
            told.append([*task.rules.words, self._address(task.cells), rows, blocks, first])
            places.append(own.reshape(-1))
            blocks, first = blocks + grid_for(rows, threads), first + own.size
        held = self._upload(np.concatenate([np.array(told, dtype=np.uint64).reshape(-1), *places]))
        kernel.launch(grid_for(blocks, 1), threads, (held, np.uint32(len(tasks))), shared=shared)

    # -- the univariate round -----------------------------------------------------------------------------------------

    def _source(self, rules: _Bound, rows: int) -> KernelSource:
        """What runs a program on so many rows: its own kernel if that pays and is compiled, else the interpreter."""
        size = int(rules.code.code.size)
        if size > COMPILED_LENGTH or size * rows < self.compiled_work:
            return RULES
        if rules.code not in self._compiled:
            self._compiled[rules.code] = compiled_source(rules.code)
        own = self._compiled[rules.code]
        return own if self._device.compiled(own) else RULES

    def _coset_sums(self, base: Array, made: RowRounds) -> None:
        log_run, rules = made.log_run, made.rules
        if log_run > MAX_LOG_RUN:
            raise SizeError(f"runs of 2^{log_run} elements; at most 2^{MAX_LOG_RUN}")
        size = 1 << log_run
        cosets = max((rule.cosets.stop for rule in rules), default=0)
        shifts = [coset_shift(log_run, coset) for coset in range(cosets)]
        share = pow(size, -1, P)
        factors = self._upload(
            np.array([[pow(s, k, P) * share % P for k in range(size)] for s in shifts], dtype=np.uint64)
        )
        given: list[tuple[int, int]] = []
        for number, rule in enumerate(rules):
            if not self._is_large(rule.rules.code):
                given += [(number, coset) for coset in rule.cosets]
                continue
            together = moved_together(rule.cells, 1 << rule.log_rows, len(rule.cosets), self.together_bytes)
            for group in _in_groups(rule.cosets, together):
                self._add_large(base.reshape(-1), made, number, group, factors)
        for source, own in _by(given, lambda at: self._source(rules[at[0]].rules, 1 << rules[at[0]].log_rows)):
            self._add_on_cosets(source, own, base, made, factors)

    def _add_on_cosets(
        self, source: KernelSource, given: Iterable[tuple[int, int]], base: Array, made: RowRounds, factors: Array
    ) -> None:
        """Add the sums of rules on cosets, both by numbers, by one launch."""
        log_run, rules, groups = made.log_run, made.rules, dict[tuple[int, int], list[int]]()
        for number, coset in given:
            groups.setdefault((rules[number].first, coset), []).append(number)
        begin, sums = self._address(base), self._address(made.sums)
        bound = [rules[number].rules for numbers in groups.values() for number in numbers]
        kernel, threads, shared = self._prepared(source, "rules_on_cosets", bound, 1, least=1 << log_run)
        work = sorted(groups.items(), key=lambda group: -sum(rules[n].rules.code.code.size for n in group[1]))
        tables: list[list[int]] = []
        tasks: list[list[int]] = []
        items = room = 0
        for (first, coset), numbers in work:
            rule = rules[numbers[0]]
            rows, weights = 1 << rule.log_rows, made.weights[rule.log_rows - log_run].tolist()
            moved = self._address(factors[coset]) if coset else 0
            ends = len(tasks), len(tasks) + len(numbers)
            tables.append([begin + 8 * first, moved, rule.cells, rows, items, *ends, *weights])
            for number in numbers:
                at = made.coset_sums[number] + coset - rules[number].cosets.start << log_run
                tasks.append([*rules[number].rules.words, sums + 8 * HALVES * at])
            items += grid_for(rows, threads)
            room = max(room, rule.cells * threads if coset else 0)
        resident = max(1, kernel.blocks_per_sm(threads)) * self._device.sm_count
        blocks = min(items, resident, max(self._device.sm_count, SCRATCH // (8 * room + 1)))
        held = self._upload(
            np.array([word for rows in (tables, tasks) for row in rows for word in row], dtype=np.uint64)
        )
        scratch, taken = self._empty((blocks * room + 1,)), self._device.zeros((1,), np.uint32)
        sizes = np.uint32(len(tables)), np.uint32(items)
        runs = np.uint32(log_run), np.uint64(root_of_unity(log_run))
        read = (held, *sizes, held[_COSET_WORDS * len(tables) :], *runs, scratch, np.uint64(room), taken)
        kernel.launch(blocks, threads, read, shared=shared)

    def _add_large(self, base: Array, made: RowRounds, number: int, cosets: range, factors: Array) -> None:
        """Add the sums of one rule on some cosets, a power of two, by a program that is compiled, for as many rows at a
        time as the memory for moved cells takes. Coset 0 is alone: its cells are not moved. More kernels than those of
        these few programs do not pay: an interpreter takes four times as long."""
        rule, log_run, moves = made.rules[number], made.log_run, cosets.start > 0
        rows, count = 1 << rule.log_rows, len(cosets)
        height = moved_rows(rule.cells, rows, 1 << log_run, self.moved_bytes) if moves else rows
        cells = base[rule.first : rule.first + rule.cells * rows].reshape(rule.cells, 1, rows)
        program, weights = rule.rules.code.program, ByValue(made.weights[rule.log_rows - log_run])
        sums = made.sums[made.coset_sums[number] + cosets.start - rule.cosets.start << log_run :]
        moved = self._empty((rule.cells, count, height)) if moves else cells
        pitch = np.uint64(count * height)
        for begin in range(0, rows, height):
            for place, coset in enumerate(cosets if moves else ()):
                runs = rule.cells * height >> log_run
                sizes = np.uint64(runs), np.uint64(rows), np.uint64(height), pitch, np.uint32(log_run)
                kernel = self._device.kernel(RULES, "rules_move")
                to = moved.reshape(-1)[place * height :]
                read = base[rule.first + begin :], to, *sizes, np.uint64(root_of_unity(log_run)), factors[coset]
                kernel.launch(grid_for(runs, THREADS), THREADS, read)
            given = [moved[first:end] if first < end else None for first, end in rule.rules.program.spans]
            values = self._rows.evaluate(program, given, rule.rules.scalars, log_cosets=count.bit_length() - 1)
            kernel = self._device.kernel(RULES, "rules_weigh")
            own = np.uint64(begin), np.uint64(height), pitch, np.uint32(log_run)
            for place in range(count):
                found = values.reshape(-1)[place * height :], *own, weights, sums[place << log_run :]
                kernel.launch(grid_for(height, THREADS), THREADS, found)

    # -- rounds over rows ---------------------------------------------------------------------------------------------

    def _round_sums(self, made: RowRounds) -> Callable[[int, Array], None]:
        kernel, threads, shared = self._prepared(RULES, "rules_of_rows", [rule.rules for rule in made.rules], 3)
        sums, parts = self._address(made.row_sums), []
        order = sorted(range(len(made.rules)), key=lambda n: -made.rules[n].rules.code.code.size)
        for number in order:
            rule, variables = made.rules[number], made.variables[number]
            pieces, points = rule.rules.code.pieces, rule.points
            task = [*rule.rules.words, rule.first >> made.log_run, variables, 0, 0]
            own = np.empty((len(points), len(pieces) - 1, _ROUND_WORDS), dtype=np.uint64)
            own[:] = np.array([*task, *made.weights[variables].tolist()], dtype=np.uint64)
            own[:, :, 0] += 8 * np.array(pieces[:-1], dtype=np.uint64)
            own[:, :, 3] = np.diff(pieces)
            own[:, :, 6] = np.array(points, dtype=np.uint64)[:, None]
            at = made.point_sums[number] + np.arange(len(points), dtype=np.uint64)
            own[:, :, 7] = (np.uint64(sums) + 8 * HALVES * at)[:, None]
            parts.append(own.reshape(-1, _ROUND_WORDS))
        tasks = np.concatenate(parts)
        left = tasks[:, 5].astype(np.int64) - 1 - np.arange(made.rounds)[:, None]  # variables after a round's own
        blocks = np.where(left < 0, 0, -(-(1 << np.maximum(left, 0)) // threads))
        starts = np.zeros((made.rounds, len(tasks) + 1), dtype=np.uint32)
        np.cumsum(blocks, axis=1, out=starts[:, 1:])
        padded = np.zeros(starts.size + starts.size % 2, dtype=np.uint32)
        padded[: starts.size] = starts.reshape(-1)
        held = self._upload(np.concatenate([tasks.reshape(-1), padded.view(np.uint64)]))
        given = held, held[tasks.size :], np.uint32(len(tasks))
        grids = starts[:, -1].tolist()

        def run(number: int, vectors: Array) -> None:
            sizes = np.uint64(vectors.shape[1])
            kernel.launch(
                grid_for(grids[number], 1), threads, (*given, np.uint32(number), vectors, sizes), shared=shared
            )

        return run

    # -- what all of them are given -----------------------------------------------------------------------------------

    def _prepared(
        self, source: KernelSource, name: str, rules: Sequence[_Bound], words: int, *, least: int = 32
    ) -> tuple[Kernel, int, int]:
        """A kernel that runs rules, its threads, and the bytes of its slots, which have so many words each."""
        slot = 8 * words * max((own.code.slots for own in rules), default=1) if source == RULES else 0
        threads = THREADS
        while threads > max(32, least) and slot * threads > SHARED:
            threads //= 2
        kernel = self._device.kernel(source, name)
        if slot * threads > self._device.shared_limit - kernel.resources.shared:
            raise SizeError(f"a row program of {slot} bytes a row; a block has {self._device.shared_limit}")
        return kernel, threads, slot * threads


def _by(given: Sequence[T], source: Callable[[T], KernelSource]) -> list[tuple[KernelSource, list[T]]]:
    """What is run by each source, in order."""
    found: dict[KernelSource, list[T]] = {}
    for own in given:
        found.setdefault(source(own), []).append(own)
    return list(found.items())


def _in_groups(cosets: range, most: int) -> list[range]:
    """Consecutive cosets, as powers of two of at most so many. Coset 0 is alone."""
    found: list[range] = []
    while cosets:
        count = 1
        while cosets.start and 2 * count <= min(most, len(cosets)):
            count *= 2
        found.append(cosets[:count])
        cosets = cosets[count:]
    return found


_LEAF_WORDS, _COSET_WORDS, _ROUND_WORDS = 8, 11, 12
"""Words of the structs LeafTask, CosetTable and RoundTask of multilinear_rules.cu."""
