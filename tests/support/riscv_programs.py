"""Programs for tests of the RISC-V machine: small ones by hand, and random ones that use every instruction."""

from __future__ import annotations

from random import Random

from distprove.stark.riscv.record import Image
from tests.support import riscv_asm as asm

DATA = 0x20000
"""Where the data of random programs begins; x2 points to its middle."""
DATA_WORDS = 64
CORNERS_64 = (
    *(0, 1, 31, 33, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 0x1FFFFFFFF, (1 << 63) - 1, 1 << 63),
    *(0xFFFFFFFF00000000, 0xFFFFFFFF80000000, (1 << 64) - 1),
)
CORNERS = (0, 1, 2, 31, 32, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF)
_FREE = (0, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15)
"""Registers that random programs compute with."""


def fibonacci(steps: int) -> Image:
    """The `steps`-th Fibonacci number modulo 2^32, which is written to the output; the exit code is 7."""
    loop = [asm.op("add", 28, 5, 6), asm.imm("addi", 5, 6, 0), asm.imm("addi", 6, 28, 0), asm.imm("addi", 7, 7, -1)]
    begin = [asm.imm("addi", 5, 0, 0), asm.imm("addi", 6, 0, 1), *asm.li(7, steps)]
    end = [asm.imm("addi", 10, 5, 0), *asm.call(2), *asm.leave(7)]
    return asm.image([*begin, *loop, asm.branch("bne", 7, 0, -16), *end])


def of_words(*code: int, data: dict[int, int] | None = None) -> Image:
    """These instructions, and the exit with 0."""
    return asm.image([*code, *asm.leave()], data)


def operation_64(name: str, a: int, b: int) -> Image:
    """The same of RV64IM; the lower half of the result becomes the exit code."""
    return asm.image([*asm.li_64(5, a), *asm.li_64(6, b), asm.op(name, 10, 5, 6), *asm.call(1)], xlen=64)


def operation(name: str, a: int, b: int) -> Image:
    """One register operation on two constants, whose result becomes the exit code."""
    return asm.image([*asm.li(5, a), *asm.li(6, b), asm.op(name, 10, 5, 6), *asm.call(1)])


def random_program(seed: int, length: int = 200) -> Image:
    """A program of about `length` instructions of all kinds, on corner values and random ones. It reads three words of
    either input, of four bytes at least."""
    random = Random(seed)
    code = [word for register in _FREE[1:] for word in asm.li(register, _value(random))]
    code += asm.li(2, DATA + 2 * DATA_WORDS)
    reads = 2 * [3] + 2 * [4]
    while len(code) < length:
        code += _piece(random, reads)
    data = {DATA + 4 * k: _value(random) for k in range(0, DATA_WORDS, 3)}
    return asm.image([*code, *asm.call(1)], data)


def _piece(random: Random, reads: list[int]) -> list[int]:
    rd, rs1, rs2 = (random.choice(_FREE) for _ in range(3))
    match random.randrange(12):
        case 0 | 1 | 2:
            return [asm.op(random.choice(asm.REGISTER_OPS), rd, rs1, rs2)]
        case 3 | 4:
            return [asm.imm(random.choice(asm.IMMEDIATE_OPS), rd, rs1, random.randrange(-2048, 2048))]
        case 5 | 6:
            name = random.choice(asm.LOADS)
            return [asm.load(name, rd, 2, _offset(random, name))]
        case 7 | 8:
            name = random.choice(asm.STORES)
            return [asm.store(name, rs2, 2, _offset(random, name))]
        case 9:
            return [asm.branch(random.choice(asm.BRANCHES), rs1, rs2, 8), asm.imm("addi", rd, rs1, 1)]
        case 10:
            jumps = (
                [asm.jal(rd, 8), asm.imm("addi", rd, rs1, 1)],
                [asm.auipc(1, 0), asm.jalr(random.choice((1, rd)), 1, 13), asm.imm("addi", rd, rs1, 1)],
                [asm.lui(rd, random.randrange(1 << 32)), asm.FENCE],
                [asm.auipc(rd, random.randrange(1 << 32))],
                [*asm.li(rd, _value(random))] if rd else [asm.FENCE],
            )
            return list(random.choice(jumps))
        case _:
            calls = [2, 5, *([reads.pop()] if reads else [])]
            return [asm.imm("addi", 10, rs1, 0), *asm.call(random.choice(calls)), asm.imm("addi", rd, 10, 0)]


def _offset(random: Random, name: str) -> int:
    size = {"b": 1, "h": 2, "w": 4, "d": 8}[name[1]]
    return random.randrange(-2 * DATA_WORDS, 2 * DATA_WORDS, size)


def _value(random: Random) -> int:
    return random.choice((*CORNERS, random.randrange(1 << 32), random.randrange(-64, 64) & 0xFFFFFFFF))


def random_program_64(seed: int, length: int = 200) -> Image:
    """The same of RV64IM."""
    random = Random(seed)
    code = [word for register in _FREE[1:] for word in asm.li_64(register, _value_64(random))]
    code += asm.li(2, DATA + 2 * DATA_WORDS)
    reads = 2 * [3] + 2 * [4]
    while len(code) < length:
        code += _piece_64(random, reads)
    data = {DATA + 4 * k: _value(random) for k in range(0, DATA_WORDS, 3)}
    return asm.image([*code, *asm.call(1)], data, xlen=64)


