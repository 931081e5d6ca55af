"""How sound a proof is: the error of every round, proven, and the parameters that a target asks for.

A round's error bounds the chance that one challenge of it turns a false statement into an accepted one; a proof has as
many bits as its weakest round. Nothing here rests on the conjectures up to capacity, which are refuted. Two regimes are
proven: unique decoding, and list decoding up to the Johnson bound with a multiplicity m that trades queries against the
other rounds; whichever is better counts. The formulas are those of the Ethereum Foundation's soundcalc:

* proximity gaps: Ben-Sasson, Carmon, Haboeck, Kopparty, Saraf, On proximity gaps for Reed-Solomon codes (eprint
  2025/2055), theorem 4.2 (Johnson) and corollary 1.4 (unique decoding);
* constraints (ALI) and out-of-domain point (DEEP): Haboeck, A summary on the FRI low degree test (eprint 2022/1216),
  theorem 8;
* LogUp: Haboeck, Multivariate lookups based on logarithmic derivatives (eprint 2022/1530), lemma 5; a tuple's
  fingerprint is a polynomial in beta.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from distprove.errors import UsageError
from distprove.options import SECURITY_BITS
from distprove.stark.field import P
from distprove.stark.key import VerifyingKey, compile_program
from distprove.stark.params import FoldStep, Parameters, check_log_height, fri_schedule
from distprove.stark.program import Program
from distprove.stark.shape import ProofShape

FIELD_BITS = 3 * math.log2(P)
HASH_BITS = 128.0
"""Collisions of Keccak-256."""
POINTS = 2
"""Out-of-domain points at which a column is opened."""
MULTIPLICITIES = range(3, 1001)
MAX_QUERIES = 1024
QUERIES = "FRI queries"


@dataclass(frozen=True)
class Statistics:
    """What of a proof the errors depend on; everything else is in its parameters."""

    log_heights: tuple[int, ...]
    constraints: int
    """Over all tables."""
    degree: int
    """The highest of a constraint."""
    columns: int
    """Powers of gamma in the batched codeword: every column once for each point it is opened at."""
    interactions: int
    """Over all tables and rows."""
    tuple_width: int
    """Of the widest bus."""


@dataclass(frozen=True)
class Round:
    """One round of the protocol and its bits."""

    name: str
    bits: float
    formula: str


@dataclass(frozen=True)
class Regime:
    """Up to which distance a committed word is decoded, and how many codewords may lie within it."""

    name: str
    radius: float
    list_size: float
    multiplicity: int | None

    def gap_bits(self, rate: float, log_height: int, functions: int) -> float:
        """Bits against a batch of `functions` words by powers of a challenge being closer than all of them."""
        n = 2.0**log_height / rate
        if self.multiplicity is None:
            error = self.radius * n + 1
        else:
            m, root = self.multiplicity + 0.5, math.sqrt(rate)
            error = (2 * m**5 + 3 * m * self.radius * rate) * n / (3 * rate * root) + m / root
        return FIELD_BITS - math.log2(error * max(1, functions - 1))


def unique_decoding(rate: float) -> Regime:
    return Regime("unique decoding", (1 - rate) / 2, 1.0, None)


def johnson(rate: float, multiplicity: int) -> Regime:
    root = math.sqrt(rate)
    return Regime(
        f"Johnson, m = {multiplicity}", 1 - root * (1 + 0.5 / multiplicity), (multiplicity + 0.5) / root, multiplicity
    )


def statistics(shape: ProofShape) -> Statistics:
    """What the errors of this proof depend on."""
    return statistics_of(shape, [shape.log_heights])


def statistics_of(shape: ProofShape, partitions: Sequence[Sequence[int]]) -> Statistics:
    """The same for a job: interactions are counted over all partitions' heights, since global buses span them."""
    tables = shape.key.tables
    interactions = sum(
        len(t.uses) << height for heights in partitions for t, height in zip(tables, heights, strict=True)
    )
    return Statistics(
        shape.log_heights,
        sum(len(t.constraints.outputs) for t in tables),
        max(t.degree for t in tables),
        shape.weights,
        interactions,
        max((width for _, _, width in shape.key.buses), default=0),
    )


