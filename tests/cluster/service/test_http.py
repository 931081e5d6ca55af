"""The service's API as clients and strangers find it: what is answered, to whom, and what is refused."""

from __future__ import annotations

import errno
import gc
import http.client
import json
import os
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cluster.record.report import PartitionReport, Report, WorkerReport
from cluster.service.http import access, events
from cluster.service.http import server as server_module
from cluster.service.http.access import TOKENS, Rates, Tokens, is_local_name, peer_of, read_token, read_tokens
from cluster.service.http.api import TABLE
from cluster.service.http.calls import OF_EACH, SAFE
from cluster.service.http.events import Notifier
from cluster.service.http.openapi import document
from cluster.service.http.routes import Table
from cluster.service.views import MOST_SUBMITTED, JobState, JobView
from distprove.errors import AccessDenied, InputError, QueueFull, ResourceError, UsageError
from tests.support.circles import circles
from tests.support.fake_service import Served, served
from tests.support.own_module import give
from tests.support.own_time import give_time

DOCUMENT = document(TABLE)
REPORT = json.dumps(
    Report("toy", {}, "local", "ab" * 32, [PartitionReport("p0")], [WorkerReport("w", "prover", "n")]).to_record()
)
JOB = {"system": "toy", "title": "<b>x</b>"}
PATIENCE = 120.0
"""Seconds after which something that should have happened has not."""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.content = response.status, response.headers, response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.content)


def ask(
    here: Served,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = "",
    headers: dict[str, str] | None = None,
    data: bytes | None = None,
) -> Answer:
    """One request, whose answer is held against the OpenAPI document. `token`: None for none, "" for the right one."""
    sent = {} if token is None else {"Authorization": f"Bearer {token or here.token}"}
    if body is not None:
        data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    connection = http.client.HTTPConnection(*here.address, timeout=120)
    try:
        connection.request(method, path, data, {**sent, **(headers or {})})
        found = Answer(connection.getresponse())
    finally:
        connection.close()
    check_answer(method, path.partition("?")[0], found)
    return found


def check_answer(method: str, path: str, found: Answer) -> None:
    """Hold an answer against the document, where it has the path, and against what all answers have."""
    for name, value in SAFE.items():
        assert found.headers[name] == value
    assert "Set-Cookie" not in found.headers
    assert "Access-Control-Allow-Origin" not in found.headers
    if method == "HEAD":
        assert found.content == b""
        return
    if found.status >= 400:
        assert found.json.keys() == {"error", "kind", "exit_code"}
    parts = path.strip("/").split("/")
    known = next((p for p in DOCUMENT["paths"] if fits(p.strip("/").split("/"), parts)), None)
    if known is None or method.lower() not in DOCUMENT["paths"][known]:
        assert found.status in (404, 405, 421)
        return
    told = DOCUMENT["paths"][known][method.lower()]["responses"][str(found.status)]
    media = found.headers["Content-Type"].partition(";")[0]
    schema = told["content"][media].get("schema")
    if schema is not None and media == "application/json":
        jsonschema.validate(found.json, {**schema, "components": DOCUMENT["components"]})


def fits(pattern: list[str], parts: list[str]) -> bool:
    return len(pattern) == len(parts) and all(a in ("{id}", "{name}", b) for a, b in zip(pattern, parts, strict=True))


def submit(here: Served, id: str = "a", **job: Any) -> Answer:
    return ask(here, "POST", "/v1/jobs", {"id": id, "job": {**JOB, **job}})


# -- what is answered --------------------------------------------------------------------------------------------------


def test_a_job_from_its_submission_to_its_proof(here: Served) -> None:
    made = submit(here)
    assert (made.status, made.json["state"], made.json["title"]) == (201, "queued", "<b>x</b>")
    assert submit(here).status == 200
    assert submit(here, title="another").status == 409
    for name in ("proof", "report", "output"):
        early = ask(here, "GET", f"/v1/jobs/a/{name}")
        assert (early.status, early.json["kind"]) == (404, "InputError")
    assert ask(here, "GET", "/v1/jobs/b").status == 404
    assert ask(here, "GET", "/v1/jobs/a/log?after=1").json == {"lines": ["proved p0", "ended"], "next": 3}

    run = here.service.folder / "a"
    run.mkdir()
    (run / "proof.msgpack").write_bytes(os.urandom(1 << 20))
    (run / "report.json").write_text(REPORT)
    here.service.change("a", state=JobState.PROVED, exit_code=0)
    assert ask(here, "GET", "/v1/jobs/a/proof").content == (run / "proof.msgpack").read_bytes()
    none = ask(here, "GET", "/v1/jobs/a/output")
    assert (none.status, none.json["error"]) == (404, "a has no output")
    (run / "output.bin").write_bytes(os.urandom(1 << 20))
    assert ask(here, "GET", "/v1/jobs/a/output").content == (run / "output.bin").read_bytes()
    assert ask(here, "GET", "/v1/jobs/a/report").json == json.loads(REPORT)
    assert [job["id"] for job in ask(here, "GET", "/v1/jobs?state=proved&limit=5").json["jobs"]] == ["a"]
    assert ask(here, "GET", "/v1/jobs?state=failed").json == {"jobs": []}
    assert ask(here, "GET", "/v1/overview").json["counts"]["proved"] == 1


