"""What cannot be a job is refused when it is submitted: over HTTP, at every field, with values nobody means well."""

from __future__ import annotations

import http.client
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from cluster.service.http.access import TOKENS, make_tokens, read_token
from cluster.service.http.api import TABLE
from cluster.service.http.openapi import document
from cluster.service.http.server import Options, Server
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.store import FILE
from cluster.service.views import JobRequest, JobState
from distprove.job import Job
from distprove.settings import ExecutorSettings
from distprove.stark.programs import PROGRAMS
from tests.support import ROOT
from tests.support.await_end import await_end

GUEST = ROOT / "tests" / "stark" / "riscv" / "guests" / "sha256.elf"
PATIENCE = 180.0
DOCUMENT = document(TABLE)
HUGE = (-1, 0, 3, 1 << 31, 1 << 40, 1 << 60, 1 << 64, 10**4000, 0.5, 1e300, True)
TEXTS = (
    "",
    "\0",
    "a\0b",
    "\ud800",
    "x" * 300,
    "x" * 5000,
    "é" * 200,
    "loop",
    "loop/x",
    "..",
    ".",
    "/",
    "a/../..",
    "\n",
    "\u202e",
)
OTHERS = (None, [], {}, [[]], [{}], {"a": {"b": []}}, ["\0"], [None], {"": ""}, [1, "a"])
NASTY = (*HUGE, *TEXTS, *OTHERS, "2^60", "-1", "auto", "NaN", "http://localhost/x", "evil:Program")
GOOD: dict[str, dict[str, Any]] = {
    "fibonacci": {"rows": 16},
    "wide-fibonacci": {"rows": 16, "width": 3},
    "keccak-f": {"permutations": 1},
    "range-check": {"values": 4, "bits": 2},
    "file-root": {"file": "file"},
    "riscv": {"elf": str(GUEST)},
}
"""Arguments of each program that make a small job of it."""
SETTINGS = ("partitions", "prefer", "blowup", "security", "grinding", "queries", "arguments", "program", "title", "new")
GROTH16 = (
    "zkey",
    "params",
    "r1cs",
    "wasm",
    "circuit",
    "inputs",
    "witnesses",
    "vk",
    "aggregate",
    "title",
    "system",
    "new",
)


class Here(NamedTuple):
    """A service with its server, and a folder of files."""

    service: Service
    url: str
    token: str
    folder: Path

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        host, _, port = self.url.partition("//")[2].rpartition(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=120)) as connection:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def submit(self, id: str, job: Any, **more: Any) -> int:
        """Submit a job, which is taken, or refused with a line of text, and then nothing else fails for it."""
        status, content = self.ask("POST", "/v1/jobs", {"id": id, "job": job, "base": str(self.folder), **more})
        assert status in (201, 422), (status, content[:1000], job, more)
        if status == 422:
            assert 0 < len(json.loads(content)["error"]) < 5000
        return status


