"""Soundness of a multilinear proof: the proven error of every draw, and the parameters that reach a target.

docs/multilinear-protocol.md, section 11, derives every row. Each round of WHIR has a decoding regime of its own, the
best for it; the first one's list of candidates also counts in the anchor, the openings and the reduction. The proximity
gaps are those of `distprove.stark.security`.
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
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_params
from distprove.stark.multilinear.params import MAX_QUERIES, MAX_ROUNDS, Parameters
from distprove.stark.multilinear.params import Round as WhirRound
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.output import MAX_OUTPUT_TUPLES
from distprove.stark.params import BLOWUPS
from distprove.stark.program import Program
from distprove.stark.security import (
    FIELD_BITS,
    MULTIPLICITIES,
    BusLoad,
    Regime,
    Round,
    told_heights,
    two_places,
)
from distprove.stark.trace_shape import misfit_of
from kernels.host.units import count_of
from kernels.interface.multilinear_rows import LARGE
from kernels.interface.tree_hash import TreeHash

MOST_ABOVE, MOST_COLUMNS = 4, 4
"""For fast proofs: log2 of how much taller than its tallest table a stack may be, unless it has too many columns."""
MOST_SKIP, LONG_SKIP = 4, 5
"""log2 of the domain of the univariate round, unless a table is shorter. A round over 2^5 points saves a multilinear
round and doubles the coefficients that are sent. It is for fast proofs of long rules, whose multilinear rounds cost as
much as the univariate one."""


@dataclass(frozen=True)
class Statistics:
    """The facts about a proof and its job on which the errors depend, beside the parameters."""

    log_heights: tuple[int, ...]
    rounds: tuple[WhirRound, ...]
    main_columns: int
    """Number of stacked columns of the main stack."""
    stacked: int
    """Number of stacked columns of both stacks."""
    constraints: int
    degree: int
    openings: int
    local: BusLoad
    """Load of the local buses of the partition."""
    shared: BusLoad
    """Load of the global buses over all partitions of the job."""
    partitions: int


def statistics_of_job(key: MultilinearKey, partitions: Sequence[Sequence[int | None]]) -> list[Statistics]:
    """The statistics of a job's partitions, once for all that have the same heights."""
    boundary = sum(1 if b.where != "every" else len(partitions) for b in key.statement.boundary)
    boundary += MAX_OUTPUT_TUPLES if key.statement.output is not None else 0
    shared = _load(key, "global", partitions, boundary)
    kinds = dict.fromkeys(map(tuple, partitions))
    return [_statistics(Shape(key, heights), len(partitions), shared) for heights in kinds]


def _statistics(shape: Shape, partitions: int, shared: BusLoad) -> Statistics:
    return Statistics(
        shape.heights,
        tuple(shape.rounds),
        shape.main.width,
        shape.stacked,
        shape.constraints,
        shape.degree,
        shape.openings,
        _load(shape.key, "local", [shape.log_heights]),
        shared,
        partitions,
    )


def _load(key: MultilinearKey, scope: str, partitions: Sequence[Sequence[int | None]], boundary: int = 0) -> BusLoad:
    uses = [sum(use.bus.scope == scope for use in t.uses) for t in key.tables]
    loads = ((count, height) for heights in partitions for count, height in zip(uses, heights, strict=True))
    tuples = sum(count << height for count, height in loads if height is not None)
    return BusLoad(tuples + boundary, max((width for _, own, width in key.buses if own == scope), default=0))


@dataclass(frozen=True)
class Decoding:
    """A round of WHIR under a decoding regime: unique decoding, or the Johnson bound with a multiplicity."""

    round: WhirRound
    multiplicity: int | None

    @property
    def rate(self) -> float:
        return 2.0 ** (self.round.log_size - self.round.log_domain)

    @property
    def radius(self) -> float:
        """The maximum distance that is decoded, as a fraction of the domain."""
        if self.multiplicity is None:
            return (1 - self.rate) / 2
        return 1 - math.sqrt(self.rate) * (1 + 0.5 / self.multiplicity)

    @property
    def candidates(self) -> float:
        """Maximum number of candidates within the radius."""
        return 1.0 if self.multiplicity is None else (self.multiplicity + 0.5) / math.sqrt(self.rate)

    def gap(self, log_height: int) -> float:
        """The error, times the field's size, of a line of two words at this rate."""
        regime = Regime("", self.multiplicity)
        return float(2.0 ** (FIELD_BITS - regime.gap_bits(self.rate, log_height, 2, self.radius)))

    @property
    def query_bits(self) -> float:
        """Bits of security of one query."""
        return -math.log2(1 - self.radius)

    @property
    def name(self) -> str:
        return "unique decoding" if self.multiplicity is None else f"Johnson, m = {self.multiplicity}"