def test_jobs_submitted_together_are_taken_or_refused_one_by_one(tmp_path: Path) -> None:
    with served(tmp_path, capacity=2) as here:
        first = {"id": "a", "job": JOB}
        lot = [first, {"id": "b", "job": {}}, first, {"id": "a", "job": {"system": "other"}}, {"id": "c", "job": JOB}]
        found = ask(here, "POST", "/v1/submissions", {"jobs": [*lot, {"id": "d", "job": JOB}]})
        assert found.status == 200
        kinds = [each["error"] and each["error"]["kind"] for each in found.json["jobs"]]
        assert kinds == [None, "InputError", None, "IdTaken", None, "QueueFull"]
        assert [each["retry_after"] for each in found.json["jobs"]] == [None] * 5 + [2.5]
        assert [job["id"] for job in ask(here, "GET", "/v1/jobs").json["jobs"]] == ["c", "a"]
        # What is no list of jobs is refused as a whole.
        for jobs, said in (([{"id": "../x", "job": JOB}], "id of a job"), ([{"id": "e"}], "no `job`"), ("e", "list")):
            refused = ask(
                here,
                "POST",
                "/v1/submissions",
                {"jobs": [{"id": "f", "job": JOB}, *jobs]} if jobs != "e" else {"jobs": jobs},
            )
            assert refused.status == 422
            assert said in refused.json["error"]
        most = [{"id": f"m{n}", "job": JOB} for n in range(MOST_SUBMITTED + 1)]
        assert ask(here, "POST", "/v1/submissions", {"jobs": most}).status == 422
        assert ask(here, "GET", "/v1/jobs/f").status == 404
        assert ask(here, "POST", "/v1/submissions", {"jobs": []}).json == {"jobs": []}


def test_jobs_submitted_together_count_as_so_many_requests(tmp_path: Path) -> None:
    with served(tmp_path, rate=2.0, capacity=1000) as here:  # eight at once
        jobs = [{"id": f"j{n}", "job": JOB} for n in range(200)]
        assert ask(here, "POST", "/v1/submissions", {"jobs": jobs}).status == 200
        full = ask(here, "GET", "/v1/overview")
        assert full.status == 429
        assert int(full.headers["Retry-After"]) > 60


