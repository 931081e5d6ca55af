"""The name of a guest program in keys and proofs, from which a verifier makes the key without the ELF file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from distprove.errors import UsageError
from distprove.stark.riscv.calls import PRECOMPILES

_FORM = re.compile(r"([0-9a-f]{64})-([0-9a-f]{8})-(\d{1,2})-(\d{1,2})((?:-[a-z0-9]{1,16}){0,8})")
_WIDE = "rv64"
"""The word in the name of a guest of RV64IM."""


@dataclass(frozen=True)
class Guest:
    """What the key takes from a program. It binds the program: the root commits to all its words."""

    root: bytes
    """The root of the preprocessed columns at the key's blow-up, 32 bytes."""
    entry: int
    log_rom: int
    log_image: int
    precompiles: tuple[str, ...] = ()
    """The tables of its own that it has, of `PRECOMPILES`, in their order."""
    xlen: int = 32
    """Bits of a register: 32, or 64, which the name has as a word of its own."""

    def __str__(self) -> str:
        words = (_WIDE,) * (self.xlen == 64) + self.precompiles
        return "-".join((self.root.hex(), f"{self.entry:08x}", f"{self.log_rom}", f"{self.log_image}", *words))

    @classmethod
    def parse(cls, text: str) -> Guest:
        """The inverse of `str`. Raises UsageError for another text."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(f"a guest is named by root, entry and heights, ROOT-ENTRY-ROM-IMAGE, not {text!r}")
        root, entry, rom, image, more = match.groups()
        words = tuple(more.split("-")[1:])
        xlen, names = (64, words[1:]) if words[:1] == (_WIDE,) else (32, words)
        if names != tuple(name for name in PRECOMPILES if name in names):
            raise UsageError(
                f"a guest's name ends with some of {_WIDE}, {', '.join(PRECOMPILES)}, in this order, not {more!r}"
            )
        guest = cls(bytes.fromhex(root), int(entry, 16), int(rom), int(image), names, xlen)
        if str(guest) != text:
            raise UsageError(f"a guest's name has no leading zeros in its heights: {text!r}")
        return guest
