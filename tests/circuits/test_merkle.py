"""The membership circuit: right members pass, everything else is refused."""

from __future__ import annotations

import pytest

from distprove.circuits.merkle import MembershipTree, membership_circuit, random_members
from distprove.circuits.poseidon import poseidon_hash
from distprove.errors import UnsatisfiedWitness, UsageError
from kernels.interface.backend import Backend
from kernels.maths.curves import BN254, CURVES, Curve
from kernels.maths.encoding import unpack


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_members_reach_the_root(curve: Curve, backend: Backend) -> None:
    members = random_members(curve.fr, 5)
    tree = MembershipTree(curve.fr, members, depth=4)
    circuit = membership_circuit(curve, depth=4)
    witnesses = circuit.witnesses([tree.membership(i).inputs(scope=77) for i in range(5)], backend)
    for secret, witness in zip(members, witnesses, strict=True):
        assert unpack(witness[:4]) == [1, tree.root, poseidon_hash(curve.fr, [77, secret]), 77]


def test_strangers_do_not() -> None:
    tree = MembershipTree(BN254.fr, [1, 2, 3], depth=3)
    other = MembershipTree(BN254.fr, [1, 2, 4], depth=3)
    assert tree.root != other.root


def test_a_wrong_secret_gives_another_root(backend: Backend) -> None:
    tree = MembershipTree(BN254.fr, [10, 20], depth=2)
    inputs = tree.membership(1).inputs(scope=1)
    inputs["secret"] = "21"
    witness = membership_circuit(BN254, depth=2).witness(inputs, backend)
    assert unpack(witness[1:2])[0] != tree.root


def test_path_bits_must_be_bits(backend: Backend) -> None:
    inputs = MembershipTree(BN254.fr, [10, 20], depth=2).membership(0).inputs(scope=1)
    inputs["path"] = ["0", "2"]
    with pytest.raises(UnsatisfiedWitness, match="path bits are 0 or 1, lane 1"):
        membership_circuit(BN254, depth=2).witness(inputs, backend)


def test_tree_equals_a_full_one() -> None:
    field = BN254.fr
    leaves = [poseidon_hash(field, [s]) for s in (5, 6, 7)] + [0] * 5
    while len(leaves) > 1:
        leaves = [poseidon_hash(field, leaves[i : i + 2]) for i in range(0, len(leaves), 2)]
    assert MembershipTree(field, [5, 6, 7], depth=3).root == leaves[0]


def test_secrets_stay_out_of_reprs() -> None:
    assert "123454321" not in repr(MembershipTree(BN254.fr, [123454321], depth=1).membership(0))


def test_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match="1 to 64"):
        membership_circuit(BN254, depth=0)
    with pytest.raises(UsageError, match="1 to 4 members"):
        MembershipTree(BN254.fr, [1] * 5, depth=2)
