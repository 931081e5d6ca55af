"""No command writes over what it reads, writes two things at one place, or replaces a file unasked.

The commands are found by walking the command line: one that takes a path must say which it writes (`Writes`), or be
named here among those that only read it.
"""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from distprove import api
from distprove.cli.app import COMMANDS, load
from distprove.cli.option_groups import Writes
from distprove.errors import UsageError
from distprove.formats.files import place_of, require_apart
from distprove.groth16.r1cs import read_r1cs
from distprove.groth16.setup import setup
from kernels.cpu.backend import CpuBackend
from tests.cli.conftest import SmallJob, run, why_refused

READ = {
    *("srs", "r1cs", "ptau", "zkey", "params", "wasm", "vk", "aggregate", "guest", "private_file", "public_input"),
    *("generic_srs", "keys", "input_file", "wrap_key", "wrap_vk", "c1", "winning_post", "window_post", "update"),
    *("path", "proof", "srs_verifier", "statement", "run", "runs", "wtns", "output", "token_file", "ca_file"),
    *(
        "public",
        "tls_cert",
        "tls_key",
        "root",
        "arguments",
        "program_elf",
        "program_file",
        "program_input",
        "program_public",
        "traces",
        "gnark_pk",
        "gnark_vk",
        "profile",
        "key",
    ),
}
"""Names of the paths that commands read."""
NEITHER = {("up", "folder"), ("submit", "out_folder"), ("cuzk", "spool")}
"""A service's own folder; a run folder on its machine, which the service looks at itself; a private folder."""


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """All commands below one, without those of a user's own programs."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    with typer.Context(command) as context:
        for inner in {*command.list_commands(context), *command.commands} - {"MODULE:CLASS"}:
            yield from leaves(f"{name} {inner}", command.get_command(context, inner) or command.commands[inner])


LEAVES = dict(found for name in COMMANDS for found in leaves(name, load(name)))


def paths(command: Any) -> dict[str, Writes | None]:
    """The parameters of a command that are paths, with what it says of those that it writes."""
    found = {}
    for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items():
        metadata = getattr(parameter.annotation, "__metadata__", ())
        marks = [mark for mark in metadata if isinstance(mark, Writes)]
        texts = [mark.metavar for mark in metadata if isinstance(mark, typer.models.ParameterInfo)]
        if marks or "Path" in str(parameter.annotation) or "PATH" in texts:
            found[name] = marks[0] if marks else None
    return found


WRITING = sorted(name for name, command in LEAVES.items() if any(paths(command).values()))
PAIRS = [
    (name, written, other)
    for name in WRITING
    for written, mark in paths(LEAVES[name]).items()
    if mark is not None
    for other in paths(LEAVES[name])
    if other != written
]


def test_every_path_of_every_command_is_written_or_read() -> None:
    assert len(LEAVES) >= 58
    unknown = {
        (name, path)
        for name, command in LEAVES.items()
        for path, mark in paths(command).items()
        if mark is None and path not in READ and (name, path) not in NEITHER
    }
    assert not unknown, "say which of these their commands write (Writes), or name them in READ"
    assert {"setup groth16", "setup aggregation", "setup inputs", "aggregate", "export", "report", "sweep", "run"} < {
        *WRITING
    }
    assert {"prove groth16", "prove stark riscv", "prove job-file", "key file-root", "demo"} < {*WRITING}


def contents(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def kind_of(parameter: Any) -> Any:
    """The kind of a parameter's values: Typer has a name of its own for it from 0.29 on."""
    return parameter.type if hasattr(parameter, "type") else parameter.bare_type()


def arguments(command: Any, folder: Path, chosen: dict[str, Path]) -> list[str]:
    """What a command must be given, with a file of its own for each path, and the `chosen` ones."""
    given = []
    for parameter in command.params:
        name = parameter.name
        if not parameter.required and name not in chosen and name != "overwrite":
            continue
        value: Any = chosen.get(name)
        if value is None and "path" in f"{kind_of(parameter)} {parameter.metavar}".lower():
            value = folder / f"own-{name}"
            if paths(command).get(name) is None:
                value.write_bytes(name.encode())
        words = [] if parameter.param_type_name == "argument" else [max(parameter.opts, key=len)]
        given += words if getattr(parameter, "is_flag", False) else [*words, str(value or 1)]
    return given


