"""The run folder: what it refuses, what it recovers from, what a signal leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.record.journal import read_journal
from cluster.record.run import Run, json_text, read_record
from cluster.record.story import Story
from distprove.errors import FormatError, InputError, UsageError
from distprove.formats.folder import Folder
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof
from tests.support import ROOT
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]
Prove = Callable[..., Proof]


def make(path: Path, system: ToySystem) -> None:
    Run.create(path, system, system.plan()).close()


def test_a_folder_that_is_not_empty_is_refused(faults: Make, tmp_path: Path) -> None:
    system = ToySystem(1, faults())
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not empty and not a run"):
        make(tmp_path / "x", system)
    make(tmp_path / "run", system)
    with pytest.raises(UsageError, match="already holds a run"):
        make(tmp_path / "run", system)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        make(tmp_path / "file", system)
    with pytest.raises(UsageError, match="is not a run"):
        Run.open(tmp_path / "x")


def test_two_drivers_cannot_share_a_run(faults: Make, tmp_path: Path) -> None:
    system = ToySystem(1, faults())
    with (
        Run.create(tmp_path / "run", system, system.plan()),
        pytest.raises(UsageError, match=f"in use by process {os.getpid()}"),
    ):
        Run.open(tmp_path / "run")
    Run.open(tmp_path / "run").close()


def test_the_folder_is_its_owners_alone(faults: Make, tmp_path: Path) -> None:
    make(tmp_path / "run", ToySystem(1, faults()))
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0


def test_another_key_or_plan_is_refused(faults: Make, tmp_path: Path) -> None:
    system = ToySystem(3, faults())
    make(tmp_path / "run", system)
    with Run.open(tmp_path / "run") as run:
        run.check_plan(system, system.plan())
        other = ToySystem(3, faults(), key=b"another")
        with pytest.raises(InputError, match="the key is not the one"):
            run.check_plan(other, other.plan())
        with pytest.raises(InputError, match="the partitions are not those"):
            run.check_plan(system, system.plan()[:2])


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "swap", "forge"])
def test_a_damaged_partition_file_is_proven_again(
    damage: str, local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(3, faults())
    proof = run_toy(system, local)
    path = tmp_path / "run" / "partitions" / "p1.msgpack"
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        del data[-7:]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "empty":
        data.clear()
    elif damage == "swap":
        data[:] = path.with_name("p2.msgpack").read_bytes()
    path.write_bytes(data)
    if damage == "forge":  # well-formed, with a right checksum, and false
        with Run.open(tmp_path / "run") as run:
            stored = run.load(system.plan()[1])
            assert stored is not None
            run.store([type(stored)(stored.name, stored.digest, (7,), stored.data)])
    again = run_toy(system, local)
    assert again == proof
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["counters"]["damaged_files"] == 1
    assert [p["status"] for p in report["partitions"]] == ["resumed", "proved", "resumed"]


@pytest.mark.parametrize(("name", "kind"), [("report.json", "report"), ("timeline.json", "timeline")])
@pytest.mark.parametrize("version", [1, 9])
def test_a_report_or_timeline_of_another_version_is_refused(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, name: str, kind: str, version: int
) -> None:
    run_toy(ToySystem(1, faults()), local)
    file = tmp_path / "run" / name
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": version}))
    with pytest.raises(FormatError, match=f"not a {kind} that this distprove reads"):
        Story.read(tmp_path / "run")


@pytest.mark.parametrize("tail", [b"", b"{", b'{"event":"torn', b"\x00" * 5000])
def test_a_torn_line_is_cut_off(tail: bytes, faults: Make, tmp_path: Path) -> None:
    system = ToySystem(1, faults())
    make(tmp_path / "run", system)
    with Run.open(tmp_path / "run") as run:
        run.note("first", value=1)
    with open(tmp_path / "run" / "journal.jsonl", "ab") as file:
        file.write(tail)
    with Run.open(tmp_path / "run") as run:
        run.note("second")
    assert [event["event"] for event in read_journal(tmp_path / "run")] == ["first", "second"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "distprove.run", "version": 2}', "[" * 100_000])
def test_a_bad_record_is_refused(content: str, faults: Make, tmp_path: Path) -> None:
    make(tmp_path / "run", ToySystem(1, faults()))
    (tmp_path / "run" / "job.json").write_text(content)
    with pytest.raises(FormatError):
        Run.open(tmp_path / "run")
    # The lock is free again after the refusal.
    with pytest.raises(FormatError):
        Run.open(tmp_path / "run")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of one input, beside which its run is made; nothing is proven of it."""
    from distprove.groth16.options import Groth16Options
    from distprove.options import InputFile

    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("a.wtns", "k.zkey"):
        (folder / name).write_bytes(b"x")
    return Job("groth16", Groth16Options(zkey=folder / "k.zkey", witnesses=(InputFile("p0", folder / "a.wtns"),)))


