"""The two curves as data: moduli, generators, sizes. `include/field/params.h` holds the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any


class Group(str, Enum):
    """A pairing group. G1 coordinates are in Fq, G2 coordinates in Fq2 = Fq[u]/(u^2 + 1)."""

    G1 = "g1"
    G2 = "g2"


@dataclass(frozen=True)
class Field:
    """A prime field.

    Elements are `limbs` little-endian 64-bit words; in arrays the last axis has that length and dtype uint64. Unless a
    docstring says otherwise they are in Montgomery form, x * 2^(64 * limbs) mod p, the form of snarkjs' key files.
    """

    name: str
    modulus: int
    limbs: int
    non_residue: int
    """Smallest quadratic non-residue. Roots of unity are powers of it, as in ffjavascript."""
    two_adicity: int

    @cached_property
    def r(self) -> int:
        """The Montgomery form of one: 2^(64 * limbs) mod p."""
        return (1 << (64 * self.limbs)) % self.modulus

    @cached_property
    def r_inverse(self) -> int:
        """The inverse of `r` mod p."""
        return pow(self.r, -1, self.modulus)

    @property
    def bits(self) -> int:
        return self.modulus.bit_length()

    @property
    def bytes(self) -> int:
        return 8 * self.limbs

    def root_of_unity(self, log_n: int) -> int:
        """Return the primitive 2^log_n-th root of unity that snarkjs uses, in standard form. Raises ValueError."""
        if not 0 <= log_n <= self.two_adicity:
            raise ValueError(f"{self.name} has no 2^{log_n}-th root of unity (at most 2^{self.two_adicity})")
        return _root_of_unity(self, log_n)


@cache
def _root_of_unity(field: Field, log_n: int) -> int:
    root = pow(field.non_residue, (field.modulus - 1) >> field.two_adicity, field.modulus)
    return pow(root, 1 << (field.two_adicity - log_n), field.modulus)


@dataclass(frozen=True)
class Curve:
    """A pairing-friendly curve y^2 = x^3 + b with a = 0, sextic twist, embedding degree 12."""

    name: str  # as snarkjs spells it in proof.json: "bn128" or "bls12381"
    title: str  # as people write it
    fr: Field
    fq: Field
    b1: int
    b2: tuple[int, int]
    g1: tuple[int, int]
    g2: tuple[tuple[int, int], tuple[int, int]]

    def __reduce__(self) -> tuple[Any, ...]:
        """One that was sent is the one that is there: curves are compared by identity."""
        return curve_by_name, (self.name,)

    def point_limbs(self, group: Group) -> int:
        """Return the number of uint64 words of an affine point: x, y, for G2 each as c0, c1. All zero is infinity."""
        return self.fq.limbs * (2 if group is Group.G1 else 4)


BN254 = Curve(
    name="bn128",
    title="BN254",
    fr=Field("bn254.fr", 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001, 4, 5, 28),
    fq=Field("bn254.fq", 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47, 4, 3, 1),
    b1=3,
    b2=(
        0x2B149D40CEB8AAAE81BE18991BE06AC3B5B4C5E559DBEFA33267E6DC24A138E5,
        0x009713B03AF0FED4CD2CAFADEED8FDF4A74FA084E52D1852E4A2BD0685C315D2,
    ),
    g1=(1, 2),
    g2=(
        (
            0x1800DEEF121F1E76426A00665E5C4479674322D4F75EDADD46DEBD5CD992F6ED,
            0x198E9393920D483A7260BFB731FB5D25F1AA493335A9E71297E485B7AEF312C2,
        ),
        (
            0x12C85EA5DB8C6DEB4AAB71808DCB408FE3D1E7690C43D37B4CE6CC0166FA7DAA,
            0x090689D0585FF075EC9E99AD690C3395BC4B313370B38EF355ACDADCD122975B,
        ),
    ),
)

BLS12_381 = Curve(
    name="bls12381",
    title="BLS12-381",
    fr=Field("bls12381.fr", 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001, 4, 5, 32),
    fq=Field(
        "bls12381.fq",
        0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
        6,
        2,
        1,
    ),
    b1=4,
    b2=(4, 4),
    g1=(
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ),
    g2=(
        (
            0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
            0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        ),
        (
            0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
            0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
        ),
    ),
)

CURVES: tuple[Curve, ...] = (BN254, BLS12_381)
FIELDS = {field.name: field for curve in CURVES for field in (curve.fr, curve.fq)}
"""The fields of the curves by name."""


def curve_by_name(name: str) -> Curve:
    """Return the curve whose snarkjs name or usual title is `name`. Raises KeyError."""
    for curve in CURVES:
        if name.lower().replace("-", "").replace("_", "") in (curve.name, curve.title.lower().replace("-", "")):
            return curve
    raise KeyError(f"unknown curve {name!r}; known: {', '.join(c.name for c in CURVES)}")


def curve_by_modulus(q: int) -> Curve:
    """Return the curve whose base field has modulus `q`. Raises KeyError."""
    for curve in CURVES:
        if curve.fq.modulus == q:
            return curve
    raise KeyError("no known curve has this base field modulus")
