"""A plain interpreter of RV32IM and RV64IM, from the instruction set manual alone, which keeps docs/riscv.md's record.

It is what the executor and the tables are compared with, so it takes nothing from either but the form of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.riscv.record import FIELDS_OF, FIRST_REGISTER_OF, STATE_WORDS, Image, Record
from tests.support.plain_keccak import keccak_f_of_words
from tests.support.plain_sha256 import compressed, extended

M32 = 0xFFFFFFFF
P256, SECP256K1 = (1 << 256) - (1 << 224) + (1 << 192) + (1 << 96) - 1, (1 << 256) - (1 << 32) - 977
BN254 = 21888242871839275222246405745257275088696311157297823662689037894645226208583
BLS12_381 = int("1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16)
POINTS = {
    add + doubles: (add, modulus, a, size)
    for add, modulus, a, size in (
        (14, SECP256K1, 0, 8),
        (16, P256, P256 - 3, 8),
        (18, BN254, 0, 8),
        (20, BLS12_381, 0, 12),
    )
    for doubles in (0, 1)
}
"""The calls that add points: the number of the sum, the field's modulus, a, and the words of a coordinate."""
ED25519, ED25519_ADD = (1 << 255) - 19, 22
"""The modulus of its field, and the call that adds points of it."""
GROUPS = (range(7, 10), range(10, 12), range(12, 14), range(14, 20), range(20, 22), range(22, 23))
"""The calls of each table that not every guest has."""


class Trapped(Exception):
    """The program did what no correct program does."""


@dataclass
class Run:
    """A whole execution."""

    image: Image
    records: list[Record]
    words: dict[int, tuple[int, int]]
    """By key the value at the end of each word that was used, and one more than the last segment that used it."""
    exit_code: int
    output: list[int]
    cycles: int


@dataclass
class _Segment:
    """What a segment has accessed so far."""

    first_cycle: int
    pc: int
    rows: list[dict[str, int]] = field(default_factory=list)
    start: dict[int, int] = field(default_factory=dict)
    time: dict[int, int] = field(default_factory=dict)
    calls: list[tuple[int, int, int]] = field(default_factory=list)
    permuted: list[tuple[list[int], list[int], list[int]]] = field(default_factory=list)
    accesses: list[tuple[int, int, int, int, int]] = field(default_factory=list)


