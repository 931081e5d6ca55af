"""Updates of empty sectors (SnapDeals): data that is added to a committed sector, encoded into a new replica.

Public: the partition's number with the choice of h above it, comm_r of the old replica, comm_d of the new data, comm_r
of the new replica. Private: comm_c, root_r_old, root_r_new; for each challenge leaf_r_old, leaf_d_new, siblings_r_old,
siblings_r_new and siblings_d_new. `snap_circuit` has one of several partitions, whose part of tree D it has as
apex_leaves, with partition_siblings above them; siblings_d_new lead to an apex leaf. In `snap_poseidon_circuit` tree D
is like tree R, there is one partition, and siblings_d_new lead to the root.

Challenges are drawn inside the circuit, from comm_r of the new replica. That exactly one bit of the choice of h is set
is for the verifier to see, as in Filecoin. Filecoin's Poseidon circuit, which it calls not audited, does not constrain
the partition's number, which should be zero, so that a prover can choose among sets of challenges; this one is alike.

Wires and rows have the order of storage-proofs-update's `EmptySectorUpdateCircuit`: the challenges' bits are drawn
first, then one challenge is after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import (
    ELEMENT_BITS,
    PACKED_BITS,
    assert_same,
    climb,
    digest_element,
    element_bits,
    low_bits,
    poseidon_level,
    select,
    sha256_level,
    weighted,
)
from distprove.circuits.filecoin.poseidon import hash_elements
from distprove.circuits.linear import Linear, lanes_of
from distprove.circuits.program import assign
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381

RANDOMNESS_TAG = 1 << 40
"""The first element of the state where Poseidon makes randomness: phi, rho and challenges."""
_KIB_8, _KIB_32, _MIB_16 = 1 << 8, 1 << 10, 1 << 19  # sizes in nodes


@dataclass(frozen=True)
class Update:
    """How the update of a sector is proven whose tree R has `arities`, from the leaves up."""

    arities: tuple[int, ...]

    @property
    def nodes(self) -> int:
        return prod(self.arities)

    @property
    def bits(self) -> int:
        """Bits of the index of a node."""
        return self.nodes.bit_length() - 1

    @property
    def partition_bits(self) -> int:
        return 0 if self.nodes <= _KIB_8 else 1 if self.nodes <= _KIB_32 else 2 if self.nodes <= _MIB_16 else 4

    @property
    def challenges(self) -> int:
        """Challenges of a partition."""
        return 10 if self.nodes <= _MIB_16 else 86

    @property
    def apex_bits(self) -> int:
        """Height of the tree over the apex leaves of a partition."""
        return 3 if self.nodes <= _KIB_8 else 7

    @property
    def high_bits(self) -> tuple[int, ...]:
        """The choices of h, the number of high bits of a challenge that its encoding depends on."""
        return (1,) * 6 if self.nodes <= _KIB_32 else (7, 8, 9, 10, 11, 12)

    def digests(self, challenges: int, bits: int) -> tuple[int, int]:
        """The digests that challenges of `bits` drawn bits take, and the challenges of a digest."""
        each = PACKED_BITS // bits
        return -(-challenges // each), each


class _Sector:
    """What both circuits have, in the order of its methods: the public values, the roots, and drawn challenges."""

    def __init__(self, update: Update, partition_bits: int) -> None:
        self.update = update
        self.b = b = CircuitBuilder(BLS12_381)
        self._public = b.public_input("public", 4)
        chosen = b.settle(self._public[0])
        bits = low_bits(b, chosen, partition_bits + len(update.high_bits))
        assert_same(
            b,
            weighted(b, bits),
            chosen,
            f"the partition and the choice of h are a number of {count_of(len(bits), 'bit')}",
        )
        self.partition_bits, self.choice = bits[:partition_bits], bits[partition_bits:]

    def commitments(self) -> None:
        """The public commitments, phi, and the private roots."""
        b = self.b
        self._comm_r_old, self.comm_d, self._comm_r_new = (b.settle(self._public[k]) for k in (1, 2, 3))
        self.phi = hash_elements(b, [self.comm_d, self._comm_r_old], RANDOMNESS_TAG)
        self._comm_c = b.private_input("comm_c")
        self.root_r_old, self.root_r_new = b.private_input("root_r_old"), b.private_input("root_r_new")

    def assert_roots(self) -> None:
        """Constrain that the commitments to both replicas are of these roots."""
        b = self.b
        old, new = (self._comm_r_old, self.root_r_old, "old"), (self._comm_r_new, self.root_r_new, "new")
        for comm_r, root, age in (old, new):
            label = f"comm_r of the {age} replica is the hash of comm_c and its root"
            assert_same(b, hash_elements(b, [self._comm_c, root]), comm_r, label)

    def drawn(self, partition: Linear, challenges: int) -> list[list[Linear]]:
        """The bits of all challenges, drawn of as many digests as it takes. Challenges are dealt to groups in turn, and
        those of a group are lanes."""
        b, size = self.b, self.update.bits - len(self.partition_bits)
        digests, each = self.update.digests(challenges, size)
        made: list[list[Linear]] = []
        for k in range(digests):
            number = b.settle(partition * digests + k)
            digest = hash_elements(b, [self._comm_r_new, number], RANDOMNESS_TAG)
            bits = low_bits(b, digest, ELEMENT_BITS)
            assert_same(b, weighted(b, bits), digest, "a digest has 255 bits")
            made.append(bits)
        if digests == 1:
            return [[lanes_of(made[0][k : challenges * size : size]) for k in range(size)]]
        return [  # one challenge of every digest; the last digest may have fewer
            [
                lanes_of([bits[k] for bits in made[: len(range(place, challenges, each))]])
                for k in range(place * size, (place + 1) * size)
            ]
            for place in range(each)
        ]


def _replicas(
    b: CircuitBuilder,
    update: Update,
    position: Sequence[Linear],
    choice: Sequence[Linear],
    phi: Linear,
    roots: Sequence[Linear],
) -> Linear:
    """Constrain the paths of a challenge's old and new leaf in the trees R of these `roots`, and return the new data's
    leaf."""
    candidates = []
    for high, chosen in zip(update.high_bits, choice, strict=True):
        candidates.append(b.multiply(b.settle(weighted(b, position[-high:])), chosen))
    rho = hash_elements(b, [phi, b.settle(sum(candidates, b.constant(0)))], RANDOMNESS_TAG)
    old, data = b.private_input("leaf_r_old"), b.private_input("leaf_d_new")
    new = b.settle(old + b.multiply(data, rho))
    for leaf, root, age in zip((old, new), roots, ("old", "new"), strict=True):
        path = _path(b, f"siblings_r_{age}", update.arities)
        reached = climb(b, poseidon_level, update.arities, leaf, position, path)
        assert_same(b, reached, root, f"a leaf of the {age} replica: the path leads to the root")
    return data


def _path(b: CircuitBuilder, name: str, arities: Sequence[int]) -> list[Linear]:
    """The siblings of a path in a tree of these arities, private inputs of this name."""
    length = sum(arities) - len(arities)
    if not length:
        return []
    siblings = b.private_input(name, length)
    return [siblings[k] for k in range(length)]


def snap_circuit(arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of one partition of an update (EmptySectorUpdate)."""
    update = Update(tuple(arities))
    sector = _Sector(update, update.partition_bits)
    b = sector.b
    partition = b.settle(weighted(b, sector.partition_bits))
    sector.commitments()
    apex = b.private_input("apex_leaves", 1 << update.apex_bits)
    above = _path(b, "partition_siblings", (2,) * update.partition_bits)
    sector.assert_roots()

    # The apex leaves, in tree D.
    row, node = apex, CircuitBuilder.record(BLS12_381, 2, _sha256_node)
    while row.lanes > 1:
        (row,) = b.place(node, [row[::2], row[1::2]])
    root = climb(b, sha256_level, (2,) * update.partition_bits, row, sector.partition_bits, above)
    assert_same(b, root, sector.comm_d, "the apex leaves: the path leads to the root")

    # The challenges: their encoding and trees R, and tree D up to an apex leaf.
    shared = [*sector.partition_bits, *sector.choice, sector.phi, sector.root_r_old, sector.root_r_new]
    shared += [apex[k] for k in range(apex.lanes)]
    groups = [[*drawn, *shared] for drawn in sector.drawn(partition, update.challenges)]
    b.place_in_turn(CircuitBuilder.record(BLS12_381, len(groups[0]), partial(_challenge, update)), groups)
    return b


