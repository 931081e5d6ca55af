"""OpenVM's own verifier accepts our proofs and refuses changed ones, and its CPU prover writes the same bytes.

`cargo build --release` in openvm-judge makes the program; DISTPROVE_OPENVM_JUDGE names one that is elsewhere.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from distprove.errors import FormatError, InvalidProof
from distprove.measure.openvm_segments import key_of as key_of_segment
from distprove.measure.openvm_segments import log_stacked, read_profile, scaled, traces_of
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.key_file import key_to_bytes, read_key
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.traces import AirTrace, read_traces, traces_to_bytes
from distprove.stark.openvm.verifier import verify
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import P
from tests.support.openvm_golden import GOLDEN, NAMES, key_of, proof_bytes

BUILT = Path(__file__).parent / "openvm-judge" / "target" / "release" / "openvm-judge"
JUDGE = Path(os.environ.get("DISTPROVE_OPENVM_JUDGE", BUILT))
pytestmark = pytest.mark.skipif(not JUDGE.exists(), reason="no openvm-judge: cargo build --release makes it")

EXCERPT = Path(__file__).parents[1] / "measure" / "openvm" / "reth-excerpt.jsonl"

SEEDS = range(int(os.environ.get("DISTPROVE_OPENVM_SEEDS", "6")))
"""The random sets of AIRs that are proven."""
SETS = [(f"random-{seed}", f"random-{seed}") for seed in SEEDS]
"""AIRs, traces and parameters at random, with every feature of a key."""

TRACER = JUDGE.with_name("openvm-trace")
FIBONACCI = os.environ.get("DISTPROVE_OPENVM_FIBONACCI")
"""OpenVM's guest benchmarks/guest/fibonacci/elf/openvm-fibonacci-program.elf."""


@pytest.fixture(scope="module")
def kernels() -> Iterator[OpenVmKernels]:
    with CpuBackend(threads=2) as cpu:
        yield cpu.openvm


def asked(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(JUDGE), *map(str, arguments)], capture_output=True, text=True, check=False)


def exported(folder: Path, *arguments: object) -> Path:
    """The folder with the key, the traces and the proof that the judge wrote."""
    done = asked("export", arguments[0], folder, *arguments[1:])
    assert done.returncode == 0, done.stderr
    return folder


def accepted_there(folder: Path, key: Path, proof: bytes) -> bool:
    """Their verifier's answer. Fails if the judge could not ask it."""
    path = folder / "judged.bin"
    path.write_bytes(proof)
    done = asked("verify", key, path)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.startswith("accepted" if done.returncode == 0 else "refused: ")
    return done.returncode == 0


def accepted_here(key: OpenVmKey, proof: bytes) -> bool:
    try:
        verify(key, OpenVmProof.from_bytes(proof))
    except (FormatError, InvalidProof):
        return False
    return True


def flipped(proof: bytes, place: int, bit: int) -> bytes:
    spoilt = bytearray(proof)
    spoilt[place] ^= 1 << bit
    return bytes(spoilt)


@pytest.mark.parametrize("name", NAMES)
def test_the_golden_files_are_what_the_judge_exports(tmp_path: Path, name: str) -> None:
    exported(tmp_path, name)
    for file in ("key.bin", "traces.bin", "proof.bin"):
        assert (tmp_path / file).read_bytes() == (GOLDEN / name / file).read_bytes(), file


def test_the_vectors_are_what_the_judge_prints() -> None:
    assert asked("vectors").stdout == (GOLDEN / "vectors.json").read_text()


@pytest.mark.parametrize(("name", "params"), [*SETS, ("interactions", "app-12"), ("mixed", "skip-4")])
def test_both_provers_write_the_same_proof(tmp_path: Path, kernels: OpenVmKernels, name: str, params: str) -> None:
    folder = exported(tmp_path, name, params)
    key = read_key(folder / "key.bin")
    proof = prove(kernels, key, read_traces(folder / "traces.bin", key), Steps()).to_bytes()
    assert accepted_there(tmp_path, folder / "key.bin", proof)
    assert accepted_here(key, proof)
    assert proof == (folder / "proof.bin").read_bytes()


