"""Reads and writes bellperson's parameter files: `.vk`, a verification key, and `.params`, a proving key (BLS12-381).

    vk       alpha1 | beta1 | beta2 | gamma2 | delta1 | delta2 | count u32, IC
    params   vk | count u32, H | count u32, L | count u32, A | count u32, B1 | count u32, B2

Integers are big-endian and points uncompressed (see `distprove.groth16.zcash`), without infinity. IC has a point for
the constant and each public wire, L one for each private wire. A and B have one for each wire whose polynomial is not
zero, so that only the circuit says which wire a point belongs to. H_i is tau^i t(tau) / delta, one fewer than the
domain has rows. The constraint system is not in the file.

A file is mapped. Counts are checked against its size before anything is allocated, and points are decoded when they are
asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError, InputError, InvalidKey, typed
from distprove.formats.files import replacing
from distprove.groth16.binfile import Bytes, Source, load
from distprove.groth16.dev_setup import ScalarPoints
from distprove.groth16.key import SINGLE, KeyPoints
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words, chunks_to_bytes
from distprove.groth16.qap import Qap, log_domain_of
from distprove.groth16.r1cs import R1cs, R1csFile
from distprove.groth16.templated import TemplatedQap, TemplatedSystem
from distprove.groth16.vectors import PickedPoints, finite
from distprove.groth16.zcash import SIZE, decode
from distprove.groth16.zcash_points import CURVE
from kernels.host.units import count_of
from kernels.interface.backend import Backend
from kernels.interface.groups import PointSlices
from kernels.interface.sparse import SparseRows
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Curve, Group

SUFFIX, VK_SUFFIX = ".params", ".vk"
GENERATOR = 7
"""The element whose powers are bellperson's roots of unity. snarkjs takes 5, which orders a domain's rows otherwise."""

_VECTORS = (("H", Group.G1), ("L", Group.G1), ("A", Group.G1), ("B1", Group.G1), ("B2", Group.G2))


Constraints = R1cs | R1csFile | TemplatedSystem
"""A circuit that a key is for: in memory, in a file, or with its repeated parts stored once."""


@dataclass(frozen=True)
class EncodedPoints(PointSlices):
    """A section of a mapped file, whose points are decoded when a slice of them is taken."""

    section: str
    """The names of the file and of the section, for errors."""
    group: Group
    stored: Bytes = field(repr=False)
    """What the file has of them, (n, SIZE)."""
    threads: int = 1
    """Threads that decode."""

    @property
    def nbytes(self) -> int:
        return int(self.stored.nbytes)

    def __len__(self) -> int:
        return int(self.stored.shape[0])

    def __getitem__(self, which: slice) -> Words:
        """Decode some points, (n, point_limbs). Raises InvalidKey for infinity and what is not canonical."""
        return self.decoded(self.stored[which], which.indices(len(self))[0])

    def decoded(self, rows: Bytes, first: int) -> Words:
        """Decode a copy of the file's points from the number `first` on, as a slice is."""
        return decode(self.group, rows, self.section, first, threads=self.threads)


class _Reader:
    """A cursor over a mapped file."""

    def __init__(self, source: Source, name: str | None, threads: int = 1) -> None:
        self.data, self.name = load(source, name)
        self._threads = threads
        self._position = 0

    def take(self, size: int, section: str) -> Bytes:
        left = self.data.shape[0] - self._position
        if size > left:
            raise FormatError(
                f"{self.name}: section {section} at byte {self._position} needs {count_of(size, 'byte')}, "
                f"{count_of(left, 'is', 'are')} left"
            )
        self._position += size
        return self.data[self._position - size : self._position]

    def point(self, group: Group, section: str) -> Words:
        one: Words = decode(group, self.take(SIZE[group], section).reshape(1, -1), f"{self.name}: section {section}")[0]
        return one

    def vector(self, group: Group, section: str) -> EncodedPoints:
        count = int.from_bytes(self.take(4, section).tobytes(), "big")
        raw = self.take(count * SIZE[group], section).reshape(count, SIZE[group])
        return EncodedPoints(f"{self.name}: section {section}", group, raw, self._threads)

    def finish(self) -> None:
        if left := self.data.shape[0] - self._position:
            raise FormatError(
                f"{self.name}: {count_of(left, 'byte follows', 'bytes follow')} the last section, at byte "
                f"{self._position}"
            )


def read_vk(source: Source, *, name: str | None = None) -> VerificationKey:
    """Read a `.vk` file, and check its points. Raises FormatError, InvalidKey, or InputError if it cannot be read."""
    reader = _Reader(source, name)
    single = {section: reader.point(group, section) for section, group in SINGLE.items()}
    ic = reader.vector(Group.G1, "IC")
    reader.finish()
    return _verification_key(single, ic, reader.name)


