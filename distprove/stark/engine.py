"""The engines, FRI and the multilinear one, as far as keys, proofs and their verification differ. No prover is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from distprove.errors import FormatError
from distprove.stark.barrier import Commitment
from distprove.stark.heights import LogHeights
from distprove.stark.key_front import KeyFront
from distprove.stark.params import ENGINES
from distprove.stark.plan import MemoryPlan
from distprove.stark.program import Program

FRI, MULTILINEAR = ENGINES
AnyKey = KeyFront[Any, Any, Any]
Heights = Sequence[Sequence[int | None]]


@dataclass(frozen=True)
class Engine:
    """The functions of one engine. A key, parameters, a proof are of the engine's own types."""

    name: str
    parameters: type
    key: type
    choose: Callable[..., Any]
    """`choose_parameters` of the engine's security module."""
    compile_key: Callable[[Program, Any], Any]
    """Makes the key of a program without the root of preprocessed columns."""
    security: Callable[[Any, Heights], Any]
    """The report of a job's weakest partition."""
    heights_fit: Callable[[Any, LogHeights], bool]
    proof_bytes: Callable[[Any, LogHeights], int]
    """Mean size of a partition's proof in bytes."""
    most_proof_bytes: Callable[[Any, LogHeights], int]
    """Upper bound of that size."""
    cells: Callable[[Any, LogHeights], int]
    """Cells of the columns that a partition commits to, in field elements."""
    plans: Callable[[Any, LogHeights], Sequence[MemoryPlan]]
    """The memory plans of a partition, the fastest first."""
    least_memory: Callable[[Any, LogHeights], int]
    """Bytes that a partition takes on a device, as lean as it can be proven."""
    laid_out: Callable[[Any, Heights, str], Any]
    """The key with the parameters on which a job's memory depends, as `choose` gives them to a job of these heights,
    for speed or for size. Queries are not chosen."""
    fits: Callable[..., bool]
    """Whether partitions of these heights take no more memory each than a job's should."""
    parse: Callable[[Any, Any, str], tuple[Any, Any]]
    """Reads a proof's record under a key: the proof and its shape. Raises FormatError."""
    verify: Callable[[Any, str, Sequence[int], Any, Any], None]
    part: Callable[[Any, Any, str], Any]
    """Reads of a proof's record what ties it to its job. Raises FormatError."""
    heights_in: Callable[[Any, Any, str], LogHeights]
    verify_job: Callable[[Any, Sequence[str], Sequence[Sequence[int]], Sequence[Any], bytes | None], None]
    check_commitments: Callable[[Any, Sequence[Commitment]], Any]
    job_challenge: Callable[[Any, Sequence[Commitment], bytes | None], bytes]
    """Takes a key, the commitments of all partitions and the job's output."""


def engine_named(name: str) -> Engine:
    """The engine of this name."""
    return _multilinear() if name == MULTILINEAR else _fri()


def engine_of(value: Any) -> Engine:
    """The engine of a key or of parameters."""
    return next(e for e in map(engine_named, ENGINES) if isinstance(value, (e.key, e.parameters)))


def engine_of_record(record: Any) -> Engine:
    """The engine of the record of a key, or of the map that names one. Raises FormatError."""
    name = record.get("engine", FRI) if isinstance(record, dict) else FRI
    if name not in ENGINES or (name == FRI and isinstance(record, dict) and "engine" in record):
        raise FormatError(f"a key of the engine {name!r}, which this distprove does not have")
    return engine_named(name)


@cache
def _fri() -> Engine:
    from distprove.stark import proof, security, shape, verifier
    from distprove.stark.params import Parameters
    from distprove.stark.plan import fits, plans
    from distprove.stark.verifying_key import VerifyingKey, compile_program

    return Engine(
        FRI,
        Parameters,
        VerifyingKey,
        security.choose_parameters,
        compile_program,
        security.job_security,
        shape.heights_fit,
        lambda key, heights: proof.content_bytes(shape.ProofShape(key, heights)),
        lambda key, heights: proof.content_bytes(shape.ProofShape(key, heights), at_most=True),
        lambda key, heights: sum(sum(t.widths) << t.log_height for t in shape.ProofShape(key, heights).tables),
        lambda key, heights: plans(shape.ProofShape(key, heights), key_streamed=False),
        lambda key, heights: plans(shape.ProofShape(key, heights), key_streamed=True)[0].peak,
        lambda key, heights, prefer: key,  # the blow-up alone, which does not follow from heights
        fits,
        proof.StarkProof.from_record,
        verifier.verify,
        proof.JobPart.of_record,
        proof.heights_in,
        verifier.verify_job,
        verifier.check_commitments,
        verifier.RULES.challenge,
    )


@cache
def _multilinear() -> Engine:
    from distprove.stark.multilinear import proof, security, shape, verifier
    from distprove.stark.multilinear.key import MultilinearKey, compile_key
    from distprove.stark.multilinear.memory import fits, plans
    from distprove.stark.multilinear.params import Parameters

    return Engine(
        MULTILINEAR,
        Parameters,
        MultilinearKey,
        security.choose_parameters,
        compile_key,
        security.job_security,
        shape.heights_fit,
        lambda key, heights: proof.content_bytes(shape.Shape(key, heights)),
        lambda key, heights: proof.content_bytes(shape.Shape(key, heights), at_most=True),
        lambda key, heights: shape.Shape(key, heights).cells,
        lambda key, heights: plans(shape.Shape(key, heights)),
        lambda key, heights: plans(shape.Shape(key, heights))[-1].peak,
        security.laid_out,
        fits,
        proof.MultilinearProof.from_record,
        verifier.verify,
        proof.MultilinearPart.of_record,
        proof.heights_in,
        verifier.verify_job,
        verifier.check_commitments,
        verifier.RULES.challenge,
    )
