"""Makes a guest of this machine from one of SP1, whose calls are `ecall` with their number in t0.

A handler in RV32IM (handler.c), which makes the calls of this machine, is linked above the guest's memory, and every
`ecall` of the guest is executed as a jump to a trampoline of its own, which jumps there and back. So nothing that is
proven knows of SP1: handler and trampolines are part of the program, and the guest's name commits to them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, Segment, ordered, parse_elf
from distprove.stark.riscv.executor import Execution

HANDLER = 0xF0000000
"""The handler's first instruction. Those guests have no memory beyond 0x78000000."""
VALUES = 0xF1000000
"""Where the handler keeps the public values: their size in bytes, then the bytes."""
MOST_VALUES = 0x0E000000
REACH = (1 << 20) - 4
"""Maximum distance of a jump, in bytes."""
BELOW_CODE = 1 << 10
"""Bytes below a guest's code that may be used. Its stack, which grows down, begins 1 KiB below its code."""
_ECALL = 0x73
_TRAMPOLINE = 5 * 4
MOST_BUFFERS = 1 << 20


def translate(elf: Elf, what: str) -> Elf:
    """The guest with its calls translated; `what` names it in errors. Raises InputError for one whose segments leave no
    room for handler or trampolines."""
    if any(segment.address + segment.size > HANDLER for segment in elf.segments):
        raise InputError(f"{what}: memory from {HANDLER:#x} on is for the handler of SP1's calls")
    sites = [start + 4 * i for start, words in elf.program for i in (words == _ECALL).nonzero()[0].tolist()]
    data, segments, patches = elf.data, list(elf.segments), []
    for start, held in _placed(sites, _gaps(elf.segments), what):
        code = b""
        for k, site in enumerate(held):
            at = start + _TRAMPOLINE * k
            patches.append((site, _jump(site, at)))
            code += _trampoline(at, site + 4)
        segments.append(Segment(start, len(code), len(data), len(code), writable=False, executable=True))
        data += code
    handler = _handler()
    segments += [part._replace(offset=part.offset + len(data)) for part in handler.segments]
    placed = ordered(segments, f"{what}, with the handler of its calls")
    return replace(elf, data=data + handler.data, segments=placed, patches=tuple(patches))


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
        out.append(struct.pack("<I", size) + data[place : place + size] + bytes(-size % 4))
        place += size
    if number() != 0 or number() != 0 or place != len(data):
        raise InputError(f"{what}: a reader that has begun, proofs, or more behind them; a guest gets only buffers")
    return b"".join(out)


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


def _gaps(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Free addresses (start, end) beside the code, which do not overlap: from its end to the next segment, and a little
    below its start. A word stays free behind code, so that none runs on into a trampoline."""
    found = []
    for k, segment in enumerate(segments):
        before = segments[k - 1] if k else None
        start, lowest = (before.address + before.size + 4 if before else 4096), segment.address
        if segment.executable:
            lowest = max(start, segment.address - BELOW_CODE)
            found.append((lowest + 15 & ~15, segment.address))
        if before and before.executable:
            found.append((start + 15 & ~15, lowest))
    return found


def _placed(sites: Sequence[int], gaps: Sequence[tuple[int, int]], what: str) -> list[tuple[int, list[int]]]:
    """For each gap that is used, its start and the sites whose trampolines it gets. Raises InputError."""
    held: list[list[int]] = [[] for _ in gaps]
    for site in sites:
        for (start, end), given in zip(gaps, held, strict=True):
            at = start + _TRAMPOLINE * len(given)
            if at + _TRAMPOLINE <= end and max(abs(at - site), abs(at + _TRAMPOLINE - site)) <= REACH:
                given.append(site)
                break
        else:
            raise InputError(f"{what}: no room for the trampoline of the ecall at {site:#x} within 1 MiB of it")
    return [(start, given) for (start, _), given in zip(gaps, held, strict=True) if given]


def _trampoline(at: int, back: int) -> bytes:
    """Save ra at the top of memory, jump to the handler, restore ra, and jump to `back`."""
    save, restore = 0xFE102E23, 0xFFC02083  # sw ra, -4(x0); lw ra, -4(x0)
    there, call = HANDLER | 0xB7, 0x000080E7  # lui ra, HANDLER; jalr ra, 0(ra)
    return struct.pack("<5I", save, there, call, restore, _jump(at + 16, back))


def _jump(at: int, to: int) -> int:
    """The instruction `jal x0` at `at` to `to`."""
    offset = to - at
    return (offset >> 20 & 1) << 31 | (offset >> 1 & 0x3FF) << 21 | (offset >> 11 & 1) << 20 | (offset & 0xFF000) | 0x6F


@cache
def _handler() -> Elf:
    data = resources.files(__package__).joinpath("handler.elf").read_bytes()
    return parse_elf(data, "the handler of SP1's calls")
