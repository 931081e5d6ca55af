"""Every command and subcommand is run once, as people run it: one that is added without a run here fails a test."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cluster.service.contact import holder_of
from distprove.circuits.registry import CIRCUITS, CircuitEntry
from distprove.cli.app import COMMANDS, load
from distprove.measure import filecoin
from distprove.stark.programs import PROGRAMS
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254
from tests.circuits.test_registry import squares
from tests.cli.conftest import SmallJob, run
from tests.cli.test_service_commands import JOB, Shell
from tests.cli.test_versus_command import PEER
from tests.groth16.test_setup import SECRETS
from tests.support import ROOT
from tests.support.known_tau import write_known_tau
from tests.support.openvm_golden import GOLDEN, key_path
from tests.support.ptau_ceremony import PERSONS, make_ptau
from tests.support.toy_program import toy_program

GUEST = ROOT / "tests" / "stark" / "riscv" / "guests" / "sha256.elf"
PROFILE = ROOT / "tests" / "measure" / "openvm" / "reth-excerpt.jsonl"
SWIRL = ("--key", key_path("fibonacci"), "--traces", GOLDEN / "fibonacci" / "traces.bin")
OWN = "MODULE:CLASS"
SMALL: dict[str, tuple[object, ...]] = {
    "fibonacci": ("--rows", 16),
    "wide-fibonacci": ("--rows", 16, "--width", 3),
    "keccak-f": ("--permutations", 1),
    "range-check": ("--values", 4, "--bits", 2),
    "file-root": ("--file", GUEST.parent / "sha256.c"),
    "riscv": ("--elf", GUEST),
    OWN: ("--with", "rows=16"),
}
"""The options of each program that make it small."""
CPU = ("--backend", "cpu", "--threads", 2)
ONCE = (*CPU, "--repeats", 1)
HERE = ("--local", "--gpus", 0, "--threads", 2)


@dataclass(frozen=True)
class Place:
    """What the commands find: a folder of their own, a Groth16 job and its run."""

    out: Path
    job: SmallJob
    proven: Path

    @property
    def witness(self) -> Path:
        return self.job.witnesses / "member-0.wtns"

    def job_file(self) -> Path:
        path = self.out / "job.toml"
        path.write_text(f'system = "groth16"\nzkey = "{self.job.zkey}"\nwitnesses = ["{self.witness}"]\n')
        return path

    @property
    def r1cs(self) -> Path:
        return self.job.folder / "c.r1cs"

    def ceremony(self) -> Path:
        """A key from powers of tau in p.ptau."""
        with CpuBackend(threads=2) as backend:
            write_known_tau(self.out / "p.ptau", BN254, 11, backend, **SECRETS, smallest=10)
        key, ptau = self.out / "c.zkey", self.out / "p.ptau"
        assert run("setup", "groth16", "--r1cs", self.r1cs, "--ptau", ptau, "--out", key, *CPU).exit_code == 0
        return key

    def powers(self) -> Path:
        with CpuBackend(threads=2) as backend:
            return make_ptau(self.out / "p.ptau", BN254, 2, PERSONS, backend)

    def program(self) -> tuple[object, ...]:
        """The words that name a witness program and its input."""
        (self.out / "c.wasm").write_bytes(toy_program())
        (self.out / "in.json").write_text('{"x": ["3", "4"]}')
        return "--wasm", self.out / "c.wasm", "--input", self.out / "in.json"

    def unfinished(self) -> Path:
        shutil.copytree(self.proven, self.out / "unfinished")
        (self.out / "unfinished" / "proof.msgpack").unlink()
        return self.out / "unfinished"

    def gnark(self) -> tuple[Path | str, ...]:
        """A proof in gnark's files, with the options that name its key and its public values."""
        files = self.out / "gnark"
        assert run("gnark", "export", self.proven, "--out", files).exit_code == 0
        own = files / "member-0"
        return own / "proof.gnark", "--vk", files / "verifying_key.gnark", "--public", own / "public.gnark"

    def srs(self) -> Path:
        made = self.out / "keys.srs"
        assert run("setup", "aggregation", "--out", made, "--proofs", 4, "--insecure-dev", *CPU).exit_code == 0
        return made

    def peer(self) -> str:
        (self.out / "peer.py").write_text(PEER)
        script = shlex.quote(str(self.out / "peer.py"))
        return f"{shlex.quote(sys.executable)} {script} {{zkey}} {{wtns}} {{proof}} {{public}} none"