def rounds(params: Parameters, stats: Statistics, regime: Regime) -> list[Round]:
    """Every round of a proof with its bits under `regime`."""
    rate = 1 / params.blowup
    log_height = max(stats.log_heights)
    n = 2.0**log_height
    steps, _ = fri_schedule(params, stats.log_heights)
    out = []
    if stats.interactions:
        out.append(Round("LogUp", logup_bits(stats), "interactions * (width + 2) / |F|"))
    size = math.log2(regime.list_size * stats.constraints)
    out.append(Round("constraints", FIELD_BITS - size, "L * constraints / |F|"))
    deep = regime.list_size * (stats.degree * (n + POINTS - 1) + (n - 1))
    usable = math.log2(float(P) ** 3 - n - n / rate)
    out.append(Round("DEEP", usable - math.log2(deep), "L * (d (n + 1) + n - 1) / (|F| - n - n/rho)"))
    out.append(Round("batching", regime.gap_bits(rate, log_height, stats.columns), "proximity gap, powers of gamma"))
    out += [
        Round(f"FRI fold {i}", fold_bits(regime, rate, step), "proximity gap, powers of beta")
        for i, step in enumerate(steps, start=1)
    ]
    queries = -math.log2(1 - regime.radius) * params.queries + params.grinding_bits
    out.append(Round(QUERIES, queries, "(1 - radius)^queries * 2^-grinding"))
    out.append(Round("hash", HASH_BITS, "collisions of Keccak-256"))
    return out


def logup_bits(stats: Statistics) -> float:
    """Against buses that balance by chance. There must be interactions."""
    return FIELD_BITS - math.log2(stats.interactions * (stats.tuple_width + 2))


def fold_bits(regime: Regime, rate: float, step: FoldStep) -> float:
    """Of one FRI step: a batch of 2^arity words, and one more where shorter tables enter."""
    return regime.gap_bits(rate, step.log_reached, (1 << step.log_arity) + step.mixes)


@lru_cache(maxsize=256)
def best_rounds(params: Parameters, stats: Statistics) -> tuple[Regime, tuple[Round, ...]]:
    """The regime under which the weakest round has the most bits, and its rounds.

    A higher multiplicity gives the queries more bits and every other round fewer, so the best lies where they cross.
    Results are kept: the partitions of a job have few different heights.
    """
    rate = 1 / params.blowup

    def weakest(regime: Regime) -> float:
        return min(r.bits for r in rounds(params, stats, regime))

    def queries_suffice(multiplicity: int) -> bool:
        found = rounds(params, stats, johnson(rate, multiplicity))
        return next(r.bits for r in found if r.name == QUERIES) >= min(r.bits for r in found if r.name != QUERIES)

    crossing = bisect_left(MULTIPLICITIES, True, key=queries_suffice)
    near = [MULTIPLICITIES[i] for i in (crossing - 1, crossing) if 0 <= i < len(MULTIPLICITIES)]
    regime = max([unique_decoding(rate), *(johnson(rate, m) for m in near)], key=weakest)
    return regime, tuple(rounds(params, stats, regime))


def security_bits(shape: ProofShape) -> float:
    """Proven bits of a proof of this shape."""
    return min(r.bits for r in best_rounds(shape.key.params, statistics(shape))[1])


def queries_under(
    regime: Regime, stats: Statistics, log_blowup: int, security_bits: int, grinding_bits: int
) -> int | None:
    """The fewest queries that reach `security_bits` in every round, proven under `regime`; None if no number does."""
    free = Parameters(log_blowup, MAX_QUERIES, grinding_bits, security_bits)
    if min(r.bits for r in rounds(free, stats, regime) if r.name != QUERIES) < security_bits:
        return None
    needed = max(1, math.ceil((security_bits - grinding_bits) / -math.log2(1 - regime.radius)))
    return needed if needed <= MAX_QUERIES else None


