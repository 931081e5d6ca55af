"""Proofs, verifying keys and public witnesses in the files of gnark, over BN254 and BLS12-381.

The files are those that gnark's `WriteTo` and `WriteRawTo` write. Points are compressed, or x and y in full: then
without flags, but for infinity over BLS12-381. Numbers are big-endian.

- A proof: A, B, C; but for old versions the count of commitments (4 bytes), these, and their proof of knowledge.
- A verifying key: [alpha]_1, [beta]_1, [beta]_2, [gamma]_2, [delta]_1, [delta]_2, the count and points of K; but for
  old versions the counts of committed wires and of commitment keys.
- A public witness: the counts of public, secret and all values (4 bytes each), and the values of 32 bytes.

Circuits with commitments (gnark's `api.Commit`, and its range checks) have a verifier of another kind
(`committed`), whose key ends with two points of G2 for each commitment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.errors import FormatError, InputError
from distprove.groth16 import points
from distprove.groth16.committed.key import (
    MAX_COMMITMENTS,
    AnyVerificationKey,
    CommitmentKey,
    CommittedKey,
    CommittedProof,
)
from distprove.groth16.committed.names import DEFAULT
from distprove.groth16.compressed_points import GNARK_BN254, ZCASH, Form
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import point_from_ints

FORMS = {form.curve.name: form for form in (GNARK_BN254, ZCASH)}
"""The forms of points, by the names of their curves."""
MAX_PROOF_BYTES = 1 << 12
MAX_KEY_BYTES = 1 << 24
_COUNT, _WIRE, _SCALAR = 4, 8, 32
_RAW_INFINITY = 0x40
"""The first byte of infinity in full over BLS12-381."""


class _Reader:
    """Reads a file of gnark from its beginning."""

    def __init__(self, form: Form, data: bytes, what: str) -> None:
        self.form, self.data, self.what, self.place = form, data, what, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.place

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise FormatError(f"{self.what}: ends at byte {len(self.data)}, within a value")
        self.place += size
        return self.data[self.place - size : self.place]

    def count(self) -> int:
        return int.from_bytes(self.take(_COUNT), "big")

    def point(self, group: Group, name: str) -> Words:
        """The next point, in either form. Whether it is on the curve is checked in compressed form alone."""
        form, what = self.form, f"{self.what}: {name}"
        if self.left and form.is_compressed(self.data[self.place]):
            return form.decompress(group, self.take(form.size(group)), what)
        raw = self.take(points.size(form.curve, group))
        if form is ZCASH and raw[0] == _RAW_INFINITY and not any(raw[1:]):
            return point_from_ints(form.curve, group, None)
        if form is ZCASH and not any(raw):
            raise FormatError(f"{what}: zero is not flagged as infinity")
        return points.one_from_bytes(form.curve, group, raw, what)

    def wires(self) -> tuple[int, ...]:
        """The next list of committed wires."""
        count = self.count()
        data = self.take(count * _WIRE)
        return tuple(int.from_bytes(data[at : at + _WIRE], "big") for at in range(0, len(data), _WIRE))

    def end(self) -> None:
        if self.left:
            raise FormatError(f"{self.what}: {count_of(self.left, 'byte follows', 'bytes follow')} its content")

    def commitments(self) -> int:
        """The next count of commitments or of their keys."""
        count = self.count()
        if count > MAX_COMMITMENTS:
            raise FormatError(f"{self.what}: {count_of(count, 'commitment')}, of {MAX_COMMITMENTS} at most")
        return count


def form_of(curve: Curve) -> Form:
    """Raises InputError for a curve that has none."""
    if curve.name not in FORMS:
        raise InputError(f"gnark's files over {curve.title} are not known")
    return FORMS[curve.name]


# -- proofs ------------------------------------------------------------------------------------------------------------


def parse_proof(data: bytes, what: str = "proof") -> Groth16Proof:
    """The proof in a file of gnark; its size says its curve. Its points are not checked yet; `verify` does that.

    Raises FormatError, InputError for a proof with commitments.
    """
    made = parse_committed_proof(data, what)
    if len(made.commitments):
        raise _committed(what)
    return made.proof


def parse_committed_proof(data: bytes, what: str = "proof") -> CommittedProof:
    """A proof as `parse_proof` reads it, with as many commitments as it has. Raises FormatError."""
    for form in FORMS.values():
        for per in (1, 2):
            point = per * form.size(Group.G1)
            at = 2 * point + per * form.size(Group.G2)
            count = int.from_bytes(data[at : at + _COUNT], "big")
            if len(data) == at or len(data) == at + _COUNT + (count + 1) * point:
                return _proof(_Reader(form, data, what))
    raise FormatError(f"{what}: no proof of gnark has {count_of(len(data), 'byte')}")


def _proof(reader: _Reader) -> CommittedProof:
    curve = reader.form.curve
    a, b, c = (reader.point(group, name) for group, name in ((Group.G1, "A"), (Group.G2, "B"), (Group.G1, "C")))
    commitments: list[Words] = []
    knowledge = point_from_ints(curve, Group.G1, None)
    if reader.left:
        commitments = [reader.point(Group.G1, f"commitment {k}") for k in range(reader.commitments())]
        knowledge = reader.point(Group.G1, "proof of knowledge")
        if not commitments and not points.is_infinity(knowledge):
            raise FormatError(f"{reader.what}: has a proof of knowledge, and no commitments")
    reader.end()
    stacked = np.array(commitments, dtype=np.uint64).reshape(len(commitments), curve.point_limbs(Group.G1))
    return CommittedProof(Groth16Proof(curve, a, b, c), stacked, knowledge)


def _committed(what: str) -> InputError:
    return InputError(
        f"{what}: of a circuit with commitments (gnark's api.Commit, range checks), which only `gnark verify` and jobs "
        "under gnark's keys take"
    )


def format_proof(made: Groth16Proof | CommittedProof) -> bytes:
    """A proof as gnark's `WriteTo` writes it: compressed."""
    proof, commitments = (made.proof, list(made.commitments)) if isinstance(made, CommittedProof) else (made, [])
    form = form_of(proof.curve)
    none = point_from_ints(proof.curve, Group.G1, None)
    knowledge = made.knowledge if isinstance(made, CommittedProof) else none
    three = ((Group.G1, proof.a), (Group.G2, proof.b), (Group.G1, proof.c))
    listed = b"".join(form.compress(Group.G1, point) for point in (*commitments, knowledge))
    return b"".join(form.compress(*each) for each in three) + len(commitments).to_bytes(_COUNT, "big") + listed


