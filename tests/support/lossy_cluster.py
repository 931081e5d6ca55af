"""A Ray of several nodes on this machine, each of which can be killed, started again, or cut off from the others.

Where this user may make them, each node has a network namespace of its own, with one link to the head's:

    head (10.200.0.1) -- veth -- node 1 (10.200.1.2)
                      -- veth -- node 2 (10.200.2.2)

Elsewhere all nodes share one address, and none can be cut off. Processes, namespaces and folders are removed by
`close`, and by a process of their own where the one that made them is killed.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from distprove.measure.campaign import python_path
from distprove.measure.campaign.processes import after_death, end_with_parent, marked
from tests.support.lean_ray import lean_ray
from tests.support.ray_nodes import free_port

NODE = "DISTPROVE_CAMPAIGN_NODE"
"""Variable in the environment of every process of a node: the folder of its cluster, and its number."""
TRIES = 10
"""Times that a node is started: Ray gives it 30 s, which a machine that does much else overruns."""
CLONE_NEWNET = 0x40000000


class LossyCluster:
    """A Ray of several nodes that a test kills, restarts or cuts off. Node 0 is the head."""

    def __init__(self, *, apart: bool) -> None:
        """`apart`: each node has a namespace of its own."""
        self.folder = Path(tempfile.mkdtemp(prefix="dpc-", dir="/tmp"))
        self.temporary = self.folder / "tmp"
        """TMPDIR of all nodes."""
        self.temporary.mkdir()
        self.apart = apart
        self._names = [f"dp{os.getpid()}n{number}" for number in range(3)] if apart else []
        self._port = 6379 if apart else free_port()
        self._begun = 0
        """The process that started a node last."""
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            "RAY_ENABLE_AUTO_CONNECT": "0",
            # As docs/cluster.md has it: beside other work, workers of niceness 15 are never ready in time.
            "RAY_worker_niceness": "0",
            # Workers that nobody has asked for: each takes seconds of CPU.
            "RAY_enable_worker_prestart": "0",
            "RAY_prestart_worker_first_driver": "0",
            "PYTHONPATH": python_path(),
            "TMPDIR": str(self.temporary),
        }
        after_death(self._remove)
        if apart:
            self._link_all()

    @property
    def address(self) -> str:
        return f"{self.address_of(0)}:{self._port}"

    def address_of(self, number: int) -> str:
        """The address of a node."""
        return "127.0.0.1" if not self.apart else f"10.200.{number}.{2 if number else 1}"

    def enter(self, number: int) -> None:
        """Bring this process into the network namespace of a node."""
        if self.apart:
            with open(f"/run/netns/{self._names[number]}") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")

    # -- what befalls it --------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """End all processes of a node at once, as when its power is cut."""
        for process in self.processes(number):
            with suppress(psutil.Error):
                process.kill()

    def kill_one(self, number: int, name: str) -> None:
        """End the raylet of a node, or the `gcs_server` of the head, alone."""
        for process in self.processes(number):
            with suppress(psutil.Error):
                if process.name() == name:
                    process.kill()

    def cut(self, number: int) -> None:
        """Set the link of a node down at its own end: what the others send it is lost, without a word."""
        self._ip("-n", self._names[number], "link", "set", "v", "down")

    def join(self, number: int) -> None:
        """Set the link up again."""
        self._ip("-n", self._names[number], "link", "set", "v", "up")
        self._ip("-n", self._names[number], "route", "replace", "default", "via", f"10.200.{number}.1")

    # -- what there is ----------------------------------------------------------------------------------------------

    def processes(self, number: int) -> list[psutil.Process]:
        """The processes of a node, with those of jobs on it."""
        return marked(NODE, f"{self.folder}:{number}")

    def lives(self, number: int) -> bool:
        """Whether a node's Ray lives."""
        names = set()
        for process in self.processes(number):
            with suppress(psutil.Error):
                names.add(process.name())
        return {"raylet", *(() if number else ("gcs_server",))} <= names

    def left(self, *, idle: bool = True) -> list[psutil.Process]:
        """The processes of jobs on all nodes: workers, their synthesisers, actors, governors, and, if `idle`, processes
        in which actors may begin."""
        found = []
        for number in range(3):
            for process in self.processes(number):
                with suppress(psutil.Error, IndexError):
                    words = process.cmdline()
                    of_ray = ("ray::RemoteWorker", "ray::NodeGovernor", *(("ray::IDLE",) if idle else ()))
                    own = ("default_worker.py",) if idle else ()
                    begun = any(word.startswith("distprove-") or word.endswith(own) for word in words)
                    if words[0].startswith(of_ray) or begun:
                        found.append(process)
        return found

    # -- from start to end ------------------------------------------------------------------------------------------

    def mend(self, nodes: int) -> None:
        """Have a Ray of so many nodes live: a head that lost something is replaced, with all nodes."""
        if not self.lives(0):
            for number in range(3):
                self.kill(number)
        for number in range(3):
            if number < nodes and not self.lives(number):
                self.kill(number)
                self._start(number)
            elif number >= nodes:
                self.kill(number)

    def begin(self, number: int) -> int:
        """Begin to start a node; the process that does so. It is forked from this one, which should have imported Ray:
        that takes seconds."""
        pid = os.fork()
        if pid:
            self._begun = pid
            return pid
        code = 1
        try:
            end_with_parent()
            output = os.open(self.folder / "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            self.enter(number)
            os.environ |= {**self.environment, NODE: f"{self.folder}:{number}"}
            self._be_node(number)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _be_node(self, number: int) -> None:
        """Start the processes of a node, as `ray.cluster_utils.Cluster` does, and no more of them than it takes."""
        from ray._private.node import Node
        from ray._private.parameter import RayParams

        given: dict[str, Any] = {"gcs_server_port": self._port, "temp_dir": str(self.folder / "ray")}
        if number:
            given = {"gcs_address": self.address, "redis_address": self.address, "node_manager_port": 0}
        params = RayParams(
            **given,
            node_ip_address=self.address_of(number),
            num_cpus=2,
            num_gpus=0,
            object_store_memory=100 << 20,
            include_dashboard=False,
        )
        with lean_ray():
            Node(params, head=not number, shutdown_at_exit=False, spawn_reaper=False)

    def _start(self, number: int) -> None:
        for _ in range(TRIES):
            started = os.waitpid(self.begin(number), 0)[1] == 0
            self._begun = 0
            if started and self.lives(number):
                return
            self.kill(number)
            time.sleep(1.0)
        raise AssertionError(f"node {number} did not start: {(self.folder / 'output').read_text()[-3000:]}")

    def close(self) -> None:
        """End and remove everything. What a driver that still lives writes here is removed after this process's end."""
        self._remove()

    def _remove(self) -> None:
        with suppress(ProcessLookupError):
            if self._begun:
                os.kill(self._begun, signal.SIGKILL)
        while any(self.processes(number) for number in range(3)):
            for number in range(3):
                self.kill(number)
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        late = time.monotonic() + 5.0
        while self.folder.exists() and time.monotonic() < late:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _link_all(self) -> None:
        head, *others = self._names
        for name in self._names:
            self._ip("netns", "add", name)
            self._ip("-n", name, "link", "set", "lo", "up")
        self._ip("-n", head, "addr", "add", f"{self.address_of(0)}/32", "dev", "lo")
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        subprocess.run(["ip", "netns", "exec", head, "sh", "-c", forward], check=True)
        for number, name in enumerate(others, 1):
            self._ip("-n", head, "link", "add", f"v{number}", "type", "veth", "peer", "name", "v", "netns", name)
            self._ip("-n", head, "addr", "add", f"10.200.{number}.1/24", "dev", f"v{number}")
            self._ip("-n", name, "addr", "add", f"{self.address_of(number)}/24", "dev", "v")
            self._ip("-n", head, "link", "set", f"v{number}", "up")
            self.join(number)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)