@pytest.mark.parametrize(("name", "written", "other"), PAIRS)
@pytest.mark.parametrize("way", ["same", "symbolic", "hard"])
def test_no_command_writes_over_what_it_reads_or_writes(
    name: str, written: str, other: str, way: str, tmp_path: Path
) -> None:
    command, marks = LEAVES[name], paths(LEAVES[name])
    folder, mine, theirs = marks[written], tmp_path / "file", tmp_path / "other"
    assert folder is not None
    if folder.files is None:
        (tmp_path / "file").mkdir()
        (tmp_path / "file" / "inner").write_bytes(b"what is mine")
    else:
        mine.write_bytes(b"what is mine")
    if way == "same" or (way == "hard" and mine.is_dir()):
        theirs = mine
    elif way == "symbolic":
        theirs.symlink_to(mine)
    else:
        theirs.hardlink_to(mine)
    args = arguments(command, tmp_path, {written: theirs, other: mine})
    before = contents(tmp_path)
    told = why_refused(run(*name.replace("job-file", "").split(), *args))
    assert "and would be overwritten" in told or "both would be written" in told
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", WRITING)
def test_no_command_replaces_a_file_unasked(name: str, tmp_path: Path) -> None:
    for written, mark in paths(LEAVES[name]).items():
        if mark is None or mark.files is None:
            continue
        for number, kind in enumerate(("file", "link", "pipe", "nothing")):
            place = tmp_path / f"{written}-{number}"
            there = [*mark.files(place, {"count": 1})][-1]
            there.parent.mkdir(exist_ok=True)
            if kind == "file":
                there.write_bytes(b"what is mine")
            elif kind == "pipe":
                os.mkfifo(there)
            else:
                (tmp_path / f"target-{number}").write_bytes(b"theirs")
                there.symlink_to(tmp_path / (f"target-{number}" if kind == "link" else "none"))
            args = [arg for arg in arguments(LEAVES[name], tmp_path, {written: place}) if arg != "--overwrite"]
            told = why_refused(run(*name.split(), *args))
            assert f"{there} is " in told
            assert ("--overwrite" in told) == (kind in ("file", "link"))
            assert os.path.lexists(there)
            assert kind != "file" or there.read_bytes() == b"what is mine"


# -- what a place is ---------------------------------------------------------------------------------------------------


def test_a_place_is_the_same_by_every_way_to_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "up").symlink_to("a/b")
    (tmp_path / "a" / "f").write_text("x")
    (tmp_path / "gone").symlink_to("a/none")
    same = {place_of(tmp_path / way) for way in ("a/f", "a/./f", "a/b/../f", "up/../f")}
    assert len(same) == 1
    assert place_of(tmp_path / "gone") == place_of(tmp_path / "up/../none") == place_of(tmp_path / "a/NONE")
    assert place_of(tmp_path / "a/x/e\u0301") == place_of(tmp_path / "a/x/\u00c9") != place_of(tmp_path / "a/x/e")
    assert place_of(tmp_path / "a/none") != place_of(tmp_path / "none")


def test_what_is_read_does_not_lie_in_a_folder_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "job.json").write_text("x")
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "in.json").symlink_to("run/job.json")
    for read in ("run/job.json", "link/job.json", "in.json"):
        with pytest.raises(UsageError, match="would be replaced"):
            require_apart([], [tmp_path / read], [tmp_path / "run"])
    require_apart([], [tmp_path / "elsewhere"], [tmp_path / "run"])


@pytest.mark.parametrize("name", ["job.json", "proof.msgpack", "journal.jsonl", "partitions/member-0.msgpack"])
@pytest.mark.parametrize(
    "command",
    [["report", "--out"], ["report", "--trace"], ["report", "--metrics"], ["aggregate", "--srs", "SRS", "--out"]],
)
def test_no_file_of_a_run_is_replaced_and_others_may_lie_beside_them(
    proven: Path, tmp_path: Path, command: list[str], name: str
) -> None:
    shutil.copytree(proven, tmp_path / "run")
    (tmp_path / "run" / "partitions" / "member-0.msgpack").touch()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    before = contents(tmp_path)
    args = (*command, tmp_path / "link" / name, "--overwrite")
    assert "would be overwritten" in why_refused(run(command[0], tmp_path / "run", *args[1:]))
    assert "would be overwritten" in why_refused(run("export", tmp_path / "run", "--out", tmp_path / "run" / name))
    assert contents(tmp_path) == before
    for more in ((), ("--overwrite",)) if command[0] == "report" else ():
        done = run("report", tmp_path / "run", command[1], tmp_path / "run" / "mine", *more)
        assert done.exit_code == 0, done.output


