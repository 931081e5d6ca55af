"""A worker as a Ray actor, which pins one GPU or none: `actors.worker` with the governor of its node.

What passes through Ray is small: orders there, batches of proofs back. A witness stays with the synthesiser that made
it, a process beside the actor's.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle

from actors.leases import Governed
from actors.process import MappedFile, WorkerSpec
from actors.prover import SWITCH_INTERVAL, Shared
from actors.server import worker_of
from actors.worker import Loaded
from distprove.inflight import Timed
from distprove.memory import give_back_large_blocks
from kernels.host_arena import HostArena
from kernels.shared_arrays import Sent, share


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
    """One worker, once it is told which. `ask` calls a method of it by name; several may be called at once."""

    def serve(self, spec: WorkerSpec, shared: dict[str, ray.ObjectRef], files: dict[str, MappedFile]) -> None:
        """Be this worker. `shared` are the system's files in the object store, and `files` those of them that the
        driver has on a disk: where it is the same file here, synthesisers map that."""
        sys.setswitchinterval(SWITCH_INTERVAL)
        give_back_large_blocks()
        self._shared = shared
        self._given = HostArena(shared=True)
        self._copies: list[Any] = []
        governor = Governed()
        given = {name: self._give(array, files.get(name)) for name, array in self._views().items()}
        self._worker = worker_of(spec, self._views, governor, governor.throttle(), given)

    def ask(self, name: str, *arguments: Any) -> Any:
        answer = getattr(self._worker, name)(*arguments)
        return _placed(answer) if isinstance(answer, Loaded) else answer

    def _views(self) -> Shared:
        """Read-only views of the node's copies, which all its actors share."""
        return dict(zip(self._shared, ray.get(list(self._shared.values())), strict=True))

    def _give(self, array: Any, file: MappedFile | None) -> Sent | MappedFile:
        """What synthesisers get of a file: its name, where it is the same here, or else a copy in shared memory."""
        if file is not None and file == mapped_file(Path(file.path)):
            return file
        sent, kept = share(array, self._given)
        self._copies.append(kept)  # they map it for as long as this actor lives
        return sent


def mapped_file(path: Path) -> MappedFile | None:
    """The file at `path`; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return MappedFile(str(path), status.st_size, status.st_mtime_ns)


def files_of(shared: Shared) -> dict[str, MappedFile]:
    """Those of a system's files that are maps of whole files, as far as this machine tells."""
    begins: dict[int, str] = {}
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and int(fields[2], 16) == 0:
                begins[int(fields[0].partition("-")[0], 16)] = fields[5]
    paths = {name: begins.get(array.ctypes.data) for name, array in shared.items()}
    found = {name: mapped_file(Path(path)) for name, path in paths.items() if path is not None}
    return {name: file for name, file in found.items() if file is not None and file.nbytes == shared[name].nbytes}


def _placed(loaded: Loaded) -> Loaded:
    """With the node that all are on, and the GPU."""
    context = ray.get_runtime_context()
    node = {"node": context.get_node_id()}
    gpus = {"gpus": context.get_accelerator_ids().get("GPU", [])}

    def told(timed: Timed, **facts: Any) -> Timed:
        return replace(timed, value={**timed.value, **facts})

    makers = {name: told(timed, **node) for name, timed in loaded.synthesisers.items()}
    return Loaded(told(loaded.prover, **node, **gpus), makers)
