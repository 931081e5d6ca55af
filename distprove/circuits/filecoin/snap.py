"""Updates of empty sectors (SnapDeals): data that is added to a committed sector, encoded into a new replica.

Public: the partition's number with the choice of h above it, comm_r of the old replica, comm_d of the new data, comm_r
of the new replica. Private: comm_c, root_r_old, root_r_new; for each challenge leaf_r_old, leaf_d_new, siblings_r_old,
siblings_r_new and siblings_d_new. `snap_circuit` has one of several partitions, whose part of tree D it has as
apex_leaves, with partition_siblings above them; siblings_d_new lead to an apex leaf. In `snap_poseidon_circuit` tree D
is like tree R, there is one partition, and siblings_d_new lead to the root.

Challenges are drawn inside the circuit, from comm_r of the new replica. That exactly one bit of the choice of h is set
is for the verifier to see, as in Filecoin. Filecoin's Poseidon circuit, which it calls not audited, does not constrain
the partition's number, which should be zero, so that a prover can choose among sets of challenges; this one is alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import (
    ELEMENT_BITS,
    PACKED_BITS,
    assert_same,
    bit_wires,
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
from distprove.circuits.linear import Linear
from distprove.circuits.program import assign
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
    """What both circuits begin with: the public values, the roots, and challenges of some leaves."""

    def __init__(self, update: Update, partition_bits: int, challenges: int) -> None:
        self.update, self.challenges = update, challenges
        self.b = b = CircuitBuilder(BLS12_381)
        public = b.public_input("public", 4)
        comm_c, root_r_old, root_r_new = (b.private_input(name) for name in ("comm_c", "root_r_old", "root_r_new"))
        self.leaf_r_old, self.leaf_d_new = (b.private_input(name, challenges) for name in ("leaf_r_old", "leaf_d_new"))
        length = sum(update.arities) - len(update.arities)
        self.siblings = [b.private_input(f"siblings_r_{age}", challenges * length) for age in ("old", "new")]
        self.roots = (root_r_old, root_r_new)

        chosen = b.settle(public[0])
        bits = low_bits(b, chosen, partition_bits + len(update.high_bits))
        assert_same(b, weighted(b, bits), chosen, f"the partition and the choice of h are a number of {len(bits)} bits")
        self.partition_bits, self.choice = bits[:partition_bits], bits[partition_bits:]
        comm_r_old, self.comm_d, self.comm_r_new = (b.settle(public[k]) for k in (1, 2, 3))
        self.phi = hash_elements(b, [self.comm_d, comm_r_old], RANDOMNESS_TAG)
        for comm_r, root, age in ((comm_r_old, root_r_old, "old"), (self.comm_r_new, root_r_new, "new")):
            label = f"comm_r of the {age} replica is the hash of comm_c and its root"
            assert_same(b, hash_elements(b, [comm_c, root]), comm_r, label)

    def drawn(self, partition: Linear) -> Iterator[tuple[int, int, list[Linear]]]:
        """Groups of challenges that are lanes: the first of each, the step to the next, and the bits that are drawn."""
        b, size = self.b, self.update.bits - len(self.partition_bits)
        digests, each = self.update.digests(self.challenges, size)
        first, numbers = b.new_wires(digests)
        for k in range(digests):
            number = partition * digests + k
            b.add_step(assign(first + k, number))
            b.constrain(number, b.constant(1), numbers[k])
        digest = hash_elements(b, [self.comm_r_new, numbers], RANDOMNESS_TAG)
        wires = bit_wires(b, digest, ELEMENT_BITS)
        bits = [wires[k * digests : (k + 1) * digests] for k in range(ELEMENT_BITS)]
        assert_same(b, weighted(b, bits), digest, "a digest has 255 bits")
        if digests == 1:
            last = (self.challenges - 1) * size
            yield 0, 1, [wires[k : k + last + 1 : size] for k in range(size)]
            return
        for place in range(each):  # one challenge of every digest; the last digest may have fewer
            lanes = len(range(place, self.challenges, each))
            yield place, each, [bits[k][:lanes] for k in range(place * size, (place + 1) * size)]

    def encoded(self, first: int, step: int, position: Sequence[Linear]) -> Linear:
        """Constrain the paths of a group's old and new leaf in tree R, and return the new data's leaf."""
        b, update = self.b, self.update
        old, data = self.leaf_r_old[first::step], self.leaf_d_new[first::step]
        candidates = []
        for high, chosen in zip(update.high_bits, self.choice, strict=True):
            packed = Linear(b.field, old.lanes, weighted(b, position[-high:]).terms)
            candidates.append(b.multiply(b.settle(packed), chosen))
        rho = hash_elements(b, [self.phi, b.settle(sum(candidates, b.constant(0)))], RANDOMNESS_TAG)
        new = b.settle(old + b.multiply(data, rho))
        for leaf, siblings, root, age in zip((old, new), self.siblings, self.roots, ("old", "new"), strict=True):
            reached = climb(b, poseidon_level, update.arities, leaf, position, self.path(siblings, first, step))
            assert_same(b, reached, root, f"a leaf of the {age} replica: the path leads to the root")
        return data

    def path(self, siblings: Linear, first: int, step: int) -> list[Linear]:
        """The siblings of a group of challenges, out of those of all."""
        length = siblings.lanes // self.challenges
        return [siblings[first * length + k :: step * length] for k in range(length)]


def snap_circuit(arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of one partition of an update (EmptySectorUpdate)."""
    update = Update(tuple(arities))
    sector = _Sector(update, update.partition_bits, update.challenges)
    b, below = sector.b, update.bits - update.partition_bits - update.apex_bits
    apex = b.private_input("apex_leaves", 1 << update.apex_bits)
    above = b.private_input("partition_siblings", update.partition_bits) if update.partition_bits else None
    siblings = b.private_input("siblings_d_new", update.challenges * below) if below else None
    partition = b.settle(weighted(b, sector.partition_bits))

    # The apex leaves, in tree D.
    row = apex
    while row.lanes > 1:
        row = digest_element(b, [*element_bits(b, row[::2]), *element_bits(b, row[1::2])])
    path = [above[k] for k in range(above.lanes)] if above else []
    root = climb(b, sha256_level, (2,) * len(path), row, sector.partition_bits, path)
    assert_same(b, root, sector.comm_d, "the apex leaves: the path leads to the root")

    # The challenges: their encoding and trees R, and tree D up to an apex leaf.
    leaves = [apex[k] for k in range(apex.lanes)]
    for first, step, drawn in sector.drawn(partition):
        data = sector.encoded(first, step, [*drawn, *sector.partition_bits])
        path = sector.path(siblings, first, step) if siblings else []
        chosen = select(b, leaves, drawn[below:])
        reached = climb(b, sha256_level, (2,) * below, data, drawn[:below], path)
        assert_same(b, reached, chosen, "a leaf of the new data: the path leads to its apex leaf")
    return b


def snap_poseidon_circuit(arities: Sequence[int]) -> CircuitBuilder:
    """The circuit of a whole update whose tree D is like tree R (EmptySectorUpdatePoseidon)."""
    update = Update(tuple(arities))
    challenges = update.challenges << update.partition_bits
    sector = _Sector(update, 0, challenges)
    b = sector.b
    siblings = b.private_input("siblings_d_new", sector.siblings[0].lanes)
    first_wire, partition = b.new_wires(1)
    b.add_step(assign(first_wire, b.constant(0)))
    for first, step, drawn in sector.drawn(partition):
        data = sector.encoded(first, step, drawn)
        reached = climb(b, poseidon_level, update.arities, data, drawn, sector.path(siblings, first, step))
        assert_same(b, reached, sector.comm_d, "a leaf of the new data: the path leads to the root")
    return b
