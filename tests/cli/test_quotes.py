"""An error that a file causes says which kind of file is expected, and nothing of what the file holds: a service shows
errors to clients that may not read the file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import DistproveError
from distprove.job import Job
from kernels.cpu.backend import CpuBackend
from tests.cli.conftest import SmallJob
from tests.support import ROOT

SP1 = str(ROOT / "tests" / "stark" / "riscv" / "guests" / "sp1.elf")
HELD = {
    "text": b"root:x:0:0:hunter2:/root:/bin/bash\nsecretuser:y:1:1\n" * 40,
    "object": b'{"token": 98765432109876543210, "pin": 4821.75, "secretuser": "hunter2", "more": [7315, null]}',
    "list": b'["hunter2", 91375, [4821.75], {"secretuser": 98765432109876543210}]',
    "toml": b'secretuser = "hunter2"\npin = 4821.75\n',
    "binary": bytes(range(97, 123)) * 60,
    "short": b"hunter2",
    "small": struct.pack("<QQ", 2, 0x68756E7465723200) + b"hunter2" * 20,
}
WORDS = ("root:", "hunter2", "secretuser", "98765", "4821", "7315", "91375", "abcd", "ijkl")


def quoted(data: bytes, text: str) -> list[str]:
    """What an error quotes of a file: words, or bytes as numbers."""
    numbers = {
        str(struct.unpack_from(form, data, place)[0])
        for form in ("<I", ">I", "<Q", ">Q")
        for place in range(len(data) - struct.calcsize(form) + 1)
    }
    return [each for each in (*WORDS, *numbers) if len(each) > 3 and each in text]


def begin(system: str, given: dict[str, Any]) -> None:
    """Do with a job's files what is done before it is proven."""
    loaded = Job.from_options(system, **given).load()
    for partition in loaded.plan():
        loaded.synthesiser(loaded.shared(), 1).synthesise(partition)
    with CpuBackend(1) as backend:
        loaded.prover(loaded.shared(), backend)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize(
    "place",
    ["zkey", "params", "r1cs", "wasm", "circuit inputs", "witnesses", "vk", "aggregate", "elf", "input", "calls"],
)
def test_no_error_quotes_what_a_file_holds(held: str, place: str, small_job: SmallJob, tmp_path: Path) -> None:
    """`not a .zkey file (it begins with b'root')`."""
    file = tmp_path / "file"
    file.write_bytes(HELD[held])
    good = {"zkey": small_job.zkey, "witnesses": [small_job.witnesses / "member-0.wtns"]}
    jobs: dict[str, dict[str, Any]] = {
        "zkey": {**good, "zkey": file},
        "params": {**good, "zkey": None, "params": file, "r1cs": small_job.folder / "c.r1cs"},
        "r1cs": {**good, "zkey": None, "params": small_job.zkey, "r1cs": file},
        "wasm": {"zkey": small_job.zkey, "wasm": file, "inputs": [{"a": 1}]},
        "circuit inputs": {
            **{"zkey": small_job.zkey, "inputs": [file]},
            "circuit": "filecoin/snap-deals-poseidon-1KiB",
        },
        "witnesses": {**good, "witnesses": [file]},
        "vk": {**good, "vk": file},
        "aggregate": {**good, "aggregate": file},
        "elf": {"elf": str(file)},
        "input": {"elf": SP1, "calls": "sp1", "input": str(file)},
        "calls": {"elf": str(file), "calls": "sp1"},
    }
    stark = place in ("elf", "input", "calls")
    given = {"program": "riscv", "arguments": jobs[place]} if stark else jobs[place]
    with pytest.raises(DistproveError) as refused:
        begin("stark" if stark else "groth16", given)
    assert not quoted(HELD[held], str(refused.value)), str(refused.value)
    assert refused.value.exit_code == 2
