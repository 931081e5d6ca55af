"""Unconstrained blocks of SP1's guests: passed over in proofs, executed before them for the buffers they ask for."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from py_ecc import secp256k1
from py_ecc.bls12_381 import field_modulus as BLS12_381

from distprove.errors import InputError
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Inputs, Trap
from distprove.stark.riscv.program import RiscV, private_input
from distprove.stark.riscv.sp1 import translate as sp1
from distprove.stark.riscv.sp1.hints import _HOOKS as HOOKS
from distprove.stark.riscv.sp1.hints import square_root
from tests.cli.conftest import run
from tests.stark.riscv.test_machine import proven
from tests.stark.test_proofs import check
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import code_file

AT, BUFFER = 0x20000, 0x20400
ED25519 = 2**255 - 19
HALT = [*asm.li(5, 0), 0x73]


def call(code: int, *arguments: int) -> list[int]:
    loads = [word for k, value in enumerate(arguments) for word in asm.li(10 + k, value)]
    # As compilers load a small constant, which shows that a guest has such blocks.
    return [*loads, *([asm.imm("addi", 5, 0, code)] if code < 2048 else asm.li(5, code)), 0x73]


def block(xlen: int, content: list[int]) -> list[int]:
    """An unconstrained block, which changes registers and the stack too."""
    store, load = ("sw", "lw") if xlen == 32 else ("sd", "ld")
    inside = [*content, *asm.li(8, 5), *asm.li(25, 6), asm.store(store, 8, 2, 8), *asm.li(2, 0x30800), *call(4)]
    return [
        *asm.li(2, 0x200400 - 64 if xlen == 32 else 0x78000000 - 64),
        *asm.li(8, 7),
        *asm.li(25, 9),
        asm.store(store, 25, 2, 8),
        *call(3),
        asm.imm("addi", 5, 5, -1),
        asm.branch("bne", 5, 0, 4 * len(inside) + 4),
        *inside,
        asm.load(load, 6, 2, 8),  # 9
        asm.op("add", 8, 8, 25),  # 7 + 9
        asm.op("add", 8, 8, 6),
    ]


def file_of(xlen: int, content: list[int], reads: list[int], data: bytes = b"") -> bytes:
    """A guest with a block, which then reads buffers of these sizes to BUFFER and behind. Its exit code is 25."""
    words, at = block(xlen, content), BUFFER
    for size in reads:
        words += call(0xF1, at, size)
        at += size + 7 & ~7
    return code_file([*words, asm.imm("addi", 10, 8, 0), *HALT], data=data, xlen=xlen)


def executed(file: bytes, buffers: list[bytes], size: int) -> bytes:
    """What lies from BUFFER on behind a run on the input that a run for hints finds. That run alone executes blocks."""
    guest = parse_elf(file, "guest")
    private = sp1.private_input(sp1.stdin_file(buffers), "input", guest)
    execution = Execution(sp1.translate(guest, "guest"), Inputs(private), max_cycles=1 << 20)
    assert execution.run().exit_code == 25
    return execution.memory(BUFFER, size)


@pytest.mark.parametrize("xlen", [32, 64])
def test_a_hint(xlen: int) -> None:
    """It comes before the input, and what the block changed is as it was: stack, and registers that functions keep."""
    file = file_of(xlen, call(2, 14, AT, 5), [5, 3], b"hints")
    assert executed(file, [b"one", b"more"], 11) == b"hints\0\0\0one"


@pytest.mark.parametrize("xlen", [32, 64])
def test_hints_are_read_last_first(xlen: int) -> None:
    content = [*call(2, 14, AT, 5), *call(2, 14, AT + 5, 2), *call(2, 1, AT, 5)]
    assert executed(file_of(xlen, content, [2, 5], b"first2d"), [], 13) == b"2d\0\0\0\0\0\0first"


def numbers(size: int, *values: int) -> bytes:
    return b"".join(value.to_bytes(size, "big") for value in values)


@pytest.mark.parametrize("xlen", [32, 64])
def test_a_hook(xlen: int) -> None:
    """Its buffers come back in order."""
    data = struct.pack(">I", 32) + numbers(32, 4, secp256k1.P, 3)
    made = executed(file_of(xlen, call(2, 20, AT, 100), [1, 32], data), [], 40)
    assert made[0] == 1
    assert int.from_bytes(made[8:], "big") in (2, secp256k1.P - 2)


@pytest.mark.parametrize("xlen", [32, 64])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (call(2, 5, AT, 5), "writes to 5 in an unconstrained block"),
        (call(2, 13, AT, 5), "writes to 13"),  # public values
        (call(2, 20, AT, 5), "the hook 20"),
    ],
)
def test_what_no_block_may_write(xlen: int, content: list[int], why: str) -> None:
    with pytest.raises(InputError, match=why):
        executed(file_of(xlen, content, []), [], 0)


@pytest.mark.parametrize("xlen", [32, 64])
@pytest.mark.parametrize("content", [call(3), call(0), call(0x10, 0, 0), call(0xF0), call(2, 14, 0xF0010000, 1 << 28)])
def test_what_no_block_may_call(xlen: int, content: list[int]) -> None:
    with pytest.raises(Trap):
        executed(file_of(xlen, content, []), [], 0)


def test_a_call_that_is_refused_before_the_run_is_named(tmp_path: Path) -> None:
    elf = tmp_path / "guest.elf"
    words = [*block(64, []), *call(0x132, AT, 1), *HALT]
    elf.write_bytes(code_file(words, xlen=64))
    done = run("run", elf, "--calls", "sp1")
    assert done.exit_code == 1
    assert "SP1's call MPROTECT (0x132) was refused" in done.output


def test_no_proof_leaves_a_block() -> None:
    for xlen in (32, 64):
        stack = asm.li(2, 0x30800)
        file = code_file([*stack, *call(4), *HALT], xlen=xlen)
        with pytest.raises(Trap, match="unknown host call"):
            Execution(sp1.translate(parse_elf(file, "guest"), "guest")).run()


def test_it_is_proven(tmp_path: Path) -> None:
    """The block is no part of the proof, and a wrong buffer is the prover's own: the guest checks it."""
    elf = tmp_path / "guest.elf"
    elf.write_bytes(file_of(64, call(2, 14, AT, 5), [5], b"hints"))
    program = RiscV(elf=str(elf), calls="sp1", segment=512)
    key, names, publics, proofs, output = proven(program)
    check(key, names, publics, proofs, output)
    assert program.explain(publics, [])["exit code"] == "25"
    assert private_input(str(elf), "sp1", b"", "input") == struct.pack("<I", 5) + b"hints\0\0\0"
    assert private_input(str(elf), "", b"as it is", "input") == b"as it is"


