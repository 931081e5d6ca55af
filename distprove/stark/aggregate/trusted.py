"""The verifiers of an aggregate's jobs: each under a key that the caller gives, or of a program that is known here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distprove.entry import OwnProgram
from distprove.errors import InvalidProof, UsageError
from distprove.formats.owncode import names_code
from distprove.options import SECURITY_BITS
from distprove.proof import Proof
from distprove.stark import entry
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.aggregate.verifier import Explained, KeyMakers, explained, naming_job, verify_aggregate
from distprove.stark.engine import AnyKey
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import jobs_keys, node_key, program_of, read_key
from distprove.stark.programs import load_program
from distprove.verification import Verified
from kernels.host.units import count_of, format_bits

MAKERS = KeyMakers(node_key, jobs_keys)


@dataclass(frozen=True)
class Trusted:
    """A verifier of a job, and what the caller gave for it."""

    verifier: StarkVerifier
    vk: str = ""
    """What errors call the key that the caller gave."""
    program: str = ""
    """The name of the program that the caller named."""


@dataclass(frozen=True, repr=False)
class VerifiedAggregate:
    """The result of a successful verification of several jobs."""

    jobs: tuple[Verified, ...]
    """For each job, the result of verifying its own proof. `seconds` is the time of all jobs together."""
    trusted: tuple[Trusted, ...]
    explained: Explained
    seconds: float

    def __repr__(self) -> str:
        return (
            f"<VerifiedAggregate: {count_of(len(self.jobs), 'job')} in {self.seconds:.2f} s, "
            f"{self.explained.bits:.2f} bits>"
        )


def read_keys(vks: Sequence[Path]) -> dict[str, AnyKey]:
    """The keys of some files, by what errors call them. Raises InputError, FormatError."""
    return {str(path): read_key(path) for path in vks}


def trusted(
    jobs: Sequence[Proof], keys: Mapping[str, AnyKey] | None = None, program: OwnProgram | None = None
) -> list[Trusted]:
    """A verifier for each job: under the one of `keys` that it names, of `program` for the jobs of this program, or of
    the program that ships under the name in the file.

    Raises InvalidProof for a key or a program that none of the jobs has, and for a job of other arguments than those of
    `program`; otherwise as the verifier of a single proof.
    """
    name = "" if program is None else program_name(program)
    found: list[Trusted] = []
    used: set[str] = set()
    for number, job in enumerate(jobs, 1):
        named = job.verification_key
        match = {what: key for what, key in (keys or {}).items() if key.is_named(named)}
        # A key's digest has the preprocessed columns too, which its name does not have.
        match = {what: key for what, key in match.items() if key.digest == job.key_digest} or match
        used |= match.keys()
        if match:
            what, key = next(iter(match.items()))
            found.append(Trusted(StarkVerifier(key, program_of(key), node_key=node_key), vk=what))
            continue
        with naming_job(number):
            if program is not None and named.get("program") == name:
                found.append(Trusted(_starks(entry.own_verifier(named, program)), program=program.name))
            else:
                found.append(Trusted(_starks(entry.verifier(named, None))))
    for what in keys or {}:
        if what not in used:
            raise InvalidProof(f"no job is under the key of {what}")
    if program is not None and not any(each.program for each in found):
        raise InvalidProof(f"no job is of the program {program.name}")
    return found


def _starks(verifier: object) -> StarkVerifier:
    assert isinstance(verifier, StarkVerifier), "a STARK's"
    return verifier


def program_name(program: OwnProgram) -> str:
    """The name that keys have for a program. Raises UsageError, CodeFault."""
    return load_program(program.name, program.arguments).name if names_code(program.name) else program.name


def verify(
    aggregate: StarkAggregate,
    *,
    vks: Sequence[Path] = (),
    program: OwnProgram | None = None,
    expected_jobs: Sequence[bytes] | None = None,
    least_security: float = SECURITY_BITS,
    exit_code: int | None = None,
    public_input: Path | bytes | None = None,
    tree_wires: int | None = None,
) -> VerifiedAggregate:
    """Verify all jobs of an aggregate. `distprove.api.verify_aggregate` describes the parameters and errors."""
    begin = time.perf_counter()
    if vks and program is not None:
        raise UsageError("verification keys and a program exclude each other")
    digests = [job.job_digest for job in aggregate.jobs]
    if expected_jobs is not None and sorted(expected_jobs) != sorted(digests):
        raise InvalidProof("the aggregate is of other jobs than those expected")
    each = trusted(aggregate.jobs, read_keys(vks), program)
    verifiers = [own.verifier for own in each]
    layers = verify_aggregate(aggregate, verifiers, MAKERS, tree_wires)
    said = explained(aggregate, verifiers, layers)
    if not said.bits >= least_security:
        raise InvalidProof(
            f"the proof holds, with {format_bits(said.bits)} proven bits of security ({said.weakest}); "
            f"{least_security:g} are asked for"
        )
    _compare(aggregate, verifiers, exit_code, public_input)
    seconds = time.perf_counter() - begin
    jobs = tuple(
        Verified(
            system=job.system,
            job_digest=job.job_digest,
            job_expected=expected_jobs is not None,
            key_digest=job.key_digest,
            key_given=bool(own.vk),
            own_program=own.program,
            partitions=len(job.partitions),
            seconds=seconds,
            proven=proven,
        )
        for job, own, proven in zip(aggregate.jobs, each, said.jobs, strict=True)
    )
    return VerifiedAggregate(jobs, tuple(each), said, seconds)


def _compare(
    aggregate: StarkAggregate,
    verifiers: Sequence[StarkVerifier],
    exit_code: int | None,
    public_input: Path | bytes | None,
) -> None:
    """Compare the jobs' exit codes, where they state one, and the public input of one job with the given ones. Raises
    InvalidProof, which names the job, and UsageError where no job, or for an input several, can be compared."""
    states = [v.key.statement.exit_code([p.public for p in job.partitions]) for v, job in _each(verifiers, aggregate)]
    if exit_code is not None and all(code is None for code in states):
        raise UsageError("an exit code is given, and none of the jobs states one")
    takes = [v.program is not None and "public" in v.program.compared for v in verifiers]
    if public_input is not None and sum(takes) != 1:
        raise UsageError(f"a public input is given, and {sum(takes)} of the jobs are compared with one, not 1")
    for number, (verifier, job) in enumerate(_each(verifiers, aggregate)):
        code = None if states[number] is None else exit_code
        with naming_job(number + 1):
            verifier.compare(job.partitions, code, public_input if takes[number] else None)


def _each(verifiers: Sequence[StarkVerifier], aggregate: StarkAggregate) -> list[tuple[StarkVerifier, Proof]]:
    return list(zip(verifiers, aggregate.jobs, strict=True))
