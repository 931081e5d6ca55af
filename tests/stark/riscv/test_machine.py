"""The tables on whole programs: the public suite and the guests in C, checked, and some of them proven and verified."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.entry import OwnProgram
from distprove.errors import InputError, InvalidProof, OutputMissing, ResourceError, UsageError
from distprove.formats import canonical
from distprove.stark.barrier import job_challenge
from distprove.stark.keyfile import key_of, own_key, shipped_key
from distprove.stark.output import output_public
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.proof import content_bytes
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.stark.riscv import program as program_module
from distprove.stark.riscv.elf import parse_elf, read_elf
from distprove.stark.riscv.guest import Guest
from distprove.stark.riscv.program import RiscV
from distprove.stark.shape import ProofShape
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from tests.cli.conftest import run
from tests.stark.riscv.test_guests import GUESTS, signature
from tests.stark.test_proofs import check
from tests.support.riscv_asm import branch, imm, jal, li, store
from tests.support.riscv_elf import EXECUTE, READ, WRITE, code_file, elf_file
from tests.support.riscv_programs import fibonacci
from tests.support.riscv_suites import NOT_OURS, arch_tests, riscv_tests
from tests.support.riscv_traces import LAYOUT, job_of_elf

SMALL = Parameters(2, queries=3, grinding_bits=0, security_bits=1)


@pytest.mark.parametrize("name", [name for name in riscv_tests() if name not in NOT_OURS])
def test_the_suite_and_one_changed_cell_a_table(name: str) -> None:
    """Every test of the suite holds; with one cell of each table that it uses changed it does not."""
    job = job_of_elf(parse_elf(riscv_tests()[name], name))
    assert job.failures() == []
    seed = np.random.default_rng(int.from_bytes(name.encode()[-8:], "little"))
    for table, columns in job.main[0].items():
        used = np.flatnonzero(columns)
        if len(used):
            place = np.unravel_index(int(seed.choice(used)), columns.shape)
            columns[place] += np.uint64(1)
            assert job.failures(), (table, place)
            columns[place] -= np.uint64(1)


@pytest.mark.parametrize("name", arch_tests())
def test_the_second_suite(name: str) -> None:
    """In segments, whose output goes on from one to the next."""
    data, output = arch_tests()[name]
    if len(output) > 256 and "DISTPROVE_LONG" not in os.environ:
        pytest.skip("of some 30 segments; with DISTPROVE_LONG=1 only")
    job = job_of_elf(parse_elf(data, name), segment=256)
    assert job.failures() == []
    assert job.output == output


@pytest.mark.parametrize(
    ("name", "private", "public"),
    [
        ("quicksort", np.random.default_rng(1).integers(0, 1 << 32, 40, dtype=np.uint32).tobytes(), b""),
        ("sha256", b"abc", b""),
        ("keccak", b"", b""),
        ("keccak_f", bytes(300), b""),
        ("json", b'[1, "a", {"b": [true, null, -2]}]', b""),
    ],
)
def test_guests(name: str, private: bytes, public: bytes) -> None:
    job = job_of_elf(read_elf(GUESTS / f"{name}.elf"), private, public, segment=1 << 13)
    assert job.failures() == []
    assert name != "sha256" or job.output == hashlib.sha256(private).digest()


def test_a_proof_in_segments(tmp_path: Path) -> None:
    """A guest is proven in three segments, and verified by a key that was made without its file."""
    program = RiscV(elf=str(guest_file(tmp_path)), segment=64)
    job = proven(program)
    check(*job)
    key, _, publics, _, output = job
    made, without = shipped_key(key.named())
    assert made.digest == key.digest
    told = without.explain(publics, [])
    assert (told["exit code"], output, told["segments"]) == ("7", (6765).to_bytes(4, "little"), "2")
    other = made.arguments["guest"].replace("-00010000-", "-00010004-")
    assert key_of(RiscV(guest=other), SMALL).digest != key.digest


@pytest.mark.parametrize("queries", [3, 40, 120])
def test_no_proof_is_larger_than_its_bound(queries: int, tmp_path: Path) -> None:
    params = Parameters(2, queries=queries, grinding_bits=0, security_bits=1)
    key, _, _, proofs, _ = proven(RiscV(elf=str(guest_file(tmp_path)), segment=64), params)
    for proof in proofs:
        shape = ProofShape(key, proof.log_heights)
        size = len(canonical.encode(proof.to_record()))
        assert content_bytes(shape) * 0.9 < size <= content_bytes(shape, at_most=True)


def test_a_guest_in_rust_is_proven(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"the quick brown fox and the dog")
    program = RiscV(elf=str(GUESTS / "words.elf"), input=str(tmp_path / "text"), segment=1 << 11)
    key, names, publics, proofs, output = proven(program)
    assert len(names) > 1
    check(key, names, publics, proofs, output)
    told = program.explain(publics, [])
    assert (told["exit code"], output[:16].hex()) == ("0", "07000000060000000200000003000000")


@pytest.mark.skipif("DISTPROVE_LONG" not in os.environ, reason="13 million cycles; with DISTPROVE_LONG=1 only")
def test_ecdsa_is_proven(tmp_path: Path) -> None:
    """In 50 segments, which do not fit into memory together."""
    numbers = signature(random.Random(4))
    (tmp_path / "signature").write_bytes(b"".join(number.to_bytes(32, "big") for number in numbers))
    guest, sizes = ("--elf", GUESTS / "ecdsa.elf"), ("--segment", "2^18", "--device-memory", "3GiB", "--backend", "cpu")
    out = tmp_path / "run"
    done = run("prove", "stark", "riscv", *guest, "--public", tmp_path / "signature", *sizes, "--out", out)
    assert done.exit_code == 0, done.output
    told = json.loads(
        run("verify", out, "--program", "riscv", "--with", f"elf={GUESTS / 'ecdsa.elf'}", "--json").stdout
    )
    says = told["proven"]["says"]
    assert (says["exit code"], (out / "output.bin").read_bytes().hex()) == ("0", "01000000")


def test_a_verifier_with_the_file(tmp_path: Path) -> None:
    """The key made from the file is the proof's if the guest is, and no other guest's proof passes for it."""
    path = guest_file(tmp_path)
    with CpuBackend(threads=2) as backend:
        key = make_key(RiscV(elf=str(path)), SMALL, backend).key
    own = OwnProgram("distprove.stark.riscv.program:RiscV", {"elf": str(path)})
    made, _ = own_key(key.named(), own)
    assert made.digest == key.digest
    for changed in ([*fibonacci(20).code_word.tolist(), 0x13], fibonacci(21).code_word.tolist()):
        path.write_bytes(code_file(changed))
        with pytest.raises(InvalidProof, match=r"and not of riscv\(guest = "):
            own_key(key.named(), own)


def test_a_proof_of_another_output(tmp_path: Path) -> None:
    key, names, publics, proofs, output = proven(RiscV(elf=str(guest_file(tmp_path)), segment=128))
    check(key, names, publics, proofs, output)
    other = (6766).to_bytes(4, "little")
    with pytest.raises(InvalidProof, match="is not the one that the job states"):
        check(key, names, publics, proofs, other)
    with pytest.raises(InvalidProof, match="an output of 4 bytes"):
        check(key, names, publics, proofs, output + b"\0")
    with pytest.raises(OutputMissing):
        check(key, names, publics, proofs)
    first = LAYOUT["output_length"][0]
    wrong = [(*publics[0][:first], *output_public(other), *publics[0][first + 9 :])]
    with pytest.raises(InvalidProof):
        check(key, names, wrong, proofs, other)


def test_arguments(tmp_path: Path) -> None:
    path = guest_file(tmp_path)
    program = load_program("riscv", {"elf": str(path), "segment": "2^6"})
    with pytest.raises(UsageError, match="2 segments of 64 cycles, not 3"):
        program.cut(3, lambda heights: True)
    (first, _) = program.cut(None, lambda heights: True).slices
    path.write_bytes(code_file([0x13, 0x73]))
    with pytest.raises(InputError, match="changed during the job"):
        program.inputs(first.source)
    for segment in (1, 48, 1 << 22):
        with pytest.raises(UsageError, match="power of two"):
            RiscV(elf=str(path), segment=segment)
    for name in ("", "00-1", f"{'0' * 64}-00010000-06-6", f"{'0' * 64}-10000-6-6"):
        with pytest.raises(UsageError, match="guest"):
            Guest.parse(name)
    with pytest.raises(UsageError, match="argument elf"):
        RiscV().preprocessed()


def test_a_guest_that_never_ends_is_given_up_before_it_fills_memory(tmp_path: Path) -> None:
    """In segments of two cycles there were up to 2^35 snapshots in memory, of a service too, 14 MB more each second."""
    path = tmp_path / "guest.elf"
    path.write_bytes(code_file([imm("addi", 5, 5, 1), jal(0, -4)]))
    with pytest.raises(UsageError, match="has not ended after 16384 segments of 2 cycles"):
        RiscV(elf=str(path), segment=2).cut(None, lambda heights: True)


def test_a_guest_that_touches_much_is_given_up_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot has each word that its segment touches: this guest filled 150 MB a second."""
    path = tmp_path / "guest.elf"
    code = [*li(5, 0x20000), *li(7, 0x20000 + (1 << 24)), store("sw", 6, 5), imm("addi", 5, 5, 4)]
    code += [branch("bltu", 5, 7, -8), jal(0, -4 * len(code))]
    segments = [(0x10000, struct.pack(f"<{len(code)}I", *code), READ | EXECUTE), (0x20000, b"", READ | WRITE)]
    path.write_bytes(elf_file(segments, 0x10000, sizes=[None, 1 << 24]))
    monkeypatch.setattr(program_module, "memory_available", lambda: 1 << 28)
    with pytest.raises(ResourceError, match=r"snapshots of \d+ segments take \d+ bytes, more than a quarter of the"):
        RiscV(elf=str(path)).cut(None, lambda heights: True)


def test_an_input_that_fills_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GiB of zeros takes no room on a disk, and four GiB of memory."""
    with open(tmp_path / "input", "wb") as file:
        file.truncate(1 << 30)
    monkeypatch.setattr(program_module, "memory_available", lambda: 1 << 31)
    program = RiscV(elf=str(guest_file(tmp_path)), input=str(tmp_path / "input"))
    with pytest.raises(ResourceError, match="input"):
        program.cut(None, lambda heights: True)


def guest_file(folder: Path) -> Path:
    path = folder / "guest.elf"
    path.write_bytes(code_file(fibonacci(20).code_word.tolist()))
    return path


def proven(program: RiscV, params: Parameters = SMALL) -> Any:
    """Key, names, public values and proofs of the job, and its output."""
    with CpuBackend(threads=2) as backend:
        pk = make_key(program, params, backend)
        made = program.cut(None, lambda heights: True)
        slices = made.slices
        committed = [commit(pk, s.name, program.inputs(s.source), Steps()) for s in slices]
        challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
        proofs = [prove(pk, c, challenge, Steps()) for c in committed]
        return pk.key, [s.name for s in slices], [c.commitment.public for c in committed], proofs, made.output
