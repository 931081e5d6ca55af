"""Proof of replication (StackedDrg): challenged nodes of a sector are labelled, encoded and committed to as required.

Public: replica_id, comm_d, comm_r, then for each challenge the index of its data leaf, of its 14 parents, the challenge
itself, and the index of its replica leaf and of its column. Private: comm_c, comm_r_last; for each challenge data_leaf
and data_siblings (tree D), columns (the labels of each parent, layer by layer), column_siblings (tree C, the 14 parents
and the challenged node) and replica_siblings (tree R).
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import (
    assert_included,
    assert_same,
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
    comm_c, comm_r_last = b.private_input("comm_c"), b.private_input("comm_r_last")
    depth = sum(arity.bit_length() - 1 for arity in arities)
    length = sum(arities) - len(arities)

    def private(name: str, values: int) -> list[Linear]:
        """`values` private inputs for each challenge."""
        wires = b.private_input(name, challenges * values)
        return [wires[k::values] for k in range(values)]

    (data_leaf,), data_siblings = private("data_leaf", 1), private("data_siblings", depth)
    labels = private("columns", ALL_PARENTS * layers)
    column_siblings = private("column_siblings", (ALL_PARENTS + 1) * length)
    replica_siblings = private("replica_siblings", length)

    replica_id, comm_d, comm_r = (b.settle(public[k]) for k in range(3))
    replica_bits = element_bits(b, replica_id)
    assert_same(b, comm_r, hash_elements(b, [comm_c, comm_r_last]), "comm_r is the hash of comm_c and comm_r_last")

    # 1. The data leaf, in tree D.
    assert_included(b, sha256_level, (2,) * depth, data_leaf, indices[0], data_siblings, comm_d, "the data leaf")

    # 2. The columns of the parents, in tree C.
    columns = [labels[k * layers : (k + 1) * layers] for k in range(ALL_PARENTS)]
    for k, column in enumerate(columns):
        path = column_siblings[k * length : (k + 1) * length]
        included = hash_elements(b, column)
        assert_included(b, poseidon_level, arities, included, indices[1 + k], path, comm_c, f"parent {k}")

    # 3. The challenged node's label in each layer.
    challenge = low_bits(b, indices[1 + ALL_PARENTS], 64)
    assert_same(b, weighted(b, challenge), indices[1 + ALL_PARENTS], "a challenge is a number of 64 bits")
    own = [_label(b, replica_bits, challenge, columns, layer) for layer in range(1, layers + 1)]

    # 4. Its encoding, in tree R, and its column, in tree C.
    encoded = b.settle(own[-1] + data_leaf)
    assert_included(b, poseidon_level, arities, encoded, indices[-2], replica_siblings, comm_r_last, "the replica leaf")
    path = column_siblings[ALL_PARENTS * length :]
    assert_included(b, poseidon_level, arities, hash_elements(b, own), indices[-1], path, comm_c, "the column")
    return b


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
