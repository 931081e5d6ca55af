from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InputError
from distprove.groth16.elements import _fingerprints, dictionary
from distprove.groth16.r1cs import read_r1cs, write_r1cs
from distprove.groth16.zkey import read_zkey
from kernels.maths.curves import BN254, Curve
from kernels.maths.encoding import field_to_ints
from tests.support.file_builders import CURVES, container, entries, r1cs_bytes, random_matrix, small_r1cs


def header(
    curve: Curve, *, wires: int = 4, outputs: int = 1, public: int = 0, private: int = 2, labels: int = 9, rows: int = 1
) -> bytes:
    prime = struct.pack("<I", curve.fr.bytes) + curve.fr.modulus.to_bytes(curve.fr.bytes, "little")
    return prime + struct.pack("<IIIIQI", wires, outputs, public, private, labels, rows)


def combination(*terms: tuple[int, int]) -> bytes:
    return struct.pack("<I", len(terms)) + b"".join(struct.pack("<I", w) + v.to_bytes(32, "little") for w, v in terms)


def product(curve: Curve) -> bytes:
    """-w2 * w3 = -w1: circom's way of writing c <== a * b."""
    minus = curve.fr.modulus - 1
    return combination((2, minus)) + combination((3, 1)) + combination((1, minus))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_reads_the_layout_of_the_specification(curve: Curve) -> None:
    second = combination((0, 3), (1, 4), (3, 5)) + combination() + combination()
    data = container(b"r1cs", 1, [(2, product(curve) + second), (1, header(curve, rows=2))])
    r1cs = read_r1cs(data)
    assert (r1cs.curve, r1cs.n_constraints, r1cs.n_vars, r1cs.n_public, r1cs.n_labels) == (curve, 2, 4, 1, 9)
    assert r1cs.wire_labels is None
    p = curve.fr.modulus
    for matrix, expected in (
        (r1cs.a, [[(2, p - 1)], [(0, 3), (1, 4), (3, 5)]]),
        (r1cs.b, [[(3, 1)], []]),
        (r1cs.c, [[(1, p - 1)], []]),
    ):
        values = field_to_ints(curve.fr, matrix.values)
        found = [
            [(int(matrix.columns[k]), values[matrix.value_index[k]]) for k in range(*matrix.row_ptr[i : i + 2])]
            for i in range(2)
        ]
        assert found == expected
        assert (matrix.row_ptr.dtype, matrix.columns.dtype, matrix.value_index.dtype) == (np.uint32,) * 3


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_what_is_written_is_read(tmp_path: Path, curve: Curve) -> None:
    ours = small_r1cs(curve)
    labels = np.arange(7, dtype=np.uint64) * 3
    write_r1cs(tmp_path / "c.r1cs", dataclasses.replace(ours, n_labels=40, wire_labels=labels))
    read = read_r1cs(tmp_path / "c.r1cs")
    for name in "abc":
        assert entries(getattr(read, name)) == entries(getattr(ours, name))
    assert (read.n_outputs, read.n_public_inputs, read.n_private_inputs, read.n_labels) == (1, 2, 2, 40)
    assert read.wire_labels is not None
    assert np.array_equal(read.wire_labels, labels)


def test_many_constraints_cross_the_chunks(tmp_path: Path) -> None:
    """More rows than the writer handles at a time, and more distinct values than the quick dictionary takes."""
    rows = 70_000
    matrix = random_matrix(BN254, rows, 50, 1)
    values = np.zeros((matrix.nnz, 4), dtype=np.uint64)
    values[:, 0] = np.arange(matrix.nnz) // 2 * 2654435761
    many = dataclasses.replace(matrix, value_index=np.arange(matrix.nnz, dtype=np.uint32), values=values)
    write_r1cs(tmp_path / "c.r1cs", dataclasses.replace(small_r1cs(BN254), n_vars=50, a=many, b=matrix, c=many))
    read = read_r1cs(tmp_path / "c.r1cs")
    for found, expected in ((read.a, many), (read.b, matrix), (read.c, many)):
        assert np.array_equal(found.row_ptr, expected.row_ptr)
        assert np.array_equal(found.columns, expected.columns)
        assert np.array_equal(found.values[found.value_index], expected.values[expected.value_index])


