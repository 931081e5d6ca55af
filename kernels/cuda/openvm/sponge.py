"""OpenVM 2's duplex sponge in the device's memory: `struct Sponge` of cuda/src/openvm_sponge.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.host.babybear import canonical, montgomery
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import elements
from kernels.maths.poseidon2_babybear import WIDTH

SPONGE = np.dtype([("state", np.uint32, WIDTH), ("absorbed", np.uint32), ("left", np.uint32)])


def written(sponge: Sponge) -> Any:
    """Return the record of a sponge."""
    state, absorbed, left = sponge.state
    return np.array((montgomery(elements(state)), absorbed, left), dtype=SPONGE)


def resumed(sponge: Sponge, record: Any) -> None:
    """Let a sponge continue from a record."""
    sponge.resume(canonical(record["state"]).tolist(), int(record["absorbed"]), int(record["left"]))
