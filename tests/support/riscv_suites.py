"""The public conformance suites, as tests/stark/riscv/conformance/Makefile builds them."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

from tests.support import ROOT

FOLDER = ROOT / "tests" / "stark" / "riscv" / "conformance"
NOT_OURS = frozenset(f"{suite}/{name}" for suite in ("rv32ui", "rv64ui") for name in ("fence_i", "ma_data"))
"""Tests of riscv-tests of what the machine does not have: the extension Zifencei, and unaligned accesses."""


def riscv_tests() -> dict[str, bytes]:
    """The ELF file of each of riscv-tests, which exits with 0, or with the number of the case that failed."""
    return _elf_files("riscv-tests.tar.xz")


def riscv_tests_64() -> dict[str, bytes]:
    """The same of RV64IM."""
    return _elf_files("riscv-tests-64.tar.xz")


def _elf_files(archive: str) -> dict[str, bytes]:
    files = _files(archive)
    return {name.removesuffix(".elf"): data for name, data in files.items() if name.endswith(".elf")}


def arch_tests() -> dict[str, tuple[bytes, bytes]]:
    """The ELF file of each of riscv-arch-test, and the output that it must have."""
    files = _files("riscv-arch-test.tar.xz")
    names = sorted(name.removesuffix(".elf") for name in files if name.endswith(".elf"))
    return {name: (files[f"{name}.elf"], _signature(files[f"{name}.reference_output"])) for name in names}


def _signature(text: bytes) -> bytes:
    return b"".join(int(line, 16).to_bytes(4, "little") for line in text.split())


@cache
def _files(archive: str) -> dict[str, bytes]:
    with tarfile.open(Path(FOLDER, archive)) as packed:
        found = {member.name: packed.extractfile(member) for member in packed.getmembers() if member.isfile()}
        return {name: file.read() for name, file in found.items() if file is not None}
