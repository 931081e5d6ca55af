"""`distprove setup aggregation`, `aggregate` and `verify` of an aggregate, and jobs that aggregate at their end."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest

from cluster.record.journal import read_journal
from distprove.errors import InvalidKey
from distprove.groth16.aggregate import aggregator
from distprove.groth16.aggregate.jobs import AggregatedJobs
from distprove.groth16.system import Groth16System
from distprove.options import InputFile
from distprove.proof import Proof
from distprove.system import DeviceTask
from kernels.cpu.backend import CpuBackend
from kernels.interface.inner_products import InnerProducts
from kernels.maths.curves import BN254, Curve
from tests.cli.conftest import SmallJob, run, why_refused
from tests.support.toy_aggregate import OTHER_CPU

CPU = ("--backend", "cpu", "--threads", "2")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "dev.srs"
    done = run("setup", "aggregation", "--insecure-dev", "--proofs", "4", "--out", path, *CPU)
    assert done.exit_code == 0, done.output
    assert "can forge aggregates" in " ".join(done.stderr.split())
    return path


@pytest.fixture(scope="module")
def made(proven: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aggregate") / "a"
    done = run("aggregate", proven, "--srs", keys, "--out", path, *CPU)
    assert done.exit_code == 0, done.output
    assert "insecure development keys" in " ".join(done.stderr.split())
    return path


def test_keys_from_bellpersons_file_say_that_they_are_not_filecoins(tmp_path: Path) -> None:
    record = json.loads((Path(__file__).parents[1] / "groth16/aggregate/data/generic_srs.json").read_text())
    path = tmp_path / "generic.srs"
    path.write_bytes(bytes.fromhex(record["file"]))
    args = ("setup", "aggregation", "--generic-srs", path, "--proofs", 4, *CPU)
    done = run(*args, "--out", tmp_path / "keys.srs", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["curve"], said["proofs"], said["insecure"]) == ("BLS12-381", 4, False)
    digest = hashlib.blake2b(path.read_bytes()).hexdigest()[:32]
    assert f"is not the file that Filecoin publishes ({digest})" in " ".join(done.stderr.split())
    refused = run(*args, "--out", tmp_path / "other.srs", "--insecure-dev")
    assert "or --generic-srs, or --insecure-dev" in why_refused(refused)


def verifier(keys: Path) -> str:
    return f"{keys}.verifier"


def test_an_aggregate_verifies_under_the_keys_that_are_given(
    small_job: SmallJob, proven: Path, keys: Path, made: Path
) -> None:
    job = Proof.read_from(proven).job_digest.hex()
    args = ("verify", made, "--vk", small_job.vk, "--srs-verifier", verifier(keys))
    done = run(*args, "--job", job, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["status"], said["proofs"], said["insecure"]) == ("verified", 3, True)
    assert said["jobs"] == [{"digest": job, "partitions": 3}]
    assert [p["name"] for p in said["partitions"][0]] == ["member-0", "member-1", "member-2"]
    shown = run(*args, "--show-public")
    assert "verified" in shown.stdout
    assert "member-2: " in shown.stdout
    assert "insecure" in shown.stderr
    assert run(*args, "--job", "00" * 32).exit_code == 1
    assert run(*args, "--job", job, "--job", "00" * 32).exit_code == 1


def test_what_is_missing_is_said(small_job: SmallJob, proven: Path, keys: Path, made: Path, tmp_path: Path) -> None:
    assert "--srs-verifier" in why_refused(run("verify", made, "--vk", small_job.vk))
    assert "are for aggregates" in why_refused(
        run("verify", proven, "--vk", small_job.vk, "--srs-verifier", verifier(keys))
    )
    assert "--overwrite" in why_refused(run("aggregate", proven, "--srs", keys, "--out", made))
    assert "twice" in why_refused(run("aggregate", proven, proven, "--srs", keys, "--out", tmp_path / "x"))
    assert "over BN254" in why_refused(
        run("aggregate", proven, "--srs", keys, "--out", tmp_path / "x", "--bellperson", tmp_path / "y")
    )
    for args in ((), ("--ptau", "a"), ("--insecure-dev", "--ptau", "a", "--ptau", "b")):
        refused = run("setup", "aggregation", "--proofs", "4", "--out", tmp_path / "x.srs", *args)
        assert "--ptau twice" in why_refused(refused)
    assert list(tmp_path.iterdir()) == []
    args = ("verify", made, "--vk", small_job.vk, "--srs-verifier", verifier(keys))
    assert "--security, --output, --exit-code, --public-input, --tree-wires: not for" in why_refused(
        run(*args, "--security", "128")
    )


def test_no_file_is_written_over_another(proven: Path, keys: Path, tmp_path: Path) -> None:
    out, link = tmp_path / "a", tmp_path / "link"
    link.symlink_to(out)
    before = keys.read_bytes()
    for args in (
        ("--out", out, "--statement", out),
        ("--out", out, "--statement", tmp_path / "." / "a"),
        ("--out", out, "--bellperson", link),
        ("--out", out, "--statement", link, "--bellperson", link),
    ):
        refused = run("aggregate", proven, "--srs", keys, "--overwrite", *args, *CPU)
        assert "both would be written" in why_refused(refused)
    for path in (keys, proven):
        assert "is read" in why_refused(run("aggregate", proven, "--srs", keys, "--overwrite", "--out", path, *CPU))
    assert list(tmp_path.iterdir()) == [link]
    assert keys.read_bytes() == before


def test_a_statement_may_be_a_file_of_its_own(small_job: SmallJob, proven: Path, keys: Path, tmp_path: Path) -> None:
    out, statement = tmp_path / "a", tmp_path / "s"
    done = run("aggregate", proven, "--srs", keys, "--out", out, "--statement", statement, "--json", *CPU)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["proofs"] == 3
    args = ("verify", out, "--vk", small_job.vk, "--srs-verifier", verifier(keys))
    assert "without its statement" in why_refused(run(*args))
    assert run(*args, "--statement", statement).exit_code == 0


def test_a_spoiled_aggregate_is_refused(small_job: SmallJob, keys: Path, made: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "a"
    data = bytearray(made.read_bytes())
    data[data.index(b"aggregate") + 100] ^= 1
    spoiled.write_bytes(data)
    done = run("verify", spoiled, "--vk", small_job.vk, "--srs-verifier", verifier(keys))
    assert done.exit_code in (1, 2)
    assert "verified" not in done.stdout


def test_a_job_aggregates_at_its_end(small_job: SmallJob, keys: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run(*small_job.prove(out, "--no-isolate", "--backend", "cpu", "--aggregate", str(keys)))
    assert done.exit_code == 0, done.output
    assert str(out / "aggregate.msgpack") in "".join(done.stdout.split())
    found = AggregatedJobs.read(out / "aggregate.msgpack")
    assert found.jobs == AggregatedJobs.read(made).jobs
    report = json.loads((out / "report.json").read_text())
    assert report["facts"]["insecure_aggregation"] is True
    done = run(
        "verify", out / "aggregate.msgpack", "--vk", small_job.vk, "--srs-verifier", verifier(keys),
        "--job", found.jobs[0].digest.hex(),
    )  # fmt: skip
    assert done.exit_code == 0, done.output


def test_a_job_aggregates_on_a_device(
    small_job: SmallJob, keys: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregator, "FEW", 2)
    out = tmp_path / "run"
    done = run(*small_job.prove(out, "--isolate", "--backend", OTHER_CPU, "--aggregate", str(keys)))
    assert done.exit_code == 0, done.output
    assert AggregatedJobs.read(out / "aggregate.msgpack").jobs == AggregatedJobs.read(made).jobs
    events = [event for event in read_journal(out) if event["event"].endswith("aggregated")]
    assert [(event["event"], event["worker"]) for event in events] == [("aggregated", "prover-0")]


def test_keys_that_do_not_serve_a_job_are_refused_before_it_begins(small_job: SmallJob, tmp_path: Path) -> None:
    for name, args, said in (
        ("few", ("--proofs", "2"), "for 2 proofs, the job has 3"),
        ("other", ("--proofs", "4", "--curve", "bls12-381"), "over BLS12-381"),
    ):
        path = tmp_path / f"{name}.srs"
        assert run("setup", "aggregation", "--insecure-dev", "--out", path, *args, *CPU).exit_code == 0
        done = run(*small_job.prove(tmp_path / "run", "--backend", "cpu", "--aggregate", str(path)))
        assert said in why_refused(done)
        assert not (tmp_path / "run").exists()


def test_keys_that_changed_while_a_job_ran_are_refused(small_job: SmallJob, tmp_path: Path) -> None:
    path, out = tmp_path / "keys.srs", tmp_path / "run"
    setup = ("setup", "aggregation", "--insecure-dev", "--proofs", "4", "--out", path, *CPU)
    assert run(*setup).exit_code == 0
    done = run(*small_job.prove(out, "--no-isolate", "--backend", "cpu"))
    assert done.exit_code == 0, done.output
    system = Groth16System(small_job.zkey, [InputFile("member-0", tmp_path / "unread")])
    system.aggregate_with(path)
    proof = Proof.read_from(out)

    def here(task: DeviceTask) -> bytes:
        with CpuBackend() as cpu:
            made: bytes = task.run(cpu, None)
            return made

    assert system.aggregate(proof, here) is not None
    path.unlink()
    Path(verifier(path)).unlink()
    assert run(*setup).exit_code == 0
    with pytest.raises(InvalidKey, match="other aggregation keys than when the job began"):
        system.aggregate(proof, here)


def test_a_prover_begins_to_compile_for_the_aggregate_of_its_job(
    small_job: SmallJob, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Curve] = []
    monkeypatch.setattr(InnerProducts, "prepare", lambda self, curve: begun.append(curve))
    system = Groth16System(small_job.zkey, [InputFile("member-0", tmp_path / "unread")])
    for aggregates in (False, True):
        if aggregates:
            system.aggregate_with(keys)
        sent = pickle.loads(pickle.dumps(system))  # as a worker's process gets it
        with CpuBackend(threads=2) as cpu:
            sent.prover(sent.shared(), cpu).close()
        assert begun == [BN254] * aggregates
