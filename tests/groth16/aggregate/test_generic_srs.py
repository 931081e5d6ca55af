"""bellperson's file of the powers of two ceremonies: what it wrote is read, and what it did not write is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from distprove.errors import DistproveError, FormatError, InputError, InvalidKey, UsageError
from distprove.groth16.aggregate.generic_srs import CURVE, GenericSrs, read_generic_srs
from distprove.groth16.aggregate.prover import aggregate
from distprove.groth16.aggregate.srs import Srs
from distprove.groth16.aggregate.srs_setup import srs_from_generic
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.zcash_points import compress
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import Group
from kernels.maths.encoding import point_from_ints
from tests.support.aggregates import secret_of
from tests.support.simulated_proofs import OUTSIDE, multiple

G1, G2 = 48, 96
POWERS = 8
"""Of each vector: those of 4 proofs."""
STARTS = (4, 8 + POWERS * G1, 12 + 2 * POWERS * G1, 16 + 2 * POWERS * G1 + POWERS * G2)
"""Where the vectors of points begin: alpha and beta in G1, and in G2."""


@pytest.fixture(scope="module")
def written() -> bytes:
    record = json.loads((Path(__file__).parent / "data" / "generic_srs.json").read_text())
    return bytes.fromhex(record["file"])


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., GenericSrs]:
    def of(data: bytes, proofs: int = 4) -> GenericSrs:
        path = tmp_path / "generic.srs"
        path.write_bytes(data)
        return read_generic_srs(path, proofs)

    return of


def keys(generic: GenericSrs) -> Srs:
    with CpuBackend() as cpu:
        return srs_from_generic(generic, cpu)


def test_what_bellperson_wrote_aggregates(written: bytes, read: Callable[..., GenericSrs]) -> None:
    generic = read(written)
    assert [len(powers) for powers in (*generic.g1, *generic.g2)] == [8, 8, 4, 4]
    assert b"".join(compress(Group.G1, point) for point in generic.g1[1]) == written[STARTS[1] : STARTS[1] + 8 * G1]
    assert b"".join(compress(Group.G2, point) for point in generic.g2[1]) == written[STARTS[3] : STARTS[3] + 4 * G2]
    srs = keys(generic)
    assert not srs.insecure
    assert keys(read(written, 2)).verifier.digest == srs.verifier.digest
    secret = secret_of(CURVE)
    public = [[i, 2] for i in range(4)]
    with CpuBackend() as cpu:
        result = aggregate(srs, [secret.prove(values, seed=i) for i, values in enumerate(public)], b"", cpu)
    assert verify(secret.key, srs.verifier, public, b"", result)
    assert not verify(secret.key, srs.verifier, [*public[:3], [4, 2]], b"", result)


def test_too_few_powers(written: bytes, read: Callable[..., GenericSrs]) -> None:
    with pytest.raises(InputError, match="8 are too few: 8 proofs take 16"):
        read(written, 5)
    with pytest.raises(UsageError):
        read(written, 1 << 21)


def test_files_of_another_shape(written: bytes, read: Callable[..., GenericSrs]) -> None:
    for data in (
        written[:-1],
        written + b"\0",
        b"",
        written[:3],
        b"asrs" + written[4:],
        b"\xff" * 4 + written[4:],
        written[: STARTS[3] - 4],
        written[: STARTS[2]],
        written[: STARTS[1] - 4] + (1).to_bytes(4, "big") + written[STARTS[1] :],
    ):
        with pytest.raises(FormatError):
            read(data)


@pytest.mark.parametrize("vector", range(4))
def test_points_that_do_not_check(written: bytes, read: Callable[..., GenericSrs], vector: int) -> None:
    group, size = (Group.G1, G1) if vector < 2 else (Group.G2, G2)

    def at(index: int, point: bytes) -> bytes:
        start = STARTS[vector] + index * size
        return written[:start] + point + written[start + size :]

    def own(index: int) -> bytes:
        return written[STARTS[vector] + index * size :][:size]

    outsider = compress(group, point_from_ints(CURVE, group, OUTSIDE[CURVE.name, group]))
    for spoiled, text in (
        (at(0, own(1)), "do not begin with the generator"),
        (at(1, compress(group, multiple(CURVE, group, 12345))), "not the powers"),
        (at(2, own(3)), "not the powers|are not different"),
        (at(3, bytes([own(3)[0] ^ 0x20]) + own(3)[1:]), "not the powers"),
        (at(2, outsider), "point 2 of the powers is not in"),
        (at(2, bytes([own(2)[0] & 0x7F]) + own(2)[1:]), "not flagged as compressed"),
        (at(2, b"\xc0" + bytes(size - 1)), "not the powers|are not different"),
    ):
        with pytest.raises(DistproveError, match=text):
            keys(read(spoiled))


def test_secrets_that_are_one(written: bytes, read: Callable[..., GenericSrs]) -> None:
    a1, a2 = written[4 : STARTS[1] - 4], written[STARTS[2] : STARTS[3] - 4]
    length = (POWERS).to_bytes(4, "big")
    with pytest.raises(InvalidKey, match="same ceremony"):
        keys(read(length + a1 + length + a1 + length + a2 + length + a2))
