"""`distprove bench groth16`: whole proofs, from a witness on the host to a proof on the host, with the key loaded.

One proof after the other gives the latency. A stream with two proofs in flight, as in a job, gives the throughput: the
upload and the host's part of one proof are hidden behind the kernels of another.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from actors.inflight import InFlight
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import JobFailed
from distprove.groth16.binfile import map_file
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16Prover
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from distprove.measure.results import Row
from distprove.measure.timing import Timing, measure
from distprove.system import Partition, PartitionProof, StepTimes, Witness
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve

TIMED = "witness in host memory to proof in host memory, key and matrices resident; wall time; of a stream, per proof"
CHECKED = "every timed proof is verified by the pairing, after the timing"

STREAMS = (1, 2)
"""Numbers of proofs in flight for which a stream is timed."""

PUBLIC_INPUTS = 2
"""Public inputs of a synthetic circuit. They and the constant take rows of the domain too, which is exactly full."""


def bench_synthetic(
    backend: Backend,
    curves: Iterable[Curve],
    sizes: Iterable[int],
    ones: float,
    repeats: int,
    progress: Callable[[str], None],
    stream: int = 0,
) -> list[Row]:
    """Time proofs of synthetic circuits that use all 2^size rows of their domain. `ones` is the share of 0/1 wires.

    `stream` is the number of proofs to time also as a stream, with 1 and with 2 in flight; 0 for none.
    """
    sizes = list(sizes)
    rows = []
    with tempfile.TemporaryDirectory(prefix="distprove-bench-") as folder:
        for curve in curves:
            for log_n in sizes:
                progress(f"Groth16 {curve.title} 2^{log_n}: circuit and development key")
                constraints = (1 << log_n) - PUBLIC_INPUTS - 1
                circuit = synthetic_circuit(
                    curve, constraints, backend, boolean_share=ones, public_inputs=PUBLIC_INPUTS
                )
                path = Path(folder) / f"{curve.name}-{log_n}.zkey"
                begin = time.perf_counter()
                setup(circuit.r1cs, insecure_dev=True, backend=backend, out=path)
                made = time.perf_counter() - begin
                progress(f"Groth16 {curve.title} 2^{log_n}: proofs")
                for row in _rows(backend, path, circuit.witness, f"synthetic, {ones:.0%} 0/1 wires", repeats, stream):
                    row.facts.update(constraints=constraints, setup_seconds=made)
                    rows.append(row)
                path.unlink()
    return rows


def bench_files(
    backend: Backend, zkey: Path, wtns: Path, repeats: int, progress: Callable[[str], None], stream: int = 0
) -> list[Row]:
    """Time proofs with a real circuit's key and one of its witnesses. Raises subclasses of InputError for bad files."""
    progress(f"Groth16 {zkey}")
    return _rows(backend, zkey, read_wtns(wtns).values, zkey.parent.name or zkey.stem, repeats, stream)


def _rows(backend: Backend, path: Path, values: HostArray, variant: str, repeats: int, stream: int) -> list[Row]:
    """The result row of single proofs, and the rows of streams of `stream` proofs if that is not 0."""
    zkey = read_zkey(path)
    vk = zkey.verification_key
    begin = time.perf_counter()
    prover = Groth16Prover({"zkey": map_file(path)}, backend)
    loaded = time.perf_counter() - begin
    witness = Witness("bench", {"witness": values})
    rows = []
    for in_flight in (0, *(STREAMS if stream else ())):
        count = stream if in_flight else 1
        timing, proofs, times = _time(prover, witness, backend, repeats, count, in_flight)
        if not all(verify(vk, proof.public, Groth16Proof.from_dict(proof.data)) for proof in proofs):
            raise JobFailed(f"a proof of {variant} does not verify")
        last = times[-repeats * count :]
        facts: dict[str, Any] = {"wires": zkey.n_vars, "load_seconds": loaded}
        if in_flight:
            facts.update(stream=stream, in_flight=in_flight, proofs_per_second=1 / timing.median)
        row = Row(
            what="groth16",
            curve=zkey.curve.title,
            log_n=zkey.domain_size.bit_length() - 1,
            variant=f"{variant}, stream of {stream}, {in_flight} in flight" if in_flight else variant,
            timing=timing,
            bytes_moved=path.stat().st_size + values.nbytes,
            to_device=last[-1].to_device,
            to_host=last[-1].to_host,
            steps={name: statistics.median(t.seconds[name] for t in last) for name in last[-1].seconds},
            facts=facts,
        )
        rows.append(row)
    return rows


def _time(
    prover: Groth16Prover, witness: Witness, backend: Backend, repeats: int, count: int, in_flight: int
) -> tuple[Timing, list[PartitionProof], list[StepTimes]]:
    """Time `count` proofs in a row: seconds a proof, all proofs, their times. `in_flight` 0 times `prove_partition`."""
    partition = Partition(0, witness.name, b"", {})
    line = InFlight()
    proofs: list[PartitionProof] = []
    times: list[StepTimes] = []

    def one(_: int) -> tuple[PartitionProof, StepTimes]:
        if in_flight == 0:
            return prover.prove_partition(partition, witness)
        proved: tuple[PartitionProof, StepTimes] = line.staged(prover, partition, witness).value
        return proved

    with ThreadPoolExecutor(max(1, in_flight)) as threads:

        def run(_: int) -> None:
            for proof, spent in map(one, range(count)) if in_flight == 0 else threads.map(one, range(count)):
                proofs.append(proof)
                times.append(spent)

        timing = measure(run, backend, repeats=repeats)
    return Timing(tuple(sample / count for sample in timing.samples)), proofs, times
