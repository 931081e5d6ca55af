"""Quotients of a prover's tables: all constraints folded, divided by x^n - 1, cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distprove.stark.air import CompiledAir
from distprove.stark.challenges import quotient_cosets
from distprove.stark.extension import Extender, Extension, on_cosets
from distprove.stark.field import P, Words
from distprove.stark.proving_key import copied
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import RowJob


@dataclass(frozen=True)
class Folded:
    """A table whose constraints are to be folded."""

    air: CompiledAir
    log_height: int
    extensions: Sequence[Extension | None]
    """Extensions of its columns, one for each round."""
    scalars: Words
    """The scalars of the constraint program, from `logup.constraint_scalars`."""

    @property
    def chunks(self) -> int:
        """Number of chunks of the quotient, a power of two."""
        return self.air.quotient_chunks


def folded_constraints(
    backend: Backend, extender: Extender, log_blowup: int, tables: Sequence[Folded]
) -> list[list[Array]]:
    """Fold the constraints of each table and divide them by x^n - 1, on the cosets of its quotient's chunks.

    Each array, (3, chunks, n), holds the chunks whose cosets the extensions have in memory together, in order.
    """
    kernels = backend.goldilocks
    selectors = [
        kernels.selectors(t.log_height, log_blowup, t.chunks.bit_length() - 1)
        if t.air.reads_selectors
        else backend.empty((3, t.chunks, 1 << t.log_height))
        for t in tables
    ]
    shifts = [quotient_cosets(t.log_height, log_blowup, t.chunks) for t in tables]
    # x^n - 1 is constant on each coset that holds a chunk.
    vanishing = [[pow(shift, 1 << t.log_height, P) - 1 for shift in own] for t, own in zip(tables, shifts, strict=True)]
    factors = [np.array([pow(v, -1, P) for v in values], dtype=np.uint64) for values in vanishing]
    parts = [extender.parts(t.chunks) for t in tables]
    evaluations: list[list[Array]] = [[] for _ in tables]
    for step in range(max(map(len, parts))):
        here = {i: parts[i][step] for i in range(len(tables)) if step < len(parts[i])}
        on_cosets(
            kernels, [(e, coset) for i, (coset, _) in here.items() for e in tables[i].extensions if e is not None]
        )
        jobs = []
        for i, (coset, chunks) in here.items():
            table, whole = tables[i], len(chunks) == tables[i].chunks
            columns = [None if e is None else e.on(coset) for e in table.extensions]
            selected = selectors[i] if whole else copied(backend, selectors[i][:, chunks.start : chunks.stop])
            jobs.append(
                RowJob(
                    table.air.constraints,
                    [*columns, selected],
                    table.scalars,
                    len(chunks).bit_length() - 1,
                    factors[i][chunks.start : chunks.stop],
                )
            )
        for i, made in zip(here, kernels.evaluate_all(jobs), strict=True):
            evaluations[i].append(made)
    return [made[::-1] for made in evaluations]


def extend_quotients(
    backend: Backend,
    extender: Extender,
    log_blowup: int,
    tables: Sequence[Folded],
    evaluations: Sequence[Sequence[Array]],
) -> list[Extension]:
    """Extend the tables' quotients, given as the evaluations that `folded_constraints` returned."""
    shifts = [quotient_cosets(table.log_height, log_blowup, table.chunks) for table in tables]
    chunks = [
        [
            part.reshape(3, -1) if part.shape[1] == 1 else copied(backend, part[:, t])
            for part in made
            for t in range(part.shape[1])
        ]
        for made in evaluations
    ]
    return extender.extend_chunks(list(zip(chunks, shifts, strict=True)))
