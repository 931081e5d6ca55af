"""The client: what it sends again, what it raises, and whom it trusts with its token."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.record.run import take_lock
from cluster.service import client as client_module
from cluster.service import total_timeout
from cluster.service.client import Client, connect
from cluster.service.contact import (
    CONTACT,
    Contact,
    contact_in,
    find,
    fingerprint_of,
    local_folder,
    make_folder,
    write_contact,
)
from cluster.service.views import JobRequest, JobState, JobView, Priority
from distprove.errors import (
    AccessDenied,
    DistproveError,
    FormatError,
    IdTaken,
    InputError,
    NoSuchJob,
    QueueFull,
    ServiceGone,
    UsageError,
)
from distprove.formats.folder import Folder
from tests.support.fake_service import Served, served
from tests.support.own_time import give_time

JOB = {"system": "toy"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def client_of(here: Served, patience: float = 30.0) -> Client:
    return Client(Contact(here.server.url, str(here.tokens)), patience=patience)


def test_a_job_from_its_submission_to_its_proof(here: Served, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('system = "toy"\ntitle = "t"\n')
    with client_of(here) as client:
        view = client.submit(file, out=tmp_path / "out", priority="high")
        assert (view.state, view.priority, view.title) == (JobState.QUEUED, Priority.HIGH, "t")
        request = here.service.requests[view.id]
        assert (request.base, request.out) == (str(tmp_path), str(tmp_path / "out"))
        assert client.submit(request) == client.status(view.id) == view
        assert [job.id for job in client.list("queued")] == [view.id]
        assert client.list("failed") == []
        assert list(client.logs(view.id)) == here.service.lines
        seen: list[JobState] = []
        assert client.wait(view.id, 0.0, lambda v: seen.append(v.state)).state is JobState.QUEUED
        threading.Timer(0.1, here.service.change, [view.id], {"state": JobState.PROVED, "exit_code": 0}).start()
        assert client.wait(view.id).state is JobState.PROVED
        assert seen == [JobState.QUEUED]
        run = Path(view.run)
        run.mkdir()
        (run / "proof.msgpack").write_bytes(b"proof" * 1000)
        (run / "output.bin").write_bytes(b"words" * 1000)
        (run / "report.json").write_text('{"status": "proved"}')
        assert client.proof(view.id, tmp_path / "p").read_bytes() == b"proof" * 1000
        assert client.output(view.id, tmp_path / "o").read_bytes() == b"words" * 1000
        assert client.report(view.id) == {"status": "proved"}
        sizes = {"output.bin": 5000, "proof.msgpack": 5000, "report.json": 20}
        assert {each.name: each.bytes for each in client.files(view.id)} == sizes
        assert client.file(view.id, "proof.msgpack", tmp_path / "q").read_bytes() == b"proof" * 1000
        for name in ("job.json", "../proof.msgpack", "..%2Fproof.msgpack", ""):
            with pytest.raises((InputError, NoSuchJob)):
                client.file(view.id, name, tmp_path / "none")
        assert client.overview().counts["proved"] == 1
        client.shut_down(drain=False)
        assert here.shut == [False]


def test_errors_are_those_that_the_service_names(here: Served) -> None:
    with client_of(here) as client:
        client.submit(JOB, id="a")
        for error, call in [
            (NoSuchJob, lambda: client.status("b")),
            (NoSuchJob, lambda: client.status("../a")),
            (IdTaken, lambda: client.submit({"system": "toy", "title": "x"}, id="a")),
            (InputError, lambda: client.submit({})),
            (InputError, lambda: client.proof("a", "proof")),
            (InputError, lambda: client.output("a", "proof")),
            (InputError, lambda: client.file("a", "proof.msgpack", "proof")),
            (UsageError, lambda: client.submit(JOB, priority="soon")),
            (UsageError, lambda: client.submit({"system": object()})),
            (UsageError, lambda: client.submit(JOB, id="a b")),
            (DistproveError, lambda: client.submit({"fault": "secret"})),
        ]:
            with pytest.raises(error) as raised:
                call()
            assert type(raised.value) is error
            assert "secret" not in str(raised.value)
        assert not Path("proof").exists()
        here.tokens.write_text(f"x {'y' * 43}\n")
        with pytest.raises(AccessDenied, match="does not know this token"):
            Client(Contact(here.server.url, str(written(here.tokens.parent, "z" * 43)))).overview()


def written(folder: Path, token: str) -> Path:
    path = folder / "other"
    path.touch(0o600)
    path.write_text(f"me {token}\n")
    return path


def test_a_full_service_is_asked_again_until_it_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, capacity=1) as here:
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                here.service.capacity = 2

        give_time(monkeypatch, client_module, sleep=sleep)
        with client_of(here) as client:
            client.submit(JOB, id="a")
            assert client.submit(JOB, id="b").state is JobState.QUEUED
            assert slept == [3.0, 3.0, 3.0]  # as the service says
            with pytest.raises(QueueFull) as full:
                Client(client.contact, patience=0.0).submit(JOB, id="c")
            assert full.value.retry_after == 3.0


def test_jobs_are_submitted_together_and_sent_again_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, capacity=3) as here, client_of(here) as client:
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            if seconds:
                slept.append(seconds)
                here.service.capacity += 3

        give_time(monkeypatch, client_module, sleep=sleep)
        monkeypatch.setattr(client_module, "LOT", 300)  # bytes: some requests of two jobs each
        asked = [JobRequest(f"j{n}", JOB) for n in range(7)]
        told = client.submit_all([*asked, JobRequest("bad", {}), asked[0], JobRequest("j1", {"system": "other"})])
        assert [each.id for each in told if not isinstance(each, DistproveError)] == [f"j{n}" for n in range(7)] + [
            "j0"
        ]
        assert [type(each) for each in told[7:]][::2] == [InputError, IdTaken]
        assert slept == [2.5, 2.5]
        left = Client(client.contact, patience=0.0).submit_all([JobRequest(f"k{n}", JOB) for n in range(4)])
        assert [type(each).__name__ for each in left] == ["JobView", "JobView", "QueueFull", "QueueFull"]


@contextmanager
def answering(*answers: bytes | Callable[[bytes], bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives one answer on each connection, and ends it. It yields its URL, and what was sent."""
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        for answer in answers:
            connection, _ = listening.accept()
            with connection:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(1 << 16)
                heard.append(data)
                connection.sendall(answer if isinstance(answer, bytes) else answer(data))
        listening.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
    thread.join(60)


