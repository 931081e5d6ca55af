"""The interfaces that a proof system implements so that the driver can prove with it. Groth16 and the STARK both do.

    Job -> plan -> [Partition] -> synthesise -> (commit -> shared challenge) -> prove -> verify -> aggregate -> Proof

The driver plans and aggregates once per job; everything else runs in executors, once per partition. Values that cross
between processes are plain data: bytes, str, int, dicts and lists of them, and NumPy arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from distprove.formats import canonical
from distprove.wanted import require_wanted
from kernels.host.units import count_of
from kernels.interface.busy import DeviceTime

if TYPE_CHECKING:  # what reads runs and proofs needs no arrays
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from distprove.options import InputFile
    from kernels.host.arena import HostArena
    from kernels.interface.backend import Backend


SHORT = 1 << 16
"""Bytes of a partition proof's encoding that is kept beside what it encodes, at most."""


class PartitionId(NamedTuple):
    """Identity of a partition where several jobs are proven, from the plan to the journal."""

    job: str
    """Name of the job; "" where there is one alone."""
    name: str
    """Name of the partition, unique within its job."""


@dataclass(frozen=True)
class Partition:
    """The unit that one GPU proves."""

    index: int
    name: str
    """Name that is unique within the job and fit for a file name; it follows the name of the input file."""
    digest: bytes
    """32 bytes that bind the partition's content (its input) and the key it is proven under. Public."""
    source: dict[str, Any] = field(repr=False)
    """What `synthesise` needs: paths or small inputs. It may be secret and is never logged or written to a run."""
    job: str = ""
    """Name of its job, where several are proven. Set once, where the job begins: they may name partitions alike."""
    needs: tuple[str, ...] = ()
    """Names of the partitions of the job whose proofs it needs: it is proven after them. In a job with a barrier, those
    that need none take part in it."""
    children: tuple[PartitionProof, ...] = field(default=(), repr=False, compare=False)
    """Their proofs, in that order. The scheduler fills them in."""
    context: Any = field(default=None, repr=False, compare=False)
    """What synthesiser and prover need to know of the whole job, in a form of the proof system's own. They outlive the
    job that they were loaded for, so that whatever differs between jobs of one key comes with the partition. Secret."""

    @property
    def id(self) -> PartitionId:
        return PartitionId(self.job, self.name)

    @property
    def commits(self) -> bool:
        """Whether it takes part in the barrier of a job that has one: it needs no proofs of others, which are all made
        after the barrier."""
        return not self.needs


@dataclass
class Witness:
    """The witness of one partition, ready to be proven. `arrays` are secret."""

    name: str
    arrays: dict[str, NDArray[np.uint64]] = field(repr=False)
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True, repr=False)
class PartitionProof:
    """The proof of one partition: public data only."""

    name: str
    digest: bytes
    public: tuple[int, ...]
    """Public values, in the proof system's order."""
    data: dict[str, Any]
    """The proof system's own encoding of the proof, which goes into proof.msgpack. It is not changed any more."""

    @property
    def encoded(self) -> bytes:
        """`data` in canonical encoding. Where it is short it is kept: what a job proves is hashed and written several
        times. To encode long data again takes less time than the pages of memory that would hold it."""
        made = self.encode()
        if len(made) <= SHORT:
            vars(self)["_encoded"] = made
        return made

    def named_by(self, digest: bytes) -> PartitionProof:
        """Return this proof with another digest."""
        other = PartitionProof(self.name, digest, self.public, self.data)
        vars(other).update({name: value for name, value in vars(self).items() if name == "_encoded"})
        return other

    def encode(self) -> bytes:
        """Return `data` in canonical encoding, and keep nothing that was not kept before."""
        return vars(self).get("_encoded") or canonical.encode(self.data)

    def __getstate__(self) -> dict[str, Any]:
        """What travels: not what follows from it."""
        return {name: value for name, value in vars(self).items() if name != "_encoded"}

    def __repr__(self) -> str:
        return f"<PartitionProof: {self.name}, {count_of(len(self.public), 'public value')}>"


Step = tuple[str, float, float]
"""A named step (name, start, end), with times in seconds since the epoch by the clock of its machine."""


@dataclass(frozen=True)
class MemoryUse:
    """How one partition uses its prover's memory, in bytes, without what other partitions hold meanwhile."""

    plan: str
    """The proof system's name for the memory plan."""
    predicted: int
    """Peak memory, predicted before anything large is allocated."""
    peak: int | None
    """Peak memory as measured; None where the backend does not count it."""


