"""The tables of a guest, which a thread compiles while the guest runs to be cut."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import UsageError
from distprove.job import Job
from distprove.stark.riscv import program
from distprove.stark.riscv.executor import Trap
from tests.support.riscv_asm import imm, leave, load
from tests.support.riscv_elf import code_file

ONE_PROOF: dict[str, Any] = {
    "engine": "multilinear",
    "hash": "poseidon2",
    "one_proof": True,
    "security": 1,
    "grinding": 0,
}
COMPILED = "distprove.stark.system._compiled"


def guest(folder: Path, code: Sequence[int]) -> str:
    path = folder / "guest.elf"
    path.write_bytes(code_file(code))
    return str(path)


def job(elf: str) -> Any:
    """The system of a job of segments of 64 cycles."""
    return Job.from_options("stark", program="riscv", arguments={"elf": elf, "segment": 64}, **ONE_PROOF).load()


def test_a_guest_that_traps_ends_before_its_tables_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, asked = threading.Event(), threading.Event()

    def compiled(*_: Any) -> None:
        asked.set()
        over.wait(60)

    monkeypatch.setattr(COMPILED, compiled)
    try:
        with pytest.raises(Trap, match="an unaligned load"):
            job(guest(tmp_path, [load("lw", 10, 0, 1)]))
        assert asked.wait(60)
        assert not over.is_set()
    finally:
        over.set()


def test_tables_that_cannot_be_compiled_fail_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a guest that runs to its end, which asks for nothing of them."""

    def compiled(*_: Any) -> None:
        raise UsageError("no such table")

    monkeypatch.setattr(COMPILED, compiled)
    with pytest.raises(UsageError, match="no such table"):
        job(guest(tmp_path, leave(0)))


def test_jobs_of_a_guest_that_begin_at_once_are_the_same(tmp_path: Path) -> None:
    """Several jobs start together, before one of them has decoded the guest."""
    elf = guest(tmp_path, [*[imm("addi", 6, 6, 3)] * 200, *leave(0)])

    def planned(_: int) -> tuple[bytes, list[bytes]]:
        system = job(elf)
        return system.key_digest(), [part.digest for part in system.plan()]

    program._fixed_of.cache_clear()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(planned, range(4)))
    assert len(found[0][1]) == 6
    assert found == [found[0]] * 4
