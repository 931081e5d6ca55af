"""Processes of Ray that stand by: on each node one, so that an actor whose process died has another one at once, and
at the start those of workers that are not placed yet.

Ray makes an actor in an idle process of its node, if there is one that nothing has run in yet; else in a new one, which
first imports Ray. Its raylets keep such processes when they are asked to (`PrestartWorkers`), for which Ray has no
function in Python. They hold no resources, and Ray ends them with the job that they are for, or when memory runs out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from cluster.executor.placement import Node

AFTER = 2.0
"""Seconds after the last start of an actor on a node at which a process is asked for: a job that is over by then does
without, and an actor that was just started has the cores for itself."""
KEPT = 7 * 86400
"""Seconds for which an idle process is kept while its job lasts; for another one that is no reason to end it. Ray's own
processes are kept for one second where all CPUs are taken."""
ANSWERS = 10.0
"""Seconds that a raylet has to answer."""
PYTHON = 0
"""The number of this language in Ray's messages."""


class Spares:
    """Which nodes are to have a spare process, and when. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        """When a node's spare is asked for, by node id; nodes that have one are not here."""

    def taken(self, node: str) -> None:
        """An actor was started there: if there was a spare, it is that."""
        with self._lock:
            self._due[node] = time.monotonic() + AFTER

    def look(self, nodes: Iterable[Node]) -> None:
        """Ask the raylets of those of these nodes that are due for a spare. Waits for nothing."""
        now = time.monotonic()
        with self._lock:
            due = [node for node in nodes if self._due.get(node.id, now) < now and node.port]
            for node in due:
                del self._due[node.id]
        for node in due:
            start(node, 1)


def start(node: Node, count: int) -> None:
    """Have a node's raylet start so many processes for this job, in which nothing runs. Waits for nothing. Where that
    fails, or Ray is of another version, the node does without. Raises RuntimeError where no thread can be started."""
    threading.Thread(target=_start, args=(node, count), name="distprove-spare", daemon=True).start()


def _start(node: Node, count: int) -> None:
    with suppress(Exception):
        import ray
        from ray._private.grpc_utils import init_grpc_channel
        from ray._private.worker import global_worker
        from ray.core.generated.node_manager_pb2 import PrestartWorkersRequest
        from ray.core.generated.node_manager_pb2_grpc import NodeManagerServiceStub

        wanted = PrestartWorkersRequest(
            language=PYTHON,
            job_id=bytes.fromhex(ray.get_runtime_context().get_job_id()),
            runtime_env_info=global_worker.core_worker.get_job_config().runtime_env_info,
            keep_alive_duration_secs=KEPT,
            num_workers=count,
        )
        host = f"[{node.address}]" if ":" in node.address else node.address
        with init_grpc_channel(f"{host}:{node.port}", [("grpc.enable_http_proxy", 0)]) as channel:
            NodeManagerServiceStub(channel).PrestartWorkers(wanted, timeout=ANSWERS)
