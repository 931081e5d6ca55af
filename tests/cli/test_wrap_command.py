"""`prove --wrap` and `verify --wrap-vk`, from a program to files of a wrap and back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap.statement import statement_digest
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.snarkjs import read_public, write_verification_key
from distprove.proof import Proof
from distprove.stark.wrap import files, prover, system
from distprove.stark.wrap.files import Wrap
from distprove.system import PartitionProof
from kernels.interface.tree_hash import TreeHash
from kernels.maths.curves import BN254
from tests.cli.conftest import run as command
from tests.support import LONG
from tests.support.simulated_proofs import trapdoor

JOB = (
    *("prove", "stark", "fibonacci", "--rows", "16", "--partitions", "1", "--engine", "multilinear", "--hash"),
    *("poseidon2", "--security", "1", "--grinding", "0", "--local", "--no-isolate", "--wrap"),
)
FEW = ("--security", "1")
INSECURE = "insecure wrap: the maker of its key can forge wraps"


def facts(done: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done.stdout)
    return {name: told[name] for name in told if name not in ("seconds", "proven")} | {
        "proven": {name: own for name, own in told["proven"].items() if name != "security"}
    }


def test_a_job_with_a_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Groth16 proof is simulated here, with a trapdoor: what it states, and where it goes, are the job's."""
    secret, run = trapdoor(BN254, 1), tmp_path / "run"

    def simulated(key: Any, second: PartitionProof, salt: bytes, *_: Any) -> Wrap:
        public = statement_digest(second.public, salt)
        return Wrap(secret.key, secret.prove([public], seed=1), (public,))

    monkeypatch.setattr(prover, "wrap", simulated)
    monkeypatch.setattr(prover.WrappedProver, "_open", lambda *_, **__: None)
    monkeypatch.setattr(system.WrappedSystem, "check", lambda *_: None)
    shown = command(*JOB, "--insecure-dev", "--out", run)
    assert shown.exit_code == 0, shown.output
    assert "insecure wrap" in shown.output
    written = [run / name for name in (files.PROOF, files.PUBLIC, files.CALLDATA, files.KEY)]
    assert all(path.is_file() for path in written)
    notes = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    proved = {note["partition"]: note["worker"] for note in notes if note["event"] == "proved" and "partition" in note}
    assert proved["groth16"] == "prover-0"
    assert Proof.read_from(run).salt is not None  # beside the list
    # It verifies in the words of the job's one proof.
    plain = command("verify", run, *FEW, "--json")
    wrapped = command("verify", run, *FEW, "--json", "--wrap-vk", run / files.KEY)
    assert plain.exit_code == wrapped.exit_code == 0, wrapped.output
    told = facts(wrapped)
    (public,) = read_public(run / files.PUBLIC, BN254)
    assert told["wrap"] == {"key_digest": secret.key.digest().hex(), "public": str(public)}
    assert facts(plain) == {**told, "wrap": None}
    # It says that it was a wrap, under which key, and of what the bits are proven.
    monkeypatch.setenv("COLUMNS", "200")  # a number of 77 digits would be cut into lines
    words = " ".join(command("verify", run, *FEW, "--wrap-vk", run / files.KEY).output.split())
    assert f"Groth16 over BN254 under key {secret.key.digest().hex()}" in words
    assert "bits, proven of the proofs inside the wrap (" in words
    assert "1 partition in a wrap, stark" in words
    assert f"digest {public} the wrap's public value, of this job and its salt alone" in words
    assert "it holds only if you trust how this key was made" in words
    assert INSECURE in words  # as the report beside it says
    assert not re.search(r"wrap|insecure", command("verify", run, *FEW).output.replace(str(run), ""))
    (run / "report.json").write_text((run / "report.json").read_text().replace('"insecure_wrap"', '"other"'))
    done = command("verify", run, *FEW, "--wrap-vk", run / files.KEY)
    assert done.exit_code == 0
    assert "insecure" not in done.output
    (run / "report.json").write_text("{}")
    assert command("verify", run / "proof.msgpack", *FEW, "--wrap-vk", run / files.KEY).exit_code == 0
    # Another public value, and another key.
    write_verification_key(tmp_path / "other.json", trapdoor(BN254, 1, seed=3).key)
    refused = command("verify", run, *FEW, "--wrap-vk", tmp_path / "other.json")
    assert refused.exit_code == 1
    (run / files.PUBLIC).write_text(json.dumps([str(public + 1)]))
    assert command("verify", run, *FEW, "--wrap-vk", run / files.KEY).exit_code == 1
    assert command("verify", run, *FEW).exit_code == 0  # the one proof stands by itself
    # The circuit for a ceremony is that of the second root's key. Here a small one stands for it.
    asked: list[Any] = []

    def circuit(key: Any) -> CircuitBuilder:
        asked.append(key)
        b = CircuitBuilder(BN254)
        x = b.private_input("x")
        b.output("statement", b.multiply(x, x))
        return b

    monkeypatch.setattr("distprove.stark.wrap.kept.wrap_circuit", circuit)
    to = ("setup", "wrap", run, "--out", tmp_path / "wrap.r1cs")
    assert "proven bits of security; 126 are asked for" in " ".join(command(*to).output.split())
    done = command(*to, *FEW, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["constraints"] == read_r1cs(tmp_path / "wrap.r1cs").n_constraints == 2
    assert [key.params.tree_hash for key in asked] == [TreeHash.POSEIDON2_BN254]
    assert json.loads(done.stdout)["key_digest"] == asked[0].digest.hex()
    assert json.loads(done.stdout)["bits"] >= 1
    shown = command(*to, *FEW, "--overwrite").output
    assert asked[0].digest.hex() in shown
    assert "bits, proven of the proofs inside the wrap" in shown
    refused = command(*to, *FEW, "--overwrite", "--tree-wires", "1000")
    assert refused.exit_code == 2
    assert "--tree-wires" in refused.output
    # A file may name any system.
    proof = Proof.read_from(run)
    other = Proof.bind("bogus", proof.key_digest, proof.verification_key, proof.partitions, proof.whole)
    other.write(tmp_path / "other.msgpack")
    refused = command("setup", "wrap", tmp_path / "other.msgpack", *FEW, "--out", tmp_path / "other.r1cs")
    assert (refused.exit_code, (tmp_path / "other.r1cs").exists()) == (2, False)
    assert "of system 'bogus'" in refused.output


def test_a_key_must_be_named(tmp_path: Path) -> None:
    for more in ([], ["--insecure-dev", "--wrap-key", str(tmp_path / "k.zkey")]):
        refused = command(*JOB, *more, "--out", tmp_path / "run")
        assert refused.exit_code == 2
        assert "--wrap takes either --wrap-key or --insecure-dev" in " ".join(refused.output.split())
    (tmp_path / "k.zkey").write_bytes(b"zkey")
    assert command(*JOB, "--wrap-key", tmp_path / "k.zkey", "--out", tmp_path / "run").exit_code == 2
    assert not (tmp_path / "run").exists()


@LONG
def test_a_wrap_of_a_whole_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, for a second root of 1 bit: a circuit of 3.1 million constraints, minutes and 4 GB."""
    run, r1cs = tmp_path / "run", tmp_path / "wrap.r1cs"
    made = command(*JOB, "--insecure-dev", "--out", run)
    assert made.exit_code == 0, made.output
    assert command("verify", run, *FEW, "--wrap-vk", run / files.KEY).exit_code == 0
    assert command("setup", "wrap", run, "--out", r1cs, *FEW).exit_code == 0
    assert read_r1cs(r1cs).n_public == 1
    again: Sequence[str | Path] = (*JOB, "--insecure-dev", "--out", tmp_path / "again")
    monkeypatch.setattr("distprove.stark.wrap.kept.wrap_circuit", lambda key: pytest.fail("recorded again"))
    assert command(*again).exit_code == 0  # from what is kept
