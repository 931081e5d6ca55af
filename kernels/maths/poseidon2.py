"""The Poseidon2 permutation over Goldilocks of width 16 as a description, with x^7, 8 full and 22 partial rounds.

`include/hash/poseidon2.h` computes the same.
"""

from __future__ import annotations

from kernels.maths.goldilocks import P
from kernels.maths.poseidon2_rounds import Poseidon2, plonky3_diagonal, quads

WIDTH, ALPHA = 16, 7
PERMUTATION = Poseidon2(P, 22, plonky3_diagonal(P, (3, 4, 5, -3, -4, -5, 32)), quads)
