"""cuzk's interface: a client built from its published messages has sectors proven by a real service."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from cluster.service.client import Client
from cluster.service.contact import Contact
from cluster.service.cuzk.engine import Engine, _base
from cluster.service.cuzk.messages import MESSAGES, METHODS, SERVICE, number_of
from cluster.service.cuzk.requests import read_request
from cluster.service.cuzk.server import CuzkServer, require_local
from cluster.service.http.access import make_tokens
from cluster.service.http.server import Options, Server
from cluster.service.requests import usual_priority
from cluster.service.service import Service
from cluster.service.views import ID, Priority
from distprove.errors import InputError, ServiceGone, UsageError
from distprove.filecoin.verifier import snark
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.verification import verify_proof
from tests.cli.conftest import run
from tests.filecoin.test_bincode import load

WINDOW_2KIB = 10
"""The registered number of StackedDrgWindow2KiBV1_1, the newest WindowPoSt of 2 KiB."""


@dataclass(frozen=True)
class Node:
    """A curio node: it knows an address and the published messages."""

    channel: Any
    keys: Path
    spool: Path
    runs: Path
    engine: Engine

    def ask(self, method: str, **fields: Any) -> Any:
        asked, answered = (MESSAGES[name] for name in METHODS[method])
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        return call(asked(**fields), timeout=200)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("cuzk")
    keys, spool = folder / "keys", folder / "spool"
    for each in (keys, spool):
        each.mkdir(mode=0o700)
    made = run(
        *("setup", "groth16", "--circuit", "filecoin/window-post-2KiB", "--insecure-dev"),
        *("--out", keys / "window-post-2KiB.zkey", "--vk", keys / "vk.json"),
    )
    assert made.exit_code == 0, made.output
    service = Service(folder / "service", ExecutorSettings(local=True, isolate=False, gpus=0, threads=2))
    tokens = folder / "service" / "tokens"
    make_tokens(tokens)
    server = Server(service, Options(tokens, "127.0.0.1", 0, False), lambda drain: None)
    service.start()
    server.start()
    connect = partial(Client, Contact(server.url, str(tokens)))
    engine = Engine(connect, keys, spool)
    cuzk = CuzkServer(engine, f"unix:{folder}/cuzk.sock")
    cuzk.start()
    try:
        with grpc.insecure_channel(f"unix:{folder}/cuzk.sock") as channel:
            yield Node(channel, keys, spool, folder / "service" / "runs", engine)
    finally:
        cuzk.stop()
        server.close()
        service.close(drain=False)


def window(**changed: Any) -> dict[str, Any]:
    """The fields of a request for a WindowPoSt of two sectors that filecoin-proofs sealed."""
    own = load()["window"]
    fields = {
        "request_id": "wpost-1000-0",
        "proof_kind": number_of("ProofKind", "WINDOW_POST_PARTITION"),
        "sector_size": 2048,
        "registered_proof": WINDOW_2KIB,
        "vanilla_proofs": [base64.b64decode(text) for text in own["bincode"]],
        "randomness": bytes.fromhex(own["facts"]["randomness"]),
        "miner_id": 1000,
    }
    return {**fields, **changed}


def test_a_node_has_a_partition_proven(node: Node) -> None:
    result = node.ask("Prove", submit=MESSAGES["SubmitProofRequest"](**window())).result
    assert result.status == number_of("AwaitProofResponse.Status", "COMPLETED"), result.error_message
    proof = Proof.read_from(node.runs / result.job_id)
    assert result.proof == snark(proof.partitions)
    assert len(result.proof) == 192
    verify_proof(proof, vk=node.keys / "vk.json")
    assert result.total_ms >= result.gpu_compute_ms > 0
    assert list(node.spool.iterdir()) == []  # vanilla proofs stay no longer than their jobs
    # The same request again is the same job, and another one of that id has an id of its own.
    again = node.ask("SubmitProof", **window())
    assert again.job_id == result.job_id
    assert node.ask("AwaitProof", job_id=again.job_id).proof == result.proof
    other = node.ask("SubmitProof", **window(vanilla_proofs=window()["vanilla_proofs"][:1]))
    assert other.job_id == f"{result.job_id}-2"
    told = node.ask("AwaitProof", job_id=other.job_id)
    assert told.status == number_of("AwaitProofResponse.Status", "COMPLETED")
    status = node.ask("GetStatus")
    assert status.total_proofs_completed == 2
    assert [key.circuit_id for key in status.loaded_srs] == ["wpost-2k"]
    assert {queue.proof_kind for queue in status.queues} >= {"WINDOW_POST_PARTITION", "POREP_SEAL_COMMIT"}
    assert sum(queue.pending + queue.in_progress for queue in status.queues) == 0
    assert "distprove_" in node.ask("GetMetrics").prometheus_text


def test_a_request_that_does_not_hold_fails_by_name(node: Node) -> None:
    result = node.ask(
        "Prove", submit=MESSAGES["SubmitProofRequest"](**window(request_id="bad", randomness=bytes(32)))
    ).result
    assert result.status == number_of("AwaitProofResponse.Status", "FAILED")
    assert "the path's index is" in result.error_message
    assert result.proof == b""
    assert node.ask("AwaitProof", job_id="nobody").status == number_of("AwaitProofResponse.Status", "UNKNOWN")
    for changed, text in (
        ({"sector_size": 1 << 35}, "sector_size is"),
        ({"registered_proof": 99}, "has the number 99"),
        ({"proof_kind": 0}, "no kind of proof"),
        ({"vanilla_proofs": []}, "no vanilla_proofs"),
        ({"randomness": b"x"}, "randomness has 32 bytes"),
        ({"registered_proof": 0, "proof_kind": number_of("ProofKind", "WINNING_POST")}, "has 1 sector"),
        ({"registered_proof": 11, "sector_size": 1 << 23}, "no key for window-post-8MiB"),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            node.ask("SubmitProof", **window(**changed))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        node.ask("PreloadSRS", circuit_id="porep-32g")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no key for porep-32GiB" in refused.value.details()
    for method in ("PreloadSRS", "EvictSRS"):
        with pytest.raises(grpc.RpcError) as refused:
            node.ask(method, circuit_id="porep-33g")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "no circuit 'porep-33g'" in refused.value.details()


def test_a_key_is_loaded_ahead_and_put_away(node: Node) -> None:
    def keys() -> dict[str, int]:
        return {each.circuit_id: each.ref_count for each in node.ask("GetStatus").loaded_srs}

    node.ask("EvictSRS", circuit_id="wpost-2k")  # whatever other jobs left
    assert keys() == {}
    first, again = (node.ask("PreloadSRS", circuit_id=name) for name in ("wpost-2k", "window-post-2KiB"))
    assert not first.already_loaded
    assert first.load_time_ms > 0
    assert again.already_loaded
    assert again.load_time_ms == 0
    assert keys() == {"wpost-2k": 0}
    done = node.ask("Prove", submit=MESSAGES["SubmitProofRequest"](**window(request_id="warm")))
    assert done.result.status == number_of("AwaitProofResponse.Status", "COMPLETED")
    with node.engine._connect() as client:
        assert client.status("warm").cold is False
    evicted, absent = (node.ask("EvictSRS", circuit_id="wpost-2k") for _ in range(2))
    assert evicted.was_loaded
    assert evicted.freed_bytes > 0
    assert not absent.was_loaded
    assert keys() == {}


def test_a_job_is_cancelled_while_it_is_waited_for(node: Node) -> None:
    found: list[Any] = []
    made = node.ask("SubmitProof", **window(request_id="cancelled", priority=number_of("Priority", "LOW")))
    waits = threading.Thread(target=lambda: found.append(node.ask("AwaitProof", job_id=made.job_id)))
    waits.start()
    assert node.ask("AwaitProof", job_id=made.job_id, timeout_ms=1).status in (
        number_of("AwaitProofResponse.Status", "TIMEOUT"),
        number_of("AwaitProofResponse.Status", "COMPLETED"),
    )
    node.ask("CancelProof", job_id=made.job_id)
    waits.join(100)
    assert found[0].status in (
        number_of("AwaitProofResponse.Status", "CANCELLED"),
        number_of("AwaitProofResponse.Status", "COMPLETED"),  # it was over before
    )
    assert list(node.spool.iterdir()) == []


def test_a_file_lies_in_the_spool_as_long_as_its_job_needs_it(node: Node) -> None:
    own = node.engine
    with pytest.raises(grpc.RpcError, match="has the number 99"):
        node.ask("SubmitProof", **window(request_id="refused", registered_proof=99))
    made = node.ask("SubmitProof", **window(request_id="swept"))
    (file,) = [path for path in node.spool.iterdir() if path.name.startswith(made.job_id)]
    stray = node.spool / f"nobody.{'0' * 24}.json"
    stray.write_text("[]")
    own.sweep()
    assert stray.exists()  # it may belong to a request that is being submitted
    with own._connect() as client:
        client.wait(made.job_id, 100)
    for path in (file, stray):
        os.utime(path, (0, 0))
    own.sweep()
    assert list(node.spool.iterdir()) == []
    # What is known of the job is not in memory: another engine answers.
    assert len(Engine(own._connect, node.keys, node.spool).wait(asked(made.job_id)).proof) == 192


def asked(job: str, timeout_ms: int = 0) -> Any:
    return MESSAGES["AwaitProofRequest"](job_id=job, timeout_ms=timeout_ms)


def test_jobs_of_others_are_none_of_a_nodes_business(node: Node) -> None:
    with node.engine._connect() as client:
        client.submit({"system": "groth16", "title": "mine"} | other_job(node), id="mine")
    assert node.ask("AwaitProof", job_id="mine").status == number_of("AwaitProofResponse.Status", "UNKNOWN")
    with pytest.raises(grpc.RpcError) as refused:
        node.ask("CancelProof", job_id="mine")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    with node.engine._connect() as client:
        client.cancel("mine")


def other_job(node: Node) -> dict[str, Any]:
    """A job that fails: its input is none."""
    path = node.keys / "x.json"
    path.write_text("{}")
    key = str(node.keys / "window-post-2KiB.zkey")
    return {"zkey": key, "circuit": "filecoin/window-post-2KiB", "inputs": [str(path)]}


def test_a_call_that_nobody_waits_for_ends(node: Node) -> None:
    made = node.ask("SubmitProof", **window(request_id="left", priority=number_of("Priority", "LOW")))
    looks: list[None] = []
    try:
        node.engine.wait(asked(made.job_id), wanted=lambda: bool(looks.append(None)))
    except ServiceGone:
        assert len(looks) == 1
    node.ask("AwaitProof", job_id=made.job_id)
    assert list(node.spool.iterdir()) == []


def test_ids_of_jobs_are_those_of_requests_or_made_of_them() -> None:
    assert _base("porep-1000-7") == "porep-1000-7"
    made = [_base(each) for each in ("a/b", "a-b", "a" * 90, "a" * 91, "../x", "é", "-")]
    assert len(set(made)) == len(made)
    assert all(ID.match(each) for each in made)
    assert _base("") != _base("")


def test_more_sectors_than_a_partition_has_are_refused() -> None:
    many = window(vanilla_proofs=[b"x"] * 3)
    with pytest.raises(UsageError, match="3 vanilla proofs, and a partition of"):
        read_request(MESSAGES["SubmitProofRequest"](**many))


def test_urgent_kinds_go_first() -> None:
    own = {
        kind: number_of("ProofKind", kind) for kind in ("WINNING_POST", "WINDOW_POST_PARTITION", "POREP_SEAL_COMMIT")
    }
    request = MESSAGES["SubmitProofRequest"]

    def priority(kind: str, **more: Any) -> Priority:
        number = WINDOW_2KIB if kind == "WINDOW_POST_PARTITION" else 0
        proofs = {"vanilla_proof": b"{}", "vanilla_proofs": [b"x"]}
        fields = window(proof_kind=own[kind], registered_proof=number, **proofs, **more)
        return read_request(request(**fields)).priority

    assert priority("WINNING_POST") is Priority.URGENT
    assert priority("WINDOW_POST_PARTITION") is Priority.HIGH
    assert priority("POREP_SEAL_COMMIT") is Priority.NORMAL
    assert priority("POREP_SEAL_COMMIT", priority=number_of("Priority", "CRITICAL")) is Priority.URGENT


def test_a_request_becomes_a_job() -> None:
    request = MESSAGES["SubmitProofRequest"]
    asked = read_request(
        request(
            proof_kind=number_of("ProofKind", "POREP_SEAL_COMMIT"),
            registered_proof=8,
            sector_size=1 << 35,
            vanilla_proof=b"{}",
            miner_id=1000,
            sector_number=7,
        )
    )
    assert (asked.circuit, asked.file, asked.vanilla) == ("porep-32GiB", "c1", b"{}")
    assert asked.settings == {"proof_type": "StackedDrg32GiBV1_1", "prover_id": "f01000", "sector": 7}
    update = {
        "proof_kind": number_of("ProofKind", "SNAP_DEALS_UPDATE"),
        "registered_proof": 3,
        "vanilla_proofs": [b"a"],
    }
    with pytest.raises(InputError, match="comm_r_old has 32 bytes"):
        read_request(request(**update))
    commitments = {name: bytes([k]) * 32 for k, name in enumerate(("comm_r_old", "comm_r_new", "comm_d_new"))}
    asked = read_request(request(**update, **commitments))
    assert asked.circuit == "snap-deals-32GiB"
    assert asked.settings == {
        "proof_type": "StackedDrg32GiBV1",
        **{name: value.hex() for name, value in commitments.items()},
    }
    with pytest.raises(UsageError, match="non-interactive"):
        read_request(request(proof_kind=1, registered_proof=18, vanilla_proof=b"{}"))
    with pytest.raises(UsageError, match="only the first is proven alone"):
        read_request(request(**{**window(), "registered_proof": 5, "partition_index": 1}))


def test_messages_have_the_published_numbers() -> None:
    """Of curio's lib/cuzk/proving.pb.go: what a client there encodes, byte by byte."""
    request = MESSAGES["SubmitProofRequest"](request_id="a", proof_kind=2, vanilla_proofs=[b"x", b""], comm_d_new=b"z")
    assert request.SerializeToString() == bytes.fromhex("0a016110025a01785a0082027a"[:-2] + "017a")
    answer = MESSAGES["AwaitProofResponse"](job_id="j", status=3, total_ms=300)
    assert answer.SerializeToString() == bytes.fromhex("0a016a100370ac02")


def test_only_this_machine_is_listened_to() -> None:
    for address in ("127.0.0.1:9820", "[::1]:9820", "localhost:0", "unix:/tmp/a.sock"):
        require_local(address)
    for address in ("0.0.0.0:9820", "10.0.0.1:1", "example.org:1", ":9820", "[::]:9820"):
        with pytest.raises(UsageError, match="for this machine"):
            require_local(address)


def test_the_service_gives_proofs_with_a_deadline_the_same_priorities() -> None:
    def usual(**options: str) -> Priority:
        job: Any = SimpleNamespace(system="filecoin", options=SimpleNamespace(**options))
        return usual_priority(job)

    assert usual(winning_post="w.json") is Priority.URGENT
    assert usual(window_post="w.json") is Priority.HIGH
    assert usual(c1="c1.json") is Priority.NORMAL