def test_a_request_waits_for_the_end_of_a_job_and_for_no_other(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, woken, until, wake = threading.Event(), list[tuple[str, bool]](), Notifier.until, Notifier._wake

    async def waiting(
        self: Notifier, who: str, id: str, look: Callable[[], Awaitable[JobView]], seconds: float
    ) -> JobView:
        async def looked() -> JobView:
            view = await look()
            waits.set()
            return view

        return await until(self, who, id, looked, seconds)

    def waking(self: Notifier, id: str) -> None:
        wake(self, id)
        woken.extend((id, waiter.is_set()) for waiter in self._waiters.get(id, ()))

    def end() -> None:
        assert waits.wait(200)
        here.service.change("a", state=JobState.FAILED, exit_code=2)

    submit(here, "a")
    submit(here, "b")
    monkeypatch.setattr(Notifier, "until", waiting)
    monkeypatch.setattr(Notifier, "_wake", waking)
    ending = threading.Thread(target=end)
    ending.start()
    assert ask(here, "GET", "/v1/jobs/a?wait=60").json["state"] == "failed"
    ending.join()
    assert woken == [("a", True)], "it was answered because the job ended, and not because its time was up"
    assert ask(here, "GET", "/v1/jobs/b?wait=0.01").json["state"] == "queued"
    assert ask(here, "POST", "/v1/jobs/b/cancel").json["state"] == "cancelled"
    assert ask(here, "GET", "/v1/jobs/b?wait=60").json["exit_code"] == 130


def test_waiting_takes_no_thread_from_other_requests(here: Served) -> None:
    submit(here, "a")
    threads = [threading.Thread(target=ask, args=(here, "GET", "/v1/jobs/a?wait=60")) for _ in range(24)]
    for thread in threads:
        thread.start()
    assert ask(here, "GET", "/v1/overview").status == 200
    here.service.change("a", state=JobState.PROVED, exit_code=0)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    with served(tmp_path, capacity=1) as here:
        submit(here, "a")
        full = submit(here, "b")
        assert (full.status, full.json["kind"], full.headers["Retry-After"]) == (503, "QueueFull", "3")
        assert submit(here, "a").status == 200


def test_health_is_told_to_anybody_and_nothing_else_is(here: Served) -> None:
    assert ask(here, "GET", "/healthz", token=None).json == {"status": "alive"}
    assert ask(here, "GET", "/readyz", token=None).status == 200
    here.service.accepting = False
    assert ask(here, "GET", "/readyz", token=None).status == 503
    assert ask(here, "GET", "/openapi.json", token=None).json == json.loads(json.dumps(DOCUMENT))


def test_listeners_hear_of_changes_and_their_number_is_bounded(here: Served) -> None:
    submit(here, "a")
    share_out(here)
    listening = [listen(here) for _ in range(8)]
    assert next_snapshot(listening[0][1])["jobs"][0]["state"] == "queued"
    assert "of this token" in ask(here, "GET", "/v1/events").json["error"]
    listening += [listen(here, token * 43) for token in "xyz" for _ in range(8)]
    assert {response.status for _, response in listening} == {200}, "one token does not take those of others"
    full = ask(here, "GET", "/v1/events", token="v" * 43)
    assert (full.json["kind"], full.json["error"]) == ("QueueFull", "32 listeners follow this service already")
    here.service.change("a", state=JobState.RUNNING)
    assert next_snapshot(listening[0][1])["jobs"][0]["state"] == "running"
    for connection, _ in listening:
        connection.close()
    for _ in range(600):  # until the server has noticed
        connection, response = listen(here)
        if response.status == 200:
            break
        connection.close()
        time.sleep(0.2)
    assert next_snapshot(response)["overview"]["running"] == 1
    connection.close()


def share_out(here: Served) -> None:
    """Have the service know the tokens of four others."""
    here.tokens.write_text(here.tokens.read_text() + "".join(f"{name} {name * 43}\n" for name in "vxyz"))
    deadline = time.monotonic() + 120
    while ask(here, "GET", "/v1/overview", token="z" * 43).status != 200:  # within a second
        assert time.monotonic() < deadline
        time.sleep(0.05)


def listen(here: Served, token: str = "") -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(*here.address, timeout=120)
    connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {token or here.token}"})
    return connection, connection.getresponse()


def test_one_token_waits_with_no_more_than_its_share_of_connections(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request that waits holds one of the 512 connections for a minute."""
    monkeypatch.setattr(events, "WAITERS_OF_EACH", 2)
    submit(here, "a")
    share_out(here)

    def wait() -> None:
        while ask(here, "GET", "/v1/jobs/a?wait=60").status == 503:  # the look below was there first
            time.sleep(0.05)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while (more := ask(here, "GET", "/v1/jobs/a?wait=0.01")).status == 200:
        assert time.monotonic() < deadline
    assert (more.status, more.json["kind"]) == (503, "QueueFull")
    assert ask(here, "GET", "/v1/jobs/a").status == 200, "who does not wait takes no share"
    assert ask(here, "GET", "/v1/jobs/a?wait=0.01", token="x" * 43).status == 200
    here.service.change("a", state=JobState.PROVED, exit_code=0)
    for thread in threads:
        thread.join(PATIENCE)
    assert ask(here, "GET", "/v1/jobs/a?wait=0.01").status == 200


def test_head_is_answered_as_get_is_and_without_a_body(here: Served) -> None:
    submit(here, "a")
    run = here.service.folder / "a"
    run.mkdir()
    (run / "proof.msgpack").write_bytes(os.urandom(1 << 20))
    (run / "output.bin").write_bytes(b"output")
    (run / "report.json").write_text(REPORT)
    here.service.change("a", state=JobState.PROVED, exit_code=0)
    for route in TABLE.routes:
        if route.method != "GET":
            continue
        path = route.path.replace("{id}", "a").replace("{name}", "proof.msgpack")
        head = ask(here, "HEAD", path)
        assert (head.status, head.content) == (200, b""), path
        if path != "/v1/events":
            got = ask(here, "GET", path)
            kept = ("Content-Type", *(() if path in ("/metrics", "/v1/overview") else ("Content-Length",)))
            assert all(head.headers[name] == got.headers[name] for name in kept), path
    assert ask(here, "HEAD", "/v1/jobs/none").status == 404
    assert ask(here, "HEAD", "/v1/jobs", token=None).status == 401


def next_snapshot(response: http.client.HTTPResponse) -> Any:
    while True:
        line = response.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            found = json.loads(line[6:])
            schema = {"$ref": "#/components/schemas/Snapshot", "components": DOCUMENT["components"]}
            jsonschema.validate(found, schema)
            return found


def test_a_listener_whose_token_is_withdrawn_hears_no_more(here: Served) -> None:
    connection, response = listen(here)
    assert next_snapshot(response)
    other = here.tokens.with_name("other")
    other.touch(0o600)
    other.write_text(f"another {'x' * 43}\n")
    other.replace(here.tokens)  # one that is half written lets nobody in for a second
    assert response.read() is not None  # to the end
    connection.close()
    assert ask(here, "GET", "/v1/overview").status == 401
    assert ask(here, "GET", "/v1/overview", token="x" * 43).status == 200


def test_a_job_is_that_of_whoever_shows_its_token(here: Served) -> None:
    here.tokens.write_text(f"{here.tokens.read_text()}another {'x' * 43}\n")
    deadline = time.monotonic() + 120
    while ask(here, "GET", "/v1/overview", token="x" * 43).status != 200:  # within a second
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ask(here, "POST", "/v1/jobs", {"id": "owned", "job": {"system": "toy"}})
    ask(here, "POST", "/v1/jobs", {"id": "theirs", "job": {"system": "toy"}}, token="x" * 43)
    assert here.service.clients == {"owned": "", "theirs": "another"}


def test_the_end_of_the_service_is_asked_for_once_it_is_said_how(here: Served) -> None:
    assert ask(here, "POST", "/v1/shutdown", {"drain": False}).status == 202
    assert ask(here, "POST", "/v1/shutdown", {}).json == {"status": "draining"}
    assert ask(here, "POST", "/v1/shutdown", {"drain": 1}).status == 422
    assert here.shut == [False, True]


def key(name: str) -> dict[str, Any]:
    return {"system": "groth16", "files": {"zkey": name}}


def test_a_key_is_loaded_ahead(here: Served) -> None:
    assert ask(here, "POST", "/v1/keys/load", key("loaded")).json["already"]
    begun = ask(here, "POST", "/v1/keys/load", key("slow"))
    assert begun.json == {"id": "cd" * 32, "loaded": False, "already": False, "seconds": 2.5, "bytes": 0}
    began = time.monotonic()
    assert not ask(here, "POST", "/v1/keys/load?wait=0.3", key("slow")).json["loaded"]  # it never is
    assert time.monotonic() - began >= 0.3
    faulty = ask(here, "POST", "/v1/keys/load?wait=5", key("faulty"))
    assert (faulty.status, faulty.json["error"]) == (422, "faulty: no points")
    assert ask(here, "GET", "/v1/keys").json["keys"][0]["digest"] == "ab" * 16


def test_no_error_is_logged_of_a_key_for_which_nobody_waits_any_more(
    here: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio logs, with all that it says, each error of a future that nobody asks for it."""
    assert not ask(here, "POST", "/v1/keys/load?wait=0.01", key("slow")).json["loaded"]
    here.service.keys.asked.pop().set_exception(InputError("/home/ada/secret.zkey: no points"))
    assert ask(here, "POST", "/v1/keys/load", key("loaded")).json["loaded"]  # the loop has had its turn
    gc.collect()
    assert "secret" not in caplog.text


def test_a_key_is_put_away_unless_it_is_used(here: Served) -> None:
    assert ask(here, "POST", "/v1/keys/evict", key("idle")).json["was_loaded"]
    refused = ask(here, "POST", "/v1/keys/evict", key("used"))
    assert (refused.status, refused.json["kind"]) == (409, "InUse")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"system": "groth16"},
        {"system": "groth16", "files": {"zkey": 3}},
        {"system": "groth16", "files": {str(n): "k" for n in range(5)}},
        {"system": "groth16", "files": {"zkey": "k" * 5000}},
        {"system": "groth16", "files": {"zkey": "k\0"}},
        {"system": "groth16", "files": {"zkey": "k"}, "more": 1},
    ],
)
def test_what_names_no_key_is_refused(here: Served, body: dict[str, Any]) -> None:
    for path in ("/v1/keys/load", "/v1/keys/evict"):
        assert ask(here, "POST", path, body).status == 422


