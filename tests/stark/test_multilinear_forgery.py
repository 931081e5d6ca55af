"""A false sum over a global bus of the multilinear engine, forged with far fewer nonces than the bits that its key
claims, unless there are anchors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.field import ZERO, Words
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.security import Decoding, job_security
from distprove.stark.multilinear.shape import Shape
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from tests.support.bus_forgery import NUMBERS, PARTITIONS, Halfway, Lookup, imbalance
from tests.support.multilinear_forgery import MultilinearForger, without_anchors
from tests.support.multilinear_jobs import prove_program

LOG_ROWS = 8
CLAIMED = 1000
"""Not in the table, which has 256 numbers."""
PARAMS = Parameters(3, 0, (17,), 0, 25, log_final=4)


@pytest.fixture
def backend() -> Iterator[Backend]:
    with CpuBackend(threads=1) as backend:
        yield backend


def test_the_statement_that_is_forged() -> None:
    """It holds of a number in the table, and of no other number for a prover who does what all others do."""
    prove_program(Lookup(5, LOG_ROWS), partitions=2, params=PARAMS).check()
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        prove_program(Lookup(CLAIMED, LOG_ROWS), partitions=2, params=PARAMS).check()


def test_without_anchors_a_false_balance_costs_far_less_than_the_key_claims(backend: Backend) -> None:
    """A main root leaves each partition two columns, and 192 partitions meet any balance: why every key has anchors.
    Should this forgery fail, the next test would show nothing."""
    program = Lookup(CLAIMED, LOG_ROWS)
    with without_anchors():
        pk = make_key(program, PARAMS, backend)
        forger = MultilinearForger(pk, program)
        job, choices = forger.forge()
        job.check()
        claimed = job_security(pk.key, [(LOG_ROWS,)] * PARTITIONS)

    # The number is looked up once and offered by nobody, so that the columns of these proofs do not balance: their sum
    # vanishes at the job's challenge, and nowhere else.
    net, number = forger.net_multiplicities(choices), pk.key.bus_numbers[NUMBERS.name]
    assert net[CLAIMED] == 1
    challenge = job.proofs[0].data["challenge"]
    assert imbalance(net, number, *forger.global_challenges(challenge)) == ZERO
    assert all(imbalance(net, number, *forger.global_challenges(bytes([i]) * 32)) != ZERO for i in range(8))

    # Each partition needs what unique decoding says, on average, and all of them together a tenth of what is claimed.
    assert claimed.bits >= PARAMS.security_bits
    assert claimed.regime.startswith("Johnson")
    (first,) = Shape(pk.key, (LOG_ROWS,)).rounds
    unique = Decoding(first, None).query_bits * first.queries
    assert math.log2(forger.nonces) < claimed.bits - 3
    assert math.log2(forger.nonces / PARTITIONS) < unique + 1


AS_IF: dict[str, Callable[[Halfway], Words]] = {
    "without d": lambda part: part.columns[0],
    "with d": lambda part: part.columns[1],
    "the mean": Halfway.mean,
}


@pytest.mark.parametrize("as_if", AS_IF)
def test_an_anchor_leaves_a_partition_one_of_its_columns(backend: Backend, as_if: str) -> None:
    """Whichever column a partition commits as, before the challenge: the other one is refused after it."""
    program = Lookup(CLAIMED, LOG_ROWS)
    pk = make_key(program, PARAMS, backend)
    forger = MultilinearForger(pk, program)
    anchored = [AS_IF[as_if](part) for part in forger.partitions]
    committed, challenge = forger.challenge(anchored)
    choices = forger.choices(challenge)
    for i in (choices.index(0), choices.index(1)):
        part, choice = forger.partitions[i], choices[i]
        proof = forger.prove(i, choice, committed[i], challenge)
        own = forger.job([], (proof,))
        if np.array_equal(part.columns[choice], anchored[i]):
            own.check_partition(0)
        else:
            with pytest.raises(InvalidProof, match="not those of the stacked columns"):
                own.check_partition(0)
