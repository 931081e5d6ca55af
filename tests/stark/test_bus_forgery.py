"""A false sum over a global bus, forged with far fewer nonces than the bits that its key claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.barrier import global_challenges
from distprove.stark.field import ZERO, Words
from distprove.stark.params import Parameters
from distprove.stark.proof import StarkProof
from distprove.stark.proving_key import make_key
from distprove.stark.security import job_security
from distprove.stark.verifier import verify
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from tests.support.bus_forgery import NUMBERS, PARTITIONS, Forger, Halfway, Lookup, imbalance, without_anchors
from tests.support.cheats import prove_job

CLAIMED = 1000
"""Not in the table, which has 64 numbers."""
PARAMS = Parameters(log_blowup=3, queries=17, grinding_bits=0, security_bits=25, log_final=3)


@pytest.fixture
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=1) as backend:
        yield backend


def test_the_statement_that_is_forged() -> None:
    """It holds of a number in the table, and of no other number for a prover who does what all others do."""
    prove_job(Lookup(5), 2, PARAMS).check()
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        prove_job(Lookup(CLAIMED), 2, PARAMS).check()


def test_without_anchors_a_false_balance_costs_far_less_than_the_key_claims(backend: Backend) -> None:
    """A main root leaves each partition two columns, and 192 partitions meet any balance: why keys with a global bus
    have anchors. Should this forgery fail, the next test would show nothing.
    """
    program = Lookup(CLAIMED)
    with without_anchors():
        pk = make_key(program, PARAMS, backend)
        forger = Forger(pk, program)
        job, choices = forger.forge()
        job.check_partitions()
        job.check_job()
        claimed = job_security(pk.key, [proof.log_heights for proof in job.proofs])

    # The number is looked up once and offered by nobody, so that the columns of these proofs do not balance: their sum
    # vanishes at the job's challenge, and nowhere else.
    net, number = forger.net_multiplicities(choices), pk.key.bus_numbers[NUMBERS.name]
    assert net[CLAIMED] == 1
    z, beta = global_challenges(job.proofs[0].challenge)
    assert imbalance(net, number, z, beta) == ZERO
    assert all(imbalance(net, number, *global_challenges(bytes([i]) * 32)) != ZERO for i in range(8))

    # Each partition needs what unique decoding says, on average, and all of them together a tenth of what is claimed.
    assert claimed.bits >= PARAMS.security_bits
    assert claimed.regime.name.startswith("Johnson")
    assert math.log2(forger.nonces) < claimed.bits - 3
    assert math.log2(forger.nonces / PARTITIONS) < claimed.unique_decoding_bits + 1


AS_IF: dict[str, Callable[[Halfway], Words]] = {
    "without d": lambda part: part.columns[0],
    "with d": lambda part: part.columns[1],
    "the mean": Halfway.mean,
}


@pytest.mark.parametrize("as_if", AS_IF)
def test_an_anchor_leaves_a_partition_one_of_its_columns(backend: Backend, as_if: str) -> None:
    """Whichever column a partition commits as, before the challenge: the other one is refused after it."""
    program = Lookup(CLAIMED)
    pk = make_key(program, PARAMS, backend)
    forger = Forger(pk, program)
    anchored = [AS_IF[as_if](part) for part in forger.partitions]
    committed, challenge = forger.challenge(anchored)
    choices = forger.choices(challenge)
    tried = [choices.index(0), choices.index(1)]
    for i in tried:
        part, choice = forger.partitions[i], choices[i]
        proof = forger.prove(i, choice, committed[i], challenge)
        read, shape = StarkProof.from_record(proof.to_record(), pk.key)
        if np.array_equal(part.columns[choice], anchored[i]):
            verify(pk.key, part.name, (CLAIMED,), read, shape)
        else:
            with pytest.raises(InvalidProof, match="folding of FRI"):
                verify(pk.key, part.name, (CLAIMED,), read, shape)
