"""The Groth16 prover, with the quotient of snarkjs or of bellperson.

Groth, On the size of pairing-based non-interactive arguments (eprint 2016/260), section 3.2. snarkjs' keys hold the H
points in the basis of the odd coset: with n the domain size and g a 2n-th root of unity, H_i commits to the Lagrange
polynomial of g w^i over that coset, divided by the vanishing polynomial's value there (-2). Therefore the evaluations
of A B - C on the coset are the scalars, and the prover divides nothing. bellperson's keys commit to powers of tau, so
that the prover computes the quotient's coefficients (`distprove.groth16.quotient`); and they have points only for wires
that occur, whose elements are picked out of the witness. A GPU loads snarkjs' keys so too (`groth16.vectors`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from distprove.errors import WitnessMismatch
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.resident import Commitments, ResidentKey, picked
from distprove.system import StepTimes
from kernels.cpu import group
from kernels.cpu.pairing import combine_members_g1
from kernels.host.units import count_of
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.backend import Backend
from kernels.interface.busy import BusyWatch
from kernels.interface.staged import MadeOnUse, Staged
from kernels.maths.curves import Group
from kernels.maths.encoding import scalars_from_ints

T = TypeVar("T")


@dataclass(frozen=True)
class Blinding:
    """The prover's two random field elements. They are secret: whoever learns them learns relations among witnesses."""

    r: int
    s: int

    def __repr__(self) -> str:
        return "Blinding(secret)"


def fresh_blinding(modulus: int) -> Blinding:
    """Draw two uniform elements of the scalar field from the operating system's random generator."""
    return Blinding(secrets.randbelow(modulus), secrets.randbelow(modulus))


MadeOnDevice = Callable[[Backend], Array]
"""What makes a witness in a backend's memory, (n_vars, 4) canonical integers, by the thread that computes."""


def prove(
    key: ResidentKey,
    witness: NDArray[np.uint64] | MadeOnDevice,
    blinding: Callable[[int], Blinding] = fresh_blinding,
) -> tuple[Groth16Proof, StepTimes]:
    """Prove that `witness` satisfies the circuit of `key`.

    `witness` is (n_vars, 4) uint64, canonical integers, with wire 0 equal to 1, or what makes it on the device. A
    witness that does not satisfy the circuit gives a proof that does not verify, because the key alone cannot tell; so
    callers must verify the proof. Raises WitnessMismatch.
    """
    staged = StagedWitness(key, witness)
    try:
        return staged.start(blinding).result()
    finally:
        staged.release()


class StagedWitness:
    """A witness on its way to the device, the first of a proof's three parts. The others are the computation on the
    device and the assembly on the host; proofs in different parts can be in flight at once."""

    def __init__(self, key: ResidentKey, witness: NDArray[np.uint64] | MadeOnDevice) -> None:
        """Begin to copy `witness`, which has the form that `prove` takes and must not change until it is released, or
        to make it, where the device has room for a second one and can; otherwise `start` makes it.

        May be called while another thread uses the key's backend. Raises WitnessMismatch, OutOfMemory, and what making
        the witness raises.
        """
        if isinstance(witness, np.ndarray):
            check_shape(key, witness)
        self._key = key
        self._times = StepTimes()

        # 1. Copy the witness to the device, the only large transfer of a proof.
        with self._times.step("upload"):
            backend = key.backend
            self._staged: Staged = (
                backend.stage(witness, ahead=key.plan.witnesses > 1)
                if isinstance(witness, np.ndarray)
                else backend.make_ahead(partial(_made, key, witness))
                if key.plan.witnesses > 1
                else MadeOnUse(partial(_made, key, witness, backend))
            )

    def ahead(self, step: str, work: Callable[[Array], T]) -> T:
        """Do `work` with the witness on the device before the proof is started, as a step of its own."""
        with self._times.step("upload"):
            w = self._staged.array()
        with self._times.step(step):
            return work(w)

    def start(self, blinding: Callable[[int], Blinding] = fresh_blinding) -> PendingGroth16:
        """Submit the work to the device, once. On a GPU the work is still in progress when this returns."""
        key, backend, times = self._key, self._key.backend, self._times
        traffic = backend.traffic.snapshot()
        with times.step("upload"):
            self._staged.array()
        busy = backend.watch_busy()
        points = self._commit() if key.commitments is None else self._commit_at_once(key.commitments)
        busy.end()

        moved = backend.traffic.since(traffic)
        times.to_device, times.to_host = moved.to_device, moved.to_host
        return PendingGroth16(key, points, blinding(key.curve.fr.modulus), times, busy)

    def _commit_at_once(self, commitments: Commitments) -> Sequence[Pending]:
        """Queue steps 2 to 4 as they were recorded."""
        with self._times.step("commit"):
            points = commitments(self._staged.array())
            self.release()
        return points

    def _commit(self) -> Sequence[Pending]:
        """Queue steps 2 to 4 one after the other, and give back the memory of each before the next."""
        key, backend, times = self._key, self._key.backend, self._times

        # 2. Commit to the witness under the four witness bases. The launches return at once on a GPU.
        with times.step("witness_msm"):
            w = self._staged.array()
            a = backend.groups.msm(key.points["a"], picked(key, key.pick_a, w))
            w_b = picked(key, key.pick_b, w)
            b2 = backend.groups.msm(key.points["b2"], w_b)
            b1 = backend.groups.msm(key.points["b1"], w_b)
            c = backend.groups.msm(key.points["c"], key.private(w))
            del w_b  # some GiB of a large circuit, which the quotient needs

        # 3. Compute the scalars of the quotient, A B - C on the odd coset. This is the last use of the witness.
        with times.step("quotient"):
            products = [backend.sparse.spmv(m, w, standard_form=True) for m in (key.matrix_a, key.matrix_b)]
            del w
            self.release()
            scalars = key.quotient(*products)
            del products

        # 4. Commit to the quotient.
        with times.step("quotient_msm"):
            h = backend.groups.msm(key.points["h"], scalars[: key.points["h"].n])
        return a, b1, b2, c, h

    def release(self) -> None:
        """Free the memory of the witness. A second call does nothing."""
        self._staged.release()


