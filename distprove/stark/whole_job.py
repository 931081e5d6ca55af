"""What ties the partitions of a job together, checked alike for both engines: the job's challenge, the statement, the
multiplicities, the bits over all partitions, the output and the sum of the global buses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from distprove.errors import InputError, InvalidProof, OutputMissing
from distprove.stark import logup
from distprove.stark.air.compiled import UsesBuses
from distprove.stark.barrier import Commitment
from distprove.stark.field import Ext, e_add
from distprove.stark.heights import LogHeights
from distprove.stark.output import digest_of, output_public
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash


class Reached(Protocol):
    """What a security report says of a job."""

    @property
    def bits(self) -> float: ...

    @property
    def weakest(self) -> Any: ...


class Part(Protocol):
    """What of a partition's proof ties it to its job."""

    @property
    def challenge(self) -> bytes: ...

    @property
    def log_heights(self) -> LogHeights: ...

    def commitment(self, name: str, public: Sequence[int]) -> Commitment: ...


GIVEN = "the output beside the proof, or given,"


@dataclass(frozen=True)
class JobRules:
    """What an engine decides of a job."""

    challenge: Callable[[Any, Sequence[Commitment], bytes | None], bytes]
    """Takes a key, the commitments of all partitions and the job's output: the job's challenge."""
    global_challenges: Callable[[bytes, TreeHash], tuple[Ext, Ext]]
    security: Callable[[Any, Sequence[Sequence[int | None]]], Reached]
    terminals: Callable[[Any, Any], Sequence[Ext | None]]
    """Takes a key and a part: the sums of the global buses' fractions."""


def verify_whole_job(
    rules: JobRules,
    key: Any,
    names: Sequence[str],
    publics: Sequence[Sequence[int]],
    proofs: Sequence[Part],
    output: bytes | None,
) -> None:
    """Raise InvalidProof unless these partitions, each already verified alone, form one whole job.

    The challenge of each must be the one drawn from exactly these commitments in this order; the public values must
    satisfy the statement; the global buses must balance over all partitions and the statement's own tuples. These
    include the words of the job's `output`, if the statement has one; without it OutputMissing is raised for a job that
    holds otherwise.
    """
    if not proofs:
        raise InvalidProof("a job has at least one partition")
    if len(set(names)) != len(names):
        raise InvalidProof("two partitions have the same name")
    commitments = [p.commitment(name, public) for name, public, p in zip(names, publics, proofs, strict=True)]
    challenge = rules.challenge(key, commitments, output)
    for name, proof in zip(names, proofs, strict=True):
        if proof.challenge != challenge:
            raise InvalidProof(f"{name} was not proven as a part of this job: a partition is missing, moved or changed")
    verify_whole_statement(rules, key, commitments)
    z, beta = rules.global_challenges(challenge, key.params.tree_hash)
    sums = [terminal for proof in proofs for terminal in rules.terminals(key, proof)]
    stated = logup.boundary_sum(key.boundary_terms(publics), z, beta)
    if key.output_bus is not None:
        check_output(key, publics[0], output)
        stated = e_add(stated, logup.output_sum(key.output_bus, output or b"", z, beta))
    if not logup.balanced(sums, stated):
        raise InvalidProof("the global buses do not balance over the partitions")


def verify_whole_statement(rules: JobRules, key: Any, commitments: Sequence[Commitment]) -> None:
    """Raise InvalidProof unless these commitments can be a job under `key`.

    The job's driver checks this too, at the barrier, before any partition is proven.
    """
    publics, heights = [c.public for c in commitments], [c.log_heights for c in commitments]
    violation = key.statement.violation(publics)
    if violation is not None:
        raise InvalidProof(violation)
    check_multiplicities(key.tables, heights, key.stated(len(publics)), key.output_bus)
    # Each partition has enough bits alone, but the errors of global buses and anchors grow with their number.
    security = rules.security(key, heights)
    if security.bits < key.params.security_bits:
        raise InvalidProof(
            f"{security.bits:.1f} bits of security over all partitions ({security.weakest.name}); the key asks for "
            f"{key.params.security_bits}"
        )


def check_output(key: Any, public: Sequence[int], output: bytes | None) -> None:
    """Raise InvalidProof unless `output` has the length and digest that the public values of a partition state.

    The job's challenge binds these, so that no words can be chosen after the challenges of the buses are known. Raises
    OutputMissing without an output.
    """
    stated = key.statement.output_public(public)
    if output is None:
        # A verifier that took the tables' word for what they sent would accept any digest.
        told = digest_of(stated[1:]).hex() if all(v >> 32 == 0 for v in stated) else "no digest"
        raise OutputMissing(
            "every partition's proof holds by itself, but it is not known whether they are one job: it states an "
            f"output of {count_of(stated[0], 'byte')} (Keccak-256 {told}), which is not here, and without its "
            "words no verifier can tell whether the tables wrote it. Give the output (--output FILE, output=)"
        )
    if len(output) != stated[0]:
        raise InvalidProof(f"the job states an output of {count_of(stated[0], 'byte')}, and {GIVEN} has {len(output)}")
    if output_public(output) != stated:
        raise InvalidProof(f"{GIVEN} is not the one that the job states: its Keccak-256 digest differs")


def check_multiplicities(
    tables: Sequence[UsesBuses],
    partitions: Sequence[Sequence[int | None]],
    stated: Iterable[logup.StatedTuples] = (),
    output_bus: int | None = None,
) -> None:
    """Raise InvalidProof when multiplicities could wrap around the field in partitions of these log2 heights."""
    try:
        logup.check_multiplicities(tables, partitions, stated, output_bus)
    except InputError as error:
        raise InvalidProof(str(error)) from None