@dataclass
class StepTimes:
    """The costs of one partition on one prover: seconds per named step, bytes over PCIe, memory."""

    seconds: dict[str, float] = field(default_factory=dict)
    to_device: int = 0
    to_host: int = 0
    steps: list[Step] = field(default_factory=list)
    """Start and end of each step, including time that was hidden behind another partition; may be empty."""
    on_device: DeviceTime | None = None
    """When the device worked on the partition; None where that is not known."""

    memory: MemoryUse | None = None
    """Memory of the partition; None for a proof system without memory plans."""
    device_peak: int = 0
    """Peak device memory of the prover so far, in bytes; 0 where the device does not tell."""

    def step(self, name: str) -> TimedStep:
        """Context manager that adds the time its block takes to the step `name`. Raises CalledOff before the block,
        where nobody waits any more for what this thread does."""
        return TimedStep(self, name)


class TimedStep:
    """A step under way. A class, because a generator would cost a short proof some microseconds a step."""

    __slots__ = ("_begin", "_name", "_started", "_times")

    def __init__(self, times: StepTimes, name: str) -> None:
        self._times, self._name = times, name

    def __enter__(self) -> None:
        require_wanted()
        self._started, self._begin = time.time(), time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        took, name = time.perf_counter() - self._begin, self._name
        self._times.seconds[name] = self._times.seconds.get(name, 0.0) + took
        self._times.steps.append((name, self._started, self._started + took))


class Synthesiser(Protocol):
    """Turns a partition's input into its witness on the CPU. Its state can be pickled; it needs no GPU."""

    def synthesise(self, partition: Partition) -> Witness:
        """Make the partition's witness. Raises subclasses of InputError (not retried) when the input is at fault."""


@runtime_checkable
class UsesArena(Protocol):
    """Optional interface of a synthesiser that can make witnesses in memory that is reused."""

    def use_arena(self, arena: HostArena) -> None:
        """Make all further witnesses in `arena`."""


@runtime_checkable
class SharesGpus(Protocol):
    """Optional interface of a proof system whose provers leave a GPU idle between their kernels."""

    def provers_per_gpu(self, memory: Callable[[], int]) -> int:
        """Number of provers that together keep a GPU busy with partitions of this job. `memory` tells how many bytes
        they may share of each GPU, 0 where that is not known: there is one prover then."""


def provers_per_gpu(system: ProofSystem | None, memory: Callable[[], int]) -> int:
    """Number of provers for each GPU: what the system says, else 1; also 1 for a service, whose jobs differ. `memory`
    is as of `SharesGpus`; it is asked only where it matters."""
    return system.provers_per_gpu(memory) if isinstance(system, SharesGpus) else 1


class DeviceTask(Protocol):
    """Work beside partitions that a device may do, such as an aggregate of a job's proofs. It can be pickled."""

    @property
    def large(self) -> bool:
        """Whether a GPU does it sooner than the CPU."""

    def run(self, backend: Backend, host: Backend | None) -> Any:
        """Do it on `backend`, with the CPU of its machine as `host` where that is not the CPU itself."""


class Prover(Protocol):
    """Proves partitions with a key that is resident on one backend."""

    def commit(self, partition: Partition, witness: Witness) -> bytes | None:
        """The partition's commitment for the shared challenge; None for systems without one (Groth16)."""

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]: ...

    def close(self) -> None: ...


class PendingProof(Protocol):
    """A proof whose work has been submitted to the device."""

    def wait(self) -> None:
        """Wait until the device has done the work. What it then takes of the device's memory is for results alone."""

    def result(self) -> tuple[PartitionProof, StepTimes]:
        """Assemble the proof on the host alone, while the prover may run the next partition; waits as `wait` does.

        The steps of the times are in the order in which they happened, staging first.
        """


class StagedPartition(Protocol):
    """A partition whose data is being copied to a prover's device."""

    def start(self, challenge: bytes | None = None) -> PendingProof:
        """Submit the work to the device, once, when nothing else on the prover is to start first. Raises as
        `prove_partition`."""

    def release(self) -> None:
        """Free what staging took, whether the partition was started or not. A second call does nothing."""


@runtime_checkable
class Stages(Protocol):
    """Optional interface of a prover that can stage one partition while it computes another. Its `prove_partition`
    stages, starts and waits for the result in a row."""

    def stage(self, partition: Partition, witness: Witness) -> StagedPartition:
        """Begin to copy the partition's data onto the device. This is the only method of a prover that may be called
        while another thread uses the prover; at most two partitions are staged and not released at a time.

        Raises OutOfMemory when there is no room yet, subclasses of InputError when `work` is at fault.
        """


