"""What the CPU backend's tests share: every build of the native code, edge values, points with known logarithms."""

from __future__ import annotations

import random

import numpy as np

from kernels.cpu import group
from kernels.cpu.backend import CpuBackend
from kernels.host import native
from kernels.maths import encoding
from kernels.maths.curves import CURVES, Curve, Field, Group

BACKENDS = [(variant, threads) for variant in native.variants() for threads in (1, 3)]
"""Three threads on two cores: more workers than tasks, and tasks that end out of order."""

GROUPS = [(curve, which) for curve in CURVES for which in Group]
FIELDS = [field for curve in CURVES for field in (curve.fr, curve.fq)]


def backend_id(case: tuple[str, int]) -> str:
    return f"{case[0]}-{case[1]}"


def edge_values(field: Field, n: int, rng: random.Random) -> list[int]:
    """n values: the ends of the range, powers of two around limb borders, and uniform ones."""
    p = field.modulus
    edges = [
        0,
        1,
        2,
        p - 1,
        p - 2,
        p // 2,
        p // 2 + 1,
        (1 << 64) - 1,
        1 << 64,
        (1 << 128) - 1,
        1 << (p.bit_length() - 1),
    ]
    return [edges[i] % p if i < len(edges) else rng.randrange(p) for i in range(n)]


def unaligned(array: np.ndarray) -> np.ndarray:
    """A read-only (n, bytes) uint8 view of a copy that starts at an odd address, as in a mapped key."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(len(array), -1)
    buffer = np.zeros(raw.size + 16, dtype=np.uint8)
    start = 1 + (-buffer.ctypes.data) % 8
    view = buffer[start : start + raw.size].reshape(raw.shape)
    view[:] = raw
    view.flags.writeable = False
    return view


class KnownPoints:
    """Multiples of the generator with their logarithms."""

    def __init__(self, backend: CpuBackend, curve: Curve, which: Group, logs: list[int]) -> None:
        self.curve, self.which = curve, which
        self.logs = [k % curve.fr.modulus for k in logs]
        base = encoding.generator(curve, which)
        self.points = backend.groups.fixed_base(curve, which, base, encoding.scalars_from_ints(curve.fr, self.logs))

    def combination(self, scalars: list[int]) -> np.ndarray:
        """sum_i scalars[i] points[i], by their logarithms: one multiplication, which other tests check."""
        total = sum(k * s for k, s in zip(self.logs, scalars, strict=True)) % self.curve.fr.modulus
        return group.mul(self.curve, self.which, encoding.generator(self.curve, self.which), total)


def point_at(curve: Curve, which: Group, x: int) -> tuple[int, ...] | None:
    """A point of the curve with abscissa x, mostly outside the subgroup of prime order; None if there is none."""
    q = curve.fq.modulus
    if which is Group.G1:
        square = (x**3 + curve.b1) % q
        y = pow(square, (q + 1) // 4, q)
        return (x, y) if y * y % q == square else None
    # y^2 = a + b u with u^2 = -1, by the norm: y0^2 = (a + |a + b u|) / 2 for one of the two roots of the norm
    a, b = (x**3 + curve.b2[0]) % q, curve.b2[1]
    norm = (a * a + b * b) % q
    length = pow(norm, (q + 1) // 4, q)
    for root in (length, -length):
        half = (a + root) * pow(2, -1, q) % q
        y0 = pow(half, (q + 1) // 4, q)
        if y0 and y0 * y0 % q == half:
            y1 = b * pow(2 * y0, -1, q) % q
            if (y0 * y0 - y1 * y1 - a) % q == 0:
                return (x, 0, y0, y1)
    return None
