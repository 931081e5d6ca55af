"""The CUDA implementation of `kernels.interface.openvm_stacking`, with the rounds' transcript on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cuda.babybear import poseidon2_constants
from kernels.cuda.device import Device, grid_for, layout
from kernels.cuda.openvm.sponge import SPONGE, resumed, written
from kernels.cuda.openvm.sums import THREADS, GridSums
from kernels.errors import SizeError
from kernels.host.babybear import canonical, montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_stacking import StackedClaims, StackedPiece, StackedRounds, StackingKernels, no_rounds
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import DEGREE, Elements
from kernels.maths.babybear_ntt import log2_of
from kernels.source import KernelSource

SOURCE = KernelSource("openvm_stacking", (("THREADS", str(THREADS)),))
COLUMNS = 64
"""Columns of a tile for each of its threads. Must equal that in openvm_stacking.cu, as the next two."""
LOG_TILE = 12
"""log2 of the cells of a tile of `openvm_bind_runs`."""
ROUNDS = 32
"""Most rounds."""
MAX_LOG_RUN = 8

PIECE = layout(("u8", "cells first_tile first_item place"), ("u4", "width log_rows kind claim reads_next unused"))
"""`struct Piece`."""
STATE = np.dtype(
    [
        ("sponge", SPONGE),
        ("unused", np.uint32, 2),
        ("drawn", np.uint32, (ROUNDS, DEGREE)),
        ("sent", np.uint32, (ROUNDS, 2, DEGREE)),
    ]
)
"""`struct PairState`."""


class CudaStacking(StackingKernels):
    """The kernels of one device, on its compute stream."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def claims(
        self,
        stacks: Sequence[Array],
        log_skip: int,
        pieces: Sequence[StackedPiece],
        point: Sequence[Elements],
        batch: Elements,
    ) -> CudaStackedClaims:
        if log_skip > MAX_LOG_RUN:
            raise SizeError(f"runs of 2^{log_skip} cells; at most 2^{MAX_LOG_RUN}")
        return CudaStackedClaims(self._device, stacks, log_skip, pieces, point, batch)


