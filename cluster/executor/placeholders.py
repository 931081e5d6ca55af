"""GPUs of Ray's that were given up, held until a job ends, so that its workers get others.

Ray chooses the GPU of an actor, and whoever asks for one may get the same again. A placeholder asks for a GPU and for
no CPU, which the worker that is placed anew needs.
"""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.backends import Ahead
from actors.ray_actor import Placeholder
from cluster.executor.placement import Node

PATIENCE = 30.0
"""Seconds that a placeholder has to start."""


class Placeholders:
    """See the module's text. One thread at a time calls `hold`."""

    def __init__(self) -> None:
        self._held: list[tuple[Node, float, Any]] = []

    def held(self, node: Node) -> float:
        """GPUs of that node that are held."""
        return sum(gpus for where, gpus, _ in self._held if where.id == node.id)

    def hold(self, node: Node, ahead: Ahead | None, gpus: float, most: int) -> bool:
        """Hold so much of a GPU of that node that was given up: of at most so many placeholders the first that Ray
        places on one. Whether there was one."""
        tried: list[Any] = []
        options = ray.remote(Placeholder).options(
            num_cpus=0, num_gpus=gpus, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)
        )
        for _ in range(most):
            tried.append(options.remote())
            asked = tried[-1].refusal.remote(tuple(ahead or ())).future()
            if not wait([asked], PATIENCE).done or asked.exception() is not None:
                break
            if asked.result():
                self._held.append((node, gpus, tried.pop()))
                _end(tried)
                return True
        _end(tried)
        return False

    def end(self) -> None:
        """Hold nothing any more."""
        _end([actor for _, _, actor in self._held])
        self._held = []


def _end(actors: list[Any]) -> None:
    for actor in actors:
        with suppress(RayError):
            ray.kill(actor, no_restart=True)
