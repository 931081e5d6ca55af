"""The debug stream of a guest: text in a ring in its own memory, which a symbol names.

It is neither input nor output, so no statement and no proof has it.
"""

from __future__ import annotations

import struct

from distprove.stark.riscv.elf import Elf
from distprove.stark.riscv.executor import Execution

SYMBOL = "__guest_debug"
"""A word that counts the bytes written, modulo 2^32, and then the ring; byte k lies at k modulo the ring's size."""
LARGEST = 1 << 20
"""Bytes that a ring may have."""
_COUNT = struct.Struct("<I")


def debug_text(elf: Elf, execution: Execution) -> str:
    """The text that a guest has written so far, its last part if that is longer than the ring; "" without a stream.

    It may hold private input: it is for the one who runs the guest.
    """
    place = elf.symbol(SYMBOL)
    if place is None or place.address % 4 or not _COUNT.size < place.size <= LARGEST + _COUNT.size:
        return ""
    if place.address + place.size > 1 << 32:
        return ""
    content = execution.memory(place.address, place.size)
    (written,) = _COUNT.unpack_from(content)
    ring = content[_COUNT.size :]
    cut = written % len(ring)
    text = ring[:written] if written <= len(ring) else ring[cut:] + ring[:cut]
    return text.decode("utf-8", "replace")
