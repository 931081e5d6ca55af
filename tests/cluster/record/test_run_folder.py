"""Run and sweep folders in which somebody laid links, pipes and files of others: none is followed or written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.record.journal import read_journal
from cluster.record.packs import LEAST, Packs
from cluster.record.run import Run, delete_run, read_record
from cluster.record.status import StatusFile, read_status
from cluster.record.story import Story
from distprove.cli.app import app
from distprove.errors import DistproveError, FormatError, InputError, UsageError
from distprove.formats import canonical
from distprove.formats import folder as folder_module
from distprove.formats.folder import Folder
from distprove.measure.sweep.grid import Grid
from distprove.measure.sweep.sweep import sweep
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from tests.support.made_runs import MadeRun
from tests.support.own_module import give
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]
Prove = Callable[..., Proof]


@pytest.fixture
def toys(faults: Make) -> ToySystem:
    return ToySystem(2, faults())


@pytest.fixture
def run_path(toys: ToySystem, local: ExecutorSettings, run_toy: Prove, tmp_path: Path) -> Path:
    """A finished run."""
    run_toy(toys, local)
    return tmp_path / "run"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's that no run is about."""
    path = tmp_path / "diary"
    path.write_text("what is mine\n")
    return path


def replaced_by_link(path: Path, target: Path, hard: bool = False) -> None:
    path.unlink(missing_ok=True)
    if hard:
        os.link(target, path)
    else:
        path.symlink_to(target)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("hard", [False, True], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", ["lock", "journal.jsonl"])
def test_a_file_that_is_written_in_place_is_no_link(
    run_path: Path, victim: Path, toys: ToySystem, local: ExecutorSettings, run_toy: Prove, name: str, hard: bool
) -> None:
    """An archive can hold both kinds of links, to any file of who unpacks it."""
    replaced_by_link(run_path / name, victim, hard)
    with pytest.raises(InputError, match=f"{name} is .*link"):
        run_toy(toys, local)
    assert victim.read_text() == "what is mine\n"
    assert not (run_path / name).is_dir()


@pytest.mark.parametrize("laid", ["link", "pipe", "huge", "strangers", "number"])
def test_a_pack_that_somebody_laid_costs_and_changes_nothing(
    laid: str, run_path: Path, victim: Path, toys: ToySystem, local: ExecutorSettings, run_toy: Prove
) -> None:
    """It is counted and removed, unless it can be read; of that only what the job asks for is kept."""
    pack = run_path / "partitions" / ("000000001.pack" if laid == "number" else "00000007.pack")
    if laid == "link":
        pack.symlink_to(victim)
    elif laid == "pipe":
        os.mkfifo(pack)
    elif laid == "huge":
        pack.touch()
        os.truncate(pack, 1 << 40)
    else:
        files = {"../../diary": b"", "p7": bytes(100), "p0": bytes(1 << 17)}
        pack.write_bytes(canonical.encode({"format": "distprove.pack", "version": 1, "files": files}))
    with Run.open(run_path) as run:
        assert run.stored() == {"p0", "p1"}
        assert not run._packed.files
        damaged = run.remove_damaged_packs()
    assert list(damaged) == ([] if laid == "strangers" else [pack.name])
    assert pack.exists() == (laid == "strangers")
    run_toy(toys, local)
    assert victim.read_text() == "what is mine\n"


def test_a_packed_file_that_was_discarded_counts_no_more_until_it_is_written_again(run_path: Path) -> None:
    files = {f"p{index}": b"proof" for index in range(LEAST)}
    with Run.open(run_path) as run:
        folder = run.folder.folder("partitions")
        packs = Packs(folder)
        packs.write(files.items())
        packs.discard(["p1", "p2"])
        assert Packs(folder).read(files).files.keys() == files.keys() - {"p1", "p2"}
        packs.write({**files, "p1": b"another"}.items())
        assert Packs(folder).read(files).files == {**files, "p1": b"another"}


def test_a_pack_that_none_can_follow_is_told(run_path: Path) -> None:
    """Those that followed it would have a name that no resume reads."""
    files = {f"p{index}": b"proof" for index in range(LEAST)}
    (run_path / "partitions" / "99999998.pack").write_bytes(b"")
    with Run.open(run_path) as run:
        packs = Packs(run.folder.folder("partitions"))
        packs.write(files.items())
        assert files.keys() <= packs.read(files).files.keys()
        with pytest.raises(InputError, match=r"99999999\.pack: no pack can follow it"):
            packs.write(files.items())


def test_a_new_run_follows_no_lock_that_is_there(victim: Path, toys: ToySystem, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(victim)
    with pytest.raises(InputError, match="lock is a symbolic link"):
        Run.create(tmp_path / "run", toys, toys.plan())
    assert victim.read_text() == "what is mine\n"


@pytest.mark.parametrize("name", ["lock", "journal.jsonl"])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(run_path: Path, name: str) -> None:
    (run_path / name).unlink()
    os.mkfifo(run_path / name)
    with pytest.raises(InputError, match="not a regular file"):
        Run.open(run_path)


def test_partitions_are_not_written_through_a_link(
    run_path: Path, toys: ToySystem, local: ExecutorSettings, run_toy: Prove, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (run_path / "partitions").rename(tmp_path / "moved")
    (run_path / "partitions").symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match="partitions is a symbolic link"):
        run_toy(toys, local)
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["report.json", "timeline.json", "status.json", "proof.msgpack", "barrier.msgpack", "partitions/p0.msgpack"]
)
def test_a_link_is_replaced_and_neither_read_nor_written_through(
    victim: Path, faults: Make, local: ExecutorSettings, run_toy: Prove, tmp_path: Path, name: str
) -> None:
    system = ToySystem(2, faults(), needs_barrier=True)
    run_toy(system, local)
    path = tmp_path / "run" / name
    kept = tmp_path / "kept"
    path.rename(kept)  # right in every byte: what is refused is the link
    path.symlink_to(kept)
    before = kept.read_bytes()
    proof = run_toy(system, local)
    assert kept.read_bytes() == before
    assert name == "barrier.msgpack" or not path.is_symlink()
    proof.verify(system)
    counters = json.loads((tmp_path / "run" / "report.json").read_text())["counters"]
    assert counters["damaged_files"] == {"partitions/p0.msgpack": 1, "barrier.msgpack": 2}.get(name, 0)


@pytest.mark.parametrize("name", ["job.json", "report.json", "timeline.json", "journal.jsonl", "status.json"])
def test_what_shows_a_run_reads_through_no_link(tmp_path: Path, name: str) -> None:
    made = MadeRun(2).make(tmp_path / "run")
    with StatusFile(Folder.open_ours(made), lambda: []) as status:
        status.finish({"total": 2})
    (made / name).rename(tmp_path / "kept")
    (made / name).symlink_to(tmp_path / "kept")
    read: Callable[[Path], object] = read_status if name == "status.json" else Story.read
    with pytest.raises(DistproveError, match=f"{name} is a symbolic link"):
        read(made)
    for command in ("top", "report"):
        done = CliRunner().invoke(app, [command, str(made)])
        assert "Traceback" not in done.output


def test_a_proof_in_a_run_is_read_through_no_link(run_path: Path, tmp_path: Path) -> None:
    (run_path / "proof.msgpack").rename(tmp_path / "kept")
    (run_path / "proof.msgpack").symlink_to(tmp_path / "kept")
    for command in (["verify", str(run_path)], ["export", str(run_path), "--out", str(tmp_path / "E")]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert "symbolic link" in done.output


def test_a_report_is_not_written_through_links(victim: Path, tmp_path: Path) -> None:
    made = MadeRun(2).make(tmp_path / "run")
    (made / "report.html").symlink_to(victim)
    (made / "trace.json").symlink_to(victim)
    assert CliRunner().invoke(app, ["report", str(made)]).exit_code == 0
    assert victim.read_text() == "what is mine\n"
    assert not (made / "report.html").is_symlink()


def test_a_run_that_is_a_link_is_refused_with_the_way_on(run_path: Path, toys: ToySystem, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for refused in (
        lambda: Run.open(tmp_path / "latest"),
        lambda: Story.read(tmp_path / "latest"),
        lambda: Run.create(tmp_path / "link", toys, toys.plan()),
        lambda: delete_run(tmp_path / "latest"),
    ):
        with pytest.raises(UsageError, match="is a symbolic link; name the folder that it points to"):
            refused()
    assert list((tmp_path / "empty").iterdir()) == []


def test_folders_end_up_their_owners_alone(toys: ToySystem, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(0o777)
    Run.create(path, toys, toys.plan()).close()
    assert [mode(path), mode(path / "partitions")] == [0o700, 0o700]
    path.chmod(0o755)
    (path / "partitions").chmod(0o777)
    Run.open(path).close()
    assert [mode(path), mode(path / "partitions")] == [0o700, 0o700]


def test_a_folder_that_is_refused_keeps_its_mode(toys: ToySystem, tmp_path: Path) -> None:
    path = tmp_path / "thesis"
    path.mkdir()
    path.chmod(0o755)
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not empty and not a run"):
        Run.create(path, toys, toys.plan())
    assert mode(path) == 0o755


def test_what_belongs_to_somebody_else_is_refused(
    run_path: Path, toys: ToySystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    give(monkeypatch, folder_module, "os", geteuid=lambda: 4242)
    with pytest.raises(InputError, match="belongs to another user"):
        Run.open(run_path)
    with pytest.raises(InputError, match="belongs to another user"):
        Run.create(tmp_path / "new", toys, toys.plan())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["lock", "journal.jsonl", "job.json"])
def test_a_file_of_somebody_else_in_a_run_of_ours_is_refused(run_path: Path, name: str) -> None:
    os.chown(run_path / name, 4242, 4242)
    with pytest.raises(InputError, match="belongs to another user"):
        Run.open(run_path)


def test_the_lock_that_a_dead_driver_left_is_taken_over(run_path: Path, toys: ToySystem) -> None:
    (run_path / "lock").write_text("process 1 on a machine that is gone\n")
    with Run.open(run_path), pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
        Run.open(run_path)
    (run_path / "lock").unlink()
    with Run.open(run_path), pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
        Run.open(run_path)


def test_a_run_at_work_is_not_deleted(run_path: Path) -> None:
    with Run.open(run_path), pytest.raises(UsageError, match="in use by process"):
        delete_run(run_path)
    assert (run_path / "job.json").exists()
    delete_run(run_path)
    assert not run_path.exists()


@pytest.mark.parametrize("replaced", [False, True])
def test_no_driver_opens_a_run_that_is_being_deleted(
    replaced: bool, run_path: Path, toys: ToySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock goes last: until then whoever opens the run is told that it is in use."""
    told: list[str] = []

    def unlink(name: str, *, dir_fd: int) -> None:
        with suppress(FileNotFoundError), Folder.open(run_path) as folder:
            if folder.has("job.json"):
                with pytest.raises(UsageError, match="in use by process"):
                    Run.open(run_path)
                told.append(name)
        os.unlink(name, dir_fd=dir_fd)

    give(monkeypatch, folder_module, "os", unlink=unlink)
    if replaced:
        Run.create(run_path, toys, toys.plan(), overwrite=True).close()
    else:
        delete_run(run_path)
    assert "job.json" in told


def test_a_folder_with_some_file_of_that_name_is_not_deleted(toys: ToySystem, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"hello": 1}')
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises((FormatError, InputError)):
        delete_run(tmp_path)
    with pytest.raises((FormatError, InputError)):
        Run.create(tmp_path, toys, toys.plan(), overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_run_is_deleted_where_it_was_looked_at(
    run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a folder above may lay another folder of ours in the run's place, after that was looked at."""
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "thesis.tex").write_text("years of work")

    def swap(folder: Folder) -> dict[str, Any]:
        record = read_record(folder)
        run_path.rename(tmp_path / "moved")
        home.rename(run_path)
        return record

    monkeypatch.setattr("cluster.record.run.read_record", swap)
    with pytest.raises(InputError, match="was moved"):
        delete_run(run_path)
    assert (run_path / "deep" / "thesis.tex").read_text() == "years of work"


def test_a_run_is_deleted_without_what_it_links_to(run_path: Path, victim: Path, tmp_path: Path) -> None:
    (run_path / "link").symlink_to(victim)
    (run_path / "partitions" / "more").symlink_to(victim.parent)
    deep = run_path / "/".join("d" * 30)
    deep.mkdir(parents=True)
    with pytest.raises(InputError, match="deeper"):
        delete_run(run_path)
    shutil.rmtree(run_path / "d")
    delete_run(run_path)
    assert not run_path.exists()
    assert victim.read_text() == "what is mine\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links away")
@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_no_link_that_anyone_may_have_laid_leads_to_a_run(toys: ToySystem, tmp_path: Path, mode: int) -> None:
    """In a folder that all may write, as /tmp, somebody may lay a link where one's own folder was, or will be."""
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    home.mkdir()
    shared.chmod(mode)
    os.chown(shared, 4242, 4242)  # whose own links the kernel lets everybody follow
    (shared / "mine").symlink_to(home)
    Run.create(shared / "mine" / "first", toys, toys.plan()).close()
    (shared / "theirs").symlink_to(home)
    os.lchown(shared / "theirs", 4242, 4242)
    for refused in (
        lambda: Run.create(shared / "theirs" / "second", toys, toys.plan()),
        lambda: Run.create(shared / "theirs" / "new" / "second", toys, toys.plan()),
        lambda: Run.open(shared / "theirs" / "first"),
        lambda: delete_run(shared / "theirs" / "first"),
    ):
        with pytest.raises(UsageError, match="theirs is a symbolic link of user 4242, in a folder that all may write"):
            refused()
    assert [path.name for path in home.iterdir()] == ["first"]


def test_what_a_driver_writes_stays_in_the_run_when_its_path_changes(
    run_path: Path, toys: ToySystem, victim: Path, tmp_path: Path
) -> None:
    """The folder is held open: whoever moves it away, and lays a link in its place, moves no writes."""
    with Run.open(run_path) as run:
        run_path.rename(tmp_path / "moved")
        (tmp_path / "home").mkdir()
        run_path.symlink_to(tmp_path / "home")
        run.folder.write(PROOF_FILE, b"a proof")
        run.note("event")
    assert list((tmp_path / "home").iterdir()) == []
    assert (tmp_path / "moved" / "proof.msgpack").read_bytes() == b"a proof"
    assert [event["event"] for event in read_journal(tmp_path / "moved")][-1] == "event"


# -- sweeps -----------------------------------------------------------------------------------------------------------


def small_sweep(folder: Path, system: ToySystem, settings: ExecutorSettings) -> None:
    sweep(system, settings, Grid(), folder, repeats=1, warmup=0)


@pytest.mark.parametrize("name", ["cells", "work"])
def test_a_sweep_goes_through_no_linked_folder(
    toys: ToySystem, local: ExecutorSettings, tmp_path: Path, name: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "sweep").mkdir()
    small_sweep(tmp_path / "sweep", toys, local)
    for cell in (tmp_path / "sweep" / "cells").iterdir():
        cell.unlink()
    if name == "cells":
        (tmp_path / "sweep" / name).rmdir()
    (tmp_path / "sweep" / name).symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        small_sweep(tmp_path / "sweep", toys, local)
    assert list((tmp_path / "home").iterdir()) == []


def test_a_sweep_reads_no_linked_file_and_is_its_owners_alone(
    toys: ToySystem, local: ExecutorSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    small_sweep(folder, toys, local)
    assert [mode(folder), mode(folder / "cells")] == [0o700, 0o700]
    for path in (folder / "about.json", next((folder / "cells").iterdir())):
        path.rename(tmp_path / "kept")
        path.symlink_to(tmp_path / "kept")
        with pytest.raises(InputError, match=f"{path.name} is a symbolic link"):
            small_sweep(folder, toys, local)
        path.unlink()
        (tmp_path / "kept").rename(path)


def test_a_cell_of_another_setting_is_refused(toys: ToySystem, local: ExecutorSettings, tmp_path: Path) -> None:
    """It would be written to best.toml, which the user proves with."""
    folder = tmp_path / "sweep"
    small_sweep(folder, toys, local)
    path = folder / "cells" / "jobs1.json"
    record = json.loads(path.read_text())
    record["cell"]["gpu_workers"] = 500
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="of another setting"):
        small_sweep(folder, toys, local)
