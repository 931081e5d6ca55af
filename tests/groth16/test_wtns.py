from __future__ import annotations

import stat
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from distprove.errors import CurveMismatch, FormatError, UsageError, WitnessMismatch
from distprove.groth16.wtns import read_wtns, write_wtns
from kernels.maths.curves import BLS12_381, BN254, Curve
from kernels.maths.encoding import pack, scalars_from_ints, unpack
from tests.support.file_builders import CURVES, container, wtns_bytes


def header(curve: Curve, count: int, size: int = 32) -> bytes:
    return struct.pack("<I", size) + curve.fr.modulus.to_bytes(size, "little") + struct.pack("<I", count)


def wtns(curve: Curve, values: list[int]) -> bytes:
    body = b"".join(v.to_bytes(32, "little") for v in values)
    return container(b"wtns", 2, [(1, header(curve, len(values))), (2, body)])


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_layout_and_round_trip(tmp_path: Path, curve: Curve) -> None:
    values = [1, 0, curve.fr.modulus - 1, 2**200]
    path = tmp_path / "w.wtns"
    write_wtns(path, curve, scalars_from_ints(curve.fr, values))
    assert path.read_bytes() == wtns(curve, values)
    witness = read_wtns(path)
    assert witness.curve is curve
    assert unpack(witness.values) == values
    assert witness.values.flags.aligned
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_aligned_values_are_not_copied() -> None:
    data = wtns(BN254, [1, 2, 3])
    raw = np.zeros(len(data) + 16, dtype=np.uint8)
    start = (-(raw.ctypes.data + len(data) - 96)) % 8
    raw[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)
    assert np.shares_memory(read_wtns(raw[start : start + len(data)]).values, raw)
    odd = np.frombuffer(b"x" + data, dtype=np.uint8)[1:]
    assert unpack(read_wtns(odd).values) == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wtns(BN254, [1, BN254.fr.modulus]), "wire 1 is not below the prime"),
        (wtns(BN254, [1] * 40_000 + [2**256 - 1]), "wire 40000 is not below the prime"),
        (wtns(BN254, []), "empty"),
        (container(b"wtns", 1, []), "version 1"),
        (container(b"wtns", 2, [(1, header(BN254, 2)), (2, bytes(32))]), "are left"),
        (container(b"wtns", 2, [(1, header(BN254, 2**32 - 1)), (2, bytes(32))]), "are left"),
        (container(b"wtns", 2, [(1, header(BN254, 1)), (2, bytes(64))]), "too many"),
        (container(b"wtns", 2, [(1, header(BN254, 1, 40)), (2, bytes(40))]), "40 bytes an element"),
        (container(b"wtns", 2, [(1, struct.pack("<I", 2**31)), (2, b"")]), "which no field has"),
        (container(b"wtns", 2, [(1, struct.pack("<IQI", 8, 0xFFFFFFFF00000001, 0)), (2, b"")]), "neither BN254"),
    ],
)
def test_malformed_witnesses(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_wtns(data)


def test_a_witness_is_held_against_its_circuit(tmp_path: Path) -> None:
    witness = read_wtns(wtns_bytes(tmp_path, BN254))
    witness.check_for(SimpleNamespace(curve=BN254, n_vars=5))
    with pytest.raises(CurveMismatch, match=r"for BN254, the key for BLS12-381"):
        witness.check_for(SimpleNamespace(curve=BLS12_381, n_vars=5))
    with pytest.raises(WitnessMismatch, match="of 5 wires, the circuit of the key of 6: they are of different"):
        witness.check_for(SimpleNamespace(curve=BN254, n_vars=6))
    other = read_wtns(wtns_bytes(tmp_path, BN254, (2**64 + 1, 5)))
    with pytest.raises(WitnessMismatch, match="first wire is not 1"):
        other.check_for(SimpleNamespace(curve=BN254, n_vars=2))


def test_the_writer_refuses_another_shape(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\(n, 4\), not \(2, 6\)"):
        write_wtns(tmp_path / "w.wtns", BN254, np.zeros((2, 6), dtype=np.uint64))


def test_values_do_not_show() -> None:
    secret = 123456789123456789
    witness = read_wtns(wtns(BN254, [1, secret]))
    assert str(secret) not in repr(witness)
    assert pack([secret], 4).tobytes().hex() not in repr(witness)
