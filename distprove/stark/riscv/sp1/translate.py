"""Translates a guest of SP1, whose calls are `ecall` with their number in t0 (`trampolines.py`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from importlib import resources

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, parse_elf
from distprove.stark.riscv.executor import MAX_CYCLES, Execution
from distprove.stark.riscv.sp1.hints import enters_blocks, read_buffers
from distprove.stark.riscv.trampolines import CONVENTIONS, MOST_BUFFERS, Site, framed, jump, with_handler

VALUES = 0x1000000
"""Where the handler keeps the public values, in bytes from its first instruction on: their size, then the bytes."""
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
    0x010120: "BLS12381_FP_ADD",
    0x010121: "BLS12381_FP_SUB",
    0x010122: "BLS12381_FP_MUL",
    0x010123: "BLS12381_FP2_ADD",
    0x010124: "BLS12381_FP2_SUB",
    0x010125: "BLS12381_FP2_MUL",
    0x010126: "BN254_FP_ADD",
    0x010127: "BN254_FP_SUB",
    0x010128: "BN254_FP_MUL",
    0x010129: "BN254_FP2_ADD",
    0x01012A: "BN254_FP2_SUB",
    0x01012B: "BN254_FP2_MUL",
    0x01012C: "SECP256R1_ADD",
    0x00012D: "SECP256R1_DOUBLE",
    0x00012E: "SECP256R1_DECOMPRESS",
    0x01012F: "U256XU2048_MUL",
    0x010130: "UINT256_ADD_CARRY",
    0x010131: "UINT256_MUL_CARRY",
    0x000132: "MPROTECT",
    0x000133: "POSEIDON2",
    0x000134: "SIG_RETURN",
    0x000035: "HINT_MPROTECT_FLUSH",
    0x000040: "DUMP_ELF",
    0x000041: "INSERT_PROFILER_SYMBOLS",
    0x000042: "DELETE_PROFILER_SYMBOLS",
}
"""Names of SP1's calls, by number."""


def translate(elf: Elf, what: str, *, hints: bool = False) -> Elf:
    """The guest with its calls translated; `what` names it in errors. With `hints` it is the one of a run that no proof
    has (`hints.py`). Raises InputError for one whose segments leave no room for handler or trampolines."""
    sites = [start + 4 * i for start, words in elf.program for i in (words == _ECALL).nonzero()[0].tolist()]
    return with_handler(elf, [_site(site, elf.xlen) for site in sites], _handler(elf.xlen, hints), what)


def _site(address: int, xlen: int) -> Site:
    """An `ecall`. Its trampoline saves ra, calls the handler, restores ra, and jumps back."""
    abi = CONVENTIONS[xlen]
    return Site(address, 5, lambda at: (abi.save, *abi.call, abi.restore, jump(at + 16, address + 4)))


def private_input(data: bytes, what: str, guest: Elf, max_cycles: int = MAX_CYCLES) -> bytes:
    """The private input of a translated guest, from a file with an `SP1Stdin`: its buffers, with those that the guest
    reads because of an unconstrained block. `guest` is not translated. Raises FormatError, InputError, Trap,
    CycleLimit."""
    buffers = stdin_buffers(data, what)
    if enters_blocks(guest):
        buffers = read_buffers(translate(guest, what, hints=True), buffers, what, max_cycles)
    return framed(buffers, what)


def stdin_buffers(data: bytes, what: str) -> list[bytes]:
    """The buffers of SP1's `SP1Stdin` as bincode (little-endian 64-bit numbers): the number of buffers, each with its
    size before it, the place of the reader, and proofs, of which there must be none. An empty file is one without
    buffers. Raises FormatError, InputError."""
    if not data:
        return []
    place, out = 0, list[bytes]()

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
    return out


def stdin_file(buffers: Sequence[bytes]) -> bytes:
    """The file that `stdin_buffers` reads."""
    packed = b"".join(struct.pack("<Q", len(each)) + each for each in buffers)
    return struct.pack("<Q", len(buffers)) + packed + bytes(16)


def public_values(execution: Execution) -> bytes:
    """The public values that a translated guest has written. Its output is the digest of them that it committed to.

    A guest may have changed their size; the handler takes more than a cycle for each byte that it keeps.
    """
    values = CONVENTIONS[execution.xlen].handler + VALUES
    size = int.from_bytes(execution.memory(values, 4), "little")
    return execution.memory(values + 4, min(size, MOST_VALUES, execution.outcome.cycles))


@cache
def _handler(xlen: int, hints: bool) -> Elf:
    name = f"{'hints' if hints else 'handler'}{'' if xlen == 32 else xlen}.elf"
    data = resources.files(__package__).joinpath(name).read_bytes()
    return parse_elf(data, "the handler of SP1's calls")