class CudaStackedClaims(StackedClaims):
    """Claims about arrays on the device."""

    def __init__(
        self,
        device: Device,
        stacks: Sequence[Array],
        log_skip: int,
        pieces: Sequence[StackedPiece],
        point: Sequence[Elements],
        batch: Elements,
    ) -> None:
        self._device, self._log_skip, self._stacks = device, log_skip, list(stacks)
        self._width, self._log_runs = sum(int(stack.shape[0]) for stack in stacks), 0
        if stacks:
            self._log_runs = log2_of(int(stacks[0].shape[1])) - log_skip
        self._kinds = 1 + max((piece.kind for piece in pieces), default=-1)
        self._claims = sum(piece.width for piece in pieces)
        records = []
        firsts = np.cumsum([0, *(int(stack.shape[0]) << self._log_runs for stack in stacks)])
        self._tiles = self._items = 0
        for piece in pieces:
            address = device.address(stacks[piece.stack]) + 4 * piece.start
            place = int(firsts[piece.stack]) + (piece.start >> log_skip)
            cells = address, self._tiles, self._items, place
            records.append((*cells, piece.width, piece.log_rows, piece.kind, piece.claim, piece.reads_next, 0))
            log_across = min(piece.log_rows, log2_of(THREADS))
            across = -(-piece.width // (COLUMNS * (THREADS >> log_across)))
            self._tiles += across << (piece.log_rows - log_across)
            self._items += piece.width << (piece.log_rows - log_skip)
        self._pieces, self._count = device.upload(np.array(records, dtype=PIECE).view(np.uint8)), np.uint32(len(pieces))

        bits = max((piece.log_rows - log_skip for piece in pieces), default=0)
        coordinates = np.stack([*point[:bits], batch])
        loaded = device.upload(montgomery(coordinates))
        self._eq = device.empty((2 << bits, DEGREE), np.uint32)
        self._items_of("openvm_eq_prefixes", 2 << bits, (loaded, self._eq, np.uint32(bits)))
        self._scales = device.empty((max(1, 2 * self._claims), DEGREE), np.uint32)
        self._items_of("openvm_powers", 2 * self._claims, (loaded[bits:], self._scales, np.uint64(2 * self._claims)))
        self._values: Array = None
        self._weights: Array = None

    def sums(self) -> Elements:
        run = 1 << self._log_skip
        out = self._device.zeros((self._kinds, 3, run, DEGREE), np.uint64)
        if self._tiles:
            kernel = self._device.kernel(SOURCE, "openvm_run_sums")
            blocks = min(self._tiles, max(1, kernel.blocks_per_sm(THREADS)) * self._device.sm_count)
            sizes = self._count, np.uint64(self._tiles), np.uint32(self._log_skip)
            kernel.launch(blocks, THREADS, (self._pieces, *sizes, self._eq, self._scales, out))
        return canonical(self._device.download(out))

    def bind(self, at_rows: Elements, factors: Elements) -> None:
        device, runs = self._device, self._width << self._log_runs
        self._values = device.empty((runs, DEGREE), np.uint32)
        weights, first = device.upload(montgomery(at_rows)), 0
        kernel = device.kernel(SOURCE, "openvm_bind_runs")
        for stack in self._stacks:
            words, own = int(stack.size), int(stack.size) >> self._log_skip
            if words:
                out = self._values[first : first + own]
                sizes = np.uint64(words), weights, out, np.uint32(self._log_skip)
                kernel.launch(grid_for(words, 1 << LOG_TILE), THREADS, (stack, *sizes))
            first += own
        self._stacks = []

        loaded, scales = device.upload(montgomery(factors)), self._scales
        given = self._pieces, self._count, loaded, scales, np.uint64(self._claims)
        self._items_of("openvm_column_factors", self._claims, given)
        self._weights = device.zeros((runs, DEGREE), np.uint32)
        places = self._pieces, self._count, np.uint64(self._items), np.uint32(self._log_skip)
        self._items_of("openvm_stacked_weights", self._items, (*places, self._eq, scales, self._weights))

    def rounds(self, sponge: Sponge) -> StackedRounds:
        device, count = self._device, self._log_runs
        if count > ROUNDS:
            raise SizeError(f"{count} rounds; at most {ROUNDS}")
        state = np.zeros((), dtype=STATE)
        state["sponge"] = written(sponge)
        kept = device.upload(state.reshape(1).view(np.uint32))
        permutes, launches = device.upload(poseidon2_constants()), GridSums(device, SOURCE, "openvm_pair_round", 2)
        values, weights = self._values, self._weights
        self._values = self._weights = None
        # A fold goes to memory of half the size; the next one to that of the table before.
        spare = [device.empty((max(1, len(values) // 2), DEGREE), np.uint32) for _ in range(2)] if count else []
        for round_ in range(count):
            pairs = self._width << (count - 1 - round_)
            given = (values, weights, *spare, np.uint64(pairs), np.uint32(round_), kept, permutes)
            launches.launch(pairs, given)
            if round_:
                values, weights, spare = *spare, [values, weights]
        if count:
            opened = device.empty((self._width, DEGREE), np.uint32)
            last = np.uint64(self._width), np.uint32(count - 1), kept
            self._items_of("openvm_last_fold", self._width, (values, opened, *last))
            values = opened

        openings = canonical(device.download(values))
        found = device.download(kept).view(STATE)[0]
        resumed(sponge, found["sponge"])
        drawn = tuple(canonical(found["drawn"][:count]))
        rounds = canonical(found["sent"][:count]) if count else no_rounds()
        return StackedRounds(rounds, drawn, openings)

    def _items_of(self, name: str, items: int, args: tuple[object, ...]) -> None:
        if items:
            self._device.kernel(SOURCE, name).launch(grid_for(items, THREADS), THREADS, args)
