"""The published machine: a prover that was measured and taken apart in public notes.

Source: the notes of the prover cuzk, which makes Filecoin's 32 GiB PoRep proofs (Groth16, ten partitions of 130 million
constraints each), in the repository filecoin-project/curio: extern/cuzk/cuzk-project.md, phases 5 to 12 and section 14;
and in its history c2-optimization-proposal-9.md, -10.md and -11.md.

A partition's way there: at most so many are in synthesis at once, over all proofs (a witness on one thread, then sparse
products on a pool of all threads). One of the workers that share the GPU behind a lock takes it, prepares it on a
thread and sums in G2 on a pool; what it took is unmapped in the background.

Every coefficient is `Given` by the notes, `Assumed`, or `Fitted`. `measured` has what the notes measured, and says what
of it was used to fit them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cluster.lab.simulator.engine import Load, Outcome, Sharing, simulate
from cluster.lab.simulator.hardware import Demand, Machine, Work
from cluster.policy import Fixed, Limits
from distprove.host.phases import Phase

GIB = 2**30
GB = 1e9


@dataclass(frozen=True)
class Given:
    """What the notes say. Seconds are of what runs alone; bytes."""

    cores: int = 96
    """AMD Threadripper PRO 7995WX: one socket, one NUMA node, two threads a core."""
    threads: int = 192
    cache: float = 12 * 32.0 * 2**20
    """Twelve domains of 32 MiB."""
    bandwidth: float = 333 * GB
    """Of the DDR5, in theory."""
    memory: int = (755 - 70) * GIB
    """Without what is always there: the proving key, the matrices, the process."""
    partitions: int = 10
    witness: float = 26.5
    """Each on one thread, ten at once."""
    preparation: float = 1.7
    """Splitting the scalars, on one thread."""
    kernels: float = 1.824
    """The GPU's, under the lock."""
    late: float = 0.733
    """Of those, what waits for the preparation: the additions (0.650) and the tails of the MSMs (0.083)."""
    slow_kernels: float = 3.3
    """The same kernels before phase 9, uploads among them."""
    buckets: float = 6e6
    """Bytes for each thread of the sum in G2."""
    synthesised: int = 16 * GIB
    """Of a partition: 12 GiB of products and 4 GiB of witness."""
    scratch: int = 37 * GIB
    """That proving a partition takes beside."""
    uploaded: float = 23.6 * GIB
    """To the GPU for a partition."""
    prepared: float = 27.0 * GIB
    """Moved to prepare a partition: 10 GiB of key read, 17 GiB of vectors written."""
    yielding: float = 0.994
    """Share of its time that a sparse product keeps while it yields: it loses 50 ms of some 8 s."""


@dataclass(frozen=True)
class Assumed:
    """What neither the notes nor the figures tell."""

    hyperthreads: float = 0.3
    rows: float = 1.2
    unmap: float = 20 * GB
    """So that two or three unmap at once if nothing bounds it, which the notes say."""
    noise: float = 0.03
    """As `Load` has it, and those above as `Machine` has them."""
    host: float = 0.1
    """Share of the GPU's time under the lock for which it needs a core."""
    spmv_bandwidth: float = 1.5 * GB
    """Of a thread of a sparse product."""
    spmv_stalls: float = 0.7
    preparation_stalls: float = 0.2
    sum_stalls: float = 0.3
    sum_cache: float = 1.0


@dataclass(frozen=True)
class Fitted:
    """What was fitted. Not constants of that machine: one form of contention stands for several that it has."""

    spmv: float = 70.7
    """Core-seconds of a partition's sparse products."""
    spmv_serial: float = 0.0417
    sum: float = 41.0
    """Core-seconds of a partition's sum in G2."""
    sum_serial: float = 0.0045
    sum_bandwidth: float = 1.03 * GB
    """Of a thread."""
    staging: float = 0.636
    """Seconds under the lock beside `Given.kernels`: memory for what is uploaded."""
    epilogue: float = 0.545
    """Seconds of a worker after the lock."""
    gpu_stalls: float = 0.962
    witness_bandwidth: float = 15.7 * GB
    """Of a thread; page faults and misses of translations count as traffic."""
    witness_stalls: float = 0.417


