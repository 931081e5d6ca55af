"""An aggregate of sealed sectors that filecoin-proofs made: ours has its bytes, and holds for those sectors alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import DistproveError, FormatError, InvalidKey, InvalidProof, UsageError
from distprove.filecoin.aggregate import aggregate_sectors, included, sectors_of, verify_sectors
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.porep import Sealed, SealStatement
from distprove.filecoin.sectors import SEAL_PROOFS
from distprove.filecoin.system import FilecoinSystem
from distprove.groth16.aggregate.aggregator import run_on
from distprove.groth16.aggregate.generic_srs import read_generic_srs
from distprove.groth16.aggregate.srs import Srs, read_srs
from distprove.groth16.aggregate.srs_setup import insecure_srs, srs_from_generic
from distprove.groth16.proof import Groth16Proof
from distprove.proof import Proof, partition_digest
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381
from tests.cli.conftest import run, why_refused
from tests.filecoin.sectors import VECTORS
from tests.support.simulated_proofs import Trapdoor, trapdoor

PUBLIC = 39
"""Public inputs of a partition of 2 KiB."""


@dataclass(frozen=True)
class Made:
    """What filecoin-proofs was given and made; vectors/aggregate.json says how."""

    secret: Trapdoor
    sectors: list[SealStatement]
    proofs: list[list[Groth16Proof]]
    srs: Srs
    aggregate: bytes

    def holds(self, sectors: list[SealStatement] | None = None, aggregate: bytes | None = None) -> bool:
        try:
            verify_sectors(
                self.secret.key, sectors or self.sectors, aggregate or self.aggregate, self.srs.verifier, threads=2
            )
        except (InvalidProof, FormatError):
            return False
        return True


def statement(facts: dict[str, Any]) -> SealStatement:
    octets = {name: bytes.fromhex(facts[name]) for name in ("porep_id", "comm_d", "comm_r", "seed")}
    own = Sealed(bytes.fromhex(facts["prover_id"]), facts["sector"], bytes.fromhex(facts["ticket"]))
    replica_id = own.replica_id(octets["comm_d"], octets["porep_id"])
    return SealStatement(SEAL_PROOFS[facts["proof_type"]], **octets, replica_id=replica_id, sealed=own)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    record = json.loads((VECTORS / "aggregate.json").read_text())
    path: Path = tmp_path_factory.mktemp("srs") / "v28-fil-inner-product-v1.srs"
    path.write_bytes(bytes.fromhex(record["srs"]))
    with CpuBackend() as cpu:
        srs = srs_from_generic(read_generic_srs(path, 4), cpu)
    secret, sectors = trapdoor(BLS12_381, PUBLIC), [statement(facts) for facts in record["facts"]]
    proofs = [[secret.prove(sector.public_inputs(0), seed=i)] for i, sector in enumerate(sectors)]
    return Made(secret, sectors, proofs, srs, bytes.fromhex(record["aggregate"]))


def aggregated(made: Made, sectors: list[SealStatement], proofs: list[list[Groth16Proof]]) -> bytes:
    with CpuBackend() as cpu:
        return aggregate_sectors(made.secret.key, sectors, proofs, made.srs, run_on(cpu, 1))


def test_the_bytes_are_those_of_filecoin_proofs(made: Made) -> None:
    assert made.holds()
    assert aggregated(made, made.sectors, made.proofs) == made.aggregate


def test_it_holds_for_these_sectors_alone(made: Made) -> None:
    first, second, third = made.sectors
    assert not made.holds([second, first, third])
    assert not made.holds([first, second])
    assert not made.holds([first, second, third, third, third])
    # The last is repeated up to four, as filecoin-proofs does: this is the same statement but for the transcript.
    assert not made.holds([first, second, third, third])
    for field in ("seed", "comm_r", "comm_d"):
        changed = bytearray(getattr(second, field))
        changed[0] ^= 1
        own = {field: bytes(changed), "sealed": None}
        assert not made.holds([first, replace(second, **own), third]), field
    assert not made.holds([first, replace(second, replica_id=first.replica_id, sealed=None), third])


def test_no_byte_may_change(made: Made) -> None:
    for at in range(0, len(made.aggregate), 97):
        assert not made.holds(
            aggregate=made.aggregate[:at] + bytes([made.aggregate[at] ^ 1]) + made.aggregate[at + 1 :]
        )
    assert not made.holds(aggregate=made.aggregate[:-1])


def test_what_is_not_aggregated(made: Made) -> None:
    (first, second, _), (one, two, _) = made.sectors, made.proofs
    with pytest.raises(InvalidProof):
        aggregated(made, [first, second], [two, one])
    with pytest.raises(UsageError, match="has 1 partition, not 2"):
        aggregated(made, [first], [[*one, *two]])
    other = replace(second, proof=SEAL_PROOFS["StackedDrg2KiBV1"])
    with pytest.raises(UsageError, match="of one type, not of 2"):
        aggregated(made, [first, other], [one, two])
    with pytest.raises(DistproveError):
        aggregated(made, [], [])


def as_job(made: Made, number: int) -> Proof:
    """The proof file's content of a job that proved one sector."""
    sector, key = made.sectors[number], made.secret.key
    carried = {"key": key.to_dict(), "kind": sector.kind, "statement": sector.record()}
    public = tuple(sector.public_inputs(0))
    digest = partition_digest(key.digest(), 0, "partition-0", public)
    partition = PartitionProof("partition-0", digest, public, made.proofs[number][0].to_dict())
    return Proof("filecoin", key.digest(), carried, (partition,))


