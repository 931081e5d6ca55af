"""A powers-of-tau file with a known secret, made fast, for tests that need larger ones than snarkjs makes in a test."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from distprove.groth16.binfile import BinFileWriter
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, pack


def write_known_tau(
    path: Path, curve: Curve, power: int, backend: Backend, *, tau: int, alpha: int, beta: int, smallest: int = 0
) -> None:
    """A prepared `.ptau` file of 2^power with these secrets and no contributions. Scalars come from Python integers.

    Lagrange bases of domains below 2^smallest are left zero, which saves half of the time.
    """
    p = curve.fr.modulus

    def points(group: Group, scalars: list[int]) -> HostArray:
        return backend.to_host(
            backend.groups.fixed_base(
                curve, group, generator(curve, group), backend.to_device(pack(scalars, curve.fr.limbs))
            )
        )

    def powers(count: int, first: int) -> list[int]:
        out = [first % p]
        while len(out) < count:
            out.append(out[-1] * tau % p)
        return out

    @cache
    def unscaled(log_n: int) -> list[int]:
        """x / (tau - x) for each x of a domain, with one inversion for all."""
        n, root = 1 << log_n, curve.fr.root_of_unity(log_n)
        xs, products = [1], [1]
        for _ in range(n):
            products.append(products[-1] * (tau - xs[-1]) % p)
            xs.append(xs[-1] * root % p)
        out, inverse = [0] * n, pow(products[-1], -1, p)
        for i in reversed(range(n)):
            out[i] = xs[i] * inverse * products[i] % p
            inverse = inverse * (tau - xs[i]) % p
        return out

    def lagrange(log_n: int, factor: int) -> list[int]:
        n = 1 << log_n
        if log_n < smallest:
            return [0] * n
        scale = (pow(tau, n, p) - 1) * pow(n, -1, p) * factor % p
        return [scale * each % p for each in unscaled(log_n)]

    groups = {2: Group.G1, 3: Group.G2, 4: Group.G1, 5: Group.G1}
    factors = {2: 1, 3: 1, 4: alpha, 5: beta}
    with BinFileWriter(path, "ptau", version=1, sections=11) as out:
        with out.section(1):
            out.prime(curve.fq.modulus, curve.fq.bytes)
            out.u32(power)
            out.u32(power)
        for ident, group in groups.items():
            with out.section(ident):
                count = (2 << power) - 1 if ident == 2 else 1 << power
                out.write(points(group, powers(count, factors[ident])))
        with out.section(6):
            out.write(points(Group.G2, [beta]))
        with out.section(7):
            out.u32(0)
        for ident, group in groups.items():
            with out.section(10 + ident):
                for log_n in range(power + (2 if ident == 2 else 1)):
                    out.write(np.ascontiguousarray(points(group, lagrange(log_n, factors[ident]))))
