"""The contract for Groth16 proofs, compiled by solc and called in an EVM: it accepts what verifies, nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import UsageError
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import format_verification_key
from distprove.groth16.solidity import CALLDATA, CONTRACT, MOST_PUBLIC, calldata, contract
from kernels.cpu.keccak import keccak256
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from tests.cli.conftest import run as command
from tests.conftest import Snarkjs
from tests.support.simulated_proofs import OUTSIDE, trapdoor

pytestmark = pytest.mark.node
HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
PUBLIC = [3, 4]
WORD = 32
CODE_LIMIT = 24_576
"""Bytes of a contract's code at most (EIP-170)."""


def call(*contracts: tuple[str, list[bytes]], **more: Any) -> list[dict[str, Any]]:
    """Returns, for each source of a contract with its calldata, the answer of `verifyProof` to each, with gas; None for
    a call that reverts. One process does all: it takes two seconds to load the compiler. `more` is what `evm.mjs` takes
    beside these."""
    if shutil.which("node") is None or not (HERE / "node_modules" / "solc").is_dir():
        pytest.skip("solc and an EVM are not installed (make node)")
    given = json.dumps(
        [{"source": source, "calls": [f"0x{each.hex()}" for each in calls], **more} for source, calls in contracts]
    )
    done = subprocess.run(["node", HERE / "evm.mjs"], input=given, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    made: list[dict[str, Any]] = json.loads(done.stdout)
    return made


def with_words(data: bytes, words: dict[int, int]) -> bytes:
    """Calldata with other words, numbered from 0 behind the selector."""
    changed = bytearray(data)
    for number, value in words.items():
        changed[4 + WORD * number : 4 + WORD * (number + 1)] = value.to_bytes(WORD, "big")
    return bytes(changed)


def word(data: bytes, number: int) -> int:
    return int.from_bytes(data[4 + WORD * number : 4 + WORD * (number + 1)], "big")


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_it_accepts_a_proof_and_refuses_every_change(curve: Curve) -> None:
    secret = trapdoor(curve, len(PUBLIC))
    proof, other = secret.prove(PUBLIC, seed=0), secret.prove([3, 5], seed=1)
    good = calldata(proof, PUBLIC)
    count = (len(good) - 4) // WORD
    calls = {"good": good, "C at infinity": calldata(secret.prove(PUBLIC, seed=2, without_c=True), PUBLIC)}
    changed = {f"word {i}": with_words(good, {i: word(good, i) ^ 1}) for i in range(count)}
    changed["another public value"] = calldata(proof, [3, 5])
    changed["another proof"] = calldata(other, PUBLIC)
    changed["A of another proof"] = calldata(Groth16Proof(curve, other.a, proof.b, proof.c), PUBLIC)
    order = curve.fr.modulus
    for i in (count - 2, count - 1):  # the same value modulo the order
        changed[f"public word {i} + order"] = with_words(good, {i: word(good, i) + order})
    changed["a public value of all ones"] = with_words(good, {count - 1: (1 << 256) - 1})
    changed |= {f"no {name}": with_words(good, dict.fromkeys(words, 0)) for name, words in places(curve).items()}
    for name, words in places(curve).items():  # the same coordinate modulo the field's prime
        changed[f"{name}.x + p"] = plus_modulus(curve, good, words)
    for (named, group), coordinates in OUTSIDE.items():
        if named == curve.name:
            changed[f"outside {group.name}"] = outside(curve, good, group, coordinates)
    (told,) = call((contract(secret.key), [*calls.values(), *changed.values(), good[:-1], good + b"\0", good[:4]]))
    results = [each["valid"] for each in told["results"]]
    accepted, refused, (short, long, bare) = results[: len(calls)], results[len(calls) : -3], results[-3:]
    assert accepted == [True] * len(calls)
    assert dict(zip(changed, refused, strict=True)) == dict.fromkeys(changed, False)
    assert short is bare is None
    assert long is True  # the encoding's reader takes more than it needs
    assert not told["warnings"]
    assert told["results"][0]["gas"] < 260_000


def places(curve: Curve) -> dict[str, range]:
    """The words of each point."""
    return {
        n: range(at, at + k)
        for n, at, k in (
            (("A", 0, 2), ("B", 2, 4), ("C", 6, 2)) if curve is BN254 else (("A", 0, 4), ("B", 4, 8), ("C", 12, 4))
        )
    }


def plus_modulus(curve: Curve, data: bytes, words: range) -> bytes:
    if curve is BN254:
        return with_words(data, {words[0]: word(data, words[0]) + curve.fq.modulus})
    upper, lower = divmod((word(data, words[0]) << 256) + word(data, words[1]) + curve.fq.modulus, 1 << 256)
    return with_words(data, {words[0]: upper, words[1]: lower})


def outside(curve: Curve, data: bytes, group: Group, point: tuple[int, ...]) -> bytes:
    """With a point of the curve that is not in the group of order r in place of A or B."""
    words = places(curve)["A" if group is Group.G1 else "B"]
    if curve is BN254:
        x0, x1, y0, y1 = point
        return with_words(data, dict(zip(words, (x1, x0, y1, y0), strict=True)))
    halves = [half for value in point for half in divmod(value, 1 << 256)]
    return with_words(data, dict(zip(words, halves, strict=True)))


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_the_number_of_public_values(curve: Curve, monkeypatch: pytest.MonkeyPatch) -> None:
    """From none to as many as a contract has space for."""
    most = MOST_PUBLIC[curve.name]
    secrets = [(trapdoor(curve, count), list(range(count))) for count in (0, most)]
    contracts = [(contract(secret.key), [calldata(secret.prove(public, seed=0), public)]) for secret, public in secrets]
    for told in call(*contracts):
        assert told["results"][0]["valid"] is True
        assert told["size"] <= CODE_LIMIT
    monkeypatch.setitem(MOST_PUBLIC, curve.name, most - 1)
    with pytest.raises(UsageError, match=f"{most} public inputs"):
        contract(secrets[1][0].key)


def test_the_contract_and_calldata_of_snarkjs_suit_ours(snarkjs: Snarkjs, shared_data: Path, tmp_path: Path) -> None:
    """Our calldata is what snarkjs writes, its contract accepts ours, and ours accepts its."""
    folder = shared_data / "circom" / "tiny"
    run = tmp_path / "run"
    inputs = sorted((folder / "inputs").glob("*.json"))[:1]
    given = ["--zkey", folder / "circuit.zkey", "--wasm", folder / "circuit.wasm", "--input", *inputs]
    assert command("prove", "groth16", *given, "--no-service", "--out", run).exit_code == 0
    assert command("export", run, "--out", tmp_path / "files", "--solidity").exit_code == 0
    (made,) = (tmp_path / "files").glob(f"*/{CALLDATA}")
    ours = bytes.fromhex(made.read_text().strip().removeprefix("0x"))
    theirs = snarkjs("zkey", "export", "soliditycalldata", made.with_name("public.json"), made.with_name("proof.json"))
    flat = [int(digits, 16) for digits in re.findall("0x[0-9a-f]+", theirs.stdout)]
    assert ours[4:] == b"".join(value.to_bytes(WORD, "big") for value in flat)
    snarkjs("zkey", "export", "solidityverifier", folder / "circuit.zkey", tmp_path / "theirs.sol")
    calls = [ours, with_words(ours, {8: word(ours, 8) ^ 1})]
    sources = [path.read_text() for path in (tmp_path / "theirs.sol", tmp_path / "files" / CONTRACT)]
    for told in call(*((source, calls) for source in sources)):
        assert [each["valid"] for each in told["results"]] == [True, False]


def test_a_contract_of_the_documents_remembers_what_was_proven() -> None:
    """The example for wraps: it keeps the public values of proofs that hold, and no others."""
    example, _ = examples()
    secret = trapdoor(BN254, 1)
    digest, other = BN254.fr.modulus - 1, 5
    good = calldata(secret.prove([digest], seed=0), [digest])
    submits = [
        selector("submit(uint256[2],uint256[2][2],uint256[2],uint256)") + data
        for data in (with_words(good, {8: other})[4:], with_words(good, {0: word(good, 0) ^ 1})[4:], good[4:])
    ]
    known = [selector("proven(uint256)") + value.to_bytes(WORD, "big") for value in (digest, other)]
    calls = [*submits[:2], *known, submits[2], *known, submits[2]]
    (told,) = call((example, calls), imports={CONTRACT: contract(secret.key)}, contract="ProvenJobs")
    bad, bad_too, *before, first, known_then, others, again = [each["valid"] for each in told["results"]]
    assert bad is bad_too is None  # reverts
    assert before == [False, False]
    assert (first, known_then, others, again) == (True, True, False, False)
    assert not told["warnings"]


def test_a_contract_of_the_documents_reads_program_exit_code_and_output() -> None:
    _, example = examples()
    secret, output = trapdoor(BN254, 5), int.from_bytes(b"seven words", "little")
    true = [1, 2, output, 0, 11 << 32]
    submit, calls = selector("submit(uint256[2],uint256[2][2],uint256[2],uint256[5])"), []
    for public in ([true[0] + 1, *true[1:]], [1, 3, *true[2:]], [*true[:4], true[4] + 7], true):
        calls.append(submit + calldata(secret.prove(public, seed=0), public)[4:])
    calls += [submit + with_words(calls[-1], {8 + place: true[place] + 1})[4:] for place in (2, 3, 4)]
    (told,) = call((example, calls), imports={CONTRACT: contract(secret.key)}, contract="ProgramOutputs")
    assert [each["valid"] for each in told["results"]] == [None, None, None, str(output), None, None, None]
    assert not told["warnings"]


def examples() -> list[str]:
    """The contracts for wraps in the documents."""
    found: list[str] = re.findall(
        r"```solidity\n(.*?)```", (DOCS / "recursion.md").read_text(encoding="utf-8"), re.DOTALL
    )
    return found


def selector(signature: str) -> bytes:
    return keccak256(signature.encode())[:4]


def test_a_key_of_others_and_a_proof_without_contract(tmp_path: Path) -> None:
    secret = trapdoor(BLS12_381, 1)
    key = tmp_path / "verification_key.json"
    key.write_text(format_verification_key(secret.key))
    done = command("export", key, "--solidity", "--out", tmp_path / "contract", "--json")
    assert json.loads(done.stdout)["contract"] == CONTRACT
    assert (tmp_path / "contract" / CONTRACT).read_text() == contract(secret.key)
    options = ["--partitions", "1", "--rows", "8", "--no-service", "--out", tmp_path / "run"]
    assert command("prove", "stark", "fibonacci", *options).exit_code == 0
    done = command("export", tmp_path / "run", "--out", tmp_path / "stark", "--solidity")
    assert done.exit_code == 2
    assert "no contract verifies a proof of stark" in done.stderr
    assert not (tmp_path / "stark").exists()
