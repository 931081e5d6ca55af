"""The connection to Ray: started for the purpose and stopped after it, or joined and left as it was.

Set before Ray is imported, because it reads them only then: RAY_AUTH_MODE=token (a Ray that is started for the purpose
gets a token of its own, so that no other user of the machine can run code in it), RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
(under `uv run` every worker would build the environment again), and for a Ray of our own
RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, which on any system has its processes listen on the loopback interface alone. This
is the edge: nowhere else is the environment touched.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from cluster.executor.guard import guarded, processes_in
from cluster.executor.lean_ray import lean_ray
from cluster.executor.own_cluster import own_cluster
from cluster.executor.placement import Node
from cluster.executor.reach import PATIENCE, SLOW, refusal, refused_token, require_ray
from distprove.errors import ClusterError
from distprove.host.cgroup import memory_available
from distprove.host.machine import usable_threads
from distprove.settings import ExecutorSettings
from kernels.host.scratch import RAY, scratch_folder

AUTO = "auto"
"""The address that stands for a cluster that is looked for."""
_LATE = "timed out during startup"
"""Part of what Ray says of a node that did not come up in Ray's own time."""
ANSWERS = 5.0
"""Seconds that a Ray has to take its leave."""
MIN_STORE = 128 << 20
MAX_STORE_SHARE = 0.3
"""Largest share of free memory for the object store, which lives in shared memory beside the provers."""

SESSIONS, SPILL = "r", "s"
"""Names of folders in that of a Ray that is started here: Ray's sessions, and the objects that its store spills."""
_SOCKET = f"/{RAY}xxxxxxxx/{SESSIONS}/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_ROOT = 107 - len(_SOCKET)
"""Bytes of the path to it: a socket's path has at most 107."""


@contextmanager
def connect(settings: ExecutorSettings, store_bytes: int) -> Iterator[str]:
    """A connection to Ray for the length of the block; yields "started" or "joined".

    Joins `settings.address`, or what RAY_ADDRESS names (as inside `ray job submit`), or a Ray that this process is
    connected to already; "auto" is RAY_ADDRESS, or else this user's cluster on this machine. Otherwise starts one whose
    object store holds at least `store_bytes` (the key) if there is memory for that, and whose sockets, logs and spilled
    objects are in a private folder. Raises ClusterError.
    """
    prepare(settings)
    import ray

    if ray.is_initialized():
        yield "joined"
        return
    address = joined_address(settings)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    quiet["job_config"] = _job_config()
    with ExitStack() as stack:
        own: dict[str, Any] = {}
        folder: Path | None = None
        try:
            if address is None:
                folder = stack.enter_context(ray_folder())
                stack.enter_context(guarded(str(folder)))
                own = {
                    "num_cpus": min(settings.threads or usable_threads(), usable_threads()),
                    "num_gpus": settings.gpus,
                    "object_store_memory": _store(store_bytes),
                    "include_dashboard": False,
                    "object_spilling_directory": str(folder / SPILL),
                    "_temp_dir": str(folder / SESSIONS),
                }
            started: list[psutil.Process] = []
            stack.callback(_end, started)
            stack.callback(_disconnect, started)
            late = time.monotonic() + settings.start_timeout
            lean: Callable[[], AbstractContextManager[None]] = lean_ray
            while True:
                try:
                    # Without "local" Ray joins any cluster that runs on this machine, whoever's it is.
                    with lean():
                        ray.init(address=address or "local", **own, **quiet)
                    break
                except Exception as error:
                    left = _processes(folder)
                    _disconnect(left)
                    _end(left)
                    # On a busy machine its own 30 seconds for a node, and 15 for an agent, are too few.
                    if address is not None or _LATE not in str(error) or time.monotonic() > late:
                        raise
                    lean = nullcontext  # if that is what it did not come up for
        except Exception as error:  # Ray raises plain Exception too, as when a node does not come up in time
            if refused_token(error):
                raise refusal(address or "this machine") from None
            what = (
                f"no Ray to join at {address}"
                if address is not None
                else "Ray does not start here (a job without --ray needs none)"
            )
            raise ClusterError(f"{what}: {first_line(error)}") from None
        _hear_no_errors()
        if folder is not None:
            started += _processes(folder)
            stack.callback(lambda: started.extend(_processes(folder)))
        yield "joined" if address is not None else "started"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A new folder with SESSIONS and SPILL, for as long as the block: for the sockets, logs and spilled objects of a
    Ray that is started here. Lies in TMPDIR where that is short enough.

    Ray makes its own folders with mode 0777, in a place that all users share, where any of them can take the place of a
    socket. Here these lie in a folder of mode 0700, which is removed at the end, or by the next driver if this one is
    killed (`kernels.host.scratch`). Raises NotPrivate where others could change or replace it.
    """
    with scratch_folder(RAY, _LONGEST_ROOT) as folder:
        for name in (SESSIONS, SPILL):
            (folder / name).mkdir(mode=0o700)
        yield folder


def joined_address(settings: ExecutorSettings) -> str | None:
    """The address of the cluster that is joined; None where one is started. Raises ClusterError, within seconds, where
    none is there or it refuses our token."""
    address = _address(settings)
    if address is None:
        return None
    address = own_cluster() if address == AUTO else address
    require_ray(address)
    return address


def _processes(folder: Path | None) -> list[psutil.Process]:
    """The processes of the Ray that this process started in that folder, and what they started."""
    named = processes_in(str(folder)) if folder is not None else ()
    found: list[psutil.Process] = []
    for process in psutil.Process().children() if named else ():
        with suppress(psutil.Error):
            if process.pid in named:
                found += [process, *process.children(recursive=True)]
    return found


def _hear_no_errors() -> None:
    """End the subscriptions to errors and logs, which nobody reads. At the end Ray would ask the head for that, and
    wait for ever where it is cut off."""
    from ray._private.worker import global_worker

    with suppress(AttributeError):  # of another version of Ray
        subscribers = global_worker.gcs_error_subscriber, global_worker.gcs_log_subscriber
        over, listener = global_worker.threads_stopped, global_worker.listener_thread
        over.set()  # first: it would ask a subscription that has ended again and again
        for subscriber in subscribers:
            subscriber.close()
        listener.join()
        over.clear()


def _disconnect(started: Sequence[psutil.Process]) -> None:
    """End the connection, for which head and raylet are asked. Where they are cut off, nobody waits long; the processes
    of a Ray that was `started` here are ended then, which ends that, too."""
    import ray

    ending = threading.Thread(target=ray.shutdown, name="distprove-disconnect", daemon=True)
    ending.start()
    ending.join(ANSWERS)
    if ending.is_alive():
        _end(started)
        ending.join(ANSWERS if started else 0.0)
    if ending.is_alive():
        atexit.unregister(ray.shutdown)  # it would wait again


def _end(processes: Sequence[psutil.Process]) -> None:
    """End what Ray leaves: the processes of one that did not come up, and the agents of one that lost its head, which
    look for it for a minute."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            process.wait(PATIENCE)


