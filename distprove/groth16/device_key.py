"""Development keys of large circuits, made where they are used: no file, and where they fit no point in host memory.

A key of 2^27 rows is 44 GiB, which a GPU makes in less time than a disk writes it. As with every key made without a
ceremony, whoever made it could forge proofs (see `distprove.groth16.dev_setup`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from distprove.groth16.dev_setup import ToxicWaste, key_points, key_scalars
from distprove.groth16.key import KeyPoints
from distprove.groth16.keys import VerificationKey
from distprove.groth16.memory import KeyShape, plan_memory
from distprove.groth16.resident import picking
from distprove.groth16.templated import TemplatedQap
from distprove.groth16.vectors import picked_wires
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Curve


@dataclass(frozen=True)
class DeviceKey:
    """A proving key in a backend's memory, or in host memory from which the backend copies fastest.

    Implements `distprove.groth16.key.LoadableKey`.
    """

    qap: TemplatedQap
    points: KeyPoints = field(repr=False)
    wires_a: HostArray | None
    wires_b: HostArray | None
    monomial: bool

    @property
    def curve(self) -> Curve:
        return self.qap.curve

    @property
    def n_vars(self) -> int:
        return self.qap.n_vars

    @property
    def n_public(self) -> int:
        return self.qap.n_public

    @property
    def domain_size(self) -> int:
        return self.qap.domain_size

    @property
    def alpha1(self) -> HostArray:
        return self.points.alpha1

    @property
    def beta1(self) -> HostArray:
        return self.points.beta1

    @property
    def beta2(self) -> HostArray:
        return self.points.beta2

    @property
    def delta1(self) -> HostArray:
        return self.points.delta1

    @property
    def delta2(self) -> HostArray:
        return self.points.delta2

    @property
    def points_a(self) -> Array:
        return self.points.a

    @property
    def points_b1(self) -> Array:
        return self.points.b1

    @property
    def points_b2(self) -> Array:
        return self.points.b2

    @property
    def points_c(self) -> Array:
        return self.points.c

    @property
    def points_h(self) -> Array:
        return self.points.h

    @property
    def nnz(self) -> int:
        return self.qap.a.nnz + self.qap.b.nnz

    def matrices(self) -> tuple[TemplatedMatrix, TemplatedMatrix]:
        return self.qap.a, self.qap.b

    @property
    def verification_key(self) -> VerificationKey:
        """Raises InvalidKey, which would be an error of this program."""
        points = self.points
        return VerificationKey(self.curve, points.alpha1, points.beta2, points.gamma2, points.delta2, points.ic)


def dev_key(qap: TemplatedQap, backend: Backend, *, monomial: bool = False) -> DeviceKey:
    """Make a development key from fresh toxic waste. Its vectors of points stay in the backend's memory, if they fit
    there beside a proof and the next one's witness; else they go to host memory as they are made.

    With `monomial` the H points are bellperson's, for the quotient's coefficients. Raises OutOfMemory.
    """
    free = backend.memory_free()
    scalars = key_scalars(qap, ToxicWaste.draw(qap), backend, monomial=monomial)
    wires_a, a = _occurring(qap, backend, scalars.a)
    wires_b, b = _occurring(qap, backend, scalars.b)
    scalars = replace(scalars, a=a, b=b)
    del a, b
    counts = {"a": scalars.a, "b1": scalars.b, "b2": scalars.b, "c": scalars.c, "h": scalars.h}
    shape = KeyShape(
        qap.curve,
        qap.n_vars,
        qap.domain_size,
        monomial,
        {section: len(elements) for section, elements in counts.items()},
        (qap.a.nnz, qap.b.nnz),
        tuple(len(wires) for wires in (wires_a, wires_b) if wires is not None),
    )
    del counts
    fits = not plan_memory(shape, backend, free=free).streamed
    points = key_points(qap.curve, scalars, backend, None if fits else backend.empty_host)
    return DeviceKey(qap, points, wires_a, wires_b, monomial)


def _occurring(qap: TemplatedQap, backend: Backend, polynomials: Array) -> tuple[HostArray | None, Array]:
    """The wires whose polynomial is not zero, and the values of those; None where that is nearly every wire."""
    words = backend.to_host(polynomials).T
    occurs = words[0] != 0
    for word in words[1:]:  # a reduction along rows of four words takes four times as long
        occurs |= word != 0
    wires = picked_wires(occurs)
    if wires is None:
        return None, polynomials
    return wires, backend.sparse.spmv(picking(qap.curve.fr, qap.n_vars, backend, wires), polynomials)
