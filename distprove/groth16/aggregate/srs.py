"""The keys of aggregation: powers of the secrets alpha and beta of two independent ceremonies, in both groups.

A `.srs` file is a container (`distprove.groth16.binfile`), version 1:

    section 1   n8 u32 | q | log2 of n u32 | 1 for keys that were made without ceremonies, else 0, u32
    section 2   alpha^i G1, i < 2n      section 3   alpha^i G2, i < n      sections 4, 5   the same of beta

A verifier needs only alpha and beta in both groups. Its file is canonical MessagePack of constant size:

    {alpha1: bin, alpha2: bin, beta1: bin, beta2: bin, curve: str, format: "distprove.aggregation-verifier",
     insecure: bool, version: 1}
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from distprove.errors import FormatError, InvalidKey, UsageError
from distprove.formats import canonical
from distprove.formats.files import read_bounded, write_atomically
from distprove.groth16 import points
from distprove.groth16.binfile import BinFile, BinFileWriter, Bytes, Source
from distprove.groth16.elements import as_words
from distprove.groth16.field_headers import curve_of_base_field
from distprove.groth16.keys import known_curve
from distprove.groth16.points import Words
from distprove.proof import check_fields
from kernels.cpu.group import neg
from kernels.cpu.pairing import first_invalid_point, pairing_product_is_one
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator

FORMAT = "distprove.aggregation-verifier"
VERSION = 1
MAX_LOG = 20
"""Maximum log2 of the number of proofs."""
VERIFIER_SUFFIX = ".verifier"
"""What is appended to the name of a `.srs` file for that of its verifier's part."""
_MAGIC = "asrs"
_MAX_BYTES = 4096
_NAMES = {"alpha1": Group.G1, "alpha2": Group.G2, "beta1": Group.G1, "beta2": Group.G2}


@dataclass(frozen=True, eq=False)
class VerifierSrs:
    """The verifier's part: the secrets alpha and beta in both groups, affine points. Construction raises InvalidKey for
    points that are no members, that do not belong together, or that cannot be of two ceremonies."""

    curve: Curve
    alpha1: Words = field(repr=False)
    alpha2: Words = field(repr=False)
    beta1: Words = field(repr=False)
    beta2: Words = field(repr=False)
    insecure: bool
    """Whether the keys were made without ceremonies. Aggregates under them prove nothing to others."""

    def __post_init__(self) -> None:
        what, curve = "aggregation keys", self.curve
        for name, group in _NAMES.items():
            point = points.as_points(curve, group, getattr(self, name))
            if point.shape[0] != 1 or first_invalid_point(curve, group, point) is not None:
                raise InvalidKey(f"{what}: {name} is not one point of {group.name} of {curve.title}")
            object.__setattr__(self, name, point[0])
        g1, g2 = generator(curve, Group.G1), generator(curve, Group.G2)
        minus = neg(curve, Group.G1, g1)
        for title, one, two in (("alpha", self.alpha1, self.alpha2), ("beta", self.beta1, self.beta2)):
            if points.is_infinity(one) or any(np.array_equal(one, known) for known in (g1, minus)):
                raise InvalidKey(f"{what}: {title} is 0, 1 or -1, which is nobody's secret")
            if not pairing_product_is_one(curve, np.stack([one, minus]), np.stack([g2, two])):
                raise InvalidKey(f"{what}: {title} is not the same in both groups")
        if any(np.array_equal(self.beta1, known) for known in (self.alpha1, neg(curve, Group.G1, self.alpha1))):
            raise InvalidKey(f"{what}: alpha and beta are of the same ceremony")
        for sign in (minus, g1):
            if pairing_product_is_one(curve, np.stack([self.alpha1, sign]), np.stack([self.beta2, g2])):
                raise InvalidKey(f"{what}: beta is the inverse of alpha, or the negative of it")

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that identify the keys, whatever their number, and whether they are insecure."""
        return canonical.digest("distprove/aggregation-keys/1", self._fields())

    def to_bytes(self) -> bytes:
        return canonical.encode({"format": FORMAT, "version": VERSION, **self._fields()})

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "aggregation verifier") -> VerifierSrs:
        """Read what `to_bytes` wrote. Raises FormatError or InvalidKey."""
        top = canonical.decode(data, what)
        kinds: dict[str, type] = {"format": str, "version": int, "curve": str, "insecure": bool}
        check_fields(top, {**kinds, **dict.fromkeys(_NAMES, bytes)}, what)
        if (top["format"], top["version"]) != (FORMAT, VERSION):
            raise FormatError(f"{what}: not the verifier's part of aggregation keys, version {VERSION}")
        curve = known_curve(top["curve"], what)
        own = {n: points.one_from_bytes(curve, group, top[n], f"{what}: {n}") for n, group in _NAMES.items()}
        return cls(curve, **own, insecure=top["insecure"])

    @classmethod
    def read(cls, path: Path) -> VerifierSrs:
        """Read the verifier's file. Raises InputError, FormatError or InvalidKey."""
        return cls.from_bytes(read_bounded(path, _MAX_BYTES), str(path))

    def write(self, path: Path) -> None:
        """Write the verifier's file, atomically."""
        write_atomically(path, self.to_bytes())

    def _fields(self) -> dict[str, object]:
        encoded = {n: points.to_bytes(self.curve, group, getattr(self, n)) for n, group in _NAMES.items()}
        return {"curve": self.curve.name, "insecure": self.insecure, **encoded}