# -- the document ------------------------------------------------------------------------------------------------------


def test_the_document_has_every_route_and_its_schemas_are_schemas() -> None:
    assert {(r.method.lower(), r.path) for r in TABLE.routes} == {
        (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = [told["operationId"] for methods in DOCUMENT["paths"].values() for told in methods.values()]
    assert len(set(names)) == len(names)
    text = json.dumps(DOCUMENT)
    for reference in set(text.split('"$ref": "#/components/schemas/')[1:]):
        assert reference.partition('"')[0] in DOCUMENT["components"]["schemas"]
    request = DOCUMENT["components"]["schemas"]["JobRequest"]
    assert request["required"] == ["id", "job"]
    assert not request["additionalProperties"]
    for path, methods in DOCUMENT["paths"].items():
        for method, told in methods.items():
            for code, response in told["responses"].items():
                assert all(each["schema"] for each in response["content"].values()), (path, method, code)
    assert DOCUMENT["components"]["schemas"]["JobView"]["properties"]["run"]["description"] == "The run's folder."


@pytest.mark.parametrize(
    ("job", "good"),
    [
        ({"system": "stark", "program": "fibonacci", "arguments": {"rows": 16}, "partitions": "auto"}, True),
        ({"system": "groth16", "zkey": "z", "wasm": "w", "inputs": [{"a": 1}], "title": "t"}, True),
        ({"system": "groth16", "zkey": "z", "witnesses": ["w"]}, True),
        ({"system": "groth16", "zkey": "z", "witnesses": ["w"], "security": 1}, False),
        ({"system": "stark"}, False),
        ({"system": "stark", "program": "fibonacci", "security": 129}, False),
        ({"system": "stark", "program": "fibonacci", "executor": {}}, False),
        ({"system": "none"}, False),
    ],
)
def test_the_document_says_what_a_job_may_have(job: dict[str, Any], good: bool) -> None:
    schema = {"$ref": "#/components/schemas/JobRequest", "components": DOCUMENT["components"]}
    found = list(jsonschema.Draft202012Validator(schema).iter_errors({"id": "a", "job": job}))
    assert (not found) is good


def test_the_document_has_the_errors_of_a_list_and_of_what_is_expected(here: Served) -> None:
    responses = DOCUMENT["paths"]["/v1/jobs"]["get"]["responses"]
    assert {"400", "401", "404", "417", "422"} <= responses.keys()
    assert ask(here, "GET", "/v1/jobs?before=none").status == 404


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"id": "a"}, "no `job`"),
        ({"id": "a", "job": []}, "table"),
        ({"id": 1, "job": JOB}, "string"),
        ({"id": "../a", "job": JOB}, "id of a job"),
        ({"id": "a", "job": JOB, "prioriti": "low"}, "priority"),
        ({"id": "a", "job": JOB, "priority": "lo"}, "low"),
        ({"id": "a", "job": JOB, "out": 3}, "string"),
        ([], "table"),
        ({"id": "a", "job": {}}, "system"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(here: Served, body: Any, said: str) -> None:
    found = ask(here, "POST", "/v1/jobs", body)
    assert found.status == 422
    assert said in found.json["error"]
    assert found.json["exit_code"] == 2


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[" * 100_000, b'{"id": NaN}', b"\xff", b'{"a":' * 40 + b"1" + b"}" * 40, b"9" * 10_000, b'"\\ud800"'],
)
def test_what_is_not_json_costs_nothing(here: Served, data: bytes) -> None:
    found = ask(here, "POST", "/v1/jobs", data=data, headers={"Content-Type": "application/json"})
    assert found.status == 422


