"""BabyBear's extension in native code on the caller's thread, for the small arrays between a protocol's messages.

The functions are those of `kernels.maths.babybear` and `kernels.maths.babybear_ntt`, several times as fast.
"""

from __future__ import annotations

from kernels.cpu.babybear import CpuBabyBear
from kernels.cpu.leased_pool import LeasedPool
from kernels.host.native import native
from kernels.maths.babybear import Elements, total

CALLER = CpuBabyBear(LeasedPool(native, 1))
"""The kernels on the thread of the caller."""

ext_mul, ntt, intt = CALLER.ext_mul, CALLER.ntt, CALLER.intt


def ext_dot(a: Elements, b: Elements, axis: int = -2) -> Elements:
    """Return the sum along an axis of the products of extension elements (..., 4)."""
    return total(ext_mul(a, b), axis)
