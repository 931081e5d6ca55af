"""A public random beacon as the last contribution to a ceremony, as snarkjs derives it (misc.js: rngFromBeaconParams).

    seed = SHA-256 iterated 2^exponent times on the beacon's bytes

The participants name a beacon before it exists, such as the hash of a future block. The iterations delay whoever could
choose among several values. A beacon is public: it adds nothing to a ceremony in which nobody was honest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from distprove.errors import InputError, TooMuchWork
from distprove.groth16.draws import Draws

MAX_BYTES = 255
"""A byte of the file holds the beacon's length."""
LEAST_EXPONENT = 10
"""Smallest exponent that snarkjs and `distprove zkey beacon` make a contribution with."""
MOST_EXPONENT = 63
AFFORDED_EXPONENT = 26
"""Largest exponent that is computed unless the caller allows more: about a minute on one core."""


@dataclass(frozen=True)
class Beacon:
    """A beacon's value, and the binary logarithm of its iterations."""

    value: bytes
    exponent: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.value) <= MAX_BYTES:
            raise InputError(f"a beacon has 1 to {MAX_BYTES} bytes, not {len(self.value)}")
        if not 0 <= self.exponent <= MOST_EXPONENT:
            raise InputError(f"a beacon has 2^0 to 2^{MOST_EXPONENT} iterations, not 2^{self.exponent}")

    @classmethod
    def from_hex(cls, text: str, exponent: int) -> Beacon:
        """The beacon of hexadecimal digits, with or without 0x. Raises InputError, also for fewer iterations than
        snarkjs makes contributions with."""
        try:
            value = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            raise InputError("a beacon is given as hexadecimal digits, two for each byte") from None
        if exponent < LEAST_EXPONENT:
            raise InputError(f"a beacon has 2^{LEAST_EXPONENT} iterations or more, not 2^{exponent}")
        return cls(value, exponent)

    def draws(self, most: int = AFFORDED_EXPONENT) -> Draws:
        """The stream of draws that the beacon seeds. Raises TooMuchWork for more than 2^most iterations."""
        if self.exponent > most:
            raise TooMuchWork(
                f"a beacon of 2^{self.exponent} iterations, more than 2^{most} "
                f"(--beacon-exponent {self.exponent} allows it: 2^26 take a minute)"
            )
        sha256, digest = hashlib.sha256, self.value
        for _ in range(1 << self.exponent):
            digest = sha256(digest).digest()
        return Draws(digest)
