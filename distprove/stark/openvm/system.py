"""OpenVM's proofs as a proof system for the driver: a partition is the traces of one proof, such as a segment."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof, UnsatisfiedWitness, UsageError
from distprove.groth16.input_places import WHOLE_WITNESS, content_at, partitions_at, places_of
from distprove.options import InputFile
from distprove.stark.openvm.bus_prover import UnbalancedBuses
from distprove.stark.openvm.container import TRACES_MAGIC, Container
from distprove.stark.openvm.diagnosis import fault_of
from distprove.stark.openvm.job_verifier import SwirlVerifier, partition_proof
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.key_file import read_key
from distprove.stark.openvm.memory import choose, key_bytes, trace_bytes
from distprove.stark.openvm.options import SwirlOptions
from distprove.stark.openvm.parts import PartCommitments
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.security import security_bits
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.stated import hex_of
from distprove.stark.openvm.traces import TRACES_FORMAT, AirTrace, StagedTrace, parse_traces, shape_of
from distprove.stark.openvm.verifier import verify
from distprove.stark.plan import MemoryPlan, usable
from distprove.steps import Steps, measured
from distprove.system import MemoryUse, Partition, PartitionProof, StepTimes, Witness
from kernels.cpu.backend import CpuBackend
from kernels.errors import OutOfMemory
from kernels.host.units import count_of, format_bytes
from kernels.interface.backend import Backend

SharedFiles = dict[str, NDArray[np.uint8]]


class SwirlSystem(SwirlVerifier):
    """Implements `distprove.system.ProofSystem`. It verifies under the key that it proves with."""

    name = "swirl"
    needs_barrier = False
    verifies_in_python = True

    def __init__(self, key: Path, sources: Sequence[InputFile]) -> None:
        """Read the key. Raises InputError, FormatError, InvalidKey."""
        self._name, self._sources = key.name, tuple(sources)
        super().__init__(read_key(key))

    @classmethod
    def from_options(cls, options: SwirlOptions) -> SwirlSystem:
        return cls(options.key, options.traces)

    def with_inputs(self, sources: Sequence[InputFile]) -> SwirlSystem:
        """This system, its key not read again, for other traces."""
        other = copy.copy(self)
        other.__dict__.pop("_places", None)
        other._sources = tuple(sources)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Workers do without the traces: each is sent with the order to prove it."""
        return {**self.__dict__, "_sources": (), "_places": []}

    def describe(self) -> dict[str, Any]:
        return {
            "key": self._name,
            "key_hash": hex_of(self.key.pre_hash),
            "airs": len(self.key.airs),
            "stack": f"{count_of(self.key.params.w_stack, 'column')} of 2^{self.key.params.log_height}",
            "security_bits": round(security_bits(self.key), 1),
        }

    def shared(self) -> SharedFiles:
        """Nothing: the key travels with the system."""
        return {}

    def synthesis_bytes(self, partition: Partition) -> int:
        """Predicted host memory of a partition's traces, in bytes: their file, which is mapped."""
        return int(partition.source.get("size", 0))

    def key_bytes(self) -> int:
        """Predicted memory of the commitments to the key's preprocessed traces, in bytes. The key itself travels."""
        return key_bytes(self.key)

    def plan(self) -> list[Partition]:
        return partitions_at(self.name, self.key_digest(), self._sources, self._places)

    @cached_property
    def _places(self) -> list[dict[str, Any]]:
        return places_of(self._sources, WHOLE_WITNESS)

    def synthesiser(self, shared: SharedFiles, threads: int) -> SwirlSynthesiser:
        return SwirlSynthesiser(self.key)

    def prover(self, shared: SharedFiles, backend: Backend) -> SwirlProver:
        return SwirlProver(self.key, backend)


class SwirlSynthesiser:
    """Reads traces, and checks that they are of the key's shape. Implements `distprove.system.Synthesiser`."""

    def __init__(self, key: OpenVmKey) -> None:
        self._key = key

    def synthesise(self, partition: Partition) -> Witness:
        begin = time.perf_counter()
        content, name = content_at(partition.source)
        file = np.frombuffer(content, dtype=np.uint8)
        _traces(self._key, file, name)
        return Witness(partition.name, {"file": file}, time.perf_counter() - begin)  # type: ignore[dict-item]


