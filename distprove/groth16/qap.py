"""Turns an R1CS into the quadratic arithmetic program (QAP) that the key commits to, by snarkjs' conventions.

Row i of A, B and C belongs to the domain's point w^i. After the constraints, A has one more row for the constant and
for each public wire, which holds that wire alone. These rows make the wires' polynomials linearly independent, so that
public inputs cannot be exchanged between proofs. The domain is the smallest power of two that holds all these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from distprove.errors import InputError
from distprove.groth16.r1cs import R1cs
from kernels.host.units import count_of
from kernels.interface.matrix import CsrMatrix
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Curve, Field
from kernels.maths.encoding import field_from_ints

M = TypeVar("M", CsrMatrix, TemplatedMatrix)


@dataclass(frozen=True)
class Program(Generic[M]):
    """The matrices of a program, with `domain_size` rows and `n_vars` columns each."""

    curve: Curve
    n_vars: int
    n_public: int
    log_domain: int
    a: M
    b: M
    c: M

    @property
    def domain_size(self) -> int:
        return 1 << self.log_domain


class Qap(Program[CsrMatrix]):
    """The program of a circuit, every row in memory."""

    @classmethod
    def from_r1cs(cls, r1cs: R1cs) -> Qap:
        """Make the program of a circuit. Raises InputError if its domain is too large for the scalar field."""
        n_public = r1cs.n_public
        log_domain = log_domain_of(r1cs.curve, r1cs.n_constraints, n_public)
        rows = 1 << log_domain
        return cls(
            r1cs.curve,
            r1cs.n_vars,
            r1cs.n_public,
            log_domain,
            _with_identity(r1cs, r1cs.n_public + 1, rows),
            _padded(r1cs.b, rows),
            _padded(r1cs.c, rows),
        )

    @classmethod
    def of_constraints_alone(cls, r1cs: R1cs) -> Qap:
        """The program of a circuit without rows for public wires, as gnark has it. Raises InputError as `from_r1cs`.

        Without these rows a public wire that occurs in no constraint may have any value. Its point of IC is infinity
        then, which a `VerificationKey` refuses."""
        log_domain = log_domain_of(r1cs.curve, max(0, r1cs.n_constraints - 1), 0)
        padded = (_padded(matrix, 1 << log_domain) for matrix in (r1cs.a, r1cs.b, r1cs.c))
        return cls(r1cs.curve, r1cs.n_vars, r1cs.n_public, log_domain, *padded)

    def with_roots_of(self, generator: int) -> Qap:
        """This program with row i at the point w^i for another root of unity w, a power of `generator`.

        Provers transform with the field's own root, so the rows are put in the places where those points are there.
        """
        factor = spread_of_roots(self.curve.fr, generator, self.log_domain)
        a, b, c = (matrix.spread_rows(factor) for matrix in (self.a, self.b, self.c))
        return Qap(self.curve, self.n_vars, self.n_public, self.log_domain, a, b, c)


def spread_of_roots(fr: Field, generator: int, log_domain: int) -> int:
    """The number k for which the domain's root of unity that is a power of `generator` is the k-th power of the field's
    own: row i of a program by that root is row i k of one by ours."""
    n = 1 << log_domain
    root, own = pow(generator, (fr.modulus - 1) >> log_domain, fr.modulus), fr.root_of_unity(log_domain)
    power = 0  # own^power = root, found from the lowest bit up
    for bit in range(log_domain):
        rest = root * pow(own, -power, fr.modulus) % fr.modulus
        power |= (pow(rest, n >> (bit + 1), fr.modulus) != 1) << bit
    return power


def log_domain_of(curve: Curve, constraints: int, n_public: int) -> int:
    """The logarithm of the domain's size. Raises InputError for one that is too large for the scalar field."""
    log_domain = (constraints + n_public).bit_length()
    # The H basis needs roots of unity of twice the domain's order.
    if log_domain + 1 > curve.fr.two_adicity:
        raise InputError(
            f"{count_of(constraints, 'constraint needs', 'constraints need')} a domain of 2^{log_domain};"
            f" {curve.title} allows up to 2^{curve.fr.two_adicity - 1}"
        )
    return log_domain


def _padded(matrix: CsrMatrix, rows: int) -> CsrMatrix:
    """Add empty rows to `matrix` up to `rows` rows."""
    last = np.full(rows - matrix.rows, matrix.row_ptr[-1], dtype=np.uint32)
    row_ptr = np.concatenate([matrix.row_ptr, last])
    return CsrMatrix(rows, matrix.cols, row_ptr, matrix.columns, matrix.value_index, matrix.values)


def _with_identity(r1cs: R1cs, count: int, rows: int) -> CsrMatrix:
    """The matrix A with `count` more rows, of which row k holds wire k alone, padded to `rows` rows."""
    a = r1cs.a
    one = np.full(count, a.values.shape[0], dtype=np.uint32)
    extended = CsrMatrix(
        a.rows + count,
        a.cols,
        np.concatenate([a.row_ptr, a.row_ptr[-1] + np.arange(1, count + 1, dtype=np.uint32)]).astype(np.uint32),
        np.concatenate([a.columns, np.arange(count, dtype=np.uint32)]),
        np.concatenate([a.value_index, one]),
        np.concatenate([a.values, field_from_ints(r1cs.curve.fr, [1])]),
    )
    return _padded(extended, rows)


def stacked(matrices: Sequence[CsrMatrix]) -> CsrMatrix:
    """Stack matrices with the same number of columns, one below the other."""
    entries = np.cumsum([0, *(m.nnz for m in matrices)])
    distinct = np.cumsum([0, *(m.values.shape[0] for m in matrices)])
    row_ptr = [m.row_ptr[1:] + np.uint32(first) for m, first in zip(matrices, entries, strict=False)]
    index = [m.value_index + np.uint32(first) for m, first in zip(matrices, distinct, strict=False)]
    return CsrMatrix(
        sum(m.rows for m in matrices),
        matrices[0].cols,
        np.concatenate([np.zeros(1, dtype=np.uint32), *row_ptr]),
        np.concatenate([m.columns for m in matrices]),
        np.concatenate(index),
        np.concatenate([m.values for m in matrices]),
    )
