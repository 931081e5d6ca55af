"""A worker in a process of its own on this machine, without Ray: what runs in that process.

The executor starts `main` at the other end of a connection and asks for what `ProverWorker` and `SynthesiserWorker` do.
Leases are asked for in the other direction. A witness does not travel: the process that made it keeps it, the prover's
maps it, and the executor holds a `SentWitness` and says when it may go.

The process ends when the connection does, whatever it is at: an executor that dies leaves nobody behind.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import Any

from actors.backends import BackendChoice, leases_from
from actors.channel import Channel
from actors.prover import SWITCH_INTERVAL, ProverWorker, process_facts
from actors.synthesiser import SynthesiserWorker
from distprove.inflight import Timed
from distprove.memory import give_back_large_blocks
from distprove.phases import Phase
from distprove.system import Partition, PartitionProof, ProofSystem, Synthesised
from kernels.host_arena import HostArena
from kernels.shared_arrays import Receiver, Sent, share


class WitnessGone(Exception):
    """The process that made the witness has ended."""


@dataclass(frozen=True)
class SentWitness:
    """A witness of another process, and the number under which that keeps it. Secret."""

    name: str
    seconds: float
    nbytes: int
    number: int
    arrays: dict[str, Sent] = field(repr=False)


@dataclass(frozen=True)
class ProverSpec:
    """A prover to be."""

    system: ProofSystem
    choice: BackendChoice

    def serve(self, channel: Channel, throttle: Path | None) -> _Prover:
        return _Prover(self, channel, throttle)


@dataclass(frozen=True)
class SynthesiserSpec:
    """A synthesiser to be."""

    system: ProofSystem
    threads: int

    def serve(self, channel: Channel, throttle: Path | None) -> _Synthesiser:
        return _Synthesiser(self, channel, throttle)


@dataclass(frozen=True)
class VerifierSpec:
    """A verifier to be."""

    system: ProofSystem

    def serve(self, channel: Channel, throttle: Path | None) -> _Verifier:
        return _Verifier(self.system)


Spec = ProverSpec | SynthesiserSpec | VerifierSpec


def pickled(spec: Spec) -> bytes:
    """For `main`. What a script defines for itself goes by value: the script is not run again over there."""
    data = io.BytesIO()
    try:
        _ByName(data, pickle.HIGHEST_PROTOCOL).dump(spec)
    except (pickle.PicklingError, AttributeError, TypeError):
        from ray import cloudpickle  # Ray takes a second to import

        return bytes(cloudpickle.dumps(spec))
    return data.getvalue()


class _ByName(pickle.Pickler):
    """Refuses what can be found by its name in this process only."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            raise pickle.PicklingError
        return NotImplemented


def main(connection: int) -> None:
    """Serve the executor at the other end of this descriptor, until it ends the connection."""
    with suppress(OSError):  # where there is no such file
        os.dup2(2, 1)  # the executor's output is its own
    sys.setswitchinterval(SWITCH_INTERVAL)
    give_back_large_blocks()
    _Server(connection)
    threading.Event().wait()


class _Server:
    """The worker, once it is known what it is."""

    def __init__(self, connection: int) -> None:
        self._worker: _Prover | _Synthesiser | _Verifier | None = None
        self._made = threading.Event()
        self._channel = Channel(
            Connection(connection), {"load": self._load, "ask": self._ask, "drop": self._drop}, lambda: os._exit(1)
        )
        self._made.set()

    def _load(self, spec: bytes, throttle: Path | None) -> Any:
        self._made.wait()
        if self._worker is None:
            self._worker = pickle.loads(spec).serve(self._channel, throttle)
        return self._worker.load()

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Of the worker's methods `name`."""
        return getattr(self._worker, name)(*arguments)

    def _drop(self, number: int) -> None:
        assert isinstance(self._worker, _Synthesiser)
        self._worker.drop(number)


