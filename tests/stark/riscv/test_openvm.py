"""Guests of OpenVM: translated, run, and proven like any other. guests/openvm.c links nothing of ours."""

from __future__ import annotations

import hashlib
import json
import operator
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, parse_elf, read_elf
from distprove.stark.riscv.executor import Execution, Inputs, Stop, Trap
from distprove.stark.riscv.openvm.translate import input_file, private_input, translate
from distprove.stark.riscv.program import RiscV
from tests.cli.conftest import run
from tests.stark.riscv.test_guests import GUESTS
from tests.stark.riscv.test_machine import proven
from tests.stark.test_keccak_slices import keccak_f
from tests.stark.test_proofs import check
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, WRITE, code_file, elf_file

GUEST = translate(read_elf(GUESTS / "openvm.elf"), "guest")
KECCAK_F, XOR_IN, SHA_256, EQUAL, UNREAD, WILD, OTHER = range(32, 39)
AT_THE_END = struct.pack("<2I", 77, 115)
"""What the guest reveals last, from registers that a trampoline uses itself."""
WORD, TOP = 1 << 256, 1 << 255


def signed(x: int) -> int:
    return x - WORD if x >= TOP else x


INT256: list[Callable[[int, int], int]] = [
    operator.add,
    operator.sub,
    operator.xor,
    operator.or_,
    operator.and_,
    lambda a, b: a << b % 256,
    lambda a, b: a >> b % 256,
    lambda a, b: signed(a) >> b % 256,
    lambda a, b: signed(a) < signed(b),
    operator.lt,
    operator.mul,
]
"""By their funct7."""
NUMBERS = st.one_of(
    st.sampled_from([0, 1, TOP - 1, TOP, WORD - 1]),
    st.integers(0, 256),
    st.integers(0, WORD - 1),
)


def executed(elf: Elf, buffers: list[bytes]) -> Execution:
    execution = Execution(elf, Inputs(private_input(input_file(buffers), "input")), max_cycles=1 << 22)
    execution.run()
    return execution


def answers(*operations: tuple[int, bytes]) -> bytes:
    """What the guest reveals of operations, given by their numbers and operands."""
    buffers = [struct.pack("<I", len(operations)), *(struct.pack("<I", number) + data for number, data in operations)]
    done = executed(GUEST, buffers).outcome
    assert done.exit_code == 0, "a call changed a register"
    assert done.output.endswith(AT_THE_END)
    return done.output[: -len(AT_THE_END)]


@given(st.integers(0, 10), NUMBERS, NUMBERS)
@settings(max_examples=200, deadline=None)
def test_integers_of_256_bits(operation: int, a: int, b: int) -> None:
    operands = a.to_bytes(32, "little") + b.to_bytes(32, "little")
    expected = int(INT256[operation](a, b)) % WORD
    assert answers((operation, operands)) == expected.to_bytes(32, "little")


