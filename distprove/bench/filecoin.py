"""`distprove bench filecoin`: Filecoin's partitions through the whole pipeline, from inputs in files to a proof that is
bound and verified. What a configuration takes is planned before anything large is made."""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster.record.timeline import read_timeline
from distprove import api
from distprove.circuits.matrices import Shape
from distprove.circuits.registry import CircuitEntry, find_circuit, random_inputs
from distprove.errors import UsageError
from distprove.groth16.memory import KeyShape, least_memory
from distprove.groth16.setup import setup
from distprove.groth16.system import LANES_BYTES
from distprove.groth16.vectors import NEARLY_ALL
from distprove.groth16.zkey import read_zkey
from distprove.host.cgroup import memory_available
from distprove.job import Job
from distprove.settings import ExecutorSettings
from kernels.host.units import format_bytes
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve

TIMED = (
    "wall time of a job of partitions, synthesis included: of a partition from the first one's synthesis to the last "
    "one's proof, over their number; workers started and key loaded before, shown apart; of a sector as many times as "
    "it has partitions"
)
CHECKED = "every proof by the pairing, as in any job, and the bound proof file once more"
_POINTS, _ELEMENT, _ENTRY = 96, 32, 8
"""Bytes of a point of G1 (two of them: of G2), of a field element, and of a matrix' entry in memory."""


@dataclass(frozen=True)
class MemoryPlan:
    """The least memory that a configuration takes, in bytes. What backends precompute comes on top where it fits."""

    constraints: int
    wires: int
    log_domain: int
    setup: int
    """Host memory while the key is made: the matrices of the circuit, all points."""
    key_file: int
    host: int
    """Host memory of a job beside the mapped key: a synthesis, and on the CPU a proof and the key's matrices."""
    device: int
    """Device memory without which a GPU makes no proof, everything else in host memory."""

    @classmethod
    def of(cls, entry: CircuitEntry, gpu: Backend | None) -> MemoryPlan:
        """The plan of a job on `gpu`, or with None on the CPU."""
        builder = entry.make()
        shape, on_gpu = builder.shape(), gpu is not None
        wires, nnz, rows = shape.inputs + shape.auxiliary, shape.nnz, shape.constraints + shape.inputs
        log_domain = (rows - 1).bit_length()
        domain = 1 << log_domain
        points = _POINTS * (4 * wires + shape.auxiliary + domain)
        matrices = _ENTRY * (nnz[0] + nnz[1] + domain)
        proof = _ELEMENT * (2 * wires + 3 * domain)
        # One matrix is gathered as int64 and joined while the others are there; then points follow from vectors.
        assembling, making = 28 * max(nnz), points + _ELEMENT * 4 * domain + 2 * _ENTRY * max(nnz)
        synthesis = 4 * _ELEMENT * wires + 8 * wires + LANES_BYTES
        return cls(
            constraints=shape.constraints,
            wires=wires,
            log_domain=log_domain,
            setup=_ENTRY * sum(nnz) + 16 * wires + max(assembling, making),
            key_file=points + (_ELEMENT + 12) * (nnz[0] + nnz[1]),
            host=synthesis + (0 if on_gpu else matrices + proof),
            device=0 if gpu is None else least_memory(key_shape(builder.curve, shape, monomial=False), gpu),
        )

    def check(self, what: str, folder: Path, device: int | None, *, makes_key: bool) -> None:
        """Raise UsageError, which names all that is short, unless this machine has what the plan takes."""
        needs = [("host memory for a job", self.host, memory_available())]
        if makes_key:
            needs.append(("host memory to make the key", self.setup, memory_available()))
            needs.append((f"disk in {folder} for the key", self.key_file, shutil.disk_usage(folder).free))
        if device is not None:
            needs.append(("device memory", self.device, device))
        short = [f"{format_bytes(n)} of {kind}, of which {format_bytes(h)} are free" for kind, n, h in needs if n > h]
        if short:
            raise UsageError(f"{what} does not fit this machine: it takes at least {'; and '.join(short)}")


def key_shape(curve: Curve, shape: Shape, *, monomial: bool) -> KeyShape:
    """The sizes of what a device loads of a circuit's key: a zkey, or with `monomial` one of `dev_key`."""
    rows, wires = shape.constraints + shape.inputs, shape.inputs + shape.auxiliary
    domain = 1 << (rows - 1).bit_length()
    occurring = shape.inputs + shape.a_auxiliary, 1 + shape.b_auxiliary
    a, b = (count if count < NEARLY_ALL * wires else wires for count in occurring)
    return KeyShape(
        curve,
        wires,
        domain,
        monomial,
        {"a": a, "b1": b, "b2": b, "c": shape.auxiliary, "h": domain - monomial},
        (shape.nnz[0] + shape.inputs, shape.nnz[1]),
        tuple(count for count in (a, b) if count < wires),
    )


