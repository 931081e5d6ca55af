"""What made a run or a report: version, commit, command line, user and host. Nothing secret is in it."""

from __future__ import annotations

import getpass
import json
import os
import platform
import sys
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

MOST_WORDS = 100
"""Words of a command that are kept: a shell may put a hundred thousand files in the place of `*`."""
_ROOT = Path(__file__).resolve().parents[2]


def provenance() -> dict[str, Any]:
    """Plain data for job.json and report.json."""
    return {
        "version": version(),
        "commit": commit(),
        "command": [*_own_command(tuple(sys.argv))],
        "user": _user(),
        "host": platform.node(),
        "python": platform.python_version(),
    }


class Identity(NamedTuple):
    """What the processes of one job must agree on."""

    version: str
    commit: str | None

    def agrees(self, other: Identity) -> bool:
        """Whether both are the same, as far as it is known: an installed wheel does not know its commit."""
        return self.version == other.version and (
            self.commit == other.commit or self.commit is None or other.commit is None
        )

    def __str__(self) -> str:
        return f"distprove {self.version}" + (f" (commit {self.commit[:12]})" if self.commit else "")


def identity() -> Identity:
    """Version and commit of this process's own code."""
    return Identity(version(), commit())


@cache
def version() -> str:
    """The version of the installed distribution."""
    try:
        return metadata.version("distprove")
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def commit() -> str | None:
    """The commit of the checkout that this code lies in, or that was installed from; None where that is not known."""
    with suppress(OSError, ValueError, KeyError, TypeError, metadata.PackageNotFoundError):
        if (_ROOT / ".git").exists():
            return _head(_ROOT)
        origin = json.loads(metadata.distribution("distprove").read_text("direct_url.json") or "{}")
        return str(origin["vcs_info"]["commit_id"])
    return None


@cache
def _user() -> str:
    with suppress(KeyError, OSError, ImportError):  # one without a name, as in some containers
        return getpass.getuser()
    return str(os.getuid())


@lru_cache(1)
def _own_command(words: tuple[str, ...]) -> list[str]:
    """The words of this process's own command, which a service tells in each of its runs."""
    return command_line(list(words))


def command_line(words: list[str]) -> list[str]:
    """The command and its arguments, of which none is a secret; of a program that is not ours only its name."""
    program = Path(words[0]) if words else Path()
    ours = program.name == "distprove" or program.resolve() == _ROOT / "distprove" / "__main__.py"
    more = [f"... and {len(words) - MOST_WORDS} more"] if len(words) > MOST_WORDS else []
    return [*words[:MOST_WORDS], *more] if ours else [program.name]


def _head(root: Path) -> str | None:
    """The commit that is checked out at `root`, from git's own files."""
    git = root / ".git"
    if git.is_file():  # of a further work tree
        git = root / git.read_text().removeprefix("gitdir:").strip()
    common = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    ref = head.removeprefix("ref: ")
    for folder in (git, common):
        if (folder / ref).is_file():
            return (folder / ref).read_text().strip()
    packed = (common / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {ref}")), None)