def answer_of(status: int, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_what_was_lost_is_sent_again_with_the_same_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_time(monkeypatch, client_module, sleep=lambda seconds: None)
    view = {"id": "a", "state": "queued", "priority": "low", "system": "toy", "title": "", "run": "r", "from_1": 1}
    right = answer_of(200, json.dumps(view).encode())
    with answering(b"", b"HTTP/1.1 200 OK\r\nContent-Le", right[:-5], right) as (url, heard):
        client = Client(Contact(url, str(written(tmp_path, "t" * 43))))
        assert client.submit(JobRequest("a", JOB)).priority is Priority.LOW
    assert len({data.partition(b"\r\n\r\n")[2] for data in heard if data.endswith(b"}")}) <= 1
    assert all(data.startswith(b"POST /v1/jobs ") for data in heard)
    assert len(heard) == 4


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (answer_of(200, b"<html>"), DistproveError),
        (answer_of(500, b"<html>"), ServiceGone),
        (answer_of(302, b"", Location="http://127.0.0.1:1/"), ServiceGone),
        (answer_of(404, b'{"error": "x", "kind": "SystemExit", "exit_code": 0}'), DistproveError),
        (answer_of(404, b'{"error": "x", "kind": "os", "exit_code": 0}'), DistproveError),
        (answer_of(200, b"[" * 1000), DistproveError),
        (answer_of(200, b'{"version": 1e999}'), DistproveError),
    ],
)
def test_what_is_no_service_is_told_and_not_followed(tmp_path: Path, answer: bytes, error: type[Exception]) -> None:
    with answering(answer) as (url, heard), pytest.raises(error) as raised:
        Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0).overview()
    assert isinstance(raised.value, DistproveError)
    assert len(heard) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *({}, [], 1, None, {"jobs": 1}, {"jobs": [1]}, {"jobs": [{}, {}]}),
        *({"lines": 1, "next": 0}, {"lines": [1], "next": 1}, {"lines": ["x"]}, {"lines": ["x"], "next": 0}),
    ],
)
def test_what_a_service_answers_is_checked_before_it_is_used(
    answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of Python came out of these, and a log without an end where no line is ever the last."""
    view = JobView("a", JobState.PROVED, Priority.LOW, "toy", "", "r")
    monkeypatch.setattr(Client, "status", lambda self, id: view)
    for ask in (
        lambda client: client.list(),
        lambda client: client.submit_all([JobRequest("a", JOB)]),
        lambda client: list(client.logs("a")),
    ):
        right = answer_of(200, json.dumps(answer).encode())
        with answering(right) as (url, _), pytest.raises(DistproveError):
            ask(Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0))


def test_a_download_is_no_larger_than_the_file_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answered could fill the disk of a client."""
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 32
    with answering(endless) as (url, _), pytest.raises(FormatError, match="more than the 1048576 bytes"):
        Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0).proof("a", tmp_path / "p")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]  # the token


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again", "end"),
    [
        (HEAD + b"X: ", b"x", b"\r\nContent-Length: 2\r\n\r\n[]"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", answer_of(200, b"[]")),
        (HEAD + b"Content-Length: 202\r\n\r\n[]", b" ", b""),
        (CHUNKED + b"2\r\n[]\r\n0\r\n", b"X: x\r\n", b"\r\n"),
    ],
    ids=["a head", "heads", "a body", "what follows a body"],
)
def test_an_answer_that_comes_now_and_then_is_not_waited_for(
    first: bytes, again: bytes, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client waited as long as anything came."""
    monkeypatch.setattr("actors.patience.CLIENT_ANSWER", 0.5)
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(first)
                for _ in range(200):
                    if gone.wait(0.05):
                        return
                    connection.sendall(again)
                connection.sendall(end)

        thread = threading.Thread(target=run)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with pytest.raises(ServiceGone, match="no service answers"):
                Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0).report("a")
        finally:
            gone.set()
            thread.join()


def test_a_service_that_answers_at_once_is_not_asked_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited for a job took a core for it."""
    asked, slept = list[float](), list[float]()
    view = JobView("a", JobState.RUNNING, Priority.LOW, "toy", "", "r")

    def answer(self: Client, id: str, wait: float) -> JobView:
        asked.append(wait)
        return view if len(asked) < 5 else replace(view, state=JobState.PROVED)

    monkeypatch.setattr(Client, "status", answer)
    give_time(monkeypatch, client_module, sleep=slept.append)
    client = Client(Contact("http://127.0.0.1:1", str(written(tmp_path, "t" * 43))), patience=0.0)
    assert client.wait("a").state is JobState.PROVED
    assert len(asked) == 5
    assert len(slept) == 4
    assert min(slept) > 0


def test_a_body_has_the_time_that_its_bytes_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, threading.Semaphore(0)

    def monotonic() -> float:
        asked.release()
        return now

    monkeypatch.setattr("actors.patience.CLIENT_ANSWER", 60.0)
    monkeypatch.setattr(total_timeout, "SLOWEST", 1 / 15)
    give_time(monkeypatch, total_timeout, monotonic=monotonic)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            nonlocal now
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(HEAD + b"Content-Length: 21\r\n\r\n")
                for byte in b'{"status": "proved"} ':  # 126 seconds long
                    assert asked.acquire(timeout=60)
                    now += 6.0
                    connection.sendall(bytes([byte]))

        thread = threading.Thread(target=run)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        client = Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0)
        assert client.report("a") == {"status": "proved"}
        thread.join()


