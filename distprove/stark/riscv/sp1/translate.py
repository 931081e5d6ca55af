"""Translates a guest of SP1, whose calls are `ecall` with their number in t0 (`trampolines.py`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from importlib import resources

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, parse_elf
from distprove.stark.riscv.executor import Execution
from distprove.stark.riscv.trampolines import (
    CALL,
    MOST_BUFFERS,
    RESTORE_RA,
    SAVE_RA,
    Site,
    framed,
    jump,
    with_handler,
)

VALUES = 0xF1000000
"""Where the handler keeps the public values: their size in bytes, then the bytes."""
MOST_VALUES = 0x0E000000
_ECALL = 0x73
CALLS = {
    0x00: "HALT",
    0x02: "WRITE",
    0x03: "ENTER_UNCONSTRAINED",
    0x04: "EXIT_UNCONSTRAINED",
    0x10: "COMMIT",
    0x1A: "COMMIT_DEFERRED_PROOFS",
    0x1B: "VERIFY_SP1_PROOF",
    0xF0: "HINT_LEN",
    0xF1: "HINT_READ",
    0x300105: "SHA_EXTEND",
    0x010106: "SHA_COMPRESS",
    0x010107: "ED_ADD",
    0x000108: "ED_DECOMPRESS",
    0x010109: "KECCAK_PERMUTE",
    0x01010A: "SECP256K1_ADD",
    0x00010B: "SECP256K1_DOUBLE",
    0x00010C: "SECP256K1_DECOMPRESS",
    0x01010E: "BN254_ADD",
    0x00010F: "BN254_DOUBLE",
    0x00011C: "BLS12381_DECOMPRESS",
    0x01011D: "UINT256_MUL",
    0x01011E: "BLS12381_ADD",
    0x00011F: "BLS12381_DOUBLE",
}
"""Names of SP1's calls, by number."""


def translate(elf: Elf, what: str) -> Elf:
    """The guest with its calls translated; `what` names it in errors. Raises InputError for one whose segments leave no
    room for handler or trampolines."""
    sites = [start + 4 * i for start, words in elf.program for i in (words == _ECALL).nonzero()[0].tolist()]
    return with_handler(elf, [_site(site) for site in sites], _handler(), what)


def _site(address: int) -> Site:
    """An `ecall`. Its trampoline saves ra at the top of memory, calls the handler, restores ra, and jumps back."""
    return Site(address, 5, lambda at: (SAVE_RA, *CALL, RESTORE_RA, jump(at + 16, address + 4)))


def private_input(data: bytes, what: str) -> bytes:
    """The private input of a translated guest, from a file with SP1's `SP1Stdin` as bincode (little-endian 64-bit
    numbers): the number of buffers, each with its size before it, the place of the reader, and proofs, of which there
    must be none. An empty file is one without buffers. Raises FormatError, InputError."""
    if not data:
        return b""
    place, out = 0, []

    def number() -> int:
        nonlocal place
        if place + 8 > len(data):
            raise FormatError(f"{what}: ends in the middle of an SP1Stdin")
        place += 8
        return int(struct.unpack_from("<Q", data, place - 8)[0])

    count = number()
    if count > MOST_BUFFERS:
        raise FormatError(f"{what}: not an SP1Stdin as bincode, or one of more than {MOST_BUFFERS} buffers")
    for _ in range(count):
        size = number()
        if size > len(data) - place:
            raise FormatError(f"{what}: a buffer ends beyond the file, as in none of an SP1Stdin")
        out.append(data[place : place + size])
        place += size
    if number() != 0 or number() != 0 or place != len(data):
        raise InputError(f"{what}: a reader that has begun, proofs, or more behind them; a guest gets only buffers")
    return framed(out, what)


def stdin_file(buffers: Sequence[bytes]) -> bytes:
    """The file that `private_input` reads."""
    packed = b"".join(struct.pack("<Q", len(each)) + each for each in buffers)
    return struct.pack("<Q", len(buffers)) + packed + bytes(16)


def public_values(execution: Execution) -> bytes:
    """The public values that a translated guest has written. Its output is the digest of them that it committed to.

    A guest may have changed their size; the handler takes more than a cycle for each byte that it keeps.
    """
    size = int.from_bytes(execution.memory(VALUES, 4), "little")
    return execution.memory(VALUES + 4, min(size, MOST_VALUES, execution.outcome.cycles))


@cache
def _handler() -> Elf:
    data = resources.files(__package__).joinpath("handler.elf").read_bytes()
    return parse_elf(data, "the handler of SP1's calls")
