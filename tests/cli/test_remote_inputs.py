"""Jobs whose key and inputs are named by URL, from the command line to the proof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.record.run import read_proof
from cluster.service.requests import Limits, job_of
from cluster.service.views import JobRequest
from cluster.submission import pack
from distprove.errors import UsageError
from distprove.formats import remote
from distprove.job import Job
from distprove.settings import ExecutorSettings
from tests.cli.conftest import SmallJob, run, why_refused
from tests.support.site import Site


@pytest.fixture
def site(small_job: SmallJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remote._known.clear()
    made = Site()
    made.files["c.zkey"] = small_job.zkey.read_bytes(), '"key"'
    for path in small_job.witnesses.iterdir():
        made.files[f"w/{path.name}"] = path.read_bytes(), f'"{path.name}"'
    yield made
    made.close()


@pytest.fixture
def job(site: Site, tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    urls = [site.url(f"w/member-{i}.wtns") for i in range(3)]
    path.write_text(f'system = "groth16"\nzkey = "{site.url("c.zkey")}"\nwitnesses = {json.dumps(urls)}\n')
    return path


@pytest.mark.parametrize("isolate", ["--isolate", "--no-isolate"])
def test_they_are_proven_as_local_files_are(
    job: Path, site: Site, small_job: SmallJob, tmp_path: Path, isolate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    done = run("prove", job, "--out", out, "--local", "--threads", 2, isolate, "--json")
    assert done.exit_code == 0, done.output
    assert [p["name"] for p in json.loads(done.stdout)["partitions"]] == [f"member-{i}" for i in range(3)]
    assert run("verify", out, "--vk", small_job.vk).exit_code == 0
    assert set(site.asked.values()) == {1}, "from the cache, by driver and workers"
    before = read_proof(out)
    (out / "proof.msgpack").unlink()
    assert run("resume", out, "--local").exit_code == 0
    assert read_proof(out).job_digest == before.job_digest

    (out / "proof.msgpack").unlink()
    site.files["w/member-1.wtns"] = site.files["w/member-2.wtns"][0], '"another"'
    monkeypatch.setattr(remote, "FRESH", 0.0)
    assert "written again since the run began: member-1" in why_refused(run("resume", out, "--local"))


def test_a_url_that_fails_is_told_and_leaves_no_proof(job: Path, site: Site, tmp_path: Path) -> None:
    del site.files["w/member-1.wtns"]
    said = why_refused(run("prove", job, "--out", tmp_path / "run", "--local", "--threads", 2))
    assert remote.shown(site.url("w/member-1.wtns")) in said
    assert "no such file there" in said


def test_a_service_fetches_nothing_for_its_clients(job: Path, site: Site, small_job: SmallJob, tmp_path: Path) -> None:
    """They would reach through it what they cannot reach themselves."""
    for key, value in (("zkey", site.url("c.zkey")), ("witnesses", [site.url("w/member-0.wtns")])):
        table = {"system": "groth16", "zkey": str(small_job.zkey), "witnesses": [str(small_job.witnesses)], key: value}
        with pytest.raises(UsageError, match="fetches nothing"):
            job_of(JobRequest("a", table), ExecutorSettings(), Limits(), tmp_path / "service")
    assert not site.asked


def test_a_job_that_is_submitted_to_a_cluster_is_fetched_there(job: Path, site: Site, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    assert pack(Job.from_toml(job), package) == []  # no file that every node must have
    assert [path.name for path in package.rglob("*")] == ["job.toml"]  # and none that travels
    text = (package / "job.toml").read_text()
    assert site.url("c.zkey") in text
    assert site.url("w/member-2.wtns") in text
    assert "cache" not in text
