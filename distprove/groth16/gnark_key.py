"""Proving keys of gnark, over BN254 and BLS12-381, as its `WriteTo` and `WriteRawTo` write them.

    domain    size u64 | 1/size | generator | 1/generator | coset shift | 1/shift (32 bytes each) | precomputed u8
    points    [alpha]_1 | [beta]_1 | [delta]_1 | A | B | Z | K | [beta]_2 | [delta]_2 | B in G2
    wires     number u64 | A's at infinity u64 | B's u64 | a byte for each wire: A at infinity | the same for B
    commitments   count u32, then for each: B | sigma B

Numbers are big-endian; a vector is its count, u32, and its points, all of a file compressed or all in full. A and B
have points for the wires that are not at infinity. K has one for each private wire that is neither committed to nor a
commitment's hash. The points of committed wires are in the B of their commitment. Z_i is
[tau^j (tau^n - 1) / delta]_1 for i from 0 to n - 2, with j the bits of i reversed.

Row i of the constraints belongs to the domain's point w^i, and there are no further rows. The points for public wires
and [gamma]_2 are in the verifying key alone. The circuit is in neither: a `.r1cs` file has it, with wires in gnark's
order. That file also says which wires the commitments of a circuit are of (`committed.wires`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from distprove.errors import CurveMismatch, FormatError, InvalidKey
from distprove.groth16 import gnark, points
from distprove.groth16.binfile import Bytes, Source, load
from distprove.groth16.committed.key import MAX_COMMITMENTS, AnyVerificationKey, CommittedKey
from distprove.groth16.committed.names import DEFAULT
from distprove.groth16.committed.wires import CommitmentWires, read_commitment_wires
from distprove.groth16.compressed_points import ZCASH, Form
from distprove.groth16.key import CommitmentBasis, KeyPoints
from distprove.groth16.params import wires_of
from distprove.groth16.points import Words
from distprove.groth16.qap import Qap
from distprove.groth16.r1cs import R1csFile
from kernels.host.units import count_of
from kernels.interface.groups import PointSlices
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Group

GENERATORS = (5, 7)
"""Elements whose powers may be the roots of unity of gnark's domains: over BN254, and over BLS12-381."""
_SCALAR, _COUNT, _SIZE = 32, 4, 8
_DOMAIN_BYTES = _SIZE + 5 * _SCALAR + 1
_INFINITY = 0x40
"""The first byte of infinity in full over BLS12-381."""


@dataclass(frozen=True)
class GnarkPoints(PointSlices):
    """A vector of points in a mapped file. A slice is decoded when it is taken. Implements `Points` of `key.py`."""

    section: str
    """The names of the file and of the section, for errors."""
    form: Form
    group: Group
    raw: Bytes = field(repr=False)
    """The encoded points, (n, bytes of a point)."""
    order: NDArray[np.int64] | None = field(default=None, repr=False)
    """Place in the file of each point; None for the file's own order."""

    @property
    def nbytes(self) -> int:
        return len(self) * points.size(self.form.curve, self.group)

    def __len__(self) -> int:
        return int(self.raw.shape[0])

    def __getitem__(self, which: slice) -> Words:
        """Decode some points, (n, point_limbs). Raises InvalidKey for what is not canonical."""
        rows = self.raw[which] if self.order is None else self.raw[self.order[which]]
        try:
            return self._decoded(np.ascontiguousarray(rows))
        except FormatError as error:
            raise InvalidKey(str(error)) from None

    def _decoded(self, rows: Bytes) -> Words:
        form, group = self.form, self.group
        if rows.shape[1] == form.size(group):
            return form.decompress_all(group, rows, self.section)
        if form is ZCASH:
            infinite = (rows[:, 0] == _INFINITY) & ~rows[:, 1:].any(axis=1)
            if (~rows.any(axis=1)).any():
                raise FormatError(f"{self.section}: zero is not flagged as infinity")
            rows = np.where(infinite[:, None], np.uint8(0), rows)
        return points.from_bytes(form.curve, group, rows.tobytes(), self.section)


