"""The group elements of a Groth16 proving key while set-up works on them."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.backend import HostArray


@dataclass(frozen=True)
class KeyPoints:
    """Affine points in Montgomery form on the host; single ones (point_limbs,), vectors (n, point_limbs) uint64."""

    alpha1: HostArray
    beta1: HostArray
    beta2: HostArray
    gamma2: HostArray
    delta1: HostArray
    delta2: HostArray
    ic: HostArray
    """constant and public wires"""
    a: HostArray
    """all wires"""
    b1: HostArray
    b2: HostArray
    c: HostArray
    """private wires"""
    h: HostArray
    """domain size, in the Lagrange basis of the odd coset"""