def _verification_key(single: dict[str, Words], ic: EncodedPoints, name: str) -> VerificationKey:
    try:
        return VerificationKey(CURVE, single["alpha1"], single["beta2"], single["gamma2"], single["delta2"], ic[:])
    except InvalidKey as error:
        raise InvalidKey(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


@dataclass(frozen=True)
class ParamsKey:
    """A proving key: a `.params` file and the circuit that it is for. Implements `distprove.groth16.key.ProvingKey`.

    The circuit's constraints are read when something of them is first asked for: its entries, or the wires of points.
    """

    name: str
    circuit: Constraints = field(repr=False)
    domain_size: int
    points: KeyPoints = field(repr=False)
    """Its vectors are `EncodedPoints`."""
    data: Bytes = field(repr=False)

    monomial = True
    contributions = ()
    commitment_bases = ()
    insecure = False  # the file has no place to say so

    @property
    def curve(self) -> Curve:
        return self.circuit.curve

    @property
    def n_vars(self) -> int:
        return self.circuit.n_vars

    @property
    def n_public(self) -> int:
        return self.circuit.n_public

    @property
    def nnz(self) -> int:
        return self.qap.a.nnz + self.qap.b.nnz

    @property
    def qap(self) -> Qap | TemplatedQap:
        """Raises FormatError for a circuit that is none, InvalidKey where the key is of another one."""
        return self._constraints[0]

    @property
    def wires_a(self) -> NDArray[np.uint32]:
        """The wire of each point of A."""
        return self._constraints[1]

    @property
    def wires_b(self) -> NDArray[np.uint32]:
        """The wire of each point of B1 and B2."""
        return self._constraints[2]

    @cached_property
    def _constraints(self) -> tuple[Qap | TemplatedQap, NDArray[np.uint32], NDArray[np.uint32]]:
        circuit = self.circuit.read() if isinstance(self.circuit, R1csFile) else self.circuit
        qap = bellperson_qap(circuit) if isinstance(circuit, R1cs) else templated_qap(circuit)
        a, b = wires_of(qap.a), wires_of(qap.b)
        points = self.points
        _check_counts(self.name, ("A", points.a, len(a)), ("B1", points.b1, len(b)), ("B2", points.b2, len(b)))
        return qap, a, b

    def matrices(self) -> tuple[SparseRows, SparseRows]:
        return self.qap.a, self.qap.b

    @cached_property
    def verification_key(self) -> VerificationKey:
        return _verification_key({name: getattr(self.points, name) for name in SINGLE}, self.points.ic, self.name)


def read_params(
    source: Source,
    circuit: Callable[[], Constraints],
    *,
    name: str | None = None,
    threads: int = 1,
    sizes: tuple[int, int] | None = None,
) -> ParamsKey:
    """Read a `.params` file for a circuit, which is opened once the file's sizes agree with its own counts. Its points
    are not checked to be in their groups (see `key_check`). `threads` decode them when they are asked for. `sizes`
    are the circuit's wires and public wires, where they are known before it is opened.

    Raises FormatError for a file that is not one, InvalidKey for one of another circuit, and InputError when it cannot
    be read. The constraints of an `R1csFile` are not looked at: what only they tell is checked by `ParamsKey.qap`.
    """
    reader = _Reader(source, name, threads)
    single = {section: reader.point(group, section) for section, group in SINGLE.items()}
    ic = reader.vector(Group.G1, "IC")
    vectors = {section: reader.vector(group, section) for section, group in _VECTORS}
    reader.finish()
    if sizes is not None:
        wires, public = sizes
        _check_counts(reader.name, ("IC", ic, public + 1), ("L", vectors["L"], wires - public - 1))
    opened = circuit()
    _check_curve(opened)
    domain = 1 << log_domain_of(opened.curve, opened.n_constraints, opened.n_public)
    _check_counts(
        reader.name,
        ("IC", ic, opened.n_public + 1),
        ("H", vectors["H"], domain - 1),
        ("L", vectors["L"], opened.n_vars - opened.n_public - 1),
    )
    key = ParamsKey(
        name=reader.name,
        circuit=opened,
        domain_size=domain,
        points=KeyPoints(
            **single,
            ic=ic,
            a=vectors["A"],
            b1=vectors["B1"],
            b2=vectors["B2"],
            c=vectors["L"],
            h=vectors["H"],
        ),
        data=reader.data,
    )
    if isinstance(opened, R1cs):
        _ = key.qap
    return key


def _check_counts(name: str, *sections: tuple[str, EncodedPoints, int]) -> None:
    for section, there, expected in sections:
        if len(there) != expected:
            raise InvalidKey(
                f"{name}: section {section} has {count_of(len(there), 'point')}, and the circuit {expected}: a "
                f"key of another "
                "circuit"
            )


def _check_curve(circuit: Constraints) -> None:
    if circuit.curve is not CURVE:
        raise InputError(f"bellperson's parameters are for {CURVE.title}, and the circuit is for {circuit.curve.title}")


def bellperson_qap(r1cs: R1cs) -> Qap:
    """The program of a circuit with bellperson's order of rows. Raises InputError for another curve."""
    _check_curve(r1cs)
    return Qap.from_r1cs(r1cs).with_roots_of(GENERATOR)


def templated_qap(system: TemplatedSystem) -> TemplatedQap:
    """As `bellperson_qap`, with repeated rows stored once."""
    _check_curve(system)
    return TemplatedQap.from_system(system).with_roots_of(GENERATOR)


def wires_of(matrix: SparseRows) -> NDArray[np.uint32]:
    """The wires that occur in a matrix with a coefficient other than zero, ascending."""
    if isinstance(matrix, TemplatedMatrix):
        return np.flatnonzero(matrix.occurring()).astype(np.uint32)
    occurs = np.zeros(matrix.cols, dtype=np.bool_)
    not_zero = np.any(matrix.values != 0, axis=1)
    occurs[matrix.columns[np.take(not_zero, matrix.value_index)]] = True
    return np.flatnonzero(occurs).astype(np.uint32)


def write_params(
    path: str | os.PathLike[str],
    qap: Qap | TemplatedQap,
    key: KeyPoints,
    backend: Backend,
    began: Callable[[str], None] | None = None,
) -> None:
    """Write a `.params` file and beside it the `.vk`. `qap` has bellperson's order of rows, and the H points of `key`
    are in the monomial basis. `began` is told the name of each section as it begins. Raises InvalidKey for a circuit
    that bellperson's parameters cannot hold."""
    points: dict[str, Words | PointSlices] = {"H": key.h, "L": key.c}
    for section, vector, matrix in (("A", key.a, qap.a), ("B1", key.b1, qap.b), ("B2", key.b2, qap.b)):
        there, wires = np.flatnonzero(_finite(vector)), wires_of(matrix)
        if not np.array_equal(there, wires):
            odd = np.setxor1d(there, wires)[0]
            raise InvalidKey(
                f"section {section}: the terms of wire {odd} cancel, so that a prover could not find its point"
            )
        points[section] = vector.at(wires) if isinstance(vector, ScalarPoints) else PickedPoints(vector, wires)
    for section, vector, first in (("IC", key.ic, 0), ("L", key.c, qap.n_public + 1)):
        idle = np.flatnonzero(~_finite(vector))
        if idle.size:
            raise InvalidKey(
                f"wire {first + int(idle[0])} is in no constraint, and bellperson's parameters have a point for each "
                f"(section {section}): leave the wire out of the circuit"
            )
    target = Path(path)
    try:
        with replacing(target) as out:
            _write_vk(out, key, backend)
            for section, group in _VECTORS:
                if began is not None:
                    began(f"{count_of(len(points[section]), 'point')} of {section}")
                _write_vector(out, group, points[section], backend)
        with replacing(vk_beside(target)) as out:
            _write_vk(out, key, backend)
    except OSError as error:
        raise typed(error, target) from None


def _finite(vector: Words | ScalarPoints) -> NDArray[np.bool_]:
    return vector.finite() if isinstance(vector, ScalarPoints) else finite(vector)


def vk_beside(path: Path) -> Path:
    """The `.vk` file that belongs to a `.params` file."""
    return path.with_suffix(VK_SUFFIX)


def _write_vk(out: BinaryIO, key: KeyPoints, backend: Backend) -> None:
    for name, group in SINGLE.items():
        out.writelines(_encoded(group, getattr(key, name)[None], backend))
    _write_vector(out, Group.G1, key.ic, backend)


def _write_vector(out: BinaryIO, group: Group, vector: Words | PointSlices, backend: Backend) -> None:
    out.write(len(vector).to_bytes(4, "big"))
    written: Future[int] | None = None
    with ThreadPoolExecutor(1) as writer:  # a slice is written while the next one is made
        for encoded in _encoded(group, vector, backend):
            if written is not None:
                written.result()
            written = writer.submit(out.write, encoded)
        if written is not None:
            written.result()


def _encoded(group: Group, vector: Words | PointSlices, backend: Backend) -> Iterable[memoryview]:
    """Finite points in zcash's uncompressed form, which is the same as snarkjs' for them."""
    return chunks_to_bytes(CURVE, group, vector, backend)
