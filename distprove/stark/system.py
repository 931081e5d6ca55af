"""The STARK as a proof system for the driver, with the steps commit, barrier and prove of `distprove.system`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UnsatisfiedWitness, UsageError
from distprove.formats.owncode import own_faults
from distprove.host.beside import in_background
from distprove.stark.air.check import check_partitions
from distprove.stark.barrier import Commitment
from distprove.stark.engine import FRI, Heights, engine_named, engine_of
from distprove.stark.example import cut, fixed_columns, on_device, partition_trace, read_inputs
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import key_content, key_of
from distprove.stark.memory import key_bytes
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS
from distprove.stark.options import MANY, StarkOptions
from distprove.stark.plan import CONTEXT_BYTES, SMALL_BYTES, leaves_room, usable
from distprove.stark.program import Cut, Fits, JobProgram, Program, whole_trace
from distprove.stark.programs import load_program
from distprove.stark.provable import check_made, check_program, check_queries
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import make_key
from distprove.stark.whole_job import check_output
from distprove.steps import Steps, measured
from distprove.system import MemoryUse, Partition, PartitionId, PartitionProof, StepTimes, Witness
from kernels.errors import OutOfMemory
from kernels.interface.backend import Backend

SharedFiles = dict[str, NDArray[np.uint8]]

MAX_DIAGNOSED_CELLS = 1 << 26
"""Maximum size of a trace that is searched for a violated constraint: half a gigabyte on the host, some seconds."""


@dataclass(frozen=True)
class JobContext:
    """What of a partition's job its synthesiser and prover need beside the key (`Partition.context`)."""

    program: JobProgram = field(repr=False)
    partitions: int
    """Number of partitions in the job."""
    log_heights: Sequence[int | None] | None
    """log2 of each table's rows in this partition, if known before its trace is made."""
    challenge: bytes | None = None
    """The job's challenge, where the plan tells it."""