class ProofSystem(Protocol):
    """A proof system with one program (circuit or AIRs) and key. Cheap to pickle: large data goes by `shared`."""

    name: str
    verifies_in_python: bool
    """Whether `verify` holds the interpreter's lock most of the time, so that threads do not speed it up."""

    @property
    def needs_barrier(self) -> bool:
        """Whether `commit` must have run for every partition that needs no other before any `prove`."""

    def key_digest(self) -> bytes:
        """SHA-256 of the verification key in its canonical encoding."""

    def describe(self) -> dict[str, Any]:
        """Public facts for reports: curve, sizes, origin of the key, whether the set-up is insecure."""

    def shared(self) -> dict[str, NDArray[np.uint8]]:
        """Large read-only files (key, witness program) as byte arrays. They are put once per node and passed to
        `synthesiser` and `prover`. Within one process they are maps of the files, not copies."""

    def plan(self) -> list[Partition]:
        """The partitions of the job, in order. Deterministic."""

    def synthesiser(self, shared: dict[str, NDArray[np.uint8]], threads: int) -> Synthesiser: ...

    def prover(self, shared: dict[str, NDArray[np.uint8]], backend: Backend) -> Prover: ...

    def verify(self, proof: PartitionProof) -> bool:
        """Whether this partition's proof holds under the system's key."""

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        """Whether all proofs hold under the system's key, checked together with random coefficients."""

    def verification_key(self) -> dict[str, Any]:
        """The public verification key in the form that goes into proof.msgpack."""


@runtime_checkable
class ChecksKey(Protocol):
    """Optional interface of a proof system whose key needs a check that is too expensive to do on every prover."""

    def check(self, shared: dict[str, NDArray[np.uint8]], backend: Backend) -> None:
        """Check the key, once per job, on one prover's backend, before anything is proven. Raises InvalidKey."""


@runtime_checkable
class ChecksLong(ChecksKey, Protocol):
    """Optional interface of a proof system whose check may take longer than the loading of a key."""

    check_seconds: float
    """Seconds that the check may take, if the setting `start_timeout` is no more."""


@runtime_checkable
class TakesInputs(Protocol):
    """Optional interface of a proof system that, once loaded, serves jobs that differ in their inputs alone."""

    def with_inputs(self, sources: Sequence[InputFile]) -> ProofSystem:
        """The system of a job with these inputs and the same options otherwise (`Options.keyed`)."""


@runtime_checkable
class FindsInvalid(Protocol):
    """Optional interface of a proof system or verifier that finds the bad proofs of a batch faster than one by one."""

    def find_invalid(self, proofs: list[PartitionProof]) -> list[int]:
        """Indices of the proofs that are malformed or do not hold, in order."""


@runtime_checkable
class Diagnoses(Protocol):
    """Optional interface of a prover that can tell, after a bad proof, if the witness or the device is at fault."""

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Raise UnsatisfiedWitness when the witness is at fault; return when it is not."""


@runtime_checkable
class KeepsCommitted(Protocol):
    """Optional interface of a prover that keeps partitions it has committed to, so as not to do it again."""

    def holds(self, partition: PartitionId) -> bool:
        """Whether it keeps this one. Any thread may ask, at any time."""

    def drop(self, job: str | None = None, partitions: Container[PartitionId] | None = None) -> bool:
        """Give back what is kept for a job, or for all jobs, or only for these partitions; whether there was any. It is
        made again when it is needed."""


@runtime_checkable
class VerifiesHere(Protocol):
    """Optional interface of a proof system whose verifier is Python, and which the driver asks to verify some proofs in
    its own process: those that it would verify again when it binds the job."""

    def verifies_here(self, proof: PartitionProof) -> bool:
        """Whether this is such a proof. It may be malformed."""


@runtime_checkable
class PreparesIdle(Protocol):
    """Optional interface of a prover that prepares what later proofs need while it has nothing to prove."""

    def prepare_more(self) -> bool:
        """Prepare a piece, in some 50 ms at most; whether there may be more. It has the device to itself, as a proof
        has. What fails here fails again in the proof that needs it, so that nothing is raised."""


@runtime_checkable
class DrawsChallenge(Protocol):
    """Optional interface of a proof system with a barrier that draws the shared challenge in its own way.

    The verifier checks again which commitments the challenge was drawn from and which challenge a proof was made under.
    """

    def draw_challenge(self, commitments: Sequence[bytes]) -> bytes:
        """Draw the job's challenge from the commitments of all partitions that take part, in order. Raises
        FormatError."""

    def made_under(self, proof: PartitionProof) -> tuple[bytes, bytes]:
        """The partition's commitment and the challenge that `proof` claims. Raises FormatError."""


