"""Rules of tables on CUDA: tasks for the interpreter in `cuda/src/multilinear_rules.cu`, all tables in one launch.

For the univariate round short programs of tall tables are compiled in the background. They have launches of their own
from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from kernels.cuda.device import ByValue, Device, Kernel, grid_for
from kernels.cuda.goldilocks.compiled_rules import compiled_source
from kernels.cuda.goldilocks.kept_code import generated
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
    TableRules,
    moved_rows,
    moved_together,
    moves_apart,
)
from kernels.interface.steps import Words
from kernels.maths.goldilocks import P, root_of_unity
from kernels.maths.goldilocks_runs import coset_shift
from kernels.source import KernelSource

T = TypeVar("T")
LOG_TILE, TILED_RUNS, NOWHERE = 12, (4, 5, 6), 2**64 - 1
"""log2 of the words that a block of `rules_move_4` and its like moves, log2 of the runs that there is one for, and the
place of cells that go nowhere. Must equal those in multilinear_rules.cu."""
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

    def load_rules(self, program: RuleProgram) -> None:
        """Bring a program's code to the device, and the kernels of a large one that are compiled."""
        code, _, _ = self._code(program)
        if self._is_large(code):
            self._rows.load([code.program])

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
            row, firsts = program.on_coset, [begin for begin, _ in program.spans]
            code = generated(RuleCode, row, (self.piece, *firsts), lambda: RuleCode(row, firsts, self.piece))
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
        cosets = max((rule.cosets.stop for rule in rules), default=0)
        shifts = [coset_shift(log_run, coset) for coset in range(cosets)]
        factors = self._upload(np.array([_factors(log_run, shift) for shift in shifts], dtype=np.uint64))
        sizes: dict[tuple[int, int, bool], int] = {}
        for rule in rules:
            kind = rule.first, 1 << rule.log_rows, rule.constrains
            sizes[kind] = sizes.get(kind, 0) + int(rule.rules.code.code.size)
        apart = {first for (first, rows, _), size in sizes.items() if moves_apart(size, rows, self.large)}
        given: list[tuple[int, int]] = []
        together: dict[int, list[int]] = {}
        for number, rule in enumerate(rules):
            if rule.first in apart or self._is_large(rule.rules.code):
                together.setdefault(rule.first, []).append(number)
            else:
                given += [(number, coset) for coset in rule.cosets]
        for numbers in together.values():
            self._rows.prepare([rules[number].rules.code.program for number in numbers])
            table = rules[numbers[0]]
            most = moved_together(table.cells, 1 << table.log_rows, cosets, self.together_bytes)
            for same, alike in _alike(numbers, rules):
                for group in _in_groups(alike, most):
                    self._add_large(base.reshape(-1), made, same, group, factors)
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

    def _add_large(self, base: Array, made: RowRounds, numbers: Sequence[int], cosets: range, factors: Array) -> None:
        """Add the sums of some rules of a table on some cosets, a power of two, by programs that are compiled.

        Cells are moved once for all rules, for as many rows at a time as the memory for moved cells takes. Coset 0 is
        alone: its cells are not moved. More kernels than those of these few programs do not pay: an interpreter takes
        four times as long.
        """
        rules, log_run, moves = [made.rules[number] for number in numbers], made.log_run, cosets.start > 0
        first, cells, rows, count = rules[0].first, rules[0].cells, 1 << rules[0].log_rows, len(cosets)
        height = moved_rows(cells, rows, 1 << log_run, self.moved_bytes) if moves else rows
        table = base[first : first + cells * rows].reshape(cells, rows)
        moved = self._empty((cells, count, height)) if moves else table.reshape(cells, 1, rows)
        places = self._moved_cells([rule.rules for rule in rules]) if moves else None
        weights, pitch = ByValue(made.weights[rules[0].log_rows - log_run]), np.uint64(count * height)
        for begin in range(0, rows, height):
            if places is not None:
                for place, coset in enumerate(cosets):
                    self._move(table, moved, place, begin, log_run, factors[coset], places)
            for number, rule in zip(numbers, rules, strict=True):
                program = rule.rules.code.program
                given = [moved[cut:end] if cut < end else None for cut, end in rule.rules.program.spans]
                values = self._rows.evaluate(program, given, rule.rules.scalars, log_cosets=count.bit_length() - 1)
                kernel = self._device.kernel(RULES, "rules_weigh")
                own = np.uint64(begin), np.uint64(height), pitch, np.uint32(log_run)
                sums = made.sums[made.coset_sums[number] + cosets.start - rule.cosets.start << log_run :]
                for place in range(count):
                    found = values.reshape(-1)[place * height :], *own, weights, sums[place << log_run :]
                    kernel.launch(grid_for(height, THREADS), THREADS, found)

    def _moved_cells(self, rules: Sequence[_Bound]) -> Array:
        """What these rules read of a table, (k, 3) as `MovedCell`: cells, where they go, and where their next row
        goes."""
        read = sorted(set().union(*(rule.program.cells_read for rule in rules)))
        begin, end = rules[0].program.spans[-1]
        source = rules[0].program.next_columns
        places: dict[int, list[int]] = {}
        for cell in read:
            after = begin <= cell < end
            places.setdefault(source[cell - begin] if after else cell, [NOWHERE, NOWHERE])[after] = cell
        return self._upload(np.array([(cell, *to) for cell, to in sorted(places.items())], dtype=np.uint64))

    def _move(
        self, table: Array, out: Array, place: int, begin: int, log_run: int, factors: Array, moved: Array
    ) -> None:
        """Move some rows of a table's cells (cells, rows) to a coset, by its place in `out` (cells, cosets, height). Of
        runs of the usual lengths only the cells that are told go there."""
        (cells, rows), (_, cosets, height) = map(int, table.shape), map(int, out.shape)
        to, pitch = out.reshape(-1)[place * height :], np.uint64(cosets * height)
        if log_run in TILED_RUNS:
            kernel, tiles = self._device.kernel(RULES, f"rules_move_{log_run}"), grid_for(height, 1 << LOG_TILE)
            sizes = np.uint64(rows), np.uint64(begin), np.uint64(height), pitch
            grid, threads = (tiles, len(moved)), 1 << LOG_TILE - log_run
            kernel.launch(grid, threads, (table, to, *sizes, moved, factors))
            return
        kernel, runs = self._device.kernel(RULES, "rules_move"), cells * height >> log_run
        read = table.reshape(-1)[begin:], to, np.uint64(runs), np.uint64(rows), np.uint64(height), pitch
        given = np.uint32(log_run), np.uint64(root_of_unity(log_run)), factors
        kernel.launch(grid_for(runs, THREADS), THREADS, (*read, *given))

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