class StarkSystem:
    """Implements `ProofSystem` of `distprove.system`, with `DrawsChallenge`, `PlansChallenge`,
    `ChecksCommitments`, `VerifiesJob`, `Explains`, `HasKeyFile`, `HasOutput` and `SharesGpus`.
    """

    name = "stark"
    engine = FRI
    verifies_in_python = True
    one_proof = False
    """Whether a job ends in one proof."""

    def __init__(self, program: Program, params: Any, partitions: int, cut: Cut | None = None) -> None:
        """`cut` is the job's, if it was cut already. Raises UsageError for less than one partition."""
        if partitions < 1:
            raise UsageError(f"a job has at least one partition, not {partitions}")
        self.program, self.params, self.partitions = program, params, partitions
        self._cut = cut
        self.log_heights = None if cut is None else cut.log_heights
        """Heights of every partition's tables, if cutting the job has told them."""

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: a partition's slice, which may be large and secret, goes to its own prover alone. They
        verify partitions and no job, so that they need no output."""
        return {name: value for name, value in vars(self).items() if name not in ("_plan", "_made")} | {"_cut": None}

    @classmethod
    def from_options(cls, options: StarkOptions) -> StarkSystem:
        """Make the system of a job under the class's own engine; `systems` chooses the class.

        Raises UsageError for a bad program or arguments, or an unreachable target.
        """
        program = load_program(options.program, options.arguments)
        choose = _choosing(program, options)
        made: Cut | None = None
        partitions = options.partitions
        with own_faults(program.__module__):
            program.check_job(partitions)
            if partitions is None or program.cuts_itself:
                # A guest that runs to be cut lets go of the interpreter's lock: its tables are compiled meanwhile.
                compiled = in_background(partial(_compiled, program, options, choose))
                made = cls.cut_job(program, partitions, _fitting(options, compiled))
                partitions = len(made.slices)
                compiled.result()
            elif cls.one_proof:
                made = cls.cut_job(program, partitions)
            if made is not None:
                made = cls.level(program, made, partial(choose, queries=options.queries), options)
            known = None if made is None else made.log_heights
            params = cls.parameters(choose, program, partitions, known, options)
            check_program(program, params, partitions, known, one_proof=cls.one_proof)
        return cls(program, params, partitions, made)

    @classmethod
    def parameters(
        cls, choose: Callable[..., Any], program: Program, partitions: int, known: Heights | None, options: StarkOptions
    ) -> Any:
        """The parameters of a job of so many partitions. `choose` is of `_choosing`; `known` are the heights of all
        partitions where the cut has told them. Raises UsageError."""
        return choose(partitions, queries=options.queries, known=known)

    @classmethod
    def check_job(cls, options: StarkOptions) -> None:
        """Raise UsageError or InputError for a job that `from_options` would refuse, where that is known before it is
        cut, which may run a guest or read a large file."""
        load_program(options.program, options.arguments).check_job(options.partitions)
        _check_kind(replace(options, arguments=tuple(sorted(options.arguments.items()))))  # type: ignore[arg-type]

    @cached_property
    def key(self) -> Any:
        return key_of(self.program, self.params)

    @cached_property
    def verifier(self) -> StarkVerifier:
        return StarkVerifier(self.key, self.program)

    @property
    def needs_barrier(self) -> bool:
        needed: bool = self.key.needs_barrier
        return needed

    def key_digest(self) -> bytes:
        digest: bytes = self.key.digest
        return digest

    def describe(self) -> dict[str, Any]:
        return {
            "program": self.program.name,
            "arguments": dict(self.program.arguments),
            "tables": self._tables(),
            **self.params.to_record(),
        }

    def _tables(self) -> list[dict[str, Any]]:
        return [
            {"name": t.name, "columns": t.main_width, "aux_columns": t.aux_width, "degree": t.degree}
            for t in self.key.tables
        ]

    def shared(self) -> SharedFiles:
        return {}

    def key_bytes(self) -> int:
        """Predicted bytes of a loaded key: the preprocessed columns, extended and committed to. A device that is short
        of memory keeps less."""
        return key_bytes(self.key, streamed=False)

    def provers_per_gpu(self, memory: Callable[[], int]) -> int:
        """Two where partitions are many and small, else one: the GPU computes for one prover while the other launches
        kernels and draws challenges. With heights that the program does not tell there is one."""
        heights = self._known_heights() if self.partitions >= MANY else ()
        fits = partial(engine_of(self.params).fits, self.key, heights)
        return 2 if heights and fits(SMALL_BYTES) and fits(half_of(memory())) else 1

    def plan(self) -> list[Partition]:
        """The program's slices as partitions. Cached, since a program may read a whole file for them."""
        return self._plan

    @cached_property
    def _plan(self) -> list[Partition]:
        slices, program, count = self._made.slices, JobProgram(self.program), self.partitions
        heights, challenge = self._known_heights(), self.planned_challenge()
        return [
            Partition(
                *(index, part.name, self._partition_digest(index, part.name), part.source),
                context=JobContext(program, count, heights[index] if heights else None, challenge),
            )
            for index, part in enumerate(slices)
        ]

    def _known_heights(self) -> Sequence[Sequence[int | None]]:
        """Heights of every partition's tables, if the program tells them before a trace is made; else empty."""
        try:
            with own_faults(self.program.__module__):
                return self.log_heights or self.program.log_heights(self.partitions)
        except UsageError:
            return ()

    @cached_property
    def _made(self) -> Cut:
        return self._cut or self.cut_job(self.program, self.partitions)

    @staticmethod
    def level(program: Program, made: Cut, choose: Callable[..., Any], options: StarkOptions) -> Cut:
        """Change a job's cut before parameters are chosen, which `choose` does: here not at all."""
        return made

    @staticmethod
    def cut_job(program: Program, partitions: int | None, fits: Fits = lambda heights: True) -> Cut:
        """Cut a job as `distprove.stark.example.cut` does."""
        return cut(program, partitions, fits)

    def output(self) -> bytes | None:
        """The job's output, which its program makes when it cuts the job."""
        return self._made.output if self.verifier.has_output else None

    def synthesiser(self, shared: SharedFiles, threads: int) -> StarkSynthesiser:
        return StarkSynthesiser()

    def prover(self, shared: SharedFiles, backend: Backend) -> StarkProver:
        return StarkProver(self, backend)

    def draw_challenge(self, commitments: Sequence[bytes]) -> bytes:
        """The job's challenge, from the commitments that `commit` returned for all partitions, in order."""
        parsed = [Commitment.from_bytes(c) for c in commitments]
        challenge: bytes = engine_of(self.params).job_challenge(self.key, parsed, self.output())
        return challenge

    def planned_challenge(self) -> bytes | None:
        return None

    def check_commitments(self, commitments: Sequence[bytes]) -> None:
        parsed = [Commitment.from_bytes(c) for c in commitments]
        engine_of(self.params).check_commitments(self.key, parsed)
        if self.verifier.has_output:
            check_output(self.key, parsed[0].public, self.output())

    def made_under(self, proof: PartitionProof) -> tuple[bytes, bytes]:
        """The commitment and the challenge in a partition's proof. Raises FormatError."""
        parsed = engine_of(self.params).part(proof.data, self.key, proof.name)
        return parsed.commitment(proof.name, proof.public).to_bytes(), parsed.challenge

    def verify(self, proof: PartitionProof) -> bool:
        return self.verifier.verify(proof)

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return self.verifier.verify_batch(proofs)

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        output = self.output()
        (self.verifier if output is None else self.verifier.with_output(output)).verify_job(proofs)

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        return self.verifier.explain(proofs)

    def verification_key(self) -> dict[str, Any]:
        """The map that names the key. A verifier makes the key again from the program, or is given it, and compares the
        digest."""
        named: dict[str, Any] = self.key.named()
        return named

    def key_file(self) -> bytes:
        return key_content(self.key)

    def _partition_digest(self, index: int, name: str) -> bytes:
        encoded = name.encode()
        parts = (b"distprove stark partition 1\0", self.key_digest(), index.to_bytes(8, "little"), encoded)
        return hashlib.sha256(b"".join(parts)).digest()


