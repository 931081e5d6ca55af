"""Proves the partitions of a job with a wrap: after the nodes the Groth16 proof of what the second root proves."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.wrap.verifier import stated_values, verifier_inputs
from distprove.errors import InvalidKey, UnsatisfiedWitness
from distprove.groth16.binfile import Bytes, map_file
from distprove.groth16.prover import prove
from distprove.groth16.shared_key import SharedKey, held, holding
from distprove.groth16.verifier import verify
from distprove.host.beside import in_background
from distprove.host.machine import usable_threads
from distprove.proof import SALT_BYTES
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.verifier import verify as verify_proof
from distprove.stark.recursion.node import NODE
from distprove.stark.recursion.plan import WRAP, Kind
from distprove.stark.recursion.system import OneProofProver, OneProofSystem
from distprove.stark.recursion.tree_keys import node_key
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.kept import development_key, kept_key, resident_tape, wrap_shape
from distprove.stark.wrap.partition import GROTH16, proven
from distprove.steps import Steps
from distprove.system import Partition, PartitionId, PartitionProof, StepTimes, Witness
from kernels.cpu.backend import CpuBackend
from kernels.errors import OutOfMemory
from kernels.host.units import count_of
from kernels.interface.backend import Backend

Words = NDArray[np.uint64]
MOST_BEGUN = 2
"""Witnesses that a prover keeps for wraps, each 0.2 GB. A wrap may go to another prover, and its witness stays then."""


class WrappedProver(OneProofProver):
    """Proves partitions, nodes and the wrap on one backend.

    The Groth16 key stays on the backend, and the tape in host memory, for later jobs. All provers of a process share
    them. On a device they are opened when the prover is made: the host reads them beside the first partitions, and the
    device loads a piece of the key whenever it is idle. The host makes the witness beside the proof of the root.
    """

    def __init__(self, system: OneProofSystem, backend: Backend, key_file: Bytes | None) -> None:
        """`key_file` is the content of the wrap's key; None for a development key of this machine."""
        self._key_file = key_file
        self._groth16: SharedKey | None = None
        self._begun: OrderedDict[str, _Begun] = OrderedDict()
        """Witnesses of wraps whose second root was proven here, by job: the last `MOST_BEGUN`."""
        self._closed = False
        self._opening = threading.Lock()
        super().__init__(system, backend)
        kinds = system.planned_kinds()
        if kinds and backend.info().kind != "cpu":
            second = kinds[0].of_role(WRAP)
            opened = in_background(partial(self._open_ahead, second), "distprove-wrap-ahead")
            self._pieces = chain(self._pieces, self._wrap_ahead(opened, second))

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        if partition.name != GROTH16:
            part, times = super().prove_partition(partition, witness, challenge)
            if partition.name == WRAP:
                self._begin_witness(partition, part)
            return part, times
        traffic, steps = self._backend.traffic.snapshot(), Steps()
        with steps("open"):
            key = self._second_key(partition)
            shared = self._open(key, make=True)
        (second,) = partition.children
        begun = self._begun.pop(partition.job, None)
        if begun is not None and begun.second == second:
            salt, values = begun.salt, begun.result
        else:
            salt, values = self._new_salt(), None
        made = self._making_room(lambda: wrap(key, second, salt, shared, self._backend, steps, values))
        moved = self._backend.traffic.since(traffic)
        steps.times.to_device, steps.times.to_host = moved.to_device, moved.to_host
        return proven(partition, made, salt), steps.times

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Raise InvalidKey for a wrap that, made on the CPU, does not verify either."""
        if partition.name != GROTH16:
            super().diagnose(partition, witness)
            return
        key, (second,) = self._second_key(partition), partition.children
        zkey = self._open(key, make=True).zkey
        with CpuBackend(self._backend.threads) as cpu, holding(zkey.data, zkey.name, cpu) as shared:
            made = wrap(key, second, self._new_salt(), shared, cpu, Steps())
        if not verify(made.key, made.public, made.proof):
            raise InvalidKey(
                f"{zkey.name}: the wrap's Groth16 proof does not verify, on the CPU either: the key is of another "
                "circuit, or damaged"
            )

    def drop(self, job: str | None = None, partitions: Container[PartitionId] | None = None) -> bool:
        dropped = super().drop(job, partitions)
        if partitions is None:
            for name in [each for each in list(self._begun) if job in (None, each)]:
                self._begun.pop(name, None)
        if job is None and partitions is None and self._groth16 is not None:
            return self._groth16.drop() or dropped
        return dropped

    def close(self) -> None:
        with self._opening:
            self._closed = True
            shared, self._groth16 = self._groth16, None
        self._begun.clear()
        if shared is not None:
            shared.release()
        super().close()

    def _held_beside(self) -> int:
        shared = self._groth16
        return super()._held_beside() + (0 if shared is None else shared.nbytes)

    # -- what a wrap takes ------------------------------------------------------------------------------------------

    def _second_key(self, partition: Partition) -> MultilinearKey:
        kind = Kind.from_record(partition.source["kind"], self._key.key, partition.name)
        return node_key(self._key.key, kind, usable_threads())

    def _new_salt(self) -> bytes | None:
        """The salt of another wrap; None where a contract reads it, which hides nothing."""
        return None if self._key.key.params.places is not None else secrets.token_bytes(SALT_BYTES)

    def _begin_witness(self, partition: Partition, second: PartitionProof) -> None:
        """Begin the witness of the wrap above a second root, on the host, while the device proves the root. The wrap
        may be another prover's: it is where another one shares the device, since that is idle while this one proves the
        root."""
        info = self._backend.info()
        if info.kind == "cpu" or not info.alone:
            return
        key, threads, salt = self._second_key(partition), self._backend.threads, self._new_salt()

        def make() -> Words:
            with CpuBackend(threads) as cpu:
                return wrap_witness(key, second, salt, cpu, Steps())

        self._begun[partition.job] = _Begun(second, salt, in_background(make, "distprove-wrap-witness"))
        while len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)

    def _open(self, key: MultilinearKey, *, make: bool) -> SharedKey:
        """Hold the Groth16 key. A development key is made if it is not there, and may be made. Raises InvalidKey where
        there is none, InputError, ResourceError."""
        with self._opening:
            if self._closed:
                raise InvalidKey("the prover was closed")
            if self._groth16 is None:
                content, name = self._key_file, "the wrap's key"
                if content is None:
                    path = kept_key(key) or (development_key(key, self._backend) if make else None)
                    if path is None:
                        raise InvalidKey("this machine has no development key of the wrap")
                    content, name = map_file(path), path.name
                self._groth16 = held(content, name, self._backend)
            return self._groth16

    def _open_ahead(self, second: Kind) -> SharedKey:
        """Open on the host what the wrap takes and is kept. For a thread beside the prover's. Raises as `_open`."""
        key = node_key(self._key.key, second, usable_threads())
        shared = self._open(key, make=False)
        shared.prepare()
        resident_tape(key)
        return shared

    def _wrap_ahead(self, opened: Future[SharedKey], second: Kind) -> Iterator[None]:
        """Bring to the device what a wrap takes, piece by piece, once the host's part is done."""
        yield from self._second_ahead(second)
        while not opened.done():
            yield
        shared = opened.result()
        while not self._closed and shared.load_more():
            yield

    def _making_room(self, make: Callable[[], Wrap]) -> Wrap:
        """What `make` returns, beside what is kept or, where that leaves no room, after making some."""
        while True:
            try:
                return make()
            except OutOfMemory:
                if not self._make_room():
                    raise


