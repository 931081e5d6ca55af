"""Reads `.ptau` files: the powers of tau of a phase-1 ceremony, as snarkjs writes them (version 1).

    section 1   n8 u32 | q | power u32 | power of the ceremony u32
    section 2   tau^i G1, i < 2^(power + 1) - 1      section 3   tau^i G2, i < 2^power
    section 4   alpha tau^i G1, i < 2^power          section 5   beta tau^i G1, i < 2^power
    section 6   beta G2                              section 7   contributions: their number u32, then of each 9 points
                of G1 and 5 of G2, tau G1 the first, 280 bytes, the type u32, the parameters' length u32, parameters
    section 12  to 15: sections 2 to 5 in Lagrange bases, for the domains of 2^0, 2^1, ... points one after the other;
                present after `snarkjs powersoftau prepare phase2`

Points are affine, in Montgomery form. Sections are views of the file: a ceremony's file can be tens of gigabytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from distprove.errors import FormatError
from distprove.groth16.binfile import BinFile, Bytes, Source
from distprove.groth16.field_headers import curve_of_base_field
from kernels.maths.curves import Curve, Group

VERSION = 1
MAX_POWER = 28
"""Maximum power, snarkjs' own bound for BN254's scalar field. It keeps sizes computed from the header small."""


class Powers(IntEnum):
    """The sequences of powers, each with the number of the section that holds it."""

    TAU_G1 = 2
    TAU_G2 = 3
    ALPHA_TAU_G1 = 4
    BETA_TAU_G1 = 5

    @property
    def group(self) -> Group:
        return Group.G2 if self is Powers.TAU_G2 else Group.G1


@dataclass(frozen=True)
class Ptau:
    """A phase-1 file. Points are (n, 8 * point_limbs) uint8 views, possibly at unaligned addresses."""

    name: str
    curve: Curve = field(repr=False)
    power: int
    """The file serves circuits of up to 2^power constraints."""
    ceremony_power: int
    """The power of the ceremony, unchecked: this file may have been cut from a larger one."""
    file: BinFile = field(repr=False)

    @property
    def prepared(self) -> bool:
        """Whether the file has the Lagrange sections, as it must for phase 2."""
        return 12 in self.file.sections

    def powers(self, which: Powers) -> Bytes:
        """All points of one sequence of powers, as the module's text lists them."""
        count = (2 << self.power) - 1 if which is Powers.TAU_G1 else 1 << self.power
        return self.file.points(which, which.name, self.curve, which.group, count)

    @property
    def beta_g2(self) -> Bytes:
        """The point beta G2, one row."""
        return self.file.points(6, "beta G2", self.curve, Group.G2, 1)

    def contributions(self) -> list[bytes]:
        """The point tau G1 after each contribution, as it is in the file. Raises FormatError."""
        section = self.file.section(7, "contributions")
        size = {group: 8 * self.curve.point_limbs(group) for group in Group}
        found: list[bytes] = []
        for _ in range(section.u32()):
            found.append(section.take(size[Group.G1]).tobytes())
            section.take(8 * size[Group.G1] + 5 * size[Group.G2] + 216 + 64 + 4)
            section.take(section.u32())
        section.finish()
        return found

    def lagrange(self, which: Powers, log_n: int) -> Bytes:
        """The points L_i(tau) times the sequence's base point for the domain of 2^log_n points, i < 2^log_n.

        `log_n` is at most `power`, or power + 1 for TAU_G1. Raises FormatError when the file is not prepared for
        phase 2, or too small.
        """
        if not self.prepared:
            raise FormatError(f"{self.name}: not prepared for phase 2 (run: snarkjs powersoftau prepare phase2)")
        if not 0 <= log_n < self._levels(which):
            raise FormatError(f"{self.name}: powers of tau up to 2^{self.power} are too few for a domain of 2^{log_n}")
        return self.all_lagrange(which)[(1 << log_n) - 1 : (2 << log_n) - 1]

    def all_lagrange(self, which: Powers) -> Bytes:
        """The points of all domains, those of 2^0 first. Raises FormatError."""
        count = (1 << self._levels(which)) - 1
        return self.file.points(10 + which, f"Lagrange {which.name}", self.curve, which.group, count)

    def _levels(self, which: Powers) -> int:
        """Number of domains that have a Lagrange basis."""
        return self.power + (2 if which is Powers.TAU_G1 else 1)


def read_ptau(source: Source, *, name: str | None = None) -> Ptau:
    """Read a `.ptau` file's header and check the size of every section of points, prepared ones included.

    The caller must check that the points are on the curve. Raises FormatError, or InputError.
    """
    file = BinFile.read(source, "ptau", (VERSION,), name=name)
    header = file.section(1, "header")
    curve = curve_of_base_field(header)
    power, ceremony_power = header.u32(), header.u32()
    header.finish()
    if power > MAX_POWER:
        raise FormatError(f"{file.name}: power {power} is more than {MAX_POWER}, the largest there is")
    ptau = Ptau(file.name, curve, power, ceremony_power, file)
    for which in Powers:
        ptau.powers(which)
        if ptau.prepared:
            ptau.lagrange(which, power)
    if ptau.beta_g2.shape[0] != 1:
        raise FormatError(f"{file.name}: section 6 (beta G2) is not one point")
    return ptau
