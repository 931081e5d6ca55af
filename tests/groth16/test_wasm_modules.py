"""Compiled witness programs: made beside this process, within limits, and kept where nobody else can put one."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
import wasmtime

from distprove.errors import CalledOff, DistproveError, FormatError
from distprove.groth16 import wasm_limits, wasm_modules
from distprove.groth16.wasm_limits import check_limits
from distprove.groth16.wasm_modules import CompileLimits, load_module, new_engine
from distprove.groth16.witness import WitnessProgram
from distprove.wanted import unless
from kernels.host import cache
from kernels.maths.encoding import unpack
from tests.support.own_module import give
from tests.support.toy_program import toy_program


@pytest.fixture(scope="module")
def toy() -> bytes:
    return toy_program()


def witness(wasm: bytes, folder: Path) -> list[int]:
    return unpack(WitnessProgram(wasm, cache_dir=folder).generate({"x": [3, 4]}))


def no_child(*_arguments: Any, **_options: Any) -> None:
    raise AssertionError("a child was started")


def test_a_program_is_compiled_once(toy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert witness(toy, tmp_path) == [1, 3, 4]
    assert [path.suffix for path in tmp_path.iterdir()] == [".cwasm"]
    give(monkeypatch, wasm_modules, "subprocess", run=no_child)
    assert witness(toy, tmp_path) == [1, 3, 4]
    with pytest.raises(AssertionError, match="a child was started"):
        witness(toy + b"\x00\x02\x01q", tmp_path)  # another program


def test_a_damaged_file_is_not_run(toy: bytes, tmp_path: Path) -> None:
    assert witness(toy, tmp_path) == [1, 3, 4]
    (path,) = tmp_path.iterdir()
    path.write_bytes(bytes(path.stat().st_size))
    assert witness(toy, tmp_path) == [1, 3, 4]
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.filterwarnings("ignore:the cache")
def test_without_a_cache_it_is_compiled_each_time(toy: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert witness(toy, tmp_path / "file") == [1, 3, 4]
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert witness(toy, tmp_path / "open") == [1, 3, 4]
    assert list((tmp_path / "open").iterdir()) == []


@pytest.mark.parametrize("program", ["/nonexistent", "/bin/false"])
def test_without_a_child_it_is_not_compiled(
    toy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    give(monkeypatch, wasm_modules, "sys", executable=program)
    with pytest.raises(DistproveError, match="process"):
        witness(toy, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_code_for_another_engine_is_not_run(toy: bytes, tmp_path: Path) -> None:
    """Such as another processor's: wasmtime refuses the file, and the program is compiled again."""
    foreign = cache.keep(tmp_path, wasm_modules._key(toy), ".cwasm", lambda file: file.write(b"\x7fELF" + bytes(1000)))
    assert foreign is not None
    foreign.close()
    assert witness(toy, tmp_path) == [1, 3, 4]


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("above", [False, True], ids=["the folder", "the folder above"])
def test_code_that_another_user_puts_into_the_cache_is_not_run(
    toy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: bool
) -> None:
    """Who may write the folder, or one on the way to it, changes the code between its check and its loading."""
    theirs = tmp_path / "theirs"
    forged = "(i64.store (i32.const 288) (i64.const 666))"  # over x[0] in the witness
    assert witness(toy_program(run=forged), theirs) == [1, 666, 4]
    (code,) = theirs.iterdir()
    folder = tmp_path / "shared" / "programs"
    assert witness(toy, folder) == [1, 3, 4]
    (folder.parent if above else folder).chmod(0o777)
    load = wasmtime.Module.deserialize_file

    def late(engine: wasmtime.Engine, path: str) -> wasmtime.Module:
        for kept in folder.iterdir():
            kept.unlink()
            shutil.copy(code, kept)
        return load(engine, path)

    monkeypatch.setattr(wasmtime.Module, "deserialize_file", late)
    assert witness(toy, folder) == [1, 3, 4]
    (folder.parent if above else folder).chmod(0o700)
    assert witness(toy, folder) == [1, 3, 4], "what was checked is not what was loaded"


# -- programs that would cost much to compile -------------------------------------------------------------------------