class _Reader:
    """A cursor over a mapped file."""

    def __init__(self, form: Form, data: Bytes, name: str, place: int, *, compressed: bool) -> None:
        self.form, self.data, self.name, self.compressed = form, data, name, compressed
        self._place = place

    def take(self, size: int, section: str) -> Bytes:
        left = self.data.shape[0] - self._place
        if size > left:
            raise FormatError(
                f"{self.name}: section {section} at byte {self._place} needs {count_of(size, 'byte')}, "
                f"{count_of(left, 'is', 'are')} left"
            )
        self._place += size
        return self.data[self._place - size : self._place]

    def number(self, size: int, section: str) -> int:
        return int.from_bytes(self.take(size, section).tobytes(), "big")

    def points(self, group: Group, section: str, count: int) -> GnarkPoints:
        size = self.form.size(group) * (1 if self.compressed else 2)
        raw = self.take(count * size, section).reshape(count, size)
        return GnarkPoints(f"{self.name}: section {section}", self.form, group, raw)

    def point(self, group: Group, section: str) -> Words:
        one: Words = self.points(group, section, 1)[:][0]
        return one

    def vector(self, group: Group, section: str) -> GnarkPoints:
        return self.points(group, section, self.number(_COUNT, section))

    def flags(self, count: int, section: str) -> NDArray[np.bool_]:
        raw = self.take(count, section)
        if raw.size and int(raw.max()) > 1:
            raise FormatError(f"{self.name}: section {section} has flags other than 0 and 1")
        flags: NDArray[np.bool_] = raw != 0
        return flags

    def finish(self) -> None:
        if left := self.data.shape[0] - self._place:
            raise FormatError(
                f"{self.name}: {count_of(left, 'byte follows', 'bytes follow')} the last section, at byte {self._place}"
            )


@dataclass(frozen=True)
class GnarkKey:
    """A proving key: gnark's file, its verifying key, and the circuit. Implements `distprove.groth16.key.ProvingKey`.

    The circuit's constraints are read when something of them is first asked for.
    """

    name: str
    circuit: R1csFile = field(repr=False)
    domain_size: int
    generator: int
    """The element of `GENERATORS` whose powers the domain has."""
    points: KeyPoints = field(repr=False)
    """Its vectors are `GnarkPoints`, but for `ic`."""
    wires_a: NDArray[np.uint32] = field(repr=False)
    """The wire of each point of A."""
    wires_b: NDArray[np.uint32] = field(repr=False)
    verification_key: AnyVerificationKey = field(repr=False)
    data: Bytes = field(repr=False)
    commitment_bases: tuple[CommitmentBasis, ...] = ()

    monomial = True
    contributions = ()
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

    @cached_property
    def qap(self) -> Qap:
        """Raises FormatError for a circuit that is none, InvalidKey where the key is of another one."""
        qap = Qap.of_constraints_alone(self.circuit.read()).with_roots_of(self.generator)
        for section, matrix, wires in (("A", qap.a, self.wires_a), ("B", qap.b, self.wires_b)):
            odd = np.setxor1d(wires_of(matrix), wires)
            if odd.size:
                raise InvalidKey(
                    f"{self.name}: wire {odd[0]} has a point of {section} and is not in the circuit's {section}, or "
                    "the other way round: a key of another circuit"
                )
        return qap

    def matrices(self) -> tuple[CsrMatrix, CsrMatrix]:
        return self.qap.a, self.qap.b