def _sha256_node(b: CircuitBuilder, children: Sequence[Linear]) -> list[Linear]:
    left, right = children
    return [digest_element(b, [*element_bits(b, left), *element_bits(b, right)])]


def _challenge(update: Update, b: CircuitBuilder, given: Sequence[Linear]) -> list[Linear]:
    """A challenge of `snap_circuit`: its drawn bits, the partition's, the choice of h, phi, roots, and apex leaves."""
    position, rest = given[: update.bits], given[update.bits :]
    choice, phi, roots = rest[: len(update.high_bits)], rest[len(update.high_bits)], rest[len(update.high_bits) + 1 :]
    data = _replicas(b, update, position, choice, phi, roots[:2])
    below = update.bits - update.partition_bits - update.apex_bits
    chosen = select(b, roots[2:], position[below : below + update.apex_bits])
    path = _path(b, "siblings_d_new", (2,) * below)
    reached = climb(b, sha256_level, (2,) * below, data, position[:below], path)
    assert_same(b, reached, chosen, "a leaf of the new data: the path leads to its apex leaf")
    return []


def snap_poseidon_circuit(arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of a whole update whose tree D is like tree R (EmptySectorUpdatePoseidon)."""
    update = Update(tuple(arities))
    sector = _Sector(update, 0)
    b = sector.b
    sector.commitments()
    sector.assert_roots()
    first_wire, partition = b.new_wires(1)
    b.add_step(assign(first_wire, b.constant(0)))
    shared = [*sector.choice, sector.phi, sector.root_r_old, sector.root_r_new, sector.comm_d]
    drawn = sector.drawn(partition, update.challenges << update.partition_bits)
    groups = [[*bits, *shared] for bits in drawn]
    b.place_in_turn(CircuitBuilder.record(BLS12_381, len(groups[0]), partial(_poseidon_challenge, update)), groups)
    return b


def _poseidon_challenge(update: Update, b: CircuitBuilder, given: Sequence[Linear]) -> list[Linear]:
    """A challenge of `snap_poseidon_circuit`: its bits, the choice of h, phi, roots of trees R, and that of tree D."""
    position, rest = given[: update.bits], given[update.bits :]
    *choice, phi, root_old, root_new, comm_d = rest
    data = _replicas(b, update, position, choice, phi, [root_old, root_new])
    path = _path(b, "siblings_d_new", update.arities)
    reached = climb(b, poseidon_level, update.arities, data, position, path)
    assert_same(b, reached, comm_d, "a leaf of the new data: the path leads to the root")
    return []
