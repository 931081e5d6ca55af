"""Proofs of gnark's circuits with commitments, under keys that gnark 0.14 made: they hold, and bad witnesses, keys and
circuits are refused by name.

`tests/interop/gnark` made the files: `commit` has two commitments, the second of which is hashed with a public value
and the first one's wire, and `range` checks ranges by lookups. There gnark itself judges our proofs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import distprove
from distprove.errors import FormatError, InvalidKey, InvalidProof, JobFailed, UsageError
from distprove.groth16 import gnark
from distprove.groth16.committed.key import CommittedKey, CommittedProof
from distprove.groth16.committed.prover import commit
from distprove.groth16.committed.verifier import verify_committed
from distprove.groth16.committed.wires import read_commitment_wires
from distprove.groth16.gnark_key import GnarkKey
from distprove.groth16.key_check import check_key, find_damage
from distprove.groth16.keyfile import read_key
from distprove.groth16.prover import Blinding, StagedWitness
from distprove.groth16.r1cs import open_r1cs
from distprove.groth16.resident import load_key
from distprove.groth16.snarkjs import proof_to_dict
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import read_wtns, write_wtns
from distprove.proof import Proof
from kernels.cpu.backend import CpuBackend
from kernels.cpu.group import neg
from kernels.cuda.backend import CudaBackend
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, BN254, Group
from kernels.maths.encoding import generator, unpack
from tests.cli.conftest import run, why_refused
from tests.emulation.conftest import emulated as emulated

FILES = Path(__file__).parent / "gnark"
COMMIT = FILES / "bn254" / "commit"
KINDS = {
    "bn254": (BN254, COMMIT, "pk", "rfc9380"),
    "bn254-in-full": (BN254, COMMIT, "pk.raw", "rfc9380"),
    "bls12-381": (BLS12_381, FILES / "bls12-381" / "commit", "pk", "rfc9380"),
    "range": (BN254, FILES / "bn254" / "range", "pk", "rfc9380"),
    "keccak256": (BN254, FILES / "bn254" / "commit-keccak256", "pk", "keccak256"),
}
HERE = {"local": True, "isolate": False, "threads": 2, "gpus": 0}


@pytest.fixture(scope="module")
def cpu() -> CpuBackend:
    return CpuBackend(threads=2)


def files(folder: Path = COMMIT, **changed: Path) -> dict[str, Path]:
    named = {"gnark_pk": folder / "pk", "gnark_vk": folder / "vk", "r1cs": folder / "c.r1cs"}
    return {**named, **changed}


def read(folder: Path = COMMIT, hashed: str = "rfc9380", **changed: Path) -> GnarkKey:
    key = read_key(files(folder, **changed), "pk", commitment_hash=hashed)
    assert isinstance(key, GnarkKey)
    return key


def fixed(_: int) -> Blinding:
    return Blinding(1001, 2002)


def proven(
    key: GnarkKey, witness: HostArray, backend: Backend, blinding: Callable[[int], Blinding] = fixed
) -> CommittedProof:
    under, resident = key.verification_key, load_key(key, backend)
    assert isinstance(under, CommittedKey)
    staged = StagedWitness(resident, witness)
    made = commit(resident, under, witness, staged)
    proof, times = staged.start(blinding).result()
    staged.release()
    assert "commitments" in times.seconds
    return made.beside(under, proof)


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_holds_and_no_changed_one_does(kind: str, cpu: CpuBackend) -> None:
    curve, folder, pk, hashed = KINDS[kind]
    key = read(folder, hashed, gnark_pk=folder / pk)
    check_key(key, cpu)
    assert find_damage(key, cpu) is None
    under = gnark.parse_committed_key((folder / "vk").read_bytes(), curve, commitment_hash=hashed)
    assert under.digest() == key.verification_key.digest()
    public = gnark.parse_public((folder / "public").read_bytes(), curve)
    made = proven(key, read_wtns(folder / "w.wtns").values, cpu)
    again = gnark.parse_committed_proof(gnark.format_proof(made))
    assert verify_committed(under, public, again)
    one = generator(curve, Group.G1)
    for bad in (
        replace(made, proof=replace(made.proof, c=one)),
        replace(made, knowledge=neg(curve, Group.G1, made.knowledge)),
        replace(made, commitments=made.commitments[::-1]),
        replace(made, commitments=np.stack([one, *made.commitments[1:]])),
    ):
        assert not verify_committed(under, public, bad) or (len(made.commitments) == 1 and bad.commitments is not made)
    for k in range(len(public)):
        assert not verify_committed(under, [v + (k == place) for place, v in enumerate(public)], made)


def test_an_emulated_gpu_gives_the_proof_of_the_cpu(
    cpu: CpuBackend, emulated: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the whole proof recorded, and with its parts. The memory plan counts the tables of commitments."""
    key, witness = read(), read_wtns(COMMIT / "w.wtns").values
    here = proven(key, witness, cpu)
    for domain in (1 << 16, 0):
        monkeypatch.setattr("distprove.groth16.memory.RECORDED_DOMAIN", domain)
        there = proven(key, witness, emulated)
        assert there.to_dict() == here.to_dict()
    resident = load_key(key, emulated)
    assert resident.plan.stages["commitments"] > resident.plan.stages["witness"]
    assert 0 <= resident.nbytes - resident.plan.resident < 4096, "the plan does not count the values of matrices"


