"""Flattening, the cache and the resource report of the NVRTC compiler. Needs NVRTC, no GPU."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernels.cuda.compiler import CompiledKernels, Compiler, list_kernels, parse_ptxas
from kernels.errors import BackendError
from kernels.source import KernelSource, flatten

WORDS = KernelSource("words")


def compile_once(source: KernelSource, cache: Path, arch: str = "sm_90") -> bool:
    """Whether the cache had it."""
    compiler = Compiler(arch, cache_dir=cache, threads=1)
    try:
        compiled = compiler.compile(source)
    finally:
        compiler.close()
    assert compiled.cubin[:4] == b"\x7fELF"
    assert set(compiled.kernels) == {"words_differ"}
    return compiled.cached


def test_flatten_puts_every_header_in_once() -> None:
    text = flatten(KernelSource("vector"))
    assert text.count("struct FieldParams {") == 1
    assert '#include "' not in text
    assert "#pragma once" not in text
    assert '#line 1 "include/field/fp.h"' in text


def test_flatten_names_what_is_missing() -> None:
    with pytest.raises(BackendError, match=r"no kernel source 'none\.cu'"):
        flatten(KernelSource("none"))


def test_generated_text_stands_for_a_file(tmp_path: Path) -> None:
    def generated(body: str) -> KernelSource:
        text = f'#include "platform.h"\nextern "C" __global__ void words_differ(dp::u64* p) {{ *p = {body}; }}\n'
        return KernelSource("generated", text=text)

    assert "using u64" in flatten(generated("1"))
    assert not compile_once(generated("1"), tmp_path)
    assert compile_once(generated("1"), tmp_path)
    assert not compile_once(generated("2"), tmp_path)  # the content counts, not the name


def test_cache_holds_and_survives_damage(tmp_path: Path) -> None:
    assert not compile_once(WORDS, tmp_path)
    assert compile_once(WORDS, tmp_path)
    (entry,) = tmp_path.iterdir()
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    for damaged in (bytes(data), data[:100], b""):
        (entry,) = tmp_path.iterdir()
        entry.write_bytes(damaged)
        assert not compile_once(WORDS, tmp_path)
    assert compile_once(WORDS, tmp_path)


def test_cache_tells_architectures_and_definitions_apart(tmp_path: Path) -> None:
    assert not compile_once(WORDS, tmp_path)
    assert not compile_once(WORDS, tmp_path, "sm_80")
    assert not compile_once(KernelSource("words", (("UNUSED", "1"),)), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert not compile_once(WORDS, blocked)


def test_a_source_that_does_not_compile_says_why(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"vector\(FIELD=NoSuchParams\)[\s\S]*NoSuchParams"):
        list_kernels("sm_90", [KernelSource("vector", (("FIELD", "NoSuchParams"),))], cache_dir=tmp_path)


def test_what_somebody_waits_for_goes_before_what_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commitment of a job waited for dozens of kernels of its last proofs."""
    busy, over, order = threading.Event(), threading.Event(), []

    def compile_slowly(self: Compiler, source: KernelSource) -> CompiledKernels:
        if source.name == "busy":
            busy.set()
            assert over.wait(60)
        order.append(source.name)
        return CompiledKernels(self.arch, source.name.encode(), {}, 0.0, cached=False)

    monkeypatch.setattr(Compiler, "_compile", compile_slowly)
    compiler = Compiler("sm_90", cache_dir=tmp_path, threads=1)
    started = {name: compiler.start(KernelSource(name)) for name in ("busy", "first", "second", "third")}
    assert busy.wait(60)
    with ThreadPoolExecutor(4) as waiting:
        found = [waiting.submit(compiler.compile, KernelSource("second")) for _ in range(4)]
        assert [each.result(60).cubin for each in found] == [b"second"] * 4
    assert order == ["second"]
    over.set()
    compiler.compile(KernelSource("third"))
    compiler.close()
    assert set(order) >= {"busy", "second", "third"}
    assert started["second"].cancelled()


def test_what_is_not_begun_ends_with_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler("sm_90", cache_dir=tmp_path, threads=1)
    compiler.close()
    with pytest.raises(RuntimeError):
        compiler.compile(WORDS)


def test_a_missing_report_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True, False, False, True])
    monkeypatch.setattr("kernels.cuda.compiler.parse_ptxas", lambda log: parse_ptxas(log) if next(answers) else {})
    assert not compile_once(WORDS, tmp_path)
    # Twice nothing is an error, but not for ever: a later request of the same compiler tries again.
    compiler = Compiler("sm_80", cache_dir=tmp_path, threads=1)
    with pytest.raises(BackendError, match="holds no kernel"):
        compiler.compile(WORDS)
    assert set(compiler.compile(WORDS).kernels) == {"words_differ"}
    compiler.close()


def test_ptxas_report() -> None:
    log = """
ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Function properties for helper
    96 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
    kernels = parse_ptxas(log)
    assert set(kernels) == {"a", "b"}
    a, b = kernels["a"], kernels["b"]
    assert (a.registers, a.stack, a.spill_stores, a.spill_loads, a.shared) == (40, 16, 4, 8, 1024)
    assert (b.registers, b.stack, b.shared) == (8, 0, 0)


def test_generated_text_says_where_its_parts_are_from() -> None:
    """A `#line` of the text holds after an include too, so that an author finds the line."""
    source = KernelSource("made", text='#line 1 "own.cpp"\nint a;\n#include "platform.h"\nint b;\n')
    lines = flatten(source).splitlines()
    assert lines[lines.index("int b;") - 1] == '#line 3 "own.cpp"'
