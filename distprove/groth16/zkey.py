"""Reads and writes `.zkey` files: Groth16 proving keys (version 1; layout in snarkjs' zkey_utils.js and zkey_new.js).

    section 1   protocol u32 (1 is Groth16)
    section 2   n8q u32 | q | n8r u32 | r | wires u32 | public u32 | domain size u32
                | alpha1 | beta1 | beta2 | gamma2 | delta1 | delta2
    section 3   IC, public + 1 points of G1: the public wires' commitments, wire 0 first
    section 4   count u32, then entries of A and B: matrix u32 (0 is A, 1 is B) | constraint u32 | wire u32 | value
    section 5   A, a point of G1 per wire          section 6   B1, a point of G1 per wire
    section 7   B2, a point of G2 per wire         section 8   C, a point of G1 per private wire
    section 9   H, domain-size points of G1, in the Lagrange basis of the odd coset
    section 10  the phase-2 ceremony: circuit hash (64 bytes) | count u32 | contributions

Points are affine, coordinates in Montgomery form, all zero for infinity. The values of section 4 are multiplied by R^2
(R = 2^256), once more than Montgomery form, so that one Montgomery product with a canonical witness yields Montgomery
form. The constraint system's matrix C is not in the file: for a satisfied witness C w follows from A w and B w.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError, InvalidKey
from distprove.groth16.binfile import BinFile, BinFileWriter, Bytes, SectionReader, Source
from distprove.groth16.csr import csr_from_entries, row_range
from distprove.groth16.elements import Words, as_words, dictionary, first_not_canonical
from distprove.groth16.field_headers import curve_of_base_field, curve_of_scalar_field
from distprove.groth16.key import SINGLE, KeyPoints
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import is_infinity
from kernels.cpu.fields import from_montgomery, to_montgomery
from kernels.host.units import count_of
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Field, Group

VERSION = 1
GROTH16 = 1
_PROTOCOLS = {2: "PLONK", 10: "FFLONK"}

INSECURE_DEV_NAME = "distprove insecure-dev"
"""Name of the contribution that marks a key for development only, whose secret one program made without a ceremony."""

PERSON, BEACON = 0, 1
"""The kinds of contributions."""


@dataclass(frozen=True)
class Contribution:
    """A contribution to the phase-2 ceremony. Points are (point_limbs,) uint64 in Montgomery form."""

    delta_after: Words
    g1_s: Words
    g1_sx: Words
    g2_spx: Words
    transcript: bytes
    """The transcript's hash, 64 bytes."""
    kind: int = PERSON
    """`PERSON`, or `BEACON` for that of a random beacon."""
    name: str | None = None
    iterations_exponent: int | None = None
    beacon: bytes | None = None


Ceremony = tuple[bytes | None, tuple[Contribution, ...]]
"""The circuit hash (snarkjs' csHash, 64 bytes), None without section 10, which some writers leave out; and the
contributions in order."""


def _entry_type(limbs: int) -> np.dtype[np.void]:
    return np.dtype([("matrix", "<u4"), ("constraint", "<u4"), ("wire", "<u4"), ("value", "<u8", (limbs,))])


