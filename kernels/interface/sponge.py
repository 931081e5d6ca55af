"""The transcript of OpenVM 2's proofs, as kernels continue it: a duplex sponge over BabyBear.

Implementation: `distprove.stark.openvm.transcript.Transcript`, which describes the sponge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernels.maths.babybear import Elements


class Sponge(Protocol):
    """A duplex sponge on the host. A GPU takes its state, continues it on the device and puts the new one back."""

    @property
    def state(self) -> tuple[Sequence[int], int, int]:
        """The 16 elements, the number observed since the last permutation, and the number that can still be drawn."""

    def resume(self, state: Sequence[int], absorbed: int, left: int) -> None:
        """Continue from what `state` has of another sponge."""

    def observe_words(self, words: Elements) -> None:
        """Observe an array of canonical elements, of the base field or the extension, in C order."""

    def sample_array(self) -> Elements:
        """Draw an element of the extension, (4,)."""
