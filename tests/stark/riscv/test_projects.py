"""Projects of `distprove new guest`: their files, their builds, their input, output and debug stream.

The guests `ledger_c.elf` and `ledger_rust.elf`, and the same with `64` of RV64IM, are the examples of both languages,
built and stripped of debug information: they run where no toolchain is.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distprove
from distprove.errors import UsageError
from distprove.stark.riscv.debug import debug_text
from distprove.stark.riscv.elf import Elf, Symbol, read_elf
from distprove.stark.riscv.executor import Execution, Inputs
from distprove.stark.riscv.project import ISAS, LANGUAGES, make_project
from distprove.stark.riscv.values import U8, U64, decode, encode
from kernels.cpu.keccak import keccak256
from tests.cli.conftest import run, why_refused
from tests.support import ROOT
from tests.support.curve_points import ed25519_pairs, edwards_sum
from tests.support.guest_projects import build
from tests.support.plain_keccak import keccak_f

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"
EACH = [pytest.param(language, isa, id=f"{language}-{isa}") for language in LANGUAGES for isa in ISAS]
ORDERS = [("ada", 250), ("bob", 0), ("\u00e9ve", 1 << 40)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names of a project's `host.py`."""
    folder = tmp_path_factory.mktemp("host") / "ledger"
    make_project(folder, "c")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield vars(importlib.import_module("host"))
        patch.delitem(sys.modules, "host")


def test_the_host_of_a_project_says_that_a_run_has_no_report(host: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "output.bin").write_bytes(b"")  # of a guest that panicked
    done = subprocess.run([sys.executable, host["__file__"], tmp_path / "output.bin"], capture_output=True, text=True)
    assert (done.returncode, "has no report" in done.stderr, "Traceback" in done.stderr) == (1, True, False)


def ran(path: Path, private: bytes) -> tuple[int, bytes, str]:
    """Exit code, output and debug stream of a run."""
    elf = read_elf(path)
    execution = Execution(elf, Inputs(private))
    done = execution.run()
    return done.exit_code, done.output, debug_text(elf, execution)


def check_ledger(path: Path, host: dict[str, Any]) -> None:
    order, report = host["Order"], host["Report"]
    kind = list[order]  # type: ignore[valid-type]
    code, output, debug = ran(path, encode(kind, [order(*each) for each in ORDERS]))
    assert (code, decode(report, output, padded=True)) == (0, report(3, 250 + (1 << 40), 1 << 40))
    assert debug == "ada spends 250\nbob spends 0\n\u00e9ve spends 1099511627776\n"
    code, output, debug = ran(path, encode(kind, []))
    assert (code, decode(report, output, padded=True), debug) == (0, report(0, 0, None), "")
    good = encode(kind, [order("ada", 250)])
    for bad in (b"", b"\xff" * 6, good[:-1], good + b"\0"):
        code, output, debug = ran(path, bad)
        assert (code, output) == (254, b"")
        assert "the private input " in debug
        if bad in (b"", good[:-1]):
            assert "the private input ends within a value" in debug or "Hit the end of buffer" in debug


def ledger(language: str, isa: str) -> Path:
    """The built example."""
    return GUESTS / f"ledger_{language}{'64' if isa == 'rv64im' else ''}.elf"


@pytest.mark.parametrize(("language", "isa"), EACH)
def test_a_built_example_reads_writes_and_prints(language: str, isa: str, host: dict[str, Any]) -> None:
    assert read_elf(ledger(language, isa)).xlen == (64 if isa == "rv64im" else 32)
    check_ledger(ledger(language, isa), host)


@pytest.mark.parametrize(("language", "isa"), EACH)
@pytest.mark.parametrize("size", [0x3000_0000, 0x7FFF_FFFF, 0xFFFF_FFFB, 0xFFFF_FFFC, 0xFFFF_FFFD, 0xFFFF_FFFF])
def test_an_input_larger_than_the_heap_is_refused_before_it_is_read(language: str, isa: str, size: int) -> None:
    """Its size is the prover's word, and so are the words behind it. Four bytes more than 2^32 - 4 are none, so the
    example in C took a block of 32 bytes for all of them: on and on, over the heap and then its own stack."""
    execution = Execution(read_elf(ledger(language, isa)), Inputs())
    machine = execution._machine
    machine.start(np.array([size, *[0x41414141] * 64], dtype=np.uint32).view(np.uint8), np.zeros(4, dtype=np.uint8))
    assert execution.run().exit_code == 254
    assert machine.private_read == 1


