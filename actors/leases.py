"""Leases of the governor of a node, over Ray: what an actor's threads, and the driver's, hold while they work."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from distprove.phases import Phase

NAMESPACE = "distprove"
PROTOCOL = 2
"""Of a governor's calls: jobs whose distprove has another one do not share it."""


def governor_name(node: str) -> str:
    """Of the governor of the node of that id."""
    return f"governor-{PROTOCOL}-{node}"


class Governed:
    """The governor of the node that this process is on, as its threads use it. Without one everything is allowed."""

    def __init__(self, driver: str) -> None:
        """`driver` names the job that this process works for."""
        self._driver = driver
        self._numbers = itertools.count(1)
        """One for each lease: the next one may be asked for before the last one's end has arrived."""

    @cached_property
    def governor(self) -> Any | None:
        """The actor; None on a node that joined later."""
        try:
            return ray.get_actor(governor_name(ray.get_runtime_context().get_node_id()), namespace=NAMESPACE)
        except ValueError:
            return None

    def throttle(self) -> Path | None:
        """Where the node's throttle word is; None where there is none."""
        path = ray.get(self.governor.start.remote()) if self.governor is not None else None
        return None if path is None else Path(path)

    @contextmanager
    def lease(
        self, *, phase: Phase = Phase.SYNTHESIS, threads: int = 0, memory: int = 0, lane: bool = False, least: int = 0
    ) -> Iterator[RemoteLease]:
        """Hold a lease for the length of the block; waits for it."""
        if self.governor is None:
            yield RemoteLease(None, 0, threads)
            return
        asked = self.governor.acquire.remote(
            os.getpid(), threads, memory, lane, phase=phase.value, thread=next(self._numbers), least=least
        )
        ticket, granted = ray.get(asked)
        lease = RemoteLease(self.governor, ticket, granted, self._driver)
        try:
            yield lease
        finally:
            lease.release()

    @contextmanager
    def proving(self) -> Iterator[None]:
        """While a prover has a partition; it is proven if the block ends without an error."""
        if self.governor is None:
            yield
            return
        # Neither is retried: a governor that was started anew counts from there.
        self.governor.taken.options(max_task_retries=0).remote(os.getpid())
        proven = False
        try:
            yield
            proven = True
        finally:
            self.governor.returned.options(max_task_retries=0).remote(os.getpid(), proven)


class RemoteLease:
    """A lease of the node's governor, if there is one. `threads` is how many it is of: at most what was asked for."""

    def __init__(self, governor: Any | None, ticket: int, threads: int, driver: str = "") -> None:
        self._driver = driver
        self._governor = governor
        self._ticket = ticket
        self.threads = threads

    def hand_on(self, memory: int, errand: tuple[str, int]) -> tuple[str, int] | None:
        """Give back all but `memory` bytes, which outlive this process, but not the driver: the node and the ticket to
        release there. `errand` is what the driver had asked for."""
        if self._governor is None:
            return None
        ray.get(self._governor.hand_on.remote(self._ticket, memory, self._driver, errand))
        ticket, self._ticket = self._ticket, 0
        return ray.get_runtime_context().get_node_id(), ticket

    def release(self) -> None:
        """Give back the lease. Nothing is waited for."""
        if self._governor is None or not self._ticket:
            return
        # Not retried: a governor that is gone has forgotten its leases, and Ray would tell the driver's user.
        with suppress(RayError):
            self._governor.release.options(max_task_retries=0).remote(self._ticket)
