"""`distprove bench stark`: whole proofs of one partition on one warm prover, with key, kernels and tables loaded.

Each proof is measured twice: as in production, for the wall time; and with a wait for the device after every stage, for
the times of the stages.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof, JobFailed
from distprove.formats import canonical
from distprove.measure.results import Row
from distprove.measure.stark_limits import stage_limits
from distprove.measure.timing import measure
from distprove.stark import prover as fri
from distprove.stark.engine import FRI, engine_of
from distprove.stark.example import cut
from distprove.stark.multilinear import prover as multilinear
from distprove.stark.multilinear.memory import stack_bytes
from distprove.stark.multilinear.proving_key import make_key as make_multilinear_key
from distprove.stark.multilinear.shape import Shape
from distprove.stark.program import Program
from distprove.stark.proving_key import make_key
from distprove.stark.shape import ProofShape
from distprove.steps import Steps
from kernels.interface.backend import Backend

FIELD = "Goldilocks"
TIMED = (
    "inputs in host memory to proof in host memory, the trace made on the way, key and kernels resident; wall time; "
    "stages with the device waited for after each"
)
CHECKED = "a proof of each kind of run is verified, as a partition and as a job; that is timed too"


@dataclass(frozen=True)
class Bench:
    """What differs between the engines here: their provers, and what a proof's shape tells."""

    make_key: Callable[..., Any]
    commit: Callable[..., Any]
    prove: Callable[..., Any]
    extended: Callable[[Any], int]
    """Bytes of all codewords."""
    columns: Callable[[Any], int]
    """Columns of all tables, with those that a proof adds."""
    facts: Callable[[Any, Backend], dict[str, Any]]
    """Facts of a row that the engine alone has."""


def extension_bytes(shape: ProofShape) -> int:
    """Bytes of all extensions of a proof: every column of every round, over all cosets."""
    return sum(8 * sum(t.widths) << (t.log_height + shape.key.params.log_blowup) for t in shape.tables)


def codeword_bytes(shape: Shape) -> int:
    """Bytes of the main stack's codewords and of WHIR's later ones."""
    return (stack_bytes(shape.main) << shape.key.params.log_blowup) + sum(24 << r.log_domain for r in shape.rounds[1:])


def _fri_facts(shape: ProofShape, backend: Backend) -> dict[str, Any]:
    tables = zip(shape.airs, shape.heights, strict=True)
    return {
        "tables": [
            {"name": t.name, "rows": 1 << height, "columns": t.main_width, "aux_columns": t.aux_width}
            for t, height in tables
        ],
        "limits": {name: asdict(limit) for name, limit in stage_limits(shape, backend).items()},
    }


def _multilinear_facts(shape: Shape, backend: Backend) -> dict[str, Any]:
    tables = zip(shape.tables, shape.heights, strict=True)
    stack = {"width": shape.main.width, "log_height": shape.main.log_height}
    return {
        "engine": "multilinear",
        "tables": [{"name": t.name, "rows": 1 << height, "columns": t.main_width} for t, height in tables],
        "stack": stack,
        "limits": {},
    }


BENCHES = {
    "fri": Bench(
        make_key, fri.commit, fri.prove, extension_bytes, lambda s: sum(sum(t.widths) for t in s.tables), _fri_facts
    ),
    "multilinear": Bench(
        make_multilinear_key,
        multilinear.commit,
        multilinear.prove,
        codeword_bytes,
        lambda s: sum(t.columns for t in s.tables),
        _multilinear_facts,
    ),
}


def bench_program(
    backend: Backend, program: Program, params: Any, repeats: int, progress: Callable[[str], None]
) -> list[Row]:
    """Time proofs of a job of one partition; gives one row. Raises JobFailed for a proof that does not verify."""
    engine = engine_of(params)
    bench = BENCHES[engine.name]
    progress(f"{program.name}: key")
    begin = time.perf_counter()
    key = bench.make_key(program, params, backend)
    loaded = time.perf_counter() - begin
    whole = cut(program, 1)
    piece = whole.slices[0]
    inputs = program.inputs(piece.source)
    made: list[tuple[Any, Any]] = []

    used: list[float] = []

    def run(_: int) -> None:
        made.clear()  # before the next is made: two partitions' tables may not fit
        begun = time.process_time()
        made.append(_prove(bench, key, piece.name, inputs, Steps()))
        used.append(time.process_time() - begun)

    progress(f"{program.name}: proofs")
    timing = measure(run, backend, repeats=repeats)
    cpu_seconds = statistics.median(used[-repeats:])
    _check(key, *made[0], whole.output)
    before = backend.traffic.snapshot()
    run(0)
    moved = backend.traffic.since(before)

    progress(f"{program.name}: stages")
    stages: list[dict[str, float]] = []
    for _ in range(repeats):
        made.clear()
        steps = Steps(settle=backend.synchronize)
        made.append(_prove(bench, key, piece.name, inputs, steps))
        stages.append(steps.seconds)
    committed, proof = made[0]
    verified = [_check(key, committed, proof, whole.output) for _ in range(repeats)]

    shape = committed.shape
    extended, columns, rows = bench.extended(shape), bench.columns(shape), 1 << max(shape.heights)
    security = engine.security(key.key, [shape.log_heights])
    named = "" if engine.name == FRI else f"{engine.name}, "
    return [
        Row(
            what=program.name,
            curve=FIELD,
            log_n=max(shape.heights),
            variant=f"{named}{columns} columns, blow-up {params.blowup}",
            timing=timing,
            bytes_moved=extended,
            to_device=moved.to_device,
            to_host=moved.to_host,
            steps={name: statistics.median(s[name] for s in stages) for name in stages[0]},
            facts={
                "arguments": dict(program.arguments),
                "rows": rows,
                "columns": columns,
                "extension_bytes": extended,
                "pcie_share": (moved.to_device + moved.to_host) / extended,
                "proof_bytes": len(canonical.encode(proof.to_record())),
                "verify_seconds": statistics.median(wall for wall, _ in verified),
                "verify_cpu_seconds": statistics.median(cpu for _, cpu in verified),
                "load_seconds": loaded,
                "cpu_seconds": cpu_seconds,
                "plan": committed.plan.name,
                "planned_bytes": committed.plan.peak,
                **bench.facts(shape, backend),
                "security": security.to_record(),
            },
        )
    ]


def _prove(
    bench: Bench, key: Any, name: str, inputs: Mapping[str, NDArray[np.uint64]], steps: Steps
) -> tuple[Any, Any]:
    committed = bench.commit(key, name, inputs, steps)
    challenge = engine_of(key.key).job_challenge(key.key, [committed.commitment], None)
    return committed, bench.prove(key, committed, challenge, steps)


def _check(key: Any, committed: Any, proof: Any, output: bytes | None) -> tuple[float, float]:
    """Verify a proof read from its record: (wall seconds, CPU seconds). Raises JobFailed."""
    engine, name, public = engine_of(key.key), committed.commitment.name, committed.commitment.public
    record = proof.to_record()
    begin, used = time.perf_counter(), time.process_time()
    try:
        parsed, shape = engine.parse(record, key.key, name)
        engine.verify(key.key, name, public, parsed, shape)
        engine.verify_job(key.key, [name], [public], [engine.part(record, key.key, name)], output)
    except InvalidProof as error:
        raise JobFailed(f"a proof does not verify: {error}") from None
    return time.perf_counter() - begin, time.process_time() - used