@contextmanager
def serving(folder: Path, settings: ExecutorSettings) -> Iterator[Here]:
    (folder / "tokens").mkdir(mode=0o700)
    make_tokens(folder / "tokens" / TOKENS)
    service = Service(folder / "service", settings, Limits())
    server = Server(service, Options(folder / "tokens" / TOKENS, rate=1e5), lambda drain: None)
    service.start()
    server.start()
    try:
        yield Here(service, server.url, read_token(folder / "tokens" / TOKENS), folder)
    finally:
        server.close()
        service.close(drain=False)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("here")
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_bytes(b"some bytes")
    (folder / "full").mkdir()
    (folder / "full" / "mine").touch()
    with serving(folder, ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")) as found:
        yield found


def all_end(here: Here, taken: list[str], value: str) -> None:
    """Jobs that were taken are proved; and what is told of all jobs is told, whatever they are."""
    for id in taken:
        view = await_end(here.service, id, PATIENCE)
        assert view.state is JobState.PROVED, (value, view)
    for path in ("/metrics", "/v1/jobs", "/v1/overview", *(f"/v1/jobs/{id}/log" for id in taken)):
        assert here.ask("GET", path)[0] == 200


def test_the_jobs_that_are_spoilt_are_good(here: Here) -> None:
    assert GOOD.keys() == PROGRAMS.keys()
    ids = [f"good-{name}" for name in GOOD]
    for id, (name, arguments) in zip(ids, GOOD.items(), strict=True):
        assert here.submit(id, {"system": "stark", "program": name, "arguments": arguments}) == 201
    all_end(here, ids, "good")
    for id in ids:
        report = json.loads(here.ask("GET", f"/v1/jobs/{id}/report")[1])
        jsonschema.validate(report, {"$ref": "#/components/schemas/Report", "components": DOCUMENT["components"]})


@pytest.mark.parametrize("program", GOOD)
def test_no_argument_is_taken_that_fails_its_job(here: Here, program: str) -> None:
    """`rows = -1` and 2^60 were taken, and failed when the job began."""
    taken = []
    for name in (*(argument.name for argument in PROGRAMS[program].arguments), "new", "\0", "x" * 5000):
        for number, value in enumerate(NASTY):
            arguments = {**GOOD[program], name: value}
            id = f"{program}-{name}-{number}" if name.isidentifier() and len(name) < 50 else f"{program}-odd-{number}"
            if here.submit(id, {"system": "stark", "program": program, "arguments": arguments}) == 201:
                taken.append(id)
    all_end(here, taken, program)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_is_taken_that_fails_its_job(here: Here, name: str) -> None:
    taken = []
    for program in ("fibonacci", "file-root"):
        for number, value in enumerate(NASTY):
            rows = {"rows": 1 << 10} if program == "fibonacci" and value == 3 else {}  # a key of its own
            job = {"system": "stark", "program": program, "arguments": {**GOOD[program], **rows}, name: value}
            if here.submit(f"{name}-{program}-{number}", job) == 201:
                taken.append(f"{name}-{program}-{number}")
    all_end(here, taken, name)


@pytest.mark.parametrize("name", GROTH16)
def test_no_setting_of_groth16_has_the_service_fail(here: Here, name: str) -> None:
    for number, value in enumerate(NASTY):
        job = {"system": "groth16", "zkey": "file", "witnesses": "file", name: value}
        if here.submit(f"groth16-{name}-{number}", job) == 201:
            view = await_end(here.service, f"groth16-{name}-{number}", PATIENCE)
            assert "file: " in str(view.error), "what is wrong is in the file"
    all_end(here, [], name)


@pytest.mark.parametrize("name", ["id", "job", "base", "out", "priority", "new"])
def test_no_field_of_a_request_has_the_service_fail(here: Here, name: str) -> None:
    """`"out": "\\u0000"` was taken, failed its job, and then every scrape and the log."""
    taken = []
    job = {"system": "stark", "program": "fibonacci", "arguments": {"rows": 16}}
    places = [f"{here.folder}/{end}" for end in ("full", "file", "file/x", "loop", "loop/x", "x" * 300, "a/" * 2500)]
    for number, value in enumerate((*NASTY, *places, "/proc/self/fd/0", "/dev/null")):
        id = f"request-{name}-{number}"
        if here.submit(**{"id": id, "job": job, "out": f"{here.folder}/runs/{id}", name: value}) == 201:
            taken.append(value if name == "id" else id)
    all_end(here, [id for id in taken if isinstance(id, str)], name)


def test_a_job_of_an_older_service_has_no_later_one_fail(tmp_path: Path) -> None:
    """A job whose run has a zero byte in its name is in the books of who took it: it fails, and nothing else does."""
    settings = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
    service = Service(tmp_path / "service", settings)
    service.start()
    for id in ("queued", "over"):
        service.submit(JobRequest(id, {"system": "stark", "program": "fibonacci", "arguments": {"rows": 16}}))
        await_end(service, id, PATIENCE)
    service.close(drain=True)
    with closing(sqlite3.connect(tmp_path / "service" / FILE)) as books:
        (record,) = books.execute("SELECT record FROM jobs").fetchone()
        books.execute("UPDATE jobs SET run = ?, title = ?", (f"{tmp_path}/\0", "\0"))
        job = Job.from_options("stark", program="fibonacci", arguments={"rows": 16}).to_record()
        books.execute("UPDATE jobs SET state = 'queued', record = ? WHERE id = 'queued'", (json.dumps(job),))
        books.commit()
    assert record == "{}"
    with serving(tmp_path, settings) as here:
        view = await_end(here.service, "queued", PATIENCE)
        assert (view.state, view.exit_code) == (JobState.FAILED, 2)
        assert "a name with a zero byte" in str(view.error)
        for id in ("queued", "over"):
            assert json.loads(here.ask("GET", f"/v1/jobs/{id}/log")[1])["lines"] == []
            for name in ("proof", "report", "output"):
                assert here.ask("GET", f"/v1/jobs/{id}/{name}")[0] in (404, 422)
        for path in ("/metrics", "/v1/jobs", "/v1/overview", "/v1/jobs/over", "/metrics"):
            assert here.ask("GET", path)[0] == 200
        assert here.submit("next", {"system": "stark", "program": "fibonacci", "arguments": {"rows": 16}}) == 201
        assert await_end(here.service, "next", PATIENCE).state is JobState.PROVED
