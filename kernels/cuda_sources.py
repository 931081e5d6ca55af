"""The kernel sources by name: what the backend loads, and what `distprove kernels` lists."""

from __future__ import annotations

from kernels.compiler import KernelSource
from kernels.curves import BLS12_381, BN254, Curve, Field, Group

FIELD_PARAMS = {
    BN254.fr: "Bn254FrParams",
    BN254.fq: "Bn254FqParams",
    BLS12_381.fr: "Bls12381FrParams",
    BLS12_381.fq: "Bls12381FqParams",
}
"""A field's name in `field/params.h`."""

CURVE_TYPES = {BN254: "Bn254", BLS12_381: "Bls12381"}
"""A curve's name in `curve/curves.h`."""

WORDS = KernelSource("words")


def field_source(name: str, field: Field) -> KernelSource:
    """`name`.cu for one field."""
    return KernelSource(name, (("FIELD", FIELD_PARAMS[field]),))


def group_source(name: str, curve: Curve, group: Group) -> KernelSource:
    """`name`.cu for one group: CURVE is the curve's type, COORDINATE the field of the coordinates, GROUP 1 or 2."""
    coordinate, number = ("Fq", "1") if group is Group.G1 else ("Fq2", "2")
    return KernelSource(name, (("CURVE", CURVE_TYPES[curve]), ("COORDINATE", coordinate), ("GROUP", number)))