@runtime_checkable
class PlansChallenge(DrawsChallenge, Protocol):
    """Optional interface of a proof system whose jobs may have a challenge that follows from their plan alone."""

    def planned_challenge(self) -> bytes | None:
        """The job's challenge, under which partitions are proven without a barrier; None with one."""


@runtime_checkable
class ChecksCommitments(Protocol):
    """Optional interface of a proof system that can tell from the commitments whether the partitions can be one job."""

    def check_commitments(self, commitments: Sequence[bytes]) -> None:
        """Check the commitments, in order, at the barrier. Raises InvalidProof when no verifier would accept the
        job."""


@runtime_checkable
class ChecksChildren(Protocol):
    """Optional interface of a proof system some of whose partitions need others."""

    def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
        """Whether a partition's proof is what those that need it can be made of and, if it needs others, states what
        follows from their proofs, in the order of `Partition.needs`. This does not verify it."""


@runtime_checkable
class VerifiesInPython(Protocol):
    """Optional interface of a verifier, which every `ProofSystem` has."""

    verifies_in_python: bool
    """Whether `verify` holds the interpreter's lock most of the time, and `verify_batch` is no faster than one by one.
    """


@runtime_checkable
class PreparesVerifying(Protocol):
    """Optional interface of a proof system whose verifier needs more than the key, which takes seconds to make."""

    def prepare_verifying(self) -> None:
        """Make it for the job's plan. Called once in each verifying process, on a thread of its own while the process
        verifies. What fails here fails again, and is reported, where it is needed."""


@runtime_checkable
class VerifiesJob(Protocol):
    """Optional interface of a proof system or verifier for which the partitions of a job must fit each other."""

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Check that a job's proofs, each already verified alone, fit together. Raises InvalidProof, FormatError."""


@runtime_checkable
class HasOutput(Protocol):
    """Optional interface of a proof system whose jobs may have an output of variable length beside the proof."""

    def output(self) -> bytes | None:
        """The output of the job, which is public; None for a job that has none."""


@runtime_checkable
class Explains(Protocol):
    """Optional interface of a proof system or verifier that can tell what proofs state and with how much security."""

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        """Public facts about a whole job whose proofs hold, as plain data for reports."""


@runtime_checkable
class KnowsWeakness(Protocol):
    """Optional interface of a verifier whose key may show that proofs under it prove nothing."""

    def weakness(self) -> str | None:
        """Why anybody can forge proofs under the key, in words; None if the key does not show that."""


@runtime_checkable
class Compares(Protocol):
    """Optional interface of a verifier whose jobs may state an exit code or values that the caller expects."""

    def compare(
        self, proofs: Sequence[PartitionProof], exit_code: int | None, public_input: Path | bytes | None
    ) -> None:
        """Raise InvalidProof where proofs that hold state other values than the caller's, UsageError where they state
        no such value. `exit_code` None stands for 0, of proofs that state one."""


@runtime_checkable
class HasKeyFile(Protocol):
    """Optional interface of a proof system whose proofs do not carry their verification key."""

    def key_file(self) -> bytes:
        """The content of the verification key file that others verify under."""


@runtime_checkable
class ImportsAhead(Protocol):
    """Optional interface of a proof system whose synthesisers need modules that it does not import itself."""

    def import_ahead(self) -> None:
        """Import them. Synthesisers are forked afterwards: no thread may be left running."""


@runtime_checkable
class PredictsMemory(Protocol):
    """Optional interface of a proof system that can predict how much memory a synthesis takes."""

    def synthesis_bytes(self, partition: Partition) -> int:
        """Predicted host memory of synthesising `partition`, in bytes, its witness included."""


@runtime_checkable
class PredictsKey(Protocol):
    """Optional interface of a proof system that can predict how large a loaded key is."""

    def key_bytes(self) -> int:
        """Predicted host memory that a prover on the CPU allocates for its key, in bytes. The files of `shared`, which
        it reads in place, are not counted."""


@cache
def implements(kind: type, interface: Any) -> bool:
    """Whether a class implements an interface of this module. It is looked up once for each class: to find it out takes
    ten microseconds, in which much else of a short job is done."""
    return issubclass(kind, interface)
