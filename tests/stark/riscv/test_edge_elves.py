"""Guests' files at the edges of what can be loaded, run and proven: `run`, `prove` and Python agree on each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from distprove.errors import InputError
from distprove.job import Job
from distprove.stark.riscv.elf import parse_elf, read_elf
from distprove.stark.riscv.executor import CycleLimit, Execution, Inputs, Trap
from tests.cli.conftest import run
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, WRITE, elf_file
from tests.support.riscv_traces import job_of_elf

PROVE = ("--local", "--threads", "2", "--backend", "cpu", "--security", "1", "--grinding", "0")
LEAVE = asm.leave(3)
TOP = 1 << 32
CODE, DATA = READ | EXECUTE, READ | WRITE


class Guest(NamedTuple):
    """A guest's file, and what it comes to."""

    file: bytes
    exit_code: int = 3
    """The guest's own, if it can be proven."""
    refused: str = ""
    """Why it cannot be loaded."""
    stops: str = ""
    """Why its run does not come to an exit, or the run cannot be proven."""


def code(words: list[int], at: int = 0x10000, more: Sequence[tuple[int, bytes, int]] = ()) -> bytes:
    return elf_file([(at, packed(*words), CODE), *more], at)


def packed(*words: int) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)


def wide(size: int) -> bytes:
    return elf_file([(0x1000, packed(*LEAVE), CODE), (0x2000, b"", DATA)], 0x1000, sizes=[None, size])


LAST = "the instruction at 0xfffffffc cannot be proven"
SMALL = (0x1000, packed(*LEAVE), CODE)
FAR = [(0x20000 + 64 * i, b"x", DATA) for i in range(64)]
LOOP = [asm.lui(8, 0x20000), asm.store("sw", 8, 8), asm.lui(7, 0x1000), asm.op("add", 8, 8, 7), asm.jal(0, -12)]
AT_TOP = [asm.load("lw", 5, 0, -4), asm.store("sw", 17, 0, -4), asm.store("sb", 17, 0, -1), asm.store("sh", 17, 0, -2)]
ITSELF = [asm.auipc(1, 0), asm.imm("addi", 1, 1, 8), asm.jalr(1, 1)]


def jumps(at: int) -> bytes:
    """A jump at the top of memory to 0x1000, over its end."""
    return elf_file([SMALL, (at, packed(asm.jal(1, TOP + 0x1000 - at)), CODE)], at)


GUESTS = {
    "small": Guest(code(LEAVE)),
    "all of memory": Guest(wide(TOP - 0x2000)),
    "more than all of memory": Guest(wide(TOP - 0x2000 + 1), refused="ends beyond 2^32"),
    "no instruction": Guest(code([0]), refused="no word of its executable segments is an instruction"),
    "no instruction in a large segment": Guest(code([0] * 10000), refused="no word of its executable segments"),
    "no program": Guest(elf_file([(0x1000, b"", DATA)], 0x1000, sizes=[4]), refused="the entry 0x1000 is not"),
    "exit at 0xfffffffc": Guest(code(LEAVE, TOP - 4 * len(LEAVE)), refused=LAST),
    "exit at 0xfffffff8": Guest(code([*LEAVE, 0], TOP - 4 * len(LEAVE) - 4)),
    "runs over the end": Guest(code([*LEAVE[:-1], asm.FENCE], TOP - 4 * len(LEAVE)), refused=LAST),
    "jumps over the end": Guest(jumps(TOP - 16)),
    "jumps over the end from the last": Guest(jumps(TOP - 4), refused=LAST),
    "64 segments": Guest(code(LEAVE, more=FAR[:63])),
    "65 segments": Guest(code(LEAVE, more=FAR), refused="65 program headers"),
    "an empty segment": Guest(code(LEAVE, more=[(0x10004, b"", DATA)])),
    "two segments overlap": Guest(code(LEAVE, more=[(0x10008, b"abc", DATA)]), refused="overlap"),
    "two segments share a word": Guest(
        elf_file([(0x10000, packed(*LEAVE) + b"\1\2", CODE), (0x10002 + 4 * len(LEAVE), b"\3", DATA)], 0x10000)
    ),
    "writable code": Guest(
        elf_file([(0x10000, packed(*LEAVE), CODE | WRITE)], 0x10000), refused="writable and executable"
    ),
    "nothing": Guest(b"", refused="not an ELF file"),
    "the beginning": Guest(b"\x7fELF\x01\x01\x01", refused="not an ELF file of 32 or 64 bits"),
    "a store to code": Guest(code([*asm.li(8, 0x10000), asm.store("sw", 5, 8), *LEAVE]), stops="that is not writable"),
    "data at the top": Guest(code([*AT_TOP, *LEAVE])),
    "jalr through its own target": Guest(code([*ITSELF, *LEAVE])),
    "endless": Guest(code([asm.FENCE, asm.jal(0, -4)]), stops="did not end within"),
    "endless memory": Guest(code(LOOP), stops="more memory is touched than a run may have, 1 GiB"),
    "66 words of public input": Guest(code([*(66 * asm.call(4)), *LEAVE]), stops="reads 66 words of public input"),
}


