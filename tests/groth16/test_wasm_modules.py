"""Compiled witness programs: made beside this process, kept, and made here when neither works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_program import toy_program

from distprove.errors import FormatError
from distprove.groth16.witness import WitnessProgram
from kernels.encoding import unpack


def leb128(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.fixture(scope="module")
def large() -> bytes:
    """A program that is large enough to be compiled elsewhere: it ends in a custom section of 300 KiB."""
    content = b"\x01p" + bytes(300 << 10)
    return bytes(toy_program()) + b"\x00" + leb128(len(content)) + content


def witness(wasm: bytes, folder: Path) -> list[int]:
    return unpack(WitnessProgram(wasm, cache_dir=folder).generate({"x": [3, 4]}))


def no_child(*_arguments: Any, **_options: Any) -> None:
    raise AssertionError("a child was started")


def test_a_large_program_is_compiled_once(large: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert witness(large, tmp_path) == [1, 3, 4]
    assert [path.suffix for path in tmp_path.iterdir()] == [".cwasm"]
    monkeypatch.setattr(subprocess, "run", no_child)
    assert witness(large, tmp_path) == [1, 3, 4]
    with pytest.raises(AssertionError, match="a child was started"):
        witness(large + b"\x00\x02\x01q", tmp_path)  # another program


def test_a_small_program_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", no_child)
    assert witness(bytes(toy_program()), tmp_path) == [1, 3, 4]
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_not_run(large: bytes, tmp_path: Path) -> None:
    assert witness(large, tmp_path) == [1, 3, 4]
    (path,) = tmp_path.iterdir()
    path.write_bytes(bytes(path.stat().st_size))
    assert witness(large, tmp_path) == [1, 3, 4]
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[:4] == b"\x7fELF"


def test_without_a_cache_or_a_child_it_is_compiled_here(
    large: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert witness(large, tmp_path / "file") == [1, 3, 4]
    for program in ("/nonexistent", "/bin/false"):
        monkeypatch.setattr(sys, "executable", program)
        assert witness(large, tmp_path / "cache") == [1, 3, 4]
    assert list((tmp_path / "cache").iterdir()) == []


def test_code_for_another_engine_is_not_run(large: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as another processor's: wasmtime refuses the file, and the program is compiled here."""
    from distprove.groth16 import wasm_modules
    from kernels import cache

    cache.keep(tmp_path, wasm_modules._key(large), ".cwasm", lambda file: file.write(b"\x7fELF" + bytes(1000)))
    monkeypatch.setattr(subprocess, "run", no_child)
    assert witness(large, tmp_path) == [1, 3, 4]


def test_large_files_that_are_no_programs(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a WebAssembly module"):
        WitnessProgram(b"\0asm" + bytes(300 << 10), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
