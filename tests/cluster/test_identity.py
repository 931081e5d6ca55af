"""Partitions keep the names that they have in their jobs, whatever else is proven beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster.executor.pool import Pool
from cluster.together import prove_together, short

from cluster.record.short import Common, Proven
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionId
from tests.support.toy_system import Faults, ToySystem

JOBS = ["job-a", "job-b", "job-c"]


@pytest.mark.parametrize("apart", [False, True], ids=["threads", "processes"])
def test_short_jobs_with_equal_names_travel_through_one_worker_unrenamed(
    local: ExecutorSettings, faults: Callable[..., Faults], tmp_path: Path, apart: bool
) -> None:
    system, settings = ToySystem(1, faults(), gate=Came(tmp_path)), replace(local, isolate=apart)
    job = Job.from_options("groth16", zkey=__file__, wasm=__file__, inputs=[{}])
    shorts = [short(id, system, job, {}, tmp_path / id) for id in JOBS]
    kept: dict[str, dict[str, bytes]] = {}

    def keep(common: Common, proven: list[Proven]) -> None:
        kept.update({each.id: common.files(each) for each in proven})

    with Pool(settings) as pool, pool.lend(system, job="together") as client:
        prove_together([each for each in shorts if each is not None], client, settings, keep)
    assert sorted((tmp_path / "came").read_text().split()) == [f"{job}/p0" for job in JOBS]
    assert sorted(kept) == JOBS
    for files in kept.values():
        proof = Proof.from_bytes(files["proof.msgpack"])
        proof.verify(system)
        assert [part.name for part in proof.partitions] == ["p0"]
        report = json.loads(files["report.json"])
        assert [(part["name"], part["status"]) for part in report["partitions"]] == [("p0", "proved")]
        (session,) = json.loads(files["timeline.json"])["sessions"]
        spans = {(span["partition"], span["stage"]) for span in session["spans"] if span["partition"]}
        assert spans == {("p0", "synthesise"), ("p0", "prove"), ("p0", "verify")}
        journal = [json.loads(line) for line in files["journal.jsonl"].splitlines()]
        assert [line.get("partition") for line in journal if line["event"] == "proved"] == ["p0", None]
        told = b"".join(files[name] for name in ("report.json", "timeline.json", "journal.jsonl"))
        assert not any(id.encode() in told for id in JOBS)


class Came:
    """Notes under which identity partitions came to the prover."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "came"

    def __call__(self, partition: Partition) -> None:
        with self._path.open("a") as file:
            file.write(f"{partition.job}/{partition.name}\n")


def test_an_identity_is_of_a_job_and_a_name() -> None:
    made: Any = Partition(0, "p0", b"", {})
    assert (made.id, replace(made, job="a").id) == (PartitionId("", "p0"), PartitionId("a", "p0"))
