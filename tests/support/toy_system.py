"""A small proof system with every fault on order, so that the driver can be tested without cryptography.

A partition states the square of a secret number; its "proof" is a digest under the key. Faults are given per partition
name as plain data, and count their own occurrences in files, because a worker that dies forgets.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from distprove.errors import InvalidKey, UnsatisfiedWitness, WitnessGenerationError
from distprove.formats import canonical
from distprove.groth16.input_places import WHOLE_INPUT, content_at, places_of
from distprove.options import InputFile
from distprove.system import Partition, PartitionProof, StepTimes, Witness
from kernels.errors import OutOfMemory
from kernels.interface.backend import DeviceInfo
from kernels.interface.busy import QueueWatch
from kernels.interface.entry import BackendEntry

TOY_BACKEND = "tests.support.toy_system:toy_backend"
SECRET = 0x5EC12E7_0123456789  # appears in no file, message or report


class ToyBackend:
    """Stands in for a device."""

    def __init__(self, device: int = 0, threads: int = 1, budget: int | None = None) -> None:
        self.device = device

    def info(self) -> DeviceInfo:
        return DeviceInfo("toy", "cpu", 0, 0)

    def watch_busy(self) -> QueueWatch:
        return QueueWatch()

    def watch_memory(self) -> None:
        pass

    def memory_peak(self) -> None:
        return None

    def close(self) -> None:
        pass


def toy_backend(device: int = 0, threads: int = 1, budget: int | None = None) -> Any:
    return ToyBackend(device, threads, budget)


def open_toy_ahead(device: int) -> None:
    folder = Path(os.environ["TOY_AHEAD"])
    (folder / str(device)).write_text(str(os.getpid()))
    with (folder / "opened").open("a") as log:
        log.write(f"{os.getpid()}\n")


TOY_DEVICES = BackendEntry(
    *("Toy", TOY_BACKEND),
    devices=lambda: 1,
    likely=lambda: 2,
    early="tests.support.early_device:begin",
    ahead=open_toy_ahead,
)
"""Devices that are guessed to be two."""


TOY_SHARED = replace(TOY_DEVICES, likely=lambda: 1)
"""A device that is guessed right."""


class ToyDevice(ToyBackend):
    """Stands in for a device that has a UUID."""

    def info(self) -> DeviceInfo:
        return DeviceInfo("toy device", "toy", 0, 0, {"uuid": toy_uuid(self.device)})


def toy_device(device: int = 0, threads: int = 1, budget: int | None = None) -> Any:
    return ToyDevice(device)


def toy_uuid(device: int) -> str:
    return f"TOY-{device}"


TOY_PAIR = BackendEntry("Toy", "tests.support.toy_system:toy_device", devices=lambda: 2, identify=toy_uuid)
"""Two devices with UUIDs."""


def process_name() -> str:
    """The name of the worker whose process this is, as its command line has it; "" in other processes."""
    words = Path("/proc/self/cmdline").read_text().split("\0")
    return next((word.removeprefix("distprove-") for word in words if word.startswith("distprove-prover-")), "")


def ray_node() -> str:
    """The node that this process belongs to, by its raylet; "none" outside of Ray."""
    return os.environ.get("RAY_RAYLET_PID", "none")


@dataclass(frozen=True)
class Faults:
    """What goes wrong. Each maps a partition's name to how many times."""

    folder: Path
    bad_proof: dict[str, int] = field(default_factory=dict)
    fault: dict[str, int] = field(default_factory=dict)
    out_of_memory: dict[str, int] = field(default_factory=dict)
    kill_prover: dict[str, int] = field(default_factory=dict)
    kill_synthesiser: dict[str, int] = field(default_factory=dict)
    stop_prover: dict[str, int] = field(default_factory=dict)
    """Its process stops, and would go on if it were told to. The log says which one it is."""
    kill_verifier: dict[str, int] = field(default_factory=dict)
    stop_verifier: dict[str, int] = field(default_factory=dict)
    stop_synthesiser: dict[str, int] = field(default_factory=dict)
    stop_worker: dict[str, int] = field(default_factory=dict)
    """A worker's process, by the worker's name, stops where it begins to prove."""
    holds: dict[str, int] = field(default_factory=dict)
    """Workers, by name ("" for all others), that prove no more than so many partitions before the file "go" lies in the
    folder."""
    kill_actor: dict[str, int] = field(default_factory=dict)
    stop_actor: dict[str, int] = field(default_factory=dict)
    """What started the prover's process, over Ray an actor."""
    outside: dict[str, int] = field(default_factory=dict)
    """Something happens outside, done by whoever looks for the file of its occurrence."""
    bad_input: tuple[str, ...] = ()
    unsatisfied: tuple[str, ...] = ()
    slow: dict[str, float] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    """A line of the log without which the partition's proof does not begin."""
    bad_key: bool = False
    bad_first_prover: bool = False
    """The prover that loads first never gives a good proof."""
    bad_before_good: int = 0
    """Bad proofs that it makes before another prover makes any."""
    unreproducible: bool = False
    """Commitments change from one attempt to the next."""

    def strikes(self, kind: str, name: str) -> bool:
        """Whether this fault happens now; takes one occurrence."""
        for index in range(getattr(self, kind).get(name, 0)):
            try:
                os.close(os.open(self.folder / f"{kind}-{name}-{index}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def log(self, step: str) -> None:
        """A line in the folder's log, which all processes share."""
        with (self.folder / "log").open("a") as log:
            log.write(f"{step}\n")

    def logged(self, step: str) -> int:
        """Number of such lines in the log."""
        log = self.folder / "log"
        return log.read_text().splitlines().count(step) if log.exists() else 0

    def stop(self, kind: str, name: str) -> None:
        """Stop this process, if this fault happens now."""
        if self.strikes(kind, name):
            self.log(f"stopped {os.getpid()}")
            # To this thread: another one may be given a signal of the process, and on a busy machine not soon.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    def first(self, what: str) -> bool:
        try:
            os.close(os.open(self.folder / what, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _open(partition: Partition) -> None:
    """No gate."""


def step_by_step(folder: Path, partition: Partition) -> None:
    """A gate through which the partitions of a job named "long" come in twenty seconds, by short steps."""
    if partition.job == "long":
        (folder / "at-it").touch()
        for _ in range(400):
            with StepTimes().step("toy"):
                time.sleep(0.05)
        (folder / "at-its-end").touch()


def until_called_off(partition: Partition) -> None:
    """A gate that opens for no partition: one that waits is given up when its job is over."""
    while True:
        with StepTimes().step("toy"):
            time.sleep(0.01)


RESIDENT: list[bytes] = []
"""Keys on the device of this process, of systems with a `capacity`."""


@dataclass
class ToySystem:
    """A proof system without cryptography, which shows the faults that its partitions name."""

    count: int
    faults: Faults
    needs_barrier: bool = False
    verifies_in_python: bool = False
    name: str = "toy"
    key: bytes = b"toy key"
    witness_bytes: int = 1 << 15
    """Beside its two words."""
    stages: bool = False
    """Whether provers take in one partition while they are at another."""
    owner: int = field(default_factory=os.getpid)
    """The driver's process, to which nothing happens."""
    capacity: int | None = None
    """Keys that a device has memory for; each that is loaded is in the log."""
    inputs: Path | None = None
    """A folder with a file for each partition, which synthesisers look for as Groth16's do."""
    sources: Sequence[InputFile] = ()
    """These files, in place of those of a folder."""
    gate: Callable[[Partition], None] = _open
    """Called by a prover on threads before it proves a partition."""

    def key_digest(self) -> bytes:
        return canonical.digest("toy/key", self.verification_key())

    def verification_key(self) -> dict[str, Any]:
        return {"key": self.key}

    def describe(self) -> dict[str, Any]:
        return {"what": "squares", "insecure": True}

    def shared(self) -> dict[str, np.ndarray]:
        return {"key": np.frombuffer(self.key, dtype=np.uint8)}

    def with_inputs(self, sources: Sequence[InputFile]) -> ToySystem:
        return replace(self, sources=sources)

    def plan(self) -> list[Partition]:
        names = [f"p{i}" for i in range(self.count)]
        inputs = self.inputs
        files = self.sources if inputs is None else [InputFile(name, inputs / name) for name in names]
        places = places_of(files, WHOLE_INPUT) or [{} for _ in names]
        return [
            Partition(i, name, canonical.digest("toy/input", i, self.key), {"secret": str(SECRET + i), **place})
            for i, (name, place) in enumerate(zip(names, places, strict=True))
        ]

    def synthesiser(self, shared: dict[str, np.ndarray], threads: int) -> ToySynthesiser:
        return ToySynthesiser(self.faults, self.witness_bytes)

    def synthesis_bytes(self, partition: Partition) -> int:
        return 1 << 20

    def check(self, shared: Any, backend: Any) -> None:
        if self.faults.bad_key:
            raise InvalidKey("key: point 3 is not on the curve")

    def prover(self, shared: dict[str, np.ndarray], backend: Any) -> ToyProver:
        bad = self.faults.bad_first_prover and self.faults.first("first-prover")
        if self.capacity is not None:
            if len(RESIDENT) >= self.capacity:
                raise OutOfMemory("the toy device has no room for another key")
            RESIDENT.append(self.key)
            self.faults.log(f"load {self.key.decode()}")
        cls = StagingToyProver if self.stages else ToyProver
        return cls(self, shared["key"].tobytes(), bad)

    def verify(self, proof: PartitionProof) -> bool:
        if self.verifies_in_python:
            self.faults.log(f"verify {proof.name} on {ray_node()}")
            if os.getpid() != self.owner and self.faults.strikes("kill_verifier", proof.name):
                os.kill(os.getpid(), signal.SIGKILL)
            if os.getpid() != self.owner:
                self.faults.stop("stop_verifier", proof.name)
        return proof.data == {
            "tag": self.tag(proof.name, proof.public, proof.data.get("challenge")),
            "challenge": proof.data.get("challenge"),
        } and (proof.data["challenge"] is not None) == self.in_barrier(proof.name)

    def in_barrier(self, name: str) -> bool:
        """Whether a partition takes part in the job's barrier."""
        return self.needs_barrier

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(self.verify(proof) for proof in proofs)

    def tag(self, name: str, public: tuple[int, ...], challenge: bytes | None) -> bytes:
        text = f"{self.key!r} {name} {public} {challenge!r}".encode()
        return hashlib.sha256(text).digest()


class SharingSystem(ToySystem):
    """Its provers want another one on their device, where its memory is known."""

    def provers_per_gpu(self, memory: Callable[[], int]) -> int:
        return 2 if memory() else 1


@dataclass
class ToySynthesiser:
    faults: Faults
    witness_bytes: int = 1 << 15

    def synthesise(self, partition: Partition) -> Witness:
        name = partition.name
        if "path" in partition.source:
            content_at(partition.source)
        if name in self.faults.bad_input:
            raise WitnessGenerationError(f"{name}: signal `x` is missing")
        if self.faults.strikes("kill_synthesiser", name):
            os.kill(os.getpid(), signal.SIGKILL)
        self.faults.stop("stop_synthesiser", name)
        words = np.array([int(partition.source["secret"]) % 2**32, partition.index], dtype=np.uint64)
        return Witness(name, {"witness": np.concatenate([words, np.zeros(self.witness_bytes // 8, np.uint64)])}, 0.001)


@dataclass
class ToyProver:
    system: ToySystem
    key: bytes
    bad: bool
    begun: int = 0
    """Partitions that it has begun."""

    def commit(self, partition: Partition, witness: Witness) -> bytes | None:
        if not self.system.needs_barrier:
            return None
        salt = os.urandom(8) if self.system.faults.unreproducible else b""
        return hashlib.sha256(self.key + partition.digest + witness.arrays["witness"].tobytes() + salt).digest()

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        faults, name = self.system.faults, partition.name
        if self.bad:
            faults.log("bad proof")
        while not self.bad and faults.bad_before_good > faults.logged("bad proof"):
            time.sleep(0.01)
        self.system.gate(partition)
        assert witness.name == name
        assert self.key == self.system.key
        if self.system.verifies_in_python:
            faults.log(f"prove {name} on {ray_node()}")
        time.sleep(faults.slow.get(name, 0))
        while name in faults.waits and not faults.logged(faults.waits[name]):
            with StepTimes().step("toy"):  # it is given up when its job is over
                time.sleep(0.02)
        most = faults.holds.get(process_name(), faults.holds.get("")) if faults.holds else None
        while most is not None and most <= self.begun and not (faults.folder / "go").exists():
            time.sleep(0.05)
        self.begun += 1
        if faults.strikes("outside", name):
            time.sleep(0.3)
        for kind, number in (("kill_actor", signal.SIGKILL), ("stop_actor", signal.SIGSTOP)):
            if faults.strikes(kind, name):
                os.kill(os.getppid(), number)
        if faults.strikes("kill_prover", name):
            os.kill(os.getpid(), signal.SIGKILL)
        faults.stop("stop_prover", name)
        faults.stop("stop_worker", process_name())
        if faults.strikes("out_of_memory", name):
            raise OutOfMemory("9 GiB")
        if faults.strikes("fault", name):
            raise RuntimeError(f"device lost while holding {partition.source['secret']}")
        public = (int(witness.arrays["witness"][1]) ** 2, self.nonce())
        tag = self.system.tag(name, public, challenge)
        if self.bad or name in faults.unsatisfied or faults.strikes("bad_proof", name):
            tag = bytes(32)
        times = StepTimes({"msm": 0.001}, to_device=witness.arrays["witness"].nbytes, to_host=128)
        return PartitionProof(name, partition.digest, public, {"tag": tag, "challenge": challenge}), times

    def nonce(self) -> int:
        """A number that a proof states beside its square: here the same for all."""
        return 0

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        if partition.name in self.system.faults.unsatisfied:
            raise UnsatisfiedWitness(f"{partition.name}: constraint 7 does not hold")

    def close(self) -> None:
        if self.system.capacity is not None:
            RESIDENT.remove(self.key)


class StagingToyProver(ToyProver):
    """Proves in three steps, each with a line in the log; faults happen at the start."""

    def stage(self, partition: Partition, witness: Witness) -> ToyStaged:
        self.system.faults.log(f"stage {partition.name}")
        return ToyStaged(self, partition, witness)


@dataclass
class ToyStaged:
    prover: ToyProver
    partition: Partition
    witness: Witness | None
    proof: tuple[PartitionProof, StepTimes] | None = None

    def start(self, challenge: bytes | None = None) -> ToyStaged:
        assert self.witness is not None, "released"
        self.prover.system.faults.log(f"start {self.partition.name}")
        self.proof = self.prover.prove_partition(self.partition, self.witness, challenge)
        self.prover.system.faults.log(f"started {self.partition.name}")
        return self

    def wait(self) -> None:
        return

    def result(self) -> tuple[PartitionProof, StepTimes]:
        assert self.proof is not None
        return self.proof

    def release(self) -> None:
        if self.witness is not None:
            self.prover.system.faults.log(f"release {self.partition.name}")
        self.witness = None
