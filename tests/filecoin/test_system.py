"""A job from vanilla proofs to the bytes that Filecoin takes, and its verdict under derived public inputs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

import distprove
from distprove.cli.summary import proven_rows
from distprove.errors import FormatError, InvalidProof, VanillaMismatch
from distprove.filecoin.post import PostStatement
from distprove.filecoin.sectors import POST_PROOFS
from distprove.filecoin.verifier import Stated
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.zcash import proof_to_bytes
from distprove.proof import Proof
from distprove.verification import verify_proof
from tests.cli.conftest import run, why_refused
from tests.filecoin.sectors import judged, written


@dataclass(frozen=True)
class Posted:
    """A WindowPoSt of three sectors, two partitions, proven by the command line."""

    folder: Path
    report: dict[str, Any]

    @property
    def vk(self) -> Path:
        return self.folder / "vk.json"

    @property
    def options(self) -> dict[str, str]:
        _, facts = judged("window_post")
        files = {"zkey": self.folder / "post.zkey", "window_post": self.folder / "window.json"}
        return {**{name: str(path) for name, path in files.items()}, "randomness": facts["randomness"]}

    @property
    def proof(self) -> Proof:
        return Proof.read(self.folder / "run" / "proof.msgpack")


@pytest.fixture(scope="module")
def posted(tmp_path_factory: pytest.TempPathFactory) -> Posted:
    folder = tmp_path_factory.mktemp("posted")
    made = Posted(folder, {})
    zkey, out = folder / "post.zkey", folder / "run"
    key = ("setup", "groth16", "--circuit", "filecoin/window-post-2KiB", "--insecure-dev", "--out", zkey)
    assert run(*key, "--vk", made.vk).exit_code == 0
    written(folder / "window.json", judged("window_post")[0])
    flags = [each for name, value in made.options.items() for each in (f"--{name.replace('_', '-')}", value)]
    done = run("prove", "filecoin", *flags, "--vk", made.vk, "--out", out, "--local", "--no-isolate", "--json")
    assert done.exit_code == 0, done.output
    return replace(made, report=json.loads(done.stdout))


def test_the_bytes_are_those_of_the_partitions(posted: Posted) -> None:
    content = (posted.folder / "run" / "proof.bin").read_bytes()
    proofs = [proof_to_bytes(Groth16Proof.from_dict(partition.data)) for partition in posted.proof.partitions]
    assert [len(each) for each in proofs] == [192, 192]
    assert content == b"".join(proofs)
    assert base64.b64decode(posted.report["proven"]["published"]["proof.bin"]) == content
    assert posted.report["proven"]["stated"]["randomness"] == judged("window_post")[1]["randomness"]


def test_the_proof_is_verified_and_exported(posted: Posted) -> None:
    assert "--trust-own-key" in run("verify", posted.folder / "run").output
    checked = run("verify", posted.folder / "run", "--vk", posted.vk)
    assert checked.exit_code == 0, checked.output
    assert "StackedDrgWindow2KiBV1_2" in checked.output
    assert "nothing says that this key is of circuit filecoin/window-post-2KiB" in " ".join(checked.output.split())
    assert "came with the proof" in run("verify", posted.folder / "run", "--trust-own-key").output
    named = ("verify", posted.folder / "run", "--vk", posted.vk, "--circuit")
    typed = ("filecoin/window-post-2KiB", "--proof-type", "StackedDrgWindow2KiBV1_2")
    told = run(*named, *typed)
    assert told.exit_code == 0
    assert "nothing says" not in told.output
    assert "to be of type StackedDrgWindow2KiBV1_2: the circuit has 2" in run(*named, typed[0]).output
    other = run(*named, *typed[:2], "StackedDrgWindow2KiBV1", "--json")
    assert (other.exit_code, json.loads(other.stdout)["error"]["type"]) == (1, "InvalidProof")
    refused = run(*named, "filecoin/window-post-8MiB", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["type"]) == (1, "InvalidProof")
    facts = [json.loads(run(*flags, "--json").stdout) for flags in (named[:-1], (*named, *typed))]
    assert [(each["circuit"], each["proof_type"], each["unbound"] is None) for each in facts] == [
        (None, None, False),
        ("filecoin/window-post-2KiB", "StackedDrgWindow2KiBV1_2", True),
    ]
    exported = run("export", posted.folder / "run", "--out", posted.folder / "E")
    assert exported.exit_code == 0, exported.output
    assert (posted.folder / "E" / "proof.bin").read_bytes() == (posted.folder / "run" / "proof.bin").read_bytes()


def test_some_partitions_are_not_exported_as_if_they_were_all(posted: Posted, tmp_path: Path) -> None:
    told = why_refused(run("export", posted.folder / "run", "--out", tmp_path / "E", "--partial"))
    assert "partitions of filecoin hold only together" in told
    whole = posted.proof
    first = Proof.bind(whole.system, whole.key_digest, whole.verification_key, whole.partitions[:1])
    (tmp_path / "first.msgpack").write_bytes(first.to_bytes())
    refused = run("export", tmp_path / "first.msgpack", "--out", tmp_path / "E")
    assert refused.exit_code == 1
    assert "1 partition, and the statement has 2" in refused.output
    assert not (tmp_path / "E").exists()


def _other_randomness(record: dict[str, Any]) -> None:
    record["randomness"] = bytes([record["randomness"][0] ^ 1]) + record["randomness"][1:]


def _other_replica(record: dict[str, Any]) -> None:
    record["sectors"][0]["comm_r"] = record["sectors"][1]["comm_r"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_other_randomness, "partition 0: the public inputs are not those that follow from the statement"),
        (_other_replica, "partition 0: the public inputs .* from input 0 on"),
        (lambda record: record["sectors"].pop(0), "2 partitions, and the statement has 1"),
        (lambda record: record["sectors"].reverse(), "distinct, and in order"),
        (lambda record: record.update(proof_type="StackedDrgWindow2KiBV1"), "public inputs are not those"),
        (lambda record: record.update(proof_type="StackedDrgWinning2KiBV1"), "is of one sector"),
    ],
)
def test_another_statement_is_refused(posted: Posted, change: Callable[[dict[str, Any]], None], told: str) -> None:
    proof = posted.proof
    record = {**proof.verification_key["statement"]}
    record["sectors"] = [{**sector} for sector in record["sectors"]]
    change(record)
    made = replace(proof, verification_key={**proof.verification_key, "statement": record})
    with pytest.raises(InvalidProof, match=told):
        verify_proof(made, posted.vk)


def test_a_malformed_statement_is_refused(posted: Posted) -> None:
    carried = posted.proof.verification_key
    for changed in (
        {**carried, "kind": "winning-post"},
        {**carried, "kind": "another"},
        {**carried, "statement": {}},
        {**carried, "statement": {**carried["statement"], "randomness": b"short"}},
        {**carried, "statement": {**carried["statement"], "sectors": [5]}},
        {**carried, "more": 1},
    ):
        with pytest.raises(FormatError):
            verify_proof(replace(posted.proof, verification_key=changed), posted.vk)


def test_proofs_in_another_order_are_refused(posted: Posted) -> None:
    proof = posted.proof
    with pytest.raises(InvalidProof):
        verify_proof(replace(proof, partitions=proof.partitions[::-1]), posted.vk)


def test_every_sector_is_stated_and_few_are_shown() -> None:
    sectors = tuple((number, bytes([number]) * 31 + b"\0") for number in range(1, 13))
    statement = PostStatement(POST_PROOFS["StackedDrgWindow2KiBV1_2"], bytes(32), sectors)
    made = Stated()
    made.statement = statement
    proven = made.explain([])
    assert proven["stated"]["sectors"] == ", ".join(f"{number}: {comm_r.hex()}" for number, comm_r in sectors)
    shown = dict(proven_rows(proven))
    assert f"8: {sectors[7][1].hex()}, and 4 more (--json has all)" in shown["sectors"]
    assert sectors[8][1].hex() not in shown["sectors"]

    listed = [{"comm_r": comm_r, "sector": number} for number, comm_r in sectors]
    record = {"proof_type": "StackedDrgWindow2KiBV1_2", "randomness": bytes(32), "sectors": listed}
    packed = msgpack.packb(["distprove/filecoin/statement/1", ["window-post", record]])
    assert shown["statement digest"] == hashlib.sha256(packed).hexdigest()
    made.statement = replace(statement, sectors=(*sectors[:-1], (12, bytes(32))))
    assert made.explain([])["stated"]["statement digest"] != shown["statement digest"]


def test_a_job_file_and_python_say_the_same(posted: Posted, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    lines = [f'{name} = "{value}"' for name, value in posted.options.items()]
    job.write_text("\n".join(['system = "filecoin"', *lines, "[executor]", "local = true", "isolate = false"]))
    done = run("prove", job, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    local = {"local": True, "isolate": False}
    value = judged("window_post")[0]
    value[0]["vanilla_proof"]["sectors"][0]["comm_c"][0] ^= 1
    options = {**posted.options, "window_post": written(tmp_path / "w.json", value)}
    with pytest.raises(VanillaMismatch, match="comm_r is not the hash"):
        distprove.prove(system="filecoin", out=tmp_path / "other", executor=local, **options)
    assert not (tmp_path / "other").exists()


def test_a_file_that_was_written_again_is_not_resumed(posted: Posted) -> None:
    out = posted.folder / "run"
    (out / "proof.msgpack").unlink()
    assert run("resume", out).exit_code == 0
    (posted.folder / "window.json").write_text((posted.folder / "window.json").read_text() + "\n")
    assert "changed since the run began: window_post" in why_refused(run("resume", out))
