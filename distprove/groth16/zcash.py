"""Proofs and vectors of points in the encoding of zcash's BLS12-381 library, which bellperson and Filecoin use.

Coordinates and flags are as in `zcash_points`; an uncompressed point is x then y. Each point has exactly one encoding
of either kind, and readers refuse every other.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from distprove.errors import CurveMismatch, InvalidKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.zcash_points import COMPRESSED, CURVE, FLAGS, INFINITY, compress
from kernels.cpu.points import from_big_endian
from kernels.maths.curves import Group

SIZE = {group: 8 * CURVE.point_limbs(group) for group in Group}
"""Bytes of an uncompressed point. A compressed one has half as many."""


def decode(group: Group, raw: NDArray[np.uint8], section: str, first: int = 0, *, threads: int = 1) -> Words:
    """Decode uncompressed points (n, SIZE) to (n, point_limbs) in Montgomery form, on `threads` threads.

    Flags and coordinates are checked, but not that the points are on the curve. `section` names the file and its
    section, and `first` is the index of the first point there. Raises InvalidKey, also for infinity.
    """
    found, bad = from_big_endian(CURVE, group, raw, flags=FLAGS, threads=threads)
    if bad is not None:
        _refuse(raw[bad], f"{section}, point {first + bad}")
    return found


def _refuse(raw: NDArray[np.uint8], point: str) -> NoReturn:
    """Raise InvalidKey for the encoding of one point."""
    bits = int(raw[0])
    if bits & FLAGS:
        what = "compressed" if bits & COMPRESSED else "infinity" if bits & INFINITY else "flagged as compressed"
        raise InvalidKey(f"{point} is {what}")
    if not raw.any():  # in a key's other form these bytes are infinity
        raise InvalidKey(f"{point} is zero: not on {CURVE.title}")
    raise InvalidKey(f"{point} has a coordinate that is not below the modulus")


def proof_to_bytes(proof: Groth16Proof) -> bytes:
    """The proof as bellperson writes it: A, B, C compressed, 192 bytes. Raises CurveMismatch."""
    if proof.curve is not CURVE:
        raise CurveMismatch(f"this form of a proof is of {CURVE.title}, not of {proof.curve.title}")
    return compress(Group.G1, proof.a) + compress(Group.G2, proof.b) + compress(Group.G1, proof.c)
