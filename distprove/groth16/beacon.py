"""A public random beacon as the last contribution to a ceremony, as snarkjs derives it (misc.js: rngFromBeaconParams).

    seed = SHA-256 iterated 2^exponent times on the beacon's bytes

The participants name a beacon before it exists, such as the hash of a future block. The iterations delay whoever could
choose among several values. A beacon is public: it adds nothing to a ceremony in which nobody was honest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from distprove.errors import InputError, TooMuchWork
from distprove.groth16.draws import Draws

MAX_BYTES = 255
"""A byte of the file holds the beacon's length."""
LEAST_EXPONENT = 10
"""Smallest exponent that snarkjs and `distprove zkey beacon` make a contribution with."""
MOST_EXPONENT = 63
AFFORDED_EXPONENT = 26
"""Binary logarithm of the iterations that a verifier repeats unless its caller allows more: about a minute on one
core."""


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

    def draws(self) -> Draws:
        """The stream of draws that the beacon seeds."""
        sha256, digest = hashlib.sha256, self.value
        for _ in range(1 << self.exponent):
            digest = sha256(digest).digest()
        return Draws(digest)


def require_affordable(name: str, exponents: Iterable[int | None], most: int) -> None:
    """Raise TooMuchWork if the beacons of the file `name` have more than 2^most iterations together. `exponents` are
    the binary logarithms of their iterations."""
    total = sum(1 << exponent for exponent in exponents if exponent is not None)
    if total > 1 << most:
        needed = (total - 1).bit_length()
        raise TooMuchWork(
            f"{name}: beacons of 2^{needed} iterations, more than 2^{most} "
            f"(--beacon-exponent {needed} allows them: 2^26 take a minute)"
        )