def read_gnark_key(
    source: Source,
    verifying_key: bytes,
    circuit: R1csFile,
    *,
    name: str | None = None,
    vk_name: str = "verifying key",
    commitment_hash: str = DEFAULT,
) -> GnarkKey:
    """Read a proving key of gnark for a circuit, whose field decides the curve. `verifying_key` is the content of the
    verifying key's file, and `commitment_hash` a key of HASHES. The points are not checked to be in their groups (see
    `key_check`).

    Raises FormatError for a file that is not one, InvalidKey for one of another circuit or verifying key, InputError
    when it cannot be read.
    """
    form = gnark.form_of(circuit.curve)
    data, name = load(source, name)
    domain, generator = _domain(circuit.curve, data, name)
    # The first point behind the domain says how all are encoded.
    compressed = data.shape[0] > _DOMAIN_BYTES and form.is_compressed(int(data[_DOMAIN_BYTES]))
    reader = _Reader(form, data, name, _DOMAIN_BYTES, compressed=compressed)
    alpha1, beta1, delta1 = (reader.point(Group.G1, each) for each in ("alpha", "beta in G1", "delta in G1"))
    a, b1, z, k = (reader.vector(Group.G1, each) for each in ("A", "B1", "Z", "K"))
    beta2, delta2 = reader.point(Group.G2, "beta"), reader.point(Group.G2, "delta")
    b2 = reader.vector(Group.G2, "B2")
    wires, infinite_a, infinite_b = (reader.number(_SIZE, "wires") for _ in range(3))
    at_a, at_b = reader.flags(wires, "infinity of A"), reader.flags(wires, "infinity of B")
    bases = _bases(reader)
    reader.finish()
    if (int(at_a.sum()), int(at_b.sum())) != (infinite_a, infinite_b):
        raise FormatError(f"{name}: its flags of infinity are not as many as it says")
    verifies = gnark.parse_committed_key(verifying_key, circuit.curve, vk_name, commitment_hash=commitment_hash)
    vk = verifies.key
    for point, ours, theirs in (("alpha", alpha1, vk.alpha1), ("beta", beta2, vk.beta2), ("delta", delta2, vk.delta2)):
        if not np.array_equal(ours, theirs):
            raise InvalidKey(f"{name}: another {point} than in {vk_name}: keys of two set-ups")
    _check_counts(
        name,
        ("wires", wires, circuit.n_vars),
        ("points of A", len(a), wires - infinite_a),
        ("points of B in G1", len(b1), wires - infinite_b),
        ("points of B in G2", len(b2), wires - infinite_b),
        ("public values", verifies.n_public, circuit.n_public),
        ("rows of the domain", domain, _domain_of(circuit.n_constraints)),
        ("points of Z", len(z), domain - 1),
    )
    commitment_bases = _commitment_bases(name, bases, verifies, circuit)
    apart = sum(1 + len(each.basis) for each in commitment_bases)
    _check_counts(name, ("points of K", len(k), circuit.n_vars - circuit.n_public - 1 - apart))
    h = GnarkPoints(z.section, form, Group.G1, z.raw, _reversed_bits(domain)[: domain - 1])
    key_points = KeyPoints(
        alpha1=alpha1,
        beta1=beta1,
        beta2=beta2,
        gamma2=vk.gamma2,
        delta1=delta1,
        delta2=delta2,
        ic=vk.ic,
        a=a,
        b1=b1,
        b2=b2,
        c=k,
        h=h,
    )
    return GnarkKey(
        name=name,
        circuit=circuit,
        domain_size=domain,
        generator=generator,
        points=key_points,
        wires_a=np.flatnonzero(~at_a).astype(np.uint32),
        wires_b=np.flatnonzero(~at_b).astype(np.uint32),
        verification_key=verifies if commitment_bases else vk,
        data=data,
        commitment_bases=commitment_bases,
    )


