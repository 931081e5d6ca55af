"""The connection to Ray: started for the purpose and stopped after it, or joined and left as it was.

Set before Ray is imported, because it reads them only then: RAY_AUTH_MODE=token (a Ray that is started for the purpose
gets a token of its own, so that no other user of the machine can run code in it), RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
(under `uv run` every worker would build the environment again), and for a Ray of our own
RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, which on any system has its processes listen on the loopback interface alone. This
is the edge: nowhere else is the environment touched.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, TimeoutError
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from actors import patience
from cluster.executor.guard import guarded, processes_in
from cluster.executor.placement import Node
from cluster.executor.reachability import LOOPBACK_ENV, only_on_loopback, require_ray
from distprove.errors import ClusterError
from distprove.host.beside import in_background
from distprove.host.cgroup import memory_available
from distprove.host.machine import usable_threads
from distprove.settings import ExecutorSettings
from kernels.host.scratch import RAY, scratch_folder

AUTO = "auto"
"""The address that stands for the one that RAY_ADDRESS names."""
_LOOPBACK = "127.0.0.1"
_LATE = "timed out during startup"
"""Part of what Ray says of a node that did not come up in Ray's own time."""
_OCCUPIED = "already occupied"
"""Part of what Ray says of a dashboard's port that another process has."""
MIN_STORE = 128 << 20
MAX_STORE_SHARE = 0.3
"""Largest share of free memory for the object store, which lives in shared memory beside the provers."""

SESSIONS, SPILL = "r", "s"
"""Names of folders in that of a Ray that is started here: Ray's sessions, and the objects that its store spills."""
_SOCKET = f"/{RAY}xxxxxxxx/{SESSIONS}/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_ROOT = 107 - len(_SOCKET)
"""Bytes of the path to it: a socket's path has at most 107."""


class Connection:
    """A connection to Ray, made on a thread of its own while its maker does something else.

    The thread lives as long as the connection: the system kills the processes of a Ray that was started here when the
    thread that forked them ends. A process has one Ray at a time. So a connection shares that of another one, and waits
    for it while it starts or, unwanted, ends.
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        """Begin to connect. Raises ClusterError for a cluster whose token is missing."""
        prepare(settings)
        self._settings = settings
        self._begun: Future[str] = Future()
        self._used = False
        self._over = threading.Event()
        self._ended = in_background(self._hold, "distprove-ray")

    def how(self) -> str:
        """Wait for the connection; "started" or "joined". Raises ClusterError."""
        how = self._begun.result()
        self._used = True
        return how

    def close(self) -> None:
        """End it, and wait for that if it was used. Another is left to its thread, which ends it as soon as it stands;
        a guard does, if this process ends before."""
        self._over.set()
        if self._used:
            self._ended.result()

    def stands(self) -> bool:
        """Whether it is there and wanted."""
        return self._begun.done() and self._begun.exception() is None and not self._over.is_set()

    def _hold(self) -> None:
        global _holder
        with _change:
            _change.wait_for(lambda: _holder is None or _holder.stands())
            shared = connected()
            if not shared:
                _holder = self
        try:
            with nullcontext("joined") if shared else connect(self._settings, self._over.is_set) as how:
                with _change:
                    self._begun.set_result(how)
                    _change.notify_all()
                self._over.wait()
        except BaseException as error:
            if self._begun.done():
                raise
            self._begun.set_exception(error)
        finally:
            with _change:
                if _holder is self:
                    _holder = None
                _change.notify_all()


_change = threading.Condition()
"""Held for moments, to read or change `_holder`; told when it changes, or stands."""
_holder: Connection | None = None
"""The one that starts or joined Ray, until its thread has ended that."""


def connected() -> bool:
    """Whether this process is connected to a Ray that jobs may use. A Ray that still starts does not count, nor one
    whose `Connection` was closed."""
    holder = _holder
    if holder is not None:
        return holder.stands()
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@contextmanager
def connect(settings: ExecutorSettings, unwanted: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """A connection to Ray for the length of the block; yields "started" or "joined".

    Joins `settings.address`, or the cluster that RAY_ADDRESS names (as inside `ray job submit`), or a Ray that this
    process is connected to already. Otherwise starts one whose sockets, logs and spilled objects are in a private
    folder; not once it is `unwanted`. Raises ClusterError.
    """
    prepare(settings)
    import ray
    from ray.job_config import JobConfig

    if connected():
        yield "joined"
        return
    if unwanted():
        raise ClusterError("the connection to Ray was closed")
    address = _joined_address(settings)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    # Else workers import from the folder that this process is run in before all else: what lies there may be a run that
    # somebody sent. `actors.ray_actor.Carried` brings the folders that code is found in.
    quiet["job_config"] = JobConfig(_client_job=True)
    with ExitStack() as stack:
        own: dict[str, Any] = {}
        folder: Path | None = None
        try:
            if address is None:
                folder = stack.enter_context(ray_folder())
                stack.enter_context(guarded(str(folder)))
                # Before the guard ends: without the guard, a process that ends here would leave the folder.
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
                own = {
                    "num_cpus": min(settings.threads or usable_threads(), usable_threads()),
                    "num_gpus": settings.gpus,
                    "object_store_memory": _store(),
                    "include_dashboard": False,
                    "dashboard_host": _LOOPBACK,
                    "dashboard_port": stack.enter_context(_occupied_port()),
                    "object_spilling_directory": str(folder / SPILL),
                    "_temp_dir": str(folder / SESSIONS),
                }
            started: list[psutil.Process] = []
            stack.callback(_end, started)
            stack.callback(_disconnect, started)
            late = time.monotonic() + settings.start_timeout
            while True:
                try:
                    # Without "local" Ray joins any cluster that runs on this machine, whoever's it is.
                    with _unlogged():
                        ray.init(address=address or "local", **own, **quiet)
                    break
                except Exception as error:
                    left = _processes(folder)
                    _disconnect(left)
                    _end(left)
                    if _OCCUPIED in str(error) and own.pop("dashboard_port", None) is not None:
                        continue  # this version of Ray needs the process for which the port is
                    # On a busy machine its own 30 seconds for a node, and 15 for an agent, are too few.
                    if address is not None or _LATE not in str(error) or time.monotonic() > late or unwanted():
                        raise
        except Exception as error:  # Ray raises plain Exception too, as when a node does not come up in time
            if address is None:
                raise ClusterError(
                    f"Ray does not start here (a job without --ray needs none): {first_line(error)}"
                ) from None
            raise ClusterError(
                f"no Ray to join at {address}: {first_line(error)}; where one runs, it may refuse our token: set "
                "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's"
            ) from None
        if folder is not None:
            started += _processes(folder)
            stack.callback(lambda: started.extend(_processes(folder)))
        yield "joined" if address is not None else "started"


@contextmanager
def _occupied_port() -> Iterator[int]:
    """Hold a port within the block, so that no other process gets it.

    Without a dashboard Ray still starts its dashboard's process, for usage statistics alone, and `ray.init` waits until
    that has imported itself: more than a second of CPU. Ray does without where the process cannot have its port.
    """
    with socket.socket() as taken:
        taken.bind((_LOOPBACK, 0))
        yield taken.getsockname()[1]


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep Ray from logging errors within the block. It would log the held port. Real errors are raised."""
    log = logging.getLogger("ray")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


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