@pytest.mark.slow
@pytest.mark.parametrize(("language", "isa"), EACH)
def test_a_project_builds_runs_is_proven_and_verified(
    language: str, isa: str, host: dict[str, Any], tmp_path: Path
) -> None:
    elf = build(tmp_path / "ledger", language, isa)
    check_ledger(elf, host)
    check_proof(elf, host, tmp_path)


def test_a_built_example_of_rv64im_is_proven_and_verified(host: dict[str, Any], tmp_path: Path) -> None:
    check_proof(ledger("rust", "rv64im"), host, tmp_path)


def check_proof(elf: Path, host: dict[str, Any], folder: Path) -> None:
    order, report = host["Order"], host["Report"]
    (folder / "input.bin").write_bytes(encode(list[order], [order("ada", 5)]))  # type: ignore[valid-type]
    proven = distprove.prove(
        system="stark",
        program="riscv",
        arguments={"elf": str(elf), "input": str(folder / "input.bin")},
        out=folder / "run",
        security=32,
        executor={"local": True, "threads": 2, "gpus": 0},
    )
    distprove.verify(proven.run, program="riscv", arguments={"elf": str(elf)}, least_security=32)
    output = (proven.run / "output.bin").read_bytes()
    assert decode(report, output, padded=True) == report(1, 5, 5)
    files = b"".join(path.read_bytes() for path in proven.run.rglob("*") if path.is_file())
    assert b"spends" not in files


FREES_C = """
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "values.h"

static int started;
__attribute__((constructor)) static void start(void) { started = 7; }

int main(void) {
  assert(started == 7 && errno == 0);
  for (int i = 0; i < 2000; ++i) {  // 2 GB in all
    volatile char* memory = malloc(1 << 20);
    assert(memory != NULL);
    memory[i] = 1;
    free((void*)memory);
  }
  unsigned* some = realloc(NULL, 8);
  some[1] = 5;
  some = realloc(some, 4000);
  assert(some[1] == 5 && (uintptr_t)some % 16 == 0);
  memset(some, 255, 4000);
  free(some);
  unsigned* zeros = calloc(1000, 4);
  assert(zeros == some && zeros[0] == 0 && zeros[999] == 0);
  volatile size_t many = 1u << 20;
  assert(malloc(many << 10) == NULL && errno == ENOMEM && calloc(many, many) == NULL);
  assert(strtol("99999999999999999999", NULL, 10) == LONG_MAX && errno == ERANGE);
  Writer out = {0};
  put_u8(&out, 200), put_u16(&out, 65535), put_i32(&out, -5), put_i64(&out, INT64_MIN), put_bytes(&out, "hi", 2);
  commit(&out);
  assert(!"the last line");
}
"""
FREES_RUST = """
#![no_std]
#![no_main]
extern crate alloc;
use alloc::{string::String, vec, vec::Vec};

guest::entry!(main);

fn main() {
    for i in 0..2000 {
        let mut memory: Vec<u8> = Vec::with_capacity(1 << 20); // 2 GB in all
        memory.push(i as u8);
        core::hint::black_box(&memory);
    }
    let mut grown = vec![1u64];
    for i in 0..1000 {
        grown.push(i);
        core::hint::black_box(&grown);
    }
    assert_eq!((grown[0], grown[500], grown.len()), (1, 499, 1001));
    let mut huge: Vec<u8> = Vec::new();
    assert!(huge.try_reserve_exact(1 << 30).is_err());
    guest::commit(&(200u8, 65535u16, -5i32, i64::MIN, String::from("hi")));
    panic!("the last line");
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("language", "example"), [("c", FREES_C), ("rust", FREES_RUST)])
def test_memory_is_taken_back_and_a_failure_says_where(language: str, isa: str, example: str, tmp_path: Path) -> None:
    """Of C also that constructors run, and that errno and the C library work."""
    code, output, debug = ran(build(tmp_path / "frees", language, isa, example), b"")
    assert (code, output.rstrip(b"\0")) == (254, b"\xc8\xff\xff\x03\x09" + b"\xff" * 9 + b"\x01\x02hi")
    assert "the last line" in debug
    assert f"main.{'c' if language == 'c' else 'rs'}" in debug


HASHES_C = """
#include "hash.h"
#include "values.h"

