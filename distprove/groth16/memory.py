"""What a Groth16 proof takes of the device's memory, and what of its key stays there: planned before anything is
allocated.

A proof has five stages. Beside what they share (the key's resident parts, the transforms' tables, the next witness),
each holds, with w the witness and v a vector of the domain's size:

    witness        w
    commitments    w, the elements of a commitment's wires, scratch of an MSM; only under keys with commitments
    witness_msm    w, the elements that are picked out of it for an MSM, its scratch
    products       w, 2 v, and a matrix that is not resident
    quotient       3 v, a transform's scratch
    quotient_msm   v, scratch of an MSM

What does not fit stays in host memory, in the order of `GIVEN_UP`. A vector of points is then brought over slice by
slice while its MSM runs. A matrix is made of its templates for each product, or brought over as a whole: the products
have more room than the quotient, so slices of a matrix would save nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from distprove.groth16.key import SECTIONS, LoadableKey
from distprove.groth16.vectors import KeyVectors
from kernels.errors import OutOfMemory
from kernels.host.units import format_bytes
from kernels.interface.backend import Backend
from kernels.interface.sparse import SparseRows
from kernels.interface.vectors import TransformBytes
from kernels.maths.curves import Curve, Group

MATRICES, QUOTIENT, WHOLE = "matrices", "quotient", "whole"
GIVEN_UP = ("h", MATRICES, "b2", "c", "a", "b1")
"""What moves to host memory, one after the other, until a proof fits. The sum over H has full-width scalars and takes
longer than the link takes for its points, so that these cost nothing. Matrices are made of templates in a hundredth of
the time that the link takes for as many bytes. For a point of G2 the link takes twice as long as for one of G1, and its
addition three times. The scalars of the rest are often 0 or 1: there the link is what the sum waits for."""
WITNESSES = 2
"""Number of witnesses on the device at a time: the one that is being proven, and the next."""
LOST = 16
"""A device may lose 1 / LOST of its memory to blocks that are larger than what was asked for."""
MARGIN = 12
"""A plan leaves 1 / MARGIN of the memory to those, and to counters."""
RECORDED_DOMAIN = 1 << 16
"""Largest domain whose proofs are recorded as a whole. With 2^18 and 2^20 that gained nothing: there the device has
enough to do."""
TABLE_SHARE = 4
"""A point table may use 1 / TABLE_SHARE of the memory that is left for precomputed multiples."""


@dataclass(frozen=True)
class KeyShape:
    """The sizes of a key."""

    curve: Curve
    n_vars: int
    domain_size: int
    monomial: bool
    points: Mapping[str, int]
    """Number of points of each of `SECTIONS`."""
    entries: tuple[int, ...]
    """Number of entries of A and of B."""
    picked: tuple[int, ...]
    """Number of wires that are picked out of a witness, for A, B and C where not every wire has a point."""
    on_device: bool = False
    """Whether the points are in the backend's memory already."""
    committed: tuple[int, ...] = ()
    """Number of wires that each commitment is of."""

    @classmethod
    def of(cls, key: LoadableKey, vectors: KeyVectors, matrices: Collection[SparseRows]) -> KeyShape:
        """The sizes of `key`, of which these vectors are loaded, and the matrices A and B."""
        return cls(
            key.curve,
            key.n_vars,
            key.domain_size,
            key.monomial,
            {name: len(vector) for name, vector in vectors.points.items()},
            tuple(matrix.nnz for matrix in matrices),
            tuple(len(wires) for wires in (vectors.wires_a, vectors.wires_b, vectors.wires_c) if wires is not None),
            on_device=not isinstance(key.points.a[:1], np.ndarray),
            committed=tuple(len(each.basis) for each in key.commitment_bases if len(each.basis)),
        )

    def bytes_of(self, section: str) -> int:
        """Bytes of a vector of points."""
        return 8 * self.curve.point_limbs(SECTIONS[section]) * self.points[section]

    @property
    def points_bytes(self) -> int:
        return sum(self.bytes_of(section) for section in SECTIONS)


@dataclass(frozen=True)
class MemoryPlan:
    """Where the parts of a key are, and what its proofs then take of the device's memory."""

    streamed: frozenset[str] = frozenset()
    """What stays in host memory: some of `GIVEN_UP`."""
    tables: Mapping[str, int] = field(default_factory=dict)
    """Bytes that the table of each resident vector of points may take; of those that are not named the backend
    decides."""
    witnesses: int = WITNESSES
    """Witnesses on the device at a time; with one, a proof's witness is copied when the proof begins."""
    resident: int = 0
    """Bytes of the key on the device."""
    beside: int = 0
    """Most bytes of a proof on the device, if nothing is recorded."""
    whole: bool = False
    """Whether the backend is to record a proof as a whole. Otherwise it records the parts that are small enough."""
    stages: Mapping[str, int] = field(default_factory=dict)
    """Bytes in use at each stage of a proof, with the key and what recordings keep."""

    @property
    def peak(self) -> int:
        """Most bytes in use at once."""
        return max(self.stages.values(), default=0)

    def __str__(self) -> str:
        kept = f"{format_bytes(self.peak)} of device memory, {format_bytes(self.resident)} of it for the key"
        return f"{kept}; in host memory: {', '.join(sorted(self.streamed))}" if self.streamed else kept


