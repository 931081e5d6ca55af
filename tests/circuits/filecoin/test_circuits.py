"""Filecoin's circuits: as large as theirs, satisfied by true inputs, refusing false ones, provable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.gadgets import Level, assert_included, poseidon_level, select, sha256_level
from distprove.circuits.filecoin.inputs import porep_inputs, post_inputs, winning_post_inputs
from distprove.circuits.filecoin.porep import porep_circuit
from distprove.circuits.filecoin.post import post_circuit
from distprove.circuits.linear import Linear
from distprove.errors import UnsatisfiedWitness
from distprove.groth16.prover import Blinding, prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import read_zkey
from kernels.cuda.backend import CudaBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import unpack
from tests.circuits.filecoin.conftest import satisfies
from tests.support.emulated_device import EmulatedDevice

KIB_2, GIB_32, GIB_64 = (8, 8), (8,) * 10, (*(8,) * 10, 2)


@pytest.mark.parametrize(
    ("arities", "constraints"),
    [((2,) * 6, 1886), ((4,) * 3, 1163), ((8, 8), 1062), ((8, 8, 2), 1376), ((8, 8, 8), 1592)],
)
def test_paths_are_as_long_as_published(arities: tuple[int, ...], constraints: int) -> None:
    # storage-proofs-core's por_circuit, with a private root
    assert path_constraints(poseidon_level, arities) == constraints


def path_constraints(level: Level, arities: tuple[int, ...]) -> int:
    """Constraints of a path's template."""

    def gadget(b: CircuitBuilder, given: Sequence[Linear]) -> list[Linear]:
        leaf, root, index = given
        assert_included(b, level, arities, leaf, index, "siblings", root, "a leaf")
        return []

    return CircuitBuilder.record(BLS12_381, 3, gadget).rows


def test_a_path_under_sha256_is_as_long_as_published() -> None:
    assert path_constraints(sha256_level, (2,) * 6) == 272_295 - 1


def sizes(b: CircuitBuilder) -> tuple[int, ...]:
    """Constraints, auxiliary wires, inputs, entries of A, B and C with a row for each input, densities of A and B."""
    s = b.shape()
    a, b_entries, c = s.nnz
    return (s.constraints, s.auxiliary, s.inputs, a + s.inputs, b_entries, c, s.a_auxiliary, s.b_auxiliary)


@pytest.mark.parametrize(
    ("sectors", "challenges", "arities", "published"),
    [
        (66, 1, GIB_32, (370_590, 375_210, 133, 2_549_185, 376_662, 465_300, 284_196, 272_184)),
        (66, 1, GIB_64, (391_314, 396_000, 133, 2_689_501, 397_518, 491_040, 299_838, 287_694)),
        (
            2349,
            10,
            GIB_32,
            (125_279_217, 126_902_376, 25_840, 862_416_559, 127_398_015, 157_401_792, 96_179_805, 91_925_766),
        ),
    ],
    ids=["winning 32 GiB", "winning 64 GiB", "window 32 GiB"],
)
def test_post_sizes(sectors: int, challenges: int, arities: tuple[int, ...], published: tuple[int, ...]) -> None:
    assert sizes(post_circuit(sectors, challenges, arities)) == published


@pytest.mark.parametrize(
    ("challenges", "arities", "published"),
    [
        (2, KIB_2, (2_687_921, 2_685_673, 40, 6_421_005, 2_689_006, 5_824_682, 2_674_908, 685_521)),
        (2, (8,) * 6, (3_844_929, 3_842_449, 40, 9_388_453, 3_847_886, 8_234_882, 3_814_996, 1_011_289)),
    ],
    ids=["2 KiB", "8 MiB"],
)
def test_porep_sizes(challenges: int, arities: tuple[int, ...], published: tuple[int, ...]) -> None:
    assert sizes(porep_circuit(challenges, 2, arities)) == published


@pytest.mark.parametrize(
    ("arities", "constraints"),
    [((2, 2, 2), 1_206_212), ((8,), 1_199_620), ((8, 4), 1_296_576), ((8, 4, 2), 1_346_982)],
)
def test_porep_sizes_of_storage_proofs_own_tests(arities: tuple[int, ...], constraints: int) -> None:
    shape = porep_circuit(1, 2, arities).shape()
    assert (shape.constraints, shape.inputs) == (constraints, 22)


def test_porep_of_32_gib() -> None:
    published = (130_278_541, 130_169_893, 328, 309_405_051, 130_327_340, 282_656_500, 129_753_292, 33_112_281)
    assert sizes(porep_circuit(18, 11, GIB_32)) == published


def test_a_window_of_sectors_is_satisfied(backend: Backend) -> None:
    circuit = post_circuit(2, 3, (8, 4, 2)).build()
    inputs = [post_inputs(2, 3, (8, 4, 2), Random(k)) for k in range(2)]
    for witness, given in zip(circuit.witnesses(inputs, backend), inputs, strict=True):
        assert satisfies(circuit, witness, backend)
        assert unpack(witness[1:9]) == given["public"]


def changed(inputs: dict[str, list[int]], name: str, place: int, by: int = 1) -> dict[str, list[int]]:
    values = list(inputs[name])
    values[place] += by
    return {**inputs, name: values}