@pytest.mark.parametrize("number", range(3))
def test_segments_of_a_block_are_proven_alike(tmp_path: Path, kernels: OpenVmKernels, number: int) -> None:
    """Their prover reads the key and the traces that are made here, and writes the same proof."""
    segment = scaled(read_profile(EXCERPT)[number], -14)
    key, traces = key_of_segment(segment, log_stacked(-14)), traces_of(segment)
    files = tmp_path / "key.bin", tmp_path / "traces.bin", tmp_path / "proof.bin"
    files[0].write_bytes(key_to_bytes(key))
    files[1].write_bytes(traces_to_bytes(traces))
    done = asked("prove", *files)
    assert done.returncode == 0, done.stderr
    proof = prove(kernels, key, traces, Steps()).to_bytes()
    assert proof == files[2].read_bytes()
    assert accepted_there(tmp_path, files[0], proof)


@pytest.mark.parametrize("name", ["interactions", "preprocessed", "cached"])
def test_both_verifiers_refuse_changed_proofs(tmp_path: Path, name: str) -> None:
    """Any bit, a byte more or less, and two parts exchanged."""
    key, proof, random = GOLDEN / name / "key.bin", proof_bytes(name), Random(name)
    assert accepted_there(tmp_path, key, proof)
    places = [*range(16), *random.sample(range(len(proof)), 40), *range(len(proof) - 4, len(proof))]
    changed = [flipped(proof, place, random.randrange(8)) for place in places]
    for spoilt in (*changed, proof[:-1], proof + b"\0", proof[4:], proof[:36] + proof[4:36] + proof[68:], b""):
        assert spoilt != proof
        assert not accepted_there(tmp_path, key, spoilt)
        assert not accepted_here(key_of(name), spoilt)


@pytest.mark.parametrize("other", [name for name in NAMES if name != "fibonacci"])
def test_both_verifiers_refuse_a_proof_under_another_key(tmp_path: Path, other: str) -> None:
    assert not accepted_there(tmp_path, GOLDEN / other / "key.bin", proof_bytes("fibonacci"))
    assert not accepted_here(key_of(other), proof_bytes("fibonacci"))


def spoilt_traces(name: str, random: Random) -> list[AirTrace]:
    """Traces of a golden set with one cell of a common main changed."""
    traces = list(read_traces(GOLDEN / name / "traces.bin", key_of(name)))
    number = random.randrange(len(traces))
    common = traces[number].common.copy()
    place = random.randrange(common.shape[0]), random.randrange(common.shape[1])
    common[place] = (int(common[place]) + random.randrange(1, P)) % P
    traces[number] = replace(traces[number], common=common)
    return traces


@pytest.mark.parametrize("name", ["fibonacci", "cached", "degree"])
def test_both_verifiers_refuse_a_proof_of_a_false_trace(tmp_path: Path, kernels: OpenVmKernels, name: str) -> None:
    random = Random(name)
    for _ in range(3):
        proof = prove(kernels, key_of(name), spoilt_traces(name, random), Steps()).to_bytes()
        assert not accepted_there(tmp_path, GOLDEN / name / "key.bin", proof)
        assert not accepted_here(key_of(name), proof)


@pytest.mark.skipif(FIBONACCI is None or not TRACER.exists(), reason="no openvm-trace, or no guest is named")
def test_a_real_program_is_proven(tmp_path: Path, kernels: OpenVmKernels) -> None:
    """The Fibonacci guest of OpenVM under the app layer's parameters, for 100 bits."""
    done = subprocess.run(
        [str(TRACER), str(FIBONACCI), str(tmp_path), "19", (1000).to_bytes(8, "little").hex()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    key = read_key(tmp_path / "key.bin")
    proof = prove(kernels, key, read_traces(tmp_path / "traces-0.bin", key), Steps()).to_bytes()
    assert accepted_there(tmp_path, tmp_path / "key.bin", proof)
    assert accepted_here(key, proof)
