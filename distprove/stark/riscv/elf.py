"""ELF files of guests: 32 or 64 bits, little-endian, RISC-V, statically linked.

Format: System V ABI, edition 4.1, chapters 4 and 5, and the RISC-V ELF specification 1.0. Nothing is allocated for what
a header claims: every part lies in the file or is refused, and the file's size is bounded.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from distprove.errors import FormatError, InputError
from distprove.formats.files import read_bounded
from distprove.stark.riscv.decode import LAST_PC, decode
from distprove.stark.riscv.names import shown_name
from distprove.stark.riscv.record import U32, Image, Words64
from kernels.host.units import count_of
from kernels.maths.distinct import distinct_with_places

LARGEST_FILE = 1 << 28
"""Bytes that the file of a guest may have."""
MOST_SEGMENTS = 64
MOST_SYMBOLS = 1 << 20
LONGEST_NAME = 4096
LOWEST_ADDRESS = 4096
"""The machine has nothing below this address, so that a null pointer is a trap."""


class _Class(NamedTuple):
    """The records of a file of one class, and the order of their fields where it is not that of the other."""

    xlen: int
    header: struct.Struct
    program_header: struct.Struct
    program_fields: tuple[int, ...]
    """Places of type, offset, address, bytes in the file, bytes in memory, and flags."""
    section_header: struct.Struct
    symbol: struct.Struct
    symbol_fields: tuple[int, ...]
    """Places of name, value, size, info, and section."""


_CLASSES = {
    b"\x7fELF\x01\x01\x01": _Class(  # 32 bits, little-endian, version 1
        32,
        struct.Struct("<16sHHIIIIIHHHHHH"),
        struct.Struct("<IIIIIIII"),
        (0, 1, 2, 4, 5, 6),
        struct.Struct("<IIIIIIIIII"),
        struct.Struct("<IIIBBH"),
        (0, 1, 2, 3, 5),
    ),
    b"\x7fELF\x02\x01\x01": _Class(
        64,
        struct.Struct("<16sHHIQQQIHHHHHH"),
        struct.Struct("<IIQQQQQQ"),
        (0, 2, 3, 5, 6, 1),
        struct.Struct("<IIQQQQIIQQ"),
        struct.Struct("<IBBHQQ"),
        (0, 4, 5, 1, 3),
    ),
}
"""By the first bytes of a file."""
_MAGIC_BYTES = 7
_EXECUTABLE_FILE, _RISCV = 2, 243
_COMPRESSED, _FLOAT_ABI, _EMBEDDED = 0x1, 0x6, 0x8
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_EXECUTE, _WRITE = 1, 2
_SYMBOLS = 2
_FUNCTION, _UNTYPED = 2, 0
_CODE, _THREAD_LOCAL = 0x4, 0x400
_CONSTRUCTORS = (".init_array", ".preinit_array", ".ctors")
"""How names of sections with constructors begin; the priority follows where a linker script does not join them."""
_TP = 4
_RUNS_THEM = {"__init_array_start", "__preinit_array_start", "__libc_init_array", "__CTOR_LIST__"}
"""Symbols of linker scripts and C libraries that a start which runs constructors needs."""
_LINK = "link it with start.S and guest.ld of distprove/stark/riscv/runtime, which do that"
_PIECE = 1 << 12
"""Words that are decoded at a time to find the first instruction."""


class Segment(NamedTuple):
    """A part of the memory at the start."""

    address: int
    size: int
    """Bytes in memory. Those beyond `data_size` are zero."""
    offset: int
    """First byte in the file."""
    data_size: int
    writable: bool
    executable: bool


class Symbol(NamedTuple):
    """A name for a part of memory, such as a function."""

    address: int
    size: int
    """In bytes; 0 if the file does not say."""
    name: str


@dataclass(frozen=True)
class Elf:
    """A guest that can be loaded: the checks of `read_elf` hold."""

    data: bytes = field(repr=False)
    entry: int
    segments: tuple[Segment, ...]
    """Those that are loaded, by ascending address. They do not overlap."""
    xlen: int = 32
    """Bits of a register: 32 for RV32IM, 64 for RV64IM. Addresses have 32 bits in either."""
    patches: tuple[tuple[int, int], ...] = ()
    """Addresses of the program, with the instructions that are executed there in place of the file's words. Loads read
    the file's."""

    @cached_property
    def functions(self) -> tuple[Symbol, ...]:
        """Symbols of code, by ascending address, with their names as they are shown; none of a stripped file. Only the
        profile and errors use them, so tables that make no sense are passed over."""
        return _functions(self.data)

    @cached_property
    def _starts(self) -> list[int]:
        return [function.address for function in self.functions]

    def function_at(self, address: int) -> str | None:
        """The name of the function with this instruction; None where no symbol names one."""
        place = bisect_right(self._starts, address) - 1
        found = self.functions[place] if place >= 0 else None
        # Code behind the end of a function whose size is known is another's.
        inside = found is not None and (not found.size or address < found.address + found.size)
        return found.name if found is not None and inside else None

    def symbol(self, name: str) -> Symbol | None:
        """Address and size of the first symbol of that name with a size; None of a stripped file."""
        found = (each for each in _symbols(self.data, _sections(self.data)) if each.name == name and each.size)
        return next((Symbol(each.value, each.size, each.name) for each in found), None)

    @cached_property
    def program(self) -> tuple[tuple[int, U32], ...]:
        """The program: address and instruction words of each executable range, ascending. Ranges neither touch nor
        overlap. A last word that is not whole is no part of it."""
        ranges: list[tuple[int, U32]] = []
        for segment in self.segments:
            words = self._words(segment)[: segment.data_size // 4] if segment.executable else _NONE
            if len(words) == 0:
                continue
            if ranges and ranges[-1][0] + 4 * len(ranges[-1][1]) == segment.address:
                ranges[-1] = (ranges[-1][0], np.concatenate([ranges[-1][1], words]))
            else:
                ranges.append((segment.address, words))
        for address, word in self.patches:
            (at,) = (k for k, (start, words) in enumerate(ranges) if start <= address < start + 4 * len(words))
            ranges[at][1][(address - ranges[at][0]) // 4] = word
        return tuple(ranges)

    def image(self) -> Image:
        """The program and the memory at the start; of the memory only the words that are not zero."""
        addresses, values = [_NONE], [_NONE]
        for segment in self.segments:
            words = self._words(segment)
            used = np.flatnonzero(words).astype(np.uint32)
            addresses.append(4 * used + np.uint32(segment.address & ~3))
            values.append(words[used])
        # Two segments may share a word: each has its own bytes of it.
        unique, index = distinct_with_places(np.concatenate(addresses))
        joined = np.zeros(len(unique), dtype=np.uint32)
        np.bitwise_or.at(joined, index, np.concatenate(values))
        code = [start + 4 * np.arange(len(words), dtype=np.uint32) for start, words in self.program]
        words = np.concatenate([words for _, words in self.program])
        return Image(self.entry, np.concatenate(code).astype(np.uint32), words, unique, joined, self.xlen)

    def _words(self, segment: Segment) -> U32:
        """The aligned words that hold the segment's bytes of the file; its other bytes are 0."""
        before = segment.address % 4
        padded = bytes(before) + self.data[segment.offset : segment.offset + segment.data_size]
        return np.frombuffer(padded + bytes(-len(padded) % 4), dtype="<u4").astype(np.uint32)


_NONE: U32 = np.zeros(0, dtype=np.uint32)


def read_elf(path: Path) -> Elf:
    """Read a guest's file. Raises FormatError for what is no such file, InputError for one that cannot be run."""
    return parse_elf(read_bounded(path, LARGEST_FILE), str(path))


def parse_elf(data: bytes, what: str) -> Elf:
    """The guest in `data`; `what` names it in errors. Raises FormatError, InputError."""
    if len(data) > LARGEST_FILE:
        raise FormatError(f"{what}: {count_of(len(data), 'byte')}, more than the {LARGEST_FILE} that a guest may have")
    if not data.startswith(b"\x7fELF"):
        raise FormatError(f"{what}: not an ELF file")
    form = _CLASSES.get(data[:_MAGIC_BYTES])
    if form is None or len(data) < form.header.size:
        raise FormatError(f"{what}: not an ELF file of 32 or 64 bits, little-endian: build for riscv32im or riscv64im")
    header = form.header.unpack_from(data)
    kind, machine, version, entry, program_at, _, flags = header[1:8]
    program_entry, program_count = header[9:11]
    if machine != _RISCV or version != 1:
        raise FormatError(f"{what}: of machine {machine}, not RISC-V ({_RISCV})")
    if kind != _EXECUTABLE_FILE:
        raise InputError(f"{what}: not an executable (type {kind}): link it statically, and not position-independent")
    if flags & (_COMPRESSED | _FLOAT_ABI | _EMBEDDED):
        abi = "ilp32" if form.xlen == 32 else "lp64"
        raise InputError(
            f"{what}: built for more than RV{form.xlen}IM (flags {flags:#x}): use -march=rv{form.xlen}im -mabi={abi}"
        )
    if program_entry != form.program_header.size or not 0 < program_count <= MOST_SEGMENTS:
        raise FormatError(
            f"{what}: {count_of(program_count, 'program header')} of {count_of(program_entry, 'byte')}; "
            f"expected 1 to {MOST_SEGMENTS} of {form.program_header.size}"
        )
    if program_at + program_count * form.program_header.size > len(data):
        raise FormatError(f"{what}: the program headers are not in the file")
    elf = Elf(data, entry, ordered(_segments(data, form, program_at, program_count, what), what), form.xlen)
    if not any(start <= entry < start + 4 * len(words) for start, words in elf.program) or entry % 4 != 0:
        raise InputError(f"{what}: the entry {entry:#x} is not an instruction of the program")
    start, words = elf.program[-1]
    if start + 4 * len(words) == 1 << 32 and _decoded(words[-1:], elf.xlen).size:
        raise InputError(f"{what}: the instruction at 0xfffffffc cannot be proven; the last one is at {LAST_PC:#x}")
    _check_start(elf, what)
    return elf


def require_instructions(elf: Elf, what: str) -> None:
    """Raise InputError for a program without any: it traps at once, and the tables have no row for it."""
    if not any(_decoded(piece, elf.xlen).size for piece in _pieces(elf.program)):
        raise InputError(f"{what}: no word of its executable segments is an instruction of RV{elf.xlen}IM")


def _pieces(program: Sequence[tuple[int, U32]]) -> Iterator[U32]:
    """The program's words, some thousands at a time."""
    return (words[at : at + _PIECE] for _, words in program for at in range(0, len(words), _PIECE))


def _decoded(words: U32, xlen: int) -> Words64:
    """The fields of those words that are instructions, as `decode` makes them."""
    return decode(np.zeros(len(words), dtype=np.uint32), words, xlen)


def ordered(segments: Iterable[Segment], what: str) -> tuple[Segment, ...]:
    """These segments by address. Raises InputError if two of them overlap: the program would have two words at one
    address, and a prover the choice between them."""
    found = tuple(sorted(segments))
    for before, after in pairwise(found):
        if before.address + before.size > after.address:
            raise InputError(f"{what}: the segments at {before.address:#x} and {after.address:#x} overlap")
    return found


def _segments(data: bytes, form: _Class, at: int, count: int, what: str) -> Iterator[Segment]:
    for i in range(count):
        found = form.program_header.unpack_from(data, at + i * form.program_header.size)
        kind, offset, address, data_size, size, flags = (found[place] for place in form.program_fields)
        if kind in (_DYNAMIC, _INTERPRETER):
            raise InputError(f"{what}: dynamically linked: link it with -static")
        if kind != _LOAD or size == 0:
            continue
        where = f"{what}: the segment at {address:#x}"
        writable, executable = bool(flags & _WRITE), bool(flags & _EXECUTE)
        if data_size > size:
            raise FormatError(f"{where} has {count_of(data_size, 'byte')} in the file, and {size} in memory")
        if offset + data_size > len(data):
            raise FormatError(f"{where} has {count_of(data_size, 'byte')} from {offset} on, which are not in the file")
        if address + size > 1 << 32:
            raise FormatError(f"{where} ends beyond 2^32: {count_of(size, 'byte')}")
        if address < LOWEST_ADDRESS:
            raise InputError(f"{where} lies below {LOWEST_ADDRESS}, where the machine has nothing")
        if writable and executable:
            raise InputError(f"{where} is writable and executable: link code and data into segments of their own")
        if executable and address % 4 != 0:
            raise InputError(f"{where} is executable, and its address is not a multiple of 4")
        yield Segment(address, size, offset, data_size, writable, executable)


def _check_start(elf: Elf, what: str) -> None:
    """Raise InputError for a file with constructors or thread-local data that its start-up code leaves out, as far as
    the file tells."""
    sections = _sections(elf.data)
    names = {each.name for each in sections if each.size and each.name.startswith(_CONSTRUCTORS)}
    if names and not _RUNS_THEM & {s.name for s in _symbols(elf.data, sections)}:
        raise InputError(
            f"{what}: has constructors ({', '.join(sorted(names))}), and no symbol of a start that runs them: {_LINK}, "
            "or keep the symbols of one that does"
        )
    if any(each.flags & _THREAD_LOCAL and each.size for each in sections) and not any(
        (_decoded(piece, elf.xlen)[3] == _TP).any() for piece in _pieces(elf.program)
    ):
        raise InputError(f"{what}: has thread-local data, and no instruction sets the thread pointer (tp): {_LINK}")


class _Section(NamedTuple):
    """A part of the file as linkers see it."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    width: int


class _Symbol(NamedTuple):
    name: str
    value: int
    size: int
    kind: int
    section: int


def _sections(data: bytes) -> list[_Section]:
    """The file's sections; none where their table makes no sense. No run and no proof depends on them."""
    form = _CLASSES[data[:_MAGIC_BYTES]]
    header = form.header.unpack_from(data)
    at, entry, count, named = header[6], header[11], header[12], header[13]
    if entry != form.section_header.size or at + count * entry > len(data) or named >= count:
        return []
    found = [form.section_header.unpack_from(data, at + i * entry) for i in range(count)]
    names = _text(data, *found[named][4:6])
    return [_Section(names(f[0]), f[1], f[2], f[4], f[5], f[6], f[9]) for f in found]


def _symbols(data: bytes, sections: Sequence[_Section]) -> Iterator[_Symbol]:
    table = next((section for section in sections if section.kind == _SYMBOLS), None)
    form = _CLASSES[data[:_MAGIC_BYTES]]
    width = form.symbol.size
    if table is None or table.width != width or table.link >= len(sections):
        return
    end = table.offset + table.size
    if table.size > width * MOST_SYMBOLS or end > len(data):
        return
    names = _text(data, sections[table.link].offset, sections[table.link].size)
    for fields in form.symbol.iter_unpack(data[table.offset : end - table.size % width]):
        at, value, size, info, section = (fields[place] for place in form.symbol_fields)
        yield _Symbol(names(at), value, size, info & 15, section)


def _text(data: bytes, at: int, size: int) -> Callable[[int], str]:
    """Read the names in a table of them."""
    names = data[at : at + size]
    return lambda at: names[at : min(names.find(b"\0", at), at + LONGEST_NAME)].decode("utf-8", "replace")


def _functions(data: bytes) -> tuple[Symbol, ...]:
    sections, found = _sections(data), dict[int, Symbol]()
    for name, value, size, kind, section in _symbols(data, sections):
        if kind not in (_FUNCTION, _UNTYPED) or not 0 < section < len(sections) or not sections[section].flags & _CODE:
            continue
        known = found.get(value)
        # Of several at one address the one that says its size; assemblers' own labels are not names.
        if name and not name.startswith(("$", ".L")) and (known is None or (size and not known.size)):
            found[value] = Symbol(value, size, shown_name(name))
    return tuple(found[address] for address in sorted(found))