@dataclass(frozen=True)
class Srs:
    """The prover's keys for up to n proofs. Points are (count, 8 * point_limbs) uint8 views, and not checked here: an
    aggregate under keys that are wrong does not verify."""

    curve: Curve
    n: int
    insecure: bool
    g1: tuple[HostArray, HostArray] = field(repr=False)
    """2n powers of alpha and of beta, from the 0th on."""
    g2: tuple[HostArray, HostArray] = field(repr=False)
    """n powers of each."""

    def powers(self, group: Group, count: int) -> list[Words]:
        """The first `count` powers of alpha and of beta, (count, point_limbs)."""
        return [_words(powers, slice(0, count)) for powers in (self.g1 if group is Group.G1 else self.g2)]

    def v(self, n: int) -> list[Words]:
        """The keys for A and C, of n proofs: the powers of alpha and of beta from 0 on, in G2."""
        return self.powers(Group.G2, n)

    def w(self, n: int) -> list[Words]:
        """The keys for B: the powers from n on, in G1."""
        return [_words(powers, slice(n, 2 * n)) for powers in self.g1]

    def for_proofs(self, n: int) -> Srs:
        """The keys that n proofs take, in memory of their own, to be sent. Raises UsageError for too many proofs."""
        if n > self.n:
            raise UsageError(f"an aggregate is of 2 proofs to the {self.n} of the keys, padding included, not of {n}")
        g1, g2 = (tuple(one.copy() for one in self.powers(*few)) for few in ((Group.G1, 2 * n), (Group.G2, n)))
        return replace(self, n=n, g1=(g1[0], g1[1]), g2=(g2[0], g2[1]))

    @cached_property
    def verifier(self) -> VerifierSrs:
        """The verifier's part. Raises InvalidKey."""
        one = slice(1, 2)
        first = {"alpha1": self.g1[0], "alpha2": self.g2[0], "beta1": self.g1[1], "beta2": self.g2[1]}
        return VerifierSrs(self.curve, **{n: _words(p, one)[0] for n, p in first.items()}, insecure=self.insecure)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the `.srs` file."""
        with BinFileWriter(path, _MAGIC, version=VERSION, sections=5) as out:
            with out.section(1):
                out.prime(self.curve.fq.modulus, self.curve.fq.bytes)
                out.u32(self.n.bit_length() - 1)
                out.u32(int(self.insecure))
            for ident, powers in enumerate((self.g1[0], self.g2[0], self.g1[1], self.g2[1]), start=2):
                with out.section(ident):
                    out.write(powers)


def read_srs(source: Source, *, name: str | None = None) -> Srs:
    """Read a `.srs` file. Its size is checked, and its points are not. Raises InputError or FormatError."""
    file = BinFile.read(source, _MAGIC, (VERSION,), name=name)
    header = file.section(1, "header")
    curve = curve_of_base_field(header)
    log_n, insecure = header.u32(), header.u32()
    header.finish()
    if not 1 <= log_n <= MAX_LOG or insecure > 1:
        raise FormatError(f"{file.name}: no keys for a power of two of proofs, from 2 to 2^{MAX_LOG}")

    def section(ident: int, group: Group, count: int) -> Bytes:
        return file.points(ident, f"powers in {group.name}", curve, group, count)

    n = 1 << log_n
    g1 = section(2, Group.G1, 2 * n), section(4, Group.G1, 2 * n)
    return Srs(curve, n, bool(insecure), g1, (section(3, Group.G2, n), section(5, Group.G2, n)))


def size_for(count: int) -> int:
    """The power of two that `count` proofs are padded to, at least 2. Raises UsageError."""
    n = 1 << max(1, (count - 1).bit_length())
    if not 1 <= count <= 1 << MAX_LOG:
        raise UsageError(f"an aggregate is of 1 to {1 << MAX_LOG} proofs, not of {count}")
    return n


def _words(powers: HostArray, rows: slice) -> Words:
    """Rows of a file's points as (n, point_limbs) uint64."""
    chosen = powers[rows]
    return as_words(chosen) if chosen.dtype == np.uint8 else chosen
