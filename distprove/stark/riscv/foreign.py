"""Systems whose guests this machine runs unmodified, by the name that `calls` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distprove.stark.riscv.elf import Elf
from distprove.stark.riscv.executor import Execution
from distprove.stark.riscv.openvm import translate as openvm
from distprove.stark.riscv.sp1 import translate as sp1


@dataclass(frozen=True)
class Foreign:
    """How a guest of another system becomes one of this machine."""

    title: str
    """The system's name."""
    translate: Callable[[Elf, str], Elf]
    """The guest with its calls translated, from the guest and what names it in errors. Raises InputError."""
    private_input: Callable[[bytes, str, Elf, int], bytes]
    """The private input, from the content of a file in that system's form, what names it, the guest as its file has it,
    and the most cycles of a run of it. Raises InputError, FormatError, Trap, CycleLimit."""
    calls: Mapping[int, str]
    """Names of its calls, by their numbers."""
    widths: tuple[int, ...]
    """Bits of a register of the machines that its guests are for."""
    public_values: Callable[[Execution], bytes] | None = None
    """What the guest made public, where its output is a digest of that."""

    def refused(self, about: int) -> str | None:
        """What to say of the unknown host call of this number in a translated guest; None if none of its calls made it.
        The number may follow from private input."""
        if about >> 31 not in _REFUSED:
            return None
        number = about & 0x7FFFFFFF
        return f"{self.title}'s call {self.calls.get(number, '')} ({number:#x}) was refused".replace("  ", " ")


_REFUSED = (1, (1 << 33) - 1)
"""Bits 31 and above of the number of a host call that a handler makes for one that it refuses. On RV64IM they may be
the sign of a number of 32 bits."""

FOREIGN = {
    "sp1": Foreign("SP1", sp1.translate, sp1.private_input, sp1.CALLS, (32, 64), sp1.public_values),
    "openvm": Foreign(
        "OpenVM", openvm.translate, lambda content, what, *_: openvm.private_input(content, what), openvm.CALLS, (32,)
    ),
}