@dataclass(frozen=True)
class ZKey:
    """A proving key. Implements `distprove.groth16.key.ProvingKey`."""

    name: str
    curve: Curve = field(repr=False)
    n_vars: int
    """Number of wires, the constant 1 included."""
    n_public: int
    """Number of public wires, without the constant 1."""
    domain_size: int
    points: KeyPoints = field(repr=False)
    """Its vectors are views of the file."""
    coefficients: NDArray[np.void] = field(repr=False)
    """The entries of A and B as records (matrix, constraint, wire, value): a view of section 4, indices unchecked."""
    file: BinFile = field(repr=False)

    wires_a = wires_b = None  # every wire has a point
    commitment_bases = ()
    monomial = False

    @property
    def nnz(self) -> int:
        """Number of entries of A and B together."""
        return len(self.coefficients)

    @property
    def data(self) -> Bytes:
        """The bytes of the whole file."""
        return self.file.data

    @cached_property
    def ceremony(self) -> Ceremony:
        """Section 10, read when it is first asked for. Raises FormatError."""
        return _read_ceremony(self.file, self.curve)

    @property
    def contributions(self) -> tuple[Contribution, ...]:
        return self.ceremony[1]

    @property
    def insecure(self) -> bool:
        """Whether the key is marked as made without a ceremony."""
        return any(c.name == INSECURE_DEV_NAME for c in self.contributions)

    @cached_property
    def verification_key(self) -> VerificationKey:
        """The verification key inside. Raises InvalidKey."""
        points = self.points
        return VerificationKey(
            self.curve, points.alpha1, points.beta2, points.gamma2, points.delta2, as_words(points.ic)
        )

    def matrices(self) -> tuple[CsrMatrix, CsrMatrix]:
        """The matrices A and B of the constraint system, domain_size x n_vars, which share one dictionary of values.

        Raises InvalidKey when an entry is out of range or its value is not below the modulus.
        """
        entries, fr = self.coefficients, self.curve.fr
        matrix, constraint, wire = entries["matrix"], entries["constraint"], entries["wire"]
        for column, bound, what in (
            (matrix, 2, "matrix"),
            (constraint, self.domain_size, "constraint"),
            (wire, self.n_vars, "wire"),
        ):
            if entries.shape[0] and int(column.max()) >= bound:
                worst = int(column.argmax())
                raise InvalidKey(
                    f"{self.name}: coefficient {worst} names {what} {int(column[worst])}, there are {bound}"
                )
        distinct, index = dictionary(entries["value"])
        bad = first_not_canonical(fr, distinct)
        if bad is not None:
            raise InvalidKey(f"{self.name}: coefficient {int(np.argmax(index == bad))} is not below the modulus")
        values = from_montgomery(fr, distinct)  # x R^2 -> x R
        chosen = [np.flatnonzero(matrix == which) for which in (0, 1)]
        a, b = (
            csr_from_entries(self.domain_size, self.n_vars, constraint[at], wire[at], index[at], values)
            for at in chosen
        )
        return a, b


def read_zkey(source: Source, *, name: str | None = None, ceremony: bool = True) -> ZKey:
    """Read a Groth16 `.zkey` from a path, or from its bytes without copying them. Without `ceremony`, section 10 is
    neither read nor checked until it is asked for: provers do not need it, and thousands of contributions take long.

    This checks sizes, counts and primes. It does not check that the points are on the curve and in the subgroup, which
    the caller may do (`Groups.check_points`), nor the coefficients, which `ZKey.matrices` checks.
    Raises FormatError, InvalidKey for a key that would not blind its proofs, InputError when the file cannot be read.
    """
    file = BinFile.read(source, "zkey", (VERSION,), name=name)
    protocol = file.section(1, "protocol")
    which = protocol.u32()
    protocol.finish()
    if which != GROTH16:
        raise FormatError(f"{file.name}: the key is for {_PROTOCOLS.get(which, f'protocol {which}')}, not for Groth16")

    header = file.section(2, "Groth16 header")
    curve = curve_of_base_field(header)
    if curve_of_scalar_field(header) is not curve:
        raise header.error(f"the scalar field is not that of {curve.title}")
    n_vars, n_public, domain_size = header.u32(), header.u32(), header.u32()
    if n_public >= n_vars:
        raise header.error(
            f"{count_of(n_public, 'public wire')} and the constant do not fit into {count_of(n_vars, 'wire')}"
        )
    if domain_size & (domain_size - 1) or not n_public < domain_size <= 1 << curve.fr.two_adicity:
        raise header.error(
            f"domain size {domain_size} is not a power of two that "
            f"{count_of(n_public, 'public wire fits', 'public wires fit')}"
        )
    single = {name: _read_point(header, curve, group) for name, group in SINGLE.items()}
    header.finish()
    # With another one A is uniform whatever the witness, B is by delta in G2, and C follows from both in a proof that
    # verifies.
    if is_infinity(single["delta1"]):
        raise InvalidKey(f"{file.name}: delta in G1 is infinity, so that its proofs would not hide their witnesses")

    points = KeyPoints(
        **single,
        ic=file.points(3, "IC", curve, Group.G1, n_public + 1),
        a=file.points(5, "A points", curve, Group.G1, n_vars),
        b1=file.points(6, "B1 points", curve, Group.G1, n_vars),
        b2=file.points(7, "B2 points", curve, Group.G2, n_vars),
        c=file.points(8, "C points", curve, Group.G1, n_vars - n_public - 1),
        h=file.points(9, "H points", curve, Group.G1, domain_size),
    )
    key = ZKey(
        name=file.name,
        curve=curve,
        n_vars=n_vars,
        n_public=n_public,
        domain_size=domain_size,
        points=points,
        coefficients=_read_coefficients(file, curve.fr),
        file=file,
    )
    if ceremony:
        _ = key.ceremony
    return key


