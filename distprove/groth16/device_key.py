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

    curve: Curve
    n_vars: int
    n_public: int
    domain_size: int
    a: TemplatedMatrix = field(repr=False)
    b: TemplatedMatrix = field(repr=False)
    points: KeyPoints = field(repr=False)
    wires_a: HostArray | None
    wires_b: HostArray | None
    monomial: bool
    verification_key: VerificationKey
    commitment_bases = ()

    @property
    def nnz(self) -> int:
        return self.a.nnz + self.b.nnz

    def matrices(self) -> tuple[TemplatedMatrix, TemplatedMatrix]:
        return self.a, self.b


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
    return DeviceKey(
        curve=qap.curve,
        n_vars=qap.n_vars,
        n_public=qap.n_public,
        domain_size=qap.domain_size,
        a=qap.a,
        b=qap.b,
        points=points,
        wires_a=wires_a,
        wires_b=wires_b,
        monomial=monomial,
        verification_key=VerificationKey(
            qap.curve, points.alpha1, points.beta2, points.gamma2, points.delta2, points.ic
        ),
    )


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
