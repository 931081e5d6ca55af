"""Provers that cheat: the real prover on the real kernels, with the pieces replaced that a test names.

A cheat recomputes everything after its forgery that a cheat can: all commitments, challenges, openings and folds are
those of the forged values. What stays wrong is what the verifier must see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from distprove.errors import DistproveError
from distprove.stark import prover
from distprove.stark.barrier import Commitment, job_challenge
from distprove.stark.field import ZERO, Ext, P, Words, e_add, e_inv, e_mul, e_sub, e_sum
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace
from distprove.stark.proof import StarkProof, TableValues
from distprove.stark.proving_key import make_key
from distprove.stark.shape import ProofShape
from distprove.stark.verifier import constraints_at, quotient_at, verify, verify_job
from distprove.stark.verifying_key import VerifyingKey
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from tests.support import second_verifier

WEAK = Parameters(log_blowup=1, queries=12, grinding_bits=4, security_bits=4, log_arity=2, log_final=1)


@dataclass(frozen=True)
class Job:
    """A job as a verifier gets it. Tests change one of its parts."""

    key: VerifyingKey
    names: list[str]
    publics: list[tuple[int, ...]]
    proofs: list[StarkProof]
    output: bytes | None = None

    def check(self) -> None:
        """As a stranger would: through the encoding, partition by partition, then the job.

        The second verifier must come to the same end, whichever it is.
        """
        try:
            self.check_partitions()
            self.check_job()
        except DistproveError:
            assert self.second_refuses()
            raise
        assert not self.second_refuses()

    def second_refuses(self) -> bool:
        parts = zip(self.names, self.publics, self.proofs, strict=True)
        try:
            second_verifier.verify_job(
                self.key.to_record(),
                [(name, list(public), proof.to_record()) for name, public, proof in parts],
                self.output,
            )
        except second_verifier.Refused:
            return True
        return False

    def check_partitions(self) -> None:
        key = VerifyingKey.from_record(self.key.to_record())
        for name, public, proof in zip(self.names, self.publics, self.proofs, strict=True):
            read, shape = StarkProof.from_record(proof.to_record(), key)
            verify(key, name, public, read, shape)

    def check_job(self) -> None:
        verify_job(self.key, self.names, self.publics, self.proofs, self.output)

    def choose(self, order: Sequence[int]) -> Job:
        """The partitions of these numbers, in this order, without proving again."""
        return replace(
            self,
            names=[self.names[i] for i in order],
            publics=[self.publics[i] for i in order],
            proofs=[self.proofs[i] for i in order],
        )

    @property
    def commitments(self) -> list[Commitment]:
        parts = zip(self.names, self.publics, self.proofs, strict=True)
        return [proof.commitment(name, public) for name, public, proof in parts]


def prove_job(
    program: Program,
    partitions: int = 1,
    params: Parameters = WEAK,
    *,
    order: Sequence[int] | None = None,
    rename: Callable[[int, str], str] = lambda index, name: name,
    tamper: Callable[[int, Trace], Trace] = lambda index, trace: trace,
    kernels: Callable[[Any], None] = lambda kernels: None,
) -> Job:
    """Prove the slices `order` (all by default) of a job of `partitions` as one job of their own.

    `tamper` gets each trace and its place before it is committed to; `kernels` may replace methods of the kernels.
    """
    with CpuBackend(threads=1) as backend:
        pk = make_key(program, params, backend)
        kernels(backend.goldilocks)
        slices = program.slices(partitions)
        chosen = [slices[i] for i in (range(partitions) if order is None else order)]
        committed = []
        for index, part in enumerate(chosen):
            with tampered_trace(program, lambda trace, index=index: tamper(index, trace)):
                committed.append(prover.commit(pk, rename(index, part.name), program.inputs(part.source), Steps()))
        challenge = job_challenge(pk.key.digest, [c.commitment for c in committed])
        proofs = [prover.prove(pk, c, challenge, Steps()) for c in committed]
    return Job(pk.key, [c.commitment.name for c in committed], [c.commitment.public for c in committed], proofs)


@contextmanager
def tampered_trace(program: Program, change: Callable[[Trace], Trace]) -> Iterator[None]:
    honest = program.trace

    def trace(inputs: Any, backend: Backend) -> Trace:
        return change(honest(inputs, backend))

    with mock.patch.object(program, "trace", trace):
        yield


@contextmanager
def quotient_values_that_fit() -> Iterator[None]:
    """Quotient values at zeta that satisfy every table's equation, whether there is such a polynomial or not."""
    used: list[Words] = []
    honest_scalars, honest_values = prover.logup.constraint_scalars, prover.out_of_domain_values

    def scalars(*args: Any, **kwargs: Any) -> Words:
        used.append(honest_scalars(*args, **kwargs))
        return used[-1]

    def values(pk: Any, shape: ProofShape, groups: Any, quotients: Any, zeta: Ext) -> tuple[TableValues, ...]:
        given = list(honest_values(pk, shape, groups, quotients, zeta))
        for i, value in enumerate(given):
            proof = mock.Mock(values=given)
            wanted, reached = constraints_at(shape, i, proof, used[i], zeta), quotient_at(shape, i, proof, zeta)
            # The equation is linear in the first chunk's value; its factor is what one more makes of the right side.
            more = value.quotient.copy()
            more[0] = e_add(as_ext(more[0]), (1, 0, 0))
            given[i] = replace(value, quotient=more)
            factor = e_sub(quotient_at(shape, i, proof, zeta), reached)
            fitting = value.quotient.copy()
            fitting[0] = e_add(as_ext(fitting[0]), e_mul(e_sub(wanted, reached), e_inv(factor)))
            given[i] = replace(value, quotient=fitting)
        return tuple(given)

    with (
        mock.patch.object(prover.logup, "constraint_scalars", scalars),
        mock.patch.object(prover, "out_of_domain_values", values),
    ):
        yield


@contextmanager
def forged_logup(change: Callable[[int, Words, list[Ext | None]], None]) -> Iterator[None]:
    """Let `change` alter each table's auxiliary columns and terminals [local, global], in place."""
    honest = prover.logup_columns

    def columns(pk: Any, *rest: Any) -> Any:
        made, terminals = honest(pk, *rest)
        changed = []
        for i, (aux, pair) in enumerate(zip(made, terminals, strict=True)):
            altered = list(pair)
            if aux is not None:
                change(i, aux, altered)
            changed.append(tuple(altered))
        return made, changed

    with mock.patch.object(prover, "logup_columns", columns):
        yield


@contextmanager
def balanced_by_the_last(scope: int) -> Iterator[None]:
    """The last table with buses of this scope (0 local, 1 global) claims the terminal that makes their sum zero."""
    honest = prover.logup_columns

    def columns(pk: Any, *rest: Any) -> Any:
        made, terminals = honest(pk, *rest)
        pairs = [list(pair) for pair in terminals]
        mine = [pair for pair in pairs if pair[scope] is not None]
        mine[-1][scope] = e_sub(ZERO, e_sum([pair[scope] for pair in mine[:-1]]))
        return made, [tuple(pair) for pair in pairs]

    with mock.patch.object(prover, "logup_columns", columns):
        yield


def as_ext(words: Words) -> Ext:
    a, b, c = (int(v) for v in words)
    return a, b, c


def plus_one(words: Words, place: Any) -> None:
    """Add 1 to one element, modulo p."""
    words[place] = np.uint64((int(words[place]) + 1) % P)
