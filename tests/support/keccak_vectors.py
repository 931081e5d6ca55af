"""The columns of Keccak's tables by operations on whole columns, which the row functions are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import xor

import numpy as np

from distprove.stark.programs import keccak_rounds
from distprove.stark.programs.keccak_rounds import CONSTANT_BITS, LANES, PI_SOURCE, ROTATIONS, ROUND_CONSTANTS, ROUNDS
from distprove.stark.programs.keccak_slices import COLUMNS, CONSTANT_PLACES, PARTS, PIECES, SLICES, STAGES, START
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

_ONE, _LOW = np.uint64(1), np.uint64(0xFFFFFFFF)
_START = {name: sum(list(keccak_rounds.COLUMNS.values())[:i]) for i, name in enumerate(keccak_rounds.COLUMNS)}
_BITS_AT_ONCE = 8


def rotated(lane: Array, by: int) -> Array:
    return (lane << np.uint64(by)) | (lane >> np.uint64(64 - by)) if by else lane


def fill_rounds(columns: Array, states: Array, backend: Backend) -> None:
    """Do what `keccak_rounds.fill_rounds` does."""
    rows, blocks = columns.shape[1], states.shape[1]
    lanes = backend.empty((60, blocks, ROUNDS))  # A', C', D, out
    state = [states[i] for i in range(LANES)]
    for r in range(ROUNDS):
        before = [reduce(xor, state[x::5]) for x in range(5)]
        added = [before[(x - 1) % 5] ^ rotated(before[(x + 1) % 5], 1) for x in range(5)]
        state = [lane ^ added[i % 5] for i, lane in enumerate(state)]
        for i, lane in enumerate((*state, *(b ^ d for b, d in zip(before, added, strict=True)), *added)):
            lanes[i, :, r] = lane
        moved = [rotated(state[source], ROTATIONS[source]) for source in PI_SOURCE]
        state = [moved[i] ^ (~moved[i // 5 * 5 + (i + 1) % 5] & moved[i // 5 * 5 + (i + 2) % 5]) for i in range(LANES)]
        after_chi = state[0]
        for i, z in enumerate(CONSTANT_BITS):
            columns[_START["chi"] + i][r::ROUNDS] = (after_chi[: -(-(rows - r) // ROUNDS)] >> np.uint64(z)) & _ONE
        state[0] = after_chi ^ np.uint64(ROUND_CONSTANTS[r])
        for i, lane in enumerate(state):
            lanes[35 + i, :, r] = lane
    flat = lanes.reshape(60, blocks * ROUNDS)[:, :rows]
    shifts = backend.to_device(np.arange(64, dtype=np.uint64).reshape(64, 1))
    for i in range(35):  # the bits of A', C' and D have this order in the table too
        for z in range(0, 64, _BITS_AT_ONCE):
            bits = columns[64 * i + z : 64 * i + z + _BITS_AT_ONCE]
            bits[...] = flat[i] >> shifts[z : z + _BITS_AT_ONCE]
            bits &= _ONE
    for i in range(LANES):
        columns[_START["out"] + 2 * i][...] = flat[35 + i] & _LOW
        columns[_START["out"] + 2 * i + 1][...] = flat[35 + i] >> np.uint64(32)
    for r in range(ROUNDS):
        flag = columns[_START["round"] + r]
        flag[...] = 0
        flag[r::ROUNDS] = 1


def chi_preimage(lanes: Sequence[Array]) -> list[Array]:
    """The lanes whose chi are these 25. Of a plane, every third lane follows from the one before, from any start on."""
    out = list(lanes)
    for y in range(0, LANES, 5):
        for i in range(6):
            x = 3 * i % 5
            out[y + x] = lanes[y + x] ^ (out[y + (x + 2) % 5] & ~lanes[y + (x + 1) % 5])
    return out


def fill_slices(columns: Array, states: Array, backend: Backend) -> None:
    """Make what the row function of `keccak_slices` makes."""
    rows, blocks = columns.shape[1], states.shape[1]
    made = backend.zeros((LANES + 5 + LANES + LANES, blocks, STAGES, PARTS))  # B, C, A, A'
    at = backend.to_device(np.arange(0, 64, SLICES, dtype=np.uint64))
    limb = np.uint64((1 << SLICES) - 1)
    state = [states[i] for i in range(LANES)]
    before = chi_preimage(state)
    for stage in range(STAGES):
        parity = [reduce(xor, state[x::5]) for x in range(5)]
        moved = [a ^ parity[(i - 1) % 5] ^ rotated(parity[(i + 1) % 5], 1) for i, a in enumerate(state)]
        for i, lane in enumerate((*before, *parity, *state, *moved)):
            made[i, :, stage] = (lane[:, None] >> at) & limb
        if stage < ROUNDS:
            before = [rotated(moved[source], ROTATIONS[source]) for source in PI_SOURCE]
            state = [
                before[i] ^ (~before[i // 5 * 5 + (i + 1) % 5] & before[i // 5 * 5 + (i + 2) % 5]) for i in range(LANES)
            ]
            state[0] = state[0] ^ np.uint64(ROUND_CONSTANTS[stage])
    flat = made.reshape(len(made), -1)[:, :rows]
    for j in range(SLICES):
        shift = np.uint64(j)
        for lane in range(LANES):
            columns[START["bits"] + SLICES * lane + j] = flat[lane] >> shift & _ONE
        for x in range(5):
            columns[START["parity"] + SLICES * x + j] = flat[LANES + x] >> shift & _ONE
            ones = sum((flat[LANES + 5 + x + 5 * y] >> shift & _ONE for y in range(1, 5)), flat[30 + x] >> shift & _ONE)
            columns[START["carry"] + SLICES * x + j] = ones >> _ONE
    tops = made[LANES : LANES + 5] >> np.uint64(SLICES - 1)
    for x in range(5):
        around = tops[x, :, :, -1:]
        below = backend.zeros(tops[x].shape)
        below[:, :, 1:] = tops[x, :, :, :-1]
        below[:, :, :1] = around
        columns[START["below"] + x] = below.reshape(-1)[:rows]
        columns[START["around"] + x] = around.repeat(PARTS, axis=2).reshape(-1)[:rows]
    index = np.arange(rows)
    part, stages = index % PARTS, index // PARTS % STAGES
    constants = np.array([0, *ROUND_CONSTANTS], dtype=np.uint64)[stages] >> np.asarray(SLICES * part, dtype=np.uint64)
    for i, j in enumerate(CONSTANT_PLACES):
        columns[START["iota"] + i] = flat[LANES + 5] >> np.uint64(j) & _ONE
        columns[START["constant"] + i] = backend.to_device(constants >> np.uint64(j) & _ONE)
    for name, number in (("outer", stages // 5), ("inner", stages % 5), ("slices", part)):
        flags = backend.to_device((np.arange(COLUMNS[name])[:, None] == number).astype(np.uint64))
        for i, flag in enumerate(flags):
            columns[START[name] + i] = flag
    columns[START["stamp"]] = backend.to_device((index // PARTS).astype(np.uint64))
    for k in range(COLUMNS["moved"]):
        columns[START["moved"] + k] = 0
    for k, source, start, length, place in PIECES:
        bits = flat[2 * LANES + 5 + source] >> np.uint64(start) & np.uint64((1 << length) - 1)
        columns[START["moved"] + k] = columns[START["moved"] + k] | bits << np.uint64(place)
