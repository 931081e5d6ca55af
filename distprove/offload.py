"""Where a job's operations run, as asked for by `--place`, a job file's `[executor] place` or Python.

    --place msm_g2=cpu,spmv=cpu      place = { msm_g2 = "cpu", spmv = "cpu" }      place = "auto"

`cpu` places an operation on the CPU beside the prover's GPU, `gpu` (the default of most) on the GPU. With "auto" the
proof system chooses by memory and by a short measurement when the key is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from distprove.entry import CPU
from distprove.errors import UsageError
from distprove.formats.nearest import nearest
from distprove.registry import SYSTEMS, entry_of
from kernels.interface.offload import OPERATIONS, Offload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernels.interface.backend import Backend

AUTO = "auto"


@dataclass(frozen=True)
class OffloadRequest:
    """What a user asked to offload: named operations to the CPU, or `auto`. False if nothing was asked for."""

    placement: Offload = field(default_factory=Offload)
    auto: bool = False

    def __bool__(self) -> bool:
        return self.auto or bool(self.placement.host)


_NONE, _AUTO = OffloadRequest(), OffloadRequest(auto=True)


def parse_place(place: str | Mapping[str, str] | None, system: str | None = None) -> OffloadRequest:
    """Parse "msm_g2=cpu,spmv=cpu", an equivalent mapping, "auto" or None, for the proof system `system` or for any.

    Raises UsageError for an unknown operation, or one that cannot run there.
    """
    if place is None or place == AUTO:
        return _AUTO if place == AUTO else _NONE
    entries = [entry_of(name) for name in SYSTEMS if system in (None, name)]
    known = {operation: places for entry in entries for operation, places in entry.operations.items()}
    host = set()
    for operation, where in _pairs(place):
        if operation not in known:
            whose = "" if system is None else f" {system}"
            raise UsageError(
                f"place: no{whose} operation {operation!r}{nearest(operation, known)}; known: {', '.join(known)}"
            )
        if where not in known[operation]:
            raise UsageError(f"place: {operation} runs on {' or '.join(known[operation])}, not on {where!r}")
        if where == CPU and operation in OPERATIONS:
            host.add(operation)
    return OffloadRequest(Offload(frozenset(host)))


def _pairs(place: str | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(place, str):
        pairs = [part.partition("=") for part in place.split(",")]
        named = [(operation.strip(), where.strip()) for operation, _, where in pairs]
    else:
        named = [(str(operation), str(where)) for operation, where in place.items()]
    if not all(operation and where for operation, where in named):
        raise UsageError(f'place: write "auto", or operations like "msm_g2=cpu,spmv=cpu", not {place!r}')
    if len({operation for operation, _ in named}) != len(named):
        raise UsageError(f"place: an operation is named twice in {place!r}")
    return named


@runtime_checkable
class ChoosesOffload(Protocol):
    """Optional interface of a proof system that can choose which of its operations are best offloaded."""

    def choose_offload(
        self, shared: dict[str, NDArray[np.uint8]], device: Backend, host: Backend
    ) -> tuple[Offload, str]:
        """The best offload for the key in `shared` on `device` with `host` beside it, and the reason in words for the
        report. Nothing stays loaded."""