Words = Callable[[Place], tuple[object, ...]]


def _of(program: str, more: Words) -> Words:
    """The words of a command that takes a program."""
    return lambda here: (*SMALL[program], *more(here))


RUNS: dict[str, Words] = {
    "demo": lambda here: ("--out", here.out / "demo", "--partitions", 2, "--threads", 2, "--gpus", 0),
    "prove groth16": lambda here: ("--zkey", here.job.zkey, "--wtns", here.witness, "--out", here.out / "r", *HERE),
    "prove swirl": lambda here: (*SWIRL, "--out", here.out / "r", *HERE),
    "resume": lambda here: (here.unfinished(), *HERE),
    "verify": lambda here: (here.proven, "--vk", here.job.vk),
    "aggregate": lambda here: (here.proven, "--srs", here.srs(), "--out", here.out / "small", *CPU),
    "export": lambda here: (here.proven, "--out", here.out / "files"),
    "top": lambda here: (here.proven,),
    "report": lambda here: (here.proven, "--out", here.out / "page.html"),
    "run": lambda here: (GUEST,),
    "new guest": lambda here: (here.out / "ledger", "--lang", "c"),
    "air report": lambda here: ("tests.support.air_examples:Fibonacci",),
    "air check": lambda here: ("tests.support.air_examples:Fibonacci",),
    "air compile": lambda here: ("fibonacci", "--arch", "90"),
    "setup groth16": lambda here: (*("--r1cs", here.r1cs, "--insecure-dev", "--out", here.out / "k.zkey", *CPU),),
    "setup contribute": lambda here: (here.job.zkey, "--out", here.out / "more.zkey", *CPU),
    "zkey contribute": lambda here: (here.job.zkey, "--out", here.out / "more.zkey", *CPU),
    "zkey beacon": lambda here: (here.job.zkey, "--out", here.out / "more.zkey", "--beacon", "0c0d", *CPU),
    "zkey export": lambda here: (here.job.zkey, "--out", here.out / "vk.json"),
    "zkey verify": lambda here: (here.ceremony(), "--r1cs", here.r1cs, "--ptau", here.out / "p.ptau", *CPU),
    "gnark export": lambda here: (here.proven, "--out", here.out / "files"),
    "gnark verify": lambda here: here.gnark(),
    "gnark exporter": lambda here: ("--out", here.out / "export"),
    "gnark key": lambda here: (here.gnark()[2], "--out", here.out / "vk.json"),
    "ptau verify": lambda here: (here.powers(), *CPU),
    "wtns calculate": lambda here: (*here.program(), "--out", here.out / "w.wtns"),
    "wtns check": lambda here: (here.witness, "--r1cs", here.r1cs, *CPU),
    "r1cs info": lambda here: (here.r1cs,),
    "setup aggregation": lambda here: ("--out", here.out / "k.srs", "--proofs", 2, "--insecure-dev", *CPU),
    "setup inputs": lambda here: ("--circuit", "filecoin/snap-deals-poseidon-1KiB", "--out", here.out / "inputs"),
    "doctor": lambda here: (),
    "bench msm": lambda here: ("--sizes", 4, "--curve", "bn254", "--group", "g1", *ONCE),
    "bench ntt": lambda here: ("--sizes", 4, "--curve", "bn254", *ONCE),
    "bench groth16": lambda here: ("--sizes", 6, *ONCE),
    "bench versus": lambda here: (here.peer(), "--zkey", here.job.zkey, "--wtns", here.witness, *ONCE),
    "bench filecoin": lambda here: ("--config", "squares", "--threads", 1),
    "bench openvm-profile": lambda here: (PROFILE, "--segments", 0, "--scale-height", -22, *ONCE),
    "bench scaling": lambda here: (here.job_file(), "--workers", 1, "--over", "local", "--partitions", 12),
    "bench service": lambda here: (here.job_file(), "--jobs", 10, "--repeats", 1, "--gpus", 0, "--threads", 2),
    "sweep": lambda here: (
        *(here.job_file(), "--out", here.out / "sweep", *HERE, "--repeats", 1, "--warmup", 0),
        *("--jobs", 1, "--parallel", 1, "--gpu-workers", 1),
    ),
    "kernels": lambda here: ("--only", "invert", "--arch", "90"),
    **{f"prove stark {name}": _of(name, lambda here: ("--out", here.out / "r", *HERE)) for name in SMALL},
    **{f"key {name}": _of(name, lambda here: ("--out", here.out / "key.msgpack")) for name in SMALL},
    **{f"security {name}": _of(name, lambda here: ()) for name in SMALL},
    **{f"bench stark {name}": _of(name, lambda here: ONCE) for name in SMALL},
}
"""The words that follow each command, without those of the service."""
SERVICE = {
    "up": ("--local", "--gpus", "0", "--port", "0"),
    "submit": ("job.toml", "--id", "a"),
    "await": ("a",),
    "status": (),
    "list": (),
    "logs": ("a",),
    "cancel": ("a",),
    "down": (),
}
"""The same of the service, in an order in which they can be asked."""
ELSEWHERE = {"setup wrap", "prove filecoin", "cuzk", "keys list", "keys load", "keys evict"}
"""Commands that have no run here: circuits of three million constraints (test_wrap_command) and of twenty thousand
(tests/filecoin/test_system.py), a server that runs until it is interrupted (tests/cluster/service/test_cuzk.py), and
the keys of a service (tests/cluster/service/test_keys.py)."""
NEEDS_NVRTC = ("kernels", "air compile")


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The commands at and below one that do something themselves."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path)
        return
    context = command.make_context(path[-1], [], resilient_parsing=True)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


