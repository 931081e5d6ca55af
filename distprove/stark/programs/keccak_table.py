"""A table of Keccak-f[1600] that other tables of a program call over a bus."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from distprove.stark.air import Air, Bus, Table
from distprove.stark.programs.keccak_rounds import LANES, ROUNDS
from distprove.stark.programs.keccak_slices import (
    COLUMNS,
    CONSTANT_PLACES,
    FLAGS,
    ROWS_EACH,
    SLICES,
    START,
    WIDTH,
    blocks_for,
    constrain_slices,
    fill_slices,
    rows_for,
    total,
)
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

KECCAK = Bus("keccak", 3 + LANES)
"""(call, end, part, 25 numbers): bits 16 part to 16 part + 15 of each lane, of the input where `end` is 0 and of the
result where it is 1. Whoever calls receives the four parts of either, all with one `call`, whichever it is."""


class KeccakTable(Air):
    """A table of permutations, each of which sends its input and its result on `KECCAK`.

    The program has the buses `KECCAK` and `MOVED`. This table numbers the calls, so whoever receives both ends of one
    call has input and result of one permutation. What is received has 16 bits, and needs no range check.
    """

    name = "keccak"
    main: Mapping[str, int] = MappingProxyType({**COLUMNS, **FLAGS, "on": 1, "limbs": LANES})

    def define(self, t: Table) -> None:
        slices = constrain_slices(t, ("on",))
        for lane, limb in enumerate(t.this.limbs):
            t.always(limb - slices.number(lane), f"limb {lane}")
        part = total(flag * s for s, flag in enumerate(t.this.slices))
        call = t.this.stamp - ROUNDS * slices.closes
        times = slices.begins + slices.closes
        t.boolean(times)
        t.send(KECCAK, [call, slices.closes, part, *t.this.limbs], times=times)


def keccak_table(backend: Backend, states: Array) -> Array:
    """The columns of `KeccakTable` for permutations of these initial states, lanes (25, n) in the backend's memory."""
    used = states.shape[1]
    rows = rows_for(used)
    padded = backend.zeros((LANES, blocks_for(rows)))
    padded[:, :used] = states
    columns = backend.zeros((WIDTH + len(FLAGS) + 1 + LANES, rows))
    fill_slices(columns, padded, used, backend)
    columns[WIDTH + len(FLAGS), : ROWS_EACH * used] = 1
    first = WIDTH + len(FLAGS) + 1
    bits = columns[: SLICES * LANES]
    for lane in range(LANES):
        y, x = divmod(lane, 5)
        for j in range(SLICES):
            a, b, c = (bits[SLICES * ((x + i) % 5 + 5 * y) + j] for i in range(3))
            bit = a ^ (c & ~b)
            if lane == 0 and j in CONSTANT_PLACES:
                bit = columns[START["iota"] + CONSTANT_PLACES.index(j)]
            columns[first + lane] |= bit << np.uint64(j)
    return columns
