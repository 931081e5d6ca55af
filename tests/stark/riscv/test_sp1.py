"""Guests of SP1: translated, run, and proven like any other. The guest is guests/sp1.c, which links nothing of ours.
Built for RV32IM it is one of SP1 1 to 5, for RV64IM one of SP1 6. What differs for those is in test_sp1_6.py."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from py_ecc import bls12_381, bn128

from distprove.entry import OwnProgram
from distprove.errors import FormatError, InputError, InvalidProof, UsageError
from distprove.stark.keyfile import own_key
from distprove.stark.riscv.elf import Elf, parse_elf, read_elf
from distprove.stark.riscv.executor import Execution, Inputs, Stop, Trap
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.sp1.translate import VALUES as VALUES_PLACE
from distprove.stark.riscv.sp1.translate import public_values, stdin_buffers, stdin_file, translate
from distprove.stark.riscv.trampolines import CONVENTIONS, NARROW, framed
from tests.cli.conftest import run
from tests.stark.riscv.test_guests import GUESTS
from tests.stark.riscv.test_machine import proven
from tests.stark.test_keccak_slices import keccak_f
from tests.stark.test_proofs import check
from tests.support import riscv_asm as asm
from tests.support.curve_points import (
    Point,
    ed25519_pairs,
    edwards_sum,
    p256_points,
    pairing_points,
    secp256k1_points,
)
from tests.support.riscv_elf import EXECUTE, READ, WRITE, code_file, elf_file
from tests.support.riscv_traces import LAYOUT

END = 0x78000000
"""Where the memory of a guest of SP1 ends."""
VALUES = NARROW.handler + VALUES_PLACE
DATA_OF_HANDLER, SCRATCH = 0xF0010000, 0xFFFFF000
GUEST, STRAY = (
    {xlen: translate(read_elf(GUESTS / f"{name}{'64' if xlen == 64 else ''}.elf"), "guest") for xlen in (32, 64)}
    for name in ("sp1", "sp1_stray")
)
CALLS_BEFORE_COMMIT, CALLS = 5, 14
"""Calls of `sp1_stray.c`."""
PLACES = {
    32: (*range(DATA_OF_HANDLER, DATA_OF_HANDLER + 64, 4), VALUES, 0xF00FFFF0, *range(SCRATCH + 4096 - 80, 2**32, 4)),
    64: (*range(0x10010000, 0x10010000 + 192, 8), 0x11000000, 0x100FFFF0, *range(0x78000000 - 144, 0x78000000, 16)),
}
"""The handler's memory: what it keeps, the size of public values, its stack, and the registers that it saves. On RV64IM
also the words below the guest's stack."""


def executed(elf: Elf, buffers: list[bytes]) -> Execution:
    execution = Execution(elf, Inputs(framed(buffers, "input")), max_cycles=1 << 22)
    execution.run()
    return execution


@pytest.mark.parametrize("xlen", [32, 64])
@given(buffers=st.lists(st.binary(max_size=55), max_size=4))
@settings(max_examples=20, deadline=None)
def test_a_guest_of_sp1(xlen: int, buffers: list[bytes]) -> None:
    """Its public values, the digest that it commits to, and no register is changed by a call but the result's."""
    execution = executed(GUEST[xlen], buffers)
    digests = [struct.unpack(">8I", hashlib.sha256(each).digest()) for each in buffers]
    expected = b""
    for each, digest in zip(buffers, digests, strict=True):
        state = list(struct.unpack("<25Q", each.ljust(200, b"\0")))
        expected += each + struct.pack("<8I", *digest) + struct.pack("<25Q", *keccak_f(state))
    assert public_values(execution) == expected
    assert execution.outcome.output == struct.pack("<8I", *(digests[-1] if digests else 8 * [0]))
    assert execution.outcome.exit_code == 0


def stray_digest() -> bytes:
    """The words that `sp1_stray.c` commits to."""
    words = list(struct.unpack(">8I", hashlib.sha256(b"abc").digest()))
    words[7] ^= keccak_f([0] * 25)[0] & 0xFFFFFFFF
    return struct.pack("<8I", *words)