def is_joined(settings: ExecutorSettings) -> bool:
    """Whether the settings, or RAY_ADDRESS, name a cluster."""
    return _address(settings) is not None


def _joined_address(settings: ExecutorSettings) -> str | None:
    """The address of the cluster that is joined; None where one is started. Raises ClusterError, within seconds, where
    none is there."""
    address = _address(settings)
    if address == AUTO:
        raise ClusterError("no cluster is named: --address auto stands for RAY_ADDRESS, which is not set")
    if address is not None:
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


def _disconnect(started: Sequence[psutil.Process]) -> None:
    """End the connection, for which head and raylet are asked. Where they are cut off, nobody waits long; the processes
    of a Ray that was `started` here are ended then, which ends that, too."""
    import ray

    ending = threading.Thread(target=ray.shutdown, name="distprove-disconnect", daemon=True)
    ending.start()
    ending.join(patience.RAY_ENDS)
    if ending.is_alive():
        _end(started)
        ending.join(patience.RAY_ENDS if started else 0.0)
    if ending.is_alive():
        atexit.unregister(ray.shutdown)  # it would wait again


def _end(processes: Sequence[psutil.Process]) -> None:
    """End what Ray leaves: the processes of one that did not come up, and the agents of one that lost its head, which
    look for it for a minute."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            process.wait(patience.RAY_ENDS)


def cluster_nodes() -> list[Node]:
    """The nodes that are alive, this one's first, then by address. Needs a connection. Raises ClusterError where the
    head does not answer."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    try:  # beside: it waits for a lost head without end
        found = in_background(ray.nodes, "distprove-ray-nodes").result(patience.RAY_ANSWERS)
    except TimeoutError:
        raise ClusterError("the head of Ray does not answer") from None
    nodes = [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            float(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("GPU", 0)),
            int(node["NodeManagerPort"]),
        )
        for node in found
        if node["Alive"]
    ]
    return sorted(nodes, key=lambda node: (node.id != own, node.address, node.id))


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
    # whether the head is there (`cluster.executor.reachability`), and may have another one by then.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(1 << 30))
    # A call to an actor that died fails at once. Ray would wait a second or two for the reason of the death, which it
    # never learns of an actor that is started again.
    os.environ.setdefault("RAY_timeout_ms_task_wait_for_death_info", "0")
    if not is_joined(settings):
        # Ray's workers, and the provers that they start, would have a thirtieth of a core beside others that want it.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Ray would start as many Python workers as there are CPUs, and have the driver wait for them. Jobs use few.
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    if "ray" in sys.modules:
        return  # imported by our caller, whose choices stand; Ray starts no cluster without a token by itself
    address = _address(settings)
    if address is None or only_on_loopback(address):
        os.environ[LOOPBACK_ENV] = "0"
    mode = os.environ.setdefault("RAY_AUTH_MODE", "token")
    if mode != "token" or "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    if not is_joined(settings):
        # Kept for the life of the process: Ray reads it once, and a second Ray of this process uses it again.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    elif not (Path.home() / ".ray" / "auth_token").is_file():
        raise ClusterError(
            "joining a cluster needs its token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH "
            "(or RAY_AUTH_MODE=disabled for a cluster that has no authentication)"
        )


def _address(settings: ExecutorSettings) -> str | None:
    named = os.environ.get("RAY_ADDRESS")
    return named or AUTO if settings.address == AUTO else settings.address or named


def _store() -> int:
    """Bytes for the object store, within what memory and /dev/shm have. It takes memory only as it fills."""
    room = memory_available() * MAX_STORE_SHARE
    shm = Path("/dev/shm")
    if shm.is_dir():
        room = min(room, psutil.disk_usage(str(shm)).free * 0.9)
    return int(max(MIN_STORE, room))


def first_line(error: BaseException) -> str:
    """The first line of an error of Ray's, whose texts may have a hundred."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