class SwirlProver:
    """Proves partitions on one backend, and keeps commitments to parts that proofs share. The traces of the next one
    are copied meanwhile, where its plan and those of the others leave room for them. Implements
    `distprove.system.Prover` and `Stages`."""

    def __init__(self, key: OpenVmKey, backend: Backend) -> None:
        self._key, self._backend = key, backend
        self._parts: PartCommitments | None = PartCommitments(backend.openvm)
        self._budget = usable(backend.info().memory_budget)
        self._staged: list[StagedSwirl] = []
        """The partitions that are staged and not released."""

    def commit(self, partition: Partition, witness: Witness) -> bytes | None:
        return None

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        """Prove the traces. Raises UnsatisfiedWitness if they do not balance the buses, or do not fit the stack."""
        staged = self.stage(partition, witness)
        try:
            return staged.start(challenge).result()
        finally:
            staged.release()

    def stage(self, partition: Partition, witness: Witness) -> StagedSwirl:
        """Begin to copy the traces. Raises OutOfMemory, before anything is copied, where the device cannot hold the
        proof, or not the traces beside the proofs of the partitions that were staged before."""
        traces = _traces(self._key, witness.arrays["file"], partition.name)
        shape = shape_of(self._key, traces)
        plan, copies = choose(shape, self._budget), trace_bytes(shape)
        before = sum(staged.plan.peak for staged in tuple(self._staged))
        if before + copies > self._budget:
            raise OutOfMemory(
                f"traces of {format_bytes(copies)} need room beside a proof of {format_bytes(before)}; the device has "
                f"{format_bytes(self._budget)}"
            )
        staged = StagedSwirl(self, partition, shape, plan)
        self._staged.append(staged)
        try:
            staged.read(traces, self._backend)
        except BaseException:
            staged.release()
            raise
        return staged

    def prove(
        self, partition: Partition, traces: Sequence[AirTrace], shape: Shape, plan: MemoryPlan
    ) -> tuple[PartitionProof, StepTimes]:
        """Prove traces of a partition. Raises UnsatisfiedWitness as `prove_partition`."""
        if self._parts is not None:
            kept = (root.tobytes() for trace in shape.traces for root in trace.own_roots)
            self._parts.make_room(self._budget - plan.peak, kept)
        self._backend.watch_memory()
        try:
            with measured(self._backend) as steps:
                proof = prove(self._backend.openvm, self._key, traces, steps, self._parts)
        except UnbalancedBuses as error:
            raise UnsatisfiedWitness(f"partition {partition.name}: {self._violated(traces) or error}") from None
        except UsageError as error:
            raise UnsatisfiedWitness(f"partition {partition.name}: {error}") from None
        peak = self._backend.memory_peak()
        ahead = sum(trace_bytes(staged.shape) for staged in tuple(self._staged) if staged.partition is not partition)
        steps.times.memory = MemoryUse(plan.name, plan.peak, None if peak is None else peak - ahead)
        return partition_proof(partition.name, partition.digest, proof), steps.times

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Raise UnsatisfiedWitness, which names AIR, constraint or interaction, and row, if the traces violate the key.

        Messages of buses that are too large to compare are left to the CPU: it proves the traces, and its proof is
        verified.
        """
        traces = _traces(self._key, witness.arrays["file"], partition.name)
        if (violated := self._violated(traces)) is not None:
            raise UnsatisfiedWitness(f"partition {partition.name}: {violated}")
        try:
            with CpuBackend(threads=1) as cpu:
                verify(self._key, prove(cpu.openvm, self._key, traces, Steps()))
        except (InvalidProof, UsageError) as error:
            raise UnsatisfiedWitness(f"partition {partition.name}: {error}") from None

    def _violated(self, traces: Sequence[AirTrace]) -> str | None:
        """What of the key the traces violate, in words without values; None where nothing is found."""
        fault = fault_of(self._key, traces)
        return None if fault is None else f"the traces violate the key: {fault}"

    def released(self, staged: StagedSwirl) -> None:
        """A partition's memory came back."""
        if staged in self._staged:
            self._staged.remove(staged)

    def close(self) -> None:
        """Let go of the commitments of parts, whose memory the backend then uses for other things."""
        self._parts = None


class StagedSwirl:
    """Traces on their way to the device. Implements `distprove.system.StagedPartition`."""

    def __init__(self, prover: SwirlProver, partition: Partition, shape: Shape, plan: MemoryPlan) -> None:
        self._prover, self.partition, self.shape, self.plan = prover, partition, shape, plan
        self._traces: list[StagedTrace] = []

    def read(self, traces: Sequence[AirTrace], backend: Backend) -> None:
        """Begin to copy the traces to the device. After OutOfMemory call `release`, which frees the copied ones."""
        for trace in traces:
            self._traces.append(StagedTrace.of(trace, backend))

    def start(self, challenge: bytes | None = None) -> ProvenSwirl:
        return ProvenSwirl(*self._prover.prove(self.partition, self._traces, self.shape, self.plan))

    def release(self) -> None:
        for trace in self._traces:
            trace.release()
        self._traces = []
        self._prover.released(self)


class ProvenSwirl:
    """A proof that is made. Implements `distprove.system.PendingProof`."""

    def __init__(self, proof: PartitionProof, times: StepTimes) -> None:
        self._made = proof, times

    def wait(self) -> None:
        """The proof is there."""

    def result(self) -> tuple[PartitionProof, StepTimes]:
        return self._made


def _traces(key: OpenVmKey, file: NDArray[Any], name: str) -> tuple[AirTrace, ...]:
    return parse_traces(Container(file.data, TRACES_MAGIC, TRACES_FORMAT, name), key)