@pytest.mark.parametrize("xlen", [32, 64])
@pytest.mark.parametrize("before", range(2, CALLS))
def test_a_stray_store_does_not_change_what_is_committed(before: int, xlen: int) -> None:
    """Whatever a guest's unchecked index changes of the handler's memory, no other digest is public: the call traps, or
    the output has the words of the guest's own calls."""
    ended = 0
    for place in PLACES[xlen]:
        for value in (0, 1, 7, 8, 0x200000 - 4, 0xFFFFFFFF):
            try:
                execution = executed(STRAY[xlen], [struct.pack("<3I", before, place, value)])
            except Trap:
                continue
            assert (execution.outcome.output, execution.outcome.exit_code) == (stray_digest(), 0), (place, value)
            ended += 1
    assert ended > 50


def test_a_stray_store_of_public_values() -> None:
    """A changed size of public values does not make the handler write over the guest's own memory."""
    target = 0x30000
    words = [*asm.li(5, VALUES), *asm.li(6, target - VALUES - 4), asm.store("sw", 6, 5, 0)]
    words += [
        *asm.li(10, 13),
        *asm.li(11, 0x10000),
        *asm.li(12, 4),
        *asm.li(5, 2),
        0x73,
        *asm.li(10, 0),
        *asm.li(5, 0),
        0x73,
    ]
    execution = Execution(translate(parse_elf(code_file(words), "guest"), "guest"), max_cycles=1 << 12)
    with pytest.raises(Trap, match="unknown host call"):
        execution.run()
    assert execution.memory(target, 4) == bytes(4)


def test_a_changed_size_of_public_values_costs_nothing_to_show() -> None:
    """`distprove run` read up to 4 GiB of them, by gigabytes of addresses."""
    words = [*asm.li(5, VALUES), *asm.li(6, 0xFFFFFFFF), asm.store("sw", 6, 5, 0), *asm.li(10, 0), *asm.li(5, 0), 0x73]
    execution = Execution(translate(parse_elf(code_file(words), "guest"), "guest"))
    execution.run()
    assert len(public_values(execution)) <= execution.outcome.cycles


@pytest.mark.parametrize("xlen", [32, 64])
def test_no_load_depends_on_the_handlers_own_words(xlen: int) -> None:
    """The tables know no memory that is read-only, so that a prover may change the words of code segments as data. With
    all of the handler's zero, it computes the same."""
    guest, handler = STRAY[xlen], CONVENTIONS[xlen].handler
    (code,) = (each for each in guest.segments if each.address == handler)
    words = struct.unpack_from(f"<{code.data_size // 4}I", guest.data, code.offset)
    blank = guest.data[: code.offset] + bytes(code.data_size) + guest.data[code.offset + code.data_size :]
    patches = (*guest.patches, *((handler + 4 * k, word) for k, word in enumerate(words)))
    changed = replace(guest, data=blank, patches=patches)
    assert [list(w) for _, w in changed.program] == [list(w) for _, w in guest.program]
    assert executed(changed, [b""]).outcome.output == executed(guest, [b""]).outcome.output == stray_digest()


@pytest.mark.parametrize("order", [(1,), (0, 0), (0, 2), (*range(8), 0)])
def test_words_are_committed_in_order(order: tuple[int, ...]) -> None:
    code = [word for k in order for word in (*asm.li(10, k), *asm.li(11, 9), *asm.li(5, 0x10), 0x73)]
    execution = Execution(translate(parse_elf(code_file(code), "guest"), "guest"), max_cycles=1 << 12)
    with pytest.raises(Trap, match="unknown host call"):
        execution.run()
    assert execution.output == struct.pack(f"<{len(order) - 1}I", *[9] * (len(order) - 1))


def guest(code: list[int], xlen: int = 32, data: bytes = b"") -> Elf:
    """A translated guest; of RV64IM it has a stack, below which trampolines save a register."""
    stack = asm.li(2, 0x78000000) if xlen == 64 else []
    return translate(parse_elf(code_file([*stack, *code], data=data, xlen=xlen), "guest"), "guest")


