"""Small valid files of every format, made without the readers' help where that matters."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np

from distprove.groth16.elements import as_words
from distprove.groth16.key import SECTIONS, KeyPoints
from distprove.groth16.r1cs import R1cs, write_r1cs
from distprove.groth16.wtns import write_wtns
from distprove.groth16.zkey import Contribution, ZKey, write_zkey
from kernels.interface.arrays import HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import field_from_ints, scalars_from_ints

CURVES = (BN254, BLS12_381)


def container(magic: bytes, version: int, sections: list[tuple[int, bytes]], count: int | None = None) -> bytes:
    """The container as the specification says, byte by byte."""
    out = magic + struct.pack("<II", version, len(sections) if count is None else count)
    for ident, content in sections:
        out += struct.pack("<IQ", ident, len(content)) + content
    return out


def random_matrix(curve: Curve, rows: int, cols: int, seed: int) -> CsrMatrix:
    """Up to three entries a row, values from a dictionary of five, some rows empty."""
    rng = np.random.default_rng(seed)
    row_ptr = np.zeros(rows + 1, dtype=np.uint32)
    np.cumsum(rng.integers(0, 4, rows), out=row_ptr[1:])
    nnz = int(row_ptr[-1])
    return CsrMatrix(
        rows,
        cols,
        row_ptr,
        rng.integers(0, cols, nnz).astype(np.uint32),
        rng.integers(0, 5, nnz).astype(np.uint32),
        field_from_ints(curve.fr, [1, -1, 7, 2**200 + 3, -(2**130)]),
    )


def entries(matrix: CsrMatrix) -> list[list[tuple[int, bytes]]]:
    """Row by row (column, value's bytes): two matrices with the same entries may number their values differently."""
    values = matrix.values[matrix.value_index]
    return [
        [(int(matrix.columns[k]), values[k].tobytes()) for k in range(matrix.row_ptr[i], matrix.row_ptr[i + 1])]
        for i in range(matrix.rows)
    ]


def points(curve: Curve, group: Group, count: int, seed: int) -> np.ndarray:
    """Words that stand for points; the readers do not look inside."""
    return np.random.default_rng(seed).integers(0, 2**60, (count, curve.point_limbs(group)), dtype=np.uint64)


def small_contribution(curve: Curve, name: str | None = "someone") -> Contribution:
    g1 = points(curve, Group.G1, 3, 11)
    return Contribution(g1[0], g1[1], g1[2], points(curve, Group.G2, 1, 12)[0], b"t" * 64, 0, name)


def zkey_parts(curve: Curve, contributions: tuple[Contribution, ...] | None = None) -> dict[str, object]:
    """Arguments of write_zkey for 5 wires, 2 of them public, and a domain of 8."""
    g1 = points(curve, Group.G1, 3, 1)
    g2 = points(curve, Group.G2, 3, 2)
    return {
        "curve": curve,
        "n_vars": 5,
        "n_public": 2,
        "domain_size": 8,
        "points": KeyPoints(
            *(g1[0], g1[1], g2[0], g2[1], g1[2], g2[2]),
            ic=points(curve, Group.G1, 3, 3),
            a=points(curve, Group.G1, 5, 6),
            b1=points(curve, Group.G1, 5, 7),
            b2=points(curve, Group.G2, 5, 8),
            c=points(curve, Group.G1, 2, 9),
            h=points(curve, Group.G1, 8, 10),
        ),
        "a": random_matrix(curve, 8, 5, 4),
        "b": random_matrix(curve, 8, 5, 5),
        "circuit_hash": bytes(range(64)),
        "contributions": (small_contribution(curve),) if contributions is None else contributions,
    }


def key_points_of(zkey: ZKey) -> KeyPoints:
    """The points of a key that was read, to write it again."""
    return replace(zkey.points, **{name: as_words(getattr(zkey.points, name)) for name in ("ic", *SECTIONS)})


def with_points(zkey: ZKey, **points: HostArray) -> ZKey:
    """`zkey` with other points of these names."""
    return replace(zkey, points=replace(zkey.points, **points))


def zkey_bytes(folder: Path, curve: Curve) -> bytes:
    path = folder / "small.zkey"
    write_zkey(path, **zkey_parts(curve))  # type: ignore[arg-type]
    return path.read_bytes()


def wtns_bytes(folder: Path, curve: Curve, values: tuple[int, ...] = (1, 5, 2**250, 0, 3)) -> bytes:
    path = folder / "small.wtns"
    write_wtns(path, curve, scalars_from_ints(curve.fr, values))
    return path.read_bytes()


def small_r1cs(curve: Curve) -> R1cs:
    a, b, c = (random_matrix(curve, 6, 7, seed) for seed in (1, 2, 3))
    return R1cs(curve, 7, 1, 2, 2, a, b, c)


def r1cs_bytes(folder: Path, curve: Curve) -> bytes:
    path = folder / "small.r1cs"
    write_r1cs(path, small_r1cs(curve))
    return path.read_bytes()


def ptau_bytes(curve: Curve, power: int = 2, *, prepared: bool = True) -> bytes:
    """A phase-1 file whose points are counters, so that a test sees which ones a view shows. It has a contribution."""

    def block(group: Group, count: int, mark: int) -> bytes:
        words = np.zeros((count, curve.point_limbs(group)), dtype="<u8")
        words[:, 0], words[:, 1] = np.arange(count), mark
        return words.tobytes()

    q = curve.fq.modulus.to_bytes(curve.fq.bytes, "little")
    n = 1 << power
    parameters = b"\1\4name\2\12\3\2\7\7"  # a name, 2^10 iterations, a beacon of two bytes
    contributed = bytes(216 + 64) + struct.pack("<II", 1, len(parameters)) + parameters
    sections = [
        (1, struct.pack("<I", len(q)) + q + struct.pack("<II", power, power + 3)),
        (2, block(Group.G1, 2 * n - 1, 2)),
        (3, block(Group.G2, n, 3)),
        (4, block(Group.G1, n, 4)),
        (5, block(Group.G1, n, 5)),
        (6, block(Group.G2, 1, 6)),
        (7, struct.pack("<I", 1) + block(Group.G1, 9, 7) + block(Group.G2, 5, 7) + contributed),
    ]
    if prepared:
        sections += [
            (12, block(Group.G1, 4 * n - 1, 12)),
            (13, block(Group.G2, 2 * n - 1, 13)),
            (14, block(Group.G1, 2 * n - 1, 14)),
            (15, block(Group.G1, 2 * n - 1, 15)),
        ]
    return container(b"ptau", 1, sections)