def _read_point(section: SectionReader, curve: Curve, group: Group) -> Words:
    return np.frombuffer(section.take(8 * curve.point_limbs(group)).tobytes(), dtype="<u8")


def _read_coefficients(file: BinFile, fr: Field) -> NDArray[np.void]:
    section = file.section(4, "coefficients")
    entry = _entry_type(fr.limbs)
    entries = section.rows(section.u32(), entry.itemsize)
    section.finish()
    return entries.reshape(-1).view(entry)


def _read_ceremony(file: BinFile, curve: Curve) -> Ceremony:
    if 10 not in file.sections:
        return None, ()
    section = file.section(10, "contributions")
    circuit_hash = section.take(64).tobytes()
    count = section.u32()
    contributions = tuple(_read_contributions(section, curve, count))
    section.finish()
    return circuit_hash, contributions


def _read_contributions(section: SectionReader, curve: Curve, count: int) -> Iterator[Contribution]:
    for _ in range(count):
        delta_after, g1_s, g1_sx = (_read_point(section, curve, Group.G1) for _ in range(3))
        g2_spx = _read_point(section, curve, Group.G2)
        transcript = section.take(64).tobytes()
        kind = section.u32()
        yield Contribution(delta_after, g1_s, g1_sx, g2_spx, transcript, kind, *read_parameters(section))


_NAME, _ITERATIONS, _VALUE = 1, 2, 3


def read_parameters(section: SectionReader) -> tuple[str | None, int | None, bytes | None]:
    """Read a contribution's parameters: its name, and a beacon's exponent of iterations and value. Raises FormatError.

    They are `size u32`, then tagged fields in ascending order of their tags.
    """
    size = section.u32()
    if size > section.remaining:
        raise section.error(
            f"the header announces {count_of(size, 'byte')} of parameters, "
            f"{count_of(section.remaining, 'is', 'are')} left"
        )
    end = section.remaining - size
    parameters: dict[int, bytes] = {}
    last = 0
    while section.remaining > end:
        tag = section.u8()
        if tag <= last or tag > _VALUE:
            raise section.error(f"contribution parameter {tag} is unknown or out of order")
        parameters[tag] = section.take(1 if tag == _ITERATIONS else section.u8()).tobytes()
        last = tag
    if section.remaining != end:
        raise section.error("a contribution's parameters run over their size")
    return (
        parameters[_NAME].decode("utf-8", "replace") if _NAME in parameters else None,
        parameters[_ITERATIONS][0] if _ITERATIONS in parameters else None,
        parameters.get(_VALUE),
    )


