"""What a proof system must implement so that the driver can prove with it. Groth16 and the STARK both do.

    Job -> plan -> [Partition] -> synthesise -> (commit -> shared challenge) -> prove -> verify -> aggregate -> Proof

The driver calls `plan` and `aggregate` once; everything else runs in executors, for each partition. Values that cross
between processes are plain data: bytes, str, int, dicts and lists of them, and NumPy arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kernels.backend import Backend
from kernels.busy import DeviceTime
from kernels.host_arena import HostArena


@dataclass(frozen=True)
class Partition:
    """The unit that one GPU proves."""

    index: int
    name: str
    """Unique within the job, fit for a file name; named after the input's file."""
    digest: bytes
    """32 bytes that bind the partition's content (its input) and the key it is proven under. Public."""
    source: dict[str, Any] = field(repr=False)
    """What `synthesise` needs: paths, or small inputs. May be secret; never logged or written to a run."""


@dataclass
class Synthesised:
    """A partition ready to be proven. `arrays` are secret."""

    name: str
    arrays: dict[str, NDArray[np.uint64]] = field(repr=False)
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class PartitionProof:
    """The proof of one partition: public data only."""

    name: str
    digest: bytes
    public: tuple[int, ...]
    """Public values, in the system's order."""
    data: dict[str, Any]
    """The system's own encoding of the proof: what goes into proof.msgpack."""


Step = tuple[str, float, float]
"""A named stretch of time: when it started and ended, in seconds since the epoch by the clock of its machine."""


@dataclass(frozen=True)
class MemoryUse:
    """How a partition was fitted into its prover's memory. Bytes, what others hold meanwhile left out."""

    plan: str
    """The proof system's name for it."""
    predicted: int
    """The most in use at once, as known before anything large was made."""
    peak: int | None
    """The same as it was; None where the backend does not count."""


@dataclass
class PhaseTimes:
    """Seconds per named phase, bytes over PCIe and memory, of one partition on one prover."""

    seconds: dict[str, float] = field(default_factory=dict)
    to_device: int = 0
    to_host: int = 0
    steps: list[Step] = field(default_factory=list)
    """When each phase passed, also what was hidden behind another partition; may be empty."""
    on_device: DeviceTime | None = None
    """When the device was at the work; None where it is not known."""

    memory: MemoryUse | None = None
    """None for a proof system without memory plans."""
    device_peak: int = 0
    """The most device memory that the prover has taken so far, in bytes; 0 where a device does not tell."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the phase of that name."""
        started, begin = time.time(), time.perf_counter()
        yield
        took = time.perf_counter() - begin
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        self.steps.append((name, started, started + took))


class Synthesiser(Protocol):
    """Turns a partition's input into its witness, on the CPU. Picklable factory state; no GPU."""

    def synthesise(self, partition: Partition) -> Synthesised:
        """Raises InputError subclasses (not retried) when the input is at fault."""


@runtime_checkable
class UsesArena(Protocol):
    """A synthesiser whose witnesses may lie in memory that is reused. Optional."""

    def use_arena(self, arena: HostArena) -> None:
        """Make witnesses in `arena` from here on."""


class Prover(Protocol):
    """A key resident on one backend."""

    def commit(self, partition: Partition, work: Synthesised) -> bytes | None:
        """The partition's commitment for the shared challenge; None for systems without one (Groth16)."""

    def prove(
        self, partition: Partition, work: Synthesised, challenge: bytes | None = None
    ) -> tuple[PartitionProof, PhaseTimes]: ...

    def close(self) -> None: ...


class PendingProof(Protocol):
    """A proof whose work has been handed to the device."""

    def result(self) -> tuple[PartitionProof, PhaseTimes]:
        """Wait for the device and put the proof together, on the host alone: the prover may be at the next partition.

        The phases of the times are in the order in which they passed, staging first.
        """


class StagedPartition(Protocol):
    """A partition whose data is on its way to a prover's device."""

    def start(self, challenge: bytes | None = None) -> PendingProof:
        """Hand its work to the device, once, when the prover has nothing else to start. Raises what `prove` raises."""

    def release(self) -> None:
        """Give back what staging took, whether it was started or not. A second call does nothing."""


@runtime_checkable
class Stages(Protocol):
    """A prover that takes a partition in while it computes another. Optional; `prove` then is the three in a row."""

    def stage(self, partition: Partition, work: Synthesised) -> StagedPartition:
        """Begin to bring the partition's data onto the device. Of a prover's methods the one that may be called while
        another thread uses the prover; at most two partitions are staged and not released at a time.

        Raises OutOfMemory when there is no room yet, InputError subclasses when `work` is at fault.
        """


