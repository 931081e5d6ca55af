"""Every parser with valid inputs, the ways to spoil these, and all that is done with what it reads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from cluster.record.journal import Journal, journal_tail, read_journal
from cluster.record.packs import LEAST, MAX_FILE, Packs
from cluster.record.run import Run, read_record
from cluster.record.story import Story
from cluster.record.trace import chrome_trace
from distprove.circuits.builder import CircuitBuilder
from distprove.cli.pages.run import run_page
from distprove.cli.pages.sweep import sweep_page
from distprove.cli.safe_console import SafeConsole
from distprove.cli.top import look, screen
from distprove.errors import DistproveError, FormatError, InvalidProof, UntrustedKey
from distprove.filecoin import bincode, kinds, porep, post, update
from distprove.filecoin.c1 import parse_c1
from distprove.filecoin.values import json_value
from distprove.formats import canonical
from distprove.formats.folder import Folder
from distprove.groth16 import gnark
from distprove.groth16.aggregate.jobs import AggregatedJobs, Statement
from distprove.groth16.aggregate.srs import VerifierSrs, read_srs
from distprove.groth16.key_check import check_key
from distprove.groth16.params import read_params, read_vk
from distprove.groth16.r1cs import R1cs, read_r1cs
from distprove.groth16.setup import setup
from distprove.groth16.snarkjs import (
    format_proof,
    format_public,
    format_verification_key,
    parse_proof,
    parse_public,
    parse_verification_key,
)
from distprove.groth16.verifier import verify as verify_groth16
from distprove.groth16.wasm_limits import check_limits
from distprove.groth16.wtns import read_wtns
from distprove.job import Job
from distprove.jobfile import job_text
from distprove.measure.sweep.results import SweepResult
from distprove.measure.sweep.sweep import read_cell
from distprove.proof import Proof, check_fields, decode_partition, encode_public, heights_of, partition_digest
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.barrier import Commitment, job_challenge
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import key_content, program_of, read_key, shipped_key
from distprove.stark.multilinear.params import Parameters as MultilinearParameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.system import MultilinearSystem
from distprove.stark.openvm.container import TRACES_MAGIC, Container
from distprove.stark.openvm.job_verifier import SwirlVerifier, partition_proof
from distprove.stark.openvm.key_file import key_from_bytes, key_to_bytes
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.traces import TRACES_FORMAT, parse_traces, traces_to_bytes
from distprove.stark.openvm.verifier import verify as verify_openvm
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Inputs, Replay, Snapshot
from distprove.stark.riscv.profile import profile
from distprove.stark.system import StarkSystem
from distprove.system import Partition, PartitionProof
from distprove.verification import verify_proof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, BN254
from tests.filecoin.sectors import SEALED, c1_text, facts_of, judged, raw_vanilla, statement_of
from tests.fuzz import fuzz_mutations as mutations
from tests.fuzz.fuzz_mutations import Mutate, dump_msgpack, load_msgpack, of_records, other_bytes
from tests.support import ROOT, multilinear_golden, openvm_golden
from tests.support.aggregates import aggregated, keys_of, secret_of
from tests.support.aggregates import job as simulated_job
from tests.support.chained_keys import chained
from tests.support.file_builders import CURVES, ptau_bytes, r1cs_bytes, wtns_bytes, zkey_bytes
from tests.support.file_uses import use_input, use_ptau, use_zkey
from tests.support.golden_jobs import JOBS, ProvenJob, prove_job
from tests.support.large_inputs import LARGE_INPUTS
from tests.support.made_runs import MadeRun, governor
from tests.support.made_sweeps import made_sweep
from tests.support.multilinear_golden import prove_golden
from tests.support.multilinear_jobs import MultilinearJob
from tests.support.simulated_proofs import trapdoor
from tests.support.toy_program import toy_program

MIB = 1 << 20


@dataclass(frozen=True)
class Target:
    """A parser under test."""

    seeds: Callable[[], Sequence[bytes]]
    """Valid inputs, made by the project's own code."""
    use: Callable[[bytes], object]
    """Reads an input and does with it what a command does. Raises DistproveError for a bad one, and nothing else."""
    mutations: tuple[Mutate, ...]
    short: int = 100
    """Inputs in the short run that is part of the tests."""
    constant: int = 4 * MIB
    """Bytes that reading may take beside ten times the input."""

    def make(self, rng: random.Random) -> bytes:
        return rng.choice(self.mutations)(rng, self.seeds())


_ALL = tempfile.TemporaryDirectory(prefix="distprove-fuzz-")


def _scratch(prepare: Callable[[Path], object] = lambda folder: None) -> Callable[[], Path]:
    """A folder for each process that asks for it, made ready when it first does."""

    @cache
    def of_process(number: int) -> Path:
        path = Path(tempfile.mkdtemp(dir=_ALL.name))
        prepare(path)
        return path

    return lambda: of_process(os.getpid())