def _row(name: str, error: float, formula: str) -> Round:
    return Round(name, FIELD_BITS - math.log2(error), formula)


def fixed_rows(params: Parameters, stats: Statistics) -> list[Round]:
    """The rows that depend on no regime."""
    rows = []
    for name, load in (("LogUp, global buses", stats.shared), ("LogUp, local buses", stats.local)):
        if load.tuples:
            rows.append(Round(name, load.bits, "tuples * (width + 2) / |F|"))
    skip = max(1, stats.degree * ((1 << params.log_skip) - 1))
    return [
        *rows,
        _row("GKR", 3, "3 / |F|"),
        _row("constraints", stats.constraints + 1, "(constraints + 1) / |F|"),
        _row("univariate round", skip, "d (2^skip - 1) / |F|"),
        _row("multilinear rounds", stats.degree + 1, "(d + 1) / |F|"),
        Round("hash", params.tree_hash.collision_bits, f"collisions of {params.tree_hash.label}"),
    ]


def round_rows(params: Parameters, stats: Statistics, number: int, decoding: Decoding) -> list[Round]:
    """The rows of one round of WHIR under a regime, but for its queries."""
    size, own, rows = decoding.candidates, decoding.round, []
    if number == 0:
        degree = stats.main_columns - 1 + own.log_size
        if size > 1 and degree:  # a single constant is its own anchor
            pairs = size * (size - 1) / 2
            error = stats.partitions * pairs * degree
            rows.append(_row("anchors", error, "partitions * L (L - 1)/2 * (w - 1 + variables) / |F|"))
        rows.append(_row("openings", size * (stats.openings + 1), "L (openings + 1) / |F|"))
        rows.append(_row("stacked reduction", 2 * size, "2 L / |F|"))
        batched = max(1, stats.stacked - 1)
        rows.append(_row("batching", (decoding.gap(own.log_size) + size) * batched, "(gap + L) (w - 1) / |F|"))
    else:
        if size > 1:
            pairs = size * (size - 1) / 2
            rows.append(_row(f"WHIR sample {number}", pairs * 2.0**own.log_size, "L (L - 1)/2 * 2^variables / |F|"))
        before = stats.rounds[number - 1].queries
        rows.append(_row(f"WHIR combination {number}", size * (before + 1), "L (queries + 1) / |F|"))
    if own.log_fold:
        error = decoding.gap(own.log_size - 1) + 3 * size
        rows.append(_row(f"WHIR fold {number}", error, "(gap + 3 L) / |F|"))
    return rows


def query_row(params: Parameters, number: int, decoding: Decoding) -> Round:
    bits = decoding.query_bits * decoding.round.queries + params.grinding_bits
    return Round(f"WHIR queries {number}", bits, "(1 - radius)^queries * 2^-grinding")


def best_decoding(params: Parameters, stats: Statistics, number: int) -> tuple[Decoding, list[Round]]:
    """The regime of a round of WHIR under which its weakest row has the most bits, and its rows.

    A higher multiplicity gives the queries more bits and every other row fewer, so the best one is where they cross.
    """
    of = stats.rounds[number]

    def rows(multiplicity: int | None) -> list[Round]:
        decoding = Decoding(of, multiplicity)
        return [*round_rows(params, stats, number, decoding), query_row(params, number, decoding)]

    def queries_suffice(multiplicity: int) -> bool:
        *others, queries = rows(multiplicity)
        return queries.bits >= min((r.bits for r in others), default=math.inf)

    crossing = bisect_left(MULTIPLICITIES, True, key=queries_suffice)
    near = [MULTIPLICITIES[i] for i in (crossing - 1, crossing) if 0 <= i < len(MULTIPLICITIES)]
    best = max([None, *near], key=lambda m: min(r.bits for r in rows(m)))
    return Decoding(of, best), rows(best)


