"""Bits, selections and paths of Merkle trees as bellperson and Filecoin's circuits build them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.poseidon import merkle_tag, poseidon
from distprove.circuits.filecoin.sha256 import BitLanes, sha256
from distprove.circuits.linear import Linear, common_lanes, weighted_sum
from distprove.circuits.program import Decompose, MultiplyAdd
from distprove.circuits.templates import Template
from kernels.maths.curves import Curve

ELEMENT_BITS = 255
"""Bits of an element of BLS12-381's scalar field."""
PACKED_BITS = 254
"""Bits that every element holds: the length of a digest in a circuit."""


def low_bits(b: CircuitBuilder, value: Linear, count: int, shift: int = 0) -> list[Linear]:
    """New bits that hold `count` bits of `value`, from bit `shift` on, the least significant first. Those of a lane
    follow each other. Nothing here ties them to `value`."""
    first, wires = b.new_wires(value.lanes * count)
    b.add_step(Decompose(first, count, value, shift, count))
    b.constrain(1 - wires, wires, b.constant(0))
    return [wires[k::count] for k in range(count)]


def weighted(b: CircuitBuilder, bits: Sequence[Linear]) -> Linear:
    """The number whose bits are given, the least significant first; 0 for none."""
    return weighted_sum([1 << k for k in range(len(bits))], bits) if bits else b.constant(0)


def element_bits(b: CircuitBuilder, value: Linear) -> list[BitLanes]:
    """All bits of an element in the order in which SHA-256 reads them: 32 bytes, the lowest first, each with its most
    significant bit first. As in bellperson they sum up to the element modulo the field's prime: for a small element
    they may hold its other representative too."""
    bits = low_bits(b, value, ELEMENT_BITS)
    b.constrain(b.constant(0), b.constant(0), weighted(b, bits) - value)
    return bytewise([*bits, False])


def bytewise(bits: Sequence[BitLanes]) -> list[BitLanes]:
    """The bits of whole bytes with each byte's bits reversed."""
    return [bits[i ^ 7] for i in range(len(bits))]


def digest_element(b: CircuitBuilder, bits: Sequence[BitLanes]) -> Linear:
    """The SHA-256 digest of bits as an element, without its two highest bits."""
    digest = sha256(b, bits)
    return b.settle(weighted(b, [digest[i ^ 7] for i in range(PACKED_BITS)]))


def assert_same(b: CircuitBuilder, left: Linear, right: Linear, label: str) -> None:
    b.assert_product(left, b.constant(1), right, label)


def pick(b: CircuitBuilder, condition: Linear, if_one: Linear, if_zero: Linear) -> Linear:
    """`if_one` where the bit `condition` is 1, else `if_zero`."""
    # (zero - one) * condition = zero - result
    first, result = b.new_wires(common_lanes(condition, if_one, if_zero))
    b.add_step(MultiplyAdd(first, result.lanes, if_one - if_zero, condition, if_zero))
    b.constrain(if_zero - if_one, condition, if_zero - result)
    return result


def insert(b: CircuitBuilder, node: Linear, bits: Sequence[Linear], siblings: Sequence[Linear]) -> list[Linear]:
    """The children in order: `node` at the position that `bits` say, the siblings around it."""
    chosen = partial(pick, b)
    x, s, low = node, siblings, bits[0]
    if len(bits) == 1:
        return [chosen(low, s[0], x), chosen(low, x, s[0])]
    if len(bits) == 2:
        first, second, third = s
        high = bits[1]
        return [
            chosen(high, first, chosen(low, first, x)),
            chosen(high, second, chosen(low, x, first)),
            chosen(high, chosen(low, third, x), second),
            chosen(high, chosen(low, x, third), third),
        ]
    middle, high = bits[1:]
    neither, both = b.multiply(1 - low, 1 - middle), b.multiply(low, middle)
    return [
        chosen(high, s[0], chosen(neither, x, s[0])),
        chosen(high, s[1], chosen(middle, s[1], chosen(low, x, s[0]))),
        chosen(high, s[2], chosen(middle, chosen(low, s[2], x), s[1])),
        chosen(high, s[3], chosen(both, x, s[2])),
        chosen(high, chosen(neither, x, s[4]), s[3]),
        chosen(high, chosen(middle, s[5], chosen(low, x, s[4])), s[4]),
        chosen(high, chosen(middle, chosen(low, s[6], x), s[5]), s[5]),
        chosen(high, chosen(both, x, s[6]), s[6]),
    ]


