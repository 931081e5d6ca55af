"""Resident proving keys: who uses them, and the memory that they take of the node's budget, beside witnesses.

A key comes with its first user and goes with its last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Key:
    memory: int
    pinned: int
    users: int = 0


@dataclass
class Keys:
    """Keys by name. The governor's; not thread-safe."""

    _resident: dict[str, _Key] = field(default_factory=dict)
    loaded: int = 0

    def __contains__(self, name: str | None) -> bool:
        return name in self._resident

    @property
    def memory(self) -> int:
        return self.size(self._resident)[0]

    @property
    def pinned(self) -> int:
        return self.size(self._resident)[1]

    def size(self, names: Collection[str]) -> tuple[int, int]:
        """Bytes that these keys take, and how many of them are page-locked."""
        keys = [key for name, key in self._resident.items() if name in names]
        return sum(key.memory for key in keys), sum(key.pinned for key in keys)

    def users(self, name: str) -> int:
        return self._resident[name].users if name in self._resident else 0

    def pin(self, name: str, memory: int, pinned: int) -> None:
        """Count one more user of a key; the first brings the key, for which there must be room."""
        self.loaded += name not in self._resident
        self._resident.setdefault(name, _Key(memory, pinned)).users += 1

    def unpin(self, name: str) -> None:
        """Count one user less; the key goes with its last."""
        self._resident[name].users -= 1
        if not self._resident[name].users:
            del self._resident[name]

    def shrink(self, name: str, memory: int, pinned: int) -> None:
        """A key takes at most these bytes from here on."""
        key = self._resident[name]
        key.memory, key.pinned = min(memory, key.memory), min(pinned, key.pinned)

    def report(self) -> dict[str, Any]:
        resident = len(self._resident)
        return {"resident": resident, "memory": self.memory, "loaded": self.loaded, "evicted": self.loaded - resident}