@lru_cache(maxsize=256)
def best_rows(params: Parameters, stats: Statistics) -> tuple[str, tuple[Round, ...]]:
    """The rows of a proof, each round of WHIR under its best regime, and the first round's regime. Cached, since the
    partitions of a job have few different heights."""
    found = [best_decoding(params, stats, number) for number in range(len(stats.rounds))]
    rows = [row for _, own in found for row in own]
    return found[0][0].name, (*fixed_rows(params, stats), *rows)


def security_bits(shape: Shape) -> float:
    """Proven bits of security of a proof of this shape that is a whole job by itself."""
    (stats,) = statistics_of_job(shape.key, [shape.log_heights])
    return min(r.bits for r in best_rows(shape.key.params, stats)[1])


def queries_needed(
    params: Parameters, stats: Statistics, number: int, multiplicities: Sequence[int | None] | None = None
) -> int | None:
    """The minimum number of queries of a round with which it reaches the target; None if none does. By default under
    unique decoding or any multiplicity: a higher one gives every query more bits, and the round's other rows fewer, so
    the highest under which these reach the target needs the fewest queries."""

    def decoding(multiplicity: int | None) -> Decoding:
        return Decoding(stats.rounds[number], multiplicity)

    def falls_short(multiplicity: int | None) -> bool:
        rows = round_rows(params, stats, number, decoding(multiplicity))
        return min((r.bits for r in rows), default=math.inf) < params.security_bits

    if multiplicities is None:
        beyond = bisect_left(MULTIPLICITIES, True, key=falls_short)
        multiplicities = (None, *MULTIPLICITIES[max(0, beyond - 1) : beyond])
    missing = params.security_bits - params.grinding_bits
    bits = [decoding(each).query_bits for each in multiplicities if not falls_short(each)]
    needed = min((max(1, math.ceil(missing / each)) for each in bits if each > 0), default=None)
    return needed if needed is not None and needed <= MAX_QUERIES else None


def faster_columns(shape: Shape) -> int:
    """log2 of the most stacked columns with which a proof of this shape is made faster, at up to twice the bytes.

    The opening's work grows with the stack's height, and its bytes with the columns. A table of many columns is stacked
    far higher than it is. So a stack has up to 16 columns where it would be more than 16 times as tall as its tallest
    table.
    """
    above = shape.log_height - max(shape.heights, default=0) - MOST_ABOVE
    return min(MOST_COLUMNS, shape.key.params.log_columns + max(0, above))


