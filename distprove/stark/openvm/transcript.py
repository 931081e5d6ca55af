"""The Fiat-Shamir transcript of stark-backend 2.0: a duplex sponge over BabyBear that prover and verifier share.

The state has 16 elements. An observed element overwrites the next of the first 8; the eighth is followed by a
permutation. A sample permutes if elements wait since the last permutation, or if all 8 are drawn, and takes the first 8
elements from the last to the first. An element of the extension is 4 elements, the coefficient of 1 first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.openvm.field import Ext
from kernels.maths.babybear import Elements, P
from kernels.maths.poseidon2_babybear import DIAGONAL, DIGEST, HALF_FULL, PARTIAL, RATE, WIDTH, permute, round_constants

State = list[int]
Permute = Callable[[Sequence[int]], State]
"""Returns the permutation of a state."""
Search = Callable[[Sequence[int], int, int], int]
"""A search for a proof of work: from a state, the position that the witness overwrites, and bits, to the witness."""

GRIND_BATCH = 1 << 14
"""Witnesses that `least_witness` tries at a time."""


class Transcript:
    """A duplex sponge. Callers must observe everything that a challenge depends on before they sample it."""

    def __init__(self, permute: Permute | None = None) -> None:
        """Begin a transcript. `permute` replaces the permutation in Python."""
        self._permutation = permute or permuted
        self._state: State = [0] * WIDTH
        self._absorbed = 0
        """Elements observed since the last permutation, below 8."""
        self._left = 0
        """Elements that can be drawn before the next permutation."""

    def copy(self) -> Transcript:
        """Return a transcript in the same state."""
        other = Transcript(self._permutation)
        other._state, other._absorbed, other._left = self._state.copy(), self._absorbed, self._left
        return other

    @property
    def state(self) -> tuple[Sequence[int], int, int]:
        """The 16 elements, the number observed since the last permutation, and the number that can still be drawn."""
        return tuple(self._state), self._absorbed, self._left

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
        for word in words.reshape(-1).tolist():
            self.observe(word)

    def sample(self) -> int:
        """Draw an element."""
        if self._absorbed or not self._left:
            self._permute()
        self._left -= 1
        return self._state[self._left]

    def sample_ext(self) -> Ext:
        """Draw an element of the extension."""
        return self.sample(), self.sample(), self.sample(), self.sample()

    def sample_bits(self, bits: int) -> int:
        """Draw an integer below 2^bits: the low bits of an element. Raises ValueError for more than 30 bits."""
        if not 0 <= bits <= 30:
            raise ValueError(f"an element of BabyBear has no {bits} bits to draw")
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
        """Find a witness, by default the least, and observe it as `check` does. `search` replaces the search on the
        CPU. Raises ValueError if it gives a witness that does not do the work."""
        if not bits:
            return 0
        witness = (search or least_witness)(self._state, self._absorbed, bits)
        if not self.check(bits, witness):
            raise ValueError(f"{witness} does not do the work of {bits} bits")
        return witness

    def _permute(self) -> None:
        self._state = self._permutation(self._state)
        self._absorbed, self._left = 0, RATE


def least_witness(state: Sequence[int], position: int, bits: int) -> int:
    """Return the least witness whose work is done from a sponge's state, in which it takes the place `position`.

    Raises ValueError if no element does the work, which has probability exp(-2^(31 - bits)).
    """
    mask = np.uint32((1 << bits) - 1)
    for first in range(0, P, GRIND_BATCH):
        tried = np.arange(first, min(first + GRIND_BATCH, P), dtype=np.uint32)
        states = np.tile(np.array(state, dtype=np.uint32), (len(tried), 1))
        states[:, position] = tried
        found = np.flatnonzero(permute(states)[:, RATE - 1] & mask == 0)
        if len(found):
            return first + int(found[0])
    raise ValueError(f"no element does the work of {bits} bits")


def hash_words(words: Elements) -> Elements:
    """Return the digest (8,) of (n,) canonical elements, as `kernels.maths.poseidon2_babybear.hash_rows` has it."""
    state = [0] * WIDTH
    for start in range(0, len(words), RATE):
        block = words[start : start + RATE].tolist()
        state = permuted([*block, *state[len(block) :]])
    return np.array(state[:DIGEST], dtype=np.uint32)


@cache
def _rounds() -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The constants of the first full rounds, the partial rounds and the last full rounds."""
    every = round_constants()
    first = HALF_FULL * WIDTH
    full = [every[i : i + WIDTH] for i in range(0, first, WIDTH)]
    last = [every[i : i + WIDTH] for i in range(first + PARTIAL, len(every), WIDTH)]
    return tuple(full), every[first : first + PARTIAL], tuple(last)


def permuted(state: Sequence[int]) -> State:
    """Return the permutation of one state, as `kernels.maths.poseidon2_babybear.permute` has it of many."""
    first, partial, last = _rounds()
    s = _external(state)
    for constants in first:
        s = _external([_seventh(x + c) for x, c in zip(s, constants, strict=True)])
    for constant in partial:
        s[0] = _seventh(s[0] + constant)
        total = sum(s)
        s = [(total + x * d) % P for x, d in zip(s, DIAGONAL, strict=True)]
    for constants in last:
        s = _external([_seventh(x + c) for x, c in zip(s, constants, strict=True)])
    return s


def _seventh(x: int) -> int:
    square = x * x % P
    return square * square % P * square % P * x % P


def _external(s: Sequence[int]) -> State:
    """The external layer: circ(2 M4, M4, M4, M4), with M4 = circ(2, 3, 1, 1)."""
    mixed = []
    for q in range(0, WIDTH, 4):
        a, b, c, d = s[q : q + 4]
        total = a + b + c + d
        mixed += [total + a + 2 * b, total + b + 2 * c, total + c + 2 * d, total + d + 2 * a]
    columns = [mixed[k] + mixed[k + 4] + mixed[k + 8] + mixed[k + 12] for k in range(4)] * 4
    return [(x + y) % P for x, y in zip(mixed, columns, strict=True)]
