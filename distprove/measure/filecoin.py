"""`distprove bench filecoin`: partitions of Filecoin's circuits under a key that the device made and keeps.

No file is read, and nothing of the circuit's size is in the host's memory: what a proof takes is seen without what a
disk or a job around it adds. Witnesses are made on the device, and proofs are verified beside the next one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from actors.prover import switching_quickly
from distprove.circuits.circuit import WitnessProgram
from distprove.circuits.matrices import Shape
from distprove.circuits.registry import find_circuit, random_inputs
from distprove.errors import InvalidProof, UsageError
from distprove.groth16.device_key import dev_key
from distprove.groth16.inputs import Inputs
from distprove.groth16.keys import VerificationKey
from distprove.groth16.memory import KeyShape, plan_memory
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import PendingGroth16, StagedWitness
from distprove.groth16.resident import ResidentKey, load_key, picked
from distprove.groth16.templated import TemplatedQap
from distprove.groth16.vectors import NEARLY_ALL
from distprove.groth16.verifier import verify
from distprove.host.cgroup import memory_available
from distprove.host.memory import most_resident
from distprove.steps import Steps
from kernels.host.units import format_bytes
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve

TIMED = (
    "wall time of partitions one after another, witnesses included: from the first one's inputs, parsed, to the last "
    "one's verified proof, over their number; the key made and loaded before, shown apart; steps one by one, each with "
    "the device idle before it"
)
CHECKED = "every proof by the pairing, under public values taken from the inputs"
ROUNDS = 3
"""Measurements of a step, of which the median is taken, after one that is not counted."""
_POINTS, _ELEMENT, _ENTRY = 96, 32, 8
"""Bytes of a point of G1 (two of them: of G2), of a field element, and of a matrix' entry in memory."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class HostMemory:
    """The least host memory that a configuration takes where a key and proofs are made on the CPU, in bytes."""

    constraints: int
    wires: int
    log_domain: int
    setup: int
    """While the key is made: the matrices of the circuit, all points."""
    host: int
    """While proofs are made, beside the key's points: a synthesis, a proof, the key's matrices."""

    @classmethod
    def of(cls, shape: Shape) -> HostMemory:
        wires, nnz, rows = shape.inputs + shape.auxiliary, shape.nnz, shape.constraints + shape.inputs
        log_domain = (rows - 1).bit_length()
        domain = 1 << log_domain
        points = _POINTS * (4 * wires + shape.auxiliary + domain)
        # One matrix is gathered as int64 and joined while the others are there; then points follow from vectors.
        assembling, making = 28 * max(nnz), points + _ELEMENT * 4 * domain + 2 * _ENTRY * max(nnz)
        synthesis = 4 * _ELEMENT * wires + 8 * wires
        return cls(
            constraints=shape.constraints,
            wires=wires,
            log_domain=log_domain,
            setup=_ENTRY * sum(nnz) + 16 * wires + max(assembling, making),
            host=synthesis + _ENTRY * (nnz[0] + nnz[1] + domain) + _ELEMENT * (2 * wires + 3 * domain),
        )


def key_shape(curve: Curve, shape: Shape) -> KeyShape:
    """The sizes of what a device loads of a key that `dev_key` makes of a circuit, in the monomial basis."""
    rows, wires = shape.constraints + shape.inputs, shape.inputs + shape.auxiliary
    domain = 1 << (rows - 1).bit_length()
    occurring = shape.inputs + shape.a_auxiliary, 1 + shape.b_auxiliary
    a, b = (count if count < NEARLY_ALL * wires else wires for count in occurring)
    return KeyShape(
        curve,
        wires,
        domain,
        True,
        {"a": a, "b1": b, "b2": b, "c": shape.auxiliary, "h": domain - 1},
        (shape.nnz[0] + shape.inputs, shape.nnz[1]),
        tuple(count for count in (a, b) if count < wires),
    )


@dataclass(frozen=True)
class FilecoinResult:
    """What partitions of a configuration took. Seconds and bytes."""

    config: str
    partitions: int
    partitions_of_a_sector: int
    plan: HostMemory
    setup: dict[str, float]
    """Seconds by step of making the key and the inputs."""
    wall: float
    """Seconds from the first partition's inputs to the last one's verified proof."""
    seconds_a_partition: float
    synthesis: float
    """Seconds of a partition's witness, alone; it overlaps with proofs of others."""
    proof: float
    verification: float
    steps: dict[str, float]
    """Median seconds by step of a proof."""
    host_peak: int
    """Peak resident memory of this process."""
    device_peak: int
    device_planned: int
    """Device memory that the key and a proof were planned to take."""
    setup_device_peak: int
    """Peak device memory while the key was made."""
    streamed: tuple[str, ...]
    """Parts of the key that are in host memory and cross the link in every proof."""
    to_device: int
    """Bytes that cross the link to the device in a proof."""

    @property
    def seconds_a_sector(self) -> float:
        return self.seconds_a_partition * self.partitions_of_a_sector

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "seconds_a_sector": self.seconds_a_sector}


