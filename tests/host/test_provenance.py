"""What runs and reports say of how they were made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from distprove.host import provenance
from tests.support import ROOT


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no checkout")
@pytest.mark.parametrize("packed", [False, True])
def test_the_commit_is_the_one_that_git_names(packed: bool, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=x", "-c", "user.email=x")
        return subprocess.run(["git", *named, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x")
    if packed:
        git("pack-refs", "--all")
    head = git("rev-parse", "HEAD").strip()
    assert provenance._head(tmp_path) == head
    git("worktree", "add", "-q", "-b", "other", "tree")
    assert provenance._head(tmp_path / "tree") == head
    git("checkout", "-q", "--detach")
    assert provenance._head(tmp_path) == head


def test_the_command_is_kept_and_of_other_programs_only_the_name() -> None:
    words = ["/opt/bin/distprove", "prove", "job.toml"]
    assert provenance.command_line(words) == words
    assert provenance.command_line([str(ROOT / "distprove" / "__main__.py"), "top"])[1:] == ["top"]
    assert provenance.command_line(["/home/me/send.py", "--password", "hunter2"]) == ["send.py"]
    assert provenance.command_line([]) == [""]
    assert provenance.command_line(["distprove", *map(str, range(1000))])[-2:] == ["98", "... and 901 more"]


def test_what_is_kept_holds_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "8c1d2c5a9e")
    made = provenance.provenance()
    assert "8c1d2c5a9e" not in json.dumps(made)
    assert made.keys() == {"version", "commit", "command", "user", "host", "python"}
    assert made["version"] in str(provenance.identity())
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a user without a name
    provenance._user.cache_clear()
    assert provenance.provenance()["user"] == str(os.getuid())
    provenance._user.cache_clear()


def test_processes_agree_as_far_as_they_know_what_they_are() -> None:
    known, other, wheel = (provenance.Identity("1.0", commit) for commit in ("a" * 40, "b" * 40, None))
    assert known.agrees(known)
    assert known.agrees(wheel)
    assert wheel.agrees(known)
    assert not known.agrees(other)
    assert not wheel.agrees(provenance.Identity("1.1", None))
