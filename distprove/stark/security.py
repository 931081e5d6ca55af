"""Soundness of a proof: the proven error of every round, and the parameters that reach a target.

A round's error bounds the probability that one of its challenges makes a false statement accepted; a proof has as many
bits as its weakest round. Nothing here depends on the conjectures up to capacity, which are refuted. Two regimes are
proven: unique decoding, and list decoding up to the Johnson bound with a multiplicity m that trades queries against the
other rounds; the better one counts. The formulas are those of the Ethereum Foundation's soundcalc:

* proximity gaps: Ben-Sasson, Carmon, Haboeck, Kopparty, Saraf, On proximity gaps for Reed-Solomon codes (eprint
  2025/2055), theorem 4.2 (Johnson); Ben-Sasson, Carmon, Ishai, Kopparty, Saraf, Proximity gaps for Reed-Solomon codes
  (eprint 2020/654), theorem 6.1 (unique decoding);
* constraints (ALI) and out-of-domain point (DEEP): Haboeck, A summary on the FRI low degree test (eprint 2022/1216),
  theorem 8;
* LogUp: Haboeck, Multivariate lookups based on logarithmic derivatives (eprint 2022/1530), lemma 5; a tuple's
  fingerprint is a polynomial in beta;
* anchors, and why partitions compose: docs/stark-protocol.md, section 12, derives every row.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from distprove.errors import UsageError
from distprove.options import SECURITY_BITS
from distprove.stark.air.definition import Scope
from distprove.stark.field import P
from distprove.stark.output import MAX_OUTPUT_TUPLES
from distprove.stark.params import BLOWUPS, MAX_BLOWUP, Parameters, fri_schedule
from distprove.stark.program import Program
from distprove.stark.shape import ProofShape, heights_fit
from distprove.stark.trace_shape import misfit_of
from distprove.stark.verifying_key import VerifyingKey, compile_program
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash

FIELD_BITS = 3 * math.log2(P)
POINTS = 2
"""Maximum number of out-of-domain points at which a column is opened."""
MULTIPLICITIES = range(3, 1001)
MAX_QUERIES = 1024
QUERIES = "FRI queries"
ANCHOR, GLOBAL_BUSES, LOCAL_BUSES = "anchors", "LogUp, global buses", "LogUp, local buses"


@dataclass(frozen=True)
class BusLoad:
    """The load of the buses of one scope, on which the error of LogUp depends."""

    tuples: int = 0
    """Number of tuples: interactions times rows, over all tables, plus the statement's: the boundary's, and as many as
    an output may have."""
    width: int = 0
    """Number of elements of a tuple on the widest bus."""

    @property
    def bits(self) -> float:
        """Bits of security against the buses of one fixed trace balancing by chance. `tuples` must not be 0."""
        return FIELD_BITS - math.log2(self.tuples * (self.width + 2))


@dataclass(frozen=True)
class Statistics:
    """The facts about a proof and its job on which the errors depend, beside the parameters."""

    log_heights: tuple[int, ...]
    constraints: int
    """Number of constraints of all tables."""
    degree: int
    """Maximum degree of a constraint."""
    columns: int
    """Powers of gamma in the batched codeword: every column once for each point it is opened at, and the anchors."""
    chunks: int = 1
    """Maximum number of quotient chunks of a table."""
    transitions: int = 0
    """Maximum number of transition selectors, of degree 1, in a product of a constraint."""
    local: BusLoad = BusLoad()
    """Load of the local buses of the partition."""
    shared: BusLoad = BusLoad()
    """Load of the global buses over all partitions of the job."""
    anchored: int = 0
    """Maximum number of main columns that one anchor combines; 0 without global buses, and so without anchors."""
    partitions: int = 1
    """Number of partitions of the job."""


@dataclass(frozen=True)
class Round:
    """One round of the protocol with its bits of security and the formula of its error."""

    name: str
    bits: float
    formula: str


@dataclass(frozen=True)
class Regime:
    """A decoding regime: the distance up to which a committed word is decoded, and the number of candidates within it.

    A candidate is a polynomial of degree n, not n - 1, on the N = n / rate points of the domain: the quotients of DEEP
    have degree n - 1. So candidates are counted at the rate (n + 1) / N, while the quotients' own code has rate n / N.
    """

    name: str
    multiplicity: int | None
    """The multiplicity m of the Johnson bound; None for unique decoding."""

    def radius(self, rate: float, log_height: int) -> float:
        """The maximum distance that is decoded, as a fraction of the domain."""
        if self.multiplicity is None:
            return (1 - _rate_of_candidates(rate, log_height)) / 2
        return 1 - math.sqrt(rate) * (1 + 0.5 / self.multiplicity)

    def list_size(self, rate: float, log_height: int) -> float:
        """Maximum number of candidates within the radius; infinite if the Johnson bound of their rate is smaller."""
        if self.multiplicity is None:
            return 1.0
        root = math.sqrt(_rate_of_candidates(rate, log_height))
        excess = (1 - self.radius(rate, log_height)) / root - 1
        return math.inf if excess <= 0 else (0.5 / excess + 0.5) / root

    def gap_bits(self, rate: float, log_height: int, functions: int, radius: float) -> float:
        """Bits of security against a batch of `functions` words, by powers of a challenge, being closer to the code
        than the words themselves."""
        n = 2.0**log_height / rate
        if self.multiplicity is None:
            error = n
        else:
            # Theorem 4.2 defines its m by the gap to the Johnson bound, sqrt(rate)/m: about twice the m of `radius`.
            m, root = 2 * self.multiplicity + 0.5, math.sqrt(rate)
            error = (2 * m**5 + 3 * m * radius * rate) * n / (3 * rate * root) + m / root
        return FIELD_BITS - math.log2(error * max(1, functions - 1))


def _rate_of_candidates(rate: float, log_height: int) -> float:
    return rate * (1 + 2.0**-log_height)


UNIQUE_DECODING = Regime("unique decoding", None)


def johnson(multiplicity: int) -> Regime:
    return Regime(f"Johnson, m = {multiplicity}", multiplicity)


def statistics_of_job(key: VerifyingKey, partitions: Sequence[Sequence[int | None]]) -> list[Statistics]:
    """The statistics of a job's partitions, which share global buses and anchors, once for all that have the same
    heights."""
    shared = _shared_load(key, partitions)
    kinds = dict.fromkeys(map(tuple, partitions))
    return [_statistics(ProofShape(key, heights), len(partitions), shared) for heights in kinds]


def _statistics(shape: ProofShape, partitions: int, shared: BusLoad) -> Statistics:
    tables = shape.airs
    return Statistics(
        shape.heights,
        sum(len(t.constraints.outputs) for t in tables),
        max(t.degree for t in tables),
        shape.weights,
        max(t.quotient_chunks for t in tables),
        max(t.transitions for t in tables),
        _bus_load(shape.key, "local", [shape.log_heights]),
        shared,
        max(sum(tables[i].main_width for i in here) for here in shape.tables_by_height.values())
        if shape.anchors
        else 0,
        partitions,
    )


def _shared_load(key: VerifyingKey, partitions: Sequence[Sequence[int | None]]) -> BusLoad:
    boundary = key.statement.boundary_size(len(partitions))
    boundary += MAX_OUTPUT_TUPLES if key.statement.output is not None else 0
    return _bus_load(key, "global", partitions, boundary)


def _bus_load(
    key: VerifyingKey, scope: Scope, partitions: Sequence[Sequence[int | None]], boundary: int = 0
) -> BusLoad:
    uses = [sum(use.bus.scope == scope for use in t.uses) for t in key.tables]
    kinds = Counter(map(tuple, partitions)).items()
    loads = ((n * count, height) for kind, n in kinds for count, height in zip(uses, kind, strict=True))
    tuples = sum(count << height for count, height in loads if height is not None)
    return BusLoad(tuples + boundary, max((width for _, own, width in key.buses if own == scope), default=0))


def rounds(params: Parameters, stats: Statistics, regime: Regime) -> list[Round]:
    """Every round of a proof, with its bits under `regime`."""
    rate = 1 / params.blowup
    log_height = max(stats.log_heights)
    n = 2.0**log_height
    steps, _ = fri_schedule(params, stats.log_heights)
    usable = math.log2(float(P) ** 3 - n - n / rate)  # points outside of the domains
    radius, size = regime.radius(rate, log_height), regime.list_size(rate, log_height)
    pairs = size * (size - 1) / 2
    out = []
    if stats.anchored and pairs:
        error = stats.partitions * pairs * (stats.anchored + n)
        out.append(
            Round(ANCHOR, usable - math.log2(error), "partitions * L (L - 1)/2 * (columns + n) / (|F| - n - n/rho)")
        )
    if stats.shared.tuples:
        out.append(Round(GLOBAL_BUSES, stats.shared.bits, "tuples of the job * (width + 2) / |F|"))
    if stats.local.tuples and stats.anchored:
        out.append(Round(LOCAL_BUSES, stats.local.bits, "tuples * (width + 2) / |F|"))
    elif stats.local.tuples:
        out.append(Round(LOCAL_BUSES, stats.local.bits - math.log2(size), "L * tuples * (width + 2) / |F|"))
    constraints = math.log2(size * stats.constraints)
    out.append(Round("constraints", FIELD_BITS - constraints, "L * constraints / |F|"))
    deep = max(
        stats.degree * (n + POINTS - 1) + n - 1,
        stats.degree * n + stats.transitions,
        n * (stats.chunks + 1),
    )
    formula = "L * max(d (n + 1) + n - 1, d n + t, n (D + 1)) / (|F| - n - n/rho)"
    out.append(Round("DEEP", usable - math.log2(size * deep), formula))
    out.append(
        Round("batching", regime.gap_bits(rate, log_height, stats.columns, radius), "proximity gap, powers of gamma")
    )
    for i, step in enumerate(steps, start=1):
        words = (1 << step.log_arity) + step.mixes  # one more where shorter tables enter
        bits = regime.gap_bits(rate, step.log_reached, words, radius)
        out.append(Round(f"FRI fold {i}", bits, "proximity gap, powers of beta"))
    queries = -math.log2(1 - radius) * params.queries + params.grinding_bits
    out.append(Round(QUERIES, queries, "(1 - radius)^queries * 2^-grinding"))
    out.append(Round("hash", params.tree_hash.collision_bits, f"collisions of {params.tree_hash.label}"))
    return out


@lru_cache(maxsize=256)
def best_rounds(params: Parameters, stats: Statistics) -> tuple[Regime, tuple[Round, ...]]:
    """The regime under which the weakest round has the most bits, and its rounds.

    A higher multiplicity gives the queries more bits and every other round fewer, so the best one is where they cross.
    Results are cached, since the partitions of a job have few different heights.
    """

    def weakest(regime: Regime) -> float:
        return min(r.bits for r in rounds(params, stats, regime))

    def queries_suffice(multiplicity: int) -> bool:
        found = rounds(params, stats, johnson(multiplicity))
        return next(r.bits for r in found if r.name == QUERIES) >= min(r.bits for r in found if r.name != QUERIES)

    crossing = bisect_left(MULTIPLICITIES, True, key=queries_suffice)
    near = [MULTIPLICITIES[i] for i in (crossing - 1, crossing) if 0 <= i < len(MULTIPLICITIES)]
    regime = max([UNIQUE_DECODING, *(johnson(m) for m in near)], key=weakest)
    return regime, tuple(rounds(params, stats, regime))


def security_bits(shape: ProofShape) -> float:
    """Proven bits of security of a proof of this shape that is a whole job by itself."""
    stats = _statistics(shape, 1, _shared_load(shape.key, [shape.log_heights]))
    return min(r.bits for r in best_rounds(shape.key.params, stats)[1])


def queries_under(
    regime: Regime, stats: Statistics, log_blowup: int, security_bits: int, grinding_bits: int
) -> int | None:
    """The minimum number of queries that reaches `security_bits` in every round under `regime`; None if none does."""
    free = Parameters(log_blowup, MAX_QUERIES, grinding_bits, security_bits)
    if min(r.bits for r in rounds(free, stats, regime) if r.name != QUERIES) < security_bits:
        return None
    of_one = -math.log2(1 - regime.radius(2.0**-log_blowup, max(stats.log_heights)))
    if of_one <= 0:
        return None
    needed = max(1, math.ceil((security_bits - grinding_bits) / of_one))
    return needed if needed <= MAX_QUERIES else None


def choose_queries(stats: Statistics, log_blowup: int, security_bits: int, grinding_bits: int) -> int:
    """The minimum number of queries that reaches `security_bits` in every round. Raises UsageError if none does."""
    found = [
        queries_under(regime, stats, log_blowup, security_bits, grinding_bits)
        for regime in (UNIQUE_DECODING, *(johnson(m) for m in MULTIPLICITIES))
    ]
    enough = [queries for queries in found if queries is not None]
    if not enough:
        raise UsageError(
            f"no number of queries gives {count_of(security_bits, 'proven bit')} for "
            f"2^{max(stats.log_heights)} rows and "
            f"{count_of(stats.columns, 'opened column')} over a field of {FIELD_BITS:.0f} bits"
        )
    return min(enough)


def choose_parameters(
    program: Program,
    partitions: int,
    *,
    prefer: str = "speed",
    blowup: int | None = None,
    security: int = SECURITY_BITS,
    grinding: int = 16,
    queries: int | None = None,
    known: Sequence[Sequence[int | None]] | None = None,
    hash: str = TreeHash.KECCAK.value,
) -> Parameters:
    """Choose parameters under which every partition's proof, and the job's, has `security` proven bits.

    `prefer` chooses the blow-up where none is given and the tables need no larger one, and bears on nothing else: a
    program's own arguments may too.
    `queries` is for programs that do not tell the heights of their tables; proofs with too few queries do not verify.
    `known` are the heights of all partitions where `Program.log_heights` does not tell them. Raises UsageError.
    """
    if prefer not in BLOWUPS:
        raise UsageError(f"prefer must be {' or '.join(BLOWUPS)}, not {prefer!r}")
    if blowup is None:
        needed_by = [BLOWUPS[prefer], *(table.quotient_chunks for table in program.compiled_tables)]
        blowup = min(max(needed_by), MAX_BLOWUP)  # tables that need more are refused by name
    log_blowup = blowup.bit_length() - 1
    if blowup != 1 << log_blowup:
        raise UsageError(f"blowup must be 2, 4 or 8, not {blowup}")
    names = [TreeHash.KECCAK.value, TreeHash.POSEIDON2.value]
    if hash not in names:
        raise UsageError(f"hash must be {' or '.join(names)}, not {hash!r}")
    params = Parameters(log_blowup, queries or 1, grinding, security, tree_hash=TreeHash(hash))
    if queries is not None:
        return params
    key = compile_program(program, params)
    heights = [tuple(h) for h in told_heights(program, partitions, known)]
    if (bad := next((h for h in dict.fromkeys(heights) if not heights_fit(key, h)), None)) is not None:
        raise UsageError(f"program {program.name}: log_heights, or its cut, is wrong: {misfit_of(key, bad)}")
    for stats in statistics_of_job(key, heights):
        # To see that they suffice is some hundred times cheaper than to choose; a job may have hundreds of shapes.
        if min(r.bits for r in best_rounds(params, stats)[1]) < security:
            needed = choose_queries(stats, log_blowup, security, grinding)
            params = replace(params, queries=max(params.queries, needed))
    return params


def told_heights(
    program: Program, partitions: int, known: Sequence[Sequence[int | None]] | None
) -> Sequence[Sequence[int | None]]:
    """The heights that a program tells beforehand, or else those that its cut has told. Raises UsageError for neither.

    The former come first, so that where a program gives upper bounds, its key does not depend on what it was run on.
    """
    try:
        return program.log_heights(partitions)
    except UsageError:
        if known is None:
            raise
        return known


@dataclass(frozen=True)
class SecurityReport:
    """The security of a proof, for people and reports."""

    params: Parameters
    statistics: Statistics
    regime: Regime
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, params: Parameters, stats: Statistics) -> SecurityReport:
        regime, found = best_rounds(params, stats)
        return cls(params, stats, regime, found)

    @property
    def weakest(self) -> Round:
        """The round with the fewest bits."""
        return min(self.rounds, key=lambda r: r.bits)

    @property
    def bits(self) -> float:
        """Bits of the weakest round."""
        return self.weakest.bits

    @property
    def unique_decoding_bits(self) -> float:
        """Bits of the weakest round under unique decoding alone: the oldest theorems, which give the fewest bits."""
        return min(r.bits for r in rounds(self.params, self.statistics, UNIQUE_DECODING))

    @property
    def unique_decoding_queries(self) -> int | None:
        """Number of queries that would reach the target under unique decoding alone; None if none does."""
        params = self.params
        return queries_under(
            UNIQUE_DECODING,
            self.statistics,
            params.log_blowup,
            params.security_bits,
            params.grinding_bits,
        )

    def to_record(self) -> dict[str, Any]:
        return {
            "bits": two_places(self.bits),
            "weakest": self.weakest.name,
            "target": self.params.security_bits,
            "regime": self.regime.name,
            "blowup": self.params.blowup,
            "queries": self.params.queries,
            "grinding_bits": self.params.grinding_bits,
            "log_heights": list(self.statistics.log_heights),
            "columns": self.statistics.columns,
            "unique_decoding": {
                "bits": two_places(self.unique_decoding_bits),
                "queries": self.unique_decoding_queries,
            },
            "rounds": [{"name": r.name, "bits": two_places(r.bits), "formula": r.formula} for r in self.rounds],
        }


def two_places(bits: float) -> float:
    """Round down to two places, so that a report never claims more than is proven."""
    return math.floor(100 * bits) / 100


def job_security(key: VerifyingKey, partitions: Sequence[Sequence[int | None]]) -> SecurityReport:
    """The report of the weakest partition of a job, given the log2 heights of each partition."""
    reports = [SecurityReport.of(key.params, stats) for stats in statistics_of_job(key, partitions)]
    return min(reports, key=lambda r: r.bits)