def leb128(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def module(functions: int, locals_each: int, code: bytes = b"", parameters: int = 0) -> bytes:
    """A program of equal functions: `locals_each` of 64 bits, and `code`. Ten bytes a function declare 50,000."""

    def section(number: int, content: bytes) -> bytes:
        return bytes([number]) + leb128(len(content)) + content

    body = b"\x01" + leb128(locals_each) + b"\x7e" + code + b"\x0b"
    return (
        b"\0asm\1\0\0\0"
        + section(1, b"\x01\x60" + leb128(parameters) + b"\x7e" * parameters + b"\x00")
        + section(3, leb128(functions) + bytes(functions))
        + section(10, leb128(functions) + (leb128(len(body)) + body) * functions)
    )


@pytest.mark.parametrize(
    ("wasm", "message"),
    [
        (module(14_000, 50_000), r"has 50000 locals in one function, the limit is 2000$"),  # 152 KB; took 33 s, 1.5 GB
        (module(14_000, 1_999), r"locals, the limit is 2000000$"),
        (module(14_000, 1, parameters=1_999), r"locals, the limit is 2000000$"),
        (module(14_000, 1, parameters=50_000), r"has 50000 values in one type, the limit is 2000$"),
        (module(100_001, 0), r"has 100001 functions, the limit is 100000$"),
        (module(1, 0).replace(b"\x7e", b"\x64\x70"), "a type of value that circom's programs do not have"),
        (module(1, 0).replace(b"\x60", b"\x5f"), "a type that is not a function's"),
        (module(1, 0)[:-1], "ends in the middle of a section"),
        (b"\0asm\1\0\0\0\x0a\xff\xff\xff\xff\xff\x01", "a number has more than five bytes"),
        (b"\0asm\1\0\0\0\x0a\x01\xff", "ends in the middle of a section"),
    ],
)
def test_programs_beyond_the_limits_are_refused_before_they_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wasm: bytes, message: str
) -> None:
    give(monkeypatch, wasm_modules, "subprocess", run=no_child)
    with pytest.raises(FormatError, match=message):
        WitnessProgram(wasm, name="it", cache_dir=tmp_path)


def test_a_program_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch, toy: bytes) -> None:
    monkeypatch.setattr(wasm_limits, "MAX_BYTES", len(toy) - 1)
    with pytest.raises(FormatError, match=f"has {len(toy)} bytes, the limit is {len(toy) - 1}"):
        check_limits("it", toy)


WITHIN = module(1, 2_000, b"\x03\x40\x20\x00\xa7\x04\x40\x20\x01\x42\x01\x7c\x21\x01\x0b\x0b" * 20_000)
"""As many locals as one function may have, and 20,000 branches: 320 KB that a compiler has work with for minutes."""


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (CompileLimits(memory=4 << 30, cpu=1, wall=250), "takes more than 1 s of CPU time to compile, the limit"),
        (CompileLimits(memory=96 << 20, cpu=100, wall=250), "takes more than 96 MiB to compile, the limit"),
        (CompileLimits(memory=4 << 30, cpu=100, wall=0.01), r"takes more than 0\.01 s to compile, the limit"),
    ],
    ids=["time", "memory", "clock"],
)
def test_a_program_that_is_let_through_ends_at_the_compilers_limits(
    tmp_path: Path, limits: CompileLimits, message: str
) -> None:
    with pytest.raises(FormatError, match=f"^it: the program {message}$"):
        load_module(new_engine(), WITHIN, "it", tmp_path, limits)
    assert list(tmp_path.iterdir()) == []


def test_limits_are_far_from_circoms_programs(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of each, every real program passes; with half of the compiler's, the ones that take most compile."""
    for limit in ("MAX_BYTES", "MAX_FUNCTIONS", "MAX_FUNCTION_LOCALS", "MAX_LOCALS"):
        monkeypatch.setattr(wasm_limits, limit, getattr(wasm_limits, limit) // 10)
    for path in (shared_data / "circom").glob("*/circuit.wasm"):
        wasm = path.read_bytes()
        check_limits(path.parent.name, wasm)
        if path.parent.name not in ("signup", "sha256_256"):
            continue
        granted = CompileLimits.for_size(len(wasm))
        with TemporaryFile() as code:
            half = CompileLimits(granted.memory // 2, granted.cpu // 2, granted.wall)
            wasm_modules._compile_beside(path.parent.name, wasm, code, half)
            assert code.tell() > 0


def test_large_files_that_are_no_programs(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a WebAssembly module"):
        WitnessProgram(b"\0asm" + bytes(300 << 10), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


WAITING = (
    "import json, sys, threading, time; sys.path[:] = json.loads(sys.argv[1]); from {module} import _end_after; "
    "threading.Thread(target=_end_after, args=(int(sys.argv[4]),), daemon=True).start(); "
    "open({place!r}, 'w').close(); time.sleep(600)"
)
"""A compiler that does not come to an end."""


def test_a_compilation_that_is_called_off_ends_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    monkeypatch.setattr(wasm_modules, "_CHILD", WAITING.replace("{place!r}", repr(str(begun))))
    with unless(begun.exists), pytest.raises(CalledOff):
        load_module(new_engine(), toy_program(run="(nop)"), "a program", tmp_path / "cache")
    assert not list(tmp_path.glob("cache/*"))