@given(st.integers(0, WORD - 1), st.integers(0, 255), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_branch(a: int, bit: int, differ: bool) -> None:
    operands = a.to_bytes(32, "little") + (a ^ (differ << bit)).to_bytes(32, "little")
    assert answers((EQUAL, operands)) == struct.pack("<I", not differ)


@given(st.binary(min_size=200, max_size=200), st.binary(min_size=64, max_size=64))
@settings(max_examples=10, deadline=None)
def test_hashes(state: bytes, block: bytes) -> None:
    permuted = struct.pack("<25Q", *keccak_f(list(struct.unpack("<25Q", state))))
    assert answers((KECCAK_F, state)) == permuted
    other = (state + block)[:136]
    assert answers((XOR_IN, state[:136] + other)) == bytes(x ^ y for x, y in zip(state[:136], other, strict=True))


@pytest.mark.parametrize("size", range(0, 56, 5))
def test_sha_256(size: int) -> None:
    start = struct.pack(
        "<8I", *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
    )
    message = bytes(range(size))
    block = (message + b"\x80").ljust(56, b"\0") + (8 * size).to_bytes(8, "big")
    given_by = struct.unpack("<8I", answers((SHA_256, start + block)))
    assert struct.pack(">8I", *given_by) == hashlib.sha256(message).digest()


def test_buffers_follow_each_other() -> None:
    """Also where the guest leaves words of one unread; public words have the order of the calls."""
    one = (1).to_bytes(32, "little")
    assert answers() == b""
    assert answers((0, one + one), (10, one + one + bytes(100)), (EQUAL, one + one)) == (
        (2).to_bytes(32, "little") + one + struct.pack("<I", 1)
    )


MEMORY_END = 0x20000000


@pytest.mark.parametrize(
    ("number", "operands"),
    [
        (UNREAD, b""),
        (OTHER, b""),
        (WILD, struct.pack("<2I", 0x300001, 1)),
        (WILD, struct.pack("<2I", MEMORY_END, 1)),
        (WILD, struct.pack("<2I", MEMORY_END - 4, 2)),
        (WILD, struct.pack("<2I", 0xF0010000, 1)),
        (WILD, struct.pack("<2I", 0x300000, 1 << 30)),
        (WILD, struct.pack("<2I", 0x300000, 1)),
    ],
    ids=["no word left", "not the next place", "odd", "end", "beyond", "handler", "wraps", "no word left for it"],
)
def test_what_is_refused(number: int, operands: bytes) -> None:
    with pytest.raises(Trap, match="unknown host call") as trapped:
        answers((number, operands))
    assert trapped.value.state is not None
    assert trapped.value.state.stop is Stop.UNKNOWN_CALL
    assert trapped.value.state.about & 0x80000000
    with pytest.raises(Trap):
        executed(GUEST, [])


def test_an_instruction_of_another_extension_traps_where_it_is_met() -> None:
    """The rest of the program is executed: a guest may have more than it uses."""
    curve = 0x0000102B
    leave = [*asm.li(10, 7), 0x0000000B | 3 << 20]
    assert executed(translate(parse_elf(code_file([*leave, curve]), "guest"), "guest"), []).outcome.exit_code == 3
    with pytest.raises(Trap, match="illegal"):
        executed(translate(parse_elf(code_file([curve, *leave]), "guest"), "guest"), [])


def test_many_ends_share_a_trampoline() -> None:
    """As in code with many panics, for each of which there would be no room."""
    ends = [0x0000000B | (k % 3) << 20 for k in range(100)]
    elf = translate(parse_elf(code_file(ends), "guest"), "guest")
    assert len(elf.patches) == 100
    assert executed(elf, []).outcome.exit_code == 0
    far = struct.pack("<2I", 0x0000300B, 0x0000000B) + bytes(1 << 21)
    parts = [(0x10000, far + far + far, READ | EXECUTE), (0x800000, b"", READ | WRITE)]
    large = parse_elf(elf_file(parts, 0x10000, sizes=[None, 4096]), "guest")
    with pytest.raises(InputError, match="no room for the trampoline"):
        translate(large, "guest")


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"input": 7}',
        b'{"input": ["0x0"]}',
        b'{"input": ["00"]}',
        b'{"input": ["0x02aabbccdd"]}',
        b'{"input": [7]}',
    ],
)
def test_inputs_that_are_none(content: bytes) -> None:
    with pytest.raises(FormatError, match=r"not an input|not begin with 01"):
        private_input(content, "file")


def test_inputs() -> None:
    assert private_input(input_file([b"abc", b""]), "file") == b"\3\0\0\0abc\0\0\0\0\0"
    assert private_input(b'{"input": ["01616263"]}', "file") == b"\3\0\0\0abc\0"
    assert private_input(b"", "file") == b""


def test_it_is_proven(tmp_path: Path) -> None:
    one = (1).to_bytes(32, "little")
    (tmp_path / "input").write_bytes(input_file([struct.pack("<I", 1), struct.pack("<I", 0) + one + one]))
    program = RiscV(calls="openvm", elf=str(GUESTS / "openvm.elf"), input=str(tmp_path / "input"), segment=512)
    key, names, publics, proofs, output = proven(program)
    assert len(names) > 1
    check(key, names, publics, proofs, output)
    assert output == (2).to_bytes(32, "little") + AT_THE_END


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(input_file([bytes(4)]))
    done = run("run", GUESTS / "openvm.elf", "--calls", "openvm", "--input", tmp_path / "input", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["output"] == AT_THE_END.hex()
    refused = run("run", GUESTS / "openvm.elf", "--calls", "openvm")
    assert refused.exit_code == 1
    assert "OpenVM's call HINT_INPUT (0x4) was refused" in refused.stderr
