"""The forgery of `bus_forgery` against the multilinear engine.

A key whose univariate round is over one row has cells as coefficients: the codeword of a column is the polynomial with
these coefficients, and a query falls on a leaf of 16 points with one 16th power. So d is a product of x^16 - y over the
powers y of n / 16 - 1 leaves, times a polynomial of degree 15, and a half-way word is either column on
(1 + rho) / 2 of the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from distprove.formats import canonical
from distprove.stark.field import ZERO, P, Words
from distprove.stark.multilinear import prover, verifier
from distprove.stark.multilinear.challenges import global_challenges
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.params import LOG_FOLD
from distprove.steps import Steps
from distprove.system import PartitionProof
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import root_of_unity
from tests.support.bus_forgery import Difference, Forger, Halfway, committing_to
from tests.support.multilinear_jobs import MultilinearJob


@contextmanager
def without_anchors() -> Iterator[None]:
    """Proofs in here are of the protocol without anchors, to its prover and to its verifier: the anchor is a constant
    that no claim is about."""
    stack, weights = prover.main_stack, verifier.stacked_weights

    def main_stack(*given: Any) -> Any:
        *front, batch, eta, delta = given
        return stack(*front, np.concatenate([batch[:-1], np.zeros((1, 3), np.uint64)]), eta, delta)

    def stacked_weights(*given: Any) -> Any:
        *front, batch, eta, delta = given
        return weights(*front, [*batch[:-1], ZERO], eta, delta)

    with (
        mock.patch.object(prover, "anchor_of", return_value=ZERO),
        mock.patch.object(prover, "main_stack", main_stack),
        mock.patch.object(verifier, "stacked_weights", stacked_weights),
    ):
        yield


class MultilinearForger(Forger):
    """A `Forger` against a key of the multilinear engine."""

    def difference(self, rng: np.random.Generator) -> Difference:
        params, log_rows = self.pk.key.params, self.program.log_rows
        assert params.log_skip == 0, "cells are coefficients"
        log_points, size = log_rows + params.log_blowup, 1 << LOG_FOLD
        order = rng.permutation(1 << log_points - LOG_FOLD)
        zeros, rest = np.split(order, [(1 << log_rows) // size - 1])
        column = [int(c) for c in rng.integers(1, P, size, dtype=np.uint64)]
        for leaf in zeros.tolist():
            power = pow(root_of_unity(log_points), leaf * size, P)
            shifted = [0] * size + column
            column = [(s - power * c) % P for s, c in zip(shifted, column + [0] * size, strict=True)]
        agrees = np.zeros((2, len(order)), dtype=np.bool_)
        agrees[:, zeros] = True
        agrees[0, rest[::2]] = agrees[1, rest[1::2]] = True
        return Difference(np.array(column, dtype=np.uint64), (agrees[0], agrees[1]))

    @property
    def queries(self) -> int:
        return int(self.pk.key.params.queries[0])

    @staticmethod
    def global_challenges(challenge: bytes) -> Any:  # type: ignore[override]
        return global_challenges(challenge, TreeHash.KECCAK)

    def job_challenge(self, committed: Sequence[Any]) -> bytes:
        return multilinear_job_challenge(self.pk.key, [c.commitment for c in committed])

    def commit(self, part: Halfway, column: Words) -> Any:
        backend = self.pk.backend
        word = part.word(backend.multilinear.encode(np.stack(part.columns), self.pk.key.params.log_blowup))
        with committing_to(backend.goldilocks, word):
            return prover.commit(self.pk, part.name, {"used": column[None].copy()}, Steps())

    def opened(self, part: Halfway, column: Words, stated: Any) -> Any:
        return replace(self.commit(part, column), commitment=stated.commitment, anchor=stated.anchor)

    def prove_opened(self, opened: Any, challenge: bytes) -> PartitionProof:
        record = prover.prove(self.pk, opened, challenge, Steps()).to_record()
        data = canonical.decode(canonical.encode(record), "proof")
        return PartitionProof(opened.commitment.name, bytes(32), opened.commitment.public, data)

    def job(self, publics: Sequence[tuple[int, ...]], proofs: Sequence[PartitionProof]) -> MultilinearJob:
        return MultilinearJob(self.pk.key, tuple(proofs))
