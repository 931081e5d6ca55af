"""Proof of space-time: random leaves of sectors' trees R are still there (WinningPoSt, WindowPoSt).

A WindowPoSt has 10 leaves in each of its sectors. A WinningPoSt has one leaf in each of 66, which are one sector, named
66 times with leaves of its own.

Public, sector by sector: comm_r, then the index of each challenged leaf. Private: comm_c, comm_r_last (a value a
sector), leaf (a value a challenge), siblings (the path of each challenge).
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import assert_included, assert_same, poseidon_level
from distprove.circuits.filecoin.poseidon import hash_elements
from kernels.maths.curves import BLS12_381


def post_circuit(sectors: int, challenges: int, arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of `challenges` leaves in each of `sectors` sectors whose tree R has the given arities."""
    b = CircuitBuilder(BLS12_381)
    public = b.public_input("public", sectors * (1 + challenges))
    comm_c, comm_r_last = b.private_input("comm_c", sectors), b.private_input("comm_r_last", sectors)
    length = sum(arities) - len(arities)
    leaf = b.private_input("leaf", sectors * challenges)
    siblings = b.private_input("siblings", sectors * challenges * length)

    comm_r = b.settle(public[:: 1 + challenges])
    assert_same(b, comm_r, hash_elements(b, [comm_c, comm_r_last]), "comm_r is the hash of comm_c and comm_r_last")
    for first in range(challenges):  # the sectors' paths of one challenge are lanes
        index, leaves = public[1 + first :: 1 + challenges], leaf[first::challenges]
        path = [siblings[first * length + k :: challenges * length] for k in range(length)]
        assert_included(b, poseidon_level, arities, leaves, index, path, comm_r_last, "a challenged leaf")
    return b