class PendingGroth16:
    """A proof whose five commitments the device is computing."""

    def __init__(
        self,
        key: ResidentKey,
        commitments: Sequence[Pending],
        blinding: Blinding,
        times: StepTimes,
        busy: BusyWatch,
    ) -> None:
        """`commitments` are a, b1, b2, c and h."""
        self._key = key
        self._commitments = commitments
        self._blinding = blinding
        self._times = times
        self._busy = busy
        self._masks: Masks | None = None
        self._part: PartOfC | None = None
        self._points: list[HostArray] = []

    def wait(self) -> None:
        """Wait for the device. Another thread may use the backend meanwhile. A second call does nothing."""
        if self._masks is not None:
            return
        times = self._times
        a, b1, *others = self._commitments

        # 5. The masks depend on no commitment, and the multiples of A and B in C on two of them, so both are computed
        #    while the device is still at work.
        with times.step("blind"):
            self._masks = Masks.draw(self._key, self._blinding)
        with times.step("wait"):
            first = a.result(), b1.result()
        with times.step("assemble"):
            self._part = PartOfC.of(self._key, *first, self._masks)

        # 6. Wait for the other commitments.
        with times.step("wait"):
            self._points = [commitment.result() for commitment in others]
        times.on_device = self._busy.time()

    def result(self) -> tuple[Groth16Proof, StepTimes]:
        """Wait for the proof and return it with its times, once. Another thread may use the backend meanwhile."""
        self.wait()
        assert self._masks is not None
        assert self._part is not None
        b2, c, h = self._points

        # 7. Blind and assemble the proof, as in the paper.
        with self._times.step("assemble"):
            proof = assemble(self._key, self._part, b2, c, h, self._masks)
        return proof, self._times


def _made(key: ResidentKey, make: MadeOnDevice, backend: Backend) -> Array:
    """The witness that `make` makes. Raises WitnessMismatch."""
    array = make(backend)
    if array.shape != (key.n_vars, key.curve.fr.limbs):
        raise WitnessMismatch(
            f"the witness has shape {array.shape}; this key's circuit has {count_of(key.n_vars, 'wire')}"
        )
    return array


def check_shape(key: ResidentKey, witness: NDArray[np.uint64]) -> None:
    """Raise WitnessMismatch unless `witness` has the key's number of wires and starts with the constant 1."""
    expected = (key.n_vars, key.curve.fr.limbs)
    if witness.shape != expected:
        raise WitnessMismatch(f"the witness has shape {witness.shape}; this key's circuit needs {expected}")
    if witness[0, 0] != 1 or witness[0, 1:].any():
        raise WitnessMismatch("the witness does not start with the constant wire 1")


@dataclass(frozen=True, repr=False)
class Masks:
    """The secret points that blind a proof, and the elements that they come from."""

    blinding: Blinding
    a: HostArray
    """The mask of A: alpha + r delta."""
    b2: HostArray
    """The mask of B: beta + s delta."""

    @classmethod
    def draw(cls, key: ResidentKey, blinding: Blinding) -> Masks:
        """Compute the masks under `key` for two random elements."""
        return cls(
            blinding,
            a=key.delta1_multiples.add_to(key.alpha1, blinding.r),
            b2=key.delta2_multiples.add_to(key.beta2, blinding.s),
        )


@dataclass(frozen=True, repr=False)
class PartOfC:
    """A, and what of C depends on A and B alone."""

    proof_a: HostArray
    multiples: HostArray
    """s A + r B1 - r s delta with B1 = beta + b + s delta, which is s A + r (beta + b)."""

    @classmethod
    def of(cls, key: ResidentKey, a: HostArray, b1: HostArray, masks: Masks) -> PartOfC:
        """Compute both from the commitments under the bases of A and of B in G1."""
        curve = key.curve
        points = np.stack([group.add(curve, Group.G1, a, masks.a), group.add(curve, Group.G1, b1, key.beta1)])
        factors = scalars_from_ints(curve.fr, [masks.blinding.s, masks.blinding.r])
        return cls(points[0], combine_members_g1(curve, points, factors))


def assemble(key: ResidentKey, part: PartOfC, b2: HostArray, c: HostArray, h: HostArray, masks: Masks) -> Groth16Proof:
    """Assemble A = alpha + a + r delta, B = beta + b + s delta, C = c + h + s A + r B1 - r s delta."""
    curve = key.curve
    proof_b = group.add(curve, Group.G2, b2, masks.b2)
    proof_c = group.sum_points(curve, Group.G1, [c, h, part.multiples])
    return Groth16Proof(curve, part.proof_a, proof_b, proof_c)