def test_jobs_under_such_a_key(tmp_path: Path) -> None:
    """A run of two partitions is proven, verified under gnark's own key, and exported for gnark; what else takes proofs
    refuses these by name."""
    out, folder = tmp_path / "run", FILES / "bn254" / "commit-keccak256"
    for name in ("one", "two"):
        (tmp_path / f"{name}.wtns").write_bytes((folder / "w.wtns").read_bytes())
    named = [each for name, path in files(folder).items() for each in (f"--{name.replace('_', '-')}", path)]
    witnesses = ("--wtns", tmp_path / "one.wtns", tmp_path / "two.wtns")
    local = ("--local", "--gpus", 0, "--threads", 2)
    hashed = ("--commitment-hash", "keccak256")
    done = run("prove", "groth16", *named, *witnesses, *hashed, *local, "--out", out)
    assert done.exit_code == 0, done.output
    assert run("verify", out, "--vk", folder / "vk").exit_code == 0
    assert run("verify", out, "--vk", COMMIT / "vk").exit_code != 0
    exported = run("gnark", "export", out, "--out", tmp_path / "files")
    assert "hashed by keccak256" in exported.stdout
    made = tmp_path / "files" / "two"
    judged = ("gnark", "verify", made / "proof.gnark", "--vk", folder / "vk", "--public", folder / "public")
    assert run(*judged, *hashed).exit_code == 0
    assert run(*judged).exit_code == 1
    for more in ((), ("--solidity",)):
        told = why_refused(run("export", out, "--out", tmp_path / "x", *more))
        assert "`distprove gnark export` writes them" in told
    read = Proof.read(out / "proof.msgpack")
    partition = read.partitions[0]
    with pytest.raises(UsageError, match="partition one: a proof with commitments"):
        proof_to_dict(partition)
    swapped = {**partition.data, "knowledge": partition.data["a"]}
    forged = replace(read, partitions=(replace(partition, data=swapped), *read.partitions[1:]))
    with pytest.raises(InvalidProof):
        distprove.verify(forged, vk=folder / "vk")


@pytest.mark.parametrize(
    ("wire", "hashed", "said"),
    [
        ("hash", "rfc9380", "wire .* does not hold the rfc9380 hash of commitment 1: it was solved under another"),
        ("private", "rfc9380", "does not hold the rfc9380 hash of commitment 1: it was solved under another"),
        ("first", "rfc9380", "does not hold the rfc9380 hash of commitment 0: it was solved under another"),
        ("", "keccak256", "but its rfc9380 hash: the job says so with --commitment-hash rfc9380"),
        ("other", "rfc9380", r"constraint \d+ of the circuit: \("),
    ],
)
def test_a_bad_witness_is_refused_by_its_fault(wire: str, hashed: str, said: str, tmp_path: Path) -> None:
    """A hash that is wrong is found before the proof, and says no value of a wire."""
    first, second = (each.wires for each in read().commitment_bases)
    values = np.array(read_wtns(COMMIT / "w.wtns").values)
    places = {"hash": second.hash, "private": int(second.private[-1]), "first": int(first.private[0])}
    taken = {first.hash, second.hash, *first.private.tolist(), *second.private.tolist()}
    places["other"] = next(wire for wire in range(len(values) - 1, 2, -1) if wire not in taken)
    if wire:
        values[places[wire], 0] += np.uint64(1)
    write_wtns(tmp_path / "bad.wtns", BN254, values)
    with pytest.raises(JobFailed, match=said) as failed:
        distprove.prove(
            **files(),
            witnesses=[tmp_path / "bad.wtns"],
            commitment_hash=hashed,
            out=tmp_path / "run",
            executor=HERE,
        )
    assert not any(len(str(value)) > 12 and str(value) in str(failed.value) for value in unpack(values))


def listed(content: bytes) -> int:
    """Where the list of commitments begins in a `.r1cs` file: it is the last section."""
    return open_r1cs(content).file.sections[22][0]