def _show(*what: Any) -> None:
    SafeConsole(file=StringIO(), width=120).print(*what)


# -- OpenVM -----------------------------------------------------------------------------------------------------------

OPENVM = "interactions"


def _openvm_proofs() -> tuple[bytes, ...]:
    return (openvm_golden.proof_bytes(OPENVM),)


def _openvm_keys() -> tuple[bytes, ...]:
    return tuple(openvm_golden.key_path(name).read_bytes() for name in (OPENVM, "preprocessed"))


def use_openvm_proof(data: bytes) -> None:
    """Another witness of a proof of work can be as good as the prover's; the statement is the same."""
    proof, golden = OpenVmProof.from_bytes(data), openvm_golden.proof_of(OPENVM)
    assert proof.to_bytes() == data
    verify_openvm(openvm_golden.key_of(OPENVM), proof)
    assert stated(proof) == stated(golden)


def stated(proof: OpenVmProof) -> list[Any]:
    heights = [trace and trace.log_height for trace in proof.traces]
    return [proof.main_root.tolist(), [values.tolist() for values in proof.public_values], heights]


def use_openvm_key(data: bytes) -> None:
    """The hash covers all but the names of the AIRs and their preprocessed traces, which the verifier does not read. A
    job's proof has a key as a file."""
    key = key_from_bytes(data)
    assert key_to_bytes(key_from_bytes(key_to_bytes(key))) == key_to_bytes(key)
    with suppress(InvalidProof):
        verify_openvm(key, openvm_golden.proof_of(OPENVM))
        assert key.pre_hash.tolist() == openvm_golden.key_of(OPENVM).pre_hash.tolist()


def _openvm_traces() -> tuple[bytes, ...]:
    return ((openvm_golden.GOLDEN / "mixed" / "traces.bin").read_bytes(),)


def use_openvm_traces(data: bytes) -> None:
    key = openvm_golden.key_of("mixed")
    written = traces_to_bytes(parse_traces(Container(data, TRACES_MAGIC, TRACES_FORMAT, "traces"), key))
    again = parse_traces(Container(written, TRACES_MAGIC, TRACES_FORMAT, "again"), key)
    assert traces_to_bytes(again) == written


SWIRL = "cached"


@cache
def _swirl() -> Proof:
    key = SwirlVerifier(openvm_golden.key_of(SWIRL))
    made = [partition_proof(f"p{i}", bytes(32), openvm_golden.proof_of(SWIRL)) for i in range(2)]
    return Proof.bind("swirl", key.key_digest(), key.verification_key(), made)


def use_swirl_file(data: bytes) -> None:
    """A file that holds states what the golden proof does, heights and commitments to cached traces too."""
    proof = Proof.from_bytes(data)
    _verify_under_own_key(proof, least_security=5)
    expected = {(p.public, heights_of(p)) for p in _swirl().partitions}
    assert {(p.public, heights_of(p)) for p in proof.partitions} == expected, "another statement was verified"


