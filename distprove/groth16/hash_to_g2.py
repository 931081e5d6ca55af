"""snarkjs' hash to G2 (keypair.js: `hashToG2`): the first 32 bytes of a digest seed the draw of a point."""

from __future__ import annotations

from distprove.groth16.draws import Draws
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group


def hash_to_g2(curve: Curve, digest: bytes) -> HostArray:
    """Hash a digest of at least 32 bytes to an affine point of G2, (point_limbs,) in Montgomery form."""
    return Draws(digest).point(curve, Group.G2)
