"""What a pool tells of its keys and workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyView:
    """A resident key."""

    digest: str
    system: str
    title: str
    workers: int
    """Workers that have loaded it."""
    bytes: int
    """What it takes of a device's memory, or of the host's where provers compute there."""
    jobs: int
    """Jobs at work with it."""
    last_used: float


@dataclass(frozen=True)
class WorkerView:
    """A worker of a pool."""

    id: str
    node: str
    device: str
    kind: str
    busy: float
    """Share of the last minute for which its device computed, from 0 to 1."""
    proven: int
    memory_used: int | None = None
    """Bytes of its device in use when it last loaded a key; None where they are not counted."""
    memory_total: int | None = None
    lost: str | None = None
    """Why it is not used, if it is not."""