def test_the_value_at_each_index_is_selected(backend: Backend) -> None:
    b = CircuitBuilder(BLS12_381)
    values = [b.private_input(f"value{k}") for k in range(8)]
    chosen = select(b, values, [b.private_input(f"bit{k}", 8) for k in range(3)])
    b.output("chosen", chosen)
    circuit = b.build()
    inputs = {f"value{k}": [100 + k] for k in range(8)} | {f"bit{k}": [i >> k & 1 for i in range(8)] for k in range(3)}
    witness = circuit.witness(inputs, backend)
    assert unpack(witness[1:9]) == list(range(100, 108))
    assert satisfies(circuit, witness, backend)
    for wire in range(1 + 8 + 8, circuit.n_wires):
        other = witness.copy()
        other[wire, 0] ^= 1
        assert not satisfies(circuit, other, backend), f"wire {wire} is free"


@pytest.mark.parametrize(("sectors", "challenges"), [(5, 1), (2, 3)])
def test_a_winner_names_one_sector_again_and_again(sectors: int, challenges: int, backend: Backend) -> None:
    circuit = post_circuit(sectors, challenges, (8, 8)).build()
    inputs = winning_post_inputs(sectors, challenges, (8, 8), Random(7))
    witness = circuit.witness(inputs, backend)
    assert satisfies(circuit, witness, backend)
    public = unpack(witness[1 : 1 + sectors * (1 + challenges)])
    assert public == inputs["public"]
    assert len(set(public[:: 1 + challenges])) == len(set(inputs["comm_c"])) == 1
    assert len(set(public[1 :: 1 + challenges])) > 1, "each time with leaves of its own"
    for wire in Random(3).sample(range(1, circuit.n_wires), 60):
        other = witness.copy()
        other[wire, 0] ^= 1
        assert not satisfies(circuit, other, backend), f"wire {wire} is free"


def test_a_gpu_makes_the_witnesses_of_the_cpu(backend: Backend) -> None:
    emulated = CudaBackend(EmulatedDevice())
    for sectors, challenges, made in ((3, 1, winning_post_inputs), (2, 2, post_inputs)):
        circuit, inputs = (
            post_circuit(sectors, challenges, (8, 2)).build(),
            made(sectors, challenges, (8, 2), Random(9)),
        )
        assert np.array_equal(circuit.witness(inputs, emulated), circuit.witness(inputs, backend))
        with pytest.raises(UnsatisfiedWitness, match="a challenged leaf: the path leads to the root, lane 1"):
            circuit.witness(changed(inputs, "leaf", challenges), emulated)


def test_lies_about_a_sector_are_refused(backend: Backend) -> None:
    circuit = post_circuit(3, 1, (8, 8)).build()
    inputs = winning_post_inputs(3, 1, (8, 8), Random(5))
    root = "a challenged leaf: the path leads to the root, lane 1"
    for lie, message in (
        (changed(inputs, "leaf", 1), root),
        (changed(inputs, "siblings", 14 + 9), root),
        (changed(inputs, "public", 3), root),
        (changed(inputs, "public", 3, 64), "a challenged leaf: the index lies in the tree, lane 1"),
        (changed(inputs, "public", 0), "comm_r is the hash"),
        (changed(inputs, "comm_c", 0), "comm_r is the hash"),
    ):
        with pytest.raises(UnsatisfiedWitness, match=message):
            circuit.witness(lie, backend)


def test_a_replica_is_satisfied_and_lies_about_it_are_refused(backend: Backend) -> None:
    circuit = porep_circuit(1, 2, (8,)).build()
    inputs = porep_inputs(1, 2, (8,), Random(6))
    witness = circuit.witness(inputs, backend)
    assert satisfies(circuit, witness, backend)
    assert unpack(witness[1:22]) == inputs["public"]
    for name, place, message in (
        ("data_leaf", 0, "the data leaf: the path leads to the root"),
        ("columns", 3, "parent 1: the path leads to the root"),
        ("replica_siblings", 2, "the replica leaf: the path leads to the root"),
        ("column_siblings", 14 * 7, "the column: the path leads to the root"),
    ):
        with pytest.raises(UnsatisfiedWitness, match=message):
            circuit.witness(changed(inputs, name, place), backend)


def test_a_winning_post_of_2_kib_is_proven(backend: Backend, tmp_path: Path) -> None:
    circuit = post_circuit(2, 1, KIB_2).build()
    inputs = winning_post_inputs(2, 1, KIB_2, Random(8))
    setup(circuit.r1cs, insecure_dev=True, backend=backend, out=tmp_path / "post.zkey")
    key = read_zkey(tmp_path / "post.zkey")
    loaded, blinding = load_key(key, backend), Blinding(3, 5)
    proof, _ = prove(loaded, circuit.witness(inputs, backend), lambda _: blinding)
    there, _ = prove(loaded, lambda device: circuit.witness_on(device, inputs), lambda _: blinding)
    assert there.to_dict() == proof.to_dict()
    vk = key.verification_key
    assert verify(vk, inputs["public"], proof)
    assert not verify(vk, changed(inputs, "public", 1)["public"], proof)
