"""Makes a proving key from a prepared powers-of-tau file: snarkjs' `groth16 setup`, then the change of delta.

The file holds the Lagrange basis of every domain "in the exponent", so each point of the key is a short sum of the
file's points with the circuit's coefficients: a sparse matrix times a vector of points.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from distprove.errors import CurveMismatch, InputError, InvalidKey
from distprove.groth16.combinations import coefficients, combination, is_next_power, same_pairing
from distprove.groth16.key import SINGLE, KeyPoints
from distprove.groth16.overread import difference
from distprove.groth16.points import chunks_to_bytes, to_bytes
from distprove.groth16.ptau import Powers, Ptau
from distprove.groth16.qap import Qap, stacked
from distprove.groth16.vectors import finite
from kernels.cpu.fields import from_montgomery
from kernels.cpu.group import add, mul, neg
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints, unpack

_HASH_CHUNK = 1 << 14


def check_ptau(qap: Qap, ptau: Ptau, backend: Backend) -> None:
    """Check that the file fits this circuit: its curve and size, that it is prepared, every point that will be used,
    and that the sections agree with each other.

    Raises CurveMismatch, InputError or InvalidKey.
    """
    if ptau.curve is not qap.curve:
        raise CurveMismatch(f"{ptau.name}: powers of tau on {ptau.curve.title}, the circuit is for {qap.curve.title}")
    if not ptau.prepared:
        raise InputError(f"{ptau.name}: not prepared for phase 2 (run: snarkjs powersoftau prepare phase2)")
    if qap.log_domain > ptau.power or ptau.power == 0:
        raise InputError(
            f"{ptau.name}: powers of tau up to 2^{ptau.power}; this circuit needs 2^{qap.log_domain} or more"
        )
    n = qap.domain_size
    used = [(which.group, ptau.lagrange(which, qap.log_domain), which.name) for which in Powers]
    used.append((Group.G1, ptau.lagrange(Powers.TAU_G1, qap.log_domain + 1), "H basis"))
    used.append((Group.G1, ptau.powers(Powers.TAU_G1)[: 2 * n], "tau G1"))
    for which in (Powers.ALPHA_TAU_G1, Powers.BETA_TAU_G1):
        used.append((Group.G1, ptau.powers(which)[:1], which.name))
    used += [(Group.G2, ptau.powers(Powers.TAU_G2)[1:2], "tau G2"), (Group.G2, ptau.beta_g2, "beta G2")]
    for group, points, title in used:
        bad = backend.groups.check_points(qap.curve, group, points)
        if bad is not None:
            raise InvalidKey(f"{ptau.name}: point {bad} of {title} is not in {group.name}")
        _check_finite(ptau, points, title)
    for which in Powers:  # a hole here does not reach the key, and the file is damaged nevertheless
        _check_finite(ptau, ptau.powers(which)[:n], which.name)
    _check_agreement(qap, ptau, backend)


def _check_finite(ptau: Ptau, points: HostArray, title: str) -> None:
    infinite = np.flatnonzero(~finite(points))
    if infinite.size:
        raise InvalidKey(f"{ptau.name}: damaged: point {infinite[0]} of {title} is infinity")


def _check_agreement(qap: Qap, ptau: Ptau, backend: Backend) -> None:
    """Check that the sections of the file belong to the same secrets. Raises InvalidKey.

    The powers in G1, 2n - 1 of them, begin with the generator, and the ratio of neighbours is tau. The other sections
    have the points f(tau), alpha f(tau) or beta f(tau) for one random polynomial f. Its degree is below n, but for the
    H basis, of 2n points. There it is 2n - 1, one more than honest provers use: points that are wrong for that power
    alone would let others prove false statements.
    """
    curve, log_n, n = qap.curve, qap.log_domain, qap.domain_size
    fr, g1, g2 = curve.fr, generator(curve, Group.G1), generator(curve, Group.G2)

    def combined(which: Powers, points: HostArray, factors: HostArray, start: int = 0) -> HostArray:
        return combination(curve, which.group, points, factors, backend, start=start)

    def values_of(polynomial: HostArray) -> HostArray:
        """Its values on the domain of its length. A transform is linear, so it takes integers as they are."""
        return backend.to_host(backend.vectors.ntt(fr, backend.to_device(polynomial.copy())))

    long = coefficients(curve, 2 * n)
    short = long[:n]
    tau1, tau2, beta2 = ptau.powers(Powers.TAU_G1)[: 2 * n - 1], _point(ptau.powers(Powers.TAU_G2)[1]), ptau.beta_g2
    alpha1, beta1 = (_point(ptau.powers(which)[0]) for which in (Powers.ALPHA_TAU_G1, Powers.BETA_TAU_G1))
    low, high = (combined(Powers.TAU_G1, tau1, long[: 2 * n - 2], start) for start in (0, 1))
    last = mul(curve, Group.G1, _point(tau1[2 * n - 2]), unpack(long[2 * n - 2 : 2 * n - 1])[0])
    short_values = values_of(short)
    f, f2, alpha_f, beta_f = (combined(which, ptau.lagrange(which, log_n), short_values) for which in Powers)
    h = combined(Powers.TAU_G1, ptau.lagrange(Powers.TAU_G1, log_n + 1), values_of(long))
    rest = add(curve, Group.G1, h, neg(curve, Group.G1, add(curve, Group.G1, low, last)))
    for title, agrees in (
        ("tau G1", np.array_equal(_point(tau1[0]), g1) and same_pairing(curve, (high, g2), (low, tau2))),
        ("H basis", is_next_power(curve, rest, long[2 * n - 1 :], _point(tau1[2 * n - 2]), tau2)),
        ("Lagrange tau G1", np.array_equal(f, combined(Powers.TAU_G1, tau1, short))),
        (Powers.TAU_G2.name, same_pairing(curve, (f, g2), (g1, f2))),
        (Powers.ALPHA_TAU_G1.name, same_pairing(curve, (alpha_f, g2), (alpha1, f2))),
        (Powers.BETA_TAU_G1.name, same_pairing(curve, (beta_f, g2), (f, _point(beta2[0])))),
        ("beta G2", same_pairing(curve, (beta1, g2), (g1, _point(beta2[0])))),
    ):
        if not agrees:
            raise InvalidKey(f"{ptau.name}: damaged, or of several ceremonies: {title} does not agree with the rest")


def initial_points(qap: Qap, ptau: Ptau, backend: Backend) -> KeyPoints:
    """The points of the circuit's key with gamma = delta = 1, on the host."""
    curve, log_n = qap.curve, qap.log_domain
    tau1, tau2, alpha1, beta1 = (ptau.lagrange(which, log_n) for which in Powers)
    a, b = qap.a.transposed(), qap.b.transposed()

    def sums(group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray:
        canonical = replace(matrix, values=from_montgomery(curve.fr, matrix.values))
        return backend.groups.sparse_product(curve, group, canonical, points)

    # beta A + alpha B + C for every wire
    combined = sums(Group.G1, stacked((qap.a, qap.b, qap.c)).transposed(), np.concatenate([beta1, alpha1, tau1]))
    return KeyPoints(
        alpha1=_point(ptau.powers(Powers.ALPHA_TAU_G1)[0]),
        beta1=_point(ptau.powers(Powers.BETA_TAU_G1)[0]),
        beta2=_point(ptau.beta_g2[0]),
        gamma2=generator(curve, Group.G2),
        delta1=generator(curve, Group.G1),
        delta2=generator(curve, Group.G2),
        ic=combined[: qap.n_public + 1],
        a=sums(Group.G1, a, tau1),
        b1=sums(Group.G1, b, tau1),
        b2=sums(Group.G2, b, tau2),
        c=combined[qap.n_public + 1 :],
        h=np.ascontiguousarray(ptau.lagrange(Powers.TAU_G1, log_n + 1)[1::2]).view("<u8"),
    )


def with_delta(curve: Curve, points: KeyPoints, factor: int, backend: Backend) -> KeyPoints:
    """Multiply the key's delta by `factor`, and divide by it the points that are divided by delta."""
    inverse = pow(factor, -1, curve.fr.modulus)
    return replace(
        points,
        delta1=mul(curve, Group.G1, points.delta1, factor),
        delta2=mul(curve, Group.G2, points.delta2, factor),
        c=_scaled(curve, points.c, inverse, backend),
        h=_scaled(curve, points.h, inverse, backend),
    )


def ceremony_hash(qap: Qap, points: KeyPoints, ptau: Ptau, backend: Backend) -> bytes:
    """snarkjs' csHash of the key with delta = 1, 64 bytes. Every contribution's transcript starts from it."""
    curve = qap.curve
    digest = hashlib.blake2b()
    for name, group in SINGLE.items():
        digest.update(to_bytes(curve, group, getattr(points, name)))

    def take(group: Group, vector: HostArray, count: int | None = None) -> None:
        digest.update((vector.shape[0] if count is None else count).to_bytes(4, "big"))
        for encoded in chunks_to_bytes(curve, group, vector, backend):
            digest.update(encoded)

    take(Group.G1, points.ic)
    powers = _vanishing_powers(qap, ptau, backend)
    take(Group.G1, powers, qap.domain_size - 1)
    if powers.shape[0] < _hashed_powers(qap):
        digest.update(_past_the_end(qap, ptau))
    take(Group.G1, points.c)
    take(Group.G1, points.a)
    take(Group.G1, points.b1)
    take(Group.G2, points.b2)
    return digest.digest()


def _vanishing_powers(qap: Qap, ptau: Ptau, backend: Backend) -> HostArray:
    """The points tau^i Z(tau) G1 = tau^(n + i) G1 - tau^i G1, as many as snarkjs hashes and the file has."""
    n = qap.domain_size
    count = min(_hashed_powers(qap), (2 << ptau.power) - 1 - n)
    index = np.arange(count, dtype=np.uint32)
    matrix = CsrMatrix(
        rows=count,
        cols=n + count,
        row_ptr=2 * np.arange(count + 1, dtype=np.uint32),
        columns=np.stack([index + np.uint32(n), index], axis=1).reshape(-1),
        value_index=np.tile(np.array([0, 1], dtype=np.uint32), count),
        values=scalars_from_ints(qap.curve.fr, [1, -1]),
    )
    return backend.groups.sparse_product(qap.curve, Group.G1, matrix, ptau.powers(Powers.TAU_G1)[: n + count])


def _hashed_powers(qap: Qap) -> int:
    """Number of powers that snarkjs hashes: n - 1 if they fit one chunk of 2^14, else whole chunks, which makes n,
    although the hash announces n - 1."""
    count = qap.domain_size - 1
    return count if count <= _HASH_CHUNK else -(-count // _HASH_CHUNK) * _HASH_CHUNK


def _past_the_end(qap: Qap, ptau: Ptau) -> bytes:
    """The bytes that snarkjs hashes instead of tau^(2n - 1) G1 - tau^(n - 1) G1 when the file has no tau^(2n - 1) G1.
    See `overread`."""
    size = 8 * qap.curve.point_limbs(Group.G1)
    offset, length = ptau.file.sections[Powers.TAU_G1]
    behind = ptau.file.data[offset + length : offset + length + size]
    if behind.shape[0] != size:
        raise InputError(f"{ptau.name}: the section of tau G1 is the last one, which no such file of snarkjs has")
    subtrahend = ptau.powers(Powers.TAU_G1)[qap.domain_size - 1]
    return difference(qap.curve, behind.tobytes(), subtrahend.tobytes())


def _scaled(curve: Curve, points: HostArray, factor: int, backend: Backend) -> HostArray:
    n = points.shape[0]
    matrix = CsrMatrix(
        rows=n,
        cols=n,
        row_ptr=np.arange(n + 1, dtype=np.uint32),
        columns=np.arange(n, dtype=np.uint32),
        value_index=np.zeros(n, dtype=np.uint32),
        values=scalars_from_ints(curve.fr, [factor]),
    )
    return backend.groups.sparse_product(curve, Group.G1, matrix, points)


def _point(raw: HostArray) -> HostArray:
    return np.frombuffer(raw.tobytes(), dtype="<u8")
