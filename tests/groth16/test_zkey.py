from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidKey
from distprove.groth16.binfile import BinFile
from distprove.groth16.key import SINGLE
from distprove.groth16.zkey import INSECURE_DEV_NAME, ZKey, read_zkey, write_zkey
from kernels.maths.curves import BLS12_381, BN254, Curve, Group, curve_by_name
from kernels.maths.encoding import field_to_ints, point_to_ints, unpack
from tests.support.file_builders import (
    CURVES,
    container,
    entries,
    key_points_of,
    points,
    random_matrix,
    small_contribution,
    zkey_bytes,
    zkey_parts,
)

CIRCUITS = (
    "tiny",
    "epochKeyLite",
    "signup",
    "reputation",
    "userStateTransition",
    "sha256_256",
    "chain_bls12381",
)


def sections_of(data: bytes) -> list[tuple[int, bytes]]:
    file = BinFile.read(data, "zkey", (1,))
    return [(ident, data[at : at + size]) for ident, (at, size) in file.sections.items()]


def with_section(data: bytes, ident: int, change: Any) -> bytes:
    return container(b"zkey", 1, [(i, change(c) if i == ident else c) for i, c in sections_of(data)])


def header_number(curve: Curve, index: int, value: int) -> Any:
    """Replace wires (0), public (1) or domain size (2) in section 2."""
    at = 8 + curve.fq.bytes + curve.fr.bytes + 4 * index

    def change(content: bytes) -> bytes:
        return content[:at] + struct.pack("<I", value) + content[at + 4 :]

    return change


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_what_is_written_is_read(tmp_path: Path, curve: Curve) -> None:
    parts = zkey_parts(curve, (small_contribution(curve), small_contribution(curve, None)))
    write_zkey(tmp_path / "k.zkey", **parts)  # type: ignore[arg-type]
    key = read_zkey(tmp_path / "k.zkey")
    assert (key.curve, key.n_vars, key.n_public, key.domain_size) == (curve, 5, 2, 8)
    read = key_points_of(key)
    for name in (*SINGLE, "ic", "a", "b1", "b2", "c", "h"):
        assert np.array_equal(getattr(read, name), getattr(parts["points"], name))
    a, b = key.matrices()
    assert entries(a) == entries(parts["a"])  # type: ignore[arg-type]
    assert entries(b) == entries(parts["b"])  # type: ignore[arg-type]
    assert key.ceremony[0] == parts["circuit_hash"]
    assert [c.name for c in key.contributions] == ["someone", None]
    assert np.array_equal(key.contributions[0].g2_spx, small_contribution(curve).g2_spx)


def test_coefficients_are_stored_times_r_squared_by_constraint(tmp_path: Path) -> None:
    """Against the layout itself: 12 bytes of indices, then value * R^2 mod r."""
    parts = zkey_parts(BN254)
    write_zkey(tmp_path / "k.zkey", **parts)  # type: ignore[arg-type]
    data = dict(sections_of((tmp_path / "k.zkey").read_bytes()))[4]
    r, found = BN254.fr.modulus, []
    for at in range(4, len(data), 44):
        matrix, constraint, wire = struct.unpack_from("<III", data, at)
        value = int.from_bytes(data[at + 12 : at + 44], "little")
        found.append((constraint, matrix, wire, value * pow(2, -512, r) % r))
    assert [f[:2] for f in found] == sorted(f[:2] for f in found)
    for which, name in enumerate("ab"):
        csr: Any = parts[name]
        values = field_to_ints(BN254.fr, csr.values)
        expected = [
            (row, which, int(csr.columns[k]), values[csr.value_index[k]])
            for row in range(csr.rows)
            for k in range(csr.row_ptr[row], csr.row_ptr[row + 1])
        ]
        assert [f for f in found if f[1] == which] == expected


def test_points_are_views_of_the_bytes_given(tmp_path: Path) -> None:
    """A key from an object store, at an odd address, read-only: nothing is copied."""
    content = zkey_bytes(tmp_path, BN254)
    data = np.frombuffer(b"x" + content, dtype=np.uint8)[1:]
    key = read_zkey(data, name="from the store")
    for view in (key.points.ic, key.coefficients, key.points.a, key.points.b2, key.points.c, key.points.h):
        assert np.shares_memory(view, data)
        assert not view.flags.writeable
    assert key.data.tobytes() == content
    assert key.name == "from the store"


def test_order_of_coefficients_and_sections_is_free(tmp_path: Path) -> None:
    content = zkey_bytes(tmp_path, BN254)

    def shuffled(section: bytes) -> bytes:
        records = [section[i : i + 44] for i in range(4, len(section), 44)]
        # Stable by constraint within each matrix, constraints backwards.
        records.sort(key=lambda r: -struct.unpack_from("<I", r, 4)[0])
        return section[:4] + b"".join(records)

    other = container(b"zkey", 1, sections_of(with_section(content, 4, shuffled))[::-1])
    assert [entries(m) for m in read_zkey(other).matrices()] == [entries(m) for m in read_zkey(content).matrices()]