def json_header(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A key or traces with another value in the header."""
    data = rng.choice(seeds)
    end = 16 + int.from_bytes(data[8:16], "little")
    header = mutations.json_records(rng, [data[16:end]])
    front = data[:8] + len(header).to_bytes(8, "little") + header
    return front + bytes(-len(front) % 64) + data[-(-end // 64) * 64 :]


# -- Groth16 ----------------------------------------------------------------------------------------------------------


@cache
def _binary(make: Callable[..., bytes]) -> tuple[bytes, ...]:
    folder = _scratch()()
    return tuple(ptau_bytes(curve) if make is ptau_bytes else make(folder, curve) for curve in CURVES)


INPUT = (
    b'{"a": ["1", 2, [-3, "0x4"]], "path": [[0, 1], [1, 0]], "big": 123456789012345678901234567890, "b": [{"x": 1}]}'
)
PUBLIC = [3, 2**200]


def large_input(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """An input of many small values, as it is or spoiled."""
    data = LARGE_INPUTS[rng.choice(list(LARGE_INPUTS))](rng.randrange(50_000, 250_000))
    return other_bytes(rng, [data]) if rng.random() < 0.5 else data


@cache
def _trapdoor() -> Any:
    return trapdoor(BN254, len(PUBLIC))


@cache
def _groth16() -> Proof:
    key, parts = _trapdoor().key, []
    for i in range(2):
        part = PartitionProof(f"p{i}", b"", tuple(PUBLIC), _trapdoor().prove(PUBLIC, i).to_dict())
        parts.append(_stating(key.digest(), i, part))
    return Proof("groth16", key.digest(), key.to_dict(), tuple(parts))


def use_snarkjs_proof(data: bytes) -> None:
    assert not verify_groth16(_trapdoor().key, PUBLIC, parse_proof(data)) or _is_seed(data, "snarkjs-proof", json.loads)


def use_snarkjs_key(data: bytes) -> None:
    key = parse_verification_key(data)
    if key.n_public == len(PUBLIC):
        verify_groth16(key, PUBLIC, _trapdoor().prove(PUBLIC, 0))


@cache
def _gnark() -> tuple[bytes, bytes, bytes]:
    """A proof, its key and its public values."""
    proof = _trapdoor().prove(PUBLIC, 0)
    return gnark.format_proof(proof), gnark.format_verifying_key(_trapdoor().key), gnark.format_public(PUBLIC)


def use_gnark_proof(data: bytes) -> None:
    assert not verify_groth16(_trapdoor().key, PUBLIC, gnark.parse_proof(data)) or data.startswith(_gnark()[0][:128])


def use_gnark_key(data: bytes) -> None:
    key = gnark.parse_verifying_key(data, BN254)
    if key.n_public == len(PUBLIC):
        verify_groth16(key, PUBLIC, _trapdoor().prove(PUBLIC, 0))


def use_gnark_public(data: bytes) -> None:
    assert gnark.format_public(gnark.parse_public(data, BN254)) == data


def _is_seed(data: bytes, name: str, load: Callable[[bytes], Any]) -> bool:
    """Whether the change left the meaning alone: white space, or parts that two seeds have in common."""
    return any(load(data) == load(seed) for seed in TARGETS[name].seeds())


@cache
def _bellperson() -> tuple[R1cs, bytes, bytes]:
    """A circuit, and a `.params` file and a `.vk` of it."""
    b = CircuitBuilder(BLS12_381)
    shown, hidden = b.public_input("shown", 1), b.private_input("hidden", 2)
    b.output("product", b.multiply(hidden[0] * 3 - 5, shown[0] + hidden[1]))
    r1cs = b.build().r1cs
    path = _scratch()() / "key.params"
    setup(r1cs, insecure_dev=True, backend=CpuBackend(threads=1), out=path)
    return r1cs, path.read_bytes(), path.with_suffix(".vk").read_bytes()


def use_params(data: bytes) -> None:
    key = read_params(data, lambda: _bellperson()[0])
    assert key.verification_key.n_public == key.n_public
    with CpuBackend(threads=1) as backend:
        check_key(key, backend)


# -- proof.msgpack ----------------------------------------------------------------------------------------------------


def dump_proof(top: dict[str, Any]) -> bytes:
    """A proof file whose digests are those of what it has become, as anyone can make them."""
    parts = []
    for i, part in enumerate(top["partitions"]):
        public = tuple(int.from_bytes(value, "big") for value in part["public"])
        parts.append(_stating(top["key"], i, PartitionProof(part["name"], b"", public, part["data"])))
    return Proof(top["system"], top["key"], top["verification_key"], tuple(parts)).to_bytes()


def _stating(key: bytes, index: int, part: PartitionProof) -> PartitionProof:
    """The partition with the digest of what it states."""
    return replace(part, digest=partition_digest(key, index, part.name, part.public, heights_of(part)))


def _verify_under_own_key(proof: Proof, **given: Any) -> None:
    """No file verifies by the key that it carries alone; one that holds is refused for that reason and no other."""
    refusal = None
    try:
        verify_proof(proof, **given)
    except DistproveError as error:
        refusal = error
    assert refusal is not None, "a proof was verified under a key that nobody trusts"
    verify_proof(proof, **given, trust_own_key=True)
    assert isinstance(refusal, UntrustedKey), f"the proof holds, and was refused as {refusal!r}"


def use_groth16_file(data: bytes) -> None:
    proof = Proof.from_bytes(data)
    _verify_under_own_key(proof)
    assert {p.public for p in proof.partitions} == {tuple(PUBLIC)}, "another statement was verified"


@cache
def _aggregate() -> AggregatedJobs:
    return aggregated(BN254, simulated_job(BN254, [PUBLIC], "a"), simulated_job(BN254, [PUBLIC, [0, 1]], "b"))


def dump_aggregate(record: Any) -> bytes:
    """The file with the job digests that its statement has, if it has one."""
    with suppress(Exception):
        stated = Statement.from_dict(record["statement"], "statement").digests(record["key"])
        record = {**record, "jobs": b"".join(one.digest + one.count.to_bytes(4, "big") for one in stated)}
    return dump_msgpack(record)


def use_aggregate(data: bytes) -> None:
    """Nothing verifies but what was aggregated."""
    made = AggregatedJobs.from_bytes(data)
    made.verify(secret_of(BN254).key, keys_of(BN254).verifier)
    assert made.statement == _aggregate().statement, "another statement was verified"


@cache
def _srs() -> bytes:
    path = _scratch()() / "keys.srs"
    keys_of(BN254).write(path)
    return path.read_bytes()


def use_srs(data: bytes) -> None:
    srs = read_srs(data)
    VerifierSrs.from_bytes(srs.verifier.to_bytes())
    for key in (*srs.v(srs.n), *srs.w(srs.n)):
        assert len(key) == srs.n


@cache
def _stark() -> dict[str, ProvenJob]:
    """The small jobs of both engines' tests, proven now: the format is the one of this code."""
    with CpuBackend(threads=1) as backend:
        of_fri = {name: prove_job(job, backend) for name, job in JOBS.items()}
        made = {name: prove_golden(job, backend) for name, job in multilinear_golden.JOBS.items()}
    return of_fri | {name: _proven(job) for name, job in made.items()}


def _proven(job: MultilinearJob) -> ProvenJob:
    names, publics = [p.name for p in job.proofs], [p.public for p in job.proofs]
    proofs: list[Any] = [MultilinearProof.from_record(p.data, job.key)[0] for p in job.proofs]
    key: Any = job.key
    return ProvenJob(key, names, publics, proofs, [], job.output)


def _partitions(job: ProvenJob) -> list[PartitionProof]:
    parts = zip(job.names, job.publics, job.proofs, strict=True)
    return [
        _stating(job.key.digest, i, PartitionProof(name, b"", tuple(public), proof.to_record()))
        for i, (name, public, proof) in enumerate(parts)
    ]


@cache
def _stark_files() -> tuple[bytes, ...]:
    return tuple(
        Proof("stark", job.key.digest, {"program": name}, tuple(_partitions(job))).to_bytes()
        for name, job in _stark().items()
    )


def use_stark_file(data: bytes) -> None:
    """As with a key that is given: the one, of those that there are, that the file names."""
    proof = Proof.from_bytes(data)
    for job in _stark().values():
        if job.key.digest == proof.key_digest:
            proof.verify(StarkVerifier(job.key, output=job.output))
            expected = [(p.name, p.public, canonical.encode(p.data)) for p in _partitions(job)]
            found = [(p.name, p.public, canonical.encode(p.data)) for p in proof.partitions]
            assert found == expected, "a changed proof was verified"


@cache
def _stark_aggregates() -> tuple[bytes, ...]:
    """Files of two jobs, of which nothing is proven: whether a file can be read does not depend on it."""
    data = {"anchor": bytes(24), "heights": b"\4", "root": bytes(32)}
    jobs = [
        Proof.bind(
            "stark",
            bytes([number]) * 32,
            {"program": "fibonacci"},
            [PartitionProof(f"part-{i}", b"", (0, 1 << 63), data) for i in range(number)],
            {"sum": bytes(24)},
        )
        for number in (1, 2)
    ]
    made = StarkAggregate(tuple(jobs), {"final": bytes(24), "nonces": [1, 2]})
    other = StarkAggregate((jobs[1], replace(jobs[0], output=b"output")), {})
    return made.to_bytes(), other.to_bytes()


def dump_stark_aggregate(top: Any) -> bytes:
    """The file with the digests of what it has become, where it has any."""
    with suppress(Exception):
        jobs = []
        for job in top["jobs"]:
            publics = [tuple(int.from_bytes(value, "big") for value in part["public"]) for part in job["partitions"]]
            parts = [
                PartitionProof(part["name"], b"", public, part["data"])
                for part, public in zip(job["partitions"], publics, strict=True)
            ]
            proof = Proof.bind("stark", job["key"], job["verification_key"], parts, {"sum": job["sum"]})
            jobs.append(replace(proof, output=job["output"]))
        return StarkAggregate(tuple(jobs), top["proof"]).to_bytes()
    return dump_msgpack(top)


def use_stark_aggregate(data: bytes) -> None:
    """There is one file of what is read."""
    assert StarkAggregate.from_bytes(data).to_bytes() == data, "read as something else"


@cache
def _stark_parts() -> tuple[bytes, ...]:
    return tuple(dump_msgpack([n, i, p.data]) for n, j in _stark().items() for i, p in enumerate(_partitions(j)))


def use_stark_part(data: bytes) -> None:
    record = load_msgpack_input(data)
    if not isinstance(record, list) or len(record) != 3 or record[0] not in list(_stark()):
        return
    job = _stark()[record[0]]
    part = _partitions(job)[record[1] if record[1] in (0, 1) and record[1] < len(job.names) else 0]
    stated = {"name": part.name, "digest": part.digest, "public": [encode_public(v) for v in part.public]}
    read = decode_partition({**stated, "data": record[2]}, "part")
    if StarkVerifier(job.key).verify(read):
        assert read.data == part.data, "a changed proof was verified"


def load_msgpack_input(data: bytes) -> Any:
    return canonical.decode(data, "input")


@cache
def _stark_keys() -> tuple[bytes, ...]:
    path = _scratch()() / "key.msgpack"
    found = []
    for job in _stark().values():
        path.write_bytes(key_content(job.key))
        found.append(path.read_bytes())
    return tuple(found)


def use_stark_key(data: bytes) -> None:
    path = _scratch_keys() / "key.msgpack"
    path.write_bytes(data)
    key = read_key(path)
    for job in _stark().values():
        alike = job.key.program == key.program and job.key.params.tree_hash is key.params.tree_hash
        if alike and type(job.key) is type(key):
            verifier = StarkVerifier(key, program_of(key), job.output)
            for part in _partitions(job):
                verifier.verify(part)
            verifier.verify_job(_partitions(job))
            assert key.digest == job.key.digest, "a proof was verified under a changed key"


def chained_keys(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A key with many instructions, each of which uses the one before; as it is or spoiled."""
    content = load_msgpack(seeds[0])
    data = dump_msgpack({**content, "key": chained(content["key"], rng.randrange(1 << 14, 1 << 16))})
    return other_bytes(rng, [data]) if rng.random() < 0.3 else data


_scratch_keys = _scratch()


@cache
def _named_keys() -> tuple[bytes, ...]:
    params = Parameters(1, queries=3, grinding_bits=5, security_bits=5)
    other = MultilinearParameters(1, 2, (3,) * 8, 5, 5)
    program = load_program("fibonacci", {"rows": 64})
    systems = StarkSystem(program, params, 1), MultilinearSystem(program, other, 1)
    return tuple(canonical.encode(system.verification_key()) for system in systems)


def use_named_key(data: bytes) -> None:
    shipped_key(load_msgpack_input(data))


@cache
def _commitments() -> tuple[bytes, ...]:
    return tuple(
        proof.commitment(name, public).to_bytes()
        for job in _stark().values()
        for name, public, proof in zip(job.names, job.publics, job.proofs, strict=True)
    )


def use_commitment(data: bytes) -> None:
    job_challenge(bytes(32), [Commitment.from_bytes(data)])


# -- jobs and runs ----------------------------------------------------------------------------------------------------


def _make_job_files(folder: Path) -> None:
    for name in ("c.zkey", "c.wasm", "vk.json", "w/a.wtns", "w/b.wtns", "inputs/in1.json", "inputs/in2.json"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")


_job_folder = _scratch(_make_job_files)
JOB_FILES = (
    b"""system = "groth16"
title = "votes of May"
zkey = "c.zkey"
wasm = "c.wasm"
inputs = ["inputs/*.json"]
vk = "vk.json"
[executor]
threads = 8
memory = "48GiB"
start_timeout = 60.5
throttle = { threads = 4 }
""",
    b"""system = "groth16"
zkey = "c.zkey"
witnesses = "w"
[executor]
local = true
isolate = true
backend = "cpu"
""",
    b"""system = "stark"
program = "fibonacci"
partitions = 4
blowup = 2
security = 100
grinding = 16
queries = 60
arguments = { rows = "2^10" }
[executor]
gpus = 1
address = "auto"
""",
)


def use_job_file(data: bytes) -> None:
    path = _job_folder() / "job.toml"
    path.write_bytes(data)
    job = Job.from_toml(path)
    path.write_text(job_text(job), encoding="utf-8")
    assert Job.from_toml(path) == job, "a job file that does not say what was read"


def _make_run(folder: Path) -> None:
    """A run with a governor, trouble, a stored partition, a barrier and a job that can be read again."""
    shutil.rmtree(folder)
    nodes = [governor("node0", 20.0)]
    MadeRun(partitions=3, gpus=1, failing=(1,), faults=(2,), governors=nodes).make(folder)
    record = json.loads((folder / "job.json").read_text())
    job_file = _job_folder() / "made.toml"
    job_file.write_bytes(JOB_FILES[0])
    record["job"] = Job.from_toml(job_file).to_record()
    (folder / "job.json").write_text(json.dumps(record))
    now = {"time": 10.0, "began": 1.0, "rate": 0.5, "total": 3, "done": 1, "failed": 1, "proved": 1, "retries": 1}
    worker = {"id": "prover-0", "role": "prover", "node": "n", "status": "ready", "device": "H200", "gpus": ["0"]}
    status = {"format": "distprove.status", "version": 1, "status": "running", "error": "x", **now}
    node = {key: nodes[0].get(key) for key in ("node", "limits", "threads", "memory")}
    node |= {key: nodes[0]["samples"][-1][key] for key in ("cpu", "memory_used", "memory_leased", "leases", "queue")}
    status |= {"workers": [{**worker, "partitions": 1, "tasks": [["part-1", "proving"]]}], "nodes": [node]}
    (folder / "status.json").write_text(json.dumps({**status, "stages": {"proving": 1, "done": 1}}))
    (folder / "partitions").mkdir()
    with Run.open(folder) as run:
        part = _groth16().partitions[0]
        run.store([part])
        run.store([replace(part, name=f"packed-{i}") for i in range(LEAST)])
        run.store_barrier({"p0": _commitments()[0]}, bytes(32))


_run_folder = _scratch(_make_run)
_seed_folder = _scratch(_make_run)


def _run_file(
    name: str,
    use: Callable[[Path], object],
    *ways: Mutate,
    short: int = 100,
    more: Callable[[bytes], bytes] | None = None,
) -> Target:
    """A file of a run folder; `use` gets the folder. `more` makes another valid file from the folder's."""

    @cache
    def seeds() -> tuple[bytes, ...]:
        made = (_seed_folder() / name).read_bytes()
        return (made,) if more is None else (made, more(made))

    def write_and_use(data: bytes) -> None:
        path = _run_folder() / name
        path.write_bytes(data)
        try:
            use(_run_folder())
        finally:
            path.write_bytes(seeds()[0])

    return Target(seeds, write_and_use, ways, short, constant=16 * MIB)


def use_story(folder: Path) -> None:
    """As `distprove report`."""
    story = Story.read(folder)
    json.dumps(chrome_trace(story))
    run_page(story).encode()


def use_journal(folder: Path) -> None:
    journal_tail(folder, 1000)
    use_story(folder)
    use_status(folder)
    journal = Journal(Folder.open_ours(folder))
    journal.note("resumed", sync=False)
    journal.close()
    assert list(read_journal(folder))[-1]["event"] == "resumed", "an event was lost"


def use_status(folder: Path) -> None:
    """As `distprove top`."""
    _show(screen(folder, look(folder)))


def stark_record(data: bytes) -> bytes:
    """The record of a run whose job is of a STARK."""
    job_file = _job_folder() / "made.toml"
    job_file.write_bytes(JOB_FILES[2].replace(b'address = "auto"', b""))  # which is named again when a run is resumed
    return json.dumps({**json.loads(data), "job": Job.from_toml(job_file).to_record()}).encode()


def use_record(folder: Path) -> None:
    """As `distprove resume`, up to the proof system, and as `report`."""
    with Folder.open(folder) as opened:
        record = read_record(opened)
    if record["job"] is not None:
        with suppress(DistproveError):
            Job.from_record(record["job"], program="own:Program", executor={"local": True, "backend": "cpu"})
        job = Job.from_record(record["job"])
        assert job.code == []
        use_settings(job)
    use_story(folder)


def use_settings(job: Job) -> None:
    """Settings that a record holds are settings that a job file may hold."""
    path = _job_folder() / "settings.toml"
    path.write_bytes(JOB_FILES[0 if job.system == "groth16" else 2])
    path.write_text(job_text(replace(Job.from_toml(path), executor=job.executor)), encoding="utf-8")
    assert Job.from_toml(path).executor == job.executor


def recorded_settings(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A record whose settings alone were changed."""
    record = json.loads(rng.choice(seeds))
    record["job"]["executor"] = mutations.other_record(rng, record["job"]["executor"])
    return mutations.dump_json(record)


def use_barrier(folder: Path) -> None:
    barrier = _open(folder).load_barrier()
    assert barrier is not None
    for commitment in barrier[0].values():
        Commitment.from_bytes(commitment)


@cache
def _open(folder: Path) -> Run:
    return Run.open(folder)


def use_partition(folder: Path) -> None:
    part = _groth16().partitions[0]
    proof = _open(folder).load(Partition(0, part.name, part.digest, {}))
    assert proof is not None
    assert proof.name == part.name


def use_pack(folder: Path) -> None:
    with Folder.open(folder / "partitions") as partitions:
        found = Packs(partitions).read({f"packed-{i}" for i in range(LEAST)})
    assert all(name.startswith("packed-") and len(data) <= MAX_FILE for name, data in found.files.items())
    if found.damaged:
        raise FormatError(str(found.damaged))


def partition_bodies(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A partition's file whose body was changed inside, with the checksum made right."""
    content = load_msgpack(rng.choice(seeds))
    body = mutations.msgpack_records(rng, [content["body"]])
    return dump_msgpack({**content, "body": body, "sha256": hashlib.sha256(body).digest()})


@cache
def _cells() -> tuple[bytes, ...]:
    return tuple(json.dumps(m.to_record()).encode() for m in made_sweep().measured[:2])


_cell_folder = _scratch()


def use_cell(data: bytes) -> None:
    """Reads the data as the file of each setting that a valid one is of: the file of another setting is refused."""
    cells = [measured.cell for measured in made_sweep().measured[:2]]
    with Folder.open(_cell_folder()) as folder:
        for cell in cells:
            folder.write(f"{cell.id}.json", data, durable=False)
        try:
            measured = read_cell(folder, cells[0])
        except FormatError:
            measured = read_cell(folder, cells[1])
    result = SweepResult([measured], measured, made_sweep().about)
    json.dumps(result.to_record())
    result.to_csv()
    sweep_page("sweep", result)


# -- WebAssembly ------------------------------------------------------------------------------------------------------


@cache
def _programs() -> tuple[bytes, ...]:
    return (toy_program(),)


def use_wasm(data: bytes) -> None:
    check_limits("input", data)


# -- guests of the RISC-V machine -------------------------------------------------------------------------------------


@cache
def _guests() -> tuple[bytes, ...]:
    folder = ROOT / "tests" / "stark" / "riscv" / "guests"
    return tuple((folder / f"{name}.elf").read_bytes() for name in ("fibonacci", "json", "ecdsa", "keccak_f"))


def use_guest(data: bytes) -> None:
    """Reads the data as a guest's file, and runs it: to its end, a trap, or a limit."""
    elf = parse_elf(data, "guest")
    assert elf.image().entry == elf.entry
    execution = Execution(elf, Inputs(b"[1]", (1000).to_bytes(4, "little")), max_cycles=10_000, memory=MIB)
    profile(elf, execution.count(), execution.call_counts())


@cache
def _snapshots() -> tuple[bytes, ...]:
    execution = Execution(parse_elf(_guests()[1], "guest"), Inputs(b'{"a": [1, "b"]}'))
    return tuple(snapshot.to_bytes() for snapshot in execution.segments(256))


def use_snapshot(data: bytes) -> None:
    snapshot = Snapshot.from_bytes(data, "snapshot")
    Replay(parse_elf(_guests()[1], "guest")).record(replace(snapshot, cycles=min(snapshot.cycles, 1 << 12)))


# -- Filecoin ---------------------------------------------------------------------------------------------------------


@cache
def _c1() -> tuple[bytes, ...]:
    wrapped = {"SectorNum": 7, "Phase1Out": base64.b64encode(c1_text(SEALED[1])).decode(), "SectorSize": 2048}
    return c1_text(SEALED[1]), json.dumps(wrapped).encode()


def use_c1(data: bytes) -> None:
    output = parse_c1(data, "c1.json")
    porep.check_vanilla(statement_of(output, facts_of(SEALED[1])), output.partitions)


@cache
def _vanilla(name: str) -> tuple[bytes, ...]:
    return (json.dumps(judged(name)[0]).encode(),)


def use_post(data: bytes) -> None:
    proof, sectors = post.read_sectors(json_value(data), None, winning=True)
    randomness = bytes.fromhex(judged("winning_post")[1]["randomness"])
    post.check_sectors(post.statement_of(proof, randomness, sectors), sectors)


def use_update(data: bytes) -> None:
    proof, partitions = update.read_update(json_value(data), None)
    update.check_update(update.statement_of(proof, partitions), partitions)


@cache
def _bincode() -> tuple[bytes, ...]:
    return tuple(base64.b64decode(json.loads(raw_vanilla(name))[0]) for name in ("window_post", "update"))


def use_bincode(data: bytes) -> None:
    errors = []
    for read in (bincode.sector_proof, bincode.partition_proof):
        try:
            read(data)
        except FormatError as error:
            errors.append(error)
    if len(errors) == 2:
        raise errors[0]


@cache
def _statements() -> tuple[bytes, ...]:
    sealed = statement_of(parse_c1(c1_text(SEALED[1]), "c1.json"), facts_of(SEALED[1]))
    proof, sectors = post.read_sectors(judged("window_post")[0], None, winning=False)
    posted = post.statement_of(proof, bytes(32), sectors)
    updated = update.statement_of(*update.read_update(judged("update")[0], None))
    made = (sealed, posted, updated)
    return tuple(canonical.encode({"kind": each.kind, "statement": each.record()}) for each in made)


def use_statement(data: bytes) -> None:
    value = canonical.decode(data, "the statement")
    check_fields(value, {"kind": str, "statement": dict}, "the statement")
    statement = kinds.statement_of(value["kind"], value["statement"])
    statement.public_inputs(statement.partitions - 1)
    statement.says()


_CONTAINERS = (other_bytes, mutations.sections, mutations.sections)
_JSON = (mutations.json_records, mutations.json_records, mutations.json_text, other_bytes)
_LARGE_JSON = (mutations.json_records, *(other_bytes,) * 4)  # to find the places of a large record takes long
_MSGPACK = (mutations.msgpack_records, mutations.msgpack_records, other_bytes)
_FILE = (of_records(load_msgpack, dump_proof), of_records(load_msgpack, dump_proof), *_MSGPACK)

TARGETS: dict[str, Target] = {
    "zkey": Target(lambda: _binary(zkey_bytes), use_zkey, _CONTAINERS, 500),
    "wtns": Target(lambda: _binary(wtns_bytes), read_wtns, _CONTAINERS, 500),
    "r1cs": Target(lambda: _binary(r1cs_bytes), read_r1cs, _CONTAINERS, 500),
    "params": Target(lambda: (_bellperson()[1],), use_params, (other_bytes,), 200),
    "vk": Target(lambda: (_bellperson()[2],), read_vk, (other_bytes,), 200),
    "ptau": Target(lambda: _binary(ptau_bytes), use_ptau, _CONTAINERS, 500),
    "circuit-input": Target(lambda: (INPUT,), use_input, _JSON, 1000),
    "large-input": Target(
        lambda: [make(1000) for make in LARGE_INPUTS.values()], use_input, (large_input,), 12, constant=2 * MIB
    ),
    "snarkjs-proof": Target(
        lambda: tuple(format_proof(_trapdoor().prove(PUBLIC, i)).encode() for i in range(2)), use_snarkjs_proof, _JSON
    ),
    "snarkjs-public": Target(
        lambda: (format_public(PUBLIC).encode(),), lambda data: parse_public(data, BN254), _JSON, 1000
    ),
    "snarkjs-key": Target(
        cache(lambda: (format_verification_key(_trapdoor().key).encode(),)), use_snarkjs_key, _JSON, 60
    ),
    "gnark-proof": Target(lambda: _gnark()[:1], use_gnark_proof, (other_bytes,), 300),
    "gnark-key": Target(lambda: _gnark()[1:2], use_gnark_key, (other_bytes,), 200),
    "gnark-public": Target(lambda: _gnark()[2:], use_gnark_public, (other_bytes,), 500),
    "openvm-proof": Target(_openvm_proofs, use_openvm_proof, (other_bytes,), 60),
    "openvm-key": Target(_openvm_keys, use_openvm_key, (other_bytes, json_header, json_header), 100),
    "openvm-traces": Target(_openvm_traces, use_openvm_traces, (other_bytes, json_header, json_header), 100),
    "swirl-file": Target(lambda: (_swirl().to_bytes(),), use_swirl_file, _FILE, 60, 32 * MIB),
    "groth16-file": Target(lambda: (_groth16().to_bytes(),), use_groth16_file, _FILE, 60),
    "aggregate": Target(
        lambda: (_aggregate().to_bytes(),), use_aggregate, (of_records(load_msgpack, dump_aggregate), *_MSGPACK), 100
    ),
    "aggregation-keys": Target(lambda: (_srs(),), use_srs, _CONTAINERS, 200),
    "aggregation-verifier": Target(
        lambda: (keys_of(BN254).verifier.to_bytes(),), VerifierSrs.from_bytes, _MSGPACK, 200
    ),
    "stark-file": Target(_stark_files, use_stark_file, _FILE, 60, 32 * MIB),
    "stark-aggregate": Target(
        _stark_aggregates,
        use_stark_aggregate,
        (of_records(load_msgpack, dump_stark_aggregate), *_MSGPACK),
        200,
    ),
    "stark-part": Target(_stark_parts, use_stark_part, _MSGPACK, 60, 32 * MIB),
    "stark-key": Target(_stark_keys, use_stark_key, _MSGPACK, 60, 32 * MIB),
    "chained-key": Target(lambda: _stark_keys()[:1], use_stark_key, (chained_keys,), 3),
    "stark-named-key": Target(_named_keys, use_named_key, _MSGPACK, 60, 64 * MIB),
    "commitment": Target(_commitments, use_commitment, _MSGPACK, 1000),
    "job-file": Target(lambda: JOB_FILES, use_job_file, (mutations.toml_lines,) * 3 + (other_bytes,), 200),
    "job.json": _run_file("job.json", use_record, recorded_settings, *_JSON, short=40, more=stark_record),
    "report.json": _run_file("report.json", use_story, *_JSON, short=40),
    "timeline.json": _run_file("timeline.json", use_story, *_JSON, short=40),
    "journal.jsonl": _run_file("journal.jsonl", use_journal, mutations.json_lines, *_JSON[2:], short=40),
    "status.json": _run_file("status.json", use_status, *_JSON, short=60),
    "barrier": _run_file("barrier.msgpack", use_barrier, *_MSGPACK, short=300),
    "partition": _run_file("partitions/p0.msgpack", use_partition, partition_bodies, *_MSGPACK, short=300),
    "pack": _run_file("partitions/00000001.pack", use_pack, *_MSGPACK, short=200),
    "sweep-cell": Target(_cells, use_cell, _JSON),
    "guest": Target(_guests, use_guest, (mutations.elf_fields, mutations.elf_fields, other_bytes), 200),
    "guest-snapshot": Target(_snapshots, use_snapshot, _MSGPACK, 100),
    "vanilla-c1": Target(_c1, use_c1, _LARGE_JSON, 8, 16 * MIB),
    "vanilla-post": Target(lambda: _vanilla("winning_post"), use_post, _LARGE_JSON, 8, 16 * MIB),
    "vanilla-update": Target(lambda: _vanilla("update"), use_update, _LARGE_JSON, 8, 16 * MIB),
    "vanilla-bincode": Target(_bincode, use_bincode, (other_bytes,), 300),
    "statement": Target(_statements, use_statement, _MSGPACK, 300),
    "wasm": Target(_programs, use_wasm, (mutations.wasm_sections, mutations.wasm_sections, other_bytes), 500),
}
