"""Inner products of a device's backend, held to the CPU's: one set of cases for emulated kernels and a real GPU."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from distprove.groth16.aggregate.prover import aggregate
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints
from tests.support.aggregates import keys_of, secret_of


def vector(curve: Curve, group: Group, n: int, seed: int) -> HostArray:
    """n points that are not special."""
    rng = random.Random(seed)
    logs = [rng.randrange(2, curve.fr.modulus - 1) for _ in range(n)]
    with CpuBackend(threads=2) as cpu:
        points = cpu.groups.fixed_base(curve, group, generator(curve, group), scalars_from_ints(curve.fr, logs))
        return cpu.to_host(points)


def check_products(backend: Backend, curve: Curve, n: int) -> None:
    """Products of n pairs and of few, of no pairs at all, and with points at infinity; n is at least 11."""
    g1, g2 = vector(curve, Group.G1, n, 1), vector(curve, Group.G2, n, 2)
    g1[4] = g2[6] = 0
    one, two = backend.to_device(g1), backend.to_device(g2)

    def products(g1: Array, g2: Array) -> list[Sequence[tuple[Array, Array]]]:
        return [[(g1, g2)], [], [(g1[:1], g2[1:2]), (g1[7:9], g2[8:10])], [(g1[4:5], g2[4:5])]]

    with CpuBackend(threads=2) as cpu:
        expected = cpu.inner_products.pairing_products(curve, products(g1, g2)).result()
        nothing = cpu.inner_products.pairing_products(curve, [[], []]).result()
    assert np.array_equal(backend.inner_products.pairing_products(curve, products(one, two)).result(), expected)
    assert np.array_equal(backend.inner_products.pairing_products(curve, [[], []]).result(), nothing)
    assert np.array_equal(expected[1], nothing[0])
    assert not np.array_equal(expected[0], nothing[0])


def check_repeated_pairs(backend: Backend, curve: Curve, n: int) -> None:
    """The product of n pairs, three of which are different: where n is large, a thread takes several."""
    few = [vector(curve, group, 3, 3) for group in Group]
    g1, g2 = (backend.to_device(np.tile(points, (n // 3 + 1, 1))[:n].copy()) for points in few)
    counts = scalars_from_ints(curve.fr, [(n + 2 - i) // 3 for i in range(3)])
    with CpuBackend() as cpu:
        scaled = cpu.inner_products.scaled(curve, Group.G1, few[0], counts)
        expected = cpu.inner_products.pairing_products(curve, [[(scaled, few[1])]]).result()
    assert np.array_equal(backend.inner_products.pairing_products(curve, [[(g1, g2)]]).result(), expected)


def check_scaled_and_folded(backend: Backend, curve: Curve, group: Group, n: int) -> None:
    """Multiples and folds of n points, an even number from 10 on, with infinity, equal points and special scalars."""
    rng, r = random.Random(4), curve.fr.modulus
    points = vector(curve, group, n, 5)
    points[3] = 0
    points[n // 2 + 1] = points[1]  # summands that are equal, below
    values = [0, 1, 2, 3, r - 1, r // 2, *(rng.randrange(r) for _ in range(n - 6))]
    scalars = scalars_from_ints(curve.fr, values)
    with CpuBackend(threads=2) as cpu:
        ours, theirs = backend.inner_products, cpu.inner_products
        on_device = backend.to_device(points)
        made = ours.scaled(curve, group, on_device, backend.to_device(scalars))
        assert np.array_equal(backend.to_host(made), theirs.scaled(curve, group, points, scalars))
        for x in (0, 1, r - 1, rng.randrange(r)):
            expected = theirs.folded(curve, group, (points, points[2:8], points[:0]), x)
            folded = ours.folded(curve, group, (on_device, on_device[2:8], on_device[:0]), x)
            for one, known in zip(folded, expected, strict=True):
                assert np.array_equal(backend.to_host(one), known)


def check_aggregate(backend: Backend, curve: Curve, count: int = 8) -> None:
    """The bytes of an aggregate, which hold all that is in its transcript, wherever its last rounds are computed."""
    proofs = [secret_of(curve).prove([i, 2], seed=i) for i in range(count)]
    with CpuBackend(threads=2) as cpu:
        expected = aggregate(keys_of(curve), proofs, b"", cpu).to_bytes()
        for host, most in ((None, 0), (cpu, 0), (cpu, 2), (cpu, count)):
            made = aggregate(keys_of(curve), proofs, b"", backend, host, host_points=most)
            assert made.to_bytes() == expected
