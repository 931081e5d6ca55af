"""Times what a newcomer does with a wheel: `python -m distprove.measure.first_proof WHEEL --python PYTHON ...`.

Each Python gets a bare environment: a home without files, no compiler, and no other program on the path. There pip
or uv installs the wheel, and `distprove demo` makes the first proof. A STARK's job follows, and `distprove verify`
checks it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

INSTALL, FIRST = "install", "distprove demo"
STARK = ("prove", "stark", "fibonacci", "--rows", "2^10", "--partitions", "2", "--out", "run")
PASSED_ON = ("PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")
"""Starts of the names of variables that the environment keeps: pip needs them to fetch packages."""


@dataclass(frozen=True)
class Taken:
    """The time of a command: by the clock, which other work on the machine stretches, and of all cores together."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class FirstProof:
    """What one Python took, with the wheel that it installed."""

    python: str
    wheel: str
    steps: dict[str, Taken]
    """What each command took, in their order."""

    @property
    def to_first_proof(self) -> Taken:
        """Time from the start of the installation to the end of the first job."""
        install, first = self.steps[INSTALL], self.steps[FIRST]
        seconds, cpu_seconds = install.seconds + first.seconds, install.cpu_seconds + first.cpu_seconds
        return Taken(round(seconds, 2), round(cpu_seconds, 2))


def bare_environment(home: Path, programs: Path) -> dict[str, str]:
    """The variables of a machine without a compiler, where only the folder `programs` is on the path."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return {**kept, "HOME": str(home), "PATH": str(programs), "CC": "false", "CXX": "false", "LANG": "C.UTF-8"}


def try_wheel(python: Path, wheel: Path, constraints: Path | None = None, uv: Path | None = None) -> FirstProof:
    """Install a wheel in a new environment of `python`, and prove there; `uv` installs in place of pip.

    Raises CalledProcessError if a step fails.
    """
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[-1]
    with tempfile.TemporaryDirectory() as folder:
        home, programs = Path(folder, "home"), Path(folder, "venv", "bin")
        home.mkdir()
        subprocess.run([python, "-m", "venv", Path(folder, "venv")], check=True)
        environment = bare_environment(home, programs)
        program = str(programs / "distprove")
        limits = [] if constraints is None else ["--constraint", str(constraints.resolve())]
        here = str(programs / "python")
        install = [here, "-m", "pip", "install"] if uv is None else [str(uv), "pip", "install", "--python", here]
        steps: dict[str, Sequence[str]] = {
            INSTALL: [*install, "--quiet", *limits, str(wheel.resolve())],
            FIRST: [program, "demo"],
            "distprove prove stark": [program, *STARK],
            "distprove verify": [program, "verify", "run"],
        }
        taken = {name: timed(command, home, environment) for name, command in steps.items()}
    return FirstProof(version, wheel.name, taken)


def timed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Taken:
    """Run a command in a folder. Raises CalledProcessError if it fails."""
    start, before = time.perf_counter(), os.times()
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
    seconds, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(round(seconds, 2), round(used, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", type=Path, nargs="+", default=[Path(sys.executable)])
    parser.add_argument("--constraint", type=Path, help="versions of packages for pip")
    parser.add_argument("--uv", type=Path, help="the uv that installs, in place of pip")
    given = parser.parse_args()
    made = [try_wheel(python, given.wheel, given.constraint, given.uv) for python in given.python]
    print(json.dumps([{**asdict(each), "to_first_proof": asdict(each.to_first_proof)} for each in made], indent=1))


if __name__ == "__main__":
    main()
