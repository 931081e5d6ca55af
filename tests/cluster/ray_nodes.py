"""Small Ray nodes on this machine, for tests."""

from __future__ import annotations

import socket
from typing import Any


def raylet() -> dict[str, Any]:
    """Arguments of `Cluster.add_node` for a node of two CPUs and a small object store."""
    return {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 << 20}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