def laid_out(key: MultilinearKey, heights: Sequence[Sequence[int | None]], prefer: str) -> MultilinearKey:
    """The key with the parameters that say how columns are stacked, as a job of these heights (log2) chooses them.

    Its memory follows from these and from the blow-up. Queries stay as they are.
    """
    lowest = min(h for own in (*heights, key.fixed_heights) for h in own if h is not None)
    long = any(len(program.code) > LARGE for table in key.tables for program in table.programs)
    most_skip = LONG_SKIP if long and prefer == "speed" else MOST_SKIP
    key = with_params(key, replace(key.params, log_skip=min(most_skip, lowest)))
    if prefer == "speed":
        most = max(faster_columns(Shape(key, tuple(h))) for h in heights)
        key = with_params(key, replace(key.params, log_columns=most))
    return key


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
    log_final: int = Parameters.log_final,
) -> Parameters:
    """Choose parameters under which every partition's proof, and the job's, has `security` proven bits.

    `queries` is for programs that do not tell the heights of their tables: the number of the first round; later ones
    have as many, which is more than they need. `known` are the heights of all partitions where `Program.log_heights`
    does not tell them. `log_final` is that of `Parameters`. Raises UsageError.
    """
    if prefer not in BLOWUPS:
        raise UsageError(f"prefer must be {' or '.join(BLOWUPS)}, not {prefer!r}")
    blowup = BLOWUPS[prefer] if blowup is None else blowup
    log_blowup = blowup.bit_length() - 1
    if blowup != 1 << log_blowup:
        raise UsageError(f"blowup must be a power of two, not {blowup}")
    names = [each.value for each in TreeHash]
    if hash not in names:
        raise UsageError(f"hash must be {' or '.join(names)}, not {hash!r}")
    tree_hash = TreeHash(hash)
    if security > tree_hash.collision_bits:
        most = int(tree_hash.collision_bits)
        raise UsageError(
            f"a digest of {hash} has {count_of(most, 'bit')} against collisions: ask for "
            f"{count_of(most, 'proven bit')} at most"
        )
    if queries is not None:
        least = min(dict(program.fixed_heights).values(), default=0)
        everywhere = len(program.fixed_heights) == len(program.tables)
        log_skip = min(MOST_SKIP, least) if everywhere else 0
        few = (queries,) * MAX_ROUNDS
        return Parameters(log_blowup, log_skip, few, grinding, security, log_final=log_final, tree_hash=tree_hash)
    heights = [tuple(h) for h in told_heights(program, partitions, known)]
    one = (1,) * MAX_ROUNDS
    params = Parameters(log_blowup, 0, one, grinding, security, log_final=log_final, tree_hash=tree_hash)
    key = laid_out(compile_key(program, params), heights, prefer)
    params = key.params
    if (bad := next((h for h in heights if not heights_fit(key, h)), None)) is not None:
        raise UsageError(f"program {program.name}: log_heights, or its cut, is wrong: {misfit_of(key, bad)}")
    chosen = list(params.queries)
    for stats in statistics_of_job(key, heights):
        for number in range(len(stats.rounds)):
            # The queries of the round before count a little in the next one's combination.
            needed = queries_needed(params, stats, number)
            if needed is None:
                raise UsageError(
                    f"no number of queries gives {count_of(security, 'proven bit')} for "
                    f"2^{max(stats.log_heights)} rows over a "
                    f"field of {FIELD_BITS:.0f} bits"
                )
            chosen[number] = max(chosen[number], needed)
    reached = max(len(stats.rounds) for stats in statistics_of_job(key, heights))
    chosen[reached:] = [max(1, chosen[reached - 1])] * (MAX_ROUNDS - reached)
    return replace(params, queries=tuple(chosen))


@dataclass(frozen=True)
class SecurityReport:
    """The security of a proof, for people and reports."""

    params: Parameters
    statistics: Statistics
    regime: str
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, params: Parameters, stats: Statistics) -> SecurityReport:
        return cls(params, stats, *best_rows(params, stats))

    @property
    def weakest(self) -> Round:
        """The row with the fewest bits."""
        return min(self.rounds, key=lambda r: r.bits)

    @property
    def bits(self) -> float:
        """Bits of the weakest row."""
        return self.weakest.bits

    def to_record(self) -> dict[str, Any]:
        params, stats = self.params, self.statistics
        unique = [Decoding(r, None) for r in stats.rounds]
        rows = [
            row for i, d in enumerate(unique) for row in (*round_rows(params, stats, i, d), query_row(params, i, d))
        ]
        return {
            "engine": "multilinear",
            "bits": two_places(self.bits),
            "weakest": self.weakest.name,
            "target": params.security_bits,
            "regime": self.regime,
            "blowup": params.blowup,
            "queries": stats.rounds[0].queries,
            "queries_by_round": [r.queries for r in stats.rounds],
            "grinding_bits": params.grinding_bits,
            "log_heights": list(stats.log_heights),
            "columns": stats.openings,
            "unique_decoding": {
                "bits": two_places(min(r.bits for r in (*fixed_rows(params, stats), *rows))),
                "queries": queries_needed(params, stats, 0, [None]),
            },
            "rounds": [{"name": r.name, "bits": two_places(r.bits), "formula": r.formula} for r in self.rounds],
        }


def job_security(key: MultilinearKey, partitions: Sequence[Sequence[int | None]]) -> SecurityReport:
    """The report of the weakest partition of a job, given the log2 heights of each partition."""
    reports = [SecurityReport.of(key.params, stats) for stats in statistics_of_job(key, partitions)]
    return min(reports, key=lambda r: r.bits)
