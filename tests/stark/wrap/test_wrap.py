"""Wraps: a Groth16 proof in place of a root's. Each wrap of something else is refused."""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.wrap.statement import statement_digest
from distprove.errors import FormatError, InputError, InvalidKey, InvalidProof, UsageError
from distprove.groth16.binfile import map_file
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.setup import setup
from distprove.groth16.shared_key import holding
from distprove.groth16.snarkjs import format_proof, format_public, write_verification_key
from distprove.groth16.solidity import calldata, contract
from distprove.groth16.zkey import read_zkey
from distprove.job import Job
from distprove.proof import PROOF_FILE, SALT_BYTES, Proof
from distprove.proof import SALT as SALT_FIELD
from distprove.stark.export import WRAP_FOLDER, export
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import node_key
from distprove.stark.multilinear.key import MultilinearKey, with_root
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.programs import load_program
from distprove.stark.recursion.node import NODE, NODE_CHALLENGE
from distprove.stark.recursion.node_proof import node_data, verify_node
from distprove.stark.recursion.plan import ROOT, WRAP, Kind
from distprove.stark.recursion.root import root_statement
from distprove.stark.recursion.tree_keys import node_key as nodes_key
from distprove.stark.recursion.tree_keys import verifiers_key
from distprove.stark.recursion.whole import commitments_of, kinds_of_listed, sum_in, tree_of_listed
from distprove.stark.wrap import files, partition
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.kept import circuit_name, kept_tape, wrap_circuit
from distprove.stark.wrap.partition import GROTH16, key_facts, proven, read_wrap_key, wrap_in
from distprove.stark.wrap.prover import wrap
from distprove.steps import Steps
from distprove.system import Partition, PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.cpu.tree_digests import leaf_digests
from kernels.interface.tree_hash import TreeHash
from kernels.maths.curves import BLS12_381, BN254
from tests.conftest import Snarkjs
from tests.interop.test_solidity import WORD, call, with_words, word
from tests.support import plain_poseidon2_bn254 as plain
from tests.support.one_proofs import OneProofs, salted
from tests.support.simulated_proofs import Trapdoor, trapdoor

SALT = bytes(range(32))


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=2) as backend:
        yield backend


# -- the verifier: keys whose trapdoor is known prove any statement -------------------------------------------------


@dataclass(frozen=True)
class Wrapped:
    """A job that ends in one proof, and what its root states."""

    proof: Proof
    key: MultilinearKey
    digest: int

    def check(self, folder: Path, wrap: Wrap, trusted: VerificationKey, proof: Proof | None = None) -> StarkVerifier:
        """Verify a wrap of the job, from files, under a trusted key. `proof` takes the place of the job's."""
        for name, content in wrap.contents().items():
            (folder / name).write_bytes(content)
        write_verification_key(folder / "trusted.json", trusted)
        verifier = StarkVerifier(self.key, node_key=node_key).with_wrap(folder, folder / "trusted.json")
        (proof or self.proof).verify(verifier)
        return verifier


@pytest.fixture(scope="module")
def maker(cpu: CpuBackend) -> OneProofs:
    return OneProofs(cpu)


@pytest.fixture(scope="module")
def jobs(maker: OneProofs) -> tuple[Wrapped, Wrapped]:
    """Two jobs of one key: other values."""
    made = []
    for first in (0, 3):
        made.append(wrapped_job(maker, first))
    return made[0], made[1]


def wrapped_job(maker: OneProofs, first: int) -> Wrapped:
    """A job of this input, with a salt of its own."""
    proof = maker.prove(load_program("fibonacci", {"rows": 16, "first": first}), 2)
    proof = salted(proof, secrets.token_bytes(32))
    key, salt = maker.key(proof), proof.salt
    assert salt is not None
    return Wrapped(proof, key, statement_digest(stated_by(key, proof), salt))


def stated_by(key: MultilinearKey, proof: Proof) -> tuple[int, ...]:
    """What the root of a job must state."""
    keys = tree_of_listed(key, node_key, proof.partitions)
    return root_statement(keys, sum_in((proof.whole or {})["sum"]), commitments_of(proof.partitions), None).scalars()


