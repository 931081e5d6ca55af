"""Loads a proving key onto one backend, where it stays: point tables and the matrices A and B, in the backend's memory
or, as far as they do not fit there, in host memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from distprove.groth16.committed.wires import CommitmentWires
from distprove.groth16.key import SECTIONS, CommitmentBasis, LoadableKey
from distprove.groth16.memory import MATRICES, KeyShape, MemoryPlan, committed_bytes, plan_memory
from distprove.groth16.quotient import quotient_scalars
from distprove.groth16.vectors import KeyVectors
from kernels.cpu.group import Multiples
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.backend import Backend
from kernels.interface.groups import PointSlices, PointTable
from kernels.interface.matrix import CsrMatrix
from kernels.interface.sparse import Matrix, SparseRows
from kernels.maths.curves import Curve, Field, Group
from kernels.maths.encoding import field_from_ints

Commitments = Callable[[Array], Sequence[Pending]]
"""Begins the sums a, b1, b2, c and h of a proof for a witness on the backend, (n_vars, 4) canonical integers."""


@dataclass(frozen=True)
class ResidentBasis:
    """What a commitment to wires is made under, in the memory of a backend."""

    wires: CommitmentWires
    basis: PointTable
    sigma: PointTable
    pick: Matrix | None
    """Picks the wires that it is of; None where it is of none."""

    def scalars(self, backend: Backend, w: Array) -> Array:
        """The elements of its wires, of a witness."""
        return w[:0] if self.pick is None else backend.sparse.spmv(self.pick, w)

    @property
    def nbytes(self) -> int:
        return self.basis.nbytes + self.sigma.nbytes + (0 if self.pick is None else self.pick.nbytes)


@dataclass
class ResidentKey:
    """The proving key in the memory of `backend`, as `prove` reads it. Single points stay on the host, affine."""

    backend: Backend
    curve: Curve
    n_vars: int
    n_public: int
    log_domain: int
    alpha1: HostArray
    beta1: HostArray
    beta2: HostArray
    delta1_multiples: Multiples
    """Multiples of delta in G1, which proofs are blinded by."""
    delta2_multiples: Multiples
    """Multiples of delta in G2."""
    matrix_a: Matrix
    matrix_b: Matrix
    points: Mapping[str, PointTable]
    """The table of each of `SECTIONS`."""
    pick_a: Matrix | None
    """Picks the wires that have an A point out of a witness; None where every wire has one."""
    pick_b: Matrix | None
    """Picks the wires that have a B1 and a B2 point."""
    pick_c: Matrix | None
    """Picks the private wires that have a C point."""
    commitment_bases: Sequence[ResidentBasis]
    """What each commitment to wires is made under."""
    plan: MemoryPlan
    monomial: bool
    """Whether the H points are in the monomial basis."""
    quotient: Callable[[Array, Array], Array]
    """`quotient_scalars` of vectors of the domain's size, which may stay on the device from one proof to the next."""
    commitments: Commitments | None = None
    """What begins all sums of a proof, where the device has recorded how they are computed."""

    @property
    def nbytes(self) -> int:
        """Bytes of the key on the backend, precomputed multiples included."""
        matrices = (self.matrix_a, self.matrix_b, self.pick_a, self.pick_b, self.pick_c)
        parts = (*matrices, *self.points.values(), *self.commitment_bases)
        return sum(part.nbytes for part in parts if part is not None)

    def private(self, w: Array) -> Array:
        """The elements of the wires that have a C point, of a witness."""
        return w[self.n_public + 1 :] if self.pick_c is None else picked(self, self.pick_c, w)


