"""Guests of SP1 6, which are RV64IM: operands anywhere in 2^37 bytes, and a handler amid the guest's memory."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable
from itertools import product

import pytest
from py_ecc import bls12_381, bn128

from distprove.errors import InputError
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Stop, Trap
from distprove.stark.riscv.foreign import FOREIGN
from distprove.stark.riscv.sp1.translate import translate
from distprove.stark.riscv.trampolines import WIDE
from tests.stark.riscv.test_sp1 import calling, executed, guest
from tests.stark.test_keccak_slices import keccak_f
from tests.support import riscv_asm as asm
from tests.support.curve_points import (
    Point,
    ed25519_pairs,
    edwards_sum,
    p256_points,
    pairing_points,
    secp256k1_points,
)
from tests.support.riscv_elf import EXECUTE, READ, WRITE, code_file, elf64_file

END = 1 << 37
"""Where a guest's memory ends."""
NEAR, FAR, ACROSS = 0x20000, END - (1 << 34), (1 << 32) - 16
"""Places of operands: one that this machine's calls read, one that they do not, and one that ends beyond theirs."""
PLACES = (NEAR, FAR, ACROSS)
HALT = [*asm.li(10, 0), *asm.li(5, 0), 0x73]


def after(code: int, places: list[int], operands: list[bytes], look: int = 0) -> bytes:
    """What a call leaves in the place of one of its operands, which the guest reads from its input first."""
    words = []
    for place, content in zip(places, operands, strict=True):
        words += [*asm.li_64(10, place), *asm.li(11, len(content)), *asm.li(5, 0xF1), 0x73]
    for k, place in enumerate(places):
        words += asm.li_64(10 + k, place)
    execution = executed(guest([*words, *asm.li(5, code), 0x73, *HALT], 64), operands)
    assert all(
        execution.memory(place, len(content)) == content
        for k, (place, content) in enumerate(zip(places, operands, strict=True))
        if k != look
    )
    return execution.memory(places[look], len(operands[look]))


def packed(numbers: tuple[int, ...], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "little") for number in numbers)


@pytest.mark.parametrize("place", PLACES)
def test_hashes(place: int) -> None:
    """Words of SHA-256 are the lower halves of SP1's. The upper ones do not count, and are cleared by a write."""
    junk = random.Random(1)

    def with_junk(words: tuple[int, ...]) -> bytes:
        return b"".join(struct.pack("<II", word, junk.getrandbits(32)) for word in words)

    message = with_junk(struct.unpack(">16I", b"abc\x80" + bytes(58) + b"\0\x18"))
    schedule = after(0x0030_0105, [place], [message + junk.randbytes(384)])
    assert schedule[:128] == message
    assert not any(struct.unpack("<96I", schedule[128:])[1::2])
    start = with_junk(
        struct.unpack("<8I", bytes.fromhex("67e6096a85ae67bb72f36e3c3af54fa57f520e518c68059babd9831f19cde05b"))
    )
    digest = struct.unpack(">8I", hashlib.sha256(b"abc").digest())
    assert after(0x0001_0106, [place, place + 1024], [schedule, start], look=1) == struct.pack("<8Q", *digest)
    lanes = [junk.getrandbits(64) for _ in range(25)]
    assert after(0x0001_0109, [place], [struct.pack("<25Q", *lanes)]) == struct.pack("<25Q", *keccak_f(lanes))


@pytest.mark.parametrize(("first", "second"), list(product(PLACES, PLACES)))
def test_products_of_large_numbers(first: int, second: int) -> None:
    x, y, modulus = (random.Random(k).getrandbits(256) for k in range(3))
    made = after(0x0001_011D, [first, second + 4096], [packed((x % modulus,), 32), packed((y, modulus), 32)])
    assert made == packed((x * y % modulus,), 32)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("large", [False, True])
