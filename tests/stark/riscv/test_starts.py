"""What a guest's start does before `main`, files whose start leaves it out, and the ends of the stack."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from distprove.errors import InputError
from distprove.stark.riscv.elf import parse_elf, read_elf
from distprove.stark.riscv.executor import Execution, Inputs, Trap
from tests.cli.conftest import run
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import code_file

GUESTS = Path(__file__).parent / "guests"
TP = 4
INIT_ARRAY, PREINIT_ARRAY, PROGBITS, SYMBOLS, STRINGS = 14, 16, 1, 2, 3
ALLOC, THREAD_LOCAL = 0x2, 0x400

TABLE = 0
for each in range(16):
    TABLE = (31 * TABLE + each * each + 7) % 2**32


def words(name: str, public: bytes = b"") -> list[int]:
    outcome = Execution(read_elf(GUESTS / f"{name}.elf"), Inputs(public=public)).run()
    assert outcome.exit_code == 0
    return list(struct.unpack(f"<{len(outcome.output) // 4}I", outcome.output))


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("starts", [11, 12, 9, 0, 6, 6, 10, 0]),
        ("classes", [9, 15, TABLE]),
        ("errno", [0x7FFFFFFF, 34]),
    ],
)
def test_constructors_and_thread_local_data(name: str, output: list[int]) -> None:
    assert words(name) == output


def with_sections(
    code: list[int], sections: list[tuple[bytes, int, int, int]], symbols: tuple[bytes, ...] = ()
) -> bytes:
    """A guest with sections (name, type, flags, size), and symbols."""
    data = bytearray(code_file(code))
    names = b"\0" + b"".join(name + b"\0" for name in symbols)
    table = b"".join(struct.pack("<IIIBBH", names.index(name), 0x10000, 0, 0, 0, 1) for name in symbols)
    titles = b"\0" + b"".join(name + b"\0" for name, *_ in sections)
    at = [len(data), len(data) + len(names), len(data) + len(names) + len(table)]
    rows = [(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    rows += [(titles.index(name), kind, flags, 0x20000, 0, size, 0, 0, 4, 4) for name, kind, flags, size in sections]
    rows += [(0, STRINGS, 0, 0, at[0], len(names), 0, 0, 1, 0)]
    rows += [(0, SYMBOLS, 0, 0, at[1], len(table), len(rows) - 1, 0, 4, 16)] * bool(symbols)
    rows += [(0, STRINGS, 0, 0, at[2], len(titles), 0, 0, 1, 0)]
    body = names + table + titles
    struct.pack_into("<I", data, 32, len(data) + len(body))
    struct.pack_into("<HHH", data, 46, 40, len(rows), len(rows) - 1)
    return bytes(data) + body + b"".join(struct.pack("<10I", *row) for row in rows)


LEAVE = asm.leave()
SETS_TP = [asm.imm("addi", TP, 0, 64), *LEAVE]
CONSTRUCTORS = (b".init_array", INIT_ARRAY, ALLOC, 4)
LOCAL = (b".tdata", PROGBITS, ALLOC | THREAD_LOCAL, 4)


@pytest.mark.parametrize(
    ("code", "sections", "symbols", "says"),
    [
        (LEAVE, [], (), ""),
        (LEAVE, [CONSTRUCTORS], (), "has constructors (.init_array)"),
        (LEAVE, [CONSTRUCTORS], (b"main", b"_start"), "has constructors (.init_array)"),
        (LEAVE, [(b".preinit_array", PREINIT_ARRAY, ALLOC, 4)], (), "has constructors (.preinit_array)"),
        (LEAVE, [CONSTRUCTORS], (b"__init_array_start",), ""),  # newlib's start, and others
        (LEAVE, [CONSTRUCTORS], (b"__libc_init_array",), ""),
        (LEAVE, [(b".init_array.00101", INIT_ARRAY, ALLOC, 4)], (), "has constructors (.init_array.00101)"),
        (LEAVE, [(b".ctors", PROGBITS, ALLOC, 4)], (), "has constructors (.ctors)"),
        (LEAVE, [(b".ctors.65434", PROGBITS, ALLOC, 4)], (b"main",), "has constructors (.ctors.65434)"),
        (LEAVE, [(b".ctors", PROGBITS, ALLOC, 4)], (b"__CTOR_LIST__",), ""),
        (LEAVE, [(b".init_array", INIT_ARRAY, ALLOC, 0)], (), ""),
        (LEAVE, [(b".rodata", INIT_ARRAY, ALLOC, 4)], (), ""),  # guest.ld, where there are no other constants
        (LEAVE, [LOCAL], (), "no instruction sets the thread pointer"),
        (LEAVE, [(b".tbss", 8, ALLOC | THREAD_LOCAL, 4)], (b"_start",), "no instruction sets the thread pointer"),
        (SETS_TP, [LOCAL], (), ""),
    ],
)
def test_what_a_start_leaves_out_is_refused(
    code: list[int], sections: list[tuple[bytes, int, int, int]], symbols: tuple[bytes, ...], says: str, tmp_path: Path
) -> None:
    file = with_sections(code, sections, symbols)
    if not says:
        assert Execution(parse_elf(file, "guest")).run().exit_code == 0
        return
    with pytest.raises(InputError) as refused:
        parse_elf(file, "guest")
    assert says in str(refused.value)
    assert "link it with start.S and guest.ld" in str(refused.value)
    (tmp_path / "guest.elf").write_bytes(file)
    assert run("run", tmp_path / "guest.elf").exit_code == 2


@pytest.mark.parametrize("calls", [0, 1, 1_000_000])
def test_a_deep_stack(calls: int) -> None:
    assert words("deep", struct.pack("<I", calls)) == [calls * (calls + 1) // 2 % 2**32]


@pytest.mark.parametrize("calls", [2_000_000, 0xFFFFFFFE, 0xFFFFFFFF])
def test_a_stack_that_overflows_traps(calls: int) -> None:
    """It wrapped to the top of memory, or went on into the heap, and gave another output with exit code 0."""
    with pytest.raises(Trap, match="not writable: code, constants, or beyond the end of the stack"):
        words("deep", struct.pack("<I", calls))


def test_a_guest_with_a_guarded_stack_is_proven(tmp_path: Path) -> None:
    command = ("prove", "stark", "riscv", "--elf", GUESTS / "starts.elf", "--out", tmp_path / "run", "--security", "1")
    done = run(*command, "--grinding", "0", "--local", "--threads", "2", "--backend", "cpu")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "output.bin").read_bytes() == struct.pack("<8I", 11, 12, 9, 0, 6, 6, 10, 0)
