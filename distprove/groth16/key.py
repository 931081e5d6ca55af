"""The group elements of a Groth16 proving key during the set-up."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.interface.arrays import HostArray


@dataclass(frozen=True)
class KeyPoints:
    """The points of a proving key on the host, affine in Montgomery form, uint64. Single points have the shape
    (point_limbs,), vectors (n, point_limbs)."""

    alpha1: HostArray
    beta1: HostArray
    beta2: HostArray
    gamma2: HostArray
    delta1: HostArray
    delta2: HostArray
    ic: HostArray
    """One point for the constant and for each public wire."""
    a: HostArray
    """One point for each wire, as in `b1` and `b2`."""
    b1: HostArray
    b2: HostArray
    c: HostArray
    """One point for each private wire."""
    h: HostArray
    """One point for each row of the domain, in the Lagrange basis of the odd coset."""
