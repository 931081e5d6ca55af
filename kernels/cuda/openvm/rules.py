"""The CUDA implementation of `kernels.interface.openvm_rules.OpenVmRules`. The kernels are in
`cuda/src/openvm_rules.cu`: all traces in one launch, or in one for each number of cosets."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.babybear import poseidon2_constants
from kernels.cuda.device import Argument, ByValue, Device, Kernel, grid_for
from kernels.cuda.openvm.bound_code import Bound, Indices, Words, bind, cell_addresses, starts_of
from kernels.cuda.openvm.coset_moves import COSETS, USUAL_LOG_RUN, factors_of, on_cosets
from kernels.cuda.openvm.graph_code import GraphCode
from kernels.cuda.openvm.split_forms import BoundSplit, SplitForms
from kernels.cuda.openvm.sponge import SPONGE, resumed, written
from kernels.errors import SizeError
from kernels.host.babybear import canonical, montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_rules import (
    BoundForms,
    GraphProgram,
    OpenVmRules,
    RuleRounds,
    RuleTable,
    extrapolation,
    node_weights,
)
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import Elements, P, add, ext_inverse, ext_one, sub
from kernels.source import KernelSource

RULES = KernelSource("openvm_rules")
THREADS = 128
"""Threads of a block. Must equal that in openvm_rules.cu, as the next six."""
ROWS = 4
"""Rows of a thread of `openvm_fractions`."""
MOST_POINTS = 64
"""Greatest degree of a round over the cube, less that of eq."""
OPENED_RUNS = 32
"""Runs of a thread of `openvm_open`."""
MAX_LOG_RUN = 5
"""log2 of the longest run: it lies in a warp."""
SUMS = 3
"""Most forms of `openvm_cosets`."""
COSET_ROWS = 4
"""Rows of a thread of `openvm_cosets`."""

PIECE, ROUND_PIECE = 1 << 11, 192
"""Weight of a piece of code for rows of a trace, and for the rounds over the cube. A round of few rows takes as long as
one piece."""
NEAR, COSET_NEAR = 28, 16
"""Most near slots, and those of code on cosets, whose slots are twice as large: a multiprocessor holds three blocks."""
STATE = np.dtype([("sponge", SPONGE), *((name, np.uint32, 4) for name in ("claim", "scale", "tail", "last"))])
"""`struct RoundState` of openvm_rules.cu."""
ITEM_WEIGHT, MOST_TILES = 1 << 12, 4
"""Weight for which a block takes several tiles as one item, and most of these: its sums are written once for all."""
FEW = 4
"""Tables that need one coset are summed on two, with the others, if they are less than 1 / FEW of the work."""
WARP, WARP_ITEMS, WARP_TILES = 32, 8, 32
"""Threads that take an item of a round over the cube together. With more than WARP_ITEMS items for each of the warps
that the device holds at a time, an item has several tiles, at most WARP_TILES."""
BLOCK_SHARED = 1 << 10
"""Bytes of shared memory that the driver takes for a block."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a launch, whose items blocks take one after the other: those of the heaviest task first."""

    words: Words
    """(tasks, words of a task)"""
    items: int

    @classmethod
    def of(cls, weights: Indices, items: Indices, before: Words, after: Words | None = None) -> Tasks:
        """Make tasks of so many items each. A task's words are `before` (tasks, n), its first item, and `after`."""
        order = np.argsort(-weights, kind="stable")
        ends = np.cumsum(items[order], dtype=np.int64)
        first = (ends - items[order]).astype(np.uint64)
        parts = [before[order], first[:, None], *([] if after is None else [after[order]])]
        return cls(np.concatenate(parts, axis=1), grid_for(int(ends[-1]), 1) if len(ends) else 0)

    def __len__(self) -> int:
        return len(self.words)


