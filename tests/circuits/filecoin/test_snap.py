"""Updates of sectors: as large as Filecoin's circuits, satisfied by true inputs, refusing false ones, provable."""

from __future__ import annotations

from math import prod
from pathlib import Path
from random import Random

import pytest

from distprove.circuits.filecoin import snap
from distprove.circuits.filecoin.inputs import snap_inputs, snap_poseidon_inputs, update_challenges
from distprove.circuits.filecoin.snap import Update, snap_circuit, snap_poseidon_circuit
from distprove.errors import UnsatisfiedWitness
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import read_zkey
from kernels.interface.backend import Backend
from kernels.maths.encoding import unpack
from tests.circuits.filecoin.conftest import satisfies
from tests.circuits.filecoin.test_circuits import GIB_32, GIB_64, changed, sizes

KIB_1 = (8, 4)


@pytest.mark.parametrize(
    ("arities", "constraints"),
    [
        (KIB_1, 1_248_389),
        ((8, 8), 1_705_039),
        ((8, 8, 2), 2_165_109),
        ((8, 8, 4), 2_620_359),
        ((8, 8, 8), 6_300_021),
        ((8, 8, 8, 2), 6_760_091),
    ],
    ids=lambda value: f"{prod(value) // 32} KiB" if isinstance(value, tuple) else "",
)
def test_sizes_of_storage_proofs_own_tests(arities: tuple[int, ...], constraints: int) -> None:
    assert snap_circuit(arities).shape().constraints == constraints


@pytest.mark.parametrize(
    ("arities", "published"),
    [
        (GIB_32, (81_049_499, 80_978_488, 5, 190_374_913, 81_118_127, 172_187_492, 80_743_581, 20_983_607)),
        (GIB_64, (85_006_101, 84_931_220, 5, 199_699_033, 85_077_653, 180_585_650, 84_682_725, 22_012_683)),
    ],
    ids=["32 GiB", "64 GiB"],
)
def test_sizes_of_large_sectors(arities: tuple[int, ...], published: tuple[int, ...]) -> None:
    # The published entries of A hold a zero: the number of the first digest is its partition's number times n, plus 0.
    assert sizes(snap_circuit(arities)) == (*published[:3], published[3] - 1, *published[4:])


def test_sizes_under_poseidon() -> None:
    assert snap_poseidon_circuit(KIB_1).shape().constraints == 32_164
    assert snap_poseidon_circuit((8, 8, 4)).shape().constraints == 47_974
    published = (22_305_906, 22_593_319, 5, 153_822_202, 22_680_528, 28_116_285, 17_104_392, 16_340_709)
    assert sizes(snap_poseidon_circuit(GIB_32)) == (*published[:3], published[3] - 1, *published[4:])


@pytest.mark.parametrize(
    ("arities", "partition", "challenges"),
    [
        (KIB_1, 0, [21, 7, 3, 31, 0]),
        ((8, 8, 8), 1, [286, 308, 493, 510, 508]),
        (GIB_32, 15, [1_038_629_497, 1_053_983_614, 1_030_421_316, 1_027_373_887, 1_068_685_433]),
    ],
    ids=["1 KiB", "16 KiB", "32 GiB"],
)
def test_challenges_are_filecoins(arities: tuple[int, ...], partition: int, challenges: list[int]) -> None:
    # storage-proofs-update's own vectors, whose comm_r is the first that its generator draws
    comm_r = 0x6C0740D6EDB22EB13054F4587D6D2DCBC688F796C303C7044F60429C4BBE1C10
    update = Update(arities)
    drawn = update_challenges(update, comm_r, partition, update.partition_bits, update.challenges)
    assert drawn[:5] == challenges


def test_lies_about_an_update_are_refused(backend: Backend) -> None:
    circuit = snap_circuit(KIB_1).build()
    inputs = snap_inputs(KIB_1, Random(2))
    witness = circuit.witness(inputs, backend)
    assert satisfies(circuit, witness, backend)
    assert unpack(witness[1:5]) == inputs["public"]
    for wire in Random(3).sample(range(1, circuit.n_wires), 3):
        other = witness.copy()
        other[wire, 0] ^= 1
        assert not satisfies(circuit, other, backend), f"wire {wire} is free"
    data, own = ("a leaf of the new data: the path leads to its apex leaf", "comm_r of the")
    for name, place, by, message in (
        ("public", 0, 64, "the partition and the choice of h are a number of 6 bits"),
        ("comm_c", 0, 1, f"{own} old replica is the hash of comm_c and its root"),
        ("root_r_new", 0, 1, f"{own} new replica is the hash of comm_c and its root"),
        ("apex_leaves", 7, 1, "the apex leaves: the path leads to the root"),
        ("siblings_d_new", 2, 1, f"{data}, lane 1"),
        ("leaf_r_old", 3, 1, "a leaf of the old replica: the path leads to the root, lane 3"),
    ):
        with pytest.raises(UnsatisfiedWitness, match=message):
            circuit.witness(changed(inputs, name, place, by), backend)


def test_challenges_of_several_digests(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snap, "PACKED_BITS", 20)  # so that a digest has four of the ten challenges
    circuit = snap_poseidon_circuit(KIB_1).build()
    inputs = snap_poseidon_inputs(KIB_1, Random(3))
    assert satisfies(circuit, circuit.witness(inputs, backend), backend)
    with pytest.raises(UnsatisfiedWitness, match="a leaf of the new replica: the path leads to the root"):
        circuit.witness(changed(inputs, "siblings_r_new", 0), backend)


def test_an_update_of_1_kib_under_poseidon_is_proven(backend: Backend, tmp_path: Path) -> None:
    circuit = snap_poseidon_circuit(KIB_1).build()
    inputs = snap_poseidon_inputs(KIB_1, Random(4))
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "snap.zkey")
    key = read_zkey(tmp_path / "snap.zkey")
    proof, _ = prove(load_key(key, backend), circuit.witness(inputs, backend))
    vk = key.verification_key
    assert verify(vk, inputs["public"], proof)
    assert not verify(vk, changed(inputs, "public", 3)["public"], proof)