def test_a_changed_input_is_noticed(job: Job, faults: Make, tmp_path: Path) -> None:
    system, source = ToySystem(1, faults()), job.sources[0].path
    path = tmp_path / "run"
    with Run.create(path, system, system.plan(), job) as run:
        (partition,) = system.plan()
        run.store([PartitionProof(partition.name, partition.digest, {}, {})])
    with Run.open(path) as run:
        assert run.job() == job
        run.check_plan(system, system.plan())
        os.utime(source, ns=(1, 1))
        with pytest.raises(InputError, match=r"p0; if their content is the same, `distprove resume .* --same-inputs`"):
            run.check_plan(system, system.plan())
    with Run.open(path, same_inputs=True) as run:
        run.check_plan(system, system.plan())
        source.write_bytes(b"longer")
        with pytest.raises(
            InputError, match=r"changed since the run began: p0; put back what was proven, or .* new run"
        ):
            run.check_plan(system, system.plan())


def test_an_input_is_mended_before_its_partition_is_proven_and_not_after(
    job: Job, faults: Make, tmp_path: Path
) -> None:
    system, source, path = ToySystem(1, faults()), job.sources[0].path, tmp_path / "run"
    Run.create(path, system, system.plan(), job).close()
    source.write_bytes(b"mended")
    with Run.open(path) as run, pytest.raises(InputError, match="changed since the run began: p0"):
        run.check_plan(replace(system, needs_barrier=True), system.plan())  # others' proofs depend on its commitment
    with Run.open(path) as run, pytest.raises(InputError, match="changed since the run began: p0"):
        run.check_plan(system, [replace(system.plan()[0], digest=bytes(32))])  # its digest is of the input
    with Run.open(path) as run:
        run.check_plan(system, system.plan())
        (partition,) = system.plan()
        run.store([PartitionProof(partition.name, partition.digest, {}, {})])
    assert [event["partitions"] for event in read_journal(path) if event["event"] == "inputs-changed"] == [["p0"]]
    assert (path / "job.json").read_bytes() == (path / "job.json.copy").read_bytes()
    with Run.open(path) as run:  # the record has what was proven
        run.check_plan(system, system.plan())
        source.write_bytes(b"once more")
        with pytest.raises(InputError, match="changed since the run began: p0"):
            run.check_plan(system, system.plan())


def test_a_run_that_was_moved_with_its_inputs_or_without_is_resumed(job: Job, faults: Make, tmp_path: Path) -> None:
    system = ToySystem(1, faults())
    Run.create(tmp_path / "project" / "run", system, system.plan(), job).close()
    moved = (tmp_path / "project").rename(tmp_path / "elsewhere")
    with Run.open(moved / "run") as run:
        assert run.job().sources[0].path == moved / "a.wtns"
        run.check_plan(system, system.plan())
    # Without: the job is named where it lies now.
    (moved / "run").rename(tmp_path / "run")
    with Run.open(tmp_path / "run") as run:
        with pytest.raises(InputError, match="no file at"):
            run.job()
        files = {"zkey": moved / "k.zkey", "witnesses": (replace(job.sources[0], path=moved / "a.wtns"),)}
        assert run.is_of(replace(job, options=replace(job.options, **files)))
        run.check_plan(system, system.plan())
        assert not run.is_of(replace(job, options=replace(job.options, **{**files, "zkey": moved / "other.zkey"})))