def test_fields(place: int, large: bool) -> None:
    p, first, size = (bls12_381.field_modulus, 0x20, 48) if large else (bn128.field_modulus, 0x26, 32)
    a, b, c, d = (random.Random(k).randrange(1 << 8 * size) for k in range(4))
    for k, expected in enumerate((a + c, a - c, a * c)):
        operands = [packed((a,), size), packed((c,), size)]
        assert after(0x0001_0100 | first + k, [place, place + 4096], operands) == packed((expected % p,), size)
    pairs = ((a + c, b + d), (a - c, b - d), (a * c - b * d, a * d + b * c))
    for k, pair in enumerate(pairs):
        made = after(0x0001_0100 | first + 3 + k, [place, place + 4096], [packed((a, b), size), packed((c, d), size)])
        assert made == packed(tuple(value % p for value in pair), size)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("points", "add", "double", "size"),
    [
        (secp256k1_points, 0x0A, 0x0B, 32),
        (p256_points, 0x2C, 0x2D, 32),
        (pairing_points(bn128), 0x0E, 0x0F, 32),
        (pairing_points(bls12_381), 0x1E, 0x1F, 48),
    ],
)
def test_points(
    points: Callable[[random.Random], tuple[Point, ...]], add: int, double: int, size: int, place: int
) -> None:
    p, q, total, twice = points(random.Random(5))
    assert after(0x0001_0100 | add, [place, place + 4096], [packed(p, size), packed(q, size)]) == packed(total, size)
    assert after(0x0000_0100 | double, [place], [packed(p, size)]) == packed(twice, size)


@pytest.mark.parametrize("place", PLACES)
def test_points_of_ed25519(place: int) -> None:
    first, second = next(pair for pair in ed25519_pairs() if pair[0][0])
    total = edwards_sum(first, second)
    assert after(0x0001_0107, [place, place + 4096], [packed(first, 32), packed(second, 32)]) == packed(total, 32)
    words = [*asm.li_64(10, place), *asm.li(11, 64), *asm.li(5, 0xF1), 0x73]
    words += [*asm.li_64(10, place), *asm.li(11, first[0] & 1), *asm.li(5, 0x0000_0108), 0x73, *HALT]
    execution = executed(guest(words, 64), [packed((1 << 200, first[1]), 32)])
    assert execution.memory(place, 64) == packed(first, 32)


@pytest.mark.parametrize(("size", "place"), list(product((0, 1, 4, 7, 8, 13, 64), (NEAR, FAR, END - 64))))
def test_a_buffer_is_read(size: int, place: int) -> None:
    """Its last word of 64 bits is filled up with zeros, and nothing behind that is written."""
    first, content = bytes([0xAA] * 64), bytes(range(1, 1 + size))
    words = [*asm.li_64(10, place), *asm.li(11, 64), *asm.li(5, 0xF1), 0x73]
    words += [*asm.li_64(10, place), *asm.li(11, size), *asm.li(5, 0xF1), 0x73, *HALT]
    made = executed(guest(words, 64), [first, content]).memory(place, 64)
    filled = content + bytes(-size % 8)
    assert made == filled + first[len(filled) :]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (4, ()),  # leave an unconstrained block, of which no proof has any
        (0x0000_010C, (NEAR, 0)),  # a point from its x
        (0x0000_0132, (NEAR, 1)),  # memory protection, of programs that are not trusted
        (0x0101_2F, (NEAR, NEAR + 64)),
        (2, (15, NEAR, 4)),  # a hook
        (0x10, (8, 0)),  # a ninth word
        (0x10, (0, 1 << 32)),  # no word of 32 bits
        (0x10, (1 << 32, 0)),
        (0x1A, (0, 1 << 40)),  # a proof was verified
        (0xF1, (NEAR, 3)),  # of a buffer of 4
        (0xF1, (NEAR, 4 | 1 << 32)),
        (0xF1, (NEAR + 4, 4)),  # not aligned
        (0x0001_011D, (NEAR, NEAR + 36)),
        (0x0001_010A, (NEAR + 4, NEAR + 64)),
        # Beyond memory, and the handler's own.
        (0xF1, (END, 4)),
        (0xF1, (1 << 63, 4)),
        (0xF1, ((1 << 64) - 8, 4)),
        (2, (13, END - 3, 4)),
        (2, (13, NEAR, (1 << 64) - 1)),
        *((0xF1, (place, 4)) for place in (WIDE.handler, 0x10010000, 0x100FFFF8, 0x11000000, WIDE.end - 8)),
        *((2, (13, place, 4)) for place in (WIDE.handler - 3, 0x10010000, WIDE.end - 1)),
        (2, (13, NEAR, END - NEAR)),  # all of it
        *((0x0030_0105, (place,)) for place in (END - 504, WIDE.handler - 8, WIDE.end - 8)),
        *((0x0001_0106, pair) for pair in ((END - 504, NEAR), (NEAR, END - 56), (NEAR, WIDE.handler - 56))),
        *((0x0001_0109, (place,)) for place in (END - 192, WIDE.handler - 192)),
        *((code, (NEAR, END - 56)) for code in (0x0101_1D, 0x0101_0A, 0x0101_07, 0x0101_0E, 0x0101_2B)),
        *((code, (WIDE.end - 8, NEAR)) for code in (0x0101_1D, 0x0101_0A, 0x0101_07, 0x0101_26, 0x0101_1E, 0x0101_23)),
        *((code, (WIDE.handler - 24, NEAR)) for code in (0x0001_0B, 0x0001_2D, 0x0001_08, 0x0101_20)),
        *(
            (0x0101_30, (*before, END - 24, *behind))
            for before, behind in (((), (NEAR, NEAR, NEAR, NEAR)), (4 * (NEAR,), ()))
        ),
        *(
            (0x0101_31, (*before, 0x10010000, *behind))
            for before, behind in ((2 * (NEAR,), 2 * (NEAR,)), (3 * (NEAR,), (NEAR,)))
        ),
    ],
)
def test_what_is_not_answered_traps(code: int, arguments: tuple[int, ...]) -> None:
    with pytest.raises(Trap) as trapped:
        executed(calling(code, *arguments, xlen=64), [b"abcd"])
    assert trapped.value.state is not None
    assert trapped.value.state.stop is Stop.UNKNOWN_CALL
    told = FOREIGN["sp1"].refused(trapped.value.state.about)
    assert told is not None
    assert f"({code:#x}) was refused" in told