@lru_cache(maxsize=8)
def _poseidon_level(curve: Curve, arity: int) -> Template:
    """One level of a path under Poseidon: node, position bits, siblings -> the node above."""
    size = arity.bit_length() - 1

    def gadget(b: CircuitBuilder, wires: Sequence[Linear]) -> list[Linear]:
        return [poseidon(b, insert(b, wires[0], wires[1 : 1 + size], wires[1 + size :]), merkle_tag(arity))]

    return CircuitBuilder.record(curve, size + arity, gadget)


def poseidon_level(b: CircuitBuilder, node: Linear, bits: Sequence[Linear], siblings: Sequence[Linear]) -> Linear:
    """The node above `node` in a tree under Poseidon of arity 2, 4 or 8."""
    return b.place(_poseidon_level(b.curve, 1 << len(bits)), [node, *bits, *siblings])[0]


def sha256_level(b: CircuitBuilder, node: Linear, bits: Sequence[Linear], siblings: Sequence[Linear]) -> Linear:
    """The node above `node` in a binary tree under SHA-256."""
    left, right = insert(b, node, bits, siblings)
    return digest_element(b, [*element_bits(b, left), *element_bits(b, right)])


Level = Callable[[CircuitBuilder, Linear, Sequence[Linear], Sequence[Linear]], Linear]


def climb(
    b: CircuitBuilder,
    level: Level,
    arities: Sequence[int],
    leaf: Linear,
    position: Sequence[Linear],
    siblings: Sequence[Linear],
) -> Linear:
    """The root to which a path leads. `position` are the bits of the leaf's index and `siblings` those of all the path,
    from the leaf up."""
    node, bit, sibling = leaf, 0, 0
    for arity in arities:
        size = arity.bit_length() - 1
        node = level(b, node, position[bit : bit + size], siblings[sibling : sibling + arity - 1])
        bit, sibling = bit + size, sibling + arity - 1
    return node


def select(b: CircuitBuilder, values: Sequence[Linear], bits: Sequence[Linear]) -> Linear:
    """The value at the index whose bits are given, the least significant first, of as many values as the bits can
    count. As in bellperson's circuits the most significant bit is taken first: it halves the values."""
    for bit in reversed(bits):
        half = len(values) // 2
        values = [pick(b, bit, above, below) for below, above in zip(values[:half], values[half:], strict=True)]
    (chosen,) = values
    return chosen


def assert_included(
    b: CircuitBuilder,
    level: Level,
    arities: Sequence[int],
    leaf: Linear,
    index: Linear,
    siblings: str,
    root: Linear,
    name: str,
) -> None:
    """Constrain that a tree of the given arities (from the leaves up) with this root has `leaf` at the public `index`.

    Part of a template, in which each level has the bits of its position, then its siblings as private inputs of the
    name `siblings`. `name` says whose path it is, for the error.
    """
    node, position = leaf, list[Linear]()
    for arity in arities:
        bits = low_bits(b, index, arity.bit_length() - 1, len(position))
        path = b.private_input(siblings, arity - 1)
        node = level(b, node, bits, [path[k] for k in range(arity - 1)])
        position += bits
    assert_same(b, weighted(b, position), index, f"{name}: the index lies in the tree")
    assert_same(b, node, root, f"{name}: the path leads to the root")
