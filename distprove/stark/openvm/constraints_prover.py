"""The prover of the batched sumcheck of all constraints and all interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from distprove.stark.openvm.forms import SUMS, AirForms, BusWeights, SegmentForms
from distprove.stark.openvm.proof import ConstraintProof
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import evaluate as at_point
from distprove.stark.openvm.univariate import from_cosets, lagrange, sum_of_products, values_on_subgroup
from distprove.steps import Steps
from kernels.cpu.babybear_caller import CALLER, ext_dot, ext_mul, intt
from kernels.cpu.openvm.tables import eq_table
from kernels.host.babybear import Indices, ext_powers
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_rules import RuleTable, coset_shifts
from kernels.maths.babybear import (
    Elements,
    P,
    add,
    elements,
    mul,
    sub,
    total,
)
from kernels.maths.babybear_ntt import log2_of


@dataclass(frozen=True)
class ProverTrace:
    """The trace of one AIR."""

    forms: AirForms = field(repr=False)
    degree: int
    """Greatest degree of the AIR's constraints and interactions."""
    reads_next: bool
    parts: tuple[Array, ...] = field(repr=False)
    """Columns (width, height) of the cached mains, then of the common main, in the backend's memory."""
    preprocessed: Array | None = field(repr=False)
    """Columns (width, height) in the backend's memory."""
    public: tuple[int, ...]

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.parts[-1].shape[1])

    @property
    def cosets(self) -> tuple[int, int, int]:
        """Number of cosets that determine each of its sums in round 0. Constraints are zero on D, so one coset less
        than their degree is enough."""
        buses = self.forms.bus_degree
        return max(0, self.degree - 1) if self.forms.constraints else 0, buses, buses

    def table(self) -> RuleTable:
        """The trace as the kernels read it."""
        fixed = {} if self.preprocessed is None else {-1: self.preprocessed}
        return RuleTable(dict(enumerate(self.parts)) | fixed, self.height, self.public)


def bus_places(traces: Sequence[ProverTrace], log_skip: int) -> tuple[list[int], int]:
    """Where each trace's fractions begin, and the number of all.

    The interactions of a trace follow each other, each with max(height, 2^log_skip) fractions.
    """
    starts, end = [], 0
    for trace in traces:
        starts.append(end)
        end += trace.forms.interactions * max(trace.height, 1 << log_skip)
    return starts, end


