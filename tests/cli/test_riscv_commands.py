"""The RISC-V machine from the command line: a guest proven in segments, and verified as the guest that was meant."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import pytest

import distprove
from distprove.errors import InvalidProof
from tests.cli.conftest import run, why_refused
from tests.support import ROOT
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import code_file

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"
LOCAL = ("--local", "--threads", "2", "--backend", "cpu")


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """A run of several segments, and the options that name the guest, its input and the segments."""
    folder = tmp_path_factory.mktemp("riscv")
    (folder / "message").write_bytes(b"abc")
    guest = ("--elf", str(GUESTS / "sha256.elf"), "--input", str(folder / "message"), "--segment", "2^12")
    done = run("prove", "stark", "riscv", *guest, "--out", folder / "run", *LOCAL)
    assert done.exit_code == 0, done.output
    return folder / "run", guest


def test_a_guest_is_verified_from_its_file_its_name_and_its_key(
    proven: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    out, guest = proven
    from_file = run("verify", out, "--program", "riscv", "--with", f"elf={GUESTS / 'sha256.elf'}", "--json")
    facts = json.loads(from_file.stdout)
    name = facts["proven"]["arguments"]["guest"]
    assert int(facts["proven"]["says"]["segments"]) == len(facts["partitions"]) > 1
    assert run("verify", out, "--program", "riscv", "--with", f"guest={name}").exit_code == 0
    other = run("verify", out, "--program", "riscv", "--with", f"elf={GUESTS / 'json.elf'}")
    assert (other.exit_code, name in other.stderr) == (1, True)
    wrong = ("0" if name[0] != "0" else "1") + name[1:]
    assert run("verify", out, "--program", "riscv", "--with", f"guest={wrong}").exit_code == 1
    assert "guest" in why_refused(run("verify", out, "--program", "riscv"))
    assert "and not" in why_refused(run("prove", "stark", "riscv", *guest, "--guest", wrong, "--out", tmp_path / "r"))
    assert run("key", "riscv", *guest, "--out", tmp_path / "vk").exit_code == 0
    assert run("verify", out, "--vk", tmp_path / "vk").exit_code == 0


@pytest.fixture(scope="module")
def panicked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a guest that reads two of three words of public input, and exits with 254."""
    folder = tmp_path_factory.mktemp("panicked")
    (folder / "known").write_bytes(b"abcdefgh")
    (folder / "guest.elf").write_bytes(code_file([*asm.call(4), *asm.call(4), *asm.leave(254)]))
    guest = ("--elf", folder / "guest.elf", "--public-input", folder / "known", "--segment", "4")
    done = run("prove", "stark", "riscv", *guest, "--out", folder / "run", *LOCAL)
    assert done.exit_code == 0, done.output
    assert "exit code 254: `verify` refuses it, unless --exit-code 254 is given" in " ".join(done.output.split())
    return folder / "run"


def test_a_guest_that_panicked_is_verified_if_that_is_expected(panicked: Path, tmp_path: Path) -> None:
    elf, vk = panicked.parent / "guest.elf", tmp_path / "files" / "verifying_key.msgpack"
    exported = run("export", panicked, "--out", tmp_path / "files")
    assert exported.exit_code == 0
    command = shlex.split(exported.stdout.splitlines()[-1])
    assert command[-2:] == ["--exit-code", "254"]
    assert run(*command[1:]).exit_code == 0
    assert (tmp_path / "files" / "output.bin").is_file()
    ways = (
        (panicked,),
        (panicked, "--program", "riscv", "--with", f"elf={elf}"),
        (panicked, "--vk", vk),
        (panicked / "proof.msgpack", "--output", panicked / "output.bin"),
    )
    for way in ways:
        refused = run("verify", *way)
        assert (refused.exit_code, "states exit code 254; 0 is expected" in " ".join(refused.stderr.split())) == (
            1,
            True,
        )
        assert run("verify", *way, "--exit-code", 254).exit_code == 0
        assert run("verify", *way, "--exit-code", 255).exit_code == 1
    with pytest.raises(InvalidProof, match="exit code 254"):
        distprove.verify(panicked)
    assert distprove.verify(panicked, exit_code=254).proven["exit_code"] == 254


def test_a_guest_is_verified_with_its_public_input(panicked: Path, tmp_path: Path) -> None:
    known = panicked.parent / "known"
    by_program = ("--program", "riscv", "--with", f"elf={panicked.parent / 'guest.elf'}", "--with")
    verify = ("verify", panicked, "--exit-code", 254)
    assert run(*verify, "--public-input", known).exit_code == 0
    assert run(*verify, *by_program, f"public={known}").exit_code == 0
    for content in (b"", b"abcdefg", b"abcdefghi", b"Abcdefgh"):
        (tmp_path / "wrong").write_bytes(content)
        refused = run(*verify, "--public-input", tmp_path / "wrong")
        assert (refused.exit_code, "states public: 080000006162" in " ".join(refused.stderr.split())) == (1, True)
        assert run(*verify, *by_program, f"public={tmp_path / 'wrong'}").exit_code == 1
        with pytest.raises(InvalidProof, match="states public"):
            distprove.verify(panicked, exit_code=254, public_input=content)
    assert run(*verify, "--public-input", tmp_path / "nothing").exit_code == 2
    assert distprove.verify(panicked, exit_code=254, public_input=str(known)).proven["exit_code"] == 254
    distprove.verify(panicked, exit_code=254, public_input=b"abcdefgh")


