"""OpenVM 2's duplex sponge in the device's memory: `struct Sponge` of cuda/src/openvm_sponge.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.cuda.babybear import RADIX
from kernels.cuda.openvm.montgomery import INVERSE_RADIX
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import elements, mul
from kernels.maths.poseidon2_babybear import WIDTH

SPONGE = np.dtype([("state", np.uint32, WIDTH), ("absorbed", np.uint32), ("left", np.uint32)])


def written(sponge: Sponge) -> Any:
    """Return the record of a sponge."""
    state, absorbed, left = sponge.state
    return np.array((mul(elements(state), RADIX), absorbed, left), dtype=SPONGE)


def resumed(sponge: Sponge, record: Any) -> None:
    """Let a sponge continue from a record."""
    sponge.resume(mul(record["state"], INVERSE_RADIX).tolist(), int(record["absorbed"]), int(record["left"]))