class ProofSystem(Protocol):
    """One proof system with one program (circuit or AIRs) and key. Cheap to pickle: big data goes by `shared`."""

    name: str
    needs_barrier: bool
    """Whether `commit` must have run for every partition before any `prove`."""
    verifies_in_python: bool
    """Whether `verify` holds the interpreter's lock most of the time: then threads verify no faster than one."""

    def key_digest(self) -> bytes:
        """SHA-256 of the verification key in its canonical encoding."""

    def describe(self) -> dict[str, Any]:
        """Public facts for reports: curve, sizes, where the key comes from, whether the set-up is insecure."""

    def shared(self) -> dict[str, NDArray[np.uint8]]:
        """Large read-only files (key, witness program) as byte arrays, put once per node and handed back to
        `synthesiser` and `prover`. In one process these are maps of the files, not copies."""

    def plan(self) -> list[Partition]:
        """The partitions, in order. Deterministic."""

    def synthesiser(self, shared: dict[str, NDArray[np.uint8]], threads: int) -> Synthesiser: ...

    def prover(self, shared: dict[str, NDArray[np.uint8]], backend: Backend) -> Prover: ...

    def verify(self, proof: PartitionProof) -> bool:
        """Whether this partition's proof holds under the system's key."""

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        """Whether all hold, checked together with random coefficients."""

    def verification_key(self) -> dict[str, Any]:
        """The public verification key, as it goes into proof.msgpack."""


@runtime_checkable
class ChecksKey(Protocol):
    """A proof system whose key needs a check that is too dear for every prover. Optional."""

    def check(self, shared: dict[str, NDArray[np.uint8]], backend: Backend) -> None:
        """Check the key, once per job, on one prover's backend, before anything is proven. Raises InvalidKey."""


@runtime_checkable
class FindsInvalid(Protocol):
    """A proof system, or a verifier, that finds what is wrong in a batch faster than one by one. Optional."""

    def find_invalid(self, proofs: list[PartitionProof]) -> list[int]:
        """Places of the proofs that are malformed or do not hold, in order."""


@runtime_checkable
class Diagnoses(Protocol):
    """A prover that can tell a witness at fault from a device at fault, after a bad proof. Optional."""

    def diagnose(self, partition: Partition, work: Synthesised) -> None:
        """Raise UnsatisfiedWitness when the witness is at fault; return when it is not."""


@runtime_checkable
class DrawsChallenge(Protocol):
    """A proof system with a barrier that draws the shared challenge its own way. Optional.

    What the challenge is drawn from, and which one a proof was made under, is for the verifier to see again.
    """

    def draw_challenge(self, commitments: Sequence[bytes]) -> bytes:
        """The job's challenge, from the commitments of all partitions in order. Raises FormatError."""

    def made_under(self, proof: PartitionProof) -> tuple[bytes, bytes]:
        """The partition's commitment and the challenge that `proof` claims. Raises FormatError."""


@runtime_checkable
class ChecksCommitments(Protocol):
    """A proof system that sees from what partitions commit to whether they can be one job. Optional."""

    def check_commitments(self, commitments: Sequence[bytes]) -> None:
        """Asked at the barrier, of all partitions in order. Raises InvalidProof when no verifier would accept them."""


@runtime_checkable
class VerifiesJob(Protocol):
    """A proof system, or a verifier, for which the partitions of a job must fit each other. Optional."""

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Check what only all partitions together show, each verified on its own. Raises InvalidProof, FormatError."""


@runtime_checkable
class Explains(Protocol):
    """A proof system, or a verifier, that can tell what proofs say and how sure that is. Optional."""

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        """Public facts of a whole job whose proofs hold, as plain data for reports."""


@runtime_checkable
class HasKeyFile(Protocol):
    """A proof system whose proofs do not carry their verification key. Optional."""

    def key_file(self) -> bytes:
        """The content of the file that others verify under."""


@runtime_checkable
class PredictsMemory(Protocol):
    """A proof system that can tell what a synthesis takes. Optional."""

    def synthesis_bytes(self, partition: Partition) -> int:
        """Predicted host memory of synthesising `partition`, in bytes, its witness included."""


@runtime_checkable
class PredictsKey(Protocol):
    """A proof system that can tell how large a loaded key is. Optional."""

    def key_bytes(self) -> int:
        """Predicted host memory of what a prover that computes on the processors makes of its key, in bytes. The files
        of `shared`, which it reads where they lie, are left out."""
