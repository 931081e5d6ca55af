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
        return self.size(self._resident)

    def size(self, names: Collection[str]) -> int:
        """Bytes that these keys take."""
        return sum(key.memory for name, key in self._resident.items() if name in names)

    def users(self, name: str) -> int:
        return self._resident[name].users if name in self._resident else 0

    def pin(self, name: str, memory: int) -> None:
        """Count one more user of a key; the first brings the key, for which there must be room."""
        self.loaded += name not in self._resident
        self._resident.setdefault(name, _Key(memory)).users += 1

    def unpin(self, name: str) -> None:
        """Count one user less; the key goes with its last."""
        self._resident[name].users -= 1
        if not self._resident[name].users:
            del self._resident[name]

    def shrink(self, name: str, memory: int) -> None:
        """A key takes at most these bytes from here on."""
        key = self._resident[name]
        key.memory = min(memory, key.memory)

    def report(self) -> dict[str, Any]:
        resident = len(self._resident)
        return {"resident": resident, "memory": self.memory, "loaded": self.loaded, "evicted": self.loaded - resident}
