"""The constants of SHA-256 (FIPS 180-4, 4.2.2 and 5.3.3)."""

from __future__ import annotations


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def _root_fraction(prime: int, degree: int) -> int:
    """The first 32 bits of the fraction of a prime's square or cube root."""
    target = prime << (32 * degree)
    low, high = 0, target
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= target else (low, middle - 1)
    return low & 0xFFFFFFFF


INITIAL = tuple(_root_fraction(prime, 2) for prime in _primes(8))
ROUND_CONSTANTS = tuple(_root_fraction(prime, 3) for prime in _primes(64))
