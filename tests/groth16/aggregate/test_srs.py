"""The keys of aggregation: from two ceremonies, what is refused, their files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import CurveMismatch, DistproveError, FormatError, InputError, InvalidKey, UsageError
from distprove.groth16.aggregate.prover import aggregate
from distprove.groth16.aggregate.srs import MAX_LOG, Srs, VerifierSrs, read_srs, size_for
from distprove.groth16.aggregate.srs_setup import insecure_srs, srs_from_ceremonies
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.binfile import BinFile
from distprove.groth16.ptau import Ptau, read_ptau
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from tests.support.aggregates import keys_of, secret_of
from tests.support.file_builders import container
from tests.support.known_tau import write_known_tau
from tests.support.simulated_proofs import OUTSIDE, multiple

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
POWER = 3
"""Enough for 4 proofs: a file of 2^p has one power too few for 2^p proofs."""
ALPHA, BETA = 0x1234567890ABCDEF, 0xFEDCBA0987654321


def ceremony(folder: Path, curve: Curve, tau: int, power: int = POWER) -> bytes:
    path = folder / f"{tau}.ptau"
    with CpuBackend() as cpu:
        write_known_tau(path, curve, power, cpu, tau=tau, alpha=3, beta=5, smallest=power + 2)
    return path.read_bytes()


def with_section(data: bytes, ident: int, change: Callable[[bytes], bytes]) -> bytes:
    file = BinFile.read(data, "ptau", (1,))
    parts = [(i, data[at : at + size]) for i, (at, size) in file.sections.items()]
    return container(b"ptau", 1, [(i, change(c) if i == ident else c) for i, c in parts])


def with_contributions(curve: Curve, data: bytes, taus: Sequence[int]) -> bytes:
    """The file with these contributions, whose points but for the first are zero."""
    rest = bytes(8 * 8 * curve.point_limbs(Group.G1) + 5 * 8 * curve.point_limbs(Group.G2) + 280)
    each = [multiple(curve, Group.G1, tau).tobytes() + rest + struct.pack("<II", 0, 3) + b"xyz" for tau in taus]
    return with_section(data, 7, lambda _: struct.pack("<I", len(each)) + b"".join(each))


def made(alpha: bytes | Ptau, beta: bytes | Ptau, proofs: int = 4) -> Srs:
    first, second = (read_ptau(data) if isinstance(data, bytes) else data for data in (alpha, beta))
    with CpuBackend() as cpu:
        return srs_from_ceremonies(first, second, proofs, cpu)


@each_curve
def test_keys_of_two_ceremonies_aggregate(curve: Curve, tmp_path: Path) -> None:
    srs = made(ceremony(tmp_path, curve, ALPHA), ceremony(tmp_path, curve, BETA))
    assert (srs.n, srs.insecure) == (4, False)
    least = made(ceremony(tmp_path, curve, ALPHA), ceremony(tmp_path, curve, BETA), proofs=2)
    assert (least.n, least.verifier.digest) == (2, srs.verifier.digest)  # so that a verifier can compute it
    path = tmp_path / "keys.srs"
    srs.write(path)
    read = read_srs(path)
    assert read.verifier.digest == srs.verifier.digest
    secret = secret_of(curve)
    public = [[i, 2] for i in range(4)]
    with CpuBackend() as cpu:
        result = aggregate(read, [secret.prove(values, seed=i) for i, values in enumerate(public)], b"", cpu)
    assert verify(secret.key, VerifierSrs.from_bytes(srs.verifier.to_bytes()), public, b"", result)


def test_ceremonies_that_are_no_two(tmp_path: Path) -> None:
    r = BN254.fr.modulus
    alpha = ceremony(tmp_path, BN254, ALPHA)
    for tau, text in (
        (ALPHA, "same ceremony"),
        (-ALPHA % r, "same ceremony"),
        (pow(ALPHA, -1, r), "inverse of alpha"),
        (-pow(ALPHA, -1, r) % r, "inverse of alpha"),
        (-pow(ALPHA, 2, r) % r, "power of that of"),
        (-pow(ALPHA, 7, r) % r, "power of that of"),
        (pow(5, (r - 1) // 4, r), "are not different"),
        (pow(ALPHA, 2, r), "power of that of"),
        (pow(ALPHA, 7, r), "power of that of"),
        (1, "are not different"),
        (r - 1, "are not different"),
    ):
        beta = ceremony(tmp_path, BN254, tau)
        for files in ((alpha, beta), (beta, alpha)):
            with pytest.raises(InvalidKey, match=text):
                made(*files)
    with pytest.raises(CurveMismatch):
        made(alpha, ceremony(tmp_path, BLS12_381, BETA))
    with pytest.raises(InputError, match="too few"):
        made(alpha, ceremony(tmp_path, BN254, BETA), proofs=5)


def test_two_states_of_one_ceremony(tmp_path: Path) -> None:
    """Whoever made the second from the first knows the ratio of their secrets; see the attack below."""
    first = with_contributions(BN254, ceremony(tmp_path, BN254, ALPHA), [11, ALPHA])
    later = with_contributions(BN254, ceremony(tmp_path, BN254, 5 * ALPHA), [11, ALPHA, 5 * ALPHA])
    other = with_contributions(BN254, ceremony(tmp_path, BN254, BETA), [13, BETA])
    assert len(read_ptau(later).contributions()) == 3
    with pytest.raises(InvalidKey, match="share 2 contributions"):
        made(first, later)
    assert made(first, other).n == 4
    for spoil in (lambda c: c[:-1], lambda c: c + b"x", lambda c: b"\xff\xff\xff\xff" + c[4:]):
        with pytest.raises(FormatError, match="section 7"):
            made(with_section(first, 7, spoil), other)


@each_curve
def test_secrets_of_a_known_ratio_let_a_commitment_be_opened_in_two_ways(curve: Curve) -> None:
    """Why ceremonies must be independent: with beta = c alpha there are vectors other than zero that commit to one."""
    p, c, n = curve.fr.modulus, 7, 2
    # A = (x alpha^2, y alpha), B = (z, 0): T is alpha^2 (x + y + z), U is alpha^2 (x + c y + c^2 z).
    y, z = 1, pow(-c * c + 1, -1, p) * (c - 1) % p
    x = (-y - z) % p
    assert (x + c * y + c * c * z) % p == 0

    def both(beta: int) -> list[bool]:
        g1, g2 = Group.G1, Group.G2
        a = np.stack([multiple(curve, g1, x * ALPHA**2), multiple(curve, g1, y * ALPHA)])
        b = np.stack([multiple(curve, g2, z), multiple(curve, g2, 0)])
        with CpuBackend() as cpu:
            keys = [
                (
                    np.stack([multiple(curve, g2, pow(s, i, p)) for i in range(n)]),
                    np.stack([multiple(curve, g1, pow(s, n + i, p)) for i in range(n)]),
                )
                for s in (ALPHA, beta)
            ]
            values = cpu.inner_products.pairing_products(curve, [[(a, v), (w, b)] for v, w in keys]).result()
            one = cpu.inner_products.pairing_products(curve, [[]]).result()[0]
        return [np.array_equal(value, one) for value in values]

    assert both(c * ALPHA) == [True, True]
    assert both(BETA) == [True, False]


@pytest.mark.parametrize(("section", "which"), [(2, Group.G1), (3, Group.G2)])
def test_points_that_do_not_check(tmp_path: Path, section: int, which: Group) -> None:
    beta = ceremony(tmp_path, BLS12_381, BETA)
    alpha = ceremony(tmp_path, BLS12_381, ALPHA)
    size = 8 * BLS12_381.point_limbs(which)
    from kernels.maths.encoding import point_from_ints

    outside = point_from_ints(BLS12_381, which, OUTSIDE[BLS12_381.name, which]).tobytes()
    another = multiple(BLS12_381, which, 12345).tobytes()

    def at(index: int, point: bytes) -> Callable[[bytes], bytes]:
        return lambda content: content[: index * size] + point + content[(index + 1) * size :]

    for change, text in (
        (at(0, another), "begin with the generator"),
        (at(1, another), "not the powers"),
        (at(2, another), "not the powers"),
        (at(3, another), "not the powers"),
        (at(2, outside), "point 2 of"),
        (at(2, b"\xff" * size), "point 2 of"),
    ):
        spoiled = with_section(alpha, section, change)
        for files in ((spoiled, beta), (beta, spoiled)):
            with pytest.raises(InvalidKey, match=text):
                made(*files)


@each_curve
def test_the_verifiers_part(curve: Curve) -> None:
    own = keys_of(curve).verifier
    assert VerifierSrs.from_bytes(own.to_bytes()).digest == own.digest
    assert len(own.to_bytes()) < 1024
    assert own.insecure
    assert replace(own, insecure=False).digest != own.digest
    infinity = np.zeros_like(own.alpha1)
    none = own.alpha2[None][:0]
    one = {"alpha1": multiple(curve, Group.G1, 1), "alpha2": multiple(curve, Group.G2, 1)}
    with pytest.raises(InvalidKey, match="0, 1 or -1"):
        replace(own, **one)
    for spoiled in ({"alpha1": infinity}, {"alpha1": own.beta1}, {"beta2": own.alpha2}, {"alpha2": none}):
        with pytest.raises(InvalidKey):
            replace(own, **spoiled)
    data = own.to_bytes()
    for at in range(0, len(data), 7):
        if at == data.index(b"insecure") + len("insecure"):
            continue  # the mark of insecure keys, above
        with pytest.raises(DistproveError):
            VerifierSrs.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_the_provers_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.srs"
    keys_of(BN254).write(path)
    data = path.read_bytes()
    assert read_srs(data).insecure
    sections = BinFile.read(data, "asrs", (1,)).sections
    parts: dict[int, Any] = {i: data[at : at + size] for i, (at, size) in sections.items()}
    head = parts[1][:-8]
    for changed in (
        {1: head + struct.pack("<II", 0, 1)},
        {1: head + struct.pack("<II", 4, 1)},
        {1: head + struct.pack("<II", MAX_LOG + 1, 1)},
        {1: head + struct.pack("<II", 3, 2)},
        {1: parts[1] + b"x"},
        {2: parts[2][:-1]},
        {5: parts[5] + b"x"},
    ):
        with pytest.raises(FormatError):
            read_srs(container(b"asrs", 1, list({**parts, **changed}.items())))
    for missing in parts:
        with pytest.raises(FormatError, match="missing"):
            read_srs(container(b"asrs", 1, [(i, c) for i, c in parts.items() if i != missing]))


def test_sizes() -> None:
    assert [size_for(n) for n in (1, 2, 3, 4, 5, 1 << MAX_LOG)] == [2, 2, 4, 4, 8, 1 << MAX_LOG]
    for n in (0, (1 << MAX_LOG) + 1):
        with pytest.raises(UsageError):
            size_for(n)
    with CpuBackend() as cpu, pytest.raises(UsageError):
        insecure_srs(BN254, 0, cpu)


@pytest.mark.node
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_ceremonies_of_snarkjs(snarkjs: Any, tmp_path: Path, curve: Curve) -> None:
    name = {"bn128": "bn128", "bls12381": "bls12-381"}[curve.name]
    files = [tmp_path / f"{title}.ptau" for title in ("new", "one", "two", "later")]
    snarkjs("powersoftau", "new", name, "3", files[0])
    for source, out, said in ((0, 1, "a"), (0, 2, "b"), (1, 3, "c")):
        snarkjs("powersoftau", "contribute", files[source], files[out], f"--name={said}", f"-e={said} entropy")
    new, one, two, later = (read_ptau(path) for path in files)
    assert [len(ptau.contributions()) for ptau in (new, one, two, later)] == [0, 1, 1, 2]
    srs = made(one, two)
    secret = secret_of(curve)
    with CpuBackend() as cpu:
        result = aggregate(srs, [secret.prove([1, 2], seed=i) for i in range(4)], b"", cpu)
    assert verify(secret.key, srs.verifier, [[1, 2]] * 4, b"", result)
    with pytest.raises(InvalidKey, match="share 1 contribution"):
        made(one, later)
    with pytest.raises(InvalidKey, match="are not different"):
        made(new, two)
