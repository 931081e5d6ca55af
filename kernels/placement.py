"""What can be placed on the host beside a device, and a choice of it; the backend that follows it is in `placed`."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.curves import Group
from kernels.errors import BackendError
from kernels.leases import SPMV

MSM = {Group.G1: "msm_g1", Group.G2: "msm_g2"}
OPERATIONS = (SPMV, *MSM.values())
"""What can be placed on the host."""


@dataclass(frozen=True)
class Placement:
    """Which of `OPERATIONS` run on the host; the others run on the device."""

    host: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.host - set(OPERATIONS))
        if unknown:
            raise BackendError(f"{unknown[0]!r} cannot be placed; what can: {', '.join(OPERATIONS)}")

    def __str__(self) -> str:
        return ",".join(f"{name}=cpu" for name in OPERATIONS if name in self.host) or "device"