class _Prover:
    """`ProverWorker`, for witnesses that are elsewhere."""

    def __init__(self, spec: ProverSpec, channel: Channel, throttle: Path | None) -> None:
        self._system = spec.system
        asking = _Asking(channel)
        arena = HostArena(lane=asking.lane)
        self._worker = ProverWorker(spec.system, spec.choice, leases_from(asking, spec.choice), arena)
        self._worker.yield_to(throttle)
        self._receiver = Receiver()

    def load(self) -> Timed:
        return self._worker.load(self._system.shared())

    def commit(self, partition: Partition, work: SentWitness) -> Timed:
        return self._worker.commit(partition, self._here(work))

    def prove(self, partition: Partition, work: SentWitness, challenge: bytes | None) -> Timed:
        return self._worker.prove(partition, self._here(work), challenge)

    def check(self) -> Timed:
        return self._worker.check()

    def diagnose(self, partition: Partition, work: SentWitness) -> Timed:
        return self._worker.diagnose(partition, self._here(work))

    def close(self) -> None:
        self._worker.close()

    def _here(self, work: SentWitness) -> Synthesised:
        try:
            arrays = {name: self._receiver.array(sent) for name, sent in work.arrays.items()}
        except OSError:
            raise WitnessGone from None
        return Synthesised(work.name, arrays, work.seconds)


class _Synthesiser:
    """`SynthesiserWorker`, which keeps what it made until it is told to drop it."""

    def __init__(self, spec: SynthesiserSpec, channel: Channel, throttle: Path | None) -> None:
        self._system = spec.system
        self._arena = HostArena(lane=_Asking(channel).lane, shared=True)
        self._worker = SynthesiserWorker(spec.system, spec.threads, self._arena)
        self._worker.yield_to(throttle)
        self._kept = Kept(self._arena)

    def load(self) -> dict[str, Any]:
        return self._worker.load(self._system.shared())

    def synthesise(self, partition: Partition) -> SentWitness:
        return self._kept.send(self._worker.synthesise(partition))

    def drop(self, number: int) -> None:
        self._kept.drop(number)


class _Verifier:
    """Verifies proofs; nothing of them is secret."""

    def __init__(self, system: ProofSystem) -> None:
        self._system = system

    def load(self) -> dict[str, Any]:
        self._system.key_digest()  # what a verifier compiles, it has then compiled
        return process_facts()

    def verify(self, proof: PartitionProof) -> bool:
        return self._system.verify(proof)


class Kept:
    """Witnesses in shared memory, while others may read them."""

    def __init__(self, arena: HostArena) -> None:
        self._arena = arena
        self._arrays: dict[int, list[Any]] = {}
        self._count = 0

    def send(self, work: Synthesised) -> SentWitness:
        """What to send for a witness, which is kept. Raises OutOfMemory."""
        shared = {name: share(array, self._arena) for name, array in work.arrays.items()}
        self._count += 1
        self._arrays[self._count] = [array for _, array in shared.values()]
        sent = {name: sent for name, (sent, _) in shared.items()}
        return SentWitness(work.name, work.seconds, work.nbytes, self._count, sent)

    def drop(self, number: int) -> None:
        """Nobody reads it any more. A number that is not known is ignored."""
        self._arrays.pop(number, None)


@dataclass
class _Granted:
    threads: int


class _Asking:
    """The governor, as the executor gives its leases."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @contextmanager
    def lease(self, *, phase: Phase, threads: int, least: int) -> Iterator[_Granted]:
        with self._held(phase, threads, least, False) as granted:
            yield _Granted(granted)

    def lane(self) -> Any:
        return self._held(Phase.SYNTHESIS, 0, 0, True)

    @contextmanager
    def _held(self, phase: Phase, threads: int, least: int, lane: bool) -> Iterator[int]:
        ticket, granted = self._channel.call("acquire", phase.value, threads, least, lane)
        try:
            yield granted
        finally:
            self._channel.tell("release", ticket)
