"""Ceremonies that snarkjs makes, once for all tests of a curve."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from distprove.groth16.r1cs import R1cs, write_r1cs
from kernels.maths.curves import Curve
from tests.conftest import Snarkjs
from tests.groth16.test_setup import small_circuit

MAKER = Path(__file__).parents[1] / "interop" / "make_ceremony.mjs"


@dataclass(frozen=True)
class MadeCeremony:
    """The files that `make_ceremony.mjs` lists."""

    folder: Path
    r1cs: R1cs
    hashes: tuple[str, ...]
    """Of the contributions to last.zkey, in hexadecimal."""

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="session")
def made_by_snarkjs(snarkjs: Snarkjs, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Curve], MadeCeremony]:
    """Ceremonies of `small_circuit`, whose domain of 2^5 fills the powers of tau."""

    @cache
    def made(curve: Curve) -> MadeCeremony:
        folder, r1cs = tmp_path_factory.mktemp(curve.name), small_circuit(curve).r1cs
        write_r1cs(folder / "c.r1cs", r1cs)
        library = snarkjs.program.with_name("main.cjs")
        words = ["node", str(MAKER), str(library), curve.name, "5", str(folder / "c.r1cs"), str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        return MadeCeremony(folder, r1cs, tuple(done.stdout.split()))

    return made
