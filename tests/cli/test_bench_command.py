"""`distprove bench`: JSON for machines, a table for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SmallJob, run, why_refused


def test_the_commands_print_json_and_nothing_else(small_job: SmallJob) -> None:
    cpu = ("--backend", "cpu", "--threads", 2, "--repeats", 1, "--json")
    wtns = small_job.witnesses / "member-0.wtns"
    for args in (
        ("msm", "--sizes", "4", "--curve", "bn254", "--group", "g1"),
        ("ntt", "--sizes", "4-5", "--curve", "bn254"),
        ("groth16", "--sizes", "6", "--stream", "3"),
        ("groth16", "--zkey", small_job.zkey, "--wtns", wtns),
    ):
        done = run("bench", *args, *cpu)
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        assert document["bench"] == args[0]
        assert document["rows"]
        assert document["backend"]["kind"] == "cpu"


def test_the_table_shows_size_median_and_ceiling() -> None:
    done = run("bench", "ntt", "--sizes", "4", "--curve", "bn254", "--backend", "cpu", "--threads", 2, "--repeats", 1)
    assert done.exit_code == 0, done.output
    assert "2^4" in done.stdout
    assert "Ceilings, per second: BN254" in done.stdout


def test_a_program_is_proven_stage_by_stage() -> None:
    args = ("bench", "stark", "range-check", "--values", "2^4", "--bits", 3, "--backend", "cpu", "--repeats", 1)
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["bench"] == "stark"
    row = document["rows"][0]
    assert (row["what"], row["log_n"]) == ("range-check", 4)
    assert {"trace", "main_lde", "logup", "constraints", "deep", "fri_fold", "queries"} <= row["steps"].keys()
    facts = row["facts"]
    assert [t["rows"] for t in facts["tables"]] == [16, 8]
    # Blow-up 2, and a table's columns are those of all rounds.
    assert facts["extension_bytes"] == row["bytes_moved"] > 2 * 8 * 16 * 6
    assert facts["security"]["bits"] >= 128
    assert facts["proof_bytes"] > 0
    assert "verification" in run(*args).stdout


def test_a_program_is_proven_by_the_multilinear_engine() -> None:
    args = ("bench", "stark", "range-check", "--values", "2^5", "--bits", 4, "--backend", "cpu", "--repeats", 1)
    done = run(*args, "--engine", "multilinear", "--json")
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)["rows"][0]
    assert row["variant"].startswith("multilinear")
    assert {"trace", "main_stack", "gkr", "univariate", "rounds", "reduction", "opening"} <= row["steps"].keys()
    facts = row["facts"]
    assert [t["rows"] for t in facts["tables"]] == [32, 16]
    assert facts["stack"]["width"] << facts["stack"]["log_height"] >= sum(
        t["rows"] * t["columns"] for t in facts["tables"]
    )
    assert facts["extension_bytes"] == row["bytes_moved"] > 0
    assert facts["security"]["engine"] == "multilinear"
    assert facts["plan"] == "whole"
    assert facts["planned_bytes"] > facts["extension_bytes"]
    assert facts["cpu_seconds"] > 0
    assert facts["proof_bytes"] > 0
    assert "verification" in run(*args, "--engine", "multilinear").stdout


def test_scaling_is_measured_with_one_worker_and_two(small_job: SmallJob, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["{small_job.witnesses}/*.wtns"]\n')
    args = ("bench", "scaling", job, "--workers", "1,2", "--over", "local", "--partitions", 12)
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["bench"] == "scaling"
    one, two = document["rows"][0]["scales"]
    assert [(each["over"], each["workers"], each["partitions"]) for each in (one, two)] == [
        ("local", 1, 12),
        ("local", 2, 12),
    ]
    assert one["efficiency"] == 1
    assert two["efficiency"] == pytest.approx(two["steady"] / 2 / one["steady"])
    for each in (one, two):
        assert each["wall"] >= each["first_proof"] + each["tail"] > 0
        assert each["driver_cpu"] > 0
    assert run("bench", "scaling", job).exit_code == 2
    assert run("bench", "scaling", job, "--workers", "1", "--over", "best").exit_code == 2


def test_a_service_is_measured_beside_a_bare_loop(small_job: SmallJob, tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    one, several = small_job.witnesses / "member-0.wtns", small_job.witnesses
    job.write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["{one}"]\n[executor]\nthreads = 2\n')
    args = ("bench", "service", job, "--jobs", 20, "--repeats", 2, "--gpus", 0)
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    (row,) = document["rows"]
    assert (document["bench"], row["jobs"], len(row["turns"]), len(row["bare"])) == ("service", 20, 2, 2)
    assert row["rate_of_bare_loop"] == pytest.approx(row["rate_a_second"] / row["bare_a_second"])
    assert row["cpu_ms_a_job"] > 0
    job.write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["{several}"]\n')
    assert "one partition" in why_refused(run(*args))