GIVEN, ASSUMED, FITTED = Given(), Assumed(), Fitted()


def machine() -> Machine:
    """The node, as the simulator takes it."""
    return Machine(
        "published",
        cores=GIVEN.cores,
        bandwidth=GIVEN.bandwidth,
        cache=GIVEN.cache,
        gpus=1,
        memory=GIVEN.memory,
        rows=ASSUMED.rows,
        unmap=ASSUMED.unmap,
        hyperthreads=ASSUMED.hyperthreads,
    )


def load() -> Load:
    """Its load, as the simulator takes it: a proof alone, on one worker."""
    held = GIVEN.kernels + FITTED.staging
    demands = {
        Work.SYNTHESIS: Demand(FITTED.witness_bandwidth, FITTED.witness_stalls),
        Work.SPMV: Demand(ASSUMED.spmv_bandwidth, ASSUMED.spmv_stalls, serial=FITTED.spmv_serial),
        Work.CPU_MSM: Demand(FITTED.sum_bandwidth, ASSUMED.sum_stalls, ASSUMED.sum_cache, serial=FITTED.sum_serial),
        Work.VERIFICATION: Demand(0.1 * GB, stalls=0.05),
        Work.GPU: Demand(GIVEN.uploaded / held, FITTED.gpu_stalls, host=ASSUMED.host),
        Work.FREE: Demand(0.5 * GB, stalls=0.2),
        Work.PREPARATION: Demand(GIVEN.prepared / GIVEN.preparation, ASSUMED.preparation_stalls),
    }
    return Load(
        jobs=1,
        partitions=GIVEN.partitions,
        parallel=GIVEN.partitions,
        proofs=3,
        synthesis=GIVEN.witness,
        spmv=FITTED.spmv,
        gpu=held,
        cpu_msm=FITTED.sum,
        verification=0.005,
        scratch=0,
        witness=GIVEN.synthesised,
        pool=GIVEN.threads,
        buckets=GIVEN.buckets,
        demands=demands,
        noise=ASSUMED.noise,
        in_flight=1,
        sharing=Sharing(GIVEN.preparation, GIVEN.late, FITTED.epilogue, GIVEN.scratch),
        whole_synthesis=True,
        closes=True,
        yielding={Work.SPMV: GIVEN.yielding},
    )


class Version(Enum):
    """Of the prover, by the phases of the notes."""

    PHASE_8 = 8
    """The GPU waits for uploads under the lock; nothing is staged."""
    PHASE_9 = 9
    """And 10 and 11."""
    PHASE_12 = 12
    """A worker takes the next partition before its sum in G2 is done."""


@dataclass(frozen=True)
class Setting:
    """How the notes ran it."""

    proofs: int
    jobs: int
    workers: int = 2
    """That share the GPU."""
    synthesis: int = 10
    """Partitions in synthesis at once, over all proofs."""
    pool: int | None = None
    """Threads of the sum in G2; None: all."""
    lane: int | None = None
    """Frees at once. Each partition has two; the notes bound each kind to one at a time."""
    yields: bool = False
    version: Version = Version.PHASE_9

    @property
    def policy(self) -> Fixed:
        pool = {} if self.pool is None else {Phase.CPU_MSM: self.pool}
        return Fixed("published", Limits({Phase.SYNTHESIS: self.synthesis, **pool}, None, self.lane, self.yields))

    def run(self) -> Outcome:
        """What the model gives for it."""
        work = load()
        assert work.sharing is not None, "the published load shares its GPU"
        sharing = replace(work.sharing, keeps=self.version is not Version.PHASE_12)
        gpu = GIVEN.slow_kernels if self.version is Version.PHASE_8 else work.gpu
        work = replace(work, proofs=self.proofs, jobs=self.jobs, in_flight=self.workers, sharing=sharing, gpu=gpu)
        return simulate(machine(), work, self.policy)
