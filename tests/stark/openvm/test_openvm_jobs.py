"""Jobs of OpenVM's proofs: a partition for each file of traces, whose proof has the bytes that OpenVM writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidProof, UnsatisfiedWitness
from distprove.options import InputFile
from distprove.proof import Proof
from distprove.stark.openvm.commitment import commit
from distprove.stark.openvm.entry import ENTRY
from distprove.stark.openvm.job_verifier import SwirlVerifier
from distprove.stark.openvm.options import SwirlOptions
from distprove.stark.openvm.system import SwirlSystem
from distprove.stark.openvm.traces import AirTrace, CachedMain, read_traces, traces_to_bytes
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.maths.babybear import P
from tests.cli.conftest import run
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.openvm_golden import GOLDEN, key_of, key_path, proof_bytes

HERE = ("--local", "--no-isolate", "--gpus", 0, "--threads", 2)


def changed_traces(name: str, path: Path) -> Path:
    """A file of a golden set's traces, with another number in one cell of the first one."""
    first, *others = read_traces(GOLDEN / name / "traces.bin", key_of(name))
    common = first.common.copy()
    common[0, 0] = (int(common[0, 0]) + 1) % P
    path.write_bytes(traces_to_bytes([replace(first, common=common), *others]))
    return path


def test_a_job_is_proven_verified_resumed_and_exported(tmp_path: Path) -> None:
    """A proof for each file, of the bytes that stark-backend's own prover wrote, by a job file and by options."""
    name, out = "interactions", tmp_path / "run"
    for i in range(3):
        shutil.copy(GOLDEN / name / "traces.bin", tmp_path / f"segment-{i}.bin")
    job = tmp_path / "job.toml"
    job.write_text(f'system = "swirl"\nkey = "{key_path(name)}"\ntraces = ["segment-*.bin"]\n')
    done = run("prove", job, "--out", out, *HERE)
    assert done.exit_code == 0, done.output
    assert "proved: 3 of 3 partitions" in done.output

    (out / "partitions" / "segment-1.msgpack").unlink(missing_ok=True)
    (out / "proof.msgpack").unlink()
    resumed = run("resume", out)
    assert resumed.exit_code == 0, resumed.output
    assert "--trust-own-key" in run("verify", out, "--security", 5).output
    checked = run("verify", out, "--vk", key_path(name), "--security", 5, "--json")
    assert checked.exit_code == 0, checked.output
    assert [p["name"] for p in json.loads(checked.stdout)["partitions"]] == [f"segment-{i}" for i in range(3)]
    assert "128 are asked for" in run("verify", out, "--vk", key_path(name)).output
    other = run("verify", out, "--vk", key_path("fibonacci"), "--security", 5)
    assert other.exit_code != 0
    assert "another key" in other.output

    exported = run("export", out, "--out", tmp_path / "files")
    assert exported.exit_code == 0, exported.output
    files = tmp_path / "files"
    assert [(files / f"proof-{i}.bin").read_bytes() for i in range(3)] == [proof_bytes(name)] * 3
    assert (files / "key.bin").read_bytes() == key_path(name).read_bytes()
    assert json.loads((files / "files.json").read_text())["proof-2.bin"] == "segment-2.bin"
    assert run("verify", files / "proof-1.bin", "--vk", files / "key.bin", "--security", 5).exit_code == 0


def test_a_job_of_one_file_gives_the_proof_that_their_prover_writes(tmp_path: Path) -> None:
    given = ("--key", key_path("cached"), "--traces", GOLDEN / "cached" / "traces.bin")
    done = run("prove", "swirl", *given, "--out", tmp_path / "run", *HERE)
    assert done.exit_code == 0, done.output
    assert run("export", tmp_path / "run", "--out", tmp_path / "files").exit_code == 0
    assert (tmp_path / "files" / "proof.bin").read_bytes() == proof_bytes("cached")
    assert run("verify", tmp_path / "files", "--vk", key_path("cached"), "--security", 5).exit_code == 0


