"""The tables of RV64IM accept what the plain interpreter executes, and a guest of it is proven."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.stark.air import trace_air
from distprove.stark.air.bounds import unconfirmed
from distprove.stark.riscv.elf import read_elf
from distprove.stark.riscv.executor import Execution, Inputs
from distprove.stark.riscv.record import Image
from tests.cli.conftest import run as run_command
from tests.stark.riscv.test_guests import GUESTS
from tests.support import riscv_asm as asm
from tests.support.riscv_oracle import run
from tests.support.riscv_programs import CORNERS_64, adding, hashing, multiplying, permuting, random_program_64
from tests.support.riscv_traces import AIRS_OF, LAYOUT, job_of

INPUT = bytes(range(64))
VERIFY = ("--security", "20", "--program", "riscv", "--with")


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int) -> None:
    found = run(random_program_64(seed, 600), INPUT, INPUT[::-1], segment=256 if seed % 2 else 1 << 12)
    assert job_of(found).failures() == []


@pytest.mark.parametrize("engine", ["fri", "multilinear"])
def test_a_guest_is_proven(engine: str, tmp_path: Path) -> None:
    """In two segments, by either engine. A verifier makes the key from the file, or from the name."""
    guest, private, out = GUESTS / "json64.elf", tmp_path / "input", tmp_path / "run"
    private.write_bytes(b'[1, "a", {"b": [true, null, -2]}]')
    options = ("--local", "--threads", "2", "--backend", "cpu", "--security", "20", "--grinding", "0")
    done = run_command(
        *("prove", "stark", "riscv", "--elf", guest, "--input", private, "--segment", "2^10", "--engine", engine),
        *(*options, "--out", out),
    )
    assert done.exit_code == 0, done.output
    told = json.loads(run_command("verify", out, *VERIFY, f"elf={guest}", "--json").stdout)["proven"]
    assert told["says"]["segments"] == "2"
    expected = Execution(read_elf(GUESTS / "json.elf"), Inputs(private.read_bytes())).run().output
    assert (out / "output.bin").read_bytes() == expected
    name = told["arguments"]["guest"]
    assert name.endswith("-rv64")
    if engine == "multilinear":
        assert run_command("verify", out, *VERIFY, f"guest={name}").exit_code == 0
        assert run_command("verify", out, *VERIFY, f"guest={name.removesuffix('-rv64')}").exit_code == 1
        assert run_command("verify", out, *VERIFY, f"elf={GUESTS / 'json.elf'}").exit_code == 1


@pytest.mark.parametrize("names", np.array_split(np.array(asm.REGISTER_OPS_64), 4))
def test_operations_on_corner_values(names: list[str]) -> None:
    code = []
    for a in CORNERS_64:
        code += asm.li_64(5, a)
        for b in CORNERS_64:
            code += [*asm.li_64(6, b), *(asm.op(name, 7, 5, 6) for name in names)]
    assert job_of(run(asm.image([*code, *asm.leave()], xlen=64))).failures() == []


@pytest.mark.parametrize(
    "image",
    [
        permuting(2),
        hashing(7, 8, 9),
        multiplying(5, 7, 1 << 200, (1 << 255) - 19),
        adding(14, (2, 3), (4, 5)),
        adding(22, (2, 3), (4, 5)),
    ],
    ids=["Keccak-f", "SHA-256", "products", "points", "Ed25519"],
)
def test_calls(image: Image) -> None:
    """The same words are programs of RV64IM, too."""
    wide = run(replace(image, xlen=64))
    assert wide.output == run(image).output
    assert job_of(wide).failures() == []


def test_multiplicities_are_bounded() -> None:
    for air in AIRS_OF[64].values():
        assert unconfirmed(trace_air(air, LAYOUT)) == [], air.name