def _bases(reader: _Reader) -> list[tuple[GnarkPoints, GnarkPoints]]:
    """The points of each commitment, and these times sigma. Raises FormatError."""
    count = reader.number(_COUNT, "commitments")
    if count > MAX_COMMITMENTS:
        raise FormatError(f"{reader.name}: {count_of(count, 'commitment')}, of {MAX_COMMITMENTS} at most")
    found = []
    for k in range(count):
        basis, sigma = (reader.vector(Group.G1, f"{part} of commitment {k}") for part in ("B", "sigma B"))
        if len(basis) != len(sigma):
            raise FormatError(
                f"{reader.name}: commitment {k} has {count_of(len(basis), 'point')} and {len(sigma)} of them "
                f"times sigma"
            )
        found.append((basis, sigma))
    return found


def _commitment_bases(
    name: str, bases: list[tuple[GnarkPoints, GnarkPoints]], key: CommittedKey, circuit: R1csFile
) -> tuple[CommitmentBasis, ...]:
    """What each commitment is made under, if proving key, verifying key and circuit agree. Raises InvalidKey."""
    wires = read_commitment_wires(circuit)
    if bases and not wires:
        raise InvalidKey(
            f"{name}: a key of a circuit with commitments (gnark's api.Commit, range checks), and the r1cs does not "
            "say of which wires they are: write it with the Go package of `distprove gnark exporter`"
        )
    _check_counts(
        name, ("commitments", len(bases), len(wires)), ("commitments to verify", len(key.committed), len(bases))
    )
    for k, ((basis, _), each) in enumerate(zip(bases, wires, strict=True)):
        _check_counts(name, (f"points of commitment {k}", len(basis), len(each.private)))
        if key.committed[k] != _as_verified(each, wires, circuit.n_public):
            raise InvalidKey(
                f"{name}: commitment {k} is hashed with other wires in the verifying key than in the circuit: keys of "
                "another circuit"
            )
    return tuple(CommitmentBasis(each, *pair) for each, pair in zip(wires, bases, strict=True))


def _as_verified(own: CommitmentWires, all_wires: tuple[CommitmentWires, ...], n_public: int) -> tuple[int, ...]:
    """The wires that are hashed with a commitment as a verifier counts them: public ones, and then the hashes."""
    places = {each.hash: n_public + 1 + k for k, each in enumerate(all_wires)}
    return tuple(places.get(wire, wire) for wire in own.hashed)


def _domain(curve: Curve, data: Bytes, name: str) -> tuple[int, int]:
    """The size of the domain, and the one of `GENERATORS` whose powers it has. Raises FormatError, CurveMismatch."""
    head = data[:_DOMAIN_BYTES].tobytes()
    if len(head) < _DOMAIN_BYTES:
        raise FormatError(f"{name}: {count_of(len(head), 'byte')}, too few for a proving key of gnark")
    size, root = int.from_bytes(head[:_SIZE], "big"), int.from_bytes(head[_SIZE + _SCALAR : _SIZE + 2 * _SCALAR], "big")
    modulus, log_size = curve.fr.modulus, size.bit_length() - 1
    if size < 2 or size & (size - 1):
        raise FormatError(f"{name}: not a proving key of gnark: a domain of {count_of(size, 'row')}")
    for generator in GENERATORS:
        if log_size <= curve.fr.two_adicity and pow(generator, (modulus - 1) >> log_size, modulus) == root:
            return size, generator
    raise CurveMismatch(f"{name}: its domain's root of unity is not one of {curve.title}, which the circuit is over")


def _domain_of(constraints: int) -> int:
    return 1 << max(0, constraints - 1).bit_length()


def _check_counts(name: str, *counts: tuple[str, int, int]) -> None:
    for what, there, expected in counts:
        if there != expected:
            raise InvalidKey(f"{name}: {there} {what}, expected {expected}: a key of another circuit, or damaged")


def _reversed_bits(n: int) -> NDArray[np.int64]:
    """The numbers from 0 to n - 1 with their bits reversed, for n a power of two."""
    out = np.zeros(1, dtype=np.int64)
    while len(out) < n:
        out = np.concatenate([2 * out, 2 * out + 1])
    return out
