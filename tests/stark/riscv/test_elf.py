"""Files of guests: what is loaded, and what is refused with words."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import parse_elf, read_elf
from distprove.stark.riscv.executor import CycleLimit, Execution, Trap
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, WRITE, elf64_file, elf_file

CODE = struct.pack("<7I", *asm.li(5, 0x30001), asm.load("lbu", 10, 5), asm.FENCE, *asm.call(1), 0)
TEXT = (0x10000, CODE, READ | EXECUTE)
GUESTS = Path(__file__).parent / "guests"


def words(array: Any) -> list[int]:
    return [int(word) for word in array]


def test_segments_and_image() -> None:
    """Constants at an odd address, and data that shares a word with them."""
    data = elf_file([TEXT, (0x30001, b"\x2a\x01", READ), (0x30003, b"\x07\0\0\0\0\0\0\0\x09", READ | WRITE)], 0x10000)
    elf = parse_elf(data, "guest")
    assert [segment.address for segment in elf.segments] == [0x10000, 0x30001, 0x30003]
    image = elf.image()
    code = [word for (word,) in struct.iter_unpack("<I", CODE)]
    assert words(image.code_address) == [0x10000 + 4 * i for i in range(7)]
    assert words(image.code_word) == code
    assert words(image.memory_address) == [*words(image.code_address)[:6], 0x30000, 0x30008]
    assert words(image.memory_word) == [*code[:6], 0x07012A00, 0x09000000]
    assert Execution(elf).run().exit_code == 0x2A


def test_ranges_of_code() -> None:
    """Two segments that touch are one range; execution goes through, and a jump goes from one range to another."""
    far = struct.pack("<4I", *asm.leave(9), 0x13)
    jump = struct.pack("<3I", asm.FENCE, asm.jal(0, 0x40000 - 0x10008), 0)
    first = (0x10000, struct.pack("<I", asm.FENCE), READ | EXECUTE)
    file = elf_file([(0x40000, far, EXECUTE), first, (0x10004, jump, READ | EXECUTE)], 0x10000)
    elf = parse_elf(file, "guest")
    assert [(start, len(part)) for start, part in elf.program] == [(0x10000, 4), (0x40000, 4)]
    assert words(elf.image().code_address) == [*range(0x10000, 0x10010, 4), *range(0x40000, 0x40010, 4)]
    execution = Execution(elf)
    assert words(execution.count()) == [1, 1, 1, 0, 1, 1, 1, 0]
    assert execution.outcome.exit_code == 9


def test_memory_beyond_the_file_is_not_allocated() -> None:
    file = elf_file([TEXT, (0x30000, b"ab", READ | WRITE)], 0x10000, sizes=[None, (1 << 32) - 0x30000])
    assert Execution(parse_elf(file, "guest")).run().exit_code == ord("b")


def test_64_bits() -> None:
    """The same segments and image from either class."""
    parts = [TEXT, (0x30001, b"\x2a\x01", READ), (0x30003, b"\x07\0\0\0\0\0\0\0\x09", READ | WRITE)]
    narrow, wide = (
        parse_elf(make(parts, 0x10000, sizes=[None, None, 4096]), "guest") for make in (elf_file, elf64_file)
    )
    assert (narrow.xlen, wide.xlen) == (32, 64)
    assert [part._replace(offset=0) for part in narrow.segments] == [part._replace(offset=0) for part in wide.segments]
    for left, right in zip(vars(narrow.image()).values(), vars(wide.image()).values(), strict=True):
        assert np.array_equal(left, right) or (left, right) == (32, 64)
    assert Execution(wide).run().exit_code == 0x2A


def test_functions() -> None:
    elf = read_elf(GUESTS / "ecdsa.elf")
    names = {function.name: function for function in elf.functions}
    assert {"_start", "main", "mul", "plus", "twice"} <= set(names)
    assert names["_start"].address == elf.entry
    assert all(function.size for function in names.values())
    assert parse_elf(elf_file([TEXT], 0x10000), "stripped").functions == ()


DATA_SEGMENT = (0x20000, b"data", READ | WRITE)
REFUSED: dict[str, tuple[bytes, type[Exception], str]] = {
    "empty": (b"", FormatError, "not an ELF file"),
    "text": (b"#!/bin/sh\n", FormatError, "not an ELF file"),
    "short": (elf_file([TEXT], 0x10000)[:51], FormatError, "not an ELF file of 32 or 64 bits"),
    "of no class": (elf_file([TEXT], 0x10000, identity=b"\x7fELF\x03\x01\x01"), FormatError, "of 32 or 64 bits"),
    "of another class": (elf_file([TEXT], 0x10000, identity=b"\x7fELF\x02\x01\x01"), FormatError, "program headers"),
    "compressed, of 64 bits": (elf64_file([TEXT], 0x10000, flags=1), InputError, "-march=rv64im -mabi=lp64"),
    "an entry beyond 2^32": (elf64_file([TEXT], 0x1_0001_0000), InputError, "entry 0x100010000"),
    "a segment beyond 2^32": (elf64_file([TEXT, (1 << 40, b"a", READ)], 0x10000), FormatError, "2\\^32"),
    "big-endian": (elf_file([TEXT], 0x10000, identity=b"\x7fELF\x01\x02\x01"), FormatError, "little-endian"),
    "another machine": (elf_file([TEXT], 0x10000, machine=40), FormatError, "machine 40"),
    "a library": (elf_file([TEXT], 0x10000, kind=3), InputError, "not an executable"),
    "compressed": (elf_file([TEXT], 0x10000, flags=1), InputError, "-march=rv32im"),
    "floats": (elf_file([TEXT], 0x10000, flags=4), InputError, "-march=rv32im"),
    "no segments": (elf_file([], 0x10000), FormatError, "0 program headers"),
    "many segments": (elf_file([DATA_SEGMENT] * 65, 0x10000), FormatError, "65 program headers"),
    "headers beyond": (elf_file([TEXT], 0x10000)[:60], FormatError, "not in the file"),
    "bytes beyond": (elf_file([TEXT], 0x10000)[:-1], FormatError, "not in the file"),
    "smaller in memory": (elf_file([TEXT], 0x10000, sizes=[4]), FormatError, "in memory"),
    "beyond 2^32": (elf_file([TEXT], 0x10000, sizes=[0xFFFFFFFF]), FormatError, "2\\^32"),
    "too low": (elf_file([(0, CODE, EXECUTE)], 0), InputError, "below 4096"),
    "too low data": (elf_file([TEXT, (4095, b"a", READ)], 0x10000), InputError, "below 4096"),
    "writable code": (elf_file([(0x10000, CODE, 7)], 0x10000), InputError, "writable and executable"),
    "unaligned code": (elf_file([(0x10002, CODE, EXECUTE)], 0x10002), InputError, "multiple of 4"),
    "overlapping": (elf_file([TEXT, (0x1001B, b"a", READ)], 0x10000), InputError, "overlap"),
    "overlapping zeros": (elf_file([TEXT, (0xF000, b"a", READ)], 0x10000, sizes=[None, 4097]), InputError, "overlap"),
    "no code": (elf_file([DATA_SEGMENT], 0x20000), InputError, "entry 0x20000"),
    "entry outside": (elf_file([TEXT], 0x1001C), InputError, "entry 0x1001c"),
    "entry unaligned": (elf_file([TEXT], 0x10002), InputError, "entry 0x10002"),
    "entry in zeros": (elf_file([TEXT], 0x1001C, sizes=[4096]), InputError, "entry 0x1001c"),
    "entry in half a word": (elf_file([(0x10000, CODE[:7], EXECUTE)], 0x10004), InputError, "entry 0x10004"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    data, error, says = REFUSED[name]
    with pytest.raises(error, match=f"guest.elf: .*{says}"):
        parse_elf(data, "guest.elf")


def test_a_dynamic_file_is_refused() -> None:
    data = bytearray(elf_file([TEXT, DATA_SEGMENT], 0x10000))
    data[52 + 32 : 52 + 36] = struct.pack("<I", 3)
    with pytest.raises(InputError, match="-static"):
        parse_elf(bytes(data), "guest")


@given(st.sampled_from(sorted(GUESTS.glob("*.elf"))), st.data())
@settings(max_examples=400, deadline=None)
def test_spoiled_files(path: Path, data: st.DataObject) -> None:
    """A file with other bytes is refused, or runs to an end, a trap or a limit: the process lives."""
    file = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        # The headers as often as all the rest.
        last = data.draw(st.sampled_from([52 + 3 * 32, len(file)])) - 1
        file[data.draw(st.integers(0, last))] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
        )
    cut = data.draw(st.none() | st.integers(0, len(file)))
    try:
        elf = parse_elf(bytes(file[:cut]), "guest")
    except (FormatError, InputError):
        return
    assert isinstance(elf.functions, tuple)
    assert np.all(np.diff(elf.image().memory_address.astype(np.int64)) > 0)
    try:
        Execution(elf, max_cycles=100_000, memory=1 << 24).run()
    except (Trap, CycleLimit):
        return
