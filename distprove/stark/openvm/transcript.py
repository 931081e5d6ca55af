"""The Fiat-Shamir transcript of stark-backend 2.0: a duplex sponge over BabyBear that prover and verifier share.

The state has 16 elements. An observed element overwrites the next of the first 8; the eighth is followed by a
permutation. A sample permutes if elements wait since the last permutation, or if all 8 are drawn, and takes the first 8
elements from the last to the first. An element of the extension is 4 elements, the coefficient of 1 first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.openvm.field import Ext
from kernels.cpu.poseidon2_babybear import absorbed, least_witness, permuted
from kernels.host.units import count_of
from kernels.maths.babybear import Elements
from kernels.maths.poseidon2_babybear import RATE, WIDTH

State = list[int]
Search = Callable[[Sequence[int], int, int], int]
"""A search for a proof of work: from a state, the position that the witness overwrites, and bits, to the witness."""


FEW_BITS = 8
"""Bits of a proof of work that one thread does in the time in which a device begins: 2^8 permutations take 30 us."""


class Transcript:
    """A duplex sponge. Callers must observe everything that a challenge depends on before they sample it."""

    def __init__(self) -> None:
        self._state: State = [0] * WIDTH
        self._absorbed = 0
        """Elements observed since the last permutation, below 8."""
        self._left = 0
        """Elements that can be drawn before the next permutation."""

    def copy(self) -> Transcript:
        """Return a transcript in the same state."""
        other = Transcript()
        other._state, other._absorbed, other._left = self._state.copy(), self._absorbed, self._left
        return other

    @property
    def state(self) -> tuple[Sequence[int], int, int]:
        """The 16 elements, the number observed since the last permutation, and the number that can still be drawn."""
        return tuple(self._state), self._absorbed, self._left

    def resume(self, state: Sequence[int], absorbed: int, left: int) -> None:
        """Continue from what `state` has of another transcript."""
        self._state, self._absorbed, self._left = list(state), absorbed, left

    def observe(self, value: int) -> None:
        """Observe one canonical element."""
        self._state[self._absorbed] = value
        self._absorbed += 1
        if self._absorbed == RATE:
            self._permute()

    def observe_ext(self, value: Ext) -> None:
        """Observe an element of the extension."""
        for coefficient in value:
            self.observe(coefficient)

    def observe_words(self, words: Elements) -> None:
        """Observe an array of canonical elements, of the base field or the extension, in C order."""
        if words.size < RATE:
            for word in words.reshape(-1).tolist():
                self.observe(word)
            return
        self._state, self._absorbed = absorbed(self._state, self._absorbed, words)
        self._left = RATE

    def sample(self) -> int:
        """Draw an element."""
        if self._absorbed or not self._left:
            self._permute()
        self._left -= 1
        return self._state[self._left]

    def sample_ext(self) -> Ext:
        """Draw an element of the extension."""
        return self.sample(), self.sample(), self.sample(), self.sample()

    def sample_array(self) -> Elements:
        """Draw an element of the extension as an array (4,)."""
        return np.array(self.sample_ext(), dtype=np.uint32)

    def sample_bits(self, bits: int) -> int:
        """Draw an integer below 2^bits: the low bits of an element. Raises ValueError for more than 30 bits."""
        if not 0 <= bits <= 30:
            raise ValueError(f"an element of BabyBear has no {count_of(bits, 'bit')} to draw")
        return self.sample() & ((1 << bits) - 1)

    def check(self, bits: int, witness: int) -> bool:
        """Observe the witness of a proof of work. Returns True if the next `bits` drawn bits are 0.

        For 0 bits there is no work and nothing is observed. The one valid witness is then 0, which provers send, so
        that a proof has one encoding; stark-backend takes any.
        """
        if not bits:
            return witness == 0
        self.observe(witness)
        return self.sample_bits(bits) == 0

    def need_work(self, bits: int, witness: int, what: str) -> None:
        """Raise InvalidProof unless `witness` does the work of so many bits."""
        if not self.check(bits, witness):
            raise InvalidProof(f"the proof of work {what} is not done")

    def grind(self, bits: int, search: Search | None = None) -> int:
        """Find a witness, by default the least, and observe it as `check` does. `search` replaces the search
        on the caller's thread for more than FEW_BITS. Raises ValueError if it gives a witness that does not do the
        work."""
        if not bits:
            return 0
        chosen = least_witness if search is None or bits <= FEW_BITS else search
        witness = chosen(self._state, self._absorbed, bits)
        if not self.check(bits, witness):
            raise ValueError(f"{witness} does not do the work of {count_of(bits, 'bit')}")
        return witness

    def _permute(self) -> None:
        self._state = permuted(self._state)
        self._absorbed, self._left = 0, RATE
