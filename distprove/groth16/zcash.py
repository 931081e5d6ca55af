"""Proofs and vectors of points in the encoding of zcash's BLS12-381 library, which bellperson and Filecoin use.

Coordinates and flags are as in `zcash_points`; an uncompressed point is x then y. Each point has exactly one encoding
of either kind, and readers refuse every other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distprove.errors import CurveMismatch, InvalidKey
from distprove.groth16.elements import first_not_canonical
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.zcash_points import COMPRESSED, CURVE, FLAGS, INFINITY, compress
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import Group

SIZE = {group: 8 * CURVE.point_limbs(group) for group in Group}
"""Bytes of an uncompressed point. A compressed one has half as many."""

_CHUNK = 1 << 16


def decode(group: Group, raw: NDArray[np.uint8], section: str, first: int = 0) -> Words:
    """Decode uncompressed points (n, SIZE) to (n, point_limbs) in Montgomery form.

    Flags and coordinates are checked, but not that the points are on the curve. `section` names the file and its
    section, and `first` is the index of the first point there. Raises InvalidKey, also for infinity.
    """
    fq = CURVE.fq
    out = np.empty((raw.shape[0], CURVE.point_limbs(group)), dtype=np.uint64)
    with CpuBackend(threads=1) as cpu:
        for start in range(0, raw.shape[0], _CHUNK):
            chunk = np.array(raw[start : start + _CHUNK], order="C")  # the file may change while it is mapped
            flagged = np.flatnonzero(chunk[:, 0] & FLAGS)
            if flagged.size:
                bits = int(chunk[flagged[0], 0])
                what = "compressed" if bits & COMPRESSED else "infinity" if bits & INFINITY else "flagged as compressed"
                raise InvalidKey(f"{section}, point {first + start + int(flagged[0])} is {what}")
            zero = np.flatnonzero(~chunk.any(axis=1))
            if zero.size:  # in a key's other form these bytes are infinity
                raise InvalidKey(f"{section}, point {first + start + int(zero[0])} is zero: not on {CURVE.title}")
            # Reversing a coordinate's bytes makes each field element little-endian and swaps c1 and c0.
            halves = np.ascontiguousarray(chunk.reshape(chunk.shape[0], 2, -1)[:, :, ::-1])
            elements = halves.view("<u8").reshape(-1, fq.limbs)
            bad = first_not_canonical(fq, elements)
            if bad is not None:
                index = first + start + bad * fq.limbs // out.shape[1]
                raise InvalidKey(f"{section}, point {index} has a coordinate that is not below the modulus")
            made = cpu.to_host(cpu.vectors.to_montgomery(fq, cpu.to_device(elements)))
            out[start : start + _CHUNK] = made.reshape(chunk.shape[0], -1)
    return out


def proof_to_bytes(proof: Groth16Proof) -> bytes:
    """The proof as bellperson writes it: A, B, C compressed, 192 bytes. Raises CurveMismatch."""
    if proof.curve is not CURVE:
        raise CurveMismatch(f"this form of a proof is of {CURVE.title}, not of {proof.curve.title}")
    return compress(Group.G1, proof.a) + compress(Group.G2, proof.b) + compress(Group.G1, proof.c)
