"""Points and proofs in the encoding of zcash's BLS12-381 library, which bellperson and Filecoin use.

A coordinate is big-endian, in G2 c1 before c0. The three highest bits of the first byte are flags: compressed,
infinity, and in compressed form whether y is the larger of its two possible values. An uncompressed point is x then y,
a compressed one x alone. Each point has exactly one encoding of either kind, and readers refuse every other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distprove.errors import CurveMismatch, FormatError, InvalidKey
from distprove.groth16.elements import first_not_canonical
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381, Group
from kernels.maths.encoding import point_from_ints, point_to_ints

CURVE = BLS12_381
SIZE = {group: 8 * CURVE.point_limbs(group) for group in Group}
"""Bytes of an uncompressed point. A compressed one has half as many."""
PROOF_BYTES = 192
"""Bytes of a compressed proof: A, B, C."""

_COMPRESSED, _INFINITY, _LARGER = 0x80, 0x40, 0x20
_FLAGS = _COMPRESSED | _INFINITY | _LARGER
_P = CURVE.fq.modulus
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
            flagged = np.flatnonzero(chunk[:, 0] & _FLAGS)
            if flagged.size:
                bits = int(chunk[flagged[0], 0])
                what = (
                    "compressed" if bits & _COMPRESSED else "infinity" if bits & _INFINITY else "flagged as compressed"
                )
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


def compress(group: Group, point: Words) -> bytes:
    """Encode one point of the curve in compressed form: 48 bytes in G1, 96 in G2."""
    size = SIZE[group] // 2
    coordinates = point_to_ints(CURVE, group, point)
    if coordinates is None:
        return bytes([_COMPRESSED | _INFINITY]) + bytes(size - 1)
    half = len(coordinates) // 2
    encoded = bytearray(b"".join(v.to_bytes(CURVE.fq.bytes, "big") for v in coordinates[:half][::-1]))
    encoded[0] |= _COMPRESSED | (_LARGER if _is_larger(coordinates[half:]) else 0)
    return bytes(encoded)


def decompress(group: Group, data: bytes, what: str) -> Words:
    """Decode one compressed point, (point_limbs,). Whether it is in the subgroup is not checked. Raises FormatError."""
    size, fq = SIZE[group] // 2, CURVE.fq
    if len(data) != size:
        raise FormatError(f"{what}: a compressed {group.name} point is {size} bytes, not {len(data)}")
    flags, body = data[0] & _FLAGS, bytes([data[0] & ~_FLAGS]) + data[1:]
    if not flags & _COMPRESSED:
        raise FormatError(f"{what}: the point is not flagged as compressed")
    if flags & _INFINITY:
        if flags & _LARGER or any(body):
            raise FormatError(f"{what}: infinity with further bits")
        return point_from_ints(CURVE, group, None)
    x = [int.from_bytes(body[i : i + fq.bytes], "big") for i in range(0, size, fq.bytes)][::-1]
    if any(v >= _P for v in x):
        raise FormatError(f"{what}: a coordinate is not below the modulus")
    y = _root_g1(x[0]) if group is Group.G1 else _root_g2(x[0], x[1])
    if y is None:
        raise FormatError(f"{what}: no point of the curve has this coordinate")
    if not any(y) and flags & _LARGER:
        raise FormatError(f"{what}: y is zero, and neither of its values is larger")
    if _is_larger(y) != bool(flags & _LARGER):
        y = tuple(-v % _P for v in y)
    return point_from_ints(CURVE, group, (*x, *y))


def proof_to_bytes(proof: Groth16Proof) -> bytes:
    """The proof as bellperson writes it, `PROOF_BYTES` long. Raises CurveMismatch."""
    if proof.curve is not CURVE:
        raise CurveMismatch(f"this form of a proof is of {CURVE.title}, not of {proof.curve.title}")
    return compress(Group.G1, proof.a) + compress(Group.G2, proof.b) + compress(Group.G1, proof.c)


def proof_from_bytes(data: bytes, what: str = "proof") -> Groth16Proof:
    """Read what `proof_to_bytes` wrote. The verifier checks that the points are in their groups. Raises FormatError."""
    if len(data) != PROOF_BYTES:
        raise FormatError(f"{what}: {len(data)} bytes, a compressed proof has {PROOF_BYTES}")
    return Groth16Proof(
        CURVE,
        decompress(Group.G1, data[:48], f"{what}: A"),
        decompress(Group.G2, data[48:144], f"{what}: B"),
        decompress(Group.G1, data[144:], f"{what}: C"),
    )


def _is_larger(y: tuple[int, ...]) -> bool:
    """Whether y, (c0, c1) in G2, is larger than -y. c1 decides, and c0 where c1 is zero."""
    decisive = next((v for v in reversed(y) if v), 0)
    return decisive > (_P - 1) // 2


def _sqrt(a: int) -> int | None:
    root = pow(a, (_P + 1) // 4, _P)  # the modulus is 3 mod 4
    return root if root * root % _P == a % _P else None


def _root_g1(x: int) -> tuple[int, ...] | None:
    y = _sqrt(x**3 + CURVE.b1)
    return None if y is None else (y,)


def _root_g2(x0: int, x1: int) -> tuple[int, ...] | None:
    """A square root y of x^3 + b in Fq[u]/(u^2 + 1), by way of the norm: y0^2 = (a0 + sqrt(a0^2 + a1^2)) / 2."""
    a0 = (x0**3 - 3 * x0 * x1 * x1 + CURVE.b2[0]) % _P
    a1 = (3 * x0 * x0 * x1 - x1**3 + CURVE.b2[1]) % _P
    norm = _sqrt(a0 * a0 + a1 * a1)
    if norm is None:
        return None
    half = (_P + 1) // 2
    for sign in (1, -1):
        y0 = _sqrt((a0 + sign * norm) * half % _P)
        if y0:
            return y0, a1 * pow(2 * y0, -1, _P) % _P
    y1 = _sqrt(-a0 % _P)  # y0 is zero
    return None if a1 or y1 is None else (0, y1)
