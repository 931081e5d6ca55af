"""Reads and writes `.r1cs` files: a circuit's constraints (circom, version 1, iden3's r1csfile specification).

    section 1   n8 u32 | prime | wires u32 | outputs u32 | public inputs u32 | private inputs u32 | labels u64
                | constraints u32
    section 2   per constraint three linear combinations A, B, C, with A(w) B(w) = C(w):
                count u32, then count times: wire u32 | coefficient (n8 bytes, canonical, not Montgomery)
    section 3   per wire the number of its signal before simplification, u64 (may be missing)
    section 4   custom gates, section 5 their uses: PLONK only, refused

Wires are ordered: the constant 1, outputs, public inputs, private inputs, the rest.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError, InputError
from distprove.groth16.binfile import BinFile, BinFileWriter, SectionReader, Source
from distprove.groth16.csr import row_range
from distprove.groth16.elements import dictionary, first_not_canonical
from distprove.groth16.field_headers import curve_of_scalar_field
from kernels.cpu.fields import from_montgomery, to_montgomery
from kernels.host.units import count_of
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Field

VERSION = 1
_MAX_ENTRIES = 1 << 32


@dataclass(frozen=True)
class Counts:
    """The curve of a circuit, and how many wires it has of each kind."""

    curve: Curve = field(repr=False)
    n_vars: int
    """Number of wires, the constant 1 included."""
    n_outputs: int
    n_public_inputs: int
    n_private_inputs: int

    @property
    def n_public(self) -> int:
        """Number of public wires, without the constant 1."""
        return self.n_outputs + self.n_public_inputs


@dataclass(frozen=True)
class R1cs(Counts):
    """A rank-1 constraint system: (a w) * (b w) = c w, elementwise. Matrices are n_constraints x n_vars."""

    a: CsrMatrix = field(repr=False)
    b: CsrMatrix = field(repr=False)
    c: CsrMatrix = field(repr=False)
    n_labels: int = 0
    """Number of signals before simplification; 0 means as many as wires."""
    wire_labels: NDArray[np.uint64] | None = field(default=None, repr=False)
    """Each wire's signal before simplification, (n_vars,); None means the wire's own number."""
    name: str | None = field(default=None, repr=False, compare=False)
    """The file that it was read from, if it was."""

    @property
    def n_constraints(self) -> int:
        return self.a.rows

    def first_unsatisfied(self, witness: NDArray[np.uint64], backend: Backend) -> int | None:
        """The first constraint that a witness, (n_vars, limbs) canonical integers, does not satisfy; None if it
        satisfies all."""
        fr, sparse, w = self.curve.fr, backend.sparse, backend.to_device(witness)
        a, b, c = (sparse.spmv(sparse.load_matrix(fr, m), w, standard_form=True) for m in (self.a, self.b, self.c))
        wrong = np.flatnonzero(backend.to_host(backend.vectors.mul_sub(fr, a, b, c)).any(axis=1))
        return int(wrong[0]) if wrong.size else None


@dataclass(frozen=True)
class R1csFile(Counts):
    """A mapped `.r1cs` file whose header was checked. Its constraints are read when they are asked for."""

    n_labels: int
    n_constraints: int
    file: BinFile = field(repr=False)

    @property
    def most_entries(self) -> int:
        """An upper bound of the entries of the three matrices together, by the size of their section."""
        return self.file.section(2, "constraints").remaining // (4 + self.curve.fr.bytes)

    def read(self) -> R1cs:
        """Read the constraints. Raises FormatError.

        The three matrices share one dictionary of values, in Montgomery form. Reading 2^20 constraints takes a second.
        """
        section = self.file.section(2, "constraints")
        a, b, c = _read_constraints(section, self.curve.fr, self.n_constraints, self.n_vars)
        counts = {each.name: getattr(self, each.name) for each in fields(Counts)}
        labels = _read_labels(self.file, self.n_vars)
        return R1cs(**counts, a=a, b=b, c=c, n_labels=self.n_labels, wire_labels=labels, name=self.file.name)


def read_r1cs(source: Source, *, name: str | None = None) -> R1cs:
    """Read a `.r1cs` file. Raises FormatError, or InputError when it cannot be read."""
    return open_r1cs(source, name=name).read()


def open_r1cs(source: Source, *, name: str | None = None) -> R1csFile:
    """Map a `.r1cs` file and read its header. Raises FormatError, or InputError when it cannot be read."""
    file = BinFile.read(source, "r1cs", (VERSION,), name=name)
    header = file.section(1, "header")
    curve = curve_of_scalar_field(header)
    n_vars, n_outputs, n_public_inputs, n_private_inputs = (header.u32() for _ in range(4))
    n_labels, n_constraints = header.u64(), header.u32()
    header.finish()
    if n_outputs + n_public_inputs >= n_vars:
        raise FormatError(
            f"{file.name}: {count_of(n_outputs + n_public_inputs, 'public wire')}, too many for "
            f"{count_of(n_vars, 'wire')}"
        )
    if n_vars > file.data.shape[0]:
        # Set-up allocates by this number; without section 3 nothing else in the file bounds it.
        raise FormatError(
            f"{file.name}: {count_of(n_vars, 'wire')} in a file of {count_of(file.data.shape[0], 'byte')}"
        )
    for ident in (4, 5):
        if ident in file.sections and file.section(ident, "custom gates").u32():
            raise FormatError(f"{file.name}: the circuit uses custom gates, which Groth16 cannot prove")
    constraints = file.section(2, "constraints")
    if constraints.remaining % 4 or n_constraints > constraints.remaining // 12:
        raise constraints.error(
            f"{count_of(constraints.remaining, 'byte')}, which cannot hold {count_of(n_constraints, 'constraint')}"
        )
    return R1csFile(curve, n_vars, n_outputs, n_public_inputs, n_private_inputs, n_labels, n_constraints, file)


def _read_labels(file: BinFile, n_vars: int) -> NDArray[np.uint64] | None:
    if 3 not in file.sections:
        return None
    section = file.section(3, "wire labels")
    labels = section.rows(n_vars, 8)
    section.finish()
    return np.frombuffer(labels.tobytes(), dtype="<u8")


def _read_constraints(
    section: SectionReader, field: Field, rows: int, cols: int
) -> tuple[CsrMatrix, CsrMatrix, CsrMatrix]:
    raw = section.take(section.remaining)
    width = 1 + field.bytes // 4  # words of an entry
    counts, done, end = _combination_lengths(raw.data.cast("I"), 3 * rows, width)
    whole = (done - (4 * end > raw.shape[0])) // 3
    if whole < rows:
        raise section.error(f"the section holds {count_of(whole, 'whole constraint')}, not {rows}")
    if 4 * end < raw.shape[0]:
        raise section.error(
            f"{count_of(raw.shape[0] - 4 * end, 'byte follows', 'bytes follow')} the last of "
            f"{count_of(rows, 'constraint')}",
            at=4 * end,
        )

    # Without the counts the section is one table of entries, combination after combination.
    starts = np.cumsum(1 + width * counts) - (1 + width * counts)
    keep = np.ones(raw.shape[0] // 4, dtype=np.bool_)
    keep[starts] = False
    entries = raw.view("<u4")[keep].reshape(-1, width)
    del keep, starts
    wires = np.ascontiguousarray(entries[:, 0])
    if wires.shape[0] >= _MAX_ENTRIES:
        raise section.error(f"{count_of(wires.shape[0], 'entry', 'entries')}, more than the index type holds")
    if wires.shape[0] and int(wires.max()) >= cols:
        raise section.error(f"entry {int(wires.argmax())} names wire {int(wires.max())}, there are {cols}")
    distinct, index = dictionary(entries[:, 1:].view("<u8"))
    del entries
    bad = first_not_canonical(field, distinct)
    if bad is not None:
        raise section.error(f"the coefficient of entry {int(np.argmax(index == bad))} is not below the prime")
    values = to_montgomery(field, distinct)
    side = np.repeat(np.tile(np.arange(3, dtype=np.uint8), rows), counts)

    def matrix(which: int) -> CsrMatrix:
        mine = side == which
        row_ptr = np.zeros(rows + 1, dtype=np.uint32)
        np.cumsum(counts[which::3], out=row_ptr[1:])
        return CsrMatrix(rows, cols, row_ptr, wires[mine], index[mine], values)

    return matrix(0), matrix(1), matrix(2)


def _combination_lengths(words: memoryview, combinations: int, width: int) -> tuple[NDArray[np.int64], int, int]:
    """Count the entries of each linear combination: (counts, number of combinations found, word behind the last one).

    Each length gives the position of the next combination, so the walk is sequential: 0.1 to 0.2 us a combination.
    """
    counts = array("I", bytes(4 * combinations))
    done = position = 0
    try:
        for done in range(combinations):
            count = words[position]
            counts[done] = count
            position += 1 + width * count
        done = combinations
    except IndexError:
        pass  # `done` is the combination that begins past the end
    return np.frombuffer(counts, dtype=np.uint32).astype(np.int64), done, position


def write_r1cs(path: str | os.PathLike[str], r1cs: R1cs) -> None:
    """Write a `.r1cs` file as circom does. Raises InputError when the matrices' sizes do not agree."""
    matrices = (r1cs.a, r1cs.b, r1cs.c)
    if any(m.rows != r1cs.n_constraints or m.cols > r1cs.n_vars for m in matrices):
        raise InputError(
            f"the matrices are not {count_of(r1cs.n_constraints, 'constraint')} over {count_of(r1cs.n_vars, 'wire')}"
        )
    labels = r1cs.wire_labels if r1cs.wire_labels is not None else np.arange(r1cs.n_vars, dtype=np.uint64)
    if labels.shape != (r1cs.n_vars,):
        raise InputError(f"{count_of(labels.shape[0], 'label')} for {count_of(r1cs.n_vars, 'wire')}")
    with BinFileWriter(path, "r1cs", version=VERSION, sections=3) as out:
        # circom's own order of sections, so that the file is the same byte for byte.
        with out.section(2):
            for words in _constraint_words(r1cs.curve.fr, matrices):
                out.write(words)
        with out.section(1):
            out.prime(r1cs.curve.fr.modulus, r1cs.curve.fr.bytes)
            for number in (r1cs.n_vars, r1cs.n_outputs, r1cs.n_public_inputs, r1cs.n_private_inputs):
                out.u32(number)
            out.u64(r1cs.n_labels or r1cs.n_vars)
            out.u32(r1cs.n_constraints)
        with out.section(3):
            out.write(labels.astype("<u8"))


