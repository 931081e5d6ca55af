"""The numbers of the host calls, the words of memory that each accesses, and which of them a program makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

CALLS = {"exit": 1, "write": 2, "private": 3, "public": 4, "cycles": 5}
"""The calls that the table `host` answers."""
KECCAK_CALL = 6
"""The call that the table `keccak` answers."""
SHA256_CALLS = {"sha256_block": 7, "sha256_extend": 8, "sha256_compress": 9}
MODULAR_CALLS = {"multiply_modulo": 10, "multiply_add_modulo": 11}
MODULAR_384_CALLS = {"multiply_modulo_384": 12, "multiply_add_modulo_384": 13}
PRECOMPILES: Mapping[str, Mapping[str, int]] = {
    "sha256": SHA256_CALLS,
    "modular": MODULAR_CALLS,
    "modular384": MODULAR_384_CALLS,
}
"""The tables that only programs with a call of theirs have, by name, each with the calls that it answers."""
ALL_CALLS = {**CALLS, "keccak_f": KECCAK_CALL, **SHA256_CALLS, **MODULAR_CALLS, **MODULAR_384_CALLS}

CALL_WORDS = {KECCAK_CALL: 50, 7: 25, 8: 64, 9: 73, 10: 36, 11: 44, 12: 52, 13: 64}
"""The words that a call accesses, as riscv.h has them."""

_LOAD_NUMBER = 0x893
"""addi a7, x0, 0; the constant begins at bit 20."""


def precompiles_in(pieces: Iterable[NDArray[np.uint32]]) -> tuple[str, ...]:
    """Which of `PRECOMPILES` a program of these instruction words has, in their order: those with a call whose number
    one of its instructions, `li a7, NUMBER`, puts in place."""
    numbers = {number for calls in PRECOMPILES.values() for number in calls.values()}
    wanted = np.array([_LOAD_NUMBER | number << 20 for number in numbers], dtype=np.uint32)
    found = {int(word) >> 20 for words in pieces for word in wanted[np.isin(wanted, words)]}
    return tuple(name for name, calls in PRECOMPILES.items() if found & set(calls.values()))


def answered(names: Iterable[str]) -> int:
    """A number with the bit of each call of these precompiles."""
    return sum(1 << number for name in names for number in PRECOMPILES[name].values())
