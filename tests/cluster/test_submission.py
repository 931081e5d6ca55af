"""Jobs that are submitted to a Ray: what travels with them, and what comes back."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster import submission
from cluster.submission import follow, pack, submit
from distprove.errors import ClusterError, InputError, UsageError
from distprove.job import Job
from distprove.proof import Proof
from tests.cli.conftest import run, why_refused

FILE_ROOT = 'system = "stark"\nprogram = "file-root"\nsecurity = 30\ngrinding = 0\narguments = { file = "FILE" }\n'


def groth16_job(folder: Path) -> Job:
    """A job of files that hold nothing: packing looks at sizes alone."""
    for name in ("c.zkey", "c.wasm", "in/b.json", "in/a.json", "other/a.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(name.encode())
    files = 'zkey = "c.zkey"\nwasm = "c.wasm"\ninputs = ["in", "other/a.json"]\n'
    (folder / "job.toml").write_text(f'system = "groth16"\n{files}[executor]\nthreads = 2\n')
    return Job.from_toml(folder / "job.toml")


def sent(folder: Path) -> list[str]:
    """Names of the files that were packed, in order."""
    return [path.name for path in sorted(folder.glob("files/*/*"))]


def test_small_files_travel_and_the_job_stays_what_it_was(tmp_path: Path) -> None:
    job = groth16_job(tmp_path)
    (tmp_path / "pack").mkdir()
    assert not pack(job, tmp_path / "pack")
    assert len(sent(tmp_path / "pack")) == 5
    (tmp_path / "pack").rename(tmp_path / "elsewhere")
    there = Job.from_toml(tmp_path / "elsewhere" / "job.toml")
    assert [source.name for source in there.sources] == [source.name for source in job.sources] == ["a", "b", "a-2"]
    assert [s.path.read_bytes() for s in there.sources] == [s.path.read_bytes() for s in job.sources]
    assert all(source.path.is_relative_to(tmp_path / "elsewhere") for source in there.sources)
    assert there.executor == job.executor


def test_large_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = groth16_job(tmp_path)
    with (tmp_path / "c.zkey").open("wb") as file:
        file.truncate(submission.SMALL + 1)
    monkeypatch.setattr(submission, "TOGETHER", len("c.wasm") + len("in/a.json"))
    (tmp_path / "pack").mkdir()
    named = pack(job, tmp_path / "pack")
    assert sent(tmp_path / "pack") == ["c.wasm", "a.json"]
    assert [str(path.relative_to(tmp_path)) for path in named] == ["c.zkey", "in/b.json", "other/a.json"]
    assert Job.from_toml(tmp_path / "pack" / "job.toml").options.zkey == tmp_path / "c.zkey"  # type: ignore[attr-defined]


def test_the_file_that_a_program_is_about_travels(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 100)
    (tmp_path / "job.toml").write_text(FILE_ROOT.replace("FILE", "data"))
    (tmp_path / "pack").mkdir()
    job = Job.from_toml(tmp_path / "job.toml")
    assert not pack(job, tmp_path / "pack")
    assert sent(tmp_path / "pack") == ["data"]
    (there,) = Job.from_toml(tmp_path / "pack" / "job.toml").sources
    assert there.path == tmp_path / "pack" / "files" / "0" / "data"


class Refusing:
    """Ray's client, of a cluster that takes nothing; it notes what it was given."""

    given: dict[str, Any]

    def __init__(self, address: str) -> None: ...

    def submit_job(self, **given: Any) -> str:
        Refusing.given = given
        folder = Path(given["runtime_env"].get("working_dir", "/nowhere"))
        given["files"] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        raise RuntimeError("no room\nTraceback")


@pytest.mark.parametrize(
    ("address", "travels"),
    [("http://10.0.0.9:8265", 0), ("http://127.0.0.1:8265", 5), ("http://[::1]:1", 5), ("https://10.0.0.9:8265", 5)],
)
def test_inputs_never_travel_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, travels: int
) -> None:
    """Whoever listens on the network would read the witnesses."""
    import ray.job_submission

    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", Refusing)
    groth16_job(tmp_path)
    told: list[str] = []
    with pytest.raises(ClusterError, match=r"does not take the job: no room$"):
        submit(tmp_path / "job.toml", address, "/shared/run", tell=told.append)
    assert (len(Refusing.given["files"]), len(told)) == (1 + travels, 5 - travels)
    assert Refusing.given["entrypoint"] == "distprove prove job.toml --out /shared/run --resume"
    assert not Path(Refusing.given["runtime_env"]["working_dir"]).exists()