@dataclass(frozen=True, repr=False)
class _Begun:
    """A wrap's witness in the making, which is secret."""

    second: PartitionProof
    """What it is of."""
    salt: bytes | None
    """What it has, too, which goes with it."""
    future: Future[Words]

    def result(self) -> Words:
        return self.future.result()


def wrap(
    key: MultilinearKey,
    second: PartitionProof,
    salt: bytes | None,
    shared: SharedKey,
    backend: Backend,
    steps: Steps,
    begun: Callable[[], Words] | None = None,
) -> Wrap:
    """The wrap of a second root's proof under its key, not yet verified. The backend has the Groth16 key. `salt` has
    SALT_BYTES random bytes of this wrap alone; None where a contract reads. `begun` gives the witness with this salt,
    if somebody makes it already.

    Raises InvalidProof where the second root's proof does not hold, InvalidKey for a key of another circuit,
    OutOfMemory.
    """
    # 1. The witness, on the host.
    if begun is None:
        with _on_host(backend) as cpu:
            witness = wrap_witness(key, second, salt, cpu, steps)
    else:
        with steps("witness"):
            witness = begun()
    if len(witness) != shared.zkey.n_vars:
        raise InvalidKey(
            f"{shared.zkey.name}: a key of another circuit, of {count_of(shared.zkey.n_vars, 'wire')}; this wrap's has "
            f"{len(witness)}"
        )
    # 2. The proof.
    with steps("load"):
        resident = shared.resident()
    made, times = prove(resident, witness)
    for name, seconds in times.seconds.items():
        steps.seconds[name] = steps.seconds.get(name, 0.0) + seconds
    steps.times.steps += times.steps
    steps.times.on_device = times.on_device
    return Wrap(shared.zkey.verification_key, made, stated_values(second.public, salt))


def wrap_witness(
    key: MultilinearKey, second: PartitionProof, salt: bytes | None, cpu: CpuBackend, steps: Steps
) -> Words:
    """The witness of a wrap's circuit from a second root's proof and a salt, (wires, 4) canonical integers, secret.
    Raises InvalidProof for a proof that does not hold, InvalidKey for one of other heights than the key's."""
    # The circuit's inputs are the second root's proof, with a row and a path for each query that its transcript draws.
    with steps("inputs"):
        proof, shape = MultilinearProof.from_record(second.data["proof"], key, second.name)
        if wrap_shape(key) != shape:
            raise InvalidKey("the second root has other heights than its key")
        inputs = verifier_inputs(shape, NODE, second.public, proof, salt)
    with steps("tape"):
        tape = resident_tape(key)
    with steps("witness"):
        try:
            return tape.witness(inputs, cpu)
        except UnsatisfiedWitness:
            verify_proof(key, NODE, second.public, proof, shape)  # which says what does not hold
            raise


def _on_host(backend: Backend) -> AbstractContextManager[CpuBackend]:
    """The CPU beside a device, or the backend that is the CPU."""
    return nullcontext(backend) if isinstance(backend, CpuBackend) else CpuBackend(threads=backend.threads)