def test_other_lists_of_commitments_are_refused(tmp_path: Path) -> None:
    content = (COMMIT / "c.r1cs").read_bytes()
    begin = listed(content)
    circuit = open_r1cs(content)
    first, second = read_commitment_wires(circuit)
    assert (len(first.hashed), second.hashed) == (0, (2, first.hash))

    def r1cs(*commitments: tuple[int, list[int], list[int]], count: int | None = None) -> bytes:
        words = [len(commitments) if count is None else count]
        for own, hashed, private in commitments:
            words += [own, len(hashed), *hashed, len(private), *private]
        section = np.array(words, dtype="<u4").tobytes()
        return content[: begin - 8] + len(section).to_bytes(8, "little") + section

    own = [(each.hash, list(each.hashed), each.private.tolist()) for each in (first, second)]
    assert r1cs(*own) == content
    (h0, _, w0), (h1, seen, w1) = own
    for bad, said in (
        (r1cs(*own, count=17), "17 commitments, of 16 at most"),
        (r1cs(*own, count=3), "needs 4 more bytes"),
        (r1cs(*own, count=1), "bytes too many"),
        (r1cs((1, [], w0), own[1]), "the hash of commitment 0 is wire 1"),
        (r1cs((circuit.n_vars, [], w0), own[1]), "the hash of commitment 0 is wire"),
        (r1cs(own[1], own[0]), "that is hashed with commitment 0"),
        (r1cs(own[0], (h1, [*seen, 2**32 - 1], w1)), "names one that is not there"),
        (r1cs((h0, [0], w0), own[1]), "hashed with commitment 0 is neither public"),
        (r1cs((h0, [], [1, *w0]), own[1]), "commitment 0 is of a wire that is public"),
        (r1cs(own[0], (h1, seen, sorted({*w0, *w1}))), "commitment 1 is of a wire"),
        (r1cs(own[0], (h1, seen, [*w1, h1])), "commitment 1 is of a wire|not ascending"),
        (r1cs((h0, [], w0[::-1]), own[1]), "not ascending"),
    ):
        with pytest.raises(FormatError, match=said):
            read_commitment_wires(open_r1cs(bad))
    for bad, said in (
        (r1cs(own[0]), "2 commitments, expected 1"),
        (r1cs((h0, [], w0[1:]), own[1]), "points of commitment 0, expected"),
        (r1cs(own[0], (h1, [h0], w1)), "commitment 1 is hashed with other wires in the verifying key"),
        ((FILES / "bn254" / "c.r1cs").read_bytes(), "wires, expected"),
    ):
        (tmp_path / "other.r1cs").write_bytes(bad)
        with pytest.raises(InvalidKey, match=said):
            read(r1cs=tmp_path / "other.r1cs")


def test_a_circuit_that_does_not_name_its_wires_says_what_writes_it(tmp_path: Path) -> None:
    content = (COMMIT / "c.r1cs").read_bytes()
    begin = listed(content)
    assert content[8:12] == (3).to_bytes(4, "little")
    (tmp_path / "old.r1cs").write_bytes(content[:8] + (2).to_bytes(4, "little") + content[12 : begin - 12])
    with pytest.raises(InvalidKey, match="of which wires they are: write it with the Go package of `distprove gnark"):
        read(r1cs=tmp_path / "old.r1cs")


def test_a_damaged_basis_is_found(cpu: CpuBackend, tmp_path: Path) -> None:
    """Points outside the group by the key's check, and exchanged ones after a proof that does not verify."""
    content = bytearray((COMMIT / "pk.raw").read_bytes())
    count, size = len(read().commitment_bases[1].basis), 64
    assert count > 1
    last = len(content) - count * size  # the last vector: sigma B of commitment 1
    spoilt = bytearray(content)
    spoilt[-1] ^= 1
    (tmp_path / "pk").write_bytes(spoilt)
    with pytest.raises(InvalidKey, match=r"section sigma B of commitment 1 .* is not on"):
        check_key(read(gnark_pk=tmp_path / "pk"), cpu)
    content[last : last + size], content[last + size : last + 2 * size] = (
        content[last + size : last + 2 * size],
        content[last : last + size],
    )
    (tmp_path / "pk").write_bytes(content)
    exchanged = read(gnark_pk=tmp_path / "pk")
    check_key(exchanged, cpu)
    assert "points of commitment 1 and those times sigma are not" in (find_damage(exchanged, cpu) or "")
    for cut in (len(content) - 1, last - 4, last - 6):
        (tmp_path / "pk").write_bytes(content[:cut])
        with pytest.raises(FormatError):
            read(gnark_pk=tmp_path / "pk")


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    for changed, said in (
        ({"gnark_pk": None, "gnark_vk": None, "zkey": tmp_path / "k.zkey"}, "for commitments under a key of gnark's"),
        ({"commitment_hash": "md5"}, "unknown commitment_hash 'md5'"),
    ):
        job = {**files(), "commitment_hash": "sha256", "witnesses": [COMMIT / "w.wtns"], **changed}
        with pytest.raises(UsageError, match=said):
            distprove.prove(**job, out=tmp_path / "run", executor=HERE)
    with pytest.raises(UsageError, match="not aggregated"):
        Groth16System.of_key(files(), None).aggregate_with(tmp_path / "keys.srs")
