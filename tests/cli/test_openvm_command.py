"""`distprove verify --openvm-key`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run, why_refused
from tests.support.openvm_golden import GOLDEN, key_path, proof_of

NAME = "preprocessed"
PROOF = GOLDEN / NAME / "proof.bin"
TOY = ("--security", 5)


def test_verifies_and_tells_what_was_proven() -> None:
    done = run("verify", PROOF, "--openvm-key", key_path(NAME), *TOY, "--show-public")
    assert done.exit_code == 0, done.output
    values = ", ".join(map(str, proof_of(NAME).public_values[0].tolist()))
    assert "one proof of OpenVM 2" in done.output
    assert f"AIR 0, Selected, 2^4 rows: {values}" in done.output


def test_verifies_as_json() -> None:
    done = run("verify", GOLDEN / "cached" / "proof.bin", "--openvm-key", key_path("cached"), *TOY, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (air,) = told["airs"]
    (trace,) = proof_of("cached").traces
    assert trace is not None
    assert told["status"] == "verified"
    assert told["system"] == "openvm"
    assert (air["name"], air["log_height"]) == ("Cached", trace.log_height)
    assert air["cached_traces"] == [root.astype("<u4").tobytes().hex() for root in trace.cached_roots]


def test_asks_for_the_security_of_production_keys() -> None:
    done = run("verify", PROOF, "--openvm-key", key_path(NAME))
    assert done.exit_code == 1
    assert "5.2 proven bits of security under this key; 100 are asked for" in " ".join(done.output.split())


def test_refuses_other_keys_changed_proofs_and_files_that_are_none(tmp_path: Path) -> None:
    changed = tmp_path / "proof.bin"
    data = bytearray(PROOF.read_bytes())
    data[-4] ^= 1
    changed.write_bytes(data)
    for proof, key, code in (
        (PROOF, key_path("fibonacci"), 1),
        (changed, key_path(NAME), 1),
        (key_path(NAME), key_path(NAME), 2),
        (PROOF, PROOF, 2),
        (PROOF, tmp_path / "none", 2),
    ):
        done = run("verify", proof, "--openvm-key", key, *TOY)
        assert done.exit_code == code, done.output


def test_a_name_in_a_key_is_shown_as_text(tmp_path: Path) -> None:
    """The hash of a key does not cover the AIRs' names, so that anyone can change them in a file."""
    data, key = key_path(NAME).read_bytes(), tmp_path / "key.bin"
    hostile = json.dumps("\x1b[2J[red]").encode()
    front, rest = data[16:].split(b'"Selected"', 1)
    header_size = int.from_bytes(data[8:16], "little")
    header = front + hostile + rest[: header_size - len(front) - len(b'"Selected"')]
    begin = data[:8] + len(header).to_bytes(8, "little") + header
    key.write_bytes(begin + bytes(-len(begin) % 64) + data[-(-(16 + header_size) // 64) * 64 :])
    done = run("verify", PROOF, "--openvm-key", key, *TOY, "--show-public")
    assert done.exit_code == 0, done.output
    assert "\x1b[2J" not in done.output
    assert "[2J[red]" in done.output


@pytest.mark.parametrize(
    "option", [("--vk", "k"), ("--trust-own-key",), ("--threads", 1), ("--exit-code", 1), ("--exit-code", 0)]
)
def test_goes_with_no_option_of_other_proofs(option: tuple[object, ...]) -> None:
    done = run("verify", PROOF, "--openvm-key", key_path(NAME), *option)
    assert done.exit_code == 2
    assert "--openvm-key goes with" in why_refused(done)