def _choosing(program: Program, options: StarkOptions) -> Callable[..., Any]:
    """`choose_parameters` of the job's engine for a program, with the settings of a job."""
    for_circuits = {"log_final": LOG_FINAL_IN_CIRCUITS} if options.one_proof else {}
    return partial(
        engine_named(options.engine).choose,
        program,
        **for_circuits,
        prefer=options.prefer,
        blowup=options.blowup,
        security=options.security,
        grinding=options.grinding,
        hash=options.hash,
    )


def _fitting(options: StarkOptions, compiled: Future[Any]) -> Fits:
    """Tells whether partitions of some heights fit a job's memory, under the parameters that such a job would have.
    `compiled` is the key of a job of one partition."""
    engine = engine_named(options.engine)

    def fits(heights: Sequence[Sequence[int | None]]) -> bool:
        # Queries that are given are for any heights, and so are the parameters that come with them.
        key = compiled.result()
        own = key if options.queries else engine.laid_out(key, heights, options.prefer)
        return engine.fits(own, heights)

    return fits


def _compiled(program: Program, options: StarkOptions, choose: Callable[..., Any]) -> Any:
    """The key of a job of one partition without the root of its preprocessed columns. A cut that asks for it hides its
    own errors' messages, and these have no inputs to quote."""
    with own_faults(program.__module__):
        return engine_named(options.engine).compile_key(program, choose(1, queries=options.queries or 1))


@lru_cache(maxsize=256)
def _check_kind(options: StarkOptions) -> None:
    """Check the parameters, sizes and tables of a job. Its arguments are pairs, to be hashed: many jobs of a service
    have the same. Raises UsageError, AirError."""
    program = load_program(options.program, dict(options.arguments))
    choose = _choosing(program, options)
    if program.cuts_itself or (options.partitions is None and len(program.counts) > 1):
        key = _compiled(program, options, choose)
        if options.queries is not None:
            check_queries(key)
        return
    count = options.partitions or program.counts[0]
    check_program(program, choose(count, queries=options.queries), count, one_proof=options.one_proof)


class StarkSynthesiser:
    """Reads a partition's inputs. The prover makes the trace from them."""

    def synthesise(self, partition: Partition) -> Witness:
        begin = time.perf_counter()
        arrays = read_inputs(context_of(partition).program.program, partition.source)
        return Witness(partition.name, arrays, time.perf_counter() - begin)


