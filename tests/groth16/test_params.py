"""bellperson's files: keys and proofs that agree with ours, encodings with another library's, and files that lie."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from py_ecc.bls import point_compression
from py_ecc.optimized_bls12_381 import FQ2, G1, G2, double, multiply, normalize

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.linear import Linear
from distprove.errors import FormatError, InputError, InvalidKey, UsageError
from distprove.groth16 import key_check, zcash
from distprove.groth16.dev_setup import ToxicWaste, dev_points
from distprove.groth16.key import SECTIONS, SINGLE, KeyPoints
from distprove.groth16.key_check import check_key
from distprove.groth16.params import GENERATOR, bellperson_qap, read_params, read_vk, write_params
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import prove
from distprove.groth16.qap import Qap
from distprove.groth16.r1cs import _read_constraints, open_r1cs, write_r1cs
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import write_wtns
from distprove.groth16.zcash_points import compress, decompress
from distprove.groth16.zkey import read_zkey, write_zkey
from distprove.options import InputFile
from kernels.cpu import group as group_ops
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import field_to_ints, point_from_ints, point_to_ints, unpack
from tests.cli.conftest import run
from tests.support.simulated_proofs import OUTSIDE

SECRETS = ToxicWaste(tau=3**200, alpha=5**70, beta=7**60, delta=11**50)


def circuit_of(curve: Curve) -> Circuit:
    """Wires that are in A alone, in B alone and in both, three public ones, and a domain of 64 rows."""
    b = CircuitBuilder(curve)
    shown = b.public_input("shown", 2)
    hidden = b.private_input("hidden", 3)
    b.output("product", b.multiply(hidden[0] * 3 - 5, shown[1] + hidden[2] * (2**200)))
    b.bits(hidden[1], 40)
    b.multiply(shown[0], hidden[1])
    return b.build()


@dataclass
class Made:
    circuit: Circuit
    witness: np.ndarray
    points: KeyPoints
    content: bytes
    vk: bytes


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=2) as made:
        yield made


@pytest.fixture(scope="module")
def made(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Made:
    circuit = circuit_of(BLS12_381)
    qap = bellperson_qap(circuit.r1cs)
    points = dev_points(qap, SECRETS, backend, monomial=True)
    path = tmp_path_factory.mktemp("params") / "key.params"
    write_params(path, qap, points, backend)
    witness = circuit.witness({"shown": [11, 12], "hidden": [7, 200, 2**100]}, backend)
    return Made(circuit, witness, points, path.read_bytes(), path.with_suffix(".vk").read_bytes())


def spoiled(made: Made, at: int, new: bytes) -> np.ndarray:
    content = bytearray(made.content)
    content[at : at + len(new)] = new
    return np.frombuffer(bytes(content), dtype=np.uint8)


def places(made: Made) -> dict[str, tuple[int, int]]:
    """Where each section's points begin in the file, and how many there are."""
    found, position = {}, 864
    for section, size in (("IC", 96), ("H", 96), ("L", 96), ("A", 96), ("B1", 96), ("B2", 192)):
        count = int.from_bytes(made.content[position : position + 4], "big")
        found[section] = (position + 4, count)
        position += 4 + count * size
    assert position == len(made.content)
    return found


def whole_check(content: np.ndarray, made: Made, backend: Backend) -> None:
    check_key(read_params(content, lambda: made.circuit.r1cs, name="key.params"), backend)


def multiples(group: Group) -> list[object]:
    g = G1 if group is Group.G1 else G2
    return [g, double(g), *(multiply(g, k) for k in (3, 7, 2**130 + 5, BLS12_381.fr.modulus - 1))]


def ours(group: Group, point: object) -> np.ndarray:
    x, y = normalize(point)  # type: ignore[arg-type]
    values = [int(x), int(y)] if group is Group.G1 else [*map(int, x.coeffs), *map(int, y.coeffs)]
    return point_from_ints(BLS12_381, group, values)


def theirs(group: Group, point: object) -> bytes:
    """py_ecc's compressed form."""
    if group is Group.G1:
        return int(point_compression.compress_G1(point)).to_bytes(48, "big")  # type: ignore[arg-type]
    high, low = point_compression.compress_G2(point)  # type: ignore[arg-type]
    return int(high).to_bytes(48, "big") + int(low).to_bytes(48, "big")