# -- jobs, from the command line, from Python, and of a service --------------------------------------------------------


@pytest.fixture
def inside(small_job: SmallJob, proven: Path, tmp_path: Path) -> Path:
    """A run in whose folder somebody put key, inputs and job file."""
    shutil.copytree(proven, tmp_path / "run")
    shutil.copytree(small_job.witnesses, tmp_path / "run" / "w")
    shutil.copy(small_job.zkey, tmp_path / "run" / "c.zkey")
    shutil.copy(small_job.zkey, tmp_path / "c.zkey")
    (tmp_path / "outside").symlink_to("run/w")
    (tmp_path / "run" / "job.toml").write_text('system = "groth16"\nzkey = "../c.zkey"\nwitnesses = ["../v"]\n')
    shutil.copytree(small_job.witnesses, tmp_path / "v")
    return tmp_path


@pytest.mark.parametrize(("zkey", "wtns"), [("c.zkey", "run/w"), ("c.zkey", "outside/*.wtns"), ("run/c.zkey", "v")])
def test_a_run_that_holds_its_own_input_is_not_replaced(inside: Path, zkey: str, wtns: str) -> None:
    before = contents(inside)
    args = ("--zkey", inside / zkey, "--wtns", inside / wtns, "--out", inside / "run", "--overwrite", "--no-service")
    assert "would be replaced" in why_refused(run("prove", "groth16", *args))
    with pytest.raises(UsageError, match="would be replaced"):
        api.prove(zkey=inside / zkey, witnesses=str(inside / wtns), out=inside / "run", overwrite=True)
    assert contents(inside) == before


def test_a_run_that_holds_its_own_job_file_is_not_replaced(inside: Path) -> None:
    before = contents(inside)
    job = inside / "run" / "job.toml"
    assert "would be replaced" in why_refused(run("prove", job, "--out", inside / "run", "--overwrite"))
    with pytest.raises(UsageError, match="would be replaced"):
        api.prove(job, out=inside / "run", overwrite=True)
    assert contents(inside) == before
    resumed = run("prove", job, "--out", inside / "run", "--resume")
    assert "is a run of another job" not in resumed.output
    assert resumed.exit_code == 0, resumed.output
    assert job.exists()


def test_a_run_beside_its_inputs_is_replaced(inside: Path) -> None:
    shutil.copytree(inside / "run", inside / "v" / "run")
    args = ("--zkey", inside / "c.zkey", "--wtns", inside / "v", "--out", inside / "v" / "run")
    assert run("prove", "groth16", *args, "--overwrite", "--local").exit_code == 0
    assert not (inside / "v" / "run" / "w").exists()


def test_set_up_from_python_keeps_its_inputs(small_job: SmallJob, tmp_path: Path) -> None:
    shutil.copy(small_job.folder / "c.r1cs", tmp_path / "c.r1cs")
    (tmp_path / "p.ptau").write_bytes(b"ptau")
    (tmp_path / "x.vk").symlink_to("c.r1cs")
    r1cs, before = read_r1cs(tmp_path / "c.r1cs"), contents(tmp_path)
    with CpuBackend(threads=1) as backend:
        for out, ptau in (("c.r1cs", None), ("p.ptau", tmp_path / "p.ptau"), ("x.params", None)):
            with pytest.raises(UsageError, match="would be overwritten"):
                setup(r1cs, ptau=ptau, insecure_dev=ptau is None, backend=backend, out=tmp_path / out)
    assert contents(tmp_path) == before


def test_a_sweep_keeps_its_job(small_job: SmallJob, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "best.toml").write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["../w"]\n')
    shutil.copytree(small_job.witnesses, tmp_path / "s" / "work")
    (tmp_path / "w").symlink_to("s/work")
    (tmp_path / "job.toml").write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["w"]\n')
    before = contents(tmp_path)
    for job in ("s/best.toml", "job.toml"):
        assert "would be replaced" in why_refused(run("sweep", tmp_path / job, "--out", tmp_path / "s"))
    assert contents(tmp_path) == before
