"""The numbers of the host calls, the words of memory that each accesses, and which of them a program makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

CALLS = {"exit": 1, "write": 2, "private": 3, "public": 4, "cycles": 5}
"""The calls that the table `host` answers."""
KECCAK_CALL = 6
"""The call that the table `keccak` answers."""
SHA256_CALLS = {"sha256_block": 7, "sha256_extend": 8, "sha256_compress": 9}
MODULAR_CALLS = {"multiply_modulo": 10, "multiply_add_modulo": 11}
MODULAR_384_CALLS = {"multiply_modulo_384": 12, "multiply_add_modulo_384": 13}
POINT_CALLS = {
    **{"secp256k1_add": 14, "secp256k1_double": 15},
    **{"secp256r1_add": 16, "secp256r1_double": 17},
    **{"bn254_add": 18, "bn254_double": 19},
}
POINT_384_CALLS = {"bls12_381_add": 20, "bls12_381_double": 21}
EDWARDS_CALLS = {"ed25519_add": 22}
PRECOMPILES: Mapping[str, Mapping[str, int]] = {
    "sha256": SHA256_CALLS,
    "modular": MODULAR_CALLS,
    "modular384": MODULAR_384_CALLS,
    "points": POINT_CALLS,
    "points384": POINT_384_CALLS,
    "edwards": EDWARDS_CALLS,
}
"""The tables that only programs with a call of theirs have, by name, each with the calls that it answers."""
ALL_CALLS = {
    **CALLS,
    "keccak_f": KECCAK_CALL,
    **{name: number for calls in PRECOMPILES.values() for name, number in calls.items()},
}

CALL_WORDS = {
    **{KECCAK_CALL: 50, 7: 25, 8: 64, 9: 73, 10: 36, 11: 44, 12: 52, 13: 64},
    **{14: 34, 15: 16, 16: 34, 17: 16, 18: 34, 19: 16, 20: 50, 21: 24, 22: 34},
}
"""The words that a call accesses, as riscv.h has them."""

_LOAD_NUMBER, _ECALL = 0x893, 0x73
"""addi a7, x0, 0, where the constant begins at bit 20; ecall."""
_NEAR = 8
"""Instructions behind the one that puts a call's number in place, among which the call is looked for. Compilers place
few between, and use a7 for other numbers, too."""


def precompiles_in(pieces: Iterable[tuple[NDArray[Any], NDArray[np.uint32]]]) -> tuple[str, ...]:
    """Which of `PRECOMPILES` a program of these (addresses, instruction words) has, in their order: those with a call
    whose number one of its instructions, `li a7, NUMBER`, puts in place for an `ecall` close behind it. How the program
    is cut into pieces makes no difference."""
    parts = list(pieces)
    if not parts:
        return ()
    addresses = np.concatenate([address for address, _ in parts]).astype(np.int64)
    order = np.argsort(addresses, kind="stable")
    addresses, words = addresses[order], np.concatenate([word for _, word in parts])[order]
    ecalls = addresses[words == _ECALL]
    found = set()
    for number in (number for calls in PRECOMPILES.values() for number in calls.values()):
        loads = addresses[words == (_LOAD_NUMBER | number << 20)]
        following = np.searchsorted(ecalls, loads)
        near = following < len(ecalls)
        if np.any(ecalls[following[near]] - loads[near] <= 4 * _NEAR):
            found.add(number)
    return tuple(name for name, calls in PRECOMPILES.items() if found & set(calls.values()))


def answered(names: Iterable[str]) -> int:
    """A number with the bit of each call of these precompiles."""
    return sum(1 << number for name in names for number in PRECOMPILES[name].values())
