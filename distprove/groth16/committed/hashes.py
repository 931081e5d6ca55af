"""Hashes of commitments to the scalar field: what the circuit takes for a challenge, and what folds the proofs of
knowledge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from distprove.groth16 import points
from distprove.groth16.committed.names import DEFAULT
from distprove.groth16.points import Words
from kernels.cpu.keccak import keccak256
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381, Curve, Group

_WIRE_DOMAIN, _FOLD_DOMAIN = b"bsb22-commitment", b"G16-BSB22"
_SCALAR = 32
_SECURITY = 16
"""Bytes that a hash to the field takes beyond an element's, so that its values are uniform to 2^-128."""


def expand_message_xmd(message: bytes, domain: bytes, size: int) -> bytes:
    """`size` bytes of expand_message_xmd (RFC 9380, section 5.3.1) with SHA-256. Raises ValueError for sizes that it
    has no bytes for."""
    blocks = -(-size // 32)
    if blocks > 255 or len(domain) > 255:
        raise ValueError(f"expand_message_xmd: {count_of(size, 'byte')}, a domain of {len(domain)}")
    suffix = domain + bytes([len(domain)])
    first = hashlib.sha256(bytes(64) + message + size.to_bytes(2, "big") + b"\0" + suffix).digest()
    made = [hashlib.sha256(first + b"\1" + suffix).digest()]
    for k in range(2, blocks + 1):
        mixed = bytes(a ^ b for a, b in zip(first, made[-1], strict=True))
        made.append(hashlib.sha256(mixed + bytes([k]) + suffix).digest())
    return b"".join(made)[:size]


def _to_field(curve: Curve, message: bytes, domain: bytes) -> int:
    """hash_to_field of RFC 9380 (section 5.2) to one scalar, with expand_message_xmd of SHA-256."""
    size = curve.fr.bytes + _SECURITY
    return int.from_bytes(expand_message_xmd(message, domain, size), "big") % curve.fr.modulus


Hash = Callable[[Curve, bytes], int]
HASHES: dict[str, Hash] = {
    DEFAULT: lambda curve, data: _to_field(curve, data, _WIRE_DOMAIN),
    "keccak256": lambda curve, data: int.from_bytes(keccak256(data), "big") % curve.fr.modulus,
    "sha256": lambda curve, data: int.from_bytes(hashlib.sha256(data).digest(), "big") % curve.fr.modulus,
}
"""Functions from a commitment to its wire: gnark's default, and those of proofs that its contracts verify."""


def hashed(name: str, curve: Curve, commitment: Words, beside: Iterable[int]) -> int:
    """The value of a commitment's wire: its hash, by a key of HASHES, with the values that are committed to beside
    it."""
    seen = b"".join(value.to_bytes(_SCALAR, "big") for value in beside)
    return HASHES[name](curve, _raw(curve, commitment) + seen)


def folding_powers(curve: Curve, hashes: Sequence[int]) -> list[int]:
    """The factors of the commitments in their one proof of knowledge: powers of a challenge from all hashes."""
    r = _to_field(curve, b"".join(value.to_bytes(_SCALAR, "big") for value in hashes), _FOLD_DOMAIN)
    return [pow(r, k, curve.fr.modulus) for k in range(len(hashes))]


def _raw(curve: Curve, point: Words) -> bytes:
    """A point of G1 as gnark's `Marshal` writes it: in full."""
    encoded: bytes = points.to_bytes(curve, Group.G1, point)
    if curve == BLS12_381 and points.is_infinity(point):
        return b"\x40" + encoded[1:]
    return encoded
