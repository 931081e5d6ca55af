"""Makes a guest of this machine from one of another system, whose calls are instructions that this machine lacks.

A handler in RV32IM, which makes the calls of this machine, is linked above the guest's memory. Every such instruction
of the guest is executed as a jump to a trampoline of its own, which jumps there and back. So nothing that is proven
knows of the other system: handler and trampolines are part of the program, and the guest's name commits to them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from distprove.errors import FormatError, InputError
from distprove.stark.riscv.elf import Elf, Segment, ordered

REACH = (1 << 20) - 4
"""Maximum distance of a jump, in bytes."""
MOST_BUFFERS = 1 << 20
"""Buffers of a guest's input."""


@dataclass(frozen=True)
class Convention:
    """Where the handler lies for guests of one register width, and how a trampoline calls it."""

    handler: int
    """The handler's first instruction, at a multiple of 4096."""
    end: int
    """The end of what is for the handler's memory: no guest has a segment from `handler` to there."""
    save: int
    """The instruction that saves ra, for the handler and `restore` to find."""
    restore: int
    below_code: int
    """Bytes below code that may be used."""
    stack_top: int = 0
    """Nothing below this address is used in that way."""

    @property
    def call(self) -> tuple[int, ...]:
        """The instructions `lui ra, handler` and `jalr ra, 0(ra)`."""
        return self.handler | 0xB7, 0x000080E7


NARROW = Convention(0xF0000000, 1 << 32, 0xFE102E23, 0xFFC02083, 1 << 10)
"""RV32IM. ra is saved at the top of memory, which x0 addresses: `sw ra, -4(x0)`, `lw ra, -4(x0)`. The stack of SP1's
guests, which grows down, begins 1 KiB below their code."""
WIDE = Convention(0x10000000, 0x20000000, 0xFE113C23, 0xFF813083, 1 << 12, 0x78000000)
"""RV64IM. Nothing near x0 is memory, so ra is saved below the stack, where the ABI keeps nothing: `sd ra, -8(sp)`, `ld
ra, -8(sp)`. The segments of SP1's guests lie from 0x78000000 on, a page apart, and the stack grows down from there."""
CONVENTIONS = {32: NARROW, 64: WIDE}
"""By the width of a register."""


@dataclass(frozen=True)
class Site:
    """An instruction of the guest that is executed as a jump to a trampoline."""

    address: int
    words: int
    """Instructions of its trampoline."""
    code: Callable[[int], Sequence[int]]
    """The trampoline for the address where it lies."""
    shared: int | None = None
    """Sites with an equal number share a trampoline where they reach it: it does not come back."""


def with_handler(
    elf: Elf, sites: Sequence[Site], handler: Elf, what: str, patches: Mapping[int, int] | None = None
) -> Elf:
    """The guest with a trampoline for each of `sites`, and a handler; `what` names it in errors. `patches` are further
    instruction words by address. Raises InputError for one whose segments leave no room for handler or trampolines."""
    abi = CONVENTIONS[elf.xlen]
    if any(segment.address + segment.size > abi.handler and segment.address < abi.end for segment in elf.segments):
        raise InputError(f"{what}: memory from {abi.handler:#x} to {abi.end:#x} is for the handler of its calls")
    data, segments, words = elf.data, list(elf.segments), dict(patches or {})
    for start, held in _placed(sites, _gaps(elf.segments, abi), what):
        code: list[int] = []
        for sites_here in held:
            at = start + 4 * len(code)
            words.update((site.address, jump(site.address, at)) for site in sites_here)
            code += sites_here[0].code(at)
        packed = struct.pack(f"<{len(code)}I", *code)
        segments.append(Segment(start, len(packed), len(data), len(packed), writable=False, executable=True))
        data += packed
    segments += [part._replace(offset=part.offset + len(data)) for part in handler.segments]
    placed = ordered(segments, f"{what}, with the handler of its calls")
    return replace(elf, data=data + handler.data, segments=placed, patches=tuple(sorted(words.items())))


def jump(at: int, to: int) -> int:
    """The instruction `jal x0` at `at` to `to`."""
    offset = to - at
    return (offset >> 20 & 1) << 31 | (offset >> 1 & 0x3FF) << 21 | (offset >> 11 & 1) << 20 | (offset & 0xFF000) | 0x6F


def framed(buffers: Sequence[bytes], what: str) -> bytes:
    """The private input of a translated guest: of each buffer the size, little-endian in four bytes, and its bytes,
    filled up with zeros to a multiple of four. Raises FormatError."""
    if len(buffers) > MOST_BUFFERS:
        raise FormatError(f"{what}: more than {MOST_BUFFERS} buffers")
    return b"".join(struct.pack("<I", len(each)) + each + bytes(-len(each) % 4) for each in buffers)


def _gaps(segments: Sequence[Segment], abi: Convention) -> list[tuple[int, int]]:
    """Free addresses (start, end) beside the code, which do not overlap: from its end to the next segment, and a little
    below its start. A word stays free behind code, so that none runs on into a trampoline."""
    found = []
    for k, segment in enumerate(segments):
        before = segments[k - 1] if k else None
        start, lowest = (before.address + before.size + 4 if before else 4096), segment.address
        if segment.executable:
            lowest = max(start, min(segment.address, max(segment.address - abi.below_code, abi.stack_top)))
            found.append((lowest + 15 & ~15, segment.address))
        if before and before.executable:
            found.append((start + 15 & ~15, lowest))
    return found


def _placed(sites: Sequence[Site], gaps: Sequence[tuple[int, int]], what: str) -> list[tuple[int, list[list[Site]]]]:
    """For each gap that is used, its start, and the sites of each of its trampolines. Raises InputError."""
    held: list[list[list[Site]]] = [[] for _ in gaps]
    ends = [start for start, _ in gaps]
    shared: dict[int, list[tuple[int, list[Site]]]] = {}

    def reaches(site: Site, at: int) -> bool:
        return max(abs(at - site.address), abs(at + 4 * site.words - site.address)) <= REACH

    def place(site: Site) -> bool:
        if site.shared is not None:
            for at, others in shared.get(site.shared, ()):
                if reaches(site, at):
                    others.append(site)
                    return True
        for k, (_, end) in enumerate(gaps):
            at = ends[k]
            if at + 4 * site.words <= end and reaches(site, at):
                held[k].append([site])
                ends[k] += 4 * site.words
                if site.shared is not None:
                    shared.setdefault(site.shared, []).append((at, held[k][-1]))
                return True
        return False

    for site in sites:
        if not place(site):
            raise InputError(f"{what}: no room for the trampoline of the call at {site.address:#x} within 1 MiB of it")
    return [(start, given) for (start, _), given in zip(gaps, held, strict=True) if given]
