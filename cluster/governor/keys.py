"""Resident proving keys: who uses them, which one goes when room is needed.

Keys and their tables share the node's memory budget with witnesses. One is loaded on demand and stays when its last
user is gone; it leaves, least recently used first, when somebody needs the room, and never while it is in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Key:
    memory: int
    pinned: int
    users: int = 0
    leaving: bool = False
    """Chosen to go: its memory counts until it is told to be gone."""


@dataclass
class Keys:
    """Keys by name, the least recently used first. The governor's; not thread-safe."""

    _resident: dict[str, _Key] = field(default_factory=dict)
    loaded: int = 0
    evicted: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self._resident

    @property
    def memory(self) -> int:
        return sum(key.memory for key in self._resident.values())

    @property
    def pinned(self) -> int:
        return sum(key.pinned for key in self._resident.values())

    @property
    def leaving(self) -> list[str]:
        """Idle keys that must go now, oldest first."""
        return [name for name, key in self._resident.items() if key.leaving]

    def size(self, names: Collection[str]) -> tuple[int, int]:
        """Bytes that these keys take, and how many of them are page-locked."""
        sizes = [(key.memory, key.pinned) for name, key in self._resident.items() if name in names]
        return sum(memory for memory, _ in sizes), sum(pinned for _, pinned in sizes)

    def is_leaving(self, name: str) -> bool:
        return name in self._resident and self._resident[name].leaving

    def users(self, name: str) -> int:
        return self._resident[name].users if name in self._resident else 0

    def pin(self, name: str, memory: int, pinned: int) -> None:
        """Count one more user of a key; the first brings the key, for which there must be room."""
        key = self._resident.pop(name, None)
        if key is None:
            key = _Key(memory, pinned)
            self.loaded += 1
        key.users += 1
        self._resident[name] = key  # at the end: the most recently used

    def unpin(self, name: str) -> None:
        key = self._resident.pop(name)
        key.users -= 1
        self._resident[name] = key

    def shrink(self, name: str, memory: int, pinned: int) -> None:
        """A key takes at most these bytes from here on."""
        key = self._resident[name]
        key.memory, key.pinned = min(memory, key.memory), min(pinned, key.pinned)

    def make_room(self, memory: int, pinned: int) -> None:
        """Choose idle keys to leave until these many bytes more will be free; none if all of them would not do."""
        idle = [key for key in self._resident.values() if not key.users]
        for key in idle if self._enough(idle, memory, pinned) else []:
            if self._enough((k for k in idle if k.leaving), memory, pinned):
                return
            key.leaving = True

    def forget(self, name: str) -> None:
        """A key that was leaving is gone. One that is not leaving is not touched."""
        if self.is_leaving(name):
            del self._resident[name]
            self.evicted += 1

    def report(self) -> dict[str, Any]:
        return {"resident": len(self._resident), "memory": self.memory, "loaded": self.loaded, "evicted": self.evicted}

    @staticmethod
    def _enough(keys: Iterator[_Key] | list[_Key], memory: int, pinned: int) -> bool:
        listed = list(keys)
        return sum(k.memory for k in listed) >= memory and sum(k.pinned for k in listed) >= pinned