def matrix_bytes(zkey: LoadableKey, nnz: int | None = None) -> int:
    """Bytes of the matrices A and B on the backend that multiplies by them, without their few distinct values. `nnz`
    takes the place of the key's own number of entries, for which its circuit is read."""
    # Keys with points for some wires have H in the monomial basis; so a circuit is not read for them.
    picked = len(zkey.points.a) + len(zkey.points.b1) if zkey.monomial else 0
    if zkey.commitment_bases:
        picked += len(zkey.points.c) + sum(len(each.basis) for each in zkey.commitment_bases)
    return 8 * (zkey.nnz if nnz is None else nnz) + 8 * (zkey.domain_size + 1) + 12 * picked


def load_key(zkey: LoadableKey, backend: Backend) -> ResidentKey:
    """Load `zkey` onto `backend`.

    What of the key does not fit beside its proofs stays in host memory (`distprove.groth16.memory`). Raises OutOfMemory
    before anything is loaded.
    """
    return loaded_whole(loading(ReadKey.of(zkey, backend), backend))


@dataclass(frozen=True)
class ReadKey:
    """A key with what the host reads of it before a backend loads it, which takes seconds for a large key."""

    key: LoadableKey
    matrices: tuple[SparseRows, SparseRows]
    vectors: KeyVectors

    @classmethod
    def of(cls, key: LoadableKey, backend: Backend) -> ReadKey:
        """Read what `backend` loads of a key. Any thread may call. Raises InvalidKey."""
        return cls(key, key.matrices(), KeyVectors.of(key, backend))


Loading = Generator[None, None, ResidentKey]
"""Loads a key piece by piece: a matrix or a vector of points for each `next`. It returns the key."""