@lru_cache(maxsize=64)
def _factors(log_run: int, shift: int) -> list[int]:
    """What moves the coefficients of a run to the coset of `shift`, 2^-log_run shift^k; then the values there of the
    polynomial that is 1 at the run's last place and 0 at the others (none on the domain itself)."""
    size, root = 1 << log_run, root_of_unity(log_run)
    share, last = pow(size, -1, P), pow(root, size - 1, P)
    factors = [pow(shift, k, P) * share % P for k in range(size)]
    top = (pow(shift, size, P) - 1) * last * share % P
    points = [(shift * pow(root, a, P) - last) % P for a in range(size)]
    return factors + [top * pow(x, -1, P) % P if x and top else 0 for x in points]


def _alike(numbers: Sequence[int], rules: Sequence[TableRules]) -> list[tuple[list[int], range]]:
    """Consecutive cosets on which the same ones of these rules are evaluated, with the rules' numbers."""
    found: list[tuple[list[int], range]] = []
    for coset in range(max(rules[number].cosets.stop for number in numbers)):
        own = [number for number in numbers if coset in rules[number].cosets]
        if found and coset > 1 and found[-1][0] == own:
            found[-1] = own, range(found[-1][1].start, coset + 1)
        elif own:
            found.append((own, range(coset, coset + 1)))
    return found


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
