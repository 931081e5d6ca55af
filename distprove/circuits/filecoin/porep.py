"""Proof of replication (StackedDrg): challenged nodes of a sector are labelled, encoded and committed to as required.

Public: replica_id, comm_d, comm_r, then for each challenge the index of its data leaf, of its 14 parents, the challenge
itself, and the index of its replica leaf and of its column. Private: comm_r_last, comm_c; for each challenge data_leaf
and data_siblings (tree D), columns (the labels of each parent, layer by layer), column_siblings (tree C, the 14 parents
and the challenged node) and replica_siblings (tree R).

Wires and rows have the order of storage-proofs-porep's `StackedCircuit`: one challenge after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import (
    ELEMENT_BITS,
    assert_included,
    assert_same,
    bytewise,
    digest_element,
    element_bits,
    low_bits,
    poseidon_level,
    sha256_level,
    weighted,
)
from distprove.circuits.filecoin.poseidon import hash_elements
from distprove.circuits.filecoin.sha256 import BitLanes
from distprove.circuits.linear import Linear
from kernels.maths.curves import BLS12_381

DRG_PARENTS, ALL_PARENTS, HASHED_PARENTS = 6, 14, 37
PUBLIC_OF_CHALLENGE = 1 + ALL_PARENTS + 1 + 2


def hashed_parents(layer: int) -> list[int]:
    """The parents that the label of a layer hashes, in order, repeated to 37. Layers count from 1."""
    parents = DRG_PARENTS if layer == 1 else ALL_PARENTS
    return [k % parents for k in range(HASHED_PARENTS)]


def labelled_layer(layer: int, parent: int) -> int:
    """The layer from which the label of `layer` takes a parent: expander parents come from the layer before."""
    return layer if parent < DRG_PARENTS else layer - 1


def porep_circuit(challenges: int, layers: int, arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of one partition with `challenges` challenges, whose trees C and R have the given arities."""
    b = CircuitBuilder(BLS12_381)
    public = b.public_input("public", 3 + challenges * PUBLIC_OF_CHALLENGE)
    indices = [public[3 + k :: PUBLIC_OF_CHALLENGE] for k in range(PUBLIC_OF_CHALLENGE)]

    replica_id = b.settle(public[0])
    replica_bits = bytewise(element_bits(b, replica_id))[:ELEMENT_BITS]
    comm_d, comm_r = b.settle(public[1]), b.settle(public[2])
    comm_r_last, comm_c = b.private_input("comm_r_last"), b.private_input("comm_c")
    assert_same(b, comm_r, hash_elements(b, [comm_c, comm_r_last]), "comm_r is the hash of comm_c and comm_r_last")

    roots = [comm_d, comm_c, comm_r_last]
    given = [*roots, *(bit for bit in replica_bits if isinstance(bit, Linear)), *indices]
    b.place(CircuitBuilder.record(BLS12_381, len(given), partial(_challenge, layers, arities)), given)
    return b


def _challenge(layers: int, arities: Sequence[int], b: CircuitBuilder, given: Sequence[Linear]) -> list[Linear]:
    """One challenge: roots of trees D, C and R, bits of the replica's id, and public values."""
    comm_d, comm_c, comm_r_last = given[:3]
    replica_bits, indices = bytewise([*given[3 : 3 + ELEMENT_BITS], False]), given[3 + ELEMENT_BITS :]
    depth = sum(arity.bit_length() - 1 for arity in arities)

    def in_tree_c(column: Sequence[Linear], index: Linear, name: str) -> None:
        hashed = hash_elements(b, column)
        assert_included(b, poseidon_level, arities, hashed, index, "column_siblings", comm_c, name)

    # 1. The data leaf, in tree D.
    data_leaf = b.private_input("data_leaf")
    assert_included(b, sha256_level, (2,) * depth, data_leaf, indices[0], "data_siblings", comm_d, "the data leaf")

    # 2. The columns of the parents, in tree C.
    columns: list[list[Linear]] = []
    for k in range(ALL_PARENTS):
        labels = b.private_input("columns", layers)
        columns.append([labels[layer] for layer in range(layers)])
        in_tree_c(columns[-1], indices[1 + k], f"parent {k}")

    # 3. The challenged node's label in each layer.
    challenge = low_bits(b, indices[1 + ALL_PARENTS], 64)
    assert_same(b, weighted(b, challenge), indices[1 + ALL_PARENTS], "a challenge is a number of 64 bits")
    own = [_label(b, replica_bits, challenge, columns, layer) for layer in range(1, layers + 1)]

    # 4. Its encoding, in tree R, and its column, in tree C.
    encoded = b.settle(own[-1] + data_leaf)
    name = "replica_siblings"
    assert_included(b, poseidon_level, arities, encoded, indices[-2], name, comm_r_last, "the replica leaf")
    in_tree_c(own, indices[-1], "the column")
    return []


def _label(
    b: CircuitBuilder,
    replica_bits: Sequence[BitLanes],
    challenge: Sequence[BitLanes],
    columns: Sequence[Sequence[Linear]],
    layer: int,
) -> Linear:
    """The label of the challenged node: SHA-256 of replica_id | layer | node | zeros to 64 bytes | 37 parents."""
    parents = range(max(hashed_parents(layer)) + 1)
    bits = [element_bits(b, columns[k][labelled_layer(layer, k) - 1]) for k in parents]
    number = [bool(layer >> i & 1) for i in reversed(range(32))]
    head = [*replica_bits, *number, *reversed(challenge), *[False] * 160]
    return digest_element(b, [*head, *(bit for k in hashed_parents(layer) for bit in bits[k])])
