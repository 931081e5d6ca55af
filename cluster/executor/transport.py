"""Transports: ways for messages to reach a worker or a verifier."""

from __future__ import annotations

from typing import Any, Protocol


class Transport(Protocol):
    """A way for messages to reach a process. It knows nothing of what they say. One is for the worker in the `room` of
    that number, or for what the process itself serves."""

    def start(self) -> None:
        """Bring what answers to life, also after its death."""

    def call(self, name: str, *arguments: Any, room: int | None = None) -> Any:
        """Call the method `name` and return what it returns. Raises what it raises, or WorkerDied."""

    def tell(self, name: str, *arguments: Any, room: int | None = None) -> None:
        """Have the method `name` called. Nothing is waited for; one that is gone is not told."""

    def kill(self) -> None:
        """End this life of what answers, where it is a process of its own: calls under way are told of its death."""

    def end(self) -> None:
        """End what answers, for good."""
