"""Programs of the synthesis family at random, and what a backend makes of their instances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.interface.backend import Backend
from kernels.interface.synthesis import SHA256_ONE, Bits, Instances, Products, Program, Sha256Block
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

LANES, PLACEMENTS, BATCH = 5, 2, 3
KEPT = 822
"""Values that hash/sha256.h keeps of a block."""


def products(field: Field, inputs: int, own: int, seed: int) -> Products:
    """Products, sums alone and squares of up to 20 terms."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 20, 3 * own)
    lengths[0::3][rng.random(own) < 0.3] = 0  # then there is only c
    columns = [rng.integers(0, 1 + inputs + row // 3, length) for row, length in enumerate(lengths)]
    values = field_from_ints(field, [1, -1, 2, 0, *(int(v) ** 4 for v in rng.integers(1, 2**63, 9))])
    index = rng.integers(0, len(values), int(lengths.sum()))
    row_ptr = np.concatenate([[0], np.cumsum(lengths)])
    unsigned = (array.astype(np.uint32) for array in (row_ptr, np.concatenate(columns), index))
    return Products(field, inputs, *unsigned, values)


def bits_of(field: Field, inputs: int, shift: int, own: int, seed: int) -> Bits:
    """Bits of a combination of some terms."""
    made = products(field, inputs, 1, seed)
    first, last = made.row_ptr[2:4].tolist()
    ends = np.array([0, last - first], dtype=np.uint32)
    columns, index = made.columns[first:last], made.value_index[first:last]
    return Bits(field, inputs, ends, columns, index, made.values, shift, own)


def sha256_block(field: Field, own: int, seed: int) -> Sha256Block:
    """A block of 600 inputs among known bits, with wires for any bits of any values."""
    rng = np.random.default_rng(seed)
    sources = rng.integers(SHA256_ONE, 0, 768).astype(np.int32)
    sources[rng.permutation(768)[:600]] = np.arange(600)
    bits = rng.integers(0, KEPT, own) << 8 | rng.integers(0, 36, own) << 1 | rng.integers(0, 2, own)
    return Sha256Block(field, 600, sources, bits.astype(np.uint32))


def instances(program: Program, seed: int) -> tuple[int, Instances]:
    """Instances whose inputs are the constant one, a wire for all lanes, and runs forwards and backwards; and how many
    wires there are."""
    rng = np.random.default_rng(seed)
    given = 1 + 3 * LANES
    runs = np.empty((PLACEMENTS, program.inputs, 2), dtype=np.int64)
    for run in runs.reshape(-1, 2):
        stride = int(rng.integers(-2, 3))
        low = 1 + 2 * (LANES - 1) if stride < 0 else 0
        run[:] = rng.integers(low, given - (LANES - 1) * max(stride, 0)), stride
    steps = program.own + np.arange(PLACEMENTS, dtype=np.int64)  # one after the other, then with a wire between them
    first = given + 2 + np.cumsum([0, *LANES * steps[:-1] + 1])
    count = int(first[-1] + (LANES - 1) * steps[-1] + program.own)
    return count, Instances(runs, np.stack([first, steps], axis=1), LANES)


def wires_of(backend: Backend, program: Program, seed: int = 1, bits: bool = False) -> NDArray[np.uint64]:
    """All wires after a program ran on its instances."""
    field, rng = program.field, np.random.default_rng(seed)
    count, where = instances(program, seed)
    before = rng.integers(0, 2 if bits else 2**60, size=(count, BATCH, field.limbs), dtype=np.uint64)
    before[0] = field_from_ints(field, [1])
    wires = backend.to_device(before)
    backend.synthesis.run(program, wires, where)
    return np.asarray(backend.to_host(wires))