def test_values_whose_fingerprints_collide_stay_apart() -> None:
    """Two different coefficients made to have one fingerprint (its first three words cancelled by the fourth)."""
    base = np.array([[1, 2, 3, 4], [9, 2, 3, 0]], dtype=np.uint64)
    partial = [_fingerprints(row[None, :3]) for row in base]
    base[1, 3] = partial[0][0] ^ partial[1][0] ^ base[0, 3]
    assert len(set(_fingerprints(base).tolist())) == 1
    distinct, index = dictionary(np.concatenate([base, base[::-1]]))
    assert distinct.shape[0] == 2
    assert np.array_equal(distinct[index], np.concatenate([base, base[::-1]]))


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ([(1, header(BN254, rows=4)), (2, product(BN254) * 2)], "holds 2 whole constraints, not 4"),
        ([(1, header(BN254, rows=2)), (2, product(BN254)[:-4] * 2)], "holds 1 whole constraint, not 2"),
        ([(1, header(BN254)), (2, product(BN254) + bytes(4))], "byte 220: 4 bytes follow the last of 1 constraint"),
        ([(1, header(BN254)), (2, product(BN254)[:-4])], "holds 0 whole constraints, not 1"),
        ([(1, header(BN254)), (2, b"\xff\xff\xff\xff" + product(BN254)[4:])], "holds 0 whole constraints, not 1"),
        ([(1, header(BN254)), (2, product(BN254) + b"x")], "cannot hold 1 constraint"),
        ([(1, header(BN254, rows=2**32 - 1)), (2, product(BN254))], "cannot hold 4294967295 constraints"),
        ([(1, header(BN254, wires=3)), (2, product(BN254))], "entry 1 names wire 3, there are 3"),
        ([(1, header(BN254, wires=4, outputs=4)), (2, product(BN254))], "4 public wires, too many for 4 wires"),
        ([(1, header(BN254, wires=2**32 - 1)), (2, product(BN254))], "4294967295 wires in a file of"),
        ([(1, header(BN254)), (2, product(BN254)), (3, bytes(24))], r"section 3 \(wire labels\).*needs 32 more"),
        ([(1, header(BN254)), (2, product(BN254)), (3, bytes(40))], "8 bytes too many"),
        ([(1, header(BN254)), (2, product(BN254)), (4, b"\1\0\0\0")], "custom gates"),
        ([(1, header(BN254)), (2, product(BN254)), (5, b"\1\0\0\0")], "custom gates"),
        ([(1, b"\x08\0\0\0" + bytes(40)), (2, b"")], "neither BN254's nor BLS12-381's"),
    ],
)
def test_malformed_files(sections: list[tuple[int, bytes]], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_r1cs(container(b"r1cs", 1, sections))


def test_a_coefficient_not_below_the_prime() -> None:
    bad = combination((2, 1)) + combination((1, 1), (3, BN254.fr.modulus)) + combination((1, 1))
    with pytest.raises(FormatError, match="the coefficient of entry 2 is not below the prime"):
        read_r1cs(container(b"r1cs", 1, [(1, header(BN254)), (2, bad)]))


def test_empty_custom_gate_sections_are_fine() -> None:
    gates = [(4, bytes(4)), (5, bytes(4))]
    read_r1cs(container(b"r1cs", 1, [(1, header(BN254)), (2, product(BN254)), *gates]))


def test_the_writer_refuses_what_does_not_agree(tmp_path: Path) -> None:
    ours = small_r1cs(BN254)
    for wrong in (
        dataclasses.replace(ours, b=random_matrix(BN254, 5, 7, 1)),
        dataclasses.replace(ours, n_vars=6),
        dataclasses.replace(ours, wire_labels=np.zeros(6, dtype=np.uint64)),
    ):
        with pytest.raises(InputError):
            write_r1cs(tmp_path / "c.r1cs", wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("circuit", ["tiny", "sha256_256", "chain_bls12381"])
def test_real_circuits(shared_data: Path, tmp_path: Path, circuit: str) -> None:
    """Written back byte for byte as circom wrote it; and its A and B are those of the proving key."""
    folder = shared_data / "circom" / circuit
    r1cs = read_r1cs(folder / "circuit.r1cs")
    write_r1cs(tmp_path / "c.r1cs", r1cs)
    assert (tmp_path / "c.r1cs").read_bytes() == (folder / "circuit.r1cs").read_bytes()
    key = read_zkey(folder / "circuit.zkey")
    assert (key.n_vars, key.n_public) == (r1cs.n_vars, r1cs.n_public)
    for ours, theirs in zip((r1cs.a, r1cs.b), key.matrices(), strict=True):
        nnz = ours.nnz
        assert np.array_equal(ours.row_ptr, theirs.row_ptr[: ours.rows + 1])
        assert np.array_equal(ours.columns, theirs.columns[:nnz])
        assert np.array_equal(ours.values[ours.value_index], theirs.values[theirs.value_index[:nnz]])


@pytest.mark.node
def test_snarkjs_reads_what_is_written(snarkjs: Any, tmp_path: Path) -> None:
    (tmp_path / "c.r1cs").write_bytes(r1cs_bytes(tmp_path, BN254))
    told = snarkjs("r1cs", "info", tmp_path / "c.r1cs").stdout
    for line in ("Curve: bn-128", "# of Wires: 7", "# of Constraints: 6", "# of Outputs: 1", "# of Private Inputs: 2"):
        assert line in told
