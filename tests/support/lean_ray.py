"""A Ray of head and raylet alone, which is up in half a second: for the nodes of tests that start many.

Ray also starts a dashboard, an agent that gathers metrics for it, one that builds environments for tasks that ask for
any, a monitor that adds machines and one that carries workers' logs to the driver: ten seconds of CPU. It has no
setting that leaves them out, so this replaces private parts of Ray, which no job does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_IN_PLACE = {
    # The raylet ends with its agents, and they with it: it holds the other end of their input.
    "--dashboard_agent_command": "cat",
    "--runtime_env_agent_command": "cat",
    "--num_prestart_python_workers": "0",
}
"""Options of the raylet's command, and what they are here."""
_PORTS = (
    "METRICS_AGENT_PORT_NAME",
    "METRICS_EXPORT_PORT_NAME",
    "DASHBOARD_AGENT_LISTEN_PORT_NAME",
    "RUNTIME_ENV_AGENT_PORT_NAME",
)
"""Names in Ray of the names of the ports that agents tell."""
_NOT_THERE = -1
"""The port of an agent that does not serve."""


@contextmanager
def lean_ray() -> Iterator[None]:
    """A Ray that is started within the block consists of its head and its raylet. Of a version of Ray that is made
    otherwise, all of it starts."""
    try:
        from ray import _raylet
        from ray._private import services, utils
        from ray._private.node import Node

        raylet: Any = _raylet  # it tells nobody its types
        ports = [getattr(raylet, name) for name in _PORTS]
        persist_port, start_process = raylet.persist_port, services.start_ray_process
        kept = (
            services.start_api_server,
            utils.get_dashboard_dependency_error,
            Node.start_monitor,
            Node.start_log_monitor,
        )
    except (ImportError, AttributeError):
        yield
        return

    def start(command: list[str], process_type: str, *arguments: Any, **options: Any) -> Any:
        if process_type == "raylet":
            said = dict(word.removeprefix("--").split("=", 1) for word in command if "=" in word)
            for port in ports:
                persist_port(said["session_dir"], said["node_id"], port, _NOT_THERE)
            command = [_in_place(word) for word in command]
        return start_process(command, process_type, *arguments, **options)

    services.start_ray_process = start
    services.start_api_server = lambda *_arguments, **_options: (None, None)  # as where it fails to start
    utils.get_dashboard_dependency_error = lambda: ImportError("it is left out")  # to ask takes half a second
    Node.start_monitor = Node.start_log_monitor = lambda self: None
    try:
        yield
    finally:
        services.start_ray_process = start_process
        services.start_api_server, utils.get_dashboard_dependency_error = kept[:2]
        Node.start_monitor, Node.start_log_monitor = kept[2:]


def _in_place(word: str) -> str:
    name = word.partition("=")[0]
    return f"{name}={_IN_PLACE[name]}" if name in _IN_PLACE else word