class CudaRules(OpenVmRules):
    """The kernels of one device, on its compute stream."""

    piece, round_piece, near, coset_near, warp_items = PIECE, ROUND_PIECE, NEAR, COSET_NEAR, WARP_ITEMS

    def __init__(self, device: Device) -> None:
        self.device = device
        self._codes: weakref.WeakKeyDictionary[GraphProgram, tuple[GraphCode, Array]] = weakref.WeakKeyDictionary()
        self._split: weakref.WeakKeyDictionary[GraphProgram, SplitForms] = weakref.WeakKeyDictionary()

    def fractions(
        self,
        tables: Sequence[RuleTable],
        forms: Sequence[BoundForms],
        starts: Sequence[int],
        count: int,
        log_skip: int,
    ) -> tuple[Array, Array]:
        bound = self.bind(tables, forms, piece=self.piece, near=self.near, whole_forms=True)
        places = starts_of([len(own) for own in bound.constants])
        no_constants = np.zeros((1, 4), dtype=np.uint32)
        constants = self.device.upload(montgomery(np.concatenate([*bound.constants, no_constants])))
        of_table = (self.device.address(constants) + 16 * places[:-1], *rows_and_masks(tables, log_skip), starts)
        of_pieces = np.array(of_table, dtype=np.int64)[:, bound.tables]
        items = -(-of_pieces[1] // (THREADS * ROWS))
        tasks = Tasks.of(bound.weights, items, np.concatenate((bound.programs, of_pieces.T.astype(np.uint64)), axis=1))
        out = self.device.empty((count,), np.uint32), self.device.empty((count, 4), np.uint32)
        if tasks.items:
            self.run("openvm_fractions", tasks, bound, ROWS, lambda given, _: (*given, *out))
        return out

    def rounds(self, tables: Sequence[RuleTable], log_skip: int, point: Elements) -> RuleRounds:
        if log_skip > MAX_LOG_RUN:
            raise SizeError(f"a univariate round over 2^{log_skip} points; the GPU has at most 2^{MAX_LOG_RUN}")
        return CudaRounds(self, tables, log_skip, point)

    # -- code ---------------------------------------------------------------------------------------------------------

    def bind(
        self,
        tables: Sequence[RuleTable],
        forms: Sequence[BoundForms],
        *,
        piece: int,
        near: int,
        whole_forms: bool = False,
        by_number: bool = False,
    ) -> Bound:
        """Bring the code of some tables to the device. Loads are cells, or with `by_number` numbers of cells."""
        codes = [self._code(own.program, piece, near, whole_forms) for own in forms]
        return bind(self.device, tables, codes, forms, by_number=by_number)

    def _code(self, program: GraphProgram, piece: int, near: int, whole_forms: bool) -> tuple[GraphCode, Array]:
        """A program's code, and its instructions on the device, made once."""
        found = self._codes.get(program)
        if found is None:
            code = GraphCode(program, piece, near, whole_forms)
            instructions = code.code if code.code.size else np.zeros(1, dtype=np.uint64)
            found = self._codes[program] = code, self.device.upload(instructions)
        return found

    def split(self, program: GraphProgram) -> SplitForms:
        """A program's linear terms and its other ones, made once."""
        found = self._split.get(program)
        if found is None:
            found = self._split[program] = SplitForms(program)
        return found

    def run(
        self,
        name: str,
        tasks: Tasks,
        bound: Bound,
        words: int,
        arguments: Callable[[tuple[Argument, ...], np.uint32], tuple[Argument, ...]],
        *,
        shared_words: int = 0,
    ) -> None:
        """Launch a kernel over tasks, with slots of so many words. `arguments` makes its arguments from the tasks and
        their numbers, and the words of the near slots. The far slots and the counter of items follow."""
        held = self.device.upload(tasks.words)
        kernel = self.device.kernel(RULES, name)
        near, blocks, shared, far = self.slots(kernel, bound, words, tasks.items, shared_words)
        given = arguments((held, np.uint32(len(tasks)), np.uint32(tasks.items)), near)
        kernel.launch(blocks, THREADS, (*given, *far, self.device.zeros((1,), np.uint32)), shared=shared)

    def slots(
        self, kernel: Kernel, bound: Bound, words: int, items: int, shared_words: int = 0
    ) -> tuple[np.uint32, int, int, tuple[Array, np.uint64]]:
        """The words of the near slots, the number of blocks, the bytes of their shared memory, and the far slots with
        their words for each block."""
        near, far = (count * words * THREADS for count in (bound.near, bound.far))
        shared = 4 * (near + shared_words)
        if shared + kernel.resources.shared > self.device.shared_limit:
            raise SizeError(f"{shared} bytes of shared memory; a block has {self.device.shared_limit}")
        room = (self.device.shared_limit + BLOCK_SHARED) // (shared + kernel.resources.shared + BLOCK_SHARED)
        blocks = min(items, max(1, min(room, kernel.blocks_per_sm(THREADS))) * self.device.sm_count)
        memory = self.device.empty((max(1, blocks * far),), np.uint32)
        return np.uint32(near), blocks, shared, (memory, np.uint64(far))


class CudaRounds(RuleRounds):
    """The tables of one sumcheck."""

    def __init__(self, rules: CudaRules, tables: Sequence[RuleTable], log_skip: int, point: Elements) -> None:
        self._rules, self._device, self._tables, self._log_skip = rules, rules.device, tables, log_skip
        self._variables = [(table.rows(log_skip) >> log_skip).bit_length() - 1 for table in tables]
        self._heap = self._eq_heap(point)
        """eq of the coordinates of the variables that are not bound: level k is entries 2^k to 2^(k + 1)."""
        self._point = point
        self._bound: Elements = np.zeros((0, 4), dtype=np.uint32)
        """The challenges of the rounds over the cube."""
        self._weights: ByValue | None = None
        self._form: Bound | None = None
        self._cells: Array = None
        """For each table with variables left, and those whose last one was bound, the cells of its form."""
        self._first: Indices = np.zeros(0, dtype=np.int64)
        """Where each table's cells begin when no variable is bound."""

    def _name(self, name: str) -> str:
        return f"{name}_of_16" if self._log_skip == USUAL_LOG_RUN else name

    def _eq_heap(self, point: Elements) -> Array:
        n = len(point)
        heap = self._device.empty((2 << n, 4), np.uint32)
        on_device = self._device.upload(montgomery(point) if n else np.zeros((1, 4), dtype=np.uint32))
        self._device.kernel(RULES, "openvm_eq_heap").launch_items(2 << n, (on_device, heap, np.uint32(n)))
        return heap

    # -- the univariate round -----------------------------------------------------------------------------------------

    def coset_sums(self, forms: Sequence[BoundForms], counts: Indices) -> Elements:
        if counts.shape[1] != SUMS:
            raise SizeError(f"{counts.shape[1]} forms of a table, not {SUMS}")
        rules, splits = self._rules, [self._rules.split(own.program) for own in forms]
        # 1. Terms that are linear in cells are summed in the rows, the others on cosets: these first, as the host binds
        #    the linear ones while the device is at work.
        bound_split = BoundSplit(splits, forms)
        others = rules.bind(self._tables, bound_split.others(), piece=rules.piece, near=rules.coset_near)
        here = np.array([own.on_cosets for own in splits], dtype=bool).reshape(-1, SUMS)
        cosets = self._joined_launches(others, np.where(here, counts, 0).max(axis=1, initial=0))
        words = SUMS * 4 << self._log_skip
        """Sums of a table in the rows, or on one coset."""
        ends = starts_of(words * (1 + cosets))
        begins, sums = ends[:-1], self._device.zeros((max(1, int(ends[-1])),), np.uint64)
        for first in range(0, int(cosets.max(initial=0)), COSETS):
            self._sum_on_cosets(others, cosets, begins + words * (1 + first), sums, first)
        linear = rules.bind(self._tables, bound_split.linear(), piece=rules.piece, near=rules.near)
        self._sum_in_rows(linear, counts.max(axis=1) > 0, begins, sums)
        # 2. Move the linear sums to the cosets, and add all up. eq sums to 1 over the cube: a constant is added once.
        constants = add(np.stack(linear.constants), np.stack(others.constants))[:, :, None, None]
        found, most = canonical(self._device.download(sums)), int(counts.max(initial=0))
        in_rows = found[np.add.outer(begins, np.arange(words))].reshape(len(counts), SUMS, -1, 4)
        result = add(on_cosets(in_rows, most), constants)
        for count in sorted({*cosets.tolist()} - {0}):
            own = np.flatnonzero(cosets == count)
            parts = found[np.add.outer(begins[own] + words, np.arange(words * count))]
            for first in range(0, count, COSETS):
                there, part = slice(first, first + COSETS), parts[:, words * first : words * (first + COSETS)]
                before, added = result[own, :, there], part.reshape(len(own), SUMS, -1, *in_rows.shape[2:])
                result[own, :, there] = add(before, added[:, :, : before.shape[2]])
        return result

    def _joined_launches(self, bound: Bound, cosets: Indices) -> Indices:
        """The cosets of each table, 2 in place of 1 for a few tables: a launch of their own would take longer."""
        rows, _ = rows_and_masks(self._tables, self._log_skip)
        work = np.bincount(bound.tables, bound.weights, len(rows)) * rows
        single = cosets == 1
        return np.where(single & (FEW * work[single].sum() < work.sum()), 2, cosets)

    def _sum_in_rows(self, bound: Bound, chosen: NDArray[np.bool_], begins: Indices, sums: Array) -> None:
        """Add the sums of the chosen tables, over the cube in their rows, to words of `sums` from `begins` on."""
        tasks = self._tasks(bound, chosen, self._device.address(sums) + 8 * begins, ROWS)
        if tasks.items:
            log_run, kept = np.uint32(self._log_skip), THREADS // 32 * SUMS * (4 << self._log_skip)
            name = self._name("openvm_rows")
            self._rules.run(name, tasks, bound, ROWS, lambda given, near: (*given, log_run, near), shared_words=kept)

    def _sum_on_cosets(self, bound: Bound, counts: Indices, begins: Indices, sums: Array, first: int) -> None:
        """Add the sums on at most COSETS cosets from number `first` on: one launch for each number of cosets."""
        to, left = self._device.address(sums) + 8 * begins, np.clip(counts - first, 0, COSETS)
        factors, log_run = self._device.upload(factors_of(self._log_skip, first)), np.uint32(self._log_skip)
        for cosets in sorted({*left.tolist()} - {0}, reverse=True):
            tasks = self._tasks(bound, left == cosets, to, COSET_ROWS)
            if tasks.items:
                kept = THREADS // 32 * SUMS * cosets * (4 << self._log_skip)
                self._rules.run(
                    self._name(f"openvm_cosets_{cosets}"),
                    tasks,
                    bound,
                    cosets * COSET_ROWS,
                    lambda given, near: (*given, factors, log_run, near),
                    shared_words=kept,
                )

    def _tasks(self, bound: Bound, chosen: NDArray[np.bool_], to: Indices, thread_rows: int) -> Tasks:
        """The pieces of the code of the chosen tables as `CosetTask`, whose threads take so many rows. `to` has the
        address of each table's sums."""
        pieces = chosen[bound.tables]
        tables, weights, tile = bound.tables[pieces], bound.weights[pieces], thread_rows * THREADS
        eq = self._device.address(self._heap) + (16 << np.array(self._variables, dtype=np.int64))
        rows, masks = rows_and_masks(self._tables, self._log_skip)
        most = np.minimum(ITEM_WEIGHT // np.maximum(weights, 1), -(-rows[tables] // tile))
        tiles = np.clip(most, 1, MOST_TILES)
        own = np.stack((rows, masks, eq, to))[:, tables].T.astype(np.uint64)
        items, before = -(-rows[tables] // (tiles * tile)), np.concatenate((bound.programs[pieces], own), axis=1)
        return Tasks.of(tiles * weights, items, before, tiles.astype(np.uint64)[:, None])

    # -- the rounds over the cube -------------------------------------------------------------------------------------

    def bind_univariate(self, weights: Elements, forms: Sequence[BoundForms]) -> None:
        rules = self._rules
        bound = rules.bind(self._tables, forms, piece=rules.round_piece, near=rules.near, by_number=True)
        self._form = bound
        padded = np.zeros((1 << MAX_LOG_RUN, 4), dtype=np.uint32)
        padded[: len(weights)] = montgomery(weights)
        self._weights = ByValue(padded)
        joined, variables = bound.joined, np.array(self._variables, dtype=np.int64)
        runs = np.left_shift(1, variables)[joined.cell_tables]
        _, masks = rows_and_masks(self._tables, self._log_skip)
        out, blocks = starts_of(runs), starts_of(-(-runs // THREADS))
        self._first = out[joined.cell_starts[:-1]]
        self._cells = self._device.empty((max(1, int(out[-1])), 4), np.uint32)
        if len(runs):
            given = np.stack(
                (
                    cell_addresses(self._device, self._tables, joined),
                    joined.cell_kinds,
                    *(own.astype(np.uint64) for own in (masks[joined.cell_tables], runs, out[:-1], blocks[:-1])),
                ),
                axis=1,
            )
            held, kernel = self._device.upload(given), self._device.kernel(RULES, self._name("openvm_bind_runs"))
            sizes = np.uint32(len(given)), self._cells, np.uint32(self._log_skip)
            kernel.launch(grid_for(int(blocks[-1]), 1), THREADS, (held, *sizes, self._weights))

    def prove(self, sponge: Sponge, claim: Elements, points: int) -> tuple[Elements, Elements]:
        assert self._form is not None
        if points > MOST_POINTS:
            raise SizeError(f"rounds of the degree {points}; the GPU has at most {MOST_POINTS}")
        rounds, known = max(self._variables, default=0), points + 1
        if not rounds:
            return np.zeros((0, known, 4), dtype=np.uint32), np.zeros((0, 4), dtype=np.uint32)
        # 1. What the rounds share. All of them are queued, and their transcript is on the device.
        tasks = _Rounds(self._rules, self._form, self._variables, self._first, points)
        state = np.zeros((), dtype=STATE)
        state["sponge"], state["claim"], state["scale"] = written(sponge), montgomery(claim), montgomery(ext_one())
        words = 4 * -(-STATE.itemsize // 16)  # elements of the extension are read as vectors
        ends = np.cumsum([0, words, 4 * rounds, 4 * rounds * known]).tolist()
        shared = np.zeros(ends[-1], dtype=np.uint32)
        shared[: STATE.itemsize // 4] = np.frombuffer(state.tobytes(), dtype=np.uint32)
        held = self._device.upload(shared)
        drawn = held[ends[1] : ends[2]].reshape(rounds, 4)
        sent = held[ends[2] :].reshape(rounds, known, 4)
        inverses = ext_inverse(sub(ext_one(), self._point))
        facts = self._device.upload(montgomery(np.stack((self._point, inverses, *tasks.added), axis=1)))
        factors = self._device.upload(montgomery(np.stack((extrapolation(known), node_weights(known)))))
        constants = self._device.upload(poseidon2_constants())
        kernel = self._device.kernel(RULES, "openvm_end_round")
        # 2. The rounds.
        for number in range(rounds):
            tasks.sum(number, self._cells, self._heap)
            own = facts[number], factors, tasks.sums[number], np.uint32(points), sent[number], drawn[number]
            kernel.launch(1, WARP, (constants, held, *own))
            if number + 1 < rounds:
                self._bind(number, drawn[number])
        # 3. What they sent and drew.
        found = self._device.download(held)
        resumed(sponge, np.frombuffer(found.tobytes(), dtype=STATE, count=1)[0]["sponge"])
        messages = canonical(found[ends[1] :])
        self._bound = messages[: 4 * rounds].reshape(rounds, 4)
        return messages[4 * rounds :].reshape(rounds, known, 4), self._bound

    def _bind(self, number: int, at: Array) -> None:
        """Bind the first variable of all tables that have one left in a round."""
        assert self._form is not None
        pairs = sum(
            len(code.cells) << (n - number - 1)
            for code, n in zip(self._form.joined.codes, self._variables, strict=True)
            if n > number
        )
        heap_pairs = 1 << (max(self._variables) - number)
        out, heap = (self._device.empty((max(1, size), 4), np.uint32) for size in (pairs, heap_pairs))
        given = self._cells, out, np.uint64(pairs), self._heap, heap, np.uint64(heap_pairs), at
        self._device.kernel(RULES, "openvm_bind").launch_items(max(pairs, heap_pairs), given)
        self._cells, self._heap = out, heap

    # -- openings -----------------------------------------------------------------------------------------------------

    def openings(self, reads_next: Sequence[bool]) -> list[dict[int, Elements]]:
        assert self._weights is not None
        heap = self._eq_heap(self._bound)
        eq, parts, begins, blocks, values = self._device.address(heap), [], list[int](), 0, 0
        for table, n, further in zip(self._tables, self._variables, reads_next, strict=True):
            for columns in table.parts.values():
                begins.append(values)
                width = int(columns.shape[0])
                chunks = grid_for(1 << n, THREADS * OPENED_RUNS)
                place = [self._device.address(columns), table.height - 1, 1 << n, chunks, eq + (16 << n)]
                if width:
                    parts.append([*place, values, int(further), blocks])
                blocks, values = blocks + width * chunks, values + width * (1 + further)
        sums = self._device.zeros((max(1, values), 4), np.uint64)
        if blocks:
            held = self._device.upload(np.array(parts, dtype=np.uint64))
            kernel = self._device.kernel(RULES, self._name("openvm_open"))
            sizes = np.uint32(len(parts)), sums, np.uint32(self._log_skip)
            kernel.launch(grid_for(blocks, 1), THREADS, (held, *sizes, self._weights))
        found = canonical(self._device.download(sums))
        opened, at = [], iter(begins)
        for table, further in zip(self._tables, reads_next, strict=True):
            own = {}
            for part, columns in table.parts.items():
                width, begin = int(columns.shape[0]), next(at)
                own[part] = found[begin : begin + width * (1 + further)].reshape(width, 1 + further, 4)
            opened.append(own)
        return opened


class _Rounds:
    """The tasks of all rounds over the cube, made and brought to the device once."""

    def __init__(self, rules: CudaRules, bound: Bound, variables: Sequence[int], first: Indices, points: int) -> None:
        self._device = rules.device
        rounds = max(variables, default=0)
        at = np.array([*((point + 1 << 32) % P for point in range(points)), 0], dtype=np.uint64)
        """The first variable of each sum. The last one is of the single entry of a table without variables."""
        of_tables = np.stack((first, np.array(variables, dtype=np.int64))).T.astype(np.uint64)
        of_pieces = np.concatenate((bound.programs, of_tables[bound.tables]), axis=1)
        of_sums = np.stack((at, np.arange(points + 1, dtype=np.uint64)), axis=1)
        words = np.concatenate(
            (np.repeat(of_pieces, points + 1, axis=0), np.tile(of_sums, (len(of_pieces), 1))), axis=1
        )
        left = words[:, 6].astype(np.int64) - np.arange(rounds)[:, None]
        """Variables of each task in each round."""
        pairs = 1 << np.maximum(left - 1, 0)
        kernel = self._kernel = self._device.kernel(RULES, "openvm_round")
        resident = kernel.blocks_per_sm(THREADS) * (THREADS // WARP) * self._device.sm_count
        work = np.where(left > 0, -(-pairs // WARP), 0).sum(axis=1)
        self._tiles = np.clip(work // max(1, rules.warp_items * resident), 1, WARP_TILES)
        """Tiles of an item in each round: enough items for all warps, and few sums to write."""
        tiled = -(-pairs // (WARP * self._tiles[:, None]))
        items = np.where(words[:, 8] == points, left == 0, (left > 0) * tiled)
        starts = np.zeros((rounds, len(words) + 1), dtype=np.uint32)
        np.cumsum(items, axis=1, out=starts[:, 1:])
        self._items: list[int] = starts[:, -1].tolist()
        self._count = np.uint32(len(words))
        self._tasks, self._starts = self._device.upload(words), self._device.upload(starts)
        self.sums = self._device.zeros((rounds, points + 1, 4), np.uint64)
        self._next = self._device.zeros((rounds,), np.uint32)
        most = grid_for(max(1, *self._items), THREADS // WARP)
        _, self._blocks, self._shared, self._far = rules.slots(kernel, bound, 4, most)
        self._bound = bound
        constants = np.array([constants[0] for constants in bound.constants], dtype=np.int64).reshape(-1, 4)
        counts = np.array(variables, dtype=np.int64)
        left = counts - np.arange(rounds)[:, None]
        self.added = tuple(
            np.asarray((chosen @ constants) % P).astype(np.uint32)
            for chosen in ((left > 0).astype(np.int64), (left == 0).astype(np.int64))
        )
        """What the constants of the forms add in each round, (rounds, 4): to the sums, and to that of tables without
        variables. eq sums to 1."""

    def sum(self, number: int, cells: Array, heap: Array) -> None:
        """Queue the sums of a round, with the first variable at 1, 2, ..., and of the tables without variables."""
        if items := self._items[number]:
            sizes = self._count, np.uint32(number), np.uint32(self._tiles[number])
            given = self._tasks, self._starts[number], *sizes, cells, heap, self.sums[number]
            blocks = min(grid_for(items, THREADS // WARP), self._blocks)
            rest = *self._far, self._next[number : number + 1]
            self._kernel.launch(blocks, THREADS, (*given, *rest), shared=self._shared)


def rows_and_masks(tables: Sequence[RuleTable], log_skip: int) -> tuple[Indices, Indices]:
    """The rows of each table with repetitions, and those without, less one."""
    heights = np.array([table.height for table in tables], dtype=np.int64)
    return np.maximum(heights, 1 << log_skip), heights - 1