def test_numbers_of_a_body_are_what_their_text_says(here: Served) -> None:
    def submitted(id: str, number: str) -> int:
        body = f'{{"id": "{id}", "job": {{"system": "toy", "inputs": [{{"a": [{number}]}}]}}}}'
        return ask(here, "POST", "/v1/jobs", data=body.encode(), headers={"Content-Type": "application/json"}).status

    for number in ("1.00000000000000000001", "4503599627370497.4", "1e-400", "1e400", "NaN"):
        assert submitted("a", number) == 422, number
    for at, number in enumerate(["9007199254740993.0", "1e20", "5.0"]):
        assert submitted(f"b{at}", number) == 201
    exact = [here.service.requests[f"b{at}"].job["inputs"][0]["a"] for at in range(3)]
    assert exact == [[9007199254740993], [10**20], [5]]
    assert {type(value) for [value] in exact} == {int}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/jobs?limit=0", 422),
        ("/v1/jobs?limit=1e9", 422),
        ("/v1/jobs?state=lost", 422),
        ("/v1/jobs?other=1", 422),
        ("/v1/jobs/a?wait=nan", 422),
        ("/v1/jobs/a?wait=61", 422),
        ("/v1/jobs/a?wait=-1", 422),
        ("/v1/jobs/a/log?after=-1", 422),
        ("/v1/jobs/..%2f..%2fetc", 404),
        ("/v1/jobs/%00", 404),
        ("/v1/jobs/a/b/c", 404),
        ("/page/../../server.py", 404),
        ("/nothing", 404),
    ],
)
def test_paths_and_parameters_are_those_that_are_known(here: Served, path: str, status: int) -> None:
    submit(here)
    assert ask(here, "GET", path).status == status


def test_a_parameter_of_another_kind_is_answered_with_what_it_takes(here: Served) -> None:
    told = ask(here, "GET", "/v1/jobs?state=lost").json["error"]
    assert told.endswith("it takes one of queued, running, proved, failed, cancelled")
    assert ask(here, "GET", "/v1/jobs?limit=many").json["error"].endswith("it takes an integer")
    assert ask(here, "GET", "/v1/jobs/a?wait=long").json["error"].endswith("it takes a number")


def test_methods_are_those_that_are_known(here: Served) -> None:
    assert ask(here, "DELETE", "/v1/jobs").status == 405
    assert ask(here, "OPTIONS", "/v1/jobs", headers={"Origin": "http://evil.example"}).status == 405
    assert ask(here, "GET", "/v1/jobs/a/cancel").status == 405


@pytest.mark.parametrize("route", [r for r in TABLE.routes if not r.open], ids=lambda r: r.path)
@pytest.mark.parametrize("shown", [None, "", "Bearer", "Bearer ", "Bearer x", "Basic {}", "bearer {}x", "{}"])
def test_no_route_answers_without_a_token(here: Served, route: Any, shown: str | None) -> None:
    headers = {} if shown is None else {"Authorization": shown.format(here.token)}
    found = ask(here, route.method, route.path.replace("{id}", "a").replace("{name}", "x"), token=None, headers=headers)
    assert found.status == 401
    assert found.headers["WWW-Authenticate"].startswith("Bearer")
    assert here.token not in found.content.decode()
    assert not here.service.views


def test_only_what_tells_nothing_of_jobs_is_open(here: Served) -> None:
    assert {route.path for route in TABLE.routes if route.open} == {
        *("/", "/page.css", "/page.js", "/job.js", "/icon.svg", "/healthz", "/readyz", "/openapi.json")
    }
    submit(here, "the-secret-job", title="the-secret-title")
    for path in ("/", "/page.css", "/page.js", "/job.js", "/healthz", "/readyz", "/openapi.json"):
        assert b"the-secret" not in ask(here, "GET", path, token=None).content


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1]x", "2130706433"],
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(here: Served, host: str) -> None:
    for path in ("/", "/v1/overview"):
        assert ask(here, "GET", path, headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8", "127.8.9.1"])
def test_this_machine_has_its_names(host: str) -> None:
    assert is_local_name(host)


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
def test_what_a_foreign_page_can_send_is_refused(here: Served, media: str) -> None:
    data = json.dumps({"id": "a", "job": JOB}).encode()
    assert ask(here, "POST", "/v1/jobs", data=data, headers={"Content-Type": media}).status == 415
    assert not here.service.views


def test_refusals_say_what_to_send(here: Served) -> None:
    refused = ask(here, "POST", "/v1/jobs", data=b"{}", headers={"Content-Type": "text/plain"})
    assert "Content-Type: application/json" in refused.json["error"]
    refused = ask(here, "GET", "/v1/jobs?limit=abc")
    assert (refused.status, "`limit` (number of jobs, at most)" in refused.json["error"]) == (422, True)


def test_a_body_that_grows_is_not_unpacked(here: Served) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert ask(here, "POST", "/v1/jobs", data=b"x", headers=headers).status == 415


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, max_body=1 << 17) as here:
        assert submit(here, title="x" * (1 << 16)).status == 201
        assert submit(here, "b", title="x" * (1 << 18)).status == 413


