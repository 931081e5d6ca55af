"""A proof file names its key in one way, exactly, whether the verifier makes that key or is given it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import distprove
from distprove.cli.programs import Soundness
from distprove.cli.summary import proven_rows
from distprove.cli.verify import verify as verify_command
from distprove.errors import DistproveError, FormatError, InvalidProof
from distprove.proof import Proof, partition_digest
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import key_content, shipped_key
from distprove.stark.options import StarkOptions
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.security import choose_parameters
from distprove.stark.system import StarkSystem
from distprove.stark.verifying_key import VerifyingKey
from distprove.verification import verify_proof
from tests.support import second_verifier
from tests.support.golden_jobs import golden, golden_file

PARAMS = Parameters(1, 20, 0, 1)


@cache
def ring() -> tuple[dict[str, Any], Proof]:
    """The golden ring's key and the file that states its job as it should."""
    job = golden("ring")
    return job["key"], golden_file(job)


def both(data: bytes, key: dict[str, Any], folder: Path) -> tuple[bool, bool]:
    """Whether the reference and the second verifier accept the file under this key."""
    path = folder / "key.msgpack"
    path.write_bytes(key_content(VerifyingKey.from_record(key)))
    try:
        verify_proof(Proof.from_bytes(data), path, least_security=0)
        ours = True
    except DistproveError:
        ours = False
    try:
        second_verifier.verify_file(data, key)
    except second_verifier.Refused:
        return ours, False
    return ours, True


def test_the_honest_file_holds(tmp_path: Path) -> None:
    key, proof = ring()
    assert both(proof.to_bytes(), key, tmp_path) == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda named: {},
        lambda named: {**named, "program": "fibonacci"},
        lambda named: {**named, "arguments": {**named["arguments"], "more": 1}},
        lambda named: {**named, "params": {**named["params"], "queries": 1024}},
        lambda named: {**named, "params": {**named["params"], "grinding_bits": True}},
        lambda named: {**named, "says": "anything"},
        lambda named: {**named, "version": 1},
        lambda named: {name: value for name, value in named.items() if name != "version"},
        lambda named: {name: value for name, value in named.items() if name != "params"},
    ],
)
def test_a_file_that_names_its_key_otherwise(
    change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    """With all of its digests made right again: what a reader of the file would be told is not what was verified."""
    key, proof = ring()
    named = change(proof.verification_key)
    assert both(replace(proof, verification_key=named).to_bytes(), key, tmp_path) == (False, False)


@pytest.mark.parametrize("index", [0, 1])
def test_files_with_other_digests(index: int, tmp_path: Path) -> None:
    key, proof = ring()
    moved = [replace(p, digest=bytes(32)) if i == index else p for i, p in enumerate(proof.partitions)]
    assert both(replace(proof, partitions=tuple(moved)).to_bytes(), key, tmp_path) == (False, False)
    reordered = replace(proof, partitions=proof.partitions[::-1])
    assert both(reordered.to_bytes(), key, tmp_path) == (False, False)


@pytest.mark.parametrize("heights", [[6, 4], "\x06\x04", None, 6])
def test_heights_that_are_no_bytes(heights: Any, tmp_path: Path) -> None:
    """Whatever the partition's digest is of: the heights as they should be, as they stand there, or none."""
    key, proof = ring()
    first, *rest = proof.partitions
    data = {**first.data, "heights": heights}
    for stated in (first.data["heights"], heights, None):
        digest = partition_digest(proof.key_digest, 0, first.name, first.public, stated)
        changed = replace(proof, partitions=(replace(first, digest=digest, data=data), *rest))
        assert both(changed.to_bytes(), key, tmp_path) == (False, False)


def test_a_file_without_partitions(tmp_path: Path) -> None:
    key, proof = ring()
    assert both(replace(proof, partitions=()).to_bytes(), key, tmp_path) == (False, False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rows": "8"},
        {"rows": "2^3"},
        {"rows": 8, "first": 0},
        {"rows": 8, "more": 1},
        {},
    ],
)
def test_a_shipped_programs_arguments_are_stated_in_one_way(arguments: dict[str, int | str]) -> None:
    named = StarkSystem(load_program("fibonacci", {"rows": 8}), PARAMS, 1).verification_key()
    assert shipped_key(named)[0].arguments == named["arguments"]
    with pytest.raises(FormatError):
        shipped_key({**named, "arguments": arguments})


@pytest.mark.parametrize("version", [1, 3])
def test_a_key_of_another_version_is_refused_by_name(version: int, tmp_path: Path) -> None:
    named = StarkSystem(load_program("fibonacci", {"rows": 8}), PARAMS, 1).verification_key()
    key, _ = ring()
    says = rf"version {version} of the STARK protocol.* prove it again"
    with pytest.raises(FormatError, match=says):
        shipped_key({**named, "version": version})
    with pytest.raises(FormatError, match=says):
        VerifyingKey.from_record({**key, "version": version})


def test_what_is_proven_by_default_is_what_is_asked_for_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits in a job, on every command line, and in Python."""

    def default(function: Callable[..., Any], name: str) -> Any:
        return inspect.signature(function).parameters[name].default

    proven = {StarkOptions("p").security, Soundness().values["security"], default(choose_parameters, "security")}
    by_api = default(distprove.verify, "least_security")  # imported before `verify_proof` is another one
    by_command: list[float] = []

    def asked_for(proof: Proof, vk: Path | None, job: bytes | None, least_security: float, **others: Any) -> None:
        by_command.append(least_security)
        raise InvalidProof("seen")

    monkeypatch.setattr("distprove.verification.verify_proof", asked_for)
    (tmp_path / "proof.msgpack").write_bytes(ring()[1].to_bytes())
    with pytest.raises(typer.Exit):
        verify_command(tmp_path / "proof.msgpack")
    asked = {*by_command, by_api}
    assert proven == asked == {default(verify_proof, "least_security")} == {128}


def test_fewer_bits_than_a_prover_proves_by_default_must_be_asked_for(tmp_path: Path) -> None:
    key, proof = ring()
    (tmp_path / "key.msgpack").write_bytes(key_content(VerifyingKey.from_record(key)))
    with pytest.raises(InvalidProof, match="128 are asked for"):
        verify_proof(proof, tmp_path / "key.msgpack")
    with pytest.raises(InvalidProof, match="nan are asked for"):
        verify_proof(proof, tmp_path / "key.msgpack", least_security=math.nan)


def test_no_more_bits_are_shown_than_are_proven() -> None:
    key, proof = ring()
    proven = StarkVerifier(VerifyingKey.from_record(key)).explain(proof.partitions)
    proven["security"]["bits"] = 99.99
    assert dict(proven_rows(proven))["security"].startswith("99.99 bits, proven")
