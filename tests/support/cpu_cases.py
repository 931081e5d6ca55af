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
