"""The Groth16 prover, with snarkjs' quotient.

Groth, On the size of pairing-based non-interactive arguments (eprint 2016/260), section 3.2. snarkjs' keys hold the H
points in the basis of the odd coset: with n the domain size and g a 2n-th root of unity, H_i commits to the Lagrange
polynomial of g w^i over that coset, divided by the vanishing polynomial's value there (-2). The evaluations of A B - C
on the coset are therefore the scalars themselves; no division is done here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.errors import WitnessMismatch
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.resident import ResidentKey
from distprove.system import PhaseTimes
from kernels import group
from kernels.backend import Array, HostArray
from kernels.curves import Group


@dataclass(frozen=True)
class Blinding:
    """The prover's two random field elements. Secret: whoever learns them learns relations among witnesses."""

    r: int
    s: int

    def __repr__(self) -> str:
        return "Blinding(secret)"


def fresh_blinding(modulus: int) -> Blinding:
    """Uniform in the scalar field, from the operating system's generator."""
    return Blinding(secrets.randbelow(modulus), secrets.randbelow(modulus))


def prove(
    key: ResidentKey,
    witness: NDArray[np.uint64],
    blinding: Callable[[int], Blinding] = fresh_blinding,
) -> tuple[Groth16Proof, PhaseTimes]:
    """Prove that `witness` satisfies the circuit of `key`.

    `witness`: (n_vars, 4) uint64, canonical integers, wire 0 equal to 1. A witness that does not satisfy the circuit
    gives a proof that does not verify (the key alone cannot tell); callers verify. Raises WitnessMismatch.
    """
    check_shape(key, witness)
    backend, curve = key.backend, key.curve
    times = PhaseTimes()
    traffic = backend.traffic.snapshot()

    # 1. The witness crosses to the device: the one large transfer of a proof.
    with _phase(times, "upload", backend.synchronize):
        w = backend.to_device(witness)

    # 2. Commit to it under the four witness bases. The launches return at once on a GPU.
    with _phase(times, "witness_msm", lambda: None):
        a_pending = backend.msm(key.points_a, w)
        b2_pending = backend.msm(key.points_b2, w)
        b1_pending = backend.msm(key.points_b1, w)
        c_pending = backend.msm(key.points_c, w[key.n_public + 1 :])

    # 3. Scalars of the quotient: A B - C on the odd coset.
    with _phase(times, "quotient", lambda: None):
        h = quotient_scalars(key, w)

    # 4. Commit to the quotient.
    with _phase(times, "quotient_msm", lambda: None):
        h_pending = backend.msm(key.points_h, h)

    # 5. Wait for the five commitments.
    with _phase(times, "wait", lambda: None):
        a, b2, b1, c, h_point = (p.result() for p in (a_pending, b2_pending, b1_pending, c_pending, h_pending))

    # 6. Blind and assemble, as in the paper.
    with _phase(times, "assemble", lambda: None):
        proof = assemble(key, a, b1, b2, c, h_point, blinding(curve.fr.modulus))

    moved = backend.traffic.since(traffic)
    times.to_device, times.to_host = moved.to_device, moved.to_host
    return proof, times


def check_shape(key: ResidentKey, witness: NDArray[np.uint64]) -> None:
    """Raise WitnessMismatch unless `witness` has the key's number of wires and starts with the constant 1."""
    expected = (key.n_vars, key.curve.fr.limbs)
    if witness.shape != expected:
        raise WitnessMismatch(f"the witness has shape {witness.shape}; this key's circuit needs {expected}")
    if witness[0, 0] != 1 or witness[0, 1:].any():
        raise WitnessMismatch("the witness does not start with the constant wire 1")


def quotient_scalars(key: ResidentKey, w: Array) -> Array:
    """(domain, 4) canonical scalars for the H points: the evaluations of A B - C on the odd coset."""
    backend, field = key.backend, key.curve.fr
    shift = field.root_of_unity(key.log_domain + 1)
    a = backend.spmv(key.matrix_a, w, standard_form=True)
    b = backend.spmv(key.matrix_b, w, standard_form=True)
    c = backend.mul(field, a, b)  # for a satisfied witness C w = A w * B w
    for vector in (a, b, c):
        backend.ntt(field, vector, inverse=True, bit_reversed_output=True)
        backend.ntt(field, vector, coset=shift, bit_reversed_input=True)
    h = backend.mul_sub(field, a, b, c, out=a)
    return backend.from_montgomery(field, h, out=h)


def assemble(
    key: ResidentKey, a: HostArray, b1: HostArray, b2: HostArray, c: HostArray, h: HostArray, blinding: Blinding
) -> Groth16Proof:
    """A = alpha + a + r delta;  B = beta + b + s delta;  C = c + h + s A + r B1 - r s delta."""
    curve, r, s = key.curve, blinding.r, blinding.s
    g1, g2 = Group.G1, Group.G2

    def times(point: HostArray, scalar: int, which: Group = g1) -> HostArray:
        return group.mul(curve, which, point, scalar)

    def total(*points: HostArray, which: Group = g1) -> HostArray:
        return group.sum_points(curve, which, np.stack(points))

    proof_a = total(key.alpha1, a, times(key.delta1, r))
    proof_b = total(key.beta2, b2, times(key.delta2, s, g2), which=g2)
    proof_b1 = total(key.beta1, b1, times(key.delta1, s))
    minus_rs = -r * s % curve.fr.modulus
    proof_c = total(c, h, times(proof_a, s), times(proof_b1, r), times(key.delta1, minus_rs))
    return Groth16Proof(curve, proof_a, proof_b, proof_c)


@contextmanager
def _phase(times: PhaseTimes, name: str, settle: Callable[[], None]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    settle()
    times.seconds[name] = times.seconds.get(name, 0.0) + time.perf_counter() - start