def cluster_nodes() -> list[Node]:
    """The nodes that are alive, this one's first, then by address. Needs a connection. Raises RayError, or
    GetTimeoutError, where the head does not answer."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    nodes = [
        Node(
            node.node_id.hex(),
            node.node_manager_address,
            float(node.resources_total.get("CPU", 0)),
            int(node.resources_total.get("GPU", 0)),
            int(node.node_manager_port),
        )
        for node in _head().get_all_node_info(timeout=SLOW).values()
        if node.state == node.ALIVE
    ]
    return sorted(nodes, key=lambda node: (node.id != own, node.address, node.id))


def free_resources() -> dict[str, dict[str, float]]:
    """What each node has free, by node id. Raises as `cluster_nodes`."""
    usage = _head().get_all_resource_usage(timeout=SLOW).resource_usage_data.batch
    return {node.node_id.hex(): dict(node.resources_available) for node in usage}


def _head() -> Any:
    """The client of the head whose calls take a timeout. Ray's public ones wait for a lost head without end, and what
    waits keeps the old client, which ends this process a minute later whatever it does by then."""
    from ray._private.worker import global_worker

    return global_worker.gcs_client


def prepare(settings: ExecutorSettings) -> None:
    """Set what Ray reads when it is imported; must come before that, and does nothing after. Raises ClusterError."""
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    # A thread of ours that still asks a Ray which is over must not have Ray start or join another one by itself.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # An error that nobody waits for, of a worker that was told something in its last moments, is no news to the user.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # Ray warns of a long queue of calls through its raylet, and ends the process where that is gone.
    os.environ.setdefault("RAY_actor_excess_queueing_warn_threshold", str(1 << 62))
    # A client of a head that is lost ends the process after a minute in which a call to it waits. We look for ourselves
    # whether the head is there (`cluster.executor.reach`), and may have another one by then.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(1 << 30))
    if _address(settings) is None:
        # Ray's workers, and the provers that they start, would have a thirtieth of a core beside others that want it.
        os.environ.setdefault("RAY_worker_niceness", "0")
    if "ray" in sys.modules:
        return  # imported by our caller, whose choices stand; Ray starts no cluster without a token by itself
    if _address(settings) is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    mode = os.environ.setdefault("RAY_AUTH_MODE", "token")
    if mode != "token" or "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    if _address(settings) is None:
        # Kept for the life of the process: Ray reads it once, and a second Ray of this process uses it again.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    elif not (Path.home() / ".ray" / "auth_token").is_file():
        raise ClusterError(
            "joining a cluster needs its token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH "
            "(or RAY_AUTH_MODE=disabled for a cluster that has no authentication)"
        )


def _job_config() -> Any:
    """Ray's own, without the folder that this process is run in, which workers would import from before all else: what
    lies there may be a run that somebody sent. `actors.ray_actor.Carried` brings the folders that code is found in."""
    from ray.job_config import JobConfig

    class WithoutThisFolder(JobConfig):  # type: ignore[misc, unused-ignore]
        def _runtime_env_has_working_dir(self) -> bool:
            return True  # as where Ray adds neither this folder nor the script's

    script = os.path.dirname(os.path.realpath(sys.argv[0]))
    return WithoutThisFolder(_py_driver_sys_path=[script] if script in sys.path else [])


def _address(settings: ExecutorSettings) -> str | None:
    named = os.environ.get("RAY_ADDRESS")
    return named or AUTO if settings.address == AUTO else settings.address or named


def _store(wanted: int) -> int:
    """Bytes for the object store: what is wanted with some slack, within what memory and /dev/shm have."""
    room = memory_available() * MAX_STORE_SHARE
    shm = Path("/dev/shm")
    if shm.is_dir():
        room = min(room, psutil.disk_usage(str(shm)).free * 0.9)
    return int(max(MIN_STORE, min(1.25 * wanted, room)))


def first_line(error: BaseException) -> str:
    """The first line of an error of Ray's, whose texts may have a hundred."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