def test_a_key_without_ceremony_section_reads(tmp_path: Path) -> None:
    content = zkey_bytes(tmp_path, BN254)
    key = read_zkey(container(b"zkey", 1, [s for s in sections_of(content) if s[0] != 10]))
    assert key.ceremony[0] is None
    assert not key.insecure


def test_the_ceremony_is_checked_when_it_is_read(tmp_path: Path) -> None:
    spoiled = with_section(zkey_bytes(tmp_path, BN254), 10, lambda c: c + b"\0")
    with pytest.raises(FormatError, match="too many"):
        read_zkey(spoiled)
    key = read_zkey(spoiled, ceremony=False)
    for asked in ("contributions", "insecure", "ceremony"):
        with pytest.raises(FormatError, match="too many"):
            getattr(key, asked)


def test_a_dev_key_says_so(tmp_path: Path) -> None:
    for name, insecure in (("someone", False), (INSECURE_DEV_NAME, True)):
        write_zkey(tmp_path / "k.zkey", **zkey_parts(BN254, (small_contribution(BN254, name),)))  # type: ignore[arg-type]
        assert read_zkey(tmp_path / "k.zkey").insecure is insecure


def test_a_beacon_contribution_survives(tmp_path: Path) -> None:
    beacon = dataclasses.replace(small_contribution(BN254, "end"), kind=1, iterations_exponent=10, beacon=b"\1\2")
    write_zkey(tmp_path / "k.zkey", **zkey_parts(BN254, (beacon,)))  # type: ignore[arg-type]
    (read,) = read_zkey(tmp_path / "k.zkey").contributions
    assert (read.kind, read.name, read.iterations_exponent, read.beacon) == (1, "end", 10, b"\1\2")


@pytest.mark.parametrize(
    ("name", "kept"), [("a" * 100, "a" * 64), ("\u4eba" * 70, "\u4eba" * 64), ("\U0001f600" * 70, "\U0001f600" * 32)]
)
def test_long_names_are_cut_as_snarkjs_cuts_them(tmp_path: Path, name: str, kept: str) -> None:
    write_zkey(tmp_path / "k.zkey", **zkey_parts(BN254, (small_contribution(BN254, name),)))  # type: ignore[arg-type]
    assert read_zkey(tmp_path / "k.zkey").contributions[0].name == kept


@pytest.mark.parametrize("ident", range(1, 10))
def test_every_section_is_needed_and_has_one_size(tmp_path: Path, ident: int) -> None:
    content = zkey_bytes(tmp_path, BN254)
    without = container(b"zkey", 1, [s for s in sections_of(content) if s[0] != ident])
    longer = with_section(content, ident, lambda c: c + b"\0" * 64)
    shorter = with_section(content, ident, lambda c: c[:-1])
    for data, message in ((without, "is missing"), (longer, "too many"), (shorter, "are left")):
        with pytest.raises(FormatError, match=rf"section {ident} .*{message}"):
            read_zkey(data)


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (1, 5, "do not fit into 5 wires"),
        (1, 2**32 - 1, "do not fit into 5 wires"),
        (0, 2**32 - 1, "are left"),
        (2, 7, "not a power of two"),
        (2, 0, "not a power of two"),
        (2, 2, "not a power of two"),
        (2, 2**31, "not a power of two"),
        (2, 2**28, "are left"),
    ],
)
def test_numbers_in_the_header_must_hold(tmp_path: Path, index: int, value: int, message: str) -> None:
    content = zkey_bytes(tmp_path, BN254)
    with pytest.raises(FormatError, match=message):
        read_zkey(with_section(content, 2, header_number(BN254, index, value)))


def test_other_protocols_and_curves_are_named(tmp_path: Path) -> None:
    content = zkey_bytes(tmp_path, BN254)
    with pytest.raises(FormatError, match="PLONK"):
        read_zkey(with_section(content, 1, lambda c: b"\2\0\0\0"))
    with pytest.raises(FormatError, match="neither BN254 nor BLS12-381"):
        read_zkey(with_section(content, 2, lambda c: c[:4] + b"\1" + c[5:]))
    with pytest.raises(FormatError, match="not that of BN254"):
        read_zkey(with_section(content, 2, lambda c: c[:40] + BLS12_381.fr.modulus.to_bytes(32, "little") + c[72:]))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(0, 2, "names matrix 2"), (4, 8, "names constraint 8, there are 8"), (8, 5, "names wire 5, there are 5")],
)
def test_coefficients_out_of_range(tmp_path: Path, at: int, value: int, message: str) -> None:
    at += 4 + 44 * 3
    content = zkey_bytes(tmp_path, BN254)
    key = read_zkey(with_section(content, 4, lambda c: c[:at] + struct.pack("<I", value) + c[at + 4 :]))
    with pytest.raises(InvalidKey, match=f"coefficient 3 {message}"):
        key.matrices()


