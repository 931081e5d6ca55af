"""What no reader accepts, and what every reader does: beside the inputs that tests/fuzz makes for each of them."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distprove.errors import DistproveError
from distprove.groth16.inputs import flatten, signals
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from kernels.maths.curves import BN254
from tests.support.file_builders import CURVES, ptau_bytes, r1cs_bytes, wtns_bytes, zkey_bytes
from tests.support.file_uses import use_input, use_ptau, use_zkey

_FEW = 32
_FIXED = 1 << 20  # the vectorised code's own working memory, and error messages


USES: dict[str, Callable[[bytes], object]] = {
    "zkey": use_zkey,
    "wtns": read_wtns,
    "r1cs": read_r1cs,
    "ptau": use_ptau,
    "json": use_input,
}
JSON = b'{"a": ["1", 2, [-3, "0x4"]], "path": [[0, 1], [1, 0]], "big": 123456789012345678901234567890}'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """For every format a valid file per curve."""
    folder = tmp_path_factory.mktemp("files")
    return {
        "zkey": [zkey_bytes(folder, curve) for curve in CURVES],
        "wtns": [wtns_bytes(folder, curve) for curve in CURVES],
        "r1cs": [r1cs_bytes(folder, curve) for curve in CURVES],
        "ptau": [ptau_bytes(curve) for curve in CURVES],
        "json": [JSON],
    }


def check(kind: str, data: bytes) -> bool:
    """Whether the file was accepted. Fails on any other exception, and on memory out of proportion."""
    message = None
    tracemalloc.start()
    try:
        USES[kind](data)
    except DistproveError as error:
        message = str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < _FEW * len(data) + _FIXED, f"{peak} bytes allocated for a file of {len(data)}"
    assert len(message or "") < 500
    return message is None


relaxed = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
kinds = pytest.mark.parametrize("kind", sorted(USES))
binary_kinds = pytest.mark.parametrize("kind", sorted(set(USES) - {"json"}))

LONG_NUMBERS = [0, 1, 2, 7, 8, 32, 48, 0xFF, 2**16, 2**28, 2**31, 2**32 - 1]
LONG_NUMBERS += [2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 12, 2**64 - 1]


@kinds
def test_the_unchanged_file_is_accepted(files: dict[str, list[bytes]], kind: str) -> None:
    assert all(check(kind, data) for data in files[kind])


@binary_kinds
def test_no_truncation_is_accepted(files: dict[str, list[bytes]], kind: str) -> None:
    for data in files[kind]:
        ends = {*range(0, min(len(data), 200)), *range(0, len(data), 37), len(data) - 1}
        assert not any(check(kind, data[:end]) for end in sorted(ends))


@binary_kinds
@relaxed
@given(junk=st.binary(min_size=1, max_size=100))
def test_nothing_may_follow(files: dict[str, list[bytes]], kind: str, junk: bytes) -> None:
    assert not check(kind, files[kind][0] + junk)


@binary_kinds
def test_lying_section_sizes(files: dict[str, list[bytes]], kind: str) -> None:
    for data in files[kind]:
        at = 12
        while at < len(data):
            size = struct.unpack_from("<Q", data, at + 4)[0]
            for number in LONG_NUMBERS:
                accepted = check(kind, data[: at + 4] + struct.pack("<Q", number) + data[at + 12 :])
                assert accepted == (number == size)
            at += 12 + size


@binary_kinds
def test_one_format_is_not_another(files: dict[str, list[bytes]], kind: str) -> None:
    for other, samples in files.items():
        if other != kind:
            assert not check(kind, samples[0])


@relaxed
@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(), st.lists, max_leaves=8)
)
def test_any_json_value_as_a_signal(value: object) -> None:
    try:
        data = b"".join(
            packed for name, values, _ in signals({"s": value}) for packed in flatten(name, values, BN254.fr)
        )
    except DistproveError:
        return
    assert len(data) % 32 == 0
    assert all(int.from_bytes(data[i : i + 32], "little") < BN254.fr.modulus for i in range(0, len(data), 32))


def test_hostile_json() -> None:
    for data in (
        b"[" * 200_000,
        b'{"a":' * 50_000,
        b'{"a": ' + b"9" * 200_000 + b"}",
        b'{"a": "' + b"9" * 200_000 + b'"}',
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'\xff\xfe{"a": 1}',
        b'"text"',
        b"[1]",
        b"{} {}",
    ):
        assert not check("json", data)


def test_a_path_and_its_bytes_are_the_same(files: dict[str, list[bytes]], tmp_path: Path) -> None:
    path = tmp_path / "k.zkey"
    path.write_bytes(files["zkey"][1])
    assert read_zkey(path).data.tobytes() == read_zkey(files["zkey"][1]).data.tobytes()