@pytest.fixture
def place(small_job: SmallJob, proven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder for a command, and a circuit of Filecoin's that is proven in no time."""

    class Squares(CircuitEntry):
        def make(self):  # type: ignore[no-untyped-def]
            return squares()

    entry = Squares("filecoin/squares", "", "", "", (), partitions=1)
    monkeypatch.setitem(CIRCUITS, entry.name, entry)
    monkeypatch.setattr(filecoin, "random_inputs", lambda *_: lambda k: {"total": [k * k + 1], "x": [k, 1]})
    return Place(tmp_path, small_job, proven)


def test_every_command_has_a_run() -> None:
    """`distprove bench service` ended in a KeyError, and no test ran it as people do."""
    found = {leaf for name in COMMANDS for leaf in leaves(load(name), (name,))}
    assert found == {*RUNS, *SERVICE, *ELSEWHERE}
    assert SMALL.keys() == {*PROGRAMS, OWN}


@pytest.mark.parametrize("command", RUNS)
def test_a_command_does_what_it_is_for(command: str, place: Place) -> None:
    if command in NEEDS_NVRTC and find_spec("cuda") is None:
        pytest.skip("NVRTC, which compiles kernels without a GPU, is not installed")
    words = command.replace(OWN, "distprove.stark.programs.fibonacci:Fibonacci").split()
    done = run(*words, *RUNS[command](place))
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    assert "Traceback" not in done.output
    assert done.stdout.strip() or any(place.out.iterdir())


def test_the_commands_of_the_service_do_what_they_are_for(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (shell.folder / "job.toml").write_text(JOB)
    try:
        for command, words in SERVICE.items():
            assert shell(command, *words).stdout.strip()
    finally:
        if holder_of(shell.service) is not None:
            os.kill(json.loads((shell.service / "contact.json").read_text())["pid"], signal.SIGKILL)
