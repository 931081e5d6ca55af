"""Beacons as the last contribution: the same bytes as snarkjs', on both curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from distprove.errors import InputError, TooMuchWork
from distprove.groth16.beacon import Beacon, require_affordable
from distprove.groth16.contribute import contribute
from distprove.groth16.draws import Draws
from distprove.groth16.phase2 import DeltaKey
from distprove.groth16.points import to_bytes
from distprove.groth16.setup import setup
from distprove.groth16.zkey import BEACON, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import CURVES, Curve, Group
from tests.conftest import Snarkjs
from tests.groth16.test_setup import small_circuit

VALUE = "0102030405060708090a0b0c0d0e0f10"

# Drawn with ffjavascript: a ChaCha of the 1,024th SHA-256 of VALUE, then curve.Fr.fromRng and curve.G1.fromRng.
FACTORS = {
    "bn128": 0x1536CF69463BCDCBCF6B92D6F11119A04842B02439CE1DC09C281ABEE1C13C95,
    "bls12381": 0x73E6C245AF33A96A78E875A45256A9044DAD047CE45627A10C3B172B55B1EDA7,
}
POINTS = {
    "bn128": "1857e88c30a7c51ee175573d9bc52c832b0fa4f507380166badca637801df684"
    "28c81cb750b2ce84965826a3d78c78e1729e6743cce4f4c838cd555592327409",
    "bls12381": "0a2a8cb42acafb5553b804efa598393854d0dc7809b2a310084d735357738e475417560b016b742f59e97fc11706e744"
    "04f46a57b80440a7f136f5ede9850b651ba7d500b094e448a091f72acfd48ca552f40cd411f7f45ca9cddda3f376576b",
}


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_a_beacon_draws_what_ffjavascript_draws(curve: Curve) -> None:
    key = DeltaKey.of_beacon(curve, Beacon.from_hex(f"0x{VALUE}", 10).draws())
    assert key.factor == FACTORS[curve.name]
    assert to_bytes(curve, Group.G1, key.s).hex() == POINTS[curve.name]


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_the_key_is_snarkjs_byte_for_byte(curve: Curve, backend: Backend, snarkjs: Snarkjs, tmp_path: Path) -> None:
    before, ours, theirs = (tmp_path / name for name in ("before.zkey", "ours.zkey", "theirs.zkey"))
    setup(small_circuit(curve).r1cs, insecure_dev=True, backend=backend, out=before)
    done = snarkjs("zkey", "beacon", before, theirs, VALUE, "11", "-n=block 7")
    made = contribute(before, out=ours, name="block 7", backend=backend, beacon=Beacon.from_hex(VALUE, 11))
    assert ours.read_bytes() == theirs.read_bytes()
    assert made.hash.hex() in "".join(done.stdout.split())
    last = read_zkey(theirs).contributions[-1]
    assert (last.kind, last.name, last.iterations_exponent, last.beacon) == (
        *(BEACON, "block 7", 11),
        bytes.fromhex(VALUE),
    )


@pytest.mark.parametrize(
    ("text", "exponent"), [("0", 10), ("", 10), ("zz", 10), ("00" * 256, 10), ("00", 9), ("00", 64)]
)
def test_beacons_that_snarkjs_refuses(text: str, exponent: int) -> None:
    with pytest.raises(InputError, match="beacon"):
        Beacon.from_hex(text, exponent)


def test_work_has_a_bound_over_all_beacons() -> None:
    require_affordable("a file", (10, None, 10), 11)
    for exponents, needed in (((63,), 63), ((255,), 255), ((10, 10, 1), 12)):
        with pytest.raises(TooMuchWork, match=f"--beacon-exponent {needed} "):
            require_affordable("a file", exponents, 11)


def test_a_seed_that_is_too_short() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Draws(bytes(31))
