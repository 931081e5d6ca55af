"""Poseidon2 over BN254 as the hash of a job: its bits, what is refused, and digests that are not canonical."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from distprove.cli.app import app
from distprove.errors import InvalidProof, UsageError
from distprove.stark import security as fri
from distprove.stark.arithmetic import NUMBERS
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.options import check_one_proof
from distprove.stark.programs import load_program
from distprove.stark.recursion.symbols import Symbols
from kernels.interface.tree_hash import TreeHash
from kernels.maths.poseidon2_bn254 import R
from tests.stark.test_multilinear_mutations import second_accepts
from tests.support.multilinear_golden import golden_job
from tests.support.multilinear_jobs import prove_program

HASH = TreeHash.POSEIDON2_BN254.value
ROWS = {"rows": 64}


def test_a_job_has_the_bits_that_it_asks_for() -> None:
    job = prove_program("fibonacci", ROWS, hash=HASH, security=126, grinding=4)
    job.check()
    assert second_accepts(job)
    report = StarkVerifier(job.key).explain(job.proofs)["security"]
    assert report["target"] == 126 <= report["bits"] <= math.log2(R) / 2


def test_more_bits_than_a_digest_has_are_refused() -> None:
    program = load_program("fibonacci", ROWS)
    for bits in (127, 128):
        with pytest.raises(UsageError, match="126 proven bits at most"):
            choose_parameters(program, 1, hash=HASH, security=bits)
    assert choose_parameters(program, 1, hash=HASH, security=126).security_bits == 126
    with pytest.raises(UsageError, match="keccak256 or poseidon2"):
        fri.choose_parameters(program, 1, hash=HASH, security=100)
    with pytest.raises(UsageError, match="one_proof"):
        check_one_proof("multilinear", HASH)


def test_a_circuit_over_goldilocks_is_not_made_for_it() -> None:
    with pytest.raises(UsageError, match="not Poseidon2 over BN254"):
        Symbols().transcript(b"test", TreeHash.POSEIDON2_BN254)
    NUMBERS.transcript(b"test", TreeHash.POSEIDON2_BN254)


@pytest.mark.parametrize("field", ["root", "path"])
def test_a_digest_plus_r_is_refused(field: str) -> None:
    """It is the same element, and a hash that reduces it would take it."""
    job = golden_job("multilinear-bn254")
    record = job.proofs[0].data
    trees = record["trees"]
    at = next(i for i in range(0, len(trees[0]["path"]), 32) if digest(trees[0]["path"], i) + R < 1 << 256)
    if field == "root":
        changed = {**record, "root": (digest(record["root"], 0) + R).to_bytes(32, "little")}
    else:
        path = trees[0]["path"]
        other = path[:at] + (digest(path, at) + R).to_bytes(32, "little") + path[at + 32 :]
        changed = {**record, "trees": [{**trees[0], "path": other}, *trees[1:]]}
    false = job.with_record(0, changed)
    with pytest.raises(InvalidProof):
        false.check_partition(0)
    assert not second_accepts(false)


def digest(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 32], "little")


def test_a_job_file_asks_for_it(tmp_path: Path) -> None:
    """From the file to a verified proof, and what `security` and `verify` say of it."""
    (tmp_path / "job.toml").write_text(
        f'system = "stark"\nprogram = "fibonacci"\npartitions = 1\nengine = "multilinear"\nhash = "{HASH}"\n'
        f"security = 126\ngrinding = 2\n[arguments]\nrows = 16\n"
    )
    proven = run("prove", tmp_path / "job.toml", "--out", tmp_path / "run")
    assert proven.exit_code == 0, proven.output
    assert "126." in proven.output
    assert run("verify", tmp_path / "run", "--security", "126").exit_code == 0
    assert run("verify", tmp_path / "run").exit_code != 0  # 128 bits are the default
    asked = ("--rows", "16", "--engine", "multilinear", "--hash", HASH)
    report = run("security", "fibonacci", *asked, "--security", "126")
    assert "collisions of Poseidon2 over BN254" in report.output
    assert run("security", "fibonacci", *asked).exit_code == 2


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])