@pytest.mark.parametrize("stack", [WIDE.handler + 8, 0x10010040, 0x10100000, 0x11000010, WIDE.end])
def test_a_stack_in_the_handlers_memory(stack: int) -> None:
    """Saving a register there would overwrite what the handler keeps."""
    code = [*asm.li(2, stack), *asm.li(10, 1), *asm.li(5, 2), 0x73, *HALT]
    with pytest.raises(Trap):
        executed(translate(parse_elf(code_file(code, xlen=64), "guest"), "guest"), [])


def test_what_is_read_below_the_stack_does_not_change_the_way_back() -> None:
    """The trampoline saves `ra` there, and a prover chooses what a buffer has in its place."""
    stack = 0x30000
    words = [*asm.li(2, stack), *asm.li(1, 77), *asm.li(10, stack - 16), *asm.li(11, 16), *asm.li(5, 0xF1), 0x73]
    words += [asm.imm("addi", 10, 1, 0), *asm.li(5, 0), 0x73]
    made = executed(translate(parse_elf(code_file(words, xlen=64), "guest"), "guest"), [bytes([0xFF]) * 16])
    assert made.outcome.exit_code == 77


def test_where_trampolines_lie() -> None:
    """Behind the code, or below it where segments come before; below the first segment the stack begins."""
    halt = b"".join(word.to_bytes(4, "little") for word in [*asm.li(2, 0x78000000), *HALT])
    data = (0x78100000, b"", READ | WRITE)
    for constants, code, room in ((None, 0x78000000, True), (0x78000000, 0x78001000, True), (None, 0x78000000, False)):
        parts = [(code, halt, READ | EXECUTE), data if room else (code + len(halt), bytes(8), READ | WRITE)]
        parts = [(constants, bytes(16), READ), *parts] if constants else parts
        file = elf64_file(parts, code, sizes=[None] * (len(parts) - 1) + [4096])
        if not room:
            with pytest.raises(InputError, match="no room for the trampoline"):
                translate(parse_elf(file, "guest"), "guest")
            continue
        elf = translate(parse_elf(file, "guest"), "guest")
        assert executed(elf, []).outcome.exit_code == 0
        assert all(
            segment.address >= 0x78000000 or WIDE.handler <= segment.address < WIDE.end for segment in elf.segments
        )


def test_a_segment_in_the_handlers_memory() -> None:
    for place in (WIDE.handler - 8, 0x10010000, WIDE.end - 8):
        parts = [(place, bytes(16), READ | WRITE), (0x78000000, bytes.fromhex("73000000"), READ | EXECUTE)]
        with pytest.raises(InputError, match="is for the handler of its calls"):
            translate(parse_elf(elf64_file(parts, 0x78000000), "guest"), "guest")