def _piece_64(random: Random, reads: list[int]) -> list[int]:
    rd, rs1, rs2 = (random.choice(_FREE) for _ in range(3))
    match random.randrange(11):
        case 0 | 1 | 2:
            return [asm.op(random.choice(asm.REGISTER_OPS_64), rd, rs1, rs2)]
        case 3 | 4:
            return [asm.imm(random.choice(asm.IMMEDIATE_OPS_64), rd, rs1, random.randrange(-2048, 2048), 64)]
        case 5:
            name = random.choice(asm.LOADS_64)
            return [asm.load(name, rd, 2, _offset(random, name))]
        case 6:
            name = random.choice(asm.STORES_64)
            return [asm.store(name, rs2, 2, _offset(random, name))]
        case 7:
            return [
                asm.branch(random.choice(asm.BRANCHES), rs1, random.choice((rs1, rs2)), 8),
                asm.imm("addi", rd, rs1, 1),
            ]
        case 8 if rd and random.random() < 0.5:
            name = random.choice(asm.STORES_64)
            far = asm.li_64(rd, random.randrange(1 << 31, (1 << 37) - 4096) & ~63)
            offset = _offset(random, name)
            return [*far, asm.store(name, rs2, rd, offset), asm.load("ld", rd, rd, 8 * random.randrange(-8, 8))]
        case 8:
            return asm.li_64(rd, _value_64(random)) if rd else [asm.auipc(rd, 0)]
        case _:
            return _piece(random, reads)


def _value_64(random: Random) -> int:
    return random.choice((*CORNERS_64, random.randrange(1 << 64), random.randrange(-64, 64) % (1 << 64)))


def permuting(calls: int = 2, *then: int) -> Image:
    """Keccak-f of states that overlap, the first at `DATA`, one word of which is written before, and then these
    instructions. A word of the last result is written to the output."""
    code = [*asm.li(8, DATA), *asm.li(5, 0x89ABCDEF), asm.store("sw", 5, 8)]
    for k in range(calls):
        code += [asm.imm("addi", 10, 8, 8 * k), *asm.call(6)]
    code += [asm.load("lw", 10, 8, 12), *asm.call(2), *then]
    random = Random(calls)
    return of_words(*code, data={DATA + 4 * k: _value(random) for k in range(50 + 2 * calls)})


SHA256_START = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
"""The first state of SHA-256."""
MESSAGE, FACTORS = DATA + 0x100, DATA + 0x400
"""Where the programs below have the words of a message, and the context of a product; the operands follow it."""
RESULT, X, Y, ADDEND = range(FACTORS + 0x100, FACTORS + 0x200, 0x40)


def hashing(*calls: int) -> Image:
    """SHA-256's calls of these numbers, each on the words that the ones before left. A word of the state and one of the
    schedule are written to the output."""
    code = [*asm.li(8, DATA), *asm.li(9, MESSAGE)]
    for number in calls:
        code += [asm.imm("addi", 10, 9 if number == 8 else 8, 0), *asm.call(number)]
    code += [asm.load("lw", 10, 8, 4), *asm.call(2), asm.load("lw", 10, 9, 4 * 17), *asm.call(2)]
    random = Random(len(calls))
    data = {DATA: MESSAGE, **{DATA + 4 + 4 * k: word for k, word in enumerate(SHA256_START)}}
    return of_words(*code, data={**data, **{MESSAGE + 4 * k: random.getrandbits(32) for k in range(64)}})


def multiplying(
    x: int,
    y: int,
    addend: int | None,
    modulus: int,
    pointers: tuple[int, int, int, int] = (RESULT, X, Y, ADDEND),
    shown: bool = True,
    words: int = 8,
) -> Image:
    """One product modulo a number, all of so many words; without an addend by the other call. If it is `shown`, the
    lowest word of what is where the result usually is becomes the output. Operands that have one place have the value
    of the last of them."""
    code = [*asm.li(10, FACTORS), *asm.call((10 if words == 8 else 12) + (addend is not None))]
    code += [*asm.li(8, RESULT), asm.load("lw", 10, 8), *asm.call(2)] if shown else []
    data = {FACTORS + 4 * k: pointer for k, pointer in enumerate(pointers)}
    for start, number in zip((FACTORS + 16, *pointers[1:]), (modulus, x, y, addend or 0), strict=True):
        data |= {start + 4 * k: number >> 32 * k & 0xFFFFFFFF for k in range(words)}
    return of_words(*code, data=data)


POINT_P, POINT_Q = X, X + 0x80
"""Where the program below has its points. The argument of a sum is at `FACTORS`."""


def adding(
    number: int,
    p: tuple[int, int],
    q: tuple[int, int] | None = None,
    pointers: tuple[int, int] = (POINT_P, POINT_Q),
    words: int = 8,
    shown: bool = True,
) -> Image:
    """A sum of points by the call of this number, of coordinates of so many words; without q a double, of the point at
    the first pointer. If it is `shown`, the lowest word of what is where p usually is becomes the output. If both have
    one place, it has q."""
    first, second = pointers
    code = [*asm.li(10, FACTORS if q else first), *asm.call(number)]
    code += [*asm.li(8, POINT_P), asm.load("lw", 10, 8), *asm.call(2)] if shown else []
    data = {FACTORS: first, FACTORS + 4: second} if q else {}
    for start, point in ((first, p), (second, q)):
        for k, coordinate in enumerate(point or ()):
            data |= {start + 4 * (k * words + i): coordinate >> 32 * i & 0xFFFFFFFF for i in range(words)}
    return of_words(*code, data=data)
