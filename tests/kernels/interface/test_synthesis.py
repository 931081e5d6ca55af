"""Programs of the synthesis family on the CPU against Python integers and hashlib, and what the family refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from kernels.cpu.backend import CpuBackend
from kernels.errors import SizeError
from kernels.interface.synthesis import SHA256_ONE, SHA256_ZERO, Instances, Sha256Block, check_instances
from kernels.maths.curves import BLS12_381, BN254, Field
from kernels.maths.encoding import field_from_ints, field_to_ints
from tests.support.synthesis_cases import BATCH, KEPT, LANES, bits_of, instances, products, wires_of

FIELDS = [BN254.fr, BLS12_381.fr]


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=2) as backend:
        yield backend


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_products_are_what_integers_give(cpu: CpuBackend, field: Field) -> None:
    program = products(field, 7, 40, seed=3)
    got = wires_of(cpu, program)
    _, where = instances(program, 1)
    values = field_to_ints(field, program.values)
    integers = [field_to_ints(field, np.ascontiguousarray(got[:, item])) for item in range(BATCH)]
    for placement, (first, apart) in enumerate(where.own_runs.tolist()):
        for lane in range(LANES):
            for item in integers:
                given = [item[start + lane * step] for start, step in where.runs[placement].tolist()]
                local = [1, *given]
                for own in range(program.own):
                    sums = []
                    for row in range(3 * own, 3 * own + 3):
                        entries = slice(*program.row_ptr[row : row + 2].tolist())
                        terms = zip(program.value_index[entries], program.columns[entries], strict=True)
                        sums.append(sum(values[v] * local[c] for v, c in terms) % field.modulus)
                    empty = program.row_ptr[3 * own] == program.row_ptr[3 * own + 1]
                    local.append((sums[2] + (0 if empty else sums[0] * sums[1])) % field.modulus)
                begin = first + lane * apart
                assert item[begin : begin + program.own] == local[1 + program.inputs :]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_a_block_ends_in_the_digest(cpu: CpuBackend, field: Field) -> None:
    message = b"a message of one block".ljust(32, b".")
    padded = message + b"\x80" + bytes(29) + (8 * len(message)).to_bytes(2, "big")
    given = [int(bit) for byte in message for bit in f"{byte:08b}"]
    rest = [int(bit) for byte in padded[32:] for bit in f"{byte:08b}"]
    state = "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19"
    rest += [int(bit) for bit in f"{int(state, 16):0256b}"]
    sources = [*range(256), *(SHA256_ONE if bit else SHA256_ZERO for bit in rest)]
    ends = [(KEPT - 8 + word) << 8 | position << 1 for word in range(8) for position in reversed(range(32))]
    complements = [bit | 1 for bit in ends]
    program = Sha256Block(field, 256, np.array(sources, np.int32), np.array(ends + complements, np.uint32))
    wires = np.zeros((1 + 256 + program.own, 1, field.limbs), dtype=np.uint64)
    wires[:257] = field_from_ints(field, [1, *given])[:, None]
    runs = np.stack([np.arange(1, 257), np.zeros(256)], axis=1).astype(np.int64)[None]
    cpu.synthesis.run(program, wires, Instances(runs, np.array([[257, program.own]], np.int64), 1))
    bits = field_to_ints(field, np.ascontiguousarray(wires[257:, 0]))
    digest = reduce(lambda number, bit: number << 1 | bit, bits[:256], 0)
    assert digest.to_bytes(32, "big") == hashlib.sha256(message).digest()
    assert [1 - bit for bit in bits[:256]] == bits[256:]


def test_instances_beyond_the_wires_are_refused(cpu: CpuBackend) -> None:
    field = BN254.fr
    program = products(field, 3, 4, seed=1)
    count, where = instances(program, 1)
    wires = np.zeros((count, 1, field.limbs), dtype=np.uint64)
    far, back = where.runs.copy(), where.runs.copy()
    far[0, 0] = count - LANES + 2, 1
    back[1, 2] = LANES - 2, -1
    for wrong in (
        replace(where, runs=far),
        replace(where, runs=back),
        replace(where, own_runs=where.own_runs + np.array([1, 0])),
        replace(where, own_runs=where.own_runs + np.array([0, 1])),
        replace(where, own_runs=where.own_runs * [0, 1]),
    ):
        with pytest.raises(SizeError, match=f"beyond the {count} wires"):
            cpu.synthesis.run(program, wires, wrong)
    with pytest.raises(SizeError, match="do not fit"):
        cpu.synthesis.run(program, wires, replace(where, runs=where.runs[:, 1:]))
    with pytest.raises(SizeError, match="lie 3 apart"):
        cpu.synthesis.run(program, wires, replace(where, own_runs=where.own_runs * [1, 0] + [0, 3]))
    with pytest.raises(SizeError, match="wires have shape"):
        cpu.synthesis.run(program, wires[:, 0], where)


def test_strides_that_come_round_are_refused() -> None:
    """Four times 2^62 is 0 in int64, so the last of five instances lies where the first one does."""
    program = products(BN254.fr, 3, 4, seed=1)
    count, where = instances(program, 1)
    five, runs = replace(where, lanes=5), where.runs.copy()
    check_instances(program, replace(five, runs=runs * [1, 0]), count)
    runs[0, 0] = 1, 1 << 62
    for wrong in (replace(five, runs=runs), replace(five, own_runs=where.own_runs * [1, 0] + [0, 1 << 62])):
        with pytest.raises(SizeError, match="beyond 62 bits"):
            check_instances(program, wrong, count)
    with pytest.raises(SizeError, match="beyond"):
        check_instances(program, replace(where, lanes=1 << 64), count)


def test_a_wire_depends_on_those_before_it_alone(cpu: CpuBackend) -> None:
    program = products(BN254.fr, 3, 4, seed=1)
    count, where = instances(program, 1)
    columns = program.columns.copy()
    columns[int(program.row_ptr[3])] = 1 + 3 + 1  # the second own wire, of which this is the program
    later = replace(program, columns=columns)
    with pytest.raises(ValueError, match="out of range"):
        cpu.synthesis.run(later, np.zeros((count, 1, 4), dtype=np.uint64), where)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_bits_are_those_of_the_combination(cpu: CpuBackend, field: Field) -> None:
    program = bits_of(field, 3, shift=200, own=50, seed=4)
    got = wires_of(cpu, program)
    _, where = instances(program, 1)
    values = field_to_ints(field, program.values)
    integers = [field_to_ints(field, np.ascontiguousarray(got[:, item])) for item in range(BATCH)]
    for runs, (first, apart) in zip(where.runs.tolist(), where.own_runs.tolist(), strict=True):
        for lane in range(LANES):
            for item in integers:
                given = [1, *(item[start + lane * step] for start, step in runs)]
                terms = zip(program.value_index, program.columns, strict=True)
                total = sum(values[v] * given[c] for v, c in terms) % field.modulus
                begin = first + lane * apart
                assert item[begin : begin + 50] == [total >> 200 + k & 1 for k in range(50)]


def test_bits_of_an_element(cpu: CpuBackend) -> None:
    field = BLS12_381.fr
    numbers = [0, 1, field.modulus - 1, 2**64, 12345678901234567890]
    bits = cpu.vectors.bits(field, field_from_ints(field, numbers), 255)
    rows = [field_to_ints(field, row) for row in bits]
    assert [sum(row[i] << k for k, row in enumerate(rows)) for i in range(len(numbers))] == numbers
    with pytest.raises(SizeError, match="up to 256 bits"):
        cpu.vectors.bits(field, field_from_ints(field, numbers), 257)