def plan_memory(
    shape: KeyShape, backend: Backend, *, free: int | None = None, witnesses: int = WITNESSES
) -> MemoryPlan:
    """Plan a key and its proofs in `free` bytes of the backend's memory, or in what is free there now.

    What stays in host memory follows from the memory that the backend may use in all, so that a key which fits the
    device when it is alone there is not streamed for the sake of others: those can go. Raises OutOfMemory, which says
    what is short, where not even a proof that has everything in host memory fits, and where others hold the memory.
    """
    free = backend.memory_free() if free is None else free
    if free is None:
        return MemoryPlan(witnesses=witnesses)
    free += shape.points_bytes if shape.on_device else 0
    whole = backend.info().memory_budget
    budget = whole - whole // MARGIN
    plans = [plan for ahead in sorted({1, witnesses}, reverse=True) for plan in _plans(shape, backend, ahead)]
    plan = next((plan for plan in plans if plan.peak <= budget), None)
    if plan is None:
        least = min(plans, key=lambda plan: plan.peak)
        raise OutOfMemory(_refusal(shape, least, f"{format_bytes(budget)} are there", budget))
    for part in reversed(GIVEN_UP):  # something smaller may fit what the last one left
        if part in plan.streamed:
            fuller = _planned(shape, backend, plan.streamed - {part}, plan.witnesses)
            plan = fuller if fuller.peak <= budget else plan
    left = max(0, free - whole // LOST)
    if plan.peak > left:
        there = f"{format_bytes(free)} of {format_bytes(whole)} are free, and other keys or work have the rest"
        raise OutOfMemory(_refusal(shape, plan, there, left))
    return _with_recordings(shape, backend, _with_multiples(shape, backend, plan, min(budget, left)), left)


@dataclass(frozen=True)
class _Sizes:
    """Bytes on the device of what a key and its proofs consist of."""

    key: int
    vector: int
    witness: int
    picked: tuple[int, ...]
    """Bytes of the scalars that are picked out of a witness, for A, B and C where not every wire has a point."""
    on_use: int
    """The larger one of the matrices, where they are not resident."""
    transforms: TransformBytes
    scratch: Mapping[str, int]
    """Scratch of each section's MSM."""
    commitments: int = 0
    """Most bytes beside the witness while the commitments are made: scalars, and scratch of their MSMs."""

    @property
    def recorded_proof(self) -> int:
        """Bytes that the recordings of a whole proof keep: two copies of the witness, and MSMs beside each other."""
        return (
            2 * (self.witness + sum(self.picked))
            + 3 * self.vector
            + self.transforms.scratch
            + sum(self.scratch.values())
        )

    @classmethod
    def of(
        cls,
        shape: KeyShape,
        backend: Backend,
        streamed: Collection[str],
        tables: Mapping[str, int],
    ) -> _Sizes:
        """`streamed` and `tables` are as in `MemoryPlan`; points that are in neither are there without multiples."""
        fr, groups, matrix_bytes = shape.curve.fr, backend.groups, backend.sparse.matrix_bytes
        matrices = [matrix_bytes(shape.domain_size, count) for count in shape.entries]
        on_use = MATRICES in streamed
        key = sum(matrix_bytes(count, count) for count in shape.picked) + (0 if on_use else sum(matrices))
        scratch = dict.fromkeys(SECTIONS, 0)
        for section, group in SECTIONS.items():
            n, here = shape.points[section], section not in streamed
            if n:
                memory = tables.get(section, shape.bytes_of(section))
                key += groups.table_bytes(shape.curve, group, n, memory) if here else 0
                scratch[section] = groups.msm_scratch(shape.curve, group, n, memory=memory, streamed=not here)
        beside = 0
        for n in shape.committed:
            memory = committed_bytes(shape.curve, n)
            key += 2 * groups.table_bytes(shape.curve, Group.G1, n, memory) + matrix_bytes(n, n)
            beside = max(beside, fr.bytes * n + groups.msm_scratch(shape.curve, Group.G1, n, memory=memory))
        return cls(
            key,
            fr.bytes * shape.domain_size,
            fr.bytes * shape.n_vars,
            tuple(fr.bytes * count for count in shape.picked),
            max(matrices) if on_use else 0,
            backend.vectors.transform_bytes(fr, shape.domain_size.bit_length() - 1, 3 if shape.monomial else 2),
            scratch,
            beside,
        )


def committed_bytes(curve: Curve, n: int) -> int:
    """Bytes that the table of a commitment's points may take: they have no multiples."""
    return 8 * curve.point_limbs(Group.G1) * n


def _stages(sizes: _Sizes, witnesses: int, kept: Mapping[str, int] | None = None) -> dict[str, int]:
    """Bytes in use at each stage of a proof. `kept` are those of recordings, by section, and of the quotient's; the
    recorded work then takes no others."""
    kept = kept or {}
    scratch = {section: 0 if section in kept else nbytes for section, nbytes in sizes.scratch.items()}
    shared = sizes.key + sizes.transforms.tables + (witnesses - 1) * sizes.witness + sum(kept.values())
    first = {"witness": shared + sizes.witness}
    if sizes.commitments:
        first["commitments"] = shared + sizes.witness + sizes.commitments
    if WHOLE in kept:
        return first
    quotient = 2 * sizes.vector if QUOTIENT in kept else 3 * sizes.vector + sizes.transforms.scratch
    summing = max(sizes.picked, default=0) + max(scratch[name] for name in ("a", "b1", "b2", "c"))
    return {
        **first,
        "witness_msm": shared + sizes.witness + summing,
        "products": shared + sizes.witness + 2 * sizes.vector + sizes.on_use,
        QUOTIENT: shared + quotient,
        "quotient_msm": shared + (0 if QUOTIENT in kept else sizes.vector) + scratch["h"],
    }


def _plans(shape: KeyShape, backend: Backend, witnesses: int) -> list[MemoryPlan]:
    """Plans that have more and more in host memory, each vector of points without multiples."""
    given_up = [frozenset(GIVEN_UP[:count]) for count in range(len(GIVEN_UP) + 1)]
    return [_planned(shape, backend, streamed, witnesses) for streamed in given_up]


def _planned(shape: KeyShape, backend: Backend, streamed: frozenset[str], witnesses: int) -> MemoryPlan:
    tables = {section: shape.bytes_of(section) for section in SECTIONS if section not in streamed}
    tables = {section: nbytes for section, nbytes in tables.items() if nbytes}
    return _plan_of(_Sizes.of(shape, backend, streamed, tables), streamed, tables, witnesses)


def _plan_of(sizes: _Sizes, streamed: frozenset[str], tables: Mapping[str, int], witnesses: int) -> MemoryPlan:
    stages = _stages(sizes, witnesses)
    beside = max(stages.values()) - sizes.key
    return MemoryPlan(streamed, tables, witnesses, sizes.key, beside, stages=stages)


def _with_multiples(shape: KeyShape, backend: Backend, plan: MemoryPlan, budget: int) -> MemoryPlan:
    """The plan with precomputed multiples in what it leaves. Tables of points that are on the device already are copies
    of these, which are there until the key has been loaded."""
    tables, left = dict(plan.tables), budget - plan.peak
    for section, single in plan.tables.items():
        allowed = max(single, left // TABLE_SHARE)
        table = backend.groups.table_bytes(shape.curve, SECTIONS[section], shape.points[section], allowed)
        more = table - single if not shape.on_device else table if table > single else 0
        if table and more <= left:
            tables[section], left = allowed, left - more
    found = _plan_of(_Sizes.of(shape, backend, plan.streamed, tables), plan.streamed, tables, plan.witnesses)
    return found if found.peak <= budget else plan


def _with_recordings(shape: KeyShape, backend: Backend, plan: MemoryPlan, budget: int) -> MemoryPlan:
    """The plan with what `load_key` lets the backend record, in what is free beside key and proofs."""
    sizes = _Sizes.of(shape, backend, plan.streamed, plan.tables)
    left, kept = budget - plan.resident - plan.beside, dict[str, int]()
    whole = sizes.recorded_proof
    if shape.domain_size <= RECORDED_DOMAIN and not plan.streamed and backend.records(whole, left):
        return replace(plan, whole=True, stages=_stages(sizes, plan.witnesses, {WHOLE: whole}))
    if backend.records(2 * sizes.vector, left):
        kept[QUOTIENT] = 3 * sizes.vector + sizes.transforms.scratch
    for section in plan.tables:
        scratch = sizes.scratch[section]
        if scratch and backend.records(scratch, left - sum(kept.values())):
            kept[section] = scratch + shape.curve.fr.bytes * shape.points[section]
    return replace(plan, stages=_stages(sizes, plan.witnesses, kept))


def _refusal(shape: KeyShape, plan: MemoryPlan, there: str, budget: int) -> str:
    stage, vector = max(plan.stages, key=lambda name: plan.stages[name]), shape.curve.fr.bytes * shape.domain_size
    where = f"with {', '.join(sorted(plan.streamed))} in host memory " if plan.streamed else ""
    return (
        f"{format_bytes(plan.peak - budget)} of device memory short: {where}a proof takes {format_bytes(plan.peak)} "
        f"of it, in its stage {stage} (a vector of the domain takes {format_bytes(vector)}); {there}"
    )
