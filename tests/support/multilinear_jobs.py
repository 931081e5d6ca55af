"""Whole jobs under the multilinear engine, proven on the CPU, for tests that then change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from distprove.formats import canonical
from distprove.stark.example import cut, read_inputs
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import Committed, commit, prove
from distprove.stark.multilinear.proving_key import MultilinearProvingKey, make_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.multilinear.verifier import verify
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.steps import Steps
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class MultilinearJob:
    """A proven job: its key, and each partition's proof as it stands in a file."""

    key: MultilinearKey
    proofs: tuple[PartitionProof, ...]
    output: bytes | None = None

    def check(self) -> None:
        """Raise InvalidProof or FormatError unless every partition and the job verify."""
        for number in range(len(self.proofs)):
            self.check_partition(number)
        self.check_job()

    def check_partition(self, number: int) -> None:
        proof = self.proofs[number]
        parsed, shape = MultilinearProof.from_record(proof.data, self.key, proof.name)
        verify(self.key, proof.name, proof.public, parsed, shape)

    def check_job(self) -> None:
        StarkVerifier(self.key, output=self.output).verify_job(self.proofs)

    def with_record(self, number: int, record: Mapping[str, Any]) -> MultilinearJob:
        """The job with another proof of one partition."""
        changed = replace(self.proofs[number], data=dict(record))
        return replace(self, proofs=(*self.proofs[:number], changed, *self.proofs[number + 1 :]))


def prove_program(
    name: str | Program, arguments: Mapping[str, int | str] | None = None, *, partitions: int | None = 1, **given: Any
) -> MultilinearJob:
    """Prove a job of a program. `given` are options of `choose_parameters`, or `params` in their place, and the
    `backend`, by default the CPU."""
    program = load_program(name, dict(arguments or {})) if isinstance(name, str) else name
    made = cut(program, partitions)
    params: Parameters | None = given.pop("params", None)
    backend: Backend | None = given.pop("backend", None)
    if params is None:
        params = choose_parameters(program, len(made.slices), known=made.log_heights, **{"grinding": 4, **given})
    with CpuBackend() if backend is None else nullcontext(backend) as device:
        pk = make_key(program, params, device)
        committed = [commit(pk, s.name, read_inputs(program, s.source), Steps()) for s in made.slices]
        return prove_committed(pk, committed, made.output)


def prove_committed(
    pk: MultilinearProvingKey, committed: Sequence[Committed], output: bytes | None = None
) -> MultilinearJob:
    """Prove committed partitions as one job."""
    challenge = multilinear_job_challenge(pk.key, [c.commitment for c in committed], output)
    proofs = []
    for c in committed:
        record = canonical.decode(canonical.encode(prove(pk, c, challenge, Steps()).to_record()), "proof")
        proofs.append(PartitionProof(c.commitment.name, bytes(32), c.commitment.public, record))
    return MultilinearJob(pk.key, tuple(proofs), output)
