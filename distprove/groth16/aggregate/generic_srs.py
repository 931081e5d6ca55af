"""Reads bellperson's `GenericSRS`, the file of powers of two ceremonies that Filecoin aggregates proofs with.

Filecoin's own, v28-fil-inner-product-v1.srs, has the powers of Zcash's and of Filecoin's powers-of-tau ceremonies up to
2^20 over BLS12-381. A file has four vectors, each after its length as a big-endian u32: powers of alpha in G1, of beta
in G1, of alpha in G2, of beta in G2, from the 0th on. Points are compressed as in `distprove.groth16.zcash_points`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from distprove.errors import FormatError, InputError
from distprove.groth16 import zcash_points
from distprove.groth16.aggregate.encoding import point_bytes
from distprove.groth16.aggregate.srs import size_for
from distprove.groth16.binfile import map_file
from distprove.groth16.points import Words
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group

CURVE = zcash_points.CURVE
MAX_POWERS = (1 << 20) + 1
"""Most powers of a vector, as in bellperson."""
FILECOIN_DIGEST = "ae20310138f5ba81451d723f858e3797"
"""Of v28-fil-inner-product-v1.srs, as filecoin-proofs' srs-inner-product.json has it: the first 16 bytes of BLAKE2b."""
_COUNT = 4
_VECTORS = (("alpha", Group.G1), ("beta", Group.G1), ("alpha", Group.G2), ("beta", Group.G2))


@dataclass(frozen=True)
class GenericSrs:
    """The powers that aggregates of n proofs take. Points are of the curve, and otherwise not checked."""

    name: str
    curve: Curve
    n: int
    g1: tuple[Words, Words] = field(repr=False)
    """2n powers of alpha and of beta, (2n, point_limbs)."""
    g2: tuple[Words, Words] = field(repr=False)
    """n powers of each, (n, point_limbs)."""


def read_generic_srs(path: Path, proofs: int) -> GenericSrs:
    """Read what up to `proofs` proofs take. Raises InputError for a file with fewer powers, FormatError, UsageError."""
    n, data = size_for(proofs), map_file(path)
    at, vectors = 0, list[Words]()
    for title, group in _VECTORS:
        what = f"{path}: powers of {title} in {group.name}"
        if at + _COUNT > len(data):
            raise FormatError(f"{what}: the file ends before them")
        count, size = int.from_bytes(bytes(data[at : at + _COUNT]), "big"), point_bytes(CURVE, group)
        at += _COUNT
        if not 2 <= count <= MAX_POWERS or at + count * size > len(data):
            raise FormatError(f"{what}: {count} of them, and a file of {count_of(len(data), 'byte')}: not a GenericSRS")
        # As in bellperson, which takes 2n of each and uses n of those in G2.
        if count < 2 * n:
            raise InputError(f"{what}: {count} are too few: {count_of(n, 'proof takes', 'proofs take')} {2 * n}")
        wanted = 2 * n if group is Group.G1 else n
        encoded = (bytes(data[at + k * size : at + (k + 1) * size]) for k in range(wanted))
        vectors.append(
            np.stack([zcash_points.decompress(group, one, f"{what}: point {k}") for k, one in enumerate(encoded)])
        )
        at += count * size
    if at != len(data):
        raise FormatError(f"{path}: {count_of(len(data) - at, 'byte')} after the powers: not a GenericSRS")
    return GenericSrs(str(path), CURVE, n, (vectors[0], vectors[1]), (vectors[2], vectors[3]))


def file_digest(path: Path) -> str:
    """The digest by which filecoin-proofs knows a parameter file: the first 16 bytes of BLAKE2b-512, as hex. Raises
    InputError."""
    return hashlib.blake2b(map_file(path).data).hexdigest()[:32]
