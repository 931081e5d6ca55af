"""Aggregates of sealed sectors as Filecoin's network verifies them: `verify_aggregate_seal_commit_proofs` of
filecoin-proofs 19.1.0.

The proofs are those of all sectors' partitions, in order. The last is repeated up to a power of two. The transcript
includes SHA-256 of seed and comm_r of each sector in turn; of a non-interactive PoRep, which has no seed, of comm_r
alone. The other public inputs are in the transcript through nothing else: a verifier derives each replica id and takes
each comm_d from what it knows of the sector. An aggregate of public inputs that a prover chose proves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.filecoin.porep import SealStatement
from distprove.filecoin.verifier import split_key
from distprove.groth16.aggregate.aggregator import Aggregation
from distprove.groth16.aggregate.proof import Aggregate
from distprove.groth16.aggregate.srs import Srs, VerifierSrs, size_for
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.proof import Proof
from kernels.host.units import count_of

AGGREGATE = "aggregate.bin"
"""The file of a run that has the aggregate of its sector."""


def included(sectors: Sequence[SealStatement]) -> bytes:
    """What the transcript includes of the sectors, 32 bytes. Raises UsageError for sectors of several types."""
    kinds = {sector.proof.name for sector in sectors}
    if len(kinds) != 1:
        raise UsageError(f"an aggregate is of sectors of one type, not of {len(kinds)}: {', '.join(sorted(kinds))}")
    hashed = hashlib.sha256()
    for sector in sectors:
        hashed.update(sector.seed if sector.has_seed else b"")
        hashed.update(sector.comm_r)
    return hashed.digest()


def sectors_of(
    proofs: Sequence[Proof],
) -> tuple[VerificationKey, list[SealStatement], list[list[Groth16Proof]]]:
    """The key, the statements and the partitions' proofs of jobs that sealed sectors, in order. All three are as the
    proof files have them: nothing says whose key it is, nor that it is of the circuit of the statements.

    Raises UsageError for jobs of something else, under several keys, or of one sector twice; FormatError, InvalidProof.
    """
    carried = [split_key(proof.verification_key) for proof in proofs]
    sectors = [statement for _, statement in carried if isinstance(statement, SealStatement)]
    if not carried or len(sectors) != len(carried):
        raise UsageError("an aggregate is of sealed sectors: proofs of replication")
    if len({key.digest() for key, _ in carried}) > 1:
        raise UsageError("the sectors are under different keys; an aggregate is of proofs under one")
    if len({(sector.comm_r, sector.seed) for sector in sectors}) < len(sectors):
        raise UsageError("a sector is given twice")
    return (
        carried[0][0],
        sectors,
        [Groth16Proof.from_dicts([partition.data for partition in proof.partitions]) for proof in proofs],
    )


def aggregate_sectors(
    key: VerificationKey,
    sectors: Sequence[SealStatement],
    proofs: Sequence[Sequence[Groth16Proof]],
    srs: Srs,
    run: Callable[[Aggregation], bytes],
    *,
    threads: int = 1,
) -> bytes:
    """The aggregate of the partitions' `proofs` of each sector, as bellperson writes it, made where `run` has it done.

    It has been verified. Raises UsageError, what `run` raises, and InvalidProof where a proof does not hold.
    """
    bound = included(sectors)
    for sector, own in zip(sectors, proofs, strict=True):
        if len(own) != sector.partitions:
            raise UsageError(
                f"a sector of {sector.proof.name} has {count_of(sector.partitions, 'partition')}, not {len(own)}"
            )
    every = [proof for own in proofs for proof in own]
    every += every[-1:] * (size_for(len(every)) - len(every))
    made = run(Aggregation(srs.for_proofs(len(every)), every, bound))
    verify_sectors(key, sectors, made, srs.verifier, threads=threads)
    return Aggregate.from_bytes(key.curve, made, threads=threads).for_bellperson()


def verify_sectors(
    key: VerificationKey,
    sectors: Sequence[SealStatement],
    aggregate: bytes,
    srs: VerifierSrs,
    *,
    threads: int = 1,
) -> None:
    """Raise InvalidProof or FormatError unless the aggregate shows that each of the sectors was sealed, in this order.
    Their public inputs are derived. Raises UsageError for sectors of several types.

    The caller answers for the statements, and for the key: it is one that the caller trusts, of the circuit of the
    sectors' type (`SealStatement.circuit`). A key does not show its circuit. Circuits of several sizes have the same
    number of public inputs, so with types that a prover chose the sectors' size is the prover's word.
    """
    bound = included(sectors)
    public = [sector.public_inputs(k) for sector in sectors for k in range(sector.partitions)]
    if public and len(public[0]) != key.n_public:
        raise InvalidProof(f"{count_of(len(public[0]), 'public value')} for each partition, the key has {key.n_public}")
    made = Aggregate.from_bytes(key.curve, aggregate, "aggregate", threads)
    if made.n != size_for(len(public)):
        raise FormatError(
            f"an aggregate of {count_of(made.n, 'proof')}, padding included, cannot be of "
            f"{count_of(len(public), 'partition')}"
        )
    if not verify(key, srs, public, bound, made, threads=threads):
        raise InvalidProof("the aggregate does not verify")