def test_what_cannot_be_submitted_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    groth16_job(tmp_path)
    with pytest.raises(UsageError, match="URL of a Ray dashboard"):
        submit(tmp_path / "job.toml", "head:6379", "/shared/run")
    with pytest.raises(UsageError, match="absolute"):
        submit(tmp_path / "job.toml", "https://head", "run")
    with pytest.raises(InputError, match="not an absolute path of the cluster"):
        submit(Path("missing.toml"), "https://head", "/shared/run")
    (tmp_path / "c.zkey").unlink()
    with pytest.raises(InputError, match=r"c\.zkey"):
        submit(tmp_path / "job.toml", "https://head", "/shared/run")


def test_the_command_exits_as_the_job_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "submit", lambda path, address, out, **_: (address, f"{path} to {out}"))

    def followed(client: str, id: str, show: Any) -> int:
        show(f"from {client}\n")
        return 130

    monkeypatch.setattr(submission, "follow", followed)
    asked = ("submit", "/shared/job.toml", "--address", "https://head:8265")
    done = run(*asked, "--out", "/shared/run")
    assert (done.exit_code, done.stdout) == (130, "from https://head:8265\n")
    left = run(*asked, "--out", "/shared/run", "--no-wait")
    assert (left.exit_code, left.stdout) == (0, "/shared/job.toml to /shared/run\n")
    assert "--out" in why_refused(run(*asked))


class Following:
    """Ray's client, of a job that ends; `code` is what the cluster knows of its exit."""

    def __init__(self, code: int | None, status: str, *, interrupted: bool = False) -> None:
        self.code, self.status, self.interrupted = code, status, interrupted
        self.stopped: list[str] = []

    async def tail_job_logs(self, id: str) -> AsyncIterator[str]:
        yield "one\tproved\n"
        if self.interrupted:
            raise KeyboardInterrupt

    def get_job_status(self, id: str) -> Any:
        return SimpleNamespace(value=self.status, is_terminal=lambda: True)

    def get_job_info(self, id: str) -> Any:
        return SimpleNamespace(driver_exit_code=self.code)

    def stop_job(self, id: str) -> None:
        self.stopped.append(id)


@pytest.mark.parametrize(
    ("code", "status", "told"), [(0, "SUCCEEDED", 0), (3, "FAILED", 3), (None, "FAILED", 1), (None, "SUCCEEDED", 0)]
)
def test_the_exit_code_is_that_of_the_job_where_ray_knows_it(code: int | None, status: str, told: int) -> None:
    shown: list[str] = []
    assert follow(Following(code, status), "id", shown.append) == told
    assert shown == ["one     proved\n"]


def test_an_address_by_https_without_a_proxy_is_explained(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"some")
    (tmp_path / "job.toml").write_text(FILE_ROOT.replace("FILE", "data"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens there
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError, match="plain HTTP"):
            submit(tmp_path / "job.toml", f"https://{where}", "/shared/run")
        with pytest.raises(ClusterError) as plain:
            submit(tmp_path / "job.toml", f"http://{where}", "/shared/run")
    assert "plain HTTP" not in str(plain.value)


def test_an_interrupt_stops_the_job() -> None:
    client = Following(0, "RUNNING", interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        follow(client, "id", lambda _: None)
    assert client.stopped == ["id"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_and_its_file_travel_to_a_cluster_and_are_proven(ray_cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(300))
    (tmp_path / "job.toml").write_text(FILE_ROOT.replace("FILE", "data"))
    dashboard = f"http://{ray_cluster.head_node.webui_url}"
    shown: list[str] = []
    command = (sys.executable, "-m", "distprove")
    assert follow(*submit(tmp_path / "job.toml", dashboard, f"{tmp_path}/run", command=command), shown.append) == 0
    assert "proved: 1 of 1 partition" in "".join(shown)
    assert Proof.read(tmp_path / "run" / "proof.msgpack").partitions
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["executor"], report["chosen"].partition(":")[0]) == ("ray", "over Ray")
