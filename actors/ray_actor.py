"""The workers of a device as a Ray actor, which pins one GPU or none: a process beside the actor's, with the governor
of its node.

What passes through Ray is small: orders there, batches of proofs back. The worker is the same process as without Ray.
In the actor's own process it would share the interpreter with Ray's threads, which cost a prover of 4 ms a fifth of its
rate.

This module imports next to nothing beside Ray. An actor's first act is to begin the process that forks its worker,
which then imports NumPy and the rest at the same time as the actor.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import cloudpickle

from actors.standby import STANDBY

if TYPE_CHECKING:
    from actors.driver_liveness import DriverAddress
    from actors.messages import HostSpec, MappedFile, VerifierSpec
    from actors.processes import HostProcess, Started
    from distprove.host.provenance import Identity
    from kernels.host.arena import HostArena
    from kernels.host.shared_arrays import Sent


class Carried:
    """A value on its way to an actor, where it arrives as itself. It may be of a class that lies in the folder that the
    driver is run in: the actor then imports from there too, after all that is installed."""

    def __init__(self, value: object) -> None:
        here = os.getcwd()
        self._folders = [here] if here in map(os.path.abspath, sys.path) else []
        self._data = cloudpickle.dumps(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self._folders, self._data)


def _unpacked(folders: list[str], data: bytes) -> Any:
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    return cloudpickle.loads(data)


class RemoteWorker:
    """The key slots of a device, or a verifier, once it is told which. `ask` forwards verbs, several at once."""

    def __init__(self, name: str, *, has_fork_server: bool, ahead: tuple[str, int, str] | None = None) -> None:
        """Start the process of that name at once: it imports what it needs, and opens its device, while it is told the
        rest. A worker has a fork server for its synthesisers. `ahead`: the fields of an `actors.backends.Ahead`, the
        device, which is not opened if it was given up on this node."""
        STANDBY.begin()
        from actors.backends import Ahead, refused
        from actors.processes import start_process

        device = None if ahead is None else Ahead(*ahead)
        self._refusal, self._trouble = ("", "") if device is None else refused(device)
        device = None if self._refusal else device
        self._started: Started | None = start_process(name, has_fork_server=has_fork_server, ahead=device, again=True)
        self._process: HostProcess | None = None
        self._watches = False
        """Whether it is looked whether the driver can be reached."""
        self._arena: HostArena | None = None
        self._lock = threading.Lock()
        self._copies: dict[int, list[Any]] = {}
        """What processes map of a slot's files, for as long as it is open."""
        self._given: dict[int, dict[str, Sent | MappedFile]] = {}
        """A slot's files as its processes get them."""

    def identity(self) -> tuple[Identity, str]:
        """The version of distprove on this node, and the node's name."""
        from distprove.host.provenance import identity

        return identity(), platform.node()

    def serve(self, spec: HostSpec | VerifierSpec, address: DriverAddress | None = None) -> str:
        """Start the process that serves this, unless it lives. Returns why it is not known which devices were given up
        here, or "". `address`: where the driver is; when it cannot be reached any more, this actor ends. Raises
        ClusterError for a device that was given up."""
        from actors.driver_liveness import end_without
        from actors.leases import Governed
        from actors.processes import HostProcess
        from distprove.errors import ClusterError

        if self._refusal:
            raise ClusterError(self._refusal)
        with self._lock:
            if address is not None and not self._watches:
                self._watches = True
                end_without(address, self.kill)
            started, self._started = self._started, None
            if self._process is None:
                governed = Governed(serves="" if address is None else address.name)
                if address is not None:  # beside: a head that is lost meanwhile does not answer
                    threading.Thread(target=governed.find, name="distprove-governor", daemon=True).start()
                self._process = HostProcess(spec.name, _placed(spec), governed, started=started)
        self._process.start()
        return self._trouble

    def open(self, slot: int, spec: bytes, shared: dict[str, ray.ObjectRef], files: dict[str, MappedFile]) -> None:
        """Open a key slot. `spec` is a pickled `WorkerSpec`, which is the process's to read: the actor would import the
        proof system too. `shared` are the system's files in the object store, and `files` those of them that the driver
        has on a disk: where it is the same file here, the worker maps that, and nothing is fetched."""
        from actors.messages import MappedFile, mapped_file
        from actors.processes import expect
        from actors.rooms import Rooms

        assert self._process is not None, "serve first"
        with self._lock:
            here = {name: file for name, file in files.items() if file == mapped_file(Path(file.path))}
            # Once there is a copy it stays: what served before may serve on, and a file may be replaced meanwhile.
            copies = {
                name: kept for name, kept in self._given.get(slot, {}).items() if not isinstance(kept, MappedFile)
            }
            missing = {name: ref for name, ref in shared.items() if name not in {**here, **copies}}
            given = self._given[slot] = {**here, **copies, **(self._copied(slot, missing) if missing else {})}
        expect(spec)
        self._process.call(Rooms.open_sent, slot, spec, sys.path, given)

    def _copied(self, slot: int, shared: dict[str, ray.ObjectRef]) -> dict[str, Sent]:
        """Copies of files in shared memory, as processes get them. NumPy, which takes half as long to import as all
        that this actor imports of ours, is imported here and not before."""
        from kernels.host.arena import HostArena
        from kernels.host.shared_arrays import share

        self._arena = self._arena or HostArena(shared=True)
        arrays = zip(shared, ray.get(list(shared.values())), strict=True)
        sent = {name: share(array, self._arena) for name, array in arrays}
        self._copies[slot] = [*self._copies.get(slot, ()), *(kept for _, kept in sent.values())]
        return {name: array for name, (array, _) in sent.items()}

    def shut(self, slot: int) -> None:
        """Shut a key slot."""
        from actors.rooms import Rooms

        try:
            if self._process is not None:
                self._process.call(Rooms.shut, slot)
        finally:
            with self._lock:
                self._given.pop(slot, None)
                self._copies.pop(slot, None)

    def ask(self, call: bytes) -> bytes:
        """Call a verb, pickled with its slot and arguments (`HostProcess.forward`); the pickled answer."""
        assert self._process is not None, "serve first"
        return self._process.forward(call)

    @ray.method(concurrency_group="ending")  # type: ignore[untyped-decorator, unused-ignore]
    def kill(self) -> None:
        """End the worker's process and those that it started, whatever they are at; what is asked of it raises
        WorkerDied."""
        if self._process is not None:
            self._process.kill()

    @ray.method(concurrency_group="ending")  # type: ignore[untyped-decorator, unused-ignore]
    def leave(self) -> None:
        """End this process, with all that it started. Ray, without a head, does not start it anew."""
        self.kill()
        os._exit(0)


def _placed(spec: HostSpec | VerifierSpec) -> HostSpec | VerifierSpec:
    """The spec of workers, with the Ray node of all of them, and the prover's GPU."""
    from actors.messages import HostSpec

    if not isinstance(spec, HostSpec):
        return spec
    context = ray.get_runtime_context()
    gpus = tuple(map(str, context.get_accelerator_ids().get("GPU", [])))
    return replace(spec, facts={"node": context.get_node_id()}, gpus=gpus)
