"""What may be said of where operations run, in flags, job files and Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from distprove.errors import UsageError
from distprove.job import Job
from distprove.offload import OffloadRequest, parse_place
from distprove.settings import ExecutorSettings
from kernels.interface.offload import Offload

G2_AND_SPMV = OffloadRequest(Offload(frozenset({"msm_g2", "spmv"})))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, OffloadRequest()),
        ("auto", OffloadRequest(auto=True)),
        ("spmv=cpu,msm_g2=cpu", G2_AND_SPMV),
        (" msm_g2 = cpu , spmv=cpu ", G2_AND_SPMV),
        ({"spmv": "cpu", "msm_g2": "cpu"}, G2_AND_SPMV),
        ("synthesis=cpu", OffloadRequest()),
        ("msm_g2=gpu", OffloadRequest()),
        ({}, OffloadRequest()),
    ],
)
def test_ways_to_say_it(given: str | dict[str, str] | None, meant: OffloadRequest) -> None:
    assert parse_place(given, "groth16") == meant
    assert bool(meant) == (meant in (OffloadRequest(auto=True), G2_AND_SPMV))


@pytest.mark.parametrize(
    ("given", "system", "told"),
    [
        ("synthesis=gpu", "groth16", "synthesis runs on cpu"),
        ("msm_g2=tpu", "groth16", "gpu or cpu, not on 'tpu'"),
        ("msm_g3=cpu", "groth16", "did you mean `msm_g2`"),
        ("trace=cpu", "stark", "trace runs on gpu"),
        ("msm_g2=cpu", "stark", "no stark operation 'msm_g2'"),
        ("spmv", None, "write"),
        ("", None, "write"),
        ("=cpu", None, "write"),
        ("spmv=cpu,spmv=gpu", None, "twice"),
        ("auto,spmv=cpu", None, "write"),
    ],
)
def test_what_cannot_be_is_refused(given: str, system: str | None, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_place(given, system)


def job_file(folder: Path, place: str) -> Path:
    for name in ("k.zkey", "w.wtns"):
        (folder / name).write_bytes(b"")
    path = folder / "job.toml"
    path.write_text(f'system = "groth16"\nzkey = "k.zkey"\nwitnesses = "w.wtns"\n[executor]\nplace = {place}\n')
    return path


@pytest.mark.parametrize("place", ['"msm_g2=cpu,spmv=cpu"', '{ msm_g2 = "cpu", spmv = "cpu" }'])
def test_a_job_file_says_it_and_the_run_remembers(tmp_path: Path, place: str) -> None:
    job = Job.from_toml(job_file(tmp_path, place))
    again = Job.from_record(job.to_record())
    assert parse_place(job.executor.place) == parse_place(again.executor.place) == G2_AND_SPMV


def test_a_job_refuses_what_its_system_has_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trace"):
        Job.from_toml(job_file(tmp_path, '{ trace = "gpu" }'))
    with pytest.raises(UsageError, match="mms_g2"):
        ExecutorSettings(place="mms_g2=cpu")
    job = Job.from_options("stark", program="fibonacci")
    with pytest.raises(UsageError, match="msm_g2"):
        replace(job, executor=ExecutorSettings(place="msm_g2=cpu"))