def test_a_job_states_what_is_expected(tmp_path: Path) -> None:
    """What `--json` printed once is the file of later verifications, of a job as of a bare proof."""
    for i in range(2):
        shutil.copy(GOLDEN / "cached" / "traces.bin", tmp_path / f"t{i}.bin")
    given = ("--key", key_path("cached"), "--traces", tmp_path / "t0.bin", tmp_path / "t1.bin")
    done = run("prove", "swirl", *given, "--out", tmp_path / "run", *HERE)
    assert done.exit_code == 0, done.output
    verified = ("verify", tmp_path / "run", "--vk", key_path("cached"), "--security", 5)
    stated = json.loads(run(*verified, "--json").stdout)
    bare = ("verify", GOLDEN / "cached" / "proof.bin", "--vk", key_path("cached"), "--security", 5, "--json")
    assert [each["airs"] for each in stated["partitions"]] == [json.loads(run(*bare).stdout)["airs"]] * 2
    shown = run(*verified, "--show-public").output
    assert all(root in shown for root in stated["partitions"][0]["airs"][0]["cached_traces"])
    assert "t1: AIR 0, Cached, 2^5 rows" in " ".join(shown.split())

    file = tmp_path / "expected.json"
    changes: list[tuple[Callable[[Any], object], str]] = [
        (lambda parts: None, ""),
        (lambda parts: parts[1]["airs"][0]["cached_traces"].reverse(), "states commitment to cached trace 0"),
        (lambda parts: parts.pop(), "has 2 partitions"),
        (lambda parts: parts.reverse(), "has t0 as partition 0"),
        (lambda parts: parts[0].pop("airs"), "partition t0: not"),
        (lambda parts: parts[0].pop("name"), "partitions is no list of"),
    ]
    for change, why in changes:
        changed = json.loads(json.dumps(stated))
        change(changed["partitions"])
        file.write_text(json.dumps(changed))
        done = run(*verified, "--public", file)
        assert (done.exit_code != 0) == bool(why), done.output
        assert (why or "verified") in " ".join(done.output.split())
    file.write_text(json.dumps({"airs": stated["partitions"][0]["airs"]}))
    assert "is of 2 partitions" in run(*verified, "--public", file).output


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("interactions", "does not balance: the message of AIR "),
        ("fibonacci", "violate the key: AIR 0, Fibonacci: constraint "),
    ],
)
def test_false_traces_fail_alone(name: str, why: str, tmp_path: Path) -> None:
    """They are at fault, and no prover."""
    changed_traces(name, tmp_path / "false.bin")
    shutil.copy(GOLDEN / name / "traces.bin", tmp_path / "right.bin")
    given = ("--key", key_path(name), "--traces", tmp_path / "false.bin", tmp_path / "right.bin")
    done = run("prove", "swirl", *given, "--out", tmp_path / "run", *HERE)
    assert done.exit_code != 0
    assert why in " ".join(done.output.split())
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert {p["name"]: p["status"] for p in report["partitions"]} == {"false": "failed", "right": "proved"}


def test_what_is_no_file_of_traces_is_refused_before_it_is_proven(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "cached" / "traces.bin", tmp_path / "other.bin")
    system = SwirlSystem(key_path("fibonacci"), [InputFile("other", tmp_path / "other.bin")])
    [partition] = system.plan()
    with pytest.raises(FormatError):
        system.synthesiser(system.shared(), 1).synthesise(partition)


def test_false_traces_are_diagnosed(tmp_path: Path) -> None:
    path = changed_traces("fibonacci", tmp_path / "false.bin")
    system = SwirlSystem(key_path("fibonacci"), [InputFile("false", path)])
    [partition] = system.plan()
    witness = system.synthesiser(system.shared(), 1).synthesise(partition)
    with CpuBackend(threads=1) as backend:
        prover = system.prover(system.shared(), backend)
        proof, times = prover.prove_partition(partition, witness)
        assert "load" in times.seconds
        with pytest.raises(InvalidProof):
            system.verify(proof)
        with pytest.raises(UnsatisfiedWitness, match=r"violate the key: AIR 0, Fibonacci: constraint .* row "):
            prover.diagnose(partition, witness)


