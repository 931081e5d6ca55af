"""The public part of a wrap, which is its calldata, is the same in distribution for two witnesses.

Whole wraps take minutes, so the parts are compared: public values of two statements, and Groth16 proofs of two
witnesses of one statement under one key. Each comparison is a chi-square test of homogeneity on all bytes of a word of
the calldata. Generators of few bits, which it must find, are its controls.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap.statement import statement_digest
from distprove.groth16 import prover
from distprove.groth16.binfile import map_file
from distprove.groth16.prover import Blinding, fresh_blinding, prove
from distprove.groth16.resident import ResidentKey, load_key
from distprove.groth16.setup import setup
from distprove.groth16.shared_key import holding
from distprove.groth16.solidity import calldata
from distprove.groth16.zkey import read_zkey
from distprove.proof import SALT_BYTES
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254
from tests.support.own_module import give

WORD = 32
ALARM = 6.0
"""Standard deviations: an honest word of the calldata passes this in one of 10^9 tests. Nine are tested."""
PROOFS, DIGESTS, FEW = 512, 2048, 160
"""Samples of each witness; and of controls, which need fewer."""
LIST = tuple(range(1, 28))
OTHER = (*LIST[:-1], LIST[-1] + 1)
"""The 27 public values of two roots."""


def deviations(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """How far two samples of words, (N, WORD) each, are from one distribution: the chi-square statistic of the counts
    of all bytes, as standard deviations (Wilson and Hilferty)."""
    statistic, degrees = 0.0, 0
    for place in range(WORD):
        first, second = (np.bincount(sample[:, place], minlength=256).astype(float) for sample in (a, b))
        met = first + second > 0
        statistic += float((((first - second) ** 2)[met] / (first + second)[met]).sum())
        degrees += int(met.sum()) - 1
    spread = 2 / (9 * max(1, degrees))
    return ((statistic / max(1, degrees)) ** (1 / 3) - (1 - spread)) / sqrt(spread)


def words_of(data: Sequence[bytes]) -> NDArray[np.uint8]:
    """(words, N, WORD) from N texts of so many words."""
    return np.stack([np.frombuffer(each, dtype=np.uint8).reshape(-1, WORD) for each in data], axis=1)


# -- the public value -----------------------------------------------------------------------------------------------


def digests(values: Sequence[int], count: int, salt: Callable[[], bytes]) -> NDArray[np.uint8]:
    return words_of([statement_digest(values, salt()).to_bytes(WORD, "big") for _ in range(count)])[0]


def of_few_bits() -> bytes:
    return secrets.token_bytes(1) + bytes(SALT_BYTES - 1)


def test_public_values_of_two_lists_cannot_be_told_apart() -> None:
    first, second = (digests(v, DIGESTS, lambda: secrets.token_bytes(SALT_BYTES)) for v in (LIST, OTHER))
    assert deviations(first, second) < ALARM
    low = first[:, 1:]  # all bytes but the highest are as uniform as numbers below r
    counts = np.stack([np.bincount(low[:, place], minlength=256) for place in range(low.shape[1])])
    expected = DIGESTS / 256
    degrees = 255 * low.shape[1]
    assert abs(float(((counts - expected) ** 2 / expected).sum()) - degrees) < ALARM * sqrt(2 * degrees)


@pytest.mark.parametrize("salt", [lambda: bytes(SALT_BYTES), of_few_bits], ids=["none", "eight bits"])
def test_salts_of_few_bits_are_found(salt: Callable[[], bytes]) -> None:
    assert deviations(digests(LIST, FEW, salt), digests(OTHER, FEW, salt)) > ALARM


# -- the Groth16 proof ----------------------------------------------------------------------------------------------


class Prover:
    """Proves y = x x under one key for a square y, of which there are two witnesses."""

    def __init__(self, cpu: CpuBackend, path: Path) -> None:
        b = CircuitBuilder(BN254)
        x = b.private_input("x")
        b.output("y", b.multiply(x, x))
        circuit = b.build()
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=path)
        self.path = path
        self.key: ResidentKey = load_key(read_zkey(path), cpu)
        self.witnesses = [circuit.witness({"x": str(x)}, cpu) for x in (5, BN254.fr.modulus - 5)]
        self.public = (25,)
        assert not np.array_equal(*self.witnesses)

    def calldata(self, witness: int, count: int, blinding: Callable[[int], Blinding]) -> NDArray[np.uint8]:
        """(8, count, WORD): the words of A, B and C."""
        proofs = [prove(self.key, self.witnesses[witness], blinding)[0] for _ in range(count)]
        return words_of([calldata(proof, self.public)[4:] for proof in proofs])[:8]


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=1) as backend:
        backend.prepare(BN254)
        yield backend


@pytest.fixture(scope="module")
def tiny(cpu: CpuBackend, tmp_path_factory: pytest.TempPathFactory) -> Prover:
    return Prover(cpu, tmp_path_factory.mktemp("tiny") / "tiny.zkey")


def test_proofs_of_two_witnesses_cannot_be_told_apart(tiny: Prover) -> None:
    first, second = (tiny.calldata(i, PROOFS, fresh_blinding) for i in (0, 1))
    assert [deviations(a, b) < ALARM for a, b in zip(first, second, strict=True)] == [True] * 8


A, B, C = slice(0, 2), slice(2, 6), slice(6, 8)


@pytest.mark.parametrize(
    ("blinding", "shown"),
    [
        (lambda modulus: Blinding(secrets.randbelow(256), secrets.randbelow(modulus)), A),
        (lambda modulus: Blinding(secrets.randbelow(modulus), secrets.randbelow(256)), B),
        (lambda modulus: Blinding(7, 9), C),
    ],
    ids=["r of eight bits", "s of eight bits", "constants"],
)
def test_blinding_of_few_bits_is_found(tiny: Prover, blinding: Callable[[int], Blinding], shown: slice) -> None:
    """A depends on r alone, B on s alone."""
    first, second = (tiny.calldata(i, FEW, blinding)[shown] for i in (0, 1))
    assert all(deviations(a, b) > ALARM for a, b in zip(first, second, strict=True))


def test_each_attempt_is_blinded_afresh(tiny: Prover, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs under the key that stays with a prover have r and s of their own, from the system's generator."""
    drawn: list[int] = []
    limits: list[int] = []
    known = secrets.randbelow

    def counted(limit: int) -> int:
        limits.append(limit)
        drawn.append(known(limit))
        return drawn[-1]

    give(monkeypatch, prover, "secrets", randbelow=counted)
    with holding(map_file(tiny.path), tiny.path.name, cpu) as shared:
        proofs = [prove(shared.resident(), tiny.witnesses[0])[0] for _ in range(3)]
    assert len(drawn) == len(set(drawn)) == 2 * len(proofs)
    assert set(limits) == {BN254.fr.modulus}
    blinding = fresh_blinding(BN254.fr.modulus)
    assert [blinding.r, blinding.s] == drawn[-2:]
    points = [getattr(proof, name).tobytes() for proof in proofs for name in ("a", "b", "c")]
    assert len(set(points)) == len(points)


def test_no_repr_shows_what_blinds() -> None:
    blinding = fresh_blinding(BN254.fr.modulus)
    shown = f"{blinding} {blinding!r}"
    assert not any(str(secret) in shown for secret in (blinding.r, blinding.s))
