"""What a backend says of itself before it is loaded: the `ENTRY` in the `entry.py` of its package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BackendEntry:
    """The way into a backend. Its functions import what they need when they are called."""

    title: str
    open: Callable[..., Any]
    """Makes the `Backend` from keyword arguments: device, threads, budget (of its memory), share (how many share the
    device), and for what computes on the CPU arena and lease. Raises BackendError."""
    devices: Callable[[], int] | None = None
    """Counts the devices that can be used here. Each gets a prover of its own, over Ray too, where a device is one of
    Ray's GPUs. None for a backend that computes on a node's CPUs, all of them with one prover."""
    pinned: int = 0
    """Bytes of page-locked host memory that one prover takes."""
