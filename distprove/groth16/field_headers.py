"""Reads the curve of a file from the moduli of the curve's fields in the file's header."""

from __future__ import annotations

from distprove.groth16.binfile import SectionReader
from distprove.groth16.elements import curve_by_order
from kernels.host.units import count_of
from kernels.maths.curves import Curve, curve_by_modulus


def curve_of_base_field(header: SectionReader) -> Curve:
    """Read the modulus of a base field and return its curve. Raises FormatError."""
    size, modulus = header.prime("base field's modulus")
    try:
        curve = curve_by_modulus(modulus)
    except KeyError:
        raise header.error("the curve is neither BN254 nor BLS12-381") from None
    if size != curve.fq.bytes:
        raise header.error(f"{count_of(size, 'byte')} a coordinate, {curve.title} has {curve.fq.bytes}")
    return curve


def curve_of_scalar_field(header: SectionReader) -> Curve:
    """Read the modulus of a scalar field and return its curve. Raises FormatError."""
    size, modulus = header.prime("prime")
    try:
        curve = curve_by_order(modulus)
    except KeyError:
        raise header.error("the prime is neither BN254's nor BLS12-381's") from None
    if size != curve.fr.bytes:
        raise header.error(f"{count_of(size, 'byte')} an element, {curve.title} has {curve.fr.bytes}")
    return curve
