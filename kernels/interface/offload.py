"""The choice of operations that run on the host beside a device. `kernels.split` has the backend that follows it."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.errors import BackendError
from kernels.interface.leases import SPMV
from kernels.maths.curves import Group

MSM = {Group.G1: "msm_g1", Group.G2: "msm_g2"}
OPERATIONS = (SPMV, *MSM.values())
"""Names of the operations that can be offloaded to the CPU."""


@dataclass(frozen=True)
class Offload:
    """The operations of `OPERATIONS` that run on the host, not on the device. Raises BackendError for other names."""

    host: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.host - set(OPERATIONS))
        if unknown:
            raise BackendError(f"{unknown[0]!r} cannot be offloaded; what can: {', '.join(OPERATIONS)}")

    def __str__(self) -> str:
        return ",".join(f"{name}=cpu" for name in OPERATIONS if name in self.host) or "device"