def signed(value: int, bits: int = 32) -> int:
    """A number of so many bits in two's complement."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def stream(data: bytes) -> list[int]:
    """The words of an input: its length, then its bytes."""
    padded = data + bytes(-len(data) % 4)
    return [len(data), *(int.from_bytes(padded[i : i + 4], "little") for i in range(0, len(padded), 4))]


def run(image: Image, private: bytes = b"", public: bytes = b"", segment: int = 1 << 20, limit: int = 1 << 22) -> Run:
    """Run a program to its exit. Raises Trapped."""
    return Interpreter(image, stream(private), stream(public), segment).run(limit)


HALVES = ("rs1", "rs2", "rd_before", "rd_after")
"""What a row of a record has in two halves if registers have 64 bits."""


class Interpreter:
    """The state of an execution. Memory and registers are one map, by the keys of the tables."""

    def __init__(self, image: Image, private: Sequence[int], public: Sequence[int], segment: int) -> None:
        self.image, self.length, self.xlen = image, segment, image.xlen
        self.mask, self.first = (1 << image.xlen) - 1, FIRST_REGISTER_OF[image.xlen]
        self.code = dict(zip(image.code_address.tolist(), image.code_word.tolist(), strict=True))
        self.words = {a // 4: w for a, w in zip(image.memory_address.tolist(), image.memory_word.tolist(), strict=True)}
        self.inputs = {3: list(private), 4: list(public)}
        self.pc, self.cycle = image.entry, 0
        self.output: list[int] = []
        self.last: dict[int, int] = {}
        self.records: list[Record] = []
        self.now = _Segment(0, self.pc)
        self.row: dict[str, int] = {}

    def run(self, limit: int) -> Run:
        while self.pc and self.cycle < limit:
            self.step()
            if len(self.now.rows) == self.length or not self.pc:
                self._close()
        if self.pc:
            raise Trapped("no exit")
        words = {key: (self.words.get(key, 0), segment) for key, segment in self.last.items()}
        code = self.words.get(self.first + 10, 0) & M32
        return Run(self.image, self.records, words, code, self.output, self.cycle)

    # -- accesses -----------------------------------------------------------------------------------------------------

    def access(self, key: int, slot: int) -> tuple[int, int]:
        """Note an access; the word and the time of the one before."""
        value = self.words.get(key, 0)
        self.now.start.setdefault(key, value)
        previous = self.now.time.get(key, 0)
        self.now.time[key] = 4 * (len(self.now.rows) + 1) + slot
        return value, previous

    def read(self, register: int, name: str) -> int:
        if not register:
            return 0
        self.row[name], self.row[f"{name}_previous"] = self.access(self.first + register, 0 if name == "rs1" else 1)
        return self.row[name]

    def write(self, register: int, value: int) -> None:
        if register:
            key = self.first + register
            self.row["rd_before"], self.row["rd_previous"] = self.access(key, 3)
            self.row["rd_after"] = self.words[key] = value & self.mask

    def memory(self, address: int, size: int, stored: int | None) -> int:
        """Load or store `size` bytes; the bytes before as a number."""
        if address % size:
            raise Trapped(f"unaligned access at {address:#x}")
        if address >> (37 if self.xlen == 64 else 32):
            raise Trapped(f"no memory at {address:#x}")
        if size == 8:
            low = self.memory(address, 4, stored)
            high, self.row["memory_upper_previous"] = self.access(address // 4 + 1, 2)
            after = high if stored is None else stored >> 32
            self.words[address // 4 + 1] = after
            self.row.update(memory_before_upper=high, memory_after_upper=after)
            return low | high << 32
        shift, mask = 8 * (address % 4), (1 << 8 * size) - 1
        word, self.row["memory_previous"] = self.access(address // 4, 2)
        after = word if stored is None else word & ~(mask << shift) | (stored & mask) << shift
        self.words[address // 4] = after
        self.row.update(address=address & M32 & ~3, memory_before=word, memory_after=after)
        return word >> shift & mask

    # -- instructions -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        pc = self.pc
        if pc not in self.code:
            raise Trapped(f"no instruction at {pc:#x}")
        w = self.code[pc]
        self.row = {"pc": pc, "word": w}
        self.pc = pc + 4 & M32
        self.execute(w, pc)
        if self.xlen == 64:
            for name in HALVES:
                value = self.row.get(name, 0)
                self.row[name], self.row[f"{name}_upper"] = value & M32, value >> 32
        if self.pc % 4:
            raise Trapped(f"unaligned jump to {self.pc:#x}")
        self.row["next_pc"] = self.pc
        self.now.rows.append(self.row)
        self.cycle += 1

    def execute(self, w: int, pc: int) -> None:
        opcode, rd, funct3, rs1, rs2, funct7 = w & 127, w >> 7 & 31, w >> 12 & 7, w >> 15 & 31, w >> 20 & 31, w >> 25
        i_imm, mask, bits = signed(w >> 20, 12), self.mask, self.xlen
        wide = bits == 64
        amount, above = (w >> 20 & 63, w >> 26 << 1) if wide else (rs2, funct7)
        match opcode:
            case 0x37:
                self.write(rd, signed(w & 0xFFFFF000))
            case 0x17:
                self.write(rd, pc + signed(w & 0xFFFFF000))
            case 0x6F:
                offset = (w >> 31) << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1
                self.pc = pc + signed(offset, 21) & mask
                self.write(rd, pc + 4)
            case 0x67 if funct3 == 0:
                self.pc = self.read(rs1, "rs1") + i_imm & mask & ~1
                self.write(rd, pc + 4)
            case 0x63 if funct3 not in (2, 3):
                a, b = self.read(rs1, "rs1"), self.read(rs2, "rs2")
                results = a == b, signed(a, bits) < signed(b, bits), a < b
                taken = results[(0, 0, 0, 0, 1, 1, 2, 2)[funct3]] != bool(funct3 & 1)
                offset = (w >> 31) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1
                if taken:
                    self.pc = pc + signed(offset, 13) & mask
            case 0x03 if funct3 in (0, 1, 2, 4, 5) or (wide and funct3 in (3, 6)):
                size = 1 << (funct3 & 3)
                value = self.memory(self.read(rs1, "rs1") + i_imm & mask, size, None)
                self.write(rd, value if funct3 & 4 else signed(value, 8 * size))
            case 0x23 if funct3 < 3 + wide:
                a, b = self.read(rs1, "rs1"), self.read(rs2, "rs2")
                self.memory(a + signed(funct7 << 5 | rd, 12) & mask, 1 << funct3, b)
            case 0x13 if funct3 not in (1, 5):
                self.write(rd, base(funct3, self.read(rs1, "rs1"), i_imm & mask, bits))
            case 0x13 if above == 0 or (above == 32 and funct3 == 5):
                a = self.read(rs1, "rs1")
                self.write(rd, signed(a, bits) >> amount if above else base(funct3, a, amount, bits))
            case 0x33 if funct7 in (0, 1) or (funct7 == 32 and funct3 in (0, 5)):
                a, b = self.read(rs1, "rs1"), self.read(rs2, "rs2")
                self.write(rd, operate(funct3, funct7, a, b, bits))
            case 0x1B if wide and (funct3 == 0 or (funct3 in (1, 5) and funct7 in (0, 8 * (funct3 - 1)))):
                a = self.read(rs1, "rs1") & M32
                value = operate(funct3, funct7, a, rs2, 32) if funct3 else a + i_imm
                self.write(rd, signed(value & M32))
            case 0x3B if wide and funct3 in {0: (0, 1, 5), 1: (0, 4, 5, 6, 7), 32: (0, 5)}.get(funct7, ()):
                a, b = self.read(rs1, "rs1") & M32, self.read(rs2, "rs2") & M32
                self.write(rd, signed(operate(funct3, funct7, a, b, 32) & M32))
            case 0x0F if funct3 == 0:
                pass
            case 0x73 if w == 0x73:
                self.host()
            case _:
                raise Trapped(f"illegal instruction {w:08x} at {pc:#x}")

    def host(self) -> None:
        number, argument = self.read(17, "rs1"), self.read(10, "rs2")
        word = argument & M32
        if number in range(6, 23) and argument not in (word, signed(word) & self.mask):
            raise Trapped(f"no operand at {argument:#x}")
        if number == 1:
            self.pc = 0
        elif number == 2:
            self.output.append(word)
        elif number in (3, 4):
            if not self.inputs[number]:
                raise Trapped("read beyond the end of an input")
            word = self.inputs[number].pop(0)
        elif number == 5:
            word = self.cycle & M32
        elif number == 6:
            self.permute(word)
        elif number in range(7, 23) and self._sets_number(number):
            self.compute(number, word)
        else:
            raise Trapped(f"unknown host call {number}")
        self.write(10, signed(word))
        self.now.calls.append((len(self.now.rows), number, word))

    def permute(self, address: int) -> None:
        if address % 4 or address + 4 * STATE_WORDS > 1 << 32:
            raise Trapped(f"no state at {address:#x}")
        self.permute_words(address // 4)

    def permute_words(self, first: int) -> None:
        """Keccak-f of the words from this key on."""
        keys = range(first, first + STATE_WORDS)
        before, previous = (list(each) for each in zip(*(self.access(key, 2) for key in keys), strict=True))
        after = keccak_f_of_words(before)
        self.words.update(zip(keys, after, strict=True))
        self.now.permuted.append((before, after, previous))

    def _sets_number(self, call: int) -> bool:
        """Whether the program has an instruction `li a7, NUMBER` with this one or another of the same table."""
        numbers = next(group for group in GROUPS if call in group)
        return any(word == 0x893 + (number << 20) for word in self.code.values() for number in numbers)

    def compute(self, number: int, address: int) -> None:
        """A call that computes on words of memory."""
        if number == 8:
            words = self.operand(address, 64)
            self.touch(address, 2, words, extended(words[:16]))
        elif number < 10:
            pointer, *state = self.operand(address, 9)
            words = self.operand(pointer, 64 if number == 9 else 16)
            schedule = (
                words if number == 9 else extended([int.from_bytes(w.to_bytes(4, "little"), "big") for w in words])
            )
            self.touch(pointer, 0, words)
            self.touch(address, 2, [pointer, *state], [pointer, *compressed(state, schedule)])
        elif number in POINTS or number == ED25519_ADD:
            self.add_points(number, address)
        else:
            self.multiply(address, number % 2 == 1, 8 if number < 12 else 12)

    def multiply(self, address: int, adds: bool, size: int) -> None:
        """x y, or x y + addend, modulo a number of so many words."""
        context = self.operand(address, 4 + size)
        to, *given = context[:4]
        given = given[: 2 + adds]
        if adds and abs(given[2] - address) < 4 * (size + 4 if given[2] > address else size):
            raise Trapped("addend and modulus overlap")
        operands = [self.operand(pointer, size) for pointer in given]
        x, y, addend, m = map(joined, (*operands, *[[0]] * (3 - len(operands)), context[4:]))
        quotient, rest = divmod(x * y + addend, m or 1 << 32 * size)
        if quotient >> 32 * size:
            raise Trapped("a quotient with more words than the numbers")
        before = self.operand(to, size)
        for slot, (pointer, words) in enumerate(zip(given[:2], operands[:2], strict=True)):
            self.touch(pointer, slot, words)
        self.touch(address, 2, context)
        if adds:
            self.touch(given[2], 2, operands[2])
        self.touch(to, 3, before, [rest >> 32 * k & M32 for k in range(size)])

    def add_points(self, number: int, address: int) -> None:
        """A sum of the points at two addresses, or the double of one, in the place of the first."""
        add, modulus, a, size = POINTS.get(number, (ED25519_ADD, ED25519, 0, 8))
        if number == add:
            first, second = pointers = self.operand(address, 2)
            other = self.operand(second, 2 * size)
        else:
            first, pointers, other = address, [], None
        point = self.operand(first, 2 * size)
        p, q = ((joined(each[:size]), joined(each[size:])) for each in (point, other or point))
        edwards = number == ED25519_ADD
        total = self.edwards_sum(p, q) if edwards else self.point_sum(p, q if other else None, modulus, a)
        if other:
            self.touch(second, 0, other)
            self.touch(address, 2, pointers)
        self.touch(first, 3, point, [n >> 32 * k & M32 for n in total for k in range(size)])

    def point_sum(self, p: tuple[int, int], q: tuple[int, int] | None, modulus: int, a: int) -> tuple[int, int]:
        """p + q, or 2 p without q, by the chord and tangent rule on y^2 = x^3 + a x + b."""
        (x1, y1), (x2, y2) = p, q or p
        if max(x1, y1, x2, y2) >= modulus:
            raise Trapped("a coordinate that is not below the modulus")
        rise, run = (y2 - y1, x2 - x1) if q else (3 * x1 * x1 + a, 2 * y1)
        if run == 0:
            raise Trapped("no sum by this formula")
        slope = rise * pow(run, -1, modulus) % modulus
        x3 = (slope * slope - x1 - x2) % modulus
        return x3, (slope * (x1 - x3) - y1) % modulus

    def edwards_sum(self, p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
        """p + q on Ed25519's curve (RFC 8032, 5.1.4), of any coordinates."""
        (x1, y1), (x2, y2) = p, q
        product = -121665 * pow(121666, -1, ED25519) * x1 * x2 * y1 * y2 % ED25519
        if product in (1, ED25519 - 1):
            raise Trapped("no sum by this formula")
        x3 = (x1 * y2 + x2 * y1) * pow(1 + product, -1, ED25519) % ED25519
        return x3, (y1 * y2 + x1 * x2) * pow(1 - product, -1, ED25519) % ED25519

    def operand(self, address: int, count: int) -> list[int]:
        """So many words of memory."""
        if address % 4 or address + 4 * count > 1 << 32:
            raise Trapped(f"no words at {address:#x}")
        return [self.words.get(address // 4 + k, 0) for k in range(count)]

    def touch(self, address: int, slot: int, before: Sequence[int], after: Sequence[int] | None = None) -> None:
        """Access these words, and leave others."""
        for k, (old, new) in enumerate(zip(before, after or before, strict=True)):
            _, previous = self.access(address // 4 + k, slot)
            self.words[address // 4 + k] = new
            time = 4 * (len(self.now.rows) + 1) + slot
            self.now.accesses.append((address + 4 * k, old, new, time, previous))

    # -- the record ---------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Make the record of the segment that ends, and begin the next."""
        done, number = self.now, len(self.records)
        names = FIELDS_OF[self.xlen]
        columns = np.array([[row.get(name, 0) for row in done.rows] for name in names], dtype=np.uint32)
        registers = range(self.first, self.first + 32)
        memory = sorted(key for key in done.start if key < self.first)

        def of(keys: Sequence[int], shift: int = 0) -> list[np.ndarray[tuple[int], np.dtype[np.uint32]]]:
            ends = [self.words.get(key, 0) for key in keys]
            starts = [done.start.get(key, end) for key, end in zip(keys, ends, strict=True)]
            times = [done.time.get(key, 0) for key in keys]
            halves = [[value >> shift & M32 for value in each] for each in (starts, ends)]
            return [np.array(each, dtype=np.uint32) for each in (*halves, times)]

        calls = np.array(done.calls, dtype=np.uint32).reshape(-1, 3).T
        permuted = np.array(done.permuted, dtype=np.uint32).reshape(-1, 3, STATE_WORDS).transpose(1, 0, 2)
        ends = columns, done.first_cycle, done.pc, self.pc
        words = np.array(memory, dtype=np.uint64) * np.uint64(4), *of(memory)
        accesses = np.array(done.accesses, dtype=np.uint32).reshape(-1, 5)
        upper = of(registers, 32)[:2]
        self.records.append(Record(*ends, *of(registers), *words, *calls, *permuted, accesses, *upper))
        self.last.update(dict.fromkeys(done.start, number + 1))
        self.now = _Segment(self.cycle, self.pc)


def joined(words: Sequence[int]) -> int:
    """The number of these words, the lowest first."""
    return sum(word << 32 * k for k, word in enumerate(words))


def operate(funct3: int, funct7: int, a: int, b: int, bits: int) -> int:
    """An operation of two numbers of so many bits, which may come out longer."""
    if funct7 == 32:
        return signed(a, bits) >> (b & bits - 1) if funct3 else a - b
    return (multiply if funct7 else base)(funct3, a, b, bits)


def base(funct3: int, a: int, b: int, bits: int = 32) -> int:
    """add, sll, slt, sltu, xor, srl, or, and."""
    amount, less = b & bits - 1, signed(a, bits) < signed(b, bits)
    results = a + b, a << amount, less, a < b, a ^ b, a >> amount, a | b, a & b
    return int(results[funct3])


def multiply(funct3: int, a: int, b: int, bits: int = 32) -> int:
    """mul, mulh, mulhsu, mulhu, div, divu, rem, remu."""
    x, y, most = signed(a, bits), signed(b, bits), (1 << bits) - 1
    if funct3 < 4:
        return (a * b, x * y >> bits, x * b >> bits, a * b >> bits)[funct3]
    if b == 0:
        return (most, most, a, a)[funct3 - 4]
    quotient = abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
    return (quotient, a // b, x - quotient * y, a % b)[funct3 - 4]
