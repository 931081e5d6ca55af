"""Makes ELF files of guests, for tests: right ones, and any that break a rule."""

from __future__ import annotations

import struct
from collections.abc import Sequence

READ, WRITE, EXECUTE = 4, 2, 1


def elf_file(
    segments: Sequence[tuple[int, bytes, int]],
    entry: int,
    *,
    sizes: Sequence[int | None] = (),
    kind: int = 2,
    machine: int = 243,
    flags: int = 0,
    identity: bytes = b"\x7fELF\x01\x01\x01",
) -> bytes:
    """An ELF32 file of segments (address, bytes, flags), without sections. `sizes`: bytes in memory, where there are
    more."""
    at = 52 + 32 * len(segments)
    headers, body = b"", b""
    for i, (address, data, access) in enumerate(segments):
        size = sizes[i] if i < len(sizes) else None
        numbers = (1, at + len(body), address, address, len(data), len(data) if size is None else size, access, 4)
        headers += struct.pack("<8I", *numbers)
        body += data
    start = struct.pack(
        "<16sHHIIIIIHHHHHH", identity, kind, machine, 1, entry, 52, 0, flags, 52, 32, len(segments), 40, 0, 0
    )
    return start + headers + body


def elf64_file(
    segments: Sequence[tuple[int, bytes, int]], entry: int, *, sizes: Sequence[int | None] = (), flags: int = 0
) -> bytes:
    """The same as ELF64."""
    at = 64 + 56 * len(segments)
    headers, body = b"", b""
    for i, (address, data, access) in enumerate(segments):
        size = sizes[i] if i < len(sizes) else None
        numbers = (1, access, at + len(body), address, address, len(data), len(data) if size is None else size, 4)
        headers += struct.pack("<2I6Q", *numbers)
        body += data
    identity = b"\x7fELF\x02\x01\x01"
    start = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, 243, 1, entry, 64, 0, flags, 64, 56, len(segments), 64, 0, 0)
    return start + headers + body


def code_file(
    code: Sequence[int], address: int = 0x10000, data: bytes = b"", data_address: int = 0x20000, xlen: int = 32
) -> bytes:
    """An ELF file of instruction words, and a writable segment of 4 KiB that begins with `data`."""
    words = struct.pack(f"<{len(code)}I", *code)
    segments = [(address, words, READ | EXECUTE), (data_address, data, READ | WRITE)]
    make = elf_file if xlen == 32 else elf64_file
    return make(segments, address, sizes=[None, 4096])