def test_where_nobody_answers_the_service_is_gone(tmp_path: Path) -> None:
    with socket.socket() as taken:  # it does not listen, and nobody else does there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ServiceGone, match="no service answers"):
            Client(Contact(url, str(written(tmp_path, "t" * 43))), patience=0.0).overview()


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://u:p@x", "http://x/y", "http://x?y", "http://x:y", "x"])
def test_a_url_is_a_host_and_a_port(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        Client(Contact(url, str(written(tmp_path, "t" * 43))))


def test_the_service_that_is_meant_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "service"
    with pytest.raises(ServiceGone, match="no service runs here"):
        contact_in(folder)
    make_folder(folder)
    token = written(folder, "t" * 43)
    write_contact(folder, Contact("http://127.0.0.1:1", str(token), pid=4711))
    with pytest.raises(ServiceGone, match=r"died.*4711.*distprove up"):
        connect(str(folder))
    with pytest.raises(UsageError, match="token"):
        find("http://host:1")
    monkeypatch.setenv("DISTPROVE_SERVICE_TOKEN_FILE", str(token))
    assert find("http://host:1") == Contact("http://host:1", str(token))
    monkeypatch.setenv("DISTPROVE_SERVICE", "https://host:2")
    assert find().url == "https://host:2"
    assert local_folder() is None
    monkeypatch.setenv("DISTPROVE_SERVICE", str(folder))
    assert local_folder() == folder


def test_a_folder_that_others_can_change_is_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    make_folder(folder)
    write_contact(folder, Contact("http://127.0.0.1:1", "t"))
    os.chmod(folder, 0o777)
    with pytest.raises(InputError, match="can be written by others"):
        contact_in(folder)
    os.chmod(folder, 0o700)
    (folder / CONTACT).unlink()
    (folder / CONTACT).symlink_to(tmp_path / "laid")
    (tmp_path / "laid").write_text('{"url": "http://127.0.0.1:1", "token_file": "t"}')
    with pytest.raises(InputError):
        contact_in(folder)


def test_who_takes_a_dead_services_port_gets_no_token(tmp_path: Path) -> None:
    """The service is killed while a client waits; another user of the machine listens where it did."""
    folder = tmp_path / "service"
    make_folder(folder)
    lock = take_lock(Folder.open_ours(folder))
    with served(folder) as here:
        address = here.address
        write_contact(folder, Contact(here.server.url, str(here.tokens), pid=os.getpid(), folder=str(folder)))
        client = connect(str(folder), patience=0.5)
        client.submit(JOB, id="a")
    lock.close()
    with socket.create_server(address) as listening:
        with pytest.raises(ServiceGone, match="died"):
            client.status("a")
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()
    lock = take_lock(Folder.open_ours(folder))  # a service that begins, and has said nothing of itself yet
    write_contact(folder, Contact(client.contact.url, str(here.tokens), pid=4711, folder=str(folder)))
    with pytest.raises(ServiceGone, match="starting"):
        client.status("a")
    with served(folder) as again:
        again.service.submit(JobRequest("a", JOB))
        write_contact(folder, Contact(again.server.url, str(again.tokens), pid=os.getpid(), folder=str(folder)))
        client = Client(Contact("http://127.0.0.1:1", str(again.tokens), folder=str(folder)), patience=60.0)
        assert client.wait("a", 0.0).id == "a"
    lock.close()


def test_a_certificate_of_the_service_is_known_again_and_no_other(
    tmp_path: Path, certificate: tuple[Path, Path], other_certificate: tuple[Path, Path]
) -> None:
    with served(tmp_path, tls_cert=certificate[0], tls_key=certificate[1]) as here:
        right = Contact(here.server.url, str(here.tokens), fingerprint=fingerprint_of(certificate[0]))
        assert Client(right).overview().queued == 0
        for wrong in (
            Contact(here.server.url, str(here.tokens), fingerprint=fingerprint_of(other_certificate[0])),
            Contact(here.server.url, str(here.tokens), ca_file=str(other_certificate[0])),
            Contact(here.server.url, str(here.tokens)),
        ):
            with pytest.raises(AccessDenied, match="certificate"):
                Client(wrong).overview()


def test_a_float_that_python_may_have_rounded_is_not_sent(tmp_path: Path) -> None:
    with served(tmp_path) as here, client_of(here) as client:
        for value in (float((1 << 53) + 1), 1e22, float("nan")):
            with pytest.raises(UsageError, match="strings, numbers"):
                client.submit({"system": "toy", "inputs": [{"a": value}]}, id="a")
        client.submit({"system": "toy", "inputs": [{"a": [5.0, 10**30]}]}, id="b")
        assert here.service.requests["b"].job["inputs"] == [{"a": [5, 10**30]}]