def choose_queries(stats: Statistics, log_blowup: int, security_bits: int, grinding_bits: int) -> int:
    """The fewest queries that reach `security_bits` in every round. Raises UsageError when no number does."""
    rate = 2.0**-log_blowup
    found = [
        queries_under(regime, stats, log_blowup, security_bits, grinding_bits)
        for regime in (unique_decoding(rate), *(johnson(rate, m) for m in MULTIPLICITIES))
    ]
    enough = [queries for queries in found if queries is not None]
    if not enough:
        raise UsageError(
            f"no number of queries gives {security_bits} proven bits for 2^{max(stats.log_heights)} rows and "
            f"{stats.columns} opened columns over a field of {FIELD_BITS:.0f} bits"
        )
    return min(enough)


def choose_parameters(
    program: Program,
    partitions: int,
    *,
    blowup: int = 2,
    security_bits: int = SECURITY_BITS,
    grinding_bits: int = 16,
    queries: int | None = None,
) -> Parameters:
    """Parameters under which every partition's proof, and the job's, has `security_bits`, proven.

    `queries` is for programs that do not say how tall their tables are; proofs of too few do not verify. Raises
    UsageError.
    """
    log_blowup = blowup.bit_length() - 1
    params = Parameters(log_blowup, queries or 1, grinding_bits, security_bits)
    if queries is not None:
        return params
    key = compile_program(program, params)
    heights = [tuple(h) for h in program.log_heights(partitions)]
    if not all(len(h) == len(key.tables) and all(check_log_height(x, params) for x in h) for h in heights):
        raise UsageError(f"program {program.name} has tables that cannot be proven: 2^{heights} rows")
    needed = [
        choose_queries(statistics_of(ProofShape(key, shape), heights), log_blowup, security_bits, grinding_bits)
        for shape in sorted(set(heights))
    ]
    return replace(params, queries=max(needed))


@dataclass(frozen=True)
class SecurityReport:
    """How secure a proof is, for people and reports."""

    params: Parameters
    statistics: Statistics
    regime: Regime
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, params: Parameters, stats: Statistics) -> SecurityReport:
        regime, found = best_rounds(params, stats)
        return cls(params, stats, regime, found)

    @property
    def bits(self) -> float:
        """Of the weakest round."""
        return min(r.bits for r in self.rounds)

    @property
    def unique_decoding_bits(self) -> float:
        """Of the weakest round when nothing beyond unique decoding counts: the oldest theorems, the fewest bits."""
        return min(r.bits for r in rounds(self.params, self.statistics, unique_decoding(1 / self.params.blowup)))

    @property
    def unique_decoding_queries(self) -> int | None:
        """Queries that would reach the target so; None if no number does."""
        params = self.params
        return queries_under(
            unique_decoding(1 / params.blowup),
            self.statistics,
            params.log_blowup,
            params.security_bits,
            params.grinding_bits,
        )

    def to_record(self) -> dict[str, Any]:
        return {
            "bits": round(self.bits, 2),
            "target": self.params.security_bits,
            "regime": self.regime.name,
            "blowup": self.params.blowup,
            "queries": self.params.queries,
            "grinding_bits": self.params.grinding_bits,
            "log_heights": list(self.statistics.log_heights),
            "columns": self.statistics.columns,
            "unique_decoding": {"bits": round(self.unique_decoding_bits, 2), "queries": self.unique_decoding_queries},
            "rounds": [{"name": r.name, "bits": round(r.bits, 2), "formula": r.formula} for r in self.rounds],
        }


def job_security(key: VerifyingKey, partitions: Sequence[Sequence[int]]) -> SecurityReport:
    """Of the weakest of a job's partitions, given the log2 heights of each."""
    shapes = [ProofShape(key, heights) for heights in sorted({tuple(h) for h in partitions})]
    reports = [SecurityReport.of(key.params, statistics_of(shape, partitions)) for shape in shapes]
    return min(reports, key=lambda r: r.bits)