# -- verifying keys ----------------------------------------------------------------------------------------------------


def parse_verifying_key(data: bytes, curve: Curve, what: str = "verifying key") -> VerificationKey:
    """The key in a file of gnark, and check every point.

    [beta]_1 and [delta]_1, which verifiers do not use, must be points but are not compared. Raises FormatError,
    InvalidKey, and InputError for a key with commitments.
    """
    read = parse_committed_key(data, curve, what)
    if read.committed:
        raise _committed(what)
    return read.key


def parse_committed_key(
    data: bytes, curve: Curve, what: str = "verifying key", *, commitment_hash: str = DEFAULT
) -> CommittedKey:
    """A key as `parse_verifying_key` reads it, with as many commitments as it has. How these are hashed is not in the
    file. Raises FormatError, InvalidKey."""
    reader = _Reader(form_of(curve), data, what)
    alpha1, _ = reader.point(Group.G1, "alpha"), reader.point(Group.G1, "beta in G1")
    beta2, gamma2 = reader.point(Group.G2, "beta"), reader.point(Group.G2, "gamma")
    _, delta2 = reader.point(Group.G1, "delta in G1"), reader.point(Group.G2, "delta")
    count = reader.count()
    if not 0 < count <= reader.left // reader.form.size(Group.G1):
        raise FormatError(f"{what}: {count_of(count, 'point')} of K in {count_of(reader.left, 'byte')}")
    ic = np.stack([reader.point(Group.G1, f"K[{k}]") for k in range(count)])
    committed: tuple[tuple[int, ...], ...] = ()
    keys: tuple[CommitmentKey, ...] = ()
    if reader.left:
        committed = tuple(reader.wires() for _ in range(reader.commitments()))
        keys = tuple(_commitment_key(reader, k) for k in range(reader.commitments()))
    reader.end()
    key = VerificationKey(curve, alpha1=alpha1, beta2=beta2, gamma2=gamma2, delta2=delta2, ic=ic)
    return CommittedKey(key, committed, keys, commitment_hash)


def _commitment_key(reader: _Reader, place: int) -> CommitmentKey:
    g, g_sigma_neg = (reader.point(Group.G2, f"{name} of commitment {place}") for name in ("g", "-sigma g"))
    return CommitmentKey(g, g_sigma_neg)


def format_verifying_key(given: AnyVerificationKey) -> bytes:
    """A key as gnark's `WriteTo` writes it, compressed. [beta]_1 and [delta]_1, which a verification key
    of ours lacks and no verifier uses, are infinity."""
    own = given if isinstance(given, CommittedKey) else CommittedKey(given)
    key, form = own.key, form_of(own.curve)
    none = point_from_ints(key.curve, Group.G1, None)
    listed = (
        *((Group.G1, key.alpha1), (Group.G1, none), (Group.G2, key.beta2), (Group.G2, key.gamma2)),
        *((Group.G1, none), (Group.G2, key.delta2)),
    )
    head = b"".join(form.compress(*each) for each in listed)
    ic = b"".join(form.compress(Group.G1, point) for point in key.ic)
    tail = [len(own.committed).to_bytes(_COUNT, "big")]
    for wires in own.committed:
        tail += [len(wires).to_bytes(_COUNT, "big"), *(wire.to_bytes(_WIRE, "big") for wire in wires)]
    tail.append(len(own.commitment_keys).to_bytes(_COUNT, "big"))
    tail += [form.compress(Group.G2, point) for each in own.commitment_keys for point in (each.g, each.g_sigma_neg)]
    return head + len(key.ic).to_bytes(_COUNT, "big") + ic + b"".join(tail)


# -- public witnesses --------------------------------------------------------------------------------------------------


def parse_public(data: bytes, curve: Curve, what: str = "public witness") -> tuple[int, ...]:
    """The public values in a witness file of gnark. Raises FormatError, also for one with secret values."""
    reader = _Reader(form_of(curve), data, what)
    public, secret, count = reader.count(), reader.count(), reader.count()
    if secret or count != public or reader.left != count * _SCALAR:
        raise FormatError(
            f"{what}: {public} public and {count_of(secret, 'secret value')}, {count} in all, in "
            f"{count_of(reader.left, 'byte')}"
        )
    values = tuple(int.from_bytes(reader.take(_SCALAR), "big") for _ in range(count))
    for k, value in enumerate(values):
        if value >= curve.fr.modulus:
            raise FormatError(f"{what}: value {k} is not below the field's modulus")
    return values


def format_public(public: Sequence[int]) -> bytes:
    """Public values as a public witness of gnark."""
    counts = (len(public), 0, len(public))
    return b"".join(n.to_bytes(_COUNT, "big") for n in counts) + b"".join(v.to_bytes(_SCALAR, "big") for v in public)