def test_a_fault_says_nothing_of_what_was_sent(here: Served, caplog: pytest.LogCaptureFixture) -> None:
    found = submit(here, fault="witness-4711")
    assert (found.status, found.json["kind"]) == (500, "DistproveError")
    assert "4711" not in found.content.decode() + caplog.text
    assert "ValueError" in caplog.text
    assert "fake_service.py" in caplog.text


def test_a_run_that_somebody_laid_is_read_through_no_link(here: Served) -> None:
    submit(here)
    run = here.service.folder / "a"
    run.mkdir()
    (here.service.folder / "secret").write_text('"secret"')
    (run / "report.json").symlink_to(here.service.folder / "secret")
    for file in ("proof.msgpack", "output.bin"):
        (run / file).symlink_to(here.service.folder / "secret")
    here.service.change("a", state=JobState.PROVED)
    for name in ("report", "proof", "output"):
        found = ask(here, "GET", f"/v1/jobs/a/{name}")
        assert found.status == 422
        assert b'"secret"' not in found.content


def test_too_many_requests_are_told_to_wait_and_strangers_use_up_nobodys_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_time(monkeypatch, access, monotonic=lambda: 0.0)  # no request is let through for the time that passes
    with served(tmp_path, rate=0.01, peer_rate=0.001) as here:  # 4 % of a request at once: none
        assert ask(here, "GET", "/healthz", token=None).status == 200
        stranger, owner = (ask(here, "GET", "/v1/overview", token=token) for token in (None, ""))
        assert stranger.status == owner.status == 429
        assert int(owner.headers["Retry-After"]) > 1
    with served(tmp_path, rate=100, peer_rate=0.25) as here:
        found = [ask(here, "GET", "/v1/overview", token="wrong").status for _ in range(4)]
        assert found == [401, 429, 429, 429]
        assert ask(here, "GET", "/", token=None).status == 200
        assert ask(here, "GET", "/v1/overview").status == 200


def test_rates_are_shared_by_nobody_and_forgotten_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    give_time(monkeypatch, access, monotonic=lambda: now)
    monkeypatch.setattr(access, "ASKERS", 2)
    rates = Rates(2.0, 4.0)
    for _ in range(4):
        rates.take("a")
    with pytest.raises(QueueFull) as full:
        rates.take("a")
    assert full.value.retry_after == 0.5
    rates.take("b")
    now = 0.5
    rates.take("a")
    with pytest.raises(QueueFull):
        rates.take("a")
    for name in ("b", "c", "a"):
        rates.take(name)
    assert peer_of("2001:db8:1:2:3::1") == peer_of("2001:db8:1:2:ffff::9") != peer_of("2001:db8:1:3::1")
    assert peer_of("::ffff:10.0.0.1") == peer_of("10.0.0.1")


# -- connections -------------------------------------------------------------------------------------------------------


def raw(here: Served, data: bytes) -> bytes:
    """What comes back until the server ends the connection."""
    with socket.create_connection(here.address, timeout=PATIENCE) as connection:
        connection.sendall(data)
        found = b""
        while chunk := connection.recv(1 << 16):
            found += chunk
        return found


def test_a_request_that_is_refused_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    """What is in circles stays until the collector looks, which it does seldom in a service."""
    lot = {"jobs": [{"id": f"job-{n}", "job": JOB} for n in range(4)]}
    asked: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/jobs", {"id": "a", "job": JOB}, 503),
        ("POST", "/v1/jobs", {"id": "-", "job": JOB}, 422),
        ("POST", "/v1/submissions", lot, 200),
        ("GET", "/v1/jobs/a", None, 404),
        ("GET", "/v1/jobs/a/proof", None, 404),
        ("GET", "/v1/none", None, 404),
    ]
    with served(tmp_path, capacity=0, rate=1e6) as here, closing(http.client.HTTPConnection(*here.address)) as line:
        headers = {"Authorization": f"Bearer {here.token}", "Content-Type": "application/json"}

        def refuse(times: int) -> None:
            for method, path, body, status in asked * times:
                line.request(method, path, None if body is None else json.dumps(body), headers)
                response = line.getresponse()
                response.read()
                assert response.status == status

        refuse(1)
        with circles() as count:
            refuse(50)
    assert count() < 500, "for 300 requests, 50 of which aiohttp answers with a route that holds itself: six objects"