@pytest.mark.parametrize("name", ["fibonacci", "cached"])
def test_a_partition_that_states_anything_else_is_refused(name: str) -> None:
    """Public values, commitments to cached traces and heights are those of the proof."""
    verifier, encoded = SwirlVerifier(key_of(name)), proof_bytes(name)
    [trace] = read_traces(GOLDEN / name / "traces.bin", key_of(name))
    public = (*trace.public_values, *(int(v) for part in trace.cached for v in part.root))
    heights = bytes([trace.height.bit_length() - 1])
    good = PartitionProof("one", bytes(32), public, {"heights": heights, "proof": encoded})
    assert verifier.verify(good)
    assert not verifier.verify(replace(good, public=(*public[:-1], public[-1] + 1)))
    assert not verifier.verify_batch([good, replace(good, public=())])
    assert not verifier.verify(replace(good, data={"heights": bytes([heights[0] + 1]), "proof": encoded}))
    other = proof_bytes("cached" if name == "fibonacci" else "fibonacci")
    for proof in ("x", b"", other):
        with pytest.raises((FormatError, InvalidProof)):
            verifier.verify(replace(good, data={"heights": heights, "proof": proof}))
    for data in ({}, {"proof": encoded}, {"heights": "5", "proof": encoded}, {"heights": heights}):
        with pytest.raises(FormatError):
            verifier.verify(replace(good, data=data))


def test_a_job_digest_fixes_cached_traces_and_heights(tmp_path: Path) -> None:
    """OpenVM commits to a program by a cached trace: proofs of other ones are another job, whatever their public values
    are. Traces of zeros satisfy this AIR."""
    name = "cached"
    [golden] = read_traces(GOLDEN / name / "traces.bin", key_of(name))
    made = list[Proof]()
    with CpuBackend(threads=1) as backend:
        for height in (None, golden.height, golden.height // 2):
            trace = golden if height is None else zeros(golden, height, backend)
            path = tmp_path / "one.bin"
            path.write_bytes(traces_to_bytes([trace]))
            system = SwirlSystem(key_path(name), [InputFile("one", path)])
            [partition] = system.plan()
            witness = system.synthesiser({}, 1).synthesise(partition)
            proof, _ = system.prover({}, backend).prove_partition(partition, witness)
            made.append(Proof.assemble(system, [proof]))
    for proof in made:
        proof.verify(system, proof.job_digest)
    expected, *others = made
    for other in others:
        with pytest.raises(InvalidProof, match="the proof is of job"):
            other.verify(system, expected.job_digest)


def zeros(like: AirTrace, height: int, backend: CpuBackend) -> AirTrace:
    """A trace of zeros with the columns of another one, of the key `cached`."""
    params, kernels = key_of("cached").params, backend.openvm
    columns = [
        np.zeros((len(part), height), dtype=np.uint32) for part in (like.common, *(c.columns for c in like.cached))
    ]
    roots = [commit(kernels, params, [kernels.load(part)]).tree.root for part in columns[1:]]
    return replace(like, common=columns[0], cached=tuple(map(CachedMain, roots, columns[1:])))


@pytest.mark.parametrize("record", [{}, {"file": "x"}, {"file": b"x"}, {"file": b"", "more": 1}])
def test_what_is_no_key_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        ENTRY.verifier(record, None)


def test_jobs_of_one_key_share_it(tmp_path: Path) -> None:
    """A service keeps the system of a key for jobs with other traces."""
    first, second = (InputFile(name, GOLDEN / "fibonacci" / "traces.bin") for name in ("first", "second"))
    one, two = (SwirlOptions(key_path("fibonacci"), (each,)) for each in (first, second))
    assert one.keyed() == two.keyed()
    system = SwirlSystem.from_options(one)
    other = system.with_inputs(two.sources)
    assert [p.name for p in system.plan()] == ["first"]
    assert [p.name for p in other.plan()] == ["second"]
    assert other.key is system.key
    assert other.key_digest() == system.key_digest()
    assert other.plan()[0].digest != system.plan()[0].digest


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")
def test_traces_of_the_next_partition_are_copied_ahead(tmp_path: Path) -> None:
    """The proofs are those of their prover, and staged memory comes back, used or not."""
    sources = [InputFile(str(i), GOLDEN / "mixed" / "traces.bin") for i in range(2)]
    system = SwirlSystem(key_path("mixed"), sources)
    work = [(p, system.synthesiser({}, 1).synthesise(p)) for p in system.plan()]
    device = EmulatedDevice()
    with CudaBackend(device) as backend:
        prover = system.prover({}, backend)
        first, second = (prover.stage(*each) for each in work)
        assert device.in_staging > 0
        proof, times = first.start().result()
        assert proof.data["proof"] == proof_bytes("mixed")
        assert times.to_device > 0
        first.release()
        second.release()
        assert device.in_staging == 0
        again, _ = prover.prove_partition(*work[1])
        assert again.data == proof.data
        assert device.in_staging == 0
        prover.close()
