"""Makes a proving key from fresh toxic waste, without a ceremony, for development only.

Whoever runs this could forge proofs, since tau, alpha, beta and delta are known to the process; they are drawn from the
operating system's generator, used and dropped, and never written. The key is marked insecure (see `setup`). All work of
the circuit's size is a backend operation, so that a GPU makes a key of 2^20 constraints in seconds.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from distprove.groth16.key import KeyPoints
from distprove.groth16.qap import Program
from distprove.groth16.resident import picking
from distprove.groth16.vectors import finite
from kernels.interface.arrays import Array, Empty, HostArray
from kernels.interface.backend import Backend
from kernels.interface.groups import PointSlices
from kernels.interface.matrix import CsrMatrix
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Curve, Field, Group
from kernels.maths.encoding import field_from_ints, generator

POINTS_AT_ONCE = 1 << 23
"""Points that the device holds at a time while they are made for host memory."""


@dataclass(frozen=True)
class ToxicWaste:
    """The toxic waste of a Groth16 key: secrets that are never printed and never stored."""

    tau: int = field(repr=False)
    alpha: int = field(repr=False)
    beta: int = field(repr=False)
    delta: int = field(repr=False)

    @classmethod
    def draw(cls, qap: AnyProgram) -> ToxicWaste:
        """Draw fresh secrets. tau is not in the domain or its odd coset: the Lagrange formula would divide by zero."""
        fr = qap.curve.fr
        while True:
            tau, alpha, beta, delta = (1 + secrets.randbelow(fr.modulus - 1) for _ in range(4))
            if pow(tau, 2 * qap.domain_size, fr.modulus) != 1:
                return cls(tau, alpha, beta, delta)


class _Vectors:
    """Makes vectors over the scalar field in the backend's memory."""

    def __init__(self, backend: Backend, fr: Field) -> None:
        self.backend = backend
        self.fr = fr

    def geometric(self, n: int, first: int, base: int) -> Array:
        """The vector of first * base^i for i < n, (n, limbs)."""
        ones = self.backend.empty((n, self.fr.limbs))
        ones[...] = self.backend.to_device(field_from_ints(self.fr, [1]))
        return self.backend.vectors.scale_powers(self.fr, ones, base, first, out=ones)

    def scaled(self, a: Array, factor: int) -> Array:
        return self.backend.vectors.scale_powers(self.fr, a, 1, factor)

    def lagrange(self, n: int, tau: int, *, shift: int = 1) -> Array:
        """The vector of x_i / (tau - x_i) for x_i = shift * w^i: the Lagrange basis at tau up to a constant factor.

        The basis itself is L_i(tau) = (tau^n - shift^n) / (n * shift^n) * x_i / (tau - x_i).
        """
        points = self.geometric(n, shift, self.fr.root_of_unity(n.bit_length() - 1))
        differences = self.backend.vectors.sub(self.fr, self.geometric(n, tau, 1), points)
        inverses = self.backend.vectors.batch_inverse(self.fr, differences)
        return self.backend.vectors.mul(self.fr, points, inverses, out=points)


AnyProgram = Program[CsrMatrix] | Program[TemplatedMatrix]


@dataclass(frozen=True, repr=False)
class KeyScalars:
    """What the points of a key are multiples of, in Montgomery form in a backend's memory. They are secret."""

    waste: ToxicWaste
    a: Array
    """Each wire's polynomial of A at tau."""
    b: Array
    ic: Array
    """beta a + alpha b + c of the constant and each public wire."""
    c: Array
    """The same of each private wire, over delta."""
    h: Array


def key_scalars(qap: AnyProgram, waste: ToxicWaste, backend: Backend, *, monomial: bool = False) -> KeyScalars:
    """The scalars of the key, with gamma = 1 and the delta of `waste`.

    With `monomial`, those of the H points are bellperson's: tau^i t(tau) / delta for i below the domain's size less
    one.
    """
    fr, p, n = qap.curve.fr, qap.curve.fr.modulus, qap.domain_size
    vectors = _Vectors(backend, fr)

    # 1. The Lagrange basis of the domain at tau.
    vanishing = pow(waste.tau, n, p) - 1
    basis = vectors.scaled(vectors.lagrange(n, waste.tau), vanishing * pow(n, -1, p))

    # 2. Every wire's polynomials at tau: the transposed matrices times the basis.
    load, multiply = backend.sparse.load_matrix, backend.sparse.spmv
    a, b, c = (multiply(load(fr, matrix, transposed=True), basis) for matrix in (qap.a, qap.b, qap.c))
    del basis

    # 3. beta a + alpha b + c, over gamma = 1 for public wires and over delta for private ones.
    combined = backend.vectors.add(fr, c, vectors.scaled(a, waste.beta), out=c)
    combined = backend.vectors.add(fr, combined, vectors.scaled(b, waste.alpha), out=combined)
    inverse_delta = pow(waste.delta, -1, p)
    public, private = combined[: qap.n_public + 1], combined[qap.n_public + 1 :]
    backend.vectors.scale_powers(fr, private, 1, inverse_delta, out=private)

    # 4. H. The prover has A B - C on the odd coset only; it vanishes on the domain, so in the Lagrange basis of the
    #    doubled domain the odd elements suffice: x_i (tau^2n - 1) / (2n (tau - x_i)), x_i = w_2n^(2i + 1).
    if monomial:
        h = vectors.geometric(n - 1, vanishing * inverse_delta % p, waste.tau)
    else:
        factor = (pow(waste.tau, 2 * n, p) - 1) * pow(2 * n * waste.delta, -1, p)
        h = vectors.scaled(vectors.lagrange(n, waste.tau, shift=fr.root_of_unity(qap.log_domain + 1)), factor)
    return KeyScalars(waste, a, b, public, private, h)