def calling(code: int, *arguments: int, xlen: int = 32) -> Elf:
    load = asm.li if xlen == 32 else asm.li_64
    loads = [word for k, value in enumerate(arguments) for word in load(10 + k, value)]
    return guest([*loads, *asm.li(5, code), 0x73, *asm.li(5, 0), 0x73], xlen)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (4, ()),  # leave an unconstrained block, of which no proof has any
        (0x0101_2F, ()),  # a table that is not there
        (0x0101_0A, (0x20000, 0x20000)),  # a point and itself
        (1, ()),  # no call of SP1, but the exit of this machine
        (2, (5, 0x20000, 4)),  # a hook
        (0xF1, (0x20000, 3)),  # of a buffer of 4
        (0xF1, (0x20002, 4)),  # not aligned
        (0x10, (8, 0)),  # a ninth word
        (0x1A, (0, 1)),  # a proof was verified
        # Pointers to memory that no guest of SP1 has: the handler's own words, and what passes the end of the guest's.
        (0xF1, (DATA_OF_HANDLER, 4)),
        *((code, (DATA_OF_HANDLER, 0x20000)) for code in (0x0101_1D, 0x0101_0A, 0x0101_2C, 0x0101_07)),
        *((code, (0x20000, END - 60)) for code in (0x0101_1D, 0x0101_0A, 0x0101_2C, 0x0101_0E, 0x0101_2B)),
        *((code, (END - 28, 0x20000)) for code in (0x0101_1D, 0x0101_26, 0x0101_27, 0x0101_28)),
        *((code, (END - 60,)) for code in (0x0001_0B, 0x0001_2D, 0x0001_0F, 0x0001_1F)),
        *((code, (END - 60, 0x20000)) for code in (0x0101_29, 0x0101_1E, 0x0101_23, 0x0101_25)),
        *((code, (0x20000, END - 92)) for code in (0x0101_1E, 0x0101_23)),
        *((code, (0x20000, END - 44)) for code in (0x0101_20, 0x0101_22)),
        (0xF1, (SCRATCH, 4)),
        (0xF1, (END, 4)),
        (2, (13, DATA_OF_HANDLER, 4)),
        (2, (13, END - 3, 4)),
        (2, (13, 0x20000, 0xFFFFFFFF)),
        (0x300105, (DATA_OF_HANDLER,)),
        (0x300105, (END - 252,)),
        (0x010106, (DATA_OF_HANDLER, 0x20000)),
        (0x010106, (END - 252, 0x20000)),
        (0x010106, (0x20000, DATA_OF_HANDLER)),
        (0x010106, (0x20000, END - 28)),
        (0x010109, (DATA_OF_HANDLER,)),
        (0x010109, (END - 196,)),
        (0x010109, (0xFFFFFFFC,)),
    ],
)
def test_what_is_not_answered_traps(code: int, arguments: tuple[int, ...]) -> None:
    with pytest.raises(Trap) as trapped:
        executed(calling(code, *arguments), [b"abcd"])
    assert trapped.value.state is not None
    assert (trapped.value.state.stop, trapped.value.state.about) == (Stop.UNKNOWN_CALL, code | 1 << 31)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0x0101_2C, (0x20000, 0x20040)),  # points with one x
        (0x0001_0F, (0x20000,)),  # a point of order 2
    ],
)
def test_what_has_no_sum_traps(code: int, arguments: tuple[int, ...]) -> None:
    """In the host call."""
    with pytest.raises(Trap) as trapped:
        executed(calling(code, *arguments), [])
    assert trapped.value.state is not None
    assert trapped.value.state.stop is Stop.NO_SUM


def computed(code: int, first: list[int], second: list[int], size: int = 32) -> tuple[list[int], int]:
    """What a call makes of numbers of so many bytes: its first operand afterwards, and the cycles of the run."""
    data = b"".join(number.to_bytes(size, "little") for number in (*first, *second))
    loads = [*asm.li(10, 0x20000), *asm.li(11, 0x20000 + size * len(first)), *asm.li(5, code), 0x73]
    elf = translate(parse_elf(code_file([*loads, *asm.li(10, 0), *asm.li(5, 0), 0x73], data=data), "guest"), "guest")
    execution = executed(elf, [])
    made = execution.memory(0x20000, size * len(first))
    return [int.from_bytes(made[k : k + size], "little") for k in range(0, len(made), size)], execution.cycles


BIG = st.integers(0, (1 << 256) - 1)


@given(BIG, BIG, st.integers(0, (1 << 256) - 1) | st.sampled_from([0, 1, (1 << 256) - 1]))
@settings(max_examples=40, deadline=None)
def test_products_of_large_numbers(x: int, y: int, modulus: int) -> None:
    """UINT256_MUL: the modulus lies behind y, and 0 stands for 2^256."""
    whole = modulus or 1 << 256
    assert computed(0x0101_1D, [x % whole], [y, modulus])[0] == [x % whole * y % whole]


