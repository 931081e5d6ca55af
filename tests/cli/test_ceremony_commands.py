"""`distprove zkey`, `ptau`, `wtns` and `r1cs`: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import CurveMismatch, WitnessMismatch
from distprove.groth16.circuit_facts import first_fault
from distprove.groth16.keyfile import read_verification_key
from distprove.groth16.r1cs import read_r1cs, write_r1cs
from distprove.groth16.wtns import CircomWitness, read_wtns
from distprove.groth16.zkey import read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254
from tests.cli.conftest import SmallJob, run, why_refused
from tests.conftest import Snarkjs
from tests.groth16.test_setup import SECRETS, small_circuit
from tests.support.known_tau import write_known_tau
from tests.support.ptau_ceremony import ENDED, make_ptau, with_section
from tests.support.toy_program import toy_program

CPU = ("--backend", "cpu", "--threads", 2)


def printed(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_ceremony_from_set_up_to_its_verification(tmp_path: Path) -> None:
    r1cs, ptau, keys = tmp_path / "c.r1cs", tmp_path / "p.ptau", [tmp_path / f"{i}.zkey" for i in range(4)]
    write_r1cs(r1cs, small_circuit(BN254).r1cs)
    with CpuBackend(threads=2) as backend:
        write_known_tau(ptau, BN254, 5, backend, **SECRETS)
    printed("setup", "groth16", "--r1cs", r1cs, "--ptau", ptau, "--out", keys[0], *CPU)
    hashes = [
        printed("zkey", "contribute", keys[0], "--name", "a [b]", "--out", keys[1], *CPU)["hash"],
        printed("setup", "contribute", keys[1], "--out", keys[2], *CPU)["hash"],  # the older name of the command
        printed("zkey", "beacon", keys[2], "--beacon", "0x0c0d", "--iterations", 11, "--out", keys[3], *CPU)["hash"],
    ]
    of = ("--r1cs", r1cs, "--ptau", ptau, *CPU)
    found = printed("zkey", "verify", keys[3], *of)
    assert found["status"] == "verified"
    assert [one["name"] for one in found["contributions"]] == ["distprove setup", "a [b]", "distprove", "beacon"]
    assert [one["hash"] for one in found["contributions"][1:]] == hashes
    assert found["contributions"][3]["beacon"] == {"value": "0c0d", "exponent": 11}
    shown = "".join(run("zkey", "verify", keys[3], *of).stdout.split())  # a narrow terminal breaks long numbers
    assert all(text in shown for text in (*hashes, "a[b]", "0c0d,2^11", found["circuit_hash"]))

    assert run("zkey", "export", keys[3], "--out", tmp_path / "vk.json").exit_code == 0
    assert read_verification_key(tmp_path / "vk.json") == read_zkey(keys[3]).verification_key
    many = run("zkey", "verify", keys[3], *of, "--beacon-exponent", 10)
    assert many.exit_code == 2
    assert "--beacon-exponent 11" in many.stderr
    refused = run("zkey", "verify", keys[3], "--r1cs", r1cs, "--ptau", _other_powers(tmp_path), *CPU, "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["type"] == "InvalidCeremony"


def _other_powers(folder: Path) -> Path:
    with CpuBackend(threads=2) as backend:
        write_known_tau(folder / "other.ptau", BN254, 5, backend, **{**SECRETS, "tau": 3})
    return folder / "other.ptau"


def test_powers_of_tau(tmp_path: Path) -> None:
    with CpuBackend(threads=2) as backend:
        path = make_ptau(tmp_path / "p.ptau", BN254, 2, ENDED, backend)
    found = printed("ptau", "verify", path, *CPU)
    assert (found["status"], found["power"], found["ceremony_power"], found["prepared"]) == ("verified", 2, 2, True)
    assert [one["name"] for one in found["contributions"]] == ["first", None, "block"]
    shown = "".join(run("ptau", "verify", path, *CPU).stdout.split())  # a narrow terminal breaks long numbers
    assert all(one["response"] in shown for one in found["contributions"])
    *earlier, last = [one["next_challenge"] for one in found["contributions"]]
    assert last in shown
    assert earlier == [None] * len(earlier)  # nothing in the file can be compared with these
    refused = run("ptau", "verify", with_section(path, tmp_path / "bad.ptau", 7, bytes(4)), *CPU)
    assert refused.exit_code == 1
    assert "no contribution" in refused.stderr


def test_witnesses(small_job: SmallJob, tmp_path: Path) -> None:
    r1cs = small_job.folder / "c.r1cs"
    good, bad = small_job.witnesses / "member-0.wtns", small_job.bad_witness
    assert printed("wtns", "check", good, "--r1cs", r1cs, *CPU) == {"status": "satisfied", "constraint": None}
    done = run("wtns", "check", bad, "--r1cs", r1cs, *CPU, "--json")
    assert done.exit_code == 1
    fault = json.loads(done.stdout)["constraint"]
    assert fault is not None
    assert f"does not satisfy constraint {fault} of" in done.stderr
    (tmp_path / "c.wasm").write_bytes(toy_program())
    (tmp_path / "in.json").write_text('{"x": [3, "4"]}')
    program = ("--wasm", tmp_path / "c.wasm", "--input", tmp_path / "in.json")
    assert run("wtns", "calculate", *program, "--out", tmp_path / "w.wtns").exit_code == 0
    assert read_wtns(tmp_path / "w.wtns").values[:, 0].tolist() == [1, 3, 4]
    assert (tmp_path / "w.wtns").stat().st_mode & 0o077 == 0
    assert "wires" in why_refused(run("wtns", "check", tmp_path / "w.wtns", "--r1cs", r1cs, *CPU))
    (tmp_path / "in.json").write_text('{"x": [3, 2.5]}')
    told = why_refused(run("wtns", "calculate", *program, "--out", tmp_path / "v.wtns"))
    assert f"{tmp_path / 'in.json'}: signal 'x': a number that is not an exact integer" in told
    assert not (tmp_path / "v.wtns").exists()


def test_witnesses_of_something_else(small_job: SmallJob) -> None:
    circuit = read_r1cs(small_job.folder / "c.r1cs")
    values = read_wtns(small_job.witnesses / "member-0.wtns").values
    with CpuBackend(threads=1) as backend:
        with pytest.raises(CurveMismatch):
            first_fault(circuit, CircomWitness(BLS12_381, values), backend)
        with pytest.raises(WitnessMismatch, match="first wire"):
            first_fault(circuit, CircomWitness(BN254, values[::-1]), backend)


@pytest.mark.node
def test_facts_of_a_circuit_are_those_that_snarkjs_counts(
    small_job: SmallJob, snarkjs: Snarkjs, tmp_path: Path
) -> None:
    write_r1cs(tmp_path / "small.r1cs", small_circuit(BLS12_381).r1cs)
    titles = {"Wires": "wires", "Constraints": "constraints", "Private Inputs": "private_inputs", "Labels": "labels"}
    titles |= {"Public Inputs": "public_inputs", "Outputs": "outputs"}
    for path in (small_job.folder / "c.r1cs", tmp_path / "small.r1cs"):
        found = printed("r1cs", "info", path)
        shown = snarkjs("r1cs", "info", path).stdout
        for title, name in titles.items():
            assert f"# of {title}: {found[name]}\n" in shown
        assert f"2^{found['power']}" in run("r1cs", "info", path).stdout