@pytest.mark.parametrize("group", Group)
def test_compressed_points_are_those_of_another_library(group: Group) -> None:
    signs = set()
    for point in multiples(group):
        encoded = compress(group, ours(group, point))
        assert encoded == theirs(group, point)
        assert np.array_equal(decompress(group, encoded, "p"), ours(group, point))
        signs.add(encoded[0] & 0x20)
    assert signs == {0, 0x20}
    infinity = compress(group, np.zeros(BLS12_381.point_limbs(group), dtype=np.uint64))
    assert infinity == bytes([0xC0]) + bytes(len(infinity) - 1)
    assert not decompress(group, infinity, "p").any()


def test_square_roots_of_g2_that_have_a_zero_part() -> None:
    """Small x give points off the curve, and points whose y is checked in the curve's equation."""
    p, seen = BLS12_381.fq.modulus, 0
    for x0 in range(12):
        for x1 in range(3):
            data = bytes([0x80]) + x1.to_bytes(48, "big")[1:] + x0.to_bytes(48, "big")
            x = FQ2([x0, x1])
            square = x * x * x + FQ2([4, 4])
            root = pow(int(square.coeffs[0]) ** 2 + int(square.coeffs[1]) ** 2, (p - 1) // 2, p)
            if root != 1:
                with pytest.raises(FormatError, match="no point"):
                    decompress(Group.G2, data, "p")
                continue
            _, _, y0, y1 = point_to_ints(BLS12_381, Group.G2, decompress(Group.G2, data, "p")) or ()
            assert FQ2([y0, y1]) * FQ2([y0, y1]) == square
            assert (y1 or y0) <= (p - 1) // 2
            seen += 1
    assert seen > 10


def test_compressed_points_that_are_refused() -> None:
    p = BLS12_381.fq.modulus
    good = compress(Group.G1, ours(Group.G1, G1))
    for spoil, why in (
        (bytes([good[0] & 0x7F]) + good[1:], "not flagged"),
        (bytes([0xE0]) + bytes(47), "further bits"),
        (bytes([0xC0]) + bytes(46) + b"\1", "further bits"),
        ((p | 0x80 << 376).to_bytes(48, "big"), "modulus"),
        ((1 | 0x80 << 376).to_bytes(48, "big"), "no point"),
        (good[:-1], "48 bytes"),
    ):
        with pytest.raises(FormatError, match=why):
            decompress(Group.G1, spoil, "p")


def test_a_params_file_holds_bellpersons_layout(made: Made) -> None:
    """The points are compared with py_ecc's, by the formulas of bellperson's generator and its roots of unity."""
    fr, r1cs, found = BLS12_381.fr, made.circuit.r1cs, places(made)
    r, n = fr.modulus, 64
    assert r1cs.n_constraints + 4 <= n < 2 * (r1cs.n_constraints + 4)
    assert [found[s][1] for s in ("IC", "H", "L")] == [4, n - 1, r1cs.n_vars - 4]
    assert made.content.startswith(made.vk)

    def point(section: str, index: int) -> tuple[int, int]:
        raw = made.content[found[section][0] + 96 * index :][:96]
        return int.from_bytes(raw[:48], "big"), int.from_bytes(raw[48:], "big")

    def expected(scalar: int) -> tuple[int, int]:
        x, y = normalize(multiply(G1, scalar % r))
        return int(x), int(y)

    tau, t, per_delta = SECRETS.tau, pow(SECRETS.tau, n, r) - 1, pow(SECRETS.delta, -1, r)
    for index in (0, 1, n - 2):
        assert point("H", index) == expected(pow(tau, index, r) * t * per_delta)

    root = pow(pow(7, (r - 1) >> 32, r), 1 << (32 - 6), r)  # the crate bls12_381 names this root, of 7^t
    assert pow(7, (r - 1) >> 32, r) == 0x16A2A19EDFE81F20D09B681922C813B4B63683508C2280B93829971F439F0D2B
    basis = [t * pow(n, -1, r) * w * pow(tau - w, -1, r) % r for w in (pow(root, i, r) for i in range(n))]

    def columns(matrix: object) -> list[int]:
        values, sums = field_to_ints(fr, matrix.values), [0] * r1cs.n_vars  # type: ignore[attr-defined]
        for row in range(r1cs.n_constraints):
            for entry in range(matrix.row_ptr[row], matrix.row_ptr[row + 1]):  # type: ignore[attr-defined]
                column, value = matrix.columns[entry], values[matrix.value_index[entry]]  # type: ignore[attr-defined]
                sums[column] = (sums[column] + value * basis[row]) % r
        return sums

    a, b, c = (columns(m) for m in (r1cs.a, r1cs.b, r1cs.c))
    for wire in range(4):  # a dummy row for each input, the constant first
        a[wire] = (a[wire] + basis[r1cs.n_constraints + wire]) % r
    for section, scalars in (("A", a), ("B1", b)):
        dense = [v for v in scalars if v]
        assert found[section][1] == len(dense) < r1cs.n_vars
        for index in (0, 3, len(dense) - 1):
            assert point(section, index) == expected(dense[index])
    mixed = [SECRETS.beta * x + SECRETS.alpha * y + z for x, y, z in zip(a, b, c, strict=True)]
    assert point("IC", 2) == expected(mixed[2])
    assert point("L", 5) == expected(mixed[4 + 5] * per_delta)


def test_the_same_secrets_as_zkey_and_as_params_prove_under_one_key(
    made: Made, backend: Backend, tmp_path: Path
) -> None:
    qap = bellperson_qap(made.circuit.r1cs)
    odd = dev_points(qap, SECRETS, backend)
    write_zkey(
        tmp_path / "c.zkey", curve=qap.curve, n_vars=qap.n_vars, n_public=qap.n_public, domain_size=qap.domain_size,
        points=odd, a=qap.a, b=qap.b, circuit_hash=bytes(64),
    )  # fmt: skip
    zkey = read_zkey(tmp_path / "c.zkey")
    key = read_params(made.content, lambda: made.circuit.r1cs)
    check_key(key, backend)
    vk = read_vk(made.vk)
    assert vk == zkey.verification_key == key.verification_key
    public = unpack(made.witness[1 : key.n_public + 1])
    for each in (zkey, key):
        proof, _ = prove(load_key(each, backend), made.witness)
        assert verify(vk, public, proof)
        assert not verify(vk, [*public[:-1], public[-1] + 1], proof)
        encoded = zcash.proof_to_bytes(proof)
        assert len(encoded) == 192
        cut = (Group.G1, encoded[:48]), (Group.G2, encoded[48:144]), (Group.G1, encoded[144:])
        assert Groth16Proof(BLS12_381, *(decompress(group, part, "p") for group, part in cut)) == proof
    wrong = made.witness.copy()
    wrong[-1, 0] ^= 1
    assert not verify(vk, public, prove(load_key(key, backend), wrong)[0])


def test_rows_are_those_of_another_root_of_unity() -> None:
    """With the field's own root nothing moves, and a power of it moves row i to its i-th power."""
    qap = Qap.from_r1cs(circuit_of(BLS12_381).r1cs)
    same = qap.with_roots_of(BLS12_381.fr.non_residue)
    assert all(np.array_equal(x, y) for x, y in zip(vars(same.a).values(), vars(qap.a).values(), strict=True))
    moved, n, r = qap.with_roots_of(GENERATOR), qap.domain_size, BLS12_381.fr.modulus
    own, other = BLS12_381.fr.root_of_unity(6), pow(7, (r - 1) >> 6, r)
    rows = {pow(own, i, r): i for i in range(n)}
    for i in range(n):
        j = rows[pow(other, i, r)]
        for before, after in ((qap.a, moved.a), (qap.c, moved.c)):
            was, now = slice(*before.row_ptr[i : i + 2]), slice(*after.row_ptr[j : j + 2])
            assert np.array_equal(before.columns[was], after.columns[now])
            assert np.array_equal(before.value_index[was], after.value_index[now])


@pytest.mark.parametrize("section", ["IC", "H", "L", "A", "B1", "B2"])
def test_a_count_that_lies_is_refused_and_allocates_nothing(section: str, made: Made) -> None:
    at, count = places(made)[section]
    for lie in (2**32 - 1, count + 1, count - 1):
        content = spoiled(made, at - 4, lie.to_bytes(4, "big"))
        tracemalloc.start()
        with pytest.raises((FormatError, InvalidKey), match=r"key\.params"):
            read_params(content, lambda: made.circuit.r1cs, name="key.params")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
    needed = (2**32 - 1) * (192 if section == "B2" else 96)
    with pytest.raises(FormatError, match=f"section {section} at byte {at} needs {needed} bytes"):
        read_params(spoiled(made, at - 4, b"\xff" * 4), lambda: made.circuit.r1cs, name="key.params")


def test_truncated_and_longer_files_are_refused_by_name(made: Made) -> None:
    everything = np.frombuffer(made.content, dtype=np.uint8)
    cuts = [at + d for at, _ in places(made).values() for d in (-1, 1, 95)]
    for size in (1, 95, 863, 866, *cuts, len(everything) - 1):
        with pytest.raises(FormatError, match=r"key\.params: section \w+ at byte \d+ needs"):
            read_params(everything[:size], lambda: made.circuit.r1cs, name="key.params")
    with pytest.raises(FormatError, match="1 byte follows"):
        read_params(np.append(everything, np.uint8(0)), lambda: made.circuit.r1cs, name="key.params")
    vk = np.frombuffer(made.vk, dtype=np.uint8)
    for spoil in (vk[:-1], vk[:500], np.append(vk, np.uint8(0))):
        with pytest.raises(FormatError, match=r"key\.vk"):
            read_vk(spoil, name="key.vk")


@pytest.mark.parametrize("section", ["IC", "H", "L", "A", "B1", "B2"])
def test_points_that_lie_are_refused_with_their_place(section: str, made: Made, backend: Backend) -> None:
    at, count = places(made)[section]
    group = Group.G2 if section == "B2" else Group.G1
    size, index, p = zcash.SIZE[group], count - 1, BLS12_381.fq.modulus
    here = at + size * index
    good = made.content[here : here + size]
    outside = uncompressed(group, OUTSIDE[BLS12_381.name, group])
    for bad, why in (
        (bytes([good[0] | 0x80]) + good[1:], "is compressed"),
        (bytes([0x40]) + bytes(size - 1), "is infinity"),
        (bytes([good[0] | 0x20]) + good[1:], "is flagged"),
        (good[:-48] + p.to_bytes(48, "big"), "not below the modulus"),
        (bytes(size), "is zero: not on BLS12-381"),
        (good[:-1] + bytes([good[-1] ^ 1]), "not on BLS12-381"),
        (outside, "outside the subgroup"),
    ):
        with pytest.raises(InvalidKey, match=why) as refused:
            whole_check(spoiled(made, here, bad), made, backend)
        assert all(part in str(refused.value) for part in ("key.params: ", f"section {section}", f"point {index} "))


def uncompressed(group: Group, coordinates: Sequence[int]) -> bytes:
    half = len(coordinates) // 2
    return b"".join(v.to_bytes(48, "big") for part in (coordinates[:half], coordinates[half:]) for v in part[::-1])


def test_a_key_of_another_circuit_and_another_curve_are_refused(made: Made, backend: Backend, tmp_path: Path) -> None:
    b = CircuitBuilder(BLS12_381)
    b.bits(b.private_input("x"), 40)
    with pytest.raises(InvalidKey, match="a key of another circuit"):
        read_params(made.content, lambda: b.build().r1cs, name="key.params")
    with pytest.raises(InputError, match="BLS12-381"):
        setup(circuit_of(BN254).r1cs, insecure_dev=True, backend=backend, out=tmp_path / "k.params")
    with pytest.raises(UsageError, match="without a ceremony"):
        setup(made.circuit.r1cs, ptau="p.ptau", backend=backend, out=tmp_path / "k.params")
    assert list(tmp_path.iterdir()) == []


def test_a_wire_in_no_constraint_is_refused(made: Made, backend: Backend, tmp_path: Path) -> None:
    qap = bellperson_qap(made.circuit.r1cs)
    c = made.points.c.copy()
    c[3] = 0
    with pytest.raises(InvalidKey, match=f"wire {made.circuit.r1cs.n_public + 4} is in no constraint"):
        write_params(tmp_path / "k.params", qap, replace(made.points, c=c), backend)
    b1 = made.points.b1.copy()
    b1[np.flatnonzero(b1.any(axis=1))[0]] = 0
    with pytest.raises(InvalidKey, match="B1: the terms of wire"):
        write_params(tmp_path / "k.params", qap, replace(made.points, b1=b1), backend)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_refused_before_its_circuit_is_opened(made: Made) -> None:
    def opened() -> Any:
        raise AssertionError("the circuit was opened")

    everything = np.frombuffer(made.content, dtype=np.uint8)
    for bad in (everything[:-1], everything[:900], np.append(everything, np.uint8(0))):
        with pytest.raises(FormatError, match=r"key\.params"):
            read_params(bad, opened, name="key.params")


def test_only_provers_read_the_constraints_of_a_circuit(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    (tmp_path / "key.params").write_bytes(made.content)
    (tmp_path / "w.wtns").touch()
    write_r1cs(tmp_path / "c.r1cs", made.circuit.r1cs)
    files = {"params": tmp_path / "key.params", "r1cs": tmp_path / "c.r1cs"}
    read = _read_constraints
    monkeypatch.setattr("distprove.groth16.r1cs._read_constraints", None)
    system = Groth16System(files, [InputFile("w.wtns", tmp_path / "w.wtns")])
    shared = system.shared()
    assert system.describe()["domain"] == 64
    assert system.key_bytes() >= len(made.content)
    system.synthesiser(shared, 1)
    system.check(shared, backend)
    with pytest.raises(TypeError):
        system.prover(shared, backend)
    monkeypatch.setattr("distprove.groth16.r1cs._read_constraints", read)
    system.prover(shared, backend)


def test_a_circuit_that_agrees_in_all_but_its_entries_is_refused_when_they_are_read(made: Made, tmp_path: Path) -> None:
    r1cs = made.circuit.r1cs
    write_r1cs(tmp_path / "c.r1cs", replace(r1cs, b=r1cs.a))
    key = read_params(made.content, lambda: open_r1cs(tmp_path / "c.r1cs"), name="key.params")
    for ask in (key.matrices, lambda: key.wires_b):
        with pytest.raises(InvalidKey, match=r"section B1 has .* a key of another circuit"):
            ask()


def some_circuit() -> CircuitBuilder:
    """Two instances of a template with private inputs of its own, so that its matrices are by templates."""

    def gadget(b: CircuitBuilder, given: Sequence[Linear]) -> list[Linear]:
        factor = b.private_input("factor")
        return [b.multiply(b.multiply(factor + 5, given[0]), given[0])]

    b = CircuitBuilder(BLS12_381)
    shown = b.public_input("shown", 2)
    (product,) = b.place(CircuitBuilder.record(BLS12_381, 1, gadget), [shown])
    b.assert_equal(b.multiply(product[0], product[1]), b.private_input("total"), "the product")
    return b


def test_a_circuit_by_templates_has_the_same_key(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToxicWaste, "draw", lambda _: SECRETS)
    for name, circuit in (("templates", some_circuit().system()), ("rows", some_circuit().build().r1cs)):
        setup(circuit, insecure_dev=True, backend=backend, out=tmp_path / f"{name}.params")
    for suffix in (".params", ".vk"):
        assert (tmp_path / f"templates{suffix}").read_bytes() == (tmp_path / f"rows{suffix}").read_bytes()
    with pytest.raises(UsageError, match=r"make a \.params file"):
        setup(some_circuit().system(), insecure_dev=True, backend=backend, out=tmp_path / "key.zkey")


def test_a_params_file_is_checked_once(
    made: Made, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(key_check, "REMEMBERED_BYTES", 0)
    monkeypatch.setattr(key_check, "_ROWS", 3)
    monkeypatch.setattr(key_check, "_PIECES", 2)
    records = tmp_path / "distprove" / "checked-keys"

    def whole(content: np.ndarray) -> None:
        key_check.check_key_once(read_params(content, lambda: made.circuit.r1cs, name="key.params"), backend)

    good = np.frombuffer(made.content, dtype=np.uint8)
    whole(good)
    (record,) = records.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(backend.groups, "check_points", lambda *_: pytest.fail("checked again"))
        whole(good)
    for at, count in places(made).values():
        for place in (at, at + count * 96 - 1):
            bad = good.copy()
            bad[place] ^= 1
            with pytest.raises(InvalidKey, match="section"):
                whole(bad)
    assert list(records.iterdir()) == [record]


def test_a_key_of_a_circuit_in_python_needs_no_file_of_it(tmp_path: Path, backend: Backend) -> None:
    name, path = f"{__name__}:some_circuit", tmp_path / "key.params"
    built = some_circuit().build()
    setup(built.r1cs, insecure_dev=True, backend=backend, out=path)
    by_templates, by_rows = (
        read_params(path, opened) for opened in (lambda: some_circuit().system(), lambda: built.r1cs)
    )
    for ours, theirs in zip(by_templates.matrices(), by_rows.matrices(), strict=True):
        assert isinstance(ours, TemplatedMatrix)
        for field in ("row_ptr", "columns"):
            assert np.array_equal(getattr(ours.csr(), field), getattr(theirs, field))
    for field in ("wires_a", "wires_b"):
        assert np.array_equal(getattr(by_templates, field), getattr(by_rows, field))
    shown, factor, fr = [3, 4], [10, 20], BLS12_381.fr
    total = (15 * 9) * (25 * 16) % fr.modulus
    (tmp_path / "in.json").write_text(json.dumps({"shown": shown, "factor": factor, "total": total}))
    options = ("--input", tmp_path / "in.json", "--local", "--threads", 1, "--overwrite", "--out", tmp_path / "run")
    done = run("prove", "groth16", "--params", path, "--circuit", name, *options)
    assert done.exit_code == 0, done.output
    assert run("verify", tmp_path / "run", "--vk", path.with_suffix(".vk")).exit_code == 0
    done = run("prove", "groth16", "--params", path, "--circuit", "filecoin/window-post-2KiB", *options)
    assert done.exit_code == 2
    assert "key.params: section IC has 3 points, and the circuit 23: a key of another circuit" in done.output
    done = run("prove", "groth16", "--params", path, "--wtns", tmp_path / "in.json", "--out", tmp_path / "run")
    assert "--params and --r1cs (the circuit that they are for), or --circuit, go together" in done.output


def test_generators_may_be_any(made: Made, backend: Backend, tmp_path: Path) -> None:
    """bellperson's own set-up draws both generators, and its file does not say which they are."""
    factors = {Group.G1: 5**90, Group.G2: 3**111}

    def times(group: Group, vector: np.ndarray) -> np.ndarray:
        return np.stack([group_ops.mul(BLS12_381, group, point, factors[group]) for point in vector])

    points = made.points
    single = {name: times(group, getattr(points, name)[None])[0] for name, group in SINGLE.items()}
    vectors = {name: times(group, getattr(points, name)) for name, group in SECTIONS.items() if name != "h"}
    moved = replace(points, **single, **vectors, ic=times(Group.G1, points.ic), h=times(Group.G1, points.h))
    qap = bellperson_qap(made.circuit.r1cs)
    write_params(tmp_path / "key.params", qap, moved, backend)
    key = read_params(tmp_path / "key.params", lambda: made.circuit.r1cs)
    check_key(key, backend)
    proof, _ = prove(load_key(key, backend), made.witness)
    assert verify(key.verification_key, unpack(made.witness[1 : 1 + key.n_public]), proof)
    write_params(tmp_path / "bad.params", qap, replace(moved, beta1=points.beta1), backend)
    with pytest.raises(InvalidKey, match="beta is not the same in G1 and G2"):
        check_key(read_params(tmp_path / "bad.params", lambda: made.circuit.r1cs), backend)


def test_a_job_from_a_params_file_is_proven_and_verified(made: Made, tmp_path: Path) -> None:
    """A command that is given a truncated .params file, or one of another circuit, names the file and the section."""
    key, circuit, other = tmp_path / "key.params", tmp_path / "c.r1cs", tmp_path / "other.r1cs"
    key.write_bytes(made.content)
    key.with_suffix(".vk").write_bytes(made.vk)
    write_r1cs(circuit, made.circuit.r1cs)
    write_wtns(tmp_path / "w.wtns", BLS12_381, made.witness)
    write_r1cs(other, replace(made.circuit.r1cs, b=made.circuit.r1cs.a))
    options = ("--wtns", tmp_path / "w.wtns", "--local", "--threads", 1, "--out", tmp_path / "run", "--overwrite")
    done = run("prove", "groth16", "--params", key, "--r1cs", other, *options)
    assert done.exit_code == 2, done.output
    assert "section B1 has" in done.output
    done = run("prove", "groth16", "--params", key, "--r1cs", circuit, *options)
    assert done.exit_code == 0, done.output
    done = run("verify", tmp_path / "run", "--vk", key.with_suffix(".vk"))
    assert done.exit_code == 0, done.output
    key.write_bytes(made.content[:-1])
    done = run("prove", "groth16", "--params", key, "--r1cs", circuit, *options)
    assert done.exit_code == 2
    assert "key.params: section B2" in done.output