def test_the_command_writes_what_filecoin_takes(made: Made, tmp_path: Path) -> None:
    keys, out = tmp_path / "keys.srs", tmp_path / "aggregate.bin"
    made.srs.write(keys)
    files = [tmp_path / f"{number}.msgpack" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(as_job(made, number).to_bytes())
    done = run("aggregate", *files, "--srs", keys, "--out", out, "--backend", "cpu", "--json")
    assert done.exit_code == 0, done.output
    assert out.read_bytes() == made.aggregate
    said = json.loads(done.stdout)
    assert [sector["comm_r"] for sector in said["sectors"]] == [sector.comm_r.hex() for sector in made.sectors]
    out.unlink()
    for given, text in (
        ((files[0], files[0]), "a sector is given twice"),
        ((*files, "--bellperson", tmp_path / "b"), "leave out both options"),
    ):
        assert text in why_refused(run("aggregate", *given, "--srs", keys, "--out", out, "--backend", "cpu"))
    assert not out.exists()


def silent(sector: SealStatement) -> SealStatement:
    """The sector sealed by the non-interactive type."""
    proof = SEAL_PROOFS["StackedDrg2KiBV1_2_Feat_NonInteractivePoRep"]
    return replace(sector, proof=proof, seed=bytes(32), sealed=None)


def test_a_non_interactive_sector_includes_no_seed(made: Made) -> None:
    first = made.sectors[0]
    assert included([silent(first)]) == hashlib.sha256(first.comm_r).digest()
    assert included([silent(first)]) != included([first]) != included([replace(first, seed=bytes([1]) * 32)])


def test_a_non_interactive_sector_is_not_given_twice(made: Made) -> None:
    """Under another seed it would look like another sector."""
    proof = as_job(made, 0)
    carried = {**proof.verification_key, "statement": silent(made.sectors[0]).record()}
    again = replace(proof, verification_key=carried)
    with pytest.raises(UsageError, match="a sector is given twice"):
        sectors_of([again, again])
    seeded = {**carried, "statement": {**carried["statement"], "seed": bytes([1]) * 32}}
    with pytest.raises(InvalidProof, match="drawn without one"):
        sectors_of([again, replace(proof, verification_key=seeded)])


def test_a_job_ends_in_the_aggregate_of_its_sector(made: Made, tmp_path: Path) -> None:
    """Of a non-interactive sector of 2 KiB, which has 13 partitions, under keys for 16 proofs."""
    sector, key, srs = silent(made.sectors[0]), made.secret.key, tmp_path / "keys.srs"
    with CpuBackend(threads=2) as cpu:
        insecure_srs(BLS12_381, 16, cpu).write(srs)
        carried = {"key": key.to_dict(), "kind": sector.kind, "statement": sector.record()}
        public = [tuple(sector.public_inputs(k)) for k in range(sector.partitions)]
        partitions = [
            PartitionProof(f"partition-{k}", bytes(32), own, made.secret.prove(list(own), seed=k).to_dict())
            for k, own in enumerate(public)
        ]
        assert len(partitions) == 13
        proof = Proof.bind("filecoin", key.digest(), carried, partitions)
        system = FilecoinSystem.__new__(FilecoinSystem)
        system.__dict__ |= {"key": key, "_srs": None, "sources": tuple(partitions), "_facts": {}}
        assert system.aggregate(proof, run_on(cpu, 2)) is None
        system.aggregate_with(srs)
        assert system.aggregates()
        done = system.aggregate(proof, run_on(cpu, 2))
        assert done is not None
        assert done[0] == "aggregate.bin"
        verifier = read_srs(srs).verifier
        verify_sectors(key, [sector], done[1], verifier, threads=2)
        other = replace(sector, comm_r=made.sectors[1].comm_r)
        with pytest.raises(InvalidProof):
            verify_sectors(key, [other], done[1], verifier, threads=2)
        insecure_srs(BLS12_381, 16, cpu).write(srs)
        with pytest.raises(InvalidKey, match="other aggregation keys than when the job began"):
            system.aggregate(proof, run_on(cpu, 2))


def test_an_aggregate_is_of_a_sealed_sector() -> None:
    with pytest.raises(UsageError, match="`aggregate` is for `c1`"):
        FilecoinOptions(
            zkey=VECTORS / "aggregate.json",
            update=VECTORS / "update.json.gz",
            aggregate=VECTORS / "aggregate.json",
        ).check()
