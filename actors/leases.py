"""Leases of the governor of a node, over Ray: what an actor's threads, and the driver's, hold while they work."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from actors.grants import Governor, Grant, Wanted

if TYPE_CHECKING:
    from typing_extensions import Unpack

NAMESPACE = "distprove"
PROTOCOL = 6
"""Version of a governor's calls. Jobs of a distprove with another version do not share the governor."""


def governor_name(node: str) -> str:
    """The actor name of the governor of the node with this id."""
    return f"governor-{PROTOCOL}-{node}"


class Governed(Governor):
    """The governor of the node that this process is on, as its threads use it. Without one everything is allowed."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        """Numbers that tell leases apart: the next one may be asked for before the last one's end has arrived."""

    @cached_property
    def governor(self) -> Any | None:
        """The actor; None on a node that joined later."""
        try:
            return ray.get_actor(governor_name(ray.get_runtime_context().get_node_id()), namespace=NAMESPACE)
        except ValueError:
            return None

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        if self.governor is None:
            return Grant(0, wanted.get("threads", 0))
        asked = self.governor.acquire.remote(os.getpid(), thread=next(self._numbers), **wanted)
        # Not `ray.get`: Ray ends the process of a thread that comes back from it after `ray.shutdown`.
        return Grant(*asked.future().result())

    def release(self, ticket: int) -> None:
        if ticket:
            self._tell("release", ticket)

    def shrink(self, ticket: int, memory: int) -> None:
        if ticket:
            self._tell("shrink", ticket, memory)

    def threads_wanted(self) -> bool:
        return self.governor is not None and bool(self.governor.threads_wanted.remote().future().result())

    def _tell(self, name: str, *arguments: Any) -> None:
        # Not retried: a governor that is gone has forgotten its leases, and Ray would tell the driver's user.
        if self.governor is not None:
            with suppress(RayError):
                getattr(self.governor, name).options(max_task_retries=0).remote(*arguments)
