"""Round constants of Poseidon2 from the Grain LFSR (eprint 2019/458, appendix E)."""

from __future__ import annotations

from collections.abc import Iterator


def grain_elements(modulus: int, width: int, full: int, partial: int) -> tuple[int, ...]:
    """Return the constants in the order of their rounds: `width` for each full round, one for each partial one.

    The S-box is a power x^alpha; the LFSR does not depend on alpha.
    """
    size = modulus.bit_length()
    bits = _bits(size, width, full, partial)
    found: list[int] = []
    while len(found) < width * full + partial:
        value = 0
        for _ in range(size):
            value = 2 * value + next(bits)
        if value < modulus:
            found.append(value)
    return tuple(found)


def _bits(size: int, width: int, full: int, partial: int) -> Iterator[int]:
    """The bits of the LFSR, of which every other one chooses whether the next is taken."""
    # A prime field (1), the power x^alpha (0), then bits of the field, width, and full and partial rounds.
    sizes = ((1, 2), (0, 4), (size, 12), (width, 12), (full, 10), (partial, 10), (2**30 - 1, 30))
    state = [int(bit) for value, count in sizes for bit in f"{value:0{count}b}"]

    def step() -> int:
        state.append(state[62] ^ state[51] ^ state[38] ^ state[23] ^ state[13] ^ state[0])
        del state[0]
        return state[-1]

    for _ in range(160):
        step()
    while True:
        chosen, bit = step(), step()
        if chosen:
            yield bit