int main(void) {
  Reader in = open_private();
  size_t size;
  const uint8_t* bytes = get_bytes(&in, &size);
  uint8_t digest[32];
  for (size_t from = 0; from <= size; ++from) {
    sha256(bytes + from, size - from, digest);
    write_bytes(digest, 32);
    keccak256(bytes + from, size - from, digest);
    write_bytes(digest, 32);
  }
  return 0;
}
"""
HASHES_RUST = """
#![no_std]
#![no_main]
extern crate alloc;
use alloc::vec::Vec;

guest::entry!(main);

fn main() {
    let bytes: Vec<u8> = guest::read();
    for from in 0..=bytes.len() {
        guest::write_bytes(&guest::sha256(&bytes[from..]));
        guest::write_bytes(&guest::keccak256(&bytes[from..]));
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("language", "example"), [("c", HASHES_C), ("rust", HASHES_RUST)])
def test_bytes_of_any_length_and_address_are_hashed(language: str, isa: str, example: str, tmp_path: Path) -> None:
    """Lengths around one and two blocks of both hashes, and all four alignments."""
    data = bytes((7 * k + 3) % 256 for k in range(280))
    elf = build(tmp_path / "hashes", language, isa, example)
    code, output, _ = ran(elf, encode(bytes, data))
    tails = [data[start:] for start in range(len(data) + 1)]
    assert code == 0
    assert output == b"".join(hashlib.sha256(tail).digest() + keccak256(tail) for tail in tails)


DECOMPRESSES_C = """
#include "curves.h"
#include "values.h"

int main(void) {
  Reader in = open_private();
  const uint32_t sign = get_u8(&in);
  size_t size;
  const uint8_t* bytes = get_bytes(&in, &size);
  uint32_t point[16];
  memcpy(point + 8, bytes, 32);
  Field field;
  field_open(&field, ED25519);
  if (!edwards_decompress(&field, point, point + 8, sign)) return 1;
  point_double(ED25519, point);
  write_bytes(point, 64);
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_a_project_in_c_reads_points_of_ed25519(isa: str, tmp_path: Path) -> None:
    elf = build(tmp_path / "points", "c", isa, DECOMPRESSES_C)
    x, y = point = ed25519_pairs()[0][0]
    code, output, _ = ran(elf, encode(U8, x & 1) + encode(bytes, y.to_bytes(32, "little")))
    assert (code, output) == (0, b"".join(number.to_bytes(32, "little") for number in edwards_sum(point, point)))
    no_point = encode(U8, 0) + encode(bytes, (2).to_bytes(32, "little"))
    assert ran(elf, no_point)[:2] == (1, b"")


WIDE_RUST = """
#![no_std]
#![no_main]
extern crate alloc;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

guest::entry!(main);

static WORD: AtomicUsize = AtomicUsize::new(usize::MAX);
static BYTE: AtomicU8 = AtomicU8::new(250);

fn main() {
    let shared = Arc::new(WORD.fetch_add(8, SeqCst));
    let other = Arc::clone(&shared);
    assert_eq!((Arc::strong_count(&other), *other, WORD.load(SeqCst)), (2, usize::MAX, 7));
    assert_eq!((BYTE.fetch_add(10, SeqCst), BYTE.swap(6, SeqCst), BYTE.fetch_max(9, SeqCst)), (250, 4, 6));
    assert_eq!(BYTE.compare_exchange(9, 1, SeqCst, SeqCst), Ok(9));
    assert_eq!(BYTE.compare_exchange(9, 2, SeqCst, SeqCst), Err(1));
    let mut near = [0u64; 25];
    guest::keccak_f(&mut near);
    guest::write_word(near[0] as u32);
    let far = (&raw mut near as usize + (1 << 32)) as *mut [u64; 25];
    guest::keccak_f(unsafe { &mut *far });
}
"""


@pytest.mark.slow
def test_rust_of_rv64im_has_atomic_operations_and_no_call_on_memory_beyond_32_bits(tmp_path: Path) -> None:
    code, output, debug = ran(build(tmp_path / "wide", "rust", "rv64im", WIDE_RUST), b"")
    assert (code, output) == (254, keccak_f([0] * 25)[0].to_bytes(8, "little")[:4])
    assert "the operands of host calls lie below 2^32" in debug


def test_run_shows_the_debug_stream(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"\x01\x08\x1b[31mred\x05")
    args = ("run", GUESTS / "ledger_c.elf", "--input", tmp_path / "input")
    done = run(*args)
    assert done.exit_code == 0, done.output
    assert "debug     \\x1b[31mred spends 5\n" in done.stderr
    assert "spends" not in done.stdout
    assert json.loads(run(*args, "--json").stdout)["debug"] == "\x1b[31mred spends 5\n"
    cut = run(*args, "--max-cycles", "800")
    assert (cut.exit_code, "did not end" in " ".join(cut.stderr.split())) == (1, True)


def test_a_long_debug_stream_keeps_its_end() -> None:
    """A ring of 2^16 bytes, written with 200 kB."""
    order = encode(list[tuple[str, U64]], [("x" * 90, n) for n in range(2000)])
    _, _, debug = ran(GUESTS / "ledger_rust.elf", order)
    assert len(debug) == 1 << 16
    assert debug.endswith(f"{'x' * 90} spends 1999\n")


def test_a_file_without_the_symbol_has_no_debug_stream() -> None:
    assert ran(GUESTS / "sha256.elf", b"abc")[2] == ""


@pytest.mark.parametrize(
    ("address", "size"),
    [(0xFFFFFFFC, 100), (0, 1 << 31), (5, 100), (0x10000, 4), (0x10000, (1 << 20) + 5), (0x20000000, 100), (0, 100)],
)
def test_a_symbol_that_makes_no_sense_is_no_stream(address: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file from anyone may name any place: beyond memory, too large, not aligned, or where nothing was written."""
    monkeypatch.setattr(Elf, "symbol", lambda self, name: Symbol(address, size, name))
    assert ran(GUESTS / "sha256.elf", b"abc")[2] == ""


@pytest.mark.parametrize(("language", "isa"), EACH)
def test_a_project_has_the_runtime_of_this_version(language: str, isa: str, tmp_path: Path) -> None:
    done = run("new", "guest", tmp_path / "my_guest", "--lang", language, "--isa", isa)
    assert done.exit_code == 0, done.output
    folder = tmp_path / "my_guest"
    place, names = LANGUAGES[language]
    for name in names:
        shipped = ROOT / "distprove" / "stark" / "riscv" / "runtime" / name
        assert (folder / place / name).read_bytes() == shipped.read_bytes()
    headers = {path.name for path in (ROOT / "distprove" / "stark" / "riscv" / "runtime").glob("*.h")}
    assert language != "c" or headers <= {path.name for path in (folder / place).iterdir()}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if re.search("@[A-Z]+@", path.read_text()) or path.suffix == ".in"]
    commands = re.findall(r"^    (\S.*)", (folder / "README.md").read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["make" if language == "c" else "cargo", *3 * ["distprove"]]
    assert "my_guest" in commands[1]
    target = {"c": f"-march={isa} ", "rust": f"{ISAS[isa]['TARGET']}/release/my_guest"}[language]
    assert target in (folder / {"c": "Makefile", "rust": "README.md"}[language]).read_text()


def test_a_project_is_made_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "is there already" in why_refused(run("new", "guest", tmp_path / "there"))
    assert "--lang is rust or c" in why_refused(run("new", "guest", tmp_path / "x", "--lang", "go"))
    assert "--isa is rv32im or rv64im" in why_refused(run("new", "guest", tmp_path / "x", "--isa", "rv64gc"))
    for name, near in (
        ("Ledger", "ledger"),
        ("my-guest", "my_guest"),
        ("a b", "a_b"),
        ("1st", ""),
        ("x" * 65, ""),
        ("Match", ""),
    ):
        with pytest.raises(UsageError, match="a guest's name is") as refused:
            make_project(tmp_path / name, "rust")
        assert str(refused.value).endswith(f"; {near} would do" if near else repr(name))
    for name in ("guest", "serde", "core", "alloc", "test", "build", "deps", "match", "yield"):
        with pytest.raises(UsageError, match=f"a guest in rust cannot have the name '{name}'"):
            make_project(tmp_path / name, "rust")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert make_project(tmp_path / "guest", "c")  # whose program is guest.elf