_ROWS_AT_ONCE = 1 << 16


def _constraint_words(field: Field, matrices: tuple[CsrMatrix, ...]) -> Iterator[NDArray[np.uint32]]:
    """Yield the words of section 2, some constraints at a time: the inverse of `_read_constraints`."""
    standard = [from_montgomery(field, matrix.values) for matrix in matrices]
    width = 1 + field.bytes // 4
    for first in range(0, matrices[0].rows, _ROWS_AT_ONCE):
        parts = [row_range(matrix, first, first + _ROWS_AT_ONCE) for matrix in matrices]
        n = min(_ROWS_AT_ONCE, matrices[0].rows - first)
        counts = np.stack([np.bincount(rows - first, minlength=n) for _, rows in parts], axis=1).reshape(-1)
        order = np.argsort(np.concatenate([rows for _, rows in parts]), kind="stable")
        entries = np.empty((order.shape[0], width), dtype="<u4")
        entries[:, 0] = np.concatenate([m.columns[part] for m, (part, _) in zip(matrices, parts, strict=True)])[order]
        values = np.concatenate(
            [v[m.value_index[part]] for v, m, (part, _) in zip(standard, matrices, parts, strict=True)]
        )
        entries[:, 1:] = values[order].view("<u4")
        words = np.empty(counts.shape[0] + entries.size, dtype="<u4")
        starts = np.cumsum(1 + width * counts) - (1 + width * counts)
        is_entry = np.ones(words.shape[0], dtype=np.bool_)
        is_entry[starts] = False
        words[starts] = counts
        words[is_entry] = entries.reshape(-1)
        yield words
