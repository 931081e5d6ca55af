"""Leases of a node's governor, over Ray, for the threads of an actor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import PendingCallsLimitExceeded, RayActorError, RayError

from actors import patience
from actors.grants import Governor, Grant, Wanted

if TYPE_CHECKING:
    from typing_extensions import Unpack

NAMESPACE = "distprove"
PROTOCOL = 9
"""Version of a governor's calls. Jobs of a distprove with another version do not share the governor."""


def governor_name(node: str) -> str:
    """The actor name of the governor of the node with this id."""
    return f"governor-{PROTOCOL}-{node}"


class Governed(Governor):
    """The governor of the node that this process is on, as its threads use it. Without one everything is allowed. One
    that is gone, as from a node that was cut off, the drivers make anew, and it is found then."""

    def __init__(self, serves: str = "") -> None:
        """`serves` is the driver that this process serves, at most one, which each governor is told that is found."""
        self._serves = serves
        self._found: Any | None = None
        self._looked = False

    @property
    def governor(self) -> Any | None:
        """The actor; None on a node that joined later."""
        if not self._looked:
            try:
                self._found = ray.get_actor(governor_name(ray.get_runtime_context().get_node_id()), namespace=NAMESPACE)
            except ValueError:
                self._found = None
            self._looked = True
            if self._serves:
                self._tell(lambda governor: governor.serves.remote(os.getpid(), self._serves))
        return self._found

    def find(self) -> None:
        """Look for the governor, which then knows what this process serves. What fails is met again by `acquire`."""
        with suppress(Exception):
            _ = self.governor

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        gone = 0.0
        while True:
            governor = self.governor
            if governor is not None:
                try:
                    asked = governor.acquire.remote(os.getpid(), **wanted)
                    # Not `ray.get`: Ray ends the process of a thread that comes back from it after `ray.shutdown`.
                    return Grant(*asked.future().result())
                except (RayActorError, PendingCallsLimitExceeded):
                    gone = gone or time.monotonic()
            if not gone or time.monotonic() - gone > patience.GOVERNOR_RENEWED:
                return Grant(0, wanted.get("threads", 0))
            time.sleep(patience.GOVERNOR_GLANCE)
            self._looked = False

    def release(self, ticket: int) -> None:
        if ticket:
            self._tell(lambda governor: governor.release.remote(ticket))

    def shrink(self, ticket: int, memory: int) -> None:
        if ticket:
            self._tell(lambda governor: governor.shrink.remote(ticket, memory))

    def threads_wanted(self) -> bool:
        with suppress(RayActorError):  # it is gone: whoever wants a lease next looks for another
            return self.governor is not None and bool(self.governor.threads_wanted.remote().future().result())
        return False

    def _tell(self, tell: Callable[[Any], object]) -> None:
        if self.governor is not None:
            with suppress(RayError):
                tell(self.governor)