def key_points(curve: Curve, scalars: KeyScalars, backend: Backend, empty_host: Empty | None) -> KeyPoints:
    """The points of the key, in host memory that `empty_host` makes, or with None in the backend's memory."""
    fr, waste = curve.fr, scalars.waste

    def points(group: Group, elements: Array) -> Array:
        standard = backend.vectors.from_montgomery(fr, elements)
        return backend.groups.fixed_base(curve, group, generator(curve, group), standard)

    def vector(group: Group, elements: Array) -> Array:
        if empty_host is None:
            return points(group, elements)
        kept: HostArray = empty_host((len(elements), curve.point_limbs(group)), np.uint64)
        for begin in range(0, len(elements), POINTS_AT_ONCE):
            kept[begin : begin + POINTS_AT_ONCE] = backend.to_host(
                points(group, elements[begin : begin + POINTS_AT_ONCE])
            )
        return kept

    def point(group: Group, scalar: int) -> HostArray:
        single: HostArray = backend.to_host(points(group, backend.to_device(field_from_ints(fr, [scalar]))))[0]
        return single

    return KeyPoints(
        alpha1=point(Group.G1, waste.alpha),
        beta1=point(Group.G1, waste.beta),
        beta2=point(Group.G2, waste.beta),
        gamma2=generator(curve, Group.G2),
        delta1=point(Group.G1, waste.delta),
        delta2=point(Group.G2, waste.delta),
        ic=backend.to_host(points(Group.G1, scalars.ic)),
        a=vector(Group.G1, scalars.a),
        b1=vector(Group.G1, scalars.b),
        b2=vector(Group.G2, scalars.b),
        c=vector(Group.G1, scalars.c),
        h=vector(Group.G1, scalars.h),
    )


class ScalarPoints(PointSlices):
    """Points that are made when a slice of them is taken: multiples of a group's generator by secret scalars."""

    at_once = 1 << 20
    any_thread = False

    def __init__(self, backend: Backend, curve: Curve, group: Group, scalars: Array) -> None:
        """`scalars` is (n, limbs) in Montgomery form in the backend's memory."""
        self._backend, self._curve, self._group, self._scalars = backend, curve, group, scalars

    def __len__(self) -> int:
        return len(self._scalars)

    def __getitem__(self, which: slice) -> HostArray:
        backend, curve, group = self._backend, self._curve, self._group
        standard = backend.vectors.from_montgomery(curve.fr, self._scalars[which])
        return backend.to_host(backend.groups.fixed_base(curve, group, generator(curve, group), standard))

    def finite(self) -> NDArray[np.bool_]:
        """Which points are not at infinity."""
        found = np.empty(len(self), np.bool_)
        for begin in range(0, len(self), POINTS_AT_ONCE):
            words = self._backend.to_host(self._scalars[begin : begin + POINTS_AT_ONCE])
            found[begin : begin + POINTS_AT_ONCE] = finite(words)
        return found

    def at(self, wires: HostArray) -> ScalarPoints:
        """The points of some wires, ascending."""
        if len(wires) == len(self):
            return self
        matrix = picking(self._curve.fr, len(self), self._backend, wires)
        return ScalarPoints(self._backend, self._curve, self._group, self._backend.sparse.spmv(matrix, self._scalars))


def dev_slices(qap: AnyProgram, waste: ToxicWaste, backend: Backend, *, monomial: bool = False) -> KeyPoints:
    """Make the points of `dev_points`. Vectors but `ic` are `ScalarPoints`: the host holds one slice."""
    scalars = key_scalars(qap, waste, backend, monomial=monomial)

    def points(group: Group, elements: Array) -> ScalarPoints:
        return ScalarPoints(backend, qap.curve, group, elements)

    nothing = replace(scalars, **dict.fromkeys(("a", "b", "c", "h"), scalars.a[:0]))
    return replace(
        key_points(qap.curve, nothing, backend, np.empty),
        a=points(Group.G1, scalars.a),
        b1=points(Group.G1, scalars.b),
        b2=points(Group.G2, scalars.b),
        c=points(Group.G1, scalars.c),
        h=points(Group.G1, scalars.h),
    )


def dev_points(qap: AnyProgram, waste: ToxicWaste, backend: Backend, *, monomial: bool = False) -> KeyPoints:
    """All points of the key on the host. The result holds no scalar of `waste`. `monomial` is for `key_scalars`."""
    return key_points(qap.curve, key_scalars(qap, waste, backend, monomial=monomial), backend, np.empty)
