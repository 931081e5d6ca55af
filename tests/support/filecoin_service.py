"""A storage provider's jobs in a service, timed: a PoRep from C1 to bytes, and WinningPoSts alone and beside it.

`python -m tests.support.filecoin_service --size 32GiB --out results.json` makes inputs of sectors that nobody sealed
and keys for development in `--folder` (44 GiB for 32 GiB), starts a service, and times whole commands. `--size 2KiB`
goes through the same sequence in minutes without a GPU, with a sector that filecoin-proofs sealed. The result has every
command with its seconds and exit code, and how long the jobs themselves took. Other arguments go to `up`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from distprove.filecoin.sectors import SEAL_PROOFS
from tests.filecoin.made_c1 import made_c1, made_winning_post
from tests.filecoin.sectors import SEALED, c1_value

RANDOMNESS = "05" * 31 + "00"
_BESIDE = (1.0, 3.0, 5.0)
"""Seconds after the start of a PoRep, at which WinningPoSts are asked for."""


@dataclass
class Timed:
    """A command of `distprove`, as it was run: seconds of the whole process, and where it stands in the sequence."""

    part: str
    seconds: float
    exit_code: int
    command: str


@dataclass
class Sequence:
    """Commands run in one folder, one by one or beside each other."""

    folder: Path
    done: list[Timed] = field(default_factory=list)

    def run(self, part: str, *args: object) -> float:
        """Run a command and keep its time. Raises RuntimeError if it fails."""
        command = [sys.executable, "-m", "distprove", *map(str, args)]
        begun = time.perf_counter()
        where = {**os.environ, "DISTPROVE_SERVICE": str(self.folder / "service")}
        done = subprocess.run(command, cwd=self.folder, env=where, capture_output=True, text=True)
        seconds = round(time.perf_counter() - begun, 3)
        timed = Timed(part, seconds, done.returncode, " ".join(["distprove", *command[3:]]))
        self.done.append(timed)
        print(f"{timed.seconds:9.3f} s  {part}: {timed.command}", flush=True)
        if done.returncode:
            raise RuntimeError(f"{timed.command}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return timed.seconds

    @contextmanager
    def beside(self, part: str, *args: object) -> Iterator[None]:
        """Run a command on a thread, and wait for it at the end."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.run(part, *args)
            except RuntimeError as error:
                failed.append(error)

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            thread.join()
        if failed:
            raise failed[0]


def inputs(folder: Path, size: str) -> None:
    """The vanilla proofs of a PoRep and of a WinningPoSt, if they are not there."""
    kind = f"StackedDrg{size}V1_1"
    for name, make in (
        ("c1.json", lambda: c1_value(kind) if kind in SEALED else made_c1(SEAL_PROOFS[kind], Random(7))),
        ("winning.json", lambda: [made_winning_post(size, bytes.fromhex(RANDOMNESS), Random(9))]),
    ):
        path = folder / name
        if not path.exists():
            path.write_text(json.dumps(make()), encoding="utf-8")


def sequence(folder: Path, size: str, repeats: int, options: list[str]) -> list[Timed]:
    """Everything, in the order of a provider's first day."""
    steps = Sequence(folder)
    keys = {"porep": f"filecoin/porep-{size}", "winning": f"filecoin/winning-post-{size}"}
    for name, circuit in keys.items():
        if not (folder / f"{name}.params").exists():
            files = ("--out", f"{name}.params", "--vk", f"{name}.vk.json")
            steps.run("set-up", "setup", "groth16", "--circuit", circuit, "--insecure-dev", *files)
    statement = ("--winning-post", "winning.json", "--randomness", RANDOMNESS)
    winning = ("prove", "filecoin", *statement, "--params", "winning.params")
    porep = ("prove", "filecoin", "--c1", "c1.json", "--params", "porep.params")
    steps.run("start", "up", "--folder", "service", *options)
    try:
        for name, circuit in keys.items():
            steps.run(f"load {name}", "keys", "load", "--params", f"{name}.params", "--circuit", circuit)
        for k in range(repeats):
            steps.run("winning alone", *winning, "--out", f"w{k}")
        steps.run("porep, first", *porep, "--out", "p0")
        for k in range(1, repeats + 1):
            with steps.beside("porep with three winning", *porep, "--out", f"p{k}"):
                begun = time.perf_counter()
                for place, at in enumerate(_BESIDE):
                    time.sleep(max(0.0, begun + at - time.perf_counter()))
                    steps.run("winning beside", *winning, "--out", f"b{k}-{place}")
            steps.run("porep alone", *porep, "--out", f"a{k}")
        for name, circuit in keys.items():
            steps.run(f"evict {name}", "keys", "evict", "--params", f"{name}.params", "--circuit", circuit)
            steps.run(f"load {name} again", "keys", "load", "--params", f"{name}.params", "--circuit", circuit)
        for name, out in (("porep", "a1"), ("winning", "b1-0")):
            steps.run("verify", "verify", out, "--vk", f"{name}.vk.json")
    finally:
        steps.run("end", "down")
    return steps.done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", default="2KiB", help="2KiB, 8MiB, 512MiB, 32GiB or 64GiB")
    parser.add_argument("--folder", type=Path, default=Path("filecoin-service"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    given, options = parser.parse_known_args()
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    inputs(folder, given.size)
    done: list[dict[str, Any]] = [asdict(each) for each in sequence(folder, given.size, given.repeats, options)]
    reports = {path.parent.name: json.loads(path.read_bytes()) for path in sorted(folder.glob("*/report.json"))}
    jobs = {name: report["wall_seconds"] for name, report in reports.items()}
    result = {"format": "distprove.filecoin-service", "size": given.size, "commands": done, "job_seconds": jobs}
    given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
