"""Makes the folder of a new guest: a project that `cargo` or `make` builds, with its runtime and an example."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from distprove.errors import UsageError
from distprove.formats.files import kind_at

HOME = Path(__file__).resolve().parent
TEMPLATES, RUNTIME = HOME / "templates", HOME / "runtime"
LANGUAGES = {
    "rust": ("runtime/src", ("guest.rs", "guest.ld", "start.S")),
    "c": ("runtime", ("curves.h", "guest.h", "guest.ld", "memory.c", "start.S")),
}
"""For each language the folder of a project that takes files of the runtime, and their names."""
ISAS = {
    "rv32im": {
        "MACHINE": "RV32IM",
        "FLAGS": "-march=rv32im -mabi=ilp32",
        "TARGET": "riscv32im-unknown-none-elf",
        "NEEDS": "Rust with `rustup target add riscv32im-unknown-none-elf`",
    },
    "rv64im": {
        "MACHINE": "RV64IM",
        "FLAGS": "-march=rv64im -mabi=lp64 -mcmodel=medany",
        "TARGET": "riscv64im-unknown-none-elf",
        "NEEDS": "rustup, which fetches the Rust that `rust-toolchain.toml` names",
    },
}
"""For each instruction set the words of templates that depend on it: in C the compiler's flags, in Rust the target."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RUST_KEYWORDS = (
    "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if "
    "impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true try "
    "type typeof unsafe unsized use virtual where while yield"
)
_TAKEN = {
    "rust": frozenset((*_RUST_KEYWORDS.split(), "guest", "serde", "serde_core", "serde_derive", "postcard"))
    | {"alloc", "build", "core", "deps", "examples", "incremental", "proc_macro", "std", "test"},
    "c": frozenset[str](),
}
"""For each language the names that a guest cannot have: in Rust keywords, crates of the runtime and of Rust itself, and
folders of cargo's output. In C none, as the program is NAME.elf."""
_WORD = re.compile("@([A-Z]+)@")
"""A word of templates that a project replaces."""
_TEMPLATE = ".in"
"""Ending of templates whose own ending would mean something to tools of this project. It is left off."""


def make_project(folder: Path, language: str, isa: str = "rv32im") -> list[Path]:
    """Write a new guest's project to `folder`, whose last name becomes the guest's. Returns the files written.

    `isa` is the instruction set that the guest is compiled to. Raises UsageError for an unknown language or instruction
    set, an existing folder, or a name that is no crate's or clashes in the build.
    """
    if language not in LANGUAGES:
        raise UsageError(f"--lang is {' or '.join(LANGUAGES)}, not {language!r}")
    if isa not in ISAS:
        raise UsageError(f"--isa is {' or '.join(ISAS)}, not {isa!r}")
    name = folder.name
    if not _NAME.fullmatch(name):
        near = re.sub(r"[^a-z0-9_]+", "_", name.lower())
        hint = f"; {near} would do" if _NAME.fullmatch(near) and near not in _TAKEN[language] else ""
        raise UsageError(f"a guest's name is a small letter, then at most 63 of a-z, 0-9 and _, not {name!r}{hint}")
    if name in _TAKEN[language]:
        raise UsageError(
            f"a guest in {language} cannot have the name {name!r}, which its build takes for another thing"
        )
    if kind_at(folder):
        raise UsageError(f"{folder} is there already; choose another name")
    words = {"NAME": name, **ISAS[isa]}
    written = []
    for place, source in _files(language, isa):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.parent == RUNTIME:
            shutil.copyfile(source, path)
        else:
            text = source.read_text(encoding="utf-8")
            path.write_text(_WORD.sub(lambda found: words[found[1]], text), encoding="utf-8")
        written.append(path)
    return written


def _files(language: str, isa: str) -> Iterator[tuple[str, Path]]:
    """The place in a project and the source of each file."""
    for top in (TEMPLATES / "both", TEMPLATES / language, TEMPLATES / f"{language}_{isa}"):
        for source in sorted(path for path in top.rglob("*") if path.is_file()):
            yield source.relative_to(top).as_posix().removesuffix(_TEMPLATE), source
    place, names = LANGUAGES[language]
    for name in names:
        yield f"{place}/{name}", RUNTIME / name