def loaded_whole(pieces: Loading) -> ResidentKey:
    """The key, once all pieces are loaded."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            loaded: ResidentKey = done.value
            return loaded


def loading(read: ReadKey, backend: Backend, free: int | None = None) -> Loading:
    """Load a key onto `backend` piece by piece.

    The plan is made for `free` bytes of the backend's memory, by default what is free. Raises OutOfMemory: before
    anything is loaded, or where others took memory between two pieces.
    """
    zkey, matrices = read.key, read.matrices
    curve, points = zkey.curve, zkey.points
    vectors, plan = _planned(read, backend, free)
    loaded = []
    for matrix in matrices:
        loaded.append(backend.sparse.load_matrix(curve.fr, matrix, on_use=MATRICES in plan.streamed))
        yield
    matrix_a, matrix_b = loaded
    tables = {}
    for name, group in SECTIONS.items():
        section = vectors.points[name]
        given = section if isinstance(section, PointSlices) else section[:]
        tables[name] = backend.groups.load_points(
            curve, group, given, memory=plan.tables.get(name), streamed=name in plan.streamed
        )
        yield
    commitment_bases = []
    for each in zkey.commitment_bases:
        commitment_bases.append(_resident_basis(curve, zkey.n_vars, each, backend))
        yield
    pick_a, pick_b, pick_c = (
        None if wires is None else picking(curve.fr, zkey.n_vars, backend, wires)
        for wires in (vectors.wires_a, vectors.wires_b, vectors.wires_c)
    )
    # Allocated while work is recorded, which keeps memory by what is free, and given back at the end for proofs.
    for_proofs = backend.empty((plan.beside,), np.uint8)
    resident = ResidentKey(
        backend=backend,
        curve=curve,
        n_vars=zkey.n_vars,
        n_public=zkey.n_public,
        log_domain=zkey.domain_size.bit_length() - 1,
        alpha1=points.alpha1,
        beta1=points.beta1,
        beta2=points.beta2,
        delta1_multiples=Multiples(curve, Group.G1, points.delta1),
        delta2_multiples=Multiples(curve, Group.G2, points.delta2),
        matrix_a=matrix_a,
        matrix_b=matrix_b,
        points=tables,
        pick_a=pick_a,
        pick_b=pick_b,
        pick_c=pick_c,
        commitment_bases=commitment_bases,
        plan=plan,
        monomial=zkey.monomial,
        quotient=partial(quotient_scalars, backend, curve.fr, zkey.monomial),
    )
    if plan.whole:
        resident.commitments = recorded_commitments(resident)
    if resident.commitments is None:
        resident.quotient = backend.repeated(resident.quotient, [(zkey.domain_size, curve.fr.limbs)] * 2)
        for table in tables.values():
            backend.groups.repeat(table, table.n)  # every proof has one scalar for each point
    del for_proofs
    return resident


def _planned(read: ReadKey, backend: Backend, free: int | None) -> tuple[KeyVectors, MemoryPlan]:
    """Plan which points are loaded, and where. Raises OutOfMemory."""
    key, matrices, vectors = read.key, read.matrices, read.vectors
    try:
        return vectors, plan_memory(KeyShape.of(key, vectors, matrices), backend, free=free)
    except OutOfMemory:
        # Where points stay in host memory, what picks the wires of the finite ones takes more than these save.
        vectors = KeyVectors.every_point(key)
        return vectors, plan_memory(KeyShape.of(key, vectors, matrices), backend, free=free)


def _resident_basis(curve: Curve, n_vars: int, given: CommitmentBasis, backend: Backend) -> ResidentBasis:
    """Load what a commitment is made under. Raises OutOfMemory."""
    memory = committed_bytes(curve, len(given.basis))
    basis, sigma = (
        backend.groups.load_points(curve, Group.G1, part[:], memory=memory) for part in (given.basis, given.sigma)
    )
    wires = given.wires.private
    return ResidentBasis(given.wires, basis, sigma, picking(curve.fr, n_vars, backend, wires) if len(wires) else None)


def picking(field: Field, n: int, backend: Backend, wires: HostArray) -> Matrix:
    """The matrix that picks `wires` out of a vector of `n` elements: one entry, a one, in each row."""
    row_ptr, ones = np.arange(len(wires) + 1, dtype=np.uint32), np.zeros(len(wires), dtype=np.uint32)
    return backend.sparse.load_matrix(
        field, CsrMatrix(len(wires), n, row_ptr, wires, ones, field_from_ints(field, [1]))
    )


def recorded_commitments(key: ResidentKey) -> Commitments | None:
    """Record what `StagedWitness.start` queues step by step, if the backend can.

    There are two recordings, which run beside each other. The host asks for a and b1 first, and computes with them
    while the device is at the rest; so the rest, which takes longer, is queued first. Raises OutOfMemory.
    """
    shapes = [(key.n_vars, key.curve.fr.limbs)]
    rest, first = (key.backend.repeated_points(partial(work, key), shapes) for work in (_rest, _first))
    if first is None or rest is None:
        return None

    def commitments(w: Array) -> Sequence[Pending]:
        b2, c, h = rest(w)
        return *first(w), b2, c, h

    return commitments


def _first(key: ResidentKey, w: Array) -> Sequence[Pending]:
    """Begin a and b1."""
    groups = key.backend.groups
    return groups.msm(key.points["a"], picked(key, key.pick_a, w)), groups.msm(
        key.points["b1"], picked(key, key.pick_b, w)
    )


def _rest(key: ResidentKey, w: Array) -> Sequence[Pending]:
    """Begin b2, c and h, the longest first."""
    backend = key.backend
    b2 = backend.groups.msm(key.points["b2"], picked(key, key.pick_b, w))
    c = backend.groups.msm(key.points["c"], key.private(w))
    products = [backend.sparse.spmv(matrix, w, standard_form=True) for matrix in (key.matrix_a, key.matrix_b)]
    scalars = quotient_scalars(backend, key.curve.fr, key.monomial, *products)
    return b2, c, backend.groups.msm(key.points["h"], scalars[: key.points["h"].n])


def picked(key: ResidentKey, pick: Matrix | None, w: Array) -> Array:
    """The scalars of the wires that `pick` picks out of the witness `w`; all of `w` where every wire has a point."""
    return w if pick is None else key.backend.sparse.spmv(pick, w)  # times a one, which leaves an integer what it is
