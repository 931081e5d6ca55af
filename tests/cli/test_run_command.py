"""`distprove run`: what a guest does, as a person and as a program read it."""

from __future__ import annotations

import hashlib
import json
import re
import string
from pathlib import Path

import pytest

from distprove.stark.riscv.elf import read_elf
from distprove.stark.riscv.executor import Execution
from distprove.stark.riscv.names import shown_name
from distprove.stark.riscv.profile import ELSEWHERE, profile
from tests.cli.conftest import run, why_refused
from tests.support import ROOT
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import code_file

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"


def guest(folder: Path, *code: int) -> Path:
    path = folder / "guest.elf"
    path.write_bytes(code_file(code))
    return path


def test_a_guest_is_run(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(b"abc" * 1000)
    digest = hashlib.sha256(b"abc" * 1000).hexdigest()
    args = ("run", GUESTS / "sha256.elf", "--input", tmp_path / "message")
    done = run(*args, "--output", tmp_path / "digest")
    assert done.exit_code == 0, done.output
    assert digest in done.stdout
    assert (tmp_path / "digest").read_bytes().hex() == digest
    told = json.loads(run(*args, "--segment", "2^10", "--json").stdout)
    assert (told["status"], told["exit_code"], told["output"]) == ("exited", 0, digest)
    assert told["segments"] == -(-told["cycles"] // 1024) > 100
    assert "by_function" not in told


def test_what_proving_takes_is_told(tmp_path: Path) -> None:
    (tmp_path / "n").write_bytes((20_000).to_bytes(4, "little"))
    args = ("run", GUESTS / "fibonacci.elf", "--public-input", tmp_path / "n")
    told = [json.loads(run(*args, "--segment", size, "--json").stdout)["forecast"] for size in ("2^10", "2^14", "2^20")]
    assert [each["segments"] for each in told] == [98, 7, 1]
    assert told[0]["device_bytes"] < told[1]["device_bytes"] < told[2]["device_bytes"]
    assert all(each["least_device_bytes"] < each["device_bytes"] for each in told)
    assert told[0]["seconds"] > told[1]["seconds"] > told[2]["seconds"] > 0
    assert told[1]["segment_proof_bytes"] * 6 < told[1]["proof_bytes"] <= told[1]["segment_proof_bytes"] * 7
    assert "estimated for one NVIDIA H200" in " ".join(run(*args).stdout.split())


def test_what_proving_takes_with_the_multilinear_engine_is_told(tmp_path: Path) -> None:
    """Its bound of a proof holds of a proof, and its memory is that of the engine's plans."""
    (tmp_path / "n").write_bytes((20_000).to_bytes(4, "little"))
    args = ("run", GUESTS / "fibonacci.elf", "--public-input", tmp_path / "n", "--segment", "2^20", "--json")
    fri, told = (json.loads(run(*args, "--engine", e).stdout)["forecast"] for e in ("fri", "multilinear"))
    assert (fri["engine"], told["engine"]) == ("fri", "multilinear")
    assert told["segments"] == 1
    assert told["least_device_bytes"] < told["device_bytes"]
    assert told["proof_bytes"] == told["segment_proof_bytes"] < fri["proof_bytes"]
    assert "--engine is fri or multilinear, not 'other'" in why_refused(run(*args[:-1], "--engine", "other"))


def test_what_cannot_be_proven_is_told(tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(bytes(300))
    args = ("run", guest(tmp_path, *(65 * asm.call(4)), *asm.leave()), "--public-input", tmp_path / "known")
    done = run(*args, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["forecast"]) == (2, None)
    assert "reads 65 words of public input" in told["not_provable"]
    assert "reads 65 words of public input" in " ".join(run(*args).stderr.split())


def test_the_profile(tmp_path: Path) -> None:
    (tmp_path / "n").write_bytes((100).to_bytes(4, "little"))
    args = ("run", GUESTS / "fibonacci.elf", "--public-input", tmp_path / "n", "--profile")
    told = json.loads(run(*args, "--json").stdout)
    for way in ("by_function", "by_instruction"):
        assert sum(told[way].values()) == told["cycles"]
        assert list(told[way].values()) == sorted(told[way].values(), reverse=True)
    assert told["by_instruction"]["ecall"] == 4
    assert told["by_function"]["_start"] == 7
    assert set(told["by_function"]) == {"main", "_start"}
    assert told["by_call"] == {"public": 2, "exit": 1, "write": 1}
    shown = run(*args).stdout
    assert "_start" in shown
    assert "addi" in shown


def test_the_profile_counts_host_calls(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(bytes(1000))
    args = ("run", GUESTS / "keccak_f.elf", "--input", tmp_path / "message", "--profile")
    assert json.loads(run(*args, "--json").stdout)["by_call"] == {"private": 251, "write": 8, "keccak_f": 8, "exit": 1}
    assert "keccak_f" in run(*args).stdout


def test_every_instruction_has_its_name(tmp_path: Path) -> None:
    """Each once, in a file without symbols."""
    registers = [asm.op(name, 5, 6, 7) for name in asm.REGISTER_OPS]
    immediates = [asm.imm(name, 5, 0, 1) for name in asm.IMMEDIATE_OPS]
    memory = [asm.lui(8, 0x20000), *(asm.load(name, 5, 8) for name in asm.LOADS)]
    stores = [asm.store(name, 5, 8) for name in asm.STORES]
    branches = [asm.branch(name, 0, 0, 4) for name in asm.BRANCHES]
    jumps = [asm.jal(0, 4), asm.auipc(5, 0), asm.jalr(0, 5, 8), asm.FENCE]
    elf = read_elf(guest(tmp_path, *registers, *immediates, *memory, *stores, *branches, *jumps, *asm.leave()))
    execution = Execution(elf)
    found = profile(elf, execution.count(), execution.call_counts())
    once = {*asm.REGISTER_OPS, *asm.IMMEDIATE_OPS, *asm.LOADS, *asm.STORES, *asm.BRANCHES}
    once |= {"lui", "jal", "auipc", "jalr", "fence", "ecall"}
    assert found.by_instruction == {**dict.fromkeys(once, 1), "addi": 3}
    assert found.by_function == {ELSEWHERE: sum(found.by_instruction.values())}


def test_a_trap_shows_where_and_the_registers(tmp_path: Path) -> None:
    path = guest(tmp_path, *asm.li(5, 0xABCDEF01), 0xFFFFFFFF)
    done = run("run", path)
    assert done.exit_code == 1
    assert "cycle 2 at pc 0x00010008 (instruction 0xffffffff): an illegal instruction" in " ".join(done.stderr.split())
    assert "t0 0xabcdef01" in done.stderr
    assert "about" not in done.stderr  # the instruction, which the message has
    told = json.loads(run("run", path, "--json").stdout)
    assert (told["status"], told["error"]["type"]) == ("error", "Trap")
    refused = run("prove", "stark", "riscv", "--elf", path, "--out", tmp_path / "run", "--local", "--no-isolate")
    why = " ".join(refused.stderr.split())
    assert "an illegal instruction; `distprove run` shows the registers" in why
    assert "abcdef01" not in why
    shown = run("run", guest(tmp_path, *asm.li(17, 77), asm.ECALL)).stderr
    assert "number of the call 0x0000004d" in shown


def test_an_endless_guest_says_where_it_is_and_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "n").write_bytes((1 << 31).to_bytes(4, "little"))
    args = ("run", GUESTS / "fibonacci.elf", "--public", tmp_path / "n", "--max-cycles", "2^12")
    done = run(*args, "--profile")
    assert done.exit_code == 1
    assert re.search(
        r"did not end within 4096 cycles: it is at pc 0x[0-9a-f]{8} in `main`", " ".join(done.stderr.split())
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["main", "4,091", "99.9"] in rows
    assert "_start" not in run(*args).stdout


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN5guest4main17h0123456789abcdefE", "guest::main"),
        ("_ZN5guest4main17h0123456789abcdefE.llvm.0A1B", "guest::main"),
        (
            "_ZN62_$LT$guest..heap..Heap$u20$as$u20$core..alloc..GlobalAlloc$GT$5alloc17h0123456789abcdefE",
            "<guest::heap::Heap as core::alloc::GlobalAlloc>::alloc",
        ),
        ("_ZN5alpha5start17hello_hello_helloE", "_ZN5alpha5start17hello_hello_helloE"),
        ("_ZN9999x17h0123456789abcdefE", "_ZN9999x17h0123456789abcdefE"),
        ("_ZN7$ud800$17h0123456789abcdefE", "$ud800$"),
        ("_ZN5$u1b$17h0123456789abcdefE", "$u1b$"),
        ("_ZN5guest4mainE", "_ZN5guest4mainE"),
        ("main", "main"),
        ("_RNvNtCsek2U9quteHC_17compiler_builtins3mem6memcpy", "compiler_builtins::mem::memcpy"),
        (
            "_RINvNtNtCsifWJiKa6KfZ_4core3fmt5float29float_to_decimal_common_exactdEB6_",
            "core::fmt::float::float_to_decimal_common_exact::<f64>",
        ),
        ("_RNvXsi_NtCsifWJiKa6KfZ_4core3fmtRyNtB5_5Debug3fmt.llvm.12", "<&u64 as core::fmt::Debug>::fmt"),
        ("_RNvYNtC1a1SNtB4_1T5visitC1b", "<a::S as a::T>::visit"),
        ("_RINvC1a1fDNtB2_1Tp4ItemhEL_E", "a::f::<dyn a::T<Item = u8>>"),
        ("_RNCNvC1a4mains_0C1b", "a::main::{closure#1}"),
        ("_RNSNvC1a4main6vtable", "a::main::{shim:vtable#0}"),
        (
            "_RINvC1a1fKj2a_Kb1_Kc41_Kan7f_FUKCRShAOjj4_EzE",
            "a::f::<42, true, 'A', -127, unsafe extern \"C\" fn(&[u8], [*mut usize; 4]) -> !>",
        ),
        ("_RINvC1a1fTEThEThmEE", "a::f::<(), (u8,), (u8, u32)>"),
        ("_RNvC1au6zcaj7c", "a::öäß"),
        ("_RNvC1au9bcher_kva", "a::bücher"),
        ("_RNvC1au2_\u00e4", None),
        ("_RNvC1a4main.exit.i", None),
        ("_RNvB_4main", None),
        ("_RNvC9main", None),
        ("_RNvC1a4mainC", None),
        ("_RINvC1a1fKc1b_E", None),
        ("_R" + "S" * 5000, None),
        ("_RNvC1a2\x1bm", None),
        ("_R", None),
    ],
)
def test_names_of_rust_are_shown_without_their_hash(symbol: str, name: str | None) -> None:
    assert shown_name(symbol) == (symbol if name is None else name)


def test_references_of_a_symbol_do_not_make_its_name_exponentially_long() -> None:
    assert (
        shown_name(_doubled(2))
        == "a::f::<(u8, u8), ((u8, u8), (u8, u8)), (((u8, u8), (u8, u8)), ((u8, u8), (u8, u8)))>"
    )
    assert shown_name(_doubled(40)) == _doubled(40)


def _doubled(times: int) -> str:
    """A symbol whose generic arguments are tuples, each twice the one before it."""
    symbol, at = "INvC1a1fThhE", 8
    for _ in range(times):
        reference, at = f"B{_base62(at)}", len(symbol)
        symbol += f"T{2 * reference}E"
    return f"_R{symbol}E"


def _base62(value: int) -> str:
    digits, value = "", value - 1
    while value > 0:
        value, digit = divmod(value, 62)
        digits = (string.digits + string.ascii_letters)[digit] + digits
    return (digits or ("0" if value == 0 else "")) + "_"


def test_exit_codes(tmp_path: Path) -> None:
    done = run("run", guest(tmp_path, *asm.leave(5)), "--json")
    assert (done.exit_code, json.loads(done.stdout)["exit_code"]) == (1, 5)
    done = run("run", guest(tmp_path, asm.jal(0, 4), asm.jal(0, -4)), "--max-cycles", "2^20")
    assert done.exit_code == 1
    assert "did not end within 1048576 cycles" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--segment", "1000"], "power of two"),
        (["--segment", "2^22"], "segment must be a power of two from 2 to 2097152"),
        (["--segment", "many"], "--segment must be an integer"),
        (["--max-cycles", "0"], "positive"),
        (["--input", "missing"], "missing"),
    ],
)
def test_what_is_refused(args: list[str], says: str, tmp_path: Path) -> None:
    assert says in why_refused(run("run", guest(tmp_path, *asm.leave()), *args))


def test_a_file_that_is_no_guest(tmp_path: Path) -> None:
    assert "not an ELF file" in why_refused(run("run", ROOT / "README.md"))
    assert "No such file" in why_refused(run("run", tmp_path / "missing.elf"))