def test_a_body_that_is_cut_off_is_not_kept(here: Served) -> None:
    size, times = 1 << 20, 8
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {here.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {2 * size}\r\n\r\n"
    cut_off = head.encode() + b" " * size
    submit(here)
    tracemalloc.start()
    try:
        with circles():
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(times):
                with socket.create_connection(here.address) as line:
                    line.sendall(cut_off)
            assert submit(here).status == 200
            until = time.monotonic() + 60.0
            while (held := tracemalloc.get_traced_memory()[0] - before) > size and time.monotonic() < until:
                time.sleep(0.01)  # until the server has seen the last one end
            assert tracemalloc.get_traced_memory()[1] - before > size, "it read them"
            assert held <= size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_connection_that_says_nothing_or_too_little_is_ended(
    tmp_path: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.patience.HTTP_IDLE", 0.3)
    with served(tmp_path) as here:
        assert raw(here, sent) == b""


def test_a_body_that_does_not_come_is_waited_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table([r if r.name != "submit" else replace(r, seconds=0.3) for r in TABLE.routes])
    monkeypatch.setattr(server_module, "TABLE", table)
    with served(tmp_path) as here:
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {here.token}\r\n"
        found = raw(here, head.encode() + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        assert found.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["a header with a control", "many headers", "a long header", "a long line", "not HTTP", "two lengths"],
)
def test_heads_are_bounded(here: Served, sent: bytes) -> None:
    head, _, body = raw(here, sent).partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert json.loads(body).keys() == {"error", "kind", "exit_code"}
    assert b"secret" not in body
    assert b"nosniff" in head


@pytest.mark.parametrize("path", ["/v1/jobs", "/nowhere"])
def test_what_may_not_be_expected_is_refused_as_all_else_is(here: Served, path: str) -> None:
    """aiohttp answered it, with its version, what was sent, and none of the headers that all answers have."""
    sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nExpect: <secret>\r\nConnection: close\r\n\r\n"
    head, _, body = raw(here, sent.encode()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 417 ")
    assert all(f"\r\n{name}: {value}\r\n".encode() in head + b"\r\n" for name, value in SAFE.items())
    assert json.loads(body).keys() == {"error", "kind", "exit_code"}
    assert b"secret" not in body


def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS", 2)
    with served(tmp_path) as here:
        idle = [answered(here) for _ in range(2)]
        found = raw(here, b"")
        head, _, body = found.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["kind"] == "QueueFull"
        assert f"Content-Length: {len(body)}".encode() in head
        for connection in idle:
            connection.close()


def answered(here: Served) -> socket.socket:
    """A connection that has a place. One that was closed before may keep its place for a moment."""
    until = time.monotonic() + 120
    while True:
        connection = socket.create_connection(here.address)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if connection.recv(100).startswith(b"HTTP/1.1 200"):
            return connection
        connection.close()
        assert time.monotonic() < until, "no place became free"
        time.sleep(0.01)


def test_connections_that_shake_no_hands_are_bounded(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were counted once TLS was agreed on, and anybody could have all of a service's descriptors."""
    monkeypatch.setattr(server_module, "CONNECTIONS", 2)
    monkeypatch.setattr("actors.patience.HTTP_HANDSHAKE", 600.0)
    cert, key = certificate
    with served(tmp_path, tls_cert=cert, tls_key=key) as here:
        silent = [socket.create_connection(here.address) for _ in range(2)]
        with socket.create_connection(here.address, timeout=PATIENCE) as one_too_many:
            assert one_too_many.recv(1) == b""
        for connection in silent:
            connection.close()
        context = ssl.create_default_context(cafile=str(cert))
        while True:  # until the server has seen that they are gone
            again = http.client.HTTPSConnection(*here.address, context=context, timeout=120)
            try:
                again.request("GET", "/healthz")
                assert again.getresponse().status == 200
                break
            except OSError:
                time.sleep(0.01)
            finally:
                again.close()


def test_large_bodies_that_do_not_come_hold_up_no_other_token(here: Served) -> None:
    """Four of anybody's, a byte a minute each, kept all others from sending one."""
    other = "b" * 40
    slow = []
    with here.tokens.open("a") as file:
        file.write(f"other {other}\n")
    while ask(here, "GET", "/v1/jobs", token=other).status == 401:
        time.sleep(0.05)
    for _ in range(server_module.LARGE_AT_ONCE):
        slow.append(socket.create_connection(here.address))
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {other}\r\n"
        slow[-1].sendall(f"{head}Content-Type: application/json\r\nContent-Length: 70000\r\n\r\n".encode())
        assert ask(here, "GET", "/healthz", token=None).status == 200
    assert submit(here, title="x" * server_module.SMALL).status == 201
    for connection in slow:
        connection.close()


def test_the_loop_answers_while_the_service_holds_up_calls(here: Served) -> None:
    here.service.held.clear()
    slow = threading.Thread(target=ask, args=(here, "GET", "/v1/overview"))
    slow.start()
    assert ask(here, "GET", "/healthz", token=None).status == 200
    here.service.held.set()
    slow.join()


def test_calls_that_take_long_take_not_all_threads_from_other_tokens(tmp_path: Path) -> None:
    """Patterns that a minute is looked for, sixteen at a time, left no thread for anybody else."""
    other = "o" * 43
    (tmp_path / TOKENS).touch(0o600)
    (tmp_path / TOKENS).write_text(f"owner {'t' * 43}\nother {other}\n")
    with served(tmp_path) as here:
        here.service.held.clear()
        slow = [threading.Thread(target=ask, args=(here, "GET", "/v1/overview")) for _ in range(40)]
        for each in slow:
            each.start()
        for _ in range(OF_EACH):
            assert here.service.holds.acquire(timeout=PATIENCE)
        assert ask(here, "GET", "/v1/jobs", token=other).status == 200
        assert all(each.is_alive() for each in slow)  # none had to end for that
        here.service.held.set()
        for each in slow:
            each.join()


# -- tokens and TLS ----------------------------------------------------------------------------------------------------


def test_tokens_are_kept_from_others(here: Served, tmp_path: Path) -> None:
    assert here.tokens.stat().st_mode & 0o777 == 0o600
    assert len(here.token) >= 43
    os.chmod(here.tokens, 0o640)
    with pytest.raises(InputError, match="0600"):
        read_tokens(here.tokens)
    (tmp_path / "link").symlink_to(here.tokens)
    with pytest.raises(InputError):
        read_tokens(tmp_path / "link")
    os.chmod(here.tokens, 0o600)
    for text in (f"a {'x' * 31}\n", f"a {'x' * 40}\na {'y' * 40}\n", "x" * 40, "", f"a {'x' * 20} {'x' * 20}"):
        here.tokens.write_text(text)
        with pytest.raises(InputError) as refused:
            read_tokens(here.tokens)
        assert "xxx" not in str(refused.value)


@pytest.mark.parametrize("content", ["{}", "{}\n", "  {}\r\n", "ann {}\nbob yyyy{}\n"])
def test_a_clients_file_may_hold_a_token_alone_as_prometheus_has_it(content: str, tmp_path: Path) -> None:
    file, token = tmp_path / "token", "x" * 40 + "+/=_-~."
    file.touch(0o600)
    file.write_text(content.format(token, token))
    assert read_token(file) == token
    for bad in ("x" * 31, f"{'x' * 40}\n{'y' * 40}\n", f"{'x' * 40}\0", f"{'x' * 20}\u00e9{'x' * 20}"):
        file.write_text(bad)
        with pytest.raises(InputError) as refused:
            read_token(file)
        assert "xxx" not in str(refused.value)


def test_several_tokens_have_names_and_one_alone_is_withdrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.patience.TOKENS_LOOK", 0.0)
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"# people\nann {'a' * 40}\n\nbob {'b' * 40}\n")
    tokens = Tokens(file)
    assert [tokens.name_of(f"Bearer {letter * 40}") for letter in "ab"] == ["ann", "bob"]
    file.write_text(f"ann {'a' * 40}\n")
    with pytest.raises(AccessDenied, match="does not know this token"):
        tokens.name_of(f"Bearer {'b' * 40}")
    with pytest.raises(AccessDenied, match="asks for a token"):
        tokens.name_of(None)
    assert tokens.name_of(f"Bearer {'a' * 40}") == "ann"
    file.write_text("spoiled")
    for _ in range(2):
        with pytest.raises(AccessDenied):
            tokens.name_of(f"Bearer {'a' * 40}")


def test_a_token_that_is_withdrawn_while_a_service_starts_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.patience.TOKENS_LOOK", 0.0)
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"ann {'a' * 40}\nbob {'b' * 40}\n")

    def read(path: Path) -> dict[str, str]:
        found = read_tokens(path)
        file.write_text(f"ann {'a' * 40}\n")
        return found

    with monkeypatch.context() as changing:
        changing.setattr("cluster.service.http.access.read_tokens", read)
        tokens = Tokens(file)
    with pytest.raises(AccessDenied):
        tokens.name_of(f"Bearer {'b' * 40}")


def test_every_token_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"ann {'a' * 40}\nbob {'b' * 40}\n")
    tokens = Tokens(file)
    give(monkeypatch, access, "hmac", compare_digest=lambda a, b: compared.append(a) or a == b)
    assert tokens.name_of(f"Bearer {'a' * 40}") == "ann"
    assert len(set(compared)) == 2
    assert all(len(digest) == 32 for digest in compared)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_a_network_is_not_listened_on_in_plain_text_unasked(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="not encrypted"):
        Served(tmp_path, host=host)


def test_a_port_that_is_taken_is_answered_with_the_option_for_another() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ResourceError, match="--port chooses another"),
    ):
        server_module._listen("127.0.0.1", taken.getsockname()[1], False)