def with_carry(code: int, numbers: tuple[int, int, int], xlen: int) -> tuple[int, int]:
    """The lower and upper 256 bits that a call with five operands makes of three numbers."""
    at = 0x20000
    data = b"".join(number.to_bytes(32, "little") for number in numbers)
    loads = [word for k in range(5) for word in asm.li(10 + k, at + 32 * k)]
    elf = guest([*loads, *asm.li(5, code), 0x73, *asm.li(10, 0), *asm.li(5, 0), 0x73], xlen, data)
    made = executed(elf, []).memory(at, 160)
    assert made[:96] == data
    return int.from_bytes(made[96:128], "little"), int.from_bytes(made[128:], "little")


TOP = (1 << 256) - 1


@pytest.mark.parametrize("xlen", [32, 64])
@given(numbers=st.tuples(*3 * [BIG | st.sampled_from([0, 1, TOP])]))
@example(numbers=(TOP, TOP, TOP))
@settings(max_examples=20, deadline=None)
def test_numbers_with_carry(xlen: int, numbers: tuple[int, int, int]) -> None:
    """UINT256_ADD_CARRY and UINT256_MUL_CARRY."""
    a, b, c = numbers
    for code, whole in ((0x0101_30, a + b + c), (0x0101_31, a * b + c)):
        assert with_carry(code, numbers, xlen) == (whole & TOP, whole >> 256)


def test_products_take_few_cycles() -> None:
    assert computed(0x0101_1D, [5], [7, 11])[1] < 250


@given(BIG, BIG, BIG, BIG, st.booleans())
@settings(max_examples=30, deadline=None)
def test_fields(a: int, b: int, c: int, d: int, large: bool) -> None:
    """Sum, difference and product in the fields of BN254 and BLS12-381, of numbers that need not be reduced; and those
    of pairs."""
    p, first, size = (bls12_381.field_modulus, 0x20, 48) if large else (bn128.field_modulus, 0x26, 32)
    if large:
        a, b, c, d = (a << 128 | d >> 128, b << 127, c << 128 | 5, d << 120)
    for k, expected in enumerate((a + c, a - c, a * c)):
        assert computed(0x0101_00 | first + k, [a], [c], size)[0] == [expected % p]
    pairs = ((a + c, b + d), (a - c, b - d), (a * c - b * d, a * d + b * c))
    for k, pair in enumerate(pairs):
        made, _ = computed(0x0101_00 | first + 3 + k, [a, b], [c, d], size)
        assert made == [value % p for value in pair]