class StarkProver:
    """Proves partitions with a proving key on one backend, and keeps those that are committed and not yet proven."""

    def __init__(self, system: StarkSystem, backend: Backend) -> None:
        self._backend = backend
        self._key = self._make_key(system)
        if self._key.key.digest != system.key_digest():
            raise UsageError("this prover's key is not the job's: are two versions of the program in use?")
        self._kept: dict[PartitionId, Any] = {}
        """Partitions that are committed and not yet proven."""

    def commit(self, partition: Partition, witness: Witness) -> bytes:
        """Commit to the main trace, and keep the commitment for the proof if there is room."""
        alone = context_of(partition).partitions == 1
        committed = self._commit(partition, witness, Steps(), more=not alone)
        if alone or self._can_keep(committed):
            self._kept[partition.id] = committed
        made: bytes = committed.commitment.to_bytes()
        return made

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        """Prove under the job's challenge. A partition that was not kept, or whose plan does not fit beside the kept
        ones, is committed again, with the same root; without a barrier it is committed here.
        """
        challenge = context_of(partition).challenge if challenge is None else challenge
        if challenge is None:
            raise UsageError("a STARK partition is proven under its job's challenge")
        with measured(self._backend) as steps:
            committed = self._kept.pop(partition.id, None)
            if committed is not None and not (
                self._can_prove(committed) and self._complete(committed, partition, witness, steps)
            ):
                committed = None
            if committed is None:
                committed = self._commit(partition, witness, steps)
            self._backend.watch_memory()
            record = self._prove(committed, challenge, steps)
        made = PartitionProof(partition.name, partition.digest, committed.commitment.public, record)
        proving = self._used()
        peak = None if committed.peak is None or proving is None else max(committed.peak, proving)
        steps.times.memory = MemoryUse(committed.plan.name, committed.plan.peak, peak)
        return made, steps.times

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Raise UnsatisfiedWitness, which names rule and row, when the trace itself violates a rule of its table.

        The message holds no values, because a trace is secret. A trace that is too large is not searched.
        """
        program = self._program(partition)
        with own_faults(program.__module__, secret=True):
            inputs = on_device(witness.arrays, self._backend)
            trace = whole_trace(program, inputs, self._key.fixed_columns, self._backend)
        if sum(0 if columns is None else int(columns.size) for columns in trace.main) > MAX_DIAGNOSED_CELLS:
            return
        checked = partition_trace(program, trace, self._backend)
        failures = check_partitions(program.definitions, [checked], preprocessed=fixed_columns(program), most=1)
        if failures:
            first = failures[0]
            if first.row is not None:
                where = f"{first.table}: {first.rule}, row {first.row}" + (f", at {first.source}" * bool(first.source))
            else:
                where = f"{first.rule}, {first.place}" if first.place else first.rule
            raise UnsatisfiedWitness(f"partition {partition.name}: the trace breaks a rule: {where}")

    def holds(self, partition: PartitionId) -> bool:
        return partition in self._kept

    def drop(self, job: str | None = None, partitions: Container[PartitionId] | None = None) -> bool:
        dropped = [
            kept for kept in self._kept if job in (None, kept.job) and (partitions is None or kept in partitions)
        ]
        for kept in dropped:
            del self._kept[kept]
        return bool(dropped)

    def close(self) -> None:
        self.drop()

    @property
    def _budget(self) -> int:
        return usable(self._backend.info().memory_budget)

    def _held(self) -> int:
        """Bytes that the kept, committed partitions hold."""
        return sum(c.nbytes for c in self._kept.values())

    def _commit(self, partition: Partition, witness: Witness, steps: Steps, *, more: bool = False) -> Any:
        """Commit to a partition beside the kept ones or, if it does not fit there, after making room."""
        while True:
            try:
                return self._commit_beside(partition, witness, steps, more)
            except OutOfMemory:
                if not self._make_room():
                    raise

    # -- what an engine decides -------------------------------------------------------------------------------------

    def _make_key(self, system: StarkSystem) -> Any:
        return make_key(system.program, system.params, self._backend)

    def _prove(self, committed: Any, challenge: bytes, steps: Steps) -> dict[str, Any]:
        record: dict[str, Any] = prove(self._key, committed, challenge, steps).to_record()
        return record

    def _can_keep(self, committed: Any) -> bool:
        """Whether another partition fits beside this one while it waits."""
        return leaves_room(committed.shape, committed.plan, self._budget, self._held(), key_streamed=self._key.streamed)

    def _can_prove(self, committed: Any) -> bool:
        """Whether a kept partition can be proven beside the others."""
        return self._held() + int(committed.plan.peak) <= self._budget

    def _complete(self, committed: Any, partition: Partition, witness: Witness, steps: Steps) -> bool:
        """Make again what was not kept of a partition beside its commitment; whether it can be proven now."""
        return True

    def _make_room(self) -> bool:
        """Free memory that kept partitions hold; whether there was any. Those that are dropped are committed again."""
        held = bool(self._kept)
        self._kept.clear()
        return held

    def _commit_beside(self, partition: Partition, witness: Witness, steps: Steps, more: bool) -> Any:
        self._backend.watch_memory()
        expected = context_of(partition).log_heights
        told: dict[str, Any] = {"expected": expected, "program": self._program(partition)}
        committed = commit(self._key, partition.name, witness.arrays, steps, held=self._held(), more=more, **told)
        committed.peak = self._used()
        check_made(self._key.key, committed.shape.log_heights, expected)
        return committed

    def _program(self, partition: Partition) -> Program:
        """The program of the partition's job, with the key's compiled tables."""
        program = context_of(partition).program.program
        program.compiled_as(self._key.program)
        return program

    def _used(self) -> int | None:
        """Peak memory in bytes since `watch_memory`, without that of waiting partitions; None if it is not counted."""
        peak = self._backend.memory_peak()
        return None if peak is None else peak - self._held()


def half_of(memory: int) -> int:
    """The bytes that plans may use of half a GPU's memory."""
    return usable(memory // 2 - CONTEXT_BYTES)


def context_of(partition: Partition) -> JobContext:
    """The partition's context, which the system's plan gave it."""
    context = partition.context
    assert isinstance(context, JobContext), "the system's plan made the partition"
    return context
