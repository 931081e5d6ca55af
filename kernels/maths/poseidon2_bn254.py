"""The Poseidon2 permutation over the scalar field of BN254 of width 3 as a description, with x^5, 8 full and 56 partial
rounds, and the paper's layers for width 3.

`include/hash/poseidon2_bn254.h` computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.maths.curves import BN254
from kernels.maths.poseidon2_rounds import Combine, Poseidon2

R = BN254.fr.modulus
"""The order of the group, the modulus of the scalar field."""
WIDTH = 3


def _external(s: Sequence[Any], add: Combine, scale: Combine) -> list[Any]:
    total = add(add(s[0], s[1]), s[2])
    return [add(total, x) for x in s]


PERMUTATION = Poseidon2(R, 56, (1, 1, 2), _external)