def test_a_coefficient_not_below_the_modulus(tmp_path: Path) -> None:
    at = 4 + 44 * 2 + 12
    too_large = BN254.fr.modulus.to_bytes(32, "little")
    key = read_zkey(with_section(zkey_bytes(tmp_path, BN254), 4, lambda c: c[:at] + too_large + c[at + 32 :]))
    with pytest.raises(InvalidKey, match="coefficient 2 is not below the modulus"):
        key.matrices()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": {"a": points(BN254, Group.G1, 4, 1)}}, "section 5 must have 5 points"),
        ({"points": {"b2": points(BN254, Group.G1, 5, 1)}}, "section 7 must have 5 points"),
        ({"a": random_matrix(BN254, 9, 5, 1)}, "do not fit"),
        ({"b": random_matrix(BN254, 8, 6, 1)}, "do not fit"),
        ({"circuit_hash": b"short"}, "5 bytes"),
    ],
)
def test_the_writer_refuses_what_does_not_agree(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = zkey_parts(BN254)
    change = {**change, "points": dataclasses.replace(parts["points"], **change.get("points", {}))}
    with pytest.raises(InvalidKey, match=message):
        write_zkey(tmp_path / "k.zkey", **(parts | change))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# -- real keys ----------------------------------------------------------------------------------------------------


def real(shared_data: Path, circuit: str) -> ZKey:
    return read_zkey(shared_data / "circom" / circuit / "circuit.zkey")


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_real_keys_agree_with_their_verification_keys(shared_data: Path, circuit: str) -> None:
    key = real(shared_data, circuit)
    vk = json.loads((shared_data / "circom" / circuit / "verification_key.json").read_text())
    assert curve_by_name(vk["curve"]) is key.curve
    assert vk["nPublic"] == key.n_public
    read = key.verification_key
    for name, ours in (("vk_alpha_1", read.alpha1), ("vk_beta_2", read.beta2), ("vk_delta_2", read.delta2)):
        group = Group.G1 if name.endswith("1") else Group.G2
        theirs = vk[name][:2] if group is Group.G1 else [*vk[name][0], *vk[name][1]]
        assert point_to_ints(key.curve, group, ours) == tuple(map(int, theirs))
    ours = [point_to_ints(key.curve, Group.G1, point) for point in read.ic]
    assert ours == [tuple(map(int, point[:2])) for point in vk["IC"]]


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_real_keys_are_written_back_byte_for_byte(shared_data: Path, tmp_path: Path, circuit: str) -> None:
    key = real(shared_data, circuit)
    a, b = key.matrices()
    assert key.ceremony[0] is not None
    write_zkey(
        tmp_path / "k.zkey",
        curve=key.curve,
        n_vars=key.n_vars,
        n_public=key.n_public,
        domain_size=key.domain_size,
        points=key_points_of(key),
        a=a,
        b=b,
        circuit_hash=key.ceremony[0],
        contributions=key.contributions,
    )
    # Sections of a key that was contributed to are sorted by number, of a new one they are not.
    ours, theirs = (dict(sections_of(data)) for data in ((tmp_path / "k.zkey").read_bytes(), key.data.tobytes()))
    assert ours.keys() == theirs.keys()
    assert [ident for ident in theirs if ours[ident] != theirs[ident]] == []


def test_real_matrices_hold_for_a_real_witness(shared_data: Path) -> None:
    """A w and B w by Python integers, in the tiny circuit c = a * b, and the row that copies the public wire."""
    key = real(shared_data, "tiny")
    a, b = key.matrices()
    r = key.curve.fr.modulus
    witness = [1, 35, 5, 7]

    def times(matrix: Any) -> list[int]:
        values = field_to_ints(key.curve.fr, matrix.values)
        return [
            sum(
                values[matrix.value_index[k]] * witness[matrix.columns[k]]
                for k in range(matrix.row_ptr[i], matrix.row_ptr[i + 1])
            )
            % r
            for i in range(matrix.rows)
        ]

    products = [x * y % r for x, y in zip(times(a), times(b), strict=True)]
    assert products[0] in (35, r - 35)
    assert times(a)[1:] == [1, 35, 0]
    assert unpack(key.points.alpha1.reshape(2, 4))[0] < key.curve.fq.modulus
