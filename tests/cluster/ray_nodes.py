"""Small Ray nodes on this machine, for tests."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any


def raylet() -> dict[str, Any]:
    """Arguments of a small node.

    Ports are given, because a raylet waits only 15 s for its agents to choose theirs, which a busy machine overruns.
    """
    sizes = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 << 20}
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("", 0))
        return {**sizes, **{name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}}