@pytest.mark.parametrize("operation", range(6))
@pytest.mark.parametrize("large", [False, True])
def test_operands_of_a_field_that_overlap(operation: int, large: bool) -> None:
    """All of both is read before any of the result is written, whatever the distance between them."""
    p, first, size = (bls12_381.field_modulus, 0x20, 48) if large else (bn128.field_modulus, 0x26, 32)
    places, base, x = (1, 2)[operation // 3], 0x20000, 0x20100
    data = random.Random(operation).randbytes(0x200)
    for shift in (0, 4, size // 2, size - 4, size, 2 * size - 4, -4, -size // 2, -size, 4 - 2 * size):
        a, b = (
            [int.from_bytes(data[at - base + size * k :][:size], "little") for k in range(places)]
            for at in (x, x + shift)
        )
        loads = [*asm.li(10, x), *asm.li(11, x + shift), *asm.li(5, 0x0101_00 | first + operation), 0x73]
        code = code_file([*loads, *asm.li(10, 0), *asm.li(5, 0), 0x73], data=data)
        made = executed(translate(parse_elf(code, "guest"), "guest"), []).memory(x, size * places)
        product = [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]] if places == 2 else [a[0] * b[0]]
        expected = [
            [m + n for m, n in zip(a, b, strict=True)],
            [m - n for m, n in zip(a, b, strict=True)],
            product,
        ][operation % 3]
        assert [int.from_bytes(made[size * k :][:size], "little") for k in range(places)] == [v % p for v in expected]


ED25519 = (1 << 255) - 19


def decompressed(y: int, sign: int) -> tuple[int, int]:
    """What ED_DECOMPRESS makes of 32 bytes of junk and y: x, and y as it was left."""
    loads = [*asm.li(10, 0x20000), *asm.li(11, sign), *asm.li(5, 0x0001_08), 0x73]
    code = code_file([*loads, *asm.li(10, 0), *asm.li(5, 0), 0x73], data=bytes(range(32)) + y.to_bytes(32, "little"))
    made = executed(translate(parse_elf(code, "guest"), "guest"), []).memory(0x20000, 64)
    return int.from_bytes(made[:32], "little"), int.from_bytes(made[32:], "little")


def test_points_of_ed25519_from_their_y() -> None:
    for x, y in {point for pair in ed25519_pairs() for point in pair if point[0]}:
        assert decompressed(y, x & 1) == (x, y)
        assert decompressed(y, ~x & 1) == (ED25519 - x, y)
    for sign in (0, 1):
        assert decompressed(1, sign) == (0, 1)
    # Of no point, of none, and no sign; and 0 and 1 modulo 2^255 - 19.
    for y, sign in ((2, 0), (7, 1), (1, 2), *((n * ED25519 + k, 0) for n in (1, 2) for k in (0, 1))):
        with pytest.raises(Trap, match="unknown host call"):
            decompressed(y, sign)


def test_points_of_ed25519() -> None:
    """The formula holds for all pairs of points, equal ones too."""
    for first, second in ed25519_pairs():
        made, cycles = computed(0x0101_07, list(first), list(second))
        assert tuple(made) == edwards_sum(first, second)
        assert cycles < 200
    (x, y), beyond = first, (first[0] + ED25519, first[1] + ED25519)
    assert tuple(computed(0x0101_07, list(beyond), [x, y])[0]) == edwards_sum(first, first)
    off_the_curve = -121666 * pow(121665 * 2 * 3 * 5, -1, ED25519) % ED25519
    with pytest.raises(Trap, match="a sum of points that the formula does not give"):
        computed(0x0101_07, [2, 3], [5, off_the_curve])


@pytest.mark.parametrize(
    ("points", "add", "double", "size"),
    [
        (secp256k1_points, 0x0A, 0x0B, 32),
        (p256_points, 0x2C, 0x2D, 32),
        (pairing_points(bn128), 0x0E, 0x0F, 32),
        (pairing_points(bls12_381), 0x1E, 0x1F, 48),
    ],
)
def test_points(points: Callable[[random.Random], tuple[Point, ...]], add: int, double: int, size: int) -> None:
    for seed in range(4):
        p, q, total, twice = points(random.Random(seed))
        made, cycles = computed(0x0101_00 | add, list(p), list(q), size)
        assert tuple(made) == total
        assert cycles < 300 * size
        assert tuple(computed(0x0001_00 | double, list(p), [], size)[0]) == twice


def test_a_read_of_the_right_buffer() -> None:
    assert executed(calling(0xF1, 0x20000, 4), [b"abcd"]).memory(0x20000, 4) == b"abcd"


@pytest.mark.parametrize(("at", "size"), [(END - 4, 4), (END - 8, 7)])
def test_a_read_up_to_the_end_of_memory(at: int, size: int) -> None:
    content = bytes(range(1, 1 + size))
    assert executed(calling(0xF1, at, size), [content]).memory(at, size) == content


@pytest.mark.parametrize("size", [0xFFFFFFFD, 0xFFFFFFFE, END - 0x20000 + 1])
def test_a_buffer_larger_than_memory(size: int) -> None:
    """The prover chooses the input, and so the size of a buffer. A guest that rounds it up to words without looking
    gets 0 from 2^32 - 3, and reads all of it over whatever lies behind, the registers that the handler keeps too."""
    words = [2**32 - 8, size, *range(64)]
    elf = calling(0xF1, 0x20000, size)
    with pytest.raises(Trap) as trapped:
        Execution(elf, Inputs(struct.pack(f"<{len(words)}I", *words)[4:]), max_cycles=1 << 22).run()
    assert trapped.value.state is not None
    assert (trapped.value.state.stop, trapped.value.state.about) == (Stop.UNKNOWN_CALL, 0xF1 | 1 << 31)


def halting(calls: int) -> bytes:
    """Code that makes calls that do nothing, and then HALT."""
    words = [word for _ in range(calls) for word in (*asm.li(5, 2), *asm.li(10, 1), 0x73)]
    words += [*asm.li(10, 9), *asm.li(5, 0), 0x73]
    return b"".join(word.to_bytes(4, "little") for word in words)


@pytest.mark.parametrize(
    ("gap", "calls", "room"), [(64, 20, True), (64, 40, False), (600, 50, False), (2048, 70, True)]
)
def test_code_in_two_segments(gap: int, calls: int, room: bool) -> None:
    """What lies between them is behind the one and before the other: no two trampolines share an address, where the
    program would have two instructions, and a prover the choice."""
    first, second = halting(calls), halting(calls)
    second_at = (0x10000 + len(first) + gap + 15) & ~15
    file = elf_file([(0x10000, first, READ | EXECUTE), (second_at, second, READ | EXECUTE)], second_at)
    if not room:
        with pytest.raises(InputError, match="no room for the trampoline"):
            translate(parse_elf(file, "guest"), "guest")
        return
    elf = translate(parse_elf(file, "guest"), "guest")
    address = elf.image().code_address
    assert len(set(address.tolist())) == len(address)
    assert executed(elf, []).outcome.exit_code == 9


def test_code_that_runs_on() -> None:
    """Behind the last instruction is no program, though trampolines come next."""
    code = [*asm.li(5, 2), *asm.li(10, 1), 0x73, *3 * [asm.imm("addi", 6, 6, 1)]]
    assert len(code) % 4 == 0
    with pytest.raises(Trap) as trapped:
        executed(translate(parse_elf(code_file(code), "guest"), "guest"), [])
    assert trapped.value.state is not None
    assert trapped.value.state.stop is Stop.OUTSIDE


def test_segments_that_leave_no_room() -> None:
    code = b"".join(word.to_bytes(4, "little") for word in [*asm.li(5, 0), 0x73])
    far = code + bytes(1 << 21) + code + bytes(1 << 21) + code  # the middle one is too far from either end
    for parts, why in (
        ([(0x10000, far, READ | EXECUTE), (0x500000, b"", READ | WRITE)], "no room for the trampoline"),
        ([(0x10000, code, READ | EXECUTE), (NARROW.handler, bytes(4), READ | WRITE)], "for the handler"),
    ):
        sizes = [None, 4096]
        with pytest.raises(InputError, match=why):
            translate(parse_elf(elf_file(parts, 0x10000, sizes=sizes), "guest"), "guest")


def test_inputs() -> None:
    assert stdin_buffers(stdin_file([b"abc", b""]), "input") == [b"abc", b""]
    assert stdin_buffers(b"", "input") == []
    assert framed([b"abc", b""], "input") == b"\3\0\0\0abc\0\0\0\0\0"
    good = stdin_file([b"abc"])
    for wrong in (good[:-1], good[:10], b"\xff" * 8, good[:8] + b"\xff" * 8 + good[16:]):
        with pytest.raises(FormatError):
            stdin_buffers(wrong, "input")
    for wrong in (good + b"\0", good[:-8] + b"\1" + good[-7:]):
        with pytest.raises(InputError):
            stdin_buffers(wrong, "input")


@pytest.mark.parametrize("name", ["sp1.elf", "sp164.elf"])
def test_it_is_proven(name: str, tmp_path: Path) -> None:
    """In segments, by the tables of every guest; the name is that of the translated program."""
    (tmp_path / "input").write_bytes(stdin_file([]))
    arguments = {"elf": str(GUESTS / name), "input": str(tmp_path / "input"), "segment": 512}
    program = RiscV(calls="sp1", **arguments)  # type: ignore[arg-type]
    key, names, publics, proofs, output = proven(program)
    assert len(names) > 1
    check(key, names, publics, proofs, output)
    told = program.explain(publics, [])
    assert (told["exit code"], output) == ("0", bytes(32))
    start = LAYOUT["stated"][0]
    forged = [*publics[:-1], (*publics[-1][:start], 1, *publics[-1][start + 1 :])]
    with pytest.raises(InvalidProof):
        check(key, names, forged, proofs, output)
    own = OwnProgram("distprove.stark.riscv.program:RiscV", {"elf": arguments["elf"]})
    with pytest.raises(InvalidProof, match=r"and not of riscv\(guest = "):  # not the guest as it is
        own_key(key.named(), own)


def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(stdin_file([b"abc"]))
    done = run("run", GUESTS / "sp1.elf", "--calls", "sp1", "--input", tmp_path / "input")
    assert done.exit_code == 0, done.output
    assert "616263" in done.stdout
    assert run("run", GUESTS / "sp1.elf", "--calls", "sp2").exit_code != 0
    with pytest.raises(UsageError, match="or sp1"):
        RiscV(calls="sp2")
