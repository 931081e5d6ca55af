"""`distprove verify` of a proof of OpenVM 2 in its own bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli.conftest import run, why_refused
from tests.support.openvm_golden import GOLDEN, key_path, proof_of

NAME = "preprocessed"
PROOF = GOLDEN / NAME / "proof.bin"
TOY = ("--security", 5)


def test_verifies_and_tells_what_was_proven() -> None:
    done = run("verify", PROOF, "--vk", key_path(NAME), *TOY, "--show-public")
    assert done.exit_code == 0, done.output
    values = ", ".join(map(str, proof_of(NAME).public_values[0].tolist()))
    assert "one proof of OpenVM 2" in done.output
    assert f"AIR 0, Selected, 2^4 rows: {values}" in done.output


def test_verifies_as_json() -> None:
    done = run("verify", GOLDEN / "cached" / "proof.bin", "--vk", key_path("cached"), *TOY, "--json")
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
    done = run("verify", PROOF, "--vk", key_path(NAME))
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
        done = run("verify", proof, "--vk", key, *TOY)
        assert done.exit_code == code, done.output


def test_files_in_each_others_place_are_named() -> None:
    key, traces = key_path(NAME), GOLDEN / NAME / "traces.bin"
    for proof, given, seen in (
        (key, key, "as a key of OpenVM 2"),
        (PROOF, traces, "as traces of OpenVM 2 (--traces)"),
        (PROOF, PROOF, "as a proof of OpenVM 2"),
    ):
        assert f"it begins {seen}" in why_refused(run("verify", proof, "--vk", given, *TOY))


def test_a_name_in_a_key_is_shown_as_text(tmp_path: Path) -> None:
    """The hash of a key does not cover the AIRs' names, so that anyone can change them in a file."""
    data, key = key_path(NAME).read_bytes(), tmp_path / "key.bin"
    hostile = json.dumps("\x1b[2J[red]").encode()
    front, rest = data[16:].split(b'"Selected"', 1)
    header_size = int.from_bytes(data[8:16], "little")
    header = front + hostile + rest[: header_size - len(front) - len(b'"Selected"')]
    begin = data[:8] + len(header).to_bytes(8, "little") + header
    key.write_bytes(begin + bytes(-len(begin) % 64) + data[-(-(16 + header_size) // 64) * 64 :])
    done = run("verify", PROOF, "--vk", key, *TOY, "--show-public")
    assert done.exit_code == 0, done.output
    assert "\x1b[2J" not in done.output
    assert "[2J[red]" in done.output


@pytest.fixture
def stated() -> dict[str, Any]:
    """What `verify --json` prints of a proof with commitments to cached traces."""
    done = run("verify", CACHED, "--vk", key_path("cached"), *TOY, "--json")
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["public_compared"] is None
    return told


CACHED = GOLDEN / "cached" / "proof.bin"


def _held_to(stated: dict[str, Any], folder: Path, *more: object, name: str = "cached") -> Result:
    file = folder / "expected.json"
    file.write_text(json.dumps(stated))
    proof = GOLDEN / name / "proof.bin"
    return run("verify", proof, "--vk", key_path(name), *TOY, "--public", file, *more)


def test_a_proof_states_what_is_expected(stated: dict[str, Any], tmp_path: Path) -> None:
    """What `--json` printed once is the file of later verifications; a name, which nothing binds, is not compared."""
    stated["airs"][0]["name"] = "another"
    done = _held_to(stated, tmp_path)
    assert done.exit_code == 0, done.output
    assert "as expected" in done.output
    del stated["airs"][0]["log_height"], stated["airs"][0]["name"]
    done = _held_to(stated, tmp_path, "--json")
    assert (done.exit_code, json.loads(done.stdout)["public_compared"]) == (0, 0)


def test_a_public_value_that_differs_is_named(tmp_path: Path) -> None:
    airs = [{"air": 0, "public_values": [0, 1, 988], "cached_traces": []}]
    done = _held_to({"airs": airs}, tmp_path, name="fibonacci")
    assert done.exit_code == 1
    assert "states public value 2 = 987 for AIR 0; 988 is expected by" in " ".join(done.output.split())
    airs[0]["public_values"] = [0, 1]
    assert _held_to({"airs": airs}, tmp_path, name="fibonacci").exit_code == 1


@pytest.mark.parametrize("change", ["root", "fewer roots", "height", "no AIR", "another AIR"])
def test_a_statement_that_differs_is_refused(change: str, stated: dict[str, Any], tmp_path: Path) -> None:
    air = stated["airs"][0]
    if change == "root":
        air["cached_traces"][1] = air["cached_traces"][0]
    elif change == "fewer roots":
        air["cached_traces"].pop()
    elif change == "height":
        air["log_height"] += 1
    elif change == "no AIR":
        stated["airs"] = []
    else:
        stated["airs"].append({**air, "air": 1})
    done = _held_to(stated, tmp_path)
    assert done.exit_code == 1, done.output
    assert "the proof holds, and" in " ".join(done.output.split())


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"airs": {}},
        {"airs": [1]},
        {"airs": [{"air": 0, "public_values": []}]},
        {"airs": [{"air": 0, "public_values": ["1"], "cached_traces": []}]},
        {"airs": [{"air": -1, "public_values": [], "cached_traces": []}]},
        {"airs": [{"air": 0, "public_values": [], "cached_traces": [1]}]},
        {"airs": [{"air": 0, "public_values": [], "cached_traces": [], "publik": []}]},
        {"airs": [{"air": 0, "public_values": [], "cached_traces": []}] * 2},
    ],
)
def test_a_file_of_expected_values_of_another_form(value: Any, tmp_path: Path) -> None:
    assert _held_to(value, tmp_path).exit_code == 2


def test_a_folder_has_its_proof(tmp_path: Path) -> None:
    (tmp_path / "proof.bin").write_bytes(PROOF.read_bytes())
    done = run("verify", tmp_path, "--vk", key_path(NAME), *TOY)
    assert done.exit_code == 0, done.output
    assert "--vk" in why_refused(run("verify", tmp_path)), "without a key the message names the option"
    (tmp_path / "proof.bin").rename(tmp_path / "proof-0.bin")
    assert "one by one" in why_refused(run("verify", tmp_path, "--vk", key_path(NAME), *TOY))


def test_a_refusal_names_proof_and_key() -> None:
    done = run("verify", PROOF, "--vk", key_path("cached"), *TOY)
    words = " ".join(done.output.split())
    assert f"{PROOF} does not verify under {key_path('cached')}" in words
    assert "commitments to cached traces of AIR 0, which has 2 under this key" in words


@pytest.mark.parametrize(
    "option", [("--trust-own-key",), ("--threads", 1), ("--exit-code", 1), ("--exit-code", 0), ("--job", "0" * 64)]
)
def test_goes_with_no_option_of_other_proofs(option: tuple[object, ...]) -> None:
    done = run("verify", PROOF, "--vk", key_path(NAME), *option)
    assert done.exit_code == 2
    assert "is verified with --vk" in why_refused(done)