def bench_filecoin(
    backend: Backend, config: str, partitions: int, tell: Callable[[str], None], *, seed: int = 0
) -> FilecoinResult:
    """Prove `partitions` random partitions of a configuration under a key in the memory of `backend`.

    Raises UsageError for a configuration that there is not, or that this machine's memory does not hold, OutOfMemory
    for one that the device's does not, and InvalidProof.
    """
    name = f"filecoin/{config}"
    entry, made = find_circuit(name), random_inputs(name, seed)
    tell(f"{config}: circuit")
    setup = Steps()
    with setup("circuit"):
        builder = entry.make()
        program = builder.witness_program()
    plan, shape = HostMemory.of(builder.shape()), key_shape(builder.curve, builder.shape())
    streamed = plan_memory(shape, backend).streamed
    host = plan.setup + plan.host if backend.name == "cpu" else shape.points_bytes if streamed else 0
    if host > memory_available():
        free = format_bytes(memory_available())
        raise UsageError(f"{config} takes some {format_bytes(host)} of this machine's memory, of which {free} are free")
    where = "in host memory" if streamed else "on the device"
    tell(f"{config}: development key of 2^{plan.log_domain}, its points {where}")
    backend.watch_memory()
    with setup("key"):
        key = dev_key(TemplatedQap.from_system(builder.system()), backend, monomial=True)
    with setup("load"):
        resident, vk = load_key(key, backend), key.verification_key
    setup_peak = backend.memory_peak() or 0
    tell(f"{config}: {resident.plan}")
    del key, builder
    tell(f"{config}: inputs of {partitions} partitions")
    with setup("inputs"):
        inputs = [made(number) for number in range(partitions)]

    tell(f"{config}: {partitions} partitions")
    _proven(resident, vk, program, inputs[:1])  # what is made once: kernels, tables, memory
    backend.watch_memory()
    before, began = backend.traffic.snapshot(), time.perf_counter()
    verification = _proven(resident, vk, program, inputs)
    wall, moved = time.perf_counter() - began, backend.traffic.since(before)
    peak = backend.memory_peak() or 0

    tell(f"{config}: steps")
    steps = _steps(backend, resident, program, inputs[0])
    return FilecoinResult(
        config=config,
        partitions=partitions,
        partitions_of_a_sector=entry.partitions,
        plan=plan,
        setup=setup.seconds,
        wall=wall,
        seconds_a_partition=wall / partitions,
        synthesis=steps.pop("witness"),
        proof=sum(steps.values()),
        verification=verification,
        steps=steps,
        host_peak=most_resident(),
        device_peak=peak,
        device_planned=resident.plan.peak,
        setup_device_peak=setup_peak,
        streamed=tuple(sorted(resident.plan.streamed)),
        to_device=moved.to_device // partitions,
    )


def _proven(
    key: ResidentKey, vk: VerificationKey, program: WitnessProgram, inputs: list[dict[str, list[int]]]
) -> float:
    """Prove partitions, of which two are in flight at once, and return the median seconds of a verification. Another
    one's witness is made meanwhile, as in a job."""
    checks: list[Future[float]] = []

    def check(pending: PendingGroth16, public: list[int]) -> None:
        proof, _ = pending.result()
        checks.append(verifier.submit(_verified, vk, public, proof))

    def staged(one: dict[str, list[int]]) -> StagedWitness:
        return StagedWitness(key, partial(program.witness_from, encoded=program.encode(one)))

    with (
        switching_quickly(),  # as in a worker's process
        ThreadPoolExecutor(max_workers=1) as verifier,
        ThreadPoolExecutor(max_workers=1) as ahead,
    ):
        before: tuple[PendingGroth16, list[int]] | None = None
        following = ahead.submit(staged, inputs[0])
        for number, one in enumerate(inputs, 1):
            current = following.result()
            if number < len(inputs):
                following = ahead.submit(staged, inputs[number])
            pending = current.start()
            current.release()
            if before is not None:
                check(*before)
            before = pending, _public(program, one)
        if before is not None:
            check(*before)
        return float(statistics.median(done.result() for done in checks))


def _public(program: WitnessProgram, inputs: dict[str, list[int]]) -> list[int]:
    """The public values of a circuit without outputs, from its inputs and not from what the device made of them."""
    return [value for signal in program.inputs[: program.public_inputs] for value in inputs[signal.name]]


def _verified(vk: VerificationKey, public: list[int], proof: Groth16Proof) -> float:
    began = time.perf_counter()
    if not verify(vk, public, proof):
        raise InvalidProof("a proof of the benchmark does not verify")
    return time.perf_counter() - began


def _steps(backend: Backend, key: ResidentKey, program: WitnessProgram, inputs: Inputs) -> dict[str, float]:
    """Median seconds of the witness and of each step of its proof, one by one."""
    sparse, groups = backend.sparse, backend.groups
    seconds: dict[str, float] = {}

    def step(name: str, work: Callable[[], Result]) -> Result:
        result = work()
        times = []
        for _ in range(ROUNDS):
            del result
            backend.synchronize()
            began = time.perf_counter()
            result = work()
            backend.synchronize()
            times.append(time.perf_counter() - began)
        seconds[name] = statistics.median(times)
        return result

    # What a step needs of the one before is dropped with `kept`, so that a partition of 2^27 fits.
    encoded = program.encode(inputs)
    kept = {"w": step("witness", lambda: program.witness_from(backend, encoded))}

    def products() -> list[Array]:
        return [sparse.spmv(matrix, kept["w"], standard_form=True) for matrix in (key.matrix_a, key.matrix_b)]

    kept["w_a"], kept["w_b"] = step("pick", lambda: [picked(key, pick, kept["w"]) for pick in (key.pick_a, key.pick_b)])
    step("A", lambda: groups.msm(key.points["a"], kept["w_a"]).result())
    step("B in G1", lambda: groups.msm(key.points["b1"], kept["w_b"]).result())
    step("B in G2", lambda: groups.msm(key.points["b2"], kept["w_b"]).result())
    step("L", lambda: groups.msm(key.points["c"], kept["w"][key.n_public + 1 :]).result())
    made = step("products", products)
    kept.clear()
    kept["h"] = step("quotient", lambda: key.quotient(*made))  # of other vectors the second time, at the same cost
    made.clear()
    step("H", lambda: groups.msm(key.points["h"], kept["h"][: key.points["h"].n]).result())
    return seconds