@pytest.mark.parametrize("left", ["half-made", "no partitions", "temporary files", "empty folder"])
def test_what_a_killed_driver_or_a_careless_copy_left_is_resumed(
    left: str, local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system, path = ToySystem(2, faults()), tmp_path / "run"
    temporaries = [path / ".job.json.0123456789ab.tmp", path / "partitions" / ".p0.msgpack.0123456789ab.tmp"]
    if left == "half-made":
        path.mkdir()
        for name in ("lock", "job.json.copy", temporaries[0].name):
            (path / name).touch()
        Run.create(path, system, system.plan()).close()
    else:
        run_toy(system, local)
    if left == "temporary files":
        for file in temporaries:
            file.touch()
    elif left != "half-made":
        shutil.rmtree(path / "partitions")
        if left == "empty folder":
            (path / "partitions" / "p0.msgpack").mkdir(parents=True)
    run_toy(system, local).verify(system)
    assert not any(file.exists() for file in temporaries)


@pytest.mark.parametrize("name", ["job.json", "journal.jsonl", "lock", "proof.msgpack", "report.json", "timeline.json",
                                  "status.json", "partitions", "partitions/p0.msgpack"])  # fmt: skip
def test_a_folder_in_place_of_a_file_is_named_before_anything_is_proven(
    name: str, local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system, path = ToySystem(2, faults()), tmp_path / "run" / name
    run_toy(system, local)
    if name == "partitions":
        shutil.rmtree(path)
        path.touch()
    else:
        path.unlink()
        (path / "thesis").mkdir(parents=True)
    with pytest.raises(InputError, match=rf"{name} is a (folder|file) in place of a (file|folder); move it away"):
        run_toy(system, local)


def test_a_flipped_bit_in_the_record_is_told_and_its_copy_takes_its_place(faults: Make, tmp_path: Path) -> None:
    system, path = ToySystem(2, faults()), tmp_path / "run"
    make(path, system)
    record = path / "job.json"
    good = record.read_bytes()
    content = {key: value for key, value in json.loads(good).items() if key != "sha256"}
    told = []
    for place in range(len(good)):
        data = bytearray(good)
        data[place] ^= 1 << place % 8
        record.write_bytes(data)
        with Folder.open(path) as folder:
            try:
                found = read_record(folder)
            except FormatError as error:
                told.append(str(error))
            else:
                assert content.items() <= found.items(), place
    assert len(told) > len(good) / 2
    assert all("; copy job.json.copy there to job.json to go on" in text for text in told)
    shutil.copy(path / "job.json.copy", record)
    Run.open(path).close()
    record.unlink()
    with pytest.raises(UsageError, match=r"copy job.json.copy there to job.json to go on"):
        Run.open(path)


SCRIPT = """
import sys
from pathlib import Path
from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run, read_record
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem
folder = Path(sys.argv[1])
system = ToySystem(6, Faults(folder, slow={"p4": 6.0}))
settings = ExecutorSettings(local=True, backend="tests.support.toy_system:toy_backend", threads=1)
def progress(event):
    print(event.event, event.partition, event.done, flush=True)
with Run.create(folder / "run", system, system.plan()) as run, open_client(settings) as client:
    drive(system, client, run, settings, progress)
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_leaves_a_run_that_resumes(
    number: signal.Signals, local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b"proved") and line.endswith(b" 4\n"):
            break
    time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=200)
    assert process.returncode != 0
    if number is not signal.SIGKILL:
        assert b"KeyboardInterrupt" in errors
        report = json.loads((tmp_path / "run" / "report.json").read_text())
        assert report["status"] == "interrupted"
        assert [event["event"] for event in read_journal(tmp_path / "run")][-1] == "interrupted"
    system = ToySystem(6, faults())
    run_toy(system, local).verify(system)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert [p["status"] for p in report["partitions"]] == ["resumed"] * 4 + ["proved"] * 2


def test_records_are_written_a_field_and_an_item_a_line() -> None:
    items = [{"x": [1, 2.5]}, [], "s"]
    record = {"format": 'a "name" é', "none": None, "items": items, "empty": [], "map": {"k": [1]}}
    text = json_text(record).decode()
    assert json.loads(text) == record
    assert len(text.splitlines()) == 2 + len(record) + len(items) + 1


def test_many_proofs_share_a_file_and_a_false_one_in_it_is_proven_again(
    local: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    system = ToySystem(12, faults())
    proof = run_toy(system, local)
    path = tmp_path / "run"
    for file in (path / "partitions").iterdir():
        file.unlink()
    (path / "proof.msgpack").unlink()
    false = [type(p)(p.name, q.digest, (7,), p.data) if p.name == "p3" else type(p)(p.name, q.digest, p.public, p.data)
             for p, q in zip(proof.partitions, system.plan(), strict=True)]  # fmt: skip
    with Run.open(path) as run:
        run.store(false[:10])
        assert [file.name for file in (path / "partitions").iterdir()] == ["00000001.pack"]
    (path / "partitions" / "00000002.pack").write_bytes(b"damaged")
    (path / "partitions" / "00000003.pack").mkdir()
    assert run_toy(system, local) == proof
    report = json.loads((path / "report.json").read_text())
    assert [p["status"] for p in report["partitions"]] == ["resumed"] * 3 + ["proved"] + ["resumed"] * 6 + [
        "proved"
    ] * 2
    assert report["counters"]["damaged_files"] == 3
    noted = [(e.get("file"), e.get("partition")) for e in read_journal(path) if e["event"] == "damaged"]
    assert noted == [("00000002.pack", None), ("00000003.pack", None), (None, "p3")]
    assert not (path / "partitions" / "00000002.pack").exists()
    assert run_toy(system, local) == proof
    assert {p["status"] for p in json.loads((path / "report.json").read_text())["partitions"]} == {"resumed"}
