"""Messages between a worker's process and those it starts: specs of what to serve, and witnesses that stay where they
were made.

The processes are started and asked in `actors.processes`, and serve in `actors.server`.

A witness does not travel: the process that made it keeps it (`Kept`), the worker's process maps it and says when it may
go.
"""

from __future__ import annotations

import io
import pickle
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.backends import BackendChoice
from distprove.errors import InputError
from distprove.formats.sampled import sample, sample_at
from distprove.system import ProofSystem, Witness
from kernels.host.units import count_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernels.host.arena import HostArena
    from kernels.host.shared_arrays import Sent


class SentWitness(NamedTuple):
    """A witness of another process, and the number under which that keeps it. Secret."""

    name: str
    seconds: float
    nbytes: int
    number: int
    arrays: dict[str, Sent]

    def __repr__(self) -> str:
        return f"<SentWitness: {self.name}, {count_of(self.nbytes, 'byte')}>"


@dataclass(frozen=True)
class MappedFile:
    """A file that a process may map for itself, if it is the one that is meant."""

    path: str
    nbytes: int
    changed: int
    """Time of its last change, in nanoseconds."""
    sample: bytes
    """Its `distprove.formats.sampled.sample`."""

    def content(self) -> NDArray[np.uint8]:
        """Map the file read-only. Raises InputError for another one."""
        import numpy as np  # an actor does without

        try:
            found = np.asarray(np.memmap(self.path, np.uint8, "r"))
        except (OSError, ValueError) as error:  # it is gone, or empty
            raise InputError(f"{self.path} on {platform.node()}: cannot be mapped: {error}") from None
        if sample(found.data) != self.sample:
            raise InputError(f"{self.path} on {platform.node()}: another file than the driver's")
        return found


def mapped_file(path: Path) -> MappedFile | None:
    """The file at `path`; None where there is none that can be read."""
    try:
        status = path.stat()
        return MappedFile(str(path), status.st_size, status.st_mtime_ns, sample_at(path, status.st_size))
    except OSError:
        return None


def files_of(shared: Mapping[str, Any]) -> dict[str, MappedFile]:
    """The maps of whole files among a system's shared arrays, as far as this machine tells. One in whose place there is
    another file by now is left out."""
    begins: dict[int, str] = {}
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and int(fields[2], 16) == 0:
                begins[int(fields[0].partition("-")[0], 16)] = fields[5]
    paths = {name: begins.get(array.ctypes.data) for name, array in shared.items()}
    found = {name: mapped_file(Path(path)) for name, path in paths.items() if path is not None}
    return {name: file for name, file in found.items() if file is not None and file.sample == sample(shared[name].data)}


@dataclass(frozen=True)
class HostSpec:
    """A process to be that serves the key slots of one device: a worker in each (`actors.rooms`)."""

    name: str
    """Name of its workers."""
    choice: BackendChoice
    """Its device; the synthesisers beside it are each slot's own."""
    in_flight: int
    """Partitions that may be with the prover at once, of all slots."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts of its place, such as the node, that loading reports of workers and synthesisers."""
    gpus: tuple[str, ...] | None = None
    """GPUs of the prover as the node numbers them; None: as the device is numbered."""


@dataclass(frozen=True)
class WorkerSpec:
    """A worker to be, in a key slot of its own, with its synthesisers."""

    name: str
    system: ProofSystem
    synthesisers: tuple[str, ...]
    threads: int
    """CPU threads of each synthesiser."""
    shared: dict[str, Sent | MappedFile] | None = None
    """The system's files, or where they are; None: the process reads them as the driver did."""


@dataclass(frozen=True)
class SynthesiserSpec:
    """A synthesiser to be."""

    system: ProofSystem
    threads: int
    shared: dict[str, Sent | MappedFile] | None = None
    """The system's files, or where they are; None: the process reads them as the driver did."""


@dataclass(frozen=True)
class VerifierSpec:
    """A verifier to be."""

    name: str
    system: ProofSystem


class OtherSpec(Protocol):
    """A process to be that has no device, and asks for no lease: it makes itself what serves."""

    def served(self) -> Any:
        """The object whose methods are called. Raises what keeps it from serving."""


Spec = HostSpec | SynthesiserSpec | VerifierSpec | OtherSpec


def pickled(spec: Spec | WorkerSpec) -> bytes:
    """Pickle a spec for another process. What a script defines for itself goes by value: the script is not run again
    over there."""
    data = io.BytesIO()
    try:
        _ByName(data, pickle.HIGHEST_PROTOCOL).dump(spec)
    except (pickle.PicklingError, AttributeError, TypeError):
        from ray import cloudpickle  # Ray takes a second to import

        return bytes(cloudpickle.dumps(spec))
    return data.getvalue()


class _ByName(pickle.Pickler):
    """A pickler that refuses what can be found by its name in this process only."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            raise pickle.PicklingError
        return NotImplemented


class Kept:
    """Witnesses in shared memory, while others may read them."""

    def __init__(self, arena: HostArena) -> None:
        self._arena = arena
        self._arrays: dict[int, list[Any]] = {}
        self._count = 0

    def send(self, witness: Witness) -> SentWitness:
        """Keep a witness, and return what stands for it in messages. Raises OutOfMemory."""
        from kernels.host.shared_arrays import share

        shared = {name: share(array, self._arena) for name, array in witness.arrays.items()}
        self._count += 1
        self._arrays[self._count] = [array for _, array in shared.values()]
        sent = {name: sent for name, (sent, _) in shared.items()}
        return SentWitness(witness.name, witness.seconds, witness.nbytes, self._count, sent)

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget witnesses, which nobody reads any more. A number that is not known is ignored."""
        for number in numbers:
            self._arrays.pop(number, None)
