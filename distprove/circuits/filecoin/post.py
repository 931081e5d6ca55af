"""Proof of space-time: random leaves of sectors' trees R are still there (WinningPoSt, WindowPoSt).

A WindowPoSt has 10 leaves in each of its sectors. A WinningPoSt has one leaf in each of 66, which are one sector, named
66 times with leaves of its own.

Public, sector by sector: comm_r, then the index of each challenged leaf. Private: comm_r_last, comm_c (a value a
sector), leaf (a value a challenge), siblings (the path of each challenge).

Wires and rows have the order of storage-proofs-post's `FallbackPoStCircuit`: one sector after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import assert_included, assert_same, poseidon_level
from distprove.circuits.filecoin.poseidon import hash_elements
from distprove.circuits.linear import Linear
from kernels.maths.curves import BLS12_381


def post_circuit(sectors: int, challenges: int, arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of `challenges` leaves in each of `sectors` sectors whose tree R has the given arities."""
    b = CircuitBuilder(BLS12_381)
    public = b.public_input("public", sectors * (1 + challenges))
    sector = CircuitBuilder.record(BLS12_381, 1 + challenges, partial(_sector, arities))
    b.place(sector, [public[k :: 1 + challenges] for k in range(1 + challenges)])
    return b


def _sector(arities: Sequence[int], b: CircuitBuilder, public: Sequence[Linear]) -> list[Linear]:
    comm_r_last, comm_c = b.private_input("comm_r_last"), b.private_input("comm_c")
    comm_r = b.settle(public[0])
    assert_same(b, comm_r, hash_elements(b, [comm_c, comm_r_last]), "comm_r is the hash of comm_c and comm_r_last")
    for index in public[1:]:
        leaf = b.private_input("leaf")
        assert_included(b, poseidon_level, arities, leaf, index, "siblings", comm_r_last, "a challenged leaf")
    return []
