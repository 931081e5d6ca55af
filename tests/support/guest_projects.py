"""Projects of `distprove new guest`, built where the toolchain is."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from distprove.stark.riscv.project import make_project

TARGET = "riscv32im-unknown-none-elf"


@cache
def missing(language: str) -> str:
    """Why a project in this language cannot be built here; empty if it can."""
    if language == "c":
        compiler = shutil.which("riscv64-unknown-elf-gcc")
        if compiler is None:
            return "riscv64-unknown-elf-gcc is not installed"
        asked = [compiler, "--specs=picolibc.specs", "-E", "-x", "c", os.devnull]
        found = subprocess.run(asked, capture_output=True, timeout=60).returncode == 0
        return "" if found else "picolibc-riscv64-unknown-elf is not installed"
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    asked = ["rustc", "--print", "target-libdir", "--target", TARGET]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    there = said.returncode == 0 and list(Path(said.stdout.strip()).glob("libcore-*.rlib"))
    return "" if there else f"Rust has no {TARGET}"


def build(folder: Path, language: str, example: str | None = None) -> Path:
    """Make and build a project, with another program than the example if one is given. Returns the ELF file. Skips
    where the toolchain is missing, or the packages of a project in Rust cannot be fetched."""
    if missing(language):
        pytest.skip(missing(language))
    make_project(folder, language)
    if example is not None:
        (folder / {"c": "main.c", "rust": "src/main.rs"}[language]).write_text(example)
    if language == "c":
        # The `make` that runs the tests would pass its flags and job server on.
        apart = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        done = subprocess.run(["make"], cwd=folder, capture_output=True, text=True, timeout=120, env=apart)
        assert (done.returncode, done.stderr) == (0, "")
        return folder / f"{folder.name}.elf"
    fetched = subprocess.run(["cargo", "fetch"], cwd=folder, capture_output=True, text=True, timeout=120)
    if fetched.returncode != 0:
        pytest.skip(f"cargo cannot fetch serde and postcard: {fetched.stderr[-300:]}")
    # Side by side with others of the test, which then compile serde once.
    target = folder.parent.parent / "cargo-target"
    command = ["cargo", "build", "--release", "--jobs", "2", "--target-dir", target]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return target / TARGET / "release" / folder.name
