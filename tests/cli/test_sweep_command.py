"""`distprove sweep` on a real job, and the job file it writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from distprove.errors import UsageError
from distprove.job import Job
from distprove.jobfile import job_text
from distprove.settings import ExecutorSettings
from tests.cli.conftest import SmallJob, run, why_refused


@pytest.fixture
def job_file(small_job: SmallJob, tmp_path: Path) -> Path:
    for name in ("c.zkey", "w"):
        (tmp_path / name).symlink_to(small_job.folder / name)
    path = tmp_path / "job.toml"
    path.write_text('system = "groth16"\ntitle = "a \\"job\\""\nzkey = "c.zkey"\nwitnesses = ["w/*.wtns"]\n')
    return path


def test_a_sweep_names_the_best_setting_and_prove_accepts_it(job_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    args = ["sweep", job_file, "--out", out, "--local", "--gpus", 0, "--threads", 2, "--repeats", 1, "--warmup", 0]
    args += ["--jobs", "1,2", "--parallel", "1", "--gpu-workers", "1,2"]
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document == json.loads((out / "sweep.json").read_text())
    assert [c["cell"]["jobs"] for c in document["cells"]] == [1, 1, 2, 2]
    assert [len(c["devices"]) for c in document["cells"]] == [1, 2, 1, 2]
    assert all(c["seconds_per_proof"] > 0 and c["inflation"]["prove"] > 0 for c in document["cells"])
    assert {"timed", "about", "best"} <= document.keys()
    assert document["about"]["machine"]["processor"]["usable"] >= 1
    assert len(list(csv.reader((out / "sweep.csv").open()))) == 5
    page = (out / "sweep.html").read_text()
    assert "Over the number of jobs at once" in page
    assert "<script" not in page
    best = Job.from_toml(out / "best.toml")
    assert best.title == 'a "job"'
    assert {"parallel": best.executor.parallel, "gpu_workers": best.executor.gpu_workers} == {
        name: document["best"][name] for name in ("parallel", "gpu_workers")
    }
    proven = run("prove", out / "best.toml", "--out", tmp_path / "run", "--json")
    assert proven.exit_code == 0, proven.output
    assert json.loads(proven.stdout)["status"] == "proved"
    again = run(*args)
    assert again.exit_code == 0, again.output
    assert "kept" in again.stderr
    assert "best: jobs" in again.stdout


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--jobs", "1,x", "expected a list of whole numbers"),
        ("--jobs", "0", "expected a list of whole numbers"),
        ("--jobs", "", "jobs must be from 1"),
        ("--parallel", "2,2", "twice"),
    ],
)
def test_axes_that_make_no_sense_are_refused(
    job_file: Path, tmp_path: Path, option: str, value: str, said: str
) -> None:
    done = run("sweep", job_file, "--out", tmp_path / "sweep", "--local", option, value)
    assert said in why_refused(done)


def test_a_job_file_says_the_same_job_from_anywhere(job_file: Path, tmp_path: Path) -> None:
    settings = ExecutorSettings(local=True, memory=1 << 30, throttle={"threads": 2}, start_timeout=5.5)
    given = Job.from_toml(job_file)
    job = Job(given.system, given.options, 'DEL \x7f, "quotes" and \\ and é\n', settings)
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "copy.toml"
    copy.write_text(job_text(job, "what it is\n\nand why"), encoding="utf-8")
    assert Job.from_toml(copy) == job
    stark = Job.from_options("stark", program="fibonacci", arguments={"rows": 64}, partitions=2, executor=settings)
    copy.write_text(job_text(stark))
    assert Job.from_toml(copy) == stark
    with pytest.raises(UsageError, match="UTF-8"):
        job_text(Job(job.system, job.options, "\udc80"))
