"""`distprove bench stark`: whole proofs of one partition on one warm prover, with key, kernels and tables loaded.

Each proof is measured twice: as in production, for the wall time; and with a wait for the device after every stage, for
the times of the stages.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof, JobFailed
from distprove.formats import canonical
from distprove.measure.results import Row
from distprove.measure.stark_limits import stage_limits
from distprove.measure.timing import measure
from distprove.stark.barrier import job_challenge
from distprove.stark.example import cut
from distprove.stark.params import Parameters
from distprove.stark.program import Program
from distprove.stark.proof import StarkProof
from distprove.stark.prover import Committed, commit, prove
from distprove.stark.proving_key import ProvingKey, make_key
from distprove.stark.security import job_security
from distprove.stark.shape import ProofShape
from distprove.stark.verifier import verify, verify_job
from distprove.steps import Steps
from kernels.interface.backend import Backend

FIELD = "Goldilocks"
TIMED = (
    "inputs in host memory to proof in host memory, the trace made on the way, key and kernels resident; wall time; "
    "stages with the device waited for after each"
)
CHECKED = "a proof of each kind of run is verified, as a partition and as a job; that is timed too"


def bench_program(
    backend: Backend, program: Program, params: Parameters, repeats: int, progress: Callable[[str], None]
) -> list[Row]:
    """Time proofs of a job of one partition; gives one row. Raises JobFailed for a proof that does not verify."""
    progress(f"{program.name}: key")
    begin = time.perf_counter()
    key = make_key(program, params, backend)
    loaded = time.perf_counter() - begin
    whole = cut(program, 1)
    piece = whole.slices[0]
    inputs = program.inputs(piece.source)
    made: list[tuple[Committed, StarkProof]] = []

    def run(_: int) -> None:
        made.clear()  # before the next is made: two partitions' tables may not fit
        made.append(_prove(key, piece.name, inputs, Steps()))

    progress(f"{program.name}: proofs")
    timing = measure(run, backend, repeats=repeats)
    _check(key, *made[0], whole.output)
    before = backend.traffic.snapshot()
    run(0)
    moved = backend.traffic.since(before)

    progress(f"{program.name}: stages")
    stages: list[dict[str, float]] = []
    for _ in range(repeats):
        made.clear()
        steps = Steps(settle=backend.synchronize)
        made.append(_prove(key, piece.name, inputs, steps))
        stages.append(steps.seconds)
    committed, proof = made[0]
    verified = [_check(key, committed, proof, whole.output) for _ in range(repeats)]

    shape = committed.shape
    extended = extension_bytes(shape)
    security = job_security(key.key, [shape.log_heights])
    rows, columns = 1 << max(shape.heights), sum(sum(t.widths) for t in shape.tables)
    return [
        Row(
            what=program.name,
            curve=FIELD,
            log_n=max(shape.heights),
            variant=f"{columns} columns, blow-up {params.blowup}",
            timing=timing,
            bytes_moved=extended,
            to_device=moved.to_device,
            to_host=moved.to_host,
            steps={name: statistics.median(s[name] for s in stages) for name in stages[0]},
            facts={
                "arguments": dict(program.arguments),
                "tables": [
                    {"name": t.name, "rows": 1 << height, "columns": t.main_width, "aux_columns": t.aux_width}
                    for t, height in zip(shape.airs, shape.heights, strict=True)
                ],
                "rows": rows,
                "columns": columns,
                "extension_bytes": extended,
                "pcie_share": (moved.to_device + moved.to_host) / extended,
                "proof_bytes": len(canonical.encode(proof.to_record())),
                "verify_seconds": statistics.median(wall for wall, _ in verified),
                "verify_cpu_seconds": statistics.median(cpu for _, cpu in verified),
                "load_seconds": loaded,
                "limits": {name: asdict(limit) for name, limit in stage_limits(shape, backend).items()},
                "security": security.to_record(),
            },
        )
    ]


def extension_bytes(shape: ProofShape) -> int:
    """Bytes of all extensions of a proof: every column of every round, over all cosets."""
    return sum(8 * sum(t.widths) << (t.log_height + shape.key.params.log_blowup) for t in shape.tables)


def _prove(
    key: ProvingKey, name: str, inputs: Mapping[str, NDArray[np.uint64]], steps: Steps
) -> tuple[Committed, StarkProof]:
    committed = commit(key, name, inputs, steps)
    challenge = job_challenge(key.key.digest, [committed.commitment])
    return committed, prove(key, committed, challenge, steps)


def _check(key: ProvingKey, committed: Committed, proof: StarkProof, output: bytes | None) -> tuple[float, float]:
    """Verify a proof read from its record: (wall seconds, CPU seconds). Raises JobFailed."""
    name, public = committed.commitment.name, committed.commitment.public
    record = proof.to_record()
    begin, used = time.perf_counter(), time.process_time()
    try:
        parsed, shape = StarkProof.from_record(record, key.key, name)
        verify(key.key, name, public, parsed, shape)
        verify_job(key.key, [name], [public], [parsed], output)
    except InvalidProof as error:
        raise JobFailed(f"a proof does not verify: {error}") from None
    return time.perf_counter() - begin, time.process_time() - used