@pytest.mark.parametrize("p", [secp256k1.P, BLS12_381, ED25519, 2**64 - 2**32 + 1, 13])
def test_square_roots(p: int) -> None:
    non_residue = next(k for k in range(2, 100) if pow(k, (p - 1) // 2, p) == p - 1)
    drawn = random.Random(p)
    for _ in range(20):
        a = drawn.randrange(1, p)
        root, other = square_root(a, p, non_residue), square_root(non_residue * a % p, p, non_residue)
        assert (root is None) is not (other is None)
        assert root is None or root * root % p == a
        assert other is None or other * other % p == non_residue * a % p


def test_square_roots_of_no_field() -> None:
    for p, non_residue in ((ED25519, 4), (3 * 5 * 7, 2)):
        for a in range(2, 40):
            try:
                root = square_root(a, p, non_residue)
            except ValueError:
                continue
            assert root is None or root * root % p == a


def test_points_from_their_x() -> None:
    """Hook 15: of secp256k1 and P-256, y of the parity asked for, and the inverse of x modulo the group's order."""
    p256 = (
        2**256 - 2**224 + 2**192 + 2**96 - 1,
        -3,
        0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    )
    orders = (secp256k1.N, 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551)
    found = set()
    for (curve, (p, a, b)), order in zip(enumerate(((secp256k1.P, 0, 7), p256), 1), orders, strict=True):
        for x in range(1, 12):
            square = (x**3 + a * x + b) % p
            for odd in (0, 1):
                made = HOOKS[15](bytes([curve | odd << 7]) + numbers(32, x, square))
                root = int.from_bytes(made[1], "big")
                found.add(made[0])
                if made[0] == b"\1":
                    assert root * root % p == square
                    assert root & 1 == odd
                    assert int.from_bytes(made[2], "big") * x % order == 1
                else:
                    assert len(made) == 2
                    assert root * root % p == 3 * square % p
    assert found == {b"\0", b"\1"}


def test_edwards_points_from_their_y() -> None:
    """Hook 16."""
    d = -121665 * pow(121666, -1, ED25519) % ED25519
    found = set()
    for y in range(2, 30):
        v = (d * y * y + 1) % ED25519
        made = HOOKS[16]((y | 1 << 255).to_bytes(32, "little") + v.to_bytes(32, "little"))
        found.add(made[0])
        square = (y * y - 1) * pow(v, -1, ED25519) % ED25519
        assert (made[0] == b"\1") is (pow(square, (ED25519 - 1) // 2, ED25519) == 1)
        if made[0] == b"\0":
            inverse, root = (int.from_bytes(each, "little") for each in made[1:])
            assert inverse * v % ED25519 == 1
            assert root * root % ED25519 == 2 * square % ED25519
    assert found == {b"\0", b"\1"}
    assert HOOKS[16](ED25519.to_bytes(32, "little") + bytes(32)) == [b"\0"]


def test_other_hooks() -> None:
    drawn = random.Random(3)
    a, size = drawn.randrange(BLS12_381), 256
    (inverse,) = HOOKS[19](numbers(48, a))
    assert int.from_bytes(inverse, "big") * a % BLS12_381 == 1
    assert HOOKS[21](struct.pack(">I", 48) + numbers(48, a, BLS12_381)) == [inverse]
    kind, root = HOOKS[18](numbers(48, a))
    assert pow(int.from_bytes(root, "big"), 2, BLS12_381) == (1 if kind == b"\1" else 2) * a % BLS12_381
    assert HOOKS[18](bytes(48)) == [b"\1", bytes(48)]
    modulus = drawn.getrandbits(8 * size) | 1 << 8 * size - 1
    product = drawn.randrange(modulus) * drawn.randrange(modulus)
    remainder, quotient = HOOKS[17](product.to_bytes(2 * size, "little") + modulus.to_bytes(size, "little"))
    assert int.from_bytes(quotient, "little") * modulus + int.from_bytes(remainder, "little") == product


@pytest.mark.parametrize(
    ("hook", "content"),
    [
        (15, b""),
        (15, bytes(65)),
        (15, b"\3" + numbers(32, 1, 8)),
        (15, b"\1" + numbers(32, 0, 7)),
        (16, bytes(63)),
        (16, bytes(64)),
        (17, bytes(3 * 256)),
        (17, b"\xff" * 512 + b"\1" + bytes(255)),
        (19, bytes(48)),
        (20, struct.pack(">I", 1 << 31)),
        (20, struct.pack(">I", 1) + b"\5\5\2"),
        (20, struct.pack(">I", 1) + b"\5\1\2"),
        (20, struct.pack(">I", 1) + b"\5\x10\2"),
        (21, struct.pack(">I", 1) + b"\0\7"),
        (21, struct.pack(">I", 1) + b"\3\0"),
    ],
)
def test_wrong_arguments_of_hooks(hook: int, content: bytes) -> None:
    with pytest.raises((ValueError, LookupError)):
        HOOKS[hook](content)
