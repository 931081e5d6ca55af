"""Translates a guest of OpenVM, whose calls are instructions of RISC-V's custom-0 opcode (`trampolines.py`).

Follows OpenVM's guest libraries: the base system (extensions/rv32im/guest), Keccak-256, SHA-256 and 256-bit integers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources

from distprove.errors import FormatError
from distprove.stark.riscv.elf import Elf, parse_elf
from distprove.stark.riscv.trampolines import NARROW, Site, framed, jump, with_handler

CUSTOM = 0x0B
_TERMINATE, _HINT, _REVEAL, _PHANTOM, _HASH, _INT256, _BEQ256 = range(7)
"""By funct3."""
_HINT_INPUT, _PRINT = range(2)
"""Of phantom instructions, by the immediate."""
_INT256_OPERATIONS = 11
_NOTHING = 0x13
"""addi x0, x0, 0"""


class Call:
    """Numbers of the calls in handler.c."""

    TERMINATE, HINT_WORD, HINT_BUFFER, REVEAL, HINT_INPUT, KECCAK_F, XOR_IN, SHA_256 = range(8)
    INT256 = 16  # and the operation
    EQUAL = 32


CALLS = {number: name for name, number in vars(Call).items() if name.isupper() and name != "INT256"}
"""Names of the calls, by number. Those of integers follow."""
CALLS |= {Call.INT256 + k: f"INT256 {k}" for k in range(_INT256_OPERATIONS)}


def translate(elf: Elf, what: str) -> Elf:
    """The guest with its calls translated; `what` names it in errors. One that prints does nothing. An instruction that
    is not known stays as it is, and traps. Raises InputError for one whose segments leave no room for handler or
    trampolines."""
    sites, patches = [], {}
    for start, words in elf.program:
        for i in ((words & 0x7F) == CUSTOM).nonzero()[0].tolist():
            address, word = start + 4 * i, int(words[i])
            number = _number(word)
            if (word >> 12 & 7, word >> 20) == (_PHANTOM, _PRINT):
                patches[address] = _NOTHING
            elif number == Call.EQUAL:
                sites.append(Site(address, _BRANCH, partial(_branch, word, address)))
            elif number is not None:
                shared = word if number == Call.TERMINATE else None
                sites.append(Site(address, _CODE, partial(_code, word, number, address), shared))
    return with_handler(elf, sites, _handler(), what, patches)


def private_input(data: bytes, what: str) -> bytes:
    """The private input of a translated guest, from a file as `cargo openvm run --input` reads it: JSON with a list
    `input` of hexadecimal texts, each 0x01 and the bytes of a buffer. An empty file is one without buffers. Raises
    FormatError."""
    if not data:
        return b""
    try:
        content = json.loads(data)
        buffers = [bytes.fromhex(text.removeprefix("0x")) for text in content["input"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError(f'{what}: not an input of OpenVM, {{"input": ["0x01...", ...]}}') from None
    for k, each in enumerate(buffers):
        if each[:1] != b"\x01":
            raise FormatError(f"{what}: buffer {k} does not begin with 01, as bytes do; field elements are not read")
    return framed([each[1:] for each in buffers], what)


def input_file(buffers: Sequence[bytes]) -> bytes:
    """The file that `private_input` reads."""
    return json.dumps({"input": [f"0x01{each.hex()}" for each in buffers]}).encode()


def _number(word: int) -> int | None:
    """The call that an instruction is; None for one that is not known."""
    funct3, immediate, funct7 = word >> 12 & 7, word >> 20, word >> 25
    if funct3 == _TERMINATE:
        return Call.TERMINATE
    if funct3 == _HINT:
        return {0: Call.HINT_WORD, 1: Call.HINT_BUFFER}.get(immediate)
    if funct3 == _REVEAL:
        return Call.REVEAL
    if funct3 == _PHANTOM:
        return Call.HINT_INPUT if immediate == _HINT_INPUT else None
    if funct3 == _HASH:
        return {0: Call.KECCAK_F, 1: Call.XOR_IN, 2: Call.SHA_256}.get(funct7)
    if funct3 == _INT256:
        return Call.INT256 + funct7 if funct7 < _INT256_OPERATIONS else None
    return Call.EQUAL if funct3 == _BEQ256 else None


_CODE, _BRANCH = 11, 15
_FIRST, _SECOND, _THIRD, _CALLED = -72, -76, -80, -84
"""Where the handler finds its operands and the call's number: from the top of memory, addressed from x0."""
_RA, _ZERO = 1, 0


def _code(word: int, number: int, address: int, at: int) -> list[int]:
    """The trampoline of a call: it stores the operands, calls the handler, and jumps back."""
    code = _calling(word, number)
    return [*code, NARROW.restore, jump(at + 4 * len(code) + 4, address + 4)]


def _branch(word: int, address: int, at: int) -> list[int]:
    """The trampoline of a branch: the handler leaves the condition in the place of the first operand."""
    # Its registers are rs1 and rs2, and its immediate is that of a branch.
    offset = (word >> 8 & 0xF) << 1 | (word >> 25 & 0x3F) << 5 | (word >> 7 & 1) << 11 | (word >> 31) << 12
    target = address + offset - (1 << 13 if word >> 31 else 0)
    code = [*_calling((word >> 15 & 31) << 7 | (word >> 20 & 31) << 15, Call.EQUAL), _load(_RA, _FIRST)]
    over = at + 4 * len(code)
    unequal = _RA << 15 | 12 << 7 | 0x63  # beq ra, x0, 12
    return [*code, unequal, NARROW.restore, jump(over + 8, target), NARROW.restore, jump(over + 16, address + 4)]


def _calling(word: int, number: int) -> list[int]:
    rd, rs1, rs2, immediate = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31, word >> 20
    offset = immediate if number in (Call.TERMINATE, Call.REVEAL) else 0
    return [
        NARROW.save,
        _store(rs1, _SECOND),
        _store(rs2 if number >= Call.KECCAK_F else _ZERO, _THIRD),
        offset << 20 | rd << 15 | _RA << 7 | 0x13,  # addi ra, rd, offset
        _store(_RA, _FIRST),
        number << 20 | _RA << 7 | 0x13,  # addi ra, x0, number
        _store(_RA, _CALLED),
        *NARROW.call,
    ]


def _store(register: int, offset: int) -> int:
    """sw register, offset(x0)"""
    low = offset & 0xFFF
    return (low >> 5) << 25 | register << 20 | 2 << 12 | (low & 31) << 7 | 0x23


def _load(register: int, offset: int) -> int:
    """lw register, offset(x0)"""
    return (offset & 0xFFF) << 20 | 2 << 12 | register << 7 | 0x03


@cache
def _handler() -> Elf:
    data = resources.files(__package__).joinpath("handler.elf").read_bytes()
    return parse_elf(data, "the handler of OpenVM's calls")