def given(name: str, folder: Path) -> tuple[Path, Path]:
    (folder / "guest.elf").write_bytes(GUESTS[name].file)
    (folder / "known").write_bytes(bytes(300))
    return folder / "guest.elf", folder / "known"


@pytest.mark.parametrize("name", GUESTS)
def test_run(name: str, tmp_path: Path) -> None:
    guest, (path, known) = GUESTS[name], given(name, tmp_path)
    done = run("run", path, "--public-input", known, "--max-cycles", "2^21")
    said = " ".join(done.stderr.split())
    if guest.refused:
        assert (done.exit_code, guest.refused in said, done.stdout) == (2, True, "")
    elif guest.stops:
        assert (done.exit_code, guest.stops in said) == (2 if "public" in guest.stops else 1, True)
        assert "proving" not in done.stdout
    else:
        assert done.exit_code == 1
        told = json.loads(run("run", path, "--public-input", known, "--json").stdout)
        assert (told["exit_code"], told["not_provable"]) == (guest.exit_code, None)


HONEST = [name for name, guest in GUESTS.items() if not guest.refused and not guest.stops]
PROVEN = ("all of memory", "exit at 0xfffffff8", "two segments share a word", "data at the top")
"""Guests of which a proof is made, which takes 2 s; the traces of the others are checked (`test_traces`)."""


@pytest.mark.parametrize("name", HONEST)
def test_traces(name: str) -> None:
    job = job_of_elf(parse_elf(GUESTS[name].file, name), public=bytes(300))
    assert (job.failures(), int(job.public[-1]["exit_code"])) == ([], GUESTS[name].exit_code)


@pytest.mark.parametrize("name", [*PROVEN, *(name for name in GUESTS if name not in HONEST and "endless" not in name)])
def test_prove(name: str, tmp_path: Path) -> None:
    """Nothing that is refused costs a worker: it ends before a run folder is made."""
    guest, (path, known) = GUESTS[name], given(name, tmp_path)
    out = tmp_path / "run"
    done = run("prove", "stark", "riscv", "--elf", path, "--public", known, "--out", out, *PROVE)
    said = " ".join(done.stderr.split())
    if guest.refused or guest.stops:
        assert (guest.refused or guest.stops) in said
        assert (done.exit_code, out.exists()) == (1 if "writable" in guest.stops else 2, False)
    else:
        assert done.exit_code == 0, done.output
        assert run("verify", out, "--exit-code", guest.exit_code, "--security", 1).exit_code == 0


@pytest.mark.parametrize("name", GUESTS)
def test_python(name: str, tmp_path: Path) -> None:
    """A file that cannot be loaded is refused when a job is made of it, as where it is submitted to a service."""
    guest, (path, known) = GUESTS[name], given(name, tmp_path)
    arguments = {"elf": str(path), "public": str(known)}
    if guest.refused:
        with pytest.raises(InputError, match=guest.refused.replace("^", r"\^")):
            Job.from_options("stark", program="riscv", arguments=arguments)
        return
    Job.from_options("stark", program="riscv", arguments=arguments)
    execution = Execution(read_elf(path), Inputs(public=bytes(300)), max_cycles=1 << 21)
    if guest.stops and "public" not in guest.stops:
        with pytest.raises((Trap, CycleLimit), match=guest.stops):
            execution.run()
    else:
        assert execution.run().exit_code == guest.exit_code


def test_more_segments_than_a_proof_has(tmp_path: Path) -> None:
    """`run` gave an estimate for what `prove` refuses."""
    path, _ = given("endless", tmp_path)
    for command in (("run", path), ("prove", "stark", "riscv", "--elf", path, "--out", tmp_path / "run", *PROVE)):
        done = run(*command, "--segment", "2")
        assert (done.exit_code, "has not ended after 16384 segments of 2 cycles" in " ".join(done.stderr.split())) == (
            2,
            True,
        )
