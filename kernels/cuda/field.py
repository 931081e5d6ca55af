"""CUDA sources compiled for one prime field, by preprocessor definition."""

from __future__ import annotations

from kernels.maths.curves import BLS12_381, BN254, Field
from kernels.source import KernelSource

FIELD_PARAMS = {
    BN254.fr: "Bn254FrParams",
    BN254.fq: "Bn254FqParams",
    BLS12_381.fr: "Bls12381FrParams",
    BLS12_381.fq: "Bls12381FqParams",
}
"""Name of each field's parameters in `include/field/params.h`."""


def field_source(name: str, field: Field) -> KernelSource:
    """Return the source `name`.cu, compiled for one field."""
    return KernelSource(name, (("FIELD", FIELD_PARAMS[field]),))
