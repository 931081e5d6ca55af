"""What a scheduler tells of its keys and workers: plain data, for clients too, which import nothing that computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KeyView:
    """A resident key, or one that is being loaded."""

    digest: str
    system: str
    title: str
    workers: int
    """Workers that have loaded it."""
    bytes: int
    """Bytes of a device's memory that it takes, or of the host's where provers compute there."""
    jobs: int
    """Jobs at work with it."""
    last_used: float
    loading: int = 0
    """Workers that load it."""
    checked: bool = True
    """Whether its points were checked, or need no check."""
    id: str = ""
    """What it is known by: systems with the same id share a key's slots (`identity`)."""


@dataclass(frozen=True)
class WorkerView:
    """A worker."""

    id: str
    node: str
    device: str
    kind: str
    busy: float
    """Share of the last minute in which its device computed, from 0 to 1."""
    proven: int
    memory_used: int | None = None
    """Bytes of its device in use when it last loaded a key; None where they are not counted."""
    memory_total: int | None = None
    lost: str | None = None
    """Why it is not used, if it is not."""
