"""The table of proof systems is the one place that names them: one more is a folder and a line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from distprove.errors import FormatError, UsageError
from distprove.groth16.options import Groth16Options
from distprove.job import Job
from distprove.proof import Proof
from distprove.registry import SYSTEMS, entry_of
from distprove.verification import verify_proof
from tests.cli.conftest import run, why_refused
from tests.support import ROOT
from tests.support.toy_system import TOY_BACKEND

OF_ONE_SYSTEM = (
    *(f"distprove/{part}/" for part in ("groth16", "stark", "filecoin", "circuits")),
    "distprove/registry.py",
    "distprove/several.py",
    "cluster/service/cuzk/",
    *(
        f"distprove/cli/{name}.py"
        for name in (
            "aggregate",
            "air",
            "bench",
            "cuzk",
            "demo",
            "filecoin",
            "gnark",
            "key",
            "new",
            "openvm",
            "openvm_profile",
            "programs",
            "proof_json",
            "ptau",
            "r1cs",
            "read_wrap",
            "replaced",
            "run",
            "security",
            "setup",
            "several_jobs",
            "wtns",
            "zkey",
        )
    ),
    *(
        f"distprove/measure/{name}"
        for name in (
            *("campaign/", "filecoin.py", "first_proof.py", "groth16.py", "openvm_profile.py", "openvm_segments.py"),
            *("performance_page.py", "stark.py", "stark_limits.py", "tables.py", "versus.py", "wheels.py"),
        )
    ),
)
"""What is about one proof system by its nature, and the table."""


def test_nothing_else_names_a_proof_system() -> None:
    paths = [path for top in ("kernels", "distprove", "actors", "cluster") for path in (ROOT / top).rglob("*.py")]
    others = {path for path in paths if not str(path.relative_to(ROOT)).startswith(OF_ONE_SYSTEM)}
    assert len(others) > 100
    found = {f"{path.relative_to(ROOT)}: {name}" for path in others for name in named(path)}
    assert found == set()


def named(path: Path) -> Iterator[str]:
    """The names and texts of a module's code that have the name of a proof system in them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        texts = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        if id(node) not in documents:
            yield from (text for text in texts if any(name in text.lower() for name in SYSTEMS))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A job file of the toy system, which one line makes known."""
    monkeypatch.setitem(SYSTEMS, "toy", "tests.support.toy_entry")
    job = tmp_path / "job.toml"
    job.write_text(f'system = "toy"\nfolder = "{tmp_path}"\ncount = 3\n[executor]\nbackend = "{TOY_BACKEND}"\n')
    return job


@pytest.mark.parametrize("way", ["file", "options"])
def test_a_system_that_is_one_entry_is_proven_verified_resumed_and_exported(
    toy: Path, tmp_path: Path, way: str
) -> None:
    out, here = tmp_path / "run", ("--local", "--no-isolate")
    options = ("toy", "--folder", tmp_path, "--count", 3, "--backend", TOY_BACKEND)
    done = run("prove", *((toy,) if way == "file" else options), "--out", out, *here)
    assert done.exit_code == 0, done.output
    (out / "partitions" / "p1.msgpack").unlink(missing_ok=True)
    (out / "proof.msgpack").unlink()
    resumed = run("resume", out, "--backend", TOY_BACKEND)
    assert resumed.exit_code == 0, resumed.output

    assert "--trust-own-key" in str(run("verify", out).output)
    (tmp_path / "key").write_bytes(b"toy key")
    checked = run("verify", out, "--vk", tmp_path / "key", "--json")
    assert checked.exit_code == 0, checked.output
    assert [p["name"] for p in json.loads(checked.stdout)["partitions"]] == ["p0", "p1", "p2"]

    exported = run("export", out, "--out", tmp_path / "E")
    assert exported.exit_code == 0, exported.output
    assert "3 partitions in" in exported.output
    assert "toy-verify" in exported.output


def test_the_systems_are_listed_with_what_they_do(toy: Path) -> None:
    listed = run("prove", "--help").output
    for name in SYSTEMS:
        assert f" {name} " in listed
        assert entry_of(name).help[:30] in listed


def test_what_is_wrong_with_a_job_of_it_is_told_from_its_settings(toy: Path, tmp_path: Path) -> None:
    text = toy.read_text()
    for wrong, told in (
        (text.replace("count = 3", "counts = 3"), "did you mean `count`"),
        (text.replace("count = 3", 'count = "3"'), "`count` must be an integer"),
        (text.replace('"toy"', '"tory"'), "did you mean `toy`"),
    ):
        toy.write_text(wrong)
        assert told in why_refused(run("prove", toy, "--out", tmp_path / "run"))
    for options, told in ((("--count", 0), "--count"), (("--counts", 1), "--counts"), ((), "--folder")):
        assert told in why_refused(run("prove", "toy", "--out", tmp_path / "run", *options))


def test_other_names_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown proof system 'plonk'"):
        Job("plonk", Groth16Options(zkey=Path("c.zkey"))).load()
    with pytest.raises(UsageError, match="the options of a job of stark must be StarkOptions"):
        Job("stark", Groth16Options(zkey=Path("c.zkey"))).load()
    with pytest.raises(FormatError, match="of system 'plonk', which this distprove cannot verify"):
        verify_proof(Proof("plonk", bytes(32), {}, ()))


def test_a_key_that_came_with_the_proof_is_not_believed_unread() -> None:
    with pytest.raises(FormatError, match="verification key"):
        entry_of("groth16").verifier({"curve": "bn128"}, None)