def without_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have binding to an address of IPv4 fail as on a machine that has none."""

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
            super().bind(address)

    give(monkeypatch, server_module, "socket", socket=Socket)


def test_a_machine_without_ipv4_is_told_which_option_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` said "--port chooses another"."""
    if not socket.has_ipv6:
        pytest.skip("this Python speaks no IPv6")
    without_ipv4(monkeypatch)
    with pytest.raises(
        UsageError, match=r"127\.0\.0\.1 is no address of this machine; --host names another, such as ::1"
    ):
        server_module._listen("127.0.0.1", 0, False)
    both = [(socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0, 0, 0))]
    told = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in both]
    give(monkeypatch, server_module, "socket", getaddrinfo=lambda *_, **__: told)
    with server_module._listen("localhost", 0, False) as listening:
        assert listening.getsockname()[0] == "::1"


def test_services_that_start_at_once_have_a_port_each() -> None:
    """And not the second one an error once it is ready."""
    with server_module._listen("127.0.0.1", 0, False) as first:
        port = first.getsockname()[1]
        with server_module._listen("127.0.0.1", port, True) as second:
            assert second.getsockname()[1] != port


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_is_spoken_and_nothing_older(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with served(tmp_path, tls_cert=cert, tls_key=key) as here:
        assert here.server.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(*here.address, context=context, timeout=120)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        assert b"200" not in raw(here, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        old = ssl.create_default_context(cafile=str(cert))
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError), socket.create_connection(here.address) as plain:  # noqa: PT011 - ssl's or the socket's
            old.wrap_socket(plain, server_hostname="localhost")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    other = tmp_path / "key.pem"
    other.write_bytes(key.read_bytes())
    other.chmod(0o644)
    with pytest.raises(UsageError, match="read by others"):
        Served(tmp_path, tls_cert=cert, tls_key=other)
    other.chmod(0o600)
    with pytest.raises(UsageError):
        Served(tmp_path, tls_cert=other, tls_key=other)
    with pytest.raises(UsageError, match="together"):
        Served(tmp_path, tls_cert=cert)