@dataclass(frozen=True)
class FilecoinResult:
    """What one job of a configuration took. Seconds and bytes."""

    config: str
    partitions: int
    partitions_of_a_sector: int
    plan: MemoryPlan
    setup: dict[str, float]
    """Seconds by step of making the key; empty for one that was there."""
    wall: float
    """From the start of the workers to the bound proof."""
    seconds_a_partition: float
    synthesis: float
    """Median seconds of a partition's synthesis, which overlaps with proofs of others."""
    proof: float
    verification: float
    steps: dict[str, float]
    """Median seconds by step of a proof."""
    host_peak: int
    """Peak resident memory of this process."""
    device_peak: int
    device_planned: int = 0
    """Device memory that the key and a proof were planned to take; 0 where a worker planned it."""
    setup_device_peak: int = 0
    """Peak device memory while the key was made in the device's memory."""
    streamed: tuple[str, ...] = ()
    """Parts of the key that are in host memory and cross the link in every proof."""
    to_device: int = 0
    """Bytes that cross the link to the device in a proof, where that was counted."""

    @property
    def seconds_a_sector(self) -> float:
        return self.seconds_a_partition * self.partitions_of_a_sector

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "seconds_a_sector": self.seconds_a_sector}


def bench_filecoin(
    backend: Backend,
    config: str,
    partitions: int,
    executor: ExecutorSettings,
    folder: Path,
    tell: Callable[[str], None],
    *,
    zkey: Path | None = None,
    seed: int = 0,
) -> FilecoinResult:
    """Prove `partitions` random partitions of a configuration. `backend` makes the key, unless there is one at `zkey`,
    where it is left for the next time; None makes it in `folder`.

    Raises UsageError for a configuration that there is not, or that does not fit, and what `api.prove` raises.
    """
    name, on_gpu = f"filecoin/{config}", executor.gpus != 0
    entry, made = find_circuit(name), random_inputs(name, seed)
    tell(f"{config}: memory plan")
    plan = MemoryPlan.of(entry, backend if on_gpu else None)
    key = zkey or folder / "key.zkey"
    device = backend.info().memory_budget if on_gpu else None
    plan.check(config, key.parent, device, makes_key=not key.exists())

    seconds: dict[str, float] = {}
    if not key.exists():
        tell(f"{config}: circuit of {plan.constraints} constraints")
        began = time.perf_counter()
        r1cs = entry.make().build().r1cs
        seconds["circuit"] = time.perf_counter() - began
        tell(f"{config}: development key of 2^{plan.log_domain}, {format_bytes(plan.key_file)}")
        seconds.update(setup(r1cs, insecure_dev=True, backend=backend, out=key, threads=executor.threads or 1).seconds)
        del r1cs
    if read_zkey(key).n_vars != plan.wires:
        raise UsageError(f"{key} is not a key of {config}")
    tell(f"{config}: inputs of {partitions} partitions")
    inputs = folder / "inputs"
    inputs.mkdir()
    for number in range(partitions):
        (inputs / f"{number}.json").write_text(json.dumps({n: [*map(str, v)] for n, v in made(number).items()}))

    tell(f"{config}: job of {partitions} partitions")
    run = folder / "run"
    job = Job.from_options("groth16", zkey=key, circuit=name, inputs=[inputs], executor=executor)
    began = time.perf_counter()
    report = api.prove(job, out=run).report
    wall = time.perf_counter() - began
    api.verify(run / "proof.msgpack", trust_own_key=True)

    spans = [s for s in read_timeline(run)[-1].spans if s.partition is not None and s.outcome == "ok"]
    ends = [span.end for span in spans if span.stage == "prove"]
    proven = report["partitions"]

    def median(of: str) -> float:
        return float(statistics.median(partition[of] for partition in proven))

    return FilecoinResult(
        config=config,
        partitions=partitions,
        partitions_of_a_sector=entry.partitions,
        plan=plan,
        setup=seconds,
        wall=wall,
        seconds_a_partition=(max(ends) - min(span.start for span in spans)) / partitions,
        synthesis=median("synthesise_seconds"),
        proof=median("prove_seconds"),
        verification=median("verify_seconds"),
        steps={step: statistics.median(p["steps"][step] for p in proven) for step in proven[0]["steps"]},
        host_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        device_peak=max(partition["device_peak"] for partition in proven),
    )