def test_a_run_is_verified_with_its_output(proven: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    """SHA-256 of "abc" is the output, and lies beside the proof; the proof alone says what is missing."""
    out, _ = proven
    digest = hashlib.sha256(b"abc").digest()
    assert (out / "output.bin").read_bytes() == digest
    told = run("verify", out)
    assert digest.hex() in told.stdout.replace("\n", "").replace(" ", "")
    alone = tmp_path / "alone.msgpack"
    alone.write_bytes((out / "proof.msgpack").read_bytes())
    missing = run("verify", alone)
    assert missing.exit_code == 1
    assert "every partition's proof holds by itself" in " ".join(missing.stderr.split())
    assert run("verify", alone, "--output", out / "output.bin").exit_code == 0
    for wrong in (digest[:-1], digest + b"\0", digest[::-1]):
        (tmp_path / "wrong").write_bytes(wrong)
        assert run("verify", out, "--output", tmp_path / "wrong").exit_code == 1
    assert run("verify", out, "--output", tmp_path / "nothing").exit_code == 2


def test_key_and_security_choose_the_queries_of_the_run(proven: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    out, guest = proven
    queries = json.loads((out / "report.json").read_text())["proven"]["security"]["queries"]
    told = json.loads(run("security", "riscv", *guest, "--json").stdout)["security"]
    assert (told["queries"], told["bits"] >= 128) == (queries, True)
    without_input = ("key", "riscv", *guest[:2], "--queries", queries, "--out", tmp_path / "vk")
    assert run(*without_input).exit_code == 0
    assert run("verify", out, "--vk", tmp_path / "vk").exit_code == 0


def test_the_key_of_a_run_that_misses_its_input_is_pointed_out(panicked: Path, tmp_path: Path) -> None:
    """`key riscv --elf guest.elf` alone, of a guest that reads an input, silently gave a key that verified no run."""
    guest = ("--elf", panicked.parent / "guest.elf", "--public-input", panicked.parent / "known", "--segment", "4")
    for command in (("key", "riscv", *guest, "--out", tmp_path / "vk"), ("security", "riscv", *guest)):
        done = run(*command)
        assert done.exit_code == 0, done.output
        assert "the guest ended with exit code 254 on this input" in " ".join(done.stderr.split())
    quiet = run("key", "riscv", *guest, "--queries", 7, "--out", tmp_path / "other")
    assert (quiet.exit_code, quiet.stderr) == (0, ""), "nothing was run"
    refused = run("verify", panicked, "--vk", tmp_path / "other", "--exit-code", 254)
    words = " ".join(refused.stderr.split())
    assert (refused.exit_code, "of the same program, made with queries = " in words, ", not 7" in words) == (
        1,
        True,
        True,
    )


def test_a_proof_under_the_key_of_another_guest_names_both(panicked: Path, tmp_path: Path) -> None:
    other = GUESTS / "json.elf"
    assert run("key", "riscv", "--elf", other, "--queries", 7, "--out", tmp_path / "vk").exit_code == 0
    refused = run("verify", panicked, "--vk", tmp_path / "vk", "--exit-code", 254)
    words = " ".join(refused.stderr.split())
    assert (refused.exit_code, words.count("riscv(guest = ")) == (1, 2)


def test_a_job_file_may_leave_the_number_of_partitions_to_the_run(tmp_path: Path) -> None:
    text = 'system = "stark"\nprogram = "riscv"\npartitions = "{}"\n[arguments]\nelf = "{}"\n'
    job = tmp_path / "job.toml"
    job.write_text(text.format("auto", GUESTS / "keccak.elf"))
    done = run("prove", job, "--out", tmp_path / "run", *LOCAL)
    assert done.exit_code == 0, done.output
    job.write_text(text.format("many", GUESTS / "keccak.elf"))
    assert 'an integer or "auto"' in why_refused(run("prove", job, "--out", tmp_path / "other", *LOCAL))


def test_a_guest_is_measured(proven: tuple[Path, tuple[str, ...]]) -> None:
    _, guest = proven
    options = ("--repeats", "1", "--backend", "cpu", "--threads", "2")
    row = json.loads(run("bench", "stark", "riscv", *guest[:4], *options, "--json").stdout)["rows"][0]
    assert row["what"] == "riscv"
    assert "segments of" in why_refused(run("bench", "stark", "riscv", *guest, *options))