@pytest.fixture
def secret() -> Trapdoor:
    return trapdoor(BN254, 1)


def test_a_guess_of_the_input_is_not_confirmed(jobs: tuple[Wrapped, Wrapped], maker: OneProofs) -> None:
    """Partitions' proofs have no randomness, so whoever guesses an input makes the same list. The salt alone is missing
    to compare it with what the wrap states."""
    _, job = jobs  # of which an outsider has the public value, and knows all but the input
    guessed = wrapped_job(maker, 3)
    assert stated_by(job.key, job.proof) == stated_by(guessed.key, guessed.proof)  # the guess is right
    words, others = stated_by(guessed.key, guessed.proof), guessed.proof.salt
    assert others is not None
    unsalted = leaf_digests(TreeHash.POSEIDON2_BN254, np.array([words], dtype="<u8").view(np.uint8))
    tried = [int.from_bytes(bytes(unsalted[0]), "little")]  # what a wrap without a salt would state
    tried += [statement_digest(words, salt) for salt in (bytes(32), others)]
    assert job.digest not in tried
    assert job.proof.salt is not None
    assert plain.sponge([*words, *struct.unpack("<8I", job.proof.salt)]) == job.digest  # whoever has the list can


def test_a_list_of_another_salt_is_refused(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    job, other = jobs
    assert other.proof.salt is not None
    with pytest.raises(InvalidProof, match="is not of this job"):
        job.check(tmp_path, simulated(secret, job.digest), secret.key, salted(job.proof, other.proof.salt))
    plain = {name: own for name, own in (job.proof.whole or {}).items() if name != SALT_FIELD}
    for whole in (plain, {**plain, SALT_FIELD: bytes(31)}, {**plain, SALT_FIELD: ""}):
        with pytest.raises(FormatError):
            job.check(tmp_path, simulated(secret, job.digest), secret.key, replace(job.proof, whole=whole))
    # The root's proof stands with any salt and without one, and is read strictly too.
    verifier = StarkVerifier(job.key, node_key=node_key)
    job.proof.verify(verifier)
    replace(job.proof, whole=plain).verify(verifier)
    for whole in ({**plain, SALT_FIELD: bytes(33)}, {**(job.proof.whole or {}), "pepper": b""}):
        with pytest.raises(FormatError):
            replace(job.proof, whole=whole).verify(verifier)


def simulated(secret: Trapdoor, *public: int) -> Wrap:
    return Wrap(secret.key, secret.prove([*public], seed=1), public)


def test_a_wrap_takes_the_place_of_the_roots_proof(
    jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path
) -> None:
    job, _ = jobs
    verifier = job.check(tmp_path, simulated(secret, job.digest), secret.key)
    said = verifier.explain_whole(job.proof.partitions)
    plain = StarkVerifier(job.key, node_key=node_key).explain_whole(job.proof.partitions)
    assert {**said, "security": None} == {**plain, "security": None}  # the same sentences
    layers, others = said["security"]["layers"], plain["security"]["layers"]
    assert layers[:-1] == others[:-1]
    assert layers[-1]["program"] == "wrapped node"  # in place of the root
    assert verifier.weakness() is None


def test_the_roots_proof_is_not_looked_at(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    """So nothing of it can make up for a wrap, nor a wrap for what the list lacks."""
    job, _ = jobs
    without = replace(job.proof, whole={**(job.proof.whole or {}), "proof": {}})
    job.check(tmp_path, simulated(secret, job.digest), secret.key, without)
    with pytest.raises(InvalidProof, match="does not verify"):
        job.check(tmp_path, Wrap(secret.key, secret.prove([1], seed=1), (job.digest,)), secret.key)


def test_an_exported_wrap_needs_no_other_proof(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    """Its folder has the list, the salt and the wrap, and nothing of the root's proof."""
    job, _ = jobs
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    job.proof.write(run / PROOF_FILE)
    export(job.proof, run, tmp_path / "without")
    assert not (tmp_path / "without" / WRAP_FOLDER).exists()
    for name, content in simulated(secret, job.digest).contents().items():
        (run / name).write_bytes(content)
    for place in (run, run / PROOF_FILE):
        export(job.proof, place, out)
    listed = Proof.read_from(out / WRAP_FOLDER)
    assert listed.job_digest == job.proof.job_digest
    assert listed.salt == job.proof.salt
    record = (job.proof.whole or {})["proof"]
    held = b"".join(path.read_bytes() for path in sorted((out / WRAP_FOLDER).iterdir()))
    assert not any(record[field] in held for field in ("openings", "final", "gkr"))
    verifier = StarkVerifier(job.key, node_key=node_key)
    listed.verify(verifier.with_wrap(out / WRAP_FOLDER, out / WRAP_FOLDER / files.KEY))
    with pytest.raises(InvalidProof, match="--wrap-vk"):
        listed.verify(verifier)
    (run / files.PROOF).write_text("{}")
    with pytest.raises(FormatError):
        export(job.proof, run, tmp_path / "bad")


def test_wraps_of_something_else_are_refused(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    job, other = jobs
    for public in ([other.digest], [job.digest + 1], [0]):  # each proof holds
        with pytest.raises(InvalidProof, match="is not of this job"):
            job.check(tmp_path, simulated(secret, *public), secret.key)
    with pytest.raises(InvalidProof, match="does not verify"):  # the public value was altered to what is asked
        job.check(tmp_path, Wrap(secret.key, secret.prove([other.digest], seed=1), (job.digest,)), secret.key)
    another = trapdoor(BN254, 1, seed=5)
    with pytest.raises(InvalidProof, match="does not verify"):  # a proof under a key that nobody trusts
        job.check(tmp_path, simulated(another, job.digest), secret.key)
    two = trapdoor(BN254, 2)
    with pytest.raises(InvalidProof, match="is not of this job"):
        job.check(tmp_path, simulated(two, job.digest, 0), two.key)


CHANGES = (
    *("a root", "an anchor", "heights", "a public value"),
    *("a name", "the order", "a part", "a partition of another job"),
)


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_list_is_refused(what: str, jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    job, other = jobs
    bound = Proof.bind("stark", job.key.digest, job.key.named(), _lists(job, other)[what], job.proof.whole)
    with pytest.raises((InvalidProof, FormatError)):
        job.check(tmp_path, simulated(secret, job.digest), secret.key, bound)


def test_a_changed_sum_is_refused(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    job, _ = jobs
    whole = job.proof.whole or {}
    changed = replace(job.proof, whole={**whole, "sum": bytes([1]) + whole["sum"][1:]})
    with pytest.raises(InvalidProof, match="is not of this job"):
        job.check(tmp_path, simulated(secret, job.digest), secret.key, changed)


def _lists(job: Wrapped, other: Wrapped) -> dict[str, list[PartitionProof]]:
    first, second = job.proof.partitions

    def flipped(field: str) -> PartitionProof:
        value = first.data[field]
        return replace(first, data={**first.data, field: bytes([value[0] ^ 1]) + value[1:]})

    return {
        "a root": [flipped("root"), second],
        "an anchor": [flipped("anchor"), second],
        "heights": [flipped("heights"), second],
        "a public value": [replace(first, public=(first.public[0] + 1, *first.public[1:])), second],
        "a name": [replace(first, name="part-0009"), second],
        "the order": [second, first],
        "a part": [first],
        "a partition of another job": [first, other.proof.partitions[1]],
    }


def test_a_job_of_another_key_is_refused(
    jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, cpu: CpuBackend, tmp_path: Path
) -> None:
    """The digest binds the partitions' key: the same list under another one states something else."""
    job, _ = jobs
    maker, salt = OneProofs(cpu), job.proof.salt
    assert salt is not None
    other = salted(maker.prove(load_program("fibonacci", {"rows": 32}), 2), salt)
    key = maker.key(other)
    assert statement_digest(stated_by(key, other), salt) != job.digest
    with pytest.raises(InvalidProof, match="is not of this job"):
        replace(job, key=key, proof=other).check(tmp_path, simulated(secret, job.digest), secret.key)


def test_files_that_are_no_wrap(jobs: tuple[Wrapped, Wrapped], secret: Trapdoor, tmp_path: Path) -> None:
    job, _ = jobs
    good = simulated(secret, job.digest)
    job.check(tmp_path, good, secret.key)
    key, verifier = tmp_path / "trusted.json", StarkVerifier(job.key, node_key=node_key)
    for name, content in {
        files.PUBLIC: f'["{job.digest + BN254.fr.modulus}"]',  # the same value modulo the order
        files.PROOF: format_proof(good.proof).replace('"bn128"', '"bls12381"'),
    }.items():
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_text(content)
        with pytest.raises((InputError, InvalidProof)):
            job.proof.verify(verifier.with_wrap(tmp_path, key))
        (tmp_path / name).unlink()
        with pytest.raises(InputError):
            verifier.with_wrap(tmp_path, key)
        (tmp_path / name).write_bytes(before)
    job.proof.verify(verifier.with_wrap(tmp_path, key))


# -- the second root ------------------------------------------------------------------------------------------------


def test_a_second_root_states_what_the_root_does(cpu: CpuBackend) -> None:
    maker = OneProofs(cpu)
    proof = maker.prove(load_program("fibonacci", {"rows": 16}))
    key, second = maker.key(proof), maker.second_root()
    keys = tree_of_listed(key, node_key, proof.partitions)
    stated = root_statement(keys, sum_in((proof.whole or {})["sum"]), commitments_of(proof.partitions), None)
    assert second.public == stated.scalars()
    kind = kinds_of_listed(key, proof.partitions)[ROOT].of_role(WRAP)
    own = PartitionProof(WRAP, bytes(32), second.public, node_data(kind, second))
    verify_node(nodes_key, own, key)
    rules = verifiers_key(key, kind)  # what a verifier of a wrap has, without the root of the columns
    assert not rules.preprocessed_root
    assert with_root(rules, nodes_key(key, kind).preprocessed_root).digest == nodes_key(key, kind).digest
    changed = (*second.public[:-1], second.public[-1] ^ 1)
    for wrong in (
        replace(own, public=changed),
        replace(own, data={**own.data, "kind": kind.of_role(ROOT).to_record()}),
        replace(own, data={**own.data, "proof": (proof.whole or {})["proof"]}),
    ):
        with pytest.raises((InvalidProof, FormatError)):
            verify_node(nodes_key, wrong, key)


def test_the_key_of_a_wrap_is_that_of_the_report(small: Small, wrapped: Wrap) -> None:
    facts = key_facts(read_wrap_key(small.path, small.path.name))
    assert facts == {"insecure_wrap": True, "wrap_key": wrapped.key.digest().hex()}
    assert partition.holds(wrapped, facts)
    assert partition.holds(wrapped, {"insecure_wrap": True})  # each machine makes a development key of its own
    assert not partition.holds(wrapped, {**facts, "wrap_key": bytes(32).hex()})
    proof = partition.proven(partition.planned(bytes(32), 3, Kind((), WRAP)), wrapped, SALT)
    assert partition.is_wrap(proof)
    assert partition.states(proof, [small.root])
    assert not partition.states(proof, [replace(small.root, public=(small.root.public[0] + 1, *small.root.public[1:]))])
    assert not partition.states(replace(proof, data={**proof.data, "salt": bytes(32)}), [small.root])
    assert not partition.is_wrap(small.root)
    for field, wrong in (("wrap_key", {}), ("salt", SALT[:-1]), ("salt", SALT.hex())):
        with pytest.raises(FormatError):
            partition.wrap_in(replace(proof, data={**proof.data, field: wrong}))


def test_a_key_is_loaded_once_for_all_that_hold_it(small: Small, cpu: CpuBackend, tmp_path: Path) -> None:
    copied = tmp_path / "copy.zkey"
    copied.write_bytes(small.path.read_bytes())
    with holding(map_file(small.path), "first", cpu) as first:
        loaded = first.resident()
        with holding(map_file(copied), "second", cpu) as second:
            assert second.resident() is loaded
        assert first.resident() is loaded
        assert first.nbytes > 0
        assert first.drop()
        assert first.nbytes == 0
        assert first.resident() is not loaded
        with CpuBackend(threads=1) as other, holding(map_file(small.path), "elsewhere", other) as apart:
            assert apart is not first
    with holding(map_file(small.path), "later", cpu) as later:
        assert later is not first


def test_a_plan_has_a_second_root_before_the_root_and_ends_in_the_wrap() -> None:
    given = {"program": "fibonacci", "engine": "multilinear", "hash": "poseidon2", "partitions": 5, "security": 1}
    job = Job.from_options("stark", **given, arguments={"rows": 16}, wrap=True, insecure_dev=True)
    *_, second, root, last = job.load().plan()
    assert (second.name, root.name, last.name) == (WRAP, ROOT, partition.GROTH16)
    assert last.needs == (WRAP,)
    assert [own.index for own in job.load().plan()] == list(range(len(job.load().plan())))
    assert second.needs == root.needs
    assert len(second.needs) == 1
    assert second.source["kind"] != root.source["kind"]
    assert job.load().describe()["insecure_wrap"] is True


# -- the prover, with a small program in place of a root ------------------------------------------------------------


@dataclass(frozen=True)
class Small:
    """A proof under Poseidon2 over BN254 with the name and challenge of a node, its key, and a Groth16 key's file."""

    key: MultilinearKey
    root: PartitionProof
    path: Path


@pytest.fixture(scope="module")
def small(cpu: CpuBackend, tmp_path_factory: pytest.TempPathFactory) -> Small:
    program = load_program("fibonacci", {"rows": 16})
    params = choose_parameters(program, 1, blowup=2, security=1, grinding=2, hash="poseidon2-bn254", log_final=4)
    pk = make_key(program, params, cpu)
    committed = commit(pk, NODE, program.inputs(program.slices(1)[0].source), Steps())
    proof: Any = prove(pk, committed, NODE_CHALLENGE, Steps())
    root = PartitionProof(WRAP, bytes(32), committed.commitment.public, {"proof": proof.to_record()})
    path = tmp_path_factory.mktemp("wrap") / "small.zkey"
    setup(wrap_circuit(pk.key).system().r1cs(), insecure_dev=True, backend=cpu, out=path)
    return Small(pk.key, root, path)


def made(small: Small, cpu: CpuBackend, root: PartitionProof | None = None, path: Path | None = None) -> Wrap:
    path = path or small.path
    with holding(map_file(path), path.name, cpu) as shared:
        return wrap(small.key, root or small.root, SALT, shared, cpu, Steps())


@pytest.fixture(scope="module")
def wrapped(small: Small, cpu: CpuBackend) -> Wrap:
    return made(small, cpu)


def test_a_wrap_states_the_digest_of_its_root(small: Small, wrapped: Wrap, tmp_path: Path) -> None:
    assert wrapped.public == (statement_digest(small.root.public, SALT),)
    for name, content in wrapped.contents().items():
        (tmp_path / name).write_bytes(content)
    again = Wrap.read(tmp_path, tmp_path / files.KEY)
    assert again.public == wrapped.public
    assert format_proof(again.proof) == format_proof(wrapped.proof)
    assert read_zkey(small.path).insecure


def test_an_altered_root_has_no_wrap(small: Small, cpu: CpuBackend) -> None:
    record = small.root.data["proof"]
    final = record["final"]
    for changed in (
        replace(small.root, data={"proof": {**record, "final": bytes([final[0] ^ 1]) + final[1:]}}),
        replace(small.root, public=(small.root.public[0] + 1, *small.root.public[1:])),
    ):
        with pytest.raises(InvalidProof):
            made(small, cpu, root=changed)


def test_keys_of_other_circuits_are_refused(small: Small, cpu: CpuBackend, tmp_path: Path) -> None:
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    b.output("y", b.multiply(x, x))
    b.output("z", b.multiply(x, x))
    setup(b.build().r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "two.zkey")
    with pytest.raises(InvalidKey, match="has 1 public value"):
        read_wrap_key(tmp_path / "two.zkey", "two.zkey")
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    b.output("y", b.multiply(x, x))
    setup(b.build().r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "one.zkey")
    with pytest.raises(InvalidKey, match="of another circuit"):
        made(small, cpu, path=tmp_path / "one.zkey")


def test_a_damaged_key_makes_no_wrap(small: Small, cpu: CpuBackend, tmp_path: Path) -> None:
    """One whose proofs do not verify: with the points of H in another order."""
    damaged = tmp_path / "damaged.zkey"
    data = bytearray(small.path.read_bytes())
    h = read_zkey(small.path).points.h
    at = bytes(data).index(h[:2].tobytes())
    half = len(h[:1].tobytes())
    data[at : at + half], data[at + half : at + 2 * half] = data[at + half : at + 2 * half], data[at : at + half]
    damaged.write_bytes(data)
    spoiled = made(small, cpu, path=damaged)
    part = partition.planned(bytes(32), 3, Kind((), WRAP))
    assert not partition.holds(spoiled, {})
    assert not partition.holds(partition.wrap_in(partition.proven(part, spoiled, SALT)), {})


def test_a_tape_is_kept(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "wraps"
    first = kept_tape(small.key, folder)
    monkeypatch.setattr("distprove.stark.wrap.kept.wrap_circuit", lambda key: pytest.fail("recorded again"))
    again = kept_tape(small.key, folder)
    assert all(np.array_equal(first.arrays[name], again.arrays[name]) for name in first.arrays)
    other = replace(small.key, preprocessed_root=bytes(32))
    assert circuit_name(other) != circuit_name(small.key)


@pytest.mark.node
def test_snarkjs_accepts_a_wrap(wrapped: Wrap, snarkjs: Snarkjs, tmp_path: Path) -> None:
    for name, content in wrapped.contents().items():
        (tmp_path / name).write_bytes(content)
    paths = tmp_path / files.KEY, tmp_path / files.PUBLIC, tmp_path / files.PROOF
    assert "OK!" in snarkjs("groth16", "verify", *paths).stdout
    (tmp_path / files.PUBLIC).write_text(format_public((wrapped.public[0] + 1,)))
    assert snarkjs("groth16", "verify", *paths, check=False).returncode


@pytest.mark.node
def test_a_contract_accepts_a_wrap_and_refuses_every_change(wrapped: Wrap) -> None:
    good = bytes.fromhex(wrapped.contents()[files.CALLDATA].decode().strip()[2:])
    assert good == calldata(wrapped.proof, wrapped.public)
    changed = [with_words(good, {i: word(good, i) ^ 1}) for i in range((len(good) - 4) // WORD)]
    (told,) = call((contract(wrapped.key), [good, *changed]))
    first, *others = [each["valid"] for each in told["results"]]
    assert first is True
    assert not any(others)


def test_a_wraps_files_are_json_of_strings(wrapped: Wrap) -> None:
    contents = wrapped.contents()
    assert json.loads(contents[files.PUBLIC]) == [str(wrapped.public[0])]
    assert json.loads(contents[files.PROOF])["curve"] == "bn128"
    assert isinstance(wrapped.proof, Groth16Proof)


def test_settings_go_together() -> None:
    given = {"program": "fibonacci", "engine": "multilinear", "hash": "poseidon2", "partitions": 1}
    for wrong in (
        {"wrap": True},
        {"insecure_dev": True},
        {"wrap_key": "k.zkey"},
        {"wrap": True, "insecure_dev": True, "wrap_key": "k.zkey"},
    ):
        with pytest.raises((UsageError, InputError)):
            Job.from_options("stark", **given, **wrong)


def test_a_partition_has_a_key_that_can_be_a_wraps(secret: Trapdoor) -> None:
    """A worker's or a stored one's, which a job with a development key has no name of."""
    planned = Partition(0, GROTH16, bytes(32), {})

    def stored(key: VerificationKey, made: Groth16Proof) -> PartitionProof:
        return proven(planned, Wrap(key, made, (1,)), bytes(SALT_BYTES))

    own = secret.prove([1], seed=1)
    assert wrap_in(stored(secret.key, own)).public == (1,)
    other, two = trapdoor(BLS12_381, 1), trapdoor(BN254, 2)
    for key, made in (
        (other.key, other.prove([1], seed=1)),
        (secret.key, other.prove([1], seed=1)),
        (two.key, own),
        (replace(secret.key, delta2=secret.key.gamma2), own),
    ):
        with pytest.raises(InvalidKey):
            wrap_in(stored(key, made))