def write_zkey(
    path: str | os.PathLike[str],
    *,
    curve: Curve,
    n_vars: int,
    n_public: int,
    domain_size: int,
    points: KeyPoints,
    a: CsrMatrix,
    b: CsrMatrix,
    circuit_hash: bytes,
    contributions: Sequence[Contribution] = (),
) -> None:
    """Write a key byte for byte as snarkjs does, with the same order of sections and of coefficients.

    Points are affine in Montgomery form, uint64 (n, point_limbs) or uint8 (n, 8 * point_limbs). `a` and `b` have at
    most `domain_size` rows, including the rows that copy the public wires. Raises InvalidKey when sizes do not agree.
    """
    g1, g2 = curve.point_limbs(Group.G1), curve.point_limbs(Group.G2)
    vectors = {
        3: (points.ic, n_public + 1, g1),
        5: (points.a, n_vars, g1),
        6: (points.b1, n_vars, g1),
        7: (points.b2, n_vars, g2),
        8: (points.c, n_vars - n_public - 1, g1),
        9: (points.h, domain_size, g1),
    }
    for ident, (vector, count, limbs) in vectors.items():
        if vector.shape[0] != count or vector.nbytes != 8 * limbs * count:
            raise InvalidKey(
                f"section {ident} must have {count_of(count, 'point')} of {count_of(limbs, 'word')}, not {vector.shape}"
            )
    if max(a.rows, b.rows) > domain_size or max(a.cols, b.cols) > n_vars:
        raise InvalidKey(
            f"the matrices do not fit {count_of(domain_size, 'constraint')} and {count_of(n_vars, 'wire')}"
        )
    if len(circuit_hash) != 64:
        raise InvalidKey(f"the circuit hash has {count_of(len(circuit_hash), 'byte')}, not 64")

    with BinFileWriter(path, "zkey", version=VERSION, sections=10) as out:
        with out.section(1):
            out.u32(GROTH16)
        with out.section(2):
            write_header(out, curve, n_vars, n_public, domain_size, points)
        with out.section(4):
            out.u32(a.nnz + b.nnz)
            for entries in coefficient_records(curve.fr, a, b):
                out.write(entries)
        for ident in (3, 9, 8, 5, 6, 7):
            with out.section(ident):
                out.write(vectors[ident][0])
        with out.section(10):
            write_contributions(out, circuit_hash, contributions)


def write_header(
    out: BinFileWriter, curve: Curve, n_vars: int, n_public: int, domain_size: int, points: KeyPoints
) -> None:
    """Write the content of section 2: the primes, the sizes and the key's single points."""
    out.prime(curve.fq.modulus, curve.fq.bytes)
    out.prime(curve.fr.modulus, curve.fr.bytes)
    for number in (n_vars, n_public, domain_size):
        out.u32(number)
    for name in SINGLE:
        out.write(getattr(points, name))


def write_contributions(out: BinFileWriter, circuit_hash: bytes, contributions: Sequence[Contribution]) -> None:
    """Write the content of section 10."""
    out.write(circuit_hash)
    out.u32(len(contributions))
    for contribution in contributions:
        _write_contribution(out, contribution)


_ROWS_AT_ONCE = 1 << 16


def coefficient_records(fr: Field, a: CsrMatrix, b: CsrMatrix) -> Iterator[NDArray[np.void]]:
    """Yield the entries of section 4 in snarkjs' order, some rows at a time: by constraint, A's entries before B's.

    `a` and `b` are a program's matrices with values in Montgomery form.
    """
    stored = [to_montgomery(fr, matrix.values) for matrix in (a, b)]  # x R -> x R^2
    for first in range(0, max(a.rows, b.rows), _ROWS_AT_ONCE):
        parts = [_side_records(fr, which, matrix, stored[which], first) for which, matrix in enumerate((a, b))]
        both = np.concatenate(parts)
        yield both[np.argsort(both["constraint"], kind="stable")]


def _side_records(fr: Field, which: int, matrix: CsrMatrix, stored: Words, first: int) -> NDArray[np.void]:
    """The records of `_ROWS_AT_ONCE` rows of a matrix from row `first`. `stored`: its distinct values times R^2."""
    part, rows = row_range(matrix, first, first + _ROWS_AT_ONCE)
    records = np.empty(rows.shape[0], dtype=_entry_type(fr.limbs))
    records["matrix"], records["constraint"] = which, rows
    records["wire"] = matrix.columns[part]
    records["value"] = stored[matrix.value_index[part]]
    return records


def _write_contribution(out: BinFileWriter, contribution: Contribution) -> None:
    for point in (contribution.delta_after, contribution.g1_s, contribution.g1_sx, contribution.g2_spx):
        out.write(point)
    out.write(contribution.transcript)
    out.u32(contribution.kind)
    parameters = b""
    if contribution.name is not None:
        # snarkjs keeps 64 UTF-16 units, at most 192 bytes; a byte holds the length.
        encoded = contribution.name.encode("utf-16-le")[:128].decode("utf-16-le", "ignore").encode()
        parameters += bytes([_NAME, len(encoded)]) + encoded
    if contribution.iterations_exponent is not None:
        parameters += bytes([_ITERATIONS, contribution.iterations_exponent])
    if contribution.beacon is not None:
        parameters += bytes([_VALUE, len(contribution.beacon)]) + contribution.beacon
    out.u32(len(parameters))
    out.write(parameters)
