"""Constraint systems whose repeated parts are stored once, and the programs (QAP) of their keys."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from distprove.groth16.qap import Program, log_domain_of, spread_of_roots
from distprove.groth16.r1cs import Counts, R1cs
from kernels.interface.templated import RowTemplate, TemplatedMatrix, TemplatedRows
from kernels.maths.encoding import field_from_ints


@dataclass(frozen=True)
class TemplatedSystem(Counts):
    """A rank-1 constraint system as `R1cs`, with matrices of placed templates."""

    a: TemplatedMatrix
    b: TemplatedMatrix
    c: TemplatedMatrix

    @property
    def n_constraints(self) -> int:
        return self.a.rows

    def r1cs(self) -> R1cs:
        """The same system with every row in memory."""
        counts = {each.name: getattr(self, each.name) for each in fields(Counts)}
        return R1cs(**counts, a=self.a.csr(), b=self.b.csr(), c=self.c.csr())


class TemplatedQap(Program[TemplatedMatrix]):
    """The program of a circuit, its repeated rows stored once."""

    @classmethod
    def from_system(cls, system: TemplatedSystem) -> TemplatedQap:
        """Make the program of a circuit. Raises InputError if its domain is too large for the scalar field."""
        log_domain = log_domain_of(system.curve, system.a.rows, system.n_public)
        a, b, c = (replace(matrix, rows=1 << log_domain) for matrix in (system.a, system.b, system.c))
        count = system.n_public + 1
        index = np.full(count, len(a.values), dtype=np.uint32)
        identity = RowTemplate(np.arange(count + 1, dtype=np.uint32), _named(a, count), index)
        part = TemplatedRows.stacked(identity, np.empty((0, 2), dtype=np.int64)).below(a.filled, a.nnz)
        one = field_from_ints(system.curve.fr, [1])
        a = replace(a, parts=(*a.parts, part), values=np.concatenate([a.values, one]))
        return cls(system.curve, system.n_vars, system.n_public, log_domain, a, b, c)

    def with_roots_of(self, generator: int) -> TemplatedQap:
        """As `Qap.with_roots_of`."""
        factor = spread_of_roots(self.curve.fr, generator, self.log_domain)
        a, b, c = (replace(matrix, spread=factor) for matrix in (self.a, self.b, self.c))
        return TemplatedQap(self.curve, self.n_vars, self.n_public, self.log_domain, a, b, c)


def _named(matrix: TemplatedMatrix, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The numbers by which parts name the first `count` columns."""
    if matrix.position is None:
        return np.arange(count, dtype=np.uint32)
    named = np.flatnonzero(matrix.position < count)
    leading = np.empty(count, dtype=np.uint32)
    leading[matrix.position[named]] = named
    return leading
