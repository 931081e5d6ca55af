"""The Montgomery form of BabyBear's elements in the memory of a GPU: x 2^32 mod p."""

from __future__ import annotations

import numpy as np

from kernels.maths.babybear import P

INVERSE_RADIX = np.uint32(pow(1 << 32, -1, P))
"""Takes an element out of Montgomery form."""