def segment_forms(traces: Sequence[ProverTrace], log_skip: int) -> SegmentForms:
    """The forms of all traces. Numerators of a trace that repeats are divided by the number of repetitions."""
    starts, _ = bus_places(traces, log_skip)
    rows = [max(trace.height, 1 << log_skip) for trace in traces]
    shares = [pow(own // trace.height, -1, P) for own, trace in zip(rows, traces, strict=True)]
    return _segment(tuple(trace.forms for trace in traces), tuple(shares), tuple(starts), tuple(rows))


@lru_cache(maxsize=4)
def _segment(
    airs: tuple[AirForms, ...], shares: tuple[int, ...], starts: tuple[int, ...], rows: tuple[int, ...]
) -> SegmentForms:
    """A proof needs the same forms twice, and so do proofs of one shape."""
    return SegmentForms(airs, shares, starts, rows)


def fractions(
    kernels: OpenVmKernels, traces: Sequence[ProverTrace], log_skip: int, weights: BusWeights
) -> tuple[Array, Array] | None:
    """Return numerators (count,) and denominators (count, 4) of all interactions in all rows, in the backend's memory.

    A trace of fewer than 2^log_skip rows repeats, and its numerators are divided by the number of repetitions. Returns
    None if there are no interactions.
    """
    starts, count = bus_places(traces, log_skip)
    if not count:
        return None
    tables, forms = [trace.table() for trace in traces], segment_forms(traces, log_skip).fractions(weights)
    return kernels.rules.fractions(tables, forms, starts, count, log_skip)


def prove_constraints(
    kernels: OpenVmKernels,
    transcript: Transcript,
    traces: Sequence[ProverTrace],
    log_skip: int,
    max_degree: int,
    weights: BusWeights,
    bus_point: Sequence[Elements],
    steps: Steps,
) -> tuple[ConstraintProof, list[Elements]]:
    """Prove that all constraints hold, and reduce the claims about the buses' fractions to claims about columns.

    `traces` are in descending order of their heights. `bus_point` is the point of the buses' claims, empty without
    interactions. Returns the proof and the point of the claims about columns, its univariate coordinate first.
    """
    # 1. Complete the point, and draw the powers that combine an AIR's constraints.
    run = 1 << log_skip
    variables = max(0, log2_of(traces[0].height) - log_skip)
    point = list(bus_point)
    while len(point) < log_skip + variables:
        point.append(transcript.sample_array())
    powers = ext_powers(transcript.sample_array(), max(trace.forms.constraints for trace in traces))
    with steps("constraints.forms"):
        segment = segment_forms(traces, log_skip)
        forms = segment.sums(weights, powers, point, len(bus_point))

    # 2. The univariate polynomial of each trace's three sums, without the factor eq.
    cube = np.array(point[log_skip : log_skip + variables], dtype=np.uint32).reshape(-1, 4)
    with steps("constraints.round_0"):
        rounds = kernels.rules.rounds([trace.table() for trace in traces], log_skip, cube)
        counts = np.array([trace.cosets for trace in traces], dtype=np.int64)
        sums = CosetSums(counts, rounds.coset_sums(forms, counts))
    eq_on_rows = eq_table(CALLER, point[:log_skip])
    eq_rows, eq_one = intt(eq_on_rows, -2), intt(lagrange(log_skip, point[0]), -2)

    # 3. Claim each trace's share in the numerator and the denominator of the buses: its sum over D.
    claims = sums.claims(eq_on_rows)
    transcript.observe_words(claims)

    # 4. Combine all, and send the univariate round.
    batch = ext_powers(transcript.sample_array(), SUMS * len(traces))
    scales = np.concatenate((batch[2 * len(traces) :, None], batch[: 2 * len(traces)].reshape(-1, 2, 4)), axis=1)
    of_each = np.stack(sums.combined(scales, max_degree))
    univariate = sum_of_products(of_each, np.stack((eq_one, eq_rows)), (max_degree + 1) * (run - 1) + 1)
    transcript.observe_words(univariate)
    drawn = transcript.sample_array()

    # 5. Bind Z: each trace is a table over the cube, and its three sums are one form of its cells.
    bus_scale, zero_scale = at_point(eq_rows, drawn), at_point(eq_one, drawn)
    with steps("constraints.bind"):
        combined = segment.combined(forms, ext_mul(scales, np.stack((zero_scale, bus_scale, bus_scale))))
        rounds.bind_univariate(lagrange(log_skip, drawn), combined)

    # 6. The multilinear rounds. A trace that has no variable left is a constant times the challenges of later rounds.
    with steps("constraints.rounds"):
        sent_rounds, challenges = rounds.prove(transcript, at_point(univariate, drawn), max_degree)

    # 7. Open the columns, and their next rows: the common mains first, then the other parts.
    with steps("constraints.openings"):
        found = rounds.openings([trace.reads_next for trace in traces])
    openings = [_in_order(trace, parts) for trace, parts in zip(traces, found, strict=True)]
    ordered = [part for which in (slice(0, 1), slice(1, None)) for parts in openings for part in parts[which]]
    transcript.observe_words(np.concatenate([_pairs(part).reshape(-1) for part in ordered]))
    opened = tuple(tuple(part.reshape(-1, 4) for part in parts) for parts in openings)
    return ConstraintProof(claims[:, 0], claims[:, 1], univariate, sent_rounds, opened), [drawn, *challenges]


class CosetSums:
    """The sums of all traces on cosets of D: of constraints, numerators and denominators, without the factor eq.

    All that follows from them is linear, so they are combined before they are interpolated.
    """

    def __init__(self, counts: Indices, sums: Elements) -> None:
        """`counts` (traces, 3): the cosets that determine each sum; `sums` (traces, 3, cosets, run, 4): those on at
        least as many cosets."""
        self._sums, self._run = sums, sums.shape[-2]
        self._constraints, self._buses = _alike(counts[:, 0]), _alike(counts[:, 1])

    def claims(self, weights: Elements) -> Elements:
        """The sums over D of numerators and denominators times weights (run, 4), of each trace: (traces, 2, 4)."""
        found = np.zeros((len(self._sums), 2, 4), dtype=np.uint32)
        for count, own in self._buses.items():
            on_cosets = total(mul(values_on_subgroup(count, self._run)[..., None], weights), 1)
            found[own] = ext_dot(self._sums[own, 1:, :count].reshape(len(own), 2, -1, 4), on_cosets)
        return found

    def combined(self, scales: Elements, max_degree: int) -> tuple[Elements, Elements]:
        """The coefficients in Z, (max_degree * run, 4), of all constraints and of all numerators and denominators, each
        times its trace's scale: scales (traces, 3, 4).

        The constraints vanish on D, so they are their values on one coset less, divided by Z^n - 1.
        """
        run = self._run
        constraints, buses = (np.zeros((max_degree * run, 4), dtype=np.uint32) for _ in range(2))
        for count, own in self._constraints.items():
            summed = total(ext_mul(self._sums[own, 0, :count], scales[own, 0][:, None, None]), 0)
            vanishing = elements([pow(pow(shift, run, P) - 1, -1, P) for shift in coset_shifts(count)])
            quotient = from_cosets(mul(summed, vanishing[:, None, None]))
            # times Z^n - 1
            size = count * run
            constraints[run : run + size] = add(constraints[run : run + size], quotient)
            constraints[:size] = sub(constraints[:size], quotient)
        for count, own in self._buses.items():
            both = total(ext_mul(self._sums[own, 1:, :count], scales[own, 1:][:, :, None, None]), 0)
            size = count * run
            buses[:size] = add(buses[:size], from_cosets(add(both[0], both[1])))
        return constraints, buses


def _alike(counts: Indices) -> dict[int, Indices]:
    """The traces with each number of cosets but 0."""
    return {int(count): np.flatnonzero(counts == count) for count in np.unique(counts[counts > 0])}


def _pairs(opened: Elements) -> Elements:
    """Openings (width, 1 or 2, 4) as a proof's transcript has them: zeros where there is no next row."""
    return opened if opened.shape[1] == 2 else np.concatenate((opened, np.zeros_like(opened)), axis=1)


def _in_order(trace: ProverTrace, parts: dict[int, Elements]) -> list[Elements]:
    """The openings of a trace's parts in the order of a proof: common, preprocessed, cached."""
    last = len(trace.parts) - 1
    return [parts[part] for part in (last, *([-1] if -1 in parts else []), *range(last))]
