"""Projects of `distprove new guest`, built where the toolchain is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from distprove.stark.riscv.project import ISAS, TEMPLATES, make_project

_CHANNEL = re.compile('channel = "(.*)"')


@cache
def missing(language: str, isa: str = "rv32im") -> str:
    """Why a project in this language, for this instruction set, cannot be built here; empty if it can."""
    if language == "c":
        compiler = shutil.which("riscv64-unknown-elf-gcc")
        if compiler is None:
            return "riscv64-unknown-elf-gcc is not installed"
        asked = [compiler, "--specs=picolibc.specs", "-E", "-x", "c", os.devnull]
        found = subprocess.run(asked, capture_output=True, timeout=60).returncode == 0
        return "" if found else "picolibc-riscv64-unknown-elf is not installed"
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    if isa == "rv64im":
        if shutil.which("rustup") is None:
            return "rustup is not installed"
        asked, wanted = ["rustup", "run", nightly(), "rustc", "--print", "sysroot"], "lib/rustlib/src/rust/library/core"
    else:
        asked, wanted = ["rustc", "--print", "target-libdir", "--target", ISAS[isa]["TARGET"]], "libcore-*.rlib"
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    there = said.returncode == 0 and list(Path(said.stdout.strip()).glob(wanted))
    return "" if there else f"Rust has no {ISAS[isa]['TARGET']}"


def nightly() -> str:
    """The Rust that builds projects for RV64IM."""
    found = _CHANNEL.search((TEMPLATES / "rust_rv64im" / "rust-toolchain.toml.in").read_text())
    assert found is not None
    return found[1]


def build(folder: Path, language: str, isa: str = "rv32im", example: str | None = None) -> Path:
    """Make and build a project, with another program than the example if one is given. Returns the ELF file. Skips
    where the toolchain is missing, or the packages of a project in Rust cannot be fetched."""
    if missing(language, isa):
        pytest.skip(missing(language, isa))
    make_project(folder, language, isa)
    if example is not None:
        (folder / {"c": "main.c", "rust": "src/main.rs"}[language]).write_text(example)
    if language == "c":
        # The `make` that runs the tests would pass its flags and job server on.
        apart = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        done = subprocess.run(["make"], cwd=folder, capture_output=True, text=True, timeout=120, env=apart)
        assert (done.returncode, done.stderr) == (0, "")
        return folder / f"{folder.name}.elf"
    cargo = ["cargo", f"+{nightly()}"] if isa == "rv64im" else ["cargo"]
    fetched = subprocess.run([*cargo, "fetch"], cwd=folder, capture_output=True, text=True, timeout=120)
    if fetched.returncode != 0:
        pytest.skip(f"cargo cannot fetch serde and postcard: {fetched.stderr[-300:]}")
    # Side by side with others of the test, which then compile serde once.
    target = folder.parent.parent / "cargo-target"
    command = [*cargo, "build", "--release", "--jobs", "2", "--target-dir", target]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return target / ISAS[isa]["TARGET"] / "release" / folder.name
